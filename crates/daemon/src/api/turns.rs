//! Runs turns of a conversation: a model answers, with the tools of a world (a host with its configuration), and events
//! report the turn live.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    Extension,
    http::StatusCode,
    response::{
        Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolrack_agent::{
    Agent, AgentError, Delta, End, Front, Message, NotStored, Role, SecretBuffer, TextKind, Turn, TurnEvent,
};
use toolrack_config::Refresh;
use toolrack_host::{Budget, Conceal, Host, Offer, Pattern, Principal, Quantity, Selection, ServerName, Way, Work};
use toolrack_store::{
    Claim, OwnerFilter, StoreError,
    journal::{self, Journal, OpenedSession},
};
use utoipa::ToSchema;

use super::{
    ApiError, Body, Path, WorldExtension,
    calls::{make_event, work_name},
    cancel_response,
};
use crate::{
    event_log::conceal,
    gateway::FIRST_LIST_TIMEOUT,
    rights::Right,
    routes::check_right,
    world::{ChosenModel, NoModel, RunningWork, WorkKind, World, discovery_name},
};

/// The maximum number of events in the channel to the reader. For a slower reader, the texts of events are joined.
const MAX_CHANNEL_EVENTS: usize = 1_000;

/// A message of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTurn {
    /// The text of the message. An empty text continues a turn that was interrupted.
    #[serde(default)]
    text: String,
    /// The conversation, by its id, the beginning of its id, or `last`; a new one by default.
    session: Option<String>,
    /// The model that answers, as `provider/name`, instead of the configured one. Needs the right `operate`.
    model: Option<String>,
    /// Only the tools of these servers: none if the list is empty.
    servers: Option<Vec<String>>,
    /// Only tools that one of these patterns matches: `server/tool`, `git/*`, `*/read_*`. None if the list is empty.
    #[schema(example = json!(["git/*"]))]
    tools: Option<Vec<String>>,
    /// The caller's name for this turn, with which the caller can cancel it.
    id: Option<String>,
}

/// Sends a message to a conversation, and reports the turn as Server-Sent Events: `session`, `asked`, `text`,
/// `thinking`, `retry`, `without_tools`, `call_begins`, `call_ends`, and at the end `done` or `error`. A caller that
/// disconnects interrupts the turn, which can be continued later.
#[utoipa::path(post, path = "/api/v1/turns", tag = "conversations", request_body = NewTurn,
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 403, body = ApiError),
        (status = 404, body = ApiError), (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(super) async fn begin(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
    Body(request): Body<NewTurn>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    if let Some(model) = &request.model {
        check_right(right_to_choose(model), &principal)?;
    }
    let name = request.id.as_ref().map(|id| work_name(&principal, id));
    let running_turn = world.work_in_progress.begin(WorkKind::Turn, name)?;
    let chosen_model =
        (world.models)(request.model.clone(), world.loaded()).await.map_err(|NoModel { code, message, hint }| {
            let error = ApiError::new(StatusCode::CONFLICT, code, message);
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })?;
    check_price(&world, &chosen_model)?;
    let (journal, claim, opened_session) =
        open_conversation(&world, &principal, request.session.as_deref(), chosen_model.model.name()).await?;
    let turn = new_or_resumed_turn(opened_session, &request.text, &chosen_model)?;
    let mut agent =
        make_agent(&world, chosen_model, parse_selection(request.servers.as_deref(), request.tools.as_deref())?).await;
    agent.caller = world.questions.caller(principal, Way::Agent).with_conversation(journal.prefix());
    if let Some(id) = request.id {
        agent.caller = agent.caller.with_request(id);
    }
    // Check the quotas now, so that a refusal is the answer; the refusals of later requests are events of the stream.
    drop(agent.host.begin(&agent.caller, Work::Model, agent.model.name())?);
    let (event_sender, events) = mpsc::channel(MAX_CHANNEL_EVENTS);
    let mut live_turn = LiveTurn::new(Arc::clone(&world), agent.host.clone(), journal, event_sender);
    live_turn.claim = claim;
    // The turn sends its events to the channel, so its future adds no item to the stream.
    let turn_end = run_to_end(agent, turn, live_turn, running_turn).into_stream().filter_map(async |()| None);
    let events = stream::unfold(events, async |mut events| Some((events.recv().await?, events)));
    Ok(Sse::new(stream::select(events, turn_end).map(Ok)).keep_alive(KeepAlive::default()))
}

/// The right to choose a model other than the configured one. A right is needed because another model can cost more, or
/// can be a server in the daemon's network. A mock model (`mock/…`) needs a higher right, because it reads a file of
/// the daemon's machine.
fn right_to_choose(model: &str) -> Right {
    if model.starts_with("mock/") { Right::Install } else { Right::Operate }
}

/// Refuses a model without a known price if a quota limits what models cost, because that quota would never be used up.
fn check_price(world: &World, chosen_model: &ChosenModel) -> Result<(), ApiError> {
    if chosen_model.has_price || !world.quotas.bounds(Quantity::Dollars) {
        return Ok(());
    }
    let name = chosen_model.model.name();
    let message = format!("the price of {name} is not known, and a quota of the tenant limits what models cost");
    Err(ApiError::new(StatusCode::CONFLICT, "PRICE_UNKNOWN", message)
        .hint("write what a million tokens cost into toolrack.toml: `[model] price = { input = …, output = … }`"))
}

/// Cancels the turn to which the same caller gave this name. The messages up to then stay stored.
#[utoipa::path(delete, path = "/api/v1/turns/{id}", tag = "conversations", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError)))]
pub(super) async fn cancel(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    cancel_response(world.work_in_progress.cancel(WorkKind::Turn, &work_name(&principal, &id)))
}

/// Opens the conversation `session`, or a new one. An error if another turn is running in the conversation: the calls
/// of that turn would look interrupted.
async fn open_conversation(
    world: &World,
    principal: &Principal,
    session: Option<&str>,
    model: &str,
) -> Result<(Journal, Option<Claim>, OpenedSession), ApiError> {
    let busy_error = |error: StoreError| match error {
        StoreError::SessionBusy { .. } => ApiError::new(StatusCode::CONFLICT, "SESSION_BUSY", error.to_string())
            .hint("wait until that turn has ended, or cancel it"),
        error => error.into(),
    };
    let conceal = concealer(world);
    let Some(session) = session else {
        let journal = Journal::new(world.store.clone(), model, conceal).owned_by(principal);
        let claim = journal.claim().map_err(busy_error)?;
        return Ok((journal, claim, OpenedSession::default()));
    };
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let session = store.find_session(session, OwnerFilter::Of(principal)).await?;
    let claim = store.claim(&session).map_err(busy_error)?;
    let (journal, opened_session) = Journal::open(store, session, model, conceal).await?;
    Ok((journal, Some(claim), opened_session))
}

/// Returns a function that hides secrets in a text: those that servers have received until the function is called.
fn concealer(world: &World) -> Conceal {
    let secrets = Arc::clone(&world.secrets);
    Arc::new(move |text| secrets.conceal(text).into_owned())
}

/// The turn that answers `text`. If `text` is empty, the interrupted turn of the conversation.
fn new_or_resumed_turn(
    opened_session: OpenedSession,
    text: &str,
    chosen_model: &ChosenModel,
) -> Result<Turn, ApiError> {
    let OpenedSession { messages, interrupted_turn } = opened_session;
    let resumed_turn = interrupted_turn.map(|state| Turn::resume(messages.clone(), state, chosen_model.limits));
    if text.trim().is_empty() {
        let message = "there is no message, and no interrupted turn to continue";
        return resumed_turn.ok_or_else(|| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "NOTHING_SAID", message));
    }
    // `Turn::resume` has added a result for each interrupted call, which the model must see before the new message.
    let mut messages = resumed_turn.map_or(messages, Turn::into_messages);
    messages.push(Message::new(Role::User, text));
    Ok(Turn::new(messages, chosen_model.limits))
}

/// Returns the selection of the tools that the user wants in this turn.
fn parse_selection(servers: Option<&[String]>, tools: Option<&[String]>) -> Result<Selection, ApiError> {
    let mut selection = Selection::all();
    if let Some(servers) = servers {
        let names = servers.iter().map(|name| ServerName::new(name.as_str()).map_err(|_| ApiError::no_server(name)));
        selection = selection.of_servers(names.collect::<Result<Vec<_>, _>>()?);
    }
    if let Some(tools) = tools {
        let patterns = tools.iter().map(|tool| tool.parse::<Pattern>());
        let patterns = patterns.collect::<Result<Vec<_>, _>>().map_err(|error| {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_PATTERN", error.to_string())
                .hint("write server/tool, with * for any part: git/*, */read_*")
        })?;
        selection = selection.only(patterns);
    }
    Ok(selection)
}

/// Returns the agent that answers with the tools of `selection`. The model sees all of these tools if they leave
/// enough room for the conversation. If not, the model finds tools by searching.
async fn make_agent(world: &World, chosen_model: ChosenModel, selection: Selection) -> Agent {
    // The servers of a world that has just begun are still connecting, for example after a move to this replica.
    world.host.settled_within(FIRST_LIST_TIMEOUT).await;
    let context_tokens = chosen_model.model.context_tokens().and_then(|tokens| usize::try_from(tokens).ok());
    let budget = Budget { context_tokens, max_tools: chosen_model.model.wire().max_tools(), ..Budget::default() };
    let (host, shown_tools) = match world.host.catalog().offer(&budget, &selection) {
        Offer::All => (world.host.clone(), selection.clone()),
        Offer::Discovery => {
            let discovery = discovery_name(&world.loaded().desired);
            let host = world.host.with_discovery(&discovery, selection.clone()).await;
            (host, Selection::all().of_servers([discovery]))
        }
    };
    let mut agent = Agent::new(chosen_model.model, host);
    agent.selection = Arc::new(shown_tools);
    agent.findable = Some(Arc::new(selection));
    agent.conceal = Some(concealer(world));
    agent.max_tokens = chosen_model.max_tokens;
    agent.renews_tools = world.loaded().settings.tools.refresh == Refresh::Turn;
    agent
}

/// Runs the turn, and reports how it ended.
async fn run_to_end(agent: Agent, mut turn: Turn, mut live_turn: LiveTurn, running_turn: RunningWork) {
    let outcome = tokio::select! {
        outcome = agent.run(&mut turn, &mut live_turn) => outcome,
        () = running_turn.cancelled() => Ok(End::Cancelled),
    };
    let outcome = match outcome {
        Ok(End::Cancelled) => {
            turn.cancel(&live_turn.answer);
            live_turn.store(&turn).await.map(|()| End::Cancelled).map_err(AgentError::from)
        }
        outcome => outcome,
    };
    live_turn.send_held_back();
    // Release the claim before the last event, because a client that gets that event may begin the next turn
    // immediately.
    live_turn.claim = None;
    match outcome {
        Ok(end) => {
            let last_message = turn.messages().last().filter(|message| message.role == Role::Assistant);
            live_turn.send(
                "done",
                json!({
                    "session": live_turn.journal.id().map(|id| id.to_string()),
                    "model": agent.model.name(),
                    "end": end.name(),
                    "reason": end.reason(),
                    "rounds": turn.rounds(),
                    "text": last_message.map(|message| message.content.as_str()).unwrap_or_default(),
                    "spent": journal::model_use(turn.usage(), turn.cost()),
                }),
            );
        }
        Err(error) => {
            let mut report = match &error {
                AgentError::Model { error, .. } => json!({ "code": error.code() }),
                AgentError::OverQuota(over) => error_object(&over.clone().into()),
                _ => json!({ "code": "NOT_KEPT" }),
            };
            report["message"] = json!(error.to_string());
            let session = live_turn.journal.id().map(|id| id.to_string());
            live_turn.send("error", json!({ "error": report, "session": session }));
        }
    }
    live_turn.flush().await;
}

/// An error as the API shows it in an answer.
fn error_object(error: &ApiError) -> Value {
    // Cannot fail, because an error has only texts as keys.
    serde_json::to_value(error).map(|mut body| body["error"].take()).unwrap_or_default()
}

/// Sends the events of a running turn to a reader, and stores the conversation.
struct LiveTurn {
    world: Arc<World>,
    /// The host as the model sees it.
    host: Host,
    journal: Journal,
    /// Excludes other turns from the conversation while this one runs.
    claim: Option<Claim>,
    sender: mpsc::Sender<Event>,
    /// The events that the reader has not received yet.
    unsent: VecDeque<(&'static str, Value)>,
    /// Text of the model that is not sent yet, because a secret could begin in it.
    secret_buffer: SecretBuffer,
    /// The text of the model's answer so far.
    answer: String,
    /// Whether the event `session` was sent.
    was_session_sent: bool,
}

impl LiveTurn {
    fn new(world: Arc<World>, host: Host, journal: Journal, sender: mpsc::Sender<Event>) -> Self {
        let (unsent, secret_buffer, answer) = (VecDeque::new(), SecretBuffer::default(), String::new());
        let claim = None;
        let mut live =
            Self { world, host, journal, claim, sender, unsent, secret_buffer, answer, was_session_sent: false };
        live.send_session();
        live
    }

    /// Sends the event `session` once the conversation is stored.
    fn send_session(&mut self) {
        if let (Some(session), false) = (self.journal.session(), self.was_session_sent) {
            self.was_session_sent = true;
            self.send("session", json!({ "id": session.id.to_string(), "title": session.title }));
        }
    }

    /// Sends the part of the model's text that certainly contains no part of a secret, and holds the rest back.
    fn send_piece(&mut self, kind: TextKind, piece: &str) {
        let secrets = Arc::clone(&self.world.secrets);
        for (kind, text) in self.secret_buffer.push(kind, piece, |text| secrets.safe_len(text)) {
            self.send_text(kind, &text);
        }
    }

    /// Sends the text that was held back, at the end of the stream.
    fn send_held_back(&mut self) {
        if let Some((kind, text)) = self.secret_buffer.take() {
            self.send_text(kind, &text);
        }
    }

    fn send_text(&mut self, kind: TextKind, text: &str) {
        let name = match kind {
            TextKind::Text => "text",
            TextKind::Thinking => "thinking",
        };
        self.send(name, json!({ "text": text }));
    }

    /// Sends an event, with secrets hidden. If the reader is too slow, keeps the event until there is room.
    fn send(&mut self, name: &'static str, mut data: Value) {
        conceal(&mut data, &self.world.secrets);
        if let (Some(("text", last_event)), "text") = (self.unsent.back_mut(), name)
            && let (Some(Value::String(previous)), Some(addition)) = (last_event.get_mut("text"), data["text"].as_str())
        {
            // A slow reader gets the text in larger pieces.
            previous.push_str(addition);
        } else {
            self.unsent.push_back((name, data));
        }
        while let Some((name, data)) = self.unsent.pop_front() {
            // Without room, the event is not even built.
            if self.sender.capacity() == 0 || self.sender.try_send(make_event(name, &data)).is_err() {
                self.unsent.push_front((name, data));
                return;
            }
        }
    }

    /// Waits until the reader has received all events.
    async fn flush(mut self) {
        while let Some((name, data)) = self.unsent.pop_front() {
            if self.sender.send(make_event(name, &data)).await.is_err() {
                return;
            }
        }
    }

    /// The selector of a tool that a model named.
    fn selector(&self, name: &str) -> String {
        self.host.catalog().get(name).map_or_else(|| name.to_owned(), |tool| tool.selector())
    }
}

impl Front for LiveTurn {
    fn on_event(&mut self, event: TurnEvent<'_>) {
        match event {
            TurnEvent::Asked { round } => {
                self.answer.clear();
                self.send("asked", json!({ "round": round }));
            }
            TurnEvent::Delta(Delta::Text(text)) => {
                self.answer.push_str(text);
                self.send_piece(TextKind::Text, text);
            }
            TurnEvent::Delta(Delta::Thinking(text)) => self.send_piece(TextKind::Thinking, text),
            TurnEvent::Delta(Delta::Retry { after, why }) => {
                self.send("retry", json!({ "after_ms": after.as_millis(), "why": why }));
            }
            TurnEvent::Answered(reply) => {
                self.send_held_back();
                self.answer.clear();
                self.journal.record_cost(reply);
            }
            TurnEvent::WithoutTools { why } => self.send("without_tools", json!({ "why": why })),
            TurnEvent::CallBegins(call) => {
                let arguments = call.arguments().map_or(Value::Null, |arguments| json!(arguments));
                let tool = self.selector(&call.name);
                self.send("call_begins", json!({ "id": call.id, "tool": tool, "arguments": arguments }));
            }
            TurnEvent::CallEnds { call, text, is_error, took, .. } => {
                let tool = self.selector(&call.name);
                let data = json!({
                    "id": call.id, "tool": tool, "is_error": is_error, "text": text, "duration_ms": took.as_millis(),
                });
                self.send("call_ends", data);
            }
            _ => {}
        }
    }

    fn store<'a>(&'a mut self, turn: &'a Turn) -> BoxFuture<'a, Result<(), NotStored>> {
        Box::pin(async move {
            self.journal.store_turn(turn).await.map_err(|error| NotStored { why: error.to_string() })?;
            self.send_session();
            Ok(())
        })
    }
}
