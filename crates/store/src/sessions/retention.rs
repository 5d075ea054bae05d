//! Deletes the conversations (sessions) beyond the limits of age and number that the settings have.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    database::{QueryBuilder, query, query_scalar},
};

/// The name of this work in the table `chores`, which records when each work was last done.
const CHORE: &str = "forget old sessions";

/// The conversations to keep: those that are within both limits. The default has no limits, and keeps all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Keep only sessions that have grown within this number of days.
    pub keep_days: Option<u32>,
    /// Keep only this number of sessions, the newest.
    pub keep_sessions: Option<u32>,
}

impl Store {
    /// Deletes the sessions that `retention` does not keep, at most once a day, and returns how many it deleted. Never
    /// deletes the session `in_use`, or a session with a [claim](Store::claim). Never deletes a session that has grown
    /// within a day either, because another process may be about to continue it.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_old_sessions(&self, retention: Retention, in_use: Option<Uuid>) -> Result<u64, StoreError> {
        self.forget_sessions_at(Utc::now(), retention, in_use).await
    }

    /// Does the work of [`Self::forget_old_sessions`] at the time `now`, which tests choose.
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
        // Reads first, which needs no lock: all calls but one a day have nothing to do.
        let select_done_at = "SELECT done_at FROM chores WHERE name = $1";
        let done_at: Option<i64> =
            query_scalar(select_done_at).bind(CHORE).fetch_optional(&mut self.begin_read(operation).await?).await?;
        // A time in the future comes from a clock that was wrong, and does not count as recent.
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
        // Without `in_use`, the list has the nil UUID instead, which no session has, so that the list is not empty.
        let excluded_ids = self.claims.ids().into_iter().chain([in_use.unwrap_or_default()]);
        let mut delete = QueryBuilder::new("DELETE FROM sessions WHERE updated_at < ");
        delete
            .push_bind((now - day).timestamp_millis())
            .push(" AND id NOT IN (")
            .push_list(excluded_ids.map(|id| id.to_string()))
            .push(") AND (FALSE");
        if let Some(days) = retention.keep_days {
            delete.push(" OR updated_at < ").push_bind((now - day * clamp_days(days)).timestamp_millis());
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
        let deleted_rows = delete.build().execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(deleted_rows)
    }
}

/// Limits days to 1,000 years: more would overflow the calendar.
fn clamp_days(days: u32) -> i32 {
    i32::try_from(days.min(365_000)).unwrap_or(365_000)
}
