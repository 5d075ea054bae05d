//! Keeps a conversation to one turn at a time within this process.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{Session, Store, StoreError};

/// The conversations that have a turn under way in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<Uuid>>>);

/// The right to continue a conversation; it ends when it is dropped.
#[derive(Debug)]
pub struct Claim {
    all: Claims,
    id: Uuid,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}

impl Store {
    /// Keeps all other users of this store, or of a clone of it, from continuing `session`. Take it before the session
    /// is read: a turn that is under way looks like one that was interrupted. Other processes notice each other only
    /// when they add to a session ([`StoreError::SessionMoved`]).
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when another turn holds it already.
    pub fn claim(&self, session: &Session) -> Result<Claim, StoreError> {
        self.claim_id(session.id).ok_or_else(|| StoreError::SessionBusy { prefix: session.prefix.clone() })
    }

    pub(crate) fn claim_id(&self, id: Uuid) -> Option<Claim> {
        self.claims.0.lock().insert(id).then(|| Claim { all: self.claims.clone(), id })
    }
}
