//! The mark that each process of a supervisor carries: it finds those whose supervisor and host were killed together.
//!
//! Such a process may have left its group, its session and its parent, and changed its name and its environment. What it cannot leave by
//! itself is a limit that it inherited: the hard limit of the time that a real-time thread may run for without a pause (`RLIMIT_RTTIME`,
//! unlimited otherwise, and so high here that it limits nothing) holds the supervisor's process id and the end of its start time. It costs a
//! system call, and no record on disk that could be wrong: a process is left behind exactly if it carries the mark of a supervisor that is
//! no more. Only one that lowers this limit takes the mark off; no server in a sandbox can.

#![expect(clippy::disallowed_methods, reason = "the process table is a folder of files")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::table::{self, Identity};

/// The highest bits of a mark. As a limit, each is more than 200,000 years.
const SIGN: u64 = 0x7ac4;
const SIGN_AT: u32 = 48;

/// Four bits: how deep a supervisor is below others, from the highest number down, because a limit can only be lowered.
const LEVEL_AT: u32 = 44;
const LEVELS: u64 = 0xf;

/// Process ids have at most 22 bits; as many are kept of the start time.
const PID_AT: u32 = 22;
const PART: u64 = (1 << PID_AT) - 1;

/// How often to look again for what was left behind, while it is being ended.
const LOOK: Duration = Duration::from_millis(10);

/// How long what was left behind may take to disappear.
const LIMIT: Duration = Duration::from_secs(2);

/// The mark of one supervisor, without its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The mark of the supervisor with this process id, which may have ended but must not have been collected.
    pub fn of(supervisor: u32) -> Option<Self> {
        Some(Self::of_identity(table::identity(i32::try_from(supervisor).ok()?)?))
    }

    fn of_identity(id: Identity) -> Self {
        Self(((id.pid().unsigned_abs() as u64 & PART) << PID_AT) | (id.started() & PART))
    }

    fn of_limit(limit: u64) -> Option<Self> {
        (limit >> SIGN_AT == SIGN).then_some(Self(limit & ((1 << LEVEL_AT) - 1)))
    }

    fn limit(self, level: u64) -> u64 {
        SIGN << SIGN_AT | level << LEVEL_AT | self.0
    }

    /// Whether its supervisor has ended.
    fn is_lost(self) -> bool {
        let supervisor = i32::try_from(self.0 >> PID_AT).ok().and_then(table::living);
        supervisor.is_none_or(|supervisor| Self::of_identity(supervisor) != self)
    }
}

/// Puts this process's own mark on it, and on all that it starts from here on.
pub(crate) fn mark_this() {
    let Some(mark) = Mark::of(std::process::id()) else { return };
    let now = getrlimit(Resource::Rttime).maximum;
    let above = now.filter(|limit| Mark::of_limit(*limit).is_some()).map(|limit| (limit >> LEVEL_AT) & LEVELS);
    let level = above.map_or(LEVELS, |level| level.saturating_sub(1));
    let limit = Some(mark.limit(level));
    // Without it, they are found by their session.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: limit, maximum: limit });
}

/// The living processes of this process namespace whose mark `is_meant`.
fn marked(is_meant: impl Fn(Mark) -> bool) -> Vec<Identity> {
    let namespace = |pid: &str| Path::new("/proc").join(pid).join("ns/pid").read_link().ok();
    let own: Option<PathBuf> = namespace("self");
    let is_marked = |id: &Identity| {
        let mark = mark_of(id.pid()).filter(|mark| is_meant(*mark));
        // Elsewhere, its supervisor's number is another process's here.
        mark.is_some() && own.is_some() && namespace(&id.pid().to_string()) == own
    };
    table::all().into_iter().filter(is_marked).filter(|id| id.is_alive()).collect()
}

fn mark_of(pid: i32) -> Option<Mark> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    Mark::of_limit(line.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

/// The processes with this mark.
pub fn marked_with(mark: Mark) -> Vec<Identity> {
    let supervisor = i32::try_from(mark.0 >> PID_AT).unwrap_or_default();
    marked(|found| found == mark).into_iter().filter(|id| id.pid() != supervisor).collect()
}

/// Ends what supervisors left behind that were killed together with their hosts. Returns how many processes it found.
/// Blocks while it reads the table of processes, and while there is something to end, for 2 s at most.
pub fn end_what_was_left() -> usize {
    end_all(|| marked(Mark::is_lost), Instant::now() + LIMIT)
}

fn end_all(look: impl Fn() -> Vec<Identity>, deadline: Instant) -> usize {
    let mut found = HashSet::new();
    loop {
        let left = look();
        if left.is_empty() {
            return found.len();
        }
        // A stopped process starts no other: all are stopped before the first is killed. At the deadline, what is there is killed, so
        // that nothing is left stopped where looking takes long.
        let is_late = Instant::now() >= deadline;
        let new = left.iter().filter(|id| found.insert(**id)).count();
        let must_stop = new > 0 && !is_late;
        for id in &left {
            id.signal(if must_stop { Signal::SIGSTOP } else { Signal::SIGKILL });
        }
        if is_late {
            return found.len();
        }
        if new == 0 {
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests;
