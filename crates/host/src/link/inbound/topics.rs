//! The resources that have listeners. A connection subscribes at its server once for each resource, regardless of the
//! number of listeners, and again whenever the server reconnects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{link::error::LinkError, spec::ServerName};

/// The most resources of one server with listeners.
pub(crate) const MOST_OF_A_SERVER: usize = 1_000;

/// Whether a resource has changed since its listener last checked; any number of changes counts as one.
#[derive(Debug)]
struct Mark {
    is_set: AtomicBool,
    /// The bell of the listener.
    bell: Arc<Notify>,
}

impl Mark {
    fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.bell.notify_one();
        }
    }
}

/// A subscription of one listener, until it is dropped.
pub(crate) struct Interest {
    topics: Arc<Topics>,
    uri: String,
    number: u64,
    changed: Arc<Mark>,
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interest").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Interest {
    /// Creates an interest whose changes notify `bell`. `None` when the server has reached its limit of resources with
    /// listeners.
    pub(crate) fn new(topics: Arc<Topics>, uri: &str, bell: &Arc<Notify>) -> Option<(Self, watch::Receiver<Standing>)> {
        let changed = Arc::new(Mark { is_set: AtomicBool::new(false), bell: bell.clone() });
        let (number, standing) = topics.add(uri, &changed)?;
        Some((Self { topics, uri: uri.to_owned(), number, changed }, standing))
    }

    /// Returns whether the resource has changed since the last call.
    pub(crate) fn take_change(&self) -> bool {
        self.changed.is_set.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.topics.remove(&self.uri, self.number);
    }
}

/// The topics of all servers of a host. A server is added with its first listener, and stays.
#[derive(Debug, Default)]
pub(crate) struct Watched(ArcSwap<BTreeMap<ServerName, Arc<Topics>>>);

impl Watched {
    /// Returns the topics of this server.
    pub(crate) fn of(&self, server: &ServerName) -> Arc<Topics> {
        if let Some(known) = self.0.load().get(server) {
            return known.clone();
        }
        let new = Arc::<Topics>::default();
        let before = self.0.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.entry(server.clone()).or_insert_with(|| new.clone());
            all
        });
        // Another thread may have added it first.
        before.get(server).cloned().unwrap_or(new)
    }

    /// Returns the topics of this server, if there are listeners.
    pub(crate) fn now(&self, server: &ServerName) -> Option<Arc<Topics>> {
        self.0.load().get(server).filter(|topics| !topics.state.lock().all.is_empty()).cloned()
    }
}

/// The state of a subscription at the server, on the current connection.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    Wanted,
    Agreed,
    Refused(LinkError),
}

/// The resources of one server that have listeners.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    state: Mutex<State>,
    /// Notified when the wanted resources may have changed. Only one connection at a time waits for it.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<String, Topic>,
    /// The last number that was given to a topic or listener.
    numbers: u64,
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

#[derive(Debug)]
struct Topic {
    number: u64,
    listeners: BTreeMap<u64, Arc<Mark>>,
    standing: watch::Sender<Standing>,
    /// Whether the server has agreed before.
    was_heard: bool,
}

impl Topic {
    fn updated(&self) {
        self.listeners.values().for_each(|listener| listener.set());
    }
}

impl Topics {
    fn add(&self, uri: &str, changed: &Arc<Mark>) -> Option<(u64, watch::Receiver<Standing>)> {
        let mut state = self.state.lock();
        if !state.all.contains_key(uri) {
            if state.all.len() >= MOST_OF_A_SERVER {
                return None;
            }
            let topic = Topic {
                number: state.number(),
                listeners: BTreeMap::new(),
                standing: watch::Sender::new(Standing::Wanted),
                was_heard: false,
            };
            state.all.insert(uri.to_owned(), topic);
            self.changed.notify_one();
        }
        let number = state.number();
        let topic = state.all.get_mut(uri)?;
        topic.listeners.insert(number, changed.clone());
        Some((number, topic.standing.subscribe()))
    }

    fn remove(&self, uri: &str, number: u64) {
        let all = &mut self.state.lock().all;
        let Some(topic) = all.get_mut(uri) else { return };
        topic.listeners.remove(&number);
        if topic.listeners.is_empty() {
            all.remove(uri);
            self.changed.notify_one();
        }
    }

    /// Returns all wanted resources. The number distinguishes a subscription from an earlier one to the same resource.
    pub(crate) fn wanted(&self) -> BTreeSet<(String, u64)> {
        self.state.lock().all.iter().map(|(uri, topic)| (uri.clone(), topic.number)).collect()
    }

    /// Waits until the wanted resources may differ from the last result of [`Self::wanted`].
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Records that the server has lost all subscriptions.
    pub(crate) fn reset(&self) {
        for topic in self.state.lock().all.values() {
            topic.standing.send_replace(Standing::Wanted);
        }
    }

    /// Records the server's answer to a subscription. A renewed subscription counts as an update, because updates may
    /// have been missed.
    pub(crate) fn record_answer(&self, uri: &str, answer: Result<(), LinkError>) {
        if let Some(topic) = self.state.lock().all.get_mut(uri) {
            let standing = match answer {
                Ok(()) => Standing::Agreed,
                Err(error) => Standing::Refused(error),
            };
            let agreed = matches!(standing, Standing::Agreed);
            let before = topic.standing.send_replace(standing);
            if agreed && topic.was_heard && !matches!(before, Standing::Agreed) {
                topic.updated();
            }
            topic.was_heard |= agreed;
        }
    }

    /// Records that a resource, or something below it, has changed.
    pub(crate) fn updated(&self, uri: &str) {
        let is_above = |topic: &str| {
            let below = uri.strip_prefix(topic);
            below.is_some_and(|rest| rest.is_empty() || topic.ends_with('/') || rest.starts_with(['/', '?', '#']))
        };
        for (_, topic) in self.state.lock().all.iter().filter(|(topic, _)| is_above(topic)) {
            topic.updated();
        }
    }
}
