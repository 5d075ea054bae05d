//! Allows one turn of a conversation at a time within this process. A turn is one message of a user and all that a
//! model does until it has answered.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{Session, Store, StoreError};

/// The conversations that have a turn under way in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<Uuid>>>);

impl Claims {
    /// Returns the ids of the conversations that have a turn under way.
    pub(super) fn ids(&self) -> Vec<Uuid> {
        self.0.lock().iter().copied().collect()
    }
}

/// The right to continue a conversation. Dropping it gives the right back.
#[derive(Debug)]
pub struct Claim {
    claims: Claims,
    id: Uuid,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.id);
    }
}

impl Store {
    /// Excludes other turns on this store and its clones from `session`, until the claim is dropped. Claim a session
    /// before you read it, because a running turn looks like an interrupted turn. A claim does not exclude other
    /// processes: if two processes add to the session, the second one gets [`StoreError::SessionMoved`].
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when another turn holds the claim already.
    pub fn claim(&self, session: &Session) -> Result<Claim, StoreError> {
        self.claim_id(session.id).ok_or_else(|| StoreError::SessionBusy { prefix: session.prefix.clone() })
    }

    /// Claims the session `id`; `None` if another turn holds the claim.
    pub(crate) fn claim_id(&self, id: Uuid) -> Option<Claim> {
        // Not `then_some`: it would make a second claim even if the first one is held, and dropping it would end the
        // first.
        self.claims.0.lock().insert(id).then(|| Claim { claims: self.claims.clone(), id })
    }
}
