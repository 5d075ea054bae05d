//! MCP sampling: the user sees what a server asks the model, and the model answers after a yes.

use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, work_file},
    terminal::Terminal,
};

const SEND_IT: &str = "Send it to the model, and the answer to `fake`? [y/N] ";

/// A server of `era`, and a script for the model.
fn rack(era: &str, script: &Value) -> Rack {
    let rack = Rack::with(&[("fake", fake(&["--era", era]))]).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    work_file(&rack, "script.json", &script.to_string());
    rack
}

/// Like [`rack`], with the model in the settings.
fn configured(era: &str) -> Rack {
    let rack = rack(era, &json!([{ "text": "Paris." }]));
    rack.home.write("toolrack/toolrack.toml", "[model]\nname = \"mock/script.json\"\nmax_tokens = 30\n");
    rack
}

const CALL: &[&str] = &["call", "fake/sample", "prompt=Which city?\u{1b}[2J", "--color", "never"];

#[test]
fn the_user_sees_a_sampling_request_and_approves_it() {
    for era in ["legacy", "modern"] {
        let rack = configured(era);
        let mut terminal = Terminal::run(&rack, CALL);
        let shown = terminal.expect(SEND_IT);
        assert!(shown.contains("The server `fake` asks the model mock/script.json: at most 30 tokens"), "{shown}");
        assert!(
            shown.contains("user:") && shown.contains("  Which city?") && !shown.contains("\u{1b}[2J"),
            "{shown:?}"
        );
        terminal.type_in("y\n");
        let (rest, code) = terminal.end();
        assert!(rest.contains(r#""text":"Paris."#) && rest.contains("endTurn"), "{era}: {rest}");
        assert_eq!(code, 0, "{era}: {rest}");
    }
}

#[test]
fn anything_but_a_yes_answers_no() {
    for era in ["legacy", "modern"] {
        let rack = configured(era);
        let mut terminal = Terminal::run(&rack, CALL);
        terminal.expect(SEND_IT);
        terminal.type_in("\n");
        let (rest, code) = terminal.end();
        let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(rest.contains("the user refused the sampling request") && !rest.contains("Paris"), "{era}: {rest}");
        assert_eq!(code, 5, "{era}: {rest}");
    }
}

#[test]
fn sampling_is_offered_only_with_a_terminal_and_a_model() {
    let call = ["call", "fake/sample"];
    for (era, word) in [("legacy", "did not declare sampling"), ("modern", "requires the sampling capability")] {
        let no_terminal = configured(era).run(&call).ends_with(5);
        assert!(no_terminal.to_string().contains(word), "{era}: {no_terminal}");
        let rack = rack(era, &json!([]));
        let no_model = Terminal::run(&rack, &call).end();
        assert!(no_model.0.contains(word) && no_model.1 == 5, "{era}: {no_model:?}");
    }
}

#[test]
fn the_model_of_a_conversation_answers_the_servers_of_its_tools() {
    let calls = json!([{ "name": "mcp__fake__sample", "input": {} }]);
    let rack = rack("both", &json!([{ "tool_calls": calls }, { "text": "Paris." }, { "text": "done" }]));
    let words = ["ask", "--model", "mock/script.json", "--allow", "fake/*", "go"];
    let mut terminal = Terminal::run(&rack, &words);
    terminal.expect(SEND_IT);
    terminal.type_in("y\n");
    let (rest, code) = terminal.end();
    assert!(rest.contains("done") && code == 0, "{rest}");
}
