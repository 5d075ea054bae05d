//! Event streams: garbled, cut, resumed, and never in a busy loop.

use std::time::Duration;

use serde_json::json;
use toolrack_host::{Era, ServerSpec};

use crate::{
    row::rows,
    stage::{AT_ONCE, Over, Stage},
};

rows! { garbled: Http in [legacy modern] {
    unknown_fields: "sse-unknown-field" => answers("written").at_once();
    in_single_bytes: "sse-split" => answers("written").at_once();
    another_id_first: "sse-wrong-id" => answers("written").at_once();
    an_event_that_is_no_json_before_the_answer: "sse-noise" => answers("written").at_once();
    a_line_without_an_end: "sse-endless-line" => fails("SSE_LINE_TOO_LARGE").at_once().saying("max_message_bytes");
    an_event_that_is_no_json: "sse-bad-json" => fails("INVALID_SSE_EVENT_DATA").at_once();
    an_event_over_the_limit: "sse-huge-event" => fails("SSE_EVENT_DATA_TOO_LARGE").at_once().saying("1048576");
    an_event_without_an_end: "sse-endless" => fails("SSE_EVENT_DATA_TOO_LARGE").at_once().saying("1048576");
    cut_before_the_answer: "cut-sse" => fails("CONNECTION_BROKEN").at_once().saying("ended before the answer");
}}

rows! { without_resumption: Http in [modern] {
    a_cut: "sse-resume" => fails("CONNECTION_BROKEN").at_once();
    a_stream_that_is_reset: "sse-reset-loop" => fails("CONNECTION_BROKEN").at_once();
    a_stream_that_is_empty: "sse-empty-loop" => fails("CONNECTION_BROKEN").at_once();
}}

/// Reconnecting twice takes a second and a half.
fn patient(spec: &mut ServerSpec) {
    spec.timeouts.call = Duration::from_millis(2_500);
}

rows! { with_resumption: Http in [legacy] {
    a_cut: "sse-resume" => answers("written");
    a_stream_that_is_reset: "sse-reset-loop"
        => fails("CONNECTION_BROKEN").saying("sse_max_reconnects").with(super::super::patient);
    a_stream_that_is_empty: "sse-empty-loop"
        => fails("CONNECTION_BROKEN").saying("sse_max_reconnects").with(super::super::patient);
    a_server_that_knows_no_get: "sse-refuses-resume" => fails("CONNECTION_BROKEN").at_once().saying("HTTP 405");
    a_server_that_does_not_take_the_id: "sse-refuses-resume=400" => fails("CONNECTION_BROKEN").at_once().saying("HTTP 400");
    a_server_that_is_out_of_order: "sse-refuses-resume=503"
        => fails("CONNECTION_BROKEN").saying("sse_max_reconnects").with(super::super::patient);
}}

/// The host resumes a stream with a GET, with the id of the last event, after the time that the server asks for. It
/// does not send the call again.
#[tokio::test]
async fn a_stream_is_resumed_where_it_was_cut() {
    let stage = Stage::new(Over::Http, Era::Legacy, "sse-resume=700").await;
    stage.start().await;
    let called = stage.call("write", json!({})).await;
    assert_eq!(called.text(), "written");
    assert!(called.took > Duration::from_millis(650), "the server asked for 700 ms: {:?}", called.took);
    let resumed: Vec<_> = resumptions(&stage);
    assert_eq!(resumed.len(), 1, "{resumed:?}");
    stage.finish().await;
}

/// The server may ask for no wait at all, and drop each connection: the host waits half a second between two, and gives
/// up in the end.
#[tokio::test]
async fn resuming_never_becomes_a_busy_loop() {
    for fault in ["sse-reset-loop=0", "sse-empty-loop=0"] {
        let mut stage = Stage::new(Over::Http, Era::Legacy, fault).await;
        patient(&mut stage.spec);
        stage.start().await;
        let (code, words) = stage.call("write", json!({})).await.failure();
        assert_eq!(code, "CONNECTION_BROKEN", "{words}");
        let resumed = resumptions(&stage);
        assert_eq!(resumed.len(), 2, "sse_max_reconnects is 2: {resumed:?}");
        let sent =
            stage.log().lines.iter().find(|line| line["method"] == "tools/call").unwrap()["at_ms"].as_u64().unwrap();
        let gaps: Vec<u64> =
            [sent].iter().chain(&resumed).zip(&resumed).map(|(before, after)| after - before).collect();
        assert!(gaps.iter().all(|gap| *gap >= 480), "{fault}: {gaps:?}");
        stage.finish().await;
    }
}

/// The times of the GETs that resumed a cut stream, in milliseconds.
fn resumptions(stage: &Stage) -> Vec<u64> {
    let log = stage.log();
    let resumed = log.lines.iter().filter(|line| line["http"] == "GET" && line["last_event_id"].is_string());
    resumed.map(|line| line["at_ms"].as_u64().unwrap()).collect()
}

/// A modern subscription that ends, however it ends, is opened again, not too often, and no caller notices.
async fn an_ended_subscription_is_opened_again(over: Over, fault: &str) {
    let stage = Stage::new(over, Era::Modern, fault).await;
    stage.start().await;
    stage.until("the subscription is opened", |log| log.count_of("subscriptions/listen") >= 1).await;
    let log = stage.until("it is opened again", |log| log.count_of("subscriptions/listen") >= 2).await;
    let times: Vec<u64> = log
        .lines
        .iter()
        .filter(|line| line["method"] == "subscriptions/listen")
        .map(|line| line["at_ms"].as_u64().unwrap())
        .collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 500), "{times:?}");
    assert_eq!(stage.call("write", json!({})).await.within(AT_ONCE).text(), "written");
    assert!(stage.log().count_of("tools/list") <= 3, "{:?}", stage.log().methods());
    stage.finish().await;
}

#[tokio::test]
async fn an_ended_subscription_is_opened_again_over_stdio() {
    an_ended_subscription_is_opened_again(Over::Stdio, "listen-ends").await;
}

#[tokio::test]
async fn an_ended_subscription_is_opened_again_over_http() {
    an_ended_subscription_is_opened_again(Over::Http, "listen-ends").await;
}

#[tokio::test]
async fn a_subscription_that_the_server_cancels_is_opened_again() {
    an_ended_subscription_is_opened_again(Over::Stdio, "listen-cancelled").await;
}

#[tokio::test]
async fn a_subscription_whose_stream_is_cut_is_opened_again() {
    an_ended_subscription_is_opened_again(Over::Http, "listen-drops").await;
}
