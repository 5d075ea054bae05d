//! How much memory a process holds (Linux only).

/// The resident memory of a process in KiB (`VmRSS`); `None` when it is gone.
#[must_use]
pub fn rss_kib(pid: u32) -> Option<u64> {
    field(pid, "VmRSS:")
}

/// The maximum resident memory that a process has held so far, in KiB (`VmHWM`); `None` when it is gone.
#[must_use]
pub fn peak_rss_kib(pid: u32) -> Option<u64> {
    field(pid, "VmHWM:")
}

fn field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_memory_size() {
        let own = std::process::id();
        let before = rss_kib(own).unwrap();
        let held = vec![1_u8; 64 << 20];
        let after = rss_kib(own).unwrap();
        assert!(after >= before + (60 << 10), "{before} KiB, then {after} KiB");
        assert!(peak_rss_kib(own).unwrap() >= after);
        assert_eq!(held.len(), 64 << 20);
        assert_eq!(rss_kib(u32::MAX), None);
    }
}
