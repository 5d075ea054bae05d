//! The files with which a team deploys Toolrack: checked by the tools that read them.

use std::path::PathBuf;

use crate::packages::Python;
use crate::report::Step;
use crate::run::{program, root, show};

/// Checks the manifest against the schemas of Kubernetes, and lets podman-compose read the compose file.
pub(crate) fn check() -> Step {
    let python = python();
    python.install()?;
    let deploy = root().join("deploy");
    let run = |name: &str| program(python.venv.join("bin").join(name));
    show(run("kubernetes-validate").arg("--strict").arg(deploy.join("kubernetes/toolrack.yaml")))?;
    let mut compose = run("podman-compose");
    compose.arg("--file").arg(deploy.join("compose/compose.yaml")).arg("config");
    show(compose.envs([("TOOLRACK_SECRET_KEY", "a key"), ("TOOLRACK_CLIENT_SECRET", "a secret")]))
}

fn python() -> Python {
    let folder = |path: &str| -> PathBuf { root().join(path) };
    Python { list: folder("xtask/deploy/requirements.txt"), venv: folder(".cache/deploy/venv"), oldest_minor: 11 }
}
