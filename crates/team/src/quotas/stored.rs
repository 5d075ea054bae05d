//! Stores how much of each quota was used, so that a restart does not reset the amounts. A row belongs to a holder, the
//! group that shares the quota: all members of the tenant together, one member, or the clients of one profile.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use toolrack_host::Principal;
use toolrack_store::{QuotaUse, Store, StoreError};

use super::{Counts, Inner, Meter, Meters, TenantQuotas};

/// The longest time between two writes. A killed process loses its counts since the last write.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// The amounts are written sooner if more than this fraction of a quota was used since the last write.
const WRITE_FRACTION: f64 = 0.005;

/// The shortest pause between two writes.
const WRITE_PAUSE: Duration = Duration::from_millis(500);

/// The name of the holder in the store that stands for all members of a tenant together.
pub(super) const TENANT_HOLDER: &str = "tenant";

/// The beginning of the name of a holder that stands for a member. The [key](Principal::key) of the member follows.
pub(super) const MEMBER_PREFIX: &str = "member ";

/// The beginning of the name of a holder that stands for a profile. The name of the profile follows.
pub(super) const PROFILE_PREFIX: &str = "profile ";

/// The stored amounts of holders that have no meters yet, by the name of the holder.
pub(super) type StoredUses = HashMap<String, Vec<QuotaUse>>;

/// Returns the name under which the store keeps the amounts of the member with this key.
#[must_use]
pub fn holder_of_member(key: &str) -> String {
    format!("{MEMBER_PREFIX}{key}")
}

pub(super) fn stored_member_holder(principal: &Principal) -> String {
    holder_of_member(&principal.key())
}

pub(super) fn stored_profile_holder(name: &str) -> String {
    format!("{PROFILE_PREFIX}{name}")
}

impl Meters {
    /// Returns these meters with the stored amounts. Ignores amounts of quotas that have no meter.
    pub(super) fn with_stored(mut self, stored: Option<&[QuotaUse]>, now: DateTime<Utc>) -> Self {
        for quota_use in stored.unwrap_or_default() {
            let is_of_quota = |meter: &&mut Meter| meter.is_lasting() && meter.quota().name() == quota_use.quota;
            if let Some(meter) = self.meters.iter_mut().find(is_of_quota) {
                // A time in the future comes from a clock that was wrong. With it, the quota would stay used up until
                // that time.
                *meter = Meter::new(meter.quota(), quota_use.used, quota_use.at.min(now));
            }
        }
        self
    }

    /// Returns the amounts that still count after a restart, to store them.
    pub(super) fn lasting_uses(&self, holder: &str, name: Option<&str>) -> impl Iterator<Item = QuotaUse> {
        self.meters.iter().filter(|meter| meter.is_lasting()).map(move |meter| {
            let ((used, at), quota) = (meter.reading(), meter.quota());
            let (holder, name) = (holder.to_owned(), name.map(str::to_owned));
            QuotaUse { holder, name, quota: quota.name().to_owned(), limit: quota.limit(), used, at }
        })
    }
}

impl Inner {
    /// Makes [`TenantQuotas::save_until`] write soon if much was used since the last write.
    pub(super) fn notify_if_due(&self, meters: &Meters) {
        if meters.unwritten > WRITE_FRACTION {
            self.write_due.notify_one();
        }
    }
}

impl Counts {
    /// Calls `apply` with each holder, its name for users, and its meters.
    fn for_each(&mut self, mut apply: impl FnMut(String, Option<&str>, &mut Meters)) {
        apply(TENANT_HOLDER.to_owned(), None, &mut self.tenant);
        for member in self.by_member.values_mut() {
            apply(stored_member_holder(&member.principal), Some(member.principal.name()), &mut member.meters);
        }
        for (name, meters) in &mut self.by_profile {
            apply(stored_profile_holder(name), Some(name), meters);
        }
    }
}

impl TenantQuotas {
    /// Continues from the amounts in `store`. The caller must do this before anything is counted.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn resume(&self, store: &Store) -> Result<(), StoreError> {
        let uses = store.quota_uses().await?;
        let now = self.0.clock.now();
        let mut counts = self.0.counts.lock();
        for quota_use in uses {
            counts.stored.entry(quota_use.holder.clone()).or_default().push(quota_use);
        }
        let tenant_uses = counts.stored.remove(TENANT_HOLDER);
        counts.tenant = std::mem::take(&mut counts.tenant).with_stored(tenant_uses.as_deref(), now);
        Ok(())
    }

    /// Writes the amounts that have changed since the last call into `store`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be written. The next call then writes all amounts.
    pub async fn save(&self, store: &Store) -> Result<(), StoreError> {
        let mut uses = Vec::new();
        self.0.counts.lock().for_each(|holder, name, meters| {
            if std::mem::take(&mut meters.unwritten) > 0.0 {
                uses.extend(meters.lasting_uses(&holder, name));
            }
        });
        if uses.is_empty() {
            return Ok(());
        }
        let result = store.put_quota_uses(&uses).await;
        if result.is_err() {
            // Above zero, so that the next call writes all amounts, but not so high that a write is due at once.
            self.0.counts.lock().for_each(|_, _, meters| meters.unwritten = WRITE_FRACTION);
        }
        result
    }

    /// Writes the amounts into `store` in batches until `shutdown` is cancelled, and then once more.
    pub async fn save_until(self, store: Store, shutdown: CancellationToken) {
        let mut ticks = interval(WRITE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = ticks.tick() => false,
                () = self.0.write_due.notified() => false,
                () = shutdown.cancelled() => true,
            };
            if let Err(error) = self.save(&store).await {
                tracing::warn!("the use of quotas was not written: {error}");
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = sleep(WRITE_PAUSE) => {}
                () = shutdown.cancelled() => {}
            }
        }
    }
}

/// Keeps the amounts of a profile that no longer has quotas, in case it gets some again.
pub(super) fn keep_profile_uses(stored: &mut StoredUses, name: &Arc<str>, meters: &Meters) {
    let holder = stored_profile_holder(name);
    let uses = meters.lasting_uses(&holder, Some(name)).collect();
    stored.insert(holder, uses);
}
