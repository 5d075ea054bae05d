//! A script as seen from outside of its thread.
//!
//! QuickJS looks at its clock between steps of a script, and a step can take as long as it likes: to look for one long
//! text in another, to compare them ten thousand times. So the task that waits for a script has a clock of its own, and
//! leaves when it is over; the thread is left behind until its step is done, and counted as long as it is there.

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

/// How long to wait for a script after the end of its time, so that it can report itself how it ended.
const GRACE: Duration = Duration::from_millis(250);
/// How many threads may be left behind before no more scripts are run.
const MOST_LOST: usize = 4;
/// How long a script waits for one of them to end. Most do at once, for they were merely cancelled.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the thread of a script shares with the task that waits for it.
#[derive(Debug)]
pub(crate) struct Seen {
    stopped: AtomicBool,
    /// When its time is over; `None` while it waits.
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

    /// Marks that the script computes until `end`, or with `None` waits, or computes without a bound.
    pub(crate) fn computes_until(&self, end: Option<Instant>) {
        self.until.send_replace(end);
    }

    pub(crate) fn print(&self, line: &str) {
        self.output.lock().print(line);
    }

    /// What was printed until now.
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
                // The clock of tokio runs ahead where a test has paused it, that of a script does not.
                () = over => if end.is_some_and(|end| end.elapsed() >= GRACE) { return },
                _ = until.changed() => {}
            }
        }
    }
}

/// How many threads still compute though no task waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost(watch::Sender<usize>);

impl Lost {
    /// Waits a little while too many are left behind; if that does not change, fails with words for the model.
    pub(crate) async fn room(&self) -> Result<(), String> {
        match timeout(PATIENCE, self.0.subscribe().wait_for(|lost| *lost < MOST_LOST)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("no script is run now: {MOST_LOST} that were ended have not stopped computing yet")),
        }
    }

    /// The two ends of a script: for the task that waits for it, and for its thread.
    pub(crate) fn both_ends(&self, seen: &Arc<Seen>) -> (Waiting, Running) {
        let one_is_gone = Arc::new(AtomicBool::new(false));
        let waiting = Waiting { seen: Arc::clone(seen), lost: self.clone(), one_is_gone: Arc::clone(&one_is_gone) };
        (waiting, Running { lost: self.clone(), one_is_gone })
    }
}

/// A task that waits for the script. Dropping it ends the script at its next step.
#[derive(Debug)]
pub(crate) struct Waiting {
    seen: Arc<Seen>,
    lost: Lost,
    one_is_gone: Arc<AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::Relaxed);
        // Both ends look under the lock of the number, so that it is never less than nothing.
        self.lost.0.send_modify(|lost| {
            if !self.one_is_gone.swap(true, Ordering::Relaxed) {
                *lost += 1;
            }
        });
    }
}

/// The thread of the script, as long as it exists.
#[derive(Debug)]
pub(crate) struct Running {
    lost: Lost,
    one_is_gone: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.lost.0.send_modify(|lost| {
            if self.one_is_gone.swap(true, Ordering::Relaxed) {
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

        let (waiting, mut threads): (Vec<_>, Vec<_>) = (0..MOST_LOST).map(|_| ends()).unzip();
        assert_eq!(lost.room().await, Ok(()));
        drop(waiting);
        assert_eq!(count(), MOST_LOST);
        lost.room().await.unwrap_err();
        let (room, ()) = tokio::join!(lost.room(), async { drop(threads.pop()) });
        assert_eq!(room, Ok(()), "who waits for room finds it");
        drop(threads);
        assert_eq!(count(), 0);
    }
}
