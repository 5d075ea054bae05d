//! The lints of clippy and rustc in each crate.

use std::collections::BTreeMap;
use std::fs;

use toml_edit::{DocumentMut, Item};

use crate::source::relative;
use crate::{metadata, none_of, root};

/// The crates that have a clippy.toml, and the methods, by how their paths begin, that these crates may call although
/// the workspace's clippy.toml disallows them.
const OWNERS: &[(&str, &[&str])] = &[
    ("bench", &["std::fs::", "std::path::Path::", "std::env::var", "std::env::home_dir"]),
    ("crates/cli", &["std::fs::", "std::path::Path::", "std::env::current_dir"]),
    ("crates/config", &["std::fs::", "std::path::Path::", "std::env::var", "std::env::home_dir"]),
    ("crates/store", &["std::fs::", "std::path::Path::"]),
    (
        "crates/testkit",
        &[
            "std::fs::",
            "std::path::Path::",
            "std::env::var",
            "std::env::home_dir",
            "std::env::current_dir",
            "std::env::temp_dir",
            "std::process::exit",
        ],
    ),
    ("xtask", &["std::fs::", "std::path::Path::", "std::env::var", "std::env::home_dir"]),
];

/// Returns the settings in a clippy.toml and their values. Each disallowed method is a setting, and its reason the
/// value.
fn settings(folder: &str) -> BTreeMap<String, String> {
    let path = root().join(folder).join("clippy.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", relative(&path)));
    let file: DocumentMut = text.parse().unwrap();
    let mut settings = BTreeMap::new();
    for (name, item) in file.iter() {
        match item.as_array() {
            Some(entries) => entries.iter().for_each(|entry| {
                let entry = entry.as_inline_table().unwrap();
                let path = entry["path"].as_str().unwrap();
                settings.insert(format!("{name} {path}"), entry["reason"].as_str().unwrap().to_owned());
            }),
            None => drop(settings.insert(name.to_owned(), item.to_string().trim().to_owned())),
        }
    }
    settings
}

#[test]
fn the_clippy_settings_of_a_crate_are_those_of_the_workspace_less_what_it_owns() {
    let workspace = settings("");
    for (folder, owned) in OWNERS {
        let may = |setting: &str| {
            let method = setting.strip_prefix("disallowed-methods ");
            method.is_some_and(|method| owned.iter().any(|owned| method.starts_with(owned)))
        };
        let expected: BTreeMap<_, _> = workspace.clone().into_iter().filter(|(setting, _)| !may(setting)).collect();
        let actual = settings(folder);
        let missing = expected.iter().filter(|(name, value)| actual.get(*name) != Some(value));
        let added = actual.iter().filter(|(name, _)| !expected.contains_key(*name));
        let missing = missing.map(|(name, value)| format!("must say {name}: {value}"));
        let offences: Vec<_> = missing.chain(added.map(|(name, _)| format!("must not say {name}"))).collect();
        none_of(
            &offences,
            &format!(
                "{folder}/clippy.toml takes the place of the workspace's clippy.toml, so it has to repeat its settings:"
            ),
        );
    }
}

#[test]
fn no_crate_has_clippy_settings_that_no_test_looks_after() {
    let metadata = metadata();
    let folders = metadata["packages"].as_array().unwrap().iter().map(|package| {
        let manifest = std::path::Path::new(package["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().to_path_buf()
    });
    let unknown: Vec<_> = folders
        .filter(|folder| folder.join("clippy.toml").exists() || folder.join(".clippy.toml").exists())
        .map(|folder| relative(&folder))
        .filter(|folder| !OWNERS.iter().any(|(owner, _)| owner == folder))
        .collect();
    none_of(&unknown, "name them in this test, with what they own:");
}

#[test]
fn every_crate_obeys_the_lints_of_the_workspace() {
    let metadata = metadata();
    let manifests =
        metadata["packages"].as_array().unwrap().iter().map(|package| package["manifest_path"].as_str().unwrap());
    let without: Vec<_> = manifests
        .filter(|manifest| {
            let file: DocumentMut = fs::read_to_string(manifest).unwrap().parse().unwrap();
            file.get("lints").and_then(|lints| lints.get("workspace")).and_then(Item::as_bool) != Some(true)
        })
        .map(ToOwned::to_owned)
        .collect();
    none_of(&without, "[lints] workspace = true is missing in");
}

#[test]
fn the_lints_that_the_house_counts_on_are_set() {
    let file: DocumentMut = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let level = |tool: &str, lint: &str| {
        let lint = file["workspace"]["lints"].get(tool)?.get(lint)?;
        lint.as_str().or_else(|| lint.get("level")?.as_str()).map(ToOwned::to_owned)
    };
    let needed = [
        ("rust", "unsafe_code"),
        ("rust", "missing_docs"),
        ("rust", "missing_debug_implementations"),
        ("rust", "unreachable_pub"),
        ("rustdoc", "broken_intra_doc_links"),
        ("clippy", "allow_attributes"),
        ("clippy", "await_holding_invalid_type"),
        ("clippy", "await_holding_lock"),
        ("clippy", "disallowed_methods"),
        ("clippy", "expect_used"),
        ("clippy", "print_stderr"),
        ("clippy", "print_stdout"),
        ("clippy", "too_many_arguments"),
        ("clippy", "too_many_lines"),
        ("clippy", "unwrap_used"),
    ];
    let without: Vec<_> = needed
        .into_iter()
        .filter(|(tool, lint)| !matches!(level(tool, lint).as_deref(), Some("warn" | "deny" | "forbid")))
        .map(|(tool, lint)| format!("{tool}::{lint}"))
        .collect();
    none_of(&without, "the workspace no longer sets");
    assert_eq!(level("rust", "unsafe_code").as_deref(), Some("forbid"));
}
