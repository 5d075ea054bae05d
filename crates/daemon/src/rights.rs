//! Rights: what a principal (a user or service) may do. A member of a team has the rights of their role.

use toolrack_host::{Principal, principal::Role};

/// A right. Each route has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// To see whether the daemon is alive. Needs no identity.
    Open,
    /// To look at servers, tools and states.
    See,
    /// To call tools, read resources, talk to a model, and answer questions about one's own calls.
    Use,
    /// To change servers, settings, trust and rules, and to answer every question.
    Operate,
    /// To read the audit log.
    Audit,
    /// To read metrics.
    Scrape,
    /// To see and change what belongs to other members of the tenant.
    Administer,
    /// To decide which programs run and which files are read on the daemon's machine. Only the user of that machine has
    /// this right, because such a program could read the files of every tenant.
    Install,
}

impl Right {
    /// All rights that need an identity.
    pub(crate) const ALL: [Self; 7] =
        [Self::See, Self::Use, Self::Operate, Self::Audit, Self::Scrape, Self::Administer, Self::Install];

    /// A stable word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::See => "see",
            Self::Use => "use",
            Self::Operate => "operate",
            Self::Audit => "audit",
            Self::Scrape => "scrape",
            Self::Administer => "administer",
            Self::Install => "install",
        }
    }

    /// Whether `principal` has this right.
    pub(crate) fn is_held_by(self, principal: &Principal) -> bool {
        match self {
            Self::Install => principal.is_local(),
            _ => self.is_held_by_role(principal.role()),
        }
    }

    /// Whether members of a tenant have this right if they have `role`.
    pub(crate) fn is_held_by_role(self, role: Role) -> bool {
        match role {
            Role::Admin => self != Self::Install,
            Role::Operator => matches!(self, Self::Open | Self::See | Self::Use | Self::Operate | Self::Scrape),
            Role::User => matches!(self, Self::Open | Self::See | Self::Use),
            Role::Viewer => matches!(self, Self::Open | Self::See),
            Role::Auditor => matches!(self, Self::Open | Self::See | Self::Audit),
            Role::Scraper => matches!(self, Self::Open | Self::Scrape),
            // A role that this version does not know.
            _ => self == Self::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::Kind;

    use super::*;

    fn of(principal: &Principal) -> Vec<Right> {
        Right::ALL.into_iter().filter(|right| right.is_held_by(principal)).collect()
    }

    #[test]
    fn each_role_of_a_tenant_has_exactly_its_rights() {
        let ann = Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
        let of = |role| of(&ann.clone().with_role(role));
        assert_eq!(of(Role::Viewer), [Right::See]);
        assert_eq!(of(Role::User), [Right::See, Right::Use]);
        assert_eq!(of(Role::Operator), [Right::See, Right::Use, Right::Operate, Right::Scrape]);
        assert_eq!(of(Role::Auditor), [Right::See, Right::Audit]);
        assert_eq!(of(Role::Scraper), [Right::Scrape]);
        assert_eq!(of(Role::Admin), Right::ALL[..6]);
    }

    #[test]
    fn the_user_of_the_machine_has_every_right() {
        assert_eq!(of(&Principal::LOCAL), Right::ALL);
    }
}
