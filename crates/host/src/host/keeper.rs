//! The task that owns the set of servers: applies worlds, publishes catalogs. No call passes through it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::indexer;
use crate::{
    catalog::{Catalog, Naming, ToolSet},
    event::Event,
    plan::{Action, plan},
    server::{Server, Surroundings},
    spec::{Desired, ServerName, ServerSpec},
};

/// The servers of a host.
pub(super) type Servers = BTreeMap<ServerName, Arc<Server>>;

/// The rest between two catalogs that no caller asked for, in times of what the first took: at most a tenth of a
/// processor goes into catalogs, however many servers become ready one after another and however many tools they have.
const REST: u32 = 9;

type Done = oneshot::Sender<()>;

pub(super) enum Message {
    Apply(Desired, Done),
    /// Start a server that is in no world: the receiver keeps it running.
    Beside(ServerName, Box<ServerSpec>, oneshot::Sender<Beside>),
    /// Publish now, so that the sender sees what servers have published before.
    Publish(Done),
    Shutdown(Done),
}

/// A server that is in no world, and how its tools are named.
pub(super) struct Beside {
    pub(super) server: Arc<Server>,
    pub(super) naming: Arc<Naming>,
}

pub(super) struct Keeper {
    around: Surroundings,
    servers: Arc<ArcSwap<Servers>>,
    catalog: Arc<ArcSwap<Catalog>>,
    /// How tools are named, from the next catalog on.
    naming: Arc<ArcSwap<Naming>>,
    /// How they are named in the published catalog.
    named: Arc<Naming>,
    /// Notified of each new catalog.
    indexer: Arc<Notify>,
    _indexer_ends: DropGuard,
    /// The tool sets in the published catalog.
    published: BTreeMap<ServerName, Arc<ToolSet>>,
    /// Servers that were stopped and may not have ended yet: their successors wait for them.
    ending: BTreeMap<ServerName, CancellationToken>,
    /// No catalog before this moment, unless a caller asks for it.
    rested: Instant,
}

impl Keeper {
    pub(super) fn new(
        around: Surroundings,
        servers: Arc<ArcSwap<Servers>>,
        catalog: Arc<ArcSwap<Catalog>>,
        naming: Arc<ArcSwap<Naming>>,
    ) -> Self {
        let (indexer, stop) = (Arc::<Notify>::default(), CancellationToken::new());
        around.tasks.spawn(indexer::run(catalog.clone(), indexer.clone(), stop.clone()));
        Self {
            around,
            servers,
            catalog,
            named: naming.load_full(),
            naming,
            indexer,
            _indexer_ends: stop.drop_guard(),
            published: BTreeMap::new(),
            ending: BTreeMap::new(),
            rested: Instant::now(),
        }
    }

    /// Runs until a shutdown message arrives or the last handle is gone.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let changed = self.around.changed.clone();
        loop {
            let rested = self.rested;
            let message = tokio::select! {
                // Every message publishes too, so that it does not matter if it comes in the middle of the rest.
                message = messages.recv() => message,
                () = async { changed.notified().await; sleep_until(rested).await } => {
                    self.publish();
                    continue;
                }
            };
            let (desired, done, last) = match message {
                Some(Message::Beside(name, spec, done)) => {
                    let server = Arc::new(Server::start(name, *spec, &self.around, None));
                    let _ = done.send(Beside { server, naming: self.naming.load_full() });
                    continue;
                }
                Some(Message::Apply(desired, done)) => (Some(desired), Some(done), false),
                Some(Message::Publish(done)) => (None, Some(done), false),
                Some(Message::Shutdown(done)) => (Some(Desired::new()), Some(done), true),
                None => (Some(Desired::new()), None, true),
            };
            if let Some(desired) = desired {
                self.apply(desired);
            }
            self.publish();
            if let Some(done) = done {
                let _ = done.send(());
            }
            if last {
                return;
            }
        }
    }

    fn apply(&mut self, desired: Desired) {
        self.ending.retain(|_, gone| !gone.is_cancelled());
        let mut servers = Servers::clone(&self.servers.load());
        let actual = servers.iter().map(|(name, server)| (name.clone(), &*server.spec)).collect();
        for action in plan(desired, &actual) {
            match action {
                Action::Stop(name) => {
                    if let Some(server) = servers.remove(&name) {
                        server.stop();
                        self.ending.insert(name, server.gone());
                    }
                }
                Action::Start(name, spec) => {
                    let before = self.ending.get(&name).cloned();
                    let server = Server::start(name.clone(), *spec, &self.around, before);
                    servers.insert(name, Arc::new(server));
                }
            }
        }
        self.servers.store(Arc::new(servers));
    }

    /// Publishes a new catalog if the tools of any server have changed, or how tools are named.
    fn publish(&mut self) {
        let sets: BTreeMap<_, _> = self
            .servers
            .load()
            .iter()
            .map(|(name, server)| (name.clone(), server.snapshot().tools))
            .filter(|(_, set)| !set.tools.is_empty() || !set.strangers.is_empty())
            .collect();
        let naming = self.naming.load_full();
        let touched: BTreeSet<_> = sets
            .keys()
            .chain(self.published.keys())
            .filter(|name| match (sets.get(*name), self.published.get(*name)) {
                (Some(new), Some(old)) => !Arc::ptr_eq(new, old) || self.named != naming,
                _ => true,
            })
            .cloned()
            .collect();
        if touched.is_empty() {
            return;
        }
        let began = Instant::now();
        let version = self.catalog.load().version() + 1;
        let catalog = Arc::new(Catalog::build(version, &sets, &naming));
        self.catalog.store(catalog.clone());
        self.indexer.notify_one();
        self.published = sets;
        self.named = naming;
        // In one pass: many servers become ready at once, and each of them may have many tools.
        let mut names: BTreeMap<ServerName, Vec<String>> = touched.into_iter().map(|name| (name, Vec::new())).collect();
        for tool in catalog.tools() {
            if let Some(names) = names.get_mut(&tool.server) {
                names.push(tool.name.clone());
            }
        }
        for (server, tools) in names {
            (self.around.connector.events)(Event::McpToolsUpdated { server, tools });
        }
        self.rested = Instant::now() + began.elapsed() * REST;
    }
}
