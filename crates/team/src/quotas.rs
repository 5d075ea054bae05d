//! Quotas of a tenant: how many calls all of its members, and each of them, may make.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;
use toolrack_host::{Caller, OverQuota, Place, Quotas};

/// Members whose calls are counted at once. Beyond it, those whose quota is free again are forgotten.
const MAX_MEMBERS: usize = 10_000;

/// When a call that found no free place may try again.
const NO_PLACE: Duration = Duration::from_secs(1);

/// The limits of a tenant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls of all members in a minute, and at most so many in a burst.
    pub calls_per_minute: Option<NonZeroU32>,
    /// Calls of all members that run at once.
    pub calls_at_once: Option<NonZeroU32>,
    /// The limits of each member.
    #[serde(default)]
    pub each_member: MemberLimits,
}

/// The limits of each member of a tenant.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct MemberLimits {
    /// Calls in a minute, and at most so many in a burst.
    pub calls_per_minute: Option<NonZeroU32>,
    /// Calls that run at once.
    pub calls_at_once: Option<NonZeroU32>,
}

/// Counts the calls of a tenant's members. All hosts of the tenant share it.
pub struct TenantQuotas(Arc<Inner>);

struct Inner {
    tenant: String,
    limits: Limits,
    counts: Mutex<Counts>,
}

impl std::fmt::Debug for TenantQuotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantQuotas")
            .field("tenant", &self.0.tenant)
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

/// A member, by issuer and subject.
type Member = (String, String);

struct Counts {
    all: Meter,
    by_member: HashMap<Member, Meter>,
}

/// The calls of one member, or of all.
#[derive(Clone, Copy)]
struct Meter {
    /// Calls that may begin now. One more comes with each fraction of a minute.
    left: f64,
    /// When `left` was true.
    at: Instant,
    running: u32,
}

impl Meter {
    fn new(per_minute: Option<NonZeroU32>) -> Self {
        Self { left: per_minute.map_or(0.0, |rate| f64::from(rate.get())), at: Instant::now(), running: 0 }
    }

    /// Counts the time since the last look.
    fn look(&mut self, per_minute: Option<NonZeroU32>, now: Instant) {
        if let Some(rate) = per_minute {
            let rate = f64::from(rate.get());
            let passed = now.saturating_duration_since(self.at).as_secs_f64();
            self.left = (self.left + passed * rate / 60.0).min(rate);
        }
        self.at = now;
    }

    fn is_unused(&self, per_minute: Option<NonZeroU32>) -> bool {
        self.running == 0 && per_minute.is_none_or(|rate| self.left >= f64::from(rate.get()))
    }

    /// Why no call can begin now: how many are allowed, in words, the setting, and when to try again.
    fn refusal(&self, limits: MemberLimits) -> Option<(String, &'static str, Duration)> {
        if let Some(most) = limits.calls_at_once
            && self.running >= most.get()
        {
            return Some((format!("run {most} calls at once"), "calls_at_once", NO_PLACE));
        }
        let rate = limits.calls_per_minute.filter(|_| self.left < 1.0)?;
        let wait = Duration::from_secs_f64((1.0 - self.left) * 60.0 / f64::from(rate.get()));
        Some((format!("make {rate} calls in a minute"), "calls_per_minute", wait))
    }

    fn take(&mut self) {
        self.left -= 1.0;
        self.running += 1;
    }
}

impl TenantQuotas {
    /// The quotas of `tenant`.
    #[must_use]
    pub fn new(tenant: &str, limits: Limits) -> Self {
        let counts = Counts { all: Meter::new(limits.calls_per_minute), by_member: HashMap::new() };
        Self(Arc::new(Inner { tenant: tenant.to_owned(), limits, counts: Mutex::new(counts) }))
    }
}

impl Inner {
    fn of_all(&self) -> MemberLimits {
        let Limits { calls_per_minute, calls_at_once, .. } = self.limits;
        MemberLimits { calls_per_minute, calls_at_once }
    }

    fn over(&self, who: &str, field: &str, (may, setting, retry_after): (String, &str, Duration)) -> OverQuota {
        let quota = format!("{who} of `{}` may {may} (`{field}{setting}` of the team file)", self.tenant);
        OverQuota { quota, retry_after }
    }

    fn count(&self, member: &Member) -> Result<(), OverQuota> {
        let (each, of_all, now) = (self.limits.each_member, self.of_all(), Instant::now());
        let mut counts = self.counts.lock();
        counts.make_room(each, now);
        counts.all.look(of_all.calls_per_minute, now);
        let all = counts.all;
        let meter = counts.by_member.entry(member.clone()).or_insert_with(|| Meter::new(each.calls_per_minute));
        meter.look(each.calls_per_minute, now);
        if let Some(refusal) = meter.refusal(each) {
            return Err(self.over("a member", "limits.each_member.", refusal));
        }
        if let Some(refusal) = all.refusal(of_all) {
            return Err(self.over("all members together", "limits.", refusal));
        }
        meter.take();
        counts.all.take();
        Ok(())
    }
}

impl Quotas for TenantQuotas {
    fn count(&self, caller: &Caller) -> Result<Place, OverQuota> {
        let principal = caller.principal();
        let member = (principal.issuer().to_owned(), principal.subject().to_owned());
        self.0.count(&member)?;
        Ok(Place::holding(Running { member, quotas: Arc::clone(&self.0) }))
    }
}

impl Counts {
    /// Forgets members who are as if they had made no call, when there are many.
    fn make_room(&mut self, each: MemberLimits, now: Instant) {
        if self.by_member.len() < MAX_MEMBERS {
            return;
        }
        self.by_member.retain(|_, meter| {
            meter.look(each.calls_per_minute, now);
            !meter.is_unused(each.calls_per_minute)
        });
    }
}

/// A call that runs.
struct Running {
    member: Member,
    quotas: Arc<Inner>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut counts = self.quotas.counts.lock();
        counts.all.running = counts.all.running.saturating_sub(1);
        if let Some(meter) = counts.by_member.get_mut(&self.member) {
            meter.running = meter.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use toolrack_host::{Principal, Way, principal::Kind};

    use super::*;

    fn quotas(limits: &str) -> TenantQuotas {
        TenantQuotas::new("acme", toml_edit::de::from_str(limits).unwrap())
    }

    fn caller(subject: &str) -> Caller {
        let principal = Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        Caller::of(principal, Way::Daemon)
    }

    /// How many of `calls` that end at once are counted.
    fn counted(quotas: &TenantQuotas, subject: &str, calls: usize) -> usize {
        (0..calls).filter(|_| quotas.count(&caller(subject)).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn each_member_has_calls_of_their_own_in_a_minute() {
        let quotas = quotas("each_member = { calls_per_minute = 6 }");
        assert_eq!((counted(&quotas, "ann", 10), counted(&quotas, "bob", 10)), (6, 6));
        let over = quotas.count(&caller("ann")).unwrap_err();
        assert_eq!(over.retry_after, Duration::from_secs(10));
        let expected = "a member of `acme` may make 6 calls in a minute (`limits.each_member.calls_per_minute` of the \
                        team file), and that is used up: it is free again in 10 s";
        assert_eq!(over.to_string(), expected);
        advance(Duration::from_secs(10)).await;
        assert_eq!(counted(&quotas, "ann", 2), 1);
        advance(Duration::from_hours(1)).await;
        assert_eq!(counted(&quotas, "ann", 10), 6, "what was not used does not add up");
    }

    #[tokio::test(start_paused = true)]
    async fn all_members_together_have_a_bound_and_a_refused_call_takes_nothing() {
        let quotas = quotas("calls_per_minute = 5\neach_member = { calls_per_minute = 4 }");
        assert_eq!((counted(&quotas, "ann", 9), counted(&quotas, "bob", 9)), (4, 1));
        assert!(quotas.count(&caller("bob")).unwrap_err().quota.starts_with("all members together of `acme`"));
        // Bob's own quota lost one call, and not nine.
        advance(Duration::from_mins(1)).await;
        assert_eq!(counted(&quotas, "bob", 9), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_holds_its_place_until_it_ends() {
        let quotas = quotas("calls_at_once = 3\neach_member = { calls_at_once = 2 }");
        let ann: Vec<_> = (0..2).map(|_| quotas.count(&caller("ann")).unwrap()).collect();
        assert!(quotas.count(&caller("ann")).unwrap_err().quota.contains("run 2 calls at once"));
        let _bob = quotas.count(&caller("bob")).unwrap();
        assert!(quotas.count(&caller("cid")).unwrap_err().quota.contains("run 3 calls at once"));
        drop(ann);
        assert_eq!(counted(&quotas, "cid", 5), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn members_without_a_count_are_forgotten() {
        let quotas = quotas("each_member = { calls_per_minute = 1 }");
        let _held = quotas.count(&caller("held")).unwrap();
        for number in 0..MAX_MEMBERS {
            assert_eq!(counted(&quotas, &number.to_string(), 1), 1);
            advance(Duration::from_millis(100)).await;
        }
        assert!(quotas.0.counts.lock().by_member.len() <= MAX_MEMBERS);
        assert!(quotas.count(&caller("held")).is_ok(), "its minute is over");
        assert_eq!(counted(&quotas, &(MAX_MEMBERS - 1).to_string(), 1), 0, "its minute is not");
    }
}
