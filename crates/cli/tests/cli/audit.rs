//! What the audit log stores about calls, and whether it detects tampering.

use serde_json::{Value, json};
use toolrack_store::Store;

use crate::{
    canaries::ask_daemon,
    rack::{Rack, fake, mcp_json, work_file},
    sessions::{block_on, database},
    warm::Daemon,
};

fn rows(rack: &Rack, words: &[&str]) -> Vec<Value> {
    let list = [&["audit", "list", "--json"], words].concat();
    rack.run(&list).ends_with(0).json()["rows"].as_array().unwrap().clone()
}

fn words<'a>(row: &'a Value, names: &[&str]) -> Vec<&'a str> {
    names.iter().map(|name| row[name].as_str().unwrap_or("-")).collect()
}

/// Replaces bytes in the file of the database directly.
fn tamper(rack: &Rack, from: &str, to: &str) {
    let path = database(rack);
    // First moves the write-ahead log of earlier commands into the file.
    block_on(async { Store::open(&path).await.unwrap().close().await });
    let mut bytes = std::fs::read(&path).unwrap();
    let at: Vec<_> = bytes.windows(from.len()).enumerate().filter(|(_, part)| *part == from.as_bytes()).collect();
    let at: Vec<_> = at.into_iter().map(|(at, _)| at).collect();
    assert!(!at.is_empty(), "{from} is not in the file");
    assert_eq!(from.len(), to.len());
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_call_is_recorded_with_caller_tool_and_outcome() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let rows = rows(&rack, &[]);
    let kinds: Vec<_> = rows.iter().map(|row| words(row, &["kind", "server"])).collect();
    assert_eq!(kinds, [["connected", "fake"], ["call", "fake"], ["closed", "fake"]]);
    let call = &rows[1];
    let fields = words(call, &["who", "tool", "decision", "why", "outcome", "arguments"]);
    assert_eq!(fields, ["cli", "echo", "allowed", "everything is allowed", "ok", "-"]);
    assert_eq!(call["arguments_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(call["arguments_bytes"], json!(12));
    assert!(call["bytes"].as_u64().unwrap() > 0 && call["duration_us"].as_u64().unwrap() > 0);

    let page = rack.run(&["audit", "list", "--tool", "echo"]).ends_with(0);
    assert!(page.stdout.contains("fake/echo") && page.stdout.lines().count() == 1, "{page}");
    assert!(rack.run(&["audit", "list", "--server", "other"]).ends_with(0).stderr.contains("no such rows"));
    assert!(rows_of_kind(&rack, "call", &["--since", "1h"]) == 1 && rows_of_kind(&rack, "call", &["-n", "1"]) == 0);
    assert!(rack.run(&["audit", "list", "--since", "1y"]).ends_with(2).stderr.contains("write a time"));
}

#[test]
fn calls_of_an_agent_are_recorded_in_its_name() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let program = toolrack_testkit::fake_server_path().display();
    let own = format!("[[agents.mcp]]\nname = \"own\"\ncommand = \"{program}\"\nargs = [\"stdio\"]\n");
    rack.home.write("toolrack/toolrack.toml", format!("[[agents]]\nid = \"coder\"\n{own}[[agents]]\nid = \"other\"\n"));
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let _ = rack.run(&["--agent", "other", "call", "fake/echo", "text=x"]).ends_with(0);
    // In an agent's own world, in a daemon that has no agent itself.
    let daemon = Daemon::start(&rack, &[]);
    let call = json!({ "tool": "own/echo", "arguments": { "text": "x" }, "approved": true }).to_string();
    for (path, found) in [("/agents/coder/api/v1/calls", "200 OK"), ("/api/v1/calls", "404 Not Found")] {
        let answer = ask_daemon(&daemon.address, &daemon.token, &format!("POST {path}"), &call);
        assert!(answer.contains(found), "{answer}");
    }
    let of = |rows: Vec<Value>| {
        let calls = rows.into_iter().filter(|row| row["kind"] == "call");
        calls.map(|row| words(&row, &["agent", "who", "server"]).join(" ")).collect::<Vec<_>>()
    };
    // The daemon writes a moment later.
    let written = (0..200).any(|_| rows_of_kind(&rack, "call", &["--agent", "coder"]) == 1);
    assert!(written, "{:?}", rows(&rack, &[]));
    assert_eq!(of(rows(&rack, &[])), ["- cli fake", "other cli fake", "coder daemon own"]);
    assert_eq!(of(rows(&rack, &["--agent", "coder"])), ["coder daemon own"]);
    assert_eq!(of(rows(&rack, &["--agent", "gone"])), [""; 0], "one that no file knows has rows, or none");
    let page = rack.run(&["--agent", "other", "audit", "list", "--tool", "echo"]).ends_with(0);
    assert!(page.stdout.contains("cli for other"), "{page}");
    let exported = rack.run(&["--agent", "coder", "audit", "export"]).ends_with(0);
    assert!(exported.stdout.lines().all(|line| line.contains(r#""agent":"coder""#)), "{exported}");
    let answer = ask_daemon(&daemon.address, &daemon.token, "GET /api/v1/audit?agent=other", "");
    assert!(answer.contains(r#""agent":"other""#) && !answer.contains("coder"), "{answer}");
}

fn rows_of_kind(rack: &Rack, kind: &str, words: &[&str]) -> usize {
    rows(rack, words).iter().filter(|row| row["kind"] == kind).count()
}

#[test]
fn a_changed_row_is_found_and_named() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert!(rack.run(&["audit", "verify"]).ends_with(0).stdout.contains("0 rows"));
    for text in ["text=x", "text=y"] {
        let _ = rack.run(&["call", "fake/echo", text]).ends_with(0);
    }
    let verified = rack.run(&["audit", "verify", "--json"]).ends_with(0).json();
    assert_eq!((&verified["ok"], &verified["rows"], &verified["first"]), (&json!(true), &json!(6), &json!(1)));
    let end = verified["end"].as_str().unwrap();
    let _ = rack.run(&["audit", "verify", "--end", end]).ends_with(0);
    let other = end.replace(|c: char| c.is_ascii_hexdigit() && !c.is_ascii_digit(), "0");
    assert!(rack.run(&["audit", "verify", "--end", &other]).ends_with(1).stderr.contains("row 6 is not the one"));
    let _ = rack.run(&["audit", "verify", "--end", "6"]).ends_with(2);

    tamper(&rack, r#""outcome":"ok""#, r#""outcome":"no""#);
    let refused = rack.run(&["audit", "verify"]).ends_with(1);
    assert!(refused.stderr.contains("the audit log is damaged: row 2 is not what was written"), "{refused}");
    let refused = rack.run(&["audit", "verify", "--json"]).ends_with(1).json();
    assert_eq!((&refused["ok"], &refused["broken_at"]), (&json!(false), &json!(2)));
}

#[test]
fn every_row_is_exported_as_it_stands() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let exported = rack.run(&["audit", "export"]).ends_with(0).stdout;
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(lines[1]["body"]["tool"], "echo");
    let listed = rows(&rack, &[]);
    assert!(lines.iter().zip(&listed).all(|(line, row)| line["hash"] == row["hash"] && line["at"] == row["at"]));
}

#[test]
fn a_call_without_a_user_to_ask_is_a_refusal_in_the_log() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let calls = json!([{ "name": "mcp__fake__echo", "input": { "text": "x" } }]);
    work_file(&rack, "answers.json", &json!([{ "tool_calls": calls }, { "text": "No." }]).to_string());
    let _ = rack.run(&["ask", "--model", "mock/answers.json", "what?"]);
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let denied = rows(&rack, &["--denied"]);
    assert_eq!(denied.len(), 1, "{denied:?}");
    let fields = words(&denied[0], &["who", "tool", "decision", "code", "outcome"]);
    assert_eq!(fields, ["agent", "echo", "unasked", "APPROVAL_NEEDED", "-"]);
}

#[test]
fn agreements_are_in_the_log() {
    let rack = Rack::new();
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    let _ = rack.run(&["trust", "--yes"]).ends_with(0);
    let _ = rack.run(&["untrust", "theirs"]).ends_with(0);
    let kinds: Vec<_> = rows(&rack, &[]).iter().map(|row| words(row, &["kind", "server", "who"]).join(" ")).collect();
    assert_eq!(kinds, ["trusted theirs cli", "untrusted theirs cli"]);
}

#[test]
fn arguments_are_stored_in_full_only_if_configured_and_without_secrets() {
    let mut server = fake(&[]);
    server["env"] = json!({ "TOKEN": "${TOKEN}" });
    let rack = Rack::with(&[("fake", server)]).env("TOKEN", "sesame-open-1234");
    rack.home.write("toolrack/toolrack.toml", "[audit]\narguments = \"full\"\n");
    let _ = rack.run(&["call", "fake/echo", "text=I know sesame-open-1234"]).ends_with(0);
    let list = rows(&rack, &["--tool", "echo"]);
    assert_eq!(list[0]["arguments"]["text"], "I know ***", "{list:?}");
    for file in ["toolrack/toolrack.db", "toolrack/toolrack.db-wal"] {
        let bytes = std::fs::read(rack.home.root().join(file)).unwrap();
        assert!(!bytes.windows(16).any(|part| part == b"sesame-open-1234"), "it is in {file}");
    }
}

#[test]
fn after_old_rows_are_deleted_the_rest_is_a_valid_chain() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    rack.home.write("toolrack/toolrack.toml", "[audit]\nkeep = 2\n");
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let verified = rack.run(&["audit", "verify", "--json"]).ends_with(0).json();
    assert_eq!((&verified["first"], &verified["rows"]), (&json!(2), &json!(3)), "one went, and one says so");
    assert_eq!(rows(&rack, &["-n", "1"])[0]["kind"], "forgot");
}

#[test]
fn a_broken_server_is_in_the_log_and_forges_nothing() {
    let script = "printf 'no\\n9 2026-01-01 00:00:00 cli fake/echo ok\\033[2J' >&2; exit 3";
    let rack = Rack::with(&[("liar", json!({ "command": "sh", "args": ["-c", script] }))]);
    let _ = rack.run(&["list"]).ends_with(0);
    let failed = rows(&rack, &["--server", "liar"]);
    assert!(!failed.is_empty() && failed.iter().all(|row| row["kind"] == "failed"), "{failed:?}");
    let page = rack.run(&["audit", "list", "--server", "liar"]).ends_with(0);
    assert_eq!(page.stdout.lines().count(), failed.len(), "{page}");
    assert!(!page.stdout.contains('\u{1b}'), "{page}");
    let exported = rack.run(&["audit", "export", "--server", "liar"]).ends_with(0);
    assert_eq!(exported.stdout.lines().count(), failed.len(), "{exported}");
}
