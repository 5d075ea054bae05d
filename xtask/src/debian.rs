//! Installs programs from Debian's packages, but only where that disturbs no user: as root (for example in a container)
//! and in CI.

use std::env;
use std::process::Command;

use crate::report::{Step, Stop};
use crate::run::{execute, output, program};

/// Installs the missing programs, each from the package of the same name, if this system has `apt-get` and we may use
/// it ([`apt`]). A package without a program of the same name always counts as missing.
///
/// # Errors
/// Skipped, with the reason, when they cannot be installed: a machine without Debian's packages can still run the rest.
pub(crate) fn install(programs: &[&str]) -> Step {
    let missing: Vec<_> = programs.iter().copied().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if output(program("apt-get").arg("--version")).is_none() {
        return Err(Stop::Skipped(format!("there is no apt-get to install {}", missing.join(" and "))));
    }
    let apt = || apt().ok_or_else(|| Stop::Skipped(format!("only root or CI installs {}", missing.join(" and "))));
    execute(apt()?.args(["update", "-qq"]))
        .and_then(|()| execute(apt()?.args(["install", "-qq", "-y", "--no-install-recommends"]).args(&missing)))
        .map_err(|why| match why {
            Stop::Failed(why) | Stop::Skipped(why) => Stop::Skipped(why),
        })
}

/// Returns whether a program is on the path and runs.
pub(crate) fn is_there(name: &str) -> bool {
    output(program(name).arg("--version")).is_some()
}

/// Returns `apt-get`, through `sudo` in CI; `None` for any other user than root, who may not install.
fn apt() -> Option<Command> {
    let mut apt = if output(program("id").arg("-u"))?.trim() == "0" {
        program("apt-get")
    } else if env::var_os("CI").is_some() && output(program("sudo").args(["-n", "true"])).is_some() {
        let mut sudo = program("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    } else {
        return None;
    };
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    Some(apt)
}
