//! The files for one target, in a folder that is laid out as a prefix (`bin`, `share`). Every package is made from this
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::target::Target;
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program, root};

/// The programs. `toolrack` looks for the other one in its own folder, so every package puts both into one folder.
pub(crate) const PROGRAMS: &[&str] = &["toolrack", "toolrack-supervisor"];

/// The documents that go with the programs, from the root of the repository.
pub(crate) const PAGES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// Each shell, and the file of its completions below `share`. The last two shells search no folder: the user has to
/// source the file.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/toolrack"),
    ("zsh", "zsh/site-functions/_toolrack"),
    ("fish", "fish/vendor_completions.d/toolrack.fish"),
    ("powershell", "toolrack/completions/toolrack.ps1"),
    ("elvish", "toolrack/completions/toolrack.elv"),
];

/// The programs for one target, with their manual, completions and documents.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) target: &'static Target,
    /// The folder with `bin` and `share`.
    pub(crate) prefix: PathBuf,
}

impl Staged {
    /// Copies the programs in the folder `built` into `prefix`, with their documents.
    ///
    /// # Errors
    /// When a program is missing, or cannot be copied.
    pub(crate) fn of_programs(target: &'static Target, built: &Path, prefix: PathBuf) -> Result<Self, Stop> {
        if prefix.exists() {
            fs::remove_dir_all(&prefix).map_err(failed("empty", &prefix))?;
        }
        for name in PROGRAMS {
            let file = target.file_of(name);
            copy_file(&built.join(&file), &prefix.join("bin").join(&file), 0o755)?;
        }
        for name in PAGES {
            copy_file(&root().join(name), &prefix.join("share/doc/toolrack").join(name), 0o644)?;
        }
        Ok(Self { target, prefix })
    }

    /// Adds the manual and the shell completions, which are the same for every target. The `toolrack` in the folder
    /// `runnable` writes them, because the staged programs may be for another machine than this one.
    ///
    /// # Errors
    /// When the program does not run, or its files cannot be written.
    pub(crate) fn add_manual_and_completions(&self, runnable: &Path) -> Step {
        let man = self.prefix.join("share/man/man1");
        capture(toolrack(runnable).arg("man").arg(&man))?;
        for (shell, file) in COMPLETIONS {
            let script = capture(toolrack(runnable).args(["completions", shell]))?;
            write(&self.prefix.join("share").join(file), &script)?;
        }
        Ok(())
    }

    /// Returns the path of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(self.target.file_of(name))
    }
}

/// Returns a command that runs the `toolrack` in `folder` by its bare name, because the completion scripts repeat the
/// name by which it was called. It sees neither the home nor the environment of the user.
fn toolrack(folder: &Path) -> Command {
    let mut command = program("toolrack");
    command.env_clear().env("PATH", folder).env("HOME", folder);
    command
}

/// Copies a file, sets the mode of the copy, and first makes the folder for it.
///
/// # Errors
/// With the name of the file.
pub(crate) fn copy_file(from: &Path, to: &Path, mode: u32) -> Step {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
    }
    fs::copy(from, to).map_err(failed("copy", from))?;
    set_mode(to, mode).map_err(failed("set the rights of", to))
}

/// Sets the rights of a file or folder.
#[cfg(unix)]
pub(crate) fn set_mode(file: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(mode))
}

/// Windows has no file modes.
#[cfg(not(unix))]
pub(crate) fn set_mode(_: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

/// Writes a file, and first makes the folder for it.
///
/// # Errors
/// With the name of the file.
pub(crate) fn write(path: &Path, text: &str) -> Step {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
    }
    fs::write(path, text).map_err(failed("write", path))
}

/// Shell scripts that stand in for the programs, so that tests can make packages without a build.
#[cfg(test)]
pub(crate) mod fixtures {
    use super::*;

    /// A `toolrack` that prints its version, writes a manual and a completion script, and otherwise prints its
    /// arguments.
    pub(crate) const TOOLRACK: &str = "#!/bin/sh\ncase $1 in\n--version) echo 'toolrack 9.9.9' ;;\n\
        man) /bin/mkdir -p \"$2\" && echo manual > \"$2/toolrack.1\" ;;\n\
        completions) echo \"complete $2 for $0\" ;;\n*) echo \"called with $*\" ;;\nesac\n";

    /// Stages these scripts in `folder`, for 64-bit Linux.
    pub(crate) fn staged(folder: &Path) -> Staged {
        staged_for("x86_64-unknown-linux-gnu", folder)
    }

    /// Stages these scripts in `folder`, for the target `triple`.
    pub(crate) fn staged_for(triple: &str, folder: &Path) -> Staged {
        let target = Target::named(triple).unwrap();
        let (built, runnable) = (folder.join("built"), folder.join("runnable"));
        for name in PROGRAMS {
            write(&built.join(target.file_of(name)), TOOLRACK).unwrap();
        }
        let staged = Staged::of_programs(target, &built, folder.join("stage").join(triple)).unwrap();
        copy_file(&staged.program("toolrack"), &runnable.join("toolrack"), 0o755).unwrap();
        staged.add_manual_and_completions(&runnable).unwrap();
        staged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_folder_has_both_programs_completions_and_man_pages() {
        let folder = tempfile::tempdir().unwrap();
        let staged = fixtures::staged(folder.path());
        let read = |path: &str| fs::read_to_string(staged.prefix.join(path)).unwrap();
        assert!(PROGRAMS.iter().all(|name| read(&format!("bin/{name}")) == fixtures::TOOLRACK));
        assert_eq!(read("share/man/man1/toolrack.1"), "manual\n");
        assert!(read("share/bash-completion/completions/toolrack").starts_with("complete bash"));
        assert!(read("share/doc/toolrack/LICENSE-MIT").contains("MIT"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::named("x86_64-unknown-linux-gnu").unwrap();
        let missing = Staged::of_programs(target, folder.path(), folder.path().join("stage")).unwrap_err();
        assert!(format!("{missing:?}").contains("toolrack"), "{missing:?}");
    }
}
