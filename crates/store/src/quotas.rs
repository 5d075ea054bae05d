//! Stores how much of each quota was used, so that a restart does not reset the amounts.

use chrono::{DateTime, TimeDelta, Utc};

use crate::{Store, StoreError, database::query};

/// How long a row is kept. The longest period of a quota is a month, so older rows do not matter.
const RETENTION: TimeDelta = TimeDelta::days(32);

/// How much of a quota was used at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaUse {
    /// Identifies the callers that share the quota. The program that uses this crate chooses the text.
    pub holder: String,
    /// The name of the holder that users see.
    pub name: Option<String>,
    /// The name of the quota.
    pub quota: String,
    /// The limit of the quota, in its unit.
    pub limit: u64,
    /// The used amount, in the same unit.
    pub used: f64,
    /// The time at which `used` was right.
    pub at: DateTime<Utc>,
}

/// The columns `holder`, `name`, `quota`, `most`, `used` and `used_at`.
type Row = (String, Option<String>, String, i64, f64, i64);

impl Store {
    /// Stores `uses` in one transaction. Each replaces the earlier amount of its holder and quota. Also deletes rows
    /// that are too old to matter.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn put_quota_uses(&self, uses: &[QuotaUse]) -> Result<(), StoreError> {
        let operation = "writing the use of quotas";
        let mut transaction = self.begin(operation).await?;
        for quota_use in uses {
            query(
                "INSERT INTO quota_uses (holder, name, quota, most, used, used_at) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (holder, quota) DO UPDATE SET name = excluded.name, most = excluded.most, \
                 used = excluded.used, used_at = excluded.used_at",
            )
            .bind(&quota_use.holder)
            .bind(&quota_use.name)
            .bind(&quota_use.quota)
            .bind(i64::try_from(quota_use.limit).unwrap_or(i64::MAX))
            .bind(quota_use.used)
            .bind(quota_use.at.timestamp_millis())
            .execute(&mut transaction)
            .await?;
        }
        query("DELETE FROM quota_uses WHERE used_at < $1")
            .bind((Utc::now() - RETENTION).timestamp_millis())
            .execute(&mut transaction)
            .await?;
        transaction.commit().await
    }

    /// Returns all uses, by holder and quota.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn quota_uses(&self) -> Result<Vec<QuotaUse>, StoreError> {
        let rows: Vec<Row> =
            query("SELECT holder, name, quota, most, used, used_at FROM quota_uses ORDER BY holder, quota")
                .fetch_all(&mut self.begin_read("reading the use of quotas").await?)
                .await?;
        let to_quota_use = |(holder, name, quota, limit, used, at): Row| {
            let (limit, at) = (u64::try_from(limit).unwrap_or_default(), DateTime::from_timestamp_millis(at)?);
            Some(QuotaUse { holder, name, quota, limit, used, at })
        };
        Ok(rows.into_iter().filter_map(to_quota_use).collect())
    }

    /// Deletes the stored amounts of a holder.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_quota_uses(&self, holder: &str) -> Result<(), StoreError> {
        let operation = "deleting the use of quotas";
        let mut transaction = self.begin(operation).await?;
        query("DELETE FROM quota_uses WHERE holder = $1").bind(holder).execute(&mut transaction).await?;
        transaction.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Stage, on_both};

    fn used(holder: &str, quota: &str, used: f64, at: DateTime<Utc>) -> QuotaUse {
        let at = DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap();
        QuotaUse { holder: holder.to_owned(), name: None, quota: quota.to_owned(), limit: 10, used, at }
    }

    async fn use_is_read_as_written_last_and_old_rows_are_deleted(stage: &Stage) {
        let store = stage.store().await;
        let now = Utc::now();
        let (ann, bob) = (used("member a", "calls_per_day", 1.5, now), used("member b", "calls_per_day", 2.0, now));
        let old = used("member c", "calls_per_day", 2.0, now - TimeDelta::days(33));
        store.put_quota_uses(&[bob.clone(), old, used("member a", "calls_per_day", 1.0, now)]).await.unwrap();
        let ann = QuotaUse { name: Some("Ann".to_owned()), ..ann };
        store.put_quota_uses(std::slice::from_ref(&ann)).await.unwrap();
        assert_eq!(store.quota_uses().await.unwrap(), [ann, bob.clone()]);
        store.forget_quota_uses("member a").await.unwrap();
        assert_eq!(store.quota_uses().await.unwrap(), [bob]);
        store.close().await;
    }

    on_both!(use_is_read_as_written_last_and_old_rows_are_deleted);
}
