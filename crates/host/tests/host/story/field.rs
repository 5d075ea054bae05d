//! Bugs of other hosts, from their changelogs, that no other test covers.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolrack_host::{Content, Era, ToolFilter};

use crate::{
    scripted::{Reaction, Scripted, progress, tool},
    worlds::{call, catalog_has, host_of, selectors, state_is, to_call},
};

/// A legacy server with a script that offers resources and prompts as well.
fn offering(script: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Scripted {
    Scripted::new(Era::Legacy, move |method, params| {
        let greeting = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        });
        let answer = if method == "initialize" { Some(greeting) } else { script(method, params) };
        answer.map(Reaction::Answer)
    })
}

#[tokio::test(start_paused = true)]
async fn every_page_of_every_list_is_read() {
    let server = offering(|method, params| {
        let page = match params["cursor"].as_str() {
            None => 1,
            Some(cursor) => cursor.parse::<u32>().unwrap() + 1,
        };
        let (list, item) = match method {
            "tools/list" => ("tools", tool(&format!("tool-{page}"))),
            "resources/list" => ("resources", json!({"uri": format!("x://{page}"), "name": "x"})),
            "resources/templates/list" => {
                ("resourceTemplates", json!({"uriTemplate": format!("x://{page}/{{y}}"), "name": "x"}))
            }
            "prompts/list" => ("prompts", json!({"name": format!("prompt-{page}")})),
            _ => return None,
        };
        let mut answer = json!({list: [item]});
        if page < 3 {
            answer["nextCursor"] = json!(page.to_string());
        }
        Some(answer)
    });
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(selectors(&host), ["server/tool-1", "server/tool-2", "server/tool-3"]);
    assert_eq!(host.resources("server").await.unwrap().len(), 3);
    assert_eq!(host.resource_templates("server").await.unwrap().len(), 3);
    assert_eq!(host.prompts("server").await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn progress_of_one_call_keeps_no_other_call_alive() {
    let server = Scripted::new(Era::Legacy, |method, params| match (method, params["name"].as_str()) {
        ("tools/call", Some("silent")) => Some(Reaction::Silence),
        ("tools/call", _) => Some(Reaction::Tell(vec![progress(params, 1)], json!({"content": []}))),
        _ => None,
    });
    let server = server.with_tools([tool("silent"), tool("chatty")]);
    let host = host_of([("server", server.spec())]).await;
    let start = Instant::now();
    let silent = call(&host, "server/silent", json!({}));
    let chatter = async {
        loop {
            call(&host, "server/chatty", json!({})).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    let error = tokio::select! {
        silent = silent => silent.unwrap_err(),
        () = chatter => unreachable!("it chatters forever"),
    };
    assert_eq!((error.code(), start.elapsed().as_secs()), ("TIMED_OUT", 60));
}

#[tokio::test(start_paused = true)]
async fn a_picture_beside_structured_content_is_kept() {
    let picture = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
    let server = Scripted::calling(move |_, _| {
        Reaction::Answer(json!({
            "content": [{"type": "text", "text": "{\"n\":1}"}, picture], "structuredContent": {"n": 1},
        }))
    });
    let host = host_of([("server", server.spec())]).await;
    let outcome = call(&host, "server/echo", json!({})).await.unwrap();
    assert_eq!(outcome.structured, Some(json!({"n": 1})));
    assert!(matches!(&outcome.content[..], [Content::Text { .. }, Content::Image { .. }]), "{:?}", outcome.content);
}

#[tokio::test(start_paused = true)]
async fn every_part_of_an_error_is_shown() {
    let part = |text: &str| json!({"type": "text", "text": text});
    let result = json!({"content": [part("first"), part("second"), part("third")], "isError": true});
    let server = Scripted::calling(move |_, _| Reaction::Answer(result.clone()));
    let host = host_of([("server", server.spec())]).await;
    let outcome = call(&host, "server/echo", json!({})).await.unwrap();
    assert!(outcome.is_error);
    assert_eq!(outcome.text, "first\nsecond\nthird");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_means_something_to_a_language_is_a_name() {
    let names = ["constructor", "__proto__", "toString", "hasOwnProperty", "null", "self", "0", "-"];
    let server = Scripted::plain().with_tools(names.map(tool));
    let host = host_of([("constructor", server.spec())]).await;
    for name in names {
        let selector = format!("constructor/{name}");
        let outcome = call(&host, &selector, json!({"constructor": 1, "__proto__": {"a": 1}})).await;
        assert_eq!(outcome.unwrap().tool, name);
        let visible = host.catalog().select(&selector).unwrap().name.clone();
        assert_eq!(host.catalog().get(&visible).unwrap().selector(), selector);
    }
    let sent = &server.seen_of("tools/call")[0]["params"]["arguments"];
    assert_eq!(*sent, json!({"constructor": 1, "__proto__": {"a": 1}}));
}

#[tokio::test(start_paused = true)]
async fn a_hidden_tool_stays_hidden_by_every_name_and_after_every_change() {
    let tools = || ["read", "delete", "delete-all", "delete_all", "undelete"].map(tool);
    let server = Scripted::calling(|name, _| match name {
        "read" => Reaction::HangUp,
        _ => Reaction::Answer(json!({"content": []})),
    })
    .with_tools(tools());
    let mut spec = server.spec();
    spec.tools = ToolFilter::new(&[], &["delete", "delete-all"].map(String::from)).unwrap();
    let host = host_of([("server", spec)]).await;
    let visible = ["server/delete_all", "server/read", "server/undelete"];
    let sorted = || {
        let mut selectors = selectors(&host);
        selectors.sort();
        selectors
    };
    // A pattern matches a whole name: it hides neither longer names nor similar ones.
    assert_eq!(sorted(), visible);
    let pinned = host.catalog();
    for name in ["server/delete", "server.delete", "mcp__server__delete", "server/delete-all"] {
        let error = host.call(to_call(name, json!({})).in_catalog(pinned.clone())).await.unwrap_err();
        assert_eq!(error.code(), "UNKNOWN_TOOL", "{name}");
    }

    server.set_tools(tools().into_iter().chain([tool("more")]));
    server.say_changed();
    catalog_has(&host, "server/more", true).await;
    assert!(!sorted().contains(&"server/delete".to_owned()));

    // The server hangs up, and the host connects it again.
    call(&host, "server/read", json!({})).await.unwrap_err();
    state_is(&host, "server", "connected").await;
    assert!(!sorted().contains(&"server/delete".to_owned()));
    assert_eq!(call(&host, "server/delete", json!({})).await.unwrap_err().code(), "UNKNOWN_TOOL");
    assert!(server.seen_of("tools/call").iter().all(|call| call["params"]["name"] == "read"));
}
