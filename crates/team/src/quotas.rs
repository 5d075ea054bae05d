//! Counts what the members of a tenant use, and refuses more than the quotas of the tenant allow. There are quotas for
//! all members together, for each member, and for the clients of each profile (a named selection of tools).
//!
//! A [`Meter`] measures how much of one quota is used. A call, or other work, counts to the quotas of the tenant, of
//! the member and of the profile. It may begin if there is room in each of them.

mod limits;
mod meter;
mod stored;
mod usage;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::Notify;
use toolrack_host::{
    Admitted, Caller, OverQuota, Principal, Quantity, QuotaSet, Quotas, ToolProfile, UsageMeter, Work,
};

pub use self::{
    limits::Limits,
    meter::Meter,
    stored::holder_of_member,
    usage::{Holder, Usage},
};
use self::{meter::Clock, stored::StoredUses};

/// When this many members have meters in memory, the meters of members who use nothing any more are dropped.
const MAX_MEMBERS: usize = 10_000;

/// Counts the usage of the members of a tenant. All hosts of the tenant share one instance. Clones share the same
/// counts.
#[derive(Clone)]
pub struct TenantQuotas(Arc<Inner>);

struct Inner {
    tenant: String,
    limits: Limits,
    clock: Clock,
    counts: Mutex<Counts>,
    /// Notified when so much was used that the amounts must soon be written into the store.
    write_due: Notify,
}

impl fmt::Debug for TenantQuotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantQuotas")
            .field("tenant", &self.0.tenant)
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

/// A membership: the issuer and the subject of the member, and how many memberships ended before.
type Membership = (String, String, u32);

/// The meters of all holders. A holder is the group that shares a quota: all members together, one member, or the
/// clients of a profile.
struct Counts {
    /// The meters of the tenant, for all members together.
    tenant: Meters,
    by_member: HashMap<Membership, MemberMeters>,
    by_profile: HashMap<Arc<str>, Meters>,
    /// The stored amounts of holders that have no meters yet.
    stored: StoredUses,
}

/// The meters of one member.
struct MemberMeters {
    principal: Principal,
    meters: Meters,
}

/// The meters of one holder, one for each quota.
#[derive(Clone, Debug, Default)]
struct Meters {
    meters: Vec<Meter>,
    /// How much was used since the amounts were last written, as the sum of the used shares of the quotas: 0.5 is half
    /// of one quota.
    unwritten: f64,
}

impl Meters {
    fn new(quotas: &QuotaSet, now: DateTime<Utc>) -> Self {
        let meters = quotas.iter().map(|quota| Meter::new(quota, 0.0, now)).collect();
        Self { meters, unwritten: 0.0 }
    }

    /// Returns meters for `quotas`. A quota that already has a meter here keeps its amount.
    fn with_quotas(&self, quotas: &QuotaSet, now: DateTime<Utc>) -> Self {
        let mut new_meters = Self { unwritten: self.unwritten, ..Self::new(quotas, now) };
        for meter in &mut new_meters.meters {
            if let Some(old_meter) = self.meters.iter().find(|old| old.quota().name() == meter.quota().name()) {
                let (used, measured_at) = old_meter.reading();
                *meter = Meter::new(meter.quota(), used, measured_at);
            }
        }
        new_meters
    }

    /// Brings all meters up to date.
    fn advance(&mut self, now: DateTime<Utc>) {
        self.meters.iter_mut().for_each(|meter| meter.advance(now));
    }

    /// Returns the meter whose quota makes this work wait the longest, and the time to wait. `None` if the work may
    /// begin.
    fn refusal(&self, work: Work) -> Option<(Meter, Duration)> {
        let meters_of_work = self.meters.iter().filter(|meter| work.uses(meter.quota().quantity()));
        meters_of_work.filter_map(|meter| Some((*meter, meter.wait()?))).max_by_key(|(_, wait)| *wait)
    }

    /// Counts work when it begins. Only calls are counted then; other amounts are known later.
    fn begin(&mut self, work: Work) {
        if work == Work::Call {
            self.add(Quantity::Calls, 1);
        }
    }

    /// Frees the place that a call has taken in quotas of concurrent calls.
    fn end(&mut self, work: Work) {
        if work == Work::Call {
            self.meters.iter_mut().filter(|meter| meter.is_at_once()).for_each(Meter::free_place);
        }
    }

    /// Counts `amount` in all meters of `quantity`.
    fn add(&mut self, quantity: Quantity, amount: u64) {
        for meter in self.meters.iter_mut().filter(|meter| amount > 0 && meter.measures(quantity)) {
            meter.add(amount);
            self.unwritten += if meter.is_lasting() { meter.fraction(amount) } else { 0.0 };
        }
    }

    fn is_unused(&self) -> bool {
        self.meters.iter().all(Meter::is_unused)
    }
}

impl TenantQuotas {
    /// Creates the quotas of `tenant`, of which nothing is used yet.
    #[must_use]
    pub fn new(tenant: &str, limits: Limits) -> Self {
        Self::at(tenant, limits, Utc::now())
    }

    /// Creates the quotas of a machine with a single user, where only profiles have quotas.
    #[must_use]
    pub fn of_machine() -> Self {
        Self::new(Principal::LOCAL.tenant(), Limits::default())
    }

    /// Returns whether a quota of the tenant, or of each member, limits this quantity.
    #[must_use]
    pub fn bounds(&self, quantity: Quantity) -> bool {
        self.0.limits.bounds(quantity)
    }

    fn at(tenant: &str, limits: Limits, now: DateTime<Utc>) -> Self {
        let (by_member, by_profile, stored) = (HashMap::new(), HashMap::new(), StoredUses::new());
        let counts = Counts { tenant: Meters::new(&limits.all, now), by_member, by_profile, stored };
        let clock = Clock::at(now);
        Self(Arc::new(Inner {
            tenant: tenant.to_owned(),
            limits,
            clock,
            counts: Mutex::new(counts),
            write_due: Notify::new(),
        }))
    }

    /// Replaces the quotas of the profiles. Keeps the amounts that were used.
    pub fn set_profiles(&self, profiles: &BTreeMap<Arc<str>, Arc<ToolProfile>>) {
        let now = self.0.clock.now();
        let mut counts = self.0.counts.lock();
        let mut old_meters = std::mem::take(&mut counts.by_profile);
        for (name, profile) in profiles.iter().filter(|(_, profile)| !profile.quotas().is_empty()) {
            let meters = match old_meters.remove(name) {
                Some(meters) => meters.with_quotas(profile.quotas(), now),
                None => {
                    let stored_uses = counts.stored.remove(&stored::stored_profile_holder(name));
                    Meters::new(profile.quotas(), now).with_stored(stored_uses.as_deref(), now)
                }
            };
            counts.by_profile.insert(Arc::clone(name), meters);
        }
        for (name, meters) in &old_meters {
            stored::keep_profile_uses(&mut counts.stored, name, meters);
        }
    }
}

impl Inner {
    /// Returns the refusal for the quota of `meter`. `holder` has used it up, and has to wait for `wait`.
    fn over_quota(&self, holder: &Holder, meter: Meter, wait: Duration) -> OverQuota {
        let tenant = &self.tenant;
        let (holder_name, file) = match holder {
            Holder::Member { .. } => (format!("a member of `{tenant}`"), "the team file"),
            Holder::Tenant => (format!("all members together of `{tenant}`"), "the team file"),
            Holder::Profile { name } => (format!("all clients together of the profile `{name}`"), "toolrack.toml"),
        };
        let quota = meter.quota();
        OverQuota::new(&holder_name, holder.setting(quota), file, (quota, meter.used()), wait)
    }

    /// Begins work of `caller` if there is room in all quotas, and counts it. `None` if no quota concerns the work.
    fn begin(&self, caller: &Caller, work: Work) -> Result<Option<CountedWork>, OverQuota> {
        let (member_quotas, now) = (&self.limits.each_member, self.clock.now());
        let mut counts = self.counts.lock();
        counts.make_room(now);
        let Counts { tenant: tenant_meters, by_member, by_profile, stored } = &mut *counts;
        let principal = caller.principal();
        let member = (!member_quotas.is_empty()).then(|| membership(principal));
        let member_meters = member.as_ref().map(|member| {
            let new_meters = || {
                // Usually `stored` is empty, because all stored amounts have their meters. Then this saves computing
                // the hash that names the holder.
                let stored_uses =
                    if stored.is_empty() { None } else { stored.remove(&stored::stored_member_holder(principal)) };
                MemberMeters {
                    principal: principal.clone(),
                    meters: Meters::new(member_quotas, now).with_stored(stored_uses.as_deref(), now),
                }
            };
            &mut by_member.entry(member.clone()).or_insert_with(new_meters).meters
        });
        let profile_meters = caller.profile().and_then(|name| by_profile.get_mut(name));
        if tenant_meters.meters.is_empty() && member_meters.is_none() && profile_meters.is_none() {
            return Ok(None);
        }
        // The match on `index` below depends on this order.
        let mut meters_by_holder = [member_meters, profile_meters, Some(tenant_meters)];
        let refusals = meters_by_holder.iter_mut().enumerate().filter_map(|(index, meters)| {
            let meters = meters.as_deref_mut()?;
            meters.advance(now);
            let (meter, wait) = meters.refusal(work)?;
            Some((index, meter, wait))
        });
        // The refusal names the quota with the longest wait. If two quotas have the same wait, it names the quota of
        // the first holder.
        let refusal = refusals.reduce(|longest, other| {
            let ((.., longest_wait), (.., other_wait)) = (longest, other);
            if other_wait > longest_wait { other } else { longest }
        });
        if let Some((index, meter, wait)) = refusal {
            let holder = match (index, caller.profile()) {
                (0, _) => Holder::of_member(principal),
                (1, Some(name)) => Holder::Profile { name: name.into() },
                _ => Holder::Tenant,
            };
            return Err(self.over_quota(&holder, meter, wait));
        }
        for meters in meters_by_holder.into_iter().flatten() {
            meters.begin(work);
            self.notify_if_due(meters);
        }
        Ok(Some(CountedWork { member, profile: caller.profile().map(Arc::from), work }))
    }
}

/// Returns the membership of a principal, as the key of its meters.
fn membership(principal: &Principal) -> Membership {
    (principal.issuer().to_owned(), principal.subject().to_owned(), principal.membership())
}

impl Quotas for TenantQuotas {
    fn begin(&self, caller: &Caller, work: Work) -> Result<Admitted, OverQuota> {
        let counted = self.0.begin(caller, work)?;
        Ok(counted.map_or(Admitted::UNBOUNDED, |counted| {
            Admitted::counted_by(RunningWork { counted, quotas: Arc::clone(&self.0) })
        }))
    }
}

impl Counts {
    /// If too many members have meters, drops the meters of members who use nothing of their quotas any more.
    fn make_room(&mut self, now: DateTime<Utc>) {
        if self.by_member.len() < MAX_MEMBERS {
            return;
        }
        self.by_member.retain(|_, member| {
            member.meters.advance(now);
            !member.meters.is_unused()
        });
    }

    /// Calls `apply` for the meters of each holder to whose quotas the work counts.
    fn for_each_holder(&mut self, counted: &CountedWork, mut apply: impl FnMut(&mut Meters)) {
        apply(&mut self.tenant);
        if let Some(member) = counted.member.as_ref().and_then(|member| self.by_member.get_mut(member)) {
            apply(&mut member.meters);
        }
        if let Some(meters) = counted.profile.as_ref().and_then(|name| self.by_profile.get_mut(name)) {
            apply(meters);
        }
    }
}

/// Counted work: it counts to the quotas of the tenant, and to the quotas of this member and this profile.
struct CountedWork {
    member: Option<Membership>,
    profile: Option<Arc<str>>,
    work: Work,
}

/// Work under way. Reports what it uses, and frees its place in quotas of concurrent calls when it is dropped.
struct RunningWork {
    counted: CountedWork,
    quotas: Arc<Inner>,
}

impl UsageMeter for RunningWork {
    fn used(&self, quantity: Quantity, amount: u64) {
        let now = self.quotas.clock.now();
        self.quotas.counts.lock().for_each_holder(&self.counted, |meters| {
            // Use after midnight counts for the new day.
            meters.advance(now);
            meters.add(quantity, amount);
            self.quotas.notify_if_due(meters);
        });
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.quotas.counts.lock().for_each_holder(&self.counted, |meters| meters.end(self.counted.work));
    }
}

#[cfg(test)]
mod tests;
