//! `toolrack chat`: with a user at a terminal, and without one.

use std::{net::TcpListener, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, fake, work_file},
    terminal::Terminal,
};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ALT_ENTER: &str = "\u{1b}\r";
const ENTER: &str = "\r";

/// The prompt before the typed text.
const MARK: &str = "❯ ";

/// A model that gives these answers, one after the other.
fn model(rack: &Rack, answers: &Value) {
    work_file(rack, "script.json", &answers.to_string());
}

/// A model that gives these answers, the servers of `rack`, and a terminal that does not report the position of its
/// cursor.
fn talk(rack: &Rack, args: &[&str]) -> Terminal {
    Terminal::run(rack, &[&["chat", "--model", "mock/script.json"], args].concat())
}

fn person(rack: Rack) -> Rack {
    rack.env("TERM", "dumb").env("LANG", "C.UTF-8")
}

fn calls(name: &str, input: Value) -> Value {
    json!({ "tool_calls": [{ "name": name, "input": input }] })
}

fn says(text: &str) -> Value {
    json!({ "text": text })
}

/// The messages of the session, as role and text.
fn kept(rack: &Rack) -> Vec<(String, String)> {
    let shown = rack.run(&["sessions", "show", "last", "--json"]).ends_with(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

#[test]
fn without_a_terminal_each_line_is_a_turn_of_one_conversation() {
    let rack = Rack::new();
    model(&rack, &json!([says("one"), calls("mcp__builtin__current_time", json!({})), says("two")]));
    let ran = rack.run_with_stdin(&["chat", "--model", "mock/script.json"], "first\\\nline\n\nsecond\n").ends_with(0);
    assert_eq!(ran.stdout, "one\ntwo\n", "{ran}");
    let kept = kept(&rack);
    let roles: Vec<_> = kept.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool", "assistant"]);
    assert_eq!(kept[0].1, "first\nline");
}

#[test]
fn without_a_terminal_the_first_turn_that_fails_ends_it() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    model(&rack, &json!([calls("mcp__fake__write", json!({})), says("it was refused"), says("never said")]));
    let ran = rack.run_with_stdin(&["chat", "--model", "mock/script.json"], "write\nagain\n").ends_with(6);
    assert_eq!(ran.stdout, "it was refused\n", "{ran}");
    assert!(ran.stderr.contains("--allow 'fake/write'"), "{ran}");
    model(&rack, &json!([]));
    let ran = rack.run_with_stdin(&["chat", "--model", "mock/script.json"], "hello\n").ends_with(9);
    assert!(ran.stderr.contains("no further answer"), "{ran}");
}

#[test]
fn with_json_each_turn_is_a_document_on_one_line() {
    let rack = Rack::new();
    model(&rack, &json!([says("one"), says("two")]));
    let ran = rack.run_with_stdin(&["chat", "--json", "--model", "mock/script.json"], "a\nb\n").ends_with(0);
    let turns: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(turns.iter().map(|turn| &turn["text"]).collect::<Vec<_>>(), ["one", "two"], "{ran}");
}

#[test]
fn a_chat_remembers_the_typed_lines_for_the_next_one() {
    let rack = person(Rack::new());
    model(&rack, &json!([says("one answer"), says("another")]));
    let mut terminal = talk(&rack, &[]);
    terminal.expect(MARK);
    terminal.type_in(&format!("hello\\{ENTER}there{ALT_ENTER}Ada{ENTER}"));
    terminal.expect("one answer");
    terminal.expect(MARK);
    terminal.type_in(&format!("more{ENTER}"));
    terminal.expect("another");
    terminal.expect(MARK);
    terminal.type_in(CTRL_D);
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("toolrack chat --resume "), "{rest}");
    let texts: Vec<_> = kept(&rack).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["hello\nthere\nAda", "one answer", "more", "another"]);
    let history = rack.home.root().join("toolrack/chat-history");
    assert!(std::fs::read_to_string(&history).unwrap().ends_with("more\n"));
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);

    model(&rack, &json!([says("still here")]));
    let mut terminal = talk(&rack, &["--resume", "last", "and", "now"]);
    let before = terminal.expect("[ASSISTANT]");
    assert!(before.contains("[USER]") && before.contains("Ada"), "{before}");
    terminal.expect("another");
    terminal.expect("still here");
    terminal.expect(MARK);
    terminal.type_in(CTRL_C);
    terminal.expect("Ctrl-C again");
    terminal.expect(MARK);
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(kept(&rack).len(), 6);
}

#[test]
fn ctrl_c_ends_the_calls_and_the_model_continues() {
    let effects = EffectLog::new();
    let rack = person(Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]));
    model(&rack, &json!([calls("mcp__fake__sleep", json!({ "ms": 600_000 })), says("then not")]));
    let mut terminal = talk(&rack, &["--allow", "fake/*", "sleep"]);
    let _running = effects.wait_until(std::time::Duration::from_secs(30), |effects| effects.runs_of("sleep") == 1);
    terminal.type_in(CTRL_C);
    terminal.expect("then not");
    terminal.expect(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
    let kept = kept(&rack);
    assert!(kept[2].1.starts_with("the user cancelled this call"), "{kept:?}");
    assert_eq!(kept[3].1, "then not");
}

#[test]
fn ctrl_c_again_ends_the_turn_and_once_more_leaves() {
    let rack = person(Rack::new());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let mut terminal = Terminal::run(&rack, &["chat", "--model", "nobody", "--base-url", &url, "hello"]);
    let _asked = silent.accept().unwrap();
    terminal.type_in(CTRL_C);
    terminal.expect("cancelled");
    terminal.expect(MARK);
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.end().1, 0);
    let kept = kept(&rack);
    assert_eq!(kept, [("user".to_owned(), "hello".to_owned())]);
}

#[test]
fn commands_are_for_the_program_and_not_for_the_model() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    model(&rack, &json!([says("hello to you"), calls("mcp__fake__write", json!({})), says("written")]));
    let lines = [
        "/help",
        "/mcp",
        "/tools",
        "/tools write something",
        "/resources",
        "/prompts",
        "/model",
        "/system",
        "/system Be brief.",
        "/system",
        "hello",
        "/allow fake/wr*",
        "/cost",
        "/sessions",
        "write",
        "/export kept.md",
        "/new",
        "/quit",
        "never said",
    ];
    let chat = ["chat", "--model", "mock/script.json"];
    let ran = rack.run_with_stdin(&chat, &lines.join("\n")).ends_with(0);
    for shown in
        ["/export [FILE]", "connected (22 tools)", "fake/write", "fake://note", "greet", "hello to you\n", "written\n"]
    {
        assert!(ran.stdout.contains(shown), "{shown}: {ran}");
    }
    for told in ["mock/script", "nothing", "Be brief.", "`fake/wr*` run without asking", "wrote kept.md"] {
        assert!(ran.stderr.contains(told), "{told}: {ran}");
    }
    assert!(!ran.stdout.contains("read_artifact") && !ran.stdout.contains("search_tools"), "{ran}");
    assert!(rack.home.read("work/kept.md").contains("hello to you"), "{ran}");
    assert_eq!(kept(&rack).len(), 6);

    model(&rack, &json!([says("to the first"), says("to the second")]));
    let ran = rack.run_with_stdin(&chat, "one\n/resume last\ntwo\n").ends_with(0);
    assert_eq!(ran.stdout, "to the first\nto the second\n");
    assert_eq!(kept(&rack).len(), 4, "{ran}");
}

#[test]
fn a_failed_command_changes_nothing() {
    let rack = person(Rack::new());
    model(&rack, &json!([says("still here")]));
    let mut terminal = talk(&rack, &[]);
    for (typed, told) in [
        ("/tolls", "did you mean /tools?"),
        ("/model nobody/knows", "error:"),
        ("/resume 12", "there are no sessions yet"),
        ("/export", "this conversation is not stored yet"),
        ("/deny a/b/c/d[", "error:"),
        ("hello", "still here"),
    ] {
        terminal.expect(MARK);
        terminal.type_in(&format!("{typed}{ENTER}"));
        terminal.expect(told);
    }
    terminal.expect(MARK);
    terminal.type_in(&format!("/quit{ENTER}"));
    assert_eq!(terminal.end().1, 0);
}

/// The end of the question about a call.
const RUN_IT: &str = "[e]dit [?] ";

#[test]
fn a_call_needs_approval_and_the_approved_arguments_are_sent() {
    let effects = EffectLog::new();
    let rack = person(Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]));
    let echo = |text: &str| calls("mcp__fake__echo", json!({ "text": text }));
    model(&rack, &json!([echo("one"), echo("two"), says("done"), echo("three"), echo("four"), says("all done")]));
    let mut terminal = talk(&rack, &["go"]);
    let page = terminal.expect(RUN_IT);
    assert!(page.contains("fake/echo") && page.contains("\"text\": \"one\""), "{page}");
    terminal.type_in("?");
    let reasons = terminal.expect(RUN_IT);
    assert!(reasons.contains("no rule allows it") && reasons.contains("Returns the text"), "{reasons}");
    terminal.type_in("e");
    terminal.expect("as JSON");
    terminal.type_in("{\"text\": \"uno\"}\n");
    let page = terminal.expect(RUN_IT);
    assert!(page.contains("\"text\": \"uno\""), "{page}");
    terminal.type_in("y\n");
    terminal.expect(RUN_IT);
    terminal.type_in("n\n");
    terminal.expect("done");
    terminal.expect(MARK);
    terminal.type_in(&format!("again{ENTER}"));
    terminal.expect(RUN_IT);
    terminal.type_in("a\n");
    terminal.expect("all done");
    terminal.expect(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
    let results: Vec<_> = kept(&rack).into_iter().filter(|(role, _)| role == "tool").map(|(_, text)| text).collect();
    assert_eq!(results[0], "[data from fake]\nuno");
    assert!(results[1].contains("it was declined"), "{results:?}");
    assert_eq!(results[2..], ["[data from fake]\nthree", "[data from fake]\nfour"]);
    assert_eq!(effects.read().runs_of("echo"), 3);
}

#[test]
fn a_question_that_is_interrupted_is_a_no_and_takes_nothing_that_is_typed_later() {
    let effects = EffectLog::new();
    let rack = person(Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]));
    model(&rack, &json!([calls("mcp__fake__write", json!({})), says("then not"), says("hello to you")]));
    let mut terminal = talk(&rack, &["go"]);
    terminal.expect(RUN_IT);
    terminal.type_in(CTRL_C);
    terminal.expect("then not");
    terminal.expect(MARK);
    terminal.type_in(&format!("y{ENTER}"));
    terminal.expect("hello to you");
    terminal.expect(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(effects.read().runs_of("write"), 0);
    assert_eq!(kept(&rack)[4].1, "y");
}

#[test]
fn events_of_a_server_appear_above_the_typed_line() {
    let rack = person(Rack::with(&[("fake", fake(&["--fault", "half-line-then-crash"]))]));
    model(&rack, &json!([calls("mcp__fake__echo", json!({ "text": "x" })), says("it broke"), says("hello to you")]));
    let mut terminal = talk(&rack, &["--allow", "fake/*", "go"]);
    terminal.expect("it broke");
    terminal.expect(MARK);
    terminal.type_in("hel");
    terminal.expect("`fake` is connected (");
    terminal.type_in(&format!("lo{ENTER}"));
    terminal.expect("hello to you");
    terminal.expect(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(kept(&rack)[4].1, "hello");
}

#[test]
fn events_of_a_server_during_a_turn_appear_at_once_above_the_live_line() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[
        ("slow", fake(&["--log", effects.path_str()])),
        ("frail", fake(&["--fault", "half-line-then-crash"])),
    ]);
    let rack = rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let both = json!({ "tool_calls": [
        { "name": "mcp__slow__sleep", "input": { "ms": 600_000 } },
        { "name": "mcp__frail__echo", "input": { "text": "x" } },
    ] });
    model(&rack, &json!([both, says("it broke")]));
    // Below other output, at any time of the call.
    const LIVE: &str = r"\r\n\rslow/sleep (\([^)]+\) )?ms:=600000\x1b\[K";
    let mut terminal = talk(&rack, &["--allow", "*", "go"]);
    let _running = effects.wait_until(std::time::Duration::from_secs(30), |effects| effects.runs_of("sleep") == 1);
    terminal.expect("`frail` is disconnected");
    terminal.expect_match(LIVE);
    terminal.expect("`frail` is connected (");
    terminal.expect_match(LIVE);
    terminal.type_in(CTRL_C);
    terminal.expect("it broke");
    terminal.watch(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_terminal_that_can_do_more_gets_colours_and_one_that_wants_none_does_not() {
    for (variable, coloured) in [("UNUSED", true), ("NO_COLOR", false)] {
        let rack = Rack::new().env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env(variable, "1");
        model(&rack, &json!([says("hello to you")]));
        let mut terminal = talk(&rack, &[]);
        // The position of the cursor, which a real terminal reports by itself.
        terminal.expect("\u{1b}[6n");
        terminal.type_in("\u{1b}[1;1R");
        let drawn = terminal.expect(MARK);
        assert_eq!(drawn.contains("\u{1b}[96m"), coloured, "{drawn:?}");
        terminal.type_in(&format!("hello{ENTER}"));
        terminal.expect("hello to you");
        terminal.expect("\u{1b}[6n");
        terminal.type_in("\u{1b}[1;1R");
        terminal.expect(MARK);
        terminal.type_in(CTRL_D);
        assert_eq!(terminal.end().1, 0);
    }
}
