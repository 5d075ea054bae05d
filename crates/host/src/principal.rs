//! The principal of a request: a person, a service or an agent of a tenant (a team of a daemon, whose members see
//! nothing of other tenants).
//!
//! A [`Principal`] is plain data. It is made from proved facts (a token, a signed statement, the user at the other end
//! of a socket), and never from a name or a header that a client chose. It is bound to tenant, issuer and subject, and
//! not to a token, because tokens are renewed.

use std::{borrow::Cow, fmt, sync::Arc};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::text;

/// The most bytes of one name in a principal; a longer one is refused.
const MAX_NAME_BYTES: usize = 256;
/// The most groups of one principal.
const MAX_GROUPS: usize = 1_000;
/// The longest name of a tenant, in characters.
const MAX_TENANT_CHARS: usize = 64;
/// The name of the tenant, the issuer and the person of a machine with a single user.
const LOCAL: &str = "local";

/// A person or service that makes requests. Cheap to clone.
///
/// ```
/// use toolrack_host::{Principal, principal::{Kind, Role}};
///
/// let ann = Principal::new(Kind::Person, "acme", "https://login.acme.example", "u-17")?
///     .named("Ann")?
///     .in_groups(["eng"])?
///     .with_role(Role::Operator);
/// assert!(ann.is_in("eng"));
/// assert_eq!(ann.to_string(), "Ann of acme");
///
/// // The same person, with a new name and another role.
/// assert!(ann.is_same(&Principal::new(Kind::Person, "acme", "https://login.acme.example", "u-17")?));
/// # Ok::<(), toolrack_host::principal::BadPrincipal>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Principal(Option<Arc<Identity>>);

/// The data of a principal that is not the local one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    kind: Kind,
    tenant: Box<str>,
    issuer: Box<str>,
    subject: Box<str>,
    name: Option<Box<str>>,
    groups: Vec<Box<str>>,
    role: Role,
    /// How many memberships of the principal in the tenant ended before the current one.
    membership: u32,
}

/// The kinds of principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A human.
    Person,
    /// A program with its own credentials.
    Service,
}

impl Kind {
    /// Returns the stable word for this kind.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Service => "service",
        }
    }
}

/// The role of a principal. A daemon defines the rights of each role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Views servers and tools, and calls none.
    Viewer,
    /// Calls tools, and answers questions about its own calls. The default.
    #[default]
    User,
    /// Changes servers and settings, and answers every question of its tenant.
    Operator,
    /// Reads the audit log, and calls no tool.
    Auditor,
    /// Does everything in its tenant.
    Admin,
    /// Reads only metrics and readiness.
    Scraper,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 6] = [Self::Viewer, Self::User, Self::Operator, Self::Auditor, Self::Admin, Self::Scraper];

    /// Returns the stable word for this role.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
            Self::Scraper => "scraper",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = BadPrincipal;

    fn from_str(word: &str) -> Result<Self, BadPrincipal> {
        let found = Self::ALL.into_iter().find(|role| role.word() == word);
        found.ok_or_else(|| BadPrincipal::Role { word: text::for_line(&text::clip(word, MAX_NAME_BYTES)).into_owned() })
    }
}

/// The reason why a principal is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrincipal {
    /// A name is empty, too long, or has characters that a line cannot show.
    #[error("the {what} of a principal must have 1 to {MAX_NAME_BYTES} bytes, without control characters")]
    Name {
        /// The kind of name.
        what: &'static str,
    },
    /// The name of a tenant cannot be part of a path.
    #[error(
        "the name of a tenant must have 1 to {MAX_TENANT_CHARS} characters of a-z, 0-9, `-` and `_`, and must not be `local`: `{tenant}`"
    )]
    Tenant {
        /// The name, safe to print.
        tenant: String,
    },
    /// There are more groups than one principal may have.
    #[error("a principal can be in at most {MAX_GROUPS} groups")]
    Groups,
    /// The role is unknown.
    #[error("`{word}` is not a role: the roles are viewer, user, operator, auditor, admin, scraper")]
    Role {
        /// The word, safe to print.
        word: String,
    },
}

/// Checks a name for use in logs, rows and messages.
fn check_name(what: &'static str, name: &str) -> Result<Box<str>, BadPrincipal> {
    let is_valid = !name.is_empty() && name.len() <= MAX_NAME_BYTES && text::for_line(name) == name;
    is_valid.then(|| name.into()).ok_or(BadPrincipal::Name { what })
}

/// Checks the name of a tenant, which is a part of addresses and folders.
///
/// # Errors
/// [`BadPrincipal::Tenant`]
pub fn check_tenant(tenant: &str) -> Result<(), BadPrincipal> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if (1..=MAX_TENANT_CHARS).contains(&tenant.len()) && tenant.chars().all(is_plain) && tenant != LOCAL {
        return Ok(());
    }
    Err(BadPrincipal::Tenant { tenant: text::for_line(&text::clip(tenant, MAX_NAME_BYTES)).into_owned() })
}

impl Principal {
    /// The person of a machine with a single user: tenant, issuer and subject are `local`, the role is [`Role::Admin`].
    pub const LOCAL: Self = Self(None);

    /// Creates the principal for the `subject` of `issuer`, in `tenant`. It is in no group, and has the role
    /// [`Role::User`].
    ///
    /// # Errors
    /// [`BadPrincipal`], which names the invalid part.
    pub fn new(kind: Kind, tenant: &str, issuer: &str, subject: &str) -> Result<Self, BadPrincipal> {
        check_tenant(tenant)?;
        Ok(Self(Some(Arc::new(Identity {
            kind,
            tenant: tenant.into(),
            issuer: check_name("issuer", issuer)?,
            subject: check_name("subject", subject)?,
            name: None,
            groups: Vec::new(),
            role: Role::default(),
            membership: 0,
        }))))
    }

    /// Changes the data. Does nothing for [`Self::LOCAL`], whose data cannot change.
    fn change(mut self, change: impl FnOnce(&mut Identity)) -> Self {
        if let Some(identity) = &mut self.0 {
            change(Arc::make_mut(identity));
        }
        self
    }

    /// Sets the display name, which does not identify the principal.
    ///
    /// # Errors
    /// [`BadPrincipal::Name`]
    pub fn named(self, name: &str) -> Result<Self, BadPrincipal> {
        let name = check_name("name", name)?;
        Ok(self.change(|identity| identity.name = Some(name)))
    }

    /// Sets the groups of the principal.
    ///
    /// # Errors
    /// [`BadPrincipal::Name`] and [`BadPrincipal::Groups`]
    pub fn in_groups<'a>(self, groups: impl IntoIterator<Item = &'a str>) -> Result<Self, BadPrincipal> {
        let groups = groups.into_iter().map(|group| check_name("group", group)).collect::<Result<Vec<_>, _>>()?;
        if groups.len() > MAX_GROUPS {
            return Err(BadPrincipal::Groups);
        }
        Ok(self.change(|identity| identity.groups = groups))
    }

    /// Sets the role of the principal.
    #[must_use]
    pub fn with_role(self, role: Role) -> Self {
        self.change(|identity| identity.role = role)
    }

    /// Sets the number of the principal's membership in the tenant: how many memberships ended before this one. A
    /// person who was removed and becomes a member again starts from nothing, with another [key](Self::key).
    #[must_use]
    pub fn in_membership(self, number: u32) -> Self {
        self.change(|identity| identity.membership = number)
    }

    /// Returns whether this is the person of a machine with a single user.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the kind of the principal.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.as_ref().map_or(Kind::Person, |identity| identity.kind)
    }

    /// Returns the tenant of the principal.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.0.as_ref().map_or(LOCAL, |identity| &identity.tenant)
    }

    /// Returns the issuer of [`Self::subject`]: the URL of an identity provider, or a word for Toolrack's own tokens.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.0.as_ref().map_or(LOCAL, |identity| &identity.issuer)
    }

    /// Returns the issuer's id of the principal, which is unique for this issuer and never reused.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.0.as_ref().map_or(LOCAL, |identity| &identity.subject)
    }

    /// Returns the display name; the subject if there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.0 {
            Some(identity) => identity.name.as_deref().unwrap_or(&identity.subject),
            None => LOCAL,
        }
    }

    /// Returns the groups of the principal.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|identity| identity.groups.iter().map(|group| &**group))
    }

    /// Returns whether the principal is in `group`.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups().any(|own_group| own_group == group)
    }

    /// Returns the role of the principal.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.as_ref().map_or(Role::Admin, |identity| identity.role)
    }

    /// Returns the number of the principal's membership in the tenant: how many memberships ended before this one.
    #[must_use]
    pub fn membership(&self) -> u32 {
        self.0.as_ref().map_or(0, |identity| identity.membership)
    }

    /// Returns a key for what belongs to the principal, such as folders and rows. In the first membership, it is the
    /// [key](Self::person_key) of the person or service. In later ones, `-` and the number of the membership follow, so
    /// that nothing of an earlier membership belongs to a later one.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(&self.person_key(), self.membership())
    }

    /// Returns the [key](Self::key) of a person or service in the membership with this number; `person` is their
    /// [key](Self::person_key).
    #[must_use]
    pub fn key_of(person: &str, membership: u32) -> String {
        match membership {
            0 => person.to_owned(),
            number => format!("{person}-{number}"),
        }
    }

    /// Returns a key of the person or service that is the same in each membership: 64 hex digits, computed from tenant,
    /// issuer and subject only.
    #[must_use]
    pub fn person_key(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.tenant(), self.issuer(), self.subject()] {
            // With its length in front, no part can be mistaken for the beginning of the next.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        HEXLOWER.encode(&hash.finalize())
    }

    /// Returns whether both are the same person or service: the same tenant, issuer and subject. Names, groups and
    /// roles may differ.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.tenant(), self.issuer(), self.subject()) == (other.tenant(), other.issuer(), other.subject())
    }
}

/// Prints everything but the groups.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("kind", &self.kind())
            .field("tenant", &self.tenant())
            .field("issuer", &self.issuer())
            .field("subject", &self.subject())
            .field("role", &self.role())
            .finish_non_exhaustive()
    }
}

/// Writes the name and the tenant, on one line, safe to print.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: Cow<'_, str> = match self.kind() {
            Kind::Person => self.name().into(),
            Kind::Service => format!("the service {}", self.name()).into(),
        };
        write!(f, "{name} of {}", self.tenant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", "u-17").unwrap()
    }

    #[test]
    fn the_local_user_needs_no_configuration_and_may_do_everything() {
        let local = Principal::LOCAL;
        assert_eq!((local.tenant(), local.issuer(), local.subject()), ("local", "local", "local"));
        assert_eq!((local.role(), local.kind()), (Role::Admin, Kind::Person));
        assert!(local.is_local() && local.is_same(&Principal::default()) && !local.is_same(&ann()));
        // A change has no effect: there is only one local user.
        assert_eq!(Principal::LOCAL.with_role(Role::Viewer).role(), Role::Admin);
    }

    #[test]
    fn tenant_issuer_and_subject_make_a_principal_and_nothing_else_does() {
        let renamed = ann().named("Ann").unwrap().in_groups(["eng"]).unwrap().with_role(Role::Admin);
        assert!(renamed.is_same(&ann()));
        assert_eq!(renamed.key(), ann().key());
        let again = ann().in_membership(2);
        assert_eq!((again.key(), again.person_key()), (format!("{}-2", ann().key()), ann().key()));
        assert!(again.is_same(&ann()));
        // The key must stay the same in every version, because rows and folders of members have it as their name.
        assert_eq!(ann().key(), "447b9ebcaffd9eb380c7bf38d77ee6e691d35d33f338c4ead31a05502d13ba0e");
        let shifted = |issuer, subject| Principal::new(Kind::Person, "acme", issuer, subject).unwrap().key();
        assert_ne!(shifted("a", "bc"), shifted("ab", "c"));
        for other in [("acme2", "https://login.example", "u-17"), ("acme", "https://other.example", "u-17")] {
            assert!(!ann().is_same(&Principal::new(Kind::Person, other.0, other.1, other.2).unwrap()));
        }
        assert!(!ann().is_same(&Principal::new(Kind::Person, "acme", "https://login.example", "u-1").unwrap()));
    }

    #[test]
    fn an_invalid_name_makes_no_principal() {
        for tenant in ["", "local", "Acme", "a/b", "..", "a b", &"x".repeat(65)] {
            assert!(matches!(Principal::new(Kind::Person, tenant, "i", "s"), Err(BadPrincipal::Tenant { .. })));
        }
        for subject in ["", "a\nb", "a\u{1b}[2J", "a\u{202e}b", &"x".repeat(257)] {
            assert!(matches!(Principal::new(Kind::Person, "acme", "i", subject), Err(BadPrincipal::Name { .. })));
            assert!(ann().named(subject).is_err() && ann().in_groups([subject]).is_err());
        }
        let groups: Vec<_> = (0..=1_000).map(|number| number.to_string()).collect();
        assert_eq!(ann().in_groups(groups.iter().map(String::as_str)), Err(BadPrincipal::Groups));
        assert!("root".parse::<Role>().is_err());
        assert!(Role::ALL.into_iter().all(|role| role.word().parse::<Role>() == Ok(role)));
    }
}
