use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use futures::future::BoxFuture;
use serde_json::{Map, json};
use toolrack_agent::{Agent, End, Front, Limits, NotStored, ToolCallData, TurnEvent, model::Scripted};
use toolrack_host::{
    Abilities, AnswerQuery, Asker, Desired, Host, Policy, Principal, ServerName, ServerSpec,
    ask::{Confirm, Confirmed},
};
use toolrack_testkit::fake_server_path;

use super::*;
use crate::tests::{Stage, on_both};
use crate::{OwnerFilter, SessionQuery};

/// Hides nothing.
fn shown() -> Conceal {
    Arc::new(str::to_owned)
}

fn user_turn(text: &str) -> Turn {
    Turn::new(vec![Message::new(Role::User, text)], Limits::default())
}

/// Polls `work` at most `times` times. `None` if `work` has not ended by then.
async fn polled<F: Future>(mut work: Pin<&mut F>, mut times: usize) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(None);
        }
        times -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if times == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn a_step_dropped_during_its_write_is_stored_once(stage: &Stage) {
    let store = stage.store().await;
    let mut drops = 0;
    loop {
        let mut journal = Journal::new(Some(store.clone()), "some/model", shown());
        let mut turn = user_turn(&format!("words {drops}"));
        let ended = polled(pin!(journal.store_turn(&turn)), drops + 1).await.is_some();
        turn.cancel("so far");
        journal.store_turn(&turn).await.unwrap();
        let stored = store.messages(journal.id().unwrap(), 0, 99).await.unwrap();
        let stored: Vec<_> = stored.into_iter().map(|message| message.content).collect();
        assert_eq!(stored, [format!("words {drops}"), "so far".to_owned()]);
        let sessions = store.sessions(&SessionQuery { limit: 999, ..SessionQuery::default() }).await.unwrap();
        drops += 1;
        assert_eq!(sessions.len(), drops, "one for each conversation");
        if ended {
            break;
        }
    }
    assert!(drops > 2, "it was dropped in the middle: {drops}");
}

async fn messages_of_another_process_are_not_taken_for_a_dropped_step(stage: &Stage) {
    let store = stage.store().await;
    let mut journal = Journal::new(Some(store.clone()), "some/model", shown());
    let mut turn = user_turn("one");
    journal.store_turn(&turn).await.unwrap();
    turn.cancel("so far");
    assert!(polled(pin!(journal.store_turn(&turn)), 1).await.is_none(), "dropped before anything was written");
    let step =
        Step { position: 1, messages: vec![NewMessage::new(crate::Role::Assistant, "theirs")], ..Step::default() };
    store.append(journal.id().unwrap(), &step).await.unwrap();
    let refused = journal.store_turn(&turn).await;
    assert!(matches!(refused, Err(StoreError::SessionMoved { expected: 1, found: 2, .. })), "{refused:?}");
}

async fn a_conversation_is_claimed_once_and_again_when_the_claim_is_dropped(stage: &Stage) {
    let store = stage.store().await;
    let mut journal = Journal::new(Some(store.clone()), "some/model", shown());
    let claim = journal.claim().unwrap();
    journal.store_turn(&user_turn("one")).await.unwrap();
    let session = store.find_session("last", OwnerFilter::All).await.unwrap();
    assert!(matches!(store.clone().claim(&session), Err(StoreError::SessionBusy { .. })));
    assert!(matches!(journal.claim(), Err(StoreError::SessionBusy { .. })));
    drop(claim);
    let claim = store.claim(&session).unwrap();
    drop(claim);
    assert!(journal.claim().unwrap().is_some());
    assert!(Journal::new(None, "some/model", shown()).claim().unwrap().is_none());
}

/// Agrees to everything.
struct Agrees;

impl Asker for Agrees {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, _: Confirm) -> BoxFuture<'_, Confirmed> {
        Box::pin(async { Confirmed::Yes })
    }
}

/// Stores each step, and stops where one is not stored.
struct Keeps(Journal);

impl Front for Keeps {
    fn on_event(&mut self, _: TurnEvent<'_>) {}

    fn store<'a>(&'a mut self, turn: &'a Turn) -> BoxFuture<'a, Result<(), NotStored>> {
        Box::pin(async move { self.0.store_turn(turn).await.map_err(|error| NotStored { why: error.to_string() }) })
    }
}

const ROUNDS: usize = 200;
const AT_ONCE: usize = 8;

/// Each call looks up a standing answer in the database, while the results of the others are written there.
async fn calls_that_need_a_decision_and_the_conversation_share_one_database(stage: &Stage) {
    let store = stage.store().await;
    let host = Host::builder().gate(Arc::new(Policy::default())).answers(Arc::new(store.clone())).build();
    let spec = ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"]);
    host.apply(Desired::from([(ServerName::new("rooms").unwrap(), spec)])).await;
    host.settled().await;
    let model = (0..ROUNDS).fold(Scripted::new(), |model, round| {
        let calls = (0..AT_ONCE).map(|at| {
            let arguments = Map::from_iter([("text".to_owned(), json!(format!("{round} {at}")))]);
            ToolCallData::new(format!("{round}-{at}"), "mcp__rooms__echo", arguments)
        });
        model.reply(Reply::new(Message::new(Role::Assistant, "").with_tool_calls(calls.collect())))
    });
    let mut agent = Agent::new(Arc::new(model.say("done")), host);
    agent.asker = Some(Arc::new(Agrees));
    let mut limits = Limits::default();
    limits.rounds = 1 + u32::try_from(ROUNDS).unwrap();
    let mut turn = Turn::new(vec![Message::new(Role::User, "go")], limits);
    let mut front = Keeps(Journal::new(Some(store.clone()), "some/model", shown()));
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    let results: Vec<_> = turn.messages().iter().filter(|message| message.role == Role::Tool).collect();
    assert_eq!(results.len(), ROUNDS * AT_ONCE);
    assert!(results.iter().all(|message| !message.is_error), "{:?}", results.iter().find(|message| message.is_error));
    let stored = store.session(front.0.id().unwrap()).await.unwrap();
    assert_eq!(stored.messages, turn.messages().len() as u64);
    agent.host.shutdown().await;
}

async fn a_query_that_is_no_longer_polled_blocks_no_other_query(stage: &Stage) {
    let store = stage.store().await;
    let server = ServerName::new("fs").unwrap();
    let definition = toolrack_host::DefinitionHash::from_bytes([1; 32]);
    let about =
        AnswerQuery { server: &server, fingerprint: "a", tool: "read", definition, principal: &Principal::LOCAL };
    let mut unpolled: Vec<_> = (0..AT_ONCE).map(|_| Box::pin(toolrack_host::Answers::recall(&store, about))).collect();
    for question in &mut unpolled {
        assert_eq!(polled(question.as_mut(), 1).await, None);
    }
    Journal::new(Some(store.clone()), "some/model", shown()).store_turn(&user_turn("words")).await.unwrap();
    drop(unpolled);
}

async fn messages_and_calls_of_a_model_are_stored_without_secrets_and_can_continue(stage: &Stage) {
    let store = stage.store().await;
    let conceal: Conceal = Arc::new(|text| text.replace("canary-7", "***"));
    let mut journal = Journal::new(Some(store.clone()), "some/model", Arc::clone(&conceal));
    let mut turn = user_turn("is canary-7 the key?");
    journal.store_turn(&turn).await.unwrap();
    let call = |id: &str, key: &str| {
        let arguments = Map::from_iter([("key".to_owned(), json!([key]))]);
        ToolCallData::new(id, "mcp__rooms__canary", arguments)
    };
    let broken = ToolCallData::from_text("2", "mcp__rooms__echo", "{\"a\": \"canary-7");
    let answer = json!({
        "role": "assistant", "content": "first canary-7, signed canary-7, last",
        "tool_calls": [call("1", "canary-7"), broken, call("3", "canary-7")],
        "blocks": { "wire": "anthropic", "model": "m", "blocks": [
            { "raw": { "thinking": "hm" } }, { "text": { "bytes": 16 } },
            { "text": { "bytes": 15, "with": { "signature": "s" } } }, { "text": { "bytes": 6 } },
            { "call": {} }, { "call": { "with": { "id": "2" } } }, { "call": { "with": { "thoughtSignature": "s" } } },
        ] },
    });
    turn.model_answered(Reply::new(serde_json::from_value(answer).unwrap()));
    journal.store_turn(&turn).await.unwrap();

    let session = store.session(journal.id().unwrap()).await.unwrap();
    assert_eq!(session.title, "is *** the key?");
    let stored = store.messages(session.id, 0, 9).await.unwrap();
    assert_eq!(
        (stored[0].content.as_str(), stored[1].content.as_str()),
        ("is *** the key?", "first ***, signed ***, last")
    );
    assert!(!stored[1].tool_calls.as_deref().unwrap().contains("canary-7"), "{:?}", stored[1].tool_calls);
    assert!(!stored[0].body.as_deref().unwrap().contains("canary-7"));
    let state = store.open_turn(session.id).await.unwrap().unwrap();
    assert!(state.contains("***") && !state.contains("canary-7"), "{state}");

    let (_, opened) = Journal::open(&store, session, "some/model", conceal).await.unwrap();
    let answer = &opened.messages[1];
    assert_eq!(answer.content, "first ***, signed canary-7, last", "what is signed goes back as it was");
    let inputs: Vec<_> = answer.calls().iter().map(|call| (&*call.name, call.input.to_string())).collect();
    assert_eq!(inputs[0], ("mcp__rooms__canary", r#"{"key":["***"]}"#.to_owned()));
    assert_eq!(answer.calls()[1].raw_arguments.as_deref(), Some("{\"a\": \"***"));
    assert_eq!(inputs[2].1, r#"{"key":["canary-7"]}"#);
    let lengths = json!(answer.blocks.as_ref().unwrap().blocks);
    assert_eq!((&lengths[1]["text"]["bytes"], &lengths[2]["text"]["bytes"]), (&json!(11), &json!(15)));
    let resumed = Turn::resume(opened.messages, opened.interrupted_turn.unwrap(), Limits::default());
    assert_eq!(resumed.messages().len(), 5, "each call has its result");
}

on_both!(
    a_step_dropped_during_its_write_is_stored_once,
    messages_of_another_process_are_not_taken_for_a_dropped_step,
    a_conversation_is_claimed_once_and_again_when_the_claim_is_dropped,
    calls_that_need_a_decision_and_the_conversation_share_one_database,
    a_query_that_is_no_longer_polled_blocks_no_other_query,
    messages_and_calls_of_a_model_are_stored_without_secrets_and_can_continue
);
