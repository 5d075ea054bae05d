//! The keeper is the only task that changes a world (a host with its configuration, questions and events). It handles
//! changes of files and orders one after another.

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
use toolrack_config::{Loaded, Problem, Rejected, Request, Scope, Watch, Watcher, reload, trust::Candidate};
use toolrack_store::Approval;

use super::{NotReloaded, World};
use crate::{credentials::WorldKind, event_log::Audience, own_servers::with_own_servers, shown};

/// How long a missing file may take to reappear: some editors delete a file and write it again.
const REAPPEAR_TIMEOUT: Duration = Duration::from_secs(1);

/// An order to the keeper.
pub(super) enum Order {
    /// Read the configuration again. The sender gets the outcome.
    Reload(oneshot::Sender<Result<(), NotReloaded>>),
    /// Stop a server, or let it run again, without changing a file.
    SetStopped { name: String, is_stopped: bool, outcome_sender: oneshot::Sender<Result<(), NotReloaded>> },
}

/// The world whose configuration this world uses.
pub(super) struct BaseWorld {
    pub(super) world: Arc<World>,
    /// Changes each time that world applies its configuration.
    pub(super) applied: watch::Receiver<bool>,
}

/// The state of the task that changes a world.
pub(super) struct Keeper {
    world: Arc<World>,
    /// `None` for a world that watches its files itself.
    base: Option<BaseWorld>,
    inbox: mpsc::Receiver<Order>,
    before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    /// Notified when a watched file has changed.
    files_changed: Arc<Notify>,
    /// `None` for a world with a base, which reloads when the base has applied its configuration.
    watch: Option<Watch>,
}

impl Keeper {
    pub(super) fn new(
        world: Arc<World>,
        base: Option<BaseWorld>,
        watcher: &Watcher,
        inbox: mpsc::Receiver<Order>,
        before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
    ) -> Self {
        let files_changed = Arc::new(Notify::new());
        let notify = Arc::clone(&files_changed);
        let watch = base.is_none().then(|| watcher.watch(move || notify.notify_one()));
        let mut keeper = Self { world, base, inbox, before_applying, files_changed, watch };
        keeper.watch_files();
        keeper
    }

    /// Returns whether a configuration file is missing that had servers when it was last read.
    async fn is_file_missing(&self) -> bool {
        let before = self.world.loaded();
        // If the check itself fails, the keeper reads the files without waiting.
        tokio::task::spawn_blocking(move || before.is_file_missing()).await.unwrap_or(false)
    }

    /// Applies the first configuration, and handles changes until the world ends. [`Self::reload`] itself reports files
    /// that cannot be used, so its result is dropped, except that the sender of an order gets the result.
    pub(super) async fn run(mut self) {
        let ending = self.world.ending.clone();
        self.apply().await;
        let mut missing_file = MissingFileTimer::default();
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = self.files_changed.notified() => {
                    if !missing_file.wait_if(self.is_file_missing().await) {
                        drop(self.reload().await);
                    }
                }
                () = missing_file.expired() => drop(self.reload().await),
                () = base_applied(self.base.as_mut()) => drop(self.reload().await),
                order = self.inbox.recv() => match order {
                    Some(Order::Reload(outcome_sender)) => drop(outcome_sender.send(self.reload().await)),
                    Some(Order::SetStopped { name, is_stopped, outcome_sender }) => {
                        self.set_stopped(name, is_stopped).await;
                        // Fails only if the sender of the order no longer waits.
                        let _ = outcome_sender.send(Ok(()));
                    }
                    None => return,
                },
            }
        }
    }

    /// Makes the host run the servers of the loaded configuration, except those that a user stopped.
    async fn apply(&self) {
        if let (WorldKind::Session(_), Some(base)) = (&self.world.kind, &self.base) {
            // A server that the user stops in their world stops in the user's sessions as well.
            self.world.stopped_servers.store(base.world.stopped_names());
        }
        (self.before_applying)(&self.world.loaded());
        self.world.profiles.set(self.world.loaded().settings.profiles.clone());
        self.world.host.apply(self.world.desired()).await;
        // Notifies even if it was `true` before, because worlds with this base wait for each application.
        self.world.applied.send_replace(true);
    }

    /// Stops the server `name`, or lets it run again.
    async fn set_stopped(&self, name: String, is_stopped: bool) {
        let mut stopped_servers = BTreeSet::clone(&self.world.stopped_servers.load());
        match is_stopped {
            true => stopped_servers.insert(name),
            false => stopped_servers.remove(&name),
        };
        self.world.stopped_servers.store(Arc::new(stopped_servers));
        self.apply().await;
    }

    /// Forgets which servers users stopped, for servers that are no longer configured. So a later entry of the same
    /// name runs.
    fn forget_removed_stops(&self) {
        let loaded = self.world.loaded();
        let mut stopped_servers = BTreeSet::clone(&self.world.stopped_servers.load());
        stopped_servers.retain(|name| loaded.entry(name).is_some());
        self.world.stopped_servers.store(Arc::new(stopped_servers));
    }

    /// Loads the configuration again and applies it. If the files cannot be used, the old configuration stays.
    async fn reload(&mut self) -> Result<(), NotReloaded> {
        let before = self.world.loaded();
        match self.load(&before).await {
            Ok(loaded) => {
                self.world.file_problems.store(Arc::default());
                let scope = self.base.as_ref().map(|_| Scope::Member);
                let changes = describe_changes(&before, &loaded, scope);
                self.world.loaded.store(loaded);
                self.forget_removed_stops();
                self.apply().await;
                self.watch_files();
                if !changes.is_null() {
                    self.world.log.add("config_changed", Audience::Operators, &changes);
                }
                Ok(())
            }
            Err(problems) => self.reject(problems),
        }
    }

    /// Reads the files, with the servers that the member has added. A world with a base reads no files if the member
    /// has added no servers: it takes over the configuration of the base.
    async fn load(&self, before: &Arc<Loaded>) -> Result<Arc<Loaded>, Vec<Problem>> {
        let request =
            with_own_servers(&self.world.load_request, self.world.own_servers.as_deref(), &self.world.kind).await;
        if let Some(base) = self.base.as_ref().filter(|_| request.of_member.is_empty()) {
            return Ok(base.world.loaded());
        }
        let approvals = self.world.approvals().await.map_err(|error| vec![Problem::error(error.to_string())])?;
        let loaded = load(&request, approvals, Some(Arc::clone(before))).await;
        loaded.map(Arc::new).map_err(|rejected| rejected.problems)
    }

    /// Reports why the files cannot be used.
    fn reject(&self, problems: Vec<Problem>) -> Result<(), NotReloaded> {
        for problem in &problems {
            tracing::warn!("the configuration was not changed: {problem}");
        }
        let shown_problems: Vec<_> = problems.iter().map(shown::Problem::from).collect();
        self.world.log.add("config_rejected", Audience::Operators, &json!({ "problems": shown_problems }));
        self.world.file_problems.store(Arc::new(problems.clone()));
        Err(NotReloaded::Rejected(problems))
    }

    /// Watches the files of the loaded configuration, and the files that its entries name.
    fn watch_files(&mut self) {
        let loaded = self.world.loaded();
        if let Some(watch) = &mut self.watch {
            let named_by_entries = loaded.entries.iter().flat_map(|entry| &entry.files).map(PathBuf::as_path);
            watch.follow(loaded.files.iter().map(|file| file.path.as_path()).chain(named_by_entries));
        }
    }
}

/// Waits until `base` applies its configuration. Waits forever without a base, and after the end of the base's world,
/// which ends this world as well.
async fn base_applied(base: Option<&mut BaseWorld>) {
    let is_applied = match base {
        Some(base) => base.applied.changed().await.is_ok(),
        None => false,
    };
    if !is_applied {
        std::future::pending().await
    }
}

/// Gives a missing file some time to reappear.
#[derive(Debug, Default)]
struct MissingFileTimer {
    deadline: Option<Instant>,
}

impl MissingFileTimer {
    /// Starts the timer if a file is missing, and stops the timer if not. Returns whether to wait.
    fn wait_if(&mut self, is_missing: bool) -> bool {
        if is_missing {
            self.deadline.get_or_insert_with(|| Instant::now() + REAPPEAR_TIMEOUT);
        } else {
            self.deadline = None;
        }
        is_missing
    }

    /// Returns when a missing file has not reappeared in time. Never returns while no file is missing.
    async fn expired(&mut self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
        self.deadline = None;
    }
}

/// Reads the configuration files on a blocking thread, and checks the entries of projects against `approvals`. With
/// `before`, the running configuration, unusable files are an error; without it, returns the part that is usable.
pub(super) async fn load(
    request: &Request,
    approvals: Vec<Approval>,
    before: Option<Arc<Loaded>>,
) -> Result<Loaded, Rejected> {
    let request = request.clone();
    let loading = tokio::task::spawn_blocking(move || {
        let is_approved = move |candidate: &Candidate<'_>| {
            approvals.iter().any(|approval| approval.covers(candidate.project, candidate.name, candidate.hash))
        };
        match before {
            Some(before) => reload(&request, &is_approved, &before),
            None => Ok(toolrack_config::load(&request, &is_approved)),
        }
    });
    match loading.await {
        Ok(loaded) => loaded,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, so no task waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Describes a change of the configuration for the event log: the names of the changed servers, and the agents if they
/// have changed; `null` if nothing has changed. With a `scope`, describes only the servers of that scope: a world with
/// a base reports the servers that its member has added, and the base itself reports all other changes.
fn describe_changes(before: &Loaded, after: &Loaded, scope: Option<Scope>) -> serde_json::Value {
    // An entry has changed if its hash has changed, or whether it is enabled, trusted or valid.
    let facts_by_name = |loaded: &Loaded| -> BTreeMap<String, (String, bool, bool, bool)> {
        let in_scope = loaded.entries.iter().filter(|entry| scope.is_none_or(|scope| entry.scope == scope));
        let facts = in_scope.map(|entry| {
            let is_trusted = entry.trust == toolrack_host::spec::Trust::Trusted;
            (entry.name.clone(), (entry.hash.clone(), entry.enabled, is_trusted, entry.is_valid))
        });
        facts.collect()
    };
    let (has_same_agents, after_agents) = (scope.is_some() || before.agents == after.agents, &after.agents);
    let (before, after) = (facts_by_name(before), facts_by_name(after));
    let added: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    let removed: Vec<_> = before.keys().filter(|name| !after.contains_key(*name)).collect();
    let differs = |(name, facts): &(&String, &_)| before.get(*name).is_some_and(|before| before != *facts);
    let changed: Vec<_> = after.iter().filter(differs).map(|(name, _)| name).collect();
    let mut changes = json!({ "added": added, "changed": changed, "removed": removed });
    if !has_same_agents {
        changes["agents"] = json!(after_agents);
    } else if added.is_empty() && removed.is_empty() && changed.is_empty() {
        return serde_json::Value::Null;
    }
    changes
}

#[cfg(test)]
mod tests {
    use toolrack_config::{Places, trust::NoLedger};
    use toolrack_host::{Desired, ServerName, ServerSpec};

    use super::*;

    /// A configuration with these shared servers, and with these servers that a member has added.
    fn loaded(shared: &[&str], added: &[&str]) -> Loaded {
        let servers = |names: &[&str]| -> Desired {
            let server = |name: &&str| (ServerName::new(*name).unwrap(), ServerSpec::stdio("server", ["--stdio"]));
            names.iter().map(server).collect()
        };
        let request = Request::new(Places::under("/no/such/folder"), "/no/such/folder");
        let request = Request { built_in: servers(shared), of_member: servers(added), ..request };
        toolrack_config::load(&request, &NoLedger)
    }

    #[test]
    fn a_world_with_a_base_reports_changes_of_its_member_s_servers_alone() {
        let (before, after) = (loaded(&["git"], &["old"]), loaded(&["git", "db"], &["new"]));
        let all = json!({ "added": ["db", "new"], "changed": [], "removed": ["old"] });
        assert_eq!(describe_changes(&before, &after, None), all);
        let of_member = json!({ "added": ["new"], "changed": [], "removed": ["old"] });
        assert_eq!(describe_changes(&before, &after, Some(Scope::Member)), of_member);
        let only_shared = (loaded(&["git"], &["old"]), loaded(&["db"], &["old"]));
        assert!(describe_changes(&only_shared.0, &only_shared.1, Some(Scope::Member)).is_null());
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_file_has_a_second_to_reappear() {
        let mut timer = MissingFileTimer::default();
        let begin = Instant::now();
        assert!(timer.wait_if(true), "the servers of the missing file keep running");
        tokio::time::advance(REAPPEAR_TIMEOUT / 2).await;
        assert!(timer.wait_if(true), "another change does not restart the timer");
        timer.expired().await;
        assert_eq!(begin.elapsed(), REAPPEAR_TIMEOUT);
        assert!(timer.wait_if(true));
        assert!(!timer.wait_if(false), "the file is back");
        let expired = tokio::time::timeout(REAPPEAR_TIMEOUT * 10, timer.expired()).await;
        assert!(expired.is_err(), "the timer has stopped");
    }
}
