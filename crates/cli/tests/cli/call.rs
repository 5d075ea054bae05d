//! `toolrack call` against servers of every temper.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::{FakeHttp, SideEffects};

use crate::rack::{Rack, fake, mcp_json, work_file};

fn rack() -> Rack {
    Rack::with(&[("fake", fake(&["--era", "both"]))])
}

#[test]
fn words_become_what_the_schema_wants() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "b=2.5"]), @"");
    assert_snapshot!(rack.run(&["call", "fake.echo", "text=5"]), @"");
    assert_snapshot!(rack.run(&["call", "mcp__fake__echo", "text:=\"a b\""]), @"");
}

#[test]
fn arguments_come_as_json_from_the_line_a_file_or_stdin() {
    let rack = rack();
    work_file(&rack, "args.json", r#"{ "a": 1, "b": 2 }"#);
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", r#"{"a":1,"b":2}"#]), @"");
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "@args.json", "b=9"]), @"");
    assert_snapshot!(rack.run_with_stdin(&["call", "fake/add", "--args", "-"], r#"{"a":3,"b":4}"#), @"");
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "@nope.json"]), @"");
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "[1]"]), @"");
}

#[test]
fn arguments_that_do_not_fit_are_refused_before_anything_is_sent() {
    let effects = SideEffects::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "b=two"]), @"");
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "c=2"]), @"");
    assert_snapshot!(rack.run(&["call", "fake/add", "a"]), @"");
    assert_eq!(effects.read().lines.len(), 0);
    let sent = rack.run(&["call", "fake/add", "a=1", "--no-validate"]);
    assert_snapshot!(sent, @"");
    assert_eq!(effects.read().runs_of("add"), 1);
}

#[test]
fn a_result_for_programs_has_every_documented_field() {
    assert_snapshot!(rack().run(&["call", "fake/structured", "--json"]), @"");
}

#[test]
fn what_is_no_text_is_described() {
    assert_snapshot!(rack().run(&["call", "fake/image"]), @"");
}

#[test]
fn an_error_of_the_tool_is_a_result_and_ends_with_5() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/fail", "message=no luck"]), @"");
    assert_snapshot!(rack.run(&["call", "fake/fail", "message=no luck", "--json"]), @"");
    assert_snapshot!(rack.run(&["call", "fake/protocol_error", "message=refused"]), @"");
}

#[test]
fn an_unknown_name_gets_a_suggestion_and_ends_with_5() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/ecko", "text=x"]), @"");
    assert_snapshot!(rack.run(&["call", "faek/echo", "text=x"]), @"");
    assert_snapshot!(rack.run(&["call", "postgres/query"]), @"");
    assert_snapshot!(rack.run(&["--json", "call", "fake/ecko"]), @"");
}

#[test]
fn a_server_that_cannot_be_reached_ends_with_4() {
    let rack = Rack::with(&[
        ("gone", json!({ "url": "http://127.0.0.1:9/mcp" })),
        ("missing", json!({ "command": "/nonexistent/server" })),
        ("dies", fake(&["--fault", "exit-at-start=3"])),
    ]);
    for server in ["gone", "missing", "dies"] {
        let error = rack.run(&["--json", "call", &format!("{server}/x")]).ends_with(4).error();
        assert_eq!(error["server"], server, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(server) && message.contains("mcp.json"), "{message}");
    }
}

#[test]
fn a_server_that_dies_or_stalls_during_the_call_ends_with_4() {
    let rack = rack();
    let died = rack.run(&["call", "fake/crash", "code=3"]).ends_with(4);
    assert!(died.stderr.contains("exit status 3"), "{died}");
    let stalled = rack.run(&["call", "fake/sleep", "ms=60000", "--timeout", "200ms"]).ends_with(4);
    assert!(stalled.stderr.contains("200 ms"), "{stalled}");
}

#[test]
fn a_server_that_wants_a_sign_in_ends_with_3() {
    let server = FakeHttp::start(&["--fault", "http-401=Bearer"]);
    let rack = Rack::with(&[("locked", json!({ "url": server.url() }))]);
    let error = rack.run(&["--json", "call", "locked/x"]).ends_with(3).error();
    assert_eq!(error["code"], "AUTH_REQUIRED");
}

#[test]
fn what_a_project_brings_is_not_started_and_ends_with_7() {
    let effects = SideEffects::new();
    let rack = Rack::new();
    let server = fake(&["--log", effects.path_str(), "--log-all"]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", server)]));
    assert_snapshot!(rack.run(&["call", "theirs/echo", "text=x"]), @"");
    assert_snapshot!(rack.run(&["list"]), @"");
    let _ = rack.run(&["tools", "theirs"]).ends_with(7);
    assert_eq!(effects.read().lines.len(), 0, "it was started");
}

#[test]
fn only_the_server_that_is_named_is_started() {
    let effects = SideEffects::new();
    let other = fake(&["--log", effects.path_str(), "--log-all"]);
    let rack = Rack::with(&[("fake", fake(&[])), ("other", other)]);
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let _ = rack.run(&["tools", "fake"]).ends_with(0);
    let _ = rack.run(&["read", "fake", "fake://note"]).ends_with(0);
    assert_eq!(effects.read().lines.len(), 0, "the other server was started");
}

#[test]
fn text_of_a_server_is_shown_and_never_obeyed() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "escape-text"]))]);
    for args in [
        ["call", "fake/echo", "text=x"].as_slice(),
        &["call", "fake/echo", "text=x", "--json"],
        &["call", "fake/fail"],
        &["call", "fake/protocol_error"],
        &["tools"],
        &["tools", "--json"],
    ] {
        let ran = rack.run(args);
        for text in [&ran.stdout, &ran.stderr] {
            let obeyed = |c: char| {
                c.is_control() && c != '\n' || matches!(c, '\u{200b}'..='\u{202e}' | '\u{e0000}'..='\u{e007f}')
            };
            assert!(!text.contains(obeyed), "{text:?}");
        }
    }
}

#[test]
fn a_result_that_is_too_long_is_kept_whole() {
    let rack = rack();
    let ran = rack.run(&["--json", "call", "fake/big", "bytes=300000"]).ends_with(0).json();
    assert_eq!(ran["truncated"], true);
    let handle = ran["artifacts"][0]["handle"].as_str().unwrap().replace("[HOME]", rack.home.root().to_str().unwrap());
    assert_eq!(std::fs::metadata(handle).unwrap().len(), 300_000);
    let shown = rack.run(&["call", "fake/big", "bytes=300000"]).ends_with(0);
    assert_eq!(shown.stderr.lines().count(), 1, "{}", shown.stderr);
}

#[test]
fn nobody_is_asked_where_there_is_no_terminal() {
    let effects = SideEffects::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    let ran = rack.run_with_stdin(&["call", "fake/elicit"], "y\ny\ny\n").ends_with(5);
    assert!(!ran.stderr.contains("asks"), "{ran}");
    assert_eq!(effects.read().runs_of("elicit"), 0);
}

#[test]
fn folders_are_named_to_a_server_only_when_the_person_says_so() {
    let rack = rack();
    let _ = rack.run(&["call", "fake/roots"]).ends_with(5);
    assert_snapshot!(rack.run(&["call", "fake/roots", "--root", "."]), @"");
    assert_snapshot!(rack.run(&["call", "fake/roots", "--root", "nope"]), @"");
}

#[test]
fn a_call_of_a_slow_server_does_not_wait_for_its_neighbours() {
    let slow = fake(&["--start-delay-ms", "60000"]);
    let rack = Rack::with(&[("fake", fake(&[])), ("slow", slow)]);
    let started = std::time::Instant::now();
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    assert!(started.elapsed() < Duration::from_secs(20));
}
