//! Stores two things in the vault (the encrypted values in the database): the values that users give to their own
//! servers, and the servers that users add.
//!
//! A team has tenants, each with servers and data of its own, and each tenant has members: people and services.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use toolrack_config::{OwnServer, Secrets};
use toolrack_daemon::{Credentials, CredentialsOf, GivenValue, OwnServerStore};
use toolrack_host::Caller;
use toolrack_store::Space;

use crate::{error::with_causes, secrets::SecretStore};

/// The values of one member of a tenant. `secret_store` is the vault of the tenant.
#[derive(Debug)]
pub(crate) struct MemberCredentials {
    secret_store: Arc<SecretStore>,
    /// The prefix of the names of the member's rows: the member's [key](toolrack_host::Principal::key) and a `/`.
    prefix: String,
}

/// The values of the only user of a machine, which are stored as the user's secrets.
#[derive(Debug)]
pub(crate) struct MachineCredentials(Arc<SecretStore>);

impl MachineCredentials {
    /// Returns a function that finds these values for the user of the machine.
    pub(crate) fn finder(secret_store: Arc<SecretStore>) -> CredentialsOf {
        let credentials: Arc<dyn Credentials> = Arc::new(Self(secret_store));
        Box::new(move |principal| principal.is_local().then(|| Arc::clone(&credentials)))
    }
}

impl MemberCredentials {
    pub(crate) fn new(secret_store: Arc<SecretStore>, key: &str) -> Self {
        Self { secret_store, prefix: format!("{key}/") }
    }

    /// Returns a function that finds the values of each member of a tenant.
    pub(crate) fn finder_of_all(secret_store: Arc<SecretStore>) -> CredentialsOf {
        Box::new(move |member| {
            let is_member = !member.is_local();
            is_member.then(|| Arc::new(Self::new(Arc::clone(&secret_store), &member.key())) as Arc<dyn Credentials>)
        })
    }

    /// Returns a function that finds these values for their member, and no values for other members.
    pub(crate) fn finder(self: Arc<Self>) -> CredentialsOf {
        Box::new(move |member| {
            let is_own = self.prefix.strip_suffix('/') == Some(&*member.key());
            is_own.then(|| Arc::clone(&self) as Arc<dyn Credentials>)
        })
    }

    fn row_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// `${secret:NAME}` stands for a value of the tenant, and `${user:NAME}` for a value of the member.
impl Secrets for MemberCredentials {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        self.secret_store.secret(name)
    }

    fn user_value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        let row = self.row_name(name);
        Box::pin(async move {
            self.secret_store.get_in(Space::MemberValue, &row).await.map_err(|error| with_causes(&error))
        })
    }
}

impl Credentials for MemberCredentials {
    fn list(&self) -> BoxFuture<'_, Result<Vec<GivenValue>, String>> {
        Box::pin(async move {
            let store = self.secret_store.store().map_err(|error| with_causes(&error))?;
            let rows = store.member_value_names(&self.prefix).await.map_err(|error| with_causes(&error))?;
            Ok(rows.into_iter().filter_map(value_from_row).collect())
        })
    }

    fn give<'a>(&'a self, name: &'a str, value: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let row = self.row_name(name);
            self.secret_store.set_in(Space::MemberValue, &row, value).await.map_err(|error| with_causes(&error))?;
            record(&self.secret_store, caller, name, Change::Added).await
        })
    }

    fn take_back<'a>(&'a self, name: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let row = self.row_name(name);
            let is_removed =
                self.secret_store.remove_in(Space::MemberValue, &row).await.map_err(|error| with_causes(&error))?;
            if is_removed {
                record(&self.secret_store, caller, name, Change::Removed).await?;
            }
            Ok(is_removed)
        })
    }
}

impl Credentials for MachineCredentials {
    fn list(&self) -> BoxFuture<'_, Result<Vec<GivenValue>, String>> {
        Box::pin(async move {
            let store = self.0.store().map_err(|error| with_causes(&error))?;
            let rows = store.secret_names().await.map_err(|error| with_causes(&error))?;
            Ok(rows.into_iter().filter_map(value_from_row).collect())
        })
    }

    fn give<'a>(&'a self, name: &'a str, value: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.0.set(name, value).await.map_err(|error| with_causes(&error))?;
            record(&self.0, caller, name, Change::Added).await
        })
    }

    fn take_back<'a>(&'a self, name: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let is_removed = self.0.remove(name).await.map_err(|error| with_causes(&error))?;
            if is_removed {
                record(&self.0, caller, name, Change::Removed).await?;
            }
            Ok(is_removed)
        })
    }
}

/// The servers that the members of a tenant add for themselves. Their configurations are encrypted, because headers
/// hold secrets.
#[derive(Debug)]
pub(crate) struct MemberServerStore(Arc<SecretStore>);

impl MemberServerStore {
    pub(crate) fn new(secret_store: Arc<SecretStore>) -> Self {
        Self(secret_store)
    }

    async fn read(&self, member: &str) -> Result<BTreeMap<String, OwnServer>, String> {
        let store = self.0.store().map_err(|error| with_causes(&error))?;
        let prefix = format!("{member}/");
        let mut servers = BTreeMap::new();
        for name in store.own_server_names(&prefix).await.map_err(|error| with_causes(&error))? {
            let row = format!("{prefix}{name}");
            let stored_text = self.0.get_in(Space::OwnServer, &row).await.map_err(|error| with_causes(&error))?;
            // Leaves out a row that it cannot read. A newer version may have written a rule into it that this version
            // cannot enforce.
            if let Some(server) = stored_text.and_then(|text| serde_json::from_str(&text).ok()) {
                servers.insert(name, server);
            }
        }
        Ok(servers)
    }
}

impl OwnServerStore for MemberServerStore {
    fn members(&self) -> BoxFuture<'_, Result<BTreeSet<String>, String>> {
        Box::pin(async move {
            let store = self.0.store().map_err(|error| with_causes(&error))?;
            // The empty prefix selects the rows of all members.
            let names = store.own_server_names("").await.map_err(|error| with_causes(&error))?;
            Ok(names.iter().filter_map(|name| name.split_once('/')).map(|(member, _)| member.to_owned()).collect())
        })
    }

    fn servers<'a>(&'a self, member: &'a str) -> BoxFuture<'a, Result<BTreeMap<String, OwnServer>, String>> {
        Box::pin(self.read(member))
    }

    fn add<'a>(
        &'a self,
        member: &'a str,
        name: &'a str,
        server: &'a OwnServer,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            // Writing an address and texts as JSON cannot fail.
            let (row, text) = (format!("{member}/{name}"), serde_json::to_string(server).unwrap_or_default());
            self.0.set_in(Space::OwnServer, &row, &text).await.map_err(|error| with_causes(&error))?;
            self.record(caller, name, Change::Added).await
        })
    }

    fn remove<'a>(&'a self, member: &'a str, name: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let row = format!("{member}/{name}");
            let is_removed = self.0.remove_in(Space::OwnServer, &row).await.map_err(|error| with_causes(&error))?;
            if is_removed {
                self.record(caller, name, Change::Removed).await?;
            }
            Ok(is_removed)
        })
    }
}

impl MemberServerStore {
    async fn record(&self, caller: &Caller, name: &str, change: Change) -> Result<(), String> {
        let store = self.0.store().map_err(|error| with_causes(&error))?;
        store.record_own_server(caller, name, change == Change::Added).await.map_err(|error| with_causes(&error))
    }
}

/// What happened to a value or a server, for the audit log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Removed,
}

/// Converts a row (a name, and a time in Unix seconds) to the form that the daemon shows; `None` if its time cannot be
/// a date.
fn value_from_row((name, since): (String, i64)) -> Option<GivenValue> {
    Some(GivenValue { name, at: DateTime::<Utc>::from_timestamp(since, 0)? })
}

async fn record(secret_store: &SecretStore, caller: &Caller, name: &str, change: Change) -> Result<(), String> {
    let store = secret_store.store().map_err(|error| with_causes(&error))?;
    store.record_credential_change(caller, name, change == Change::Added).await.map_err(|error| with_causes(&error))
}
