//! The packages that `dist` needs, as `xtask/dist/tools` pins them: from npm, the registry Verdaccio and a Node that
//! runs it; from PyPI, uv, the packer `wheel`, and zig with `cargo-zigbuild` for linking.

use std::path::PathBuf;

use crate::packages::{Npm, Python};
use crate::run::root;

/// Verdaccio, and a Node that runs it.
pub(crate) fn npm() -> Npm {
    let folder = root().join(".cache/dist/npm");
    Npm { list: pinned_versions(), node_from: folder.clone(), folder, programs: &[], oldest_node: 22 }
}

/// Returns the packages from PyPI, in a virtual environment of their own.
pub(crate) fn python() -> Python {
    Python { list: pinned_versions().join("requirements.txt"), venv: root().join(".cache/dist/venv"), oldest_minor: 11 }
}

fn pinned_versions() -> PathBuf {
    root().join("xtask/dist/tools")
}
