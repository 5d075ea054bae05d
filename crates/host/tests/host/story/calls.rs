//! Calls: concurrent, cancelled, bounded in time, and never repeated.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use toolrack_host::{CallErrorKind, Era, Host, OnProgress, ServerSpec, mcp::Progress};
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::{
    scripted::{Reaction, Scripted, progress, text_result, tool},
    worlds::{call, fake, host_of, soon, text, to_call},
};

async fn eight_at_once(host: &Host, selector: &str, arguments: &Value) -> Duration {
    let start = Instant::now();
    let calls = (0..8).map(|_| call(host, selector, arguments.clone()));
    for outcome in join_all(calls).await {
        outcome.unwrap();
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn eight_calls_of_200_ms_take_200_ms() {
    let server = Scripted::calling(|_, _| Reaction::After(Duration::from_millis(200), text_result("done")));
    let host = host_of([("server", server.spec())]).await;
    let took = eight_at_once(&host, "server/echo", &json!({})).await.as_millis();
    assert!((200..205).contains(&took), "{took} ms");
}

#[tokio::test]
async fn eight_calls_of_a_process_and_of_an_http_server_run_side_by_side() {
    let server = FakeHttp::start(&[""; 0]);
    let host = host_of([("stdio", fake(&[])), ("http", ServerSpec::http(server.url()))]).await;
    for selector in ["stdio/sleep", "http/sleep"] {
        let took = eight_at_once(&host, selector, &json!({"ms": 200})).await.as_millis();
        // One after the other they would take 1,600 ms.
        assert!((200..800).contains(&took), "{selector}: {took} ms");
    }
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_limit_wait_for_their_turn_within_their_own_time() {
    let server = Scripted::calling(|_, _| Reaction::After(Duration::from_secs(2), text_result("done")));
    let mut spec = server.spec();
    spec.limits.in_flight = 2;
    spec.timeouts.call = Duration::from_secs(5);
    let host = host_of([("server", spec)]).await;
    let results = join_all((0..5).map(|_| call(&host, "server/echo", json!({})))).await;
    let ended: Vec<_> =
        results.iter().map(|result| result.as_ref().map_or_else(|error| error.code(), |_| "ok")).collect();
    assert_eq!(ended, ["ok", "ok", "ok", "ok", "TIMED_OUT"], "the fifth would have ended after six seconds");
}

/// Drops a call once the server has received it, and returns the ids of the cancelled requests.
async fn given_up(spec: ServerSpec, effects: &EffectLog) -> Vec<Value> {
    let host = host_of([("fake", spec)]).await;
    let arrives = async {
        while effects.read().runs_of("sleep") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = call(&host, "fake/sleep", json!({"ms": 60_000})) => panic!("{outcome:?}"),
        () = soon("the call arrives", arrives) => {}
    }
    let cancelled = async {
        while effects.read().cancelled().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the cancellation arrives", cancelled).await;
    assert_eq!(text(&host, "fake/echo", json!({"text": "still there"})).await, "still there");
    // The end of the host cancels more: its subscriptions.
    let cancelled = effects.read().cancelled();
    host.shutdown().await;
    cancelled
}

#[tokio::test]
async fn a_call_given_up_is_cancelled_at_the_server_on_every_wire() {
    for (transport, era) in [("stdio", "legacy"), ("stdio", "modern"), ("http", "legacy"), ("http", "modern")] {
        let effects = EffectLog::new();
        let args = ["--era", era, "--log", effects.path_str()];
        let http = (transport == "http").then(|| FakeHttp::start(&args));
        let spec = http.as_ref().map_or_else(|| fake(&args), |server| ServerSpec::http(server.url()));
        let cancelled = given_up(spec, &effects).await;
        assert_eq!(cancelled.len(), 1, "{transport}, {era}: {cancelled:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cancellation_names_the_request_and_a_late_answer_disturbs_no_call() {
    let server = Scripted::calling(|_, _| Reaction::After(Duration::from_secs(5), text_result("late")));
    let host = host_of([("server", server.spec())]).await;
    let mut events = host.events();
    let given_up = timeout(Duration::from_secs(1), call(&host, "server/echo", json!({}))).await;
    assert!(given_up.is_err());
    let cancelled = server.hears_of("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], server.seen_of("tools/call")[0]["id"]);
    assert_eq!(text(&host, "server/echo", json!({})).await, "late");
    let warned = |event: &toolrack_host::Event| match event {
        toolrack_host::Event::McpServerWarning { warning, .. } => Some(warning.clone()),
        _ => None,
    };
    let warnings = crate::worlds::events_so_far(&mut events, warned);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_and_the_error_names_the_setting() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let host = host_of([("server", server.spec())]).await;
    let start = Instant::now();
    let error = call(&host, "server/echo", json!({})).await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!((error.code(), error.kind()), ("TIMED_OUT", CallErrorKind::Unreachable));
    let message = error.to_string();
    assert!(message.contains("server") && message.contains("echo") && message.contains("call_timeout"), "{message}");
    server.hears_of("notifications/cancelled").await;

    let hasty = to_call("server/echo", json!({})).timeout(Duration::from_secs(3));
    let start = Instant::now();
    host.call(hasty).await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(server.count_of("tools/call"), 2, "no call is ever repeated");
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_and_is_heard_in_order_and_not_after_the_end() {
    let server = Scripted::calling(|name, _| match name {
        "slow" => Reaction::After(Duration::from_secs(205), text_result("done")),
        _ => Reaction::Answer(text_result("at once")),
    });
    let server = server.with_tools(["slow", "quick"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    let received = Arc::new(Mutex::new(Vec::new()));
    let on_progress: OnProgress = {
        let received = received.clone();
        Arc::new(move |report: Progress| received.lock().unwrap().push(report.progress))
    };
    let talk = async {
        let called = server.hears_of("tools/call").await;
        for step in 1..=5 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            server.say(progress(&called["params"], step));
        }
    };
    let slow = host.call(to_call("server/slow", json!({})).on_progress(on_progress));
    let (outcome, ()) = tokio::join!(slow, talk);
    assert_eq!(outcome.unwrap().text, "done");
    text(&host, "server/quick", json!({})).await;
    assert_eq!(*received.lock().unwrap(), [1.0, 2.0, 3.0, 4.0], "the fifth came after the end");
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_up_to_its_total_time() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let mut spec = server.spec();
    spec.timeouts.call_total = Duration::from_secs(130);
    let host = host_of([("server", spec)]).await;
    let talk = async {
        let called = server.hears_of("tools/call").await;
        loop {
            tokio::time::sleep(Duration::from_secs(20)).await;
            server.say(progress(&called["params"], 1));
        }
    };
    let start = Instant::now();
    let error = tokio::select! {
        result = call(&host, "server/echo", json!({})) => result.unwrap_err(),
        () = talk => unreachable!("it talks forever"),
    };
    assert_eq!(start.elapsed().as_secs(), 130);
    assert!(error.to_string().contains("max_call_time"), "{error}");
}

/// A panic in the embedder's own code, on the task that reads the connection, must not make calls hang.
#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_hangs_no_call() {
    let server = Scripted::new(Era::Legacy, |method, params| {
        (method == "tools/call").then(|| Reaction::Tell(vec![progress(params, 1)], text_result("done")))
    });
    let host = host_of([("server", server.spec())]).await;
    let start = Instant::now();
    let panics: OnProgress = Arc::new(|_| panic!("told to panic"));
    let _ended_somehow = host.call(to_call("server/echo", json!({})).on_progress(panics)).await;
    let _ended_somehow = call(&host, "server/echo", json!({})).await;
    assert_eq!(text(&host, "server/echo", json!({})).await, "done");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn errors_of_tools_and_of_the_protocol_have_different_codes() {
    let server = Scripted::calling(|name, _| match name {
        "fails" => Reaction::Answer(json!({"content": [{"type": "text", "text": "disk full"}], "isError": true})),
        _ => Reaction::Refuse(-32602),
    });
    let server = server.with_tools(["fails", "refuses"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    let outcome = call(&host, "server/fails", json!({})).await.unwrap();
    assert!(outcome.is_error);
    assert_eq!(outcome.text, "disk full");
    let error = call(&host, "server/refuses", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("RPC_ERROR", CallErrorKind::Refused));
    assert!(error.to_string().contains("-32602"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_fails_its_call_once_and_affects_no_other_server() {
    let fragile = Scripted::calling(|_, _| Reaction::HangUp);
    let host = host_of([("fragile", fragile.spec()), ("steady", Scripted::plain().spec())]).await;
    let error = call(&host, "fragile/echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "CONNECTION_CLOSED");
    assert_eq!(text(&host, "steady/echo", json!({})).await, "done");
    assert_eq!(fragile.count_of("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_native_server_that_panics_affects_no_other_server() {
    let panicking = Scripted::calling(|_, _| panic!("told to panic"));
    let host = host_of([("panicking", panicking.spec()), ("steady", Scripted::plain().spec())]).await;
    let error = call(&host, "panicking/echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "CONNECTION_CLOSED");
    assert_eq!(text(&host, "steady/echo", json!({})).await, "done");
}
