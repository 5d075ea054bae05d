//! The house rules, as tests: `cargo nextest run -p xtask`. Clippy checks what it can; these tests check the rest.
//!
//! A rule that stands in the way is a decision to discuss, in the same change as the code that needs it.

// Makes clippy allow `unwrap` in this file, which is compiled only for tests.
#![cfg(test)]

mod arrows;
mod files;
mod lints;
mod modules;
mod pages;
mod published;
mod source;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// What cargo says of the workspace: `cargo metadata --no-deps`.
fn metadata() -> serde_json::Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails with every offence, one a line, and what to do about them.
#[track_caller]
fn none_of(offences: &[String], advice: &str) {
    assert!(offences.is_empty(), "{advice}\n  {}\n", offences.join("\n  "));
}
