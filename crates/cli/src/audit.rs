//! Records calls, connections and decisions in the store, for `toolrack audit`. The host reports each of them to a
//! witness, which this module provides. A team has tenants, each with servers and data of its own, and each tenant has
//! members: people and services.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;
use toolrack_config::{Audit, Interpolate};
use toolrack_host::Witness;
use toolrack_store::{
    Store,
    audit::{AuditLog, AuditRetention, Hide},
};

/// How long the end of a command may wait for the last rows.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes the audit log of one command, tenant or member. Writes nothing before the first event.
pub(crate) struct AuditRecorder {
    /// `None` without a database.
    log: Option<Arc<AuditLog>>,
    /// Events are recorded in the name of this agent, unless they name another agent.
    agent: Option<String>,
    /// Hides the secrets of the member of a tenant whose events these are; `None` for other events.
    hide_for_member: Option<Hide>,
    writer_tasks: TaskTracker,
}

impl fmt::Debug for AuditRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditRecorder").field("log", &self.log).field("agent", &self.agent).finish_non_exhaustive()
    }
}

fn hide(secrets: Arc<Interpolate>) -> Hide {
    Arc::new(move |text: &str| secrets.conceal(text).into_owned())
}

impl AuditRecorder {
    /// Creates a recorder, whose events name `agent` if it is given. Without `store`, it writes nothing.
    pub(crate) fn new(store: Option<Store>, secrets: Arc<Interpolate>, agent: Option<String>) -> Self {
        let writer_tasks = TaskTracker::new();
        let log = store.map(|store| {
            let (log, writer) = AuditLog::new(store, hide(secrets));
            writer_tasks.spawn(writer.run());
            Arc::new(log)
        });
        writer_tasks.close();
        Self { log, agent, hide_for_member: None, writer_tasks }
    }

    /// Returns a recorder for a member of the tenant. It hides the `secrets` of the member in addition to those of the
    /// tenant. The log of the tenant keeps the settings and writes the rows.
    pub(crate) fn for_member(&self, secrets: Arc<Interpolate>) -> Self {
        Self {
            log: self.log.clone(),
            agent: None,
            hide_for_member: Some(hide(secrets)),
            // The task that writes belongs to the recorder of the tenant.
            writer_tasks: TaskTracker::new(),
        }
    }

    /// Applies the settings from now on.
    pub(crate) fn apply_settings(&self, settings: Audit) {
        if let Some(log) = &self.log {
            log.set(settings.arguments_in_full, AuditRetention { days: settings.days, rows: settings.rows });
        }
    }

    /// Returns the witness (the observer that records events in the audit log) for `agent`. With `None`, the events are
    /// recorded for the agent of this log, if it has one. Returns `None` without a database.
    pub(crate) fn witness(&self, agent: Option<&str>) -> Option<Arc<dyn Witness>> {
        let log = self.log.as_ref()?;
        Some(match (&self.hide_for_member, agent.or(self.agent.as_deref())) {
            (Some(hide), _) => log.witness_for_member(Arc::clone(hide)),
            (None, Some(agent)) => log.witness_for_agent(agent),
            (None, None) => Arc::<AuditLog>::clone(log),
        })
    }

    /// Writes what has happened until now, and ends. Waits at most two seconds.
    pub(crate) async fn close(&self) {
        let Some(log) = &self.log else { return };
        log.close();
        if tokio::time::timeout(FLUSH_TIMEOUT, self.writer_tasks.wait()).await.is_err() {
            tracing::warn!("the last rows of the audit log were not written in time");
        }
    }
}
