//! Checks the programs in `embedder/`, which embed crates of this workspace. They are in a separate workspace: one of
//! them needs another version of `rmcp` 3 than this workspace, and a lock file holds only one version of `rmcp` 3.

use std::env;

use crate::report::Step;
use crate::run::{cargo, execute};

/// The programs, one command for each: one build of both would give both the same features of the host.
const MANIFESTS: [&str; 2] = ["embedder/Cargo.toml", "embedder/agent/Cargo.toml"];

pub(crate) fn check_format() -> Step {
    MANIFESTS.iter().try_for_each(|manifest| execute(&mut cargo(["fmt", "--manifest-path", manifest, "--check"])))
}

/// Builds the programs, in the target folder of the workspace, and runs their tests. Only in CI the lock file has to be
/// up to date.
pub(crate) fn tests() -> Step {
    MANIFESTS.iter().try_for_each(|manifest| {
        let mut command = cargo(["test", "--manifest-path", manifest, "--target-dir", "target", "--quiet"]);
        if env::var_os("CI").is_some() {
            command.arg("--locked");
        }
        execute(&mut command)
    })
}
