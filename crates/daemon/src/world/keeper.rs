//! The one task that changes the world: it handles changed files and orders, one after another.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use toolrack_config::{Loaded, Problem, Rejected, Request, Watch, reload, trust::Candidate};
use toolrack_store::Approval;

use super::{NotReloaded, World};
use crate::{credentials::WorldOf, event_log::Audience, own_servers::with_own, shown};

/// How long a missing file may take to reappear: some editors delete a file and write it again.
const GRACE: Duration = Duration::from_secs(1);

/// An order to the keeper.
pub(super) enum Order {
    /// Read the configuration again.
    Reload(oneshot::Sender<Result<(), NotReloaded>>),
    /// Stop a server, or let it run again, without changing a file.
    Hold { name: String, hold: bool, done: oneshot::Sender<Result<(), NotReloaded>> },
}

/// Another world, whose configuration this world uses.
pub(super) struct Base {
    pub(super) world: Arc<World>,
    /// Notices each time that world applies its configuration.
    pub(super) applied: watch::Receiver<bool>,
}

pub(super) struct Keeper {
    world: Arc<World>,
    /// `None` for a world that reads files.
    base: Option<Base>,
    inbox: mpsc::Receiver<Order>,
    before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    changed: Arc<Notify>,
    /// `None` where files cannot be watched, or none are read: then only orders are handled.
    watch: Option<Watch>,
}

impl Keeper {
    pub(super) fn new(
        world: Arc<World>,
        base: Option<Base>,
        inbox: mpsc::Receiver<Order>,
        before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let tells = Arc::clone(&changed);
        let watch = match base.is_none().then(|| Watch::new(move || tells.notify_one())).transpose() {
            Ok(watch) => watch,
            Err(error) => {
                tracing::warn!("{error}; changes are applied on request");
                None
            }
        };
        let mut keeper = Self { world, base, inbox, before_applying, changed, watch };
        keeper.follow();
        keeper
    }

    /// Returns whether the change is that a file with servers is missing.
    async fn lacks_a_file(&self) -> bool {
        let before = self.world.loaded();
        tokio::task::spawn_blocking(move || before.lacks_a_file()).await.unwrap_or(false)
    }

    /// Applies the first world, and handles changes until the daemon ends.
    pub(super) async fn run(mut self) {
        let ending = self.world.ending.clone();
        self.apply().await;
        let mut patience = Patience::default();
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = self.changed.notified() => {
                    if !patience.waits(self.lacks_a_file().await) {
                        drop(self.reload().await);
                    }
                }
                () = patience.ends() => drop(self.reload().await),
                () = applied(self.base.as_mut()) => drop(self.reload().await),
                order = self.inbox.recv() => match order {
                    Some(Order::Reload(done)) => drop(done.send(self.reload().await)),
                    Some(Order::Hold { name, hold, done }) => {
                        self.hold(name, hold).await;
                        let _ = done.send(Ok(()));
                    }
                    None => return,
                },
            }
        }
    }

    /// Makes the host run what should run.
    async fn apply(&self) {
        if let (WorldOf::Session(_), Some(base)) = (&self.world.of, &self.base) {
            // A server that the user stops also stops in the user's sessions.
            self.world.held.store(base.world.held_names());
        }
        (self.before_applying)(&self.world.loaded());
        self.world.profiles.set(self.world.loaded().settings.profiles.clone());
        self.world.host.apply(self.world.desired()).await;
        self.world.applied.send_replace(true);
    }

    async fn hold(&self, name: String, hold: bool) {
        let mut held = BTreeSet::clone(&self.world.held.load());
        match hold {
            true => held.insert(name),
            false => held.remove(&name),
        };
        self.world.held.store(Arc::new(held));
        self.apply().await;
    }

    /// Removes stopped servers that are no longer configured from the list of stopped ones, so that a later entry of
    /// the same name runs.
    fn release_removed(&self) {
        let loaded = self.world.loaded();
        let mut held = BTreeSet::clone(&self.world.held.load());
        held.retain(|name| loaded.entry(name).is_some());
        self.world.held.store(Arc::new(held));
    }

    async fn reload(&mut self) -> Result<(), NotReloaded> {
        let before = self.world.loaded();
        match self.load(&before).await {
            Ok(loaded) => {
                self.world.rejected.store(Arc::default());
                let changes = changes(&before, &loaded);
                self.world.loaded.store(loaded);
                self.release_removed();
                self.apply().await;
                self.follow();
                if !changes.is_null() {
                    self.world.log.add("config_changed", Audience::Operators, &changes);
                }
                Ok(())
            }
            Err(problems) => self.reject(problems),
        }
    }

    /// Reads the files and the servers that the member has added. If the member has added none, takes over the
    /// configuration of the base.
    async fn load(&self, before: &Arc<Loaded>) -> Result<Arc<Loaded>, Vec<Problem>> {
        let request = with_own(&self.world.request, self.world.own_servers.as_deref(), &self.world.of).await;
        if let Some(base) = self.base.as_ref().filter(|_| request.of_member.is_empty()) {
            return Ok(base.world.loaded());
        }
        let approvals = self.world.approvals().await.map_err(|error| vec![Problem::error(error.to_string())])?;
        let loaded = load(&request, approvals, Some(Arc::clone(before))).await;
        loaded.map(Arc::new).map_err(|rejected| rejected.problems)
    }

    fn reject(&self, problems: Vec<Problem>) -> Result<(), NotReloaded> {
        for problem in &problems {
            tracing::warn!("the configuration was not changed: {problem}");
        }
        let shown: Vec<_> = problems.iter().map(shown::Problem::from).collect();
        self.world.log.add("config_rejected", Audience::Operators, &json!({ "problems": shown }));
        self.world.rejected.store(Arc::new(problems.clone()));
        Err(NotReloaded::Rejected(problems))
    }

    fn follow(&mut self) {
        let loaded = self.world.loaded();
        if let Some(watch) = &mut self.watch {
            let run = loaded.entries.iter().flat_map(|entry| &entry.files).map(PathBuf::as_path);
            watch.follow(loaded.files.iter().map(|file| file.path.as_path()).chain(run));
        }
    }
}

/// Waits until `base` applies its configuration. Waits forever without a base, and after the end of the base's world,
/// which ends this world as well.
async fn applied(base: Option<&mut Base>) {
    let is_applied = match base {
        Some(base) => base.applied.changed().await.is_ok(),
        None => false,
    };
    if !is_applied {
        std::future::pending().await
    }
}

/// Waits until a missing file reappears.
#[derive(Debug, Default)]
struct Patience {
    until: Option<Instant>,
}

impl Patience {
    /// Returns whether to wait before reading the changed files.
    fn waits(&mut self, is_gone: bool) -> bool {
        if is_gone {
            self.until.get_or_insert_with(|| Instant::now() + GRACE);
        } else {
            self.until = None;
        }
        is_gone
    }

    /// Resolves when a missing file has not come back in time; never while no file is missing.
    async fn ends(&mut self) {
        match self.until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
        self.until = None;
    }
}

/// Reads files on a blocking thread.
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
            // The program is ending; no task waits for the answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The names of the changed servers, and the agents if they have changed; `null` if nothing has changed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_gone_has_a_second_to_come_back() {
        let mut patience = Patience::default();
        let begin = Instant::now();
        assert!(patience.waits(true), "its servers stay");
        tokio::time::advance(GRACE / 2).await;
        assert!(patience.waits(true), "what else changes meanwhile does not make it longer");
        patience.ends().await;
        assert_eq!(begin.elapsed(), GRACE);
        assert!(patience.waits(true));
        assert!(!patience.waits(false), "it is back");
        let ends = tokio::time::timeout(GRACE * 10, patience.ends()).await;
        assert!(ends.is_err(), "nothing is waited for");
    }
}
