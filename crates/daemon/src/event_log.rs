//! The newest events of a world (a host with its configuration and questions). The daemon keeps them so that a client
//! can continue where its connection ended.

use std::{collections::VecDeque, fmt, sync::Arc};

use chrono::Utc;
use rand::Rng as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolrack_config::Interpolate;
use toolrack_host::{Principal, text};

use crate::{rights::Right, shown};

/// The maximum number of events that a log keeps.
const MAX_EVENTS: usize = 1_000;

/// The maximum size of one event, in bytes. If an event is longer, the log keeps only its name, its time and its
/// server.
const MAX_EVENT_BYTES: usize = 16 * 1024;

/// The maximum size of all events together that a log keeps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogCapacity {
    /// For the log of one member of a tenant: 64 KiB, about 200 events, because a tenant may have very many members.
    Member = 64 * 1024,
    /// For the log of a machine, a tenant or an agent: 2 MiB.
    World = 2 * 1024 * 1024,
}

/// Who may read an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The members who have this server.
    Server(String),
    /// The members who have this server but do not operate it, and read less about it than operators.
    Members(String),
    /// The principal who made the call, and the principals who operate the servers.
    Caller(Principal),
    /// The principal whose call needs an approval, and the principals who approve for the tenant.
    Approval(Principal),
    /// The principal whom a server asks, and no other.
    Question(Principal),
    /// The principals who operate the servers.
    Operators,
    /// Every reader.
    All,
}

impl Audience {
    /// Returns whether `principal` may see and answer a question for this audience. `false` for the audience of other
    /// events.
    ///
    /// The caller and the operators of the tenant may answer an approval. Only the caller may answer a form or a page
    /// of a server, because the answer speaks in the caller's name.
    pub(crate) fn may_answer(&self, principal: &Principal) -> bool {
        match self {
            Self::Approval(caller) => caller.is_same(principal) || Right::Operate.is_held_by(principal),
            Self::Question(caller) => caller.is_same(principal),
            _ => false,
        }
    }
}

/// An event.
#[derive(Debug)]
pub(crate) struct LoggedEvent {
    /// The number of the event in this log, from 1.
    pub(crate) id: u64,
    /// The name of the event: `tool_started`, …
    pub(crate) name: String,
    /// Who may read it.
    pub(crate) audience: Audience,
    /// The data of the event, as JSON on one line.
    pub(crate) data: String,
}

/// The events that a reader has not seen yet.
#[derive(Debug, Default)]
pub(crate) struct UnseenEvents {
    /// How many events of this log the reader has missed, because they are no longer kept. `None` if the reader has
    /// missed none. A reader that last read another log, for example the log of an earlier run, always gets `Some`,
    /// even with 0: it may have missed events of that other log.
    pub(crate) missed: Option<u64>,
    /// The events that are still kept, in order.
    pub(crate) events: Vec<Arc<LoggedEvent>>,
}

/// The events that are kept, in order.
#[derive(Debug, Default)]
pub(crate) struct RecentEvents {
    events: VecDeque<Arc<LoggedEvent>>,
    /// The total size of their data, in bytes.
    bytes: usize,
}

impl RecentEvents {
    /// The number of the last event. 0 if there is none.
    fn last_id(&self) -> u64 {
        self.events.back().map_or(0, |event| event.id)
    }

    /// Adds an event, and drops the oldest events when the log is full. Always keeps the new event.
    fn add(&mut self, event: LoggedEvent, capacity: LogCapacity) {
        self.bytes += event.data.len();
        self.events.push_back(Arc::new(event));
        while self.events.len() > MAX_EVENTS || (self.bytes > capacity as usize && self.events.len() > 1) {
            self.bytes -= self.events.pop_front().map_or(0, |oldest| oldest.data.len());
        }
    }
}

/// The newest events. Writing never waits for a reader.
pub(crate) struct EventLog {
    /// A random number that distinguishes the event numbers of this log from those in the logs of earlier runs of the
    /// daemon and of other worlds.
    run: u32,
    recent: watch::Sender<RecentEvents>,
    capacity: LogCapacity,
    secrets: Arc<Interpolate>,
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("newest", &self.newest()).finish_non_exhaustive()
    }
}

impl EventLog {
    /// Creates an empty log, which hides the secrets that `secrets` knows.
    pub(crate) fn new(secrets: Arc<Interpolate>, capacity: LogCapacity) -> Self {
        Self { run: rand::rng().random(), recent: watch::Sender::default(), capacity, secrets }
    }

    /// Adds an event for `audience`. Keeps only the name and the time of an event that is not a JSON object, and only a
    /// part of a long event: see [`MAX_EVENT_BYTES`].
    pub(crate) fn add(&self, name: &str, audience: Audience, event: &impl Serialize) {
        let mut data = match serde_json::to_value(event) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        // The event itself repeats its name, which the log has in `name`.
        data.shift_remove("event");
        data.insert("at".to_owned(), json!(shown::rfc3339_millis(Utc::now())));
        let mut data = Value::Object(data);
        conceal(&mut data, &self.secrets);
        let mut json_line = data.to_string();
        if json_line.len() > MAX_EVENT_BYTES {
            json_line = json!({ "at": data["at"], "server": data.get("server"), "cut": true }).to_string();
        }
        self.recent.send_modify(|recent| {
            let event = LoggedEvent { id: recent.last_id() + 1, name: name.to_owned(), audience, data: json_line };
            recent.add(event, self.capacity);
        });
    }

    /// The number of the last event. 0 if there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.recent.borrow().last_id()
    }

    /// The id of an event as readers get it and send it back: `RUN-NUMBER`.
    pub(crate) fn format_id(&self, number: u64) -> String {
        format!("{:08x}-{number}", self.run)
    }

    /// The number in the id of an event that a reader has seen last. 0 for a reader that wants all events that are
    /// kept. `None` if the event is not one of this log.
    pub(crate) fn parse_id(&self, id: &str) -> Option<u64> {
        if id == "0" {
            return Some(0);
        }
        let (run, number) = id.split_once('-')?;
        // A number that this log has not reached would make the reader skip the events up to that number.
        let number = number.parse().ok().filter(|number| *number <= self.newest())?;
        (u32::from_str_radix(run, 16) == Ok(self.run)).then_some(number)
    }

    /// Returns the events after the event with the number `last_seen`. With `None`, for a reader of another log,
    /// returns all events that are kept.
    pub(crate) fn events_after(&self, last_seen: Option<u64>) -> UnseenEvents {
        let kept_events = &self.recent.borrow().events;
        let first_id = kept_events.front().map_or(0, |event| event.id);
        let missed = first_id.saturating_sub(last_seen.unwrap_or(0) + 1);
        // The numbers of kept events have no gaps, so numbers say how many events to skip.
        let seen_count = last_seen.map_or(0, |last_seen| (last_seen + 1).saturating_sub(first_id));
        let events = kept_events.iter().skip(usize::try_from(seen_count).unwrap_or(usize::MAX)).cloned().collect();
        UnseenEvents { missed: (missed > 0 || last_seen.is_none()).then_some(missed), events }
    }

    /// Returns a receiver that is notified of each new event.
    pub(crate) fn watch(&self) -> watch::Receiver<RecentEvents> {
        self.recent.subscribe()
    }
}

/// Replaces secrets by `***` in every text of `value`, including the names of fields.
pub(crate) fn conceal(value: &mut Value, secrets: &Interpolate) {
    text::map_texts(value, &|text| secrets.conceal(text));
}

#[cfg(test)]
mod tests {
    use toolrack_config::{Environment, UnsetPolicy};

    use super::*;

    fn log() -> EventLog {
        let nothing = Environment::new(std::iter::empty::<(String, String)>());
        EventLog::new(Arc::new(Interpolate::new(nothing, UnsetPolicy::Error)), LogCapacity::Member)
    }

    fn ids(unseen: &UnseenEvents) -> Vec<u64> {
        unseen.events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_reader_continues_where_it_stopped() {
        let log = log();
        (0..3).for_each(|n| log.add("a", Audience::All, &json!({ "n": n })));
        assert_eq!(ids(&log.events_after(Some(1))), [2, 3]);
        assert_eq!(log.events_after(Some(1)).missed, None);
        assert!(log.events_after(Some(3)).events.is_empty());
        assert_eq!(log.parse_id(&log.format_id(2)), Some(2));
        assert_eq!(log.parse_id("0"), Some(0));
    }

    #[test]
    fn a_slow_reader_gets_the_number_of_missed_events() {
        let log = log();
        // These events are short, so their number reaches its bound, and not their bytes.
        (0..MAX_EVENTS + 10).for_each(|n| log.add("a", Audience::All, &json!({ "n": n })));
        let unseen = log.events_after(Some(4));
        assert_eq!((unseen.missed, unseen.events.len(), unseen.events[0].id), (Some(6), MAX_EVENTS, 11));
    }

    #[test]
    fn an_event_id_of_another_run_always_means_missed_events() {
        let (before, log) = (self::log(), self::log());
        (0..3).for_each(|_| before.add("a", Audience::All, &json!({})));
        assert_eq!(log.events_after(log.parse_id(&before.format_id(1))).missed, Some(0));
        (0..3).for_each(|_| log.add("a", Audience::All, &json!({})));
        for seen in [before.format_id(1), before.format_id(3), log.format_id(4), "2".to_owned(), "x".to_owned()] {
            let unseen = log.events_after(log.parse_id(&seen));
            assert_eq!((unseen.missed, ids(&unseen)), (Some(0), vec![1, 2, 3]), "{seen}");
        }
    }

    #[test]
    fn long_events_push_out_older_ones_until_their_bytes_are_within_the_bound() {
        let log = log();
        let long = json!({ "text": "x".repeat(MAX_EVENT_BYTES - 100) });
        (0..10).for_each(|_| log.add("a", Audience::All, &long));
        let unseen = log.events_after(Some(0));
        assert_eq!((ids(&unseen), unseen.missed), (vec![7, 8, 9, 10], Some(6)));
        let kept = log.recent.borrow();
        assert_eq!(kept.bytes, kept.events.iter().map(|event| event.data.len()).sum::<usize>());
    }

    #[test]
    fn an_event_that_is_too_long_is_cut() {
        let log = log();
        log.add("a", Audience::All, &json!({ "server": "s", "text": "x".repeat(MAX_EVENT_BYTES) }));
        let event = &log.events_after(Some(0)).events[0];
        assert!(event.data.len() < 200 && event.data.contains(r#""server":"s""#), "{}", event.data);
    }
}
