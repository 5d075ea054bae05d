//! Waits for the end of a child process, and can end the process. The host either ends the process itself, or orders
//! its supervisor to do so. A supervisor is a process that ends the child with all its descendants.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use toolrack_supervisor::protocol::{Exit, Order};

/// How long a process and its descendants may take to disappear, from the end of the process or the order to kill it:
/// the supervisor's own limit (at most 3.5 s), and some reserve. After that, the watching task kills them itself.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_secs(4);

/// How long the watching task may take after [`SWEEP_LIMIT`]: to kill the processes of a lost supervisor (2 s at most),
/// to wait for the supervisor's exit (1 s), and some reserve.
const LOST_SUPERVISOR_TIMEOUT: Duration = Duration::from_millis(3500);

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
    /// The program has ended; its remaining processes are being ended.
    Ended(Exit),
    /// All processes have ended.
    Gone(Exit),
}

impl Life {
    /// Returns how the program ended, if it has.
    pub(super) fn exit(self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Ended(exit) | Self::Gone(exit) => Some(exit),
        }
    }
}

/// Executes orders to end a process, or forwards the orders to the supervisor, which executes them.
pub(super) trait OrderExecutor: Send + Sync {
    /// Executes or forwards an order. Must not block. After [`Order::Kill`], all processes disappear within
    /// [`SWEEP_LIMIT`], unless they cannot be killed.
    fn execute(&self, order: Order);
}

/// The owner of a child process.
///
/// Dropping the handle kills the process and all its descendants immediately; [`Self::shutdown`] is the graceful way.
pub struct Handle {
    pid: u32,
    life: watch::Receiver<Life>,
    executor: Box<dyn OrderExecutor>,
    /// How long all processes may take to disappear once the program has ended or was ordered to be killed.
    sweep_limit: Duration,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("pid", &self.pid).field("life", &*self.life.borrow()).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(pid: u32, life: watch::Receiver<Life>, executor: Box<dyn OrderExecutor>) -> Self {
        Self { pid, life, executor, sweep_limit: SWEEP_LIMIT }
    }

    /// Sets a longer time for the processes to disappear.
    #[cfg(target_os = "linux")]
    pub(super) fn with_sweep_limit(mut self, sweep_limit: Duration) -> Self {
        self.sweep_limit = sweep_limit;
        self
    }

    /// Returns the process id of the program. The system may reuse it once the program has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns how the program ended; `None` while it runs.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.life.borrow().exit()
    }

    /// Waits until the program has ended. The future is independent of the handle; there can be several.
    ///
    /// This does not mean the end of stdout, which may still contain output, or be held open by a process that the
    /// program started.
    pub fn exited(&self) -> impl Future<Output = Exit> + Send + use<> {
        let mut life = self.life.clone();
        async move { wait(&mut life, Life::exit).await }
    }

    /// Ends the process and all its descendants in the order that the protocol requires: the caller has dropped stdin;
    /// `SIGTERM` follows after [`Grace::stdin`], and `SIGKILL` after [`Grace::term`]. Once the program has ended, the
    /// remaining steps are skipped, and its remaining processes get `SIGTERM`, and `SIGKILL` 500 ms later.
    ///
    /// Returns when all processes have ended, or after both graces and 7.5 s at the latest: only a process in
    /// uninterruptible sleep can take that long. A container may take 10 s more, if its engine does not answer.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the handle, which kills immediately.
    pub async fn shutdown(mut self, grace: Grace) -> Exit {
        if timeout(grace.stdin, self.exited()).await.is_err() {
            self.executor.execute(Order::Terminate);
            if timeout(grace.term, self.exited()).await.is_err() {
                self.executor.execute(Order::Kill);
            }
        }
        let exit_if_gone = |life| {
            if let Life::Gone(exit) = life { Some(exit) } else { None }
        };
        let exit = timeout(self.sweep_limit + LOST_SUPERVISOR_TIMEOUT, wait(&mut self.life, exit_if_gone)).await;
        exit.ok().or_else(|| self.exit()).unwrap_or(Exit::Unknown)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !matches!(*self.life.borrow(), Life::Gone(_)) {
            self.executor.execute(Order::Kill);
        }
    }
}

/// Waits until `exit_in` returns a value, and returns it. Returns [`Exit::Unknown`] if the watching task has ended,
/// which happens only when the runtime ends.
async fn wait(life: &mut watch::Receiver<Life>, exit_in: impl Fn(Life) -> Option<Exit>) -> Exit {
    let matching_life = life.wait_for(|life| exit_in(*life).is_some()).await;
    matching_life.ok().and_then(|life| exit_in(*life)).unwrap_or(Exit::Unknown)
}

/// Waits until all processes have ended.
pub(super) async fn wait_until_gone(life: &mut watch::Receiver<Life>) {
    // An error means that the watching task has ended, which only happens when the runtime ends.
    let _ = life.wait_for(|life| matches!(life, Life::Gone(_))).await;
}
