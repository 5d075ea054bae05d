//! Sessions of the legacy era over HTTP: refused, lost, forgotten by a server that was restarted.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::timeout;
use toolrack_host::{Era, Subscriptions};
use toolrack_testkit::Effects;

use crate::{
    row::rows,
    stage::{AT_ONCE, FAULTY, Over, Stage},
};

rows! { kept: Http in [legacy] {
    a_server_that_insists: "session-required" => answers("written").at_once();
    a_server_that_gives_none: "no-session" => answers("written").at_once();
}}

/// The session is lost after the list and one call. The next call discovers that: it is not repeated, and fails with
/// that reason. The call after it succeeds, in a new session.
async fn a_lost_session_is_replaced(fault: &str) {
    let stage = Stage::new(Over::Http, Era::Legacy, fault).await;
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
    assert_eq!(code, "MCP_SESSION_NOT_FOUND", "{words}");
    assert!(words.contains("therefore refused the request"), "{words}");
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let log = stage.log();
    assert_eq!(log.runs_of("write"), 2, "{:#?}", log.lines);
    assert_eq!(log.count_of("initialize"), 2, "one new session: {:?}", log.methods());
    stage.finish().await;
}

#[tokio::test]
async fn a_session_lost_with_404_is_replaced() {
    a_lost_session_is_replaced("http-404-after=2").await;
}

#[tokio::test]
async fn a_session_lost_with_400_is_replaced() {
    a_lost_session_is_replaced("http-400-session=2").await;
}

/// A request that only reads is repeated, once.
#[tokio::test]
async fn a_listing_survives_a_lost_session() {
    for fault in ["http-404-after=1", "http-400-session=1"] {
        let stage = Stage::new(Over::Http, Era::Legacy, fault).await;
        stage.start().await;
        let prompts = stage.host.prompts("faulty").await.unwrap();
        assert_eq!(prompts.len(), 2);
        let log = stage.log();
        assert_eq!(log.count_of("prompts/list"), 2, "asked again, once: {:?}", log.methods());
        assert_eq!(log.count_of("initialize"), 2, "{:?}", log.methods());
        stage.finish().await;
    }
}

/// The first list of tools finds the session lost already: the server is connected all the same.
#[tokio::test]
async fn a_session_lost_before_the_first_list_is_replaced() {
    let stage = Stage::new(Over::Http, Era::Legacy, "http-404-after=0").await;
    stage.start().await;
    stage.becomes("connected").await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    stage.finish().await;
}

/// A restarted server knows no session. In the legacy era, the first call discovers that and is not repeated. The
/// modern era has no sessions, so no call fails.
async fn a_restarted_server_is_used_again(era: Era) {
    let mut stage = Stage::new(Over::Http, era, "session-required").await;
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    stage.restart().await;
    let called = stage.call("write", json!({})).await.within(AT_ONCE);
    match era {
        Era::Modern => assert_eq!(called.text(), "written"),
        Era::Legacy => {
            let (code, words) = called.failure();
            assert!(["MCP_SESSION_NOT_FOUND", "CONNECTION_BROKEN"].contains(&code), "{code}: {words}");
        }
    }
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    stage.finish().await;
}

#[tokio::test]
async fn a_restarted_server_is_used_again_in_the_legacy_era() {
    a_restarted_server_is_used_again(Era::Legacy).await;
}

#[tokio::test]
async fn a_restarted_server_is_used_again_in_the_modern_era() {
    a_restarted_server_is_used_again(Era::Modern).await;
}

/// A restarted server is noticed on the standing stream, without a call: the host subscribes again to what has
/// listeners, in a new session, as it may have changed.
#[tokio::test]
async fn a_restarted_server_that_no_caller_calls_is_subscribed_to_again() {
    let mut stage = Stage::new(Over::Http, Era::Legacy, "session-required").await;
    stage.start().await;
    let note = Subscriptions::new(1);
    note.subscribe(&stage.host, FAULTY, "fake://note").await.unwrap();
    stage.restart().await;
    stage.until("a new session is begun", |log| log.count_of("initialize") == 2).await;
    stage.until("the resource is asked for again", |log| log.count_of("resources/subscribe") == 2).await;
    let (server, uri) = timeout(Duration::from_secs(10), note.updated()).await.expect("it may have changed");
    assert_eq!((server.as_str(), uri.as_str()), (FAULTY, "fake://note"));
    stage.finish().await;
}

/// A standing stream that fails at first for a passing reason is requested again; one that the server does not support
/// is not.
#[tokio::test]
async fn a_standing_stream_is_requested_again_after_a_temporary_refusal() {
    let gets = |log: &Effects| log.lines.iter().filter(|line| line["http"] == "GET").count();
    let stage = Stage::new(Over::Http, Era::Legacy, "refuse-stream=503").await;
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    stage.until("the stream is asked for again", |log| gets(log) >= 2).await;
    stage.finish().await;
    let stage = Stage::new(Over::Http, Era::Legacy, "refuse-stream=405").await;
    stage.start().await;
    assert_eq!(stage.call("sleep", json!({"ms": 1_000})).await.text(), "slept 1000 ms");
    assert_eq!(gets(&stage.log()), 1);
    stage.finish().await;
}

/// Over HTTP+SSE each message is a request of its own, but the order is kept: no request is sent before the server has
/// accepted `notifications/initialized`, and no cancellation before its call.
#[tokio::test]
async fn messages_over_legacy_sse_come_in_order() {
    let stage = Stage::new(Over::Sse, Era::Legacy, "slow-notices=300").await;
    let status = stage.start().await;
    assert_eq!(status.state.word(), "connected", "{:?}", status.state);
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    stage.finish().await;
}

/// The server learns of each cancelled call, even if very many are cancelled at the same time.
#[tokio::test]
async fn every_call_that_is_given_up_is_cancelled() {
    let mut stage = Stage::new(Over::Http, Era::Legacy, "").await;
    (stage.spec.timeouts.call, stage.spec.timeouts.call_total) = (Duration::from_secs(30), Duration::from_secs(30));
    stage.start().await;
    {
        let calls = join_all((0..40).map(|_| stage.call("sleep", json!({"ms": 60_000}))));
        tokio::select! {
            _ended = calls => panic!("no call ends"),
            _ = stage.until("all of them run", |log| log.runs_of("sleep") == 40) => {}
        }
    }
    stage.until("all of them are cancelled", |log| log.cancelled().len() == 40).await;
    stage.finish().await;
}
