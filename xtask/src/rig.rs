//! `rig/`, the bridge to Rig: a separate workspace, made when only rig-core needed `serde_json`'s maps in insertion
//! order.

use std::env;
use std::process::Command;

use crate::report::Step;
use crate::run::{cargo, show};

/// Builds the bridge in the target folder of the workspace: crates that do not depend on `serde_json` are built only
/// once.
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

/// Builds the program that runs Rig's own agent, for the benchmark.
pub(crate) fn agent() -> Step {
    show(&mut bridge(["build", "--release", "--example", "rounds"]))
}

/// Runs the tests of the bridge, including those in its documentation, and its example.
pub(crate) fn tests() -> Step {
    show(bridge(["test"]).arg("--quiet"))
}
