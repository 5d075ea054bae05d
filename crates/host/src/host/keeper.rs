//! Runs the keeper: the task that owns a host's set of servers, applies changes to the set, and publishes catalogs
//! (lists of the tools of all servers). No call passes through this task.
//!
//! A host can also offer the servers of another host, its *lender*: those that are for its *principal*, the person or
//! service that uses the host. The lender starts and stops these *lent* servers; the keeper follows each change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use tokio::{
    sync::{
        Notify,
        broadcast::{self, error::RecvError},
        mpsc, oneshot, watch,
    },
    time::{Instant, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Host, indexer};
use crate::{
    catalog::{Catalog, CatalogTool, Naming, ToolSet},
    event::Event,
    plan::{Action, plan},
    principal::Principal,
    server::{Server, ServerContext},
    spec::{Desired, ServerName, ServerSpec},
};

/// The servers of a host.
pub(super) type Servers = BTreeMap<ServerName, Arc<Server>>;

/// The pause after building a catalog, as a multiple of the time that building it took. With this pause, building takes
/// at most a tenth of a processor, however many servers and tools there are. A catalog that a caller asks for does not
/// wait for the pause.
const PAUSE_FACTOR: u32 = 9;

/// Tells the sender of a message that the keeper has done what the message asks for.
type DoneSender = oneshot::Sender<()>;

/// A message to the keeper.
pub(super) enum Message {
    /// Start, stop and replace servers until the host has exactly these.
    Apply(Desired, DoneSender),
    /// Add one server to the desired set, or change it.
    Add(ServerName, Box<ServerSpec>, DoneSender),
    /// Remove one server from the desired set. The answer says whether the set contained the server.
    Remove(String, oneshot::Sender<bool>),
    /// Start a server outside of the desired set. The server runs until the answer is dropped, or the keeper ends.
    StartExtra(ServerName, Box<ServerSpec>, oneshot::Sender<ExtraServer>),
    /// Publish a catalog now, with everything that servers published before this message.
    Publish(DoneSender),
    /// Stop all servers, and end the keeper.
    Shutdown(DoneSender),
}

/// A server outside of the desired set, and the naming of its tools.
pub(super) struct ExtraServer {
    pub(super) server: Arc<Server>,
    pub(super) naming: Arc<Naming>,
}

/// Another host, whose servers this host offers beside its own. Follows the changes and events of that host.
pub(super) struct Lender {
    source: LentServers,
    servers_changed: watch::Receiver<()>,
    events: broadcast::Receiver<Event>,
    /// The events of the borrowing host, which gets some events of the lent servers: see [`Self::pass_on`].
    own_events: broadcast::Sender<Event>,
    /// The names of the servers that were for the principal when the lender last had them. A name stays when the lender
    /// removes the server, because the last events of the server come after that.
    lent_names: BTreeSet<ServerName>,
}

impl Lender {
    pub(super) fn new(host: &Host, principal: Principal, own_events: broadcast::Sender<Event>) -> Self {
        let (servers_changed, events) = (host.servers_changed.subscribe(), host.events.subscribe());
        let lender_servers = host.servers.clone();
        let (last_seen_servers, own_names) = (Arc::default(), Arc::default());
        let source = LentServers { lender_servers, last_seen_servers, own_names, principal };
        let mut lender = Self { source, servers_changed, events, own_events, lent_names: BTreeSet::new() };
        lender.update_lent_names();
        lender
    }

    /// Notes which of the lender's servers are for the principal now.
    fn update_lent_names(&mut self) {
        let servers = self.source.lender_servers.load_full();
        for (name, server) in &*servers {
            self.note_whether_lent(name, server);
        }
    }

    fn note_whether_lent(&mut self, name: &ServerName, server: &Server) {
        if server.spec.is_for(&self.source.principal) {
            self.lent_names.insert(name.clone());
        } else {
            self.lent_names.remove(name);
        }
    }

    /// Returns whether the lender's server of this name is for the principal, or was when the lender last had it.
    fn is_for_principal(&mut self, name: &ServerName) -> bool {
        let server = self.source.lender_servers.load().get(name).cloned();
        if let Some(server) = server {
            self.note_whether_lent(name, &server);
        }
        self.lent_names.contains(name)
    }

    /// Wakes the keeper after each change in the lent servers, and passes their events on. Ends when `stop` is
    /// cancelled, or when the lender is gone.
    async fn follow(mut self, wake_keeper: Arc<Notify>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                servers_changed = self.servers_changed.changed() => {
                    self.update_lent_names();
                    wake_keeper.notify_one();
                    if servers_changed.is_err() {
                        return;
                    }
                }
                event = self.events.recv() => match event {
                    Ok(Event::McpToolsUpdated { .. }) | Err(RecvError::Lagged(_)) => wake_keeper.notify_one(),
                    Ok(event) => self.pass_on(event),
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }

    /// Passes an event on to the borrowing host if it concerns all users of a lent server. Events of calls and logs are
    /// not passed on, because they may belong to other principals. Events of a server that is not lent are not passed
    /// on either: the server is not for the principal, or a server of the borrowing host has its name.
    fn pass_on(&mut self, event: Event) {
        let (Event::McpServerState { server, .. }
        | Event::McpServerConnected { server, .. }
        | Event::McpServerDisconnected { server, .. }
        | Event::McpPromptsChanged { server }
        | Event::McpResourcesChanged { server }) = &event
        else {
            return;
        };
        if !self.source.own_names.load().contains(server) && self.is_for_principal(server) {
            // The only failure is that no receiver exists.
            let _ = self.own_events.send(event);
        }
    }
}

/// The servers of a lender that a principal may use.
#[derive(Clone)]
struct LentServers {
    lender_servers: Arc<ArcSwap<Servers>>,
    /// All servers of the lender, as [`Self::refresh`] last found them.
    last_seen_servers: Arc<Servers>,
    /// The names of the servers that the borrowing host has itself. It borrows no servers of these names.
    own_names: Arc<ArcSwap<BTreeSet<ServerName>>>,
    principal: Principal,
}

impl LentServers {
    /// Returns whether the lender's servers have changed since the last [`Self::refresh`].
    fn have_changed(&self) -> bool {
        !Arc::ptr_eq(&self.lender_servers.load(), &self.last_seen_servers)
    }

    /// Looks at the lender's servers, and returns those that the principal may use now. `own_servers` are the servers
    /// that the borrowing host has itself.
    fn refresh(&mut self, own_servers: &Servers) -> Arc<Servers> {
        self.own_names.store(Arc::new(own_servers.keys().cloned().collect()));
        self.last_seen_servers = self.lender_servers.load_full();
        if self.last_seen_servers.values().all(|server| server.spec.is_for(&self.principal)) {
            return self.last_seen_servers.clone();
        }
        let mut lent = Servers::clone(&self.last_seen_servers);
        lent.retain(|_, server| server.spec.is_for(&self.principal));
        Arc::new(lent)
    }
}

/// Owns the set of servers, and publishes catalogs of their tools: see the [module](self).
pub(super) struct Keeper {
    context: ServerContext,
    /// The servers of this host, and the lent ones.
    servers: Arc<ArcSwap<Servers>>,
    /// Announces each change in `servers` to hosts that borrow from this one.
    servers_changed: watch::Sender<()>,
    /// The servers of the lender, if there is one.
    lender: Option<LentServers>,
    /// The lent servers among `servers`, as the lender last had them.
    lent: Arc<Servers>,
    catalog: Arc<ArcSwap<Catalog>>,
    /// The naming of tools in the next catalog.
    naming: Arc<ArcSwap<Naming>>,
    /// The naming of tools in the published catalog.
    published_naming: Arc<Naming>,
    /// Wakes the task that indexes each new catalog for searches.
    indexer: Arc<Notify>,
    /// Ends the tasks of the keeper when it is dropped.
    stop_on_drop: DropGuard,
    /// The tool sets in the published catalog.
    published_tools: BTreeMap<ServerName, Arc<ToolSet>>,
    /// Stopped servers that may not have ended yet, each with a token that is cancelled once the server has ended. A
    /// new server of the same name waits for that.
    ending_servers: BTreeMap<ServerName, CancellationToken>,
    /// The servers outside of the desired set, for as long as their users keep them.
    extra_servers: Vec<Weak<Server>>,
    /// The earliest moment for the next catalog, unless a caller asks for one.
    next_publish_at: Instant,
}

impl Keeper {
    pub(super) fn new(
        context: ServerContext,
        servers: Arc<ArcSwap<Servers>>,
        servers_changed: watch::Sender<()>,
        catalog: Arc<ArcSwap<Catalog>>,
        naming: Arc<ArcSwap<Naming>>,
    ) -> Self {
        let (indexer, stop) = (Arc::<Notify>::default(), CancellationToken::new());
        context.tasks.spawn(indexer::run(catalog.clone(), indexer.clone(), stop.clone()));
        Self {
            context,
            servers,
            servers_changed,
            lender: None,
            lent: Arc::default(),
            catalog,
            published_naming: naming.load_full(),
            naming,
            indexer,
            stop_on_drop: stop.drop_guard(),
            published_tools: BTreeMap::new(),
            ending_servers: BTreeMap::new(),
            extra_servers: Vec::new(),
            next_publish_at: Instant::now(),
        }
    }

    /// Offers the servers of `lender` as well, if there is one.
    pub(super) fn with_lender(mut self, lender: Option<Lender>) -> Self {
        if let Some(lender) = lender {
            self.lender = Some(lender.source.clone());
            // A guard gives its token only when it is disarmed, so make another guard of the same token.
            let stop = self.stop_on_drop.disarm();
            self.stop_on_drop = stop.clone().drop_guard();
            self.context.tasks.spawn(lender.follow(self.context.wake_keeper.clone(), stop));
            self.update_lent();
        }
        self
    }

    /// Runs until a shutdown message arrives or the last handle is gone.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let wake_keeper = self.context.wake_keeper.clone();
        loop {
            let next_publish_at = self.next_publish_at;
            let message = tokio::select! {
                // A message that arrives while the other branch sleeps cancels that branch, which has already consumed
                // its notification. So the handling of each message either publishes a catalog or notifies again.
                message = messages.recv() => message,
                () = async { wake_keeper.notified().await; sleep_until(next_publish_at).await } => {
                    self.publish();
                    continue;
                }
            };
            let (desired, done, is_shutdown) = match message {
                Some(Message::StartExtra(name, spec, done)) => {
                    // No other server has this name, so there is no predecessor to wait for.
                    let predecessor = None;
                    let server = Arc::new(Server::start(name, *spec, &self.context, predecessor));
                    self.extra_servers.retain(|server| server.strong_count() > 0);
                    self.extra_servers.push(Arc::downgrade(&server));
                    // If the receiver is gone, the server is dropped here, and so it stops.
                    let _ = done.send(ExtraServer { server, naming: self.naming.load_full() });
                    wake_keeper.notify_one();
                    continue;
                }
                Some(Message::Add(name, spec, done)) => {
                    self.add(name, spec);
                    (None, Some(done), false)
                }
                Some(Message::Remove(name, done)) => {
                    let existed = self.remove(&name);
                    self.publish();
                    // The sender of the message may no longer wait. The same holds for `done` below.
                    let _ = done.send(existed);
                    continue;
                }
                Some(Message::Apply(desired, done)) => (Some(desired), Some(done), false),
                Some(Message::Publish(done)) => (None, Some(done), false),
                Some(Message::Shutdown(done)) => (Some(Desired::new()), Some(done), true),
                None => (Some(Desired::new()), None, true),
            };
            if is_shutdown {
                // Without a lender, `apply` below leaves out the lent servers as well.
                self.lender = None;
                self.extra_servers.iter().filter_map(Weak::upgrade).for_each(|server| server.stop());
            }
            if let Some(desired) = desired {
                self.apply(desired);
            }
            self.publish();
            if let Some(done) = done {
                let _ = done.send(());
            }
            if is_shutdown {
                return;
            }
        }
    }

    /// Starts, stops and replaces servers until the servers of this host are those of `desired`. Lent servers stay.
    fn apply(&mut self, desired: Desired) {
        let servers = self.servers.load_full();
        let own_servers = servers.iter().filter(|(name, server)| !self.is_lent(name, server));
        let actual = own_servers.map(|(name, server)| (name.clone(), &*server.spec)).collect();
        self.carry_out(plan(desired, &actual));
    }

    /// Adds a server, or replaces it unless its spec is the same.
    fn add(&mut self, name: ServerName, spec: Box<ServerSpec>) {
        let existing = self.servers.load().get(&name).filter(|server| !self.is_lent(&name, server)).cloned();
        if existing.as_ref().is_some_and(|server| *server.spec == *spec) {
            return;
        }
        let stop = existing.map(|_| Action::Stop(name.clone()));
        self.carry_out(stop.into_iter().chain([Action::Start(name, spec)]).collect());
    }

    /// Removes a server. Returns whether it was there.
    fn remove(&mut self, name: &str) -> bool {
        let found = self.servers.load().get_key_value(name).map(|(name, server)| (name.clone(), server.clone()));
        let own_name = found.filter(|(name, server)| !self.is_lent(name, server)).map(|(name, _)| name);
        let existed = own_name.is_some();
        self.carry_out(own_name.map(Action::Stop).into_iter().collect());
        existed
    }

    /// Stops and starts servers of this host, and stores the resulting set.
    fn carry_out(&mut self, actions: Vec<Action>) {
        self.ending_servers.retain(|_, ended| !ended.is_cancelled());
        let mut servers = self.own_servers();
        for action in actions {
            match action {
                Action::Stop(name) => {
                    if let Some(server) = servers.remove(&name) {
                        server.stop();
                        self.note_ending(name, server.ended());
                    }
                }
                Action::Start(name, spec) => {
                    let predecessor = self.ending_servers.get(&name).cloned();
                    let server = Server::start(name.clone(), *spec, &self.context, predecessor);
                    servers.insert(name, Arc::new(server));
                }
            }
        }
        self.store_servers(servers);
    }

    /// Makes a new server with this name wait for `ended`. A token that is already cancelled belongs to a server that
    /// was never started, so it must not replace the token of an earlier server that is still ending.
    fn note_ending(&mut self, name: ServerName, ended: CancellationToken) {
        if !ended.is_cancelled() {
            self.ending_servers.insert(name, ended);
        }
    }

    /// Returns whether `server` belongs to the lender. A server of this host with the same name does not.
    fn is_lent(&self, name: &ServerName, server: &Arc<Server>) -> bool {
        self.lent.get(name).is_some_and(|lent| Arc::ptr_eq(lent, server))
    }

    /// Returns the servers of this host without the lent ones.
    fn own_servers(&self) -> Servers {
        let mut servers = Servers::clone(&self.servers.load());
        if !self.lent.is_empty() {
            servers.retain(|name, server| !self.is_lent(name, server));
        }
        servers
    }

    /// Makes `own_servers` and the current servers of the lender the servers of this host. If two servers have the same
    /// name, uses the one in `own_servers`.
    fn store_servers(&mut self, own_servers: Servers) {
        let mut servers = own_servers;
        match &mut self.lender {
            Some(lender) => self.lent = lender.refresh(&servers),
            None if self.lent.is_empty() => {}
            None => self.lent = Arc::default(),
        }
        for (name, server) in &*self.lent {
            servers.entry(name.clone()).or_insert_with(|| server.clone());
        }
        self.servers.store(Arc::new(servers));
        self.servers_changed.send_replace(());
    }

    /// Adopts changes in the lender's set of servers.
    fn update_lent(&mut self) {
        if self.lender.as_ref().is_some_and(LentServers::have_changed) {
            self.store_servers(self.own_servers());
        }
    }

    /// Publishes a new catalog if the tools of any server, or the naming, have changed.
    fn publish(&mut self) {
        self.update_lent();
        // A server belongs to the catalog even if all its tools are in quarantine (`mismatched`): a call of such a tool
        // is refused with the reason.
        let tool_sets: BTreeMap<_, _> = self
            .servers
            .load()
            .iter()
            .map(|(name, server)| (name.clone(), server.snapshot().tools))
            .filter(|(_, set)| !set.tools.is_empty() || !set.mismatched.is_empty())
            .collect();
        let naming = self.naming.load_full();
        let mut changed_servers: BTreeSet<_> = tool_sets
            .keys()
            .chain(self.published_tools.keys())
            .filter(|name| match (tool_sets.get(*name), self.published_tools.get(*name)) {
                (Some(new), Some(old)) => !Arc::ptr_eq(new, old) || self.published_naming != naming,
                // The tools of this server have appeared or disappeared.
                _ => true,
            })
            .cloned()
            .collect();
        if changed_servers.is_empty() {
            return;
        }
        let build_start = Instant::now();
        let previous = self.catalog.load_full();
        let catalog = Arc::new(Catalog::build(previous.version() + 1, &tool_sets, &naming));
        if !naming.is_stable() {
            // A change of one server can rename tools of another.
            changed_servers.extend(servers_with_renamed_tools(&previous, &catalog));
        }
        self.catalog.store(catalog.clone());
        self.indexer.notify_one();
        self.published_tools = tool_sets;
        self.published_naming = naming;
        // Collect all names in one pass over the catalog, because many servers with many tools may become ready
        // together.
        let mut names: BTreeMap<ServerName, Vec<String>> =
            changed_servers.into_iter().map(|name| (name, Vec::new())).collect();
        for tool in catalog.tools() {
            if let Some(names) = names.get_mut(&tool.server) {
                names.push(tool.name.clone());
            }
        }
        for (server, tools) in names {
            (self.context.connector.events)(Event::McpToolsUpdated { server, tools });
        }
        self.next_publish_at = Instant::now() + build_start.elapsed() * PAUSE_FACTOR;
    }
}

/// Returns the servers of tools whose names in `previous` lead to no tool, or to another one, in `current`.
fn servers_with_renamed_tools(previous: &Catalog, current: &Catalog) -> BTreeSet<ServerName> {
    let is_renamed = |tool: &&CatalogTool| {
        let namesake = current.get(&tool.name);
        namesake.is_none_or(|found| found.server != tool.server || found.as_listed().name != tool.as_listed().name)
    };
    previous.tools().filter(is_renamed).map(|tool| tool.server.clone()).collect()
}
