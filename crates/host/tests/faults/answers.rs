//! Invalid results, over every transport: each fails its own call, at once, and nothing else.

use std::time::{Duration, Instant};

use serde_json::json;
use toolrack_host::Era;

use crate::{
    row::rows,
    stage::{Over, SLACK, Stage},
};

rows! { over_stdio: Stdio, over_http: Http in [legacy modern] {
    half_of_an_escape: "unparsable-answer" => answers("half of a pair: \u{fffd}").at_once().warning("in half");
    no_utf8: "bad-utf8" => fails("UNPARSABLE_ANSWER").at_once();
    a_number_too_large: "huge-number" => answers("").at_once();
    too_deep: "deep-json" => fails("UNPARSABLE_ANSWER").at_once();
    an_id_named_twice: "duplicate-key" => fails("UNPARSABLE_ANSWER").at_once();
    cut_short: "truncated" => fails("UNPARSABLE_ANSWER").at_once();
    a_result_that_is_a_number: "result-42" => fails("UNPARSABLE_ANSWER").at_once();
    a_result_that_is_null: "result-null" => fails("UNPARSABLE_ANSWER").at_once();
    a_result_and_an_error: "result-and-error" => fails("UNPARSABLE_ANSWER").at_once();
    neither_result_nor_error: "neither" => fails("UNPARSABLE_ANSWER").at_once();
    an_error_without_an_id: "error-without-id" => fails("RPC_ERROR").at_once().saying("something went wrong");
    a_batch_of_one: "batch" => answers("written").at_once();
    the_answer_twice: "duplicate-answer" => answers("written").at_once();
    no_answer: "no-answer" => fails("TIMED_OUT").saying("call took longer than 1.5 s");
    blocks_of_unknown_kinds: "bad-content" => answers("written").at_once().warning("hologram");
    odd_messages_before: "odd-messages" => answers("written").at_once();
    progress_for_no_call: "stray-progress" => answers("written").at_once();
}}

rows! { over_stdio_only: Stdio in [legacy modern] {
    a_line_over_the_limit: "huge-line" => fails("STDIO_LINE_TOO_LARGE").at_once().saying("1048576");
    a_line_far_over_the_limit: "huge-line=16000000" => fails("STDIO_LINE_TOO_LARGE");
    another_id_only: "wrong-id" => fails("TIMED_OUT").warning("answer to no waiting request");
    another_id_first: "forged-first" => answers("written").at_once().warning("answer to no waiting request");
}}

rows! { over_http_only: Http in [legacy modern] {
    a_body_over_the_limit: "body-huge" => fails("HTTP_BODY_TOO_LARGE").at_once().saying("1048576");
    another_id_only: "wrong-id" => fails("PROTOCOL_ERROR").at_once();
    another_id_first: "forged-first" => answers("written").at_once();
}}

rows! { over_events: Http in [legacy modern] {
    half_of_an_escape: "unparsable-answer --answers sse" => answers("half of a pair: \u{fffd}").at_once();
    no_utf8: "bad-utf8 --answers sse" => fails("INVALID_SSE_EVENT_DATA").at_once();
    too_deep: "deep-json --answers sse" => fails("UNPARSABLE_ANSWER").at_once();
    cut_short: "truncated --answers sse" => fails("INVALID_SSE_EVENT_DATA").at_once();
    a_result_that_is_a_number: "result-42 --answers sse" => fails("UNPARSABLE_ANSWER").at_once();
    an_error_without_an_id: "error-without-id --answers sse" => fails("RPC_ERROR").at_once();
    another_id_first: "forged-first --answers sse" => answers("written").at_once();
    another_id_only: "wrong-id --answers sse" => fails("CONNECTION_BROKEN").at_once();
    odd_messages_before: "odd-messages --answers sse" => answers("written").at_once();
}}

rows! { over_legacy_sse: Sse in [legacy] {
    half_of_an_escape: "unparsable-answer" => answers("half of a pair: \u{fffd}").at_once().warning("in half");
    too_deep: "deep-json" => fails("UNPARSABLE_ANSWER").at_once();
    a_result_that_is_null: "result-null" => fails("UNPARSABLE_ANSWER").at_once();
    an_error_without_an_id: "error-without-id" => fails("RPC_ERROR").at_once();
    an_event_over_the_limit: "huge-line" => fails("SSE_EVENT_DATA_TOO_LARGE").at_once().saying("1048576");
    another_id_only: "wrong-id" => fails("TIMED_OUT");
    another_id_first: "forged-first" => answers("written").at_once();
    no_answer: "no-answer" => fails("TIMED_OUT");
    blocks_of_unknown_kinds: "bad-content" => answers("written").at_once().warning("hologram");
    odd_messages_before: "odd-messages" => answers("written").at_once();
}}

// Only the modern era has kinds of results; in the older era, the member has no meaning.
rows! { kinds_of_results_over_stdio: Stdio in [modern] {
    an_unknown_one: "unknown-result-type" => fails("PROTOCOL_ERROR").at_once().saying("banana");
}}

rows! { kinds_of_results_over_http: Http in [modern] {
    an_unknown_one: "unknown-result-type" => fails("PROTOCOL_ERROR").at_once().saying("banana");
    an_unknown_one_in_an_event: "unknown-result-type --answers sse"
        => fails("PROTOCOL_ERROR").at_once().saying("banana");
}}

rows! { kinds_of_results_before: Stdio in [legacy] {
    one_that_means_nothing: "unknown-result-type" => answers("written").at_once();
}}

/// One invalid result among many fails one call of many.
async fn a_bad_answer_fails_only_its_own_call(over: Over, era: Era, faults: &[&str]) {
    for fault in faults {
        let stage = Stage::new(over, era, &format!("{fault} --fault-after 3 --delay-ms 50")).await;
        stage.start().await;
        let calls = (0..8).map(|_| stage.call("write", json!({})));
        let called = futures::future::join_all(calls).await;
        let failed: Vec<_> = called.iter().filter(|called| called.result.is_err()).collect();
        assert_eq!(failed.len(), 1, "{fault}: {called:#?}");
        // Some faults strike before the tool runs.
        assert!((7..=8).contains(&stage.log().runs_of("write")), "{fault}");
        stage.finish().await;
    }
}

const BAD: [&str; 4] = ["bad-utf8", "result-42", "neither", "truncated"];

#[tokio::test]
async fn a_bad_answer_fails_only_its_own_call_over_legacy_stdio() {
    a_bad_answer_fails_only_its_own_call(Over::Stdio, Era::Legacy, &BAD).await;
    a_bad_answer_fails_only_its_own_call(Over::Stdio, Era::Legacy, &["huge-line", "error-without-id", "wrong-id"])
        .await;
}

#[tokio::test]
async fn a_bad_answer_fails_only_its_own_call_over_modern_stdio() {
    a_bad_answer_fails_only_its_own_call(Over::Stdio, Era::Modern, &BAD).await;
    a_bad_answer_fails_only_its_own_call(Over::Stdio, Era::Modern, &["huge-line", "no-answer"]).await;
}

#[tokio::test]
async fn a_bad_answer_fails_only_its_own_call_over_legacy_http() {
    a_bad_answer_fails_only_its_own_call(Over::Http, Era::Legacy, &BAD).await;
    a_bad_answer_fails_only_its_own_call(Over::Http, Era::Legacy, &["body-huge", "cut-sse", "reset-body", "http-500"])
        .await;
}

#[tokio::test]
async fn a_bad_answer_fails_only_its_own_call_over_modern_http() {
    a_bad_answer_fails_only_its_own_call(Over::Http, Era::Modern, &BAD).await;
    a_bad_answer_fails_only_its_own_call(
        Over::Http,
        Era::Modern,
        &["sse-endless", "cut-body", "close-at-once", "http-429"],
    )
    .await;
}

/// A call that was given up is cancelled, and its late response has no effect.
async fn a_late_answer_is_ignored(over: Over, era: Era) {
    let stage = Stage::new(over, era, "ignore-cancel").await;
    stage.start().await;
    let called = stage.call("sleep", json!({"ms": 2_000})).await.within(stage.spec.timeouts.call + SLACK);
    assert_eq!(called.failure().0, "TIMED_OUT");
    stage.until("the call is cancelled", |log| log.cancelled().len() == 1).await;
    // The late answer comes while this call waits for its own.
    assert_eq!(stage.call("sleep", json!({"ms": 1_000})).await.text(), "slept 1000 ms");
    stage.finish().await;
}

#[tokio::test]
async fn a_late_answer_is_ignored_over_stdio() {
    a_late_answer_is_ignored(Over::Stdio, Era::Legacy).await;
}

#[tokio::test]
async fn a_late_answer_is_ignored_over_http() {
    a_late_answer_is_ignored(Over::Http, Era::Legacy).await;
}

/// The host does not wait for the end of an endless line: it ends the connection, and makes a new one.
#[tokio::test]
async fn a_line_that_does_not_end_ends_the_connection() {
    let mut stage = Stage::new(Over::Stdio, Era::Modern, "huge-line=200000000").await;
    // A busy machine needs some seconds to read so much.
    stage.spec.timeouts.call = Duration::from_secs(30);
    stage.start().await;
    let first = stage.processes();
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "STDIO_LINE_TOO_LARGE", "{words}");
    let end = Instant::now() + Duration::from_secs(10);
    while stage.processes().iter().any(|pid| first.contains(pid)) {
        assert!(Instant::now() < end, "the connection goes on: {:?}", stage.status().state);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let prompt = stage.prompt().await;
    assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{prompt:?}");
    stage.finish().await;
}

/// Progress restarts the idle time-out, never the bound on the whole call.
#[tokio::test]
async fn progress_cannot_keep_a_call_for_ever() {
    let mut stage = Stage::new(Over::Stdio, Era::Modern, "").await;
    stage.spec.timeouts.call_total = Duration::from_millis(2_500);
    stage.start().await;
    let called = stage.call("sleep", json!({"ms": 60_000, "progress": true})).await;
    let (code, words) = called.failure();
    assert_eq!(code, "TIMED_OUT");
    assert!(words.contains("max_call_time"), "{words}");
    assert!(called.took > stage.spec.timeouts.call, "{:?}", called.took);
    stage.finish().await;
}

/// A well-formed result may contain terminal control characters, because models may get them. Errors are for users, and
/// must not contain any.
#[tokio::test]
async fn control_characters_are_escaped_in_errors() {
    let stage = Stage::new(Over::Stdio, Era::Legacy, "escape-text").await;
    stage.start().await;
    let message = "\u{1b}]0;owned\u{7}\r\nnext\u{202e}line\u{e0041}";
    let called = stage.call("protocol_error", json!({"message": message})).await;
    let (code, words) = called.failure();
    assert_eq!(code, "RPC_ERROR");
    assert!(words.contains("owned") && words.contains("next"), "{words}");
    assert!(stage.call("fail", json!({"message": message})).await.outcome().is_error);
    stage.finish().await;
}
