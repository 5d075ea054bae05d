//! Bounds on what a server can make this host do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::{Instant, timeout},
};
use toolrack_host::{Era, Event, Host, Native, ServerSpec};

use crate::{
    askers::Person,
    scripted::{Reaction, Scripted, text_result, tool},
    worlds::{call, event, events_so_far, selectors, settle, state_is, status, world},
};

const FORM: &str = "elicitation/create";

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"message": message, "requestedSchema": schema})
}

async fn up(host: &Host, server: &Scripted) {
    settle(host, world([("server", server.spec())])).await;
}

#[tokio::test]
async fn a_list_is_bounded_in_bytes_and_the_error_names_the_bound() {
    // More than one message may have, and less.
    for (limit, pages_read) in [(8 << 20, 8), (2 << 20, 2)] {
        let pages = Arc::new(AtomicUsize::new(0));
        let text = "x".repeat(1 << 20);
        let counted = pages.clone();
        let server = Scripted::new(Era::Legacy, move |method, _| {
            let page = || counted.fetch_add(1, Ordering::SeqCst);
            (method == "tools/list").then(page).map(|page| {
                let mut tool = tool(&format!("tool{page}"));
                tool["description"] = json!(text);
                Reaction::Answer(json!({"tools": [tool], "nextCursor": page.to_string()}))
            })
        });
        let mut spec = server.spec();
        (spec.limits.listing_bytes, spec.limits.message_bytes) = (limit, 4 << 20);
        let host = Host::builder().build();
        settle(&host, world([("server", spec)])).await;
        let state = status(&host, "server").state;
        assert_eq!(state.word(), "tools_failed");
        let named = format!("the limit is {limit} (max_list_bytes)");
        assert!(state.error().unwrap().contains(&named), "{:?}", state.error());
        assert_eq!(pages.load(Ordering::SeqCst), pages_read);
        host.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_is_requested_less_and_less_often_and_reported_once() {
    let server = Scripted::new(Era::Legacy, |method, _| (method == "tools/list").then_some(Reaction::Refuse(-32603)));
    let host = Host::builder().build();
    let mut events = host.events();
    up(&host, &server).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let lists = server.count_of("tools/list");
    assert!((10..=20).contains(&lists), "{lists} lists in an hour");
    let errors = events_so_far(&mut events, |event| match event {
        Event::McpServerError { error, .. } => Some(error.clone()),
        _ => None,
    });
    assert_eq!(errors.len(), 1, "{errors:?}");
}

/// A modern server whose tool asks so many questions at once.
fn asking(questions: usize) -> Scripted {
    Scripted::new(Era::Modern, move |method, params| {
        let asked: Map<_, _> = (0..questions)
            .map(|n| (format!("q{n:04}"), json!({"method": FORM, "params": form(&format!("number {n}"))})))
            .collect();
        (method == "tools/call").then(|| {
            Reaction::Answer(match &params["inputResponses"] {
                Value::Null => json!({"resultType": "input_required", "inputRequests": asked}),
                answers => {
                    let mut result = text_result(&answers.as_object().unwrap().len().to_string());
                    result["resultType"] = json!("complete");
                    result
                }
            })
        })
    })
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_one_round_are_bounded_and_the_error_names_the_bound() {
    let (server, person) = (asking(1_000), Person::eager().shared());
    let host = Host::builder().asker(person.clone()).build();
    up(&host, &server).await;
    let error = call(&host, "server/echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("1000 questions at once") && error.contains("100"), "{error}");
    assert_eq!(person.asked().len(), 0, "the user is not asked a part of it");
}

#[tokio::test(start_paused = true)]
async fn the_user_gets_a_few_questions_of_a_round_at_a_time() {
    let server = asking(30);
    let person = Person { takes: Duration::from_secs(1), ..Person::eager() }.shared();
    let host = Host::builder().asker(person.clone()).build();
    up(&host, &server).await;
    let mut open = person.open.subscribe();
    let most = async {
        let mut most = 0;
        while open.changed().await.is_ok() {
            most = most.max(*open.borrow_and_update());
            if person.asked().len() == 30 && *open.borrow() == 0 {
                break;
            }
        }
        most
    };
    let (outcome, most) = tokio::join!(call(&host, "server/echo", json!({})), most);
    assert_eq!(outcome.unwrap().text, "30");
    assert!((1..=8).contains(&most), "{most} at once");
}

/// Each question stops the clocks of the calls in flight.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_again_and_again_keeps_no_call_for_ever() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let person = Person { takes: Duration::from_secs(86_400), ..Person::eager() }.shared();
    let host = Host::builder().asker(person).build();
    up(&host, &server).await;
    let asks = async {
        server.hears_of("tools/call").await;
        for id in 0.. {
            server.say(json!({"jsonrpc": "2.0", "id": id, "method": FORM, "params": form("And now?")}));
            tokio::time::sleep(Duration::from_secs(9 * 60)).await;
        }
    };
    let start = Instant::now();
    let called = timeout(Duration::from_secs(86_400), call(&host, "server/echo", json!({})));
    let outcome = tokio::select! { outcome = called => outcome, () = asks => unreachable!() };
    let error = outcome.expect("it never ends").unwrap_err();
    assert_eq!(error.code(), "TIMED_OUT", "{error}");
    assert!(start.elapsed() < Duration::from_secs(3_600), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_that_logs_a_lot_is_still_heard_when_its_lists_change() {
    let server = Scripted::calling(|_, _| {
        let say = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        let log = say("notifications/message", json!({"level": "info", "data": "still here"}));
        let mut messages = vec![log; 200];
        // The first is reported at once, the last a moment later, together with those in between.
        messages.extend(vec![say("notifications/prompts/list_changed", json!({})); 50]);
        messages.push(say("notifications/resources/list_changed", json!({})));
        Reaction::Tell(messages, text_result("done"))
    });
    let host = Host::builder().build();
    up(&host, &server).await;
    let mut events = host.events();
    call(&host, "server/echo", json!({})).await.unwrap();
    let prompts = |event: &Event| matches!(event, Event::McpPromptsChanged { .. }).then_some(());
    event(&mut events, prompts).await;
    event(&mut events, |event| matches!(event, Event::McpResourcesChanged { .. }).then_some(())).await;
    event(&mut events, prompts).await;
    host.shutdown().await;
}

#[tokio::test]
async fn thousands_of_unusable_tools_are_reported_briefly_and_once() {
    let broken = (0..2_000).map(|n| json!({"name": format!("broken{n}"), "inputSchema": 7}));
    let broken: Vec<_> = broken.collect();
    let with = |name: &str| broken.iter().cloned().chain([tool(name)]).collect::<Vec<_>>();
    let server = Scripted::plain().with_tools(with("tool0"));
    let host = Host::builder().build();
    let mut events = host.events();
    up(&host, &server).await;
    for n in 1..=5 {
        server.set_tools(with(&format!("tool{n}")));
        server.say_changed();
        crate::worlds::catalog_has(&host, &format!("server/tool{n}"), true).await;
    }
    let warnings = crate::worlds::events_so_far(&mut events, |event| match event {
        Event::McpServerWarning { warning, .. } => Some(warning.clone()),
        _ => None,
    });
    let of_tools: Vec<_> = warnings.iter().filter(|warning| warning.contains("cannot be used")).collect();
    assert_eq!(of_tools.len(), 21, "{of_tools:#?}");
    assert_eq!(of_tools[20], "1980 more tools cannot be used");
    assert_eq!(status(&host, "server").warnings.len(), 2_000, "all of them are in the status");
    state_is(&host, "server", "connected").await;
    host.shutdown().await;
}

/// `server.tool` may be split at any point of a name, and every similar name is a candidate.
#[tokio::test]
async fn a_name_that_no_tool_can_have_is_unknown_at_once() {
    let tools = (0..1_000).map(|n| tool(&format!("tool{n}"))).chain([tool(&".".repeat(200))]);
    let server = Scripted::plain().with_tools(tools);
    let host = Host::builder().build();
    up(&host, &server).await;
    for selector in [".".repeat(1_000_000), "x".repeat(1_000_000), ".".repeat(2_000), "server/x".repeat(200)] {
        let started = std::time::Instant::now();
        let unknown = host.catalog().select(&selector).unwrap_err();
        let error = call(&host, &selector, json!({})).await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(unknown.suggestions.is_empty() && unknown.to_string().len() < 1_000, "{unknown}");
        assert!(error.to_string().len() < 1_000, "{error}");
    }
    assert!(host.catalog().select(&format!("server.{}", ".".repeat(200))).is_ok());
    host.shutdown().await;
}

/// A schema with this many nested objects.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}))
}

#[tokio::test]
async fn a_tool_that_nests_too_deep_is_set_aside_alone_and_named() {
    let with = |name: &str, levels| json!({"name": name, "inputSchema": nested(levels)});
    let server = Scripted::plain().with_tools([tool("echo"), with("thirty", 30), with("forty", 40)]);
    let mut spec = server.spec();
    let host = Host::builder().build();
    settle(&host, world([("server", spec.clone())])).await;
    assert_eq!(selectors(&host), ["server/echo", "server/thirty"]);
    let warnings = status(&host, "server").warnings.join("\n");
    assert!(warnings.contains("forty") && warnings.contains("64 levels in it (max_schema_depth)"), "{warnings}");
    spec.limits.schema_depth = 90;
    settle(&host, world([("server", spec)])).await;
    assert_eq!(selectors(&host), ["server/echo", "server/forty", "server/thirty"]);
    host.shutdown().await;
}

/// Bytes that are not UTF-8 make the host drop only the member that contains them, here a description, not the list.
#[tokio::test]
async fn a_description_that_is_not_utf8_takes_no_tool_away() {
    let mut spec = ServerSpec::native(Native::new("latin", |io, _| async move {
        let (read, mut write) = tokio::io::split(io);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = message.get("id") else { continue };
            let mut answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"#).into_bytes();
            answer.extend_from_slice(match message["method"].as_str() {
                Some("initialize") => {
                    br#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}}"#
                }
                Some("tools/list") => {
                    b"\"result\":{\"tools\":[{\"name\":\"good\",\"inputSchema\":{}},\
                      {\"name\":\"bad\",\"description\":\"caf\xe9\",\"inputSchema\":{}}]}}"
                }
                _ => br#""error":{"code":-32601,"message":"no such method"}}"#,
            });
            answer.push(b'\n');
            write.write_all(&answer).await.unwrap();
        }
    }));
    spec.retry.attempts = 0;
    let host = Host::builder().build();
    settle(&host, world([("server", spec)])).await;
    assert_eq!(selectors(&host), ["server/bad", "server/good"], "{:?}", status(&host, "server"));
    host.shutdown().await;
}
