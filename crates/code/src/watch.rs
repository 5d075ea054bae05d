//! Watches a script from outside its thread, and ends the wait for one that does not stop.
//!
//! QuickJS checks its clock only between the steps of a script, and one step can take arbitrarily long, such as
//! searching one long text for another. So the task that waits for a script has a clock of its own, and stops waiting
//! when the time is over. The abandoned thread runs until its step is done, and counts against a limit until then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{sleep_until, timeout},
};

/// How long to wait for a script beyond its time, so that it can report its own error.
const GRACE: Duration = Duration::from_millis(250);
/// With this many abandoned threads, no script is run.
const MAX_ABANDONED: usize = 4;
/// How long a new script waits for one of them to end. Most end immediately, because their callers only cancelled them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state that the thread of a script shares with the task that waits for it.
#[derive(Debug)]
pub(crate) struct Seen {
    stopped: AtomicBool,
    /// When the script's time is over; `None` while it waits for an answer.
    until: watch::Sender<Option<Instant>>,
    output: Mutex<Output>,
}

impl Seen {
    pub(crate) fn new(most: usize) -> Self {
        let output = Output { text: String::new(), left: most, most };
        Self { stopped: AtomicBool::new(false), until: watch::Sender::new(None), output: Mutex::new(output) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Records that the script may compute until `end`; `None`: it waits for an answer, or has no deadline.
    pub(crate) fn computes_until(&self, end: Option<Instant>) {
        self.until.send_replace(end);
    }

    pub(crate) fn print(&self, line: &str) {
        self.output.lock().print(line);
    }

    /// Takes what the script has printed so far.
    pub(crate) fn take_text(&self) -> String {
        std::mem::take(&mut self.output.lock().text)
    }

    /// Returns when the script has computed for longer than it may and has not ended.
    pub(crate) async fn overdue(&self) {
        let mut until = self.until.subscribe();
        loop {
            let end = *until.borrow_and_update();
            let over = async {
                match end {
                    Some(end) => sleep_until((end + GRACE).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // A test can pause tokio's clock, which then runs ahead; the script's clock is real time.
                () = over => if end.is_some_and(|end| end.elapsed() >= GRACE) { return },
                _ = until.changed() => {}
            }
        }
    }
}

/// Counts the threads that still compute although no task waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost(watch::Sender<usize>);

impl Lost {
    /// Waits up to a second while too many threads are abandoned; then fails with an error for the model.
    pub(crate) async fn room(&self) -> Result<(), String> {
        match timeout(PATIENCE, self.0.subscribe().wait_for(|lost| *lost < MAX_ABANDONED)).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(format!("no script is run now: {MAX_ABANDONED} that were ended have not stopped computing yet"))
            }
        }
    }

    /// One guard for the task that waits for a script, and one for the script's thread.
    pub(crate) fn both_ends(&self, seen: &Arc<Seen>) -> (Waiting, Running) {
        let other_has_ended = Arc::new(AtomicBool::new(false));
        let waiting =
            Waiting { seen: Arc::clone(seen), lost: self.clone(), other_has_ended: Arc::clone(&other_has_ended) };
        (waiting, Running { lost: self.clone(), other_has_ended })
    }
}

/// A task that waits for the script. Dropping it ends the script at its next step.
#[derive(Debug)]
pub(crate) struct Waiting {
    seen: Arc<Seen>,
    lost: Lost,
    other_has_ended: Arc<AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::Relaxed);
        // Both guards swap the flag under the lock of the count, so that it never drops below zero.
        self.lost.0.send_modify(|lost| {
            if !self.other_has_ended.swap(true, Ordering::Relaxed) {
                *lost += 1;
            }
        });
    }
}

/// Held by the thread of a script for as long as it runs.
#[derive(Debug)]
pub(crate) struct Running {
    lost: Lost,
    other_has_ended: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.lost.0.send_modify(|lost| {
            if self.other_has_ended.swap(true, Ordering::Relaxed) {
                *lost -= 1;
            }
        });
    }
}

/// The output of a script.
#[derive(Debug)]
struct Output {
    text: String,
    left: usize,
    most: usize,
}

impl Output {
    fn print(&mut self, line: &str) {
        if self.left == 0 {
            return;
        }
        if line.len() < self.left {
            self.text.push_str(line);
            self.text.push('\n');
            self.left -= line.len() + 1;
        } else {
            self.text.push_str(&line[..line.floor_char_boundary(self.left)]);
            self.left = 0;
            let most = self.most;
            self.text.push_str(&format!("\n[cut: a script prints at most {most} bytes]\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_is_lost_from_when_no_caller_waits_for_it_until_it_ends() {
        let lost = Lost::default();
        let ends = || lost.both_ends(&Arc::new(Seen::new(10)));
        let count = || *lost.0.borrow();
        let (waiting, running) = ends();
        assert_eq!(count(), 0, "it runs");
        drop(running);
        drop(waiting);
        assert_eq!(count(), 0, "it ended first");

        let (waiting, mut threads): (Vec<_>, Vec<_>) = (0..MAX_ABANDONED).map(|_| ends()).unzip();
        assert_eq!(lost.room().await, Ok(()));
        drop(waiting);
        assert_eq!(count(), MAX_ABANDONED);
        lost.room().await.unwrap_err();
        let (room, ()) = tokio::join!(lost.room(), async { drop(threads.pop()) });
        assert_eq!(room, Ok(()), "who waits for room finds it");
        drop(threads);
        assert_eq!(count(), 0);
    }
}
