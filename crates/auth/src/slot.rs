//! The state of one sign-in in this process.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{clock::now, credentials::Credentials, dpop::Nonce, store::TokenKey};

/// The sign-in of one account with one server.
pub(crate) struct Slot {
    pub(crate) key: TokenKey,
    known: ArcSwap<Known>,
    /// The nonce that the server wants in proofs.
    nonce: ArcSwapOption<Nonce>,
    /// The error code of the last renewal, if it failed. Each request tries again, but only a new failure is reported.
    last_failure: ArcSwapOption<&'static str>,
    /// The task that holds the permit reads the store or renews; the others wait for its result.
    renewal: Arc<Semaphore>,
}

/// A slot's permit, held by one task; `None` where a task needs no permit. Dropping the last clone releases the permit.
pub(crate) type SlotPermit = Option<Arc<OwnedSemaphorePermit>>;

#[derive(Default)]
enum Known {
    /// The store has not been read yet.
    #[default]
    Unknown,
    /// There are no credentials with tokens.
    Absent,
    Present(Arc<Credentials>),
}

impl Slot {
    pub(crate) fn new(key: TokenKey) -> Self {
        let (known, nonce, last_failure) = Default::default();
        Self { key, known, nonce, last_failure, renewal: Arc::new(Semaphore::new(1)) }
    }

    /// Records which credentials the store has, so that requests need not read it. Credentials without tokens, such as
    /// a registered client alone, count as none.
    pub(crate) fn set_known(&self, credentials: Option<Arc<Credentials>>) {
        let usable = credentials.filter(|credentials| credentials.tokens.is_some());
        self.known.store(Arc::new(usable.map_or(Known::Absent, Known::Present)));
    }

    /// Returns the known credentials, even expired ones.
    pub(crate) fn known(&self) -> Option<Arc<Credentials>> {
        match &**self.known.load() {
            Known::Present(credentials) => Some(Arc::clone(credentials)),
            Known::Unknown | Known::Absent => None,
        }
    }

    /// Returns the usable credentials: `Some(Some(_))` if they need no renewal, `Some(None)` if there are none, and
    /// `None` if the store has to be read or the tokens have to be renewed first.
    pub(crate) fn usable(&self) -> Option<Option<Arc<Credentials>>> {
        match &**self.known.load() {
            Known::Unknown => None,
            Known::Absent => Some(None),
            Known::Present(credentials) => {
                let is_stale = credentials.tokens.as_ref().is_none_or(|tokens| tokens.is_stale(now()));
                (!is_stale).then(|| Some(Arc::clone(credentials)))
            }
        }
    }

    /// Waits until no other task reads the store or renews, and returns the permit for both.
    pub(crate) async fn permit(&self) -> SlotPermit {
        Arc::clone(&self.renewal).acquire_owned().await.ok().map(Arc::new)
    }

    pub(crate) fn nonce(&self) -> Option<Arc<Nonce>> {
        self.nonce.load_full()
    }

    pub(crate) fn set_nonce(&self, nonce: Option<Nonce>) {
        self.nonce.store(nonce.map(Arc::new));
    }

    /// Records the outcome of a renewal. Returns whether the outcome differs from that of the previous renewal.
    pub(crate) fn record_renewal(&self, last_failure: Option<&'static str>) -> bool {
        self.last_failure.swap(last_failure.map(Arc::new)).as_deref() != last_failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
