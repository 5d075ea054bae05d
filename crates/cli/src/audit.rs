//! Keeps what is called, connected and decided in the store, for `toolrack audit`.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;
use toolrack_config::{Audit, Interpolate};
use toolrack_host::{Fact, Witness};
use toolrack_store::{
    Store,
    audit::{AuditLog, KeepAudit},
};

/// How long the end of a command may wait for the last rows.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes the audit log of a world, from its first event on.
#[derive(Debug)]
pub(crate) struct Audited {
    store: Option<Store>,
    secrets: Arc<Interpolate>,
    /// The agent of every event that names no other.
    agent: Option<String>,
    keeper: OnceLock<AuditKeeper>,
    /// What is kept, as the settings say.
    keeps: Mutex<Audit>,
}

impl Audited {
    /// For a world in the name of `agent`, if it has one. Nothing is written without `store`.
    pub(crate) fn new(store: Option<Store>, secrets: Arc<Interpolate>, agent: Option<String>) -> Self {
        Self { store, secrets, agent, keeper: OnceLock::new(), keeps: Mutex::default() }
    }

    /// Applies the settings from now on.
    pub(crate) fn set(&self, keeps: Audit) {
        *self.keeps.lock().unwrap_or_else(PoisonError::into_inner) = keeps;
        if let Some(keeper) = self.keeper.get() {
            keeper.set(keeps);
        }
    }

    /// The witness of what happens in the name of `agent`, or of this world where none is named; `None` without a
    /// database.
    pub(crate) fn witness(&self, agent: Option<&str>) -> Option<Arc<dyn Witness>> {
        let store = self.store.as_ref()?;
        let keeper = self.keeper.get_or_init(|| {
            let keeper = AuditKeeper::start(store.clone(), Arc::clone(&self.secrets));
            keeper.set(*self.keeps.lock().unwrap_or_else(PoisonError::into_inner));
            keeper
        });
        Some(keeper.witness(agent.or(self.agent.as_deref())))
    }

    /// Writes what has happened until now, and ends. Waits at most two seconds.
    pub(crate) async fn close(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.close().await;
        }
    }
}

/// Starts the keeper only when there is a fact to write.
impl Witness for Audited {
    fn saw(&self, fact: Fact) {
        if let Some(witness) = self.witness(None) {
            witness.saw(fact);
        }
    }
}

/// Writes what a host does to the audit log while a command runs.
struct AuditKeeper {
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
    fn start(store: Store, secrets: Arc<Interpolate>) -> Self {
        let hide = Arc::new(move |text: &str| secrets.conceal(text).into_owned());
        let (log, writer) = AuditLog::new(store, hide);
        let mut task = JoinSet::new();
        task.spawn(writer.run());
        Self { log: Arc::new(log), task: Mutex::new(task) }
    }

    /// The witness of what happens in the name of `agent`.
    fn witness(&self, agent: Option<&str>) -> Arc<dyn Witness> {
        match agent {
            Some(agent) => self.log.of_agent(agent),
            None => Arc::<AuditLog>::clone(&self.log),
        }
    }

    /// Applies the settings from now on.
    fn set(&self, said: Audit) {
        self.log.set(said.arguments_in_full, KeepAudit { days: said.days, rows: said.rows });
    }

    /// Writes what has happened until now, and ends. Waits at most two seconds.
    async fn close(&self) {
        self.log.close();
        let mut task = mem::take(&mut *self.task.lock().unwrap_or_else(PoisonError::into_inner));
        if tokio::time::timeout(PATIENCE, task.join_next()).await.is_err() {
            tracing::warn!("the last rows of the audit log were not written in time");
        }
    }
}
