//! One turn with a model: what reaches the model, the servers, stdout, stderr and the store.

use serde_json::{Value, json};
use toolrack_testkit::SideEffects;

use crate::{
    provider::{Provider, Said, Speech, assert_valid},
    rack::{Rack, Ran, fake, work_file},
};

/// A home with the server `fake`, and the log of what its tools did.
fn rack() -> (Rack, SideEffects) {
    let effects = SideEffects::new();
    (Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]), effects)
}

/// Asks a provider over a wire.
fn ask(rack: &Rack, provider: &Provider, wire: Speech, args: &[&str]) -> Ran {
    let url = provider.url();
    rack.run(&[&["ask", "--model", "m", "--base-url", &url, "--wire", wire.name()], args].concat())
}

/// Asks a model that answers from a script.
fn mock(rack: &Rack, script: &Value, args: &[&str]) -> Ran {
    work_file(rack, "script.json", &script.to_string());
    rack.run(&[&["ask", "--model", "mock/script.json"], args].concat())
}

fn call(name: &str, input: &Value) -> Value {
    json!({ "tool_calls": [{ "name": format!("mcp__fake__{name}"), "input": input }] })
}

fn add(a: i64, b: i64) -> Value {
    call("add", &json!({ "a": a, "b": b }))
}

fn results(conversation: &[Said]) -> Vec<&str> {
    let text = |said| if let &Said::Result { ref text, .. } = said { Some(text.as_str()) } else { None };
    conversation.iter().filter_map(text).collect()
}

/// Times become `0 ms`.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_suffix(" ms").and_then(|line| line.rsplit_once(' ')) {
        Some((before, _)) => format!("{before} 0 ms\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn a_call_reaches_its_server_and_its_result_the_model_over_every_wire() {
    for wire in Speech::ALL {
        let (rack, effects) = rack();
        let calls = [
            ("call_1", "mcp__fake__add", json!({ "a": 2, "b": 3 })),
            ("call_2", "mcp__fake__echo", json!({ "text": "hello" })),
        ];
        let provider = Provider::start([wire.calls(&calls), wire.says(&["It ", "is ", "5."])]);
        let ran = ask(&rack, &provider, wire, &["--allow", "fake/*", "What", "is 2 + 3?"]).ends_with(0);
        assert_eq!(ran.stdout, "It is 5.\n", "{ran}");
        let mut runs: Vec<_> = effects.read().runs().into_iter().map(|run| (run.tool, run.args)).collect();
        runs.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            runs,
            [("add".to_owned(), json!({ "a": 2, "b": 3 })), ("echo".to_owned(), json!({ "text": "hello" }))]
        );
        let asked = provider.asked();
        assert_eq!(asked.len(), 2, "{wire:?}");
        let conversation = wire.conversation(&asked[1].json());
        assert_valid(&conversation);
        assert_eq!(conversation[0], Said::User("What is 2 + 3?".to_owned()));
        assert_eq!(results(&conversation), ["[data from fake]\n5", "[data from fake]\nhello"]);
        assert_eq!(asked[0].json()["tools"], asked[1].json()["tools"], "the same tools in every round");
    }
}

#[test]
fn the_answer_goes_to_stdout_and_what_was_done_for_it_to_stderr() {
    let (rack, _effects) = rack();
    let fails = call("fail", &json!({ "message": "told\u{1b}[2J to fail" }));
    let mut first = add(2, 3);
    first["text"] = json!("Let me see.");
    let script = json!([first, fails, { "text": "It is\u{1b}]0;owned\u{7} 5.\n" }]);
    let ran = mock(&rack, &script, &["--allow", "fake/*", "hello"]).ends_with(0);
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, timeless(&ran.stderr)), @r"
    Let me see.
    It is\u{1b}]0;owned\u{7} 5.
    ---
    + fake/add a:=2 b:=3 0 ms
    x fake/fail message=told\u{1b}[2J to fail - told\u{1b}[2J to fail
    ");
}

#[test]
fn json_is_one_document() {
    let (rack, _effects) = rack();
    let script = json!([add(2, 3), { "text": "It is 5.", "usage": { "input": 10, "output": 4 } }]);
    let ran = mock(&rack, &script, &["--json", "--allow", "fake/add", "hello"]).ends_with(0);
    let mut answer = ran.json();
    assert!(answer["session"].take().is_string());
    assert!(answer["tool_calls"][0]["id"].take().is_string());
    assert!(answer["tool_calls"][0]["duration_ms"].take().is_number());
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
    {
      "cost": null,
      "end": "answered",
      "model": "mock/script",
      "rounds": 2,
      "session": null,
      "text": "It is 5.",
      "tool_calls": [
        {
          "arguments": {
            "a": 2,
            "b": 3
          },
          "duration_ms": null,
          "id": null,
          "is_error": false,
          "tool": "fake/add"
        }
      ],
      "usage": {
        "cache_write": 0,
        "cached_read": 0,
        "input": 10,
        "output": 4,
        "reasoning": 0
      }
    }
    "#);
}

#[test]
fn stream_json_tells_each_thing_as_it_happens() {
    let (rack, _effects) = rack();
    let script = json!([add(2, 3), { "text": "It is 5." }]);
    let ran = mock(&rack, &script, &["--stream-json", "--allow", "fake/add", "hello"]).ends_with(0);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "tool_call", "tool_result", "text", "text", "text", "done"], "{ran}");
    assert_eq!((&events[1]["tool"], &events[1]["arguments"]), (&json!("fake/add"), &json!({ "a": 2, "b": 3 })));
    assert_eq!(events[1]["id"], events[2]["id"]);
    assert_eq!((&events[2]["text"], &events[2]["is_error"]), (&json!("[data from fake]\n5"), &json!(false)));
    assert_eq!([3, 4, 5].map(|at| events[at]["text"].as_str().unwrap()).concat(), "It is 5.");
    assert_eq!((&events[6]["text"], &events[6]["end"]), (&json!("It is 5."), &json!("answered")));
    assert_eq!(events[6]["session"], events[0]["id"]);
}

#[test]
fn stdin_joins_the_prompt() {
    let wire = Speech::Chat;
    for (typed, piped, sent) in [
        (["Explain this"].as_slice(), "a\n  b\n", "Explain this\n\na\n  b"),
        (&[], "only this\n", "only this"),
        (&["only", "that"], "", "only that"),
    ] {
        let rack = Rack::new();
        let provider = Provider::start([wire.says(&["Well."])]);
        let url = provider.url();
        let args = [&["ask", "--model", "m", "--base-url", &url], typed].concat();
        let _ = rack.run_with_stdin(&args, piped).ends_with(0);
        let conversation = wire.conversation(&provider.asked()[0].json());
        assert_eq!(conversation, [Said::User(sent.to_owned())]);
    }
    let rack = Rack::new();
    let ran = rack.run_with_stdin(&["ask", "--model", "m", "--base-url", "http://127.0.0.1:9"], " \n").ends_with(2);
    assert!(ran.stderr.contains("what to ask?"), "{ran}");
}

#[test]
fn server_and_tool_narrow_what_the_model_sees() {
    let rack = Rack::with(&[("one", fake(&[])), ("two", fake(&[]))]);
    let names = |args: &[&str]| {
        let provider = Provider::start([Speech::Chat.says(&["Well."])]);
        let _ = ask(&rack, &provider, Speech::Chat, &[args, &["hello"]].concat()).ends_with(0);
        let body = provider.asked()[0].json();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = names(&["--server", "one"]);
    assert!(
        one.contains(&"mcp__one__add".to_owned()) && one.iter().all(|name| name.starts_with("mcp__one__")),
        "{one:?}"
    );
    assert_eq!(names(&["--tool", "two/add", "--tool", "one/ec*"]), ["mcp__one__echo", "mcp__two__add"]);
    let none = names(&["--tool", "nothing/*"]);
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn where_nobody_can_be_asked_a_call_is_refused_and_the_way_to_allow_it_is_told() {
    let (rack, effects) = rack();
    let script = json!([call("write", &json!({ "path": "a" })), { "text": "I may not." }]);
    let ran = mock(&rack, &script, &["hello"]).ends_with(6);
    assert_eq!(ran.stdout, "I may not.\n", "the model answers all the same: {ran}");
    assert!(ran.stderr.contains("hint: allow it with --allow 'fake/write'"), "{ran}");
    assert!(effects.read().runs().is_empty());
    let error = mock(&rack, &script, &["--json", "hello"]).ends_with(6).error();
    assert_eq!(error["code"], "APPROVAL_NEEDED");
}

#[test]
fn rules_say_what_runs_unasked() {
    let (rack, effects) = rack();
    let both = json!([{ "tool_calls": [
        { "name": "mcp__fake__write", "input": { "path": "a" } },
        { "name": "mcp__fake__add", "input": { "a": 1, "b": 2 } },
    ] }, { "text": "Done." }]);
    for (rules, code, ran) in [
        (["--allow", "fake/*"].as_slice(), 0, ["add", "write"].as_slice()),
        (&["--allow", "fake/write"], 6, &["write"]),
        (&["--yes-read-only"], 6, &["add"]),
        (&["--yes-read-only", "--deny", "fake/write"], 0, &["add"]),
        (&["--allow", "*", "--deny", "fake/add"], 0, &["write"]),
        (&["--allow", "other/*"], 6, &[]),
    ] {
        let before = effects.read().runs().len();
        let _ = mock(&rack, &both, &[rules, &["hello"]].concat()).ends_with(code);
        let mut tools: Vec<_> = effects.read().runs().into_iter().skip(before).map(|run| run.tool).collect();
        tools.sort();
        assert_eq!(tools, ran, "{rules:?}");
    }
}

#[test]
fn a_model_that_is_not_done_within_its_rounds_ends_the_turn_with_8() {
    let (rack, effects) = rack();
    let script = json!([add(1, 1), add(2, 2), { "text": "Done." }]);
    let args = ["--json", "--max-rounds", "2", "--yes-read-only", "hello"];
    let ran = mock(&rack, &script, &args).ends_with(8);
    assert_eq!(ran.error()["code"], "ROUND_LIMIT");
    assert_eq!((ran.json()["end"].clone(), effects.read().runs_of("add")), (json!("round_limit"), 2), "{ran}");
    let ran = mock(&rack, &json!([{ "text": "Going on." }]), &["--session", "last", "go on"]).ends_with(0);
    assert_eq!(ran.stdout, "Going on.\n");
    let same = json!([add(1, 1), add(1, 1), add(1, 1), add(1, 1), add(1, 1), add(1, 1), add(1, 1), { "text": "x" }]);
    let ran = mock(&rack, &same, &["--json", "--yes-read-only", "hello"]).ends_with(8);
    assert_eq!(ran.error()["code"], "REPEATING");
    assert_eq!(effects.read().runs_of("add"), 2 + 3);
}
