//! Handles the messages that a server sends on its own: progress, changes, log messages and, in the legacy era (MCP
//! 2025-11-25 and older), requests.
//!
//! [`Inbound`] takes messages in the order of arrival and never waits. It passes progress to the call at once, and
//! notes a change in a flag. It limits the rate of log messages and of events about lists. A limited number of tasks
//! answers the server's requests: most are questions, which an asker (a part of the program) puts to a user.

mod changed;
pub(crate) mod clock;
mod closed;
pub(crate) mod input;
mod noise;
pub(crate) mod observe;
mod progress;
mod question;
pub(crate) mod rate;
pub(crate) mod tasks;
pub(crate) mod topics;

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{Semaphore, oneshot},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use changed::ToolsChanged;
pub(crate) use closed::ConnectionEnd;
use noise::Noise;
use question::Question;

use self::{
    clock::Clock,
    observe::Observer,
    rate::RateLimiter,
    tasks::ClientTasks,
    topics::{Topics, WatchedResources},
};
use crate::{
    ask::SharedAsker,
    egress::Guard,
    event::Event,
    link::{
        framing::envelope::{self, Envelope, Id},
        message::{no_params, parse_rpc_error},
    },
    mcp::Progress,
    spec::{Era, ServerName},
    text::quote,
    witness::Caller,
};

/// Called for each progress notification, in order, on the task that reads the connection: it must not block.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The most log messages and warnings of one server in a second. Further ones are counted and dropped.
pub(crate) const MAX_MESSAGES_PER_SECOND: u16 = 100;

/// The shortest time between two events about changes of one list.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// Sends messages for which the sender does not wait: answers to a server's requests, and cancellations. Drops a
/// message if the queue is full.
pub(crate) trait MessageSink: Send + Sync {
    fn post(&self, message: Bytes);
}

/// Receives the events of a connection.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// A request of this host that waits for its answer.
pub(crate) struct OpenRequest {
    pub(crate) clock: Arc<Clock>,
    pub(crate) asker: SharedAsker,
    pub(crate) caller: Caller,
    pub(crate) on_progress: Option<OnProgress>,
    /// Cancelled when the caller no longer waits for the answer.
    abandon_token: CancellationToken,
}

impl OpenRequest {
    pub(crate) fn new(clock: Arc<Clock>, asker: SharedAsker, caller: Caller, on_progress: Option<OnProgress>) -> Self {
        Self { clock, asker, caller, on_progress, abandon_token: CancellationToken::new() }
    }
}

impl fmt::Debug for OpenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRequest").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// The reports about a list within the last [`CHANGE_INTERVAL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ListChange {
    /// No change was reported: the next one is reported at once.
    #[default]
    Unreported,
    /// A change was reported, and the list has not changed since.
    Reported,
    /// The list has changed again after the report: one more report must follow at the end of the interval, because a
    /// caller may have read the list in between.
    ReportDue,
}

/// Lists that the host reads only when a caller asks for them, but whose changes it reports.
#[derive(Clone, Copy, Debug)]
enum ListOnDemand {
    Prompts,
    Resources,
}

/// The open requests of a connection, and the recent reports about its lists.
#[derive(Default)]
struct State {
    /// Requests of this host that wait for their answers, by their ids.
    requests: HashMap<i64, Arc<OpenRequest>>,
    /// One token for each request that the server may cancel, by its id as JSON. These are the server's own questions
    /// that are being answered and, in the modern era, this host's subscriptions.
    revocation_tokens: HashMap<String, CancellationToken>,
    /// One sender for each subscription that the server has not acknowledged yet, by the id of its request.
    acknowledgement_senders: HashMap<i64, oneshot::Sender<Vec<String>>>,
    /// Indexed by [`ListOnDemand`].
    list_changes: [ListChange; 2],
    tasks: ClientTasks,
}

/// The receiving end of one connection.
pub(crate) struct Inbound {
    pub(crate) server: ServerName,
    pub(crate) asker: SharedAsker,
    pub(crate) events: Events,
    observer: Observer,
    /// Notes that the list of tools has changed.
    pub(crate) tools_changed: ToolsChanged,
    /// Empty until the handshake has detected the era.
    pub(crate) era: OnceLock<Era>,
    /// Tasks of this connection; they end with `stop`.
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
    state: Mutex<State>,
    /// One permit for each request of the server that may be answered at once.
    answer_permits: Arc<Semaphore>,
    /// Limits log messages and warnings.
    message_rate: RateLimiter,
    /// Counts bytes that are not an MCP message.
    noise: Noise,
    /// Judges which pages the server may ask the user to open.
    page_guard: OnceLock<Guard>,
    /// The listeners of resources.
    watched_resources: OnceLock<Arc<WatchedResources>>,
    /// Whether a task maintains the subscriptions of this connection.
    pub(crate) maintains_subscriptions: AtomicBool,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The inputs of [`Inbound::new`].
pub(crate) struct InboundParts {
    pub(crate) asker: SharedAsker,
    pub(crate) events: Events,
    pub(crate) observer: Observer,
    /// The most requests of the server that are answered at once.
    pub(crate) server_requests: usize,
    /// Tracks the tasks that answer.
    pub(crate) tracker: TaskTracker,
    /// Ends these tasks.
    pub(crate) stop: CancellationToken,
}

#[cfg(test)]
impl InboundParts {
    /// The parts of a connection that no user and no program watches.
    pub(crate) fn unwatched() -> Self {
        Self {
            asker: Arc::new(crate::ask::NoAsker),
            events: Arc::new(|_| {}),
            observer: observe::Observer::new([]),
            server_requests: 1,
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Inbound {
    /// Lets the server ask the user to open the pages that `guard` allows. Does nothing if a guard was set before.
    pub(crate) fn set_page_guard(&self, guard: Guard) {
        let _ = self.page_guard.set(guard);
    }

    /// Reports later changes of resources to `watched_resources`.
    pub(crate) fn set_watched_resources(&self, watched_resources: Arc<WatchedResources>) {
        // This cannot fail: the connection sets the resources once, before it is used.
        let _ = self.watched_resources.set(watched_resources);
    }

    /// Returns the resources of this server that callers listen to.
    pub(crate) fn topics(&self) -> Option<Arc<Topics>> {
        self.watched_resources.get()?.with_listeners(&self.server)
    }

    /// Returns a receiver of the resources that the server agrees to when it acknowledges the subscription `id`.
    pub(crate) fn acknowledgement(&self, id: i64) -> oneshot::Receiver<Vec<String>> {
        let (sender, receiver) = oneshot::channel();
        let senders = &mut self.state.lock().acknowledgement_senders;
        senders.retain(|_, sender| !sender.is_closed());
        senders.insert(id, sender);
        receiver
    }

    /// Describes the server for the code that answers the server's questions: its name, the pages that it may ask the
    /// user to open, and the abilities that the host declared to it.
    pub(crate) fn questioner(&self) -> input::Questioner<'_> {
        input::Questioner { server: &self.server, page_guard: self.page_guard.get(), abilities: self.asker.abilities() }
    }

    pub(crate) fn new(server: ServerName, parts: InboundParts) -> Arc<Self> {
        let InboundParts { asker, events, observer, server_requests, tracker, stop } = parts;
        Arc::new(Self {
            server,
            page_guard: OnceLock::new(),
            asker,
            events,
            observer,
            tools_changed: ToolsChanged::default(),
            era: OnceLock::new(),
            tracker,
            stop,
            state: Mutex::default(),
            answer_permits: Arc::new(Semaphore::new(server_requests)),
            message_rate: RateLimiter::new(MAX_MESSAGES_PER_SECOND),
            watched_resources: OnceLock::new(),
            maintains_subscriptions: AtomicBool::new(false),
            noise: Noise::default(),
        })
    }

    /// Registers a request: progress and questions reach it until the returned guard is dropped.
    pub(crate) fn register(self: &Arc<Self>, id: i64, request: OpenRequest) -> RegisteredRequest {
        let abandon_token = request.abandon_token.clone();
        self.state.lock().requests.insert(id, Arc::new(request));
        RegisteredRequest { id, inbound: self.clone(), abandon_token: Some(abandon_token) }
    }

    /// Handles a notification or a request of the server. `stream_request` is the request of this host on whose stream
    /// the message arrived, if the transport knows that request.
    pub(crate) fn accept(
        self: &Arc<Self>,
        message: Envelope<'_>,
        stream_request: Option<i64>,
        sink: &Arc<dyn MessageSink>,
    ) {
        match message {
            Envelope::Notification { method, params } => self.handle_notification(&method, params, stream_request),
            Envelope::Request { id, method, params } => {
                let params = params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
                let question = Question { inbound: self.clone(), method: method.into_owned(), params, stream_request };
                self.handle_request(id, question, sink);
            }
            Envelope::Response { .. } => self.warn("an answer to no waiting request was ignored"),
            Envelope::Orphan { error } => {
                self.warn(format!("an error that names no request was ignored: {}", parse_rpc_error(error)));
            }
            Envelope::Batch(_) => self.warn("a batch inside a batch was ignored"),
        }
    }

    /// Passes bytes from the server to the observer: a line, a body, or the data of an event.
    pub(crate) fn observe_received(&self, bytes: &[u8]) {
        self.observer.received(&self.server, bytes);
    }

    /// Passes bytes for the server to the observer.
    pub(crate) fn observe_sent(&self, bytes: &[u8]) {
        self.observer.sent(&self.server, bytes);
    }

    /// Reports a warning as an event, within the rate limit.
    pub(crate) fn warn(&self, warning: impl AsRef<str>) {
        if self.allow_message() {
            (self.events)(Event::McpServerWarning { server: self.server.clone(), warning: quote(warning.as_ref()) });
        }
    }

    /// Counts bytes that are not a message, and reports a warning for the first ones.
    pub(crate) fn note_noise(&self, what: &str, sample: &[u8]) {
        if let Some(warning) = self.noise.note(what, sample) {
            self.warn(warning);
        }
    }

    /// Returns a summary of the noise (bytes that are not a message) so far, as one safe line; empty if there was none.
    pub(crate) fn noise_summary(&self) -> String {
        self.noise.summary()
    }

    fn handle_notification(self: &Arc<Self>, method: &str, params: Option<&RawValue>, stream_request: Option<i64>) {
        match method {
            "notifications/progress" => self.handle_progress(params, stream_request),
            "notifications/tools/list_changed" => self.tools_changed.raise(),
            "notifications/message" => self.handle_log(params),
            "notifications/subscriptions/acknowledged" => self.handle_acknowledgement(params),
            "notifications/resources/updated" => self.handle_resource_updated(params),
            "notifications/cancelled" => self.handle_cancelled(params),
            // The host reads these lists only on demand, so it has nothing to refresh. But a caller may show them.
            "notifications/prompts/list_changed" => self.handle_list_changed(ListOnDemand::Prompts),
            "notifications/resources/list_changed" => self.handle_list_changed(ListOnDemand::Resources),
            // A notification has no answer, so an unknown one is ignored.
            _ => {}
        }
    }

    /// Handles the acknowledgement of a subscription. If no request in `acknowledgement_senders` waits for it, the
    /// subscription is the one to changes of lists.
    fn handle_acknowledgement(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Acknowledged {
            #[serde(rename = "_meta")]
            meta: Meta,
            #[serde(default)]
            notifications: Notifications,
        }
        #[derive(serde::Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
            id: i64,
        }
        #[derive(Default, serde::Deserialize)]
        struct Notifications {
            #[serde(default, rename = "resourceSubscriptions")]
            resources: Vec<String>,
        }
        let acknowledgement = params.and_then(|raw| serde_json::from_str::<Acknowledged>(raw.get()).ok());
        let waiting_sender = acknowledgement.and_then(|acknowledgement| {
            let sender = self.state.lock().acknowledgement_senders.remove(&acknowledgement.meta.id)?;
            Some((sender, acknowledgement.notifications.resources))
        });
        match waiting_sender {
            // Sending fails if the caller has stopped waiting. The request is then about to be dropped.
            Some((sender, resources)) => drop(sender.send(resources)),
            None => self.tools_changed.note_subscription(),
        }
    }

    fn handle_resource_updated(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Updated<'a> {
            #[serde(borrow)]
            uri: Cow<'a, str>,
        }
        let Some(topics) = self.topics() else { return };
        if let Some(Updated { uri }) = params.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
            topics.record_update(&uri);
        }
    }

    /// Registers the subscription `id` until the returned guard is dropped. The guard notices when the server ends the
    /// subscription.
    pub(crate) fn register_subscription(&self, id: i64) -> RegisteredSubscription<'_> {
        let (key, revocation_token) = (id.to_string(), CancellationToken::new());
        self.state.lock().revocation_tokens.insert(key.clone(), revocation_token.clone());
        RegisteredSubscription { inbound: self, key, revocation_token }
    }

    /// Handles `notifications/cancelled`: the server withdraws a question, or ends a subscription that it had agreed
    /// to.
    fn handle_cancelled(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Cancelled {
            #[serde(rename = "requestId")]
            id: Value,
        }
        let Some(Cancelled { id }) = params.and_then(|raw| serde_json::from_str(raw.get()).ok()) else {
            return;
        };
        let revocation_token = self.state.lock().revocation_tokens.remove(&id.to_string());
        if let Some(revocation_token) = revocation_token {
            revocation_token.cancel();
        }
    }

    fn handle_log(&self, params: Option<&RawValue>) {
        if !self.allow_message() {
            return;
        }
        let Some(params) = params.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) else {
            return;
        };
        let text = match &params["data"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (self.events)(Event::McpServerLog {
            server: self.server.clone(),
            level: quote(params["level"].as_str().unwrap_or("info")),
            message: quote(&text),
        });
    }

    /// Reports a changed list at once. If the list changes again within [`CHANGE_INTERVAL`], one further report follows
    /// at the end of the interval, so that callers always learn of the last change.
    fn handle_list_changed(self: &Arc<Self>, list: ListOnDemand) {
        let is_first = {
            let change = &mut self.state.lock().list_changes[list as usize];
            let is_first = *change == ListChange::Unreported;
            *change = if is_first { ListChange::Reported } else { ListChange::ReportDue };
            is_first
        };
        if !is_first {
            return;
        }
        self.report_change(list);
        let inbound = self.clone();
        self.tracker.spawn(async move {
            let further_reports = async {
                loop {
                    sleep(CHANGE_INTERVAL).await;
                    if !inbound.take_due_report(list) {
                        return;
                    }
                    inbound.report_change(list);
                }
            };
            inbound.stop.run_until_cancelled(further_reports).await;
        });
    }

    /// Returns whether a report is due at the end of an interval, and begins the next interval.
    fn take_due_report(&self, list: ListOnDemand) -> bool {
        let change = &mut self.state.lock().list_changes[list as usize];
        let is_due = *change == ListChange::ReportDue;
        *change = if is_due { ListChange::Reported } else { ListChange::Unreported };
        is_due
    }

    fn report_change(&self, list: ListOnDemand) {
        let server = self.server.clone();
        (self.events)(match list {
            ListOnDemand::Prompts => Event::McpPromptsChanged { server },
            ListOnDemand::Resources => Event::McpResourcesChanged { server },
        });
    }

    /// Returns whether the rate allows another log message or warning. Reports how many messages were dropped before.
    fn allow_message(&self) -> bool {
        let Some(dropped_count) = self.message_rate.allow() else {
            return false;
        };
        if dropped_count > 0 {
            (self.events)(Event::McpServerWarning {
                server: self.server.clone(),
                warning: format!("{dropped_count} messages were dropped: more than {MAX_MESSAGES_PER_SECOND} a second"),
            });
        }
        true
    }

    /// Answers a request of the server, in a task of the connection.
    fn handle_request(&self, id: Id, question: Question, sink: &Arc<dyn MessageSink>) {
        if self.era.get() == Some(&Era::Modern) {
            let method = question.method;
            self.warn(format!("the request {method} was ignored: with MCP 2026-07-28, a server sends no requests"));
            return;
        }
        if question.method == "ping" {
            respond(sink, &id, Ok(&no_params()));
            return;
        }
        let Ok(permit) = self.answer_permits.clone().try_acquire_owned() else {
            let refusal = input::Refusal::busy("too many requests are waiting for an answer");
            respond::<Value>(sink, &id, Err(&refusal));
            return;
        };
        let (sink, inbound, withdrawal_token) = (sink.clone(), question.inbound.clone(), self.stop.child_token());
        // An id, which is a number or a string, always serializes.
        let key = serde_json::to_string(&id).unwrap_or_default();
        self.state.lock().revocation_tokens.insert(key.clone(), withdrawal_token.clone());
        self.tracker.spawn(async move {
            let _permit = permit;
            if let Some(answer) = withdrawal_token.run_until_cancelled(question.answer()).await {
                respond(&sink, &id, answer.as_ref());
            }
            inbound.state.lock().revocation_tokens.remove(&key);
        });
    }

    /// Returns the request to which a question most likely belongs: the request on whose stream the question arrived,
    /// or else the latest request.
    ///
    /// # Errors
    /// If the transport does not say to which open request the question belongs, and the open requests come from
    /// several principals. The question may quote data of one principal, and the answer goes into the result of one
    /// principal's request, so the wrong user must not answer.
    fn request_for_question(&self, stream_request: Option<i64>) -> Result<Option<Arc<OpenRequest>>, input::Refusal> {
        let requests = &self.state.lock().requests;
        let Some(id) = stream_request else {
            let latest = requests.iter().max_by_key(|(id, _)| **id).map(|(_, request)| request.clone());
            let have_different_principals =
                |a: &OpenRequest, b: &OpenRequest| !a.caller.principal().is_same(b.caller.principal());
            return match &latest {
                Some(latest) if requests.values().any(|other| have_different_principals(latest, other)) => {
                    Err(input::Refusal::unknown_caller())
                }
                _ => Ok(latest),
            };
        };
        Ok(requests.get(&id).cloned())
    }

    fn open_requests(&self) -> Vec<Arc<OpenRequest>> {
        self.state.lock().requests.values().cloned().collect()
    }
}

/// Posts the answer to a request of the server.
fn respond<R: serde::Serialize>(sink: &Arc<dyn MessageSink>, id: &Id, answer: Result<&R, &input::Refusal>) {
    let message = match answer {
        Ok(result) => envelope::response(id, result),
        Err(refusal) => envelope::error_response(Some(id), refusal.code, &refusal.message),
    };
    // An answer is JSON already, so writing it cannot fail.
    if let Ok(message) = message {
        sink.post(message);
    }
}

/// A registered request. Dropping it ends the registration, and cancels the request if it has no answer yet.
#[derive(Debug)]
pub(crate) struct RegisteredRequest {
    pub(crate) id: i64,
    inbound: Arc<Inbound>,
    /// Cancelled by the drop; `None` once the answer has arrived.
    abandon_token: Option<CancellationToken>,
}

impl RegisteredRequest {
    /// Notes that the answer has arrived.
    pub(crate) fn note_answer(&mut self) {
        self.abandon_token = None;
    }
}

impl Drop for RegisteredRequest {
    fn drop(&mut self) {
        // Drop the request only after the lock is released: it owns values of callers, and dropping them may run any
        // code.
        let _request = self.inbound.state.lock().requests.remove(&self.id);
        if let Some(abandon_token) = &self.abandon_token {
            abandon_token.cancel();
        }
    }
}

/// A subscription that the server may end; see [`Inbound::register_subscription`].
pub(crate) struct RegisteredSubscription<'a> {
    inbound: &'a Inbound,
    /// The id of the request as JSON.
    key: String,
    revocation_token: CancellationToken,
}

impl RegisteredSubscription<'_> {
    /// Waits until the server has ended the subscription.
    pub(crate) async fn revoked(&self) {
        self.revocation_token.cancelled().await;
    }
}

impl Drop for RegisteredSubscription<'_> {
    fn drop(&mut self) {
        self.inbound.state.lock().revocation_tokens.remove(&self.key);
    }
}
