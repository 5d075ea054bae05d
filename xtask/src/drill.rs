//! The drill: many tenants and people use one daemon at once, and nothing of one may reach another.

use crate::peers;
use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};

/// Builds the program, and has people use its daemon; `arguments` are those of the script.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    report.step("drill", || practise(arguments));
}

fn practise(arguments: &[String]) -> Step {
    let node = peers::node22()?;
    show(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack"]))?;
    let script = root().join("xtask/drill/drill.mjs");
    show(program(node).arg(script).arg(root().join("target/steady/toolrack")).args(arguments))
}
