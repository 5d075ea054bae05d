//! The questions of the configuration verbs to the user at a terminal.

use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, mcp_json, work_file},
    terminal::Terminal,
};

/// Arrow down, as a terminal sends it.
const DOWN: &str = "\u{1b}[B";
const CTRL_C: &str = "\u{3}";
const ESCAPE: &str = "\u{1b}";

fn project() -> Rack {
    let rack = Rack::new().env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&["--tools", "2"]))]));
    rack
}

fn state(rack: &Rack) -> Value {
    rack.run(&["list", "theirs", "--json"]).json()["servers"][0]["state"].clone()
}

#[test]
fn trust_shows_what_would_run_and_asks_first() {
    let rack = project();
    let mut terminal = Terminal::run(&rack, &["trust"]);
    let shown = terminal.expect("Run 1 server as shown? [y/N] ");
    assert!(shown.contains("stdio --tools 2"), "{shown}");
    terminal.type_in("n\n");
    let (_, code) = terminal.end();
    assert_eq!(code, 7);
    assert_eq!(state(&rack), "pending_trust");

    let mut terminal = Terminal::run(&rack, &["trust", "theirs"]);
    terminal.expect("[y/N] ");
    terminal.type_in("y\n");
    let (rest, code) = terminal.end();
    assert!(rest.contains("trusted as long as it does not change"), "{rest}");
    assert_eq!(code, 0);
    assert_eq!(state(&rack), "connected");
}

#[test]
fn an_entry_that_changes_while_the_question_is_open_is_not_trusted() {
    let rack = project();
    let mut terminal = Terminal::run(&rack, &["trust"]);
    terminal.expect("[y/N] ");
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&["--tools", "3"]))]));
    terminal.type_in("y\n");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(state(&rack), "pending_trust");
}

#[test]
fn import_lets_one_choose_and_adds_nothing_else() {
    let rack = project();
    rack.home.write("home/.cursor/mcp.json", mcp_json(&[("one", json!({ "command": "x" })), ("two", fake(&[]))]));
    let mut terminal = Terminal::run(&rack, &["import"]);
    terminal.expect("Add which?");
    terminal.expect("two (Cursor)");
    terminal.type_in(DOWN);
    terminal.type_in(" ");
    terminal.type_in("\r");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    assert_eq!(file["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn import_can_be_left_without_a_choice() {
    for (key, code) in [(ESCAPE, 0), (CTRL_C, 130), ("\r", 0)] {
        let rack = project();
        rack.home.write("home/.cursor/mcp.json", mcp_json(&[("one", json!({ "command": "x" }))]));
        let mut terminal = Terminal::run(&rack, &["import"]);
        terminal.expect("Add which?");
        terminal.expect("one (Cursor)");
        terminal.type_in(key);
        assert_eq!(terminal.end().1, code, "{key:?}");
        assert!(!rack.home.root().join("toolrack/mcp.json").exists());
    }
}

#[test]
fn add_without_arguments_is_a_dialog_that_asks_again_after_invalid_input() {
    let rack = project();
    let mut terminal = Terminal::run(&rack, &["add", "--no-test"]);
    terminal.expect("Name of the server: ");
    terminal.type_in("bad name!\n");
    terminal.expect("is not a name for a server");
    terminal.expect("Name of the server: ");
    terminal.type_in("fs\n");
    terminal.expect("Its command or its URL: ");
    terminal.type_in("npx -y 'a b'\n");
    terminal.expect("none: Enter): ");
    terminal.type_in("BAD NAME=1\n");
    terminal.expect("none: Enter): ");
    terminal.type_in("MODE=fast\n");
    terminal.expect("none: Enter): ");
    terminal.type_in("\n");
    assert_eq!(terminal.end().1, 0);
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    let entry = json!({ "type": "stdio", "command": "npx", "args": ["-y", "a b"], "env": { "MODE": "fast" } });
    assert_eq!(file["mcpServers"]["fs"], entry);

    let mut terminal = Terminal::run(&rack, &["add", "web", "--no-test"]);
    terminal.expect("Its command or its URL: ");
    terminal.type_in("https://example.com/mcp\n");
    assert_eq!(terminal.end().1, 0);
    assert!(rack.home.read("toolrack/mcp.json").contains("https://example.com/mcp"));
}

#[test]
fn options_after_a_url_that_is_typed_at_the_question_are_used_or_refused() {
    let rack = project();
    let mut terminal = Terminal::run(&rack, &["add", "web", "--no-test", "--tools", "get_*"]);
    for refused in ["--nope", "--json", "--help", "more"] {
        terminal.expect("Its command or its URL: ");
        terminal.type_in(&format!("https://example.com/mcp {refused}\n"));
        terminal.expect(&format!("unexpected argument '{refused}'"));
    }
    terminal.expect("Its command or its URL: ");
    terminal.type_in("https://example.com/mcp --tools 'read_*' -H 'X-Team: blue'\n");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    let entry = &file["mcpServers"]["web"];
    assert_eq!(entry["url"], "https://example.com/mcp");
    assert_eq!(entry["tools"], json!({ "allow": ["get_*", "read_*"] }));
    assert!(entry["headers"]["X-Team"].is_string(), "{entry}");
}

#[test]
fn a_taken_name_is_replaced_after_a_yes_and_left_after_a_no() {
    let rack = project();
    rack.configure(&[("fs", json!({ "command": "old" }))]);
    let before = rack.home.read("toolrack/mcp.json");
    for (answer, code) in [("n\n", 2), ("y\n", 0)] {
        assert_eq!(rack.home.read("toolrack/mcp.json"), before);
        let mut terminal = Terminal::run(&rack, &["add", "--no-test", "fs", "--", "new"]);
        let shown = terminal.expect("Replace `fs`? [y/N] ");
        assert!(shown.contains("new"), "{shown}");
        terminal.type_in(answer);
        assert_eq!(terminal.end().1, code);
    }
    assert!(rack.home.read("toolrack/mcp.json").contains("new"));
}

#[test]
fn a_secret_is_typed_unseen() {
    let rack = project();
    let mut terminal = Terminal::run(&rack, &["add", "--no-test", "-e", "API_TOKEN", "fs", "--", "x"]);
    terminal.expect("API_TOKEN:");
    terminal.type_in("canary-value\r");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert!(!rest.contains("canary"), "{rest}");
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    assert_eq!(file["mcpServers"]["fs"]["env"]["API_TOKEN"], "${secret:fs.API_TOKEN}");
    assert!(rest.contains("API_TOKEN as fs.API_TOKEN"), "{rest}");
}
