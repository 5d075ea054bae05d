//! Changing the values of secrets and their key while other processes run.

use std::{fs, os::unix::process::ExitStatusExt as _, path::Path};

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, FakeHttp, fake_server_path};

use crate::{canaries::ask_daemon, keychain::with_keychain, rack::Rack, terminal::Terminal, warm::Daemon};

const CANARY: &str = "canary-5f0e9c1d";

/// A server that writes the key of its environment into a file.
fn talker() -> Value {
    let script = "printf %s \"$KEY\" > \"$HOME/../work/got\"; exec \"$0\" stdio";
    json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": { "KEY": "${secret:talker}" } })
}

fn set(rack: &Rack, name: &str, value: &str) {
    let _ = rack.run_with_stdin(&["secret", "set", name], value).ends_with(0);
}

/// Makes the daemon call a tool.
fn call(daemon: &Daemon, tool: &str) {
    let body = json!({ "tool": tool, "arguments": {}, "approved": true }).to_string();
    let answer = ask_daemon(&daemon.address, &daemon.token, "POST /api/v1/calls", &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The header that the server got with its last call.
fn sent_header(effects: &EffectLog) -> String {
    let log = fs::read_to_string(effects.path()).unwrap();
    let calls = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut calls = calls.filter(|entry| entry["method"] == "tools/call");
    let last = calls.next_back().unwrap();
    last["headers"]["x-team"].as_str().unwrap().to_owned()
}

/// The variable that the server has in its environment after it connected again.
fn environment_value(rack: &Rack, daemon: &Daemon) -> String {
    let answer = ask_daemon(&daemon.address, &daemon.token, "POST /api/v1/servers/talker/reconnect", "");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    call(daemon, "talker/headers");
    rack.home.read("work/got")
}

#[test]
fn a_running_daemon_uses_a_changed_secret_at_once_also_after_a_rotation_of_the_key() {
    let effects = EffectLog::new();
    let web = FakeHttp::start(&["--log", effects.path_str(), "--log-all"]);
    let header = json!({ "url": web.url(), "headers": { "X-Team": "team ${secret:header}" } });
    let rack = Rack::with(&[("talker", talker()), ("web", header)]);
    for name in ["header", "talker"] {
        set(&rack, name, "first-value");
    }
    let daemon = Daemon::start(&rack, &[]);
    call(&daemon, "web/headers");
    assert_eq!(sent_header(&effects), "team first-value");
    assert_eq!(environment_value(&rack, &daemon), "first-value");
    for name in ["header", "talker"] {
        set(&rack, name, "second-value");
    }
    call(&daemon, "web/headers");
    assert_eq!(sent_header(&effects), "team second-value");
    assert_eq!(environment_value(&rack, &daemon), "second-value");

    let rotated = rack.run(&["secret", "key", "--rotate", "--json"]).ends_with(0).json();
    assert_eq!(
        (&rotated["resealed"], &rotated["source"], &rotated["moved"]),
        (&json!(2), &json!("file"), &json!(false))
    );
    call(&daemon, "web/headers");
    assert_eq!(sent_header(&effects), "team second-value");
    assert_eq!(environment_value(&rack, &daemon), "second-value");
    for name in ["header", "talker"] {
        set(&rack, name, "third-value");
    }
    call(&daemon, "web/headers");
    assert_eq!(sent_header(&effects), "team third-value");
    assert_eq!(environment_value(&rack, &daemon), "third-value");
}

#[test]
fn a_rotation_is_reported_without_showing_a_key() {
    let rack = Rack::with(&[("talker", talker())]);
    let none = rack.run(&["secret", "key", "--rotate"]).ends_with(0);
    assert!(none.stdout.contains("there is no key yet"), "{none}");
    set(&rack, "talker", CANARY);
    let shown = rack.run(&["secret", "key", "--json"]).ends_with(0).json();
    assert_eq!((&shown["resealed"], &shown["changed_at"]), (&Value::Null, &Value::Null));
    let file = rack.home.root().join("toolrack/secret.key");
    let old = fs::read_to_string(&file).unwrap();
    let rotated = rack.run(&["secret", "key", "--rotate"]).ends_with(0);
    let new = fs::read_to_string(&file).unwrap();
    assert_ne!(old, new);
    assert!(rotated.stdout.starts_with("1 secret or token is sealed with a new key, which is in "), "{rotated}");
    for key in [old.trim(), new.trim()] {
        assert!(!rotated.to_string().contains(key), "a key was shown");
    }
    let shown = rack.run(&["secret", "key"]).ends_with(0);
    assert!(shown.stderr.contains("it was changed last at 20"), "{shown}");
    let _ = rack.run(&["secret", "key", "--rotate", "--move", "file"]).ends_with(2);
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
}

#[test]
fn a_key_from_the_environment_is_replaced_by_one_typed_or_read_from_stdin() {
    let (old, new, last) = ("7a".repeat(32), "8b".repeat(32), "correct horse battery");
    let rack = Rack::with(&[("talker", talker())]).env("TOOLRACK_SECRET_KEY", old.as_str());
    set(&rack, "talker", CANARY);
    for (bad_key, code) in [("", 2), ("short\n", 1), (old.as_str(), 1)] {
        let refused = rack.run_with_stdin(&["secret", "key", "--rotate"], bad_key).ends_with(code);
        assert!(!refused.stderr.contains("7a7a"), "{refused}");
    }
    let rotated = rack.run_with_stdin(&["secret", "key", "--rotate"], &format!("{new}\n")).ends_with(0);
    assert!(rotated.stderr.contains("set TOOLRACK_SECRET_KEY to the new key"), "{rotated}");
    assert!(!rotated.to_string().contains("8b8b"), "{rotated}");
    let stale_key = rack.run(&["call", "talker/echo", "text=x"]).ends_with(2);
    assert!(stale_key.stderr.contains("another key has replaced the one in use"), "{stale_key}");
    let stale_key = rack.run_with_stdin(&["secret", "set", "other"], "value").ends_with(1);
    assert!(stale_key.stderr.contains("another key has replaced the one in use"), "{stale_key}");

    let rack = rack.env("TOOLRACK_SECRET_KEY", new);
    let typed = |again: &str| {
        let mut terminal = Terminal::run(&rack, &["secret", "key", "--rotate"]);
        terminal.expect("new key:");
        terminal.type_in(&format!("{last}\r"));
        terminal.expect("new key again:");
        terminal.type_in(&format!("{again}\r"));
        terminal.end()
    };
    let (shown, code) = typed("correct horse batterz");
    assert!(code == 2 && shown.contains("nothing was changed"), "{shown}");
    let (shown, code) = typed(last);
    assert!(code == 0 && !shown.contains("horse"), "{shown}");
    let rack = rack.env("TOOLRACK_SECRET_KEY", last);
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
}

/// The items of Toolrack in the keychain.
fn items(rack: &Rack) -> Vec<String> {
    let entries = fs::read_dir(rack.home.root().join("keychain")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("item-")).collect()
}

/// The commands of `secret key --rotate` to the keychain: look up the old key, store the new one, look it up to check
/// that, and, once everything is sealed with it, delete the old one.
const KEYCHAIN_COMMANDS: usize = 4;

#[test]
fn a_rotation_killed_at_any_keychain_command_loses_nothing() {
    let rack = with_keychain();
    set(&rack, "talker", CANARY);
    let key_file = rack.home.root().join("toolrack/secret.key");
    let next = key_file.with_file_name("secret.key.next");
    let has_moved = |before: &str, path: &Path| fs::read_to_string(path).unwrap() != before;
    for command in 1..=KEYCHAIN_COMMANDS {
        for moment in ["before", "after"] {
            let before = fs::read_to_string(&key_file).unwrap();
            let die = rack.home.write("keychain/die", format!("{command} {moment}"));
            let killed = rack.command(&["secret", "key", "--rotate"]).output().unwrap();
            assert_eq!(killed.status.signal(), Some(9), "{moment} command {command}: {killed:?}");
            fs::remove_file(die).unwrap();
            assert!(!has_moved(&before, &key_file), "{moment} command {command}");
            let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
            assert_eq!(rack.home.read("work/got"), CANARY, "{moment} command {command}");
            fs::remove_file(rack.home.work().join("got")).unwrap();
            assert_eq!(has_moved(&before, &key_file), command == KEYCHAIN_COMMANDS, "{moment} command {command}");

            let again = rack.run(&["secret", "key", "--rotate", "--json"]).ends_with(0).json();
            assert_eq!((&again["source"], &again["resealed"]), (&json!("keychain"), &json!(1)));
            assert!(!next.exists());
            let id = fs::read_to_string(&key_file).unwrap().trim().replace("keychain ", "item-");
            assert_eq!(items(&rack), [id], "{moment} command {command}: only the key in use is left");
        }
    }
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
}
