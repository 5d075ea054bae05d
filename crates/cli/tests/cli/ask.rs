//! One turn with a model: what reaches the model, the servers, stdout, stderr and the store.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use toolrack_testkit::{
    EffectLog, LockedDatabase,
    model::{Answer, RecordedRequest},
};

use crate::{
    provider::{Provider, Said, Speech, assert_valid},
    rack::{Rack, Ran, fake, work_file},
};

/// A time-out that is long enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A home with the server `fake`, and the log of what its tools did.
fn rack() -> (Rack, EffectLog) {
    let effects = EffectLog::new();
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
    let results = conversation.iter();
    results.filter_map(|part| if let Said::Result { text, .. } = part { Some(text.as_str()) } else { None }).collect()
}

/// Replaces times by `0 ms`.
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
        let requests = provider.requests();
        assert_eq!(requests.len(), 2, "{wire:?}");
        let conversation = wire.conversation(&requests[1].json());
        assert_valid(&conversation);
        assert_eq!(conversation[0], Said::User("What is 2 + 3?".to_owned()));
        assert_eq!(results(&conversation), ["[data from fake]\n5", "[data from fake]\nhello"]);
        assert_eq!(requests[0].json()["tools"], requests[1].json()["tools"], "the same tools in every round");
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
    insta::assert_snapshot!(serde_json::to_string_pretty(&toolrack_host::Canonical(&answer)).unwrap(), @r#"
    {
      "end": "answered",
      "model": "mock/script",
      "rounds": 2,
      "session": null,
      "spent": {
        "cache_write_tokens": 0,
        "cached_read_tokens": 0,
        "cost_usd": null,
        "input_tokens": 10,
        "output_tokens": 4,
        "reasoning_tokens": 0
      },
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
      ]
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
        let conversation = wire.conversation(&provider.requests()[0].json());
        assert_eq!(conversation, [Said::User(sent.to_owned())]);
    }
    let rack = Rack::new();
    let ran = rack.run_with_stdin(&["ask", "--model", "m", "--base-url", "http://127.0.0.1:9"], " \n").ends_with(2);
    assert!(ran.stderr.contains("there is no question"), "{ran}");
}

#[test]
fn server_and_tool_options_restrict_the_tools_of_the_model() {
    let rack = Rack::with(&[("one", fake(&[])), ("two", fake(&[]))]);
    let names = |args: &[&str]| {
        let provider = Provider::start([Speech::Chat.says(&["Well."])]);
        let _ = ask(&rack, &provider, Speech::Chat, &[args, &["hello"]].concat()).ends_with(0);
        let body = provider.requests()[0].json();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let names = tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
        // With any tool, the model also gets the tool that reads results which are too long.
        names.filter(|name| name != "mcp__artifacts__read_artifact").collect::<Vec<_>>()
    };
    let one = names(&["--server", "one"]);
    assert!(one.contains(&"mcp__one__add".to_owned()) && !one.iter().any(|name| name.contains("two")), "{one:?}");
    assert_eq!(names(&["--tool", "two/add", "--tool", "one/ec*"]), ["mcp__one__echo", "mcp__two__add"]);
    let none = names(&["--tool", "nothing/*"]);
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn without_a_user_to_ask_a_call_is_refused_with_a_hint_how_to_allow_it() {
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
fn rules_decide_which_calls_run_without_a_question() {
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
fn a_pattern_that_matches_no_tool_of_a_connected_server_is_reported() {
    let (rack, _effects) = rack();
    let done = json!([{ "text": "Done." }]);
    for (option, typed) in [("--deny", "fake/wirte"), ("--allow", "mcp__fake__wirte"), ("--tool", "fake.wirte")] {
        let ran = mock(&rack, &done, &[option, typed, "hello"]).ends_with(0);
        let text = format!("{option} {typed} matches no tool of its server, and does nothing");
        assert!(ran.stderr.contains(&text), "{ran}");
    }
    for typed in ["fake/write", "fake/w*", "mcp__fake__write", "fake.write", "fake_write", "mcp__fake", "*"] {
        let ran = mock(&rack, &done, &["--deny", typed, "--tool", typed, "hello"]).ends_with(0);
        assert!(!ran.stderr.contains("does nothing"), "{typed}: {ran}");
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

#[test]
fn an_answer_that_the_provider_broke_off_ends_with_9_and_its_reason() {
    let (rack, _effects) = rack();
    let event = r#"{"choices":[{"index":0,"delta":{"content":"It is"},"finish_reason":"error"}]}"#;
    let provider = Provider::start([Answer::events([event])]);
    let ran = ask(&rack, &provider, Speech::Chat, &["--json", "hello"]).ends_with(9);
    let (error, answer) = (ran.error(), ran.json());
    assert_eq!(error["code"], "BROKEN_OFF");
    assert_eq!(error["message"], "the provider broke off the answer: error");
    assert_eq!(
        (&answer["end"], &answer["reason"], &answer["text"]),
        (&json!("broken_off"), &json!("error"), &json!("It is"))
    );
}

#[test]
fn without_a_model_the_error_names_the_setting() {
    let (rack, _effects) = rack();
    let ran = rack.run(&["ask", "hello"]).ends_with(9);
    assert!(ran.stderr.contains("no model is configured"), "{ran}");
    assert!(ran.stderr.contains("ANTHROPIC_API_KEY, OPENAI_API_KEY, DEEPSEEK_API_KEY"), "{ran}");
    let error = rack.run(&["ask", "--json", "hello"]).ends_with(9).error();
    assert_eq!(error["code"], "NO_MODEL");
    let ran = rack.run(&["ask", "--model", "openai/gpt-6-sol", "hello"]).ends_with(9);
    assert!(ran.stderr.contains("set OPENAI_API_KEY"), "{ran}");
    let ran = rack.run(&["ask", "--model", "nobody/nothing", "hello"]).ends_with(2);
    assert!(ran.stderr.contains("`nobody/nothing` names no provider"), "{ran}");
    let ran = rack.env("OPENROUTER_API_KEY", "x").run(&["ask", "hello"]).ends_with(9);
    assert!(ran.stderr.contains("which model of openrouter?"), "{ran}");
    assert!(ran.stderr.contains("--model openrouter/NAME"), "{ran}");
}

#[test]
fn a_model_that_fails_ends_with_9_and_the_conversation_can_be_gone_on_with() {
    let refused = json!({ "error": { "message": "Incorrect API key", "code": "invalid_api_key" } });
    let busy = json!({ "error": { "message": "slow down" } });
    for wire in Speech::ALL {
        for (answer, code, message) in [
            (Answer::json(401, &refused), "MODEL_AUTH", "the key was refused (HTTP 401)"),
            (Answer::json(429, &busy).header("retry-after", "3600"), "MODEL_RATE_LIMITED", "slow down"),
            (Answer::new(200, "text/html", "<!DOCTYPE html><p>Sign in"), "MODEL_UNREADABLE", "it is an HTML page"),
            (wire.begins("It is").cut(), "MODEL_ANSWER_CUT", "the answer was cut off"),
        ] {
            let (rack, effects) = rack();
            let calls = wire.calls(&[("call_1", "mcp__fake__add", json!({ "a": 2, "b": 3 }))]);
            let provider = Provider::start([calls, answer]);
            let ran = ask(&rack, &provider, wire, &["--json", "--yes-read-only", "What is 2 + 3?"]).ends_with(9);
            let error = ran.error();
            assert_eq!(error["code"], code, "{ran}");
            assert!(error["message"].as_str().unwrap().contains(message), "{ran}");
            assert!(error["hint"].as_str().unwrap().contains("toolrack ask --session "), "{ran}");
            assert_eq!(provider.requests().len(), 2, "{ran}");

            // Without a prompt, the turn continues: finished calls are not made again.
            let provider = Provider::start([wire.says(&["It is 5."])]);
            let ran = ask(&rack, &provider, wire, &["--session", "last"]).ends_with(0);
            assert_eq!(ran.stdout, "It is 5.\n", "{ran}");
            let conversation = wire.conversation(&provider.requests()[0].json());
            assert_valid(&conversation);
            assert_eq!(results(&conversation), ["[data from fake]\n5"]);
            assert_eq!(effects.read().runs_of("add"), 1);
        }
    }
}

#[test]
fn the_wait_that_a_provider_asks_for_is_kept_and_reported() {
    let (rack, _effects) = rack();
    let busy = Answer::json(429, &json!({ "error": { "message": "slow down" } })).header("retry-after", "0.01");
    let provider = Provider::start([busy, Speech::Chat.says(&["Well."])]);
    let ran = ask(&rack, &provider, Speech::Chat, &["--stream-json", "hello"]).ends_with(0);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let retry = events.iter().find(|event| event["type"] == "retry").unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(retry["after_ms"], 10);
}

#[test]
fn an_unknown_session_is_an_error_before_any_model_is_asked() {
    let rack = Rack::new();
    let provider = Provider::start([Speech::Chat.says(&["Well."])]);
    let ran = ask(&rack, &provider, Speech::Chat, &["--session", "last", "hello"]).ends_with(2);
    assert!(ran.stderr.contains("there are no sessions yet"), "{ran}");
    let _ = ask(&rack, &provider, Speech::Chat, &["hello"]).ends_with(0);
    let error = ask(&rack, &provider, Speech::Chat, &["--json", "--session", "ffffffff", "hello"]).ends_with(2).error();
    assert_eq!(error["code"], "UNKNOWN_SESSION");
    assert_eq!(provider.requests().len(), 1);
    let ran = ask(&rack, &provider, Speech::Chat, &["--session", "last"]).ends_with(2);
    assert!(ran.stderr.contains("there is no question"), "nothing is open there: {ran}");
}

#[test]
fn ask_without_storage_stores_nothing() {
    let rack = Rack::new();
    let ran = mock(&rack, &json!([{ "text": "Well." }]), &["--json", "--no-save", "hello"]).ends_with(0);
    assert!(ran.json()["session"].is_null(), "{ran}");
    let list = rack.run(&["sessions", "list", "--json"]).ends_with(0).json();
    assert_eq!(list["sessions"], json!([]));
}

#[test]
fn two_processes_on_one_session_do_not_mix_their_messages() {
    let (rack, _effects) = rack();
    let _ = mock(&rack, &json!([{ "text": "Well." }]), &["hello"]).ends_with(0);
    // The first command waits for a call while the second continues the session.
    let effects = EffectLog::new();
    rack.configure(&[("fake", fake(&["--log", effects.path_str()]))]);
    let provider = Provider::start([
        Speech::Chat.calls(&[("call_1", "mcp__fake__sleep", json!({ "ms": 3000 }))]),
        Speech::Chat.says(&["Too late."]),
    ]);
    let url = provider.url();
    let args = ["ask", "--model", "m", "--base-url", &url, "--allow", "*", "--session", "last", "first"];
    let mut command = rack.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _sleeping = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    let second = Provider::start([Speech::Chat.says(&["Second."])]);
    let _ = ask(&rack, &second, Speech::Chat, &["--server", "builtin", "--session", "last", "second"]).ends_with(0);
    assert_valid(&Speech::Chat.conversation(&second.requests()[0].json()));

    let first = Ran::new(&args, &child.wait_with_output().unwrap(), &rack).ends_with(1);
    assert!(first.stderr.contains("another process has continued the session"), "{first}");
    assert_eq!(provider.requests().len(), 1, "its model is not asked again with what is no longer so");
    let third = Provider::start([Speech::Chat.says(&["Third."])]);
    let _ = ask(&rack, &third, Speech::Chat, &["--session", "last", "third"]).ends_with(0);
    let conversation = Speech::Chat.conversation(&third.requests()[0].json());
    assert_valid(&conversation);
    assert_eq!(results(&conversation).len(), 1, "{conversation:#?}");
}

#[test]
fn secrets_stay_where_they_belong() {
    let (canary, key) = ("canary-0123456789", "sk-canary-0123456789");
    for wire in Speech::ALL {
        let mut server = fake(&[]);
        server["env"] = json!({ "API_TOKEN": "${API_TOKEN}" });
        let rack = Rack::with(&[("fake", server)]).env("API_TOKEN", canary).env("MODEL_KEY", key);
        let turn = || {
            Provider::start([
                wire.calls(&[
                    ("call_1", "mcp__fake__env", json!({ "name": "API_TOKEN" })),
                    ("call_2", "mcp__fake__env", json!({})),
                ]),
                wire.says(&["It is canary-", "0123456789."]),
            ])
        };
        for output in [[].as_slice(), &["--json"], &["--stream-json"], &["-v"]] {
            let provider = turn();
            let args = [output, &["--key-env", "MODEL_KEY", "--allow", "*", "hello"]].concat();
            let ran = ask(&rack, &provider, wire, &args).ends_with(0);
            // The server repeats it, but the model does not see it. A correct guess of the model is hidden, too.
            let requests = provider.requests();
            assert!(
                requests.iter().all(|requests| !requests.body.contains(canary) && !requests.body.contains(key)),
                "{wire:?}"
            );
            let sends_key = |requests: &RecordedRequest| requests.headers.iter().any(|(_, value)| value.contains(key));
            assert!(requests.iter().all(sends_key), "{wire:?}");
            let names = results(&wire.conversation(&requests[1].json()))[1].to_owned();
            assert!(names.contains("API_TOKEN") && !names.contains("MODEL_KEY"), "{names}");
            assert!(!ran.stdout.contains(canary) && !ran.stderr.contains(canary), "{ran}");
            assert!(!ran.stderr.contains(key), "{ran}");
            if output == ["--stream-json"] {
                let records = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let texts = records.filter(|record| record["type"] == "text");
                let text: String = texts.map(|record| record["text"].as_str().unwrap().to_owned()).collect();
                assert_eq!(text, "It is ***.", "also where it is cut between two records: {ran}");
            }
        }
    }
}

#[test]
fn a_database_that_cannot_be_used_costs_the_memory_and_not_the_answer() {
    let (rack, _effects) = rack();
    rack.home.write("toolrack/toolrack.db/in-the-way", "");
    let script = json!([add(2, 3), { "text": "It is 5." }]);
    let ran = mock(&rack, &script, &["--allow", "*", "hello"]).ends_with(0);
    assert_eq!(ran.stdout, "It is 5.\n");
    assert!(ran.stderr.contains("warning: "), "{ran}");
    let ran = mock(&rack, &script, &["--session", "last", "hello"]).ends_with(1);
    assert!(ran.stderr.contains("cannot be used"), "{ran}");
}

#[test]
fn a_database_that_another_process_holds_costs_the_memory_and_not_the_answer() {
    let (rack, effects) = rack();
    let _ = mock(&rack, &json!([{ "text": "Well." }]), &["hello"]).ends_with(0);
    let lock = LockedDatabase::new(&rack.home.toolrack_home().join("toolrack.db"));
    let script = json!([add(2, 3), { "text": "It is 5." }]);
    let ran = mock(&rack, &script, &["--allow", "*", "hello"]).ends_with(0);
    assert_eq!(ran.stdout, "It is 5.\n");
    assert!(ran.stderr.contains("toolrack.db is in use by another process"), "{ran}");
    assert_eq!(effects.read().runs_of("add"), 1);
    drop(lock);
    let ran = mock(&rack, &json!([{ "text": "Going on." }]), &["--session", "last", "go on"]).ends_with(0);
    assert_eq!(ran.stdout, "Going on.\n");
}

#[test]
fn a_disk_that_is_full_costs_the_memory_and_not_the_answer() {
    let (rack, effects) = rack();
    let _ = mock(&rack, &json!([{ "text": "Well." }]), &["hello"]).ends_with(0);
    let provider = Provider::start([
        Speech::Chat.calls(&[("call_1", "mcp__fake__add", json!({ "a": 2, "b": 3 }))]),
        Speech::Chat.says(&["It is 5."]),
    ]);
    // No file may grow beyond 100 blocks of 512 or 1,024 bytes, and the prompt alone is larger.
    let prompt = "x".repeat(110_000);
    let program = env!("CARGO_BIN_EXE_toolrack");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"", program]);
    let url = provider.url();
    let args = ["ask", "--model", "m", "--base-url", &url, "--allow", "*", "--session", "last", &prompt];
    rack.set_environment(&mut limited);
    let output = limited.args(args).stdin(Stdio::null()).output().unwrap();
    let ran = Ran::new(&["ask"], &output, &rack).ends_with(0);
    assert_eq!(ran.stdout, "It is 5.\n", "{ran}");
    assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{ran}");
    assert!(ran.stderr.contains("not stored from here on"), "{ran}");
    assert_eq!(effects.read().runs_of("add"), 1);
    let ran = mock(&rack, &json!([{ "text": "Going on." }]), &["--session", "last", "go on"]).ends_with(0);
    assert_eq!(ran.stdout, "Going on.\n");
}

#[test]
fn the_reason_why_a_model_does_not_answer_is_printed_once() {
    let rack = Rack::new();
    crate::rack::work_file(&rack, "script.json", "[{]");
    let ran = rack.run(&["ask", "--model", "mock/script.json", "hi"]).ends_with(2);
    assert_eq!(ran.stderr.matches("line 1 column").count(), 1, "{ran}");
    assert!(ran.stderr.contains("write a list of answers such as"), "{ran}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = rack.run(&["ask", "--model", "m", "--base-url", &format!("http://127.0.0.1:{port}/v1"), "hi"]);
    let ran = ran.ends_with(9);
    let output = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap().to_lowercase();
    assert_eq!(output.matches("refused").count(), 1, "{ran}");
}

#[test]
fn with_an_open_stdin_a_note_says_what_the_command_waits_for() {
    let (rack, _effects) = rack();
    work_file(&rack, "script.json", &json!([{ "text": "Yes." }, { "text": "Yes." }]).to_string());
    for words in [&["ask", "--model", "mock/script.json", "Is it?"][..], &["call", "fake/add", "b=1", "--args", "-"]] {
        let mut command = rack.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut text = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut text).unwrap();
        assert!(text.starts_with("reading ") && text.contains("from stdin until it ends"), "{text}");
        child.stdin.take().unwrap().write_all(br#"{"a": 1}"#).unwrap();
        let ran = Ran::new(words, &child.wait_with_output().unwrap(), &rack).ends_with(0);
        assert!(["Yes.\n", "2"].contains(&&*ran.stdout), "{ran}");
    }
}
