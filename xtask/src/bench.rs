//! The benchmark of `bench/`: Toolrack beside other people's clients and command lines, which are listed in `bench/peers/`.

use std::path::PathBuf;

use crate::packages::{Npm, Python};
use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};

/// The rows' programs in JavaScript, and what they share.
const SCRIPTS: &[&str] = &["measure.mjs", "ts1.mjs", "ts2.mjs"];

/// Installs the peers, builds everything in release, and measures with whatever is there: a row of a peer that cannot be
/// installed is left out, and the step that could not install it says so.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    let (npm, python) = (npm(), python());
    report.step("clients from npm", || npm.install());
    report.step("clients from PyPI", || python.install());
    let mut is_built = false;
    report.step("release build", || {
        show(&mut cargo(["build", "--release", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]))?;
        is_built = true;
        Ok(())
    });
    if is_built {
        report.last_step("benchmark", || measure(&npm, &python, arguments));
    }
}

/// mcporter needs Node 24, and so all peers in JavaScript run on it.
fn npm() -> Npm {
    Npm { list: list(), folder: root().join(".cache/bench/npm"), scripts: SCRIPTS, oldest_node: 24 }
}

fn python() -> Python {
    let venv = root().join(".cache/bench/venv");
    Python { list: list().join("requirements.txt"), venv, oldest_minor: 11 }
}

fn list() -> PathBuf {
    root().join("bench/peers")
}

/// Tells the runner where the peers are, by variables that CONTRIBUTING.md describes; those of missing peers are not there.
fn measure(npm: &Npm, python: &Python, arguments: &[String]) -> Step {
    let mut runner = program(root().join("target/release/toolrack-bench"));
    runner.args(arguments).env("TOOLRACK_BENCH_PEERS", list());
    for name in ["TOOLRACK_BENCH_NODE", "TOOLRACK_BENCH_MODULES", "TOOLRACK_BENCH_PYTHON"] {
        runner.env_remove(name);
    }
    if let Some(node) = npm.node().filter(|_| npm.is_installed()) {
        runner.env("TOOLRACK_BENCH_NODE", node).env("TOOLRACK_BENCH_MODULES", npm.modules());
    }
    if python.is_installed() {
        runner.env("TOOLRACK_BENCH_PYTHON", python.python());
    }
    show(&mut runner)
}
