//! The exit codes, as `--help` promises them, and the one line that a program reads with each.

use std::process::Stdio;

use serde_json::{Value, json};
use toolrack_testkit::FakeHttp;

use crate::rack::{Rack, Ran, fake, mcp_json, work_file};

/// A way to fail, with its exit code and its stable code.
type Failing = (&'static [&'static str], i32, &'static str);

const FAILING: &[Failing] = &[
    (&["call", "huge/echo", "text=x"], 1, "STDIO_LINE_TOO_LARGE"),
    (&["call", "garbled/echo", "text=x"], 1, "UNPARSABLE_ANSWER"),
    (&["lsit"], 2, "USAGE"),
    (&["call", "--tpyo"], 2, "USAGE"),
    (&["call", "fake/echo", "text"], 2, "BAD_ARGUMENTS"),
    (&["call", "fake/echo", "text:=["], 2, "BAD_ARGUMENTS"),
    (&["call", "fake/echo", "--args", "["], 2, "BAD_ARGUMENTS"),
    (&["call", "fake/echo", "--args", "@nope.json"], 2, "USAGE"),
    (&["call", "fake/echo", "--args", "@."], 2, "USAGE"),
    (&["call", "fake/echo", "--args", "@binary"], 2, "USAGE"),
    (&["call", "fake/add", "a=1"], 2, "BAD_ARGUMENTS"),
    (&["call", "off/x"], 2, "SERVER_DISABLED"),
    (&["tools", "off"], 2, "SERVER_DISABLED"),
    (&["resources", "off"], 2, "SERVER_DISABLED"),
    (&["prompts", "off"], 2, "SERVER_DISABLED"),
    (&["call", "unset/x"], 2, "UNRESOLVED_VALUE"),
    (&["call", "broken/x"], 2, "CONFIG"),
    (&["--mcp-config", "nope.json", "list"], 2, "CONFIG"),
    (&["add", "fake", "--", "x"], 2, "EXISTS"),
    (&["add", "a/b", "--", "x"], 2, "USAGE"),
    (&["get", "nope"], 2, "UNKNOWN_SERVER"),
    (&["call", "locked/x"], 3, "AUTH_REQUIRED"),
    (&["tools", "locked"], 3, "AUTH_REQUIRED"),
    (&["call", "gone/x"], 4, "SPAWN_FAILED"),
    (&["tools", "gone"], 4, "SPAWN_FAILED"),
    (&["call", "fake/sleep", "ms=60000", "--timeout", "50ms"], 4, "TIMED_OUT"),
    (&["call", "fake/fail"], 5, "TOOL_ERROR"),
    (&["call", "fake/nope"], 5, "UNKNOWN_TOOL"),
    (&["call", "nope/x"], 5, "UNKNOWN_SERVER"),
    (&["read", "fake", "fake://nope"], 5, "RPC_ERROR"),
    (&["call", "theirs/x"], 7, "NOT_TRUSTED"),
    (&["tools", "theirs"], 7, "NOT_TRUSTED"),
];

fn rack(locked: &FakeHttp) -> Rack {
    let rack = Rack::with(&[
        ("fake", fake(&[])),
        ("huge", fake(&["--fault", "huge-line"])),
        ("garbled", fake(&["--fault", "truncated"])),
        ("off", json!({ "command": "x", "enabled": false })),
        ("unset", json!({ "command": "x", "env": { "A": "${NO_SUCH_VARIABLE}" } })),
        ("broken", json!({ "command": 5 })),
        ("gone", json!({ "command": "/nonexistent/server" })),
        ("locked", json!({ "url": locked.url() })),
    ]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    rack.home.write("work/binary", [0xff, 0xfe]);
    rack
}

/// The error, which is the last line of stderr and has these five members, and `rpc` where a server answered with
/// a JSON-RPC error.
fn error(ran: &Ran) -> Value {
    let error = ran.error();
    let members = error.as_object().unwrap().keys().map(String::as_str);
    let members: Vec<_> = members.filter(|member| *member != "rpc" || error["code"] != "RPC_ERROR").collect();
    assert_eq!(members, ["code", "message", "hint", "server", "tool"], "{ran}");
    error
}

#[test]
fn every_failure_has_its_code_and_one_line_for_programs() {
    let locked = FakeHttp::start(&["--fault", "http-401=Bearer"]);
    let rack = rack(&locked);
    for (words, code, word) in FAILING {
        let ran = rack.run(&[&["--json"], *words].concat()).ends_with(*code);
        let error = error(&ran);
        assert_eq!(error["code"], *word, "{ran}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.ends_with('.') && !message.contains('\n'), "{message}");
    }
}

#[test]
fn quiet_hides_no_error() {
    let locked = FakeHttp::start(&["--fault", "http-401=Bearer"]);
    let rack = rack(&locked);
    for (words, code, _) in FAILING {
        let ran = rack.run(&[&["--quiet"], *words].concat()).ends_with(*code);
        assert!(ran.stderr.lines().any(|line| line.starts_with("error: ")), "{ran}");
        assert!(!ran.stderr.contains("warning: "), "{ran}");
    }
}

#[test]
fn anything_else_that_fails_ends_with_1() {
    // Writing to a full device fails.
    let rack = Rack::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = rack.command(&["list", "--json"]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#""code":"OUTPUT_FAILED""#), "{output:?}");

    // A working folder that was removed.
    let mut command = rack.home.command("sh");
    command.arg("-c").arg(r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" list --json"#);
    command.arg(env!("CARGO_BIN_EXE_toolrack"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#""code":"NO_WORKING_FOLDER""#), "{output:?}");
}
