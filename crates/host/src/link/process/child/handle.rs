//! The end of a child process: waiting for it, and causing it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use toolrack_supervisor::protocol::{Exit, Order};

/// How long a process and what it left behind may take to disappear once it has ended or was told to be killed: what
/// the supervisor allows itself (at most 3.5 s), and some. Then the watching task takes matters into its own hands.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_secs(4);

/// How long that may take: to kill what a lost supervisor leaves behind (2 s at most), to collect it (1 s), and some.
const LAST_WAIT: Duration = Duration::from_millis(3500);

/// How long a server may take for each step of an orderly end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// From the end of its stdin to `SIGTERM`.
    pub stdin: Duration,
    /// From `SIGTERM` to `SIGKILL`.
    pub term: Duration,
}

/// Two seconds each.
impl Default for Grace {
    fn default() -> Self {
        Self { stdin: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
}

/// The stage of a process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The program runs.
    Running,
    /// The program has ended; what it left behind is being ended.
    Ended(Exit),
    /// Nothing is left.
    Gone(Exit),
}

impl Life {
    /// How the program ended, if it has.
    pub(super) fn exit(self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Ended(exit) | Self::Gone(exit) => Some(exit),
        }
    }
}

/// Passes an order on to whatever carries it out.
pub(super) trait Carrier: Send + Sync {
    /// Must not block. After [`Order::Kill`] everything is gone within [`SWEEP_LIMIT`], if it can be killed at all.
    fn carry(&self, order: Order);
}

/// The owner of a child process.
///
/// Dropping it kills the process and everything below it at once; [`Self::shutdown`] is the orderly way.
pub struct Handle {
    pid: u32,
    life: watch::Receiver<Life>,
    carrier: Box<dyn Carrier>,
    /// How long everything may take to disappear once it has ended or was told to be killed.
    sweep: Duration,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("pid", &self.pid).field("life", &*self.life.borrow()).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(pid: u32, life: watch::Receiver<Life>, carrier: Box<dyn Carrier>) -> Self {
        Self { pid, life, carrier, sweep: SWEEP_LIMIT }
    }

    /// Allows it longer to disappear.
    #[cfg(target_os = "linux")]
    pub(super) fn with_sweep_limit(mut self, sweep: Duration) -> Self {
        self.sweep = sweep;
        self
    }

    /// The process id of the program. It may be used again once the program has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the program ended; `None` while it runs.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.life.borrow().exit()
    }

    /// Completes as soon as the program has ended. The future is independent of the handle; there can be many.
    ///
    /// It says nothing about stdout, which may still hold what the program wrote last, or be held open by a process
    /// that the program started.
    pub fn exited(&self) -> impl Future<Output = Exit> + Send + use<> {
        let mut life = self.life.clone();
        async move { wait(&mut life, Life::exit).await }
    }

    /// Ends the process, and everything below it, in the order that the protocol asks for: the caller has dropped
    /// stdin; after [`Grace::stdin`] comes `SIGTERM`, after [`Grace::term`] comes `SIGKILL`. Each step is skipped once
    /// the program has ended by itself, and what it left behind gets `SIGTERM` and 500 ms before `SIGKILL`.
    ///
    /// Returns when nothing is left, or after both graces and 7.5 s at the latest: only a process in uninterruptible
    /// sleep can take that long. A container may take 10 s more: only an engine that does not answer does.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the handle, which kills at once.
    pub async fn shutdown(mut self, grace: Grace) -> Exit {
        if timeout(grace.stdin, self.exited()).await.is_err() {
            self.carrier.carry(Order::Terminate);
            if timeout(grace.term, self.exited()).await.is_err() {
                self.carrier.carry(Order::Kill);
            }
        }
        let gone = |life| {
            if let Life::Gone(exit) = life { Some(exit) } else { None }
        };
        let last = timeout(self.sweep + LAST_WAIT, wait(&mut self.life, gone)).await;
        last.ok().or_else(|| self.exit()).unwrap_or(Exit::Unknown)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !matches!(*self.life.borrow(), Life::Gone(_)) {
            self.carrier.carry(Order::Kill);
        }
    }
}

/// Waits until `pick` finds something. If the watching task is gone, which only happens when the runtime ends, the exit
/// is unknown.
async fn wait(life: &mut watch::Receiver<Life>, pick: impl Fn(Life) -> Option<Exit>) -> Exit {
    let seen = life.wait_for(|life| pick(*life).is_some()).await;
    seen.ok().and_then(|life| pick(*life)).unwrap_or(Exit::Unknown)
}

/// Completes when nothing of the process is left.
pub(super) async fn gone(life: &mut watch::Receiver<Life>) {
    let _ = life.wait_for(|life| matches!(life, Life::Gone(_))).await;
}
