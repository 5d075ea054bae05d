//! Watches a script from outside its thread, and ends the wait for one that does not stop.
//!
//! QuickJS checks its clock only between the steps of a script, and one step can take arbitrarily long, such as
//! searching one long text for another. So the task that waits for a script has a clock of its own, and stops waiting
//! when the time is up. The abandoned thread runs until its step is done, and counts against a limit until then.

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

/// How long after its deadline a script may still report its own error.
const GRACE: Duration = Duration::from_millis(250);
/// While this many threads are abandoned, no script starts.
const MAX_ABANDONED: usize = 4;
/// How long a new script waits for an abandoned thread to end. Most end immediately: their callers only cancelled them.
const ABANDONED_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The state that the thread of a script shares with the task that waits for it.
#[derive(Debug)]
pub(crate) struct ScriptState {
    stopped: AtomicBool,
    /// When the script's time is up; `None` while it waits for an answer.
    until: watch::Sender<Option<Instant>>,
    output: Mutex<Output>,
}

impl ScriptState {
    pub(crate) fn new(max: usize) -> Self {
        let output = Output { text: String::new(), left: max, max };
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

    /// Waits until the script has computed for longer than it may, and still has not ended.
    pub(crate) async fn overdue(&self) {
        let mut until = self.until.subscribe();
        loop {
            let end = *until.borrow_and_update();
            let time_up = async {
                match end {
                    Some(end) => sleep_until((end + GRACE).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // A test can pause tokio's clock, which then runs ahead; the script's clock is real time.
                () = time_up => if end.is_some_and(|end| end.elapsed() >= GRACE) { return },
                _ = until.changed() => {}
            }
        }
    }
}

/// Counts the threads that still compute although no task waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbandonedThreads(watch::Sender<usize>);

impl AbandonedThreads {
    /// Waits up to a second while too many threads are abandoned; then fails with an error for the model.
    pub(crate) async fn wait_for_capacity(&self) -> Result<(), String> {
        match timeout(ABANDONED_THREAD_TIMEOUT, self.0.subscribe().wait_for(|abandoned| *abandoned < MAX_ABANDONED))
            .await
        {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "no script can run now: {MAX_ABANDONED} scripts that were ended still compute; try again in a moment"
            )),
        }
    }

    /// Returns a guard for the task that waits for a script, and one for the script's thread.
    pub(crate) fn guards(&self, state: &Arc<ScriptState>) -> (WaitGuard, ThreadGuard) {
        let other_has_ended = Arc::new(AtomicBool::new(false));
        let waiting = WaitGuard {
            state: Arc::clone(state),
            abandoned: self.clone(),
            other_has_ended: Arc::clone(&other_has_ended),
        };
        (waiting, ThreadGuard { abandoned: self.clone(), other_has_ended })
    }
}

/// A task that waits for the script. Dropping it ends the script at its next step.
#[derive(Debug)]
pub(crate) struct WaitGuard {
    state: Arc<ScriptState>,
    abandoned: AbandonedThreads,
    other_has_ended: Arc<AtomicBool>,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        // Both guards swap the flag under the lock of the count, so that it never drops below zero.
        self.abandoned.0.send_modify(|abandoned| {
            if !self.other_has_ended.swap(true, Ordering::Relaxed) {
                *abandoned += 1;
            }
        });
    }
}

/// Held by the thread of a script for as long as it runs.
#[derive(Debug)]
pub(crate) struct ThreadGuard {
    abandoned: AbandonedThreads,
    other_has_ended: Arc<AtomicBool>,
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.abandoned.0.send_modify(|abandoned| {
            if self.other_has_ended.swap(true, Ordering::Relaxed) {
                *abandoned -= 1;
            }
        });
    }
}

/// The output of a script.
#[derive(Debug)]
struct Output {
    text: String,
    /// How many more bytes may be printed.
    left: usize,
    max: usize,
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
            let max = self.max;
            self.text.push_str(&format!("\n[cut: a script prints at most {max} bytes]\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_counts_as_abandoned_until_it_ends() {
        let abandoned = AbandonedThreads::default();
        let guards = || abandoned.guards(&Arc::new(ScriptState::new(10)));
        let count = || *abandoned.0.borrow();
        let (waiting, running) = guards();
        assert_eq!(count(), 0, "the thread runs");
        drop(running);
        drop(waiting);
        assert_eq!(count(), 0, "the thread ended first");

        let (waiting, mut threads): (Vec<_>, Vec<_>) = (0..MAX_ABANDONED).map(|_| guards()).unzip();
        assert_eq!(abandoned.wait_for_capacity().await, Ok(()));
        drop(waiting);
        assert_eq!(count(), MAX_ABANDONED);
        abandoned.wait_for_capacity().await.unwrap_err();
        let (result, ()) = tokio::join!(abandoned.wait_for_capacity(), async { drop(threads.pop()) });
        assert_eq!(result, Ok(()), "a waiting script starts once a thread ends");
        drop(threads);
        assert_eq!(count(), 0);
    }
}
