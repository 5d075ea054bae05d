//! The owner of a row: the user of the machine, if there is no team, or a member of a tenant. The row has the key of
//! the member. A member who is removed and comes back has another key, and so does not get the old rows.

use toolrack_host::Principal;

/// The principal to whom a row belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The [key](Principal::key) of the member.
    pub key: String,
    /// The name of the member when the row was made; untrusted.
    pub name: String,
}

impl Owner {
    /// Returns the owner of the rows that `principal` creates; `None` for the user of the machine.
    #[must_use]
    pub fn of(principal: &Principal) -> Option<Self> {
        let owner = || Self { key: principal.key(), name: principal.name().to_owned() };
        (!principal.is_local()).then(owner)
    }

    /// Returns whether the owner is `principal`.
    #[must_use]
    pub fn is(&self, principal: &Principal) -> bool {
        Self::of(principal).is_some_and(|owner| owner.key == self.key)
    }

    /// Reads the owner from the columns of a row. An empty key stands for the user of the machine. The name is only
    /// shown to users, so it may be missing.
    pub(crate) fn from_columns(key: String, name: Option<String>) -> Option<Self> {
        (!key.is_empty()).then(|| Self { name: name.unwrap_or_default(), key })
    }
}

/// The owners whose rows a query finds.
#[derive(Clone, Copy, Debug, Default)]
pub enum OwnerFilter<'a> {
    /// The rows of all owners.
    #[default]
    All,
    /// The rows of this principal.
    Of(&'a Principal),
}

impl OwnerFilter<'_> {
    /// Returns the key of the owner in the rows, which is empty for the user of the machine; `None` for the rows of all
    /// owners.
    pub(crate) fn key(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Of(principal) => Some(Owner::of(principal).map_or_else(String::new, |owner| owner.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::Kind;

    use super::*;

    #[test]
    fn rows_of_the_machine_s_user_have_no_owner_and_those_of_a_member_one_for_each_membership() {
        let ann = Principal::new(Kind::Person, "acme", "https://id", "ann").unwrap();
        let others = [
            Principal::new(Kind::Person, "other", "https://id", "ann").unwrap(),
            Principal::new(Kind::Person, "acme", "https://other", "ann").unwrap(),
            Principal::new(Kind::Person, "acme", "https://id", "bob").unwrap(),
            ann.clone().in_membership(1),
        ];
        let owner = Owner::of(&ann).unwrap();
        assert!(owner.is(&ann) && owner.is(&ann.clone().named("Ann").unwrap()), "the name does not count");
        for other in &others {
            assert!(!owner.is(other), "{other:?}");
            assert_ne!(OwnerFilter::Of(other).key(), OwnerFilter::Of(&ann).key(), "{other:?}");
        }
        assert_eq!((Owner::of(&Principal::LOCAL), owner.is(&Principal::LOCAL)), (None, false));
        // All rows, and those of the machine's user, are two questions.
        assert_eq!((OwnerFilter::All.key(), OwnerFilter::Of(&Principal::LOCAL).key()), (None, Some(String::new())));
        assert_eq!(Owner::from_columns(String::new(), Some("Ann".to_owned())), None);
        assert_eq!(Owner::from_columns(owner.key.clone(), None), Some(Owner { key: owner.key, name: String::new() }));
    }
}
