//! Servers that the members of a tenant add for themselves. Each has a URL, and exists only in the world of its
//! member (the member's own host with its configuration).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use futures::future::BoxFuture;
use tokio::sync::watch;
use toolrack_config::{OwnServer, Request};
use toolrack_host::{Caller, Desired, Principal, ServerName, egress::Egress};

use crate::credentials::WorldKind;

/// Stores the servers that the members of a tenant add, by the [key](Principal::key) of the member. Errors are messages
/// for users.
pub trait OwnServerStore: Send + Sync {
    /// Returns the keys of the members who have added a server.
    fn members(&self) -> BoxFuture<'_, Result<BTreeSet<String>, String>>;

    /// Returns the servers of a member, by name.
    fn servers<'a>(&'a self, member: &'a str) -> BoxFuture<'a, Result<BTreeMap<String, OwnServer>, String>>;

    /// Stores a server of a member, replacing an earlier one of this name, and records that `caller` added it.
    fn add<'a>(
        &'a self,
        member: &'a str,
        name: &'a str,
        server: &'a OwnServer,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Removes a server of a member, and records that `caller` did so. Returns whether there was one.
    fn remove<'a>(&'a self, member: &'a str, name: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<bool, String>>;
}

/// The servers that the members of a tenant have added, and the rules for adding them.
pub struct OwnServers {
    max_per_member: usize,
    egress: Egress,
    store: Arc<dyn OwnServerStore>,
    /// The members who have added a server. Checked before the store is read, because most members have added none.
    members: watch::Sender<BTreeSet<String>>,
}

impl fmt::Debug for OwnServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnServers")
            .field("most", &self.max_per_member)
            .field("egress", &self.egress)
            .finish_non_exhaustive()
    }
}

/// Why a server was not added.
#[derive(Debug)]
pub(crate) enum NotAdded {
    /// The member has as many servers as they may have: this many.
    Full(usize),
    /// It cannot be stored.
    NotStored(String),
}

impl OwnServers {
    /// Lets each member add at most `max_per_member` servers, at addresses that `egress` allows. Reads from the store
    /// which members have added a server.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn new(max_per_member: usize, egress: Egress, store: Arc<dyn OwnServerStore>) -> Result<Self, String> {
        let members = watch::Sender::new(store.members().await?);
        Ok(Self { max_per_member, egress, store, members })
    }

    /// The maximum number of servers of one member.
    pub(crate) fn max_per_member(&self) -> usize {
        self.max_per_member
    }

    /// The rules for connections to these servers.
    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Whether the member has added any servers.
    pub(crate) fn has_servers(&self, member: &Principal) -> bool {
        let members = self.members.borrow();
        !members.is_empty() && members.contains(&member.key())
    }

    /// Waits until the member has added a server.
    pub(crate) async fn until_added_by(&self, member: &Principal) {
        let (key, mut members) = (member.key(), self.members.subscribe());
        // Cannot fail, because `self` owns the sender.
        let _ = members.wait_for(|members| members.contains(&key)).await;
    }

    /// Returns the servers of the member, by name.
    pub(crate) async fn servers_of(&self, member: &Principal) -> Result<BTreeMap<String, OwnServer>, String> {
        self.store.servers(&member.key()).await
    }

    /// Stores a server of the caller.
    pub(crate) async fn add(&self, name: &ServerName, server: &OwnServer, caller: &Caller) -> Result<(), NotAdded> {
        let member = caller.principal();
        let existing = self.servers_of(member).await.map_err(NotAdded::NotStored)?;
        if existing.len() >= self.max_per_member && !existing.contains_key(name.as_str()) {
            return Err(NotAdded::Full(self.max_per_member));
        }
        self.store.add(&member.key(), name.as_str(), server, caller).await.map_err(NotAdded::NotStored)?;
        self.set_has_servers(member, /* has_any */ true);
        Ok(())
    }

    /// Removes a server of the caller. Returns whether there was one.
    pub(crate) async fn remove(&self, name: &str, caller: &Caller) -> Result<bool, String> {
        let member = caller.principal();
        let was_removed = self.store.remove(&member.key(), name, caller).await?;
        self.set_has_servers(member, !self.servers_of(member).await?.is_empty());
        Ok(was_removed)
    }

    fn set_has_servers(&self, member: &Principal, has_any: bool) {
        self.members.send_if_modified(|members| match has_any {
            true => members.insert(member.key()),
            false => members.remove(&member.key()),
        });
    }

    /// Returns the servers that the member of a world of this `kind` has added; empty for a world without a member. If
    /// the servers cannot be read, they do not run, and the log has the reason.
    async fn desired(&self, kind: &WorldKind) -> Desired {
        let WorldKind::Member(member) = kind else { return Desired::new() };
        if !self.has_servers(member) {
            return Desired::new();
        }
        let servers = self.servers_of(member).await.unwrap_or_else(|why| {
            tracing::warn!("the servers that a member of `{}` added do not run: {why}", member.tenant());
            BTreeMap::new()
        });
        let key = member.key();
        // A stored server that is no longer valid is left out.
        let usable_servers = servers
            .into_iter()
            .filter_map(|(name, server)| Some((ServerName::new(name).ok()?, server.spec(&key, &self.egress).ok()?)));
        // The store may have more servers than the limit: two requests at once may both have found room for one more,
        // or the limit was lowered.
        usable_servers.take(self.max_per_member).collect()
    }
}

/// Returns `request`, the request to load the configuration of a world, extended by the servers that the world's member
/// has added.
pub(crate) async fn with_own_servers(request: &Request, own_servers: Option<&OwnServers>, kind: &WorldKind) -> Request {
    let of_member = match own_servers {
        Some(own_servers) => own_servers.desired(kind).await,
        None => Desired::new(),
    };
    Request { of_member, ..request.clone() }
}
