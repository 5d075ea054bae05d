//! `toolrack call` against servers that behave well and badly.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::rack::{Rack, fake, mcp_json, work_file};

fn rack() -> Rack {
    Rack::with(&[("fake", fake(&["--era", "both"]))])
}

#[test]
fn typed_words_become_the_types_of_the_schema() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "b=2.5"]), @"
        $ toolrack call fake/add a=1 b=2.5
        3.5
        [0]
    ");
    assert_snapshot!(rack.run(&["call", "fake.echo", "text=5"]), @"
        $ toolrack call fake.echo text=5
        5
        [0]
    ");
    assert_snapshot!(rack.run(&["call", "mcp__fake__echo", "text:=\"a b\""]), @r#"
        $ toolrack call mcp__fake__echo text:="a b"
        a b
        [0]
    "#);
    for name in ["fake_echo", "mcp_fake__echo", "echo"] {
        assert_eq!(rack.run(&["call", name, "text=x"]).ends_with(0).stdout, "x", "{name}");
    }
}

#[test]
fn json_arguments_come_from_the_command_line_a_file_or_stdin() {
    let rack = rack();
    work_file(&rack, "args.json", r#"{ "a": 1, "b": 2 }"#);
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", r#"{"a":1,"b":2}"#]), @r#"
        $ toolrack call fake/add --args {"a":1,"b":2}
        3
        [0]
    "#);
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "@args.json", "b=9"]), @"
        $ toolrack call fake/add --args @args.json b=9
        10
        [0]
    ");
    assert_snapshot!(rack.run_with_stdin(&["call", "fake/add", "--args", "-"], r#"{"a":3,"b":4}"#), @"
        $ toolrack call fake/add --args -
        7
        [0]
    ");
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "@nope.json"]), @"
        $ toolrack call fake/add --args @nope.json
        --- stderr ---
        error: cannot read nope.json: there is no such file or folder
        [2]
    ");
    assert_snapshot!(rack.run(&["call", "fake/add", "--args", "[1]"]), @r#"
        $ toolrack call fake/add --args [1]
        --- stderr ---
        error: --args must be a JSON object, such as {"path": "."}
        [2]
    "#);
}

#[test]
fn arguments_that_do_not_fit_are_refused_before_anything_is_sent() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "b=two"]), @"
        $ toolrack call fake/add a=1 b=two
        --- stderr ---
        error: `b` must be a number, and `two` is not
        hint: `toolrack tools fake/add` shows what it takes
        [2]
    ");
    assert_snapshot!(rack.run(&["call", "fake/add", "a=1", "c=2"]), @"
        $ toolrack call fake/add a=1 c=2
        --- stderr ---
        warning: the tool names no argument `c`; did you mean `b`?
        error: the arguments do not fit the tool: `b` is missing (`c` is given)
        hint: `toolrack tools fake/add` shows what it takes
        [2]
    ");
    assert_snapshot!(rack.run(&["call", "fake/add", "a"]), @"
        $ toolrack call fake/add a
        --- stderr ---
        error: `a` is not an argument: write name=value, or name:=json
        [2]
    ");
    assert_eq!(effects.read().lines.len(), 0);
    let sent = rack.run(&["call", "fake/add", "a=1", "--no-validate"]);
    assert_snapshot!(sent, @"
        $ toolrack call fake/add a=1 --no-validate
        1
        [0]
    ");
    assert_eq!(effects.read().runs_of("add"), 1);
}

#[test]
fn a_result_for_programs_has_every_documented_field() {
    assert_snapshot!(rack().run(&["call", "fake/structured", "--json"]), @r#"
        $ toolrack call fake/structured --json
        {"server":"fake","tool":"structured","is_error":false,"text":"{\"label\":\"answer\",\"value\":42}","content":[{"type":"text","text":"{\"label\":\"answer\",\"value\":42}"}],"structured":{"label":"answer","value":42},"warnings":[],"truncated":false,"artifacts":[],"duration_ms":0}
        [0]
    "#);
}

#[test]
fn content_that_is_not_text_is_described() {
    assert_snapshot!(rack().run(&["call", "fake/image"]), @"
        $ toolrack call fake/image
        one of each
        [image image/png, 70 B]
        [audio audio/wav, 3 B]
        a note
        [resource application/octet-stream, 3 B]
        [link note fake://note]
        [0]
    ");
}

#[test]
fn an_error_of_the_tool_is_a_result_and_ends_with_5() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/fail", "message=no luck"]), @"
        $ toolrack call fake/fail message=no luck
        no luck
        --- stderr ---
        error: `fake/fail` reported an error
        [5]
    ");
    assert_snapshot!(rack.run(&["call", "fake/fail", "message=no luck", "--json"]), @r#"
        $ toolrack call fake/fail message=no luck --json
        {"server":"fake","tool":"fail","is_error":true,"text":"no luck","content":[{"type":"text","text":"no luck"}],"structured":null,"warnings":[],"truncated":false,"artifacts":[],"duration_ms":0}
        --- stderr ---
        {"error":{"code":"TOOL_ERROR","message":"`fake/fail` reported an error","hint":null,"server":"fake","tool":"fail"}}
        [5]
    "#);
    assert_snapshot!(rack.run(&["call", "fake/protocol_error", "message=refused"]), @"
        $ toolrack call fake/protocol_error message=refused
        --- stderr ---
        error: fake refused protocol_error: refused (error -32603)
        [5]
    ");
}

#[test]
fn an_unknown_name_gets_a_suggestion_and_ends_with_5() {
    let rack = rack();
    assert_snapshot!(rack.run(&["call", "fake/ecko", "text=x"]), @"
        $ toolrack call fake/ecko text=x
        --- stderr ---
        error: there is no tool `fake/ecko`
        hint: did you mean `fake/echo`?
        [5]
    ");
    assert_snapshot!(rack.run(&["call", "faek/echo", "text=x"]), @"
        $ toolrack call faek/echo text=x
        --- stderr ---
        error: there is no server `faek`
        hint: did you mean `fake`?
        [5]
    ");
    assert_snapshot!(rack.run(&["call", "postgres/query"]), @"
        $ toolrack call postgres/query
        --- stderr ---
        error: there is no server `postgres`
        hint: `toolrack list` shows all servers
        [5]
    ");
    assert_snapshot!(rack.run(&["--json", "call", "fake/ecko"]), @r#"
        $ toolrack --json call fake/ecko
        --- stderr ---
        {"error":{"code":"UNKNOWN_TOOL","message":"there is no tool `fake/ecko`","hint":"did you mean `fake/echo`?","server":"fake","tool":"ecko"}}
        [5]
    "#);
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
    assert!(stalled.stderr.contains("200 ms") && stalled.stderr.contains("`--timeout`"), "{stalled}");
}

#[test]
fn a_server_that_wants_a_sign_in_ends_with_3() {
    let server = FakeHttp::start(&["--fault", "http-401=Bearer"]);
    let rack = Rack::with(&[("locked", json!({ "url": server.url() }))]);
    let error = rack.run(&["--json", "call", "locked/x"]).ends_with(3).error();
    assert_eq!(error["code"], "AUTH_REQUIRED");
}

#[test]
fn an_untrusted_server_of_a_project_is_not_started_and_ends_with_7() {
    let effects = EffectLog::new();
    let rack = Rack::new();
    let server = fake(&["--log", effects.path_str(), "--log-all"]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", server)]));
    assert_snapshot!(rack.run(&["call", "theirs/echo", "text=x"]), @"
        $ toolrack call theirs/echo text=x
        --- stderr ---
        error: the server theirs ([HOME]/work/.mcp.json) is not connected: it is not trusted in this folder yet
        hint: `toolrack pending theirs` shows what it would run, `toolrack trust theirs` agrees to it
        [7]
    ");
    assert_snapshot!(rack.run(&["list"]), @"
        $ toolrack list
        + builtin  native  built in  connected (5 tools)
        = theirs   stdio   project   pending approval
        --- stderr ---
        `toolrack pending` shows what waits for you, `toolrack trust` agrees to it
        [0]
    ");
    let _ = rack.run(&["tools", "theirs"]).ends_with(7);
    assert_eq!(effects.read().lines.len(), 0, "it was started");
}

#[test]
fn only_the_server_that_is_named_is_started() {
    let effects = EffectLog::new();
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
        ["call", "fake/echo", "text=x", "--json"].as_slice(),
        &["call", "fake/fail"],
        &["call", "fake/protocol_error", "message=\u{1b}[31m"],
        &["tools"],
        &["tools", "--json"],
    ] {
        let ran = rack.run(args);
        for text in [&ran.stdout, &ran.stderr] {
            let is_obeyed = |c: char| {
                c.is_control() && c != '\n' || matches!(c, '\u{200b}'..='\u{202e}' | '\u{e0000}'..='\u{e007f}')
            };
            assert!(!text.contains(is_obeyed), "{text:?}");
        }
        // Only the visible characters of a tool's description are left.
        let shows = if args[0] == "tools" { "[31mred[0mtxt.exe" } else { r"\u" };
        assert!(format!("{ran}").contains(shows), "the fault is visible: {ran}");
    }
}

#[test]
fn a_very_long_description_is_cut_unless_full_is_given() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "long-description"]))]);
    let short = rack.run(&["tools", "fake/echo"]).ends_with(0).stdout;
    assert!(short.starts_with("fake/echo") && short.lines().count() < 24, "{short}");
    assert!(short.contains("more: `toolrack tools fake/echo --full` shows all of it"), "{short}");
    assert!(short.contains("Echoes, line 1.") && short.contains("text"), "{short}");
    let full = rack.run(&["tools", "fake/echo", "--full"]).ends_with(0).stdout;
    assert!(full.contains("Echoes, line 5000.") && !full.contains("shows all of it"));
    let json = rack.run(&["tools", "fake/echo", "--json"]).ends_with(0).json();
    assert!(json["tools"][0]["description"].as_str().unwrap().ends_with("line 5000.\n"));
    let all = rack.run(&["tools", "fake"]).ends_with(0).stdout;
    assert!(!all.contains("Echoes, line 2."), "{all}");
}

#[test]
fn a_result_is_never_cut_for_the_user_who_typed_the_call() {
    let rack = rack();
    let ran = rack.run(&["--json", "call", "fake/big", "bytes=300000"]).ends_with(0).json();
    assert_eq!((ran["truncated"].as_bool(), ran["text"].as_str().unwrap().len()), (Some(false), 300_000));
    let shown = rack.run(&["call", "fake/big", "bytes=300000"]).ends_with(0);
    assert_eq!((shown.stdout.len(), &*shown.stderr), (300_000, ""));
}

#[test]
fn the_user_is_not_asked_where_there_is_no_terminal() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    let ran = rack.run_with_stdin(&["call", "fake/elicit"], "y\ny\ny\n").ends_with(5);
    assert!(!ran.stderr.contains("asks"), "{ran}");
    assert_eq!(effects.read().runs_of("elicit"), 0);
}

#[test]
fn a_server_learns_of_folders_only_if_the_user_names_them() {
    let rack = rack();
    let _ = rack.run(&["call", "fake/roots"]).ends_with(5);
    assert_snapshot!(rack.run(&["call", "fake/roots", "--root", "."]), @r#"
        $ toolrack call fake/roots --root .
        {"roots":[{"uri":"file://[HOME]/work/","name":"work"}]}
        [0]
    "#);
    assert_snapshot!(rack.run(&["call", "fake/roots", "--root", "nope"]), @"
        $ toolrack call fake/roots --root nope
        --- stderr ---
        error: --root nope: there is no such file or folder
        hint: give a folder that exists
        [2]
    ");
}

#[test]
fn a_call_of_a_slow_server_does_not_wait_for_its_neighbours() {
    let slow = fake(&["--start-delay-ms", "60000"]);
    let rack = Rack::with(&[("fake", fake(&[])), ("slow", slow)]);
    let started = std::time::Instant::now();
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_result_that_breaks_the_output_schema_is_an_error_of_the_tool_where_its_entry_says_reject() {
    let broken = |setting: &str| {
        let mut entry = fake(&["--fault", "wrong-structured"]);
        entry["output_schema"] = setting.into();
        Rack::with(&[("fake", entry)])
    };
    let ran = broken("warn").run(&["call", "fake/structured", "label=x"]).ends_with(0);
    assert!(ran.stderr.contains("does not match the output schema"), "{ran}");
    let ran = broken("reject").run(&["call", "fake/structured", "label=x", "--json"]).ends_with(5);
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&outcome["is_error"], &outcome["structured"]), (&json!(true), &json!(null)));
    assert!(outcome["text"].as_str().unwrap().contains("does not match the output schema"), "{ran}");
    let ran = broken("maybe").run(&["config", "validate"]);
    assert!(ran.stderr.contains("`output_schema` must be `warn` or `reject`"), "{ran}");
}

#[test]
fn an_endless_schema_does_not_delay_a_call() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "expensive-schema=60"]))]);
    assert_snapshot!(rack.run(&["call", "fake/structured", "label=x"]), @r#"
        $ toolrack call fake/structured label=x
        {"label":"x","value":42}
        --- stderr ---
        warning: structured content was not checked against the output schema: the schema is nested deeper than 64 levels
        [0]
    "#);
    let tools = rack.run(&["tools", "fake"]).ends_with(0);
    assert!(tools.stdout.contains("structured(label?: "), "{tools}");
}

#[test]
fn a_call_of_an_unusable_tool_says_why_it_is_unusable() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "bad-tool"]))]);
    for name in ["fake/bad_schema", "bad_schema", "mcp__fake__bad_schema"] {
        let ran = rack.run(&["call", name]).ends_with(5);
        let start = "error: `bad_schema` on the server fake ([HOME]/toolrack/mcp.json) was set aside: ";
        assert!(ran.stderr.starts_with(start), "{ran}");
        assert!(ran.stderr.contains("hint: `toolrack why fake/bad_schema` says more"), "{ran}");
    }
    let ran = rack.run(&["call", "bad_schem"]).ends_with(5);
    assert!(ran.stderr.contains("there is no tool `bad_schem`"), "{ran}");
    let mut entry = fake(&[]);
    entry["max_schema_depth"] = json!(1);
    let ran = Rack::with(&[("fake", entry)]).run(&["call", "fake/add", "a=1", "b=2"]).ends_with(5);
    assert!(ran.stderr.contains("hint: raise `max_schema_depth` in [HOME]/toolrack/mcp.json"), "{ran}");
}

#[test]
fn calls_in_the_syntax_of_other_languages_are_understood_or_get_a_hint() {
    let rack = rack();
    assert_eq!(rack.run(&["call", "fake/add", r#"{"a":1,"b":2}"#]).ends_with(0).stdout, "3");
    assert_eq!(rack.run(&["call", "fake/add", r#"{"a":1}"#, "b=3"]).ends_with(0).stdout, "4");
    let hint = |words: &[&str]| {
        let error = rack.run(&[words, &["--json"]].concat()).error();
        error["hint"].as_str().unwrap_or_default().to_owned()
    };
    let add = "arguments come after the tool: toolrack call fake.add a=1 b=2";
    assert_eq!(hint(&["call", "fake.add(a: 1, b: 2)"]), add);
    assert_eq!(hint(&["call", "fake.add(a:", "1,", "b:", "2)"]), add);
    assert_eq!(hint(&["call", "fake/add", "a:1", "b=2"]), "did you mean `a=1`?");
    let broken = rack.run(&["call", "fake/add", r#"{"a":"#, "--json"]).ends_with(2).error();
    assert!(broken["message"].as_str().unwrap().contains("begins like a JSON object"), "{broken}");
}

#[test]
fn a_misnamed_argument_gets_an_error_with_the_right_name() {
    let rack = rack();
    let error = rack.run(&["call", "fake/echo", "txt=hi", "--json"]).ends_with(2).error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`text`") && message.contains("`txt`"), "{error}");
    assert_eq!(error["hint"], "`toolrack tools fake/echo` shows what it takes");
}
