//! Servers that die, freeze or close their input in the middle of a call.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use toolrack_host::Era;

use crate::{
    row::rows,
    stage::{AT_ONCE, Over, SLACK, Stage},
};

rows! { over_stdio: Stdio in [legacy modern] {
    an_exit: "crash-on-call=exit:3"
        => fails("SERVER_EXITED").at_once().saying("exit status 3").saying("as the fault demands").and_restarts();
    a_signal: "crash-on-call=signal:11" => fails("SERVER_EXITED").at_once().saying("SIGSEGV").and_restarts();
    a_kill: "crash-on-call=signal:9" => fails("SERVER_EXITED").at_once().saying("SIGKILL").and_restarts();
    an_exit_while_a_grandchild_holds_the_pipe: "crash-holding-pipe"
        => fails("SERVER_EXITED").at_once().saying("status 7").and_restarts();
    half_a_line_and_an_exit: "half-line-then-crash"
        => fails("SERVER_EXITED").at_once().saying("status 7").and_restarts();
    a_closed_output: "close-stdout" => fails("CONNECTION_CLOSED").saying("closed its output").and_restarts();
    a_frozen_process: "freeze" => fails("TIMED_OUT").for_good();
}}

rows! { over_http: Http in [legacy modern] {
    a_frozen_process: "freeze" => fails("TIMED_OUT").for_good();
    a_reset_after_the_effect: "reset-after-effect" => fails("CONNECTION_BROKEN").at_once();
    a_close_before_the_effect: "close-at-once" => fails("CONNECTION_BROKEN").at_once();
}}

rows! { over_legacy_sse: Sse in [legacy] {
    a_frozen_process: "freeze" => fails("TIMED_OUT").for_good();
}}

/// When a server over HTTP dies, its calls fail at once; when it runs again, the next call reaches it.
async fn a_server_that_died_is_found_again(era: Era) {
    let mut stage = Stage::new(Over::Http, era, "").await;
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let pid = stage.server.as_ref().unwrap().pid();
    let (called, ()) = tokio::join!(stage.call("sleep", json!({"ms": 10_000})), async {
        stage.until("the call arrives", |log| log.runs_of("sleep") == 1).await;
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
    });
    let (code, words) = called.within(AT_ONCE).failure();
    assert_eq!(code, "CONNECTION_BROKEN", "{words}");
    // Its port may accept another connection until all of its processes are gone.
    stage.server.as_mut().unwrap().kill();
    let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
    assert_eq!(code, "UNREACHABLE", "{words}");
    stage.restart().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    // The call needs the list of this connection, because some of its arguments go into headers.
    assert_eq!(stage.call("region", json!({"region": "eu west"})).await.text(), "eu west");
    stage.finish().await;
}

#[tokio::test]
async fn a_server_that_died_is_found_again_over_legacy_http() {
    a_server_that_died_is_found_again(Era::Legacy).await;
}

#[tokio::test]
async fn a_server_that_died_is_found_again_over_modern_http() {
    a_server_that_died_is_found_again(Era::Modern).await;
}

/// The calls of a stream that dies fail, too.
#[tokio::test]
async fn a_server_that_died_is_found_again_over_legacy_sse() {
    let mut stage = Stage::new(Over::Sse, Era::Legacy, "crash-on-call=exit:3").await;
    stage.start().await;
    let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
    assert_eq!(code, "CONNECTION_CLOSED", "{words}");
    stage.restart().await;
    let prompt = stage.prompt().await;
    assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{prompt:?}");
    stage.finish().await;
}

/// A server that dies while it has nothing to do is noticed and started again, also when one of its children holds its
/// output open.
#[tokio::test]
async fn a_server_that_exits_normally_is_started_again() {
    for script in ["", "grandchild=setsid"] {
        let stage = Stage::new(Over::Stdio, Era::Legacy, script).await;
        stage.start().await;
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        let server = stage.log().pids()[0];
        kill(Pid::from_raw(server.cast_signed()), Signal::SIGKILL).unwrap();
        stage.until("another one is asked for its tools", |log| log.count_of("tools/list") == 2).await;
        stage.becomes("connected").await;
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        let ended = |event: &serde_json::Value| {
            event["event"] == "mcp_server_disconnected"
                && event["reason"].as_str().is_some_and(|why| why.contains("SIGKILL"))
        };
        assert!(stage.witness.events().iter().any(ended), "{:#?}", stage.witness.events());
        stage.finish().await;
    }
}

/// Only a server that reads is probed. A server that has stopped reading delays only its own callers, each until its
/// own deadline, and is then ended as well.
#[tokio::test]
async fn a_server_that_stops_reading_delays_only_its_own_calls() {
    for era in [Era::Legacy, Era::Modern] {
        let stage = Stage::new(Over::Stdio, era, "stop-reading-stdin").await;
        stage.start().await;
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        // More than fits into the pipe, and more calls than fit into the queue.
        let large = "x".repeat(20_000);
        let calls = (0..100).map(|_| stage.call("echo", json!({"text": large})));
        for called in futures::future::join_all(calls).await {
            let (code, words) = called.within(stage.spec.timeouts.call + SLACK).failure();
            assert_eq!(code, "TIMED_OUT", "{words}");
        }
        stage.finish().await;
    }
}

/// A server that closes its input but keeps running does not announce it, and no call can reach it. The next call
/// notices that immediately, and the server is restarted.
#[tokio::test]
async fn a_server_that_closes_its_input_is_restarted_at_the_next_call() {
    for era in [Era::Legacy, Era::Modern] {
        let stage = Stage::new(Over::Stdio, era, "close-stdin").await;
        stage.start().await;
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
        assert_eq!(code, "CONNECTION_CLOSED", "{words}");
        assert!(words.contains("closed its input"), "{words}");
        let prompt = stage.prompt().await;
        assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{prompt:?}");
        stage.finish().await;
    }
}

/// A server that does not accept input for long is ended and restarted.
#[tokio::test]
async fn a_server_that_stops_reading_for_long_is_restarted() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "stop-reading-stdin").await;
    stage.spec.timeouts.call = Duration::from_secs(15);
    stage.spec.timeouts.call_total = Duration::from_secs(15);
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let first = stage.processes();
    let (code, words) = stage.call("echo", json!({"text": "x".repeat(200_000)})).await.failure();
    assert_eq!(code, "CONNECTION_CLOSED", "{words}");
    assert!(words.contains("stopped reading"), "{words}");
    let prompt = stage.prompt().await;
    assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{prompt:?}");
    assert!(stage.processes().iter().all(|pid| !first.contains(pid)), "it was started again");
    stage.finish().await;
}
