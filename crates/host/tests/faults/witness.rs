//! Everything that users and programs can read, and what must never be in it.

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::JoinSet,
};
use toolrack_host::{Event, Host};
use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// A secret that every server gets: in a header, in the query of its URL, or in a variable of its environment.
pub(crate) const SECRET: &str = "s3cr3t-0f-the-fault-suite";

/// The number of lines of stderr that are kept. There is a limit because the tests also measure memory.
const STDERR_LINES: usize = 1_000;

/// Sees every event of a host and every log line of this process.
#[derive(Debug)]
pub(crate) struct Witness {
    seen: Arc<Mutex<Seen>>,
    _listening: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Value>,
    stderr_lines: usize,
    missed: u64,
}

impl Witness {
    pub(crate) fn of(host: &Host) -> Self {
        let _there_already = tracing::subscriber::set_global_default(Ears);
        let seen = Arc::<Mutex<Seen>>::default();
        let mut listening = JoinSet::new();
        listening.spawn(listen(host.events(), seen.clone()));
        Self { seen, _listening: listening }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Every event so far, as JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.seen().events.clone()
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = |event: Value| event["warning"].as_str().map(ToOwned::to_owned);
        self.events().into_iter().filter_map(warnings).collect()
    }

    /// Events that this witness missed.
    pub(crate) fn missed(&self) -> u64 {
        self.seen().missed
    }

    /// Checks that every event and log line is safe to show.
    #[track_caller]
    pub(crate) fn assert_content(&self) {
        self.events().iter().for_each(|event| assert_safe_value("an event", event));
        let secrets = LEAKS.get().map(|leaks| leaks.lock().unwrap().clone()).unwrap_or_default();
        assert!(secrets.is_empty(), "log lines with a secret: {secrets:#?}");
    }
}

impl Seen {
    fn take(&mut self, event: Event) {
        if matches!(event, Event::McpServerStderr { .. }) {
            self.stderr_lines += 1;
            if self.stderr_lines > STDERR_LINES {
                return;
            }
        }
        self.events.push(serde_json::to_value(event).unwrap());
    }
}

async fn listen(mut events: Receiver<Event>, seen: Arc<Mutex<Seen>>) {
    loop {
        match events.recv().await {
            Ok(event) => seen.lock().unwrap().take(event),
            Err(RecvError::Lagged(missed)) => seen.lock().unwrap().missed += missed,
            Err(RecvError::Closed) => return,
        }
    }
}

/// Every string in a value, keys included.
fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            into.push(name.clone());
            collect(value, into);
        }),
        _ => {}
    }
}

/// Checks that every string that a program would get is safe to show at a terminal.
#[track_caller]
pub(crate) fn assert_safe_value(what: &str, value: &impl serde::Serialize) {
    let mut texts = Vec::new();
    collect(&serde_json::to_value(value).unwrap(), &mut texts);
    texts.iter().for_each(|text| assert_safe(what, text));
}

/// Checks that this text is safe to show.
#[track_caller]
pub(crate) fn assert_safe(what: &str, text: &str) {
    assert!(!holds_a_secret(text), "{what} holds a secret: {text:?}");
    let bad = text.chars().find(|char| is_obeyed(*char));
    assert!(bad.is_none(), "{what} holds {bad:?}: {text:?}");
}

/// Checks that a text for developers has no secret.
#[track_caller]
pub(crate) fn assert_no_secret(what: &str, debug: &impl Debug) {
    let text = format!("{debug:?} {debug:#?}");
    assert!(!holds_a_secret(&text), "{what} holds a secret: {text}");
}

fn holds_a_secret(text: &str) -> bool {
    // The fake's session ids.
    let mut after_session = text.split("session-").skip(1);
    text.contains(SECRET) || after_session.any(|rest| rest.bytes().take(16).filter(u8::is_ascii_hexdigit).count() == 16)
}

/// Characters that terminals obey instead of showing: controls, directions, tags.
fn is_obeyed(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(char, '\u{e0000}'..='\u{e007f}')
}

static LEAKS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

/// Receives every log line of every library at every level, and keeps those that should not exist.
struct Ears;

impl Subscriber for Ears {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        span.record(&mut Hear(span.metadata()));
        Id::from_u64(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Hear(event.metadata()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Hear<'a>(&'a Metadata<'a>);

impl Visit for Hear<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if holds_a_secret(&text) {
            let line = format!("{} {field}: {text}", self.0.target());
            LEAKS.get_or_init(Mutex::default).lock().unwrap().push(line);
        }
    }
}

#[test]
fn a_witness_knows_secrets_and_dangerous_characters() {
    assert!(holds_a_secret("Bearer s3cr3t-0f-the-fault-suite!"));
    assert!(holds_a_secret("lost session-0123456789abcdef0123456789abcdef"));
    assert!(!holds_a_secret("the session-id was lost"));
    assert!(['\u{1b}', '\n', '\u{202e}', '\u{e0041}'].into_iter().all(is_obeyed));
    assert!(!['é', '…', ' ', '"'].into_iter().any(is_obeyed));
}
