//! Keeps what is called, connected and decided in the store, for `toolrack audit`.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;
use toolrack_config::{Audit, Interpolate};
use toolrack_host::Witness;
use toolrack_store::{
    Store,
    audit::{AuditLog, KeepAudit},
};

/// How long the end of a command may wait for the last rows.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes down what a host does while a command runs.
pub(crate) struct AuditKeeper {
    log: Arc<AuditLog>,
    task: Mutex<JoinSet<()>>,
}

impl fmt::Debug for AuditKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditKeeper").finish_non_exhaustive()
    }
}

impl AuditKeeper {
    /// Begins. Nothing is written before something happens.
    pub(crate) fn start(store: Store, secrets: Arc<Interpolate>) -> Self {
        let hide = Arc::new(move |text: &str| secrets.conceal(text).into_owned());
        let (log, writer) = AuditLog::new(store, hide);
        let mut task = JoinSet::new();
        task.spawn(writer.run());
        Self { log: Arc::new(log), task: Mutex::new(task) }
    }

    /// Who is told what happens.
    pub(crate) fn witness(&self) -> Arc<dyn Witness> {
        Arc::<AuditLog>::clone(&self.log)
    }

    /// What the settings say, from now on.
    pub(crate) fn settings(&self) -> impl Fn(Audit) + Send + Sync + use<> {
        let log = Arc::clone(&self.log);
        move |said| log.set(said.arguments_in_full, KeepAudit { days: said.days, rows: said.rows })
    }

    /// Writes what has happened until now, and ends. Waits at most two seconds.
    pub(crate) async fn close(&self) {
        self.log.close();
        let mut task = mem::take(&mut *self.task.lock().unwrap_or_else(PoisonError::into_inner));
        if tokio::time::timeout(PATIENCE, task.join_next()).await.is_err() {
            tracing::warn!("the last rows of the audit log were not written in time");
        }
    }
}
