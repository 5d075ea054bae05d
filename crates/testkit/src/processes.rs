//! Which processes run, and which are left behind, as `/proc` shows (Linux only).

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The pause between two checks of a process that a test waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Whether a process runs. A zombie does not: it has ended and waits to be reaped.
#[must_use]
pub fn alive(pid: u32) -> bool {
    read_stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Every live process below this one, children first. A process whose parent died is below the one that adopted it.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (child, stat) in all_processes() {
        children.entry(stat.parent).or_default().push(child);
    }
    let mut live = Vec::new();
    let mut level = vec![pid];
    while !level.is_empty() {
        level = level.iter().flat_map(|pid| children.get(pid).cloned().unwrap_or_default()).collect();
        live.extend(level.iter().copied().filter(|pid| alive(*pid)));
    }
    live
}

/// Every live process whose environment holds `name=value`, anywhere in the tree.
///
/// The environment is the one that the process was started with. Processes of other users cannot be seen.
#[must_use]
pub fn with_env(name: &str, value: &str) -> Vec<u32> {
    let assignment = format!("{name}={value}");
    let holds = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // A supervisor's environment holds the variables of its server, each with a colon before its name.
        let is_match = |entry: &[u8]| entry.strip_prefix(b":").unwrap_or(entry) == assignment.as_bytes();
        environment.split(|byte| *byte == 0).any(is_match)
    };
    all_processes().into_iter().map(|(pid, _)| pid).filter(holds).filter(|pid| alive(*pid)).collect()
}

/// Waits until a process is gone, at most for `limit`, and returns whether it is gone.
#[must_use]
pub fn wait_gone(pid: u32, limit: Duration) -> bool {
    wait_all_gone(&[pid], limit)
}

/// Waits until all these processes are gone, at most for `limit`, and returns whether they are gone.
#[must_use]
pub fn wait_all_gone(pids: &[u32], limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while pids.iter().any(|pid| alive(*pid)) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

#[derive(Debug)]
struct Stat {
    state: char,
    parent: u32,
}

fn read_stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may itself contain spaces and brackets.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}

fn all_processes() -> Vec<(u32, Stat)> {
    let entries = std::fs::read_dir("/proc").unwrap_or_else(|error| panic!("cannot list /proc: {error}"));
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read_stat(pid)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_seen_until_it_ends_and_a_zombie_counts_as_gone() {
        let mut child = Command::new("cat").env("TESTKIT_MARK", "a b").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(alive(pid));
        assert!(descendants(std::process::id()).contains(&pid));
        assert!(!wait_gone(pid, Duration::from_millis(30)));
        // `spawn` returns once the child runs its own program, so its environment is already its own.
        assert_eq!(with_env("TESTKIT_MARK", "a b"), [pid]);
        drop(child.stdin.take());
        assert!(wait_gone(pid, Duration::from_secs(10)), "its parent has not reaped it, but it has ended");
        child.wait().unwrap();
        assert!(descendants(pid).is_empty());
    }
}
