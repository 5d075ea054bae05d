//! Finds out whether a server started a process: whether one of its ancestors is a supervisor.
//!
//! A supervisor is a subreaper, so no process of a server can leave it by losing its parent. A process in a process
//! namespace of its own has the number here that it has outside.

#![expect(clippy::disallowed_methods, reason = "the process table is a folder of files")]

use std::fs::File;
use std::io::Read;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::MARKER;
use crate::table::{Process, is_usable};

/// The most ancestors that are looked at. A process with more is [`Lineage::Unknown`].
const GENERATIONS: usize = 1_024;

/// How often to look again at a process whose ancestors change meanwhile.
const ATTEMPTS: usize = 5;

/// Bytes of a command line that are read: the program and the word behind it.
const WORDS: u64 = 16 * 1024;

/// Where a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// None of its ancestors is a supervisor.
    Free,
    /// This process, one of its ancestors or the process itself, is a supervisor.
    Supervised(i32),
    /// Its ancestors are invisible: it is in a process namespace that cannot be looked into from here, or it has ended.
    Unknown,
}

impl Lineage {
    /// The lineage of the process `pid` at this moment.
    ///
    /// A number can be given to another process when the first one has ended, so the answer counts only while the
    /// caller knows that `pid` has not ended.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        if pid <= 0 || !is_usable() {
            return Self::Unknown;
        }
        (0..ATTEMPTS).find_map(|_| Self::seen(pid)).unwrap_or(Self::Unknown)
    }

    /// `None` when a process ended, or got another parent, while it was looked at.
    fn seen(pid: i32) -> Option<Self> {
        let mut process = Process::read(pid)?;
        for _ in 0..GENERATIONS {
            if is_supervisor(process.pid())? {
                return Some(Self::Supervised(process.pid()));
            }
            // Its parent is outside of what this process can see, and so is everything above: the first process has none.
            if process.parent() == 0 {
                return Some(Self::Free);
            }
            let Some(parent) = Process::read(process.parent()) else {
                // Some systems hide the processes of other users. Above a confined server there is none below its supervisor: it
                // cannot become another user.
                return is_of_another_user(process.parent()).then_some(Self::Free);
            };
            // A parent is older than its child, or it has the number of one that has ended.
            let is_its_parent = parent.started() <= process.started() && Process::read(process.pid())? == process;
            if !is_its_parent {
                return None;
            }
            process = parent;
        }
        Some(Self::Unknown)
    }
}

/// Whether there is a process `pid`, and this one may not send it signals.
fn is_of_another_user(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::EPERM)
}

/// Whether the process `pid` was started as a supervisor; `None` when there is none.
fn is_supervisor(pid: i32) -> Option<bool> {
    let mut line = Vec::new();
    File::open(format!("/proc/{pid}/cmdline")).ok()?.take(WORDS).read_to_end(&mut line).ok()?;
    Some(line.split(|byte| *byte == 0).nth(1) == Some(MARKER.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_below_a_supervisor_is_told_from_others() {
        // A program that has the mark where a supervisor has it, and a process that it starts.
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
        assert_eq!(Lineage::of(line.trim().parse().unwrap()), Lineage::Supervised(above));
        assert_eq!(Lineage::of(above), Lineage::Supervised(above));
        drop(supervisor.stdin.take());
        supervisor.wait().unwrap();
    }

    #[test]
    fn a_process_that_cannot_be_seen_does_not_count_as_free() {
        assert_eq!(Lineage::of(0), Lineage::Unknown);
        assert_eq!(Lineage::of(-1), Lineage::Unknown);
        assert_eq!(Lineage::of(i32::MAX), Lineage::Unknown);
        assert_eq!(Lineage::of(i32::try_from(std::process::id()).unwrap()), Lineage::Free);
    }
}
