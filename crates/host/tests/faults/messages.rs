//! The observer sees each message on the wire, in both directions, over every transport and in both eras.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolrack_host::{Direction, Era, Host, OnMessage};

use crate::stage::{FAULTY, Over, Stage};

type Seen = Arc<Mutex<Vec<(Direction, String)>>>;

/// Records the messages of the faulty server, but not those of the healthy one.
fn observer(seen: &Seen) -> OnMessage {
    let seen = Arc::clone(seen);
    Arc::new(move |message| {
        if message.server.as_str() == FAULTY {
            let text = String::from_utf8_lossy(message.bytes).into_owned();
            seen.lock().unwrap().push((message.direction, text));
        }
    })
}

/// The messages of this direction.
fn of(seen: &Seen, direction: Direction) -> Vec<Value> {
    let seen = seen.lock().unwrap();
    let texts = seen.iter().filter(|(way, _)| *way == direction);
    texts.filter_map(|(_, text)| serde_json::from_str(text).ok()).collect()
}

async fn everything_is_seen(over: Over, era: Era) {
    let seen = Seen::default();
    let stage = Stage::with(Host::builder().on_message(observer(&seen)), over, era, "").await;
    stage.start().await;
    assert_eq!(stage.call("echo", json!({"text": "hello there"})).await.text(), "hello there");
    let sent = of(&seen, Direction::Sent);
    let asked = sent.iter().find(|message| message["params"]["arguments"]["text"] == "hello there");
    let id = &asked.unwrap_or_else(|| panic!("the call was not seen: {sent:?}"))["id"];
    let received = of(&seen, Direction::Received);
    let answers: Vec<_> = received.iter().filter(|message| message["id"] == *id).collect();
    assert_eq!(answers.len(), 1, "{received:?}");
    assert_eq!(answers[0]["result"]["content"][0]["text"], "hello there");
    let first = if era == Era::Legacy { "initialize" } else { "server/discover" };
    assert_eq!(sent.iter().filter(|message| message["method"] == first).count(), 1, "{sent:?}");
    stage.finish().await;
}

#[tokio::test]
async fn every_message_over_stdio_is_seen() {
    everything_is_seen(Over::Stdio, Era::Legacy).await;
    everything_is_seen(Over::Stdio, Era::Modern).await;
}

#[tokio::test]
async fn every_message_over_http_is_seen() {
    everything_is_seen(Over::Http, Era::Legacy).await;
    everything_is_seen(Over::Http, Era::Modern).await;
}

#[tokio::test]
async fn every_message_over_legacy_sse_is_seen() {
    everything_is_seen(Over::Sse, Era::Legacy).await;
}

#[tokio::test]
async fn a_line_that_is_not_a_message_is_seen_too() {
    let seen = Seen::default();
    let stage = Stage::with(Host::builder().on_message(observer(&seen)), Over::Stdio, Era::Legacy, "banner").await;
    stage.start().await;
    let lines = seen.lock().unwrap().clone();
    let is_noise = |line: &(Direction, String)| line.0 == Direction::Received && !line.1.starts_with('{');
    assert!(lines.iter().any(is_noise), "{lines:?}");
    stage.finish().await;
}

#[tokio::test]
async fn a_panic_of_an_observer_ends_no_connection() {
    let panics: OnMessage = Arc::new(|_| panic!("on purpose"));
    for over in [Over::Stdio, Over::Http] {
        let stage = Stage::with(Host::builder().on_message(Arc::clone(&panics)), over, Era::Modern, "").await;
        stage.start().await;
        assert_eq!(stage.call("echo", json!({"text": "still here"})).await.text(), "still here");
        stage.finish().await;
    }
}
