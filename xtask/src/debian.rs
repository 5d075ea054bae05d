//! Installs programs from Debian's packages, where that disturbs no user: as root, as in a container, and in CI.

use std::env;
use std::process::Command;

use crate::report::{Step, Stop};
use crate::run::{output, program, show};

/// Installs the missing programs, each from the package of its name, if this is a Debian and [`apt`] may install. A
/// package without a program of the same name always counts as missing.
///
/// # Errors
/// Skipped, with the reason, when they cannot be installed: a machine without access to Debian can still run the rest.
pub(crate) fn install(programs: &[&str]) -> Step {
    let wanted: Vec<_> = programs.iter().copied().filter(|program| !is_there(program)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if output(program("apt-get").arg("--version")).is_none() {
        return Err(Stop::Skipped(format!("there is no apt-get to install {}", wanted.join(" and "))));
    }
    let apt = || apt().ok_or_else(|| Stop::Skipped(format!("only root or CI installs {}", wanted.join(" and "))));
    show(apt()?.args(["update", "-qq"]))
        .and_then(|()| show(apt()?.args(["install", "-qq", "-y", "--no-install-recommends"]).args(&wanted)))
        .map_err(|why| match why {
            Stop::Failed(why) | Stop::Skipped(why) => Stop::Skipped(why),
        })
}

/// Returns whether a program is on the path and runs.
pub(crate) fn is_there(name: &str) -> bool {
    output(program(name).arg("--version")).is_some()
}

/// Returns Debian's installer; `None` on another system, or without the right to install.
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
