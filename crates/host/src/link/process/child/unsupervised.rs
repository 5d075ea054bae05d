//! Starts and ends a server without a supervisor. The server leads a process group, and the host ends that group.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child as Process, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::link::process::child::{
    Child, ChildCommand,
    handle::{Handle, Life, OrderExecutor},
    on_blocking_thread,
    resolve::{SpawnError, resolve, spawn_error},
    stderr::{LineHook, StderrTail, drain},
};
use toolrack_supervisor::protocol::{Exit, Order};
#[cfg(target_os = "linux")]
use toolrack_supervisor::table;

/// How long the remaining processes of a server's group may take to end after `SIGTERM`.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How long the group may take to disappear after `SIGKILL`.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// The pause between two checks of the group.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the program as the leader of a process group.
pub(super) async fn spawn(
    command: ChildCommand,
    on_stderr: Option<LineHook>,
    tasks: &TaskTracker,
) -> Result<Child, SpawnError> {
    let (mut process, group) = on_blocking_thread(tasks, move || launch(&command)).await?;
    // `launch` has made a pipe for each of the three, so this cannot fail.
    let (Some(stdin), Some(stdout), Some(stderr_pipe)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(SpawnError::ShuttingDown);
    };
    let (life, life_receiver) = watch::channel(Life::Running);
    let (stderr_writer, stderr) = StderrTail::new();
    tasks.spawn(drain(stderr_pipe, stderr_writer, on_stderr, life_receiver.clone()));
    let kill_ordered = CancellationToken::new();
    tasks.spawn(watch_group(process, group, life, kill_ordered.clone()));
    let handle = Handle::new(group.id(), life_receiver, Box::new(GroupOrders { group, kill_ordered }));
    Ok(Child { stdin, stdout, stderr, handle })
}

/// Starts the process. Blocking: reads file metadata, forks, and waits for the exec.
fn launch(command: &ChildCommand) -> Result<(Process, Group), SpawnError> {
    let paths = resolve(command)?;
    let mut process = Command::new(&paths.program);
    process
        .args(&command.args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&paths.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // 0 makes the process the leader of a new group.
        .process_group(0)
        .kill_on_drop(true);
    let system_error = |source| SpawnError::System { path: paths.program.clone(), source };
    let process = process.spawn().map_err(|error| match error.raw_os_error() {
        Some(errno) => spawn_error(&paths.program, errno),
        None => system_error(error),
    })?;
    let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
    let group = pid.map(|pid| Group(Pid::from_raw(pid))).ok_or_else(|| system_error(io::ErrorKind::NotFound.into()))?;
    Ok((process, group))
}

/// A process group, by the process id of its leader.
///
/// The host reaps the leader before it ends the rest of the group. The system does not reuse the id while the group has
/// members. If the group has no other members, the host uses the id only once more, microseconds after it reaped the
/// leader.
#[derive(Clone, Copy)]
struct Group(Pid);

impl Group {
    fn id(self) -> u32 {
        self.0.as_raw().unsigned_abs()
    }

    fn signal(self, signal: Signal) {
        // Fails if the group is empty, which is the goal.
        let _ = killpg(self.0, signal);
    }

    fn terminate(self) {
        self.signal(Signal::SIGTERM);
        // A stopped process must continue in order to handle the signal.
        self.signal(Signal::SIGCONT);
    }

    fn has_living_members(self) -> bool {
        // `killpg` also succeeds if all members have ended but are not reaped yet. So read the table of processes where
        // that is possible.
        #[cfg(target_os = "linux")]
        if table::is_usable() {
            return table::group_lives(self.0.as_raw());
        }
        let no_signal = None;
        killpg(self.0, no_signal).is_ok()
    }

    /// Waits until the group has no living members, for at most `limit`. Returns whether it has none.
    async fn wait_until_empty(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.has_living_members() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL_INTERVAL).await;
        }
        true
    }
}

/// Executes the orders of a handle on a group.
struct GroupOrders {
    group: Group,
    /// Cancelled by an order to kill.
    kill_ordered: CancellationToken,
}

impl OrderExecutor for GroupOrders {
    fn execute(&self, order: Order) {
        match order {
            Order::Terminate => self.group.terminate(),
            Order::Kill => {
                self.group.signal(Signal::SIGKILL);
                self.kill_ordered.cancel();
            }
        }
    }
}

/// Waits for the leader, then ends the rest of its group.
async fn watch_group(mut process: Process, group: Group, life: watch::Sender<Life>, kill_ordered: CancellationToken) {
    let overdue = async {
        kill_ordered.cancelled().await;
        sleep(KILL_LIMIT).await;
    };
    let status = tokio::select! {
        status = process.wait() => status.ok(),
        () = overdue => None,
    };
    let exit = status.map_or(Exit::Unknown, exit_from_status);
    life.send_replace(Life::Ended(exit));
    if !group.wait_until_empty(Duration::ZERO).await {
        group.terminate();
        if !group.wait_until_empty(LEFTOVER_GRACE).await {
            group.signal(Signal::SIGKILL);
            if !group.wait_until_empty(KILL_LIMIT).await {
                tracing::warn!("processes of a server could not be ended");
            }
        }
    }
    life.send_replace(Life::Gone(exit));
}

fn exit_from_status(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(number)) => Exit::Signal(number),
        (None, None) => Exit::Unknown,
    }
}
