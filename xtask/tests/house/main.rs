//! The house rules, as tests: `cargo nextest run --workspace -E 'package(xtask)'`. Clippy checks what it can; these tests check the rest.
//!
//! If a rule stands in the way, discuss and change it together with the code that needs the change.

// Makes clippy allow `unwrap` in this file, which is compiled only for tests.
#![cfg(test)]

mod arrows;
mod codes;
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

/// Returns the output of `cargo metadata --no-deps` for the workspace.
fn metadata() -> serde_json::Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails if there are offences. The message has `advice`, which says what to do, and a line for each offence.
#[track_caller]
fn none_of(offences: &[String], advice: &str) {
    assert!(offences.is_empty(), "{advice}\n  {}\n", offences.join("\n  "));
}
