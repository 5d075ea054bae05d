//! Starts a supervisor, without forking the host's memory. A supervisor is the process that starts a server, and ends
//! the server with all its descendants. It gets five descriptors and a clean environment.
//!
//! This module uses `posix_spawn`, because a host may be large: a fork first copies the host's page tables, which takes
//! some 60 ms per GiB. `std::process::Command` must fork as soon as it passes more than the three standard streams.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process;
use std::time::Duration;

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::link::process::child::{ChildCommand, resolve::ResolvedPaths};
use toolrack_supervisor::{
    MARKER, VARIABLE_PREFIX,
    container::Removal,
    protocol::{ORDERS_FD, REPORTS_FD},
};

/// How long a killed supervisor may take to end.
const REAP_LIMIT: Duration = Duration::from_secs(1);

/// How many times to check without a pause whether a killed supervisor has ended, before pausing between checks.
const QUICK_CHECKS: usize = 64;

/// The pause between two checks.
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// The three streams of a started process.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A supervisor that was just started, and the host's ends of its pipes.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) process: Process,
    pub(super) streams: Streams,
    pub(super) orders: io::PipeWriter,
    pub(super) reports: pipe::Receiver,
}

/// Starts `supervisor`, which starts `command` with the program and folder of `paths`. Blocks until the supervisor's
/// program runs.
pub(super) fn launch(
    command: &ChildCommand,
    paths: &ResolvedPaths,
    removal: Option<&Removal>,
    supervisor: &Path,
) -> io::Result<Launched> {
    // All ends of the pipes are close-on-exec from their creation, so no other process that is started meanwhile
    // inherits an end. `child_…` are the ends for the supervisor, the others those of the host.
    let (child_stdin, stdin) = io::pipe()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = io::pipe()?;
    let (child_orders, orders) = io::pipe()?;
    let (reports, child_reports) = io::pipe()?;
    let streams = Streams {
        stdin: ChildStdin::from_std(process::ChildStdin::from(OwnedFd::from(stdin)))?,
        stdout: ChildStdout::from_std(process::ChildStdout::from(OwnedFd::from(stdout)))?,
        stderr: ChildStderr::from_std(process::ChildStderr::from(OwnedFd::from(stderr)))?,
    };
    let reports = pipe::Receiver::from_owned_fd(reports.into())?;

    let child_ends: [(OwnedFd, i32); 5] = [
        (above_targets(child_stdin.into())?, 0),
        (above_targets(child_stdout.into())?, 1),
        (above_targets(child_stderr.into())?, 2),
        (above_targets(child_orders.into())?, ORDERS_FD),
        (above_targets(child_reports.into())?, REPORTS_FD),
    ];
    let mut actions = PosixSpawnFileActions::init()?;
    for (end, target) in &child_ends {
        actions.add_dup2(end.as_raw_fd(), *target)?;
    }
    let pid = posix_spawn(
        supervisor,
        &actions,
        &clean_signals()?,
        &arguments(command, paths, removal)?,
        &environment(&command.env)?,
    )?;
    Ok(Launched { process: Process { pid, is_reaped: false }, streams, orders, reports })
}

/// Returns a descriptor of the same file with a higher number than the five targets, so that no `dup2` overwrites it.
fn above_targets(end: OwnedFd) -> io::Result<OwnedFd> {
    if end.as_raw_fd() > REPORTS_FD {
        return Ok(end);
    }
    // `end` stays open meanwhile, so that each clone is higher than the one before.
    above_targets(end.try_clone()?)
}

/// Returns attributes that unblock all signals and reset them to their defaults, independently of the host's own.
fn clean_signals() -> Result<PosixSpawnAttr, Errno> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
    Ok(attributes)
}

/// Returns the command line of the supervisor. Its first argument after the program's name is [`MARKER`], with which a
/// program becomes a supervisor: see [`MARKER`] for the whole form.
fn arguments(command: &ChildCommand, paths: &ResolvedPaths, removal: Option<&Removal>) -> io::Result<Vec<CString>> {
    let first_words = [OsStr::new("toolrack-supervisor"), OsStr::new(MARKER), paths.cwd.as_os_str()];
    let mut option_words = command.confinement.as_ref().map(|confinement| confinement.words()).unwrap_or_default();
    option_words.extend(removal.map(Removal::word));
    let option_words = option_words.iter().map(OsString::as_os_str);
    let program = [OsStr::new("--"), paths.program.as_os_str()];
    let all_words =
        first_words.into_iter().chain(option_words).chain(program).chain(command.args.iter().map(OsString::as_os_str));
    all_words.map(|word| Ok(CString::new(word.as_bytes())?)).collect()
}

/// Returns `:NAME=VALUE` for each name, with the last value if a name has several. The colon is the
/// [`VARIABLE_PREFIX`]. With it, the server's variables do not act on the supervisor. The supervisor removes the colon
/// when it starts the server.
fn environment(env: &[(OsString, OsString)]) -> io::Result<Vec<CString>> {
    let unique: BTreeMap<&OsStr, &OsStr> =
        env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
    unique
        .into_iter()
        .map(|(name, value)| {
            Ok(CString::new([&[VARIABLE_PREFIX.as_bytes(), name.as_bytes()].concat(), value.as_bytes()].join(&b'='))?)
        })
        .collect()
}

/// A supervisor's process. The system does not reuse its id before the process is reaped (`waitpid`).
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    is_reaped: bool,
}

impl Process {
    /// Returns the process id, which is also the id of its session.
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Kills only the supervisor. The processes of its server go on, and the supervisor can no longer end them.
    pub(super) fn kill(&self) {
        if !self.is_reaped {
            // If this fails, the supervisor is no longer there.
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }

    /// Kills a supervisor that no longer watches a process, and reaps it.
    pub(super) async fn kill_and_reap(mut self) {
        self.kill();
        // The supervisor's last step was to close its pipe of reports, so usually one of the first checks can reap the
        // process.
        for _ in 0..QUICK_CHECKS {
            if self.try_reap() {
                return;
            }
            yield_now().await;
        }
        let deadline = Instant::now() + REAP_LIMIT;
        while !self.try_reap() && Instant::now() < deadline {
            sleep(REAP_PAUSE).await;
        }
    }

    /// Reaps the process if it has ended. Returns whether it is reaped.
    fn try_reap(&mut self) -> bool {
        if !self.is_reaped {
            // An error means that the process is reaped already, for example because the host ignores SIGCHLD.
            self.is_reaped = !matches!(waitpid(self.pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive));
        }
        self.is_reaped
    }
}

/// Reaps the process if the runtime ended before [`Process::kill_and_reap`] was done. The process ends by itself within
/// seconds, because the pipe of its orders is closed.
impl Drop for Process {
    fn drop(&mut self) {
        if !self.try_reap() {
            let pid = self.pid;
            // Without the thread, the supervisor's process stays a zombie until this process ends.
            let _ = std::thread::Builder::new().name("reap supervisor".to_owned()).spawn(move || waitpid(pid, None));
        }
    }
}
