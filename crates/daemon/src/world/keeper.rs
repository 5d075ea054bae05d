//! The one task that changes the world: it hears of files that changed and of what people order, one after another.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};
use toolrack_config::{Loaded, Problem, Rejected, Request, Watch, reload, trust::Candidate};
use toolrack_store::Approval;

use super::{NotReloaded, World};
use crate::api::Problem as ShownProblem;

/// What can be ordered.
pub(super) enum Order {
    /// Read the configuration again.
    Reload(oneshot::Sender<Result<(), NotReloaded>>),
    /// Apply what was read, of which something else is to run now.
    Apply(oneshot::Sender<Result<(), NotReloaded>>),
}

pub(super) struct Keeper {
    world: Arc<World>,
    inbox: mpsc::Receiver<Order>,
    before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    changed: Arc<Notify>,
    /// `None` where files cannot be watched: then only orders are heard.
    watch: Option<Watch>,
}

impl Keeper {
    pub(super) fn new(
        world: Arc<World>,
        inbox: mpsc::Receiver<Order>,
        before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let tells = Arc::clone(&changed);
        let watch = match Watch::new(move || tells.notify_one()) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!("{error}; changes are applied when somebody asks for it");
                None
            }
        };
        let mut keeper = Self { world, inbox, before_applying, changed, watch };
        keeper.follow();
        keeper
    }

    /// Applies the first world, and what comes after it until the daemon ends.
    pub(super) async fn run(mut self) {
        let ending = self.world.ending.clone();
        self.apply().await;
        self.world.applied.send_replace(true);
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = self.changed.notified() => drop(self.reload().await),
                order = self.inbox.recv() => match order {
                    Some(Order::Reload(done)) => drop(done.send(self.reload().await)),
                    Some(Order::Apply(done)) => {
                        self.apply().await;
                        let _ = done.send(Ok(()));
                    }
                    None => return,
                },
            }
        }
    }

    /// Makes what runs what should run.
    async fn apply(&self) {
        (self.before_applying)(&self.world.loaded());
        self.world.host.apply(self.world.desired()).await;
    }

    async fn reload(&mut self) -> Result<(), NotReloaded> {
        let before = self.world.loaded();
        let approvals = match self.world.approvals().await {
            Ok(approvals) => approvals,
            Err(error) => return self.reject(vec![Problem::error(error.to_string())]),
        };
        match load(&self.world.request, approvals, Some(Arc::clone(&before))).await {
            Ok(loaded) => {
                self.world.rejected.store(Arc::default());
                let changes = changes(&before, &loaded);
                self.world.loaded.store(Arc::new(loaded));
                self.world.release_removed();
                self.apply().await;
                self.follow();
                if !changes.is_null() {
                    self.world.log.add("config_changed", &changes);
                }
                Ok(())
            }
            Err(rejected) => self.reject(rejected.problems),
        }
    }

    fn reject(&self, problems: Vec<Problem>) -> Result<(), NotReloaded> {
        for problem in &problems {
            tracing::warn!("the configuration was not changed: {problem}");
        }
        let shown: Vec<_> = problems.iter().map(ShownProblem::from).collect();
        self.world.log.add("config_rejected", &json!({ "problems": shown }));
        self.world.rejected.store(Arc::new(problems.clone()));
        Err(NotReloaded::Rejected(problems))
    }

    fn follow(&mut self) {
        let loaded = self.world.loaded();
        if let Some(watch) = &mut self.watch {
            watch.follow(loaded.files.iter().map(|file| file.path.as_path()));
        }
    }
}

/// Reads files where it disturbs nobody.
pub(super) async fn load(
    request: &Request,
    approvals: Vec<Approval>,
    before: Option<Arc<Loaded>>,
) -> Result<Loaded, Rejected> {
    let request = request.clone();
    let read = tokio::task::spawn_blocking(move || {
        let ledger = move |candidate: &Candidate<'_>| {
            approvals.iter().any(|approval| approval.covers(candidate.project, candidate.name, candidate.hash))
        };
        match before {
            Some(before) => reload(&request, &ledger, &before),
            None => Ok(toolrack_config::load(&request, &ledger)),
        }
    });
    match read.await {
        Ok(loaded) => loaded,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The program is ending; nobody waits for the answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Which servers are others now, by name, and which agents there are, if those are others; `null` when nothing is.
fn changes(before: &Loaded, after: &Loaded) -> serde_json::Value {
    let of = |loaded: &Loaded| -> BTreeMap<String, (String, bool, bool, bool)> {
        let facts = loaded.entries.iter().map(|entry| {
            let is_trusted = entry.trust == toolrack_host::spec::Trust::Trusted;
            (entry.name.clone(), (entry.hash.clone(), entry.enabled, is_trusted, entry.is_valid))
        });
        facts.collect()
    };
    let (same_agents, after_agents) = (before.agents == after.agents, &after.agents);
    let (before, after) = (of(before), of(after));
    let added: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    let removed: Vec<_> = before.keys().filter(|name| !after.contains_key(*name)).collect();
    let differs = |(name, facts): &(&String, &_)| before.get(*name).is_some_and(|before| before != *facts);
    let changed: Vec<_> = after.iter().filter(differs).map(|(name, _)| name).collect();
    let mut changes = json!({ "added": added, "changed": changed, "removed": removed });
    if !same_agents {
        changes["agents"] = json!(after_agents);
    } else if added.is_empty() && removed.is_empty() && changed.is_empty() {
        return serde_json::Value::Null;
    }
    changes
}
