//! Progressive discovery: a model that sees three tools and uses all of them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use toolrack_host::{
    BlockKind, CallEnd, Event, Gate, GateRequest, Host, NameCap, NameStyle, Pattern, Selection, ServerSpec, ToolFilter,
    Verdict, Wire,
};

use crate::{
    scripted::{Reaction, Scripted, text_result, tool},
    worlds::{call, events_so_far, name, settle, soon, text, to_call, world},
};

fn documented(name: &str, about: &str, argument: &str) -> Value {
    json!({
        "name": name,
        "description": about,
        "inputSchema": {
            "type": "object",
            "properties": { "note": { "type": "string" }, argument: { "type": "string" } },
            "required": [argument],
        },
    })
}

fn farm() -> Scripted {
    let react = |name: &str, arguments: &Value| Reaction::Answer(text_result(&format!("{name} {arguments}")));
    Scripted::calling(react).with_tools([
        documented("count_sheep", "Counts the sheep in a field.", "field"),
        documented("milk_cow", "Milks one cow.", "cow"),
        tool("feed"),
    ])
}

/// A host with a server with many tools, and the discovery of them.
async fn host_with(host: Host, selection: Selection) -> Host {
    let discovery = host.discovery(&name("discovery"), selection);
    settle(&host, world([("farm", farm().spec()), ("discovery", discovery)])).await;
    host
}

async fn discovered() -> Host {
    host_with(Host::builder().build(), Selection::all()).await
}

#[tokio::test(start_paused = true)]
async fn a_model_searches_reads_and_calls() {
    let host = discovered().await;
    let found = text(&host, "discovery/search_tools", json!({"query": "how many sheep are there"})).await;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        found["tools"][0],
        json!({
            "name": "mcp__farm__count_sheep", "server": "farm", "description": "Counts the sheep in a field.",
            "arguments": ["field", "note?"],
        })
    );
    let details = text(&host, "discovery/get_tool_details", json!({"name": "mcp__farm__count_sheep"})).await;
    let details: Value = serde_json::from_str(&details).unwrap();
    assert_eq!(details["input_schema"]["required"], json!(["field"]));
    let wanted = json!({"name": "mcp__farm__count_sheep", "arguments": {"field": "north"}});
    assert_eq!(text(&host, "discovery/call_tool", wanted).await, r#"count_sheep {"field":"north"}"#);
}

#[tokio::test(start_paused = true)]
async fn the_gate_and_the_events_know_only_the_tool_itself() {
    struct OnlyMilk;
    impl Gate for OnlyMilk {
        fn judge(&self, request: &GateRequest<'_>) -> Verdict {
            match (request.server.as_str(), request.tool, request.arguments.contains_key("cow")) {
                ("farm", "milk_cow", true) => Verdict::allow("milk"),
                (server, tool, _) => Verdict::Deny { why: format!("not {server}/{tool}") },
            }
        }
    }
    let host = host_with(Host::builder().gate(Arc::new(OnlyMilk)).build(), Selection::all()).await;
    let mut events = host.events();
    let milk = json!({"name": "farm/milk_cow", "arguments": {"cow": "Elsa"}});
    assert_eq!(text(&host, "mcp__discovery__call_tool", milk).await, r#"milk_cow {"cow":"Elsa"}"#);
    let feed = json!({"name": "farm/feed", "arguments": {}});
    let denied = call(&host, "mcp__discovery__call_tool", feed).await.unwrap_err();
    assert_eq!(denied.to_string(), "the call of farm/feed was not allowed: not farm/feed");
    let events_of_calls = events_so_far(&mut events, |event| match event {
        Event::ToolStarted { server, tool, .. } => Some(format!("started {server}/{tool}")),
        Event::ToolDenied { server, tool, .. } => Some(format!("denied {server}/{tool}")),
        Event::ToolCompleted { server, tool, outcome: CallEnd::Ok, .. } => Some(format!("done {server}/{tool}")),
        _ => None,
    });
    assert_eq!(events_of_calls, ["started farm/milk_cow", "done farm/milk_cow", "denied farm/feed"]);
}

#[tokio::test(start_paused = true)]
async fn progress_of_the_tool_reaches_the_caller() {
    let server = Scripted::new(toolrack_host::Era::Legacy, |method, params| {
        let tell = || Reaction::Tell(vec![crate::scripted::progress(params, 1)], text_result("grown"));
        (method == "tools/call").then(tell)
    });
    let host = Host::builder().build();
    let discovery = host.discovery(&name("discovery"), Selection::all());
    settle(&host, world([("field", server.spec()), ("discovery", discovery)])).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let grow = to_call("discovery/call_tool", json!({"name": "field/echo"})).on_progress(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!(soon("the call", host.call(grow)).await.unwrap().text, "grown");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn arguments_come_as_an_object_as_text_or_not_at_all() {
    let host = discovered().await;
    for (arguments, sent) in [
        (json!({"cow": "a"}), r#"{"cow":"a"}"#),
        (json!(r#"{"cow":"a"}"#), r#"{"cow":"a"}"#),
        (json!(null), "{}"),
        (json!(""), "{}"),
    ] {
        let wanted = json!({"name": "farm/milk_cow", "arguments": arguments});
        assert_eq!(text(&host, "discovery/call_tool", wanted).await, format!("milk_cow {sent}"));
    }
    for wrong in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "farm/feed", "arguments": [1]}),
        json!({"name": "farm/feed", "arguments": "{"}),
    ] {
        let outcome = call(&host, "discovery/call_tool", wrong.clone()).await.unwrap();
        assert!(outcome.is_error && outcome.text.contains("`arguments`, an object"), "{wrong}: {}", outcome.text);
    }
}

#[tokio::test(start_paused = true)]
async fn unselected_tools_are_neither_found_nor_called() {
    let without: Pattern = "milk_*".parse().unwrap();
    let host = host_with(Host::builder().build(), Selection::all().without([without])).await;
    let found = text(&host, "discovery/search_tools", json!({"query": "milk the cow", "limit": 20})).await;
    assert!(!found.contains("milk_cow"), "{found}");
    for (tool, arguments) in [
        ("discovery/get_tool_details", json!({"name": "farm/milk_cow"})),
        ("discovery/get_tool_details", json!({"name": "discovery/call_tool"})),
    ] {
        let outcome = call(&host, tool, arguments).await.unwrap();
        assert!(outcome.is_error && outcome.text.contains("no tool is called"), "{}", outcome.text);
    }
    for name in ["farm/milk_cow", "discovery/call_tool", "discovery/search_tools", "nowhere/nothing"] {
        let error = call(&host, "discovery/call_tool", json!({"name": name})).await.unwrap_err();
        assert_eq!(error.code(), "UNKNOWN_TOOL", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_can_be_limited_to_a_server_and_lists_servers_if_it_finds_nothing() {
    let host = discovered().await;
    let one = text(&host, "discovery/search_tools", json!({"query": "sheep", "server": "farm", "limit": 1})).await;
    assert!(one.contains("count_sheep"), "{one}");
    let none = text(&host, "discovery/search_tools", json!({"query": "xylophone"})).await;
    assert_eq!(serde_json::from_str::<Value>(&none).unwrap()["servers"], json!(["farm"]));
    let wrong = call(&host, "discovery/search_tools", json!({"query": "sheep", "server": "zoo\u{1b}"})).await.unwrap();
    assert!(wrong.is_error && wrong.text == r"there is no server zoo\u{1b}; there are farm", "{}", wrong.text);
    assert!(call(&host, "discovery/search_tools", json!({"query": " "})).await.unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_pinned_catalog_calls_the_tools_of_that_catalog() {
    let server = farm();
    let host = Host::builder().build();
    let discovery = host.discovery(&name("discovery"), Selection::all());
    settle(&host, world([("farm", server.spec()), ("discovery", discovery)])).await;
    let pinned = host.catalog();
    server.set_tools([tool("feed")]);
    server.say_changed();
    crate::worlds::catalog_has(&host, "farm/milk_cow", false).await;
    let wanted = || to_call("discovery/call_tool", json!({"name": "farm/milk_cow"}));
    assert_eq!(host.call(wanted()).await.unwrap_err().code(), "UNKNOWN_TOOL");
    assert_eq!(host.call(wanted().in_catalog(pinned)).await.unwrap().text, "milk_cow {}");
}

/// The definitions stay the same whatever the servers do, so that a provider's prompt cache holds.
#[tokio::test(start_paused = true)]
async fn the_tools_that_the_model_sees_never_change() {
    let server = farm();
    let host = Host::builder().build();
    let discovery = host.discovery(&name("discovery"), Selection::all());
    settle(&host, world([("farm", server.spec()), ("discovery", discovery)])).await;
    let kind = BlockKind::new(Wire::Anthropic).selection(Selection::all().of_servers([name("discovery")]));
    let before = host.catalog().block(&kind);
    let names: Vec<_> = before.tools().iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        ["mcp__discovery__call_tool", "mcp__discovery__get_tool_details", "mcp__discovery__search_tools"]
    );
    assert!((200..=500).contains(&before.tokens()), "the budget knows what it costs: {}", before.tokens());
    server.set_tools([tool("new")]);
    server.say_changed();
    crate::worlds::catalog_has(&host, "farm/new", true).await;
    assert_eq!(host.catalog().block(&kind).bytes(), before.bytes());
}

#[tokio::test]
async fn discovery_does_not_keep_its_host_alive() {
    let host = discovered().await;
    let mut events = host.events();
    drop(host);
    let closed =
        async { while !matches!(events.recv().await, Err(tokio::sync::broadcast::error::RecvError::Closed)) {} };
    soon("the end of the events", closed).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_called_so_but_is_another_is_only_itself() {
    let host = Host::builder().build();
    let impostor = Scripted::calling(|name, _| Reaction::Answer(text_result(name))).with_tools([tool("call_tool")]);
    let mut spec: ServerSpec = impostor.spec();
    spec.tools = ToolFilter::all();
    settle(&host, world([("discovery", spec), ("farm", farm().spec())])).await;
    assert_eq!(text(&host, "discovery/call_tool", json!({"name": "farm/feed"})).await, "call_tool");
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_another_server_with_the_name_of_one_of_the_three_shares_it_with_none() {
    let host = Host::builder().naming((NameStyle::Tool, NameCap::Chars64)).build();
    let other = Scripted::plain().with_tools([tool("call_tool"), tool("feed")]);
    settle(&host, world([("other", other.spec())])).await;
    let host = host.with_discovery(&name("discovery"), Selection::all()).await;
    let catalog = host.catalog();
    let mut names: Vec<_> = catalog.tools().map(|tool| tool.name.as_str()).collect();
    names.dedup();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(catalog.get("call_tool").is_none(), "both have a suffix: {names:?}");
    assert_eq!(catalog.select("discovery/call_tool").unwrap().server, name("discovery"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_also_ends_a_discovery_that_is_still_in_use() {
    let host = Host::builder().build();
    settle(&host, world([("farm", farm().spec())])).await;
    let with_discovery = host.with_discovery(&name("discovery"), Selection::all()).await;
    let began = tokio::time::Instant::now();
    host.shutdown().await;
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    drop(with_discovery);
}
