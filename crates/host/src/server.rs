//! Runs one task for each server. The task owns the connection: it connects, lists the tools, watches for changes and
//! reconnects. After each change it publishes a [`Snapshot`], and the rest of the host reads the newest one. A caller
//! clones the *link* in the snapshot, the part of the connection that sends requests, so callers do not wait for each
//! other.

mod pinning;
mod task;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::task::Task;
use crate::{
    catalog::ToolSet,
    deadline::deadline,
    link::{
        Connector, Link, LinkError, Session,
        inbound::topics::{Topics, WatchedResources},
    },
    pins::Pins,
    resolve::Memory,
    spec::{ServerName, ServerSpec, Trust},
    state::State,
};

/// A copy of the state that a server's task publishes.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    /// The link to the server while it is connected.
    pub(crate) link: Option<Link>,
    /// The tools of the last list; they stay while the server reconnects.
    pub(crate) tools: Arc<ToolSet>,
    /// The result of the last handshake: the MCP version, the capabilities and the server's description of itself.
    pub(crate) session: Option<Arc<Session>>,
    /// The reason why the last attempt or connection ended.
    pub(crate) error: Option<Arc<LinkError>>,
    /// The number of attempts to connect that have ended in this round, successfully or not.
    attempts: u64,
    /// Whether an attempt to connect has ended in an earlier round.
    was_tried_before: bool,
    round: Round,
    /// How often the task has checked the tools against changed pins.
    pub(crate) rechecks: u64,
}

/// A round of attempts to connect. The first begins when the server starts, and each further one when a caller requests
/// a [reconnection](Server::reconnect).
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    start: Instant,
}

impl Snapshot {
    /// Begins the round `number`, unless it has begun already.
    fn begin_round(&mut self, number: u64) {
        if self.round.number != number {
            self.round = Round { number, start: Instant::now() };
            self.was_tried_before |= self.attempts > 0;
            self.attempts = 0;
        }
    }

    /// Returns whether more attempts have ended than in `earlier`.
    fn has_tried_since(&self, earlier: &Self) -> bool {
        (self.round.number, self.attempts) > (earlier.round.number, earlier.attempts)
    }

    /// Returns whether an attempt to connect makes sense only after the user has signed in.
    fn waits_for_sign_in(&self) -> bool {
        self.error.as_deref().is_some_and(LinkError::waits_for_sign_in)
    }

    /// Records that the attempt has succeeded, or that the connection continues.
    fn set_connected(&mut self, link: &Link) {
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
    /// Whether the errors of calls leave out what the server writes.
    pub(crate) has_private_output: bool,
    /// The resources with listeners, to which the connections of this server report changes. If another host shares
    /// this server with this host, they are those of the other host, whose connection reports the changes.
    watched_resources: Arc<WatchedResources>,
    snapshot_receiver: watch::Receiver<Snapshot>,
    wake: Arc<WakeSignals>,
    /// Cancelled to stop the server.
    stop: CancellationToken,
    /// Cancelled when all parts of the server have ended.
    ended: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// Signals that wake a server's task.
#[derive(Debug, Default)]
struct WakeSignals {
    /// The number of the round that a caller requested last. When it changes, the task reconnects, even if the
    /// connection is healthy.
    round: watch::Sender<u64>,
    /// Tells the task to connect now, instead of waiting for the next attempt.
    nudge: Notify,
    /// Tells the task that the pins (the trusted definitions of tools) may have changed.
    pins: Notify,
}

/// The parts of a host that a server's task needs.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) connector: Connector,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) pins: Option<Arc<dyn Pins>>,
    pub(crate) tasks: TaskTracker,
    /// Notified after each publication: wakes the keeper, the task that publishes the catalog.
    pub(crate) wake_keeper: Arc<Notify>,
    /// A seed that makes the pauses before reconnecting differ from those of other hosts.
    pub(crate) jitter: u64,
    /// Whether the errors of calls leave out what a server writes.
    pub(crate) has_private_output: bool,
}

impl Server {
    /// Starts the server, once its predecessor of the same name has ended.
    pub(crate) fn start(
        name: ServerName,
        spec: ServerSpec,
        context: &ServerContext,
        predecessor: Option<CancellationToken>,
    ) -> Self {
        // The state of a server that may not be started; `None` for all others.
        let unstartable_state = match (spec.trust == Trust::Trusted, spec.enabled) {
            (_, false) => Some(State::Disabled),
            (false, true) => Some(State::PendingTrust),
            (true, true) => None,
        };
        let (snapshot_sender, snapshot_receiver) = watch::channel(Snapshot {
            state: unstartable_state.clone().unwrap_or(State::Connecting),
            link: None,
            tools: Arc::default(),
            session: None,
            error: None,
            // A server that may not be started counts as settled.
            attempts: unstartable_state.is_some().into(),
            was_tried_before: false,
            round: Round { number: 0, start: Instant::now() },
            rechecks: 0,
        });
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let wake = Arc::<WakeSignals>::default();
        let spec = Arc::new(spec);
        if unstartable_state.is_none() {
            let task = Task {
                name,
                spec: spec.clone(),
                context: context.clone(),
                snapshot_sender,
                wake: wake.clone(),
                stop: stop.clone(),
            };
            // Cancels `ended` also if the task panics.
            let report_end = ended.clone().drop_guard();
            context.tasks.spawn(async move {
                if let Some(predecessor) = predecessor {
                    predecessor.cancelled().await;
                }
                Box::pin(task.run()).await;
                drop(report_end);
            });
        } else {
            ended.cancel();
        }
        Self {
            spec,
            has_private_output: context.has_private_output,
            watched_resources: context.connector.watched.clone(),
            snapshot_receiver,
            wake,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            ended,
        }
    }

    /// Returns the resources with listeners of this server. `name` is the name of the server.
    pub(crate) fn topics(&self, name: &ServerName) -> Arc<Topics> {
        self.watched_resources.topics_for(name)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_receiver.borrow().clone()
    }

    /// Returns the word for the server's state; see [`State::word`].
    pub(crate) fn state_word(&self) -> &'static str {
        self.snapshot_receiver.borrow().state.word()
    }

    /// Requests a new connection, in any state. Until its first attempt has ended, the server is not
    /// [settled](Self::settled).
    pub(crate) fn reconnect(&self) {
        if !self.ended.is_cancelled() {
            self.wake.round.send_modify(|round| *round += 1);
        }
    }

    /// Returns whether the first attempt of the last requested round has ended.
    pub(crate) fn is_settled(&self) -> bool {
        let requested_round = *self.wake.round.borrow();
        let snapshot = self.snapshot_receiver.borrow();
        snapshot.round.number >= requested_round && snapshot.attempts > 0
    }

    /// Returns whether any attempt to connect has ended, in this round or an earlier one.
    pub(crate) fn was_tried(&self) -> bool {
        let snapshot = self.snapshot_receiver.borrow();
        snapshot.was_tried_before || snapshot.attempts > 0
    }

    /// Waits until the first attempt of the last requested round has ended.
    pub(crate) async fn settled(&self) {
        let requested_round = *self.wake.round.borrow();
        let mut snapshot_receiver = self.snapshot_receiver.clone();
        let is_settled = |snapshot: &Snapshot| snapshot.round.number >= requested_round && snapshot.attempts > 0;
        // This fails if the server's task has ended, and there is nothing to wait for.
        let _ = snapshot_receiver.wait_for(is_settled).await;
    }

    /// Returns the moment at which the current round will have lasted for `limit`; `None` if that moment has passed. If
    /// a new round was requested but has not begun, it counts as beginning now.
    pub(crate) fn round_deadline(&self, limit: Duration) -> Option<Instant> {
        let round = self.snapshot_receiver.borrow().round;
        let starts_now = *self.wake.round.borrow() > round.number;
        let deadline = deadline(if starts_now { Instant::now() } else { round.start }, limit);
        (deadline > Instant::now()).then_some(deadline)
    }

    /// Stops the server; see [`Self::ended`].
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns a token that is cancelled when all parts of the server have ended.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Makes the host connect again if the server has refused the authorization of its entry, because the entry may
    /// send other values by now. Does not wait for the attempt. Does nothing in any other state.
    pub(crate) fn try_again_if_refused(&self) {
        let snapshot = self.snapshot_receiver.borrow();
        if matches!(snapshot.state, State::NeedsAuth { .. }) && !snapshot.waits_for_sign_in() {
            self.wake.nudge.notify_one();
        }
    }

    /// Waits for the link, at most until the next attempt to connect has ended. If the server waits before that
    /// attempt, ends the wait. The caller limits the time.
    pub(crate) async fn link(&self) -> Result<Link, Snapshot> {
        let mut snapshot_receiver = self.snapshot_receiver.clone();
        let initial = snapshot_receiver.borrow_and_update().clone();
        let mut current = initial.clone();
        loop {
            if let Some(link) = current.open_link() {
                return Ok(link);
            }
            match &current.state {
                State::NeedsAuth { .. } if current.waits_for_sign_in() => return Err(current),
                State::Reconnecting { .. } | State::Failed { .. } | State::NeedsAuth { .. }
                    if current.has_tried_since(&initial) =>
                {
                    return Err(current);
                }
                State::Reconnecting { .. } | State::Failed { .. } | State::NeedsAuth { .. } | State::Idle { .. } => {
                    self.wake.nudge.notify_one();
                }
                State::Connecting | State::Connected { .. } | State::ToolsFailed { .. } => {}
                State::Disabled | State::PendingTrust | State::Disconnected => return Err(current),
            }
            if snapshot_receiver.changed().await.is_err() {
                return Err(current);
            }
            current = snapshot_receiver.borrow_and_update().clone();
        }
    }
}
