//! Third-party packages from the npm registry and from PyPI: fixed versions, listed with their hashes in a folder of
//! the repository, installed into `.cache/`. No script of any package runs while installing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::{Step, Stop};
use crate::run::{content, execute, failed, output, program};
use crate::tools::node_major;

/// The packages of a `package-lock.json`, and the Node that runs them.
#[derive(Debug)]
pub(crate) struct Npm {
    /// The folder of `package.json`, `package-lock.json` and the programs.
    pub(crate) manifests: PathBuf,
    /// The folder in which they are installed.
    pub(crate) folder: PathBuf,
    /// Our own programs that use the packages, as file names in `manifests`. They are copied beside `node_modules` and
    /// run from there, because Node looks for packages beside the importing program (and with `import` only there).
    pub(crate) programs: &'static [&'static str],
    /// The packages need this Node or a newer one.
    pub(crate) oldest_node: u64,
    /// The folder of the npm packages that include a Node.
    pub(crate) node_from: PathBuf,
}

impl Npm {
    /// Returns the folder `node_modules`.
    pub(crate) fn modules(&self) -> PathBuf {
        self.folder.join("node_modules")
    }

    /// Returns whether exactly the listed packages are installed.
    pub(crate) fn is_installed(&self) -> bool {
        let is_same = |name: &&str| content(&self.manifests.join(name)) == content(&self.folder.join(name));
        self.has_packages() && self.programs.iter().all(is_same)
    }

    /// Returns a Node that is new enough: the one from the packages, or else the machine's own.
    pub(crate) fn node(&self) -> Option<PathBuf> {
        let machine_node = || Some(output(program("node").args(["-p", "process.execPath"]))?.trim().into());
        let is_new_enough = |node: &PathBuf| node_major(node).is_some_and(|major| major >= self.oldest_node);
        Some(self.node_from.join("node_modules/.bin/node"))
            .filter(is_new_enough)
            .or_else(|| machine_node().filter(is_new_enough))
    }

    /// Installs the missing packages.
    ///
    /// # Errors
    /// Skipped without npm or a Node that is new enough; failed with npm's message.
    pub(crate) fn install(&self) -> Step {
        self.copy(self.programs)?;
        if self.has_packages() && self.node().is_some() {
            return Ok(());
        }
        if output(program("npm").arg("--version")).is_none() {
            return Err(Stop::Skipped("npm is not there".into()));
        }
        self.copy(&["package.json", "package-lock.json"])?;
        let mut npm = program("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        execute(npm.current_dir(&self.folder))?;
        if self.node().is_none() {
            return Err(Stop::Skipped(format!("no Node {} or newer for this platform", self.oldest_node)));
        }
        write_note(&self.folder, &self.note())
    }

    fn has_packages(&self) -> bool {
        content(&self.folder.join(NOTE)) == self.note()
    }

    /// Returns the text that the note has when the listed packages are installed. With any other text, they are
    /// installed again.
    fn note(&self) -> String {
        content(&self.manifests.join("package-lock.json"))
    }

    fn copy(&self, names: &[&str]) -> Step {
        fs::create_dir_all(&self.folder).map_err(failed("make", &self.folder))?;
        for name in names {
            let from = self.manifests.join(name);
            fs::copy(&from, self.folder.join(name)).map_err(failed("copy", &from))?;
        }
        Ok(())
    }
}

/// The packages of a `requirements.txt`, in a virtual environment.
#[derive(Debug)]
pub(crate) struct Python {
    /// The `requirements.txt`.
    pub(crate) requirements: PathBuf,
    /// The folder in which they are installed.
    pub(crate) venv: PathBuf,
    /// The packages need this Python 3 or a newer one.
    pub(crate) oldest_minor: u64,
}

impl Python {
    /// Returns whether exactly the listed packages are installed, and run.
    pub(crate) fn is_installed(&self) -> bool {
        content(&self.venv.join(NOTE)) == self.note() && output(program(self.python()).arg("--version")).is_some()
    }

    /// Returns the interpreter that finds the packages.
    pub(crate) fn python(&self) -> PathBuf {
        self.venv.join("bin/python")
    }

    /// Installs the missing packages. A dependency that is not in the list is not installed.
    ///
    /// # Errors
    /// Skipped without a Python that is new enough; failed with pip's message.
    pub(crate) fn install(&self) -> Step {
        if self.is_installed() {
            return Ok(());
        }
        let oldest = self.oldest_minor;
        let requirement = format!("import sys, venv, ensurepip; assert sys.version_info >= (3, {oldest})");
        if output(program("python3").args(["-c", &requirement])).is_none() {
            return Err(Stop::Skipped(format!("Python 3.{oldest} or newer with its module venv is not there")));
        }
        execute(program("python3").args(["-m", "venv", "--clear"]).arg(&self.venv))?;
        let mut pip = program(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--only-binary", ":all:", "--no-deps", "--require-hashes", "--requirement"]).arg(&self.requirements);
        execute(&mut pip)?;
        write_note(&self.venv, &self.note())
    }

    /// Returns the text that the note has when the listed packages are installed. It includes the folder, because the
    /// programs of a virtual environment contain its path.
    fn note(&self) -> String {
        format!("{}\n{}", self.venv.display(), content(&self.requirements))
    }
}

/// The note: a file that records the installed packages. It is written last, so that an interrupted installation starts
/// again.
const NOTE: &str = "installed";

fn write_note(folder: &Path, text: &str) -> Step {
    let note = folder.join(NOTE);
    fs::write(&note, text).map_err(failed("write", &note))
}
