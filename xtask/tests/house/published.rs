//! Checks what registries show of the crates. `cargo xtask published` checks the packages themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{metadata, none_of, root};

/// The categories of crates.io that are in use here. crates.io refuses unknown ones.
const CATEGORIES: &[&str] = &[
    "api-bindings",
    "asynchronous",
    "authentication",
    "command-line-utilities",
    "config",
    "database",
    "development-tools",
    "development-tools::debugging",
    "network-programming",
    "os::linux-apis",
    "os::unix-apis",
    "virtualization",
    "web-programming::http-server",
];

/// The crates that may be published, each with its folder.
pub(crate) fn published() -> Vec<(Value, PathBuf)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    // For `publish = false`, the value is `[]`.
    let published = packages.filter(|package| package["publish"].is_null()).map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        (package.clone(), manifest.parent().unwrap().to_path_buf())
    });
    let published: Vec<_> = published.collect();
    assert!(published.len() >= 10, "only {} crates may be published", published.len());
    published
}

fn words(package: &Value, field: &str) -> Vec<String> {
    let words = package[field].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn registries_take_the_keywords_and_categories_of_every_crate() {
    let mut offences = Vec::new();
    for (package, _) in published() {
        let name = package["name"].as_str().unwrap();
        let keywords = words(&package, "keywords");
        // https://doc.rust-lang.org/cargo/reference/manifest.html#the-keywords-field
        let is_taken = |word: &String| {
            word.len() <= 20
                && word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
        };
        if !(1..=5).contains(&keywords.len()) || !keywords.iter().all(is_taken) {
            offences.push(format!("{name}: keywords {keywords:?}"));
        }
        let categories = words(&package, "categories");
        let is_known = |category: &String| CATEGORIES.contains(&category.as_str());
        if !(1..=5).contains(&categories.len()) || !categories.iter().all(is_known) {
            offences.push(format!("{name}: categories {categories:?}"));
        }
    }
    none_of(&offences, "crates.io refuses these:");
}

#[test]
fn the_licences_in_every_package_are_those_of_the_workspace() {
    let mut offences = Vec::new();
    for (_, folder) in published() {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            if fs::read(folder.join(licence)).ok() != fs::read(root().join(licence)).ok() {
                offences.push(format!("{}", folder.join(licence).display()));
            }
        }
    }
    none_of(&offences, "make a link to the file in the root of the workspace:");
}

#[test]
fn the_examples_on_the_page_of_every_library_are_compiled() {
    let mut offences = Vec::new();
    for (package, folder) in published() {
        let name = package["name"].as_str().unwrap();
        let page = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let library = fs::read_to_string(folder.join("src/lib.rs"));
        let shows_code = page.contains("\n```rust\n") || page.contains("\n```rust,no_run\n");
        let is_compiled = |library: &String| library.contains("#[doc = include_str!(\"../README.md\")]");
        if library.as_ref().is_ok_and(|library| !(shows_code && is_compiled(library))) || page.is_empty() {
            offences.push(format!("{name}: README.md shows {} code", if shows_code { "some" } else { "no" }));
        }
    }
    none_of(&offences, "a library shows an example, and its lib.rs has it compiled as a doc test:");
}

/// `embedder/` is a separate workspace with its own lock file, which a new dependency of a crate makes out of date.
#[test]
fn every_lock_file_fits_the_manifests() {
    let mut offences = Vec::new();
    for folder in ["", "embedder"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--locked", "--offline", "--format-version=1"]).current_dir(root().join(folder));
        let output = cargo.output().unwrap();
        if !output.status.success() {
            offences.push(format!("{folder}/Cargo.lock: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    none_of(&offences, "run `cargo metadata --offline` beside these lock files, and commit them:");
}
