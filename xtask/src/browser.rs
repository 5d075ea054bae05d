//! The browser for the tests of the dashboard: the machine's own Chromium, or Debian's package.

use std::env;
use std::path::PathBuf;

use crate::debian;
use crate::report::Report;

/// The names of the program on different systems.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs Chromium if it is missing and `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    report.step("a browser from Debian", || if found().is_some() { Ok(()) } else { debian::install(&["chromium"]) });
}

/// Returns the path of Chromium.
pub(crate) fn found() -> Option<PathBuf> {
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}
