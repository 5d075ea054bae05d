//! The use of the quotas of a tenant, to be shown.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use toolrack_host::{Principal, Quota, quota::Window};
use toolrack_store::QuotaUse;

use super::{
    Counts, Inner, Meter, Meters, TenantQuotas,
    kept::{MEMBER, PROFILE, of_member},
    membership,
};

/// Who shares a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// All members of the tenant together.
    Tenant,
    /// A member.
    Member {
        /// The [key](Principal::key) of the member.
        key: String,
        /// The name of the member; `None` if only the key is known.
        name: Option<String>,
    },
    /// All clients of a profile together.
    Profile {
        /// The name of the profile.
        name: Arc<str>,
    },
}

impl Holder {
    /// The setting of `quota`: in the team file, or in `toolrack.toml` for a profile.
    pub(super) fn setting(&self, quota: Quota) -> String {
        let field = match self {
            Self::Tenant => "limits",
            Self::Member { .. } => "limits.each_member",
            Self::Profile { .. } => "profiles.limits",
        };
        format!("{field}.{}", quota.name())
    }

    pub(super) fn of(principal: &Principal) -> Self {
        Self::Member { key: principal.key(), name: Some(principal.name().to_owned()) }
    }
}

/// The use of a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// Who shares the quota.
    pub holder: Holder,
    /// The quota.
    pub quota: Quota,
    /// How much is used.
    pub used: u64,
    /// When more can be used, if it is used up.
    pub free_at: Option<DateTime<Utc>>,
    /// When all of it can be used again, if some of it is used and the time is known.
    pub renews_at: Option<DateTime<Utc>>,
}

impl Usage {
    /// Returns the setting of the quota, such as `limits.each_member.calls_per_minute`.
    #[must_use]
    pub fn setting(&self) -> String {
        self.holder.setting(self.quota)
    }

    /// The use according to a meter of `holder` at this time.
    #[must_use]
    pub fn of(holder: Holder, mut meter: Meter, now: DateTime<Utc>) -> Self {
        meter.advance(now);
        let free_at = meter.wait().and_then(|wait| Some(now + TimeDelta::from_std(wait).ok()?));
        Self { holder, quota: meter.quota(), used: meter.used(), free_at, renews_at: meter.renews_at() }
    }
}

impl TenantQuotas {
    /// Returns the use of all members together, of the clients of each profile, and of each member about whom something
    /// is known.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        let now = self.0.clock.now();
        let counts = self.0.counts.lock();
        let mut usage = self.0.shared(&counts, now);
        let mut members: Vec<_> = counts.by_member.values().collect();
        members.sort_by_key(|of| (of.principal.name().to_owned(), of.principal.key()));
        usage.extend(members.into_iter().flat_map(|of| shown(Holder::of(&of.principal), &of.meters, now)));
        let mut kept: Vec<_> = counts.kept.iter().filter(|(holder, _)| holder.starts_with(MEMBER)).collect();
        kept.sort_by_key(|(holder, uses)| (uses.first().and_then(|used| used.name.as_deref()), holder.as_str()));
        usage.extend(kept.into_iter().flat_map(|(holder, uses)| {
            let name = uses.first().and_then(|used| used.name.clone());
            let key = holder.trim_start_matches(MEMBER).to_owned();
            let meters = Meters::new(&self.0.limits.each_member, now).resumed(Some(uses), now);
            shown(Holder::Member { key, name }, &meters, now).collect::<Vec<_>>()
        }));
        usage
    }

    /// Returns the use of all members together, of the clients of each profile, and of this member.
    #[must_use]
    pub fn usage_of(&self, member: &Principal) -> Vec<Usage> {
        let now = self.0.clock.now();
        let counts = self.0.counts.lock();
        let meters = counts.by_member.get(&membership(member)).map(|of| of.meters.clone());
        let meters = meters.unwrap_or_else(|| {
            let kept = counts.kept.get(&of_member(member)).map(Vec::as_slice);
            Meters::new(&self.0.limits.each_member, now).resumed(kept, now)
        });
        let own = shown(Holder::of(member), &meters, now).collect::<Vec<_>>();
        [own, self.0.shared(&counts, now)].concat()
    }
}

impl TenantQuotas {
    /// Returns the stored use, including that of profiles whose quotas are not set
    /// here. For a process that only shows it.
    #[must_use]
    pub fn kept_usage(&self) -> Vec<Usage> {
        let mut usage = self.usage();
        usage.retain(|usage| usage.quota.window() != Window::AtOnce);
        let (now, counts) = (self.0.clock.now(), self.0.counts.lock());
        let of_profile = |used: &QuotaUse| {
            let holder = Holder::Profile { name: used.holder.strip_prefix(PROFILE)?.into() };
            let quota = Quota::of_amount(&used.quota, used.most)?;
            Some(Usage::of(holder, Meter::new(quota, used.used, used.at), now))
        };
        let mut kept: Vec<_> = counts.kept.values().flatten().collect();
        kept.sort_by_key(|used| (used.holder.as_str(), used.quota.as_str()));
        usage.extend(kept.into_iter().filter_map(of_profile));
        usage
    }
}

impl Inner {
    /// The use of the quotas that do not belong to a single member.
    fn shared(&self, counts: &Counts, now: DateTime<Utc>) -> Vec<Usage> {
        let mut profiles: Vec<_> = counts.by_profile.iter().collect();
        profiles.sort_by_key(|(name, _)| Arc::clone(name));
        let of_profiles = profiles
            .into_iter()
            .flat_map(|(name, meters)| shown(Holder::Profile { name: Arc::clone(name) }, meters, now));
        shown(Holder::Tenant, &counts.all, now).chain(of_profiles).collect()
    }
}

fn shown(holder: Holder, meters: &Meters, now: DateTime<Utc>) -> impl Iterator<Item = Usage> {
    meters.meters.iter().map(move |meter| Usage::of(holder.clone(), *meter, now))
}
