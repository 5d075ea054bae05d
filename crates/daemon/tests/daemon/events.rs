//! The events of a daemon, for clients that come, go, and are slow.

use futures::{StreamExt as _, stream};
use reqwest::Method;
use serde_json::{Value, json};

use crate::up::{Events, Up, fake};

fn number(id: Option<&str>) -> u64 {
    id.unwrap().rsplit_once('-').unwrap().1.parse().unwrap()
}

/// Reads events until one has this name.
async fn numbers_until(events: &mut Events, last: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let (id, name, _) = events.next().await.expect("the stream goes on");
        numbers.push(number(id.as_deref()));
        if name == last {
            return numbers;
        }
    }
}

#[tokio::test]
async fn events_have_numbers_without_a_gap_and_all_readers_see_the_same_ones() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut readers = [up.events(None).await, up.events(None).await, up.events(Some("0")).await];
    stream::iter(0..20)
        .for_each_concurrent(8, async |_| drop(up.call("fake/echo", json!({ "text": "x" })).await))
        .await;
    assert_eq!(up.post("/api/v1/servers/fake/disconnect", json!({})).await.0, 202);
    let mut seen = Vec::new();
    for reader in &mut readers {
        seen.push(numbers_until(reader, "mcp_server_disconnected").await);
    }
    assert!(seen[0].len() > 40, "{seen:?}");
    for numbers in &seen {
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[2].ends_with(&seen[0]) && seen[2][0] == 1, "`0` asks for all that is kept: {seen:?}");
    up.down().await;
}

#[tokio::test]
async fn a_client_that_was_away_too_long_gets_the_number_of_missed_events_and_continues() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut events = up.events(None).await;
    up.call("fake/echo", json!({ "text": "first" })).await;
    let seen = events.wait("tool_completed").await.0.unwrap();
    drop(events);
    // Each call causes two events, and the daemon keeps a thousand events.
    let calls = stream::iter(0..600).map(|_| up.call("fake/echo", json!({ "text": "x" })));
    assert!(calls.buffer_unordered(16).all(async |(status, _)| status == 200).await);
    let mut events = up.events(Some(&seen)).await;
    let (id, name, missed) = events.next().await.unwrap();
    assert_eq!((name.as_str(), id.as_deref()), ("missed", None), "it is not an event of the log");
    let count = missed["count"].as_u64().unwrap();
    let (first, _, _) = events.next().await.unwrap();
    assert_eq!(number(first.as_deref()), number(Some(&seen)) + count + 1);
    assert!((200..=300).contains(&count), "{count}");
    up.down().await;
}

#[tokio::test]
async fn an_unknown_event_id_gets_a_missed_event_and_no_error() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    up.until("fake", "connected").await;
    for odd in ["", "-", "1", "x-1", "00000000-1", "0-0", "18446744073709551616", "-1", "\u{e4}", "a-b-c"] {
        let request = up.request(Method::GET, "/api/v1/events").header("last-event-id", odd.as_bytes());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{odd}");
        let mut events = Events::of(response);
        let (_, name, data) = events.next().await.unwrap();
        assert_eq!((name.as_str(), &data), ("missed", &json!({ "count": 0 })), "{odd}");
        assert_eq!(number(events.next().await.unwrap().0.as_deref()), 1, "{odd}");
    }
    up.down().await;
}

#[tokio::test]
async fn an_event_is_in_the_form_that_is_described() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    up.until("fake", "connected").await;
    let response = up.request(Method::GET, "/api/v1/events").header("last-event-id", "0").send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let mut events = Events::of(response);
    let (_, connected) = events.wait("mcp_server_connected").await;
    assert_eq!((&connected["server"], &connected["server_name"]), (&json!("fake"), &json!("fake")), "{connected}");
    assert!(connected["tool_count"].as_u64().is_some_and(|count| count > 10), "{connected}");
    let at = connected["at"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.len() == "2026-11-22T03:11:28.000Z".len(), "{at}");
    assert_eq!(connected.get("event"), None, "its name stands outside of the data");
    let described = serde_json::from_str::<Value>(&toolrack_daemon::openapi()).unwrap();
    let words = described["paths"]["/api/v1/events"]["get"]["description"].as_str().unwrap().to_owned();
    let (tools, calls) = (events.wait("mcp_tools_updated"), up.call("fake/fail", json!({ "message": "no" })));
    let ((_, tools), _) = futures::join!(tools, calls);
    assert!(tools["tools"].as_array().unwrap().contains(&json!("mcp__fake__echo")), "{tools}");
    let (_, started) = events.wait("tool_started").await;
    let (_, completed) = events.wait("tool_completed").await;
    assert_eq!(started["call"], completed["call"]);
    assert_eq!((&completed["tool"], &completed["outcome"]), (&json!("fail"), &json!("tool_error")), "{completed}");
    assert!(completed["duration_ms"].is_number(), "{completed}");
    for name in ["mcp_server_connected", "mcp_tools_updated", "tool_started", "tool_completed"] {
        assert!(words.contains(&format!("`{name}`")), "{name}");
    }
    up.down().await;
}
