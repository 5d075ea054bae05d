//! Rights: what each role may do.

use toolrack_host::principal::Role;

/// A right. Each route has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// No identity is needed: is the daemon alive?
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
    /// To see and change what belongs to other people of the tenant, and to look at the machine's own files.
    Administer,
}

impl Right {
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
        }
    }

    /// Whether a role has it.
    pub(crate) fn is_of(self, role: Role) -> bool {
        match role {
            Role::Admin => true,
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
    use super::*;

    #[test]
    fn each_role_has_exactly_its_rights() {
        let all = [Right::See, Right::Use, Right::Operate, Right::Audit, Right::Scrape, Right::Administer];
        let of = |role| all.into_iter().filter(|right| right.is_of(role)).collect::<Vec<_>>();
        assert_eq!(of(Role::Viewer), [Right::See]);
        assert_eq!(of(Role::User), [Right::See, Right::Use]);
        assert_eq!(of(Role::Operator), [Right::See, Right::Use, Right::Operate, Right::Scrape]);
        assert_eq!(of(Role::Auditor), [Right::See, Right::Audit]);
        assert_eq!(of(Role::Scraper), [Right::Scrape]);
        assert_eq!(of(Role::Admin), all);
    }
}
