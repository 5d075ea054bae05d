//! The packages that `dist` needs, in the versions that `xtask/dist/tools` fixes. From npm: the registry Verdaccio and
//! a Node that runs it. From PyPI: uv, `wheel`, which packs wheels, and zig with `cargo-zigbuild`, which link.

use std::path::PathBuf;

use crate::packages::{Npm, Python};
use crate::run::root;

/// Verdaccio, and a Node that runs it.
pub(crate) fn npm() -> Npm {
    let folder = root().join(".cache/dist/npm");
    Npm { manifests: pinned_versions(), node_from: folder.clone(), folder, programs: &[], oldest_node: 22 }
}

/// Returns the packages from PyPI, in a separate virtual environment.
pub(crate) fn python() -> Python {
    Python {
        requirements: pinned_versions().join("requirements.txt"),
        venv: root().join(".cache/dist/venv"),
        oldest_minor: 11,
    }
}

fn pinned_versions() -> PathBuf {
    root().join("xtask/dist/tools")
}
