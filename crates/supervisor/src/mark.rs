//! Marks every process below a supervisor. When supervisor and host are killed together, the mark finds the processes
//! that they leave behind.
//!
//! Such a process may have left its group, its session and its parent, and may have changed its name and its
//! environment. But it has inherited its resource limits. The mark is the hard limit `RLIMIT_RTTIME`, which is
//! otherwise unlimited. The supervisor sets it to a number with its own process id and the low bits of its start time.
//! The number is so high that it limits nothing. This needs no record on disk, which could be wrong: the processes that
//! were left behind are exactly those with the mark of a supervisor that no longer exists. A process can only remove
//! the mark by lowering the limit, and the system call filter (`layer/seccomp`) forbids that to confined servers.

#![expect(clippy::disallowed_methods, reason = "the process table is a folder of files")]

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::table::{self, Identity};

/// The highest bits of every mark: an arbitrary number. The limit is in microseconds, so these bits alone make it
/// longer than 200,000 years.
const TAG: u64 = 0x7ac4;
/// The position of the tag in a mark.
const TAG_SHIFT: u32 = 48;

/// The position of four bits for the nesting of supervisors. The outermost has the highest number, because a limit can
/// only be lowered.
const LEVEL_SHIFT: u32 = 44;
const LEVEL_MASK: u64 = 0xf;

/// The position of the process id in a mark, above the start time: each has 22 bits, the most that a process id has.
const PID_SHIFT: u32 = 22;
const PART_MASK: u64 = (1 << PID_SHIFT) - 1;

/// How often to look again for processes left behind while they are being killed.
const RESCAN_INTERVAL: Duration = Duration::from_millis(10);

/// How long killed processes may take to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The mark of one supervisor, without its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// Returns the mark of the supervisor with this process id, which may have ended, but must not have been
    /// waited for. `None` if there is no such process.
    pub fn of_supervisor(supervisor: u32) -> Option<Self> {
        Some(Self::from_identity(table::identity(i32::try_from(supervisor).ok()?)?))
    }

    fn from_identity(supervisor: Identity) -> Self {
        Self(
            ((supervisor.pid().unsigned_abs() as u64 & PART_MASK) << PID_SHIFT) | (supervisor.start_time() & PART_MASK),
        )
    }

    /// Returns the mark in a hard limit; `None` if the limit is no mark.
    fn from_limit(limit: u64) -> Option<Self> {
        (limit >> TAG_SHIFT == TAG).then_some(Self(limit & ((1 << LEVEL_SHIFT) - 1)))
    }

    /// Returns the hard limit that carries this mark at a level of nesting.
    fn limit(self, level: u64) -> u64 {
        TAG << TAG_SHIFT | level << LEVEL_SHIFT | self.0
    }

    /// Returns whether the supervisor with this mark has ended.
    fn supervisor_has_ended(self) -> bool {
        let supervisor = i32::try_from(self.0 >> PID_SHIFT).ok().and_then(table::find_living);
        supervisor.is_none_or(|supervisor| Self::from_identity(supervisor) != self)
    }
}

/// Marks this process, and all that it starts from here on, as belonging to this supervisor.
pub(crate) fn mark_this_process() {
    let Some(mark) = Mark::of_supervisor(std::process::id()) else { return };
    let inherited_limit = getrlimit(Resource::Rttime).maximum.filter(|limit| Mark::from_limit(*limit).is_some());
    let level_above = inherited_limit.map(|limit| (limit >> LEVEL_SHIFT) & LEVEL_MASK);
    let level = level_above.map_or(LEVEL_MASK, |level| level.saturating_sub(1));
    let limit = Some(mark.limit(level));
    // More than 16 levels of nesting would need a lower limit than there is, so this may fail there. The host then
    // still finds most of these processes by their session.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: limit, maximum: limit });
}

/// Returns the living processes of this process namespace with a mark that `matches` accepts.
fn find_marked_processes(matches: impl Fn(Mark) -> bool) -> Vec<Identity> {
    let namespace_of = |pid: &str| Path::new("/proc").join(pid).join("ns/pid").read_link().ok();
    let Some(own_namespace) = namespace_of("self") else { return Vec::new() };
    let is_marked = |pid: i32| {
        let mark = read_mark(pid).filter(|mark| matches(*mark));
        // For a process of another process namespace, the id of its supervisor means another process here.
        mark.is_some() && namespace_of(&pid.to_string()).is_some_and(|namespace| namespace == own_namespace)
    };
    // Reading a file of `/proc` is slow, and almost no process is marked, so read the files of marked processes only.
    // Meanwhile, the system may have given the id to another process, so check the mark again.
    let marked_processes = table::ids().into_iter().filter(|pid| is_marked(*pid)).filter_map(table::identity);
    marked_processes.filter(|id| is_marked(id.pid()) && id.is_alive()).collect()
}

/// Returns the mark of the process with this id, if it has one. For almost every process, one system call answers that,
/// in a tenth of the time that a file in `/proc` takes.
fn read_mark(pid: i32) -> Option<Mark> {
    let limit = match hard_limit(pid) {
        Ok(limit) => Some(limit),
        // The system refuses the call even if only the groups differ. Then ask `/proc`, unless the process belongs to
        // another user: this process may not signal such a process.
        Err(_) if kill(Pid::from_raw(pid), None).is_ok() => hard_limit_in_proc(pid),
        Err(_) => None,
    };
    limit.and_then(Mark::from_limit)
}

/// Returns the hard limit of a process, from a system call.
fn hard_limit(pid: i32) -> io::Result<u64> {
    let (mut soft, mut hard) = (0, 0);
    rlimit::prlimit(pid, rlimit::Resource::RTTIME, None, Some((&mut soft, &mut hard)))?;
    Ok(hard)
}

/// Returns the hard limit of a process from `/proc`, where every user may read it; `None` if it is unlimited.
fn hard_limit_in_proc(pid: i32) -> Option<u64> {
    // The file has 16 lines of 80 bytes, and the system writes all of it into one buffer.
    let mut bytes = [0; 4096];
    let length = File::open(format!("/proc/{pid}/limits")).ok()?.read(&mut bytes).ok()?;
    let limits = std::str::from_utf8(&bytes[..length]).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the living processes with this mark, without their supervisor.
pub fn marked_with(mark: Mark) -> Vec<Identity> {
    // The id has 22 bits, so it always fits.
    let supervisor_pid = i32::try_from(mark.0 >> PID_SHIFT).unwrap_or_default();
    find_marked_processes(|other_mark| other_mark == mark).into_iter().filter(|id| id.pid() != supervisor_pid).collect()
}

/// Kills the processes that were left behind when supervisors were killed together with their hosts. Returns how many
/// it found. Blocks while it reads the process table, and until the processes have ended, for 2 s at most.
pub fn kill_leftovers() -> usize {
    kill_all(|| find_marked_processes(Mark::supervisor_has_ended), Instant::now() + KILL_LIMIT)
}

/// Kills the processes that `find` returns until it returns none, or until `deadline`. Returns how many it found.
fn kill_all(find: impl Fn() -> Vec<Identity>, deadline: Instant) -> usize {
    let mut found_ids = HashSet::new();
    loop {
        let remaining_ids = find();
        if remaining_ids.is_empty() {
            return found_ids.len();
        }
        // A stopped process starts no other process, so stop all before killing the first. At the deadline, kill those
        // found so far: none may stay stopped on a system where reading the table takes long.
        let is_past_deadline = Instant::now() >= deadline;
        let new_count = remaining_ids.iter().filter(|id| found_ids.insert(**id)).count();
        let must_stop = new_count > 0 && !is_past_deadline;
        for id in &remaining_ids {
            id.signal(if must_stop { Signal::SIGSTOP } else { Signal::SIGKILL });
        }
        if is_past_deadline {
            return found_ids.len();
        }
        if new_count == 0 {
            std::thread::sleep(RESCAN_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests;
