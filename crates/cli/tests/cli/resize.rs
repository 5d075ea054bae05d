//! A terminal whose size changes while a user types, and while a model answers.

use std::time::Duration;

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, fake, work_file},
    terminal::Terminal,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ENTER: &str = "\r";
const MARK: &str = "❯ ";

/// Widths from narrower than the typed text to wider than the original terminal.
const SIZES: [u16; 3] = [40, 120, 80];

/// A home with the server `fake`, the log of what its tools did, and a model that says these things.
fn rack(answers: &Value) -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]).env("LANG", "C.UTF-8");
    work_file(&rack, "script.json", &answers.to_string());
    (rack, effects)
}

fn says(text: &str) -> Value {
    json!({ "text": text })
}

fn calls(name: &str, input: &Value) -> Value {
    json!({ "tool_calls": [{ "name": format!("mcp__fake__{name}"), "input": input }] })
}

fn talk(rack: &Rack, args: &[&str]) -> Terminal {
    Terminal::run(rack, &[&["chat", "--model", "mock/script.json"], args].concat())
}

fn kept(rack: &Rack) -> Vec<String> {
    let shown = rack.run(&["sessions", "show", "last", "--json"]).ends_with(0).json();
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// Changes the size while the user types, and waits until the line is repainted. If a key arrives at the same moment as
/// the change of size, the library that reads keys can leave it unread until the next key.
fn resize(terminal: &mut Terminal, columns: u16) {
    terminal.resize(columns);
    terminal.watch(MARK);
}

fn width(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

#[test]
fn typed_text_survives_every_size_of_the_terminal() {
    // The final screen shows the line once.
    let words =
        ["alpha", "beta", "gamma", "delta"].map(|word| format!("{word} ").repeat(10) + &word.to_uppercase() + " ");
    let full = words.concat() + "end";
    for terminal in ["dumb", "xterm-256color"] {
        let (rack, _effects) = rack(&json!([says("one answer"), says("another")]));
        let rack = rack.env("TERM", terminal);
        let mut terminal = talk(&rack, &[]);
        terminal.watch(MARK);
        terminal.type_in(&words[0]);
        terminal.watch("ALPHA");
        for (columns, words) in SIZES.into_iter().zip(&words[1..]) {
            resize(&mut terminal, columns);
            terminal.type_in(words);
            terminal.watch(words.split_whitespace().next_back().unwrap());
        }
        terminal.type_in(&format!("end{ENTER}"));
        terminal.watch("one answer");
        terminal.watch(MARK);
        terminal.type_in(&format!("more{ENTER}"));
        terminal.watch("another");
        terminal.watch(MARK);
        terminal.type_in(CTRL_D);
        let (rest, code) = terminal.end();
        assert_eq!(code, 0, "{rest}");
        assert_eq!(kept(&rack), [&*full, "one answer", "more", "another"]);
    }
}

#[test]
fn the_live_line_of_a_turn_fits_every_terminal_size() {
    let long = "x".repeat(60);
    let (rack, effects) = rack(&json!([
        calls("sleep", &json!({ "ms": 1_000, "progress": true, "note": long })),
        calls("sleep", &json!({ "ms": 300, "progress": true, "note": long })),
        says("all done"),
        says("hello to you"),
    ]));
    let rack = rack.env("TERM", "xterm-256color");
    let mut terminal = talk(&rack, &["--allow", "fake/*", "go"]);
    let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    for columns in SIZES.into_iter().chain([40]) {
        terminal.resize(columns);
    }
    terminal.watch("sleeping");
    let seen = terminal.watch("all done");
    let live: Vec<_> = seen.split("\u{1b}[K").filter_map(|line| line.rsplit(['\r', '\n']).next()).collect();
    assert!(live.iter().any(|line| line.contains("fake/sleep")), "{seen:?}");
    for line in live {
        assert!(width(&anstream::adapter::strip_str(line).to_string()) <= 40, "{line:?}");
    }
    terminal.watch(MARK);
    terminal.type_in(&format!("/help{ENTER}"));
    let page = terminal.watch("/quit");
    let page = anstream::adapter::strip_str(&page).to_string();
    assert!(page.contains("/resources"), "{page}");
    // Each key repaints the typed text, on its own line.
    for line in page.lines().filter(|line| line.starts_with(['/', ' '])) {
        assert!(width(line.trim_end()) <= 40, "{line:?}");
    }
    terminal.watch(MARK);
    resize(&mut terminal, 120);
    terminal.type_in(&format!("hello{ENTER}"));
    terminal.watch("hello to you");
    terminal.watch(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_question_fits_every_terminal_size_and_ctrl_c_stops_reading() {
    let (rack, effects) = rack(&json!([
        calls("echo", &json!({ "text": "one" })),
        calls("write", &json!({})),
        says("then not"),
        says("hello to you"),
    ]));
    let rack = rack.env("TERM", "xterm-256color");
    let mut terminal = talk(&rack, &[]);
    // The editor listens to changes of the size from now on.
    terminal.watch(MARK);
    terminal.type_in(&format!("go{ENTER}"));
    for answer in ["y\n", CTRL_C] {
        terminal.watch("[e]dit [?] ");
        for columns in SIZES {
            terminal.resize(columns);
        }
        terminal.type_in(answer);
    }
    terminal.watch("then not");
    // It is painted, and then notices the sizes.
    terminal.watch(MARK);
    terminal.watch(MARK);
    terminal.type_in(&format!("who is there?{ENTER}"));
    terminal.watch("hello to you");
    terminal.watch(MARK);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(effects.read().runs_of("echo"), 1);
    assert_eq!(effects.read().runs_of("write"), 0);
    assert_eq!(kept(&rack)[6], "who is there?");
}
