//! From the spawn to the handshake: servers that are slow, noisy, silent, that die, or stumble over the era probe.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::json;
use toolrack_host::{Era, Host, Memory, ServerSpec, State};

use crate::{
    programs::Canary,
    row::rows,
    stage::{AT_ONCE, Over, SLACK, Stage},
};

/// Makes a start over stdio time out a little after both eras were tried.
fn starts_quickly(spec: &mut ServerSpec) {
    spec.timeouts.startup = Duration::from_millis(2_200);
    spec.timeouts.call = Duration::from_millis(500);
}

/// Makes a start over HTTP time out a little after both eras were tried.
fn answers_quickly(spec: &mut ServerSpec) {
    spec.timeouts.startup = Duration::from_millis(3_300);
    spec.timeouts.call = Duration::from_millis(500);
}

rows! { noises: Stdio in [legacy modern] {
    a_banner: "banner" => answers("written").at_once().warning("not an MCP message");
    a_byte_order_mark: "bom" => answers("written").at_once();
    empty_lines_and_nuls: "empty-lines" => answers("written").at_once();
    carriage_returns: "crlf" => answers("written").at_once();
    messages_in_small_pieces: "split-writes" => answers("written").at_once();
    a_full_stderr: "fill-stderr=2000000" => answers("written");
    a_line_without_an_end_on_stderr: "stderr-line=8000000" => answers("written").at_once();
}}

rows! { deaths: Stdio in [legacy modern] {
    an_exit: "exit-at-start=3"
        => stays_away("SERVER_EXITED").at_once().saying("exit status 3").saying("told to exit at start");
    a_signal: "signal-at-start=11" => stays_away("SERVER_EXITED").at_once().saying("SIGSEGV");
    an_exit_on_any_first_request: "crash-on-call=exit:4 --fault-on * --fault-times 100"
        => stays_away("SERVER_EXITED").saying("exit status 4");
}}

// The era of such a server stays unknown.
rows! { silence: Stdio in [legacy] {
    a_server_that_never_says_a_word: "never-start"
        => stays_away("TIMED_OUT").with(super::super::starts_quickly).saying("startup_timeout");
    a_server_that_never_reads: "stop-reading-stdin=start"
        => stays_away("TIMED_OUT").with(super::super::starts_quickly).saying("startup_timeout");
}}

rows! { versions: Stdio in [legacy modern] {
    one_of_the_last_century: "version" => stays_away("UNSUPPORTED_PROTOCOL_VERSION").saying("1999-01-01");
}}

rows! { versions_over_http: Http in [legacy modern] {
    one_of_the_last_century: "version" => stays_away("UNSUPPORTED_PROTOCOL_VERSION").saying("1999-01-01");
}}

rows! { refused_versions: Stdio in [modern] {
    the_one_that_it_then_names: "refuse-version" => answers("written").at_once();
    always_the_one_that_it_then_names: "refuse-version --fault-times 100" => stays_away("UNSUPPORTED_PROTOCOL_VERSION");
}}

rows! { pages: Http in [legacy modern] {
    a_web_page: "html --fault-times 100"
        => stays_away("PROTOCOL_ERROR").saying("text/html").saying("MCP endpoint's URL");
    an_internal_error: "http-500 --fault-times 100" => stays_away("HTTP_ERROR").saying("HTTP 500");
    a_bad_request: "http-400 --fault-times 100" => stays_away("HTTP_ERROR").saying("HTTP 400");
    nothing_there: "http-404 --fault-times 100" => stays_away("HTTP_ERROR").saying("HTTP 404");
    too_many_requests: "http-429=7 --fault-on * --fault-times 100" => stays_away("RATE_LIMITED").saying("7 s");
    accepted_and_never_answered: "http-202 --fault-on * --fault-times 100"
        => stays_away("PROTOCOL_ERROR").saying("202");
    a_body_without_an_end: "body-endless --fault-on * --fault-times 100" => stays_away("HTTP_BODY_TOO_LARGE");
    closed_at_once: "close-at-once --fault-on * --fault-times 100" => stays_away("CONNECTION_BROKEN");
}}

// An old server may misread the probe: whatever it answers, `initialize` comes next.
rows! { probes_over_http: Http in [legacy] {
    accepted_and_never_answered: "discover-202" => answers("written").at_once();
    a_web_page: "discover-html" => answers("written").at_once();
    an_internal_error: "discover-500" => answers("written").at_once();
    an_empty_result: "discover-empty" => answers("written").at_once();
    not_a_byte: "hang-discover" => answers("written").at_once();
    unreadable: "unparsable-answer --fault-on server/discover" => answers("written").at_once();
    closed_at_once: "close-at-once --fault-on server/discover" => answers("written").at_once();
    over_the_limit: "body-huge --fault-on server/discover" => answers("written").at_once();
    reset: "reset-body --fault-on server/discover" => answers("written").at_once();
}}

// But if a modern server fails on the probe, that is the error: its refusal of `initialize` is not the reason.
rows! { probes_over_modern_http: Http in [modern] {
    not_a_byte: "hang-discover --fault-times 100"
        => stays_away("TIMED_OUT").with(super::super::answers_quickly).saying("startup_timeout");
    over_the_limit: "body-huge --fault-on server/discover --fault-times 100" => stays_away("HTTP_BODY_TOO_LARGE");
    cut_short: "truncated --fault-on server/discover --fault-times 100" => stays_away("UNPARSABLE_ANSWER");
    neither_result_nor_error: "neither --fault-on server/discover --fault-times 100" => stays_away("UNPARSABLE_ANSWER");
    an_internal_error: "discover-500 --fault-times 100" => stays_away("HTTP_ERROR").saying("HTTP 500");
    a_web_page: "discover-html --fault-times 100" => stays_away("PROTOCOL_ERROR").saying("text/html");
}}

rows! { probes_over_modern_stdio: Stdio in [modern] {
    over_the_limit: "huge-line --fault-on server/discover --fault-times 100" => stays_away("STDIO_LINE_TOO_LARGE");
    cut_short: "truncated --fault-on server/discover --fault-times 100" => stays_away("UNPARSABLE_ANSWER").at_once();
    not_utf8: "bad-utf8 --fault-on server/discover --fault-times 100" => stays_away("UNPARSABLE_ANSWER").at_once();
    an_error_of_its_own: "error-without-id --fault-on server/discover --fault-times 100"
        => stays_away("RPC_ERROR").at_once().saying("something went wrong");
    neither_result_nor_error: "neither --fault-on server/discover --fault-times 100"
        => stays_away("UNPARSABLE_ANSWER").at_once().saying("neither a method nor a result");
    a_result_that_is_null: "result-null --fault-on server/discover --fault-times 100"
        => stays_away("PROTOCOL_ERROR").at_once().saying("server/discover");
}}

// A server that declares no capabilities is asked for its tools.
rows! { unsaid_capabilities: Stdio in [legacy modern] {
    of_null: "no-capabilities" => answers("written").at_once();
}}

// The answer to `initialize` decides the server's version.
rows! { greetings: Stdio in [legacy] {
    a_result_that_is_null: "result-null --fault-on initialize --fault-times 100"
        => stays_away("PROTOCOL_ERROR").at_once().saying("protocolVersion");
    cut_short: "truncated --fault-on initialize --fault-times 100" => stays_away("UNPARSABLE_ANSWER").at_once();
}}

/// A server that is slow to answer the probe, over HTTP as over stdio, gets `initialize` meanwhile, and its late answer
/// counts.
#[tokio::test]
async fn a_modern_server_that_answers_the_probe_late_over_http_is_modern() {
    let stage = Stage::new(Over::Http, Era::Modern, "late-discover=3500").await;
    let status = stage.start().await;
    assert_eq!((status.state.word(), status.era), ("connected", Some(Era::Modern)), "{:?}", status.state);
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    assert_eq!(stage.log().count_of("server/discover"), 1, "{:?}", stage.log().methods());
    stage.finish().await;
}

/// A failed probe after which the server connects, with this many processes.
async fn the_probe(era: Era, script: &str, processes: usize) {
    let stage = Stage::new(Over::Stdio, era, script).await;
    let status = stage.start().await;
    assert_eq!((status.state.word(), status.era), ("connected", Some(era)), "{:?}", status.state);
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    assert_eq!(processes_in(&stage), processes, "{:#?}", stage.log().lines);
    stage.finish().await;
}

#[tokio::test]
async fn a_legacy_server_that_ignores_the_probe_is_asked_again_and_not_restarted() {
    the_probe(Era::Legacy, "ignore-discover --fault-times 100", 1).await;
}

#[tokio::test]
async fn a_legacy_server_that_refuses_the_probe_late_is_used_meanwhile() {
    the_probe(Era::Legacy, "late-then-legacy=2500", 1).await;
}

#[tokio::test]
async fn a_legacy_server_that_dies_of_the_probe_is_started_once_more() {
    the_probe(Era::Legacy, "exit-on-discover --fault-times 100", 2).await;
}

#[tokio::test]
async fn a_legacy_server_that_answers_the_probe_with_an_empty_result_is_used() {
    the_probe(Era::Legacy, "discover-empty --fault-times 100", 1).await;
}

#[tokio::test]
async fn a_legacy_server_whose_answer_to_the_probe_is_unreadable_is_used() {
    the_probe(Era::Legacy, "unparsable-answer --fault-on server/discover", 1).await;
}

#[tokio::test]
async fn a_modern_server_that_answers_the_probe_late_is_modern() {
    the_probe(Era::Modern, "late-discover=2500", 1).await;
}

#[tokio::test]
async fn a_legacy_server_that_is_slow_to_start_is_waited_for() {
    the_probe(Era::Legacy, "--start-delay-ms 2600", 1).await;
}

#[tokio::test]
async fn a_modern_server_that_is_slow_to_start_is_waited_for() {
    the_probe(Era::Modern, "--start-delay-ms 2600", 1).await;
}

/// The remembered era is only tried first: the server may have been replaced since.
struct Remembers(Era);

impl Memory for Remembers {
    fn era<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<Era>> {
        Box::pin(async { Some(self.0) })
    }

    fn remember_era<'a>(&'a self, _: &'a str, _: Era) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn an_era_that_is_remembered_wrongly_does_no_harm() {
    for (remembered, era) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)] {
        for over in [Over::Stdio, Over::Http] {
            let host = Host::builder().memory(Arc::new(Remembers(remembered)));
            let stage = Stage::with(host, over, era, "").await;
            let status = stage.start().await;
            assert_eq!((status.state.word(), status.era), ("connected", Some(era)), "{:?}", status.state);
            assert_eq!(stage.call("write", json!({})).await.within(AT_ONCE).text(), "written");
            stage.finish().await;
        }
    }
}

/// A server that dies at each start is started again as often as its entry says, after growing pauses, and then not
/// again until a caller asks for a new connection.
#[tokio::test]
async fn a_server_that_dies_each_time_is_not_started_for_ever() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "crash-on-call=exit:4 --fault-on * --fault-times 100").await;
    stage.spec.retry.attempts = 2;
    stage.start().await;
    let status = stage.becomes("failed").await;
    assert!(status.state.error().is_some_and(|error| error.contains("exit status 4")), "{:?}", status.state);
    // Three attempts; in each, one process dies of the probe, and one of the next request.
    assert_eq!(processes_in(&stage), 6);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(processes_in(&stage), 6, "no call has asked for it");
    // Its tools are unknown, so a call only reports why; a reconnect would start it.
    assert_eq!(stage.call("write", json!({})).await.failure().0, "SERVER_EXITED");
    assert_eq!(processes_in(&stage), 6);
    stage.finish().await;
}

fn processes_in(stage: &Stage) -> usize {
    let mut pids = stage.log().pids();
    pids.sort_unstable();
    pids.dedup();
    pids.len()
}

#[tokio::test]
async fn a_grandchild_started_first_is_ended_with_the_server() {
    for kind in ["plain", "setsid", "ignore-term", "setsid+ignore-term"] {
        let stage = Stage::new(Over::Stdio, Era::Legacy, &format!("grandchild={kind}")).await;
        stage.start().await;
        // The supervisor, the server and the grandchild.
        assert_eq!(stage.processes().len(), 3, "{kind}");
        stage.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_will_not_end_is_ended() {
    for faults in ["ignore-eof", "ignore-term", "ignore-eof ignore-term grandchild=setsid+ignore-term"] {
        let stage = Stage::new(Over::Stdio, Era::Modern, faults).await;
        stage.start().await;
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.finish().await;
    }
}

/// Whenever the host is shut down during a start, no process is left.
#[tokio::test]
async fn a_shutdown_at_any_moment_of_a_start_leaves_nothing() {
    for moment in 0..40 {
        let stage = Stage::new(Over::Stdio, Era::Legacy, "").await;
        let started = tokio::time::timeout(Duration::from_micros(500 * moment), stage.start());
        let _is_connected_or_not = started.await;
        stage.finish_at_once().await;
    }
}

/// A shutdown in the middle of a hopeless start does not wait for it.
#[tokio::test]
async fn a_start_can_be_given_up() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "never-start ignore-eof ignore-term").await;
    stage.spec.timeouts.startup = Duration::from_secs(60);
    let rising = tokio::time::timeout(Duration::from_millis(500), stage.start()).await;
    assert!(rising.is_err());
    assert_eq!(stage.status().state, State::Connecting);
    // A call does not wait longer than it would for an answer.
    let called = stage.call("write", json!({})).await.within(stage.spec.timeouts.call + SLACK);
    let (_, words) = called.failure();
    assert!(!words.contains("stopped"), "it is still being started: {words}");
    stage.finish().await;
}

/// A server that is too busy for the probe names a time, and the host probes it again at that time.
#[tokio::test]
async fn a_server_that_is_too_busy_for_the_probe_is_asked_again_when_it_says() {
    for era in [Era::Legacy, Era::Modern] {
        let stage = Stage::new(Over::Http, era, "http-429=1 --fault-on server/discover").await;
        assert_eq!(stage.start().await.state.word(), "reconnecting");
        assert_eq!(stage.becomes("connected").await.era, Some(era));
        let log = stage.log();
        let probes = log.lines.iter().filter(|line| line["method"] == "server/discover");
        let times: Vec<u64> = probes.map(|line| line["at_ms"].as_u64().unwrap()).collect();
        assert!(times.len() == 2 && times[1] - times[0] >= 950, "{times:?}");
        stage.finish().await;
    }
}

#[tokio::test]
async fn a_legacy_event_stream_without_an_endpoint_times_out() {
    let mut stage = Stage::new(Over::Sse, Era::Legacy, "no-endpoint").await;
    starts_quickly(&mut stage.spec);
    stage.start().await;
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "TIMED_OUT", "{words}");
    stage.finish().await;
}

#[tokio::test]
async fn an_endpoint_on_another_origin_is_refused() {
    let canary = Canary::new();
    let stage = Stage::new(Over::Sse, Era::Legacy, &format!("endpoint-cross={}", canary.url())).await;
    stage.start().await;
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "PROTOCOL_ERROR", "{words}");
    assert!(words.contains("not a URL on the same origin"), "{words}");
    canary.assert_untouched();
    stage.finish().await;
}

/// A server that ends on the probe is started once more; its answer to `initialize` is the reported reason, not its
/// end.
#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_refused_for_its_unknown_version() {
    let stage = Stage::new(Over::Stdio, Era::Legacy, "exit-on-discover version=1999-01-01").await;
    assert_ne!(stage.start().await.state.word(), "connected");
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "UNSUPPORTED_PROTOCOL_VERSION", "{words}");
    assert!(words.contains("1999-01-01"), "{words}");
    stage.finish().await;
}
