//! Measures what one replica of a team and several can do, beside ContextForge on the same machine.

use crate::packages::Python;
use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};
use crate::{debian, peers, postgres};

/// Installs ContextForge and what it needs, builds in release, and measures; the arguments are those of the script. The script leaves
/// ContextForge out, and says so, where it is not installed.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    postgres::install(report);
    report.step("Redis from Debian", || debian::install(&["redis-server"]));
    report.step("ContextForge from PyPI", || contextforge().install());
    report.step("benchmark of teams", || measure(arguments));
}

/// Returns the other gateway: 260 MB.
fn contextforge() -> Python {
    let (list, venv) = (root().join("bench/peers/contextforge.txt"), root().join(".cache/bench/contextforge"));
    Python { list, venv, oldest_minor: 11 }
}

fn measure(arguments: &[String]) -> Step {
    let node = peers::node22()?;
    show(&mut cargo(["build", "--release", "--locked", "-p", "toolrack"]))?;
    let script = root().join("xtask/drill/scale.mjs");
    show(program(node).arg(script).arg(root().join("target/release/toolrack")).args(arguments))
}
