//! Subscriptions of one listener to changes of resources.

use std::{collections::BTreeMap, sync::Arc};

use super::Host;
use crate::{
    call::CallError,
    link::inbound::topics::{Heard, Interest, MOST_OF_A_SERVER},
    spec::ServerName,
};
use parking_lot::Mutex;

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
            let held = self.held.lock();
            if held.contains_key(&key) {
                return Ok(());
            }
            room(&held)?;
        }
        let topics = host.watched().of(&key.0);
        let interest = Interest::new(topics, &key, &self.heard);
        let (interest, standing) = interest.ok_or(SubscribeError::TooMany { most: MOST_OF_A_SERVER })?;
        host.subscribed(server, uri, standing).await?;
        let mut held = self.held.lock();
        room(&held)?;
        held.insert(key, interest);
        Ok(())
    }

    /// Ends a subscription; returns whether there was one. The server learns of it later.
    pub fn unsubscribe(&self, server: &ServerName, uri: &str) -> bool {
        self.held.lock().remove(&(server.clone(), uri.to_owned())).is_some()
    }

    /// Waits for the next resource that has changed, and returns its server and the subscribed URI, also where the
    /// server names something below it. Several changes before a call of this count as one. Cancel safe.
    pub async fn updated(&self) -> (ServerName, String) {
        loop {
            let rung = self.heard.bell.notified();
            while let Some(next) = self.heard.take() {
                if self.held.lock().contains_key(&next) {
                    return next;
                }
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::link::{LinkError, inbound::topics::Topics};

    fn resource(uri: &str) -> (ServerName, String) {
        (ServerName::new("s").unwrap(), uri.to_owned())
    }

    fn listener(topics: &Arc<Topics>, uri: &str) -> Subscriptions {
        let subscriptions = Subscriptions::new(8);
        let (interest, _) = Interest::new(topics.clone(), &resource(uri), &subscriptions.heard).unwrap();
        subscriptions.held.lock().insert(resource(uri), interest);
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
    fn a_resource_is_wanted_for_as_long_as_a_caller_listens() {
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
