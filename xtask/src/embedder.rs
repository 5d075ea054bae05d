//! `embedder/`, programs that embed crates of this workspace. They are a workspace of their own: one of them has an
//! `rmcp` of its own, and one lock file has only one `rmcp` 3.

use std::env;

use crate::report::Step;
use crate::run::{cargo, show};

/// One at a time: together, they would share the features of the host.
const MANIFESTS: [&str; 2] = ["embedder/Cargo.toml", "embedder/agent/Cargo.toml"];

pub(crate) fn formatted() -> Step {
    MANIFESTS.iter().try_for_each(|manifest| show(&mut cargo(["fmt", "--manifest-path", manifest, "--check"])))
}

/// Builds them, in the target folder of the workspace, and runs their tests. Only CI insists that the lock file is
/// committed.
pub(crate) fn tests() -> Step {
    MANIFESTS.iter().try_for_each(|manifest| {
        let mut command = cargo(["test", "--manifest-path", manifest, "--target-dir", "target", "--quiet"]);
        if env::var_os("CI").is_some() {
            command.arg("--locked");
        }
        show(&mut command)
    })
}
