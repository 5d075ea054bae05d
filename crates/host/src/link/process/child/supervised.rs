//! Starts a server under a supervisor, and watches the supervisor. This is the host's side. The supervisor is a process
//! of its own: it takes orders through one pipe, reports through another, and ends the server with everything below it.

use std::collections::HashSet;
use std::io::{self, PipeWriter, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Once};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines, Take};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::link::process::child::{
    Child, ChildCommand, Exit, Supervisor,
    handle::{Handle, Life, OrderExecutor, SWEEP_LIMIT},
    launch::{Launched, Process, launch},
    on_blocking_thread,
    resolve::{ResolvedPaths, SpawnError, resolve, spawn_error},
    stderr::{LineHook, StderrTail, drain},
};
use toolrack_supervisor::{
    container::{ClientEnd, REMOVAL_LIMIT, Removal},
    mark::{self, Mark},
    protocol::{Order, Report},
    table,
};

/// How long a supervisor may take to report that the server was started. The supervisor already runs, so this takes
/// more than some milliseconds only on an overloaded machine, or if the working folder does not respond.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The most bytes of reports that are read. There are three reports, of some 20 bytes each.
const REPORTS_LIMIT: u64 = 4096;

/// The time-out for killing the processes of a lost supervisor.
const KILL_SESSION_LIMIT: Duration = Duration::from_secs(2);

/// The pause between two searches for the processes of a lost supervisor.
const SEARCH_PAUSE: Duration = Duration::from_millis(10);

/// Starts a supervisor that starts the program.
pub(super) async fn spawn(
    command: ChildCommand,
    supervisor: Supervisor,
    on_stderr: Option<LineHook>,
    tasks: &TaskTracker,
) -> Result<Child, SpawnError> {
    if toolrack_supervisor::is_asked() {
        // This process was started as a supervisor but runs its ordinary program: without this check it would start
        // itself again and again.
        return Err(SpawnError::NotASupervisor { program: supervisor.program().to_owned(), stderr: String::new() });
    }
    let (sender, receiver) = oneshot::channel();
    let start = Start { command, supervisor, on_stderr, tasks: tasks.clone() };
    tasks.spawn(start.run(sender));
    // The task always answers, unless the runtime is shutting down.
    receiver.await.unwrap_or(Err(SpawnError::ShuttingDown))
}

/// The inputs of the start of a server.
struct Start {
    command: ChildCommand,
    supervisor: Supervisor,
    on_stderr: Option<LineHook>,
    tasks: TaskTracker,
}

impl Start {
    /// Starts a supervisor and owns it until all its processes have ended, even if no caller waits for the server any
    /// more. So no process ever belongs to a future that may be dropped.
    async fn run(self, mut outcome_sender: oneshot::Sender<Result<Child, SpawnError>>) {
        let Self { command, supervisor, on_stderr, tasks } = self;
        let program = supervisor.program().to_owned();
        let is_confined = command.confinement.is_some();
        let launched = on_blocking_thread(&tasks, move || {
            let mut command = command;
            let container = command.container.take();
            let removal = container.map(|container| container.wrap(&mut command)).transpose()?;
            let paths = resolve(&command)?;
            let launched = launch(&command, &paths, removal.as_ref(), supervisor.program())
                .map_err(|source| launch_error(&supervisor, source))?;
            Ok((launched, paths, removal))
        });
        let (Launched { process, streams, orders, reports }, paths, removal) = match launched.await {
            Ok(parts) => parts,
            Err(error) => {
                // This fails if the caller no longer waits.
                let _ = outcome_sender.send(Err(error));
                return;
            }
        };
        let (life, life_receiver) = watch::channel(Life::Running);
        let (stderr_writer, stderr) = StderrTail::new();
        tasks.spawn(drain(streams.stderr, stderr_writer, on_stderr, life_receiver.clone()));

        let mut reports = BufReader::new(reports.take(REPORTS_LIMIT)).lines();
        let first_report = tokio::select! {
            report = timeout(START_LIMIT, next_report(&mut reports)) => Some(report),
            () = outcome_sender.closed() => None,
        };
        let orders = Arc::new(orders);
        let end_begun = CancellationToken::new();
        let executor = OrderPipe { pipe: Arc::clone(&orders), end_begun: end_begun.clone() };
        let watch = Watch { process, reports, life, end_begun, removal, _lifeline: orders };
        if let Some(Ok(Some(Report::Started(pid)))) = first_report {
            let handle = Handle::new(pid, life_receiver, Box::new(executor)).with_sweep_limit(watch.sweep_limit());
            let child = Child { stdin: streams.stdin, stdout: streams.stdout, stderr, handle };
            // If the caller no longer waits, the child is dropped here, which is the order to kill it.
            drop(outcome_sender.send(Ok(child)));
            kill_leftovers(&tasks);
            return watch.run().await;
        }
        if let Some(Ok(Some(_))) = first_report {
            watch.handle_failed_start().await;
        } else {
            // The supervisor may have started the server without a report. Order it to end the server. If it does not
            // obey in time, `watch` kills the processes.
            drop((streams.stdin, streams.stdout));
            executor.execute(Order::Kill);
            watch.run().await;
        }
        if let Some(first_report) = first_report {
            stderr.drained().await;
            // This fails if the caller no longer waits.
            let _ = outcome_sender.send(Err(match first_report {
                // In the namespaces of a sandbox, files outside of the sandbox do not exist.
                Ok(Some(Report::SpawnFailed(errno)))
                    if is_confined && [Errno::EACCES as i32, Errno::ENOENT as i32].contains(&errno) =>
                {
                    unreachable_program_error(&paths)
                }
                first_report => start_error(paths, program, first_report, &stderr),
            }));
        }
    }
}

/// Returns the error of a supervisor that could not be started.
fn launch_error(supervisor: &Supervisor, source: io::Error) -> SpawnError {
    if source.raw_os_error() == Some(Errno::E2BIG as i32) {
        SpawnError::TooLong
    } else {
        SpawnError::Supervisor { program: supervisor.program().to_owned(), source }
    }
}

/// Returns the error of a program that exists, but not in its sandbox.
fn unreachable_program_error(paths: &ResolvedPaths) -> SpawnError {
    let program = paths.program.display();
    let why = format!(
        "{program}, or its interpreter, cannot be run in the sandbox; add the folder of its installation to \
         `sandbox.read`"
    );
    SpawnError::NotConfined { why }
}

/// Returns the reason why a supervisor, which has ended, did not start the server. `first_report` is its first report,
/// if that came in time.
fn start_error(
    paths: ResolvedPaths,
    supervisor: PathBuf,
    first_report: Result<Option<Report>, Elapsed>,
    stderr: &StderrTail,
) -> SpawnError {
    match first_report {
        Ok(Some(Report::SpawnFailed(errno))) => spawn_error(&paths.program, errno),
        Ok(Some(Report::ConfineFailed)) => {
            SpawnError::NotConfined { why: stderr.tail(1).pop().unwrap_or_else(|| "it gives no reason".to_owned()) }
        }
        Ok(Some(Report::FolderFailed(errno))) => {
            SpawnError::BadCwd { cwd: paths.cwd, source: io::Error::from_raw_os_error(errno) }
        }
        Ok(_) => {
            let last_line = stderr.tail(1).pop();
            let stderr = last_line.map(|line| format!(" (its last line was {line:?})")).unwrap_or_default();
            SpawnError::NotASupervisor { program: supervisor, stderr }
        }
        Err(_) => SpawnError::SilentSupervisor { program: supervisor },
    }
}

type Reports = Lines<BufReader<Take<pipe::Receiver>>>;

/// Returns the next report; `None` at the end, and for invalid bytes.
async fn next_report(reports: &mut Reports) -> Option<Report> {
    reports.next_line().await.ok()??.parse().ok()
}

/// The writing end of the pipe for a supervisor's orders.
struct OrderPipe {
    pipe: Arc<PipeWriter>,
    /// Cancelled by an order to kill.
    end_begun: CancellationToken,
}

impl OrderExecutor for OrderPipe {
    fn execute(&self, order: Order) {
        // This does not block: the pipe has room for thousands of orders, and there are at most three. The write fails
        // when the supervisor has ended, and then there is nothing to order.
        let _ = (&*self.pipe).write_all(&[order as u8]);
        if order == Order::Kill {
            self.end_begun.cancel();
        }
    }
}

/// The state of the task that watches a supervisor.
struct Watch {
    process: Process,
    reports: Reports,
    life: watch::Sender<Life>,
    /// Cancelled when the supervisor begins to end its processes. From then on, it has limited time.
    end_begun: CancellationToken,
    /// The container that must be removed at the end.
    removal: Option<Removal>,
    /// Keeps the pipe of orders open until the supervisor has ended, even when the handle was dropped.
    _lifeline: Arc<PipeWriter>,
}

impl Watch {
    /// Handles the end of a supervisor that reported that it could not start the server.
    async fn handle_failed_start(self) {
        self.process.kill_and_reap().await;
        self.life.send_replace(Life::Gone(Exit::SupervisorLost));
    }

    /// Watches the supervisor until it has ended. If the supervisor ends without having ended the processes of the
    /// server, kills those processes.
    async fn run(mut self) {
        let remaining_count = self.forward_reports().await;
        match remaining_count {
            Some(0) => {}
            Some(count) => tracing::warn!(count, "processes of a server could not be ended"),
            None => {
                tracing::warn!("the supervisor of a server was killed or hangs; killing the server");
                kill_session(self.process.pid()).await;
                self.remove_container().await;
            }
        }
        // Reap the supervisor only now: until then, the system does not reuse its process id, which is also the id of
        // the session.
        self.process.kill_and_reap().await;
        let exit = self.life.borrow().exit().unwrap_or(Exit::SupervisorLost);
        self.life.send_replace(Life::Gone(exit));
    }

    /// Removes the container, as the supervisor would have done.
    async fn remove_container(&mut self) {
        let Some(removal) = self.removal.take() else { return };
        let removal_result = spawn_blocking(move || removal.carry_out(ClientEnd::Killed)).await;
        if !matches!(removal_result, Ok(true)) {
            tracing::warn!("the container of a server could not be removed; its engine does not answer");
        }
    }

    /// Returns how long the supervisor may take to end all processes.
    fn sweep_limit(&self) -> Duration {
        if self.removal.is_some() { SWEEP_LIMIT + REMOVAL_LIMIT } else { SWEEP_LIMIT }
    }

    /// Forwards the reports until they end. Returns the number of processes that the supervisor could not end, from its
    /// last report; `None` if that report did not come. Kills a supervisor that takes too long.
    async fn forward_reports(&mut self) -> Option<u32> {
        let mut remaining_count = None;
        let end_begun = self.end_begun.clone();
        let limit = self.sweep_limit();
        let mut overdue = pin!(async move {
            end_begun.cancelled().await;
            sleep(limit).await;
        });
        loop {
            let report = tokio::select! {
                report = next_report(&mut self.reports) => report,
                () = &mut overdue => {
                    self.process.kill();
                    return None;
                }
            };
            match report {
                Some(Report::Ended(exit)) => {
                    self.life.send_replace(Life::Ended(exit));
                    self.end_begun.cancel();
                }
                Some(Report::Finished { left_behind: count }) => remaining_count = Some(count),
                Some(Report::Started(_) | Report::FolderFailed(_) | Report::SpawnFailed(_) | Report::ConfineFailed) => {
                }
                None => return remaining_count,
            }
        }
    }
}

/// Ends the processes of earlier hosts that were killed together with their supervisors. Runs once, in the background.
fn kill_leftovers(tasks: &TaskTracker) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Nothing waits for this work, so its handle is not needed.
        drop(tasks.spawn_blocking(|| {
            let count = mark::kill_leftovers();
            if count > 0 {
                tracing::warn!(count, "ended processes of servers that were left behind when their host was killed");
            }
        }));
    });
}

/// Kills the processes of a supervisor's session, and the processes that carry the supervisor's [`Mark`]. Ends when no
/// process remains, or after 2 s.
///
/// Stops all processes before it kills any: a stopped process starts no other process. It kills them once it finds no
/// new process, because the children of a killed process might no longer be found.
async fn kill_session(session: u32) {
    let deadline = Instant::now() + KILL_SESSION_LIMIT;
    let mut living_ids = HashSet::new();
    let mark = Mark::of_supervisor(session);
    loop {
        let is_past_deadline = Instant::now() >= deadline;
        let session_ids = table::remains_of_session(session).into_iter().map(|process| process.id);
        let marked_ids = mark.map(mark::marked_with).unwrap_or_default();
        let new_count = session_ids.chain(marked_ids).filter(|id| living_ids.insert(*id)).count();
        living_ids.retain(|id| id.is_alive());
        if living_ids.is_empty() {
            return;
        }
        let must_stop = new_count > 0 && !is_past_deadline;
        for id in &living_ids {
            id.signal(if must_stop { Signal::SIGSTOP } else { Signal::SIGKILL });
        }
        if is_past_deadline {
            return;
        }
        if !must_stop {
            sleep(SEARCH_PAUSE).await;
        }
    }
}
