//! The drills: many tenants and users use one daemon at once, or several daemons that are killed in turn. No data of
//! one tenant or user may reach another.

use crate::report::{Report, Step};
use crate::run::{cargo, execute, program, root};
use crate::{peers, postgres, proxies};

/// Builds the program, and runs the drill of one daemon, or after the argument `replicas` the drill of several. The
/// script gets the other arguments.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    match arguments {
        [first, rest @ ..] if first == "replicas" => {
            proxies::install(report);
            postgres::install(report);
            report.step("drill of replicas", || run_script("replicas.mjs", rest));
        }
        all => report.step("drill", || run_script("drill.mjs", all)),
    }
}

fn run_script(script: &str, arguments: &[String]) -> Step {
    let node = peers::node22()?;
    execute(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack"]))?;
    let script = root().join("xtask/drill").join(script);
    execute(program(node).arg(script).arg(root().join("target/steady/toolrack")).args(arguments))
}
