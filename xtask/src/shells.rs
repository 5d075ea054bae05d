//! The shells that tests press TAB in. Bash is everywhere; the others come from Debian's packages, and only where nobody
//! minds: root has its machine to itself in a container, and CI does everywhere.

use std::env;
use std::process::Command;

use crate::report::{Report, Stop};
use crate::run::{output, program, show};

/// A shell, and the modules of tests that need it.
const SHELLS: &[(&str, &str)] = &[("zsh", "needs_zsh"), ("fish", "needs_fish")];

/// Installs those that are missing, if this is a Debian and we may.
pub(crate) fn install(report: &mut Report) {
    report.step("shells from Debian", || {
        let wanted: Vec<_> = SHELLS.iter().map(|(shell, _)| *shell).filter(|shell| !is_there(shell)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if output(program("apt-get").arg("--version")).is_none() {
            return Err(Stop::Skipped(format!("there is no apt-get to install {}", wanted.join(" and "))));
        }
        let apt = || apt().ok_or_else(|| Stop::Skipped(format!("only root or CI installs {}", wanted.join(" and "))));
        show(apt()?.args(["update", "-qq"]))
            .and_then(|()| show(apt()?.args(["install", "-qq", "-y", "--no-install-recommends"]).args(&wanted)))
            // A machine that cannot reach Debian can still run everything else.
            .map_err(|why| match why {
                Stop::Failed(why) | Stop::Skipped(why) => Stop::Skipped(why),
            })
    });
}

/// The modules of tests that cannot run here, and why.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let missing = SHELLS.iter().filter(|(shell, _)| !is_there(shell));
    missing.map(|(_, module)| (*module, "the shell is not there (`cargo xtask install`, as root on Debian)"))
}

fn is_there(shell: &str) -> bool {
    output(program(shell).arg("--version")).is_some()
}

/// Debian's installer, if we may use it.
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
