//! Counts the figures that do not depend on how busy the machine is (steady figures), and compares them with those in
//! `bench/accepted.toml`.

use crate::debian;
use crate::report::{Report, Step};
use crate::run::{cargo, execute, program, root};

/// The program that counts, and those that it starts.
const PROGRAMS: [&str; 5] = ["bench-steady", "bench-server", "bench-toolrack", "toolrack", "toolrack-supervisor"];

/// Counts the figures and compares them. Installs valgrind if possible; without it, the instructions are reported as
/// skipped.
///
/// `arguments` may be `--accept WHY`, which accepts the changes for this reason.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    report.step("valgrind from Debian", || debian::install(&["valgrind"]));
    let mut is_built = false;
    report.step("build for steady figures", || {
        let mut build = cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack-bench", "-p", "toolrack"]);
        execute(build.args(PROGRAMS.iter().flat_map(|program| ["--bin", program])))?;
        is_built = true;
        Ok(())
    });
    if is_built {
        report.step("steady figures", || compare(arguments));
    }
}

/// Compares the figures. Counts up to three times before it fails: a difference that other work on the machine causes
/// goes away, a difference that the code causes does not.
fn compare(arguments: &[String]) -> Step {
    let count = || {
        let mut steady = program(root().join("target/steady/bench-steady"));
        execute(steady.arg(root().join("bench/accepted.toml")).args(arguments))
    };
    count().or_else(|_| count()).or_else(|_| count())
}
