//! A world: a host with its configuration, the servers that run, the open questions, and what happened. The daemon has
//! its own world, and one for each agent, tenant, member and session that needs its own servers.

mod edits;
mod findings_cache;
mod keeper;
mod named;
mod retention;
mod sign_ins;
mod tally;
mod work_in_progress;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Instant,
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_agent::{Limits, Model};
use toolrack_config::{Environment, Interpolate, Loaded, Problem, Request, Watcher};
use toolrack_host::{Desired, Host, Principal, ServerName, ServerSpec};
use toolrack_store::{Approval, Store, StoreError};
use toolrack_team::{TenantQuotas, audit_export::AuditExportStatus};

pub(crate) use self::{
    edits::{AddedEntry, Change, EditFailed, NewEntries},
    named::NotBegun,
    sign_ins::{PasteRefused, SignInStatus},
    tally::{EndedCall, Tally},
    work_in_progress::{RunningWork, WorkInProgress, WorkKind},
};
pub use self::{
    edits::{Vault, approval_of},
    sign_ins::{NoSignIn, SignInChannels, SignIns},
};
use self::{
    findings_cache::FindingsCache,
    keeper::{BaseWorld, Keeper, Order},
};
use crate::{
    credentials::{CredentialsOf, WorldKind},
    event_log::EventLog,
    own_servers::{OwnServers, with_own_servers},
    profiles::Profiles,
    questions::Questions,
    rights::Right,
};

/// The parts from which a world is made.
pub struct Parts {
    /// Runs the servers. It must not run any server yet, and should put its questions to users into
    /// [`Self::questions`].
    pub host: Host,
    /// The request to load the configuration, at the start and at each reload.
    pub request: Request,
    /// Watches the files of the configuration.
    pub watcher: Watcher,
    /// The environment variables, which say where other programs keep their configurations.
    pub environment: Environment,
    /// Stores approvals, conversations and logs. Without a store, no server runs that a project's file configures.
    pub store: Option<Store>,
    /// Knows the secrets, and hides them in texts that are shown.
    pub secrets: Arc<Interpolate>,
    /// Stores the secrets of new entries.
    pub vault: Arc<dyn Vault>,
    /// Holds open questions.
    pub questions: Questions,
    /// Counts the calls and tokens of callers against their quotas. The host uses the same counter.
    pub quotas: TenantQuotas,
    /// Finds the model that answers in conversations.
    pub models: Models,
    /// Signs in to servers.
    pub sign_ins: SignIns,
    /// Whose world it is. The kind decides which of the configured servers run.
    pub kind: WorldKind,
    /// Finds the values that users give to their own servers.
    pub credentials: CredentialsOf,
    /// The servers that members of a tenant add for themselves; `None` in other worlds.
    pub own_servers: Option<Arc<OwnServers>>,
    /// Called with each configuration just before the world applies it.
    pub before_applying: Box<dyn Fn(&Loaded) + Send + Sync>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Finds the model of the given name in a loaded configuration, or the configured model if no name is given.
pub type Models =
    Box<dyn Fn(Option<String>, Arc<Loaded>) -> BoxFuture<'static, Result<ChosenModel, NoModel>> + Send + Sync>;

/// A model, and the limits of its turns.
#[derive(Debug)]
pub struct ChosenModel {
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The maximum number of tokens of one answer.
    pub max_tokens: Option<u32>,
    /// The limits of a turn.
    pub limits: Limits,
    /// Whether its price is known. A quota of money cannot bound a model without a price.
    pub has_price: bool,
}

/// Returns the name of the built-in server through which a model searches for tools when there are too many to show.
/// The name is `toolrack`, with a number if `configured` has a server of this name. Rules can allow this server without
/// a question: its own tools only read, and for a call that the model makes through it, the policy judges the tool that
/// is called.
#[must_use]
pub fn discovery_name(configured: &Desired) -> ServerName {
    let mut number = 1;
    loop {
        let name = if number == 1 { "toolrack".to_owned() } else { format!("toolrack-{number}") };
        match ServerName::new(name) {
            Ok(name) if !configured.contains_key(&name) => return name,
            _ => number += 1,
        }
    }
}

/// The reason why no model can be used.
#[derive(Clone, Debug)]
pub struct NoModel {
    /// A stable word.
    pub code: &'static str,
    /// A message for users.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

/// How the world of a tenant controls the worlds of its members, by the key of the member.
pub(crate) struct MemberWorlds {
    /// Ends the worlds of a member, and waits until their servers have ended.
    pub(crate) end: MemberOperation,
    /// Makes the worlds of a member read their configuration again, and waits until they have applied it.
    pub(crate) reload: MemberOperation,
}

/// An operation on the worlds of one member. The argument is the key of the member.
pub(crate) type MemberOperation = Box<dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync>;

/// Finds the worlds of the sessions that run now.
pub(crate) type FindSessionWorlds = Box<dyn Fn() -> Vec<Arc<World>> + Send + Sync>;

/// Finds the worlds of the agents that run now, by the ids of the agents.
pub(crate) type FindAgentWorlds = Box<dyn Fn() -> Vec<(String, Arc<World>)> + Send + Sync>;

/// The state that everything in the daemon reads. Only one task, the [`keeper`], changes it; readers never wait.
pub(crate) struct World {
    pub(crate) host: Host,
    /// The request to load the configuration.
    pub(crate) load_request: Request,
    pub(crate) environment: Environment,
    pub(crate) store: Option<Store>,
    /// Knows the secrets, and hides them in texts that are shown.
    pub(crate) secrets: Arc<Interpolate>,
    vault: Arc<dyn Vault>,
    pub(crate) questions: Questions,
    /// The newest events, for readers of the API.
    pub(crate) log: Arc<EventLog>,
    /// The counts of calls, for metrics.
    pub(crate) tally: Tally,
    /// Findings in the definitions of tools, for a user to look at.
    pub(crate) findings_cache: FindingsCache,
    pub(crate) quotas: TenantQuotas,
    pub(crate) models: Models,
    sign_ins: SignIns,
    pub(crate) kind: WorldKind,
    pub(crate) credentials: CredentialsOf,
    /// The worlds of members, if this is the world of a tenant.
    pub(crate) member_worlds: OnceLock<MemberWorlds>,
    /// Finds the worlds of its sessions, if it has any.
    pub(crate) session_worlds: OnceLock<FindSessionWorlds>,
    /// Finds the worlds of its agents, if it has any.
    pub(crate) agent_worlds: OnceLock<FindAgentWorlds>,
    /// How far the export of the audit logs has come. Set in the daemon's own world, if the daemon exports them.
    pub(crate) audit_export: OnceLock<Arc<AuditExportStatus>>,
    /// Cancelled when load balancers should send nothing more. That may be some time before `ending` is cancelled.
    pub(crate) draining: CancellationToken,
    /// The servers that members add for themselves; present in the world of a tenant and in the worlds of its members.
    pub(crate) own_servers: Option<Arc<OwnServers>>,
    /// Tasks that run beside requests.
    tasks: TaskTracker,
    /// Calls, turns and sign-ins that run, so that callers can cancel them.
    pub(crate) work_in_progress: WorkInProgress,
    /// When the daemon began. A world may begin later than its daemon, and users ask how long the daemon has run.
    pub(crate) daemon_began: Instant,
    /// Cancelled when the world ends: streams, waiting requests and tasks of the world end then.
    pub(crate) ending: CancellationToken,
    /// The configuration that the host runs, or is about to run.
    loaded: ArcSwap<Loaded>,
    /// Why the current files cannot be used; empty if they can.
    file_problems: ArcSwap<Vec<Problem>>,
    /// Whether the first configuration has been applied. Notifies receivers each time a configuration is applied.
    applied: watch::Sender<bool>,
    /// Notifies when the user gives or takes back a value that servers need.
    values_changed: watch::Sender<()>,
    /// The profiles, which decide what groups of clients see.
    pub(crate) profiles: Profiles,
    /// The world that lends servers to this one, if there is one. Weak, because that world may own this one.
    base: Weak<Self>,
    /// The servers of this world that the user has stopped although they are configured to run.
    stopped_servers: ArcSwap<BTreeSet<String>>,
    /// Takes the orders to the keeper.
    orders: mpsc::Sender<Order>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The maximum number of orders that wait for the keeper. The senders of further orders wait.
const MAX_WAITING_ORDERS: usize = 16;

/// Why the configuration was not reloaded.
#[derive(Debug)]
pub(crate) enum NotReloaded {
    /// The files cannot be used, for these reasons. The old configuration stays.
    Rejected(Vec<Problem>),
    /// The world is ending: its keeper takes no orders any more.
    Ending,
}

impl World {
    /// Loads the configuration, and starts the tasks that apply it, watch its files, count calls and delete old
    /// conversations. Returns before the configuration is applied: see [`Self::until_applied`]. With the world `base`,
    /// this world does not watch files: it uses the configuration of `base` whenever `base` has applied one, and adds
    /// the servers of its own member. The tasks of the world are in `tasks`, and end once `ending` is cancelled.
    /// `daemon_began` is the same for all worlds of a daemon.
    pub(crate) async fn start(
        parts: Parts,
        base: Option<&Arc<Self>>,
        tasks: &TaskTracker,
        ending: CancellationToken,
        daemon_began: Instant,
    ) -> Arc<Self> {
        let Parts {
            host,
            request,
            watcher,
            environment,
            store,
            secrets,
            vault,
            questions,
            quotas,
            models,
            sign_ins,
            kind,
            credentials,
            own_servers,
            before_applying,
        } = parts;
        let log = Arc::new(EventLog::new(Arc::clone(&secrets), kind.event_log_capacity()));
        questions.set_log(Arc::clone(&log));
        let (orders, inbox) = mpsc::channel(MAX_WAITING_ORDERS);
        let events = host.events();
        let weak_base = base.map(Arc::downgrade).unwrap_or_default();
        // Subscribe before copying the configuration of the base, so that no change goes unnoticed.
        let base = base.map(|base| BaseWorld { applied: base.applied_changes(), world: Arc::clone(base) });
        let request_with_own_servers = with_own_servers(&request, own_servers.as_deref(), &kind).await;
        let loaded = match &base {
            Some(base) if request_with_own_servers.of_member.is_empty() => base.world.loaded(),
            _ => Arc::new(load_initial(&request_with_own_servers, store.as_ref()).await),
        };
        let world = Arc::new(Self {
            host,
            load_request: request,
            environment,
            store,
            secrets,
            vault,
            questions,
            log,
            tally: Tally::default(),
            findings_cache: FindingsCache::default(),
            quotas,
            models,
            sign_ins,
            kind,
            credentials,
            member_worlds: OnceLock::new(),
            session_worlds: OnceLock::new(),
            agent_worlds: OnceLock::new(),
            audit_export: OnceLock::new(),
            draining: CancellationToken::new(),
            own_servers,
            tasks: tasks.clone(),
            work_in_progress: WorkInProgress::default(),
            daemon_began,
            ending,
            loaded: ArcSwap::new(loaded),
            file_problems: ArcSwap::default(),
            applied: watch::Sender::new(false),
            values_changed: watch::Sender::new(()),
            profiles: Profiles::default(),
            base: weak_base,
            stopped_servers: ArcSwap::default(),
            orders,
        });
        tasks.spawn(tally::listen(Arc::clone(&world), events));
        // Agents and members share the store of the machine or of their tenant.
        if base.is_none() && world.load_request.agent.is_none() {
            tasks.spawn(retention::run(Arc::clone(&world)));
        }
        let keeper = Keeper::new(Arc::clone(&world), base, &watcher, inbox, before_applying);
        tasks.spawn(keeper.run());
        world
    }

    /// Whether the host has applied the first configuration, or the part of it that is usable.
    pub(crate) fn is_applied(&self) -> bool {
        *self.applied.borrow()
    }

    /// Waits until the first configuration has been applied, or the world ends.
    pub(crate) async fn until_applied(&self) {
        // A fast path: every request calls this, and nearly none has to wait.
        if self.is_applied() {
            return;
        }
        let mut applied = self.applied.subscribe();
        tokio::select! {
            // Cannot fail, because this world owns the sender.
            _ = applied.wait_for(|applied| *applied) => {}
            () = self.ending.cancelled() => {}
        }
    }

    /// The configuration that the host runs, or is about to run.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.load_full()
    }

    /// Returns whether this world may use the server of this name. A member's world has the member's own servers, and
    /// the servers that the tenant lends to the member. `true` for a name that is not configured.
    pub(crate) fn has_server(&self, server: &str) -> bool {
        self.loaded.load().desired.get(server).is_none_or(|spec| self.kind.has(spec))
    }

    /// Returns whether the server of this name runs in this world. `false` for a server that another world lends to
    /// this one.
    pub(crate) fn runs_server(&self, server: &str) -> bool {
        !self.kind.borrows() || self.loaded.load().desired.get(server).is_some_and(|spec| self.kind.runs(spec))
    }

    /// Returns whether this is the world of one member, and the server of this name runs in it.
    pub(crate) fn runs_for_one_member(&self, server: &str) -> bool {
        self.kind.member().is_some() && self.runs_server(server)
    }

    /// Returns whether `principal` may read what is stored about the server of this name. A server without an entry may
    /// belong to another member, so only principals who operate the servers may read about it.
    pub(crate) fn may_read_about(&self, server: &str, principal: &Principal) -> bool {
        let is_operator = || Right::Operate.is_held_by(principal);
        self.loaded.load().desired.get(server).map_or_else(is_operator, |spec| spec.is_for(principal))
    }

    /// Whether the server of this name runs for only one user. Its output is then about no other user.
    pub(crate) fn serves_one_user(&self, server: &str) -> bool {
        matches!(self.kind, WorldKind::Machine | WorldKind::Session(None)) || self.runs_for_one_member(server)
    }

    /// Returns why the current files cannot be used. If they can, returns the problems of the running configuration.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let file_problems = self.file_problems.load();
        if file_problems.is_empty() { self.loaded.load().problems.clone() } else { file_problems.to_vec() }
    }

    /// Returns the world that lends the server `name` to this one. `None` for a server that is not lent.
    fn lender_of(&self, name: &str) -> Option<Arc<Self>> {
        let is_lent = |spec: &ServerSpec| self.kind.has(spec) && !self.kind.runs(spec);
        let base = self.base.upgrade().filter(|_| self.loaded.load().desired.get(name).is_some_and(is_lent))?;
        // The base may itself borrow the server: a session borrows from the world of its member.
        Some(base.lender_of(name).unwrap_or(base))
    }

    /// Returns whether a user stopped the server `name`, which may be lent.
    pub(crate) fn is_stopped(&self, name: &str) -> bool {
        let is_stopped_in = |world: &Self| world.stopped_servers.load().contains(name);
        self.lender_of(name).map_or_else(|| is_stopped_in(self), |lender| is_stopped_in(&lender))
    }

    /// The servers of this world that a user stopped, without those that are lent.
    pub(crate) fn stopped_names(&self) -> Arc<BTreeSet<String>> {
        self.stopped_servers.load_full()
    }

    /// Stops the server `name`, which may be lent, without changing a file.
    pub(crate) async fn stop_server(&self, name: &str) -> Result<(), NotReloaded> {
        self.set_stopped(name, true).await
    }

    /// Lets the server `name` run again after [`Self::stop_server`].
    pub(crate) async fn resume_server(&self, name: &str) -> Result<(), NotReloaded> {
        self.set_stopped(name, false).await
    }

    async fn set_stopped(&self, name: &str, is_stopped: bool) -> Result<(), NotReloaded> {
        let lender = self.lender_of(name);
        let world = lender.as_deref().unwrap_or(self);
        world.order(|outcome_sender| Order::SetStopped { name: name.to_owned(), is_stopped, outcome_sender }).await
    }

    /// Reads the configuration again, and waits until the host runs it.
    ///
    /// # Errors
    /// When the files cannot be used, in which case the old configuration stays, or when the world is ending.
    pub(crate) async fn reload(&self) -> Result<(), NotReloaded> {
        self.order(Order::Reload).await
    }

    /// The approvals of entries that projects bring.
    pub(crate) async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        approvals(self.store.as_ref()).await
    }

    /// Gives an order to the keeper, and waits until the keeper has carried it out.
    async fn order(
        &self,
        make_order: impl FnOnce(oneshot::Sender<Result<(), NotReloaded>>) -> Order,
    ) -> Result<(), NotReloaded> {
        let (outcome_sender, outcome) = oneshot::channel();
        self.orders.send(make_order(outcome_sender)).await.map_err(|_| NotReloaded::Ending)?;
        outcome.await.unwrap_or(Err(NotReloaded::Ending))
    }

    /// Returns a receiver that is notified when the user of this world gives or takes back a value.
    pub(crate) fn value_changes(&self) -> watch::Receiver<()> {
        self.values_changed.subscribe()
    }

    /// Restarts `servers` of this world and of the worlds of its sessions, because a value that they need has changed.
    pub(crate) fn restart_for_values(&self, servers: &BTreeSet<String>) {
        let session_worlds = self.session_worlds.get().map(|find_running| find_running()).unwrap_or_default();
        for world in session_worlds.iter().map(|world| &**world).chain([self]) {
            for server in servers {
                // This fails for a server that was removed meanwhile, which needs no restart.
                let _ = world.host.reconnect(server);
            }
            world.values_changed.send_replace(());
        }
    }

    /// Returns a receiver that is notified each time this world has applied a configuration.
    pub(crate) fn applied_changes(&self) -> watch::Receiver<bool> {
        self.applied.subscribe()
    }

    /// The part of the configuration that the host is to run.
    fn desired(&self) -> Desired {
        let mut desired = self.loaded.load().desired.clone();
        desired.retain(|_, spec| self.kind.runs(spec));
        let stopped_servers = self.stopped_servers.load();
        for (_, spec) in desired.iter_mut().filter(|(name, _)| stopped_servers.contains(name.as_str())) {
            spec.enabled = false;
        }
        desired
    }
}

/// Loads the first configuration. If it has errors, the world runs the part that is usable, because there is no older
/// configuration to fall back to.
async fn load_initial(request: &Request, store: Option<&Store>) -> Loaded {
    // Without the approvals, no entry of a project runs.
    let approvals = approvals(store).await.unwrap_or_default();
    let running_configuration = None;
    keeper::load(request, approvals, running_configuration).await.unwrap_or_else(|rejected| *rejected.loaded)
}

async fn approvals(store: Option<&Store>) -> Result<Vec<Approval>, StoreError> {
    match store {
        Some(store) => store.approvals().await,
        None => Ok(Vec::new()),
    }
}
