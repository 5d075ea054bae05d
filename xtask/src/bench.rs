//! Runs the benchmark of `bench/`, which compares Toolrack with the clients and command lines that `bench/peers/`
//! lists.

use crate::packages::{Npm, Python};
use crate::peers;
use crate::report::{Report, Step};
use crate::run::{cargo, execute, program, root};

/// The scripts that measure the peers, each for a row of the result, and the modules that they share.
const PROGRAMS: &[&str] =
    &["measure.mjs", "ts1.mjs", "ts2.mjs", "measure.py", "client.py", "fastmcp_client.py", "agent.py", "tool.json"];

/// Installs the peers, builds everything in release mode, and measures the peers that are installed. The rows of a
/// missing peer are left out; the step that could not install it says so.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    let (npm, python) = (npm(), python());
    report.step("clients from npm", || npm.install());
    report.step("clients from PyPI", || python.install());
    let mut is_built = false;
    report.step("release build", || {
        execute(&mut cargo(["build", "--release", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]))?;
        is_built = true;
        Ok(())
    });
    report.step("release build of Rig's agent", || {
        execute(&mut cargo(["build", "--release", "--locked", "-p", "toolrack-rig", "--example", "rounds"]))
    });
    if is_built {
        report.last_step("benchmark", || measure(&npm, &python, arguments));
    }
}

/// Returns the clients, which tests use too, with the scripts that measure them.
fn npm() -> Npm {
    Npm { programs: PROGRAMS, ..peers::clients() }
}

fn python() -> Python {
    let (requirements, venv) = (root().join("bench/peers/requirements.txt"), root().join(".cache/bench/venv"));
    Python { requirements, venv, oldest_minor: 11 }
}

/// Runs the benchmark, and tells it where the peers are. CONTRIBUTING.md describes the variables; those of missing
/// peers are not set.
fn measure(npm: &Npm, python: &Python, arguments: &[String]) -> Step {
    let mut runner = program(root().join("target/release/toolrack-bench"));
    runner.args(arguments).env("TOOLRACK_BENCH_PEERS", &npm.folder);
    runner.env_remove("TOOLRACK_BENCH_NODE").env_remove("TOOLRACK_BENCH_PYTHON");
    if let Some(node) = npm.node().filter(|_| npm.is_installed()) {
        runner.env("TOOLRACK_BENCH_NODE", node);
    }
    if python.is_installed() {
        runner.env("TOOLRACK_BENCH_PYTHON", python.python());
    }
    execute(&mut runner)
}
