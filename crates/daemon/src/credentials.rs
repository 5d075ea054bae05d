//! The values of `${user:NAME}` in entries of servers: each user gives their own values to the servers that run only
//! for that user.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use toolrack_config::share_of;
use toolrack_host::{Caller, Principal, ServerSpec, spec::Share};

use crate::event_log::LogCapacity;

/// The values that one user has given. No method returns a value: only servers get values.
pub trait Credentials: Send + Sync {
    /// Returns the names of all values. Errors are messages for users, and contain no value.
    fn list(&self) -> BoxFuture<'_, Result<Vec<GivenValue>, String>>;

    /// Stores `value` as `name`, replacing an earlier one, and records that `caller` gave it.
    fn give<'a>(&'a self, name: &'a str, value: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<(), String>>;

    /// Deletes the value `name`, and records that `caller` did so. Returns whether there was a value.
    fn take_back<'a>(&'a self, name: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<bool, String>>;
}

/// Finds the values of a principal (a user or service); `None` for a principal whose values are not stored here.
pub type CredentialsOf = Box<dyn Fn(&Principal) -> Option<Arc<dyn Credentials>> + Send + Sync>;

/// A value that a user has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenValue {
    /// Its name.
    pub name: String,
    /// When the user gave it.
    pub at: DateTime<Utc>,
}

/// The kind of a world (a host with its configuration, questions and events): whose world it is. The kind decides which
/// of the configured servers the world runs.
#[derive(Clone, Debug, Default)]
pub enum WorldKind {
    /// The only user of a machine: all servers.
    #[default]
    Machine,
    /// A tenant: the servers that its members share.
    Tenant,
    /// An agent of a tenant: the servers that all members of the tenant share.
    AgentOfTenant,
    /// This member of a tenant: the servers that run once for each member, if they are for this member. For requests
    /// that belong to no session, the world also runs each server that runs once for each session.
    Member(Principal),
    /// One session of an MCP client of this member, or of the only user of the machine: the servers that run once for
    /// each session.
    Session(Option<Principal>),
}

impl WorldKind {
    /// Whether this world starts a server with this spec.
    pub(crate) fn runs(&self, spec: &ServerSpec) -> bool {
        match self {
            Self::Machine => true,
            Self::Tenant => share_of(spec) == Share::Tenant,
            // Any member can use the agent.
            Self::AgentOfTenant => share_of(spec) == Share::Tenant && spec.members.is_empty(),
            Self::Member(member) => share_of(spec) != Share::Tenant && spec.is_for(member),
            Self::Session(member) => {
                share_of(spec) == Share::Session && member.as_ref().is_none_or(|member| spec.is_for(member))
            }
        }
    }

    /// Whether the world borrows servers from another world: from the world of the tenant, of the member, or of the
    /// machine's only user.
    pub(crate) fn borrows(&self) -> bool {
        matches!(self, Self::Member(_) | Self::Session(_))
    }

    /// The only member for whom the world runs servers. `None` for the world of a tenant or of a machine's only user.
    pub(crate) fn member(&self) -> Option<&Principal> {
        match self {
            Self::Member(member) | Self::Session(Some(member)) => Some(member),
            _ => None,
        }
    }

    /// The size of this world's event log.
    pub(crate) fn event_log_capacity(&self) -> LogCapacity {
        if self.borrows() { LogCapacity::Member } else { LogCapacity::World }
    }

    /// Whether a server with this spec can be used in this world. Either this world starts the server, or the world of
    /// the tenant (or of the machine's only user) lends it.
    pub(crate) fn has(&self, spec: &ServerSpec) -> bool {
        match self {
            Self::Member(member) | Self::Session(Some(member)) => spec.is_for(member),
            Self::Session(None) => true,
            _ => self.runs(spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::{Who, principal::Kind};

    use super::*;

    fn person(name: &str) -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", name).unwrap()
    }

    fn server(share: Option<Share>, members: &[&str]) -> ServerSpec {
        let members = members.iter().map(|who| Who::read(who).unwrap()).collect();
        ServerSpec { share, members, ..ServerSpec::stdio("server", ["${user:TOKEN}"]) }
    }

    /// The worlds of a tenant, in which Ann and Bob are members, that run a server, and those that can use it.
    fn worlds(spec: &ServerSpec) -> (Vec<&'static str>, Vec<&'static str>) {
        let kinds = [
            ("tenant", WorldKind::Tenant),
            ("agent", WorldKind::AgentOfTenant),
            ("ann", WorldKind::Member(person("ann"))),
            ("bob", WorldKind::Member(person("bob"))),
            ("session of ann", WorldKind::Session(Some(person("ann")))),
            ("session of bob", WorldKind::Session(Some(person("bob")))),
        ];
        let which = |is: fn(&WorldKind, &ServerSpec) -> bool| {
            kinds.iter().filter(|(_, kind)| is(kind, spec)).map(|(name, _)| *name).collect()
        };
        (which(WorldKind::runs), which(WorldKind::has))
    }

    #[test]
    fn a_server_runs_in_the_worlds_for_which_it_is_shared_and_is_lent_to_no_other_member() {
        let of_ann = ["person:ann"];
        let (each, ann) = (vec!["ann", "bob", "session of ann", "session of bob"], vec!["ann", "session of ann"]);
        let with = |first: &[&'static str], then: &[&'static str]| [first, then].concat();
        let tenant = Some(Share::Tenant);
        let expected = (vec!["tenant", "agent"], with(&["tenant", "agent"], &each));
        assert_eq!(worlds(&server(tenant, &[])), expected);
        // An agent serves all members, so it has no server that is for some of them.
        assert_eq!(worlds(&server(tenant, &of_ann)), (vec!["tenant"], with(&["tenant"], &ann)));
        assert_eq!(worlds(&server(Some(Share::User), &[])), (vec!["ann", "bob"], each.clone()));
        assert_eq!(worlds(&server(Some(Share::User), &of_ann)), (vec!["ann"], ann.clone()));
        assert_eq!(worlds(&server(Some(Share::Session), &[])), (each.clone(), each.clone()));
        assert_eq!(worlds(&server(Some(Share::Session), &of_ann)), (ann.clone(), ann));
        // A server with values of members runs once for each member, unless its entry says otherwise.
        assert_eq!(worlds(&server(None, &[])), (vec!["ann", "bob"], each));
    }

    #[test]
    fn the_only_user_of_a_machine_has_every_server_and_a_session_runs_only_its_own() {
        for share in [None, Some(Share::Tenant), Some(Share::User), Some(Share::Session)] {
            let spec = server(share, &["person:ann"]);
            assert!(WorldKind::Machine.runs(&spec) && WorldKind::Machine.has(&spec), "{share:?}");
            let session = WorldKind::Session(None);
            assert_eq!((session.runs(&spec), session.has(&spec)), (share == Some(Share::Session), true), "{share:?}");
        }
    }
}
