//! Finds the values of `${user:NAME}` that a member of a team still has to give to their own servers.

use std::{collections::BTreeSet, fmt, sync::Arc};

use toolrack_config::{is_stored_secret_name, user_values_in};
use toolrack_host::{Principal, ServerName};
use url::Url;

use crate::world::World;

/// Finds the values that a member still has to give to their own servers, and the page on which they give them.
#[derive(Clone)]
pub(crate) struct MissingValues {
    world: Arc<World>,
    /// The address of the dashboard.
    dashboard: Url,
}

impl fmt::Debug for MissingValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MissingValues").field("dashboard", &self.dashboard.as_str()).finish_non_exhaustive()
    }
}

impl MissingValues {
    /// Creates the finder for the member whose world (a host with its configuration) is `world`. `None` if `world`
    /// belongs to no member.
    pub(crate) fn of_member(world: &Arc<World>, dashboard: Option<&Url>) -> Option<Self> {
        let dashboard = dashboard.filter(|_| world.kind.member().is_some())?.clone();
        Some(Self { world: Arc::clone(world), dashboard })
    }

    /// The values that `member` has not yet given for `server`.
    pub(crate) async fn missing_for(&self, member: &Principal, server: &str) -> BTreeSet<String> {
        let loaded = self.world.loaded();
        let spec = loaded.desired.get(server).filter(|spec| spec.enabled && self.world.kind.runs(spec));
        // Most servers need no value, and then the store need not be read.
        let mut needed_names = spec.map(user_values_in).unwrap_or_default();
        // A name that cannot be stored cannot be given, so no page can ask for it.
        needed_names.retain(|name| is_stored_secret_name(name));
        if needed_names.is_empty() {
            return needed_names;
        }
        // If the store fails, the server fails as well, and its error says so.
        let given_values = match (self.world.credentials)(member) {
            Some(credentials) => credentials.list().await.ok(),
            None => None,
        };
        let Some(given_values) = given_values else { return BTreeSet::new() };
        for value in given_values {
            needed_names.remove(&value.name);
        }
        needed_names
    }

    /// Returns the servers for which values are missing.
    pub(crate) async fn servers_lacking_values(&self, member: &Principal) -> Vec<ServerName> {
        let mut servers = Vec::new();
        for name in self.world.loaded().desired.keys() {
            if !self.missing_for(member, name.as_str()).await.is_empty() {
                servers.push(name.clone());
            }
        }
        servers
    }

    /// The address of the page on which the member gives `name`. The address names no member, because members sign in
    /// on the page.
    pub(crate) fn page_for(&self, name: &str) -> String {
        let mut page = self.dashboard.clone();
        page.set_fragment(Some(&format!("/credentials/{name}")));
        page.into()
    }

    /// Waits until `member` has given `name` for `server`.
    pub(crate) async fn until_given(&self, member: &Principal, server: &str, name: &str) {
        let mut changes = self.world.value_changes();
        while self.missing_for(member, server).await.contains(name) {
            // Cannot fail, because the world owns the sender.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
