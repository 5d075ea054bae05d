//! The events that a watcher gets.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use toolrack_host::{CallEnd, DefaultEffect, Era, Event, Host, Policy, ServerSpec, mcp::Progress};

use crate::{
    scripted::{Reaction, Scripted, progress, text_result, tool},
    worlds::{call, catalog_has, events_so_far, fake, host_of, settle, status, text, to_call, world},
};

/// The events of calls, a word each, with the call's number.
fn of_calls(event: &Event) -> Option<(u64, String)> {
    Some(match event {
        Event::ToolStarted { call, tool, .. } => (call.number, format!("started {tool}")),
        Event::ToolProgress { call, progress, .. } => (call.number, format!("progress {progress}")),
        Event::ToolCompleted { call, outcome, .. } => (call.number, format!("completed {outcome:?}")),
        Event::ToolDenied { call, .. } => (call.number, "denied".to_owned()),
        _ => return None,
    })
}

fn words(words: &[(u64, &str)]) -> Vec<(u64, String)> {
    words.iter().map(|(call, word)| (*call, (*word).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_starts_reports_and_ends_in_this_order() {
    let server = Scripted::calling(|name, _| match name {
        "fails" => Reaction::Answer(json!({"content": [], "isError": true})),
        "refuses" => Reaction::Refuse(-32000),
        _ => Reaction::After(Duration::from_secs(1), text_result("done")),
    });
    let server = server.with_tools(["slow", "fails", "refuses"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    let mut events = host.events();
    let talk = async {
        let called = server.hears_of("tools/call").await;
        server.say(progress(&called["params"], 1));
    };
    let (slow, ()) = tokio::join!(call(&host, "server/slow", json!({})), talk);
    slow.unwrap();
    call(&host, "server/fails", json!({})).await.unwrap();
    call(&host, "server/refuses", json!({})).await.unwrap_err();
    let expected = words(&[
        (1, "started slow"),
        (1, "progress 1"),
        (1, "completed Ok"),
        (2, "started fails"),
        (2, "completed ToolError"),
        (3, "started refuses"),
        (3, "completed Failed"),
    ]);
    assert_eq!(events_so_far(&mut events, of_calls), expected);
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_of_progress_the_caller_hears_all_and_a_watcher_one_in_a_tenth_of_a_second() {
    let server = Scripted::calling(|_, _| Reaction::After(Duration::from_secs(1), text_result("done")));
    let server = server.with_tools(["slow"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    let mut events = host.events();
    let (tell, heard) = std::sync::mpsc::channel();
    let on_progress = Arc::new(move |progress: Progress| tell.send(progress.progress).unwrap());
    let flooded = host.call(to_call("server/slow", json!({})).on_progress(on_progress));
    let talk = async {
        let called = server.hears_of("tools/call").await;
        (1..=5).for_each(|step| server.say(progress(&called["params"], step)));
        sleep(Duration::from_millis(150)).await;
        (6..=7).for_each(|step| server.say(progress(&called["params"], step)));
    };
    let (answer, ()) = tokio::join!(flooded, talk);
    answer.unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let expected = [(1, "started slow"), (1, "progress 1"), (1, "progress 6"), (1, "completed Ok")];
    assert_eq!(events_so_far(&mut events, of_calls), words(&expected));
}

#[tokio::test(start_paused = true)]
async fn only_a_protocol_error_answering_a_call_is_reported_as_the_server_s_error() {
    let server = Scripted::calling(|name, _| match name {
        "refuses" => Reaction::Refuse(-32603),
        "garbles" => Reaction::Answer(json!({"content": "none"})),
        "fails" => Reaction::Answer(json!({"content": [], "isError": true})),
        _ => Reaction::Silence,
    })
    .with_tools(["refuses", "garbles", "fails", "hangs"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    let mut events = host.events();
    for name in ["refuses", "garbles", "fails", "hangs"] {
        let _ = call(&host, &format!("server/{name}"), json!({})).await;
    }
    let errors = events_so_far(&mut events, |event| match event {
        Event::McpServerError { server, call, .. } => Some((server.to_string(), call.as_ref().map(|call| call.number))),
        _ => None,
    });
    assert_eq!(errors, [("server".to_owned(), Some(1)), ("server".to_owned(), Some(2))]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_ends_as_cancelled() {
    let host = host_of([("server", Scripted::calling(|_, _| Reaction::Silence).spec())]).await;
    let mut events = host.events();
    let given_up = timeout(Duration::from_secs(1), call(&host, "server/echo", json!({}))).await;
    assert!(given_up.is_err());
    let ends = events_so_far(&mut events, |event| match event {
        Event::ToolCompleted { outcome, duration, .. } => Some((*outcome, duration.as_secs())),
        _ => None,
    });
    assert_eq!(ends, [(CallEnd::Cancelled, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_a_server_connect_change_and_disappear() {
    let server = Scripted::plain();
    let host = Host::builder().build();
    let mut events = host.events();
    let life = |event: &Event| {
        let written = serde_json::to_value(event).unwrap();
        let detail = written.get("state").and_then(|state| state.get("state").or(Some(state))).cloned();
        Some((written["event"].as_str().unwrap().to_owned(), detail.unwrap_or(Value::Null)))
    };
    settle(&host, world([("server", server.spec())])).await;
    let connected = events_so_far(&mut events, life);
    let names: Vec<_> = connected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["mcp_server_state", "mcp_server_connected", "mcp_tools_updated"], "{connected:?}");

    server.set_tools([tool("new")]);
    server.say_changed();
    catalog_has(&host, "server/new", true).await;
    let updates = events_so_far(&mut events, |event| match event {
        Event::McpToolsUpdated { tools, .. } => Some(tools.clone()),
        _ => None,
    });
    assert_eq!(updates, [["mcp__server__new"]], "one change is reported once");

    settle(&host, world([])).await;
    host.shutdown().await;
    let gone = events_so_far(&mut events, |event| match event {
        Event::McpServerDisconnected { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(gone, [None]);
}

#[tokio::test(start_paused = true)]
async fn qb_21_events_of_servers_are_written_with_the_names_and_fields_of_qbit() {
    let server = Scripted::plain();
    let host = Host::builder().build();
    let mut events = host.events();
    settle(&host, world([("server", server.spec()), ("bad", ServerSpec::stdio("/no/such/program", [""; 0]))])).await;
    host.shutdown().await;
    let written = events_so_far(&mut events, |event| Some(serde_json::to_value(event).unwrap()));
    let of = |name: &str, server: &str| {
        let found = written.iter().find(|event| event["event"] == name && event["server_name"] == server);
        let found = found.unwrap_or_else(|| panic!("{name}: {written:?}")).clone();
        assert_eq!(found["server"], server, "as in all other events");
        found
    };
    assert_eq!(of("mcp_server_connected", "server")["tool_count"], 1);
    assert_eq!(of("mcp_tools_updated", "server")["tools"], json!(["mcp__server__echo"]));
    assert_eq!(of("mcp_server_disconnected", "server")["reason"], Value::Null);
    assert!(of("mcp_server_error", "bad")["error"].as_str().unwrap().contains("no such file"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_reported_once_and_a_change_of_tools_does_not_count_as_a_new_one() {
    let server = Scripted::plain();
    let host = Host::builder().build();
    let mut events = host.events();
    settle(&host, world([("server", server.spec())])).await;
    server.set_tools([tool("echo"), tool("new")]);
    server.say_changed();
    catalog_has(&host, "server/new", true).await;
    let connected = events_so_far(&mut events, |event| matches!(event, Event::McpServerConnected { .. }).then_some(()));
    assert_eq!(connected.len(), 1);
}

#[tokio::test]
async fn stderr_and_log_messages_of_a_server_are_passed_on_escaped() {
    let host = Host::builder().build();
    let mut events = host.events();
    settle(&host, world([("fake", fake(&["--fault", "escape-text"]))])).await;
    text(&host, "fake/flood", json!({"n": 3})).await;
    let error = call(&host, "fake/crash", json!({"code": 3})).await.unwrap_err();
    assert_eq!(error.code(), "SERVER_EXITED");
    assert!(error.to_string().contains("exit status 3"), "{error}");
    assert!(error.to_string().contains("about to crash, as told"), "its last words: {error}");
    let stderr = crate::worlds::event(&mut events, |event| match event {
        Event::McpServerStderr { line, .. } => Some(line.clone()),
        _ => None,
    });
    assert!(stderr.await.contains("about to crash"));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_log_messages_is_cut_counted_and_harmless() {
    let server = Scripted::plain();
    let host = host_of([("server", server.spec())]).await;
    let mut events = host.events();
    for _ in 0..20 {
        for n in 0..50 {
            let params = json!({"level": "info", "data": format!("message {n} \u{1b}[2J")});
            server.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
        }
        // Wait for the reader after each fifty messages, so that none is lost on the way.
        text(&host, "server/echo", json!({})).await;
    }
    let messages = events_so_far(&mut events, |event| match event {
        Event::McpServerLog { message, .. } => Some(message.clone()),
        _ => None,
    });
    assert_eq!(messages.len(), 100, "as many as fit into a second");
    assert!(messages.iter().all(|message| !message.contains('\u{1b}')));
}

/// All callers watch the same events: one server's flood must not wash away the end of another's call.
#[tokio::test(start_paused = true)]
async fn a_flood_of_progress_washes_nothing_away() {
    let flooding = Scripted::new(Era::Legacy, |method, params| {
        let flood = || (1..=5_000).map(|step| progress(params, step)).collect();
        (method == "tools/call").then(|| Reaction::Tell(flood(), text_result("done")))
    });
    let host = host_of([("flooding", flooding.spec()), ("steady", Scripted::plain().spec())]).await;
    let mut events = host.events();
    text(&host, "steady/echo", json!({})).await;
    text(&host, "flooding/echo", json!({})).await;
    let watched = events_so_far(&mut events, of_calls);
    let ends: Vec<_> = watched.iter().filter(|(_, word)| word.starts_with("completed")).collect();
    assert_eq!(ends.len(), 2);
}

/// Names of tools come from servers, and a name can be anything.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_tool_cannot_act_on_a_terminal() {
    let evil = "wipe\u{1b}[2J\u{202e}";
    let server = Scripted::plain().with_tools([tool(evil), tool(evil)]);
    let rules = Policy::new(DefaultEffect::Deny);
    let host = Host::builder().gate(Arc::new(rules)).build();
    let mut events = host.events();
    settle(&host, world([("server", server.spec())])).await;
    let warnings = events_so_far(&mut events, |event| match event {
        Event::McpServerWarning { warning, .. } => Some(warning.clone()),
        _ => None,
    });
    let selector = host.catalog().tools().next().unwrap().name.clone();
    let denied = call(&host, &selector, json!({})).await.unwrap_err().to_string();
    let why = host.why(&selector).to_string();
    let shown = [warnings.concat(), denied, why, status(&host, "server").warnings.concat()];
    let unsafe_ones: Vec<_> = shown.iter().filter(|text| text.contains(['\u{1b}', '\u{202e}'])).collect();
    assert!(unsafe_ones.is_empty(), "{unsafe_ones:#?}");
}
