//! Distinguishes processes with the same number by the times at which they started: the system reuses numbers.

use std::fs;

use serde::{Deserialize, Serialize};

/// When a process was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessStart {
    /// The boot from which the ticks count.
    boot: String,
    /// Clock ticks from the boot to the start of the process.
    ticks: u64,
}

impl ProcessStart {
    /// Returns when the process `pid` was started; `None` if no such process runs (a zombie does not count), or if this
    /// system does not report start times.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let ticks = start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        Some(Self { boot, ticks })
    }
}

/// Returns the start time in a line of `/proc/PID/stat` (proc(5)); `None` if the process has ended.
fn start_ticks(line: &str) -> Option<u64> {
    // The name is in parentheses and may contain anything, even parentheses.
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // The state is field 3, the start field 22.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let line = |state: &str| format!("7 (a) b (c) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9");
        assert_eq!(start_ticks(&line("S")), Some(4242));
        assert_eq!(start_ticks(&line("Z")), None);
        assert_eq!(start_ticks("7 (a"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_has_one_birth_and_another_process_another() {
        let this = ProcessStart::read(std::process::id());
        assert!(this.is_some());
        assert_eq!(this, ProcessStart::read(std::process::id()));
        assert_ne!(this, ProcessStart::read(1));
    }
}
