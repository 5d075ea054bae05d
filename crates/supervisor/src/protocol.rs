//! Defines the messages between the host and a supervisor (the process that watches one server), and the ways in which
//! a server can end. The host sends orders, the supervisor sends reports.

use std::fmt;
#[cfg(target_os = "linux")]
use std::str::FromStr;

use nix::sys::signal::Signal;

/// The file descriptor on which the supervisor reads orders.
pub const ORDERS_FD: i32 = 3;

/// The file descriptor on which the supervisor writes reports.
pub const REPORTS_FD: i32 = 4;

/// The file descriptor on which a launcher (a process that becomes a confined server, or starts it) reports to its
/// supervisor why the server did not start.
#[cfg(target_os = "linux")]
pub(crate) const VERDICT_FD: i32 = 3;

/// The file descriptor on which the init process of the namespaces reports the signal that killed the server.
#[cfg(target_os = "linux")]
pub(crate) const EXIT_FD: i32 = 4;

/// An order of the host to a supervisor; one byte each on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// Send `SIGTERM` to every descendant.
    Terminate = b'T',
    /// Send `SIGKILL` to every descendant until none is left.
    Kill = b'K',
}

impl Order {
    /// Returns the order that `byte` stands for.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Terminate, Self::Kill].into_iter().find(|order| *order as u8 == byte)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited by itself, with this status (0 to 255).
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
    /// It ended, and the system did not report how.
    Unknown,
    /// It had more processes than it may have at once, and the supervisor killed them all.
    TooManyProcesses(u32),
    /// The supervisor was killed from outside, and the host then killed the unwatched server.
    SupervisorLost,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "killed by signal {number} ({signal})"),
                Err(_) => write!(f, "killed by signal {number}"),
            },
            Self::Unknown => f.write_str("exit status unknown"),
            Self::TooManyProcesses(limit) => {
                write!(f, "killed because it had more than {limit} processes (sandbox.limits.processes)")
            }
            Self::SupervisorLost => f.write_str("killed because its supervisor process was killed"),
        }
    }
}

/// A report of a supervisor to the host; one line of ASCII each on the wire.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The server runs and has this process id. This is the first report. If the server could not be started, one of
    /// the next three is the only report.
    Started(u32),
    /// The supervisor could not enter the working folder, with this `errno`.
    FolderFailed(i32),
    /// The supervisor could not start the server, with this `errno`.
    SpawnFailed(i32),
    /// The supervisor did not start the server, because it could not be confined. The last line of stderr says why.
    ConfineFailed,
    /// The server ended; the supervisor is ending the processes that the server left behind.
    Ended(Exit),
    /// The supervisor ends.
    Finished {
        /// The number of processes that could not be killed and are left behind, usually 0.
        left_behind: u32,
    },
}

#[cfg(target_os = "linux")]
impl Report {
    /// Returns the report that the server could not start for this reason.
    pub(crate) fn from_errno(errno: nix::errno::Errno) -> Self {
        Self::SpawnFailed(errno as i32)
    }
}

#[cfg(target_os = "linux")]
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(pid) => write!(f, "started {pid}"),
            Self::FolderFailed(errno) => write!(f, "folder-failed {errno}"),
            Self::SpawnFailed(errno) => write!(f, "spawn-failed {errno}"),
            // Every line ends with a number, even if it has no meaning.
            Self::ConfineFailed => f.write_str("confine-failed 0"),
            Self::Ended(Exit::TooManyProcesses(limit)) => write!(f, "overrun {limit}"),
            Self::Ended(Exit::Code(code)) => write!(f, "exited {code}"),
            Self::Ended(Exit::Signal(number)) => write!(f, "signalled {number}"),
            Self::Ended(Exit::Unknown | Exit::SupervisorLost) => f.write_str("ended 0"),
            Self::Finished { left_behind: left } => write!(f, "finished {left}"),
        }
    }
}

#[cfg(target_os = "linux")]
impl FromStr for Report {
    type Err = UnknownReport;

    fn from_str(line: &str) -> Result<Self, UnknownReport> {
        let (word, number) = line.split_once(' ').ok_or(UnknownReport)?;
        let number: i32 = number.parse().map_err(|_| UnknownReport)?;
        let unsigned_number = u32::try_from(number).map_err(|_| UnknownReport);
        Ok(match word {
            "started" => Self::Started(unsigned_number?),
            "folder-failed" => Self::FolderFailed(number),
            "spawn-failed" => Self::SpawnFailed(number),
            "confine-failed" => Self::ConfineFailed,
            "overrun" => Self::Ended(Exit::TooManyProcesses(unsigned_number?)),
            "exited" => Self::Ended(Exit::Code(number)),
            "signalled" => Self::Ended(Exit::Signal(number)),
            "ended" => Self::Ended(Exit::Unknown),
            "finished" => Self::Finished { left_behind: unsigned_number? },
            _ => return Err(UnknownReport),
        })
    }
}

/// The line is not a report.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a report of a supervisor")]
pub struct UnknownReport;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_described_in_plain_words() {
        assert_eq!(Exit::Code(3).to_string(), "exit status 3");
        assert_eq!(Exit::Signal(9).to_string(), "killed by signal 9 (SIGKILL)");
        assert_eq!(Exit::Signal(40).to_string(), "killed by signal 40");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_report_survives_the_wire() {
        for report in [
            Report::Started(42),
            Report::FolderFailed(13),
            Report::SpawnFailed(2),
            Report::ConfineFailed,
            Report::Ended(Exit::TooManyProcesses(64)),
            Report::Ended(Exit::Code(255)),
            Report::Ended(Exit::Signal(15)),
            Report::Ended(Exit::Unknown),
            Report::Finished { left_behind: 3 },
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_line_that_is_not_a_report_is_refused() {
        for line in ["", "started", "started x", "exited 1 2", "started -1", "Exited 1", "hello 1"] {
            assert_eq!(line.parse::<Report>(), Err(UnknownReport), "{line:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_two_orders_are_orders() {
        let known: Vec<u8> = (0..=u8::MAX).filter(|byte| Order::from_byte(*byte).is_some()).collect();
        assert_eq!(known, [b'K', b'T']);
    }
}
