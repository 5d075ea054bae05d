//! A limit on the number of things at once, such as sessions or calls, of which each member of a team may take only a
//! share.
//!
//! Each thing holds a [`Permit`], which only [`FairLimit::take`] gives. So there are never more things than the limit
//! allows, one member cannot take all permits, and a permit is free again as soon as it is dropped with its thing. The
//! user of the machine may take all permits.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{Hash, Hasher},
    sync::Arc,
};

use parking_lot::Mutex;
use toolrack_host::Principal;

/// The default number of parts into which a limit is divided: one member of a team may take at most one part.
pub(crate) const DEFAULT_PARTS: usize = 8;

/// A limit on the number of permits. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct FairLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    max_per_member: usize,
    counts: Mutex<PermitCounts>,
}

/// The numbers of taken permits: of all, and of each owner.
#[derive(Debug, Default)]
struct PermitCounts {
    total: usize,
    by_owner: HashMap<Owner, usize>,
}

/// A principal (a user or service) that takes permits, compared without its current role, groups and membership.
#[derive(Clone, Debug)]
struct Owner(Principal);

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}

impl Eq for Owner {}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // What `is_same` compares.
        (self.0.tenant(), self.0.issuer(), self.0.subject()).hash(state);
    }
}

/// One of the permits. Dropping it frees the permit.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<Inner>,
    owner: Owner,
}

/// The reason why no permit can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The principal has taken its share.
    MemberShare,
    /// All permits are taken.
    AllPermits,
}

impl LimitReached {
    /// Returns "of this member" or "of all clients": the end of a message such as "too many calls".
    pub(crate) fn of_whom(self) -> &'static str {
        match self {
            Self::MemberShare => "of this member",
            Self::AllPermits => "of all clients",
        }
    }
}

impl FairLimit {
    /// Creates a limit of `max` permits; a member of a team takes at most `max_per_member` of them.
    pub(crate) fn new(max: usize, max_per_member: usize) -> Self {
        Self(Arc::new(Inner { max, max_per_member, counts: Mutex::default() }))
    }

    /// Takes a permit for `principal`. Dropping the permit frees it.
    ///
    /// # Errors
    /// [`LimitReached`], if the principal has taken its share, or all permits are taken.
    pub(crate) fn take(&self, principal: &Principal) -> Result<Permit, LimitReached> {
        let owner = Owner(principal.clone());
        let mut counts = self.0.counts.lock();
        let count = counts.by_owner.get(&owner).copied().unwrap_or_default();
        if !principal.is_local() && count >= self.0.max_per_member {
            return Err(LimitReached::MemberShare);
        }
        if counts.total >= self.0.max {
            return Err(LimitReached::AllPermits);
        }
        counts.total += 1;
        counts.by_owner.insert(owner.clone(), count + 1);
        Ok(Permit { limit: Arc::clone(&self.0), owner })
    }

    /// Returns the principal that has taken the most permits; `None` if no permit is taken.
    pub(crate) fn owner_with_most_permits(&self) -> Option<Principal> {
        let counts = self.0.counts.lock();
        counts.by_owner.iter().max_by_key(|(_, count)| **count).map(|(owner, _)| owner.0.clone())
    }
}

impl Permit {
    /// Returns whether `principal` took this permit.
    pub(crate) fn is_held_by(&self, principal: &Principal) -> bool {
        self.owner.0.is_same(principal)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.limit.counts.lock();
        counts.total -= 1;
        if let Entry::Occupied(mut owner_count) = counts.by_owner.entry(self.owner.clone()) {
            *owner_count.get_mut() -= 1;
            if *owner_count.get() == 0 {
                owner_count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::{Kind, Role};

    use super::*;

    fn person(subject: &str) -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap()
    }

    #[test]
    fn a_member_of_any_role_gets_one_share_and_no_more() {
        let limit = FairLimit::new(3, 2);
        let first = limit.take(&person("ann")).unwrap();
        let _second = limit.take(&person("ann").with_role(Role::Admin).in_membership(1)).unwrap();
        assert_eq!(limit.take(&person("ann")).unwrap_err(), LimitReached::MemberShare);
        let _of_bob = limit.take(&person("bob")).unwrap();
        assert_eq!(limit.take(&person("eve")).unwrap_err(), LimitReached::AllPermits);
        assert!(limit.owner_with_most_permits().unwrap().is_same(&person("ann")));
        assert!(first.is_held_by(&person("ann")) && !first.is_held_by(&person("bob")));
        drop(first);
        assert!(limit.take(&person("ann")).is_ok(), "a permit is free again as soon as it is dropped");
        assert_eq!(limit.0.counts.lock().by_owner.len(), 2, "a principal without a permit is forgotten");
    }

    #[test]
    fn the_user_of_the_machine_may_take_all_permits() {
        let limit = FairLimit::new(3, 1);
        let taken: Vec<_> = (0..3).map(|_| limit.take(&Principal::LOCAL).unwrap()).collect();
        assert_eq!(limit.take(&Principal::LOCAL).unwrap_err(), LimitReached::AllPermits);
        drop(taken);
        assert!(limit.owner_with_most_permits().is_none());
    }
}
