//! Deletes old conversations.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    database::{query, query_scalar},
};

/// Names this work in the table `chores`, which records when it was last done.
const CHORE: &str = "forget old sessions";

/// Which conversations are kept; by default all. A conversation must meet both limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Only sessions to which something was added within this many days.
    pub keep_days: Option<u32>,
    /// At most this many sessions, the newest.
    pub keep_sessions: Option<u32>,
}

impl Store {
    /// Deletes the sessions that `retention` does not keep, at most once a day, and returns how many. Never deletes
    /// `in_use` or a session that has grown within a day, because another process may be about to continue it.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_old_sessions(&self, retention: Retention, in_use: Option<Uuid>) -> Result<u64, StoreError> {
        self.forget_sessions_at(Utc::now(), retention, in_use).await
    }

    pub(super) async fn forget_sessions_at(
        &self,
        now: DateTime<Utc>,
        retention: Retention,
        in_use: Option<Uuid>,
    ) -> Result<u64, StoreError> {
        let operation = "deleting old sessions";
        let day = Duration::days(1);
        if retention == Retention::default() {
            return Ok(0);
        }
        // Check without a lock first: all calls but one a day have nothing to do.
        let select_done_at = "SELECT done_at FROM chores WHERE name = $1";
        let done_at: Option<i64> =
            query_scalar(select_done_at).bind(CHORE).fetch_optional(&mut self.read(operation).await?).await?;
        // A time in the future comes from a clock that was wrong then.
        let is_recent = |done_at: i64| ((now - day).timestamp_millis()..=now.timestamp_millis()).contains(&done_at);
        if done_at.is_some_and(is_recent) {
            return Ok(0);
        }
        let mut transaction = self.begin_erasing(operation).await?;
        query("INSERT INTO chores (name, done_at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at")
            .bind(CHORE)
            .bind(now.timestamp_millis())
            .execute(&mut transaction)
            .await?;
        let oldest = retention.keep_days.map(|days| (now - day * clamped(days)).timestamp_millis());
        // No session has the nil UUID, which stands here for none in use.
        let in_use = in_use.unwrap_or_default();
        // Without a limit of days, the comparison with null deletes nothing. An offset must not be null, and SQLite
        // allows it only after a limit, here the highest number.
        let deleted = query(
            "DELETE FROM sessions WHERE updated_at < $1 AND id <> $2 AND (updated_at < $3 OR id IN \
             (SELECT id FROM sessions WHERE $4 IS NOT NULL ORDER BY updated_at DESC, id DESC \
              LIMIT 9223372036854775807 OFFSET coalesce($4, 0)))",
        )
        .bind((now - day).timestamp_millis())
        .bind(in_use.to_string())
        .bind(oldest)
        .bind(retention.keep_sessions.map(i64::from))
        .execute(&mut transaction)
        .await?;
        transaction.commit().await?;
        Ok(deleted)
    }
}

/// Limits days to 1,000 years: more would overflow the calendar.
fn clamped(days: u32) -> i32 {
    i32::try_from(days.min(365_000)).unwrap_or(365_000)
}
