//! The log of a fake server, read back. An *effect* is one run of a tool: what a test counts to prove that no tool ran
//! twice.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A file in which fake servers log their effects. Dropping this value removes it.
#[derive(Debug)]
pub struct EffectLog {
    path: PathBuf,
    text: String,
    _folder: TempDir,
}

impl Default for EffectLog {
    fn default() -> Self {
        Self::new()
    }
}

impl EffectLog {
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let path = folder.path().join("effects.jsonl");
        let text = path.to_str().unwrap_or_else(|| panic!("{} is not UTF-8", path.display())).to_owned();
        Self { path, text, _folder: folder }
    }

    /// The path, for `--log`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as text, for a list of arguments.
    #[must_use]
    pub fn path_str(&self) -> &str {
        &self.text
    }

    /// Reads what servers have logged so far.
    #[must_use]
    pub fn read(&self) -> Effects {
        Effects::read(&self.path)
    }

    /// Waits until the log satisfies the condition, and returns the log.
    ///
    /// # Panics
    /// When that does not happen within `limit`. The message contains the log.
    #[must_use]
    pub fn wait_until(&self, limit: Duration, condition: impl Fn(&Effects) -> bool) -> Effects {
        let end = Instant::now() + limit;
        loop {
            let effects = self.read();
            if condition(&effects) {
                return effects;
            }
            assert!(Instant::now() < end, "not within {limit:?}: {effects:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// One run of a tool.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The tool.
    pub tool: String,
    /// The arguments that it ran with.
    pub args: Value,
    /// The process that ran it.
    pub pid: u32,
    /// The time of the run, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The content of a log at one moment.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Every line, in order.
    pub lines: Vec<Value>,
}

impl Effects {
    /// Reads a log. A log that does not exist yet is empty. Leaves out a last line that a server is still writing.
    ///
    /// # Panics
    /// When a whole line is not JSON.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole_lines = text.rsplit_once('\n').map_or("", |(whole_lines, _)| whole_lines);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        Self { lines: whole_lines.lines().map(parse).collect() }
    }

    /// The tools that ran, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<Effect> {
        self.lines.iter().filter_map(parse_effect).collect()
    }

    /// How often a tool ran.
    #[must_use]
    pub fn runs_of(&self, tool: &str) -> usize {
        self.lines.iter().filter(|line| line["tool"] == tool).count()
    }

    /// The ids of cancelled requests, in order.
    #[must_use]
    pub fn cancelled(&self) -> Vec<Value> {
        self.lines.iter().filter_map(|line| line.get("cancelled")).cloned().collect()
    }

    /// How often clients used a method. Needs `--log-all`.
    #[must_use]
    pub fn count_of(&self, method: &str) -> usize {
        self.lines.iter().filter(|line| line["method"] == method).count()
    }

    /// The methods that clients used, in order. Needs `--log-all`.
    #[must_use]
    pub fn methods(&self) -> Vec<&str> {
        self.lines.iter().filter_map(|line| line["method"].as_str()).collect()
    }

    /// How often clients used this HTTP method other than POST. Needs `--log-all`.
    #[must_use]
    pub fn http_count_of(&self, method: &str) -> usize {
        self.lines.iter().filter(|line| line["http"] == method).count()
    }

    /// The ids of the processes that wrote to the log, in order. An id comes again if another process wrote in between.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> =
            self.lines.iter().filter_map(|line| u32::try_from(line["pid"].as_u64()?).ok()).collect();
        pids.dedup();
        pids
    }
}

fn parse_effect(line: &Value) -> Option<Effect> {
    Some(Effect {
        tool: line["tool"].as_str()?.to_owned(),
        args: line["args"].clone(),
        pid: u32::try_from(line["pid"].as_u64()?).ok()?,
        at_ms: line["at_ms"].as_u64()?,
    })
}
