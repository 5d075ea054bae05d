//! The resources that one client is subscribed to, under the names that it uses for them.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use toolrack_host::{Host, ServerName, SubscribeError, Subscriptions};

/// Dropping it ends the subscriptions at the servers.
#[derive(Debug)]
pub(super) struct Subscribed {
    heard: Subscriptions,
    /// The server, and the URI there, for each name.
    names: ArcSwap<BTreeMap<String, (ServerName, String)>>,
}

impl Subscribed {
    /// Creates the subscriptions of a client that may listen to `most` resources.
    pub(super) fn new(most: usize) -> Self {
        Self { heard: Subscriptions::new(most), names: ArcSwap::default() }
    }

    pub(super) async fn add(&self, host: &Host, name: &str, of: (ServerName, String)) -> Result<(), SubscribeError> {
        self.heard.subscribe(host, of.0.as_str(), &of.1).await?;
        self.names.rcu(|names| {
            let mut names = BTreeMap::clone(names);
            names.insert(name.to_owned(), of.clone());
            names
        });
        Ok(())
    }

    /// Removes a subscription, if there is one.
    pub(super) fn remove(&self, name: &str) {
        let names = self.names.rcu(|names| {
            let mut names = BTreeMap::clone(names);
            names.remove(name);
            names
        });
        let Some(of) = names.get(name) else { return };
        // The client may have subscribed to it by another name as well.
        if !names.iter().any(|(other, also_of)| other != name && also_of == of) {
            self.heard.unsubscribe(&of.0, &of.1);
        }
    }

    /// Waits until a resource has changed; returns its names. Cancel-safe.
    pub(super) async fn updated(&self) -> Vec<String> {
        loop {
            let of = self.heard.updated().await;
            let names: Vec<_> =
                self.names.load().iter().filter(|(_, known)| **known == of).map(|(name, _)| name.clone()).collect();
            if !names.is_empty() {
                return names;
            }
        }
    }
}
