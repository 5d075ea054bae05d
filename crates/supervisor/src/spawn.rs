//! Starts the next process on the way from the supervisor to the server. Controls which variables, descriptors and
//! streams that process inherits.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, with its own descriptors and environment"
)]

use std::env;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, chdir, close, dup2_stderr, dup2_stdin, dup2_stdout};

/// The prefix that the names of the server's variables have until the server itself starts. The dynamic loader obeys
/// some variables (`LD_LIBRARY_PATH`, `LD_PRELOAD`). In the processes of this program, which are not confined, it must
/// not obey the server's variables.
pub const VARIABLE_PREFIX: &str = ":";

/// Returns the server's variables, without the prefix.
pub(crate) fn server_environment() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    })
}

/// Returns the value of one of the server's variables.
pub(crate) fn server_variable(name: &str) -> Option<OsString> {
    env::var_os(format!("{VARIABLE_PREFIX}{name}"))
}

/// Starts `command`, which is the server or the client of its container engine, with the server's variables. [`start`]
/// describes the rest.
pub(crate) fn start_server(command: &[OsString]) -> Result<Pid, Errno> {
    start(command, &server_environment().collect::<Vec<_>>(), &[])
}

/// Starts this program once more. The server's variables keep their prefix. `passed_fds` has descriptors of this
/// process, each with the number that it gets in the new process. [`start`] describes the rest.
pub(crate) fn start_this_program(command: &[OsString], passed_fds: &[(i32, i32)]) -> Result<Pid, Errno> {
    start(command, &env::vars_os().collect::<Vec<_>>(), passed_fds)
}

/// Starts `command` in a process group of its own, with this process's streams and working folder.
///
/// It uses `posix_spawn`, which, unlike `std::process::Command`, can unblock the signals that are blocked here.
fn start(command: &[OsString], variables: &[(OsString, OsString)], passed_fds: &[(i32, i32)]) -> Result<Pid, Errno> {
    let command: Vec<CString> = command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let program = command.first().ok_or(Errno::EINVAL)?;
    let variables = variables.iter().map(|(name, value)| c_string(&[name.as_bytes(), value.as_bytes()].join(&b'=')));
    let environment: Vec<CString> = variables.collect::<Result<_, _>>()?;

    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    // A group of its own, so that a server that signals its group does not signal its supervisor.
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
    )?;
    let mut actions = PosixSpawnFileActions::init()?;
    for (fd, new_fd) in passed_fds {
        actions.add_dup2(*fd, *new_fd)?;
    }
    posix_spawn(program.as_c_str(), &actions, &attributes, &command, &environment)
}

fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

/// Reopens an inherited pipe for writing and as close-on-exec, so that the next program does not hold it open.
pub(crate) fn reopen_inherited(fd: i32) -> Option<File> {
    let file = File::options().write(true).open(format!("/proc/self/fd/{fd}")).ok()?;
    // Close the inherited descriptor, which would stay open in the server.
    close(fd).ok()?;
    Some(file)
}

/// Closes this process's copies of the server's streams, so that only the server decides when they reach their end of
/// file. Also leaves the working folder, so that the user can unmount it.
pub(crate) fn release_streams() {
    match File::options().read(true).write(true).open("/dev/null") {
        Ok(null) => {
            // If this fails, the streams only reach their end of file later, when this process ends.
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
