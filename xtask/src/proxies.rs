//! The reverse proxies that tests put in front of a daemon, from Debian's packages. None of them runs as a service of
//! the machine.

use std::path::Path;

use crate::debian::{self, is_there};
use crate::report::Report;

/// Debian's packages, and their programs.
const PROXIES: &[(&str, &str)] = &[("nginx-light", "nginx"), ("haproxy", "haproxy")];

/// Installs the missing proxies, if `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    let missing: Vec<_> = PROXIES.iter().filter(|(_, program)| !has(program)).map(|(package, _)| *package).collect();
    report.step("proxies from Debian", || debian::install(&missing));
}

/// Returns the test modules that cannot run here, and the reason.
pub(crate) fn missing<'a>() -> Option<(&'static str, &'a str)> {
    let has_all = PROXIES.iter().all(|(_, program)| has(program));
    (!has_all).then_some(("needs_proxy", "nginx or HAProxy is not there (`cargo xtask install`, as root on Debian)"))
}

/// Returns whether the program is installed; Debian puts it into a folder that only root's path has.
fn has(program: &str) -> bool {
    Path::new("/usr/sbin").join(program).exists() || is_there(program)
}
