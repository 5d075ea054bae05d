//! What happened, kept for a while: whoever was away reads on where they stopped.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolrack_config::Interpolate;
use toolrack_host::text;

/// Events that are kept.
const KEPT: usize = 1_000;

/// Bytes of one event; a longer one loses everything but its server.
const MAX_BYTES: usize = 16 * 1024;

/// One thing that happened.
#[derive(Debug)]
pub(crate) struct Happened {
    /// Its number, from 1.
    pub(crate) id: u64,
    /// What it is called.
    pub(crate) name: String,
    /// The rest, as JSON on one line.
    pub(crate) data: String,
}

/// What a reader has not seen yet.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// How many more there were, which are gone.
    pub(crate) missed: u64,
    /// In order.
    pub(crate) events: Vec<Arc<Happened>>,
}

/// The newest events. Writing never waits, whoever reads.
pub(crate) struct EventLog {
    kept: Mutex<VecDeque<Arc<Happened>>>,
    newest: watch::Sender<u64>,
    secrets: Arc<Interpolate>,
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("newest", &self.newest()).finish_non_exhaustive()
    }
}

impl EventLog {
    /// An empty log, in which what `secrets` knows is hidden.
    pub(crate) fn new(secrets: Arc<Interpolate>) -> Self {
        Self { kept: Mutex::default(), newest: watch::Sender::new(0), secrets }
    }

    /// Adds an event. One that is no object, or is too long, is told of by its name alone.
    pub(crate) fn add(&self, name: &str, event: &impl Serialize) {
        let mut data = match serde_json::to_value(event) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        };
        data.remove("event");
        data.insert("at".to_owned(), json!(Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)));
        let mut data = Value::Object(data);
        conceal(&mut data, &self.secrets);
        let mut line = data.to_string();
        if line.len() > MAX_BYTES {
            line = json!({ "at": data["at"], "server": data.get("server"), "cut": true }).to_string();
        }
        let mut kept = self.kept();
        let id = kept.back().map_or(0, |last| last.id) + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::new(Happened { id, name: name.to_owned(), data: line }));
        drop(kept);
        self.newest.send_replace(id);
    }

    /// The number of the last event; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// What came after the event `seen`. A number that was never given is from another run: everything was missed.
    pub(crate) fn after(&self, seen: u64) -> Unseen {
        let kept = self.kept();
        let (first, last) = match (kept.front(), kept.back()) {
            (Some(first), Some(last)) => (first.id, last.id),
            _ => return Unseen { missed: seen, events: Vec::new() },
        };
        if seen > last {
            return Unseen { missed: last, events: Vec::new() };
        }
        let events = kept.iter().filter(|event| event.id > seen).cloned().collect();
        Unseen { missed: first.saturating_sub(seen + 1), events }
    }

    /// Wakes up whenever there is something new.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Happened>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hides secrets in every text of `value`, names of members included.
pub(crate) fn conceal(value: &mut Value, secrets: &Interpolate) {
    text::change_in(value, &|text| secrets.conceal(text));
}

#[cfg(test)]
mod tests {
    use toolrack_config::{Environment, Unset};

    use super::*;

    fn log() -> EventLog {
        let nothing = Environment::new(std::iter::empty::<(String, String)>());
        EventLog::new(Arc::new(Interpolate::new(nothing, Unset::Error)))
    }

    fn ids(unseen: &Unseen) -> Vec<u64> {
        unseen.events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_reader_goes_on_where_it_stopped() {
        let log = log();
        (0..3).for_each(|n| log.add("a", &json!({ "n": n })));
        assert_eq!(ids(&log.after(1)), [2, 3]);
        assert_eq!(log.after(1).missed, 0);
        assert!(log.after(3).events.is_empty());
    }

    #[test]
    fn a_slow_reader_is_told_how_many_it_missed() {
        let log = log();
        (0..KEPT + 10).for_each(|n| log.add("a", &json!({ "n": n })));
        let unseen = log.after(4);
        assert_eq!((unseen.missed, unseen.events.len(), unseen.events[0].id), (6, KEPT, 11));
    }

    #[test]
    fn a_number_of_another_run_means_that_everything_was_missed() {
        let log = log();
        assert_eq!(log.after(7).missed, 7);
        log.add("a", &json!({}));
        assert_eq!((log.after(7).missed, log.after(7).events.len()), (1, 0));
    }

    #[test]
    fn an_event_that_is_too_long_is_cut() {
        let log = log();
        log.add("a", &json!({ "server": "s", "text": "x".repeat(MAX_BYTES) }));
        let event = &log.after(0).events[0];
        assert!(event.data.len() < 200 && event.data.contains(r#""server":"s""#), "{}", event.data);
    }
}
