//! Toolrack's own host as the client of the gateway, in both eras, over HTTP and stdio. A request passes a host, the
//! gateway, another host, and a server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::future::join_all;
use serde_json::json;
use tokio::time::timeout;
use toolrack_config::{Environment, Interpolate, UnsetPolicy};
use toolrack_daemon::gateway::{GatewayOptions, Profiles};
use toolrack_host::{
    Call, Content, Fact, Host, OnProgress, Relay, Selection, ToolProfile, TraceContext, Way, Witness, mcp::Progress,
    spec::Protocol,
};
use toolrack_testkit::EffectLog;

use crate::world::{PATIENCE, Raw, World, call, client, fake, json_of, object, until};

#[tokio::test]
async fn tools_are_listed_and_called_over_every_transport_in_both_eras() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let host = client(spec, None).await;
            let names: Vec<_> = host.catalog().tools().map(|tool| tool.tool().name.clone()).collect();
            assert!(names.contains(&"mcp__fake__echo".to_owned()), "{way}: {names:?} {:?}", host.status());
            assert_eq!(names.len(), world.host.catalog().tools().len(), "{way}");
            let echo = call(&host, "echo", json!({"text": "grüße"})).await.unwrap();
            assert_eq!(echo.content, [Content::Text { text: "grüße".into() }], "{way}");
            let failed = call(&host, "fail", json!({"message": "no"})).await.unwrap();
            assert!(failed.is_error, "{way}");
            let structured = call(&host, "structured", json!({"label": "x"})).await.unwrap();
            assert!(structured.structured.is_some(), "{way}");
            assert!(structured.warnings.is_empty(), "{way}: {:?}", structured.warnings);
            let image = call(&host, "image", json!({})).await.unwrap();
            assert_eq!(image.content.len(), 6, "{way}");
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn errors_of_a_server_are_relayed_with_message_and_data() {
    let world = World::new("--era both").await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        let arguments = json!({"code": -7, "message": "not today"});
        let error = call(&host, "protocol_error", arguments).await.unwrap_err();
        let toolrack_host::CallError::Remote { error, .. } = error else { panic!("{way}: {error}") };
        assert_eq!((error.code, error.message.as_str()), (-7, "not today"), "{way}");
        assert_eq!(error.data, Some(Box::new(json!({"why": "told to"}))), "{way}");
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn the_trace_context_is_passed_to_the_server() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for era in ["legacy", "modern"] {
        let effects = EffectLog::new();
        let world = World::new(&format!("--era {era} --log {} --log-all", effects.path_str())).await;
        for (way, spec) in world.client_entries() {
            let host = client(spec, None).await;
            let trace = TraceContext::new(PARENT).map(|trace| trace.state("a=1").baggage("who=me"));
            let echo = Call::from_map("rack/mcp__fake__echo", object(json!({"text": way}))).trace(trace.clone());
            timeout(PATIENCE, host.call(echo)).await.unwrap().unwrap();
            let uri = "fake://note";
            let read = host.relay("rack", Relay::resource(uri).trace(trace));
            timeout(PATIENCE, read).await.unwrap().unwrap();
            call(&host, "echo", json!({"text": "without"})).await.unwrap();
            let mut seen = effects.read().lines;
            seen.retain(|line| matches!(line["method"].as_str(), Some("tools/call" | "resources/read")));
            let metas: Vec<_> = seen.iter().rev().take(3).map(|line| &line["params"]["_meta"]).collect();
            assert_eq!(metas[0].get("traceparent"), None, "{way}, {era}");
            for meta in &metas[1..] {
                assert_eq!(meta["traceparent"], PARENT, "{way}, {era}");
                assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("a=1"), &json!("who=me")), "{way}, {era}");
            }
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn a_verbatim_result_keeps_fields_that_the_gateway_does_not_know() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let answer = json_of(raw.modern(1, "tools/call", json!({"name": "mcp__fake__image"})).await).await;
    let annotations = &answer["result"]["content"][0]["annotations"];
    assert_eq!(*annotations, json!({"audience": ["user"], "priority": 0.5}), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolrack");
    world.end().await;
}

#[tokio::test]
async fn a_tool_keeps_its_icons_and_other_metadata() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        let listed = json_of(Raw::new(&world).modern(1, "tools/list", json!({})).await).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "mcp__fake__cwd").unwrap();
        assert_eq!(tool["icons"], json!([{"src": "data:,x"}]), "{era}");
        assert_eq!(tool["_meta"], json!({"example.com/shown": true}), "{era}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_reaches_no_client() {
    let secrets = Arc::new(Interpolate::new(Environment::new([("THE_TOKEN", "canary-1")]), UnsetPolicy::Error));
    let mut spec = fake("--era both");
    let toolrack_host::spec::Transport::Stdio(stdio) = &mut spec.transport else { panic!("not stdio") };
    stdio.env.insert("CANARY".into(), "${THE_TOKEN}".into());
    let mut options = GatewayOptions::default();
    options.secrets = Some(secrets.clone());
    let host = Host::builder().resolver(secrets).build();
    let world = World::around(host, [("fake", spec)], options).await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        assert_eq!(call(&host, "env", json!({"name": "CANARY"})).await.unwrap().text, "\"***\"", "{way}");
        let refused = call(&host, "protocol_error", json!({"message": "canary-1"})).await.unwrap_err();
        assert!(refused.to_string().contains("***"), "{way}: {refused}");
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_running_calls_with_an_error() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let raw = Raw::new(&world);
    let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
    let end = async {
        until("the call runs", || effects.read().runs_of("sleep") == 1).await;
        world.gateway.shutdown().await;
    };
    let (response, ()) = tokio::join!(raw.modern(1, "tools/call", params), end);
    assert_eq!(response.status(), 503);
    assert!(json_of(response).await["error"]["message"].as_str().unwrap().contains("shutting down"));
    until("the call is cancelled at the server", || effects.read().cancelled().len() == 1).await;
    assert_eq!(raw.modern(2, "tools/list", json!({})).await.status(), 503);
    world.end().await;
}

#[tokio::test]
async fn a_text_that_is_too_long_is_cut_with_a_note() {
    let world = World::new("").await;
    let raw = Raw::legacy(&world, json!({})).await;
    let params = json!({"name": "mcp__fake__big", "arguments": {"bytes": 300_000}});
    let answer = json_of(raw.post(&crate::world::request(2, "tools/call", params), &[]).await).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.len() <= 200_000, "{}", text.len());
    assert!(text.ends_with("of 300000 bytes are shown]"), "{}", &text[text.len() - 100..]);
    world.end().await;
}

#[tokio::test]
async fn progress_arrives_in_order_and_before_the_result() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let host = client(spec, None).await;
            let reports = Arc::new(Mutex::new(Vec::new()));
            let on_progress: OnProgress = {
                let reports = reports.clone();
                Arc::new(move |report: Progress| reports.lock().unwrap().push(report.progress))
            };
            let sleep = Call::from_map("rack/mcp__fake__sleep", object(json!({"ms": 400, "progress": true})));
            timeout(PATIENCE, host.call(sleep.on_progress(on_progress))).await.unwrap().unwrap();
            assert_eq!(*reports.lock().unwrap(), [100.0, 200.0, 300.0, 400.0], "{era} {way}");
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn a_call_that_the_client_gives_up_is_cancelled_at_the_server() {
    for era in ["legacy", "modern"] {
        let effects = EffectLog::new();
        let world = World::new(&format!("--era {era} --log {}", effects.path_str())).await;
        for (number, (way, spec)) in world.client_entries().into_iter().enumerate() {
            let host = client(spec, None).await;
            let call = host.call(Call::from_map("rack/mcp__fake__sleep", object(json!({"ms": 60_000}))));
            tokio::select! {
                ended = call => panic!("{way}: {ended:?}"),
                () = until("the call runs", || effects.read().runs_of("sleep") == number + 1) => {}
            }
            until(&format!("{era} {way}: cancelled"), || effects.read().cancelled().len() == number + 1).await;
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn each_of_64_calls_at_once_gets_its_own_answer() {
    let world = World::new("--era both").await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        let calls = (0..64).map(async |number| {
            let text = format!("call {number}");
            let outcome = call(&host, "echo", json!({ "text": text })).await.unwrap();
            assert_eq!(outcome.text, text, "{way}");
        });
        join_all(calls).await;
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn clients_are_notified_of_new_tools() {
    let world = World::new("--era both").await;
    for (number, (way, spec)) in world.client_entries().into_iter().enumerate() {
        let host = client(spec, None).await;
        let new = format!("new_{number}");
        call(&host, "tools_changed", json!({ "add": new })).await.unwrap();
        let shown = format!("rack/mcp__fake__{new}");
        until(&format!("{way}: {shown}"), || host.catalog().select(&shown).is_ok()).await;
        host.shutdown().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_that_a_model_can_read() {
    let world = World::new("").await;
    let host = client(world.over_http(Protocol::Modern), None).await;
    let crashed = call(&host, "crash", json!({})).await.unwrap();
    assert!(crashed.is_error);
    assert!(crashed.text.contains("fake"), "{}", crashed.text);
    host.shutdown().await;
    world.end().await;
}

#[tokio::test]
async fn log_messages_are_passed_on_from_the_level_that_was_set() {
    let world = World::new("").await;
    let host = client(world.over_http(Protocol::Legacy), None).await;
    let mut events = host.events();
    call(&host, "flood", json!({"n": 2})).await.unwrap();
    let mut received = Vec::new();
    while received.len() < 2 {
        let event = timeout(PATIENCE, events.recv()).await.expect("log messages").unwrap();
        if let toolrack_host::Event::McpServerLog { level, message, .. } = event {
            received.push((level, message));
        }
    }
    assert_eq!(received, [0, 1].map(|n| ("info".to_owned(), format!("message {n}"))));
    host.shutdown().await;
    world.end().await;
}

/// The names of all tools that a host sees.
fn names(host: &Host) -> Vec<String> {
    host.catalog().tools().map(|tool| tool.tool().name.clone()).collect()
}

/// Profiles with one, `few`, which has the tools `echo` and `add`.
fn few() -> Profiles {
    let only = Selection::all().only(["echo".parse().unwrap(), "add".parse().unwrap()]);
    BTreeMap::from([("few".into(), ToolProfile::new(only))]).into()
}

#[tokio::test]
async fn a_client_sees_and_calls_only_what_it_asked_to_see() {
    let mut options = GatewayOptions::default();
    options.profiles = few();
    let world = World::with([("fake", fake("")), ("other", fake(""))], options).await;
    for (query, expected) in [
        ("tools=fake/echo,fake/a*", vec!["mcp__fake__add", "mcp__fake__echo"]),
        ("profile=few&servers=other", vec!["mcp__other__add", "mcp__other__echo"]),
    ] {
        for protocol in [Protocol::Modern, Protocol::Legacy] {
            let spec = toolrack_host::ServerSpec {
                protocol,
                ..toolrack_host::ServerSpec::http(format!("{}?{query}", world.url))
            };
            let host = client(spec, None).await;
            assert_eq!(names(&host), expected, "{query}");
            host.shutdown().await;
        }
    }
    let raw = Raw::new(&world).at("tools=fake/echo");
    let hidden = json_of(raw.modern(1, "tools/call", json!({"name": "mcp__fake__write"})).await).await;
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
    let unknown = json_of(Raw::new(&world).at("profile=none").modern(1, "tools/list", json!({})).await).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("few"), "{unknown}");
    world.end().await;
}

#[tokio::test]
async fn many_tools_come_in_pages() {
    let mut options = GatewayOptions::default();
    options.bounds.page = 7;
    let world = World::with([("fake", fake("--tools 50"))], options).await;
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        assert_eq!(names(&host).len(), world.host.catalog().tools().len(), "{way}");
        host.shutdown().await;
    }
    let first = json_of(Raw::new(&world).modern(1, "tools/list", json!({})).await).await;
    assert_eq!(first["result"]["tools"].as_array().map(Vec::len), Some(7));
    assert!(first["result"]["nextCursor"].is_string());
    let invented_cursor = json!({"cursor": "page 2"});
    let refused = json_of(Raw::new(&world).modern(1, "tools/list", invented_cursor).await).await;
    assert_eq!(refused["error"]["code"], -32602);
    world.end().await;
}

/// Remembers by which way and from which client each call came.
#[derive(Default)]
struct Callers(Mutex<Vec<(Way, Option<String>)>>);

impl Witness for Callers {
    fn record(&self, fact: Fact) {
        if let Fact::Called(called) = fact {
            let name = called.caller.client_name().map(ToOwned::to_owned);
            self.0.lock().unwrap().push((called.caller.way(), name));
        }
    }
}

#[tokio::test]
async fn a_caller_has_the_name_that_its_client_gave_itself() {
    let callers = Arc::<Callers>::default();
    let host = Host::builder().witness(Arc::<Callers>::clone(&callers)).build();
    let world = World::around(host, [("fake", fake(""))], GatewayOptions::default()).await;
    let mut calls = 0;
    for (_, spec) in world.client_entries() {
        let host = client(spec, None).await;
        call(&host, "echo", json!({"text": "x"})).await.unwrap();
        host.shutdown().await;
        calls += 1;
    }
    let recorded = callers.0.lock().unwrap().clone();
    assert_eq!(recorded, vec![(Way::Gateway, Some("toolrack".to_owned())); calls]);
    world.end().await;
}
