//! Limits on the number of things in a table, such as sessions or calls. Each member of a team may take only a share of
//! the places.
//!
//! An entry of such a table holds its [`Place`], which only [`Places::take`] gives. So a table cannot grow beyond its
//! bound, one member cannot fill it, and a place is free again as soon as its entry is dropped. The user of the machine
//! may take all places.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{Hash, Hasher},
    sync::Arc,
};

use parking_lot::Mutex;
use toolrack_host::Principal;

/// The default number of parts into which places are divided: one member of a team may take at most one part.
pub(crate) const DEFAULT_PARTS: usize = 8;

/// The places of one table. Clones share the places.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    max_per_member: usize,
    taken: Mutex<PlaceCounts>,
}

/// The numbers of taken places: of all, and of each owner.
#[derive(Debug, Default)]
struct PlaceCounts {
    total: usize,
    by_owner: HashMap<Owner, usize>,
}

/// A principal, compared without its current role, groups and membership.
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

/// A place in the table. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Inner>,
    owner: Owner,
}

/// The reason why no place can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The principal has taken its share.
    MemberShare,
    /// All places are taken.
    AllPlaces,
}

impl Full {
    /// Returns "of this member" or "of all clients": the end of a message such as "too many calls".
    pub(crate) fn of_whom(self) -> &'static str {
        match self {
            Self::MemberShare => "of this member",
            Self::AllPlaces => "of all clients",
        }
    }
}

impl Places {
    /// Creates a table of `places` places; a member of a team takes at most `max_per_member` of them.
    pub(crate) fn new(places: usize, max_per_member: usize) -> Self {
        Self(Arc::new(Inner { max: places, max_per_member, taken: Mutex::default() }))
    }

    /// Takes a place for `principal`. Dropping the place frees it.
    ///
    /// # Errors
    /// [`Full`], if the principal has taken its share, or all places are taken.
    pub(crate) fn take(&self, principal: &Principal) -> Result<Place, Full> {
        let owner = Owner(principal.clone());
        let mut taken = self.0.taken.lock();
        let count = taken.by_owner.get(&owner).copied().unwrap_or_default();
        if !principal.is_local() && count >= self.0.max_per_member {
            return Err(Full::MemberShare);
        }
        if taken.total >= self.0.max {
            return Err(Full::AllPlaces);
        }
        taken.total += 1;
        taken.by_owner.insert(owner.clone(), count + 1);
        Ok(Place { places: Arc::clone(&self.0), owner })
    }

    /// Returns the principal that has taken the most places; `None` if no place is taken.
    pub(crate) fn owner_with_most_places(&self) -> Option<Principal> {
        let taken = self.0.taken.lock();
        taken.by_owner.iter().max_by_key(|(_, places)| **places).map(|(owner, _)| owner.0.clone())
    }
}

impl Place {
    /// Returns whether `principal` took this place.
    pub(crate) fn is_held_by(&self, principal: &Principal) -> bool {
        self.owner.0.is_same(principal)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.total -= 1;
        if let Entry::Occupied(mut count) = taken.by_owner.entry(self.owner.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
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
        let places = Places::new(3, 2);
        let first = places.take(&person("ann")).unwrap();
        let _second = places.take(&person("ann").with_role(Role::Admin).in_membership(1)).unwrap();
        assert_eq!(places.take(&person("ann")).unwrap_err(), Full::MemberShare);
        let _of_bob = places.take(&person("bob")).unwrap();
        assert_eq!(places.take(&person("eve")).unwrap_err(), Full::AllPlaces);
        assert!(places.owner_with_most_places().unwrap().is_same(&person("ann")));
        assert!(first.is_held_by(&person("ann")) && !first.is_held_by(&person("bob")));
        drop(first);
        assert!(places.take(&person("ann")).is_ok(), "a place is free again as soon as its entry is dropped");
        assert_eq!(places.0.taken.lock().by_owner.len(), 2, "a principal without a place is forgotten");
    }

    #[test]
    fn the_user_of_the_machine_may_take_all_places() {
        let places = Places::new(3, 1);
        let taken: Vec<_> = (0..3).map(|_| places.take(&Principal::LOCAL).unwrap()).collect();
        assert_eq!(places.take(&Principal::LOCAL).unwrap_err(), Full::AllPlaces);
        drop(taken);
        assert!(places.owner_with_most_places().is_none());
    }
}
