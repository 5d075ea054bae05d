//! `rig/`, the bridge to Rig: a workspace of its own, separated when only rig-core wanted `serde_json`'s maps in
//! insertion order.

use std::env;
use std::process::Command;

use crate::report::Step;
use crate::run::{cargo, show};

/// Builds in the target folder of the workspace: crates that do not depend on `serde_json` are built only once.
///
/// When the dependencies of the workspace have changed, cargo changes `rig/Cargo.lock` too; only CI insists that this
/// was committed.
fn bridge<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = cargo(arguments);
    command.args(["--manifest-path", "rig/Cargo.toml", "--target-dir", "target"]);
    if env::var_os("CI").is_some() {
        command.arg("--locked");
    }
    command
}

pub(crate) fn formatted() -> Step {
    show(&mut cargo(["fmt", "--manifest-path", "rig/Cargo.toml", "--check"]))
}

pub(crate) fn lints() -> Step {
    show(bridge(["clippy", "--all-targets"]).args(["--", "-D", "warnings"]))
}

pub(crate) fn documentation() -> Step {
    show(bridge(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Rig's own agent, for the benchmark.
pub(crate) fn agent() -> Step {
    show(&mut bridge(["build", "--release", "--example", "rounds"]))
}

/// Its tests, those in its documentation too, and its example.
pub(crate) fn tests() -> Step {
    show(bridge(["test"]).arg("--quiet"))
}
