//! Tracks topics: the resources that have listeners. A connection subscribes at its server once for each topic,
//! regardless of the number of listeners. When the server reconnects, the new connection subscribes again.

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

use crate::{link::error::LinkError, principal::Principal, spec::ServerName};

/// The most resources of one server that may have listeners at once.
pub(crate) const MAX_RESOURCES_PER_SERVER: usize = 2_048;

/// The most resources of one server that one member of a team may listen to at once, so that no member can use up the
/// limit for all. The user of a machine with a single user may listen to [`MAX_RESOURCES_PER_SERVER`].
pub(crate) const MAX_RESOURCES_PER_MEMBER: usize = MAX_RESOURCES_PER_SERVER / 8;

/// The reason why a listener cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The member listens to [`MAX_RESOURCES_PER_MEMBER`] resources of the server already.
    MemberShare,
    /// [`MAX_RESOURCES_PER_SERVER`] resources of the server have listeners already.
    Server,
}

/// Says whether a resource has changed since its listener last checked. Any number of changes counts as one.
#[derive(Debug)]
struct ChangeFlag {
    is_set: AtomicBool,
    /// Wakes the listener.
    wake: Arc<Notify>,
}

impl ChangeFlag {
    fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }
}

/// The subscription of one listener to one resource. Dropping this value ends the subscription.
pub(crate) struct Subscription {
    topics: Arc<Topics>,
    uri: String,
    /// The [key](Principal::person_key) of the member of a team who listens; `None` for the user of a machine with a
    /// single user.
    member: Option<String>,
    /// The number of the listener in the topic.
    number: u64,
    change_flag: Arc<ChangeFlag>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Subscription {
    /// Subscribes `principal` to a resource; changes of the resource notify `wake`.
    ///
    /// # Errors
    /// [`Full`], if the principal or the server has reached its limit of resources.
    pub(crate) fn new(
        topics: Arc<Topics>,
        uri: &str,
        principal: &Principal,
        wake: &Arc<Notify>,
    ) -> Result<(Self, watch::Receiver<SubscriptionState>), Full> {
        let change_flag = Arc::new(ChangeFlag { is_set: AtomicBool::new(false), wake: wake.clone() });
        let member = (!principal.is_local()).then(|| principal.person_key());
        let (number, state) = topics.add(uri, member.as_deref(), &change_flag)?;
        Ok((Self { topics, uri: uri.to_owned(), member, number, change_flag }, state))
    }

    /// Returns whether the resource has changed since the last call.
    pub(crate) fn take_change(&self) -> bool {
        self.change_flag.is_set.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topics.remove(&self.uri, self.member.as_deref(), self.number);
    }
}

/// The topics of all servers of a host. A server is added with its first listener, and never removed.
#[derive(Debug, Default)]
pub(crate) struct WatchedResources(ArcSwap<BTreeMap<ServerName, Arc<Topics>>>);

impl WatchedResources {
    /// Returns the topics of this server.
    pub(crate) fn topics_for(&self, server: &ServerName) -> Arc<Topics> {
        if let Some(topics) = self.0.load().get(server) {
            return topics.clone();
        }
        let new_topics = Arc::<Topics>::default();
        let previous = self.0.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.entry(server.clone()).or_insert_with(|| new_topics.clone());
            all
        });
        // Another thread may have added the server first.
        previous.get(server).cloned().unwrap_or(new_topics)
    }

    /// Returns the topics of this server, if there are listeners.
    pub(crate) fn with_listeners(&self, server: &ServerName) -> Option<Arc<Topics>> {
        self.0.load().get(server).filter(|topics| !topics.state.lock().topics.is_empty()).cloned()
    }
}

/// The state of a subscription at the server, on the current connection.
#[derive(Clone, Debug)]
pub(crate) enum SubscriptionState {
    /// The server has not answered yet.
    Pending,
    Agreed,
    Refused(LinkError),
}

/// The resources of one server that have listeners.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    state: Mutex<State>,
    /// Notified when resources may have got their first listener or lost their last. At most one connection waits for
    /// this at a time.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    /// For each member of a team, by key: the number of the member's listeners of each resource.
    shares: BTreeMap<String, BTreeMap<String, usize>>,
    /// The number of the newest topic or listener.
    last_number: u64,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Counts a listener in the share of its member. Fails for a further resource if the share is used up.
    fn take_share(&mut self, member: &str, uri: &str) -> Result<(), Full> {
        let resources = self.shares.entry(member.to_owned()).or_default();
        if !resources.contains_key(uri) && resources.len() >= MAX_RESOURCES_PER_MEMBER {
            return Err(Full::MemberShare);
        }
        *resources.entry(uri.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Removes a listener from the share of its member.
    fn give_share_back(&mut self, member: &str, uri: &str) {
        let Some(resources) = self.shares.get_mut(member) else { return };
        if let Some(listeners) = resources.get_mut(uri) {
            *listeners -= 1;
            if *listeners == 0 {
                resources.remove(uri);
            }
        }
        if resources.is_empty() {
            self.shares.remove(member);
        }
    }
}

/// One resource that has listeners.
#[derive(Debug)]
struct Topic {
    /// Distinguishes this topic from an earlier one for the same resource.
    number: u64,
    listeners: BTreeMap<u64, Arc<ChangeFlag>>,
    subscription_state: watch::Sender<SubscriptionState>,
    /// Whether the server has ever agreed.
    has_agreed: bool,
}

impl Topic {
    fn notify_listeners(&self) {
        self.listeners.values().for_each(|listener| listener.set());
    }
}

impl Topics {
    /// Adds a listener of `member`. Returns its number and the state of the subscription.
    fn add(
        &self,
        uri: &str,
        member: Option<&str>,
        change_flag: &Arc<ChangeFlag>,
    ) -> Result<(u64, watch::Receiver<SubscriptionState>), Full> {
        let mut state = self.state.lock();
        if !state.topics.contains_key(uri) && state.topics.len() >= MAX_RESOURCES_PER_SERVER {
            return Err(Full::Server);
        }
        if let Some(member) = member {
            state.take_share(member, uri)?;
        }
        let (topic_number, number) = (state.next_number(), state.next_number());
        let topic = state.topics.entry(uri.to_owned()).or_insert_with(|| {
            self.changed.notify_one();
            Topic {
                number: topic_number,
                listeners: BTreeMap::new(),
                subscription_state: watch::Sender::new(SubscriptionState::Pending),
                has_agreed: false,
            }
        });
        topic.listeners.insert(number, change_flag.clone());
        Ok((number, topic.subscription_state.subscribe()))
    }

    fn remove(&self, uri: &str, member: Option<&str>, number: u64) {
        let mut state = self.state.lock();
        if let Some(member) = member {
            state.give_share_back(member, uri);
        }
        let Some(topic) = state.topics.get_mut(uri) else { return };
        topic.listeners.remove(&number);
        if topic.listeners.is_empty() {
            state.topics.remove(uri);
            self.changed.notify_one();
        }
    }

    /// Returns the desired subscriptions: the URIs of all topics. The number distinguishes a topic from an earlier one
    /// for the same resource.
    pub(crate) fn desired(&self) -> BTreeSet<(String, u64)> {
        self.state.lock().topics.iter().map(|(uri, topic)| (uri.clone(), topic.number)).collect()
    }

    /// Waits until the desired subscriptions may differ from the last result of [`Self::desired`].
    pub(crate) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// Records that the server has lost all subscriptions.
    pub(crate) fn reset(&self) {
        for topic in self.state.lock().topics.values() {
            topic.subscription_state.send_replace(SubscriptionState::Pending);
        }
    }

    /// Records the server's answer to a subscription. A renewed subscription counts as an update, because updates may
    /// have been missed.
    pub(crate) fn record_answer(&self, uri: &str, answer: Result<(), LinkError>) {
        if let Some(topic) = self.state.lock().topics.get_mut(uri) {
            let new_state = match answer {
                Ok(()) => SubscriptionState::Agreed,
                Err(error) => SubscriptionState::Refused(error),
            };
            let is_agreed = matches!(new_state, SubscriptionState::Agreed);
            let previous = topic.subscription_state.send_replace(new_state);
            if is_agreed && topic.has_agreed && !matches!(previous, SubscriptionState::Agreed) {
                topic.notify_listeners();
            }
            topic.has_agreed |= is_agreed;
        }
    }

    /// Records that a resource, or something below it, has changed.
    pub(crate) fn record_update(&self, uri: &str) {
        let is_at_or_below_topic = |topic: &str| {
            let suffix = uri.strip_prefix(topic);
            suffix.is_some_and(|rest| rest.is_empty() || topic.ends_with('/') || rest.starts_with(['/', '?', '#']))
        };
        for (_, topic) in self.state.lock().topics.iter().filter(|(topic, _)| is_at_or_below_topic(topic)) {
            topic.notify_listeners();
        }
    }
}
