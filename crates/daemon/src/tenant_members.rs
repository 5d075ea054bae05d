//! Runs the worlds of the members of a tenant. A member who has servers of their own has a [world](crate::worlds) for
//! them (a host with its configuration, questions and events), which borrows the shared servers from the tenant's
//! world. Only the proved principal of a request decides whose world answers it.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::Request,
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use toolrack_host::{Principal, ServerSpec};

use crate::{
    error::ApiError,
    guard,
    world::World,
    worlds::{Common, WorldBound, Worlds},
};

/// The paths that the member's own world answers. The tenant's world answers all other paths.
const MEMBER_PATHS: [&str; 13] = [
    "/mcp",
    "/p",
    "/api/agents/mcp",
    "/api/v1/answers",
    "/api/v1/events",
    "/api/v1/servers",
    "/api/v1/tools",
    "/api/v1/calls",
    "/api/v1/me/credentials",
    "/api/v1/overview",
    "/api/v1/profiles",
    "/api/v1/sessions",
    "/api/v1/turns",
];

/// The members of one tenant.
pub(crate) struct TenantMembers {
    tenant: Arc<World>,
    worlds: Arc<Worlds>,
}

impl TenantMembers {
    pub(crate) fn new(tenant: Arc<World>, common: Common) -> Arc<Self> {
        Arc::new(Self { tenant, worlds: Worlds::new(common) })
    }

    /// Ends the worlds of the member with this key, and waits until their servers have ended.
    pub(crate) async fn end(&self, member: &str) {
        self.worlds.end_where(|id| is_world_of(id, member)).await;
    }

    /// Makes the worlds of the member with this key read their configuration again.
    pub(crate) async fn reload(&self, member: &str) {
        let worlds = self.worlds.all().into_iter().filter(|(id, _)| is_world_of(id, member));
        for (_, world) in worlds {
            // The world itself reports entries that cannot be used.
            drop(world.reload().await);
        }
    }

    /// Whether the member's own world answers the request. For that, the tenant must have servers that not all members
    /// share, or the member must have added servers. And the request must not start, stop or change a shared server.
    fn is_for_member(&self, member: &Principal, method: &Method, path: &str) -> bool {
        if !is_below(path, &MEMBER_PATHS) {
            return false;
        }
        let loaded = self.tenant.loaded();
        let is_unshared = |spec: &ServerSpec| !self.tenant.kind.runs(spec);
        let is_for_some = |spec: &ServerSpec| is_unshared(spec) || !spec.members.is_empty();
        let has_added = || self.tenant.own_servers.as_ref().is_some_and(|own| own.has_servers(member));
        if !loaded.desired.values().any(is_for_some) && !has_added() {
            return false;
        }
        // Shared servers are started and stopped in the tenant's world, where they run. Requests that only read or use
        // a shared server go to the member's world, because it knows which shared servers the member has.
        let Some(rest) = path.strip_prefix("/api/v1/servers/") else { return true };
        let mut parts = rest.split('/');
        let (name, part) = (parts.next().unwrap_or_default(), parts.next());
        let only_uses = matches!(part, Some("resources" | "prompts"));
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        is_read || only_uses || loaded.desired.get(name).is_none_or(is_unshared)
    }

    /// Lets the world of `member` answer.
    async fn answer(&self, member: &Principal, request: Request) -> Response {
        let (key, current_world) = (member.key(), world_id(member));
        // Worlds of the member's earlier role and groups may have other servers.
        self.worlds.stop_where(|id| is_world_of(id, &key) && id != current_world);
        self.worlds.answer(&current_world, request).await
    }
}

/// The maximum number of worlds of members at once, in one tenant.
pub(crate) const MAX_WORLDS: WorldBound = WorldBound {
    worlds: 1_000,
    refusal: |max| {
        let message = format!("{max} members of the tenant use servers of their own already");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_WORLDS", message).hint("try again in a few minutes")
    },
};

/// Whether `id` is the id of a world of the member with this key.
fn is_world_of(id: &str, member: &str) -> bool {
    id.strip_prefix(member).is_some_and(|rest| rest.starts_with(' '))
}

/// Returns the id of the world of a member with this role and these groups. Sorts the groups, because a provider may
/// list them in any order.
fn world_id(member: &Principal) -> String {
    let groups: BTreeSet<_> = member.groups().collect();
    format!("{} {} {groups:?}", member.key(), member.role().word())
}

/// Whether `path` is one of `prefixes`, or below one.
pub(crate) fn is_below(path: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Passes the request of a member on to their own world, if it is for that world. The world of a tenant has its
/// [`TenantMembers`] in the extensions of each request.
pub(crate) async fn to_member_world(request: Request, next: Next) -> Response {
    let tenant_members = request.extensions().get::<Arc<TenantMembers>>().cloned();
    match tenant_members.zip(guard::member_of(&request)) {
        Some((tenant_members, member))
            if tenant_members.is_for_member(&member, request.method(), request.uri().path()) =>
        {
            tenant_members.answer(&member, request).await
        }
        _ => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::{Kind, Role};

    use super::*;

    #[test]
    fn only_complete_segments_of_a_path_match() {
        assert!(
            is_below("/mcp", &MEMBER_PATHS)
                && is_below("/mcp/", &MEMBER_PATHS)
                && is_below("/api/v1/me/credentials", &MEMBER_PATHS)
        );
        for path in ["/mcpx", "/metrics", "/agents/a/mcp", "/api/v1/audit", "/api/v1/menu", "/api/v1/approvals"] {
            assert!(!is_below(path, &MEMBER_PATHS), "{path}");
        }
    }

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
