//! Writes a row of the audit log for each request that an endpoint of the team (a door) refused, within bounds.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use toolrack_store::{TeamStore, audit::DoorRefusal};

/// The maximum number of rows of one kind in a minute, so that a flood cannot fill the log. They may all come at once.
/// Further refusals are only counted, and the next row has their number.
const ROWS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// Writes refusals of a team's doors (its endpoints) into the audit log: of each kind at most 60 at once, and then one
/// each second. A flood of one kind does not hide another kind.
#[derive(Debug)]
pub struct Refusals {
    store: TeamStore,
    /// One limit for each pair of door and code. Both are constants of the program, so there are few pairs.
    rate_limit: DefaultKeyedRateLimiter<(String, String)>,
    /// The number of refusals since the last row that have no row.
    unrecorded: AtomicU64,
}

impl Refusals {
    /// Writes into `store`.
    #[must_use]
    pub fn new(store: TeamStore) -> Self {
        let rate_limit = RateLimiter::keyed(Quota::per_minute(ROWS_PER_MINUTE));
        Self { store, rate_limit, unrecorded: AtomicU64::new(0) }
    }

    /// Records a token that no member has and no issuer signed.
    pub(crate) async fn record_unknown_token(&self) {
        let why = "the token is not one of this team, has expired, or was revoked";
        self.record(DoorRefusal { door: "daemon", code: "unknown_token", why, ..DoorRefusal::default() }).await;
    }

    /// Records a refusal, with the number of earlier refusals that have no row. If the limit is reached, only counts
    /// the refusal. If the database fails, logs a warning; the request is refused nevertheless.
    pub async fn record(&self, refusal: DoorRefusal<'_>) {
        if self.rate_limit.check_key(&(refusal.door.to_owned(), refusal.code.to_owned())).is_err() {
            self.unrecorded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unrecorded = self.unrecorded.swap(0, Ordering::Relaxed);
        if let Err(error) = self.store.record_door_refusal(&DoorRefusal { unrecorded, ..refusal }).await {
            self.unrecorded.fetch_add(unrecorded.saturating_add(1), Ordering::Relaxed);
            tracing::warn!(%error, "a refusal at the door of the team is not in the audit log");
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_store::audit::AuditQuery;

    use super::*;

    #[tokio::test]
    async fn a_flood_of_bad_input_does_not_fill_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            toolrack_store::Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let refusals = Refusals::new(store.clone());
        for _ in 0..500 {
            refusals.record(DoorRefusal { door: "token", code: "invalid_grant", ..DoorRefusal::default() }).await;
        }
        let rows = store.audit(&AuditQuery { limit: 999, ..AuditQuery::default() }).await.unwrap().len();
        // On a slow machine there may be some more, one for each second.
        assert!((60..120).contains(&rows), "{rows}");
        let other = DoorRefusal { door: "token", code: "invalid_client", ..DoorRefusal::default() };
        refusals.record(other).await;
        let last = store.audit(&AuditQuery { limit: 1, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(last[0].entry.code.as_deref(), Some("invalid_client"), "a flood hides no refusal of another kind");
    }
}
