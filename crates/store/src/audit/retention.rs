//! Forgets (deletes) the oldest rows of the audit log. The chain then begins later: a new row records where, and the
//! hash from which the first row that is left continues.

use super::{
    Entry,
    chain::{self, Head, hex},
    export,
};
use crate::{
    Store, StoreError,
    database::{Transaction, query, query_scalar},
};

/// A day, in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// The maximum number of rows that one write forgets; the next write forgets more.
const MAX_FORGOTTEN: i64 = 20_000;

/// Which rows of the audit log are kept. A row must meet both limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRetention {
    /// Only rows of the last `days` days; `None` for rows of any age.
    pub days: Option<u32>,
    /// Only the newest rows, this many; `None` for all.
    pub rows: Option<u32>,
}

impl Default for AuditRetention {
    fn default() -> Self {
        Self { days: Some(90), rows: Some(100_000) }
    }
}

impl Store {
    /// Forgets the rows that `retention` no longer covers, at most once a day. Adds a row that records this, with the
    /// hash from which the chain continues.
    pub(super) async fn forget_old_audit(&self, retention: AuditRetention, now: i64) -> Result<(), StoreError> {
        let operation = "forgetting old rows of the audit log";
        let mut transaction = self.begin_erasing(operation).await?;
        forget_rows(&mut transaction, retention, now).await?;
        transaction.commit().await
    }

    /// Returns whether it is time to look for old rows: the last time was more than a day ago.
    pub(super) async fn is_audit_retention_due(&self, now: i64) -> Result<bool, StoreError> {
        let looked_at: Option<i64> = query_scalar("SELECT forgot_at FROM audit_head")
            .fetch_optional(&mut self.begin_read("reading the audit log").await?)
            .await?;
        // A time in the future comes from a clock that was wrong then.
        Ok(looked_at.is_some_and(|looked_at| !(now - DAY..=now).contains(&looked_at)))
    }
}

async fn forget_rows(connection: &mut Transaction, retention: AuditRetention, now: i64) -> Result<(), StoreError> {
    let Some(Head { seq, kept_from, forgot_at, .. }) = chain::read_head(connection).await? else {
        return Ok(());
    };
    if (now - DAY..=now).contains(&forgot_at) {
        return Ok(());
    }
    let mut new_first = kept_from;
    if let Some(days) = retention.days {
        let oldest = now.saturating_sub(DAY.saturating_mul(i64::from(days)));
        // The first row that is young enough ends the search. Later rows may have older times, if a clock was set back
        // meanwhile, but only rows at the front of the chain can be forgotten.
        let first: Option<i64> = query_scalar("SELECT seq FROM audit WHERE at >= $1 ORDER BY seq LIMIT 1")
            .bind(oldest)
            .fetch_optional(connection)
            .await?;
        new_first = new_first.max(first.unwrap_or(seq + 1));
    }
    if let Some(rows) = retention.rows {
        new_first = new_first.max(seq.saturating_sub(i64::from(rows)) + 1);
    }
    if let Some(last_exported) = export::last_row_exported_everywhere(connection).await? {
        new_first = new_first.min(last_exported + 1).max(kept_from);
    }
    let (target_first, new_first) = (new_first, new_first.min(kept_from + MAX_FORGOTTEN));
    // If rows are left to forget, the next write looks again.
    let looked_at = if target_first == new_first { now } else { 0 };
    query("UPDATE audit_head SET kept_from = $1, forgot_at = $2")
        .bind(new_first)
        .bind(looked_at)
        .execute(connection)
        .await?;
    if new_first == kept_from {
        return Ok(());
    }
    let base: Option<Vec<u8>> =
        query_scalar("SELECT hash FROM audit WHERE seq = $1").bind(new_first - 1).fetch_optional(connection).await?;
    query("DELETE FROM audit WHERE seq < $1").bind(new_first).execute(connection).await?;
    let entry = Entry {
        through: u64::try_from(new_first - 1).ok(),
        base: base.map(|base| hex(&base)),
        ..Entry::of_kind("forgot")
    };
    chain::append(connection, &[(now, entry)]).await
}
