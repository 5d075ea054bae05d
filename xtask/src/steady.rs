//! Figures that do not depend on how busy the machine is, held against those of `bench/accepted.toml`.

use crate::debian;
use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};

/// Counts and judges. Without valgrind, which is installed where that is possible, instructions are left out by name.
///
/// `arguments` may be `--accept WHY`, which writes down what has changed and the reason.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    report.step("valgrind from Debian", || debian::install(&["valgrind"]));
    let mut is_built = false;
    report.step("build for steady figures", || {
        show(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]))?;
        is_built = true;
        Ok(())
    });
    if is_built {
        report.step("steady figures", || judge(arguments));
    }
}

/// Counts again before it fails: what other work on the machine adds goes away, what the code costs does not.
fn judge(arguments: &[String]) -> Step {
    let count = || {
        let mut steady = program(root().join("target/steady/bench-steady"));
        show(steady.arg(root().join("bench/accepted.toml")).args(arguments))
    };
    count().or_else(|_| count()).or_else(|_| count())
}
