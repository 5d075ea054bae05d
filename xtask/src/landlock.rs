//! Checks for Landlock, the part of Linux that confines servers. It may be too old or disabled.

use std::fs;

/// The oldest Linux with every feature that the tests use: 6.12.
const OLDEST_LINUX: (u32, u32) = (6, 12);

/// Returns the test modules that cannot run here, and the reason.
pub(crate) fn missing() -> Option<(&'static str, &'static str)> {
    (!is_there()).then_some(("needs_landlock", "this system has no Landlock of Linux 6.12 or newer"))
}

fn is_there() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let is_new = numbers.next().zip(numbers.next()).is_some_and(|version| version >= OLDEST_LINUX);
    // If the list cannot be read, Landlock may still be enabled.
    let modules = fs::read_to_string("/sys/kernel/security/lsm").ok();
    is_new && modules.is_none_or(|modules| modules.contains("landlock"))
}
