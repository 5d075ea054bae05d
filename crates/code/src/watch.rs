//! Watches a script from outside its thread, and ends the wait for a script that does not stop.
//!
//! QuickJS calls its interrupt handler only between the steps of a script. One step, such as searching one long text
//! for another, can take arbitrarily long. So the task that waits for a script has a clock of its own, and stops
//! waiting when the time is up. The thread is then abandoned: it runs until its step is done, and counts against a
//! limit until then.

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

/// How long after the deadline of a script its task still waits for the thread to report that the time is up.
const OVERDUE_TIME: Duration = Duration::from_millis(250);
/// The maximum number of abandoned threads. While there are this many, no script starts.
const MAX_ABANDONED: usize = 4;
/// How long a new script waits for an abandoned thread to end. Most such threads end at once, because their step is
/// short.
const ABANDONED_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The state that the thread of a script shares with the task that waits for it.
#[derive(Debug)]
pub(crate) struct ScriptState {
    /// Whether the task has stopped waiting, so that the script must end at its next step.
    stopped: AtomicBool,
    /// When the script's time is up; `None` while it waits for an answer.
    deadline: watch::Sender<Option<Instant>>,
    output: Mutex<Output>,
}

impl ScriptState {
    /// Creates the state of a script that may print `max_bytes` bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let output = Output { text: String::new(), remaining: max_bytes, max_bytes };
        Self { stopped: AtomicBool::new(false), deadline: watch::Sender::new(None), output: Mutex::new(output) }
    }

    /// Returns whether the script must end at its next step, because its task has stopped waiting.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Records that the script computes, and may do so until `deadline`. `None` means that it waits for an answer, or
    /// has no deadline.
    pub(crate) fn set_deadline(&self, deadline: Option<Instant>) {
        self.deadline.send_replace(deadline);
    }

    /// Appends a line to the output, up to the limit.
    pub(crate) fn print(&self, line: &str) {
        self.output.lock().print(line);
    }

    /// Takes the text that the script has printed so far.
    pub(crate) fn take_text(&self) -> String {
        std::mem::take(&mut self.output.lock().text)
    }

    /// Waits until the script's time has been up for [`OVERDUE_TIME`]. Never completes while the script waits for an
    /// answer.
    pub(crate) async fn wait_until_overdue(&self) {
        let mut deadline_receiver = self.deadline.subscribe();
        loop {
            let deadline = *deadline_receiver.borrow_and_update();
            let overdue = async {
                match deadline {
                    Some(deadline) => sleep_until((deadline + OVERDUE_TIME).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The script is measured in real time. In a test, tokio's paused clock runs ahead, so this also
                // compares with real time.
                () = overdue => if deadline.is_some_and(|deadline| deadline.elapsed() >= OVERDUE_TIME) { return },
                _ = deadline_receiver.changed() => {}
            }
        }
    }
}

/// Counts the threads that still compute although no task waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbandonedThreads(watch::Sender<usize>);

impl AbandonedThreads {
    /// Waits, for at most a second, until fewer than [`MAX_ABANDONED`] threads are abandoned.
    ///
    /// # Errors
    /// A text for the model, if there are still too many abandoned threads.
    pub(crate) async fn wait_for_capacity(&self) -> Result<(), String> {
        match timeout(ABANDONED_THREAD_TIMEOUT, self.0.subscribe().wait_for(|count| *count < MAX_ABANDONED)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "no script can run now: {MAX_ABANDONED} scripts that were ended still compute; try again in a moment"
            )),
        }
    }

    /// Returns a guard for the task that waits for a script, and one for the script's thread.
    pub(crate) fn guards(&self, state: &Arc<ScriptState>) -> (WaitGuard, ThreadGuard) {
        let is_other_dropped = Arc::new(AtomicBool::new(false));
        let wait_guard = WaitGuard {
            state: Arc::clone(state),
            abandoned_threads: self.clone(),
            is_other_dropped: Arc::clone(&is_other_dropped),
        };
        (wait_guard, ThreadGuard { abandoned_threads: self.clone(), is_other_dropped })
    }
}

/// The guard that the task holds while it waits for a script. Dropping it ends the script at its next step. Until then,
/// the thread of the script counts as abandoned.
#[derive(Debug)]
pub(crate) struct WaitGuard {
    state: Arc<ScriptState>,
    abandoned_threads: AbandonedThreads,
    /// Whether the other guard was dropped before this one. Both guards of a script share it.
    is_other_dropped: Arc<AtomicBool>,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        // Both guards swap the flag under the lock of the count, so that the count never falls below zero.
        self.abandoned_threads.0.send_modify(|count| {
            if !self.is_other_dropped.swap(true, Ordering::Relaxed) {
                *count += 1;
            }
        });
    }
}

/// The guard that the thread of a script holds for as long as it runs.
#[derive(Debug)]
pub(crate) struct ThreadGuard {
    abandoned_threads: AbandonedThreads,
    is_other_dropped: Arc<AtomicBool>,
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.abandoned_threads.0.send_modify(|count| {
            if self.is_other_dropped.swap(true, Ordering::Relaxed) {
                *count -= 1;
            }
        });
    }
}

/// The output of a script.
#[derive(Debug)]
struct Output {
    text: String,
    /// How many more bytes may be printed.
    remaining: usize,
    max_bytes: usize,
}

impl Output {
    /// Appends a line. At the limit, cuts it and adds a note for the model.
    fn print(&mut self, line: &str) {
        if self.remaining == 0 {
            return;
        }
        // `<` and not `<=`: one byte is for the line end.
        if line.len() < self.remaining {
            self.text.push_str(line);
            self.text.push('\n');
            self.remaining -= line.len() + 1;
        } else {
            self.text.push_str(&line[..line.floor_char_boundary(self.remaining)]);
            self.remaining = 0;
            let max = self.max_bytes;
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
        assert_eq!(count(), 0, "the task waits for the thread");
        drop(running);
        drop(waiting);
        assert_eq!(count(), 0, "the thread ended before its task stopped waiting");

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
