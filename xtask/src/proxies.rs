//! The servers that tests put in front of a daemon, from Debian's packages. None of them runs as a service of the machine.

use std::path::Path;

use crate::debian::{self, is_there};
use crate::report::Report;

/// Debian's packages, and their programs.
const PROXIES: &[(&str, &str)] = &[("nginx-light", "nginx"), ("haproxy", "haproxy")];

/// Installs the missing ones, if this is a Debian and we may.
pub(crate) fn install(report: &mut Report) {
    let missing: Vec<_> = PROXIES.iter().filter(|(_, program)| !has(program)).map(|(package, _)| *package).collect();
    report.step("proxies from Debian", || debian::install(&missing));
}

/// The test modules that cannot run here, and why.
pub(crate) fn missing<'a>() -> Option<(&'static str, &'a str)> {
    let is_whole = PROXIES.iter().all(|(_, program)| has(program));
    (!is_whole).then_some(("needs_proxy", "nginx or HAProxy is not there (`cargo xtask install`, as root on Debian)"))
}

/// Whether the program is installed; Debian puts it where only root looks.
fn has(program: &str) -> bool {
    Path::new("/usr/sbin").join(program).exists() || is_there(program)
}
