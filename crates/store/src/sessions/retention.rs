//! Deletes the conversations (sessions) that are too old or too many, as the settings say.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    database::{QueryBuilder, query, query_scalar},
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
    /// `in_use`, a session with a [claim](Store::claim), or a session that has grown within a day, because another
    /// process may be about to continue it.
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
            query_scalar(select_done_at).bind(CHORE).fetch_optional(&mut self.begin_read(operation).await?).await?;
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
        // No session has the nil UUID, which keeps the list from being empty.
        let used = self.claims.ids().into_iter().chain([in_use.unwrap_or_default()]);
        let mut delete = QueryBuilder::new("DELETE FROM sessions WHERE updated_at < ");
        delete
            .push_bind((now - day).timestamp_millis())
            .push(" AND id NOT IN (")
            .push_list(used.map(|id| id.to_string()))
            .push(") AND (FALSE");
        if let Some(days) = retention.keep_days {
            delete.push(" OR updated_at < ").push_bind((now - day * clamped(days)).timestamp_millis());
        }
        if let Some(number) = retention.keep_sessions {
            // SQLite allows an offset only after a limit, here the highest number.
            delete
                .push(
                    " OR id IN (SELECT id FROM sessions ORDER BY updated_at DESC, id DESC \
                     LIMIT 9223372036854775807 OFFSET ",
                )
                .push_bind(i64::from(number))
                .push(")");
        }
        delete.push(")");
        let deleted = delete.build().execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(deleted)
    }
}

/// Limits days to 1,000 years: more would overflow the calendar.
fn clamped(days: u32) -> i32 {
    i32::try_from(days.min(365_000)).unwrap_or(365_000)
}
