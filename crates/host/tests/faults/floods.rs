//! Servers that send without end: nothing accumulates, and calls still work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use toolrack_host::{
    Abilities, Asker, Era, Host, ServerName, ServerSpec,
    ask::{AskRefused, Elicitation, Elicited},
};

use crate::{
    row::rows,
    stage::{Over, Stage},
};

/// Gives calls more time, because the flooding server is a test program that is not fast.
fn patient(spec: &mut ServerSpec) {
    spec.timeouts.call = Duration::from_secs(60);
    spec.timeouts.call_total = Duration::from_secs(60);
}

rows! { over_stdio: Stdio in [legacy modern] {
    pings: "ping-flood=20000" => answers("written").with(super::super::patient);
    notifications: "notify-flood=20000" => answers("written").with(super::super::patient);
    requests: "request-flood=2000" => answers("written").with(super::super::patient);
}}

rows! { over_http: Http in [legacy modern] {
    pings: "ping-flood=5000" => answers("written").with(super::super::patient);
    notifications: "notify-flood=20000" => answers("written").with(super::super::patient);
    requests: "request-flood=2000" => answers("written").with(super::super::patient);
}}

rows! { over_legacy_sse: Sse in [legacy] {
    pings: "ping-flood=5000" => answers("written").with(super::super::patient);
    notifications: "notify-flood=20000" => answers("written").with(super::super::patient);
    requests: "request-flood=2000" => answers("written").with(super::super::patient);
}}

/// Of a flood of log messages, a hundred a second are passed on and the rest is counted.
#[tokio::test]
async fn a_flood_of_log_messages_is_cut_and_counted() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "notify-flood=20000").await;
    patient(&mut stage.spec);
    stage.start().await;
    let called = stage.call("write", json!({})).await;
    assert_eq!(called.text(), "written");
    // The number of dropped messages comes with the first message of another second.
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(stage.call("flood", json!({"n": 1})).await.text(), "sent 1");
    sleep(Duration::from_millis(50)).await;
    let events = stage.witness.events();
    let passed_on = events.iter().filter(|event| event["event"] == "mcp_server_log").count();
    let seconds = called.took.as_secs() as usize + 2;
    assert!(passed_on <= 100 * seconds + 1, "{passed_on} of 20,000 in {seconds} s");
    assert_eq!(stage.witness.missed(), 0);
    let warnings = stage.witness.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("dropped")), "{warnings:?}");
    stage.finish().await;
}

/// stderr is always drained, and its last lines are there when the server dies.
#[tokio::test]
async fn a_flood_of_stderr_is_drained() {
    let mut stage =
        Stage::new(Over::Stdio, Era::Modern, "fill-stderr=4000000 crash-on-call=exit:9 --fault-after 1").await;
    patient(&mut stage.spec);
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "SERVER_EXITED", "{words}");
    assert!(words.contains("noise") && words.contains("status 9"), "{words}");
    stage.finish().await;
}

/// A server whose tools change all the time is listed again, but less and less often, and can be used meanwhile.
async fn a_storm_of_changes_is_listed_rarely(over: Over, era: Era) {
    let stage = Stage::new(over, era, "list-changed-storm=200").await;
    stage.start().await;
    // A modern server notifies subscribers only, and the first list may come before.
    stage
        .until("it listens", |log| {
            over == Over::Stdio || era == Era::Legacy || log.count_of("subscriptions/listen") > 0
        })
        .await;
    assert_eq!(stage.call("tools_changed", json!({"add": "drop"})).await.text(), "changed");
    for _ in 0..6 {
        assert_eq!(stage.call("echo", json!({"text": "calm"})).await.text(), "calm");
        sleep(Duration::from_millis(200)).await;
    }
    let lists = stage.log().count_of("tools/list");
    assert!((2..=7).contains(&lists), "{lists} lists in a good second");
    stage.finish().await;
}

#[tokio::test]
async fn a_storm_of_changes_is_listed_rarely_over_legacy_stdio() {
    a_storm_of_changes_is_listed_rarely(Over::Stdio, Era::Legacy).await;
}

#[tokio::test]
async fn a_storm_of_changes_is_listed_rarely_over_modern_stdio() {
    a_storm_of_changes_is_listed_rarely(Over::Stdio, Era::Modern).await;
}

#[tokio::test]
async fn a_storm_of_changes_is_listed_rarely_over_legacy_http() {
    a_storm_of_changes_is_listed_rarely(Over::Http, Era::Legacy).await;
}

#[tokio::test]
async fn a_storm_of_changes_is_listed_rarely_over_modern_http() {
    a_storm_of_changes_is_listed_rarely(Over::Http, Era::Modern).await;
}

/// Agrees to everything, slowly, and counts the questions that are open at the same time.
#[derive(Debug, Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

impl Busy {
    async fn think(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        sleep(Duration::from_millis(20)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Asker for Busy {
    fn abilities(&self) -> Abilities {
        Abilities { forms: true, sampling: true, ..Abilities::NONE }
    }

    fn elicit(&self, _: ServerName, _: Elicitation) -> BoxFuture<'_, Elicited> {
        Box::pin(async {
            self.think().await;
            Elicited::Accept(Map::new())
        })
    }

    fn sample(&self, _: ServerName, _: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        Box::pin(async {
            self.think().await;
            Ok(json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "Paris"}}))
        })
    }
}

/// Of a flood of questions, eight are asked at a time and the others are refused.
async fn at_most_eight_questions_are_asked_at_once(over: Over) {
    let busy = Arc::<Busy>::default();
    let mut stage = Stage::with(Host::builder().asker(busy.clone()), over, Era::Legacy, "request-flood=2000").await;
    patient(&mut stage.spec);
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    let most = busy.most.load(Ordering::Relaxed);
    assert!((1..=8).contains(&most), "{most} at once");
    stage.finish().await;
}

#[tokio::test]
async fn at_most_eight_questions_are_asked_at_once_over_stdio() {
    at_most_eight_questions_are_asked_at_once(Over::Stdio).await;
}

#[tokio::test]
async fn at_most_eight_questions_are_asked_at_once_over_http() {
    at_most_eight_questions_are_asked_at_once(Over::Http).await;
}

/// A modern server may ask for more input again and again, but the host ends the call after ten rounds.
async fn input_rounds_end_after_ten(over: Over, mode: &str) {
    let busy = Arc::<Busy>::default();
    let mut stage =
        Stage::with(Host::builder().asker(busy.clone()), over, Era::Modern, "endless-input --fault-times 100").await;
    stage.requests_per_call = 11;
    stage.start().await;
    let (code, words) = stage.call("elicit", json!({"mode": mode})).await.failure();
    assert_eq!(code, "PROTOCOL_ERROR", "{words}");
    assert!(words.contains("10"), "{words}");
    assert!(busy.asked.load(Ordering::Relaxed) <= 10);
    stage.finish().await;
}

#[tokio::test]
async fn input_rounds_end_after_ten_over_stdio() {
    input_rounds_end_after_ten(Over::Stdio, "form").await;
}

#[tokio::test]
async fn input_rounds_end_after_ten_over_http() {
    input_rounds_end_after_ten(Over::Http, "form").await;
}

#[tokio::test]
async fn input_rounds_without_a_question_end_after_ten() {
    input_rounds_end_after_ten(Over::Stdio, "state-only").await;
}
