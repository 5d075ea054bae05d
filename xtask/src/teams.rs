//! Measures what one replica and several replicas of a team's daemon can do, compared with ContextForge on the same
//! machine.

use crate::packages::Python;
use crate::report::{Report, Step};
use crate::run::{cargo, execute, program, root};
use crate::{debian, peers, postgres};

/// Installs ContextForge and what it needs, builds in release mode, and runs the script with `arguments`. If
/// ContextForge is not installed, the script leaves it out and says so.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    postgres::install(report);
    report.step("Redis from Debian", || debian::install(&["redis-server"]));
    report.step("ContextForge from PyPI", || contextforge().install());
    report.step("benchmark of teams", || measure(arguments));
}

/// Returns the packages of ContextForge, another MCP gateway: 260 MB.
fn contextforge() -> Python {
    let (requirements, venv) = (root().join("bench/peers/contextforge.txt"), root().join(".cache/bench/contextforge"));
    Python { requirements, venv, oldest_minor: 11 }
}

fn measure(arguments: &[String]) -> Step {
    let node = peers::node22()?;
    execute(&mut cargo(["build", "--release", "--locked", "-p", "toolrack"]))?;
    let script = root().join("xtask/drill/scale.mjs");
    execute(program(node).arg(script).arg(root().join("target/release/toolrack")).args(arguments))
}
