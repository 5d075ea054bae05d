//! Builds the guide as a book that a browser can show and search offline.

use std::process::Stdio;

use crate::report::{Step, Stop};
use crate::run::root;
use crate::tools::MDBOOK;

/// Builds the book; a warning of mdBook is an error.
pub(crate) fn build() -> Step {
    let mut build = MDBOOK.installed()?;
    build.arg("build").arg(root()).stdin(Stdio::null());
    let output = build.output().map_err(|error| Stop::Failed(format!("mdbook: {error}")))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    print!("{messages}");
    if !output.status.success() || messages.contains("WARN") {
        return Err(Stop::Failed("mdBook does not build the guide without warnings".to_owned()));
    }
    Ok(())
}
