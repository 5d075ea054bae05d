//! `record` and `replay`, and the messages that `-vv` shows.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::rack::{Rack, fake, work_file};

/// Replaces the server of `rack` by one that cannot start.
fn break_server(rack: &Rack) {
    rack.configure(&[("fake", json!({ "command": "/nonexistent/server" }))]);
}

fn recorded(rack: &Rack) -> String {
    std::fs::read_to_string(rack.home.work().join("tape.jsonl")).unwrap()
}

#[test]
fn replay_prints_a_recording_without_any_server() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let lines: [&[&str]; 5] = [
        &["call", "fake/echo", "text=hello"],
        &["call", "fake/fail", "--json"],
        &["tools", "fake", "--json"],
        &["read", "fake", "fake://note"],
        &["prompt", "fake/greet", "name=Ada"],
    ];
    for line in lines {
        let first = rack.run(&[&["record", "tape.jsonl"], line].concat());
        break_server(&rack);
        let again = rack.run(&[&["replay", "tape.jsonl"], line].concat());
        let without_time = |text: &str| text.split("\"duration_ms\"").next().unwrap().to_owned();
        assert_eq!(without_time(&first.stdout), without_time(&again.stdout), "{again}");
        assert_eq!(first.code, again.code, "{again}");
        assert!(!first.stdout.is_empty(), "{first}");
        rack.configure(&[("fake", fake(&[]))]);
    }
}

#[test]
fn a_server_of_one_time_and_one_that_is_not_configured_any_more_are_replayed() {
    let rack = Rack::new();
    let program = toolrack_testkit::fake_server_path().to_str().unwrap();
    let line = ["call", "echo", "text=once", "--", program, "stdio"];
    assert_eq!(rack.run(&[&["record", "tape.jsonl"][..], &line].concat()).ends_with(0).stdout, "once");
    let elsewhere = ["call", "echo", "text=once", "--", "/nonexistent/server"];
    assert_eq!(rack.run(&[&["replay", "tape.jsonl"][..], &elsewhere].concat()).ends_with(0).stdout, "once");
    assert_eq!(rack.run(&["replay", "tape.jsonl", "call", "once/echo", "text=once"]).ends_with(0).stdout, "once");
}

#[test]
fn a_turn_is_replayed_with_the_servers_that_the_program_adds_itself() {
    for name in ["fake", "artifacts"] {
        let rack = Rack::with(&[(name, fake(&[]))]);
        let echo = json!({ "name": format!("mcp__{name}__echo"), "input": { "text": "x" } });
        work_file(&rack, "script.json", &json!([{ "tool_calls": [echo] }, { "text": "all done" }]).to_string());
        let line = ["ask", "--model", "mock/script.json", "--allow", "*", "go"];
        let first = rack.run(&[&["record", "tape.jsonl"][..], &line].concat()).ends_with(0);
        let again = rack.run(&[&["replay", "tape.jsonl"][..], &line].concat()).ends_with(0);
        assert_eq!(first.stdout, again.stdout, "{again}");
        assert!(again.stderr.contains("echo text=x") && !again.stderr.contains("not connected"), "{again}");
    }
}

#[test]
fn a_call_that_was_not_recorded_has_its_own_error_code() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _ = rack.run(&["record", "tape.jsonl", "call", "fake/echo", "text=x"]).ends_with(0);
    let ran = rack.run(&["replay", "tape.jsonl", "call", "fake/add", "a=1", "b=2", "--json"]).ends_with(4);
    let error = ran.error();
    assert_eq!(error["code"], "NOT_RECORDED", "{ran}");
    assert_eq!(error["server"], "fake", "{ran}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("tools/call of `add`") && message.contains("tape.jsonl"), "{ran}");
}

#[test]
fn a_recording_is_for_its_owner_and_replaces_an_older_file() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let file = work_file(&rack, "tape.jsonl", "older");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _ = rack.run(&["record", "tape.jsonl", "call", "fake/echo", "text=x"]).ends_with(0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(recorded(&rack).starts_with("{\"toolrack_recording\":1"));
    assert!(recorded(&rack).lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn a_recording_that_is_too_large_is_not_written_and_the_result_is_shown() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let line = ["record", "tape.jsonl", "--max-size", "1KiB", "--json", "call", "fake/echo", "text=x"];
    let ran = rack.run(&line).ends_with(1);
    assert_eq!(ran.error()["code"], "RECORDING_TOO_LARGE", "{ran}");
    assert_eq!(ran.json()["text"], "x", "{ran}");
    assert!(!rack.home.work().join("tape.jsonl").exists());
}

#[test]
fn a_pipe_is_not_replaced_by_a_recording() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let pipe = rack.home.work().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ran = rack.run(&["record", "pipe", "call", "fake/echo", "text=x"]).ends_with(1);
    assert!(ran.stderr.contains("cannot write pipe"), "{ran}");
    assert!(!std::fs::metadata(&pipe).unwrap().is_file());
}

#[test]
fn secrets_are_neither_in_a_recording_nor_in_the_messages_of_vv() {
    let mut entry = fake(&[]);
    entry["env"] = json!({ "API_TOKEN": "correct-horse-battery" });
    let rack = Rack::with(&[("fake", entry.clone())]);
    let line = ["call", "fake/env", "name=API_TOKEN"];
    let ran = rack.run(&[&["-vv", "record", "tape.jsonl"][..], &line].concat()).ends_with(0);
    let output = format!("{}{}", ran.stderr, recorded(&rack));
    assert!(output.contains("***") && !output.contains("correct-horse"), "{output}");
    // An argument that holds it is found again, because it is hidden in the same way.
    let line = ["call", "fake/echo", "text=correct-horse-battery"];
    let _ = rack.run(&[&["record", "tape.jsonl"][..], &line].concat()).ends_with(0);
    entry["command"] = json!("/nonexistent/server");
    rack.configure(&[("fake", entry)]);
    let ran = rack.run(&[&["replay", "tape.jsonl"][..], &line].concat()).ends_with(0);
    assert_eq!(ran.stdout, "***", "{ran}");
}

#[test]
fn a_replay_needs_no_trust_and_no_values_because_nothing_runs() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _ = rack.run(&["record", "tape.jsonl", "call", "fake/echo", "text=x"]).ends_with(0);
    rack.configure(&[]);
    let entry = json!({ "command": "/nonexistent/${NO_SUCH_VARIABLE}" });
    work_file(&rack, ".mcp.json", &crate::rack::mcp_json(&[("fake", entry)]));
    assert_eq!(rack.run(&["call", "fake/echo", "text=x"]).code, Some(7));
    assert_eq!(rack.run(&["replay", "tape.jsonl", "call", "fake/echo", "text=x"]).ends_with(0).stdout, "x");
    assert_eq!(rack.run(&["call", "fake/echo", "text=x"]).code, Some(7), "a replay does not trust the server");
}

#[test]
fn only_commands_that_use_servers_are_recorded() {
    let rack = Rack::new();
    for line in [&["record", "f", "serve"][..], &["record", "f", "record", "g", "tools"], &["replay", "f", "get", "x"]]
    {
        let ran = rack.run(line).ends_with(2);
        assert!(ran.stderr.contains("take a command that uses servers"), "{ran}");
    }
    let ran = rack.run(&["record", "f", "tolos"]).ends_with(2);
    assert!(ran.stderr.contains("tools"), "{ran}");
}

#[test]
fn a_file_that_is_not_a_recording_is_refused_first() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    work_file(&rack, "other.jsonl", "{\"hello\": 1}\n");
    for (file, why) in [("other.jsonl", "line 1: this is not a recording"), ("none.jsonl", "no such file")] {
        let ran = rack.run(&["replay", file, "--json", "tools"]).ends_with(2);
        assert_eq!(ran.error()["code"], "BAD_RECORDING", "{ran}");
        assert!(ran.error()["message"].as_str().unwrap().contains(why), "{ran}");
    }
    let ran = rack.run(&["record", "none/tape.jsonl", "tools"]).ends_with(1);
    assert!(ran.stderr.contains("cannot write none/tape.jsonl"), "{ran}");
}

#[test]
fn vv_shows_the_messages_of_each_server_with_direction_and_time_and_v_does_not() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let line = ["call", "fake/echo", "text=\u{1b}[31mred"];
    let ran = rack.run(&[&["-vv"][..], &line].concat()).ends_with(0);
    let line_with = |arrow: &str, word: &str| {
        let line = ran.stderr.lines().find(|line| line.contains(&format!(" {arrow} fake ")) && line.contains(word));
        line.unwrap_or_else(|| panic!("{arrow} {word}: {ran}")).to_owned()
    };
    let request = line_with("->", "tools/call");
    assert!(request.as_bytes()[2] == b':' && request.as_bytes()[8] == b'.', "{request}");
    let response = line_with("<-", "\"content\"");
    assert!(!response.contains('\u{1b}') && response.contains("red"), "{response}");
    let ran = rack.run(&[&["-v"][..], &line].concat()).ends_with(0);
    assert!(!ran.stderr.contains("jsonrpc"), "{ran}");
}
