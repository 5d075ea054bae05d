//! Makes the endpoints of a world (a host with its configuration, questions and events): the control API and the MCP
//! endpoint. They answer the requests to the world, and begin the worlds of its agents, members and sessions.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Instant,
};

use axum::{extract::Request, http::Extensions, response::Response};
use futures::future::BoxFuture;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use url::Url;

use super::ROUTES;
use crate::{
    agents::Agents,
    gateway::{Gateway, GatewayOptions},
    missing::MissingValues,
    replicas::Replicas,
    session_worlds::{self, SessionWorlds},
    tenant_members::{self, TenantMembers},
    tenants::Tenants,
    world::{MemberWorlds, World},
    worlds::{CommonParts, MakeWorld, MakeWorldEndpoints, WorldEndpoints, WorldParts, WorldTimeouts},
};

/// What all worlds of a daemon share: its settings, and when it began.
pub(super) struct DaemonSettings {
    /// When the daemon began.
    pub(super) daemon_began: Instant,
    /// The names that requests may have in `Host`.
    pub(super) hosts: Vec<String>,
    pub(super) address: SocketAddr,
    /// The URL of the dashboard for the members of a team.
    pub(super) team_url: Option<Url>,
    pub(super) timeouts: WorldTimeouts,
    /// The maximum number of sessions of one user that have worlds of their own.
    pub(super) session_worlds: usize,
}

/// The values that handlers of routes find in the extensions of a request to a world.
#[derive(Clone)]
pub(super) struct RouteExtensions {
    pub(super) world: Arc<World>,
    pub(super) gateway: Gateway,
    pub(super) agents: Option<Arc<Agents>>,
    pub(super) tenant_members: Option<Arc<TenantMembers>>,
    pub(super) sessions: Option<Arc<SessionWorlds>>,
}

impl RouteExtensions {
    /// Adds the values to the extensions of a request.
    pub(super) fn add_to(&self, extensions: &mut Extensions) {
        extensions.insert(Arc::clone(&self.world));
        extensions.insert(self.gateway.clone());
        // A world without agents has this extension, too, because handlers demand it.
        extensions.insert(self.agents.as_ref().map_or_else(Weak::new, Arc::downgrade));
        if let Some(tenant_members) = &self.tenant_members {
            extensions.insert(Arc::clone(tenant_members));
        }
        if let Some(sessions) = &self.sessions {
            extensions.insert(Arc::clone(sessions));
        }
    }

    /// Makes the endpoints of the world, which answer requests with these extensions.
    fn into_endpoints(self) -> WorldEndpoints {
        let gateway = self.gateway.clone();
        let handle = Arc::new(move |mut request: Request| -> BoxFuture<'static, Response> {
            self.add_to(request.extensions_mut());
            Box::pin(async move {
                let Ok(response) = ROUTES.clone().oneshot(request).await;
                response
            })
        });
        WorldEndpoints { handle, gateway }
    }
}

/// Returns a function that makes the endpoints of a world, and sets up the worlds of its agents, members and sessions,
/// if it has any.
pub(super) fn make_world_endpoints(settings: &Arc<DaemonSettings>) -> MakeWorldEndpoints {
    let settings = Arc::clone(settings);
    Arc::new(move |world, inner_worlds, tasks| {
        let gateway = Gateway::new(world.host.clone(), gateway_options(world, &settings));
        let agents = inner_worlds.make_agent_world.map(|make_parts| new_agents(&settings, world, make_parts, tasks));
        let tenant_members =
            inner_worlds.make_member_world.map(|make_parts| new_tenant_members(&settings, world, make_parts, tasks));
        if let Some(tenant_members) = &tenant_members {
            // Cannot fail, because it is set only here.
            let _ = world.member_worlds.set(member_worlds(tenant_members));
        }
        let sessions =
            inner_worlds.make_session_world.map(|make_parts| new_session_worlds(&settings, world, make_parts, tasks));
        RouteExtensions { world: Arc::clone(world), gateway, agents, tenant_members, sessions }.into_endpoints()
    })
}

/// The settings that the worlds of agents, members and sessions have in common. These worlds end when `world` ends.
fn common_parts(
    settings: &Arc<DaemonSettings>,
    world: &World,
    make_parts: MakeWorld,
    tasks: &TaskTracker,
) -> CommonParts {
    CommonParts {
        make_parts,
        make_endpoints: make_world_endpoints(settings),
        daemon_began: settings.daemon_began,
        timeouts: settings.timeouts,
        ending: world.ending.clone(),
        tasks: tasks.clone(),
        base: None,
        question_log: None,
        limit: None,
    }
}

/// The agents of `world`. Their worlds end with it.
pub(super) fn new_agents(
    settings: &Arc<DaemonSettings>,
    world: &Arc<World>,
    make_parts: MakeWorld,
    tasks: &TaskTracker,
) -> Arc<Agents> {
    // The event log of a world gets the questions from the worlds of its agents as well.
    let common =
        CommonParts { question_log: Some(Arc::clone(&world.log)), ..common_parts(settings, world, make_parts, tasks) };
    let agents = Agents::new(Arc::clone(world), common);
    let weak_agents = Arc::downgrade(&agents);
    // Cannot fail, because it is set only here.
    let _ = world
        .agent_worlds
        .set(Box::new(move || weak_agents.upgrade().map(|agents| agents.worlds()).unwrap_or_default()));
    agents
}

/// The members of the tenant with the world `tenant_world`. Their worlds end with that world.
fn new_tenant_members(
    settings: &Arc<DaemonSettings>,
    tenant_world: &Arc<World>,
    make_parts: MakeWorld,
    tasks: &TaskTracker,
) -> Arc<TenantMembers> {
    let (base, limit) = (Some(Arc::clone(tenant_world)), Some(tenant_members::WORLD_LIMIT));
    let common = CommonParts { base, limit, ..common_parts(settings, tenant_world, make_parts, tasks) };
    TenantMembers::new(Arc::clone(tenant_world), common)
}

/// The sessions of the clients of one user. `user_world` is the world of that user; the worlds of the sessions end with
/// it.
pub(super) fn new_session_worlds(
    settings: &Arc<DaemonSettings>,
    user_world: &Arc<World>,
    make_parts: MakeWorld,
    tasks: &TaskTracker,
) -> Arc<SessionWorlds> {
    let (base, limit) = (Some(Arc::clone(user_world)), Some(session_worlds::world_limit(settings.session_worlds)));
    let common = CommonParts { base, limit, ..common_parts(settings, user_world, make_parts, tasks) };
    let sessions = SessionWorlds::new(Arc::clone(user_world), common);
    let weak_sessions = Arc::downgrade(&sessions);
    // Cannot fail, because it is set only here.
    let _ = user_world
        .session_worlds
        .set(Box::new(move || weak_sessions.upgrade().map(|sessions| sessions.running()).unwrap_or_default()));
    sessions
}

/// Controls the worlds of members. Does nothing once `tenant_members` was dropped.
fn member_worlds(tenant_members: &Arc<TenantMembers>) -> MemberWorlds {
    let (weak_for_end, weak_for_reload) = (Arc::downgrade(tenant_members), Arc::downgrade(tenant_members));
    MemberWorlds {
        end: Box::new(move |member| {
            let tenant_members = weak_for_end.upgrade();
            Box::pin(async move {
                if let Some(tenant_members) = tenant_members {
                    tenant_members.end(&member).await;
                }
            })
        }),
        reload: Box::new(move |member| {
            let tenant_members = weak_for_reload.upgrade();
            Box::pin(async move {
                if let Some(tenant_members) = tenant_members {
                    tenant_members.reload(&member).await;
                }
            })
        }),
    }
}

/// The daemon that serves a team.
pub(super) struct TeamDaemon<'a> {
    pub(super) settings: &'a Arc<DaemonSettings>,
    pub(super) world: &'a Arc<World>,
    pub(super) tasks: &'a TaskTracker,
}

/// The tenants `ids` of a team. Their worlds end with the daemon's own world, which gets none of their events.
pub(super) fn new_tenants(
    daemon: &TeamDaemon<'_>,
    ids: BTreeSet<String>,
    make_parts: MakeWorld,
    replicas: Option<Arc<Replicas>>,
) -> Arc<Tenants> {
    let make_parts = match &replicas {
        Some(replicas) => leave_home_after_end(make_parts, Arc::clone(replicas), daemon.world.ending.clone()),
        None => make_parts,
    };
    Tenants::new(ids, common_parts(daemon.settings, daemon.world, make_parts, daemon.tasks), replicas)
}

/// Extends `make_parts`: when the world of a tenant has ended because the daemon ends, this replica stops being the
/// home of the tenant (the replica that serves it). When the world has ended for another reason, the replica stays the
/// home, and the next request begins a new world.
fn leave_home_after_end(make_parts: MakeWorld, replicas: Arc<Replicas>, ending: CancellationToken) -> MakeWorld {
    Box::new(move |tenant, member| {
        let (parts_future, replicas, ending) =
            (make_parts(tenant.clone(), member), Arc::clone(&replicas), ending.clone());
        Box::pin(async move {
            let parts = parts_future.await?;
            let after_end = async move {
                parts.after_end.await;
                if ending.is_cancelled() {
                    replicas.leave_home(&tenant).await;
                }
            };
            Ok(WorldParts { after_end: Box::pin(after_end), ..parts })
        })
    })
}

/// Returns the name of a host that may have a port behind it. The guard compares hosts with their ports; the gateway
/// then compares only names, for any port.
fn without_port(host: &str) -> String {
    let url = Url::parse(&format!("http://{host}/")).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or(host).to_owned()
}

/// The options of the gateway of `world`. If a client cannot be asked a question, the question waits with the other
/// questions of the world.
pub(super) fn gateway_options(world: &Arc<World>, settings: &DaemonSettings) -> GatewayOptions {
    GatewayOptions {
        asker: Some(Arc::new(world.questions.clone())),
        agent: world.questions.agent().map(Arc::from),
        secrets: Some(Arc::clone(&world.secrets)),
        profiles: world.profiles.clone(),
        missing_values: MissingValues::of_member(world, settings.team_url.as_ref()),
        // The guard has put the principal into the extensions of each request.
        default_principal: None,
        hosts: settings
            .hosts
            .iter()
            .map(|host| without_port(host))
            .chain([settings.address.ip().to_string()])
            .collect(),
        ..GatewayOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn the_name_of_a_host_is_what_stands_before_its_port() {
        for (host, name) in [
            ("tools.example", "tools.example"),
            ("tools.example:8443", "tools.example"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("[2001:db8::1]:8443", "[2001:db8::1]"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
