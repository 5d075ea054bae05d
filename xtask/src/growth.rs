//! Checks whether each server, tool, call or day costs more if there are more of them.

use crate::report::{Report, Step};
use crate::run::{cargo, execute, program, root};

/// Builds `bench-growth` and runs it with `arguments`.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    report.step("growth", || measure(arguments));
}

fn measure(arguments: &[String]) -> Step {
    execute(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]))?;
    execute(program(root().join("target/steady/bench-growth")).args(arguments))
}
