//! Forgets the oldest rows of the audit log.

use sqlx::SqliteConnection;

use super::{
    Entry,
    chain::{self, Head, hex},
};
use crate::{Store, StoreError};

const DAY: i64 = 24 * 60 * 60 * 1_000;

/// The most rows that one write forgets; the next write forgets more.
const MAX_FORGOTTEN: i64 = 20_000;

/// How long rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAudit {
    /// For this many days; `None`: forever.
    pub days: Option<u32>,
    /// At most this many, the newest; `None`: all.
    pub rows: Option<u32>,
}

impl Default for KeepAudit {
    fn default() -> Self {
        Self { days: Some(90), rows: Some(100_000) }
    }
}

impl Store {
    /// Forgets the rows that `keep` no longer covers, and adds one that records this with the hash from which the chain
    /// continues. Looks for such rows at most once a day.
    pub(super) async fn forget_old_audit(&self, keep: KeepAudit, now: i64) -> Result<(), StoreError> {
        let doing = "forgetting old rows of the audit log";
        let mut transaction = self.begin_erasing(doing).await?;
        forget(&mut transaction, keep, now).await.map_err(self.error(doing))?;
        transaction.commit().await.map_err(self.error(doing))
    }

    /// Whether it is time to look for old rows.
    pub(super) async fn has_old_audit(&self, now: i64) -> Result<bool, StoreError> {
        let looked_at: Option<i64> = sqlx::query_scalar("SELECT forgot_at FROM audit_head")
            .fetch_optional(&self.pool)
            .await
            .map_err(self.error("reading the audit log"))?;
        // A time in the future comes from a clock that was wrong then.
        Ok(looked_at.is_some_and(|looked_at| !(now - DAY..=now).contains(&looked_at)))
    }
}

async fn forget(connection: &mut SqliteConnection, keep: KeepAudit, now: i64) -> sqlx::Result<()> {
    let Some(Head { seq, kept_from, forgot_at, .. }) = chain::head(connection).await? else {
        return Ok(());
    };
    if (now - DAY..=now).contains(&forgot_at) {
        return Ok(());
    }
    let mut from = kept_from;
    if let Some(days) = keep.days {
        let oldest = now.saturating_sub(DAY.saturating_mul(i64::from(days)));
        // The first row that is young enough ends the search, even if a clock that was set back gave later rows older
        // times: only rows at the front of the chain can be forgotten.
        let first: Option<i64> = sqlx::query_scalar("SELECT seq FROM audit WHERE at >= ? ORDER BY seq LIMIT 1")
            .bind(oldest)
            .fetch_optional(&mut *connection)
            .await?;
        from = from.max(first.unwrap_or(seq + 1));
    }
    if let Some(rows) = keep.rows {
        from = from.max(seq.saturating_sub(i64::from(rows)) + 1);
    }
    let (wanted, from) = (from, from.min(kept_from + MAX_FORGOTTEN));
    // If rows are left to forget, the next write looks again.
    let looked_at = if wanted == from { now } else { 0 };
    sqlx::query("UPDATE audit_head SET kept_from = ?, forgot_at = ?")
        .bind(from)
        .bind(looked_at)
        .execute(&mut *connection)
        .await?;
    if from == kept_from {
        return Ok(());
    }
    let base: Option<Vec<u8>> = sqlx::query_scalar("SELECT hash FROM audit WHERE seq = ?")
        .bind(from - 1)
        .fetch_optional(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM audit WHERE seq < ?").bind(from).execute(&mut *connection).await?;
    let said =
        Entry { through: u64::try_from(from - 1).ok(), base: base.map(|base| hex(&base)), ..Entry::of_kind("forgot") };
    chain::append(connection, &[(now, said)]).await
}
