//! The resources that have listeners. A connection subscribes at its server once for each, however many listeners there
//! are, and again whenever the server is connected anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, watch};

use crate::{link::error::LinkError, spec::ServerName};

/// Most resources of one server with subscribers.
pub(crate) const MOST_OF_A_SERVER: usize = 1_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The changes that one listener has not taken yet; never more than its subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pending: Mutex<BTreeSet<(ServerName, String)>>,
    pub(crate) bell: Notify,
}

impl Heard {
    fn mark(&self, resource: &(ServerName, String)) {
        let is_new = locked(&self.pending).insert(resource.clone());
        if is_new {
            self.bell.notify_one();
        }
    }

    pub(crate) fn take(&self) -> Option<(ServerName, String)> {
        locked(&self.pending).pop_first()
    }
}

/// A subscription of one listener, until it is dropped.
pub(crate) struct Interest {
    topics: Arc<Topics>,
    uri: String,
    number: u64,
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interest").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Interest {
    pub(crate) fn new(
        topics: Arc<Topics>,
        resource: &(ServerName, String),
        heard: &Arc<Heard>,
    ) -> Option<(Self, watch::Receiver<Standing>)> {
        let (number, standing) = topics.add(resource, heard)?;
        Some((Self { topics, uri: resource.1.clone(), number }, standing))
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.topics.remove(&self.uri, self.number);
    }
}

/// The topics of all servers of a host.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<BTreeMap<ServerName, Arc<Topics>>>);

impl Watched {
    /// The topics of this server.
    pub(crate) fn of(&self, server: &ServerName) -> Arc<Topics> {
        locked(&self.0).entry(server.clone()).or_default().clone()
    }

    /// The same, if there are subscribers.
    pub(crate) fn now(&self, server: &ServerName) -> Option<Arc<Topics>> {
        locked(&self.0).get(server).filter(|topics| !locked(&topics.all).is_empty()).cloned()
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
    all: Mutex<BTreeMap<String, Topic>>,
    /// The wanted resources may have changed. One connection at a time waits for it.
    changed: Notify,
    numbers: AtomicU64,
}

#[derive(Debug)]
struct Topic {
    number: u64,
    resource: (ServerName, String),
    listeners: BTreeMap<u64, Arc<Heard>>,
    standing: watch::Sender<Standing>,
    /// The server has agreed before.
    was_heard: bool,
}

impl Topic {
    fn updated(&self) {
        self.listeners.values().for_each(|heard| heard.mark(&self.resource));
    }
}

impl Topics {
    fn add(&self, resource: &(ServerName, String), heard: &Arc<Heard>) -> Option<(u64, watch::Receiver<Standing>)> {
        let mut all = locked(&self.all);
        if !all.contains_key(&resource.1) {
            if all.len() >= MOST_OF_A_SERVER {
                return None;
            }
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let topic = Topic {
                number,
                resource: resource.clone(),
                listeners: BTreeMap::new(),
                standing: watch::Sender::new(Standing::Wanted),
                was_heard: false,
            };
            all.insert(resource.1.clone(), topic);
            self.changed.notify_one();
        }
        let topic = all.get_mut(&resource.1)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        topic.listeners.insert(number, heard.clone());
        Some((number, topic.standing.subscribe()))
    }

    fn remove(&self, uri: &str, number: u64) {
        let mut all = locked(&self.all);
        let Some(topic) = all.get_mut(uri) else { return };
        topic.listeners.remove(&number);
        if topic.listeners.is_empty() {
            all.remove(uri);
            self.changed.notify_one();
        }
    }

    /// All wanted resources. The number distinguishes a subscription from an earlier one to the same resource.
    pub(crate) fn wanted(&self) -> BTreeSet<(String, u64)> {
        locked(&self.all).iter().map(|(uri, topic)| (uri.clone(), topic.number)).collect()
    }

    /// Ends when the wanted resources may differ from the last answer of [`Self::wanted`].
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The server has forgotten all subscriptions.
    pub(crate) fn forgotten(&self) {
        for topic in locked(&self.all).values() {
            topic.standing.send_replace(Standing::Wanted);
        }
    }

    /// The server's answer to a subscription. A renewed one counts as an update, for updates may have been missed.
    pub(crate) fn stands(&self, uri: &str, answer: Result<(), LinkError>) {
        if let Some(topic) = locked(&self.all).get_mut(uri) {
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
        for (_, topic) in locked(&self.all).iter().filter(|(topic, _)| is_above(topic)) {
            topic.updated();
        }
    }
}
