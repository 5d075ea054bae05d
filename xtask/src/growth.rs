//! Checks whether a server, a tool, a call or a day costs more when there are more of them.

use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};

/// Builds the program and runs it; `arguments` are its own.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    report.step("growth", || measure(arguments));
}

fn measure(arguments: &[String]) -> Step {
    show(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]))?;
    show(program(root().join("target/steady/bench-growth")).args(arguments))
}
