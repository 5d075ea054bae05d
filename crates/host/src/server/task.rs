//! Runs the task that owns a server's connections, one after the other: it connects, lists the tools, publishes them in
//! a [`Snapshot`], and reconnects.
//!
//! A *round* is a series of attempts to connect; a caller can request a new one. A *nudge* tells the task that a caller
//! needs the server now. *Pins* are the trusted definitions of tools, against which the task checks each list.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::{ServerContext, Snapshot, WakeSignals};
use crate::{
    catalog::{Listed, ToolSet},
    event::Event,
    link::{Connection, Link, LinkError},
    spec::{Era, Protocol, Retry, ServerName, ServerSpec, Start},
    state::{FailureText, State},
    text::quote,
};

/// A connection that lasts this long resets the count of attempts.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// The shortest pause between two listings of a server that reports changes.
const MIN_RELIST_INTERVAL: Duration = Duration::from_millis(250);
/// The longest pause between two listings of a server whose tools keep changing.
const MAX_RELIST_INTERVAL: Duration = Duration::from_secs(30);
/// How many tools of one list are reported by name. Of the others, only the number is reported.
const MAX_REPORTED_TOOLS: usize = 20;
/// Up to this many listings in a minute, the pause between two of them stays [`MIN_RELIST_INTERVAL`].
const MAX_CALM_LISTINGS: u32 = 5;
/// How long the first listing waits for the server to open the stream on which it reports changes.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_secs(3);
/// The wait before a failed listing is tried again. It doubles with each further failure in a row.
const LIST_RETRY_DELAY: Duration = Duration::from_secs(10);
/// The longest wait before a failed listing is tried again.
const MAX_LIST_RETRY_DELAY: Duration = Duration::from_mins(5);
/// The longest `Retry-After` that the task accepts.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How much longer an idle connection stays open, because a caller may have just taken its link.
const IDLE_GRACE: Duration = Duration::from_millis(500);
/// A call ends the wait before the next attempt to connect, but the wait takes at least this long.
const MIN_NUDGE_INTERVAL: Duration = Duration::from_secs(1);

/// The task of a server; see the [module](self).
pub(super) struct Task {
    pub(super) name: ServerName,
    pub(super) spec: Arc<ServerSpec>,
    pub(super) context: ServerContext,
    pub(super) snapshot_sender: watch::Sender<Snapshot>,
    pub(super) wake: Arc<WakeSignals>,
    pub(super) stop: CancellationToken,
}

/// The next step after a connection has ended.
enum Next {
    /// Reconnect at once.
    Now,
    /// Wait, then reconnect.
    Later {
        error: LinkError,
        /// True if an attempt to connect failed; false if an established connection ended.
        is_failed_attempt: bool,
    },
    /// Wait until a caller needs the server.
    Idle,
    /// End the task.
    Stop,
}

/// The reason why the task no longer serves a connection.
enum ServeEnd {
    /// The connection ended.
    Broken(LinkError),
    /// A caller requested a new connection.
    ReconnectRequested,
    /// No call used the connection for the time of `idle_stop`.
    Unused,
}

impl Task {
    /// Runs until it is stopped, and returns when all parts of the server have ended.
    pub(super) async fn run(self) {
        let stop = self.stop.clone();
        let mut failures = 0;
        let mut era = None;
        if self.spec.start == Start::Lazy
            && self.publish_stored_tools().await
            && stop.run_until_cancelled(self.stay_idle()).await.is_none()
        {
            return self.publish_end();
        }
        loop {
            let round = *self.wake.round.borrow();
            self.publish(|snapshot| {
                snapshot.begin_round(round);
                snapshot.state = State::Connecting;
            });
            let connection_attempt = Box::pin(self.connect(&mut era));
            let next = match stop.run_until_cancelled(connection_attempt).await {
                None => Next::Stop,
                // A caller has requested a new attempt, for example because a secret has changed. The failed attempt
                // may have begun before that change, so its failure does not count.
                Some(Err(_)) if self.round_requested().now_or_never().is_some() => Next::Now,
                Some(Err(error)) => Next::Later { error, is_failed_attempt: true },
                Some(Ok(connection)) => {
                    let connected_at = Instant::now();
                    let next = self.run_connection(connection).await;
                    if connected_at.elapsed() >= STABLE_AFTER {
                        failures = 0;
                    }
                    next
                }
            };
            match next {
                Next::Stop => break,
                Next::Now => {}
                Next::Idle => {
                    if stop.run_until_cancelled(self.stay_idle()).await.is_none() {
                        break;
                    }
                }
                Next::Later { error, is_failed_attempt } => {
                    let wait = self.wait_after(error, is_failed_attempt, &mut failures);
                    if stop.run_until_cancelled(wait).await.is_none() {
                        break;
                    }
                }
            }
        }
        self.publish_end();
    }

    /// Waits until a caller requests a new round.
    async fn round_requested(&self) {
        let current_round = self.snapshot_sender.borrow().round.number;
        // Cannot fail, because the task shares the sender.
        let _ = self.wake.round.subscribe().wait_for(|requested_round| *requested_round != current_round).await;
    }

    /// Publishes that the server has ended.
    fn publish_end(&self) {
        let round = *self.wake.round.borrow();
        self.publish(|snapshot| {
            snapshot.begin_round(round);
            snapshot.state = State::Disconnected;
            snapshot.link = None;
            snapshot.attempts += 1;
        });
    }

    /// Publishes the remembered tools of an earlier run. Returns `false` if no tools are remembered.
    async fn publish_stored_tools(&self) -> bool {
        let Some(memory) = &self.context.memory else {
            return false;
        };
        let stored_tools = memory.tools(&self.spec.fingerprint()).await;
        let Some(listed) = stored_tools.and_then(|stored| Listed::from_stored(&stored, &self.spec.limits)) else {
            return false;
        };
        let tools = self.checked_against_pins(ToolSet::new(listed, &self.spec)).await;
        self.report_quarantined(&ToolSet::default(), &tools);
        // Change the state and the count of attempts together: no caller may see a server that has settled and still
        // connects.
        self.publish(|snapshot| {
            snapshot.state = State::Idle { tools: tools.tools.len() };
            snapshot.tools = Arc::new(tools);
            snapshot.attempts += 1;
        });
        true
    }

    /// Waits until a caller needs the server.
    async fn stay_idle(&self) {
        // Clear a nudge from before: the last connection has served its caller.
        let _ = self.wake.nudge.notified().now_or_never();
        self.publish(|snapshot| snapshot.state = State::Idle { tools: snapshot.tools.tools.len() });
        let wakeup = async {
            tokio::select! {
                () = self.wake.nudge.notified() => {}
                () = self.round_requested() => {}
            }
        };
        self.while_checking_pins(wakeup).await;
    }

    /// Connects. First tries the era (generation of MCP) of the last connection, from `era` or else from the host's
    /// memory.
    async fn connect(&self, era: &mut Option<Era>) -> Result<Connection, LinkError> {
        let fingerprint = self.spec.fingerprint();
        if era.is_none()
            && self.spec.protocol == Protocol::Auto
            && let Some(memory) = &self.context.memory
        {
            *era = memory.era(&fingerprint).await;
        }
        // Without an earlier connection, the newer era is tried first.
        let first_era = era.unwrap_or(Era::Modern);
        let span = info_span!("connect", server = %self.name);
        let connection = self.context.connector.connect(&self.name, &self.spec, first_era).instrument(span).await?;
        let actual_era = connection.link.session().era;
        if *era != Some(actual_era) {
            *era = Some(actual_era);
            if let Some(memory) = &self.context.memory {
                memory.remember_era(&fingerprint, actual_era).await;
            }
        }
        Ok(connection)
    }

    /// Serves a connection until it ends, and closes it. Returns what to do next.
    async fn run_connection(&self, connection: Connection) -> Next {
        let link = connection.link.clone();
        let end = self.stop.run_until_cancelled(self.serve(&link)).await;
        // A connection that ended before its first list was never published, so it counts as a failed attempt.
        let was_published = self.snapshot_sender.borrow().link.is_some();
        let is_idle = matches!(end, Some(ServeEnd::Unused));
        self.publish(|snapshot| {
            snapshot.link = None;
            match end {
                Some(ServeEnd::Unused) => snapshot.state = State::Idle { tools: snapshot.tools.tools.len() },
                Some(_) => snapshot.state = State::Connecting,
                None => {}
            }
        });
        if is_idle {
            // Serve a caller that has just taken the link.
            let wait_until_idle = async {
                sleep(IDLE_GRACE).await;
                while !link.is_idle() {
                    sleep(IDLE_GRACE).await;
                }
            };
            // The connection is closed next, even if the server was stopped during the wait.
            let _ = self.stop.run_until_cancelled(wait_until_idle).await;
        }
        connection.shutdown().await;
        let error = match end {
            Some(ServeEnd::Broken(error)) => error,
            Some(ServeEnd::ReconnectRequested) => return Next::Now,
            Some(ServeEnd::Unused) | None => {
                self.emit(Event::McpServerDisconnected { server: self.name.clone(), reason: None });
                return if is_idle { Next::Idle } else { Next::Stop };
            }
        };
        self.emit(Event::McpServerDisconnected { server: self.name.clone(), reason: Some((&error).into()) });
        match error {
            // The server has lost the session, which is no failure: begin a new one at once.
            LinkError::SessionNotFound { .. } if was_published => Next::Now,
            error => Next::Later { error, is_failed_attempt: !was_published },
        }
    }

    /// Lists the tools, publishes them and watches for changes, until the connection ends or is no longer wanted.
    async fn serve(&self, link: &Link) -> ServeEnd {
        let mut until_unused = pin!(link.wait_until_unused(self.spec.idle_stop));
        let mut pace = Pace::new();
        // Listen before listing, so that no change in between is lost, and no question of the server arrives before the
        // stream is open.
        tokio::select! {
            error = link.closed() => return ServeEnd::Broken(error),
            _ = timeout(STREAM_OPEN_TIMEOUT, link.listen()) => {}
        }
        let mut list_result = self.list(link).await;
        loop {
            pace.count_listing(list_result.is_ok());
            let refresh_after = match &list_result {
                Ok(fresh_for) if fresh_for.is_zero() => None,
                Ok(fresh_for) => Some(*fresh_for),
                Err(_) if link.is_closed() => return ServeEnd::Broken(link.closed().await),
                Err(_) => Some(pace.retry_delay()),
            };
            let refresh_at = refresh_after.map(|after| Instant::now() + after.max(MIN_RELIST_INTERVAL));
            let wakeup = async {
                tokio::select! {
                    error = link.closed() => return Some(ServeEnd::Broken(error)),
                    () = self.round_requested() => return Some(ServeEnd::ReconnectRequested),
                    () = &mut until_unused => return Some(ServeEnd::Unused),
                    () = async { sleep_until(refresh_at.unwrap_or_else(Instant::now)).await },
                        if refresh_at.is_some() => {}
                    () = link.tools_changed() => {
                        if pace.is_warning_due() {
                            self.warn("its tools change all the time; they are listed less often now");
                        }
                        tokio::select! {
                            error = link.closed() => return Some(ServeEnd::Broken(error)),
                            () = pace.pause() => {}
                        }
                    }
                }
                None
            };
            if let Some(end) = self.while_checking_pins(wakeup).await {
                return end;
            }
            list_result = self.list(link).await;
        }
    }

    /// Lists the tools and publishes them. Returns how long the list stays fresh; zero if the server does not say so.
    async fn list(&self, link: &Link) -> Result<Duration, LinkError> {
        // A server that starts on demand needs a stored list in the next run of the program.
        let keep_raw = self.spec.start == Start::Lazy;
        let list_result = tokio::select! {
            list_result = link.list_tools(keep_raw) => list_result,
            error = link.closed() => Err(error),
        };
        match list_result {
            Ok(mut listed) => {
                if let (Some(memory), Some(raw_list)) = (&self.context.memory, listed.bytes_to_store.take()) {
                    memory.remember_tools(&self.spec.fingerprint(), raw_list).await;
                }
                let fresh_for = listed.fresh_for;
                let tools = self.checked_against_pins(ToolSet::new(listed, &self.spec)).await;
                self.publish_tools(link, tools);
                Ok(fresh_for)
            }
            Err(error) if link.is_closed() => Err(error),
            Err(error) => {
                let text = FailureText::from(&error);
                let failed_state = State::ToolsFailed { error: text.clone() };
                let is_repeated = self.snapshot_sender.borrow().state == failed_state;
                self.publish(|snapshot| {
                    snapshot.set_connected(link);
                    snapshot.state = failed_state;
                    snapshot.error = Some(Arc::new(error.clone()));
                });
                if !is_repeated {
                    self.emit(Event::McpServerError { server: self.name.clone(), error: text, call: None });
                }
                Err(error)
            }
        }
    }

    /// Publishes a list of tools, unless it equals the current one.
    fn publish_tools(&self, link: &Link, tools: ToolSet) {
        let previous = self.snapshot_sender.borrow().clone();
        let is_same = *previous.tools == tools;
        if !is_same {
            self.report_unusable(&previous.tools, &tools);
            self.report_quarantined(&previous.tools, &tools);
        }
        let tools = if is_same { previous.tools } else { Arc::new(tools.reusing_unchanged(&previous.tools)) };
        let count = tools.tools.len();
        self.publish(|snapshot| {
            snapshot.set_connected(link);
            snapshot.state = State::Connected { tools: count };
            snapshot.tools = tools;
            snapshot.error = None;
        });
        if previous.link.is_none() {
            self.emit(Event::McpServerConnected { server: self.name.clone(), tool_count: count });
        }
    }

    /// Reports a warning for tools that have become unusable, or that are unusable for another reason than before: the
    /// first few by name, the rest as a count.
    fn report_unusable(&self, previous: &ToolSet, current: &ToolSet) {
        let unnamed_count = self.report_each(&current.unusable_since(previous), |tool| self.warn(&tool.to_string()));
        if unnamed_count > 0 {
            self.warn(&format!("{unnamed_count} more tools cannot be used"));
        }
    }

    /// Calls `emit` for the first [`MAX_REPORTED_TOOLS`] items, and returns the number of the others: thousands of
    /// events would displace the events of other servers.
    pub(super) fn report_each<T>(&self, items: &[&T], emit: impl Fn(&T)) -> usize {
        let (reported_items, other_items) = items.split_at(items.len().min(MAX_REPORTED_TOOLS));
        reported_items.iter().for_each(|item| emit(item));
        other_items.len()
    }

    /// Publishes the reason why there is no connection, and waits until it is time for the next attempt.
    /// `is_failed_attempt` is true if an attempt to connect failed, and false if an established connection ended.
    async fn wait_after(&self, error: LinkError, is_failed_attempt: bool, failures: &mut u32) {
        *failures += 1;
        let Retry { attempts: max_attempts, first: first_wait, longest: longest_wait } = self.spec.retry;
        let text = FailureText::from(&error);
        self.emit(Event::McpServerError { server: self.name.clone(), error: text.clone(), call: None });
        let needs_auth = matches!(error, LinkError::NeedsAuth { .. });
        // Signing in does not help if the server has refused the authorization that its entry contains.
        let may_sign_in = matches!(error, LinkError::NeedsAuth { refused: None, .. });
        let waits_for_sign_in = error.waits_for_sign_in();
        let retry_after = match error {
            LinkError::RateLimited { retry_after } => retry_after.unwrap_or_default().min(MAX_RETRY_AFTER),
            _ => Duration::ZERO,
        };
        let next_wait = || backoff(*failures, first_wait, longest_wait, self.jitter(*failures)).max(retry_after);
        // Without a wait, the next attempt begins only when a caller or a sign-in requests it.
        let wait = (!needs_auth && *failures <= max_attempts).then(next_wait);
        let state = match wait {
            _ if needs_auth => State::NeedsAuth { how: sign_in_step(&error) },
            None => State::Failed { error: text },
            Some(wait) => State::Reconnecting {
                attempt: *failures,
                attempts: max_attempts,
                in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                error: text,
            },
        };
        self.publish(|snapshot| {
            snapshot.state = state;
            snapshot.link = None;
            snapshot.error = Some(Arc::new(error));
            snapshot.attempts += u64::from(is_failed_attempt);
        });
        let early_wakeup = async {
            sleep(MIN_NUDGE_INTERVAL.min(wait.unwrap_or(MIN_NUDGE_INTERVAL))).await;
            tokio::select! {
                () = self.context.connector.signed_in(&self.name, &self.spec), if may_sign_in => {}
                () = self.wake.nudge.notified(), if !waits_for_sign_in => {}
            }
        };
        tokio::select! {
            () = async { sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
            () = early_wakeup => {}
            () = self.round_requested() => *failures = 0,
        }
    }

    /// Returns a number between 0 and 1 that differs for every host, server and attempt.
    fn jitter(&self, failures: u32) -> f64 {
        let mut hash = DefaultHasher::new();
        (self.context.jitter, &self.name, failures).hash(&mut hash);
        f64::from(u32::try_from(hash.finish() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    /// Changes the published snapshot. Emits an event if the state changes.
    pub(super) fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut new_state = None;
        self.snapshot_sender.send_modify(|snapshot| {
            let old_state = snapshot.state.clone();
            change(snapshot);
            if snapshot.state != old_state {
                new_state = Some(snapshot.state.clone());
            }
        });
        self.context.wake_keeper.notify_one();
        if let Some(state) = new_state {
            self.emit(Event::McpServerState { server: self.name.clone(), state });
        }
    }

    pub(super) fn warn(&self, warning: &str) {
        self.emit(Event::McpServerWarning { server: self.name.clone(), warning: quote(warning) });
    }

    pub(super) fn emit(&self, event: Event) {
        (self.context.connector.events)(event);
    }
}

/// Returns the next step for a server that needs a sign-in, in the words of the authorizer, or else of the server.
fn sign_in_step(error: &LinkError) -> String {
    match error {
        LinkError::NeedsAuth { how: Some(how), .. } => how.clone(),
        error => error.to_string(),
    }
}

/// Returns `first`, doubled with each failure up to `longest`. `jitter` (0 to 1) changes the result by up to a fifth,
/// so that servers do not reconnect together.
fn backoff(failures: u32, first: Duration, longest: Duration, jitter: f64) -> Duration {
    // Without a bound of the exponent, the shift could overflow.
    let wait = first.saturating_mul(1 << (failures - 1).min(16)).min(longest);
    wait.mul_f64(0.8 + 0.4 * jitter)
}

/// Limits how often a server that reports changes, or whose list cannot be read, is listed again.
#[derive(Debug)]
struct Pace {
    /// When the current minute began.
    minute_start: Instant,
    /// The number of listings in this minute, plus half of this value from the end of the last minute.
    listing_count: u32,
    /// When the tools were last listed.
    last_listed_at: Instant,
    /// The number of failed listings since the last successful one.
    failures: u32,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self { minute_start: now, listing_count: 0, last_listed_at: now, failures: 0 }
    }

    /// Counts a listing.
    fn count_listing(&mut self, is_successful: bool) {
        self.failures = if is_successful { 0 } else { self.failures.saturating_add(1) };
        self.last_listed_at = Instant::now();
        if self.minute_start.elapsed() >= Duration::from_secs(60) {
            self.minute_start = self.last_listed_at;
            self.listing_count /= 2;
        }
        self.listing_count += 1;
    }

    /// Returns the wait before a failed listing is tried again.
    fn retry_delay(&self) -> Duration {
        // Without a bound of the exponent, the shift could overflow.
        let doublings = self.failures.saturating_sub(1).min(10);
        LIST_RETRY_DELAY.saturating_mul(1 << doublings).min(MAX_LIST_RETRY_DELAY)
    }

    /// Returns whether the number of listings has just reached four times [`MAX_CALM_LISTINGS`], so that a warning is
    /// due.
    fn is_warning_due(&self) -> bool {
        self.listing_count == 4 * MAX_CALM_LISTINGS
    }

    /// Waits until the server may be listed again: the more listings in this minute, the longer. All changes that the
    /// server reports during the pause need only one listing.
    async fn pause(&self) {
        // Without a bound of the exponent, the shift could overflow.
        let doublings = (self.listing_count / MAX_CALM_LISTINGS).min(10);
        let gap = MIN_RELIST_INTERVAL.saturating_mul(1 << doublings).min(MAX_RELIST_INTERVAL);
        sleep_until(self.last_listed_at + gap).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_vary_by_a_fifth() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
        for (failures, expected) in [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (40, 60.0)] {
            for (jitter, factor) in [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)] {
                let wait = backoff(failures, first, longest, jitter).as_secs_f64();
                assert!((wait - expected * factor).abs() < 1e-6, "{failures}: {wait}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_always_changes_is_listed_less_and_less_often() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        for _ in 0..100 {
            pace.count_listing(true);
            pace.pause().await;
        }
        assert!(start.elapsed() > Duration::from_secs(300), "{:?}", start.elapsed());
    }
}
