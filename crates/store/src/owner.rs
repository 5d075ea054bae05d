//! Says who owns a row: the user of the machine, or a member of a tenant.

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

    /// Reads the owner from the columns of a row, in which an empty key stands for the user of the machine.
    pub(crate) fn of_row(key: String, name: Option<String>) -> Option<Self> {
        (!key.is_empty()).then(|| Self { name: name.unwrap_or_default(), key })
    }
}

/// Whose rows a query finds.
#[derive(Clone, Copy, Debug, Default)]
pub enum OwnerFilter<'a> {
    /// The rows of all owners.
    #[default]
    All,
    /// The rows of this principal.
    Of(&'a Principal),
}

impl OwnerFilter<'_> {
    /// The key that the rows have; `None` for all rows.
    pub(crate) fn key(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Of(principal) => Some(Owner::of(principal).map_or_else(String::new, |owner| owner.key)),
        }
    }
}
