//! Finds out whether a process belongs to a server: whether one of its ancestors is a supervisor.
//!
//! A supervisor is the process that watches one server. Orphans below it become its children
//! (`PR_SET_CHILD_SUBREAPER`), so a process of a server stays below it even if its parent dies. A process may be in a
//! process namespace of its own; the id here is the one that it has outside of it.

#![expect(clippy::disallowed_methods, reason = "the process table is a folder of files")]

use std::fs::File;
use std::io::Read;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::MARKER;
use crate::table::{Process, is_usable};

/// The most ancestors to follow. A process with more is [`Lineage::Unknown`].
const MAX_ANCESTORS: usize = 1_024;

/// How many times to follow the ancestors of a process, if they change meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// How many bytes of a command line to read: enough for the program and its first argument.
const MAX_COMMAND_LINE_BYTES: u64 = 16 * 1024;

/// The origin of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// None of its ancestors is a supervisor.
    Unsupervised,
    /// The process with this id is a supervisor. It is an ancestor of the process, or the process itself.
    Supervised(i32),
    /// The process has ended, or some of its ancestors are not visible here, such as those in an outer process
    /// namespace.
    Unknown,
}

impl Lineage {
    /// Determines the lineage of the process `pid` at this moment.
    ///
    /// The system may give the id of an ended process to another one, so the answer is only valid while the caller
    /// knows that `pid` has not ended.
    #[must_use]
    pub fn determine(pid: i32) -> Self {
        if pid <= 0 || !is_usable() {
            return Self::Unknown;
        }
        (0..MAX_ATTEMPTS).find_map(|_| Self::try_determine(pid)).unwrap_or(Self::Unknown)
    }

    /// Follows the ancestors once; `None` when one of them ended or got another parent meanwhile.
    fn try_determine(pid: i32) -> Option<Self> {
        let mut process = Process::read(pid)?;
        for _ in 0..MAX_ANCESTORS {
            if is_supervisor(process.pid())? {
                return Some(Self::Supervised(process.pid()));
            }
            // Process 0 stands for no parent, or for one outside this process namespace.
            if process.parent() == 0 {
                return Some(Self::Unsupervised);
            }
            let Some(parent) = Process::read(process.parent()) else {
                // Some systems hide the processes of other users. No such process is between a confined server and its
                // supervisor, because the server cannot become another user.
                return is_of_another_user(process.parent()).then_some(Self::Unsupervised);
            };
            // If the parent is younger than its child, the real parent has ended and its id was reused.
            let is_real_parent =
                parent.start_time() <= process.start_time() && Process::read(process.pid())? == process;
            if !is_real_parent {
                return None;
            }
            process = parent;
        }
        Some(Self::Unknown)
    }
}

/// Returns whether the process `pid` exists, but this process may not send it signals.
fn is_of_another_user(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::EPERM)
}

/// Returns whether the process `pid` was started as a supervisor; `None` if there is no such process.
fn is_supervisor(pid: i32) -> Option<bool> {
    let mut command_line = Vec::new();
    File::open(format!("/proc/{pid}/cmdline"))
        .ok()?
        .take(MAX_COMMAND_LINE_BYTES)
        .read_to_end(&mut command_line)
        .ok()?;
    Some(command_line.split(|byte| *byte == 0).nth(1) == Some(MARKER.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_below_a_supervisor_is_distinguished_from_others() {
        // A program with the first argument of a supervisor, and a process that the program starts.
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join(MARKER);
        std::fs::write(&script, "sh -c 'echo $$; read end'\n").unwrap();
        let mut supervisor = Command::new("sh")
            .arg(MARKER)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(supervisor.stdout.take().unwrap()), &mut line)
            .unwrap();
        let above = i32::try_from(supervisor.id()).unwrap();
        assert_eq!(Lineage::determine(line.trim().parse().unwrap()), Lineage::Supervised(above));
        assert_eq!(Lineage::determine(above), Lineage::Supervised(above));
        drop(supervisor.stdin.take());
        supervisor.wait().unwrap();
    }

    #[test]
    fn a_process_that_cannot_be_seen_does_not_count_as_free() {
        assert_eq!(Lineage::determine(0), Lineage::Unknown);
        assert_eq!(Lineage::determine(-1), Lineage::Unknown);
        assert_eq!(Lineage::determine(i32::MAX), Lineage::Unknown);
        assert_eq!(Lineage::determine(i32::try_from(std::process::id()).unwrap()), Lineage::Unsupervised);
    }
}
