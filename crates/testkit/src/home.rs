//! A home in which a program sees no files or variables of the machine's user.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A temporary home, removed with this value: `HOME`, `TOOLRACK_HOME`, `TMPDIR` and a working folder, all empty.
///
/// A [`Command`] made here has only these variables and `PATH` (to find `sh` and the like).
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Creates an empty home.
    ///
    /// # Panics
    /// When no folder can be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("toolrack-").tempdir();
        let home = Self { folder: folder.unwrap_or_else(|error| panic!("no temporary folder: {error}")) };
        for path in [home.home(), home.toolrack_home(), home.work(), home.tmp()] {
            create_folder(&path);
        }
        home
    }

    /// The folder that contains everything.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The value of `HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// The value of `TOOLRACK_HOME`.
    #[must_use]
    pub fn toolrack_home(&self) -> PathBuf {
        self.root().join("toolrack")
    }

    /// The working folder of commands.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    fn tmp(&self) -> PathBuf {
        self.root().join("tmp")
    }

    /// Writes a file below the [root](Self::root), creates its folders, and returns its path.
    ///
    /// # Panics
    /// When it cannot be written, or `path` leads out of the home.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = path.as_ref();
        assert!(path.is_relative(), "{} is not below the home", path.display());
        let path = self.root().join(path);
        path.parent().map(create_folder);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Reads a text file below the root.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.root().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// A command that runs this program in this home.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TOOLRACK_HOME", self.toolrack_home())
            .env("TMPDIR", self.tmp())
            .current_dir(self.work());
        command
    }
}

fn create_folder(path: &Path) {
    std::fs::create_dir_all(path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_this_home_and_nothing_else() {
        let home = Home::new();
        let output = home.command("env").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "TMPDIR", "TOOLRACK_HOME"]);
        assert!(text.contains(&format!("HOME={}", home.home().display())));
    }

    #[test]
    fn a_written_file_is_read_back_and_deleted_with_the_home() {
        let home = Home::new();
        let path = home.write("work/.mcp.json", "{}");
        assert_eq!(home.read("work/.mcp.json"), "{}");
        drop(home);
        assert!(!path.exists());
    }
}
