//! The host's side of a supervised server.

use std::io::{PipeWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines, Take};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::supervisor::{self, Order, Report, Supervisor, table};
use super::handle::{Carrier, Handle, Life};
use super::launch::{Launched, Process, launch};
use super::resolve::{SpawnError, refused, resolve};
use super::stderr::{LineHook, StderrTail, drain};
use super::{Child, ChildCommand, Exit, off_the_runtime};

/// How long a supervisor may take to say that the server was started. It is a fork and an exec of a program that runs
/// already; only a machine at its limits takes more than some milliseconds.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How many bytes of reports are read in all. There are three reports, of some 20 bytes each.
const REPORTS_LIMIT: u64 = 4096;

/// How long the remains of a lost supervisor are hunted.
const HUNT_LIMIT: Duration = Duration::from_secs(2);

/// How often they are looked for.
const HUNT_PAUSE: Duration = Duration::from_millis(10);

/// Starts a supervisor that starts the program.
pub(super) async fn spawn(
    command: ChildCommand,
    supervisor: Supervisor,
    on_stderr: Option<LineHook>,
    tasks: &TaskTracker,
) -> Result<Child, SpawnError> {
    let program = supervisor.program.clone();
    if supervisor::is_asked() {
        // This process should be a supervisor and is running its ordinary program: without this it would start itself
        // again and again.
        return Err(SpawnError::NotASupervisor {
            program,
            said: String::new(),
        });
    }
    let (launched, resolved) = off_the_runtime(tasks, move || {
        let resolved = resolve(&command)?;
        let launched = launch(&command, &resolved, &supervisor.program).map_err(|source| {
            if source.raw_os_error() == Some(Errno::E2BIG as i32) {
                SpawnError::TooLong
            } else {
                SpawnError::Supervisor {
                    program: supervisor.program,
                    source,
                }
            }
        })?;
        Ok((launched, resolved))
    })
    .await?;
    let Launched {
        process,
        streams,
        orders,
        reports,
    } = launched;

    let (life, watched) = watch::channel(Life::Running);
    let stderr = StderrTail::new();
    tasks.spawn(drain(
        streams.stderr,
        stderr.clone(),
        on_stderr,
        watched.clone(),
    ));

    let mut reports = BufReader::new(reports.take(REPORTS_LIMIT)).lines();
    let first = timeout(START_LIMIT, next_report(&mut reports)).await;
    let pid = match first {
        Ok(Some(Report::Started(pid))) => pid,
        other => {
            process.end().await;
            life.send_replace(Life::Gone(Exit::SupervisorLost));
            return Err(match other {
                Ok(Some(Report::SpawnFailed(errno))) => refused(&resolved.program, errno),
                Ok(Some(Report::FolderFailed(errno))) => SpawnError::BadCwd {
                    cwd: resolved.cwd,
                    source: std::io::Error::from_raw_os_error(errno),
                },
                Ok(_) => SpawnError::NotASupervisor {
                    program,
                    said: last_words(&stderr).await,
                },
                Err(_) => SpawnError::SilentSupervisor { program },
            });
        }
    };

    let orders = Arc::new(orders);
    let give_up = CancellationToken::new();
    let watch = Watch {
        process,
        reports,
        life,
        give_up: give_up.clone(),
        _lifeline: Arc::clone(&orders),
    };
    tasks.spawn(watch.run());
    let handle = Handle::new(pid, watched, Box::new(Orders(orders)), give_up);
    Ok(Child {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr,
        handle,
    })
}

/// The last line of a supervisor that is gone, to be put into an error.
async fn last_words(stderr: &StderrTail) -> String {
    stderr.drained().await;
    stderr
        .tail(1)
        .pop()
        .map(|line| format!(" (it said {line:?})"))
        .unwrap_or_default()
}

type Reports = Lines<BufReader<Take<pipe::Receiver>>>;

/// The next report; `None` at the end, and for anything that is no report.
async fn next_report(reports: &mut Reports) -> Option<Report> {
    reports.next_line().await.ok()??.parse().ok()
}

/// The writing end of a supervisor's orders.
struct Orders(Arc<PipeWriter>);

impl Carrier for Orders {
    fn carry(&self, order: Order) {
        // Does not block: the pipe has room for thousands of orders and there are two at most. Fails when the supervisor is
        // gone, and then there is nothing to order.
        let _ = (&*self.0).write_all(&[order as u8]);
    }
}

/// What the task that watches a supervisor owns.
struct Watch {
    process: Process,
    reports: Reports,
    life: watch::Sender<Life>,
    give_up: CancellationToken,
    /// Keeps the orders open until the supervisor is gone, also when the handle was dropped.
    _lifeline: Arc<PipeWriter>,
}

impl Watch {
    async fn run(mut self) {
        let mut left = None;
        let given_up = self.give_up.clone();
        loop {
            tokio::select! {
                report = next_report(&mut self.reports) => match report {
                    Some(Report::Ended(exit)) => { self.life.send_replace(Life::Ended(exit)); }
                    Some(Report::Finished { left: count }) => left = Some(count),
                    Some(Report::Started(_) | Report::FolderFailed(_) | Report::SpawnFailed(_)) => {}
                    None => break,
                },
                () = given_up.cancelled() => {
                    self.process.kill();
                    break;
                }
            }
        }
        match left {
            Some(0) => {}
            Some(count) => tracing::warn!(count, "processes of a server could not be ended"),
            None => {
                tracing::warn!("the supervisor of a server was killed; killing the server");
                hunt(self.process.pid()).await;
            }
        }
        // Only now: until it is collected its process id, hence that of its session, belongs to nobody else.
        self.process.end().await;
        let exit = self.life.borrow().exit().unwrap_or(Exit::SupervisorLost);
        self.life.send_replace(Life::Gone(exit));
    }
}

/// Kills what is left of a supervisor's session until nothing is, or for 2 s.
async fn hunt(session: u32) {
    let deadline = Instant::now() + HUNT_LIMIT;
    loop {
        let remains = table::remains_of_session(session);
        if remains.is_empty() || Instant::now() >= deadline {
            return;
        }
        for process in remains {
            process.id.signal(Signal::SIGKILL);
        }
        sleep(HUNT_PAUSE).await;
    }
}
