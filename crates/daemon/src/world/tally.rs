//! Counts the calls in a world (a host with its configuration), from the host's events. The world of a member or of a
//! session borrows servers from another world, such as the tenant's world. Its calls count in the lending world as
//! well, because the metrics of a tenant are about all of its members.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        watch,
    },
    time::Instant,
};
use toolrack_host::{CallEnd, Event, Principal, ServerName, State};

use super::World;
use crate::{event_log::Audience, rights::Right};

/// The maximum number of ended calls that are remembered one by one.
const MAX_RECENT_CALLS: usize = 20;

/// The window in which the calls per minute are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of calls that are counted in that window. If there are more, users see this number.
const MAX_PER_MINUTE: usize = 100_000;

/// The maximum number of pairs of a server and a [`CallEnd`] that are counted separately. Calls of further pairs are
/// counted together, under the name [`OTHERS`].
const MAX_COUNTS: usize = 1_000;

/// The name under which two groups of servers are counted together: those beyond [`MAX_COUNTS`], and those that members
/// have added for themselves, whose names the tenant must not learn.
const OTHERS: &str = "(others)";

/// Calls of one server that ended in one way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallCount {
    pub(crate) calls: u64,
    /// How long all of these calls took together.
    pub(crate) time: Duration,
}

/// A call that ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedCall {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) end: CallEnd,
    pub(crate) duration: Duration,
    /// When the call ended.
    pub(crate) ended_at: DateTime<Utc>,
    /// The principal who made the call.
    pub(crate) principal: Principal,
}

/// The counts of a world. The watch channel serves as a lock: no task waits for a change.
#[derive(Debug, Default)]
pub(crate) struct Tally(watch::Sender<CallCounters>);

/// The counters.
#[derive(Debug, Default)]
struct CallCounters {
    /// The counts, by the name of the server and the word of [`CallEnd`].
    by_server: BTreeMap<(String, &'static str), CallCount>,
    /// How many calls were not allowed.
    denied: u64,
    /// How many events were not counted because too many arrived at once.
    lost: u64,
    /// The last calls that ended, the oldest first.
    recent: VecDeque<EndedCall>,
    /// When the calls of the last [`MINUTE`] ended, the oldest first.
    end_times: VecDeque<Instant>,
    /// When the next attempt begins to connect a server that reconnects, by the name of the server.
    retry_times: BTreeMap<String, DateTime<Utc>>,
}

impl Tally {
    fn change(&self, change: impl FnOnce(&mut CallCounters)) {
        self.0.send_modify(change);
    }

    /// The counts by the name of the server and the word of [`CallEnd`].
    pub(crate) fn by_server(&self) -> BTreeMap<(String, &'static str), CallCount> {
        self.0.borrow().by_server.clone()
    }

    /// How many calls ended, and how many of them failed: without a result, or with a result that the tool marks
    /// as an error.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let counters = self.0.borrow();
        let sum = |matches_end: &dyn Fn(&str) -> bool| {
            counters.by_server.iter().filter(|((_, end), _)| matches_end(end)).map(|(_, count)| count.calls).sum()
        };
        (sum(&|_| true), sum(&|end| end == CallEnd::ToolError.word() || end == CallEnd::Failed.word()))
    }

    /// How many calls were not allowed.
    pub(crate) fn denied_calls(&self) -> u64 {
        self.0.borrow().denied
    }

    /// Returns the number of events that were not counted, because too many arrived at once.
    pub(crate) fn lost_events(&self) -> u64 {
        self.0.borrow().lost
    }

    /// How many calls ended within the last minute.
    pub(crate) fn calls_in_last_minute(&self) -> usize {
        let end_times = &self.0.borrow().end_times;
        end_times.len() - end_times.partition_point(is_old)
    }

    /// Those of the last calls that `reader` may see, the newest first: all of them if the reader operates the servers,
    /// and only the reader's own calls if not.
    pub(crate) fn recent_calls(&self, reader: &Principal) -> Vec<EndedCall> {
        let is_operator = Right::Operate.is_held_by(reader);
        let counters = self.0.borrow();
        counters.recent.iter().rev().filter(|call| is_operator || call.principal.is_same(reader)).cloned().collect()
    }

    /// Returns when the next attempt to connect `server` begins, if that is known. The time may have passed.
    pub(crate) fn retry_at(&self, server: &str) -> Option<DateTime<Utc>> {
        self.0.borrow().retry_times.get(server).copied()
    }
}

/// Whether a call ended before the window of the calls per minute.
fn is_old(end_time: &Instant) -> bool {
    end_time.elapsed() > MINUTE
}

impl CallCounters {
    /// Records when the next attempt to connect a server begins, or that no attempt is planned.
    fn record_state(&mut self, server: &ServerName, state: &State) {
        match state {
            State::Reconnecting { in_ms, .. } => {
                let at = Utc::now() + Duration::from_millis(*in_ms);
                self.retry_times.insert(server.to_string(), at);
            }
            _ => drop(self.retry_times.remove(server.as_str())),
        }
    }

    /// Counts a call of `server`.
    fn count(&mut self, server: &str, end: CallEnd, duration: Duration) {
        let mut key = (server.to_owned(), end.word());
        if !self.by_server.contains_key(&key) && self.by_server.len() >= MAX_COUNTS {
            key.0 = OTHERS.to_owned();
        }
        let count = self.by_server.entry(key).or_default();
        count.calls += 1;
        count.time += duration;
        self.end_times.drain(..self.end_times.partition_point(is_old));
        if self.end_times.len() < MAX_PER_MINUTE {
            self.end_times.push_back(Instant::now());
        }
    }

    /// Counts a call, and remembers it among the last ones.
    fn add(&mut self, ended: EndedCall) {
        self.count(&ended.server, ended.end, ended.duration);
        if self.recent.len() == MAX_RECENT_CALLS {
            self.recent.pop_front();
        }
        self.recent.push_back(ended);
    }
}

/// Counts and logs the host's events, until the world ends.
pub(super) async fn listen(world: Arc<World>, mut events: broadcast::Receiver<Event>) {
    loop {
        let event = tokio::select! {
            () = world.ending.cancelled() => return,
            event = events.recv() => event,
        };
        match event {
            Ok(event) => record_event(&world, event),
            Err(RecvError::Lagged(lost)) => {
                world.tally.change(|counters| counters.lost += lost);
                world.log.add("missed", Audience::All, &json!({ "count": lost }));
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Who may read an event. Events that are about neither a server's state nor one caller's call are for operators only:
/// for example the logs and warnings of servers, which can contain texts of any caller.
fn audience(event: &Event) -> Audience {
    match event {
        Event::McpServerState { server, .. }
        | Event::McpServerConnected { server, .. }
        | Event::McpServerDisconnected { server, .. }
        | Event::McpServerError { server, call: None, .. }
        | Event::McpToolsUpdated { server, .. }
        | Event::McpToolQuarantined { server, .. }
        | Event::McpPromptsChanged { server }
        | Event::McpResourcesChanged { server } => Audience::Server(server.to_string()),
        Event::McpServerError { call: Some(call), .. }
        | Event::ToolStarted { call, .. }
        | Event::ToolProgress { call, .. }
        | Event::ToolCompleted { call, .. }
        | Event::ToolApprovalRequest { call, .. }
        | Event::ToolDenied { call, .. } => Audience::Caller(call.principal.clone()),
        _ => Audience::Operators,
    }
}

/// Adds an event to the event log of the world. Leaves out the events of a server that another world lends to this one:
/// the log of that world has them, and members read both logs.
fn log_event(world: &World, event: &Event) {
    // Cannot fail: the fields of an event are plain data.
    let event_json = serde_json::to_value(event).unwrap_or_default();
    let Some(name) = event_json["event"].as_str() else { return };
    let audience = match audience(event) {
        Audience::Server(server) if !world.runs_server(&server) => return,
        // If several members share the server, those who do not operate it get the event without its output.
        Audience::Server(server) if !world.serves_one_user(&server) => match event.without_output() {
            Some(without_output) => {
                world.log.add(name, Audience::Members(server), &without_output);
                Audience::Operators
            }
            None => Audience::Server(server),
        },
        audience => audience,
    };
    world.log.add(name, audience, &event_json);
}

/// Adds an event to the event log of the world, and counts it.
fn record_event(world: &World, event: Event) {
    log_event(world, &event);
    match event {
        Event::ToolCompleted { call, server, tool, outcome: end, duration, .. } => {
            let (server, principal) = (server.to_string(), call.principal);
            let ended_call = EndedCall { server, tool, end, duration, ended_at: Utc::now(), principal };
            count_call(world, ended_call);
        }
        Event::McpServerState { server, state, .. } => {
            world.tally.change(|counters| counters.record_state(&server, &state));
        }
        Event::ToolDenied { .. } => count_denied(world),
        _ => {}
    }
}

/// Counts a call in the world in which it was made, and in the worlds that lend servers to that world. If a member has
/// added the server for themselves, the lending worlds count the call without the server's name.
fn count_call(world: &World, ended_call: EndedCall) {
    if let Some(base) = world.base.upgrade() {
        if base.loaded.load().desired.contains_key(ended_call.server.as_str()) {
            count_call(&base, ended_call.clone());
        } else {
            count_unnamed(&base, &ended_call);
        }
    }
    world.tally.change(|counters| counters.add(ended_call));
}

/// Counts a call of a server that a member has added, in this world and in those that lend servers to it.
fn count_unnamed(world: &World, ended_call: &EndedCall) {
    world.tally.change(|counters| counters.count(OTHERS, ended_call.end, ended_call.duration));
    if let Some(base) = world.base.upgrade() {
        count_unnamed(&base, ended_call);
    }
}

/// Counts a call that was not allowed, in the same worlds as [`count_call`].
fn count_denied(world: &World) {
    world.tally.change(|counters| counters.denied += 1);
    if let Some(base) = world.base.upgrade() {
        count_denied(&base);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use toolrack_host::principal::{Kind, Role};

    use super::*;

    fn add(tally: &Tally, server: &str, end: CallEnd, ms: u64) {
        add_of(tally, server, end, ms, Principal::LOCAL);
    }

    fn add_of(tally: &Tally, server: &str, end: CallEnd, ms: u64, principal: Principal) {
        let (server, tool, duration) = (server.to_owned(), "tool".to_owned(), Duration::from_millis(ms));
        tally.change(|counters| {
            counters.add(EndedCall { server, tool, end, duration, ended_at: Utc::now(), principal })
        });
    }

    #[test]
    fn calls_are_counted_by_server_and_end_and_a_cancelled_one_does_not_count_as_failed() {
        let tally = Tally::default();
        for (server, end) in [
            ("git", CallEnd::Ok),
            ("git", CallEnd::Ok),
            ("git", CallEnd::ToolError),
            ("db", CallEnd::Failed),
            ("db", CallEnd::Cancelled),
        ] {
            add(&tally, server, end, 10);
        }
        assert_eq!(tally.totals(), (5, 2));
        let by_server = tally.by_server();
        let ok = by_server[&("git".to_owned(), CallEnd::Ok.word())];
        assert_eq!((by_server.len(), ok.calls, ok.time), (4, 2, Duration::from_millis(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn only_calls_of_the_last_minute_count_for_the_rate() {
        let tally = Tally::default();
        add(&tally, "git", CallEnd::Ok, 1);
        advance(Duration::from_secs(40)).await;
        add(&tally, "git", CallEnd::Ok, 1);
        assert_eq!(tally.calls_in_last_minute(), 2);
        advance(Duration::from_secs(21)).await;
        assert_eq!(tally.calls_in_last_minute(), 1, "the first call is too old, although no new call has ended");
        advance(MINUTE).await;
        assert_eq!((tally.calls_in_last_minute(), tally.totals().0), (0, 2));
        add(&tally, "git", CallEnd::Ok, 1);
        assert_eq!(tally.0.borrow().end_times.len(), 1, "the calls before are forgotten");
    }

    #[test]
    fn the_last_calls_are_listed_with_the_newest_first_and_up_to_the_bound() {
        let tally = Tally::default();
        for number in 0..MAX_RECENT_CALLS + 5 {
            add(&tally, &format!("s{number}"), CallEnd::Ok, 1);
        }
        let recent = tally.recent_calls(&Principal::LOCAL);
        assert_eq!(
            (recent.len(), &*recent[0].server, &*recent[MAX_RECENT_CALLS - 1].server),
            (MAX_RECENT_CALLS, "s24", "s5")
        );
    }

    #[test]
    fn a_member_sees_their_own_last_calls_and_an_operator_those_of_all() {
        let tally = Tally::default();
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        add_of(&tally, "git", CallEnd::Ok, 1, person("ann"));
        add_of(&tally, "db", CallEnd::Ok, 1, person("bob").with_role(Role::Operator));
        let seen =
            |reader: &Principal| tally.recent_calls(reader).into_iter().map(|one| one.server).collect::<Vec<_>>();
        assert_eq!(seen(&person("ann").with_role(Role::Viewer)), ["git"]);
        assert_eq!(seen(&person("bob").with_role(Role::Operator)), ["db", "git"]);
        assert!(seen(&person("eve")).is_empty());
    }

    #[test]
    fn servers_beyond_the_bound_are_counted_together() {
        let tally = Tally::default();
        for number in 0..MAX_COUNTS + 7 {
            add(&tally, &format!("s{number}"), CallEnd::Ok, 1);
        }
        add(&tally, "s0", CallEnd::Ok, 1);
        let by_server = tally.by_server();
        assert_eq!(by_server.len(), MAX_COUNTS + 1);
        assert_eq!(by_server[&("(others)".to_owned(), CallEnd::Ok.word())].calls, 7);
        assert_eq!(
            by_server[&("s0".to_owned(), CallEnd::Ok.word())].calls,
            2,
            "a server that was counted before keeps its own count"
        );
        assert_eq!(tally.totals().0, 1_008);
    }

    #[test]
    fn the_time_of_the_next_try_is_known_until_the_state_changes() {
        let tally = Tally::default();
        let server = ServerName::new("git").unwrap();
        let reconnecting =
            State::Reconnecting { attempt: 3, attempts: 3, in_ms: 60_000, error: "gone".to_owned().into() };
        tally.change(|counters| counters.record_state(&server, &reconnecting));
        let at = tally.retry_at("git").unwrap();
        assert!(at > Utc::now() + Duration::from_secs(50) && at <= Utc::now() + Duration::from_secs(60));
        assert_eq!(tally.retry_at("db"), None);
        tally.change(|counters| counters.record_state(&server, &State::Connecting));
        assert_eq!(tally.retry_at("git"), None);
    }
}
