//! Questions of servers: which asker gets them, for how long, and when a question is withdrawn.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use toolrack_host::{
    Abilities, Caller, Era, Host, NoAsker, Principal, SharedAsker, Way, ask::Elicited, principal::Kind,
};

use crate::{
    askers::Person,
    scripted::{Reaction, Scripted, text_result},
    worlds::{call, members, settle, soon, text, to_call, world},
};

const FORM: &str = "elicitation/create";

fn form() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 42}},
        "required": ["name"],
    });
    json!({"message": "Who are you?", "requestedSchema": schema})
}

/// A question of a legacy server.
fn question(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": FORM, "params": form()})
}

/// The answer that a legacy server got.
async fn answer_to(server: &Scripted, id: u64) -> Value {
    server.hears(|message| message["id"] == id && message.get("method").is_none()).await
}

/// A modern server whose tool asks first.
fn asking() -> Scripted {
    Scripted::new(Era::Modern, |method, params| {
        let asked = json!({"who": {"method": FORM, "params": form()}});
        let wanted = json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"});
        (method == "tools/call").then(|| match &params["inputResponses"] {
            Value::Null => Reaction::Answer(wanted),
            answers => {
                let mut result = text_result(&answers["who"].to_string());
                result["resultType"] = json!("complete");
                Reaction::Answer(result)
            }
        })
    })
}

async fn host_with(asker: SharedAsker, server: &Scripted) -> Host {
    let host = Host::builder().asker(asker).build();
    settle(&host, world([("server", server.spec())])).await;
    host
}

/// The client's abilities in a message to the server.
fn declared(message: &Value) -> &Value {
    match message["method"].as_str() {
        Some("initialize") => &message["params"]["capabilities"],
        _ => &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"],
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_hears_only_of_abilities_that_the_caller_has() {
    for (era, opening) in [(Era::Legacy, "initialize"), (Era::Modern, "server/discover")] {
        let script = Scripted::new(era, |_, _| None);
        host_with(std::sync::Arc::new(NoAsker), &script).await;
        assert_eq!(*declared(&script.hears_of(opening).await), json!({}), "{era}");

        let script = Scripted::new(era, |_, _| None);
        let abilities = Abilities { forms: true, roots: true, ..Abilities::NONE };
        host_with(Person { abilities, ..Person::eager() }.shared(), &script).await;
        let received = script.hears_of(opening).await;
        assert_eq!(declared(&received)["elicitation"], json!({"form": {}}), "{era}");
        assert_eq!(declared(&received)["roots"], json!({}), "{era}");
        assert!(declared(&received).get("sampling").is_none(), "{era}");
    }
}

/// 2026-07-28: capabilities are those of one request.
#[tokio::test(start_paused = true)]
async fn a_modern_call_declares_what_its_own_asker_can_do() {
    let server = asking();
    let host = host_with(Person::eager().shared(), &server).await;
    let silent = to_call("server/echo", json!({})).asker(std::sync::Arc::new(NoAsker));
    let _declined = host.call(silent).await;
    let received = server.hears_of("tools/call").await;
    assert_eq!(*declared(&received), json!({}), "no asker can answer for this call");
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_user_leaves_out_get_their_defaults() {
    let server = asking();
    let name_only = Elicited::Accept(members(&json!({"name": "Grace"})));
    let host = host_with(Person { elicits: Some(name_only), ..Person::eager() }.shared(), &server).await;
    let answer: Value = serde_json::from_str(&text(&host, "server/echo", json!({})).await).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"name": "Grace", "age": 42}}));
    let [first, second] = &server.seen_of("tools/call")[..] else { panic!("two rounds") };
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["requestState"], "s");
}

#[tokio::test(start_paused = true)]
async fn the_asker_of_a_call_overrides_the_asker_of_the_host() {
    let (caller, bystander) = (Person::eager().shared(), Person::eager().shared());
    let modern = asking();
    let host = host_with(bystander.clone(), &modern).await;
    host.call(to_call("server/echo", json!({})).asker(caller.clone())).await.unwrap();
    assert_eq!((caller.asked().len(), bystander.asked().len()), (1, 0));

    let legacy = Scripted::calling(|_, _| Reaction::After(Duration::from_secs(1), text_result("done")));
    let host = host_with(bystander.clone(), &legacy).await;
    let ask = async {
        legacy.hears_of("tools/call").await;
        legacy.say(question(0));
        answer_to(&legacy, 0).await
    };
    let (outcome, answer) = tokio::join!(host.call(to_call("server/echo", json!({})).asker(caller.clone())), ask);
    outcome.unwrap();
    assert_eq!(answer["result"]["content"], json!({"name": "Ada", "age": 42}));
    assert_eq!((caller.asked().len(), bystander.asked().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn while_the_user_decides_the_timeouts_of_the_call_pause() {
    for server in [asking(), legacy_that_asks()] {
        let person = Person { takes: Duration::from_secs(550), ..Person::eager() }.shared();
        let mut spec = server.spec();
        spec.timeouts.call = Duration::from_secs(10);
        spec.timeouts.call_total = Duration::from_secs(20);
        let host = Host::builder().asker(person).build();
        settle(&host, world([("server", spec)])).await;
        let ask = async {
            server.hears_of("tools/call").await;
            // The modern one asks in its answer.
            if server.count_of("initialize") > 0 {
                server.say(question(0));
            }
        };
        let (outcome, ()) = tokio::join!(call(&host, "server/echo", json!({})), ask);
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// The time-outs of a call stop while a question is open, but not forever.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_forever_for_the_user() {
    for server in [asking(), Scripted::calling(|_, _| Reaction::Silence)] {
        let person = Person { takes: Duration::from_secs(86_400), ..Person::eager() }.shared();
        let host = host_with(person, &server).await;
        let start = Instant::now();
        let ask = async {
            server.hears_of("tools/call").await;
            if server.count_of("initialize") > 0 {
                server.say(question(0));
            }
        };
        let (_ended, ()) = tokio::join!(call(&host, "server/echo", json!({})), ask);
        assert!(start.elapsed() < Duration::from_secs(3_600), "{server:?}: {:?}", start.elapsed());
    }
}

/// A legacy server whose tool answers after 555 seconds, of which the user takes 550.
fn legacy_that_asks() -> Scripted {
    Scripted::calling(|_, _| Reaction::After(Duration::from_secs(555), text_result("done")))
}

/// [`Asker`](toolrack_host::Asker) promises: a question is dropped when the call that caused it ends.
async fn a_question_is_withdrawn_when_its_call_is_given_up(server: Scripted) {
    let person = Person { takes: Duration::from_secs(500), ..Person::eager() }.shared();
    let host = host_with(person.clone(), &server).await;
    let is_asked = async {
        server.hears_of("tools/call").await;
        if server.count_of("initialize") > 0 {
            server.say(question(0));
        }
        person.has_open(1).await;
    };
    tokio::select! {
        outcome = call(&host, "server/echo", json!({})) => panic!("{outcome:?}"),
        () = is_asked => {}
    }
    let withdrawn = timeout(Duration::from_secs(5), person.has_open(0)).await;
    assert!(withdrawn.is_ok(), "the person is still being asked");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_question_is_withdrawn_when_its_call_is_given_up() {
    a_question_is_withdrawn_when_its_call_is_given_up(asking()).await;
}

#[tokio::test(start_paused = true)]
async fn a_legacy_question_is_withdrawn_when_its_call_is_given_up() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    a_question_is_withdrawn_when_its_call_is_given_up(server).await;
}

/// 2025-11-25: `notifications/cancelled` goes both ways.
#[tokio::test(start_paused = true)]
async fn a_question_is_withdrawn_when_the_server_cancels_it() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let person = Person { takes: Duration::from_secs(500), ..Person::eager() }.shared();
    let host = host_with(person.clone(), &server).await;
    let change_of_mind = async {
        server.hears_of("tools/call").await;
        server.say(question(0));
        person.has_open(1).await;
        server.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}));
        timeout(Duration::from_secs(5), person.has_open(0)).await
    };
    let withdrawn = tokio::select! {
        outcome = call(&host, "server/echo", json!({})) => panic!("{outcome:?}"),
        withdrawn = change_of_mind => withdrawn,
    };
    assert!(withdrawn.is_ok(), "the person is still being asked");
}

/// A server of 2025-11-25 does not say to which call a question belongs.
#[tokio::test(start_paused = true)]
async fn a_question_is_asked_of_no_one_while_calls_of_several_principals_wait() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let host = host_with(std::sync::Arc::new(NoAsker), &server).await;
    let of = |name: &str| {
        let person = Person::eager().shared();
        let member = Principal::new(Kind::Person, "acme", "https://login.example", name).unwrap();
        let call = to_call("server/echo", json!({})).caller(Caller::of(member, Way::Gateway)).asker(person.clone());
        (person, host.call(call))
    };
    let ((of_ann, anns), (of_bob, bobs)) = (of("ann"), of("bob"));
    let questions = async {
        while server.count_of("tools/call") < 2 {
            tokio::task::yield_now().await;
        }
        server.say(question(0));
        let answer = soon("a refusal", answer_to(&server, 0)).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("several people"), "{answer}");
    };
    tokio::select! {
        outcome = anns => panic!("{outcome:?}"),
        outcome = bobs => panic!("{outcome:?}"),
        () = questions => {}
    }
    assert!(of_ann.asked().is_empty() && of_bob.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn questions_that_the_caller_cannot_answer_are_refused_at_once() {
    let server = Scripted::plain();
    let _host = host_with(std::sync::Arc::new(NoAsker), &server).await;
    for (id, method) in [(0, FORM), (1, "sampling/createMessage"), (2, "roots/list"), (3, "no/such")] {
        server.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": form()}));
        let answer = soon("a refusal", answer_to(&server, id)).await;
        assert!(answer["error"]["code"].is_i64(), "{answer}");
    }
    server.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    let pong = server.hears(|message| message["id"] == "p").await;
    assert_eq!(pong["result"], json!({}));
}
