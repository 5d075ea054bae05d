//! What monitors of daemons get.

use std::sync::{Arc, Mutex, mpsc};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolrack_testkit::Home;

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
async fn a_first_configuration_that_cannot_be_used_is_reported_and_the_daemon_is_ready() {
    let home = Home::new();
    home.write("toolrack/mcp.json", "{ oops");
    let up = Up::begun(home, DaemonOptions::default()).await;
    until_ready(&up).await;
    let listed = up.get("/api/v1/servers").await;
    assert_eq!((&listed["servers"], &listed["problems"][0]["severity"]), (&json!([]), &json!("error")), "{listed}");
    up.down().await;
}
