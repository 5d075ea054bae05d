//! Defects of other programs that Toolrack must not have.
//!
//! [`catalogue`] lists the defects of other hosts and command lines, each with the test that shows Toolrack right; the
//! tests below are those that had no better place.

mod catalogue;

use std::time::{Duration, Instant};

use serde_json::json;
use toolrack_testkit::{FakeHttp, processes};

use crate::rack::{Rack, fake, mcp_json, work_file};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn json_output_hides_the_same_values_as_the_page() {
    let server = json!({
        "command": "/nonexistent/server", "args": ["--token=canary", "--api-key", "canary"], "env": { "A": "canary" },
    });
    let web = json!({ "url": "http://ada:canary@127.0.0.1:9/?key=canary", "headers": { "X": "canary" } });
    let rack = Rack::with(&[("fs", server.clone()), ("web", web)]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", server)]));
    for words in [
        ["list"].as_slice(),
        &["get", "fs"],
        &["get", "web"],
        &["get", "theirs"],
        &["config", "show"],
        &["config", "validate"],
        &["test", "fs", "web"],
        &["why", "web/x"],
        &["doctor"],
        &["disable", "fs", "--dry-run"],
        &["remove", "fs", "--dry-run"],
    ] {
        for options in [[].as_slice(), &["--json"]] {
            let ran = rack.run(&[options, words].concat());
            assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{ran}");
        }
    }
}

#[test]
fn an_unknown_name_fails_every_command_without_a_trace() {
    let rack = Rack::with(&[("everything", fake(&[]))]);
    for (words, code) in [
        (["get", "everythin"].as_slice(), 2),
        (&["remove", "everythin"], 2),
        (&["enable", "everythin"], 2),
        (&["disable", "everythin"], 2),
        (&["list", "everythin"], 2),
        (&["tools", "everythin"], 2),
        (&["resources", "everythin"], 2),
        (&["prompts", "everythin"], 2),
        (&["test", "everythin"], 2),
        (&["logs", "everythin"], 2),
        (&["pending", "everythin"], 2),
        (&["trust", "everythin"], 2),
        (&["untrust", "everythin"], 2),
        (&["doctor", "everythin"], 2),
        (&["read", "everythin", "x://y"], 2),
        (&["prompt", "everythin/greet"], 2),
        (&["why", "everythin/echo"], 5),
        (&["call", "everythin/echo"], 5),
    ] {
        let ran = rack.run(words).ends_with(code);
        assert_eq!(ran.stdout, "", "{ran}");
        assert!(ran.stderr.contains("`everythin`") && ran.stderr.contains("did you mean `everything`?"), "{ran}");
        let lines: Vec<_> = ran.stderr.lines().collect();
        assert!(lines.len() == 2 && lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{ran}");

        let ran = rack.run(&[&["--json"], words].concat()).ends_with(code);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1), "{ran}");
        assert_eq!(ran.error()["code"], "UNKNOWN_SERVER", "{ran}");
        assert_eq!(ran.error()["server"], "everythin", "{ran}");
    }
}

#[test]
fn no_call_that_failed_ends_with_0() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    for (words, code, word) in [
        (["call", "fake/fail"].as_slice(), 5, "TOOL_ERROR"),
        (&["call", "fake/protocol_error"], 5, "RPC_ERROR"),
        (&["call", "fake/add", "a=1"], 2, "BAD_ARGUMENTS"),
        (&["call", "fake/nope"], 5, "UNKNOWN_TOOL"),
        (&["call", "nope.x"], 5, "UNKNOWN_TOOL"),
        (&["call", "nope/x"], 5, "UNKNOWN_SERVER"),
        (&["call", "x"], 5, "UNKNOWN_TOOL"),
        (&["call", ""], 5, "UNKNOWN_TOOL"),
    ] {
        let ran = rack.run(words).ends_with(code);
        assert!(ran.stderr.starts_with("error: ") && !ran.stderr.contains("backtrace"), "{ran}");
        let error = rack.run(&[words, &["--json"]].concat()).ends_with(code).error();
        assert_eq!(error["code"], word, "{ran}");
        // The server's own error is shown only to programs.
        assert_eq!(error["rpc"]["code"], if word == "RPC_ERROR" { json!(-32603) } else { json!(null) }, "{ran}");
    }
}

#[test]
fn a_result_comes_in_an_envelope() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let result = rack.run(&["call", "fake/add", "a=1", "b=2", "--json"]).ends_with(0).json();
    assert_eq!((&result["text"], &result["is_error"]), (&json!("3"), &json!(false)));
}

#[test]
fn two_dashes_end_the_options_of_every_command() {
    let rack = Rack::with(&[("fake", fake(&[])), ("--json", fake(&[]))]);
    assert_eq!(rack.run(&["call", "fake/echo", "--", "text=--json"]).ends_with(0).stdout, "--json");
    assert!(rack.run(&["tools", "--", "--json"]).ends_with(0).stdout.starts_with("--json ("));
    let _ = rack.run(&["get", "--", "--json"]).ends_with(0);
    let _ = rack.run(&["add", "--no-test", "x", "--", "y", "--", "--json"]).ends_with(0);
    assert!(rack.home.read("toolrack/mcp.json").contains(r#"["--", "--json"]"#));
}

#[test]
fn a_server_without_the_optional_stream_works() {
    // Servers that send nothing unasked may do this; some use the wrong status for it.
    for status in ["405", "404", "400", "500"] {
        let server = FakeHttp::start(&["--fault", &format!("refuse-stream={status}")]);
        let rack = Rack::with(&[("web", json!({ "url": server.url() }))]);
        assert_eq!(rack.run(&["call", "web/echo", "text=x"]).ends_with(0).stdout, "x", "{status}");
    }
}

#[test]
fn no_command_leaves_a_process() {
    let stubborn = ["--fault", "grandchild=setsid+ignore-term", "--fault", "ignore-eof"];
    let never = json!({
        "command": toolrack_testkit::fake_server_path(), "startup_timeout": 0.5,
        "args": ["stdio", "--fault", "never-start", "--fault", "grandchild=setsid+ignore-term"],
    });
    let rack = Rack::with(&[("stubborn", fake(&stubborn)), ("never", never)]);
    let home = rack.home.home();
    for (words, code) in [
        (["list"].as_slice(), 0),
        (&["call", "never/echo"], 4),
        (&["call", "stubborn/sleep", "ms=60000", "--timeout", "100ms"], 4),
    ] {
        let ran = rack.run(words).ends_with(code);
        let left = processes::with_env("HOME", home.to_str().unwrap());
        assert!(processes::wait_all_gone(&left, LIMIT), "{left:?} are left by {ran}");
    }
}

#[test]
fn arguments_reach_a_server_as_they_are_written() {
    let rack = Rack::new();
    let written = rack.home.root().join("written");
    let script = "printf '%s\\n' \"$@\" > \"$0\"";
    let odd = ["a b", "*", "`id`", "$(id)", "$HOME", "a\"b", "'", "\\", "", "-n", "&&", "é木", "%PATH%", "${A%x}"];
    let args: Vec<_> = ["-c", script, written.to_str().unwrap()].into_iter().chain(odd).collect();
    rack.configure(&[("shell", json!({ "command": "sh", "args": args }))]);
    let _ = rack.run(&["tools", "shell"]).ends_with(4);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), odd.map(|arg| format!("{arg}\n")).concat());

    // The same through `add`, which writes an entry.
    let rack = Rack::new();
    let written = rack.home.root().join("written");
    let args = [["add", "shell", "--", "sh", "-c", script, written.to_str().unwrap()].as_slice(), &odd].concat();
    let _ = rack.run(&args).ends_with(4);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), odd.map(|arg| format!("{arg}\n")).concat());
}

#[test]
fn a_time_limit_of_an_entry_counts_below_a_second_too() {
    let with = |field: &str, value: f64, options: &[&str]| {
        let mut server = fake(options);
        server[field] = json!(value);
        server
    };
    let rack = Rack::with(&[
        ("call", with("call_timeout", 0.2, &[])),
        ("start", with("startup_timeout", 0.3, &["--fault", "never-start"])),
    ]);
    for (words, told) in [(["call", "call/sleep", "ms=60000"].as_slice(), "200 ms"), (&["tools", "start"], "300 ms")] {
        let started = Instant::now();
        let ran = rack.run(words).ends_with(4);
        assert!(ran.stderr.contains(told), "{ran}");
        assert!(started.elapsed() < LIMIT);
    }
}

#[test]
fn one_command_with_two_environments_is_two_servers() {
    let with = |account: &str| {
        let mut server = fake(&[]);
        server["env"] = json!({ "ACCOUNT": account });
        server
    };
    let rack = Rack::with(&[("one", with("ada")), ("two", with("bob"))]);
    assert_eq!(rack.run(&["call", "one/env", "name=ACCOUNT"]).ends_with(0).stdout, "\"ada\"");
    assert_eq!(rack.run(&["call", "two/env", "name=ACCOUNT"]).ends_with(0).stdout, "\"bob\"");
    let servers = rack.run(&["list", "--json"]).ends_with(0).json();
    assert_eq!(servers["servers"].as_array().unwrap().len(), 3);
}

#[test]
fn a_hidden_tool_cannot_be_called_with_any_option() {
    let mut server = fake(&[]);
    server["tools"] = json!({ "deny": ["write", "add"] });
    let rack = Rack::with(&[("fake", server)]);
    let shown = rack.run(&["tools", "fake"]).ends_with(0).stdout;
    assert!(!shown.contains("  add(") && !shown.contains("  write("), "{shown}");
    for words in [
        ["call", "fake/add", "a=1", "b=2"].as_slice(),
        &["call", "fake.add", "--no-validate"],
        &["call", "mcp__fake__add", "--args", "{}"],
        &["call", "fake/add", "--no-input", "--timeout", "1s"],
    ] {
        let error = rack.run(&[&["--json"], words].concat()).ends_with(5).error();
        assert_eq!(error["code"], "UNKNOWN_TOOL", "{words:?}");
    }
}
