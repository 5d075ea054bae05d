//! The files in `deploy`, with which a team runs Toolrack.

use std::{fs, path::PathBuf};

use crate::{
    rack::{Rack, fake},
    warm::Daemon,
};

/// The text of a file in `deploy`.
fn file(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    fs::read_to_string(root.join(path)).unwrap()
}

/// The arguments of `serve` in a file: the items of the list that begins with `serve`.
fn arguments(text: &str) -> Vec<String> {
    let items = text.lines().map(str::trim).skip_while(|line| *line != "- serve").skip(1);
    items.map_while(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// The team file in the manifest of Kubernetes.
fn team_file(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.trim() != "team.toml: |").skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn the_daemon_starts_with_the_team_file_and_the_options_of_the_deployments() {
    let manifest = file("kubernetes/toolrack.yaml");
    let arguments = arguments(&manifest);
    assert!(arguments.len() > 5, "{arguments:?}");
    assert_eq!(arguments, self::arguments(&file("compose/compose.yaml")));
    let rack = Rack::with(&[("own", fake(&[]))]).env("TOOLRACK_CLIENT_SECRET", "of-the-provider");
    let here = rack.home.root().to_str().unwrap().to_owned();
    fs::write(rack.home.root().join("team.toml"), team_file(&manifest).replace("/var/lib/toolrack", &here)).unwrap();
    let places = [("/etc/toolrack", &*here), ("/var/lib/toolrack", &here), ("0.0.0.0:7717", "127.0.0.1:0")];
    let arguments = arguments
        .iter()
        .map(|argument| places.iter().fold(argument.clone(), |argument, (there, here)| argument.replace(there, here)));
    // The start of the test has these two already.
    let arguments: Vec<_> =
        arguments.filter(|argument| argument != "--no-open" && !argument.starts_with("--listen=")).collect();
    let daemon = Daemon::start(&rack, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(rack.home.root().join("token").exists());
    drop(daemon);
}

#[test]
fn the_board_of_grafana_shows_each_metric_and_no_other() {
    let names = |text: &str| {
        let words = text.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'));
        words.filter(|word| word.starts_with("toolrack_")).map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../daemon/src/api/health.rs");
    let mut exported = names(&fs::read_to_string(page).unwrap());
    // Names of crates.
    exported.retain(|name| !matches!(name.as_str(), "toolrack_host" | "toolrack_team"));
    assert_eq!(names(&file("grafana/toolrack.json")), exported);
}
