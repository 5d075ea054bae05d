//! The reasons why a request fails, each with its status and stable code.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use toolrack_testkit::Home;

use crate::up::{DaemonOptions, Up, fake, project, servers};

/// A request, and the status and the code of the error that answers it.
type Row<'a> = (Method, &'a str, Value, u16, &'a str);

async fn all_are_refused(up: &Up, rows: &[Row<'_>]) {
    for (method, path, body, status, code) in rows {
        let sent = (!body.is_null()).then(|| body.clone());
        let (found, error) = up.send(method.clone(), path, sent).await;
        let what = format!("{method} {path} {body}: {found} {error}");
        assert_eq!((found.as_u16(), &error["error"]["code"]), (*status, &json!(code)), "{what}");
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why_at_every_address_that_would_use_it() {
    let entry = |more: Value| {
        let mut entry = json!({ "url": "http://127.0.0.1:1/mcp" });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let up = Up::with(&[
        ("fake", fake(&[])),
        ("off", json!({ "command": "x", "enabled": false })),
        ("broken", json!({ "args": ["x"] })),
        ("dead", fake(&["--fault", "exit-at-start"])),
        ("keyed", entry(json!({ "headers": { "authorization": "Bearer of-the-entry" }, "enabled": true }))),
        ("web", entry(json!({}))),
    ])
    .await;
    let (get, post) = (Method::GET, Method::POST);
    for (server, status, code) in
        [("off", 409, "SERVER_DISABLED"), ("broken", 409, "BROKEN_ENTRY"), ("none", 404, "UNKNOWN_SERVER")]
    {
        let at = |below: &str| format!("/api/v1/servers/{server}/{below}");
        let (connect, reconnect, sign_in) = (at("connect"), at("reconnect"), at("sign-in"));
        let rows =
            [&connect, &reconnect, &sign_in].map(|path| (post.clone(), path.as_str(), Value::Null, status, code));
        all_are_refused(&up, &rows).await;
        let named = (post.clone(), "/api/agents/mcp/reconnect", json!({ "server": server }), status, code);
        all_are_refused(&up, &[named]).await;
    }
    for (server, status, code) in
        [("off", 409, "SERVER_DISABLED"), ("dead", 424, "SERVER_EXITED"), ("none", 404, "UNKNOWN_SERVER")]
    {
        let at = |below: &str| format!("/api/v1/servers/{server}/{below}");
        let (resources, read, prompts, prompt) =
            (at("resources"), at("resources/read"), at("prompts"), at("prompts/get"));
        all_are_refused(
            &up,
            &[
                (get.clone(), &resources, Value::Null, status, code),
                (post.clone(), &read, json!({ "uri": "fake://note" }), status, code),
                (get.clone(), &prompts, Value::Null, status, code),
                (post.clone(), &prompt, json!({ "name": "greet" }), status, code),
            ],
        )
        .await;
    }
    all_are_refused(
        &up,
        &[
            (post.clone(), "/api/v1/servers/fake/sign-in", Value::Null, 409, "NO_SIGN_IN"),
            (post.clone(), "/api/v1/servers/keyed/sign-in", Value::Null, 409, "NO_SIGN_IN"),
            (post.clone(), "/api/v1/servers/web/sign-in", Value::Null, 502, "SIGN_IN_UNKNOWN"),
            (get.clone(), "/api/v1/servers/fake/sign-in", Value::Null, 404, "NOT_FOUND"),
            (post.clone(), "/api/v1/servers/fake/sign-in/address", json!({ "address": "x" }), 404, "NOT_FOUND"),
            (post.clone(), "/api/v1/calls", json!({ "tool": "dead/echo", "approved": true }), 424, "SERVER_EXITED"),
            (post.clone(), "/api/v1/calls", json!({ "tool": "none/echo", "approved": true }), 404, "UNKNOWN_TOOL"),
            (get.clone(), "/api/v1/tools/off/echo", Value::Null, 404, "NOT_FOUND"),
            (get.clone(), "/api/v1/tools?server=none", Value::Null, 404, "UNKNOWN_SERVER"),
        ],
    )
    .await;
    let failed = up.get("/api/v1/servers/web/sign-in").await;
    assert_eq!(failed["state"], "failed", "how it ended can be asked afterwards: {failed}");
    for server in ["off", "broken", "dead", "keyed", "web"] {
        let (status, tested) = up.post(&format!("/api/v1/servers/{server}/test"), json!({})).await;
        assert_eq!((status.as_u16(), &tested["ok"], &tested["server"]), (200, &json!(false), &json!(server)));
        let steps = tested["steps"].as_array().unwrap();
        assert!(steps.last().is_some_and(|last| last["ok"] == false), "the way ends where it fails: {tested}");
    }
    up.down().await;
}

#[tokio::test]
async fn the_status_of_a_failed_call_depends_on_where_it_failed() {
    let up = Up::with(&[("fake", fake(&[])), ("mute", fake(&["--fault", "no-answer"]))]).await;
    up.until("mute", "connected").await;
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments, "approved": true, "timeout_ms": 200 });
    let post = Method::POST;
    all_are_refused(
        &up,
        &[
            (post.clone(), "/api/v1/calls", call("mute/echo", json!({ "text": "x" })), 424, "TIMED_OUT"),
            (post.clone(), "/api/v1/calls", call("fake/crash", json!({})), 424, "SERVER_EXITED"),
        ],
    )
    .await;
    up.until("fake", "connected").await;
    all_are_refused(
        &up,
        &[
            (post.clone(), "/api/v1/servers/fake/resources/read", json!({ "uri": "fake://none" }), 422, "RPC_ERROR"),
            (post.clone(), "/api/v1/servers/fake/prompts/get", json!({ "name": "none" }), 422, "RPC_ERROR"),
            (Method::DELETE, "/api/v1/calls/none", Value::Null, 404, "NOT_FOUND"),
            (Method::DELETE, "/api/v1/turns/none", Value::Null, 404, "NOT_FOUND"),
        ],
    )
    .await;
    up.down().await;
}

#[tokio::test]
async fn a_failed_change_says_why_and_changes_no_file() {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("mine", fake(&[])), ("twice", fake(&[]))]));
    project(&home, &[("theirs", fake(&[])), ("twice", fake(&[]))]);
    let up = Up::of(home).await;
    let files = || [up.file(), up.home.read("work/.mcp.json")];
    let before = files();
    let new = |name: &str| json!({ "name": name, "entry": fake(&[]) });
    let hash = "0".repeat(64);
    let place = up.get("/api/v1/trust").await["pending"][0]["project"].clone();
    let shown = |project: &Value, name: &str| json!({ "project": project, "name": name, "hash": hash });
    let (post, delete, put) = (Method::POST, Method::DELETE, Method::PUT);
    all_are_refused(
        &up,
        &[
            (post.clone(), "/api/v1/servers", new("mine"), 409, "EXISTS"),
            (post.clone(), "/api/v1/servers", new("a name\nof two lines"), 422, "INVALID_ENTRY"),
            (delete.clone(), "/api/v1/servers/twice", Value::Null, 409, "NOT_EDITABLE"),
            (put, "/api/v1/servers/twice", json!({ "entry": fake(&[]) }), 409, "NOT_EDITABLE"),
            (delete.clone(), "/api/v1/servers/none", Value::Null, 404, "UNKNOWN_SERVER"),
            (delete, "/api/v1/servers/none?dry_run=true", Value::Null, 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/servers/none/enable", Value::Null, 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/servers/none/disable", Value::Null, 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/servers/none/disconnect", Value::Null, 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/trust/approve", shown(&place, "none"), 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/trust/approve", shown(&json!("/elsewhere"), "theirs"), 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/trust/approve", shown(&place, "mine"), 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/trust/approve", shown(&place, "theirs"), 409, "CHANGED"),
            (post.clone(), "/api/v1/trust/refuse", shown(&json!("/elsewhere"), "theirs"), 404, "UNKNOWN_SERVER"),
            (post.clone(), "/api/v1/trust/refuse", shown(&place, "theirs"), 409, "CHANGED"),
            (post.clone(), "/api/v1/trust/revoke", json!({ "project": place, "name": "theirs" }), 404, "NOT_FOUND"),
            (
                post.clone(),
                "/api/v1/trust/tools/approve",
                json!({ "server": "mine", "tool": "echo", "hash": hash }),
                404,
                "NOT_FOUND",
            ),
        ],
    )
    .await;
    assert_eq!(files(), before);

    // A file with an error is rejected as a whole.
    up.save("{ \"mcpServers\": { oops");
    all_are_refused(
        &up,
        &[
            (post.clone(), "/api/v1/config/reload", Value::Null, 409, "CONFIG_REJECTED"),
            (post, "/api/v1/servers", new("other"), 409, "NOT_EDITABLE"),
        ],
    )
    .await;
    assert_eq!(up.get("/api/v1/servers/mine").await["name"], "mine", "what was there goes on");
    assert_eq!(up.file(), "{ \"mcpServers\": { oops");
    up.down().await;
}

#[tokio::test]
async fn a_daemon_without_its_database_still_calls_tools_and_names_what_it_cannot_do() {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&[]))]));
    project(&home, &[("theirs", fake(&[]))]);
    let up = Up::started(home, DaemonOptions { has_store: false, ..DaemonOptions::default() }).await;
    let (status, outcome) = up.call("fake/echo", json!({ "text": "hello" })).await;
    assert_eq!((status, &outcome["text"]), (StatusCode::OK, &json!("hello")));
    let pending = up.get("/api/v1/trust").await["pending"][0].clone();
    let shown = json!({ "project": pending["project"], "name": "theirs", "hash": pending["hash"] });
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let turn = json!({ "text": "x", "session": "last", "model": "[{\"text\": \"y\"}]" });
    let tool = json!({ "server": "fake", "tool": "echo", "hash": "0" });
    let rows = [
        (get.clone(), "/api/v1/answers", Value::Null),
        (delete.clone(), "/api/v1/answers", Value::Null),
        (get.clone(), "/api/v1/audit", Value::Null),
        (get.clone(), "/api/v1/sessions", Value::Null),
        (get.clone(), "/api/v1/sessions/last", Value::Null),
        (delete, "/api/v1/sessions/last", Value::Null),
        (get.clone(), "/api/v1/sessions/last/export", Value::Null),
        (get, "/api/v1/servers/fake/logs", Value::Null),
        (post.clone(), "/api/v1/trust/approve", shown.clone()),
        (post.clone(), "/api/v1/trust/refuse", shown),
        (post.clone(), "/api/v1/trust/revoke", json!({ "project": "/x", "name": "theirs" })),
        (post.clone(), "/api/v1/trust/tools/approve", tool),
        (post, "/api/v1/turns", turn),
    ];
    all_are_refused(&up, &rows.map(|(method, path, body)| (method, path, body, 409, "NO_DATABASE"))).await;
    assert_eq!(up.get("/api/v1/servers/theirs").await["state"], "pending_trust", "nothing runs without an agreement");
    up.down().await;
}
