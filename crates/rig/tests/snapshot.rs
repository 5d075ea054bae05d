//! The tools in Rig, on the testkit's fake server.

#![cfg(test)]

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, Either, select};
use rig_agent::AgentBuilder;
use rig_core::{
    message::{DocumentSourceKind, ImageMediaType, Message, ToolResultContent, UserContent},
    test_utils::{MockCompletionModel, MockTurn},
    tool::{DynamicTool, ToolErrorKind},
};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use toolrack_host::{
    Abilities, Asker, Desired, Host, HostBuilder, Policy, Provider, Selection, ServerName, ServerSpec, ToolFilter,
    ask::{Confirm, Confirmed},
};
use toolrack_rig::{SAFETY, Snapshot};
use toolrack_testkit::{EffectLog, Effects, fake_server_path};

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn fake(arguments: &[&str]) -> ServerSpec {
    ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"].iter().chain(arguments).copied())
}

async fn host(builder: HostBuilder, spec: ServerSpec) -> Host {
    let host = builder.build();
    host.apply(Desired::from([(name("rooms"), spec)])).await;
    host.settled().await;
    host
}

fn tool(snapshot: &Snapshot, name: &str) -> DynamicTool {
    snapshot.tools().into_iter().find(|tool| tool.name().as_str() == name).unwrap()
}

#[tokio::test]
async fn a_tool_has_the_name_description_and_schema_of_the_catalog() {
    let host = host(Host::builder(), fake(&[])).await;
    let snapshot = Snapshot::of(&host);
    let tools = snapshot.tools();
    let catalog: Vec<_> = host.catalog().tools().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools.iter().map(|tool| tool.name().to_string()).collect::<Vec<_>>(), catalog);
    let echo = tool(&snapshot, "mcp__rooms__echo").definition();
    assert_eq!(echo.description, "Returns the text that it was given.");
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    assert_eq!(echo.parameters, schema);
    let claims = snapshot.annotations("mcp__rooms__echo").unwrap();
    assert_eq!((claims.read_only, claims.open_world), (Some(true), Some(false)));
    assert_eq!(snapshot.annotations("mcp__rooms__nothing"), None);
    host.shutdown().await;
}

#[tokio::test]
async fn a_schema_is_as_its_server_wrote_it_unless_a_provider_is_named() {
    let host = host(Host::builder(), fake(&[])).await;
    let schema = |snapshot: Snapshot| tool(&snapshot, "mcp__rooms__image").definition().parameters;
    assert_eq!(schema(Snapshot::of(&host)), json!({"type": "object"}));
    let cleaned = schema(Snapshot::of(&host).provider(Provider::OpenAi));
    assert_eq!(cleaned, json!({"type": "object", "properties": {}}));
    host.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_has_only_the_selected_tools() {
    let host = host(Host::builder(), fake(&[])).await;
    let selection = Selection::all().only(["rooms/e*".parse().unwrap()]).without(["rooms/env".parse().unwrap()]);
    let snapshot = Snapshot::of(&host).selection(selection);
    let names: Vec<_> = snapshot.tools().iter().map(|tool| tool.name().to_string()).collect();
    assert_eq!(names, ["mcp__rooms__echo", "mcp__rooms__elicit"]);
    assert_eq!(snapshot.annotations("mcp__rooms__env"), None);
    host.shutdown().await;
}

#[tokio::test]
async fn a_result_has_text_with_its_server_then_pictures_and_other_parts_described() {
    let host = host(Host::builder(), fake(&[])).await;
    let snapshot = Snapshot::of(&host);
    let result = tool(&snapshot, "mcp__rooms__echo").execute(json!({"text": "hello"})).await.unwrap();
    assert_eq!(result.as_text(), Some("[data from rooms]\nhello"));
    let content = tool(&snapshot, "mcp__rooms__image").execute(Value::Null).await.unwrap();
    let [ToolResultContent::Text(text), ToolResultContent::Image(image)] = content.as_content() else {
        panic!("{:?}", content.as_content());
    };
    assert_eq!(image.media_type, Some(ImageMediaType::PNG));
    assert!(matches!(&image.data, DocumentSourceKind::Base64(data) if data.starts_with("iVBOR")), "{image:?}");
    let lines = [
        "[data from rooms]",
        "one of each",
        "a note",
        "fake://note",
        "[a sound, audio/wav, 3 bytes: it cannot be shown here]",
        "[the file fake://blob, application/octet-stream, 3 bytes: it cannot be shown here]",
    ];
    assert_eq!(text.text, lines.join("\n"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_failure_has_its_kind_and_is_never_retryable() {
    let effects = EffectLog::new();
    let host = host(Host::builder(), fake(&["--log", effects.path_str()])).await;
    let snapshot = Snapshot::of(&host);
    let fail = tool(&snapshot, "mcp__rooms__fail").execute(json!({"message": "no such room"})).await.unwrap_err();
    assert_eq!((fail.kind(), fail.code(), fail.retryable()), (ToolErrorKind::Other, Some("TOOL_ERROR"), Some(false)));
    assert_eq!(fail.model_feedback(), Some("[data from rooms]\nno such room"));
    let refused = tool(&snapshot, "mcp__rooms__protocol_error").execute(json!({})).await.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ToolErrorKind::Provider, Some("RPC_ERROR")));
    assert!(refused.is::<toolrack_host::CallError>());
    let crashed = tool(&snapshot, "mcp__rooms__crash").execute(json!({"code": 3})).await.unwrap_err();
    assert_eq!((crashed.kind(), crashed.retryable()), (ToolErrorKind::Network, Some(false)), "{crashed}");
    assert_eq!(effects.read().runs_of("crash"), 1);
    let invalid = tool(&snapshot, "mcp__rooms__echo").execute(json!(["hello"])).await.unwrap_err();
    assert_eq!(invalid.kind(), ToolErrorKind::InvalidArgs);
    assert_eq!(effects.read().runs_of("echo"), 0);
    host.shutdown().await;
}

/// Lets `echo` run with another text, and nothing else.
struct Editor;

impl Asker for Editor {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        let edited = Map::from_iter([("text".to_owned(), json!("edited"))]);
        Box::pin(async move {
            match question.tool.as_str() {
                "echo" => Confirmed::Edited(edited),
                _ => Confirmed::No { why: Some("not today".to_owned()) },
            }
        })
    }
}

#[tokio::test]
async fn every_call_passes_the_gate_and_its_asker() {
    let effects = EffectLog::new();
    let spec = fake(&["--log", effects.path_str()]);
    let host = host(Host::builder().gate(Arc::new(Policy::default())), spec).await;
    let unasked = tool(&Snapshot::of(&host), "mcp__rooms__write").execute(json!({})).await.unwrap_err();
    assert!(unasked.is_refusal() && unasked.code() == Some("APPROVAL_NEEDED"), "{unasked:?}");
    let snapshot = Snapshot::of(&host).asker(Arc::new(Editor));
    let denied = tool(&snapshot, "mcp__rooms__write").execute(json!({})).await.unwrap_err();
    assert!(denied.is_refusal() && denied.message().contains("not today"), "{denied}");
    assert_eq!(effects.read().runs_of("write"), 0);
    let result = tool(&snapshot, "mcp__rooms__echo").execute(json!({"text": "mine"})).await.unwrap();
    assert_eq!(result.as_text(), Some("[data from rooms]\nedited"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_never_changes_and_its_tools_know_when_they_are_gone() {
    let host = host(Host::builder(), fake(&[])).await;
    let snapshot = Snapshot::of(&host);
    let (before, echo) = (snapshot.tools().len(), tool(&snapshot, "mcp__rooms__echo"));
    assert!(echo.is_live());
    host.apply(Desired::from([(name("cellar"), fake(&[]))])).await;
    host.settled().await;
    assert_eq!(snapshot.tools().len(), before);
    assert!(!echo.is_live());
    // A name of a snapshot never reaches another server; the error names the server that is gone.
    let gone = echo.execute(json!({"text": "hello"})).await.unwrap_err();
    assert_eq!(gone.kind(), ToolErrorKind::NotFound, "{gone}");
    assert!(gone.message().contains("rooms"), "{gone}");
    assert!(tool(&Snapshot::of(&host), "mcp__cellar__echo").is_live());
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_is_looked_up_in_the_catalog_of_its_snapshot() {
    let host = host(Host::builder(), fake(&[])).await;
    let echo = tool(&Snapshot::of(&host), "mcp__rooms__echo");
    let mut spec = fake(&[]);
    spec.tools = ToolFilter::new(&[], &["echo".to_owned()]).unwrap();
    host.apply(Desired::from([(name("rooms"), spec)])).await;
    host.settled().await;
    // The host no longer offers it, but an agent that began earlier can still call it.
    assert!(host.catalog().get("mcp__rooms__echo").is_none() && !echo.is_live());
    let result = echo.execute(json!({"text": "hello"})).await.unwrap();
    assert_eq!(result.as_text(), Some("[data from rooms]\nhello"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_call_that_rig_drops_is_cancelled_at_its_server() {
    let effects = Arc::new(EffectLog::new());
    let host = host(Host::builder(), fake(&["--log", effects.path_str()])).await;
    let log = |says: fn(&Effects) -> bool| {
        let effects = effects.clone();
        spawn_blocking(move || effects.wait_until(Duration::from_secs(10), says))
    };
    let sleep = tool(&Snapshot::of(&host), "mcp__rooms__sleep");
    let call = Box::pin(sleep.execute(json!({"ms": 60_000})));
    let Either::Left((_, call)) = select(log(|seen| seen.runs_of("sleep") == 1), call).await else {
        panic!("it ended by itself");
    };
    drop(call);
    log(|seen| seen.cancelled().len() == 1).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn an_agent_of_rig_calls_a_tool_and_its_model_gets_the_result() {
    let host = host(Host::builder(), fake(&[])).await;
    let call = MockTurn::tool_call("one", "mcp__rooms__add", json!({"a": 17, "b": 25}));
    let model = MockCompletionModel::from_turns([call, MockTurn::text("42, they say.")]);
    let tools = Snapshot::of(&host).tools();
    let (count, agent) = (tools.len(), AgentBuilder::new(model.clone()).preamble(SAFETY).dynamic_tools(tools).build());
    let answer = agent.prompt("What are 17 and 25?").max_turns(2).await.unwrap();
    assert_eq!(answer.output(), "42, they say.");
    let asked = model.requests();
    assert_eq!(asked[0].tools.len(), count);
    let tool_result = asked[1].chat_history.iter().find_map(|message| match message {
        Message::User { content } => content.iter().find_map(|part| match part {
            UserContent::ToolResult(result) => Some(result.clone()),
            _ => None,
        }),
        _ => None,
    });
    let tool_result = tool_result.unwrap();
    assert_eq!((tool_result.name.as_str(), tool_result.is_error), ("mcp__rooms__add", false));
    assert_eq!(tool_result.content, [ToolResultContent::text("[data from rooms]\n42")]);
    host.shutdown().await;
}
