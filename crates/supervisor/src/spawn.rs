//! How a process of ours starts the next, and what it takes over and lets go of.

#![expect(clippy::disallowed_methods, reason = "a program of its own: it owns its descriptors and its environment")]

use std::env;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, chdir, close, dup2_stderr, dup2_stdin, dup2_stdout};

/// What stands before the names of the server's variables until the server itself begins. The loader of programs obeys
/// some variables (`LD_LIBRARY_PATH`, `LD_PRELOAD`), and must not obey the server's where this program runs: it is not
/// confined yet, or never.
pub const SEAL: &str = ":";

/// The server's variables.
pub(crate) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(SEAL.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    })
}

/// This variable of the server's.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(format!("{SEAL}{name}"))
}

/// Starts a program of the user's, such as the server, with the server's variables: see [`start`].
pub(crate) fn start_theirs(command: &[OsString]) -> Result<Pid, Errno> {
    start(command, &environment().collect::<Vec<_>>(), &[])
}

/// Starts this program once more, with the server's variables still sealed: see [`start`]. `passed`: descriptors of this
/// process, and those as which it finds them.
pub(crate) fn start_ours(command: &[OsString], passed: &[(i32, i32)]) -> Result<Pid, Errno> {
    start(command, &env::vars_os().collect::<Vec<_>>(), passed)
}

/// Starts `command` in a process group of its own, with this process's streams and working folder.
///
/// `posix_spawn` because, unlike `std::process::Command`, it can unblock the signals that are blocked here.
fn start(command: &[OsString], variables: &[(OsString, OsString)], passed: &[(i32, i32)]) -> Result<Pid, Errno> {
    let command: Vec<CString> = command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let program = command.first().ok_or(Errno::EINVAL)?;
    let variables = variables.iter().map(|(name, value)| c_string(&[name.as_bytes(), value.as_bytes()].join(&b'=')));
    let environment: Vec<CString> = variables.collect::<Result<_, _>>()?;

    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    // Not this process's group, so that a server which signals its own group does not signal its supervisor.
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
    )?;
    let mut actions = PosixSpawnFileActions::init()?;
    for (from, to) in passed {
        actions.add_dup2(*from, *to)?;
    }
    posix_spawn(program.as_c_str(), &actions, &attributes, &command, &environment)
}

fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

/// An inherited pipe that is close-on-exec: its end of file is this process's alone, not that of what it becomes.
pub(crate) fn inherited(fd: i32) -> Option<File> {
    let file = File::options().write(true).open(format!("/proc/self/fd/{fd}")).ok()?;
    // The one that was inherited stays open in the server otherwise; the new one is close-on-exec.
    close(fd).ok()?;
    Some(file)
}

/// Lets go of the server's streams, so that their end of file tells about the server alone, and of its working folder,
/// so that it can be unmounted.
pub(crate) fn release_streams() {
    match File::options().read(true).write(true).open("/dev/null") {
        Ok(null) => {
            let _ = dup2_stdin(&null).and(dup2_stdout(&null)).and(dup2_stderr(&null));
        }
        Err(_) => {
            for fd in 0..=2 {
                let _ = close(fd);
            }
        }
    }
    let _ = chdir("/");
}

#[cfg(test)]
mod tests;
