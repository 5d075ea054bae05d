//! What monitors of daemons get.

use std::{
    io::{Error, ErrorKind},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use toolrack_testkit::{Home, fake_server_path};

use crate::up::{DaemonOptions, Up, fake, servers};

async fn ready(up: &Up) -> (u16, Value) {
    // Without a token: monitors have none.
    let response = up.client.get(format!("{}/ready", up.url)).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn until_ready(up: &Up) {
    up.eventually("it is ready", async || (ready(up).await.0 == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_is_ready_and_serves_clients_once_its_configuration_is_applied() {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&[]))]));
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let before_applying = move || {
        // Answer one request, and then close the connection.
        let _ = tokio::task::block_in_place(|| gate.lock().unwrap().recv());
    };
    let up =
        Up::begun(home, DaemonOptions { before_applying: Arc::new(before_applying), ..DaemonOptions::default() }).await;
    let mut early = JoinSet::new();
    early.spawn(up.request(Method::GET, "/api/v1/overview").send());
    let starting = json!({ "status": "starting", "reason": "the configuration has not been applied yet" });
    assert_eq!(ready(&up).await, (503, starting));
    let health: Value = up.client.get(format!("{}/health", up.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(health, json!({ "status": "ok", "reason": null }), "it is alive all the same");
    drop(go);
    until_ready(&up).await;
    let early: Value = early.join_next().await.unwrap().unwrap().unwrap().json().await.unwrap();
    let seen: u64 = early["servers"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(seen, 1, "it was answered from a world that was still empty: {early}");
    up.down().await;
}

#[tokio::test]
async fn a_server_that_is_still_being_started_is_counted_and_not_named() {
    let up = Up::begun(
        {
            let home = Home::new();
            home.write(
                "toolrack/mcp.json",
                servers(&[("secretive", json!({ "command": "/bin/sleep", "args": ["60"] }))]),
            );
            home
        },
        DaemonOptions::default(),
    )
    .await;
    up.until("secretive", "connecting").await;
    assert_eq!(ready(&up).await, (503, json!({ "status": "starting", "reason": "1 server is being started" })));
    assert_eq!(up.post("/api/v1/servers/secretive/disconnect", json!({})).await.0, 202);
    until_ready(&up).await;
    let states = up.get("/api/v1/overview").await;
    assert_eq!(states["servers"], json!({ "disconnected": 1 }), "held by a person, and not switched off");
    let page = up.get("/metrics").await;
    let line = "toolrack_server_state{server=\"secretive\",state=\"disconnected\"} 1";
    assert!(page.as_str().unwrap().contains(line), "{page}");
    up.down().await;
}

#[tokio::test]
async fn the_daemon_stays_ready_while_a_server_reconnects() {
    let home = Home::new();
    let (server, marker) = (fake_server_path(), home.root().join("has-run"));
    // Its second process never says a word.
    let script = "[ -e \"$1\" ] && exec /bin/sleep 60; : > \"$1\"; exec \"$0\" stdio --era both";
    let entry = json!({ "command": "/bin/sh", "args": ["-c", script, server, marker] });
    home.write("toolrack/mcp.json", servers(&[("twice", entry)]));
    let up = Up::of(home).await;
    up.until("twice", "connected").await;
    assert_eq!(up.post("/api/v1/servers/twice/reconnect", json!({})).await.0, 202);
    up.until("twice", "connecting").await;
    assert_eq!(ready(&up).await, (200, json!({ "status": "ok", "reason": null })));
    assert_eq!(up.post("/api/v1/servers/twice/disconnect", json!({})).await.0, 202);
    up.down().await;
}

#[tokio::test]
async fn a_first_configuration_that_cannot_be_used_is_reported_and_the_daemon_is_ready() {
    let home = Home::new();
    home.write("toolrack/mcp.json", "{ oops");
    let up = Up::begun(home, DaemonOptions::default()).await;
    until_ready(&up).await;
    let listed = up.get("/api/v1/servers").await;
    assert_eq!((&listed["servers"], &listed["problems"][0]["severity"]), (&json!([]), &json!("error")), "{listed}");
    up.down().await;
}

/// A daemon with a call under way, which takes some seconds.
async fn with_slow_call(options: DaemonOptions, seconds: u64) -> (Up, JoinSet<reqwest::Result<reqwest::Response>>) {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&[]))]));
    let up = Up::started(home, options).await;
    up.until("fake", "connected").await;
    let mut events = up.events(None).await;
    let mut slow = JoinSet::new();
    let call = json!({ "tool": "fake/sleep", "arguments": { "ms": seconds * 1_000 }, "approved": true });
    slow.spawn(up.request(Method::POST, "/api/v1/calls").json(&call).send());
    events.wait("tool_started").await;
    (up, slow)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_drains_serves_on_and_then_answers_only_checks_until_its_calls_have_ended() {
    let [drain, grace] = [1, 60].map(Duration::from_secs);
    let (up, mut slow) = with_slow_call(DaemonOptions { drain, grace, ..DaemonOptions::default() }, 4).await;
    let status = async |path: &str| {
        let response = up.client.get(format!("{}{path}", up.url)).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(status("/health").await.0, 200);

    up.begin_to_end();
    let ending = up.eventually("balancers are told", async || {
        let (status, body) = status("/health").await;
        (status == 404).then_some(body)
    });
    assert_eq!(ending.await["status"], "ending");
    assert_eq!(status("/ready").await.0, 503);
    let quick = json!({ "tool": "fake/echo", "arguments": { "text": "hi" }, "approved": true });
    let refused = up.eventually("nothing new is accepted", async || {
        let response = up.request(Method::POST, "/api/v1/calls").json(&quick).send().await.ok()?;
        (response.status() != 200).then_some(response)
    });
    let refused = refused.await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["connection"], "close", "the client looks for another daemon");
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["code"], "ENDING");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("it was not carried out"), "{refused}");
    assert_eq!(status("/health").await.0, 404, "it still answers checks");
    let answer = slow.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_a_drain_refuses_connections_at_once() {
    let options = DaemonOptions { grace: Duration::from_secs(60), ..DaemonOptions::default() };
    let (up, mut slow) = with_slow_call(options, 3).await;
    up.begin_to_end();
    let address = up.url.trim_start_matches("http://").to_owned();
    let until_refused = async {
        // A connection that is opened at the moment when the daemon ends may be reset instead.
        let is_refused = |error: Error| error.kind() == ErrorKind::ConnectionRefused;
        while !TcpStream::connect(&address).await.is_err_and(is_refused) {}
    };
    timeout(Duration::from_secs(30), until_refused).await.expect("connections are refused");
    assert_eq!(slow.join_next().await.unwrap().unwrap().unwrap().status(), 200);
    up.down().await;
}
