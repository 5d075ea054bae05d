//! Starts, watches and ends child processes, such as stdio servers. Knows nothing of MCP.
//!
//! [`spawn`] starts a program and returns four parts: its stdin and stdout, the [`StderrTail`] (always drained; the
//! last 64 KiB are stored) and the [`Handle`], which reports how the process ended and can end it.
//!
//! On Linux, servers are started with a [`Supervisor`]: no process that the program starts outlives it or the host; see
//! [`supervisor`](super::supervisor). Without a supervisor, or on other systems, the program leads a process group, and
//! the host ends that group. A process that left the group then survives. If the host is killed with `SIGKILL`, and the
//! program does not end at the end of its stdin, all its processes survive.
//!
//! The host waits for the end of the process itself, *not* for the end of its stdout: a descendant may hold stdout
//! open, and stdout may still contain output when the process has ended.

mod container;
mod engine;
mod handle;
#[cfg(target_os = "linux")]
mod launch;
mod resolve;
mod stderr;
#[cfg(target_os = "linux")]
mod supervised;
mod unsupervised;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::task::TaskTracker;
use toolrack_supervisor::Confinement;

use crate::spec::absolute_path;

pub use super::supervisor::{Exit, Supervisor};
pub use container::ContainerCommand;
pub use engine::{EngineInfo, EngineReport, ImageStatus, inspect_engine};
pub use handle::{Grace, Handle};
pub use resolve::SpawnError;
pub use stderr::{LineHook, StderrTail};

/// A program to start, with its arguments and environment.
#[derive(Clone)]
pub struct ChildCommand {
    /// A path, if it contains a slash; it may be relative to `cwd`. Otherwise, a name to look up in the `PATH` of
    /// `env`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The whole environment: no variable of the host is added.
    pub env: Vec<(OsString, OsString)>,
    /// The working folder; the host's own if it is `None`.
    pub cwd: Option<PathBuf>,
    /// Supervises the process; see the module. Only used on Linux.
    pub supervisor: Option<Supervisor>,
    /// The confinement of the program, if there is one. Needs a supervisor, and Linux.
    pub confinement: Option<Box<Confinement>>,
    /// The container in which the program runs, if there is one. Needs a supervisor, and Linux.
    pub container: Option<Box<ContainerCommand>>,
}

/// Prints the names of the variables without their values, which may be secret.
impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("supervisor", &self.supervisor)
            .field("confinement", &self.confinement)
            .field("container", &self.container)
            .finish()
    }
}

/// A started program, in parts that can be moved to where they are used.
#[derive(Debug)]
pub struct Child {
    /// The program's input. Dropping it asks the server to end.
    pub stdin: ChildStdin,
    /// The program's output.
    pub stdout: ChildStdout,
    /// The end of the program's stderr.
    pub stderr: StderrTail,
    /// Reports how the program ended, and can end it. Dropping the handle kills the program.
    pub handle: Handle,
}

/// Starts a program.
///
/// `on_stderr` gets every line of the program's stderr. The tasks that drain stderr and watch the process run on
/// `tasks`, and end when the process and all its descendants have ended.
///
/// Looks up files and forks on a blocking thread, so that a dead network folder blocks no other task.
///
/// # Errors
///
/// [`SpawnError`]. If this returns `Ok`, the program runs.
///
/// # Cancellation
///
/// Dropping the future ends the started processes.
///
/// # Panics
///
/// Outside a tokio runtime with IO and time.
pub async fn spawn(
    mut command: ChildCommand,
    on_stderr: Option<LineHook>,
    tasks: &TaskTracker,
) -> Result<Child, SpawnError> {
    // The child must not find programs in its working folder when it searches `PATH` itself.
    for (_, path) in command.env.iter_mut().filter(|(name, _)| name == "PATH") {
        if let Some(absolute_path) = absolute_path(path) {
            *path = absolute_path;
        }
    }
    #[cfg(target_os = "linux")]
    if let Some(supervisor) = command.supervisor.clone() {
        return supervised::spawn(command, supervisor, on_stderr, tasks).await;
    }
    if command.confinement.is_some() {
        let why = "only a host with a supervisor can set one up, on Linux".to_owned();
        return Err(SpawnError::NotConfined { why });
    }
    if command.container.is_some() {
        let why = "only a host with a supervisor ends containers with their servers, on Linux".to_owned();
        return Err(SpawnError::NotContained { why });
    }
    unsupervised::spawn(command, on_stderr, tasks).await
}

/// Runs `work` on a blocking thread that `tasks` tracks.
async fn on_blocking_thread<T: Send + 'static>(
    tasks: &TaskTracker,
    work: impl FnOnce() -> Result<T, SpawnError> + Send + 'static,
) -> Result<T, SpawnError> {
    // An error means that the runtime is shutting down: the work does not panic, and no code aborts it.
    tasks.spawn_blocking(work).await.unwrap_or(Err(SpawnError::ShuttingDown))
}
