//! Who is let in, and what is said to nonsense.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use toolrack_testkit::Home;

use crate::up::{LONG, Up, Ways, fake};

#[tokio::test]
async fn nobody_is_answered_without_the_token_the_right_host_and_the_right_origin() {
    let up = Up::with(&[]).await;
    let plain = |path: &str| up.client.get(format!("{}{path}", up.url));
    assert_eq!(plain("/api/v1/servers").send().await.unwrap().status(), 401);
    assert_eq!(plain("/metrics").send().await.unwrap().status(), 401);
    assert_eq!(plain("/health").send().await.unwrap().status(), 200);
    let foreign = plain("/api/v1/servers").bearer_auth("key").header("origin", "https://evil.example");
    assert_eq!(foreign.send().await.unwrap().status(), 403);
    let rebound = plain("/health").header("host", "evil.example");
    assert_eq!(rebound.send().await.unwrap().status(), 403);
    up.down().await;
}

#[tokio::test]
async fn connections_that_say_nothing_keep_nobody_out_for_long() {
    let silence = Duration::from_secs(1);
    let up = Up::begun(Home::new(), Ways { connections: (4, silence), ..Ways::default() }).await;
    let address = up.url.strip_prefix("http://").unwrap();
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // One has begun a request that never goes on.
    silent[0].write_all(b"GET /health HTTP/1.1\r\nHost: ").await.unwrap();
    assert!(up.get("/api/v1/overview").await.is_object(), "somebody is let in");
    let mut said = Vec::new();
    for stream in &mut silent[..4] {
        timeout(LONG, stream.read_to_end(&mut said)).await.expect("it is ended").unwrap();
    }
    up.down().await;
}

#[tokio::test]
async fn nonsense_is_answered_with_an_error_in_json() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let body = |body: &str| {
        up.request(Method::POST, "/api/v1/calls").header("content-type", "application/json").body(body.to_owned())
    };
    for (request, status) in [
        (body("{"), 400),
        (body("{\"tool\": 3}"), 400),
        (body("{\"tool\": \"fake/echo\", \"nonsense\": 1}"), 400),
        (body(&format!("{{\"tool\": \"{}\"}}", "x".repeat(5 * 1024 * 1024))), 413),
        (up.request(Method::POST, "/api/v1/calls").body("{}"), 415),
        (up.request(Method::PATCH, "/api/v1/calls"), 405),
        (up.request(Method::GET, "/api/v1/nothing"), 404),
        (up.request(Method::GET, "/api/v1/tools?limit=many"), 400),
        (up.request(Method::GET, "/api/v1/servers/%ff"), 400),
        (up.request(Method::GET, "/api/v1/servers/nobody"), 404),
        (up.request(Method::POST, "/api/v1/approvals/q99").json(&json!({ "answer": "once" })), 404),
        (up.request(Method::GET, "/api/v1/sessions/nobody"), 404),
    ] {
        let response = request.send().await.unwrap();
        let (url, found) = (response.url().clone(), response.status());
        let error: serde_json::Value = response.json().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(found, status, "{url}: {error}");
        assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{error}");
    }
    up.down().await;
}

#[tokio::test]
async fn whoever_was_away_reads_on_where_they_stopped() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut events = up.events(None).await;
    up.call("fake/echo", json!({ "text": "1" })).await;
    let seen = events.wait("tool_completed").await.0.unwrap();
    drop(events);
    up.call("fake/add", json!({ "a": 1, "b": 2 })).await;
    let mut events = up.events(Some(&seen)).await;
    let (next, started) = events.wait("tool_started").await;
    let number = |id: &str| id.rsplit_once('-').unwrap().1.parse::<u64>().unwrap();
    assert_eq!((number(&next.unwrap()), &started["tool"]), (number(&seen) + 1, &json!("add")));
    up.down().await;
}

#[tokio::test]
async fn whoever_saw_another_run_is_told_at_once_that_something_was_missed() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut events = up.events(Some("0")).await;
    let (first, name, _) = events.next().await.unwrap();
    assert_ne!(name, "missed", "all that is kept was asked for");
    let up = Up::of(up.down().await).await;
    up.until("fake", "connected").await;
    let mut events = up.events(first.as_deref()).await;
    assert_eq!(events.next().await.unwrap().1, "missed");
    let (now, _, _) = events.next().await.unwrap();
    assert_ne!(now, first, "the events of this run follow, from the first");
    up.down().await;
}

#[tokio::test]
async fn the_description_is_the_one_that_is_published() {
    let up = Up::with(&[]).await;
    let served = up.client.get(format!("{}/openapi.json", up.url)).send().await.unwrap().text().await.unwrap();
    let published = include_str!("../../../../docs/openapi.json");
    assert_eq!(served.trim(), published.trim(), "docs/openapi.json is old: write what /openapi.json says there");
    up.down().await;
}
