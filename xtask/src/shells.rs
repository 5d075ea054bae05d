//! The shells in which tests press TAB. Bash is installed everywhere; the others come from Debian's packages.

use crate::debian::{self, is_there};
use crate::report::Report;

/// A shell, and the test modules that need it.
const SHELLS: &[(&str, &str)] = &[("zsh", "needs_zsh"), ("fish", "needs_fish")];

/// Installs the missing shells, if `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    let shells: Vec<_> = SHELLS.iter().map(|(shell, _)| *shell).collect();
    report.step("shells from Debian", || debian::install(&shells));
}

/// Returns the test modules that cannot run here, and the reasons.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let missing = SHELLS.iter().filter(|(shell, _)| !is_there(shell));
    missing.map(|(_, module)| (*module, "the shell is not there (`cargo xtask install`, as root on Debian)"))
}
