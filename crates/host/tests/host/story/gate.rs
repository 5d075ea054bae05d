//! The gate: nothing passes beside it.

use std::sync::Arc;

use serde_json::json;
use toolrack_host::{
    Abilities, CallError, CallErrorKind, Event, Gate, GateRequest, Host, Nobody, Otherwise, Pattern, Policy,
    SharedAsker, Verdict, ask::Confirmed,
};

use crate::{
    askers::Person,
    scripted::{Scripted, tool},
    worlds::{call, events_so_far, members, settle, to_call, world},
};

fn rules(allow: &[&str], confirm: &[&str], deny: &[&str]) -> Arc<Policy> {
    let read = |written: &[&str]| written.iter().map(|pattern| pattern.parse().unwrap()).collect::<Vec<Pattern>>();
    let policy = Policy::new(Otherwise::Deny).allow_read_only(true);
    let policy = read(allow).into_iter().fold(policy, Policy::allow);
    let policy = read(confirm).into_iter().fold(policy, Policy::confirm);
    Arc::new(read(deny).into_iter().fold(policy, Policy::deny))
}

async fn gated(gate: Arc<dyn Gate>, asker: SharedAsker, server: &Scripted) -> Host {
    let host = Host::builder().gate(gate).asker(asker).build();
    settle(&host, world([("fs", server.spec())])).await;
    host
}

fn files() -> Scripted {
    let claims = json!({"name": "peek", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    Scripted::plain().with_tools([tool("read"), tool("write"), tool("wipe"), claims])
}

fn denied(error: &CallError) -> (&str, bool) {
    let CallError::Denied { why, unasked, .. } = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), CallErrorKind::Denied);
    (why, *unasked)
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_is_never_sent_and_the_rule_is_named() {
    let server = files();
    let person = Person::eager().shared();
    let host = gated(rules(&["fs/*"], &[], &["fs/w*"]), person.clone(), &server).await;
    let mut events = host.events();
    for tool in ["write", "wipe"] {
        let error = call(&host, &format!("fs/{tool}"), json!({})).await.unwrap_err();
        assert_eq!(denied(&error), ("the rule deny `fs/w*`", false));
        assert_eq!(error.code(), "DENIED");
    }
    call(&host, "fs/read", json!({})).await.unwrap();
    assert_eq!(server.count_of("tools/call"), 1);
    assert!(person.asked().is_empty());
    let told = events_so_far(&mut events, |event| matches!(event, Event::ToolDenied { .. }).then_some(()));
    assert_eq!(told.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_person_sees_exactly_what_is_sent_and_decides() {
    let server = files();
    let person = Person::eager().shared();
    let host = gated(rules(&[], &["fs/write"], &[]), person.clone(), &server).await;
    let mut events = host.events();
    call(&host, "fs/write", json!({"path": "a"})).await.unwrap();
    assert_eq!(person.asked(), [r#"confirm fs/write {"path":"a"}"#]);
    assert_eq!(server.seen_of("tools/call")[0]["params"]["arguments"], json!({"path": "a"}));
    let asked = events_so_far(&mut events, |event| match event {
        Event::ToolApprovalRequest { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(asked, ["the rule confirm `fs/write`"]);

    let no = Person { confirms: Confirmed::No { why: Some("not today".into()) }, ..Person::eager() };
    let error = host.call(to_call("fs/write", json!({})).asker(no.shared())).await.unwrap_err();
    assert_eq!(denied(&error), ("not today", false));
    assert_eq!(server.count_of("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_changed_is_what_is_sent() {
    let server = files();
    let edited = Confirmed::Edited(members(&json!({"path": "b", "safe": true})));
    let person = Person { confirms: edited, ..Person::eager() };
    let host = gated(rules(&[], &["*"], &[]), person.shared(), &server).await;
    call(&host, "fs/write", json!({"path": "a"})).await.unwrap();
    assert_eq!(server.seen_of("tools/call")[0]["params"]["arguments"], json!({"path": "b", "safe": true}));
}

#[tokio::test(start_paused = true)]
async fn with_nobody_to_ask_the_answer_is_no_and_says_so() {
    let server = files();
    let host = gated(rules(&[], &["*"], &[]), Arc::new(Nobody), &server).await;
    let error = call(&host, "fs/write", json!({})).await.unwrap_err();
    let (why, unasked) = denied(&error);
    assert!(unasked);
    assert!(why.contains("confirm `*`") && why.contains("nobody is there to ask"), "{why}");
    assert_eq!(error.code(), "APPROVAL_NEEDED");

    // Somebody who can do everything but this is nobody, too.
    let busy = Person { abilities: Abilities { confirm: false, ..Abilities::ALL }, ..Person::eager() }.shared();
    let error = host.call(to_call("fs/write", json!({})).asker(busy.clone())).await.unwrap_err();
    assert!(denied(&error).1);
    assert!(busy.asked().is_empty());
    assert_eq!(server.count_of("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_to_change_nothing_is_believed_only_where_rules_say_so() {
    let server = files();
    let host = gated(rules(&[], &[], &[]), Arc::new(Nobody), &server).await;
    call(&host, "fs/peek", json!({})).await.unwrap();
    call(&host, "fs/read", json!({})).await.unwrap_err();
    let doubting = Policy::new(Otherwise::Deny);
    let host = gated(Arc::new(doubting), Arc::new(Nobody), &server).await;
    call(&host, "fs/peek", json!({})).await.unwrap_err();
    assert_eq!(server.count_of("tools/call"), 1);
}

/// Sees every call, whatever name it was called by.
struct Register(std::sync::Mutex<Vec<String>>);

impl Gate for Register {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        self.0.lock().unwrap().push(format!("{}/{}", request.server, request.tool));
        Verdict::allow("seen")
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_judges_by_server_and_tool_whatever_name_a_call_used() {
    let server = files();
    let register = Arc::new(Register(std::sync::Mutex::default()));
    let host = gated(register.clone(), Arc::new(Nobody), &server).await;
    for selector in ["fs/read", "fs.read", "mcp__fs__read"] {
        call(&host, selector, json!({})).await.unwrap();
    }
    host.call(to_call("fs/read", json!({})).pinned(host.catalog())).await.unwrap();
    assert_eq!(*register.0.lock().unwrap(), ["fs/read"; 4]);
}
