//! Stored secrets: set, used, listed, gone.

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::{
    rack::{Rack, fake},
    terminal::Terminal,
};

const CANARY: &str = "canary-5f0e9c1d";

/// A server that gets a secret in its environment, and says on stderr what it got.
fn talker() -> Value {
    let script = "echo \"my key is $KEY\" >&2; printf %s \"$KEY\" > \"$HOME/../work/got\"; exec \"$0\" stdio";
    json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": { "KEY": "${secret:talker.key}" } })
}

fn rack() -> Rack {
    Rack::with(&[("talker", talker()), ("plain", fake(&[]))])
}

fn got(rack: &Rack) -> String {
    fs::read_to_string(rack.home.work().join("got")).unwrap()
}

fn key_file(rack: &Rack) -> PathBuf {
    rack.home.root().join("toolrack/secret.key")
}

#[test]
fn a_secret_is_set_used_listed_and_deleted_and_never_shown() {
    let rack = rack();
    assert_snapshot!(rack.run(&["secret", "list"]), @"
        $ toolrack secret list
        x talker.key  talker
        --- stderr ---
        `talker.key` is not set: toolrack secret set talker.key
        [0]
    ");
    assert_snapshot!(rack.run_with_stdin(&["secret", "set", "talker.key"], &format!("{CANARY}\n")), @"
        $ toolrack secret set talker.key
        stored the secret talker.key
        [0]
    ");
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(got(&rack), CANARY);
    let logs = rack.run(&["logs", "talker"]).ends_with(0);
    assert!(logs.stdout.contains("my key is ***"), "{logs}");
    let set = rack.run_with_stdin(&["secret", "set", "talker.key", "--json"], "second-value\r\n").ends_with(0).json();
    assert_eq!(set, json!({ "name": "talker.key", "replaced": true, "used_by": ["talker"] }));
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(got(&rack), "second-value", "a changed secret counts from the next connection");
    assert_snapshot!(rack.run_with_stdin(&["secret", "set", "unused"], "abc"), @"
        $ toolrack secret set unused
        stored the secret unused
        --- stderr ---
        warning: `unused` is so short that it is not hidden where a server repeats it
        write ${secret:unused} where an entry needs it
        [0]
    ");
    assert_snapshot!(rack.run(&["secret", "list"]), @"
        $ toolrack secret list
        + talker.key  talker
        + unused
        --- stderr ---
        sealed with the key in [HOME]/toolrack/secret.key
        [0]
    ");
    assert_snapshot!(rack.run(&["secret", "rm", "talker.kye"]), @"
        $ toolrack secret rm talker.kye
        --- stderr ---
        error: there is no secret `talker.kye`
        hint: did you mean `talker.key`?
        [2]
    ");
    assert_snapshot!(rack.run(&["secret", "rm", "talker.key"]), @"
        $ toolrack secret rm talker.key
        deleted the secret talker.key
        --- stderr ---
        warning: talker cannot be connected without it
        [0]
    ");
    assert_eq!(rack.run(&["secret", "rm", "unused", "--json"]).ends_with(0).json(), json!({ "removed": "unused" }));
}

#[test]
fn a_secret_that_is_not_set_is_named_with_the_command_that_sets_it() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "talker/echo", "text=x"]), @"
        $ toolrack call talker/echo text=x
        --- stderr ---
        error: the server talker ([HOME]/toolrack/mcp.json) is not connected: `env.KEY`: the secret `talker.key` is not set; set it: `toolrack secret set talker.key`
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [2]
    ");
    assert_snapshot!(rack.run(&["config", "validate"]), @"
        $ toolrack config validate
        1 file read, 3 servers configured, 0 errors and 0 warnings
        --- stderr ---
        the secret `talker.key` is not set: toolrack secret set talker.key
        [0]
    ");
    let doctor = rack.run(&["doctor", "--offline", "--json"]).ends_with(2).json();
    let check = |area: &str| {
        let checks = doctor["checks"].as_array().unwrap();
        checks.iter().find(|check| check["area"] == area).unwrap()["what"].as_str().unwrap().to_owned()
    };
    assert_eq!(check("secrets"), "none is stored");
    assert!(
        check("variables").ends_with("the secret `talker.key` is not set; set it: `toolrack secret set talker.key`")
    );
    let test = rack.run(&["test", "talker"]).ends_with(2);
    assert!(test.stdout.contains("toolrack secret set talker.key"), "{test}");
    assert!(!key_file(&rack).exists(), "looking makes no key");
}

#[test]
fn values_come_from_stdin_or_are_typed_unseen_and_never_from_the_command_line() {
    let rack = rack();
    for (args, stdin) in [
        (&["secret", "set", "a", CANARY][..], ""),
        (&["secret", "set", "a"], ""),
        (&["secret", "set", "a"], "\n"),
        (&["secret", "set", "a b"], "x"),
        (&["secret", "set", ".a"], "x"),
        (&["secret", "set", ""], "x"),
        (&["secret", "set", &"a".repeat(65)], "x"),
    ] {
        let _ = rack.run_with_stdin(args, stdin).ends_with(2);
    }
    let large = rack.run_with_stdin(&["secret", "set", "a"], &"x".repeat(70_000)).ends_with(1);
    assert!(large.stderr.contains("70000 bytes"), "{large}");

    let mut terminal = Terminal::run(&rack, &["secret", "set", "talker.key"]);
    terminal.expect("talker.key:");
    terminal.type_in(&format!("{CANARY}\r"));
    let (shown, code) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("canary") && shown.contains("stored the secret"), "{shown}");
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(got(&rack), CANARY);
}

#[test]
fn the_key_of_the_environment_is_used_and_no_server_sees_it() {
    let key = "7a".repeat(32);
    let rack = rack().env("TOOLRACK_SECRET_KEY", key.as_str());
    let all = json!({ "command": "sh", "inherit_env": "all",
        "args": ["-c", "env > \"$HOME/../work/seen\"; exec \"$0\" stdio", fake_server_path()], "env": { "OWN": "${TOOLRACK_SECRET_KEY:-none}" } });
    rack.configure(&[("talker", talker()), ("all", all)]);
    let _ = rack.run_with_stdin(&["secret", "set", "talker.key"], CANARY).ends_with(0);
    assert!(!key_file(&rack).exists());
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(got(&rack), CANARY);
    let _ = rack.run(&["call", "all/echo", "text=x"]).ends_with(0);
    let seen = fs::read_to_string(rack.home.work().join("seen")).unwrap();
    assert!(seen.contains("OWN=none") && !seen.contains(&key), "{seen}");

    let other = rack.env("TOOLRACK_SECRET_KEY", "8b".repeat(32));
    let doctor = other.run(&["doctor", "--offline"]).ends_with(1);
    assert!(
        doctor.stdout.contains("sealed with another key") && doctor.stdout.contains("TOOLRACK_SECRET_KEY"),
        "{doctor}"
    );
    let called = other.run(&["call", "talker/echo", "text=x"]).ends_with(2);
    assert!(called.stderr.contains("sealed with another key"), "{called}");
}

#[test]
fn an_entry_that_waits_for_approval_reads_no_secret() {
    let rack = Rack::new();
    let _ = rack.run_with_stdin(&["secret", "set", "talker.key"], CANARY).ends_with(0);
    crate::rack::work_file(&rack, ".mcp.json", &crate::rack::mcp_json(&[("talker", talker())]));
    // A command that tried to read it would report that its key is missing.
    fs::remove_file(key_file(&rack)).unwrap();
    let called = rack.run(&["call", "talker/echo", "text=x"]).ends_with(7);
    assert!(!called.stderr.contains("secret.key"), "{called}");
    let pending = rack.run(&["pending"]).ends_with(0);
    assert!(pending.stdout.contains("KEY=${secret:talker.key}"), "{pending}");
}
