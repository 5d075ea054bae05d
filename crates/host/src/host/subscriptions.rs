//! Subscribes listeners to changes of resources (MCP `resources/subscribe`). A *listener* is one client of this host.
//! The host subscribes once at the server for all listeners to a resource; `link/inbound/topics` counts them.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use super::Host;
use crate::{
    call::{CallError, admit},
    link::inbound::topics::{Full, MAX_RESOURCES_PER_MEMBER, MAX_RESOURCES_PER_SERVER, Subscription},
    spec::ServerName,
    witness::Caller,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The resources to which one listener has subscribed (MCP `resources/subscribe`, `resourceSubscriptions`). Dropping
/// this value ends its subscriptions.
///
/// If several listeners subscribe to the same resource, the host subscribes once at the server. It subscribes again
/// when the server reconnects, and then reports an update, because it may have missed one. A server with a subscription
/// does not become idle.
#[derive(Debug)]
pub struct Subscriptions {
    /// Wakes the listener when a resource has changed, and when a new subscription may have missed a change.
    wake: Arc<Notify>,
    state: Mutex<State>,
    /// The maximum number of resources.
    limit: usize,
    /// The caller who listens.
    caller: Caller,
}

/// The longest URI that can be subscribed to, in bytes. A server of 2026-07-28 gets the URIs of all listeners in one
/// request.
const MAX_URI_BYTES: usize = 4_096;

/// A resource: its server and its URI.
type ResourceKey = (ServerName, String);

#[derive(Debug, Default)]
struct State {
    subscriptions: BTreeMap<ResourceKey, Subscription>,
    /// The resource that [`Subscriptions::updated`] returned last.
    last_updated: Option<ResourceKey>,
}

/// The reason why a resource was not subscribed to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// This listener has reached its limit of resources.
    #[error("no more than {limit} resources can be subscribed to; end another subscription first")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// All listeners of one member of a team together have reached the limit for one server.
    #[error(
        "a member can subscribe to no more than {limit} resources of `{server}`; end another of your subscriptions first"
    )]
    MemberShare {
        /// The server.
        server: ServerName,
        /// The limit.
        limit: usize,
    },
    /// All listeners of the server together have reached the limit.
    #[error(
        "all clients together can subscribe to no more than {limit} resources of `{server}`; try again when another client \
         has ended a subscription"
    )]
    ServerFull {
        /// The server.
        server: ServerName,
        /// The limit.
        limit: usize,
    },
    /// The URI is too long.
    #[error("a URI of {length} bytes cannot be subscribed to: at most {MAX_URI_BYTES} are possible")]
    UriTooLong {
        /// The length of the URI in bytes.
        length: usize,
    },
    /// The server cannot be reached, or refuses the subscription.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Subscriptions {
    /// Creates a listener that may subscribe to at most `limit` resources.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { wake: Arc::default(), state: Mutex::default(), limit, caller: Caller::default() }
    }

    /// Sets the caller who listens. A member of a team can subscribe only to resources of servers that are
    /// [for](crate::ServerSpec::is_for) them. For each server, a limit holds for all listeners of a member together.
    /// Default: the program that embeds this library, which has no such limit.
    #[must_use]
    pub fn caller(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    /// Subscribes to a resource of `server` by its URI. Waits until the server has agreed, at most as long as the
    /// time-out of a call, and starts an idle server. A repeated subscription changes nothing.
    ///
    /// # Errors
    /// [`SubscribeError`].
    pub async fn subscribe(&self, host: &Host, server: &str, uri: &str) -> Result<(), SubscribeError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(SubscribeError::UriTooLong { length: uri.len() });
        }
        let unknown = |error: crate::spec::BadServerName| CallError::UnknownServer { server: error.name };
        let key = (ServerName::new(server).map_err(unknown)?, uri.to_owned());
        if self.check_subscribed(&self.state.lock(), &key)? {
            return Ok(());
        }
        let known_server = host.server(server)?;
        admit(&known_server, server, &self.caller)?;
        let subscription = Subscription::new(known_server.topics(&key.0), uri, self.caller.principal(), &self.wake);
        let (subscription, state) = subscription.map_err(|full| match full {
            Full::MemberShare => SubscribeError::MemberShare { server: key.0.clone(), limit: MAX_RESOURCES_PER_MEMBER },
            Full::Server => SubscribeError::ServerFull { server: key.0.clone(), limit: MAX_RESOURCES_PER_SERVER },
        })?;
        drop(known_server);
        host.wait_until_subscribed(server, uri, state).await?;
        self.add(key, subscription)
    }

    /// Returns whether this listener has already subscribed to the resource. Fails for a new resource if the listener
    /// has reached its limit.
    fn check_subscribed(&self, state: &State, key: &ResourceKey) -> Result<bool, SubscribeError> {
        match state.subscriptions.contains_key(key) {
            true => Ok(true),
            false if state.subscriptions.len() < self.limit => Ok(false),
            false => Err(SubscribeError::TooMany { limit: self.limit }),
        }
    }

    /// Adds the subscription, and wakes the listener, because the resource may already have changed.
    fn add(&self, key: ResourceKey, subscription: Subscription) -> Result<(), SubscribeError> {
        let mut state = self.state.lock();
        // Another task may have subscribed to the same resource meanwhile: keep that subscription.
        if !self.check_subscribed(&state, &key)? {
            state.subscriptions.insert(key, subscription);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Ends a subscription, and returns whether there was one. The host tells the server later.
    pub fn unsubscribe(&self, server: &ServerName, uri: &str) -> bool {
        let ended = self.state.lock().subscriptions.remove(&(server.clone(), uri.to_owned()));
        ended.is_some()
    }

    /// Waits for the next changed resource. Returns its server and the subscribed URI; the resource that the server
    /// reports may also be one below that URI. Several changes between two calls of this method count as one. Cancel
    /// safe.
    pub async fn updated(&self) -> (ServerName, String) {
        loop {
            let wakeup = self.wake.notified();
            if let Some(changed) = self.take_change() {
                return changed;
            }
            wakeup.await;
        }
    }

    /// Returns a resource that has changed since it was last returned. Begins after the last returned one: otherwise, a
    /// resource that changes all the time would hide all later ones.
    fn take_change(&self) -> Option<ResourceKey> {
        let State { subscriptions, last_updated } = &mut *self.state.lock();
        let after_last: (Bound<&ResourceKey>, Bound<&ResourceKey>) =
            (last_updated.as_ref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut candidates = subscriptions.range::<ResourceKey, _>(after_last).chain(subscriptions.iter());
        let changed = candidates.find(|(_, subscription)| subscription.take_change()).map(|(key, _)| key.clone());
        if changed.is_some() {
            last_updated.clone_from(&changed);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::{
        link::{LinkError, inbound::topics::Topics},
        principal::{Kind, Principal, Role},
    };

    fn resource(uri: &str) -> (ServerName, String) {
        (ServerName::new("s").unwrap(), uri.to_owned())
    }

    fn listener(topics: &Arc<Topics>, uri: &str) -> Subscriptions {
        let subscriptions = Subscriptions::new(8);
        let (subscription, _) = Subscription::new(topics.clone(), uri, &Principal::LOCAL, &subscriptions.wake).unwrap();
        subscriptions.add(resource(uri), subscription).unwrap();
        subscriptions
    }

    #[test]
    fn a_listener_is_notified_once_of_many_changes_of_its_resource_and_those_below() {
        let topics = Arc::<Topics>::default();
        let (one, other) = (listener(&topics, "x://a"), listener(&topics, "x://ab"));
        for uri in ["x://a", "x://a", "x://a/below", "x://c"] {
            topics.record_update(uri);
        }
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")));
        assert_eq!(one.updated().now_or_never(), None);
        assert_eq!(other.updated().now_or_never(), None);
    }

    #[test]
    fn a_resource_that_changes_all_the_time_hides_no_other() {
        let topics = Arc::<Topics>::default();
        let one = listener(&topics, "x://a");
        let (subscription, _) = Subscription::new(topics.clone(), "x://b", &Principal::LOCAL, &one.wake).unwrap();
        one.add(resource("x://b"), subscription).unwrap();
        topics.record_update("x://b");
        for expected in ["x://a", "x://b", "x://a"] {
            topics.record_update("x://a");
            assert_eq!(one.updated().now_or_never(), Some(resource(expected)));
        }
    }

    #[test]
    fn a_resource_is_wanted_for_as_long_as_a_caller_listens() {
        let topics = Arc::<Topics>::default();
        let (one, other) = (listener(&topics, "x://a"), listener(&topics, "x://a"));
        assert!(one.unsubscribe(&resource("").0, "x://a") && !one.unsubscribe(&resource("").0, "x://a"));
        assert_eq!(topics.desired().len(), 1);
        topics.record_update("x://a");
        assert_eq!(one.updated().now_or_never(), None, "it does not listen any more");
        drop(other);
        assert!(topics.desired().is_empty());
    }

    #[test]
    fn a_subscription_made_again_after_a_reset_notifies_its_listeners() {
        let topics = Arc::<Topics>::default();
        let one = listener(&topics, "x://a");
        topics.record_answer("x://a", Ok(()));
        topics.record_answer("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), None);
        topics.reset();
        topics.record_answer("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")));
        let refused = crate::link::RpcError { code: -32000, message: "not now".into(), data: None };
        topics.record_answer("x://a", Err(LinkError::Rpc(refused)));
        topics.record_answer("x://a", Ok(()));
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")), "it refused for a while");
    }

    #[test]
    fn a_change_during_the_handshake_is_reported_after_it() {
        let topics = Arc::<Topics>::default();
        let one = Subscriptions::new(8);
        let (subscription, _) = Subscription::new(topics.clone(), "x://a", &Principal::LOCAL, &one.wake).unwrap();
        let mut update = Box::pin(one.updated());
        topics.record_update("x://a");
        assert_eq!((&mut update).now_or_never(), None, "it is not subscribed yet");
        one.add(resource("x://a"), subscription).unwrap();
        assert_eq!(update.now_or_never(), Some(resource("x://a")));
    }

    #[tokio::test]
    async fn a_uri_of_any_length_is_not_stored_and_sent() {
        let (host, listener) = (Host::builder().build(), Subscriptions::new(1));
        let refused = listener.subscribe(&host, "s", &"x".repeat(MAX_URI_BYTES + 1)).await.unwrap_err();
        assert!(matches!(refused, SubscribeError::UriTooLong { length } if length == MAX_URI_BYTES + 1), "{refused}");
        let unknown = listener.subscribe(&host, "s", &"x".repeat(MAX_URI_BYTES)).await.unwrap_err();
        assert!(matches!(unknown, SubscribeError::Call(CallError::UnknownServer { .. })), "{unknown}");
        host.shutdown().await;
    }

    #[test]
    fn a_listener_that_subscribes_twice_at_once_holds_one_subscription_and_loses_no_change() {
        let topics = Arc::<Topics>::default();
        let one = listener(&topics, "x://a");
        topics.record_update("x://a");
        let (again, _) = Subscription::new(topics.clone(), "x://a", &Principal::LOCAL, &one.wake).unwrap();
        one.add(resource("x://a"), again).unwrap();
        assert_eq!(one.updated().now_or_never(), Some(resource("x://a")));
        assert_eq!(one.updated().now_or_never(), None);
        assert!(one.unsubscribe(&resource("").0, "x://a"));
        assert!(topics.desired().is_empty());
    }

    #[test]
    fn only_so_many_resources_of_a_server_are_listened_to() {
        let topics = Arc::<Topics>::default();
        let all: Vec<_> =
            (0..MAX_RESOURCES_PER_SERVER).map(|number| listener(&topics, &format!("x://{number}"))).collect();
        let subscribe = || Subscription::new(topics.clone(), "x://more", &Principal::LOCAL, &Arc::default());
        assert_eq!(subscribe().err(), Some(Full::Server));
        drop(all);
        assert!(subscribe().is_ok());
    }

    #[test]
    fn a_member_listens_to_a_share_of_the_resources_of_a_server_and_leaves_the_others_to_others() {
        let topics = Arc::<Topics>::default();
        let member = |subject: &str| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let subscribe = |who: &Principal, number: usize| {
            Subscription::new(topics.clone(), &format!("x://{number}"), who, &Arc::default()).map(|(one, _)| one)
        };
        let ann = member("ann");
        let mut of_ann: Vec<_> = (0..MAX_RESOURCES_PER_MEMBER).map(|number| subscribe(&ann, number).unwrap()).collect();
        // Neither another role nor another membership is another member.
        let again = ann.clone().with_role(Role::Admin).in_membership(1);
        assert_eq!(subscribe(&again, MAX_RESOURCES_PER_MEMBER).err(), Some(Full::MemberShare));
        let _of_bob = subscribe(&member("bob"), MAX_RESOURCES_PER_MEMBER).unwrap();
        // A second listener to the same resource takes no further place, and keeps the place of the first.
        let second = subscribe(&ann, 0).unwrap();
        drop(of_ann.remove(0));
        assert_eq!(subscribe(&ann, MAX_RESOURCES_PER_MEMBER).err(), Some(Full::MemberShare));
        drop(second);
        assert!(subscribe(&ann, MAX_RESOURCES_PER_MEMBER).is_ok());
    }
}
