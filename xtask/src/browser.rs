//! The browser for the tests of the dashboard: the machine's own Chromium, or Debian's package.

use std::env;
use std::path::PathBuf;

use crate::debian;
use crate::report::Report;

/// Its names here and there.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs it if it is missing, this is a Debian, and we may.
pub(crate) fn install(report: &mut Report) {
    report.step("a browser from Debian", || if found().is_some() { Ok(()) } else { debian::install(&["chromium"]) });
}

/// Its path.
pub(crate) fn found() -> Option<PathBuf> {
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}
