//! `embedder/`, a program that embeds the host and uses its own `rmcp`. It is a separate workspace, because a lock file
//! can have only one `rmcp` 3.

use std::env;

use crate::report::Step;
use crate::run::{cargo, show};

const MANIFEST: &str = "embedder/Cargo.toml";

pub(crate) fn formatted() -> Step {
    show(&mut cargo(["fmt", "--manifest-path", MANIFEST, "--check"]))
}

/// Builds the program in the target folder of the workspace, and runs its test. Only CI insists that its lock file is
/// committed.
pub(crate) fn tests() -> Step {
    let mut command = cargo(["test", "--manifest-path", MANIFEST, "--target-dir", "target", "--quiet"]);
    if env::var_os("CI").is_some() {
        command.arg("--locked");
    }
    show(&mut command)
}
