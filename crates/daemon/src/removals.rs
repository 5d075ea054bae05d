//! Ends the servers of removed members, and deletes the values that they gave for these servers. Both have the key of the
//! membership that ended, so nothing of a later one is touched.
//!
//! The store of the team notes each removal until that is done, so that it is done also when the daemon did not run at the
//! time of the removal.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use toolrack_store::{RemovedMember, TeamStore};

use crate::tenants::Tenants;

/// How long the servers of a member may take to end. A value that they store after that stays.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after which the daemon tries again to delete a value.
const AGAIN: Duration = Duration::from_mins(1);

/// Deletes what a member gave, by the tenant and the [key](toolrack_host::Principal::key) of the member. An error is for
/// the operator.
pub type Forget = Box<dyn Fn(String, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

pub(crate) struct Removals {
    pub(crate) store: TeamStore,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) forget: Forget,
}

impl Removals {
    /// Deletes the values of removed members at the start and after each change of the team, until `ending`.
    pub(crate) async fn run(self, mut changes: watch::Receiver<()>, ending: CancellationToken) {
        loop {
            let is_done = tokio::select! {
                is_done = self.round() => is_done,
                () = ending.cancelled() => return,
            };
            tokio::select! {
                () = ending.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = sleep(AGAIN), if !is_done => {}
            }
        }
    }

    /// Deletes the values of all members who were removed since; returns whether none is left.
    async fn round(&self) -> bool {
        let removed = match self.store.removed_members().await {
            Ok(removed) => removed,
            Err(error) => {
                tracing::warn!("{error}: what removed members gave is deleted later");
                return false;
            }
        };
        let mut is_done = true;
        // The values of a tenant that left the team file wait until it is back.
        for removed in removed.iter().filter(|removed| self.tenants.has(&removed.tenant)) {
            if let Err(why) = self.forget(removed).await {
                tracing::warn!("what a removed member of `{}` gave is deleted later: {why}", removed.tenant);
                is_done = false;
            }
        }
        is_done
    }

    async fn forget(&self, removed: &RemovedMember) -> Result<(), String> {
        let (tenant, member) = (&removed.tenant, removed.key());
        // A server that still runs could have its token renewed, and stored again.
        if timeout(PATIENCE, self.tenants.end_member(tenant, &member)).await.is_err() {
            tracing::warn!("servers of a removed member of `{tenant}` take long to end");
        }
        (self.forget)(tenant.clone(), member).await?;
        self.store.forgot_member(removed).await.map_err(|error| error.to_string())
    }
}
