//! The gate: no call bypasses it.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::json;
use toolrack_host::{
    Abilities, AnswerQuery, Answers, Asker, CallError, CallErrorKind, Caller, DefaultEffect, DefinitionHash, Event,
    Gate, GateRequest, Host, NewAnswer, NoAsker, Pattern, Policy, Principal, SharedAsker, Verdict, Way,
    ask::{AnswerScope, Callers, Confirm, Confirmed},
    policy::{ArgumentRule, Effect, Rule},
    principal::Kind,
};

use crate::{
    askers::Person,
    scripted::{Scripted, tool},
    worlds::{call, events_so_far, members, settle, to_call, world},
};

fn rules(allow: &[&str], confirm: &[&str], deny: &[&str]) -> Arc<Policy> {
    let read = |written: &[&str]| written.iter().map(|pattern| pattern.parse().unwrap()).collect::<Vec<Pattern>>();
    let policy = Policy::new(DefaultEffect::Deny).allow_read_only(true);
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
async fn a_denied_call_is_never_sent_and_the_error_names_the_rule() {
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
    let denials = events_so_far(&mut events, |event| matches!(event, Event::ToolDenied { .. }).then_some(()));
    assert_eq!(denials.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_user_sees_exactly_what_is_sent_and_decides() {
    let server = files();
    let person = Person::eager().shared();
    let host = gated(rules(&[], &["fs/write"], &[]), person.clone(), &server).await;
    let mut events = host.events();
    call(&host, "fs/write", json!({"path": "a"})).await.unwrap();
    assert_eq!(person.asked(), [r#"confirm fs/write {"path":"a"}"#]);
    assert_eq!(server.seen_of("tools/call")[0]["params"]["arguments"], json!({"path": "a"}));
    let requests = events_so_far(&mut events, |event| match event {
        Event::ToolApprovalRequest { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(requests, ["the rule confirm `fs/write`"]);

    let no = Person { confirms: Confirmed::No { why: Some("not today".into()) }, ..Person::eager() };
    let error = host.call(to_call("fs/write", json!({})).asker(no.shared())).await.unwrap_err();
    assert_eq!(denied(&error), ("not today", false));
    assert_eq!(server.count_of("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_approved_in_advance_asks_no_user_and_is_recorded_so() {
    let server = files();
    let person = Person::eager().shared();
    let host = gated(rules(&[], &["fs/write"], &["fs/wipe"]), person.clone(), &server).await;
    let mut events = host.events();
    host.call(to_call("fs/write", json!({"path": "a"})).approved()).await.unwrap();
    // Even with an asker that cannot ask.
    host.call(to_call("fs/write", json!({"path": "b"})).approved().asker(Arc::new(NoAsker))).await.unwrap();
    let error = host.call(to_call("fs/wipe", json!({})).approved()).await.unwrap_err();
    assert_eq!(denied(&error), ("the rule deny `fs/wipe`", false));
    assert!(person.asked().is_empty());
    assert_eq!(server.count_of("tools/call"), 2);
    let requests = events_so_far(&mut events, |event| matches!(event, Event::ToolApprovalRequest { .. }).then_some(()));
    assert!(requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_arguments_that_the_user_changed_are_sent() {
    let server = files();
    let edited = Confirmed::Edited(members(&json!({"path": "b", "safe": true})));
    let person = Person { confirms: edited, ..Person::eager() };
    let host = gated(rules(&[], &["*"], &[]), person.shared(), &server).await;
    call(&host, "fs/write", json!({"path": "a"})).await.unwrap();
    assert_eq!(server.seen_of("tools/call")[0]["params"]["arguments"], json!({"path": "b", "safe": true}));
}

#[tokio::test(start_paused = true)]
async fn without_a_user_to_ask_the_answer_is_no_with_a_reason() {
    let server = files();
    let host = gated(rules(&[], &["*"], &[]), Arc::new(NoAsker), &server).await;
    let error = call(&host, "fs/write", json!({})).await.unwrap_err();
    let (why, unasked) = denied(&error);
    assert!(unasked);
    assert!(why.contains("confirm `*`") && why.contains("no user can be asked"), "{why}");
    assert_eq!(error.code(), "APPROVAL_NEEDED");

    // An asker that can do everything but confirm counts as none.
    let busy = Person { abilities: Abilities { confirm: false, ..Abilities::ALL }, ..Person::eager() }.shared();
    let error = host.call(to_call("fs/write", json!({})).asker(busy.clone())).await.unwrap_err();
    assert!(denied(&error).1);
    assert!(busy.asked().is_empty());
    assert_eq!(server.count_of("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_to_change_nothing_is_believed_only_where_rules_say_so() {
    let server = files();
    let host = gated(rules(&[], &[], &[]), Arc::new(NoAsker), &server).await;
    call(&host, "fs/peek", json!({})).await.unwrap();
    call(&host, "fs/read", json!({})).await.unwrap_err();
    let doubting = Policy::new(DefaultEffect::Deny);
    let host = gated(Arc::new(doubting), Arc::new(NoAsker), &server).await;
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
    let host = gated(register.clone(), Arc::new(NoAsker), &server).await;
    for selector in ["fs/read", "fs.read", "mcp__fs__read"] {
        call(&host, selector, json!({})).await.unwrap();
    }
    host.call(to_call("fs/read", json!({})).in_catalog(host.catalog())).await.unwrap();
    assert_eq!(*register.0.lock().unwrap(), ["fs/read"; 4]);
}

/// Stores the standing answers.
#[derive(Debug, Default)]
struct Diary(std::sync::Mutex<Vec<(String, DefinitionHash, bool)>>);

impl Answers for Diary {
    fn recall<'a>(&'a self, about: AnswerQuery<'a>) -> BoxFuture<'a, Option<String>> {
        let all = self.0.lock().unwrap();
        let known = all.iter().any(|(tool, definition, _)| tool == about.tool && *definition == about.definition);
        Box::pin(async move { known.then(|| "it is in the diary".to_owned()) })
    }

    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool> {
        let mut all = self.0.lock().unwrap();
        all.extend(answer.tools.iter().map(|(tool, definition)| (tool.clone(), *definition, answer.of_server)));
        Box::pin(async { true })
    }
}

fn keeping(keep: AnswerScope) -> Arc<Person> {
    Person { confirms: Confirmed::Kept { keep, callers: Callers::Same, arguments: None }, ..Person::eager() }.shared()
}

async fn diarist(gate: Arc<dyn Gate>, person: Arc<Person>, server: &Scripted) -> (Host, Arc<Diary>) {
    let diary = Arc::<Diary>::default();
    let host = Host::builder().gate(gate).asker(person).answers(Arc::<Diary>::clone(&diary)).build();
    settle(&host, world([("fs", server.spec())])).await;
    (host, diary)
}

#[tokio::test(start_paused = true)]
async fn a_standing_answer_covers_the_current_definition_only() {
    let server = files();
    let person = keeping(AnswerScope::Tool);
    let (host, diary) = diarist(rules(&[], &["*"], &[]), person.clone(), &server).await;
    for _ in 0..3 {
        call(&host, "fs/write", json!({})).await.unwrap();
    }
    assert_eq!(person.asked().len(), 1);
    call(&host, "fs/read", json!({})).await.unwrap();
    assert_eq!((person.asked().len(), diary.0.lock().unwrap().len()), (2, 2));

    let mut events = host.events();
    server.set_tools([json!({"name": "write", "description": "now sends it away", "inputSchema": {"type": "object"}})]);
    server.say_changed();
    while !matches!(events.recv().await.unwrap(), Event::McpToolsUpdated { .. }) {}
    host.settled().await;
    call(&host, "fs/write", json!({})).await.unwrap();
    assert_eq!(person.asked().len(), 3, "it is another tool now");
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_server_is_for_the_tools_that_it_has_now() {
    let server = files();
    let person = keeping(AnswerScope::Server);
    let (host, diary) = diarist(rules(&[], &["*"], &[]), person.clone(), &server).await;
    for tool in ["write", "read", "wipe", "peek"] {
        call(&host, &format!("fs/{tool}"), json!({})).await.unwrap();
    }
    assert_eq!(person.asked().len(), 1);
    assert!(diary.0.lock().unwrap().iter().all(|(.., of_server)| *of_server));
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_the_session_is_in_no_diary_and_none_overrides_a_rule_that_denies() {
    let server = files();
    let person = keeping(AnswerScope::Session);
    let (host, diary) = diarist(rules(&[], &["*"], &[]), person.clone(), &server).await;
    for _ in 0..2 {
        call(&host, "fs/write", json!({})).await.unwrap();
    }
    assert_eq!((person.asked().len(), diary.0.lock().unwrap().len()), (1, 0));

    let (host, diary) = diarist(rules(&[], &["*"], &[]), keeping(AnswerScope::Server), &server).await;
    call(&host, "fs/write", json!({})).await.unwrap();
    assert_eq!(diary.0.lock().unwrap().len(), 4);
    let stricter = Host::builder().gate(rules(&[], &["*"], &["fs/w*"])).answers(diary).build();
    settle(&stricter, world([("fs", server.spec())])).await;
    assert_eq!(denied(&call(&stricter, "fs/write", json!({})).await.unwrap_err()).0, "the rule deny `fs/w*`");
    call(&stricter, "fs/read", json!({})).await.unwrap();
}

/// A terminal: it shows one question at a time, and passes over those that an earlier answer settles.
#[derive(Debug, Default)]
struct OneAtATime {
    terminal: tokio::sync::Mutex<()>,
    shown: std::sync::atomic::AtomicUsize,
}

impl Asker for OneAtATime {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        Box::pin(async move {
            let _terminal = self.terminal.lock().await;
            if question.is_answered() {
                return Confirmed::Yes;
            }
            self.shown.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Confirmed::Kept { keep: AnswerScope::Tool, callers: Callers::Same, arguments: None }
        })
    }
}

/// Takes a second to store an answer, and says whether it succeeded.
#[derive(Debug)]
struct SlowDiary(bool);

impl Answers for SlowDiary {
    fn recall<'a>(&'a self, _: AnswerQuery<'a>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }

    fn remember<'a>(&'a self, _: NewAnswer<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            self.0
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_settles_the_next_question_while_it_is_still_being_stored() {
    let server = files();
    for can_store in [true, false] {
        let terminal = Arc::<OneAtATime>::default();
        let builder = Host::builder().gate(rules(&[], &["*"], &[])).asker(Arc::<OneAtATime>::clone(&terminal));
        let host = builder.answers(Arc::new(SlowDiary(can_store))).build();
        settle(&host, world([("fs", server.spec())])).await;
        let (first, second) =
            tokio::join!(call(&host, "fs/write", json!({"path": "a"})), call(&host, "fs/write", json!({"path": "b"})),);
        first.unwrap();
        second.unwrap();
        assert_eq!(terminal.shown.load(std::sync::atomic::Ordering::Relaxed), 1, "{can_store}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_covers_the_calls_of_its_principal_alone_unless_it_is_for_all() {
    let server = files();
    let of = |name: &str| {
        Caller::of(Principal::new(Kind::Person, "acme", "https://login.example", name).unwrap(), Way::Gateway)
    };
    for (callers, questions) in [(Callers::Same, 2), (Callers::All, 1)] {
        let confirms = Confirmed::Kept { keep: AnswerScope::Session, callers, arguments: None };
        let person = Person { confirms, ..Person::eager() }.shared();
        let host = gated(rules(&[], &["*"], &[]), person.clone(), &server).await;
        for name in ["ann", "bob", "ann", "bob"] {
            host.call(to_call("fs/write", json!({})).caller(of(name))).await.unwrap();
        }
        assert_eq!(person.asked().len(), questions, "{callers:?}");
    }
}

/// Asks about everything, each time.
struct Secretive;

impl Gate for Secretive {
    fn judge(&self, _: &GateRequest<'_>) -> Verdict {
        Verdict::Confirm { why: "a secret".to_owned(), lasting: false }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_always_asked_about_is_never_remembered() {
    let server = files();
    let person = keeping(AnswerScope::Server);
    let (host, diary) = diarist(Arc::new(Secretive), person.clone(), &server).await;
    for _ in 0..2 {
        call(&host, "fs/write", json!({})).await.unwrap();
    }
    assert_eq!((person.asked().len(), diary.0.lock().unwrap().len()), (2, 0));

    // Nor does the answer to another question count.
    let (host, diary) = diarist(rules(&[], &["*"], &[]), keeping(AnswerScope::Server), &server).await;
    call(&host, "fs/write", json!({})).await.unwrap();
    let secretive = Host::builder().gate(Arc::new(Secretive)).asker(person.clone()).answers(diary).build();
    settle(&secretive, world([("fs", server.spec())])).await;
    call(&secretive, "fs/write", json!({})).await.unwrap();
    assert_eq!(person.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_the_user_changed_are_checked_and_judged_again() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let server = Scripted::plain().with_tools([json!({"name": "write", "inputSchema": schema})]);
    let keys = Rule::new(Effect::Deny, "*".parse().unwrap()).argument(ArgumentRule::glob("path", "*.key").unwrap());
    let gate = Arc::new(Policy::default().rule(keys));
    for (edited, wrong) in [
        (json!({"path": "id.key"}), "it is not allowed: the rule deny `*`"),
        (json!({"path": 5}), "the tool does not take these arguments: /path"),
        (json!({}), "path"),
    ] {
        let edited = members(&edited);
        let person = Person { confirms: Confirmed::Edited(edited), ..Person::eager() }.shared();
        let host = gated(gate.clone(), person, &server).await;
        let error = call(&host, "fs/write", json!({"path": "a"})).await.unwrap_err();
        assert!(denied(&error).0.contains(wrong), "{error}");
    }
    assert_eq!(server.count_of("tools/call"), 0);

    for (confirms, edited) in [
        (Confirmed::Edited(members(&json!({"path": "b"}))), Some(members(&json!({"path": "b"})))),
        (Confirmed::Yes, None),
    ] {
        let host = gated(gate.clone(), Person { confirms, ..Person::eager() }.shared(), &server).await;
        let outcome = call(&host, "fs/write", json!({"path": "a"})).await.unwrap();
        assert_eq!(outcome.edited, edited, "the result has the arguments that were sent");
    }
}
