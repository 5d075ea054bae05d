//! Forms of servers that are answered without a terminal.

use serde_json::{Value, json};

use crate::rack::{Rack, Ran, fake, work_file};

fn rack(era: &str) -> Rack {
    Rack::with(&[("fake", fake(&["--era", era]))])
}

/// A call with these options, whose server shows a form.
fn asked(rack: &Rack, more: &[&str]) -> Ran {
    rack.run(&[&["call", "fake/elicit"], more].concat())
}

/// The answer that the server received, according to its result.
fn got(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

#[test]
fn a_form_is_answered_by_options_and_by_a_file_in_both_eras() {
    for era in ["legacy", "modern"] {
        let rack = rack(era);
        let ran = asked(&rack, &["--answer", "name=Ada", "--answer", "age=36"]).ends_with(0);
        let answer = got(&ran);
        assert_eq!((&answer["action"], &answer["content"]["name"]), (&json!("accept"), &json!("Ada")), "{ran}");
        assert_eq!((&answer["content"]["age"], &answer["content"]["status"]), (&json!(36), &json!("new")), "{ran}");
        assert!(ran.stderr.contains("answered as --answer says: ") && !ran.stderr.contains("Ada"), "{ran}");

        work_file(&rack, "answers.json", &json!({ "name": "Eve", "verified": false, "unasked": 1 }).to_string());
        let ran = asked(&rack, &["--answers", "answers.json", "--answer", "name=Ada"]).ends_with(0);
        let answer = got(&ran);
        assert_eq!(answer["content"]["name"], "Ada", "what is typed is stronger: {ran}");
        assert_eq!(answer["content"]["verified"], json!(false), "{ran}");
    }
}

#[test]
fn an_answer_that_does_not_fit_fails_the_command_and_is_named_without_its_value() {
    let rack = rack("both");
    let error = asked(&rack, &["--answer", "age=canary", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "BAD_ANSWER");
    assert_eq!(error["message"], "`fake` asks in a form, and the answer `age` does not fit: write a number");
    work_file(&rack, "answers.json", &json!({ "age": "36" }).to_string());
    let error = asked(&rack, &["--answers", "answers.json", "--json"]).ends_with(2).error();
    assert!(
        error["message"].as_str().unwrap().contains("`age` does not fit: the value has another type than the field"),
        "{error}"
    );
    work_file(&rack, "answers.json", "[]");
    let _ = asked(&rack, &["--answers", "answers.json"]).ends_with(2);
    let _ = asked(&rack, &["--answers", "nope.json"]).ends_with(2);
    let _ = asked(&rack, &["--answer", "age"]).ends_with(2);
}

#[test]
fn the_list_says_how_many_tools_it_does_not_show() {
    let mut entry = fake(&[]);
    entry["tools"] = json!({ "deny": ["echo"] });
    let rack = Rack::with(&[("fake", entry)]);
    let tools = rack.run(&["tools", "fake"]).ends_with(0);
    assert!(tools.stderr.contains("not shown: 1 that `tools` in an entry leaves out"), "{tools}");
    let loud = rack.run(&["tools", "fake", "-v"]).ends_with(0);
    assert!(loud.stderr.contains("no user can be asked"), "{loud}");
    let loud = rack.run(&["tools", "fake", "-v", "--answer", "x=y"]).ends_with(0);
    assert!(!loud.stderr.contains("no user can be asked"), "{loud}");
}

#[test]
fn without_a_terminal_a_missing_tool_may_be_one_that_needs_a_terminal() {
    let rack = rack("both");
    let hint = |tool: &str, more: &[&str]| rack.run(&[&["call", tool], more].concat()).ends_with(5).stderr;
    let may_be = "shows its tools; at a terminal, or with `--answer`, a server may offer more";
    assert!(hint("fake/qqqqq", &[]).contains(may_be));
    let rest = [hint("fake/qqqqq", &["--answer", "name=Ada"]), hint("builtin/qqqqq", &[])];
    assert!(rest.iter().all(|question| question.contains("shows its tools\n")), "{rest:?}");
}

#[test]
fn a_list_is_read_as_json_and_never_taken_for_a_file() {
    for list in ["[]", " [1]"] {
        let ran = rack("both").run(&["--mcp-config", list, "list"]);
        assert!(!ran.to_string().contains("does not exist"), "{ran}");
        assert!(ran.stderr.contains("--mcp-config"), "{ran}");
    }
}
