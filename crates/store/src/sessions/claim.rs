//! What only one part of this process does at a time with a conversation.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

use crate::{Session, Store, StoreError};

/// The conversations that somebody of this process goes on with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<Uuid>>>);

/// The right to go on with a conversation; it ends when it is dropped.
#[derive(Debug)]
pub struct Claim {
    all: Claims,
    id: Uuid,
}

impl Claims {
    fn all(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.all.all().remove(&self.id);
    }
}

impl Store {
    /// Keeps everybody else who has this store, or a clone of it, from going on with `session`. To be taken before it is
    /// read: a turn that is under way looks like one that was interrupted. Other processes hear of each other only when they
    /// add to a session ([`StoreError::SessionMoved`]).
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when somebody has it already.
    pub fn claim(&self, session: &Session) -> Result<Claim, StoreError> {
        self.claim_id(session.id).ok_or_else(|| StoreError::SessionBusy { prefix: session.prefix.clone() })
    }

    pub(crate) fn claim_id(&self, id: Uuid) -> Option<Claim> {
        self.claims.all().insert(id).then(|| Claim { all: self.claims.clone(), id })
    }
}
