//! No file of a folder that the user has not agreed to decides what runs.

use std::fs;

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::rack::{Rack, mcp_json, work_file};

/// A server that writes down where it is started and what it sees, as package runners would use it.
fn nosy() -> Value {
    let script = r#"{ pwd; cat package.json .npmrc node_modules/.bin/x; echo "PATH=$PATH"; } >"$HOME/seen" 2>/dev/null; exec "$0" stdio"#;
    json!({ "command": "sh", "args": ["-c", script, fake_server_path()] })
}

fn state(rack: &Rack, name: &str) -> Value {
    rack.run(&["list", name, "--json"]).ends_with(0).json()["servers"][0]["state"].clone()
}

fn hostile_clone(rack: &Rack) {
    for file in ["package.json", ".npmrc", "node_modules/.bin/x", "sh", "fake-server"] {
        work_file(rack, file, "hostile");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "programs are where this process finds them")]
fn a_users_own_entry_sees_nothing_of_the_folder_where_it_is_used() {
    let path = format!(".:node_modules/.bin::{}", std::env::var("PATH").unwrap());
    let rack = Rack::with(&[("mine", nosy())]).env("PATH", path);
    hostile_clone(&rack);
    assert_eq!(state(&rack, "mine"), "connected");
    let seen = fs::read_to_string(rack.home.home().join("seen")).unwrap();
    assert!(!seen.contains("hostile"), "{seen}");
    let folder = seen.lines().next().unwrap();
    assert!(folder.contains("/cwd/mine-"), "{seen}");
    let path = seen.lines().find_map(|line| line.strip_prefix("PATH=")).unwrap();
    assert!(path.split(':').all(|folder| folder.starts_with('/')), "{seen}");
    let doctor = rack.run(&["doctor", "--offline"]);
    assert!(doctor.stdout.contains("relative or empty folder"), "{doctor}");
}

#[test]
fn an_entry_that_depends_on_the_folder_asks_once_in_each() {
    let mut entry = nosy();
    entry["cwd"] = json!("${workspaceFolder}");
    let rack = Rack::with(&[("mine", entry)]);
    hostile_clone(&rack);
    assert_eq!(state(&rack, "mine"), "pending_trust");
    let _ = rack.run(&["call", "mine/echo", "message=x"]).ends_with(7);
    assert!(!rack.home.home().join("seen").exists(), "it was not started");
    let pending = rack.run(&["pending"]).ends_with(0);
    assert!(pending.stdout.contains("asks because `${workspaceFolder}` is something else in each folder"), "{pending}");
    let doctor = rack.run(&["doctor", "--offline"]);
    assert!(doctor.stdout.contains("waits for you in this one"), "{doctor}");
    let _ = rack.run(&["trust", "mine", "--yes"]).ends_with(0);
    assert_eq!(state(&rack, "mine"), "connected");
    assert!(fs::read_to_string(rack.home.home().join("seen")).unwrap().contains("hostile"), "it was agreed to");

    let other = rack.home.write("other/package.json", "{}");
    let output = rack.command(&["list", "mine", "--json"]).current_dir(other.parent().unwrap()).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["servers"][0]["state"], "pending_trust");
    let _ = rack.run(&["untrust", "mine"]).ends_with(0);
    assert_eq!(state(&rack, "mine"), "pending_trust");
}

#[test]
fn an_entry_that_is_typed_is_agreed_to_in_the_folder_where_it_is_typed() {
    let rack = Rack::new();
    let program = fake_server_path().to_str().unwrap();
    let _ = rack.run(&["add", "dot", "-e", "DATA=./data", "--no-test", "--", program, "stdio"]).ends_with(0);
    assert_eq!(state(&rack, "dot"), "connected");
}

#[test]
fn a_script_that_changes_after_it_was_agreed_to_does_not_run_and_is_named() {
    let rack = Rack::new();
    let script = |word: &str| format!("#!/bin/sh\necho {word} >\"$HOME/seen\"\nexec \"$1\" stdio\n");
    work_file(&rack, "srv.sh", &script("one"));
    let entry = json!({ "command": "sh", "args": ["./srv.sh", fake_server_path()] });
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", entry)]));
    let pending = rack.run(&["pending"]).ends_with(0);
    assert!(pending.stdout.contains("file      srv.sh  sha256:"), "{pending}");
    let _ = rack.run(&["trust", "--yes"]).ends_with(0);
    assert_eq!(state(&rack, "theirs"), "connected");
    work_file(&rack, "srv.sh", &script("two"));
    assert_eq!(state(&rack, "theirs"), "pending_trust");
    assert_eq!(fs::read_to_string(rack.home.home().join("seen")).unwrap(), "one\n");
    let changes = rack.run(&["pending", "--json"]).ends_with(0).json()["pending"][0]["changes"].clone();
    assert_eq!(changes.as_array().unwrap().len(), 1, "{changes}");
    assert!(changes[0]["field"].as_str().unwrap().contains("srv.sh"), "{changes}");
}
