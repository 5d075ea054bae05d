//! The state of the fake (a scripted MCP server for tests) that its transports share: clients, running requests,
//! listeners, and questions to clients.
//!
//! A *peer* is one client. An *outbox* leads to what it reads. MCP has two *eras*: legacy is 2025-11-25 and older,
//! where a client first sends `initialize`; modern is 2026-07-28, where each request says all that the server has to
//! know.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use super::faults::{Fault, RequestCounts, RequestFaults};
use super::log::Log;
use super::options::{Eras, Options};
use super::process::Descriptor;
use super::wire::{self, Frame, META_SUBSCRIPTION, META_VERSION, Outbox};
use super::{eras, lies};

/// The era that one request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25 and older.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// A client: one connection over stdio, one session over HTTP.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Distinguishes its requests from those of other peers.
    pub(crate) key: String,
    /// Legacy: the capabilities that the client declared in `initialize`.
    pub(crate) capabilities: OnceLock<Value>,
    /// Legacy: whether the client has sent `notifications/initialized`.
    pub(crate) is_initialized: AtomicBool,
}

impl Peer {
    pub(crate) fn new(key: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { key: key.into(), ..Self::default() })
    }
}

/// One request in progress.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) era: Era,
    pub(crate) faults: RequestFaults,
    pub(crate) peer: Arc<Peer>,
    pub(crate) out: Outbox,
    /// Over HTTP, its header fields, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    fn key(&self) -> String {
        run_key(&self.peer, &self.id)
    }
}

fn run_key(peer: &Peer, id: &Value) -> String {
    format!("{}/{id}", peer.key)
}

/// A client that gets notifications of changes.
#[derive(Debug)]
struct Listener {
    peer: Arc<Peer>,
    out: Outbox,
    /// Modern: the id of the `subscriptions/listen` request, and the changes that it asks for.
    subscription: Option<(Value, Value)>,
}

/// The running fake.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) log: Log,
    /// The file descriptors that were open when the process started.
    pub(crate) inherited: Vec<Descriptor>,
    /// Whether `elicit`, in mode `url-error`, has already sent links to a client.
    pub(crate) has_sent_links: AtomicBool,
    state: Mutex<State>,
    /// The number that [`Self::unique_number`] returns next.
    next_unique: AtomicU64,
}

/// What changes while the fake runs.
#[derive(Debug, Default)]
struct State {
    /// Tools that `tools_changed` added.
    added_tools: Vec<String>,
    request_counts: RequestCounts,
    /// Questions to clients without an answer yet, by id.
    open_questions: HashMap<u64, oneshot::Sender<Result<Value, Value>>>,
    /// The number of questions that the server has sent so far.
    questions: u64,
    /// Running requests, by peer and id.
    running: HashMap<String, AbortHandle>,
    listeners: Vec<Listener>,
    /// Legacy: pairs of a peer's key and a resource to which the peer has subscribed.
    subscribed: BTreeSet<(String, String)>,
    tasks: JoinSet<()>,
}

impl State {
    /// Runs `task`, and forgets the tasks that have ended.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(task)
    }
}

impl Server {
    pub(crate) fn new(options: Options, inherited: Vec<Descriptor>) -> std::io::Result<Self> {
        Ok(Self {
            log: Log::open(options.log.as_deref(), options.log_all)?,
            options,
            inherited,
            has_sent_links: AtomicBool::new(false),
            state: Mutex::default(),
            next_unique: AtomicU64::new(1),
        })
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.options.faults.has(fault)
    }

    /// Returns a new number with each call.
    pub(crate) fn unique_number(&self) -> u64 {
        self.next_unique.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a request, whose `message` is its id, method and parameters. Determines the faults that strike it: the
    /// misbehaviour that the command line asks for in this request.
    pub(crate) fn admit(
        &self,
        message: (Value, String, Value),
        peer: &Arc<Peer>,
        out: Outbox,
        headers: Vec<(String, String)>,
    ) -> Request {
        let (id, method, params) = message;
        let earlier_requests = self.state.lock().request_counts.count(&method);
        let request_faults = self.options.faults.for_request(&method, earlier_requests);
        let era = era_of(self.options.eras, &method, &params);
        if method == "initialize" {
            // Not in the request's task, because the server may read the next line before that task runs.
            peer.capabilities.get_or_init(|| params["capabilities"].clone());
        }
        let mut entry = json!({"method": method, "id": id, "params": params});
        if !headers.is_empty() {
            entry["headers"] = headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        }
        self.log.received(entry);
        Request { id, method, params, era, faults: request_faults, peer: Arc::clone(peer), out, headers }
    }

    /// Runs a request in a new task, which sends the frames of the answer to the request's outbox.
    pub(crate) fn start(self: &Arc<Self>, request: Request) {
        let key = request.key();
        let server = Arc::clone(self);
        // Hold the lock until the handle is stored: the task may end before this function does.
        let mut state = self.state.lock();
        let handle = state.spawn(async move {
            tokio::time::sleep(server.options.delay).await;
            let key = request.key();
            let reply = eras::dispatch(&server, &request).await;
            lies::send(&server, &request, reply).await;
            server.state.lock().running.remove(&key);
        });
        state.running.insert(key, handle);
    }

    /// Runs `task` in the background. It ends with the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.state.lock().spawn(task)
    }

    /// Stops a request, unless a fault makes the server ignore the cancellation. `by` says how the client cancelled it.
    pub(crate) fn cancel(&self, peer: &Peer, id: &Value, by: &str) {
        self.log.cancelled(id, by);
        if self.has(Fault::IgnoreCancel) {
            return;
        }
        let running = self.state.lock().running.remove(&run_key(peer, id));
        if let Some(handle) = running {
            handle.abort();
        }
        self.unlisten(peer, id);
    }

    /// Returns whether the request still runs.
    pub(crate) fn is_running(&self, peer: &Peer, id: &Value) -> bool {
        self.state.lock().running.contains_key(&run_key(peer, id))
    }

    /// Handles a notification of the client.
    pub(crate) fn handle_notification(&self, peer: &Arc<Peer>, method: &str, params: &Value) {
        self.log.received(json!({"method": method, "params": params}));
        if method == "notifications/initialized" {
            peer.is_initialized.store(true, Ordering::Relaxed);
        }
        if method == "notifications/cancelled" {
            self.cancel(peer, &params["requestId"], "notification");
        }
    }

    /// Sends a request to a legacy client, and waits for its answer without a time limit.
    pub(crate) async fn ask(&self, out: &Outbox, method: &str, params: &Value) -> Result<Value, Value> {
        let (answer_sender, answer_receiver) = oneshot::channel();
        let id = {
            let state = &mut *self.state.lock();
            // Start at 0, as the TypeScript SDK does: a client that takes 0 for "no id" then fails a test.
            let id = state.questions;
            state.questions += 1;
            state.open_questions.insert(id, answer_sender);
            id
        };
        out.send(Frame::message(&wire::request(&json!(id), method, params))).await;
        answer_receiver.await.unwrap_or_else(|_| Err(json!("the client is gone")))
    }

    /// Handles the client's answer to a request of the server.
    pub(crate) fn handle_response(&self, id: &Value, body: Result<Value, Value>) {
        self.log.received(json!({"answer": id, "refused": body.is_err()}));
        let answer_sender = id.as_u64().and_then(|id| self.state.lock().open_questions.remove(&id));
        if let Some(answer_sender) = answer_sender {
            // Fails if the call that asked was cancelled meanwhile.
            let _ = answer_sender.send(body);
        }
    }

    /// Sends notifications of changes to this outbox from now on. Modern clients have a `subscription`: the id of their
    /// `subscriptions/listen` request, and the changes that it asks for.
    pub(crate) fn listen(&self, peer: &Arc<Peer>, out: Outbox, subscription: Option<(Value, Value)>) {
        self.state.lock().listeners.push(Listener { peer: Arc::clone(peer), out, subscription });
    }

    /// Ends the subscription that the request `id` of `peer` has begun, if there is one.
    pub(crate) fn unlisten(&self, peer: &Peer, id: &Value) {
        let began_with = |listener: &Listener| {
            listener.peer.key == peer.key && listener.subscription.as_ref().is_some_and(|(request, _)| request == id)
        };
        self.state.lock().listeners.retain(|listener| !began_with(listener));
    }

    /// Returns the peer with this key and its outbox, if it listens.
    pub(crate) fn find_listener(&self, key: &str) -> Option<(Arc<Peer>, Outbox)> {
        let state = self.state.lock();
        let listener = state.listeners.iter().find(|listener| listener.peer.key == key)?;
        Some((Arc::clone(&listener.peer), listener.out.clone()))
    }

    /// Removes the listeners of the peer with this key, which has left.
    pub(crate) fn remove_listeners(&self, key: &str) {
        self.state.lock().listeners.retain(|listener| listener.peer.key != key);
    }

    /// Legacy: subscribes the peer to changes of the resource, or unsubscribes it.
    pub(crate) fn subscribe(&self, peer: &Peer, uri: &str, subscribes: bool) {
        let subscription = (peer.key.clone(), uri.to_owned());
        let subscribed = &mut self.state.lock().subscribed;
        match subscribes {
            true => subscribed.insert(subscription),
            false => subscribed.remove(&subscription),
        };
    }

    /// The tools that `tools_changed` added.
    pub(crate) fn added_tools(&self) -> Vec<String> {
        self.state.lock().added_tools.clone()
    }

    /// Adds a tool, and notifies all listeners that the list of tools changed.
    pub(crate) async fn add_tool(&self, tool: &str) {
        self.state.lock().added_tools.push(tool.to_owned());
        self.notify_tools_changed().await;
    }

    /// Notifies all listeners that the list of tools changed.
    pub(crate) async fn notify_tools_changed(&self) {
        let is_interested = |listener: &Listener, _: &BTreeSet<_>| match &listener.subscription {
            None => true,
            Some((_, filter)) => filter["toolsListChanged"] == true,
        };
        self.announce("notifications/tools/list_changed", &json!({}), is_interested).await;
    }

    /// Notifies all subscribers of a resource that it changed.
    pub(crate) async fn notify_resource_updated(&self, uri: &str) {
        let includes_uri = |filter: &Value| {
            filter["resourceSubscriptions"]
                .as_array()
                .is_some_and(|uris| uris.iter().any(|subscribed| subscribed == uri))
        };
        let is_interested = |listener: &Listener, subscribed: &BTreeSet<_>| match &listener.subscription {
            None => subscribed.contains(&(listener.peer.key.clone(), uri.to_owned())),
            Some((_, filter)) => includes_uri(filter),
        };
        self.announce("notifications/resources/updated", &json!({"uri": uri}), is_interested).await;
    }

    /// Sends a notification to the listeners for which `is_interested` returns true, given the resources to which
    /// legacy peers have subscribed.
    async fn announce(
        &self,
        method: &str,
        params: &Value,
        is_interested: impl Fn(&Listener, &BTreeSet<(String, String)>) -> bool,
    ) {
        let notifications: Vec<(Outbox, Value)> = {
            let State { listeners, subscribed, .. } = &mut *self.state.lock();
            listeners.retain(|listener| !listener.out.is_closed());
            let interested = listeners.iter().filter(|listener| is_interested(listener, subscribed));
            interested.map(|listener| listener.notification(params)).collect()
        };
        for (out, params) in notifications {
            out.send(Frame::message(&wire::notification(method, &params))).await;
        }
    }
}

impl Listener {
    /// The outbox for a notification, and the parameters of the notification.
    fn notification(&self, params: &Value) -> (Outbox, Value) {
        let mut params = params.clone();
        if let Some((id, _)) = &self.subscription {
            params["_meta"] = json!({META_SUBSCRIPTION: id});
        }
        (self.out.clone(), params)
    }
}

/// Returns the era of a request to a server that answers `eras`.
fn era_of(eras: Eras, method: &str, params: &Value) -> Era {
    match eras {
        Eras::Legacy => Era::Legacy,
        Eras::Modern => Era::Modern,
        Eras::Both if method == "server/discover" || params["_meta"][META_VERSION].is_string() => Era::Modern,
        Eras::Both => Era::Legacy,
    }
}
