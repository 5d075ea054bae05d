//! The drills: many tenants and people use one daemon at once, or several that are killed, and nothing of one may reach another.

use crate::report::{Report, Step};
use crate::run::{cargo, program, root, show};
use crate::{peers, postgres, proxies};

/// Builds the program, and has people use its daemon, or several after the word `replicas`; the other arguments are those of the script.
pub(crate) fn run(report: &mut Report, arguments: &[String]) {
    match arguments {
        [first, rest @ ..] if first == "replicas" => {
            proxies::install(report);
            postgres::install(report);
            report.step("drill of replicas", || practise("replicas.mjs", rest));
        }
        all => report.step("drill", || practise("drill.mjs", all)),
    }
}

fn practise(script: &str, arguments: &[String]) -> Step {
    let node = peers::node22()?;
    show(&mut cargo(["build", "--profile", "steady", "--locked", "-p", "toolrack"]))?;
    let script = root().join("xtask/drill").join(script);
    show(program(node).arg(script).arg(root().join("target/steady/toolrack")).args(arguments))
}
