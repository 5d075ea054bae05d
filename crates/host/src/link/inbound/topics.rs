//! The resources that have listeners. A connection subscribes at its server once for each, however many listeners there
//! are, and again whenever the server is connected anew.

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

/// Most resources of one server with subscribers.
pub(crate) const MOST_OF_A_SERVER: usize = 1_000;

/// Whether a resource has changed since its listener last took that; any number of changes is one.
#[derive(Debug)]
struct Mark {
    is_set: AtomicBool,
    /// Of the listener.
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
    /// Changes ring `bell`. `None` when the server has as many resources with listeners as it may.
    pub(crate) fn new(topics: Arc<Topics>, uri: &str, bell: &Arc<Notify>) -> Option<(Self, watch::Receiver<Standing>)> {
        let changed = Arc::new(Mark { is_set: AtomicBool::new(false), bell: bell.clone() });
        let (number, standing) = topics.add(uri, &changed)?;
        Some((Self { topics, uri: uri.to_owned(), number, changed }, standing))
    }

    /// Whether the resource has changed since the last call.
    pub(crate) fn take_change(&self) -> bool {
        self.changed.is_set.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.topics.remove(&self.uri, self.number);
    }
}

/// The topics of all servers of a host. A server comes with its first listener, and stays.
#[derive(Debug, Default)]
pub(crate) struct Watched(ArcSwap<BTreeMap<ServerName, Arc<Topics>>>);

impl Watched {
    /// The topics of this server.
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
        // Another thread may have come first.
        before.get(server).cloned().unwrap_or(new)
    }

    /// The same, if there are subscribers.
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
    /// The wanted resources may have changed. One connection at a time waits for it.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<String, Topic>,
    /// How many numbers were given to topics and listeners.
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
    /// The server has agreed before.
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

    /// All wanted resources. The number distinguishes a subscription from an earlier one to the same resource.
    pub(crate) fn wanted(&self) -> BTreeSet<(String, u64)> {
        self.state.lock().all.iter().map(|(uri, topic)| (uri.clone(), topic.number)).collect()
    }

    /// Ends when the wanted resources may differ from the last answer of [`Self::wanted`].
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The server has forgotten all subscriptions.
    pub(crate) fn forgotten(&self) {
        for topic in self.state.lock().all.values() {
            topic.standing.send_replace(Standing::Wanted);
        }
    }

    /// The server's answer to a subscription. A renewed one counts as an update, for updates may have been missed.
    pub(crate) fn stands(&self, uri: &str, answer: Result<(), LinkError>) {
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

    /// A resource has changed, or something below it.
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
