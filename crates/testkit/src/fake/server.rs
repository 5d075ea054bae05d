//! State that the transports share: peers, running requests, listeners, and questions to the client.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use super::faults::{Fault, Struck, Tally};
use super::log::Log;
use super::options::{Eras, Options};
use super::process::Descriptor;
use super::wire::{self, Frame, META_SUBSCRIPTION, META_VERSION, Outbox};
use super::{eras, lies};

/// The era that one request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The other end: one connection over stdio, one session over HTTP.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Tells its requests from those of other peers.
    pub(crate) key: String,
    /// Legacy: what the client declared in `initialize`.
    pub(crate) capabilities: Mutex<Value>,
    /// Legacy: whether `initialize` came.
    pub(crate) initialized: AtomicBool,
    /// Legacy: whether `notifications/initialized` came.
    pub(crate) ready: AtomicBool,
    /// Legacy: the resources that it has subscribed to.
    pub(crate) subscribed: Mutex<BTreeSet<String>>,
}

impl Peer {
    pub(crate) fn new(key: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { key: key.into(), ..Self::default() })
    }
}

/// One request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) era: Era,
    pub(crate) struck: Struck,
    pub(crate) peer: Arc<Peer>,
    pub(crate) out: Outbox,
    /// HTTP: the header fields that came with it, names in lower case.
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
    /// Modern: the id of the `subscriptions/listen` request, and what it asked for.
    subscription: Option<(Value, Value)>,
}

/// The running fake.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) inherited: Vec<Descriptor>,
    /// Whether a client was already sent to the links of `elicit` in mode `url-error`.
    pub(crate) visited: AtomicBool,
    /// Tools that `tools_changed` added.
    pub(crate) added: Mutex<Vec<String>>,
    tally: Mutex<Tally>,
    asked: Mutex<HashMap<String, oneshot::Sender<Result<Value, Value>>>>,
    running: Mutex<HashMap<String, AbortHandle>>,
    listeners: Mutex<Vec<Listener>>,
    tasks: Mutex<JoinSet<()>>,
    next: AtomicU64,
    next_ask: AtomicU64,
}

impl Server {
    pub(crate) fn new(options: Options, inherited: Vec<Descriptor>) -> std::io::Result<Self> {
        Ok(Self {
            log: Log::open(options.log.as_deref(), options.log_all)?,
            options,
            inherited,
            visited: AtomicBool::new(false),
            added: Mutex::default(),
            tally: Mutex::default(),
            asked: Mutex::default(),
            running: Mutex::default(),
            listeners: Mutex::default(),
            tasks: Mutex::default(),
            next: AtomicU64::new(1),
            next_ask: AtomicU64::new(0),
        })
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.options.faults.has(fault)
    }

    /// A number that was not returned before.
    pub(crate) fn unique(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts and aims a request that came in.
    pub(crate) fn admit(
        &self,
        message: (Value, String, Value),
        peer: &Arc<Peer>,
        out: Outbox,
        headers: Vec<(String, String)>,
    ) -> Request {
        let (id, method, params) = message;
        let seen = self.tally.lock().count(&method);
        let struck = self.options.faults.strike(&method, seen);
        let era = era_of(self.options.eras, &method, &params);
        if method == "initialize" {
            // Here and not in its task: the next line may be read before that task runs.
            *peer.capabilities.lock() = params["capabilities"].clone();
            peer.initialized.store(true, Ordering::Relaxed);
        }
        let mut entry = json!({"method": method, "id": id, "params": params});
        if !headers.is_empty() {
            entry["headers"] = headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        }
        self.log.seen(entry);
        Request { id, method, params, era, struck, peer: Arc::clone(peer), out, headers }
    }

    /// Runs a request in a task of its own. Its frames go to its outbox.
    pub(crate) fn start(self: &Arc<Self>, request: Request) {
        let key = request.key();
        let server = Arc::clone(self);
        // Held until the handle is in its place: the task may end before this function does.
        let mut running = self.running.lock();
        let handle = self.spawn(async move {
            tokio::time::sleep(server.options.delay).await;
            let key = request.key();
            let reply = eras::dispatch(&server, &request).await;
            lies::send(&server, &request, reply).await;
            server.running.lock().remove(&key);
        });
        running.insert(key, handle);
    }

    /// Runs anything in a task that ends with the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Stops a request, unless told to ignore it. `by` says how the client asked.
    pub(crate) fn cancel(&self, peer: &Peer, id: &Value, by: &str) {
        self.log.cancelled(id, by);
        if self.has(Fault::IgnoreCancel) {
            return;
        }
        if let Some(handle) = self.running.lock().remove(&run_key(peer, id)) {
            handle.abort();
        }
        self.unlisten(peer, id);
    }

    /// Whether the request still runs.
    pub(crate) fn runs(&self, peer: &Peer, id: &Value) -> bool {
        self.running.lock().contains_key(&run_key(peer, id))
    }

    /// Takes a notification of the client.
    pub(crate) fn notice(&self, peer: &Arc<Peer>, method: &str, params: &Value) {
        self.log.seen(json!({"method": method, "params": params}));
        if method == "notifications/initialized" {
            peer.ready.store(true, Ordering::Relaxed);
        }
        if method == "notifications/cancelled" {
            self.cancel(peer, &params["requestId"], "notification");
        }
    }

    /// Asks a legacy client something and waits for its answer, without a limit of its own.
    pub(crate) async fn ask(&self, out: &Outbox, method: &str, params: &Value) -> Result<Value, Value> {
        // From 0, as the TypeScript SDK does: a client that takes 0 for "no id" shows itself.
        let id = json!(self.next_ask.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        self.asked.lock().insert(id.to_string(), answer);
        out.send(Frame::message(&wire::request(&id, method, params))).await;
        answered.await.unwrap_or_else(|_| Err(json!("the client is gone")))
    }

    /// Takes an answer of the client to something that was asked.
    pub(crate) fn answered(&self, id: &Value, body: Result<Value, Value>) {
        self.log.seen(json!({"answer": id, "refused": body.is_err()}));
        if let Some(waiting) = self.asked.lock().remove(&id.to_string()) {
            let _gave_up = waiting.send(body);
        }
    }

    /// Tells this outbox about changes from now on.
    pub(crate) fn listen(&self, peer: &Arc<Peer>, out: Outbox, subscription: Option<(Value, Value)>) {
        self.listeners.lock().push(Listener { peer: Arc::clone(peer), out, subscription });
    }

    /// Ends the subscription that this request opened.
    pub(crate) fn unlisten(&self, peer: &Peer, id: &Value) {
        let ended = |listener: &Listener| {
            listener.peer.key == peer.key && listener.subscription.as_ref().is_some_and(|(own, _)| own == id)
        };
        self.listeners.lock().retain(|listener| !ended(listener));
    }

    /// Notifies all listeners that the list of tools changed.
    pub(crate) async fn tools_changed(&self) {
        let told = |listener: &Listener| match &listener.subscription {
            None => true,
            Some((_, filter)) => filter["toolsListChanged"] == true,
        };
        self.announce("notifications/tools/list_changed", &json!({}), told).await;
    }

    /// Notifies all subscribers of a resource that it changed.
    pub(crate) async fn resource_updated(&self, uri: &str) {
        let wanted = |filter: &Value| {
            filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.iter().any(|own| own == uri))
        };
        let told = |listener: &Listener| match &listener.subscription {
            None => listener.peer.subscribed.lock().contains(uri),
            Some((_, filter)) => wanted(filter),
        };
        self.announce("notifications/resources/updated", &json!({"uri": uri}), told).await;
    }

    async fn announce(&self, method: &str, params: &Value, told: impl Fn(&Listener) -> bool) {
        let told: Vec<(Outbox, Value)> = {
            let mut listeners = self.listeners.lock();
            listeners.retain(|listener| !listener.out.is_closed());
            listeners.iter().filter(|listener| told(listener)).map(|listener| listener.notice(params)).collect()
        };
        for (out, params) in told {
            out.send(Frame::message(&wire::notification(method, &params))).await;
        }
    }
}

impl Listener {
    fn notice(&self, params: &Value) -> (Outbox, Value) {
        let mut params = params.clone();
        if let Some((id, _)) = &self.subscription {
            params["_meta"] = json!({META_SUBSCRIPTION: id});
        }
        (self.out.clone(), params)
    }
}

fn era_of(eras: Eras, method: &str, params: &Value) -> Era {
    match eras {
        Eras::Legacy => Era::Legacy,
        Eras::Modern => Era::Modern,
        Eras::Both if method == "server/discover" || params["_meta"][META_VERSION].is_string() => Era::Modern,
        Eras::Both => Era::Legacy,
    }
}
