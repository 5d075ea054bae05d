//! `dpkg` installs the Debian package below a folder with a copy of this machine's package database, so that the check
//! does not change the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NewUser, Times};
use crate::dist::staged::{PROGRAMS, copy_file};
use crate::report::{Step, Stop};
use crate::run::{capture, failed, output, program};

/// The package database of `dpkg`.
const STATUS: &str = "var/lib/dpkg/status";

/// Installs and removes the package, after `apt-get --simulate` has found its dependencies.
pub(super) fn check(packages: &[PathBuf], times: &mut Times) -> Step {
    if output(program("id").arg("-u")).is_none_or(|id| id.trim() != "0") {
        return Err(Stop::Skipped("only root can install Debian packages".into()));
    }
    let processor = capture(program("dpkg").arg("--print-architecture"))?;
    let ending = format!("_{}.deb", processor.trim());
    let package = packages.iter().find(|package| package.to_string_lossy().ends_with(&ending));
    let package = package.ok_or_else(|| Stop::Skipped("there is no package for this machine".into()))?;
    capture(program("apt-get").args(["install", "--simulate", "--quiet"]).arg(package))?;

    let newcomer = NewUser::new("debian")?;
    let system = newcomer.folder.join("system");
    copy_file(&Path::new("/").join(STATUS), &system.join(STATUS), 0o644)?;
    for folder in ["info", "updates", "triggers"] {
        let folder = system.join("var/lib/dpkg").join(folder);
        fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
    }
    // `dpkg` logs into this folder, which `base-files` makes on a real system.
    fs::create_dir_all(system.join("var/log")).map_err(failed("make", &system))?;
    let line = "dpkg --root=\"$SYSTEM\" --install \"$PACKAGE\" >&2 && \"$SYSTEM\"/usr/bin/toolrack call builtin/list_directory path=.";
    let mut shell = newcomer.command("sh");
    shell.args(["-c", line]).env("SYSTEM", &system).env("PACKAGE", package);
    times.record_first_result(
        "dpkg --install toolrack.deb && toolrack call builtin/list_directory path=.",
        &mut shell,
    )?;
    capture(dpkg(&system).args(["--verify", "toolrack"]))?;
    capture(dpkg(&system).args(["--purge", "toolrack"]))?;
    let has_leftovers = PROGRAMS.iter().any(|name| system.join("usr/bin").join(name).exists());
    if has_leftovers {
        Err(Stop::Failed("dpkg left programs behind when it removed the package".into()))
    } else {
        Ok(())
    }
}

fn dpkg(system: &Path) -> Command {
    let mut dpkg = program("dpkg");
    dpkg.arg(format!("--root={}", system.display()));
    dpkg
}
