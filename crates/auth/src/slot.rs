//! A slot: the state of one sign-in in this process. It knows the credentials that requests use, and the one task that
//! may read the store or renew the tokens.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{clock::now, credentials::Credentials, dpop::Nonce, store::TokenKey};

/// The sign-in of one account with one server.
pub(crate) struct Slot {
    pub(crate) key: TokenKey,
    cached: ArcSwap<CachedCredentials>,
    /// The nonce that the server wants in proofs.
    nonce: ArcSwapOption<Nonce>,
    /// The error code of the last renewal, if it failed. Each request tries again, but only a new failure is reported.
    last_failure: ArcSwapOption<&'static str>,
    /// Its only permit is the slot's permit. The task that holds it reads the store or renews; the others wait.
    permits: Arc<Semaphore>,
}

/// A slot's permit, held by one task; `None` where a task needs no permit. Dropping the last clone releases the permit.
pub(crate) type SlotPermit = Option<Arc<OwnedSemaphorePermit>>;

/// The credentials that the store had when this process last read or changed them.
#[derive(Default)]
enum CachedCredentials {
    /// The store has not been read yet.
    #[default]
    Unknown,
    /// There are no credentials with tokens.
    Absent,
    /// The store has these credentials, but the server refused their token, and it cannot be renewed. Requests are sent
    /// without it until the user has signed in again.
    Refused(Arc<Credentials>),
    /// Requests use these credentials.
    Present(Arc<Credentials>),
}

/// The error of [`Slot::usable`]: a task has to read the store or renew the tokens first.
#[derive(Debug)]
pub(crate) struct NotReady;

impl Slot {
    pub(crate) fn new(key: TokenKey) -> Self {
        let (cached, nonce, last_failure) = Default::default();
        Self { key, cached, nonce, last_failure, permits: Arc::new(Semaphore::new(1)) }
    }

    /// Records which credentials the store has, so that requests need not read it. Credentials without tokens, such as
    /// a registered client alone, count as none.
    pub(crate) fn set_cached(&self, credentials: Option<Arc<Credentials>>) {
        self.store_cached(credentials, CachedCredentials::Present);
    }

    /// Records that the server refused the credentials that the store has. Requests no longer use them.
    pub(crate) fn set_refused(&self, credentials: Option<Arc<Credentials>>) {
        self.store_cached(credentials, CachedCredentials::Refused);
    }

    /// Caches the credentials in this variant, or [`CachedCredentials::Absent`] if they have no tokens.
    fn store_cached(&self, credentials: Option<Arc<Credentials>>, variant: fn(Arc<Credentials>) -> CachedCredentials) {
        let with_tokens = credentials.filter(|credentials| credentials.tokens.is_some());
        self.cached.store(Arc::new(with_tokens.map_or(CachedCredentials::Absent, variant)));
    }

    /// Returns the cached credentials that requests use, even expired ones.
    pub(crate) fn cached(&self) -> Option<Arc<Credentials>> {
        match &**self.cached.load() {
            CachedCredentials::Present(credentials) => Some(Arc::clone(credentials)),
            CachedCredentials::Unknown | CachedCredentials::Absent | CachedCredentials::Refused(_) => None,
        }
    }

    /// Returns the cached credentials, even if the server refused them. If the store has another access token by now,
    /// the user has signed in or another process has renewed the tokens.
    pub(crate) fn last_stored(&self) -> Option<Arc<Credentials>> {
        match &**self.cached.load() {
            CachedCredentials::Present(credentials) | CachedCredentials::Refused(credentials) => {
                Some(Arc::clone(credentials))
            }
            CachedCredentials::Unknown | CachedCredentials::Absent => None,
        }
    }

    /// Returns the cached credentials if they need no renewal; `None` if the store has no tokens that requests can use.
    pub(crate) fn usable(&self) -> Result<Option<Arc<Credentials>>, NotReady> {
        match &**self.cached.load() {
            CachedCredentials::Unknown => Err(NotReady),
            CachedCredentials::Absent | CachedCredentials::Refused(_) => Ok(None),
            CachedCredentials::Present(credentials) => {
                let is_stale = credentials.tokens.as_ref().is_none_or(|tokens| tokens.is_stale(now()));
                if is_stale { Err(NotReady) } else { Ok(Some(Arc::clone(credentials))) }
            }
        }
    }

    /// Waits until no other task reads the store or renews, and returns the permit for both.
    pub(crate) async fn permit(&self) -> SlotPermit {
        // Fails only on a closed semaphore, and this one is never closed.
        Arc::clone(&self.permits).acquire_owned().await.ok().map(Arc::new)
    }

    pub(crate) fn nonce(&self) -> Option<Arc<Nonce>> {
        self.nonce.load_full()
    }

    pub(crate) fn set_nonce(&self, nonce: Option<Nonce>) {
        self.nonce.store(nonce.map(Arc::new));
    }

    /// Records the outcome of a renewal: its error code, or `None` if it succeeded. Returns whether the outcome differs
    /// from that of the previous renewal.
    pub(crate) fn record_renewal(&self, failure: Option<&'static str>) -> bool {
        self.last_failure.swap(failure.map(Arc::new)).as_deref() != failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
