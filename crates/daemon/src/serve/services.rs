//! Makes the services of a world (a host with its configuration, questions and events). They answer the requests to the
//! world, and make the worlds of its agents, members and sessions.

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
    worlds::{Common, MakeServing, MakeWorld, Serving, WorldParts, WorldTimeouts},
};

/// What all worlds of a daemon share: its settings, and when it began.
pub(super) struct Site {
    /// When the daemon began.
    pub(super) began: Instant,
    /// The names that requests may have in `Host`.
    pub(super) hosts: Vec<String>,
    pub(super) address: SocketAddr,
    /// The URL of the dashboard for the members of a team.
    pub(super) team_url: Option<Url>,
    pub(super) times: WorldTimeouts,
    /// The maximum number of sessions of one user that have worlds of their own.
    pub(super) session_worlds: usize,
}

/// The values that the routes find in the extensions of a request to a world.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) world: Arc<World>,
    pub(super) gateway: Gateway,
    pub(super) agents: Option<Arc<Agents>>,
    pub(super) tenant_members: Option<Arc<TenantMembers>>,
    pub(super) sessions: Option<Arc<SessionWorlds>>,
}

impl Services {
    pub(super) fn add_to(&self, extensions: &mut Extensions) {
        extensions.insert(Arc::clone(&self.world));
        extensions.insert(self.gateway.clone());
        extensions.insert(self.agents.as_ref().map_or_else(Weak::new, Arc::downgrade));
        if let Some(tenant_members) = &self.tenant_members {
            extensions.insert(Arc::clone(tenant_members));
        }
        if let Some(sessions) = &self.sessions {
            extensions.insert(Arc::clone(sessions));
        }
    }

    fn into_serving(self) -> Serving {
        let gateway = self.gateway.clone();
        let answers = Arc::new(move |mut request: Request| -> BoxFuture<'static, Response> {
            self.add_to(request.extensions_mut());
            Box::pin(async move {
                let Ok(response) = ROUTES.clone().oneshot(request).await;
                response
            })
        });
        Serving { answers, gateway }
    }
}

/// Makes the services of a world: the control API, the MCP endpoint, and the worlds of its agents, if it has any.
pub(super) fn services(site: &Arc<Site>) -> MakeServing {
    let site = Arc::clone(site);
    Arc::new(move |world, inner_worlds, tasks| {
        let gateway = Gateway::new(world.host.clone(), gateway_options(world, &site));
        let agents = inner_worlds.make_agent_world.map(|make| agents_of(&site, world, make, tasks));
        let tenant_members = inner_worlds.make_member_world.map(|make| tenant_members_of(&site, world, make, tasks));
        if let Some(tenant_members) = &tenant_members {
            // Cannot fail, because it is set only here.
            let _ = world.members.set(control_of(tenant_members));
        }
        let sessions = inner_worlds.make_session_world.map(|make| sessions_of(&site, world, make, tasks));
        Services { world: Arc::clone(world), gateway, agents, tenant_members, sessions }.into_serving()
    })
}

/// The settings that the worlds of agents, members and sessions have in common. These worlds end when `world` ends.
fn common(site: &Arc<Site>, world: &World, make: MakeWorld, tasks: &TaskTracker) -> Common {
    Common {
        make,
        make_serving: services(site),
        daemon_began: site.began,
        times: site.times,
        ending: world.ending.clone(),
        tasks: tasks.clone(),
        base: None,
        log: None,
        bound: None,
    }
}

/// The agents of `world`. Their worlds end with it.
pub(super) fn agents_of(site: &Arc<Site>, world: &Arc<World>, make: MakeWorld, tasks: &TaskTracker) -> Arc<Agents> {
    // The event log of a world gets the questions from the worlds of its agents as well.
    let common = Common { log: Some(Arc::clone(&world.log)), ..common(site, world, make, tasks) };
    let agents = Agents::new(Arc::clone(world), common);
    let running = Arc::downgrade(&agents);
    // Cannot fail, because it is set only here.
    let _ = world.agents.set(Box::new(move || running.upgrade().map(|agents| agents.worlds()).unwrap_or_default()));
    agents
}

/// The members of the tenant with the world `tenant`. Their worlds end with that world.
fn tenant_members_of(
    site: &Arc<Site>,
    tenant: &Arc<World>,
    make: MakeWorld,
    tasks: &TaskTracker,
) -> Arc<TenantMembers> {
    let (base, bound) = (Some(Arc::clone(tenant)), Some(tenant_members::MAX_WORLDS));
    let common = Common { base, bound, ..common(site, tenant, make, tasks) };
    TenantMembers::new(Arc::clone(tenant), common)
}

/// The sessions of the clients of one user. `user` is the world of that user; the worlds of the sessions end with it.
pub(super) fn sessions_of(
    site: &Arc<Site>,
    user: &Arc<World>,
    make: MakeWorld,
    tasks: &TaskTracker,
) -> Arc<SessionWorlds> {
    let (base, bound) = (Some(Arc::clone(user)), Some(session_worlds::bound(site.session_worlds)));
    let common = Common { base, bound, ..common(site, user, make, tasks) };
    let sessions = SessionWorlds::new(Arc::clone(user), common);
    let running = Arc::downgrade(&sessions);
    // Cannot fail, because it is set only here.
    let _ =
        user.sessions.set(Box::new(move || running.upgrade().map(|sessions| sessions.running()).unwrap_or_default()));
    sessions
}

/// Controls the worlds of members. Does nothing once `tenant_members` was dropped.
fn control_of(tenant_members: &Arc<TenantMembers>) -> MemberWorlds {
    let (to_end, to_reload) = (Arc::downgrade(tenant_members), Arc::downgrade(tenant_members));
    MemberWorlds {
        end: Box::new(move |member| {
            let tenant_members = to_end.upgrade();
            Box::pin(async move {
                if let Some(tenant_members) = tenant_members {
                    tenant_members.end(&member).await;
                }
            })
        }),
        reload: Box::new(move |member| {
            let tenant_members = to_reload.upgrade();
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
    pub(super) site: &'a Arc<Site>,
    pub(super) world: &'a Arc<World>,
    pub(super) tasks: &'a TaskTracker,
}

/// The tenants `ids` of a team. Their worlds end with the daemon's own world, which gets none of their events.
pub(super) fn tenants_of(
    daemon: &TeamDaemon<'_>,
    ids: BTreeSet<String>,
    make: MakeWorld,
    replicas: Option<Arc<Replicas>>,
) -> Arc<Tenants> {
    let make = match &replicas {
        Some(replicas) => leave_home_after_end(make, Arc::clone(replicas), daemon.world.ending.clone()),
        None => make,
    };
    Tenants::new(ids, common(daemon.site, daemon.world, make, daemon.tasks), replicas)
}

/// Extends `make`: when the world of a tenant has ended because the daemon ends, this replica stops being the home of
/// the tenant (the replica that serves it). When the world has ended for another reason, the replica stays the home,
/// and the next request begins a new world.
fn leave_home_after_end(make: MakeWorld, replicas: Arc<Replicas>, ending: CancellationToken) -> MakeWorld {
    Box::new(move |tenant, member| {
        let (made, replicas, ending) = (make(tenant.clone(), member), Arc::clone(&replicas), ending.clone());
        Box::pin(async move {
            let parts = made.await?;
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

/// The options of the gateway of `world`. If a client cannot be asked a question, the question waits with the other
/// questions of the world.
pub(super) fn gateway_options(world: &Arc<World>, site: &Site) -> GatewayOptions {
    // The gateway compares only names, for any port.
    let name = |host: &String| host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name).to_owned();
    GatewayOptions {
        asker: Some(Arc::new(world.questions.clone())),
        agent: world.questions.agent().map(Arc::from),
        secrets: Some(Arc::clone(&world.secrets)),
        profiles: world.profiles.clone(),
        missing: MissingValues::of_member(world, site.team_url.as_ref()),
        unproven: None,
        hosts: site.hosts.iter().map(name).chain([site.address.ip().to_string()]).collect(),
        ..GatewayOptions::default()
    }
}
