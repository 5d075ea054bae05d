//! GNOME's keychain, from Debian's packages, for tests that store a key in it.

use std::env;

use crate::debian;
use crate::report::Report;

/// The programs, and their packages.
const PROGRAMS: &[(&str, &str)] =
    &[("dbus-run-session", "dbus"), ("gnome-keyring-daemon", "gnome-keyring"), ("secret-tool", "libsecret-tools")];

/// Installs the missing programs, if `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    let packages: Vec<_> = PROGRAMS.iter().filter(|(name, _)| !is_there(name)).map(|(_, package)| *package).collect();
    report.step("a keychain from Debian", || debian::install(&packages));
}

/// Returns the test module that cannot run here, and the reason.
pub(crate) fn missing() -> Option<(&'static str, &'static str)> {
    let why = "GNOME's keychain is not there (`cargo xtask install`, as root on Debian)";
    PROGRAMS.iter().any(|(name, _)| !is_there(name)).then_some(("needs_keychain", why))
}

fn is_there(name: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}
