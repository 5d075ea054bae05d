//! One task per server owns its connection: it connects, lists, watches and reconnects. The rest of the host reads what
//! the task publishes, and clones a link from it, so that no caller waits for another.

mod pinning;
mod task;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::task::Task;
use crate::{
    catalog::ToolSet,
    link::{Connector, Link, LinkError, Session},
    pins::Pins,
    resolve::Memory,
    spec::{ServerName, ServerSpec, Trust},
    state::State,
};

/// The state that a server's task publishes.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    /// The link to the server while it is connected.
    pub(crate) link: Option<Link>,
    /// The tools as last listed; kept while it reconnects.
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) session: Option<Arc<Session>>,
    /// The reason why the last attempt or connection ended.
    pub(crate) error: Option<Arc<LinkError>>,
    /// How many attempts to connect have ended, successfully or not.
    pub(crate) attempts: u64,
    /// How often the task has checked the tools against their pins again.
    pub(crate) rechecks: u64,
}

impl Snapshot {
    /// Records that the attempt has succeeded, or that the connection continues.
    fn connected(&mut self, link: &Link) {
        if self.link.is_none() {
            self.attempts += 1;
        }
        self.link = Some(link.clone());
        self.session = Some(Arc::new(link.session().clone()));
    }

    /// Returns the link, unless its connection has ended, which the server's task may not have noticed yet.
    pub(crate) fn open_link(&self) -> Option<Link> {
        self.link.clone().filter(|link| !link.is_closed())
    }
}

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) spec: Arc<ServerSpec>,
    /// Whether the errors of calls leave out what it writes.
    pub(crate) has_private_output: bool,
    published: watch::Receiver<Snapshot>,
    again: Arc<Again>,
    stop: CancellationToken,
    gone: CancellationToken,
    _end: DropGuard,
}

/// Signals that wake a server's task.
#[derive(Debug, Default)]
struct Again {
    /// Reconnect, even a healthy connection.
    now: Notify,
    /// Connect now instead of waiting.
    nudge: Notify,
    /// Pins may have changed.
    pins: Notify,
}

/// The parts of a host that a server's task needs.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) connector: Connector,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) pins: Option<Arc<dyn Pins>>,
    pub(crate) tasks: TaskTracker,
    /// Notified after each publication.
    pub(crate) changed: Arc<Notify>,
    /// A seed that makes the back-off of this host differ from that of others.
    pub(crate) jitter: u64,
    /// Whether the errors of calls leave out what a server writes.
    pub(crate) has_private_output: bool,
}

impl Server {
    /// Starts the server, once its predecessor of the same name is gone.
    pub(crate) fn start(
        name: ServerName,
        spec: ServerSpec,
        around: &Surroundings,
        predecessor: Option<CancellationToken>,
    ) -> Self {
        let idle = match (spec.trust == Trust::Trusted, spec.enabled) {
            (_, false) => Some(State::Disabled),
            (false, true) => Some(State::PendingTrust),
            (true, true) => None,
        };
        let (publish, published) = watch::channel(Snapshot {
            state: idle.clone().unwrap_or(State::Connecting),
            link: None,
            tools: Arc::default(),
            session: None,
            error: None,
            attempts: idle.is_some().into(),
            rechecks: 0,
        });
        let (stop, gone) = (CancellationToken::new(), CancellationToken::new());
        let again = Arc::<Again>::default();
        let spec = Arc::new(spec);
        if idle.is_none() {
            let task = Task {
                name,
                spec: spec.clone(),
                around: around.clone(),
                publish,
                again: again.clone(),
                stop: stop.clone(),
            };
            let ended = gone.clone().drop_guard();
            around.tasks.spawn(async move {
                if let Some(predecessor) = predecessor {
                    predecessor.cancelled().await;
                }
                Box::pin(task.run()).await;
                drop(ended);
            });
        } else {
            gone.cancel();
        }
        let has_private_output = around.has_private_output;
        Self { spec, has_private_output, published, again, _end: stop.clone().drop_guard(), stop, gone }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.published.borrow().clone()
    }

    /// Returns the word for its state; see [`State::word`].
    pub(crate) fn word(&self) -> &'static str {
        self.published.borrow().state.word()
    }

    /// Reconnects, in any state.
    pub(crate) fn reconnect(&self) {
        self.again.now.notify_one();
    }

    /// Waits until the first attempt has ended.
    pub(crate) async fn settled(&self) {
        let mut published = self.published.clone();
        let _ = published.wait_for(|snapshot| snapshot.attempts > 0).await;
    }

    /// Stops the server; see [`Self::gone`].
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns a token that is cancelled when all parts of the server have ended.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    /// Waits for the link, until the next attempt to connect has ended. Wakes up a server that waits before that
    /// attempt. The caller bounds the time.
    pub(crate) async fn link(&self) -> Result<Link, Snapshot> {
        let mut published = self.published.clone();
        let first = published.borrow_and_update().clone();
        let mut now = first.clone();
        loop {
            if let Some(link) = now.open_link() {
                return Ok(link);
            }
            match &now.state {
                State::Reconnecting { .. } | State::Failed { .. } if now.attempts > first.attempts => return Err(now),
                State::Reconnecting { .. } | State::Failed { .. } | State::Idle { .. } => self.again.nudge.notify_one(),
                State::Connecting | State::Connected { .. } | State::ToolsFailed { .. } => {}
                State::Disabled | State::PendingTrust | State::NeedsAuth { .. } | State::Disconnected => {
                    return Err(now);
                }
            }
            if published.changed().await.is_err() {
                return Err(now);
            }
            now = published.borrow_and_update().clone();
        }
    }
}
