use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use toolrack_host::{
    Abilities, Asker, Desired, Policy, ServerName, ServerSpec,
    ask::{Confirm, Confirmed},
};

use toolrack_testkit::fake_server_path;

use super::*;
use crate::{message::Role, model::Scripted, turn::Limits};

/// A front that records each event in a few words, and what it has to store.
#[derive(Default)]
struct Recorder {
    events: Vec<String>,
    /// For each time that the turn was stored: the number of messages, and the state as JSON.
    stored: Vec<(usize, String)>,
    /// The answers to the first questions, in order. The answer to each later question is [`Answer::Stop`].
    answers: VecDeque<Answer>,
    /// Which attempt to store fails, counted from 1.
    fails_at: Option<usize>,
    /// Whether the user cancels all calls at once.
    cancels: bool,
}

impl Front for Recorder {
    fn on_event(&mut self, event: TurnEvent<'_>) {
        let line = match event {
            TurnEvent::Asked { round } => format!("asked {round}"),
            TurnEvent::Delta(_) | TurnEvent::CallProgress { .. } => return,
            TurnEvent::Answered(reply) => format!("answered {}", reply.message.content),
            TurnEvent::WithoutTools { why } => format!("without tools: {why}"),
            TurnEvent::CallBegins(call) => format!("begins {}", call.id),
            TurnEvent::CallEnds { call, is_error, outcome, .. } => {
                let made = if outcome.is_some() { "" } else { " unmade" };
                format!("ends {}{made}{}", call.id, if is_error { " badly" } else { "" })
            }
        };
        self.events.push(line);
    }

    fn store<'a>(&'a mut self, turn: &'a Turn) -> BoxFuture<'a, Result<(), NotStored>> {
        self.stored.push((turn.messages().len(), serde_json::to_string(turn.state()).unwrap()));
        let fails = self.fails_at == Some(self.stored.len());
        Box::pin(async move { if fails { Err(NotStored { why: "the disk is full".to_owned() }) } else { Ok(()) } })
    }

    fn decide<'a>(&'a mut self, _: &'a Question) -> BoxFuture<'a, Answer> {
        let answer = self.answers.pop_front().unwrap_or(Answer::Stop);
        Box::pin(async move { answer })
    }

    fn calls_cancelled(&mut self) -> BoxFuture<'static, ()> {
        if self.cancels { Box::pin(async {}) } else { Box::pin(futures::future::pending()) }
    }
}

async fn host(builder: toolrack_host::HostBuilder) -> Host {
    let host = builder.build();
    let spec = ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"]);
    host.apply(Desired::from([(ServerName::new("rooms").unwrap(), spec)])).await;
    host.settled().await;
    host
}

fn turn() -> Turn {
    Turn::new(vec![Message::new(Role::User, "go")], Limits::default())
}

/// A tool that returns its argument `text`.
const ECHO: &str = "mcp__rooms__echo";

#[tokio::test]
async fn a_call_reaches_its_server_and_its_result_the_model() {
    let model = Arc::new(Scripted::new().call_tool(ECHO, json!({ "text": "hello" })).say("It said hello.").recording());
    let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, host(Host::builder()).await);
    let (mut turn, mut front) = (turn(), Recorder::default());
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    let id = turn.messages()[1].calls()[0].id.clone();
    assert_eq!(turn.messages()[2].content, "[data from rooms]\nhello");
    assert_eq!(
        front.events,
        ["asked 1", "answered ", &format!("begins {id}"), &format!("ends {id}"), "asked 2", "answered It said hello."]
    );
    assert_eq!(front.stored.iter().map(|(messages, _)| *messages).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let requests = model.requests();
    assert!(requests[0].system.as_deref().unwrap().contains(SAFETY));
    assert_eq!(requests[0].tools.as_ref().unwrap().json().get(), requests[1].tools.as_ref().unwrap().json().get());
    agent.host.shutdown().await;
}

/// A front that adds a server to the host after the model's first answer, before its calls.
struct AddsServer(Host);

impl Front for AddsServer {
    fn on_event(&mut self, _: TurnEvent<'_>) {}

    fn store<'a>(&'a mut self, turn: &'a Turn) -> BoxFuture<'a, Result<(), NotStored>> {
        Box::pin(async move {
            if turn.rounds() == 1 {
                let spec = ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"]);
                let names = ["rooms", "more"].map(|name| (ServerName::new(name).unwrap(), spec.clone()));
                self.0.apply(Desired::from(names)).await;
                self.0.settled().await;
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_new_tool_is_offered_in_the_next_turn_or_with_renews_tools_in_the_next_request() {
    for renews_tools in [false, true] {
        let script = Scripted::new().call_tool(ECHO, json!({ "text": "hello" }));
        let model = Arc::new(script.say("done").recording());
        let mut agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, host(Host::builder()).await);
        agent.renews_tools = renews_tools;
        let mut turn = turn();
        assert_eq!(agent.run(&mut turn, &mut AddsServer(agent.host.clone())).await.unwrap(), End::Answered);
        let requests = model.requests();
        let offers_new = |at: usize| requests[at].tools.as_ref().unwrap().json().get().contains("mcp__more__echo");
        assert_eq!((offers_new(0), offers_new(1)), (false, renews_tools));
        agent.host.shutdown().await;
    }
}

#[tokio::test]
async fn a_refused_call_is_reported_to_the_model_and_does_not_end_the_turn() {
    let calls = vec![
        ToolCallData::new("a", "mcp__rooms__nothing", Map::new()),
        ToolCallData::from_text("b", ECHO, "{ broken"),
        ToolCallData::new("c", "mcp__rooms__fail", Map::from_iter([("message".to_owned(), json!("it failed"))])),
        ToolCallData::new("d", ECHO, Map::from_iter([("text".to_owned(), json!("fine"))])),
    ];
    let reply = Reply::new(Message::new(Role::Assistant, "").with_tool_calls(calls));
    let model = Scripted::new().reply(reply).say("done");
    let agent = Agent::new(Arc::new(model), host(Host::builder()).await);
    let (mut turn, mut front) = (turn(), Recorder::default());
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    let results: Vec<_> =
        turn.messages()[2..6].iter().map(|message| (message.is_error, message.content.clone())).collect();
    assert_eq!(results[0], (true, "no tool is called `mcp__rooms__nothing`".to_owned()));
    assert!(results[1].0 && results[1].1.contains("not a complete JSON object"), "{results:?}");
    assert!(results[2].0 && results[2].1.contains("it failed"), "{results:?}");
    assert_eq!(results[3], (false, "[data from rooms]\nfine".to_owned()));
    agent.host.shutdown().await;
}

#[tokio::test]
async fn a_call_that_is_not_made_is_reported_also_if_the_answer_has_no_other() {
    let broken = ToolCallData::from_text("a", ECHO, "{ broken");
    let reply = Reply::new(Message::new(Role::Assistant, "").with_tool_calls(vec![broken]));
    let agent = Agent::new(Arc::new(Scripted::new().reply(reply).say("done")), Host::builder().build());
    let (mut turn, mut front) = (turn(), Recorder::default());
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    let events = ["asked 1", "answered ", "begins a", "ends a unmade badly", "asked 2", "answered done"];
    assert_eq!(front.events, events);
    assert_eq!(front.stored.iter().map(|(messages, _)| *messages).collect::<Vec<_>>(), [1, 3, 4]);
}

#[tokio::test]
async fn each_call_begins_before_it_ends_however_many_begin_at_once() {
    let calls = (0..100).map(|number: u32| {
        ToolCallData::new(number.to_string(), "nothing", Map::from_iter([("number".to_owned(), json!(number))]))
    });
    let reply = Reply::new(Message::new(Role::Assistant, "").with_tool_calls(calls.collect()));
    let mut agent = Agent::new(Arc::new(Scripted::new().reply(reply).say("done")), Host::builder().build());
    agent.parallel = std::num::NonZeroUsize::new(100).unwrap();
    let (mut turn, mut front) = (turn(), Recorder::default());
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    let position = |line: &str| front.events.iter().position(|event| event == line);
    for number in 0..100 {
        let (begins, ends) = (position(&format!("begins {number}")), position(&format!("ends {number} badly")));
        assert!(begins.is_some() && begins < ends, "{number}: {:?}", front.events);
    }
}

#[tokio::test]
async fn concealed_text_of_results_reaches_neither_the_model_nor_the_history() {
    let script = Scripted::new().call_tool(ECHO, json!({ "text": "the key is hunter2" }));
    let script = script.call_tool("mcp__rooms__fail", json!({ "message": "hunter2 is wrong" }));
    let model = Arc::new(script.say("done").recording());
    let mut agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, host(Host::builder()).await);
    agent.conceal = Some(Arc::new(|text| text.replace("hunter2", "[hidden]")));
    let (mut turn, mut front) = (turn(), Recorder::default());
    agent.run(&mut turn, &mut front).await.unwrap();
    let results: Vec<_> =
        model.requests()[2].messages.iter().filter(|message| message.role == Role::Tool).cloned().collect();
    assert_eq!(results[0].content, "[data from rooms]\nthe key is [hidden]");
    assert!(results[1].is_error && results[1].content.contains("[hidden] is wrong"), "{results:?}");
    assert_eq!(turn.messages()[..5], model.requests()[2].messages, "the history is what the model got");
    agent.host.shutdown().await;
}

/// Approves the first call with another text, and refuses all others.
#[derive(Default)]
struct Editor(AtomicUsize);

impl Asker for Editor {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        assert_eq!(question.server.as_str(), "rooms");
        let times = self.0.fetch_add(1, Ordering::Relaxed);
        let edited = Map::from_iter([("text".to_owned(), json!("edited"))]);
        let no = Confirmed::No { why: Some("not that".to_owned()) };
        Box::pin(async move { if times == 0 { Confirmed::Edited(edited) } else { no } })
    }
}

#[tokio::test]
async fn the_user_is_asked_before_a_call_and_the_approved_arguments_are_sent() {
    let model =
        Scripted::new().call_tool(ECHO, json!({ "text": "one" })).call_tool(ECHO, json!({ "text": "two" })).say("done");
    let builder = Host::builder().gate(Arc::new(Policy::default()));
    let mut agent = Agent::new(Arc::new(model), host(builder).await);
    agent.asker = Some(Arc::new(Editor::default()));
    let mut turn = turn();
    agent.run(&mut turn, &mut NoopFront).await.unwrap();
    assert_eq!(turn.messages()[2].content, "[data from rooms]\nedited");
    assert!(turn.messages()[4].is_error && turn.messages()[4].content.contains("not that"), "{:?}", turn.messages()[4]);
    agent.host.shutdown().await;
}

#[tokio::test]
async fn a_limit_ends_the_turn_unless_the_user_lets_it_go_on() {
    let model = || (0..4).fold(Scripted::new(), |model, at| model.call_tool(ECHO, json!({ "text": at.to_string() })));
    let limits = Limits { rounds: 2, ..Limits::default() };
    let host = host(Host::builder()).await;
    for (answers, end, rounds) in
        [(vec![], End::RoundLimit, 2), (vec![Answer::Continue, Answer::Stop], End::RoundLimit, 4)]
    {
        let agent = Agent::new(Arc::new(model()), host.clone());
        let mut turn = Turn::new(vec![Message::new(Role::User, "go")], limits);
        let mut front = Recorder { answers: answers.into(), ..Recorder::default() };
        assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), end);
        assert_eq!(turn.rounds(), rounds);
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_model_that_breaks_off_leaves_the_turn_where_it_was() {
    let cut = ModelErrorKind::Cut { why: "the connection ended".to_owned() };
    let model = Scripted::new().say_and_fail("I was", cut).say("done");
    let agent = Agent::new(Arc::new(model), host(Host::builder()).await);
    let mut turn = turn();
    let error = agent.run(&mut turn, &mut NoopFront).await.unwrap_err();
    assert!(matches!(&error, AgentError::Model { partial, .. } if partial == "I was"), "{error:?}");
    assert_eq!((turn.messages().len(), turn.next()), (1, Next::CallModel));
    // The same turn can be run again, and continues.
    assert_eq!(agent.run(&mut turn, &mut NoopFront).await.unwrap(), End::Answered);
    agent.host.shutdown().await;
}

#[tokio::test]
async fn a_model_that_takes_no_tools_is_asked_once_more_without_any() {
    let host = host(Host::builder()).await;
    let refusal = |status, message: &str| ModelErrorKind::Refused { status, message: message.to_owned() };
    for (status, message) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use."),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
    ] {
        let model = Arc::new(Scripted::new().fail(refusal(status, message)).say("hello").recording());
        let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, host.clone());
        let (mut turn, mut front) = (turn(), Recorder::default());
        assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
        let text = format!("without tools: {message}");
        assert_eq!(front.events, ["asked 1", &text, "asked 1", "answered hello"]);
        let requests = model.requests();
        assert!(requests[0].tools.is_some() && requests[1].tools.is_none() && requests[1].system.is_none());
    }
    // Other refusals end the run, and so does a refusal of the request without tools.
    for kinds in [
        vec![refusal(400, "the tool schema of `a` is invalid")],
        vec![refusal(400, "does not support tools"), refusal(400, "does not support tools")],
    ] {
        let model = kinds.into_iter().fold(Scripted::new(), Scripted::fail).say("hello");
        let agent = Agent::new(Arc::new(model), host.clone());
        assert!(agent.run(&mut turn(), &mut NoopFront).await.is_err());
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_turn_stops_after_a_step_that_could_not_be_stored() {
    let model = Arc::new(Scripted::new().call_tool(ECHO, json!({ "text": "hello" })).recording());
    let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, host(Host::builder()).await);
    let mut front = Recorder { fails_at: Some(2), ..Recorder::default() };
    let error = agent.run(&mut turn(), &mut front).await.unwrap_err();
    assert_eq!(error.to_string(), "the conversation could not be stored: the disk is full");
    assert_eq!(front.events, ["asked 1", "answered "], "the call was not made");
    agent.host.shutdown().await;
}

#[tokio::test]
async fn cancelled_calls_are_dropped_and_the_model_gets_a_note() {
    let model = Scripted::new().call_tool("mcp__rooms__sleep", json!({ "ms": 600_000 })).say("then not");
    let agent = Agent::new(Arc::new(model), host(Host::builder()).await);
    let (mut turn, mut front) = (turn(), Recorder { cancels: true, ..Recorder::default() });
    assert_eq!(agent.run(&mut turn, &mut front).await.unwrap(), End::Answered);
    assert!(turn.messages()[2].is_error && turn.messages()[2].content.contains("the user cancelled"));
    agent.host.shutdown().await;
}

/// Never answers, and notifies when it is asked.
#[derive(Default)]
struct Silent(Arc<tokio::sync::Notify>);

impl Asker for Silent {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, _: Confirm) -> BoxFuture<'_, Confirmed> {
        self.0.notify_one();
        Box::pin(futures::future::pending())
    }
}

/// A front whose user cancels the calls as soon as they are asked.
struct CancelsAtTheQuestion(Arc<tokio::sync::Notify>);

impl Front for CancelsAtTheQuestion {
    fn on_event(&mut self, _: TurnEvent<'_>) {}

    fn calls_cancelled(&mut self) -> BoxFuture<'static, ()> {
        let asked = Arc::clone(&self.0);
        Box::pin(async move { asked.notified().await })
    }
}

const NOT_RUN: &str = "the user cancelled this call before it was made: it was not run";

#[tokio::test]
async fn a_call_cancelled_during_its_approval_is_reported_as_not_run() {
    let model = Scripted::new().call_tool(ECHO, json!({ "text": "hello" })).say("then not");
    let mut agent = Agent::new(Arc::new(model), host(Host::builder().gate(Arc::new(Policy::default()))).await);
    let silent = Silent::default();
    let asked = Arc::clone(&silent.0);
    agent.asker = Some(Arc::new(silent));
    let mut with_cancelled_call = turn();
    agent.run(&mut with_cancelled_call, &mut CancelsAtTheQuestion(Arc::clone(&asked))).await.unwrap();
    assert_eq!(with_cancelled_call.messages()[2].content, NOT_RUN);

    // The call is reported in the same way if the whole turn is cancelled.
    let model = Scripted::new().call_tool(ECHO, json!({ "text": "hello" }));
    agent.model = Arc::new(model);
    let (mut cancelled, mut front) = (turn(), NoopFront);
    tokio::select! {
        _ = agent.run(&mut cancelled, &mut front) => unreachable!("the question is never answered"),
        () = asked.notified() => {}
    }
    cancelled.cancel("");
    assert_eq!(cancelled.messages()[2].content, NOT_RUN);
    agent.host.shutdown().await;
}

#[tokio::test]
async fn dropping_a_run_leaves_a_turn_that_can_be_cancelled() {
    let agent = Agent::new(Arc::new(Scripted::new().hang()), host(Host::builder()).await);
    let mut turn = turn();
    let ran = tokio::time::timeout(Duration::from_millis(20), agent.run(&mut turn, &mut NoopFront)).await;
    assert!(ran.is_err());
    turn.cancel("");
    assert_eq!(turn.next(), Next::Done(&End::Cancelled));
    agent.host.shutdown().await;
}
