//! The resources that one client of the gateway is subscribed to, under the names that the client uses for them. Such a
//! name is the URI at the server, or `toolrack://SERVER/URI` if several servers have that URI.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use toolrack_host::{Caller, Host, Principal, ServerName, SubscribeError, Subscriptions, Way};

/// The subscriptions of one client. Dropping this ends them at the servers.
#[derive(Debug)]
pub(super) struct ResourceSubscriptions {
    subscriptions: Subscriptions,
    /// The server, and the URI at that server, for each name.
    names: ArcSwap<BTreeMap<String, (ServerName, String)>>,
}

impl ResourceSubscriptions {
    /// Creates the subscriptions of a client of `principal` that may listen to `max` resources.
    pub(super) fn new(principal: Principal, max: usize) -> Self {
        let subscriptions = Subscriptions::new(max).caller(Caller::of(principal, Way::Gateway));
        Self { subscriptions, names: ArcSwap::default() }
    }

    /// Subscribes to `resource` (a server, and the URI at that server), which the client calls `name`.
    ///
    /// # Errors
    /// When the server refuses, or the client has too many subscriptions.
    pub(super) async fn add(
        &self,
        host: &Host,
        name: &str,
        resource: (ServerName, String),
    ) -> Result<(), SubscribeError> {
        self.subscriptions.subscribe(host, resource.0.as_str(), &resource.1).await?;
        self.names.rcu(|names| {
            let mut names = BTreeMap::clone(names);
            names.insert(name.to_owned(), resource.clone());
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
        // `rcu` returns the names as they were before the change.
        let Some(resource) = names.get(name) else { return };
        // The client may have subscribed to the resource by another name as well.
        if !names.iter().any(|(other, other_resource)| other != name && other_resource == resource) {
            self.subscriptions.unsubscribe(&resource.0, &resource.1);
        }
    }

    /// Returns the names of all resources that the client is subscribed to.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.load().keys().cloned().collect()
    }

    /// Waits until a resource has changed. Returns the names that the client uses for the resource. Cancel-safe.
    pub(super) async fn until_updated(&self) -> Vec<String> {
        loop {
            let resource = self.subscriptions.updated().await;
            let names: Vec<_> = self
                .names
                .load()
                .iter()
                .filter(|(_, subscribed)| **subscribed == resource)
                .map(|(name, _)| name.clone())
                .collect();
            if !names.is_empty() {
                return names;
            }
        }
    }
}
