//! The browser that shows the dashboard to its tests: the machine's own Chromium, or Debian's package.

use std::env;
use std::path::PathBuf;

use crate::debian;
use crate::report::Report;

/// What it is called, here and there.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs it if there is none, this is a Debian, and we may.
pub(crate) fn install(report: &mut Report) {
    report.step("a browser from Debian", || if found().is_some() { Ok(()) } else { debian::install(&["chromium"]) });
}

/// Where it is.
pub(crate) fn found() -> Option<PathBuf> {
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}
