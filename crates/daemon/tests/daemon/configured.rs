use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::json;
use toolrack_testkit::EffectLog;

use crate::up::{Up, fake};

#[tokio::test]
async fn a_server_is_added_with_a_plain_secret_edited_switched_and_removed_without_the_secret_leaving_the_file() {
    let up = Up::with(&[]).await;
    let mut entry = fake(&[]);
    entry["env"] = json!({ "API_KEY": "hunter2-hunter2" });
    let (status, dry) =
        up.post("/api/v1/servers", json!({ "name": "a", "entry": entry, "plain": true, "dry_run": true })).await;
    assert_eq!((status.as_u16(), up.file().contains("hunter2")), (200, false));
    let (status, edited) = up.post("/api/v1/servers", json!({ "name": "a", "entry": entry, "plain": true })).await;
    assert_eq!((status.as_u16(), up.vault.count()), (201, 0));
    assert_eq!((status.as_u16(), &edited["diff"]), (201, &dry["diff"]));
    assert!(!edited.to_string().contains("hunter2") && up.file().contains("hunter2"));
    let server = up.until("a", "connected").await;
    assert!(!server.to_string().contains("hunter2"), "{server}");

    let mut config = server["config"].clone();
    config["env"]["MORE"] = json!("1");
    let revised = up.request(Method::PUT, "/api/v1/servers/a").header("if-match", "\"stale\"");
    assert_eq!(revised.json(&json!({ "entry": config })).send().await.unwrap().status(), 412);
    let tag = format!("\"{}\"", server["version"].as_str().unwrap());
    let revised = up.request(Method::PUT, "/api/v1/servers/a").header("if-match", tag);
    assert_eq!(revised.json(&json!({ "entry": config })).send().await.unwrap().status(), 200);
    assert!(up.file().contains("hunter2") && up.file().contains("MORE"), "{}", up.file());
    let (_, outcome) = up.call("a/env", json!({ "name": "API_KEY" })).await;
    assert!(!outcome.to_string().contains("hunter2"), "a result shows a secret: {outcome}");

    assert_eq!(up.post("/api/v1/servers/a/disable", json!({})).await.0, 200);
    up.until("a", "disabled").await;
    assert_eq!(up.post("/api/v1/servers/a/enable", json!({})).await.0, 200);
    up.until("a", "connected").await;
    assert_eq!(up.send(Method::DELETE, "/api/v1/servers/a", None).await.0, 200);
    assert_eq!(up.send(Method::GET, "/api/v1/servers/a", None).await.0, 404);
    assert!(!up.file().contains("hunter2"));
    up.down().await;
}

#[tokio::test]
async fn the_secrets_of_a_new_server_are_stored_and_its_file_names_them() {
    let up = Up::with(&[]).await;
    let mut entry = fake(&[]);
    entry["env"] = json!({ "API_KEY": "hunter2-hunter2", "PLAIN": "shown" });
    let secrets = json!([{ "what": "API_KEY", "name": "a.API_KEY" }]);
    let (status, dry) = up.post("/api/v1/servers", json!({ "name": "a", "entry": entry, "dry_run": true })).await;
    assert_eq!((status.as_u16(), &dry["secrets"], up.vault.count()), (200, &secrets, 0), "{dry}");
    let (status, edited) = up.post("/api/v1/servers", json!({ "name": "a", "entry": entry })).await;
    assert_eq!((status.as_u16(), &edited["secrets"], &edited["diff"]), (201, &secrets, &dry["diff"]));
    let file = up.file();
    assert!(file.contains("${secret:a.API_KEY}") && file.contains("shown") && !file.contains("hunter2"), "{file}");
    assert_eq!(up.vault.value("a.API_KEY").as_deref(), Some("hunter2-hunter2"));
    up.until("a", "connected").await;
    let (_, outcome) = up.call("a/env", json!({ "name": "API_KEY" })).await;
    assert!(outcome.to_string().contains("***") && !outcome.to_string().contains("hunter2"), "{outcome}");

    let (status, taken) = up.post("/api/v1/servers", json!({ "name": "a", "entry": entry })).await;
    assert_eq!((status.as_u16(), &taken["error"]["code"], up.vault.count()), (409, &json!("EXISTS"), 1));
    up.vault.refuses.store(true, Ordering::SeqCst);
    let (status, refused) = up.post("/api/v1/servers", json!({ "name": "b", "entry": entry })).await;
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (409, &json!("SECRETS")), "{refused}");
    assert_eq!(up.file(), file, "an entry whose secret is not stored is not written");
    up.down().await;
}

#[tokio::test]
async fn disconnecting_changes_no_file_and_lasts_until_the_user_connects() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let before = up.file();
    assert_eq!(up.post("/api/v1/servers/fake/disconnect", json!({})).await.0, 202);
    up.until("fake", "disconnected").await;
    assert_eq!(up.post("/api/v1/config/reload", json!({})).await.0, 204);
    up.until("fake", "disconnected").await;
    assert_eq!(up.post("/api/v1/servers/fake/connect", json!({})).await.0, 202);
    up.until("fake", "connected").await;
    assert_eq!(up.file(), before);
    up.down().await;
}

#[tokio::test]
async fn a_server_that_was_disconnected_and_removed_runs_when_it_is_added_again() {
    let up = Up::with(&[("x", fake(&[]))]).await;
    assert_eq!(up.post("/api/v1/servers/x/disconnect", json!({})).await.0, 202);
    up.until("x", "disconnected").await;
    assert_eq!(up.send(Method::DELETE, "/api/v1/servers/x", None).await.0, 200);
    assert_eq!(up.post("/api/v1/servers", json!({ "name": "x", "entry": fake(&[]) })).await.0, 201);
    up.until("x", "connected").await;
    up.down().await;
}

#[tokio::test]
async fn an_entry_that_cannot_work_is_refused_before_anything_is_written() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let before = up.file();
    let hidden = json!({ "command": "x", "args": ["--api-key", "***"] });
    for (entry, status) in [(json!({}), 422), (json!({ "command": 3 }), 422), (json!("x"), 422), (hidden, 422)] {
        assert_eq!(up.post("/api/v1/servers", json!({ "name": "b", "entry": entry })).await.0, status, "{entry}");
    }
    let (_, refused) = up.post("/api/v1/servers", json!({ "name": "b", "entry": { "comand": "x" } })).await;
    assert!(refused["error"]["hint"].as_str().unwrap().contains("did you mean `command`?"), "{refused}");
    assert_eq!(up.post("/api/v1/servers", json!({ "name": "fake", "entry": fake(&[]) })).await.0, 409);
    assert_eq!(up.post("/api/v1/servers", json!({ "name": "", "entry": fake(&[]) })).await.0, 422);
    assert_eq!(up.file(), before);
    up.save("{ \"mcpServers\": {\n\"note\": \"a line of the file\" \"x\": 1 } }");
    let (status, refused) = up.post("/api/v1/servers", json!({ "name": "b", "entry": fake(&[]) })).await;
    let error = &refused["error"];
    assert_eq!(status, 409, "{error}");
    assert!(error["hint"].is_string() && !error["message"].as_str().unwrap().contains(['\n', '^']), "{error}");
    up.down().await;
}

#[tokio::test]
async fn files_are_shown_without_secrets_and_texts_are_checked_without_being_stored() {
    let mut entry = fake(&[]);
    entry["env"] = json!({ "API_KEY": "hunter2-hunter2" });
    let up = Up::with(&[("a", entry)]).await;
    let config = up.get("/api/v1/config").await;
    assert!(config.to_string().contains("API_KEY") && !config.to_string().contains("hunter2"), "{config}");
    let (_, checked) = up
        .post("/api/v1/config/validate", json!({ "text": "{ \"mcpServers\": { \"x\": { \"comand\": \"y\" } } }" }))
        .await;
    assert_eq!((&checked["ok"], &checked["servers"]), (&json!(false), &json!(["x"])));
    assert!(checked["problems"].as_array().unwrap().iter().any(|problem| problem["line"] == 1), "{checked}");
    up.down().await;
}

#[tokio::test]
async fn a_server_can_be_tested_and_its_logs_read() {
    let up = Up::with(&[("gone", json!({ "command": "/nonexistent/server" }))]).await;
    let (status, tested) = up.post("/api/v1/servers/gone/test", json!({})).await;
    assert_eq!((status.as_u16(), &tested["ok"]), (200, &json!(false)));
    assert!(tested.to_string().contains("/nonexistent/server"), "{tested}");
    assert_eq!(up.get("/api/v1/servers/gone/logs").await["lines"], json!([]));
    let agents = up.get("/api/agents/mcp").await;
    assert_eq!(agents["servers"][0]["name"], "gone");
    up.down().await;
}

#[tokio::test]
async fn reconnect_affects_only_the_named_server() {
    let (one, other) = (EffectLog::new(), EffectLog::new());
    let up =
        Up::with(&[("one", fake(&["--log", one.path_str()])), ("other", fake(&["--log", other.path_str()]))]).await;
    for name in ["one", "other"] {
        up.until(name, "connected").await;
    }
    // The processes of servers that ran a call.
    let processes = |effects: &EffectLog| effects.read().pids().len();
    let call = async |server: &str| up.call(&format!("{server}/write"), json!({ "path": "a" })).await;
    call("one").await;
    call("other").await;
    assert_eq!((processes(&one), processes(&other)), (1, 1));
    let path = "/api/agents/mcp/reconnect";
    for (asked, at) in [(json!({ "server": "one" }), 2), (json!({ "name": "one" }), 3)] {
        let (status, server) = up.post(path, asked).await;
        assert_eq!((status.as_u16(), &server["name"]), (202, &json!("one")));
        up.eventually("it is started anew", async || {
            call("one").await;
            (processes(&one) == at).then_some(())
        })
        .await;
    }
    let (status, unknown) = up.post(path, json!({ "server": "nobody" })).await;
    assert_eq!((status.as_u16(), &unknown["error"]["code"]), (404, &json!("UNKNOWN_SERVER")));
    for nonsense in [json!({}), json!({ "server": 7 }), json!({ "server": "one", "all": true }), json!("one")] {
        assert_eq!(up.post(path, nonsense.clone()).await.0, 400, "{nonsense}");
    }
    call("one").await;
    call("other").await;
    assert_eq!((processes(&one), processes(&other)), (3, 1), "nothing else was started anew");
    up.down().await;
}
