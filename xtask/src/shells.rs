//! The shells that tests press TAB in. Bash is everywhere; the others come from Debian's packages.

use crate::debian::{self, is_there};
use crate::report::Report;

/// A shell, and the modules of tests that need it.
const SHELLS: &[(&str, &str)] = &[("zsh", "needs_zsh"), ("fish", "needs_fish")];

/// Installs those that are missing, if this is a Debian and we may.
pub(crate) fn install(report: &mut Report) {
    let shells: Vec<_> = SHELLS.iter().map(|(shell, _)| *shell).collect();
    report.step("shells from Debian", || debian::install(&shells));
}

/// The modules of tests that cannot run here, and why.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let missing = SHELLS.iter().filter(|(shell, _)| !is_there(shell));
    missing.map(|(_, module)| (*module, "the shell is not there (`cargo xtask install`, as root on Debian)"))
}
