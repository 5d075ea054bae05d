//! What a host passes on to clients of its own caller: results, lists and completions as their servers wrote them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolrack_host::{
    Abilities, Admitted, Asker, CallError, Caller, Event, Host, Listing, Naming, OverQuota, Quota, Quotas, Relay,
    ServerName, SharedAsker, Work,
    ask::{Elicitation, Elicited},
};

use crate::{
    scripted::{Reaction, Scripted},
    worlds::{event, fake, host_of, members, settle, soon, to_call, world},
};

#[tokio::test]
async fn a_result_to_be_passed_on_is_as_its_server_wrote_it() {
    let host = host_of([("server", fake(&[]))]).await;
    let outcome = soon("the result", host.call(to_call("server/image", json!({})).verbatim())).await.unwrap();
    let result: Value = serde_json::from_slice(&outcome.verbatim.unwrap()).unwrap();
    assert_eq!(result["content"][0]["annotations"], json!({"audience": ["user"], "priority": 0.5}));
    assert!(outcome.text.is_empty() && outcome.content.is_empty());
    let failed = host.call(to_call("server/fail", json!({})).verbatim()).await.unwrap();
    assert!(failed.is_error && failed.verbatim.is_some());
    host.shutdown().await;
}

#[tokio::test]
async fn one_that_is_too_large_is_cut_as_ever() {
    let host = host_of([("server", fake(&[]))]).await;
    let big = to_call("server/big", json!({"bytes": 300_000})).verbatim();
    let outcome = soon("the result", host.call(big)).await.unwrap();
    assert!(outcome.verbatim.is_none() && outcome.truncated);
    assert!(outcome.text.ends_with("of 300000 bytes are shown]"));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_a_result_is_not_passed_on() {
    for result in [json!({}), json!({"content": 7}), json!([]), json!({"content": null})] {
        let server = Scripted::calling({
            let result = result.clone();
            move |_, _| Reaction::Answer(result.clone())
        });
        let host = host_of([("server", server.spec())]).await;
        let error = host.call(to_call("server/echo", json!({})).verbatim()).await.unwrap_err();
        assert!(error.to_string().contains("result") || error.to_string().contains("content"), "{result}: {error}");
    }
}

#[tokio::test]
async fn lists_and_completions_come_with_all_that_they_have() {
    for era in ["legacy", "modern"] {
        let host = host_of([("server", fake(&["--era", era]))]).await;
        let prompts = host.listing("server", Listing::Prompts).await.unwrap();
        assert_eq!(prompts[0]["name"], "greet", "{era}");
        assert_eq!(host.listing("server", Listing::ResourceTemplates).await.unwrap().len(), 1, "{era}");
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "gr"},
        });
        let completed = host.relay("server", Relay::completion(members(&params))).await.unwrap();
        let completed: Value = serde_json::from_slice(&completed).unwrap();
        assert_eq!(completed["completion"]["values"], json!(["grace"]), "{era}");
        host.shutdown().await;
    }
}

/// Quotas whose allowance for reading is used up.
#[derive(Debug)]
struct NoReads;

impl Quotas for NoReads {
    fn begin(&self, _: &Caller, work: Work) -> Result<Admitted, OverQuota> {
        if work != Work::Read {
            return Ok(Admitted::UNBOUNDED);
        }
        let quota = Quota::read("result_bytes_per_day", 1.0).unwrap();
        let setting = "limits.result_bytes_per_day".to_owned();
        Err(OverQuota::new("a member", setting, "the team file", (quota, 1), Duration::from_secs(9)))
    }
}

#[tokio::test]
async fn a_completion_brings_something_and_so_counts_as_a_read() {
    let host = Host::builder().quotas(Arc::new(NoReads)).build();
    settle(&host, world([("server", fake(&[]))])).await;
    let completion = Relay::completion(Map::new());
    for relay in [completion, Relay::prompt("greet", Map::new()), Relay::resource("fake://note")] {
        let error = host.relay("server", relay).await.unwrap_err();
        assert!(matches!(error, CallError::OverQuota { .. }), "{error}");
    }
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_completions_completes_to_nothing() {
    let server = Scripted::plain();
    let host = host_of([("server", server.spec())]).await;
    let completed = host.relay("server", Relay::completion(Map::new())).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&completed).unwrap(), json!({"completion": {"values": []}}));
    assert_eq!(server.count_of("completion/complete"), 0);
}

/// Remembers the names of servers' questions.
#[derive(Clone, Default)]
struct Notes {
    name: Option<String>,
    heard: Arc<Mutex<Vec<Option<String>>>>,
}

impl Asker for Notes {
    fn abilities(&self) -> Abilities {
        Abilities { forms: true, ..Abilities::NONE }
    }

    fn for_question(&self, name: &str) -> Option<SharedAsker> {
        Some(Arc::new(Self { name: Some(name.to_owned()), ..self.clone() }))
    }

    fn elicit(&self, _server: ServerName, _question: Elicitation) -> BoxFuture<'_, Elicited> {
        self.heard.lock().unwrap().push(self.name.clone());
        Box::pin(async { Elicited::Decline })
    }
}

#[tokio::test]
async fn questions_of_an_input_round_keep_the_names_that_their_server_gave_them() {
    for (era, name) in [("modern", Some("the_answer".to_owned())), ("legacy", None)] {
        let notes = Notes::default();
        let host = Host::builder().asker(Arc::new(notes.clone())).build();
        settle(&host, world([("server", fake(&["--era", era]))])).await;
        soon("the answer", host.call(to_call("server/elicit", json!({})))).await.unwrap();
        assert_eq!(*notes.heard.lock().unwrap(), [name], "{era}");
        host.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_prompts_and_resources_are_reported() {
    let server = Scripted::plain();
    let host = Host::builder().build();
    let mut events = host.events();
    settle(&host, world([("server", server.spec())])).await;
    for list in ["prompts", "resources"] {
        server.say(json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed")}));
    }
    let prompts = |event: &Event| matches!(event, Event::McpPromptsChanged { .. }).then_some(());
    event(&mut events, prompts).await;
    let resources = |event: &Event| matches!(event, Event::McpResourcesChanged { .. }).then_some(());
    event(&mut events, resources).await;
}

#[tokio::test]
async fn mirrored_headers_of_a_tool_are_known_for_every_transport() {
    let host = host_of([("server", fake(&[]))]).await;
    let catalog = host.catalog();
    let region = catalog.select("server/region").unwrap();
    assert!(region.may_mirror());
    let of = |arguments: Value| {
        let mirrored = region.mirrored_headers(&members(&arguments));
        let text = |value: &Option<http::HeaderValue>| value.as_ref().map(|value| value.to_str().unwrap().to_owned());
        mirrored.iter().map(|(name, value)| (name.to_string(), text(value))).collect::<Vec<_>>()
    };
    assert_eq!(of(json!({"region": "west"})), [("mcp-param-region".to_owned(), Some("west".to_owned()))]);
    assert_eq!(of(json!({"region": null})), [("mcp-param-region".to_owned(), None)]);
    assert!(!catalog.select("server/echo").unwrap().may_mirror());
    host.shutdown().await;
}

#[test]
fn prompts_can_be_named_as_tools_are() {
    let names = Naming::default().assign([("git", "review"), ("git", "a b")]);
    assert_eq!(names[&("git", "review")], "mcp__git__review");
    assert!(names[&("git", "a b")].starts_with("mcp__git__a_b_"), "{names:?}");
}
