//! Does the work of a supervisor, the process between the host and one stdio server, from its start to its exit. It
//! starts the server, watches it, and ends it together with all its descendants; together, they are the *tree*. For a
//! server in the sandbox, it starts a *launcher* instead: this program once more, which gives up rights and then
//! becomes the server. The code is single-threaded and synchronous.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, with its own descriptors and environment"
)]

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, close, getpid, setsid};

use crate::confinement::Confinement;
use crate::container::{ClientEnd, ENGINE_FAILED, Removal, is_readable};
use crate::grants::untrusted_link_error;
use crate::mark::mark_this_process;
use crate::protocol::{Exit, ORDERS_FD, Order, REPORTS_FD, Report, VERDICT_FD};
use crate::reach::{PathError, reach, server_could_have_made};
use crate::spawn::{release_streams, server_environment, start_server, start_this_program};
use crate::stage::{HELPER_PROCESSES, INSIDE_PREFIX, Stage};
use crate::table::{self, Identity};

/// How long processes that the server left behind may take to end after `SIGTERM`.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How long the server and its descendants may take to end after `SIGTERM` when the host is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// How long killed processes may take to disappear. A process in uninterruptible sleep may take longer.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// How often to read the process table while the tree is being killed. It is also read each time that a child ends.
const RESCAN_INTERVAL: Duration = Duration::from_millis(20);

/// How often to count the processes of a server with a limit of processes.
const COUNT_INTERVAL: Duration = Duration::from_millis(25);

/// How long to try to stop all processes of a server that starts more and more.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The `nice(2)` value of a supervisor that counts processes: the highest priority.
const HIGHEST_PRIORITY: i32 = -20;

/// How long the killed client of an engine may take to disappear.
const CLIENT_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes that are read of a launcher's verdict (its report on whether the server could start).
const MAX_VERDICT_BYTES: u64 = 4096;

/// The exit code of a supervisor that could not do its work, the same as that of `env(1)`.
const COULD_NOT_SUPERVISE: u8 = 125;

/// The exit code of a supervisor that could not start the server.
const COULD_NOT_START: u8 = 127;

/// Starts `command` in `folder` as the server, confined if `words` name a confinement. Returns when the server and all
/// its descendants have ended.
pub(crate) fn supervise(folder: &OsStr, words: &[OsString], command: &[OsString]) -> ExitCode {
    let Channels { orders, mut reports, signals } = match Channels::prepare_process() {
        Ok(channels) => channels,
        Err(error) => {
            // At this point, stderr is still the server's, which the host reads.
            let message = format!("cannot supervise (only its host can start a supervisor): {error}\n");
            let _ = io::stderr().write_all(message.as_bytes());
            return ExitCode::from(COULD_NOT_SUPERVISE);
        }
    };
    let container = Removal::from_words(words, command.first());
    let container = container.map(|removal| removal.with_env(server_environment().collect()));
    let is_confined = !words.is_empty() && container.is_none();
    let no_helper_processes = 0;
    let start_result = enter_folder(Path::new(folder), is_confined).and_then(|()| match is_confined {
        true => start_confined(words, command),
        false => start_server(command).map(|server| (server, no_helper_processes)).map_err(Report::from_errno),
    });
    let (server, helper_count) = match start_result {
        Ok(server_and_helpers) => server_and_helpers,
        Err(report) => {
            write_report(&mut reports, report);
            return ExitCode::from(COULD_NOT_START);
        }
    };
    let max =
        if is_confined { Confinement::from_words(words).and_then(|confinement| confinement.processes) } else { None };
    let limit = max.map(|max| ProcessLimit { max, helpers: helper_count });
    if limit.is_some() {
        raise_priority();
    }
    release_streams();
    write_report(&mut reports, Report::Started(server.as_raw().unsigned_abs()));

    let mut tree = Tree { container, ..Tree::new(server, reports, limit) };
    let left_behind = tree.watch(orders, &signals);
    write_report(&mut tree.reports, Report::Finished { left_behind });
    tree.exit_code()
}

/// Enters the working folder. A confined server may write to its working folder, so for such a server this refuses a
/// path with a link that a server could have made: the link could lead anywhere.
fn enter_folder(folder: &Path, is_confined: bool) -> Result<(), Report> {
    let folder_error = |errno: i32| Report::FolderFailed(errno);
    if !is_confined {
        return chdir(folder).map_err(|errno| folder_error(errno as i32));
    }
    match reach(folder, server_could_have_made) {
        Ok(opened_path) => {
            rustix::process::fchdir(&opened_path.file).map_err(|errno| folder_error(errno.raw_os_error()))
        }
        Err(PathError::Error(error)) => Err(folder_error(error.raw_os_error().unwrap_or(Errno::EIO as i32))),
        Err(PathError::Link(link)) => {
            // With this report, the host takes the reason from the last line of stderr.
            let _ = io::stderr().write_all(format!("{}\n", untrusted_link_error("`cwd`", folder, &link)).as_bytes());
            Err(Report::ConfineFailed)
        }
    }
}

/// Writes one report. Ignores errors: the host may be gone.
fn write_report(reports: &mut File, report: Report) {
    let _ = reports.write_all(format!("{report}\n").as_bytes());
}

/// The pipes and signals of a process that is ready to start a server and to outlast its host.
struct Channels {
    orders: File,
    reports: File,
    signals: SignalFd,
}

impl Channels {
    /// Opens the pipes, blocks signals, and makes this process the subreaper of its descendants.
    fn prepare_process() -> io::Result<Self> {
        let orders = File::open(pipe_path(ORDERS_FD)?)?;
        let reports = File::options().write(true).open(pipe_path(REPORTS_FD)?)?;
        close_all_but(&[&orders, &reports])?;

        // Block every signal, so that a stray one cannot end this process and orphan the tree. Without SIGPIPE, a write
        // to a host that is gone is merely an error.
        SigSet::all().thread_block()?;
        let mut handled_signals = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
            handled_signals.add(signal);
        }
        let signals = SignalFd::with_flags(&handled_signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;

        // Leave the terminal's session: the host handles Ctrl-C. This only fails if this process leads a session
        // already.
        let _ = setsid();
        prctl::set_child_subreaper(true)?;
        mark_this_process();
        // Without this, `ps` would show the name "exe".
        let _ = prctl::set_name(c"toolrack-superv");
        Ok(Self { orders, reports, signals })
    }
}

/// Returns the path by which to reopen an inherited pipe as close-on-exec; an error if `fd` is not a pipe.
///
/// Using the inherited descriptor itself would need `unsafe`.
fn pipe_path(fd: i32) -> io::Result<std::path::PathBuf> {
    let path = Path::new("/proc/self/fd").join(fd.to_string());
    if path.metadata()?.file_type().is_fifo() { Ok(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Closes every file descriptor above the standard three except those of `kept_files`.
///
/// This process has opened only `kept_files`, so it inherited all the others: the two pipes that `kept_files` reopened,
/// and descriptors that the host failed to mark close-on-exec. The server must not get them.
fn close_all_but(kept_files: &[&File]) -> io::Result<()> {
    let open_fds: Vec<i32> = Path::new("/proc/self/fd")
        .read_dir()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open_fds {
        if fd > 2 && kept_files.iter().all(|file| file.as_raw_fd() != fd) {
            // Fails for the descriptor with which this folder was listed: it is closed by now.
            let _ = close(fd);
        }
    }
    Ok(())
}

/// Starts this program once more as a launcher, which gives up every right that `words` do not name and then becomes
/// the server. Waits until the launcher has done so, or has failed. Returns the launcher, and how many helper processes
/// are between this process and the server.
fn start_confined(words: &[OsString], command: &[OsString]) -> Result<(Pid, u32), Report> {
    let supervisor_pid = getpid().as_raw();
    let is_without_namespaces =
        Confinement::from_words(words).is_some_and(|confinement| confinement.without_namespaces);
    let mut stage = match is_without_namespaces {
        true => Stage::BeginWithoutNamespaces { supervisor_pid },
        false => Stage::Begin { supervisor_pid },
    };
    loop {
        let (launcher, verdict) = launch(stage, words, command)?;
        let (helper_count, verdict) = match verdict.strip_prefix(INSIDE_PREFIX) {
            Some(verdict) => (HELPER_PROCESSES, verdict),
            None => (0, &*verdict),
        };
        if verdict.is_empty() {
            return Ok((launcher, helper_count));
        }
        // This only reaps the launcher: the verdict has the reason why it failed.
        let _ = waitpid(launcher, None);
        if verdict.starts_with("bare ") && stage == (Stage::Begin { supervisor_pid }) {
            // The system's namespaces do not work: start again without them.
            stage = Stage::BeginWithoutNamespaces { supervisor_pid };
            continue;
        }
        return Err(match verdict.strip_prefix("exec ").map(str::parse) {
            Some(Ok(errno)) => Report::SpawnFailed(errno),
            _ => {
                let why = verdict.strip_prefix("refused ").unwrap_or(verdict);
                let _ = io::stderr().write_all(format!("{why}\n").as_bytes());
                Report::ConfineFailed
            }
        });
    }
}

/// Starts the first stage on the way to a confined server, and waits for the verdict of the launcher. The verdict
/// begins with [`INSIDE_PREFIX`] if the server has namespaces. The rest is the reason why the server's program does
/// not run. It is empty once the program runs, because the descriptor of the verdict is then closed.
fn launch(stage: Stage, words: &[OsString], command: &[OsString]) -> Result<(Pid, String), Report> {
    let spawn_error = |error: io::Error| Report::SpawnFailed(error.raw_os_error().unwrap_or(Errno::EIO as i32));
    let (mut verdict_reader, verdict_writer) = io::pipe().map_err(spawn_error)?;
    // In the launcher, the descriptor gets the number `VERDICT_FD`. It must have another number here: `dup2` of a
    // descriptor onto itself would leave it close-on-exec.
    let verdict_writer = if verdict_writer.as_raw_fd() == VERDICT_FD {
        verdict_writer.try_clone().map_err(spawn_error)?
    } else {
        verdict_writer
    };
    let words = words.iter().cloned().chain(["--".into()]).chain(command.iter().cloned());
    let launcher = start_this_program(&stage.command(words), &[(verdict_writer.as_raw_fd(), VERDICT_FD)])
        .map_err(Report::from_errno)?;
    drop(verdict_writer);
    let mut verdict = Vec::new();
    // After an error, the bytes read so far still say that the server does not run.
    let _ = (&mut verdict_reader).take(MAX_VERDICT_BYTES).read_to_end(&mut verdict);
    Ok((launcher, String::from_utf8_lossy(&verdict).into_owned()))
}

/// Raises this process's priority over its server: a fork bomb grows while it is counted, and could starve this
/// process. Only root may do this, and only root needs it: `RLIMIT_NPROC` restricts the servers of other users.
fn raise_priority() {
    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
}

/// The phases of ending the tree, in their order. The tree never goes back to an earlier phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server may run.
    Watching,
    /// Every descendant got `SIGTERM`. If `kill_at` is set, the next phase begins then.
    Terminating { kill_at: Option<Instant> },
    /// Every descendant gets `SIGKILL`, until `give_up_at`.
    Killing { give_up_at: Instant },
}

/// How many processes the server may have at once, and how many helper processes are counted with them.
#[derive(Clone, Copy, Debug)]
struct ProcessLimit {
    max: u32,
    helpers: u32,
}

impl ProcessLimit {
    /// Returns whether the server may have this many descendants of the supervisor.
    fn allows(self, descendants: usize) -> bool {
        descendants as u64 <= u64::from(self.max) + u64::from(self.helpers)
    }
}

/// The server and its descendants.
struct Tree {
    server: Pid,
    /// How the server ended; `None` while it runs.
    exit: Option<Exit>,
    phase: Phase,
    /// The processes that got `SIGTERM` already: none gets a second one.
    terminated_ids: HashSet<Identity>,
    reports: File,
    /// The limit of processes, if there is one.
    limit: Option<ProcessLimit>,
    /// The container to remove, if the server is the client of an engine.
    container: Option<Removal>,
    /// How many containers could not be removed.
    stuck_containers: u32,
}

impl Tree {
    fn new(server: Pid, reports: File, limit: Option<ProcessLimit>) -> Self {
        Self {
            server,
            exit: None,
            phase: Phase::Watching,
            terminated_ids: HashSet::new(),
            reports,
            limit,
            container: None,
            stuck_containers: 0,
        }
    }

    /// Kills the server if it has more processes than it may.
    fn enforce_process_limit(&mut self) {
        let Some(limit) = self.limit.filter(|_| self.phase == Phase::Watching) else { return };
        if limit.allows(table::descendants_of(std::process::id()).len()) {
            return;
        }
        // Kill the group first: the kernel does that in one step, during which no process of the group can start
        // another. Processes that have left the group still can, so stop them all before killing any: a stopped process
        // starts no other.
        let _ = killpg(self.server, Signal::SIGKILL);
        let stop_deadline = Instant::now() + STOP_LIMIT;
        let mut stopped_ids = HashSet::new();
        while Instant::now() < stop_deadline {
            let descendants = table::descendants_of(std::process::id());
            if descendants.iter().filter(|process| stopped_ids.insert(process.id)).count() == 0 {
                break;
            }
            for process in &descendants {
                process.id.signal(Signal::SIGSTOP);
            }
        }
        if self.exit.is_none() {
            self.server_ended(Exit::TooManyProcesses(limit.max));
        }
        self.kill();
    }

    /// Watches until no descendant is left, or only descendants that cannot be killed. Returns how many are left. A
    /// container that could not be removed counts as one of them.
    fn watch(&mut self, orders: File, signals: &SignalFd) -> u32 {
        let mut orders = Some(orders);
        loop {
            if self.handle_ended_children() {
                self.remove_container();
                return self.stuck_containers;
            }
            self.enforce_process_limit();
            if let Some(remaining) = self.advance(Instant::now()) {
                return remaining + self.stuck_containers;
            }
            wait(orders.as_ref(), signals, self.next_timeout(Instant::now()));
            self.read_orders(&mut orders);
            self.read_signals(signals);
        }
    }

    /// Reaps the children that have ended, including orphans. If the server is one of them, terminates the processes
    /// that it left behind.
    ///
    /// Returns whether no child is left, and therefore no descendant. In the usual case, a server that leaves nothing
    /// behind, this answers without reading the process table.
    fn handle_ended_children(&mut self) -> bool {
        let server_had_ended = self.exit.is_some();
        let is_childless = self.reap_children();
        if !is_childless && !server_had_ended && self.exit.is_some() {
            self.remove_container();
            self.terminate(Some(LEFTOVER_GRACE));
        }
        is_childless
    }

    /// Reaps the children that have ended. Returns whether no child is left.
    fn reap_children(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return false,
                // The end of the server was reported already, such as with `Exit::TooManyProcesses`.
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))
                    if pid == self.server && self.exit.is_some() => {}
                Ok(WaitStatus::Exited(pid, code)) if pid == self.server => self.server_ended(Exit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.server => {
                    self.server_ended(Exit::Signal(signal as i32));
                }
                // `nix` returns this error when a real-time signal killed the process that it reaped.
                Err(Errno::EINVAL) if self.exit.is_none() && kill(self.server, None) == Err(Errno::ESRCH) => {
                    self.server_ended(Exit::Unknown);
                }
                Ok(_) | Err(Errno::EINVAL | Errno::EINTR) => {}
                Err(_) => {
                    if self.exit.is_none() {
                        self.server_ended(Exit::Unknown);
                    }
                    return true;
                }
            }
        }
    }

    /// Notes how the server ended, and reports it to the host.
    fn server_ended(&mut self, exit: Exit) {
        self.exit = Some(exit);
        write_report(&mut self.reports, Report::Ended(exit));
    }

    /// Sends `SIGTERM` to every descendant that has not had one yet, and kills the rest after `grace`. Without `grace`,
    /// only an order of the host kills them.
    ///
    /// Each descendant gets only one `SIGTERM`, because many programs take a second one to mean "at once". Processes
    /// that start later get none, because a program may need them to clean up.
    fn terminate(&mut self, grace: Option<Duration>) {
        let requested_kill_at = grace.map(|grace| Instant::now() + grace);
        match &mut self.phase {
            Phase::Watching => self.phase = Phase::Terminating { kill_at: requested_kill_at },
            Phase::Terminating { kill_at } => *kill_at = [*kill_at, requested_kill_at].into_iter().flatten().min(),
            Phase::Killing { .. } => return,
        }
        if self.container.is_some() {
            // The engine's client passes the signal on to the container. The other descendants belong to the engine,
            // which ends the container when asked.
            let _ = kill(self.server, Signal::SIGTERM);
            return;
        }
        for process in table::descendants_of(std::process::id()) {
            if self.terminated_ids.insert(process.id) {
                process.id.signal(Signal::SIGTERM);
                // A stopped process handles `SIGTERM` only once it continues.
                process.id.signal(Signal::SIGCONT);
            }
        }
        self.signal_group_without_table(Signal::SIGTERM);
    }

    /// Signals the server's group if the process table is unusable. Does nothing once the server has been reaped,
    /// because the system may then give the id of its group to another one.
    fn signal_group_without_table(&self, signal: Signal) {
        if self.exit.is_none() && !table::is_usable() {
            let _ = killpg(self.server, signal);
        }
    }

    /// Makes the engine remove the container, if there is one. Kills the engine's client first, so that the client
    /// starts no other container.
    fn remove_container(&mut self) {
        let Some(container) = self.container.take() else { return };
        if self.exit.is_none() {
            let _ = kill(self.server, Signal::SIGKILL);
            let deadline = Instant::now() + CLIENT_LIMIT;
            while self.exit.is_none() && !self.reap_children() && Instant::now() < deadline {
                std::thread::sleep(RESCAN_INTERVAL);
            }
        }
        let end = match self.exit {
            Some(Exit::Code(ENGINE_FAILED)) => ClientEnd::EngineFailed,
            Some(Exit::Code(_)) => ClientEnd::Exited,
            _ => ClientEnd::Killed,
        };
        if !container.carry_out(end) {
            self.stuck_containers += 1;
        }
    }

    /// Begins the phase in which every descendant gets `SIGKILL`.
    fn kill(&mut self) {
        self.remove_container();
        if !matches!(self.phase, Phase::Killing { .. }) {
            self.phase = Phase::Killing { give_up_at: Instant::now() + KILL_LIMIT };
        }
    }

    /// Does the work of the current phase. When it gives up on processes that cannot be killed, returns how many are
    /// left; otherwise `None`.
    fn advance(&mut self, now: Instant) -> Option<u32> {
        if let Phase::Terminating { kill_at: Some(kill_at) } = self.phase
            && now >= kill_at
        {
            self.kill();
        }
        if let Phase::Killing { give_up_at } = self.phase {
            // Read the table again each time: a descendant may have started another before the last signal reached it.
            let remaining = table::descendants_of(std::process::id());
            if now >= give_up_at {
                // At least one is left, because the last child has not been reaped.
                return Some(u32::try_from(remaining.len()).unwrap_or(u32::MAX).max(1));
            }
            for process in remaining {
                process.id.signal(Signal::SIGKILL);
            }
            self.signal_group_without_table(Signal::SIGKILL);
        }
        None
    }

    /// Returns how long to wait for an order or a signal; `None` is forever.
    fn next_timeout(&self, now: Instant) -> Option<Duration> {
        match self.phase {
            Phase::Watching => self.limit.map(|_| COUNT_INTERVAL),
            Phase::Terminating { kill_at: None } => None,
            Phase::Terminating { kill_at: Some(kill_at) } => Some(kill_at.saturating_duration_since(now)),
            Phase::Killing { .. } => Some(RESCAN_INTERVAL),
        }
    }

    /// Reads orders and carries them out. End of file means that the host is gone.
    fn read_orders(&mut self, orders: &mut Option<File>) {
        let Some(mut pipe) = orders.as_ref() else {
            return;
        };
        if !is_readable(pipe) {
            return;
        }
        let mut bytes = [0; 16];
        match pipe.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                *orders = None;
                self.terminate(Some(ORPHAN_GRACE));
            }
            Ok(length) => {
                for order in bytes[..length].iter().copied().filter_map(Order::from_byte) {
                    match order {
                        Order::Terminate => self.terminate(None),
                        Order::Kill => self.kill(),
                    }
                }
            }
        }
    }

    /// Reads the signals that were sent to this process.
    fn read_signals(&mut self, signals: &SignalFd) {
        while let Ok(Some(signal)) = signals.read_signal() {
            // The loop reaps an ended child next. Every other signal asks this process to end.
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                self.terminate(Some(ORPHAN_GRACE));
            }
        }
    }

    /// Returns the exit code of this supervisor: that of the server, or 128 plus the number of its signal.
    fn exit_code(&self) -> ExitCode {
        match self.exit {
            Some(Exit::Code(code)) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            Some(Exit::Signal(number)) => ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX)),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Waits until an order or a signal can be read, for at most `time_limit`.
fn wait(orders: Option<&File>, signals: &SignalFd, time_limit: Option<Duration>) {
    let mut sources = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    sources.extend(orders.map(|orders| PollFd::new(orders.as_fd(), PollFlags::POLLIN)));
    // The time-out of `poll` is rounded down to milliseconds. Add one millisecond, so that the loop does not spin until
    // the limit.
    let time_limit = time_limit.map_or(PollTimeout::NONE, |time_limit| {
        PollTimeout::try_from(time_limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    // The result does not matter: the caller checks all sources.
    let _ = poll(&mut sources, time_limit);
}

#[cfg(test)]
mod tests;
