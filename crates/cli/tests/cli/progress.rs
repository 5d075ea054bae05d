//! The progress of a call on a terminal: one line that is rewritten.

use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, work_file},
    terminal::Terminal,
};

/// Writes the progress line anew.
const ANEW: &str = "\u{1b}[K";

fn rack(answers: &Value) -> Rack {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    work_file(&rack, "script.json", &answers.to_string());
    rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8")
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter().map(|(name, input)| json!({ "name": format!("mcp__fake__{name}"), "input": input }));
    json!({ "text": "I look.", "tool_calls": calls.collect::<Vec<_>>() })
}

const ASK: [&str; 6] = ["ask", "--color", "never", "--model", "mock/script.json", "--no-daemon"];

#[test]
fn a_call_says_how_far_it_is_and_how_long_it_takes_and_leaves_nothing_of_that() {
    let silent = json!({ "ms": 2_300 });
    let rack =
        rack(&json!([calls(&[("sleep", json!({ "ms": 1_600, "progress": true }))]), calls(&[("sleep", silent)]),
        { "text": "all done" }]));
    let mut terminal = Terminal::run(&rack, &[&ASK[..], &["--allow", "fake/*", "go"]].concat());
    let before = terminal.expect_match(r"I look\.\r\n\rfake/sleep ms:=1600 progress:=true");
    assert!(!before.is_empty());
    terminal.expect_match(r"\rfake/sleep \([0-9]{1,3} %\) sleeping");
    terminal.expect_match(r"\rfake/sleep \([0-9]{1,3} %, 1 s\) sleeping");
    // The second server reports nothing, but the time still increases.
    terminal.expect_match(r"\rfake/sleep \(1 s\) ms:=2300");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert!(rest.ends_with("all done\r\n"), "{rest:?}");
    let last = rest.rsplit(ANEW).next().unwrap();
    assert!(last.contains('✔') && !last.contains('%'), "the line is gone: {rest:?}");
}

#[test]
fn neither_progress_nor_the_end_of_another_call_comes_into_a_question() {
    let both = calls(&[("sleep", json!({ "ms": 1_300, "progress": true })), ("write", json!({}))]);
    let rack = rack(&json!([both, { "text": "all done" }]));
    let mut terminal = Terminal::run(&rack, &[&ASK[..], &["--allow", "fake/sleep", "go"]].concat());
    terminal.expect("[e]dit [?] ");
    // Takes longer than the call that is under way.
    rack.run(&["call", "fake/sleep", "ms=2000"]).ends_with(0);
    terminal.type_in("?");
    let until_answered = terminal.expect("You are asked because");
    assert!(!until_answered.contains("sleep"), "{until_answered:?}");
    terminal.expect("[e]dit [?] ");
    terminal.type_in("y\n");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    let report = |call: &str| rest.find(&format!("✔ fake/{call}")).unwrap_or_else(|| panic!("{call}: {rest:?}"));
    assert!(report("sleep") < report("write") && rest.ends_with("all done\r\n"), "{rest:?}");
}

#[test]
fn a_pipe_gets_no_progress() {
    let rack = rack(&json!([calls(&[("sleep", json!({ "ms": 1_200, "progress": true }))]), { "text": "all done" }]));
    let ran = rack.run(&[&ASK[..], &["--allow", "fake/*", "go"]].concat()).ends_with(0);
    assert_eq!(ran.stdout, "I look.\nall done\n", "{ran}");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("✔ fake/sleep ms:=1200 progress:=true "), "{ran}");
}
