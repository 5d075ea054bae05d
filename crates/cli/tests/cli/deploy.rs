//! The files in `deploy`, with which a team runs Toolrack.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
};

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
    // The probes of Kubernetes use a name and the port that the daemon answers to.
    for manifest in [&manifest, &file("kubernetes/replicas.yaml")] {
        assert!(manifest.contains("--listen=0.0.0.0:7717"));
        let hosts: Vec<_> = manifest.lines().filter(|line| line.contains("name: Host")).collect();
        assert!(hosts.len() == 2 && hosts.iter().all(|host| host.contains(r#"value: "localhost:7717""#)), "{hosts:?}");
    }
    let (_, port) = daemon.address.rsplit_once(':').unwrap();
    let mut probe = TcpStream::connect(&daemon.address).unwrap();
    write!(probe, "GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn the_deployments_run_the_image_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (path, says) in [
        ("kubernetes/toolrack.yaml", format!("toolrack:{version} ")),
        ("kubernetes/replicas.yaml", format!("toolrack:{version} ")),
        ("compose/compose.yaml", format!("toolrack:{version}}}")),
        ("helm/toolrack/Chart.yaml", format!("\nversion: {version}\nappVersion: \"{version}\"\n")),
    ] {
        assert!(file(path).contains(&says), "{path}");
    }
}

#[test]
fn the_team_file_of_the_replicas_names_a_database_and_their_options_make_a_replica() {
    let manifest = file("kubernetes/replicas.yaml");
    let arguments = arguments(&manifest);
    assert!(arguments.iter().any(|argument| argument == "--replica=$(POD_IP):7718"), "{arguments:?}");
    let rack = Rack::new().env("TOOLRACK_CLIENT_SECRET", "x").env("TOOLRACK_DATABASE", "postgres://127.0.0.1:1/x");
    let path = rack.home.root().join("team.toml");
    fs::write(&path, team_file(&manifest)).unwrap();
    let words =
        ["serve", "--team", path.to_str().unwrap(), "--replica=127.0.0.1:0", "--listen=127.0.0.1:0", "--no-open"];
    let ran = rack.run(&words).ends_with(1);
    for says in ["the database cannot be reached", "(127.0.0.1:1/x)"] {
        assert!(ran.stderr.contains(says), "{ran}");
    }
}

#[test]
fn the_board_of_grafana_shows_each_metric_and_no_other() {
    let names = |text: &str| {
        let words = text.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'));
        words.filter(|word| word.starts_with("toolrack_")).map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../daemon/src/api/metrics.rs");
    let mut exported = names(&fs::read_to_string(page).unwrap());
    // Names of crates.
    exported.retain(|name| !matches!(name.as_str(), "toolrack_host" | "toolrack_team"));
    assert_eq!(names(&file("grafana/toolrack.json")), exported);
}
