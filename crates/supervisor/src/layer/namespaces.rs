//! Puts a confined server into namespaces, if the system gives them to an ordinary user. In its namespaces, the server
//! sees only its own processes, files and shared memory, and an empty network if it may use none.
//!
//! Three processes lead to the server:
//!
//! 1. The *keeper* makes the namespaces. The supervisor takes the keeper's process for the server, so the keeper ends
//!    in the same way as the server. When the keeper ends, the system kills the init process and with it the whole
//!    namespace, so the supervisor need not search for processes.
//! 2. The child of the keeper is the *init* process: the first of the new process namespace. It makes the new root, and
//!    reaps orphans.
//! 3. The child of the init process gives up the rights that the server must not have, and becomes the server.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, so it may handle raw descriptors"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getegid, geteuid, getpid, getppid};
use rustix::process::{DumpableBehavior, WaitOptions, WaitStatus};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::CONFINE;
use crate::protocol::{EXIT_FD, VERDICT_FD};
use crate::root;
use crate::spawn::{release_streams, reopen_inherited, start_this_program};
use crate::stage::{Command, Failure, INSIDE_PREFIX, Isolation, Stage};

/// How long processes that the server left behind may take to end after `SIGTERM`.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How often to check whether these processes have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The capabilities that the init process needs: to mount, and to give up all others.
const NEEDED_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SETPCAP);

/// Makes the system kill this process when its parent ends. Fails if the parent, with the id `expected_pid`, has ended
/// already.
pub(crate) fn end_with_parent(expected_pid: i32) -> Result<(), Failure> {
    // The system refuses only a signal that does not exist.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if parent_pid() == Some(expected_pid) { Ok(()) } else { Err(Failure::refused("its supervisor has ended")) }
}

/// Returns the id of this process's parent. In the init process of a namespace, `getppid` returns 0. There, this reads
/// the id from the system's `/proc`, which is still mounted.
fn parent_pid() -> Option<i32> {
    let parent = getppid().as_raw();
    if parent != 0 {
        return Some(parent);
    }
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Does the work of the keeper: makes the namespaces, starts the init process in them, and waits until that ends.
/// Returns the server's exit code, or ends by the signal that killed the server. Returns `None` if the system gives
/// this user no namespaces.
///
/// # Errors
/// A step after making the namespaces failed. This process can then no longer become the server.
pub(crate) fn run_keeper(command: &Command<'_>, verdict: &mut Option<File>) -> Result<Option<ExitCode>, Failure> {
    let has_own_network = command.uses_no_network();
    let mut flags =
        CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    flags.set(CloneFlags::CLONE_NEWNET, has_own_network);
    let (user, group) = (geteuid(), getegid());
    if unshare(flags).is_err() {
        return Ok(None);
    }
    let namespace_error = |error: io::Error| Failure::NoNamespaces(error.to_string());
    fs::write("/proc/self/setgroups", "deny").map_err(namespace_error)?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(namespace_error)?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(namespace_error)?;
    pass_on_capabilities().map_err(|error| namespace_error(error.into()))?;

    let (exit_reader, exit_writer) = io::pipe().map_err(namespace_error)?;
    // Until the init process has started, this process keeps the pipe open, to report its own failures.
    let verdict_fd = verdict.as_ref().ok_or_else(|| Failure::refused("the pipe to its supervisor is missing"))?;
    let [verdict_fd, exit_writer] = [
        move_above_fixed_fds(verdict_fd.try_clone().map_err(namespace_error)?.into()).map_err(namespace_error)?,
        move_above_fixed_fds(exit_writer.into()).map_err(namespace_error)?,
    ];
    let stage = Stage::NamespaceInit { keeper_pid: getpid().as_raw(), has_own_network };
    let words = stage.command(command.words.iter().cloned());
    let init_pid =
        start_this_program(&words, &[(verdict_fd.as_raw_fd(), VERDICT_FD), (exit_writer.as_raw_fd(), EXIT_FD)])
            .map_err(|errno| Failure::NoNamespaces(errno.to_string()))?;
    // Only the new processes hold the pipes open now, so that their readers notice when these processes end.
    drop((verdict.take(), verdict_fd, exit_writer));
    // No signal may end the keeper before the server has ended.
    let _ = SigSet::all().thread_block();
    let _ = prctl::set_name(c"toolrack-keeper");
    release_streams();
    Ok(Some(end_like_server(init_pid, exit_reader)))
}

/// Duplicates `fd` to a descriptor above [`VERDICT_FD`] and [`EXIT_FD`], because the next process gets other files
/// under these numbers.
fn move_above_fixed_fds(fd: OwnedFd) -> io::Result<OwnedFd> {
    // Each duplicate gets a higher number, because the one before stays open until this function returns.
    if fd.as_raw_fd() > EXIT_FD { Ok(fd) } else { move_above_fixed_fds(fd.try_clone()?) }
}

/// Makes the processes that this one starts inherit the [`NEEDED_CAPABILITIES`], which apply only in these namespaces.
fn pass_on_capabilities() -> rustix::io::Result<()> {
    let current = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: NEEDED_CAPABILITIES, ..current })?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP] {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Waits for the init process, which reports how the server ended. Then this process ends in the same way: returns the
/// server's exit code, or sends itself the signal that killed the server.
fn end_like_server(init_pid: Pid, mut exit_reader: PipeReader) -> ExitCode {
    let init_pid = rustix::process::Pid::from_raw(init_pid.as_raw());
    let status = loop {
        match rustix::process::waitpid(init_pid, WaitOptions::empty()) {
            Ok(Some((_, status))) => break Some(status),
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => break None,
        }
    };
    let mut signal_byte = [0];
    let reported_signal =
        exit_reader.read(&mut signal_byte).is_ok_and(|length| length == 1).then_some(i32::from(signal_byte[0]));
    let Some(signal) = reported_signal.or_else(|| status?.terminating_signal()) else {
        // Without a status, report a failure.
        return exit_code(status.and_then(WaitStatus::exit_status).unwrap_or(1));
    };
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = SigSet::all().thread_unblock();
        // Send it twice: at a memory fault, Rust's handler only removes itself on the first signal.
        let _ = kill(getpid(), signal);
        let _ = kill(getpid(), signal);
    }
    // The exit code that shells use for a process that a signal killed.
    exit_code(128 + signal)
}

/// Returns the exit code `code`, or 255 if it is out of range.
fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Does the work of the init process: makes the new root, starts the server, and reaps ended processes until the server
/// ends.
pub(crate) fn run_namespace_init(
    command: &Command<'_>,
    keeper_pid: i32,
    has_own_network: bool,
    verdict: &mut Option<File>,
) -> Result<ExitCode, Failure> {
    let mut exit_writer =
        reopen_inherited(EXIT_FD).ok_or_else(|| Failure::refused("the pipe to its keeper is missing"))?;
    // No signal may end this process before the server has ended.
    let _ = SigSet::all().thread_block();
    let _ = prctl::set_name(c"toolrack-first");
    end_with_parent(keeper_pid)?;
    // The new root does not exist yet: this still follows the links of the whole system.
    let is_in_namespaces = false;
    let grants = command.grants(is_in_namespaces).map_err(Failure::Refused)?;
    // `root::enter` mounts a `/proc` itself.
    let grants = grants.into_iter().filter(|grant| !grant.opened_path.real_path.starts_with("/proc")).collect();
    let working_folder = std::env::current_dir().map_err(|error| Failure::Refused(error.to_string()))?;
    let has_own_proc =
        root::enter(grants, &working_folder, command.resolves_by_tcp()).map_err(Failure::NoNamespaces)?;
    give_up_capabilities().map_err(|error| Failure::NoNamespaces(error.to_string()))?;
    let verdict_fd = verdict.as_mut().ok_or_else(|| Failure::refused("the pipe to its supervisor is missing"))?;
    // If the supervisor is gone, it needs no verdict.
    let _ = verdict_fd.write_all(INSIDE_PREFIX.as_bytes());
    let words = Stage::Inside(Isolation { has_own_proc, has_own_network }).command(command.words.iter().cloned());
    let server = start_this_program(&words, &[(verdict_fd.as_raw_fd(), VERDICT_FD)])
        .map_err(|errno| Failure::Refused(errno.to_string()))?;
    // The server's process has the pipe now, and closes it when the server runs.
    *verdict = None;
    // No process in the namespaces may read the memory of this one.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    release_streams();
    let status = reap_until_end_of(server);
    if let Some(signal) = status.and_then(WaitStatus::terminating_signal) {
        // If the keeper is gone, it needs no report.
        let _ = exit_writer.write_all(&[u8::try_from(signal).unwrap_or_default()]);
    }
    terminate_leftovers();
    Ok(exit_code(status.and_then(WaitStatus::exit_status).unwrap_or(1)))
}

/// Reaps ended processes until the server ends. Returns how the server ended, if the system says so.
fn reap_until_end_of(server: Pid) -> Option<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == server.as_raw() => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Sends `SIGTERM` to the processes that the server left behind, and waits until they have ended, for at most
/// [`LEFTOVER_GRACE`]. The system kills the rest when this process ends.
fn terminate_leftovers() {
    let deadline = Instant::now() + LEFTOVER_GRACE;
    // -1 means every other process in this process namespace.
    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    // A stopped process handles `SIGTERM` only once it continues.
    let _ = kill(Pid::from_raw(-1), Signal::SIGCONT);
    while Instant::now() < deadline {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Err(_) => return,
        }
    }
}

/// Gives up all capabilities permanently, for this process and those that it starts.
fn give_up_capabilities() -> rustix::io::Result<()> {
    let current = rustix::thread::capabilities(None)?;
    // If this fails, the system removes them together with the permitted capabilities below.
    let _ = rustix::thread::clear_ambient_capability_set();
    if current.effective.contains(CapabilitySet::SETPCAP) {
        for bit in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << bit);
            // The kernel refuses the first number beyond its last capability.
            if rustix::thread::remove_capability_from_bounding_set(capability).is_err() {
                break;
            }
        }
        rustix::thread::set_capabilities_secure_bits(
            CapabilitiesSecureBits::NO_ROOT
                | CapabilitiesSecureBits::NO_ROOT_LOCKED
                | CapabilitiesSecureBits::NO_SETUID_FIXUP
                | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
                | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
                | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
        )?;
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Gives up all capabilities: those of the namespaces in which this process is already, or those of root.
///
/// # Errors
/// If the system refuses that.
pub(crate) fn apply(_: &Command<'_>, _: Option<Isolation>) -> Result<(), String> {
    give_up_capabilities().map_err(|errno| format!("its capabilities cannot be given up: {errno}"))
}

/// Returns what namespaces hide from a server, or why this user has none.
pub(crate) fn coverage() -> String {
    match check_support() {
        Ok(()) => "processes, files that are not named, socket files, shared memory".to_owned(),
        Err(why) => {
            format!("none for this user ({why}): a confined server can change mode, times and attributes of files")
        }
    }
}

/// Checks whether this system lets this user have namespaces for a sandbox, by starting the running program once more.
///
/// # Errors
/// The system's reason why there are no namespaces.
fn check_support() -> Result<(), String> {
    let output = std::process::Command::new("/proc/self/exe")
        .args([CONFINE, PROBE])
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Ok(()),
        "" => Err("namespaces could not be tried".to_owned()),
        why => Err(why.to_owned()),
    }
}

/// The argument that asks this program whether it can make namespaces.
const PROBE: &str = "probe";

/// If the arguments are the [probe](PROBE), tries to make namespaces and prints the outcome to stdout.
pub(crate) fn probe_if_asked(words: &[OsString]) -> Option<ExitCode> {
    let [word] = words else { return None };
    if word != PROBE {
        return None;
    }
    let message = probe().err().unwrap_or_else(|| "yes".to_owned());
    let _ = io::stdout().write_all(message.as_bytes());
    Some(ExitCode::SUCCESS)
}

/// Tries to move this process, which must have only one thread, into new namespaces.
pub(crate) fn probe() -> Result<(), String> {
    let flags =
        CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    let (user, group) = (geteuid(), getegid());
    unshare(flags).map_err(|errno| errno.to_string())?;
    let write_proc = |name: &str, text: String| fs::write(Path::new("/proc/self").join(name), text);
    write_proc("setgroups", "deny".to_owned())
        .and_then(|()| write_proc("uid_map", format!("{user} {user} 1")))
        .and_then(|()| write_proc("gid_map", format!("{group} {group} 1")))
        .map_err(|error| error.to_string())?;
    let resolves_by_tcp = false;
    root::enter(Vec::new(), Path::new("/"), resolves_by_tcp).map(drop)
}
