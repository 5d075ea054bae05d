//! A new user pipes `install.sh` into a shell; a file server on this machine stands in for the release page.

use std::fs;

use super::{NewUser, Times};
use crate::dist::file_server::{Fault, FileServer};
use crate::dist::released::Released;
use crate::report::{Step, Stop};
use crate::run::failed;

/// The line that a user types, with the address of the file server in a variable.
const LINE: &str =
    "curl -fsSL $TOOLRACK_BASE_URL/install.sh | sh && ~/.local/bin/toolrack call builtin/list_directory path=.";

/// Installs once, then checks that the installer refuses an archive with a wrong hash and a download that breaks off.
pub(super) fn check(released: &Released, times: &mut Times) -> Step {
    let newcomer = NewUser::new("shell")?;
    let served = FileServer::start(&released.folder, Fault::None)?;
    let mut shell = newcomer.command("sh");
    times.record_first_result(LINE, shell.args(["-c", LINE]).env("TOOLRACK_BASE_URL", served.address()))?;

    [Fault::Changed, Fault::BrokenOff, Fault::BrokenOffWithoutLength]
        .into_iter()
        .try_for_each(|fault| check_refused(released, fault))
}

/// Checks that the installer fails, and leaves nothing in the home, when the server has this fault.
fn check_refused(released: &Released, fault: Fault) -> Step {
    let newcomer = NewUser::new("shell-refused")?;
    let served = FileServer::start(&released.folder, fault)?;
    let mut shell = newcomer.command("sh");
    shell.args(["-c", LINE]).env("TOOLRACK_BASE_URL", served.address());
    let output = shell.output().map_err(failed("run the installer for", &newcomer.home()))?;
    let mut leftovers = fs::read_dir(newcomer.home()).map_err(failed("read", &newcomer.home()))?;
    if output.status.success() || leftovers.next().is_some() {
        return Err(Stop::Failed(format!("the installer accepted an archive other than the released one ({fault:?})")));
    }
    Ok(())
}
