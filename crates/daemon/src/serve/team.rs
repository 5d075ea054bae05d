//! The team that a daemon serves, alone or as one of several replicas.

use std::{collections::BTreeSet, fmt, sync::Arc};

use axum::{Extension, Router, http::HeaderValue, middleware};
use futures::future::BoxFuture;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolrack_team::{Authority, FrontDoor, audit_export::AuditExportStatus};

use super::{
    services::{TeamDaemon, new_tenants},
    with_layer,
};
use crate::{
    gateway::Bounds,
    guard::{Guard, Members, host_of},
    removals::{DeleteMemberValues, Removals},
    replicas::{EndWorlds, NoIdentity, ReplicaOptions, Replicas, SiblingListener},
    tenants::{self, Tenants},
    worlds::MakeWorld,
};

/// The team that a daemon serves.
pub struct Team {
    /// The ids of its tenants.
    pub tenants: BTreeSet<String>,
    /// Finds the member to whom a token belongs. The daemon runs [`Authority::watch`].
    pub authority: Arc<Authority>,
    /// Signs members in, and gives tokens to OAuth clients.
    pub door: Arc<FrontDoor>,
    /// Makes the parts of a tenant's world (its host with its configuration) at the first request of a member.
    pub make_tenant_world: MakeWorld,
    /// Deletes the values that a removed member gave.
    pub delete_values: DeleteMemberValues,
    /// How far the export of the audit logs has come, for `/metrics` of the daemon. The caller runs the export.
    pub audit_export: Option<Arc<AuditExportStatus>>,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("tenants", &self.tenants).finish_non_exhaustive()
    }
}

impl Team {
    /// Makes this daemon one of several replicas that serve the team. It joins the others later, with
    /// [`ThisReplica::join`]. `ending` is cancelled when the daemon begins to end.
    ///
    /// # Errors
    /// [`NoIdentity`] when the replica cannot make its key, or cannot use it.
    pub(super) fn replica(
        &self,
        (options, listener): (ReplicaOptions, TcpListener),
        ending: &CancellationToken,
    ) -> Result<(Arc<Replicas>, SiblingListener), NoIdentity> {
        // The host of a URL is always a valid header value.
        let host = HeaderValue::from_str(&host_of(self.door.url())).unwrap_or(HeaderValue::from_static("localhost"));
        let (store, max_body_bytes) = (self.authority.store().clone(), Bounds::default().body_bytes);
        let replicas = Replicas::new(store, options, host, max_body_bytes, ending.clone())?;
        let siblings = SiblingListener::new(listener, &replicas)?;
        Ok((replicas, siblings))
    }

    /// Extends `router` for the team: sends the requests of members to the worlds of their tenants, and adds the front
    /// door (the sign-in of members). With a `replica`, from [`Self::replica`], forwards each request to the replica
    /// that serves its tenant (the tenant's home). Starts the tasks that watch tokens and removals in the task tracker
    /// of `daemon`.
    pub(super) fn serve(
        self,
        router: Router,
        guard: Guard,
        daemon: &TeamDaemon<'_>,
        replica: Option<(Arc<Replicas>, SiblingListener)>,
    ) -> ServeParts {
        let Self { tenants, authority, door, make_tenant_world, delete_values, audit_export } = self;
        let &TeamDaemon { world, tasks, .. } = daemon;
        let store = authority.store();
        let ending = &world.ending;
        let replicas = replica.as_ref().map(|(replicas, _)| Arc::clone(replicas));
        let router = match &replicas {
            Some(replicas) => with_layer(router, Extension(Arc::clone(replicas))),
            None => router,
        };
        if let Some(status) = audit_export {
            // Set once: a daemon serves one team.
            let _ = world.audit_export.set(status);
        }
        let tenants = new_tenants(daemon, tenants, make_tenant_world, replicas);
        let removals = Removals { store: store.clone(), tenants: Arc::clone(&tenants), delete_values };
        tasks.spawn(removals.run(authority.changes(), ending.clone()));
        tasks.spawn(Arc::clone(&authority).watch(ending.clone()));
        let to_tenant_world = middleware::from_fn_with_state(Arc::clone(&tenants), tenants::to_tenant_world);
        let router = with_layer(router, to_tenant_world).merge(door.router());
        let replica_tenants = Arc::clone(&tenants);
        let replica = replica.map(|(replicas, siblings)| ThisReplica { replicas, siblings, tenants: replica_tenants });
        ServeParts { router, guard: guard.with_team(Members::new(authority, door)), replica, tenants: Some(tenants) }
    }
}

/// What [`Team::serve`] returns for [`super::Daemon::start`]. Without a team, only the first two fields are set.
pub(super) struct ServeParts {
    pub(super) router: Router,
    pub(super) guard: Guard,
    pub(super) replica: Option<ThisReplica>,
    pub(super) tenants: Option<Arc<Tenants>>,
}

/// This daemon as one of several replicas.
pub(super) struct ThisReplica {
    replicas: Arc<Replicas>,
    siblings: SiblingListener,
    tenants: Arc<Tenants>,
}

/// The task that joins the other replicas, and writes heartbeats.
pub(super) struct HeartbeatTask {
    task: JoinSet<()>,
    leaving: DropGuard,
}

impl ThisReplica {
    /// Starts the task that joins the other replicas. The returned future uses `router` to answer the requests that
    /// they forward, until the daemon is `ending`.
    pub(super) fn join(self, router: &Router, ending: &CancellationToken) -> (BoxFuture<'static, ()>, HeartbeatTask) {
        let Self { replicas, siblings, tenants } = self;
        let leaving = CancellationToken::new();
        let end_worlds: EndWorlds = Box::new(move || {
            let tenants = Arc::clone(&tenants);
            Box::pin(async move { tenants.end_all().await })
        });
        let mut task = JoinSet::new();
        task.spawn(replicas.run(end_worlds, leaving.clone()));
        let serving = Box::pin(siblings.serve(router.clone(), ending.clone()));
        (serving, HeartbeatTask { task, leaving: leaving.drop_guard() })
    }
}

impl HeartbeatTask {
    /// Gives up all tenants that this replica serves, and returns when that is done or has failed. The caller must have
    /// ended the worlds of those tenants.
    pub(super) async fn leave(mut self) {
        drop(self.leaving);
        // The task has no result, and a panic in it is in the log.
        let _ = self.task.join_next().await;
    }
}
