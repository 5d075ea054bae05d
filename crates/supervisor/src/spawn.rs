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

/// Starts `command` in a process group of its own, with this process's streams, environment and working folder.
///
/// `posix_spawn` because, unlike `std::process::Command`, it can unblock the signals that are blocked here.
///
/// `passed`: descriptors of this process, and those as which it finds them.
pub(crate) fn start(command: &[OsString], passed: &[(i32, i32)]) -> Result<Pid, Errno> {
    let command: Vec<CString> = command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let program = command.first().ok_or(Errno::EINVAL)?;
    let mut environment = Vec::new();
    for (name, value) in env::vars_os() {
        environment.push(c_string(&[name.into_vec(), value.into_vec()].join(&b'='))?);
    }

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
