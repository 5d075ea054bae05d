//! Keeps the calls that are under way, and makes the progress line about them.

use std::time::{Duration, Instant};

use toolrack_host::mcp::Progress;

use crate::render::{count, progress};

/// The progress line.
#[derive(Clone, Debug)]
pub(super) enum StatusLine {
    /// A fixed text.
    Text(String),
    /// A call, with the time that it takes.
    Call(RunningCall),
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub(super) struct RunningCall {
    id: String,
    tool: String,
    arguments: String,
    progress: Option<Progress>,
    start: Instant,
    /// How long the program had waited for the user's answers in total when the call began.
    waited_before: Duration,
    /// How many other calls are under way.
    other_calls: usize,
}

/// The calls that are under way. The call that began or reported progress most recently is the last one, and the
/// progress line is about it.
#[derive(Debug, Default)]
pub(super) struct RunningCalls(Vec<RunningCall>);

impl StatusLine {
    /// Returns the line as it is now. `waited` is the total time for which questions have been open.
    pub(super) fn words(&self, waited: Duration) -> String {
        match self {
            Self::Text(words) => words.clone(),
            // The time in which a call waits for the user does not count.
            Self::Call(call) => {
                call.words(call.start.elapsed().saturating_sub(waited.saturating_sub(call.waited_before)).as_secs())
            }
        }
    }
}

impl RunningCall {
    /// Returns `fs/copy (42 %, 3 s) copying`: with the message of the server, or with the arguments while there is no
    /// message.
    fn words(&self, seconds: u64) -> String {
        let mut facts = Vec::new();
        facts.extend(self.progress.as_ref().map(progress::amount));
        if seconds > 0 {
            facts.push(format!("{seconds} s"));
        }
        if self.other_calls > 0 {
            facts.push(format!("and {}", count(self.other_calls, "other call")));
        }
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let message = self.progress.as_ref().and_then(|progress| progress.message.as_deref());
        let message = message.map(str::trim).filter(|message| !message.is_empty());
        format!("{}{facts} {}", self.tool, message.unwrap_or(&self.arguments))
    }
}

impl RunningCalls {
    /// Records that a call begins. `waited` is the total time for which questions have been open.
    pub(super) fn begin(&mut self, id: &str, tool: String, arguments: String, waited: Duration) {
        let (id, start) = (id.to_owned(), Instant::now());
        self.0.push(RunningCall { id, tool, arguments, progress: None, start, waited_before: waited, other_calls: 0 });
    }

    /// Records the progress that a call reports.
    pub(super) fn set_progress(&mut self, id: &str, progress: &Progress) {
        if let Some(index) = self.0.iter().position(|call| call.id == id) {
            // The call becomes the last one, so that the line is about it.
            let mut call = self.0.remove(index);
            call.progress = Some(progress.clone());
            self.0.push(call);
        }
    }

    pub(super) fn end(&mut self, id: &str) {
        self.0.retain(|call| call.id != id);
    }

    /// Returns the progress line; `None` when no call is under way.
    pub(super) fn line(&self) -> Option<StatusLine> {
        let mut call = self.0.last()?.clone();
        call.other_calls = self.0.len() - 1;
        Some(StatusLine::Call(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(running: &RunningCalls, seconds: u64) -> String {
        match running.line() {
            Some(StatusLine::Call(call)) => call.words(seconds),
            other => format!("{other:?}"),
        }
    }

    fn report(done: f64, total: Option<f64>, message: Option<&str>) -> Progress {
        Progress { progress: done, total, message: message.map(str::to_owned) }
    }

    #[test]
    fn the_line_says_how_far_a_call_is_and_how_long_it_takes() {
        let mut running = RunningCalls::default();
        running.begin("1", "fs/copy".to_owned(), "path=a".to_owned(), Duration::ZERO);
        assert_eq!(words(&running, 0), "fs/copy path=a");
        assert_eq!(words(&running, 3), "fs/copy (3 s) path=a");
        running.set_progress("1", &report(21.0, Some(50.0), None));
        assert_eq!(words(&running, 3), "fs/copy (42 %, 3 s) path=a");
        running.set_progress("1", &report(7.0, None, Some("copying")));
        assert_eq!(words(&running, 3), "fs/copy (7, 3 s) copying");
        running.set_progress("2", &report(7.0, None, Some("of a call that is not there")));
        assert_eq!(words(&running, 3), "fs/copy (7, 3 s) copying");
    }

    #[test]
    fn the_line_is_about_the_call_that_reported_last() {
        let mut running = RunningCalls::default();
        running.begin("1", "fs/copy".to_owned(), "path=a".to_owned(), Duration::ZERO);
        running.begin("2", "fs/move".to_owned(), "path=b".to_owned(), Duration::ZERO);
        assert_eq!(words(&running, 0), "fs/move (and 1 other call) path=b");
        running.set_progress("1", &report(1.0, Some(4.0), Some("copying")));
        assert_eq!(words(&running, 0), "fs/copy (25 %, and 1 other call) copying");
        running.end("1");
        assert_eq!(words(&running, 0), "fs/move path=b");
        running.end("2");
        assert!(running.line().is_none());
    }

    #[test]
    fn a_call_that_waits_for_the_user_takes_no_time() {
        let mut running = RunningCalls::default();
        running.begin("1", "fs/copy".to_owned(), "path=a".to_owned(), Duration::from_secs(5));
        let Some(StatusLine::Call(mut call)) = running.line() else { panic!("no line") };
        call.start = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let line = StatusLine::Call(call);
        assert_eq!(line.words(Duration::from_secs(35)), "fs/copy (30 s) path=a");
        assert_eq!(line.words(Duration::from_secs(500)), "fs/copy path=a");
    }
}
