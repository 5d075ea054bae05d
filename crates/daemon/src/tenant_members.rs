//! Runs the worlds of the members of a tenant. A member who has servers of their own has a [world](crate::worlds) for
//! them (a host with its configuration, questions and events), which borrows the shared servers from the tenant's
//! world. Only the principal of a request (the user or service that its token proves) decides whose world answers it.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::{Request, path::RawPathParams, rejection::RawPathParamsRejection},
    http::StatusCode,
    middleware::{Next, from_fn},
    response::Response,
    routing::MethodRouter,
};
use toolrack_host::{Principal, ServerSpec};

use crate::{
    error::ApiError,
    guard,
    world::World,
    worlds::{CommonParts, WorldLimit, Worlds},
};

/// Whose world answers the request of a member to a route. Each route says it where it is declared
/// ([`Routes::with`](crate::routes::Routes::with)). For the user of the machine, the daemon's own world answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweringWorld {
    /// The tenant's world.
    Tenant,
    /// The member's own world, which also knows which shared servers the member has.
    Member,
    /// The world in which the server `{name}` of the path runs: the route starts, stops or changes that server, or
    /// signs in to it. For a shared server, this is the tenant's world.
    Server,
}

impl AnsweringWorld {
    /// Makes this world answer the requests of members to `methods`.
    pub(crate) fn layer<S: Clone + Send + Sync + 'static>(self, methods: MethodRouter<S>) -> MethodRouter<S> {
        match self {
            Self::Tenant => methods,
            Self::Member => methods.layer(from_fn(to_member_world)),
            Self::Server => methods.layer(from_fn(to_world_of_server)),
        }
    }
}

/// The members of one tenant.
pub(crate) struct TenantMembers {
    tenant_world: Arc<World>,
    worlds: Arc<Worlds>,
}

impl TenantMembers {
    /// The members of the tenant whose world is `tenant_world`.
    pub(crate) fn new(tenant_world: Arc<World>, common: CommonParts) -> Arc<Self> {
        Arc::new(Self { tenant_world, worlds: Worlds::new(common) })
    }

    /// Ends the worlds of the member with this key, and waits until their servers have ended.
    pub(crate) async fn end(&self, member: &str) {
        self.worlds.end_where(|id| is_world_of(id, member)).await;
    }

    /// Makes the worlds of the member with this key read their configuration again.
    pub(crate) async fn reload(&self, member: &str) {
        let worlds = self.worlds.running_worlds().into_iter().filter(|(id, _)| is_world_of(id, member));
        for (_, world) in worlds {
            // The world itself reports entries that cannot be used.
            drop(world.reload().await);
        }
    }

    /// Whether the member needs a world of their own: if the tenant has servers that not all members share, or if the
    /// member has added servers.
    fn needs_world(&self, member: &Principal) -> bool {
        let is_not_for_all = |spec: &ServerSpec| !self.tenant_world.kind.runs(spec) || !spec.members.is_empty();
        let has_added_servers =
            || self.tenant_world.own_servers.as_ref().is_some_and(|own_servers| own_servers.has_servers(member));
        self.tenant_world.loaded().desired.values().any(is_not_for_all) || has_added_servers()
    }

    /// Whether the server of this name runs in the tenant's world.
    fn is_shared(&self, server: &str) -> bool {
        self.tenant_world.loaded().desired.get(server).is_some_and(|spec| self.tenant_world.kind.runs(spec))
    }

    /// Lets the world of `member` answer.
    async fn answer(&self, member: &Principal, request: Request) -> Response {
        let (key, current_world) = (member.key(), world_id(member));
        // Role and groups decide which servers a member has, so the member has a world for each role with each set of
        // groups. Unused worlds of other roles and groups end here. Worlds in use stay: two tokens of a member can have
        // different groups, such as the groups of the last sign-in and the groups in an access token of the issuer.
        self.worlds.stop_unused_where(|id| is_world_of(id, &key) && id != current_world);
        self.worlds.answer(&current_world, request).await
    }
}

/// The maximum number of worlds of members at once, in one tenant.
pub(crate) const WORLD_LIMIT: WorldLimit = WorldLimit {
    max_worlds: 1_000,
    make_error: |max| {
        let message = format!("{max} members of the tenant use servers of their own already");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_WORLDS", message).hint("try again in a few minutes")
    },
};

/// Whether `id`, which [`world_id`] has made, is the id of a world of the member with this key.
fn is_world_of(id: &str, member: &str) -> bool {
    id.strip_prefix(member).is_some_and(|rest| rest.starts_with(' '))
}

/// Returns the id of the world of a member with this role and these groups. Sorts the groups, because a provider may
/// list them in any order.
fn world_id(member: &Principal) -> String {
    let groups: BTreeSet<_> = member.groups().collect();
    format!("{} {} {groups:?}", member.key(), member.role().word())
}

/// Returns the member who sent `request`, if the member needs a world of their own, together with the members of the
/// tenant. The [`TenantMembers`] of the tenant's world are in the extensions of each request.
fn member_who_needs_world(request: &Request) -> Option<(Arc<TenantMembers>, Principal)> {
    let tenant_members = request.extensions().get::<Arc<TenantMembers>>().cloned()?;
    let member = guard::member_of(request)?;
    tenant_members.needs_world(&member).then_some((tenant_members, member))
}

/// Passes the request of a member on to their own world, if they need one.
pub(crate) async fn to_member_world(request: Request, next: Next) -> Response {
    match member_who_needs_world(&request) {
        Some((tenant_members, member)) => tenant_members.answer(&member, request).await,
        None => next.run(request).await,
    }
}

/// Passes the request of a member on to their own world, if they need one and the server `{name}` of the path does not
/// run in the tenant's world.
async fn to_world_of_server(
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let name = path.as_ref().ok().and_then(|path| path.iter().find(|(parameter, _)| *parameter == "name"));
    match member_who_needs_world(&request) {
        Some((tenant_members, member)) if !name.is_some_and(|(_, server)| tenant_members.is_shared(server)) => {
            tenant_members.answer(&member, request).await
        }
        _ => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::{Kind, Role};

    use super::*;

    fn ann(groups: &[&str], role: Role) -> Principal {
        let ann = Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
        ann.in_groups(groups.iter().copied()).unwrap().with_role(role)
    }

    #[test]
    fn other_groups_or_another_role_are_another_world_and_another_order_is_not() {
        let key = |groups: &[&str]| world_id(&ann(groups, Role::User));
        assert_eq!(key(&["eng", "ops"]), key(&["ops", "eng"]));
        assert_eq!(key(&["eng", "eng"]), key(&["eng"]));
        assert_ne!(key(&["eng", "ops"]), key(&["eng"]));
        assert_ne!(key(&["eng", "ops"]), key(&["eng,ops"]), "a group may have a comma in its name");
        assert_ne!(key(&["eng", "ops"]), key(&["eng\", \"ops"]), "or quotes");
        assert_ne!(key(&["eng"]), world_id(&ann(&["eng"], Role::Operator)));
    }

    #[test]
    fn a_world_is_found_only_by_the_full_key_of_its_member() {
        let (one, other) = (ann(&["eng"], Role::User), Principal::new(Kind::Person, "acme", "i", "bob").unwrap());
        let id = world_id(&one);
        assert!(is_world_of(&id, &one.key()) && is_world_of(&world_id(&ann(&[], Role::Viewer)), &one.key()));
        assert!(
            !is_world_of(&id, &other.key())
                && !is_world_of(&id, &one.key()[..63])
                && !is_world_of(&one.key(), &one.key())
        );
    }
}
