//! The real MCP servers and the conformance suite that tests talk to: fixed versions from the npm registry and from PyPI,
//! listed with their hashes in `xtask/peers/`, installed into `.cache/`. No script of any package runs while installing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::{Report, Step, Stop};
use crate::run::{content, failed, output, program, root, show};
use crate::tools::node_major;

/// The conformance suite needs this Node or a newer one.
const OLDEST_NODE: u64 = 22;

/// The packages of `xtask/peers/package-lock.json`, with a Node that runs them.
#[derive(Debug)]
struct Npm {
    folder: PathBuf,
    modules: PathBuf,
}

/// The packages of `xtask/peers/requirements.txt`.
#[derive(Debug)]
struct Python {
    venv: PathBuf,
}

/// What there is to talk to, and otherwise why not.
#[derive(Debug)]
pub(crate) struct Peers {
    node: Result<(PathBuf, Npm), String>,
    python: Result<Python, String>,
}

/// Installs what is missing, if npm and Python are there to do it.
pub(crate) fn install(report: &mut Report) -> Peers {
    report.step("servers from npm", || Npm::new().install());
    report.step("servers from PyPI", || Python::new().install());
    Peers::found()
}

impl Peers {
    /// What is installed.
    pub(crate) fn found() -> Self {
        let npm = Npm::new();
        let node = match npm.node() {
            Some(node) if npm.is_installed() => Ok((node, npm)),
            _ => Err("Node and the packages of xtask/peers/package.json are not there (`cargo xtask install`)".into()),
        };
        let python = Python::new();
        let python = if python.is_installed() {
            Ok(python)
        } else {
            Err("the packages of xtask/peers/requirements.txt are not there (`cargo xtask install`)".into())
        };
        Self { node, python }
    }

    /// The modules of tests that cannot run here, and why.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let node = self.node.as_ref().err().map(|why| ("needs_node", why.as_str()));
        let python = self.python.as_ref().err().map(|why| ("needs_python", why.as_str()));
        node.into_iter().chain(python)
    }

    /// How the tests find them. CONTRIBUTING.md describes the variables.
    pub(crate) fn variables(&self) -> Vec<(&'static str, &Path)> {
        let mut variables = Vec::new();
        if let Ok((node, npm)) = &self.node {
            variables.push(("TOOLRACK_TEST_NODE22", node.as_path()));
            variables.push(("TOOLRACK_TEST_NODE_MODULES", &npm.modules));
        }
        if let Ok(python) = &self.python {
            variables.push(("TOOLRACK_TEST_VENV", &python.venv));
        }
        variables
    }
}

impl Npm {
    fn new() -> Self {
        let folder = root().join(".cache/npm");
        Self { modules: folder.join("node_modules"), folder }
    }

    /// What is asked for, and how: anything else means installing again.
    fn wanted() -> String {
        ["package-lock.json", "modern-server.mjs"].map(|name| content(&listed(name))).concat()
    }

    fn is_installed(&self) -> bool {
        content(&self.folder.join("installed")) == Self::wanted()
    }

    /// A Node that is new enough: the one that came with the packages, or else the machine's.
    fn node(&self) -> Option<PathBuf> {
        [self.modules.join(".bin/node"), PathBuf::from("node")]
            .into_iter()
            .find(|node| node_major(node).is_some_and(|major| major >= OLDEST_NODE))
    }

    fn install(&self) -> Step {
        if self.is_installed() && self.node().is_some() {
            return Ok(());
        }
        if output(program("npm").arg("--version")).is_none() {
            return Err(Stop::Skipped("npm is not there".into()));
        }
        copy(&["package.json", "package-lock.json", "modern-server.mjs"], &self.folder)?;
        let mut npm = program("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        show(npm.current_dir(&self.folder))?;
        if self.node().is_none() {
            return Err(Stop::Skipped(format!("no Node {OLDEST_NODE} or newer for this platform")));
        }
        remember(&self.folder, &Self::wanted())
    }
}

impl Python {
    fn new() -> Self {
        Self { venv: root().join(".cache/venv") }
    }

    /// What is asked for, and where: the programs of a venv hold its path.
    fn wanted(&self) -> String {
        format!("{}\n{}", self.venv.display(), content(&listed("requirements.txt")))
    }

    fn is_installed(&self) -> bool {
        content(&self.venv.join("installed")) == self.wanted() && output(self.python().arg("--version")).is_some()
    }

    fn python(&self) -> std::process::Command {
        program(self.venv.join("bin/python"))
    }

    fn install(&self) -> Step {
        if self.is_installed() {
            return Ok(());
        }
        let able = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10)";
        if output(program("python3").args(["-c", able])).is_none() {
            return Err(Stop::Skipped("Python 3.10 or newer with its module venv is not there".into()));
        }
        show(program("python3").args(["-m", "venv", "--clear"]).arg(&self.venv))?;
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--only-binary", ":all:", "--require-hashes", "--requirement"]).arg(listed("requirements.txt"));
        show(&mut pip)?;
        remember(&self.venv, &self.wanted())
    }
}

/// A file of the list of packages.
fn listed(name: &str) -> PathBuf {
    root().join("xtask/peers").join(name)
}

fn copy(names: &[&str], to: &Path) -> Step {
    fs::create_dir_all(to).map_err(failed("make", to))?;
    for name in names {
        let from = listed(name);
        fs::copy(&from, to.join(name)).map_err(failed("copy", &from))?;
    }
    Ok(())
}

/// Notes that the installation is complete; a broken-off one is begun anew.
fn remember(folder: &Path, wanted: &str) -> Step {
    let note = folder.join("installed");
    fs::write(&note, wanted).map_err(failed("write", &note))
}
