//! Forgets (deletes) the oldest rows of the audit log. The chain then begins at a later row. A new row records the last
//! forgotten row and its hash, from which the chain continues.

use super::{
    Entry,
    chain::{self, Head, hex},
    export,
};
use crate::{
    Store, StoreError,
    database::{Transaction, query, query_scalar},
};

/// The milliseconds of a day.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// The maximum number of rows that one write forgets. The next write then forgets more.
const MAX_FORGOTTEN_ROWS: i64 = 20_000;

/// The rows of the audit log to keep: those that are within both limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRetention {
    /// Only rows of the last `days` days; `None` for rows of any age.
    pub days: Option<u32>,
    /// Only this number of rows, the newest; `None` for any number.
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
        // A time in the future comes from a clock that was wrong.
        Ok(looked_at.is_some_and(|looked_at| !(now - DAY_MILLIS..=now).contains(&looked_at)))
    }
}

/// Deletes old rows in a transaction, unless the store has looked for them within a day.
async fn forget_rows(connection: &mut Transaction, retention: AuditRetention, now: i64) -> Result<(), StoreError> {
    let Some(Head { seq: newest_seq, kept_from: first_seq, forgot_at: last_looked_at, .. }) =
        chain::read_head(connection).await?
    else {
        return Ok(());
    };
    if (now - DAY_MILLIS..=now).contains(&last_looked_at) {
        return Ok(());
    }
    let mut new_first_seq = first_seq;
    if let Some(days) = retention.days {
        let oldest_time = now.saturating_sub(DAY_MILLIS.saturating_mul(i64::from(days)));
        // The search ends at the first row that is young enough. If a clock was set back, later rows may have older
        // times, but only rows at the front of the chain can be forgotten.
        let first_young_seq: Option<i64> = query_scalar("SELECT seq FROM audit WHERE at >= $1 ORDER BY seq LIMIT 1")
            .bind(oldest_time)
            .fetch_optional(connection)
            .await?;
        new_first_seq = new_first_seq.max(first_young_seq.unwrap_or(newest_seq + 1));
    }
    if let Some(rows) = retention.rows {
        new_first_seq = new_first_seq.max(newest_seq.saturating_sub(i64::from(rows)) + 1);
    }
    if let Some(last_exported) = export::last_row_exported_everywhere(connection).await? {
        new_first_seq = new_first_seq.min(last_exported + 1).max(first_seq);
    }
    let (target_first_seq, new_first_seq) = (new_first_seq, new_first_seq.min(first_seq + MAX_FORGOTTEN_ROWS));
    // If rows are left to forget, the next write looks again.
    let looked_at = if target_first_seq == new_first_seq { now } else { 0 };
    query("UPDATE audit_head SET kept_from = $1, forgot_at = $2")
        .bind(new_first_seq)
        .bind(looked_at)
        .execute(connection)
        .await?;
    if new_first_seq == first_seq {
        return Ok(());
    }
    let base_hash: Option<Vec<u8>> = query_scalar("SELECT hash FROM audit WHERE seq = $1")
        .bind(new_first_seq - 1)
        .fetch_optional(connection)
        .await?;
    query("DELETE FROM audit WHERE seq < $1").bind(new_first_seq).execute(connection).await?;
    let entry = Entry {
        through: u64::try_from(new_first_seq - 1).ok(),
        base: base_hash.map(|base_hash| hex(&base_hash)),
        ..Entry::of_kind("forgot")
    };
    chain::append(connection, &[(now, entry)]).await
}
