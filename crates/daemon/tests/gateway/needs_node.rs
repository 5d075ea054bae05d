//! The official conformance suite, and clients that are written in TypeScript.

use std::path::{Path, PathBuf};

mod conformance;
mod fixture;
mod sdk;

/// The folder of the packages that are installed from npm.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm/node_modules")
}
