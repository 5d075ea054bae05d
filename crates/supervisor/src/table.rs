//! Reads the process table from `/proc`: the processes and their descendants.

#![expect(clippy::disallowed_methods, reason = "the process table is a folder of files")]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The flag of a process that is ending (`PF_EXITING`).
const EXITING_FLAG: u64 = 4;
/// `SIGKILL` among pending signals.
const SIGKILL_BIT: u64 = 1 << (Signal::SIGKILL as u64 - 1);

/// One process, at the moment when the table was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Distinguishes this process from a later one with the same id.
    pub id: Identity,
    /// The process id of the parent.
    parent: i32,
    /// The id of the process group.
    group: i32,
    /// The id of the session.
    session: i32,
    /// Whether it has ended, but its parent has not reaped it yet.
    is_zombie: bool,
    /// Whether it was killed or is exiting, but is still there.
    is_dying: bool,
}

/// Identifies a process by its id and its start time, because the system reuses ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pid: i32,
    /// In clock ticks since boot.
    start_time: u64,
}

impl Identity {
    pub(crate) fn pid(self) -> i32 {
        self.pid
    }

    pub(crate) fn start_time(self) -> u64 {
        self.start_time
    }

    /// Returns whether the process has not ended.
    pub fn is_alive(self) -> bool {
        Process::read(self.pid).is_some_and(|process| process.id == self && !process.is_zombie)
    }

    /// Sends `signal` to the process unless it has ended in the meantime.
    ///
    /// Between the check and the signal, the process could end and another one get its id. The system would have to use
    /// up all other ids in those microseconds.
    pub fn signal(self, signal: Signal) {
        if self.is_alive() {
            // This fails if the process has just ended or belongs to another user. Both can be ignored.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}

impl Process {
    /// Returns the process id.
    pub(crate) fn pid(&self) -> i32 {
        self.id.pid
    }

    /// Returns the process id of its parent; 0 if the parent is in an outer namespace.
    pub(crate) fn parent(&self) -> i32 {
        self.parent
    }

    /// Returns when it was started, in clock ticks since boot.
    pub(crate) fn start_time(&self) -> u64 {
        self.id.start_time
    }

    /// Reads the process with this id; `None` if there is none.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        // A line of `/proc/PID/stat` is at most about 400 bytes: 52 numbers and a name of 64 bytes.
        let mut bytes = [0; 1024];
        let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
        let length = file.read(&mut bytes).ok()?;
        Self::parse(pid, &bytes[..length])
    }

    /// Parses `PID (NAME) STATE PARENT GROUP SESSION …`, where NAME is any bytes, spaces and brackets among them: see
    /// `proc_pid_stat(5)`.
    fn parse(pid: i32, line: &[u8]) -> Option<Self> {
        let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(line.get(end_of_name + 1..)?).ok()?;
        // STATE has the index 0: each index is the number of the field in the manual page minus 3. Index 6 has the
        // flags of the process, index 19 its start time, index 28 its pending signals.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field_number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Some(Self {
            id: Identity { pid, start_time: fields.get(19)?.parse().ok()? },
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
            is_dying: field_number(6) & EXITING_FLAG != 0 || field_number(28) & SIGKILL_BIT != 0,
        })
    }
}

/// Returns whether `/proc` is mounted and belongs to the process namespace of this process. In the `/proc` of another
/// namespace, the same id means another process.
pub fn is_usable() -> bool {
    let shown_pid = Path::new("/proc/self").read_link().ok();
    shown_pid.is_some_and(|name| name.to_str() == Some(&std::process::id().to_string()))
}

/// Returns the process with this id, even if it has ended and waits to be reaped; `None` if there is none.
pub(crate) fn identity(pid: i32) -> Option<Identity> {
    Process::read(pid).map(|process| process.id)
}

/// Returns the process with this id, unless it has ended or was killed. A killed process may still be there for a
/// moment.
pub(crate) fn find_living(pid: i32) -> Option<Identity> {
    Process::read(pid).filter(|process| !process.is_zombie && !process.is_dying).map(|process| process.id)
}

/// Returns the ids of all visible processes; none if the table is not usable.
pub(crate) fn ids() -> Vec<i32> {
    if !is_usable() {
        return Vec::new();
    }
    let Ok(folder) = Path::new("/proc").read_dir() else {
        return Vec::new();
    };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all visible processes; none if the table is not usable.
fn read_all() -> Vec<Process> {
    ids().into_iter().filter_map(Process::read).collect()
}

/// Returns the living descendants of the process `root`, parents first.
pub fn descendants_of(root: u32) -> Vec<Process> {
    descendants(&read_all(), |process| i64::from(process.parent) == i64::from(root))
}

/// Returns the living processes of the session `leader` and their descendants, without the leader itself.
///
/// This finds the processes of a server whose supervisor was killed, because the supervisor led their session. It also
/// finds a process that has left the session, as long as one of its ancestors is still in it.
pub fn remains_of_session(leader: u32) -> Vec<Process> {
    let is_leader = |pid: i32| i64::from(pid) == i64::from(leader);
    descendants(&read_all(), |process| {
        (is_leader(process.session) || is_leader(process.parent)) && !is_leader(process.id.pid)
    })
}

/// Returns whether a living process belongs to this process group.
pub fn group_lives(group: i32) -> bool {
    read_all().iter().any(|process| process.group == group && !process.is_zombie)
}

/// Returns the living processes that are roots or descend from one. Parents come first: a parent that gets a signal
/// before its child does will not take the end of the child for a failure.
fn descendants(table: &[Process], is_root: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in table {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut descendants: Vec<Process> = Vec::new();
    let mut seen_ids = HashSet::new();
    let mut level: Vec<Process> = table.iter().copied().filter(is_root).collect();
    while !level.is_empty() {
        level.retain(|process| seen_ids.insert(process.id));
        let next_level = level.iter().filter_map(|process| children.get(&process.id.pid)).flatten().copied().collect();
        descendants.extend(std::mem::replace(&mut level, next_level));
    }
    descendants.retain(|process| !process.is_zombie);
    descendants
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "77 (x) S 5 77 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9001 2 3";

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process {
            id: Identity { pid, start_time: 1 },
            parent,
            group: session,
            session,
            is_zombie: false,
            is_dying: false,
        }
    }

    fn pids(found: &[Process]) -> Vec<i32> {
        found.iter().map(|process| process.id.pid).collect()
    }

    #[test]
    fn a_recorded_line_is_read_for_any_name() {
        for name in ["x", "a b", "a) S 9 9 9", "", "(((", "\u{fffd}"] {
            let line = LINE.replacen("(x)", &format!("({name})"), 1);
            let read = Process::parse(77, line.as_bytes());
            let expected = Process {
                id: Identity { pid: 77, start_time: 9001 },
                parent: 5,
                group: 77,
                session: 3,
                is_zombie: false,
                is_dying: false,
            };
            assert_eq!(read, Some(expected), "{name:?}");
        }
    }

    #[test]
    fn an_incomplete_line_is_not_read() {
        let start = LINE.find("9001").unwrap();
        for length in 0..start {
            assert_eq!(Process::parse(77, &LINE.as_bytes()[..length]), None);
        }
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(read_all().iter().any(|process| process.id.pid == own));
    }

    #[test]
    fn a_killed_process_does_not_count_as_living() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(find_living(pid).is_some());
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        assert!(find_living(pid).is_some());
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        assert_eq!(find_living(pid), None);
        child.wait().unwrap();
    }

    #[test]
    fn descendants_are_found_through_any_depth_but_zombies_are_not_counted() {
        let mut table = vec![process(4, 3, 4), process(1, 0, 1), process(3, 2, 3), process(2, 1, 2)];
        assert_eq!(pids(&descendants(&table, |process| process.parent == 1)), [2, 3, 4]);
        table[2].is_zombie = true;
        assert_eq!(pids(&descendants(&table, |process| process.parent == 1)), [2, 4]);
        assert_eq!(pids(&descendants(&table, |process| process.parent == 3)), [4]);
    }

    #[test]
    fn a_cycle_in_an_inconsistent_table_is_followed_once() {
        let table = [process(2, 3, 1), process(3, 2, 1)];
        assert_eq!(pids(&descendants(&table, |process| process.id.pid == 2)), [2, 3]);
    }

    #[test]
    fn dead_and_dying_processes_are_recognized_by_state_and_flags() {
        // The start time is the 20th word after the name, the pending signals are the 29th.
        let line = |state: char, flags: u64, pending: u64| {
            let zeros = |many: usize| vec!["0"; many].join(" ");
            format!("77 (x) {state} 5 77 3 0 -1 {flags} {} 9001 {} {pending}", zeros(12), zeros(8))
        };
        for (state, flags, pending, is_zombie, is_dying) in [
            ('S', 0x0040_0000, 0, false, false),
            ('T', 0, 1 << 18, false, false),
            ('Z', 0, 0, true, false),
            ('X', 0, 0, true, false),
            ('R', EXITING_FLAG, 0, false, true),
            ('D', 0, 1 << 8, false, true),
            ('D', 0, 1 << 8 | 1, false, true),
            ('S', 0, 1 << 14, false, false),
        ] {
            let read = Process::parse(77, line(state, flags, pending).as_bytes()).unwrap();
            assert_eq!((read.is_zombie, read.is_dying), (is_zombie, is_dying), "{state} {flags:#x} {pending:#x}");
            assert_eq!(read.start_time(), 9001);
        }
    }

    /// Starts a shell that starts another process. Returns the shell, and the id of the other process.
    fn shell_with_child(script: &str) -> (std::process::Child, i32) {
        use std::io::BufRead;
        let mut command = std::process::Command::new("sh");
        let mut parent = command.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (parent, line.trim().parse().unwrap())
    }

    #[test]
    fn a_process_that_left_its_session_is_found_below_its_parent_and_with_its_group() {
        let (mut parent, child) = shell_with_child("setsid sh -c 'echo $$; exec sleep 1000' & wait");
        let parent_pid = i32::try_from(parent.id()).unwrap();
        let found = pids(&descendants_of(std::process::id()));
        let at = |pid: i32| found.iter().position(|other| *other == pid).unwrap();
        assert!(at(parent_pid) < at(child), "parents come first");
        assert_eq!(pids(&descendants_of(parent.id())), [child]);
        assert_eq!(pids(&remains_of_session(parent.id())), [child], "without the leader itself");
        assert_eq!(pids(&remains_of_session(child.unsigned_abs())), [0; 0], "a leader that has nothing below it");
        assert!(group_lives(child));
        identity(child).unwrap().signal(Signal::SIGKILL);
        parent.wait().unwrap();
        assert!(!group_lives(child));
        assert!(!group_lives(i32::MAX));
    }

    #[test]
    fn a_signal_reaches_only_the_process_that_was_meant() {
        let (mut parent, child) = shell_with_child("echo $$; exec sleep 1000");
        let meant = identity(child).unwrap();
        let earlier = Identity { start_time: meant.start_time - 1, ..meant };
        assert!(meant.is_alive() && !earlier.is_alive());
        earlier.signal(Signal::SIGKILL);
        assert!(
            parent.try_wait().unwrap().is_none(),
            "the signal for an earlier process with this id reached this one"
        );
        meant.signal(Signal::SIGKILL);
        parent.wait().unwrap();
        assert!(!meant.is_alive());
    }

    #[test]
    fn an_ended_process_that_its_parent_has_not_collected_counts_as_gone() {
        let mut command = std::process::Command::new("true");
        let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let id = identity(pid).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while id.is_alive() {
            assert!(std::time::Instant::now() < deadline, "`true` has not ended after ten seconds");
            std::thread::yield_now();
        }
        assert!(identity(pid) == Some(id) && find_living(pid).is_none());
        assert!(!pids(&descendants_of(std::process::id())).contains(&pid));
        assert!(!group_lives(pid));
        child.wait().unwrap();
        assert_eq!(identity(pid), None);
    }
}
