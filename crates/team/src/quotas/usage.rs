//! Shows how much of the quotas of a tenant is used, for each holder: all members together, each member, and the
//! clients of each profile.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use toolrack_host::{Principal, Quota, quota::Window};
use toolrack_store::QuotaUse;

use super::{
    Counts, Inner, MemberMeters, Meter, Meters, TenantQuotas, membership,
    stored::{MEMBER_PREFIX, PROFILE_PREFIX, stored_member_holder},
};

/// The group that shares a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// All members of the tenant together.
    Tenant,
    /// A member.
    Member {
        /// The [key](Principal::key) of the member.
        key: String,
        /// The name of the member. `None` if only the key is known.
        name: Option<String>,
    },
    /// All clients of a profile together.
    Profile {
        /// The name of the profile.
        name: Arc<str>,
    },
}

impl Holder {
    /// Returns the setting of `quota`: in the team file, or in `toolrack.toml` for a profile.
    pub(super) fn setting(&self, quota: Quota) -> String {
        let field = match self {
            Self::Tenant => "limits",
            Self::Member { .. } => "limits.each_member",
            Self::Profile { .. } => "profiles.limits",
        };
        format!("{field}.{}", quota.name())
    }

    /// Returns the holder that stands for the member `principal`.
    pub(super) fn of_member(principal: &Principal) -> Self {
        Self::Member { key: principal.key(), name: Some(principal.name().to_owned()) }
    }
}

/// How much of a quota is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The group that shares the quota.
    pub holder: Holder,
    /// The quota.
    pub quota: Quota,
    /// How much is used.
    pub used: u64,
    /// When more can be used. `None` if the quota is not used up.
    pub free_at: Option<DateTime<Utc>>,
    /// When the whole quota is free again. `None` if nothing is used, or if the time is not known.
    pub renews_at: Option<DateTime<Utc>>,
}

impl Usage {
    /// Returns the setting of the quota, such as `limits.each_member.calls_per_minute`.
    #[must_use]
    pub fn setting(&self) -> String {
        self.holder.setting(self.quota)
    }

    /// Returns what `meter` of `holder` shows at `now`.
    #[must_use]
    pub fn of(holder: Holder, mut meter: Meter, now: DateTime<Utc>) -> Self {
        meter.advance(now);
        let free_at = meter.wait().and_then(|wait| Some(now + TimeDelta::from_std(wait).ok()?));
        Self { holder, quota: meter.quota(), used: meter.used(), free_at, renews_at: meter.renews_at() }
    }
}

impl TenantQuotas {
    /// Returns how much all members together, the clients of each profile, and each member use. Leaves out members of
    /// whom no amount is known.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        let now = self.0.clock.now();
        let counts = self.0.counts.lock();
        let mut usage = self.0.shared_usage(&counts, now);
        let mut members: Vec<_> = counts.by_member.values().collect();
        members.sort_by_key(|member| (member.principal.name().to_owned(), member.principal.key()));
        let usage_of_member = |member: &MemberMeters| {
            usage_of_meters(Holder::of_member(&member.principal), &member.meters, now).collect::<Vec<_>>()
        };
        usage.extend(members.into_iter().flat_map(usage_of_member));
        // All stored amounts of a holder have its name, so take the name from the first one.
        let mut stored_members: Vec<_> = counts
            .stored
            .iter()
            .filter_map(|(holder, uses)| Some((holder.strip_prefix(MEMBER_PREFIX)?, uses)))
            .collect();
        stored_members.sort_by_key(|(key, uses)| (uses.first().and_then(|quota_use| quota_use.name.as_deref()), *key));
        usage.extend(stored_members.into_iter().flat_map(|(key, uses)| {
            let name = uses.first().and_then(|quota_use| quota_use.name.clone());
            let key = key.to_owned();
            let meters = Meters::new(&self.0.limits.each_member, now).with_stored(Some(uses), now);
            usage_of_meters(Holder::Member { key, name }, &meters, now).collect::<Vec<_>>()
        }));
        usage
    }

    /// Returns how much this member, all members together, and the clients of each profile use.
    #[must_use]
    pub fn usage_of(&self, member: &Principal) -> Vec<Usage> {
        let now = self.0.clock.now();
        let counts = self.0.counts.lock();
        let meters = counts.by_member.get(&membership(member)).map(|member| member.meters.clone());
        let meters = meters.unwrap_or_else(|| {
            let stored_uses = counts.stored.get(&stored_member_holder(member)).map(Vec::as_slice);
            Meters::new(&self.0.limits.each_member, now).with_stored(stored_uses, now)
        });
        let member_usage = usage_of_meters(Holder::of_member(member), &meters, now).collect::<Vec<_>>();
        [member_usage, self.0.shared_usage(&counts, now)].concat()
    }
}

impl TenantQuotas {
    /// Returns the stored usage, including the usage of profiles whose quotas are not set in this process. This is for
    /// a process that only shows the usage and counts nothing.
    #[must_use]
    pub fn stored_usage(&self) -> Vec<Usage> {
        let mut usage = self.usage();
        // The store does not know the work that is under way in another process.
        usage.retain(|usage| usage.quota.window() != Window::AtOnce);
        let (now, counts) = (self.0.clock.now(), self.0.counts.lock());
        let usage_of_profile = |quota_use: &QuotaUse| {
            let holder = Holder::Profile { name: quota_use.holder.strip_prefix(PROFILE_PREFIX)?.into() };
            let quota = Quota::from_name_and_limit(&quota_use.quota, quota_use.limit)?;
            // A time in the future comes from a clock that was wrong.
            Some(Usage::of(holder, Meter::new(quota, quota_use.used, quota_use.at.min(now)), now))
        };
        let mut stored_uses: Vec<_> = counts.stored.values().flatten().collect();
        stored_uses.sort_by_key(|quota_use| (quota_use.holder.as_str(), quota_use.quota.as_str()));
        usage.extend(stored_uses.into_iter().filter_map(usage_of_profile));
        usage
    }
}

impl Inner {
    /// Returns how much is used of the quotas that members share.
    fn shared_usage(&self, counts: &Counts, now: DateTime<Utc>) -> Vec<Usage> {
        let mut profiles: Vec<_> = counts.by_profile.iter().collect();
        profiles.sort_by_key(|(name, _)| Arc::clone(name));
        let profile_usage = profiles
            .into_iter()
            .flat_map(|(name, meters)| usage_of_meters(Holder::Profile { name: Arc::clone(name) }, meters, now));
        usage_of_meters(Holder::Tenant, &counts.tenant, now).chain(profile_usage).collect()
    }
}

/// Returns what each meter of `holder` shows.
fn usage_of_meters(holder: Holder, meters: &Meters, now: DateTime<Utc>) -> impl Iterator<Item = Usage> {
    meters.meters.iter().map(move |meter| Usage::of(holder.clone(), *meter, now))
}
