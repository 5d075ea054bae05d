//! Subscriptions to changes of resources. The host subscribes at a server once for each resource, however many
//! listeners there are, and again whenever the server is connected anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, watch};

use crate::{call::CallError, host::Host, link::LinkError, spec::ServerName};

/// Most resources of one server with subscribers.
const MOST_OF_A_SERVER: usize = 1_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resources of one listener (MCP `resources/subscribe`, `resourceSubscriptions`). Dropping it ends its
/// subscriptions.
///
/// The host subscribes once to a resource that several listen to, and again when the server is connected anew: updates
/// may have been missed meanwhile, so that counts as one. A server with a subscription does not become idle.
#[derive(Debug)]
pub struct Subscriptions {
    heard: Arc<Heard>,
    held: Mutex<BTreeMap<(ServerName, String), Interest>>,
    most: usize,
}

/// Why a resource was not subscribed to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// This listener, or all of them at one server, listen to as many resources as they may.
    #[error("no more than {most} resources can be subscribed to; end another subscription first")]
    TooMany {
        /// The bound.
        most: usize,
    },
    /// The server cannot be reached, or refuses.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Subscriptions {
    /// A listener that may subscribe to `most` resources.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { heard: Arc::default(), held: Mutex::default(), most }
    }

    /// Subscribes to a resource of `server`, by its URI there. Waits until the server has agreed, as long as a call may
    /// take; starts it if it is idle. A repeated subscription changes nothing.
    ///
    /// # Errors
    /// [`SubscribeError`].
    pub async fn subscribe(&self, host: &Host, server: &str, uri: &str) -> Result<(), SubscribeError> {
        let unknown = |bad: crate::spec::BadServerName| CallError::UnknownServer { server: bad.name };
        let key = (ServerName::new(server).map_err(unknown)?, uri.to_owned());
        let room = |held: &BTreeMap<_, _>| match held.len() < self.most {
            true => Ok(()),
            false => Err(SubscribeError::TooMany { most: self.most }),
        };
        {
            let held = locked(&self.held);
            if held.contains_key(&key) {
                return Ok(());
            }
            room(&held)?;
        }
        let topics = host.watched().of(&key.0);
        let interest = Interest::new(topics, &key, &self.heard);
        let (interest, standing) = interest.ok_or(SubscribeError::TooMany { most: MOST_OF_A_SERVER })?;
        host.subscribed(server, uri, standing).await?;
        let mut held = locked(&self.held);
        room(&held)?;
        held.insert(key, interest);
        Ok(())
    }

    /// Ends a subscription; returns whether there was one. The server learns of it later.
    pub fn unsubscribe(&self, server: &ServerName, uri: &str) -> bool {
        locked(&self.held).remove(&(server.clone(), uri.to_owned())).is_some()
    }

    /// Waits for the next resource that has changed, and returns its server and the subscribed URI, also where the
    /// server names something below it. Several changes before a call of this count as one. Cancel safe.
    pub async fn updated(&self) -> (ServerName, String) {
        loop {
            let rung = self.heard.bell.notified();
            while let Some(next) = self.heard.take() {
                if locked(&self.held).contains_key(&next) {
                    return next;
                }
            }
            rung.await;
        }
    }
}

/// The changes that one listener has not taken yet; never more than its subscriptions.
#[derive(Debug, Default)]
struct Heard {
    pending: Mutex<BTreeSet<(ServerName, String)>>,
    bell: Notify,
}

impl Heard {
    fn mark(&self, resource: &(ServerName, String)) {
        let is_new = locked(&self.pending).insert(resource.clone());
        if is_new {
            self.bell.notify_one();
        }
    }

    fn take(&self) -> Option<(ServerName, String)> {
        locked(&self.pending).pop_first()
    }
}

/// A subscription of one listener, until it is dropped.
struct Interest {
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
    fn new(
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
    fn of(&self, server: &ServerName) -> Arc<Topics> {
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

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn resource(uri: &str) -> (ServerName, String) {
        (ServerName::new("s").unwrap(), uri.to_owned())
    }

    fn listener(topics: &Arc<Topics>, uri: &str) -> Subscriptions {
        let subscriptions = Subscriptions::new(8);
        let (interest, _) = Interest::new(topics.clone(), &resource(uri), &subscriptions.heard).unwrap();
        locked(&subscriptions.held).insert(resource(uri), interest);
        subscriptions
    }

    #[test]
    fn a_listener_hears_once_of_any_number_of_changes_of_what_it_wants_and_of_what_is_below() {
        let topics = Arc::<Topics>::default();
        let (one, other) = (listener(&topics, "x://a"), listener(&topics, "x://ab"));
        for uri in ["x://a", "x://a", "x://a/below", "x://c"] {
            topics.updated(uri);
        }
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")));
        assert_eq!(one.updated().now_or_never(), None);
        assert_eq!(other.updated().now_or_never(), None);
    }

    #[test]
    fn a_resource_is_wanted_for_as_long_as_anybody_listens() {
        let topics = Arc::<Topics>::default();
        let (one, other) = (listener(&topics, "x://a"), listener(&topics, "x://a"));
        assert!(one.unsubscribe(&resource("").0, "x://a") && !one.unsubscribe(&resource("").0, "x://a"));
        assert_eq!(topics.wanted().len(), 1);
        topics.updated("x://a");
        assert_eq!(one.updated().now_or_never(), None, "it does not listen any more");
        drop(other);
        assert!(topics.wanted().is_empty());
    }

    #[test]
    fn a_server_that_agrees_again_may_have_changed_what_it_has() {
        let topics = Arc::<Topics>::default();
        let one = listener(&topics, "x://a");
        topics.stands("x://a", Ok(()));
        topics.stands("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), None);
        topics.forgotten();
        topics.stands("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")));
        let refused = crate::link::RpcError { code: -32000, message: "not now".into(), data: None };
        topics.stands("x://a", Err(LinkError::Rpc(refused)));
        topics.stands("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")), "it refused for a while");
    }

    #[test]
    fn only_so_many_resources_of_a_server_are_listened_to() {
        let topics = Arc::<Topics>::default();
        let all: Vec<_> = (0..MOST_OF_A_SERVER).map(|number| listener(&topics, &format!("x://{number}"))).collect();
        assert!(Interest::new(topics.clone(), &resource("x://more"), &Arc::default()).is_none());
        drop(all);
        assert!(Interest::new(topics, &resource("x://more"), &Arc::default()).is_some());
    }
}
