//! The installer, from a server of files.

use std::fs;

use super::{Newcomer, Times};
use crate::dist::released::Released;
use crate::dist::served::{Fault, Served};
use crate::report::{Step, Stop};
use crate::run::failed;

/// The line of a user, with the address of the server in a variable.
const LINE: &str =
    "curl -fsSL $TOOLRACK_BASE_URL/install.sh | sh && ~/.local/bin/toolrack call builtin/list_directory path=.";

/// Installs, then tries again with archives of another hash and such that arrive in part.
pub(super) fn check(released: &Released, times: &mut Times) -> Step {
    let newcomer = Newcomer::new("shell")?;
    let served = Served::folder(&released.folder, Fault::None)?;
    let mut shell = newcomer.runs("sh");
    times.first_result(LINE, shell.args(["-c", LINE]).env("TOOLRACK_BASE_URL", served.address()))?;

    [Fault::Changed, Fault::BrokenOff, Fault::BrokenOffWithoutLength]
        .into_iter()
        .try_for_each(|fault| refused(released, fault))
}

/// Installs from a server with a fault, and looks that nothing is there.
fn refused(released: &Released, fault: Fault) -> Step {
    let newcomer = Newcomer::new("shell-refused")?;
    let served = Served::folder(&released.folder, fault)?;
    let mut shell = newcomer.runs("sh");
    shell.args(["-c", LINE]).env("TOOLRACK_BASE_URL", served.address());
    let output = shell.output().map_err(failed("run the installer for", &newcomer.home()))?;
    let mut left = fs::read_dir(newcomer.home()).map_err(failed("read", &newcomer.home()))?;
    if output.status.success() || left.next().is_some() {
        return Err(Stop::Failed(format!(
            "the installer put something into place that is not what was released ({fault:?})"
        )));
    }
    Ok(())
}
