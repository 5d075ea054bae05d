//! One task per server owns its connection: connects, lists, watches, reconnects. Everybody else sees what it
//! publishes and clones a link out of it; nobody waits behind anybody.

mod toolset;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use futures::future::join;
use serde::Serialize;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub(crate) use toolset::ToolSet;

use crate::{
    event::Event,
    link::{Connection, Connector, Link, LinkError, Session},
    resolve::Memory,
    spec::{Era, Protocol, Retry, ServerName, ServerSpec, Trust},
};

/// A connection that lived this long has proven itself: attempts are counted anew.
const PROVEN: Duration = Duration::from_secs(30);
/// Between two listings of a server whose tools change all the time.
const SHORTEST_RELIST: Duration = Duration::from_millis(250);
const LONGEST_RELIST: Duration = Duration::from_secs(30);
/// Listings per minute up to which a server is not called restless.
const RESTFUL: u32 = 5;
/// How long the first listing waits for the server's standing stream to open.
const STREAM_OPENS: Duration = Duration::from_secs(1);
/// Before a failed listing is tried again.
const LIST_RETRY: Duration = Duration::from_secs(10);
/// The longest `Retry-After` that is honoured.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// A call can cut a back-off short, but not more often than this.
const SHORTEST_NUDGE: Duration = Duration::from_secs(1);

/// The state of a server, for people and programs. `state` is the stable tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Configured and switched off.
    Disabled,
    /// Brought by a project file and not approved: neither started nor looked up.
    PendingTrust,
    /// Not connected, and nothing is being done about it.
    Disconnected,
    /// Being connected for the first time, or again on request.
    Connecting,
    /// Connected; its tools are listed.
    Connected {
        /// How many of its tools are in the catalog.
        tools: usize,
    },
    /// Connected, but its tools could not be listed.
    ToolsFailed {
        /// Why, safe to print.
        error: String,
    },
    /// The connection failed or ended; the next attempt waits.
    Reconnecting {
        /// Failed attempts so far.
        attempt: u32,
        /// How many are made in all.
        attempts: u32,
        /// The wait before the next one, in milliseconds, as of when this was published.
        in_ms: u64,
        /// Why, safe to print.
        error: String,
    },
    /// It wants a sign-in first.
    NeedsAuth {
        /// What it said, safe to print.
        how: String,
    },
    /// Given up until somebody asks, or the configuration changes.
    Failed {
        /// Why, safe to print.
        error: String,
    },
}

impl State {
    /// The stable tag: `connected`, `pending_trust`, …
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::PendingTrust => "pending_trust",
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected { .. } => "connected",
            Self::ToolsFailed { .. } => "tools_failed",
            Self::Reconnecting { .. } => "reconnecting",
            Self::NeedsAuth { .. } => "needs_auth",
            Self::Failed { .. } => "failed",
        }
    }

    /// The error that goes with it, if one does.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => Some(error),
            Self::NeedsAuth { how } => Some(how),
            _ => None,
        }
    }
}

/// What a server's task publishes.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    /// The way to the server while it is connected.
    pub(crate) link: Option<Link>,
    /// The tools as last listed; kept while it reconnects.
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) session: Option<Arc<Session>>,
    /// Why the last attempt or connection ended.
    pub(crate) error: Option<Arc<LinkError>>,
    /// The first attempt has ended, one way or the other.
    pub(crate) settled: bool,
}

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) spec: Arc<ServerSpec>,
    published: watch::Receiver<Snapshot>,
    again: Arc<Again>,
    stop: CancellationToken,
    gone: CancellationToken,
    _end: DropGuard,
}

/// Somebody wants a connection.
#[derive(Debug, Default)]
struct Again {
    /// Reconnect, even a healthy one.
    now: Notify,
    /// Do not wait any longer, if waiting is what you do.
    nudge: Notify,
}

/// What a server's task needs from its host.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) connector: Connector,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) tasks: TaskTracker,
    /// Told after each publication.
    pub(crate) changed: Arc<Notify>,
    /// Makes the waits of this host differ from those of others.
    pub(crate) jitter: u64,
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
            settled: idle.is_some(),
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
        Self { spec, published, again, _end: stop.clone().drop_guard(), stop, gone }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.published.borrow().clone()
    }

    /// Connects anew, whatever the state.
    pub(crate) fn reconnect(&self) {
        self.again.now.notify_one();
    }

    /// Waits until the first attempt has ended.
    pub(crate) async fn settled(&self) {
        let mut published = self.published.clone();
        let _ = published.wait_for(|snapshot| snapshot.settled).await;
    }

    /// Waits until there is no link.
    pub(crate) async fn disconnected(&self) {
        let mut published = self.published.clone();
        let _ = published.wait_for(|snapshot| snapshot.link.is_none()).await;
    }

    /// Stops the server; see [`Self::gone`].
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Cancelled when nothing of the server is left.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    /// The link, as soon as there is one. A server that waits before its next attempt is woken up; the wait ends with
    /// that attempt. The caller bounds the time.
    pub(crate) async fn link(&self) -> Result<Link, Snapshot> {
        let mut published = self.published.clone();
        let first = published.borrow_and_update().clone();
        match &first.state {
            State::Connecting => {}
            State::Reconnecting { .. } | State::Failed { .. } => self.again.nudge.notify_one(),
            _ => return first.link.clone().ok_or(first),
        }
        // Through `connecting`, to whatever comes of it.
        let mut connecting = first.state == State::Connecting;
        loop {
            if published.changed().await.is_err() {
                return Err(first);
            }
            let now = published.borrow_and_update().clone();
            match &now.state {
                State::Connecting => connecting = true,
                _ if now.link.is_some() => return now.link.clone().ok_or(now),
                _ if connecting => return Err(now),
                _ => {}
            }
        }
    }
}

struct Task {
    name: ServerName,
    spec: Arc<ServerSpec>,
    around: Surroundings,
    publish: watch::Sender<Snapshot>,
    again: Arc<Again>,
    stop: CancellationToken,
}

/// What to do after a connection.
enum Next {
    /// Connect again, at once.
    Now,
    /// Wait, then connect again.
    Later(LinkError),
    Stop,
}

impl Task {
    async fn run(self) {
        let stop = self.stop.clone();
        let mut failures = 0;
        let mut era = None;
        loop {
            self.publish(|snapshot| snapshot.state = State::Connecting);
            let connecting = Box::pin(self.connect(&mut era));
            let next = match stop.run_until_cancelled(connecting).await {
                None => Next::Stop,
                Some(Err(error)) => Next::Later(error),
                Some(Ok(connection)) => {
                    let born = Instant::now();
                    let next = self.live(connection).await;
                    if born.elapsed() >= PROVEN {
                        failures = 0;
                    }
                    next
                }
            };
            match next {
                Next::Stop => break,
                Next::Now => {}
                Next::Later(error) => {
                    let wait = self.wait_after(error, &mut failures);
                    if stop.run_until_cancelled(wait).await.is_none() {
                        break;
                    }
                }
            }
        }
        self.publish(|snapshot| {
            snapshot.state = State::Disconnected;
            snapshot.link = None;
            snapshot.settled = true;
        });
    }

    async fn connect(&self, era: &mut Option<Era>) -> Result<Connection, LinkError> {
        let fingerprint = self.spec.fingerprint();
        if era.is_none()
            && self.spec.protocol == Protocol::Auto
            && let Some(memory) = &self.around.memory
        {
            *era = memory.era(&fingerprint).await;
        }
        let first = era.unwrap_or(Era::Modern);
        let connection = self.around.connector.connect(&self.name, &self.spec, first).await?;
        let found = connection.link.session().era;
        if *era != Some(found) {
            *era = Some(found);
            if let Some(memory) = &self.around.memory {
                memory.remember_era(&fingerprint, found).await;
            }
        }
        Ok(connection)
    }

    /// Uses a connection until it ends; tells what to do then.
    async fn live(&self, connection: Connection) -> Next {
        let link = connection.link.clone();
        let stopped = self.stop.run_until_cancelled(self.serve(&link)).await;
        self.publish(|snapshot| snapshot.link = None);
        connection.shutdown().await;
        let Some(why) = stopped else {
            self.tell(Event::McpServerDisconnected { server: self.name.clone(), reason: None });
            return Next::Stop;
        };
        let Some(error) = why else { return Next::Now };
        self.tell(Event::McpServerDisconnected { server: self.name.clone(), reason: Some(error.to_string()) });
        match error {
            // The server forgot us, which is no fault of its health: begin a new session at once.
            LinkError::SessionNotFound => Next::Now,
            error => Next::Later(error),
        }
    }

    /// Lists, publishes and watches; ends with the connection, or with `None` when a fresh one is wanted.
    async fn serve(&self, link: &Link) -> Option<LinkError> {
        let mut pace = Pace::new();
        let opened = link.listen();
        let (mut listed, _) = join(self.list(link), timeout(STREAM_OPENS, opened)).await;
        loop {
            pace.listed();
            let refresh = match &listed {
                Ok(fresh_for) if fresh_for.is_zero() => None,
                Ok(fresh_for) => Some(*fresh_for),
                Err(error) if error.ends_the_connection() => return Some(error.clone()),
                Err(_) => Some(LIST_RETRY),
            };
            let refresh = refresh.map(|after| Instant::now() + after.max(SHORTEST_RELIST));
            tokio::select! {
                why = link.closed() => return Some(why),
                () = self.again.now.notified() => return None,
                () = async { sleep_until(refresh.unwrap_or_else(Instant::now)).await }, if refresh.is_some() => {}
                () = link.tools_changed() => {
                    if pace.is_restless() {
                        self.warn("its tools change all the time; they are listed less often now");
                    }
                    tokio::select! {
                        why = link.closed() => return Some(why),
                        () = pace.pause() => {}
                    }
                }
            }
            listed = self.list(link).await;
        }
    }

    /// Lists the tools and publishes them; gives the time for which the list is fresh.
    async fn list(&self, link: &Link) -> Result<Duration, LinkError> {
        let listed = tokio::select! {
            listed = link.list_tools() => listed,
            why = link.closed() => Err(why),
        };
        let session = Some(Arc::new(link.session().clone()));
        match listed {
            Ok(listed) => {
                let fresh_for = listed.fresh_for;
                let tools = Arc::new(ToolSet::new(listed, &self.spec.tools));
                for (name, why) in &tools.quarantined {
                    self.warn(&format!("the tool {name} cannot be used: {why}"));
                }
                let count = tools.tools.len();
                self.publish(|snapshot| {
                    snapshot.state = State::Connected { tools: count };
                    snapshot.link = Some(link.clone());
                    snapshot.tools = tools;
                    snapshot.session = session;
                    snapshot.error = None;
                    snapshot.settled = true;
                });
                self.tell(Event::McpServerConnected { server: self.name.clone(), tool_count: count });
                Ok(fresh_for)
            }
            Err(error) => {
                if !error.ends_the_connection() {
                    self.publish(|snapshot| {
                        snapshot.state = State::ToolsFailed { error: error.to_string() };
                        snapshot.link = Some(link.clone());
                        snapshot.session = session;
                        snapshot.error = Some(Arc::new(error.clone()));
                        snapshot.settled = true;
                    });
                    self.tell(Event::McpServerError { server: self.name.clone(), error: error.to_string() });
                }
                Err(error)
            }
        }
    }

    /// Publishes why there is no connection and waits for the next attempt.
    async fn wait_after(&self, error: LinkError, failures: &mut u32) {
        *failures += 1;
        let Retry { attempts, first, longest } = self.spec.retry;
        let text = error.to_string();
        self.tell(Event::McpServerError { server: self.name.clone(), error: text.clone() });
        let needs_auth = matches!(error, LinkError::NeedsAuth { .. });
        let asked = match error {
            LinkError::RateLimited { retry_after } => retry_after.unwrap_or_default().min(LONGEST_ASKED),
            _ => Duration::ZERO,
        };
        let wait = || backoff(*failures, first, longest, self.jitter(*failures)).max(asked);
        let wait = (!needs_auth && *failures <= attempts).then(wait);
        let state = match wait {
            _ if needs_auth => State::NeedsAuth { how: text },
            None => State::Failed { error: text },
            Some(wait) => State::Reconnecting {
                attempt: *failures,
                attempts,
                in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                error: text,
            },
        };
        self.publish(|snapshot| {
            snapshot.state = state;
            snapshot.link = None;
            snapshot.error = Some(Arc::new(error));
            snapshot.settled = true;
        });
        let nudged = async {
            sleep(SHORTEST_NUDGE.min(wait.unwrap_or(SHORTEST_NUDGE))).await;
            if needs_auth {
                std::future::pending::<()>().await;
            }
            self.again.nudge.notified().await;
        };
        tokio::select! {
            () = async { sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
            () = nudged => {}
            () = self.again.now.notified() => *failures = 0,
        }
    }

    /// Between 0 and 1, different for every host, server and attempt.
    fn jitter(&self, failures: u32) -> f64 {
        let mut hash = DefaultHasher::new();
        (self.around.jitter, &self.name, failures).hash(&mut hash);
        f64::from(u32::try_from(hash.finish() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut told = None;
        self.publish.send_modify(|snapshot| {
            let before = snapshot.state.clone();
            change(snapshot);
            if snapshot.state != before {
                told = Some(snapshot.state.clone());
            }
        });
        self.around.changed.notify_one();
        if let Some(state) = told {
            self.tell(Event::McpServerState { server: self.name.clone(), state });
        }
    }

    fn warn(&self, warning: &str) {
        self.tell(Event::McpServerWarning { server: self.name.clone(), warning: warning.into() });
    }

    fn tell(&self, event: Event) {
        (self.around.connector.events)(event);
    }
}

/// `first` doubled with each failure, at most `longest`, give or take a fifth so that servers do not march in step.
fn backoff(failures: u32, first: Duration, longest: Duration, jitter: f64) -> Duration {
    let wait = first.saturating_mul(1 << (failures - 1).min(16)).min(longest);
    wait.mul_f64(0.8 + 0.4 * jitter)
}

/// How often a server's changes are followed.
#[derive(Debug)]
struct Pace {
    minute: Instant,
    lists: u32,
    last: Instant,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self { minute: now, lists: 0, last: now }
    }

    fn listed(&mut self) {
        self.last = Instant::now();
        if self.minute.elapsed() >= Duration::from_secs(60) {
            self.minute = self.last;
            self.lists /= 2;
        }
        self.lists += 1;
    }

    /// Whether the server has just become restless.
    fn is_restless(&self) -> bool {
        self.lists == 4 * RESTFUL
    }

    /// One refresh now and at most one follow-up: changes meanwhile are one change.
    async fn pause(&self) {
        let gap = SHORTEST_RELIST.saturating_mul(1 << (self.lists / RESTFUL).min(10)).min(LONGEST_RELIST);
        sleep_until(self.last + gap).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ_by_a_fifth() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
        for (failures, expected) in [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (40, 60.0)] {
            for (jitter, factor) in [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)] {
                let wait = backoff(failures, first, longest, jitter).as_secs_f64();
                assert!((wait - expected * factor).abs() < 1e-6, "{failures}: {wait}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_restless_server_is_listed_less_and_less_often() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        for _ in 0..100 {
            pace.listed();
            pace.pause().await;
        }
        assert!(start.elapsed() > Duration::from_secs(600), "{:?}", start.elapsed());
    }
}
