//! Runs other programs: without our standard input, and without a shell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::report::{Step, Stop};

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable to where this crate is now. Where it was built is the second choice, because the folder
    // may have been moved since.
    let crate_folder =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    crate_folder.parent().map_or(crate_folder.clone(), Path::to_path_buf)
}

/// Returns the command of a program, with the root of the workspace as its working folder.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Returns a command of the cargo that runs this program.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a program, whose output the user sees, and first prints its command line.
pub(crate) fn execute(command: &mut Command) -> Step {
    println!("   {}", command_line(command));
    let status =
        command.status().map_err(|error| Stop::Failed(format!("{} cannot run: {error}", command_line(command))))?;
    if status.success() {
        Ok(())
    } else {
        Err(Stop::Failed(format!("`{}` ended with {status}", command_line(command))))
    }
}

/// Runs a program and returns its standard output; `None` if it cannot run or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program without showing its output, and returns its standard output.
///
/// # Errors
/// When it cannot run or fails, with its standard error.
pub(crate) fn capture(command: &mut Command) -> Result<String, Stop> {
    let output =
        command.output().map_err(|error| Stop::Failed(format!("{} cannot run: {error}", command_line(command))))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).trim().to_owned();
    Err(Stop::Failed(format!("`{}` ended with {}: {printed}", command_line(command), output.status)))
}

/// Returns the command as a user would type it in the root of the workspace.
fn command_line(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let root = format!("{}/", root().display());
    let words = command.get_args().map(|word| word.to_string_lossy().replace(&root, ""));
    std::iter::once(name.to_string_lossy().into_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns the content of a file; empty if there is none.
pub(crate) fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns a function that makes the error "cannot `action` `path`", with its cause.
pub(crate) fn failed(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Stop {
    let text = format!("cannot {action} {}", path.display());
    move |error| Stop::Failed(format!("{text}: {error}"))
}
