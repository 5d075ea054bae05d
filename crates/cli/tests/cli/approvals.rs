//! The question about a call, on a terminal: a key answers it, and an editor changes the arguments.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, fake, work_file},
    terminal::Terminal,
    warm::Daemon,
};

const LIMIT: Duration = Duration::from_secs(30);

/// The end of the question.
const RUN_IT: &str = "[e]dit [?] ";

fn rack(answers: &Value) -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    work_file(&rack, "script.json", &answers.to_string());
    (rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8"), effects)
}

fn calls(name: &str, input: &Value) -> Value {
    json!({ "tool_calls": [{ "name": format!("mcp__fake__{name}"), "input": input }] })
}

fn done() -> Value {
    json!({ "text": "all done" })
}

const ASK: [&str; 5] = ["ask", "--color", "never", "--model", "mock/script.json"];

fn ask(rack: &Rack, more: &[&str]) -> Terminal {
    Terminal::run(rack, &[&ASK[..], more, &["go"]].concat())
}

/// The texts that the servers had to echo.
fn echoed(rack: &Rack) -> Vec<String> {
    let shown = rack.run(&["sessions", "show", "last", "--json"]).ends_with(0).json();
    let messages = shown["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    messages.map(|message| message["content"].as_str().unwrap().replace("[data from fake]\n", "")).collect()
}

#[test]
fn one_key_answers_without_enter_and_is_shown() {
    let (rack, effects) = rack(&json!([calls("write", &json!({})), calls("echo", &json!({ "text": "x" })), done()]));
    let mut terminal = ask(&rack, &[]);
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    terminal.expect("y\r\n");
    terminal.expect(RUN_IT);
    terminal.type_in("N");
    assert!(terminal.expect("all done").starts_with("N\r\n"));
    assert_eq!(terminal.end().1, 0);
    assert_eq!((effects.read().runs_of("write"), effects.read().runs_of("echo")), (1, 0));
}

#[test]
fn keys_that_were_typed_before_the_question_do_not_answer_it() {
    let slow = json!({ "ms": 900 });
    let (rack, effects) = rack(&json!([calls("sleep", &slow), calls("write", &json!({})), done()]));
    let mut terminal = ask(&rack, &["--allow", "fake/sleep"]);
    let _asleep = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    terminal.type_in("y\n");
    terminal.expect(RUN_IT);
    terminal.type_in("n");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(effects.read().runs_of("write"), 0);
}

#[test]
fn pasted_text_does_not_answer_and_an_unknown_key_shows_the_answers() {
    let (rack, effects) = rack(&json!([calls("write", &json!({})), done()]));
    let mut terminal = ask(&rack, &[]);
    for key in ["yesterday I wrote", "\u{1b}[A", "x"] {
        terminal.expect(RUN_IT);
        terminal.type_in(key);
        terminal.expect("n  do not run it (Enter does the same)");
    }
    terminal.expect(RUN_IT);
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(effects.read().runs_of("write"), 0);
}

#[test]
fn the_arguments_are_changed_in_the_editor_and_the_question_comes_again() {
    let (rack, _effects) = rack(&json!([calls("echo", &json!({ "text": "one" })), done()]));
    let rack = rack.env("VISUAL", "sed -i s/one/uno/").env("EDITOR", "false");
    let mut terminal = ask(&rack, &[]);
    terminal.expect("\"text\": \"one\"");
    terminal.expect(RUN_IT);
    terminal.type_in("e");
    terminal.expect("\"text\": \"uno\"");
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    terminal.expect("fake/echo text=uno");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(echoed(&rack), ["uno"]);
}

#[test]
fn without_an_editor_the_arguments_are_typed_and_no_editor_is_said_to_be_open() {
    let (rack, _effects) = rack(&json!([calls("echo", &json!({ "text": "one" })), done()]));
    let mut terminal = ask(&rack, &[]);
    terminal.expect(RUN_IT);
    terminal.type_in("e");
    let shown = terminal.expect("Arguments as JSON, on one line");
    assert!(!shown.contains("editor"), "{shown}");
    terminal.type_in("{\"text\": \"uno\"}\r");
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(echoed(&rack), ["uno"]);
}

#[test]
fn a_failed_editor_and_invalid_arguments_are_reported() {
    let echo = calls("echo", &json!({ "text": "one" }));
    let (failing, _effects) = rack(&json!([echo, done()]));
    let failing = failing.env("EDITOR", "false");
    let mut terminal = ask(&failing, &[]);
    terminal.expect(RUN_IT);
    terminal.type_in("e");
    terminal.expect("the editor `false` failed: it ended with exit status: 1; the arguments stay");
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(echoed(&failing), ["one"]);

    let (wrong, _effects) = rack(&json!([echo, done()]));
    // The second edit goes on from the first.
    let wrong = wrong.env("EDITOR", "sed -i -e s/5/'\"uno\"'/ -e s/'\"one\"'/5/");
    let mut terminal = ask(&wrong, &[]);
    terminal.expect(RUN_IT);
    terminal.type_in("e");
    terminal.expect("the tool does not take these arguments");
    terminal.expect("leaves the arguments as they are ");
    terminal.type_in("y");
    terminal.expect("\"text\": \"uno\"");
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(echoed(&wrong), ["uno"]);
}

#[test]
fn a_command_that_a_daemon_does_takes_keys_and_opens_the_editor_of_its_terminal() {
    let (rack, effects) = rack(&json!([]));
    rack.home.write("toolrack/toolrack.toml", "[policy]\nconfirm = \"fake/echo\"\n");
    let _daemon = Daemon::start(&rack, &[]);
    let rack = rack.env("EDITOR", "sed -i s/one/uno/");
    let _ = rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0);
    let before = effects.read().count_of("tools/list");
    let mut terminal = Terminal::run(&rack, &["call", "fake/echo", "text=one", "-v"]);
    let shown = terminal.expect(RUN_IT);
    assert!(!shown.contains("was not used"), "{shown}");
    terminal.type_in("e");
    terminal.expect("\"text\": \"uno\"");
    terminal.expect(RUN_IT);
    terminal.type_in("y");
    let (rest, code) = terminal.end();
    assert_eq!((rest.ends_with("uno\r\n"), code), (true, 0), "{rest:?}");
    assert_eq!(effects.read().count_of("tools/list"), before, "it was not done by the daemon");
}

#[test]
fn no_word_of_the_question_is_broken_by_the_edge() {
    let (rack, _effects) = rack(&json!([calls("write", &json!({ "path": "word ".repeat(40) })), done()]));
    let mut terminal =
        Terminal::start(&rack, 60, Path::new(env!("CARGO_BIN_EXE_toolrack")), &[&ASK[..], &["go"]].concat());
    let page = terminal.expect(RUN_IT);
    terminal.type_in("n");
    assert_eq!(terminal.end().1, 0);
    for line in format!("{page}{RUN_IT}").lines().map(|line| line.rsplit('\r').next().unwrap()) {
        assert!(line.chars().count() <= 60, "{line:?}");
    }
    assert!(page.contains("[t]his session") && page.contains("always"), "{page}");
}
