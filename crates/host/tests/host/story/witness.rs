//! Every call is recorded.

use std::sync::{Arc, Mutex};

use serde_json::json;
use toolrack_host::{
    CallEnd, Caller, Decision, DefaultEffect, Fact, GatedCall, Host, Policy, SharedAsker, Way, Witness, ask::Confirmed,
};

use crate::{
    askers::Person,
    scripted::{Reaction, Scripted, tool},
    worlds::{call, members, settle, to_call, world},
};

#[derive(Default)]
struct Book(Mutex<Vec<Fact>>);

impl Witness for Book {
    fn record(&self, fact: Fact) {
        self.0.lock().unwrap().push(fact);
    }
}

impl Book {
    fn facts(&self) -> Vec<Fact> {
        self.0.lock().unwrap().clone()
    }

    fn calls(&self) -> Vec<GatedCall> {
        let called = |fact| if let Fact::Called(called) = fact { Some(*called) } else { None };
        self.facts().into_iter().filter_map(called).collect()
    }
}

async fn witnessed(server: &Scripted, asker: SharedAsker) -> (Host, Arc<Book>) {
    let read = |written: &str| written.parse().unwrap();
    let rules = Policy::new(DefaultEffect::Deny).allow(read("fs/read")).confirm(read("fs/ask")).deny(read("fs/wipe"));
    let book = Arc::<Book>::default();
    let host = Host::builder().gate(Arc::new(rules)).asker(asker).witness(Arc::<Book>::clone(&book)).build();
    settle(&host, world([("fs", server.spec())])).await;
    (host, book)
}

fn files() -> Scripted {
    Scripted::plain().with_tools([tool("read"), tool("ask"), tool("wipe")])
}

#[tokio::test(start_paused = true)]
async fn the_witness_gets_caller_and_decision_of_each_call() {
    let (host, book) = witnessed(&files(), Person::eager().shared()).await;
    let request = to_call("fs/read", json!({"a": 1})).caller(Caller::local(Way::Gateway).with_client("an editor"));
    host.call(request).await.unwrap();
    call(&host, "fs/wipe", json!({})).await.unwrap_err();
    call(&host, "fs/ask", json!({})).await.unwrap();
    let calls = book.calls();
    let recorded: Vec<_> =
        calls.iter().map(|call| (call.tool.as_str(), call.decision, call.why.as_str(), call.end, call.code)).collect();
    let done = Some(CallEnd::Ok);
    assert_eq!(
        recorded,
        [
            ("read", Decision::Allowed, "the rule allow `fs/read`", done, None),
            ("wipe", Decision::Denied, "the rule deny `fs/wipe`", None, Some("DENIED")),
            ("ask", Decision::Confirmed, "the rule confirm `fs/ask`", done, None),
        ]
    );
    let first = &calls[0];
    assert_eq!((first.caller.way(), first.caller.client_name()), (Way::Gateway, Some("an editor")));
    assert_eq!((first.arguments.bytes, first.arguments.full.as_deref()), (r#"{"a":1}"#.len(), None));
    assert!(first.bytes > 0 && calls[1].bytes == 0);
    let answered = book.facts().into_iter().find(|fact| matches!(fact, Fact::Answered { .. }));
    assert!(matches!(answered, Some(Fact::Answered { decision: Decision::Confirmed, .. })));
}

#[tokio::test(start_paused = true)]
async fn the_witness_gets_the_arguments_that_the_user_changed() {
    let person = Person { confirms: Confirmed::Edited(members(&json!({"b": 22}))), ..Person::eager() };
    let (host, book) = witnessed(&files(), person.shared()).await;
    call(&host, "fs/ask", json!({"a": 1})).await.unwrap();
    let edited = &book.calls()[0];
    assert_eq!((edited.decision, edited.arguments.bytes), (Decision::Edited, r#"{"b":22}"#.len()));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_reported_too() {
    let server = Scripted::calling(|_, _| Reaction::Silence).with_tools([tool("read")]);
    let (host, book) = witnessed(&server, Person::eager().shared()).await;
    drop(tokio::time::timeout(std::time::Duration::from_secs(1), call(&host, "fs/read", json!({}))).await);
    let calls = book.calls();
    assert_eq!((calls.len(), calls[0].decision, calls[0].end), (1, Decision::Allowed, Some(CallEnd::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn connections_are_reported_in_order() {
    let (host, book) = witnessed(&files(), Person::eager().shared()).await;
    host.shutdown().await;
    let facts: Vec<_> = book.facts();
    assert!(
        matches!(facts.as_slice(), [Fact::Connected { tools: 3, .. }, Fact::Closed { reason: None, .. }]),
        "{facts:?}"
    );
}
