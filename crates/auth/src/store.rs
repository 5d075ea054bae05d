//! The storage of tokens: its trait, its keys and leases, and an implementation in memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// The key of credentials. A request uses stored credentials only if all these fields are the same.
///
/// The issuer is a part of the credentials, not of the key. If a server moves to another issuer, this crate finds the
/// credentials of the old issuer and deletes them, and never sends them to the new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenKey {
    /// The tenant of a hosted program, or a user's profile. Empty if there is only one.
    pub tenant: String,
    /// The user of the tenant. Empty if there is only one.
    pub user: String,
    /// The MCP server: its URL up to the path, without query and fragment.
    pub resource: String,
    /// The name of the account. Empty for the account without a name.
    pub account: String,
}

impl TokenKey {
    /// Creates the key for the server at `url`, without a tenant, user or account.
    #[must_use]
    pub fn of(url: &Url) -> Self {
        let (tenant, user, account) = Default::default();
        Self { tenant, user, resource: resource(url).into(), account }
    }

    /// Returns the key as one text, for stores whose keys are texts. Different keys have different texts.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!([self.tenant, self.user, self.resource, self.account]).to_string()
    }

    /// Parses a text that [`Self::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (tenant, user, resource, account) = serde_json::from_str(text).ok()?;
        Some(Self { tenant, user, resource, account })
    }
}

/// Returns a server's URL as its identity: without query, user and fragment, which may hold secrets.
pub(crate) fn resource(url: &Url) -> Url {
    let mut resource = url.clone();
    resource.set_query(None);
    resource.set_fragment(None);
    // Both setters fail only for a URL without a host, and such a URL has no user.
    let _ = resource.set_username("");
    let _ = resource.set_password(None);
    resource
}

/// Stores credentials, for all processes of a user.
///
/// The bytes are secrets: an implementation keeps them where only their owner reads them, and prints them nowhere.
pub trait TokenStore: Send + Sync {
    /// Returns the credentials under `key`.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store cannot be read.
    fn load<'a>(&'a self, key: &'a TokenKey) -> BoxFuture<'a, Result<Option<Vec<u8>>, TokenStoreError>>;

    /// Returns all keys.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store cannot be read.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<TokenKey>, TokenStoreError>>;

    /// Waits until no other task, in any process, has the lease of `key`, and takes the lease. Only the holder of the
    /// lease changes the stored credentials, because a refresh token can be used only once. The lease ends with
    /// [`TokenLease::release`], or after `max_time` if its process has died. The wait itself has no bound: the caller
    /// drops the future when it has waited long enough.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store fails.
    fn lease<'a>(
        &'a self,
        key: &'a TokenKey,
        max_time: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn TokenLease>, TokenStoreError>>;
}

/// The right to change the credentials under one key; see [`TokenStore::lease`].
///
/// When the lease has run out, [`Self::save`] and [`Self::delete`] change nothing, because another process may have
/// written newer credentials.
pub trait TokenLease: Send + Sync {
    /// Replaces the stored credentials.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store fails, or the lease has run out: the old credentials then stay stored.
    fn save(&self, credentials: Vec<u8>) -> BoxFuture<'_, Result<(), TokenStoreError>>;

    /// Deletes the credentials.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store fails, or the lease has run out.
    fn delete(&self) -> BoxFuture<'_, Result<(), TokenStoreError>>;

    /// Gives the lease back, so that another task can take it.
    fn release(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Tokens cannot be stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TokenStoreError {
    /// The reason, without a secret.
    pub why: String,
}

impl TokenStoreError {
    /// Creates the error; `why` must not contain a secret.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// A [`TokenStore`] in memory, for embedders and tests. Its `Debug` shows no token.
#[derive(Default)]
pub struct MemoryTokens(Arc<Entries>);

/// The content of [`MemoryTokens`], which its leases share.
#[derive(Default)]
struct Entries(Mutex<BTreeMap<TokenKey, StoredEntry>>);

/// The value stored under one key.
struct StoredEntry {
    credentials: Option<Vec<u8>>,
    /// The semaphore's only permit belongs to the holder of the lease.
    lease: Arc<Semaphore>,
}

impl Default for StoredEntry {
    fn default() -> Self {
        Self { credentials: None, lease: Arc::new(Semaphore::new(1)) }
    }
}

impl std::fmt::Debug for MemoryTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTokens").finish_non_exhaustive()
    }
}

impl TokenStore for MemoryTokens {
    fn load<'a>(&'a self, key: &'a TokenKey) -> BoxFuture<'a, Result<Option<Vec<u8>>, TokenStoreError>> {
        Box::pin(async { Ok(self.0.0.lock().get(key).and_then(|entry| entry.credentials.clone())) })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<TokenKey>, TokenStoreError>> {
        Box::pin(async {
            let entries = self.0.0.lock();
            let stored_entries = entries.iter().filter(|(_, entry)| entry.credentials.is_some());
            Ok(stored_entries.map(|(key, _)| key.clone()).collect())
        })
    }

    fn lease<'a>(
        &'a self,
        key: &'a TokenKey,
        _: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn TokenLease>, TokenStoreError>> {
        Box::pin(async {
            let lease = Arc::clone(&self.0.0.lock().entry(key.clone()).or_default().lease);
            let permit = lease.acquire_owned().await.map_err(|_| TokenStoreError::new("the store is closed"))?;
            Ok(Box::new(MemoryLease { entries: Arc::clone(&self.0), key: key.clone(), permit }) as Box<dyn TokenLease>)
        })
    }
}

/// The lease of [`MemoryTokens`]. It needs no time limit, because its holder lives in the same process.
struct MemoryLease {
    entries: Arc<Entries>,
    key: TokenKey,
    permit: OwnedSemaphorePermit,
}

impl TokenLease for MemoryLease {
    fn save(&self, credentials: Vec<u8>) -> BoxFuture<'_, Result<(), TokenStoreError>> {
        Box::pin(async move {
            self.entries.0.lock().entry(self.key.clone()).or_default().credentials = Some(credentials);
            Ok(())
        })
    }

    fn delete(&self) -> BoxFuture<'_, Result<(), TokenStoreError>> {
        Box::pin(async {
            // The entry itself stays, because other tasks may wait for its lease.
            self.entries.0.lock().entry(self.key.clone()).or_default().credentials = None;
            Ok(())
        })
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self.permit);
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests;
