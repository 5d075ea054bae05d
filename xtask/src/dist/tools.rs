//! The packages that `dist` works with, listed in `xtask/dist/tools`: a registry of npm with a Node for it; uv, which installs
//! wheels as users do, the packer of wheels, zig as a linker, and cargo's way to it.

use std::path::PathBuf;

use crate::packages::{Npm, Python};
use crate::run::root;

/// Verdaccio, and a Node that runs it.
pub(crate) fn npm() -> Npm {
    Npm { list: list(), folder: root().join(".cache/dist/npm"), programs: &[], oldest_node: 22 }
}

/// The packages of PyPI.
pub(crate) fn python() -> Python {
    Python { list: list().join("requirements.txt"), venv: root().join(".cache/dist/venv"), oldest_minor: 11 }
}

fn list() -> PathBuf {
    root().join("xtask/dist/tools")
}
