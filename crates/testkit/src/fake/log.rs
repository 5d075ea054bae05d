//! The log file of the fake server: one JSON line for each tool that really ran (its *effect*), for each cancellation,
//! and with `--log-all` for each message. Tests read it to see what the server did, whatever the client believes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Log {
    file: Option<File>,
    logs_all: bool,
}

impl Log {
    pub(crate) fn open(path: Option<&Path>, logs_all: bool) -> std::io::Result<Self> {
        let file = match path {
            Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
            None => None,
        };
        Ok(Self { file, logs_all })
    }

    /// Logs that a tool ran: the side effect that no client may repeat by itself.
    pub(crate) fn effect(&self, tool: &str, args: &Value) {
        self.write_line(json!({"tool": tool, "args": args}));
    }

    /// Logs that a request was cancelled; `by` says how.
    pub(crate) fn cancelled(&self, id: &Value, by: &str) {
        self.write_line(json!({"cancelled": id, "by": by}));
    }

    /// Logs another received message; written only with `--log-all`.
    pub(crate) fn received(&self, entry: Value) {
        if self.logs_all {
            self.write_line(entry);
        }
    }

    fn write_line(&self, mut entry: Value) {
        let Some(mut file) = self.file.as_ref() else { return };
        entry["pid"] = json!(std::process::id());
        entry["at_ms"] = json!(now_ms());
        // One write for the whole line, at the end of the file, so that lines of several tasks and servers do not mix.
        let line = format!("{entry}\n");
        if let Err(error) = file.write_all(line.as_bytes()) {
            super::complain(&format!("fake-server: log: {error}\n"));
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
