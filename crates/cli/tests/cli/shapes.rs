//! `docs/json.md` and what the commands print are the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolrack_testkit::authorization::{CLIENT, CLIENT_SECRET, FakeAuthorization};

use crate::{
    rack::{Rack, commands_of_help, fake, mcp_json, work_file},
    sessions,
};

/// The example of each command in the page, by its title.
fn documented() -> BTreeMap<String, Value> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| {
            let title = section.lines().next().unwrap().to_owned();
            let example = section.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
            let example = serde_json::from_str(example).unwrap_or_else(|error| panic!("{title}: {error}"));
            (title, example)
        })
        .collect()
}

/// Where two documents differ in their form; `null` fits everything, and `{}` every object.
fn difference(at: &str, documented: &Value, printed: &Value) -> Option<String> {
    match (documented, printed) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Object(documented), Value::Object(_)) if documented.is_empty() => None,
        (Value::Object(documented), Value::Object(printed)) => {
            let one_sided = documented.keys().filter(|key| !printed.contains_key(*key));
            let one_sided = one_sided.chain(printed.keys().filter(|key| !documented.contains_key(*key)));
            let inside = documented.iter().filter_map(|(key, value)| {
                printed.get(key).and_then(|other| difference(&format!("{at}.{key}"), value, other))
            });
            one_sided.map(|key| format!("{at}.{key} is on one side only")).chain(inside).next()
        }
        (Value::Array(documented), Value::Array(printed)) => match documented.first() {
            Some(form) => printed.iter().find_map(|item| difference(&format!("{at}[]"), form, item)),
            None => None,
        },
        (documented, printed) if std::mem::discriminant(documented) == std::mem::discriminant(printed) => None,
        // What is structured is the tool's own business.
        _ if at.ends_with(".structured") || at.ends_with("before") || at.ends_with("after") => None,
        _ => Some(format!("{at}: {documented} is not {printed}")),
    }
}

/// A home with something of everything, and how each command is asked.
fn rack(authorization: &FakeAuthorization) -> Rack {
    let oauth = json!({ "client_id": CLIENT, "client_secret": CLIENT_SECRET, "grant": "client_credentials" });
    let guarded = json!({ "url": authorization.mcp_url(), "oauth": oauth });
    let gone = json!({ "command": "/nonexistent/server" });
    let rack = Rack::with(&[("fake", fake(&[])), ("gone", gone), ("guarded", guarded)]);
    rack.home.write("home/.cursor/mcp.json", mcp_json(&[("other", fake(&[])), ("more", fake(&[]))]));
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[])), ("fake", fake(&["--tools", "1"]))]));
    let _ = rack.run(&["trust", "--yes"]).ends_with(0);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&["--tools", "2"]))]));
    work_file(&rack, "odd.json", "{ \"mcpServers\": { \"fs\": { \"command\": 1 } } }");
    let script = "echo hello >&2; exec \"$0\" stdio";
    let talker = json!({ "command": "sh", "args": ["-c", script, toolrack_testkit::fake_server_path()] });
    work_file(&rack, "talker.json", &mcp_json(&[("talker", talker)]));
    let _ = rack.run(&["--mcp-config", "talker.json", "tools", "talker"]).ends_with(0);
    for faults in [&[][..], &["--fault", "redescribes=echo", "--fault", "renames=add"]] {
        work_file(&rack, "turned.json", &mcp_json(&[("turned", fake(faults))]));
        let _ = rack.run(&["--mcp-config", "turned.json", "tools", "turned"]).ends_with(0);
    }
    for title in ["one", "two"] {
        sessions::keep(&sessions::database(&rack), title, sessions::largest_file());
    }
    let calls = json!([{ "name": "mcp__fake__echo", "input": { "text": "x" } }]);
    work_file(&rack, "answers.json", &json!([{ "tool_calls": calls }, { "text": "It said x." }]).to_string());
    sessions::keep(&rack.home.work().join("theirs.db"), "theirs", sessions::largest_file());
    rack
}

fn asked(command: &str) -> Option<Vec<&'static str>> {
    let fake = toolrack_testkit::fake_server_path().to_str().unwrap();
    Some(match command {
        "list" | "tools" | "pending" | "doctor" | "test" | "logs" | "config path" | "config show" | "audit export"
        | "audit list" | "audit verify" | "prompts" | "resources" | "sessions list" | "sessions show" => vec![],
        "call" => vec!["fake/echo", "text=x"],
        "record" | "replay" => vec!["tape.jsonl", "call", "fake/echo", "text=x"],
        "ask" => vec!["what?", "--model", "mock/answers.json", "--allow", "*"],
        "chat" => vec!["what?", "--model", "mock/answers.json", "--allow", "*"],
        "read" => vec!["fake", "fake://note"],
        "prompt" => vec!["fake/greet", "name=x"],
        "trust diff" => vec!["--mcp-config", "turned.json"],
        "trust" => vec!["--yes"],
        "trust approve" => vec!["turned", "--yes", "--mcp-config", "turned.json"],
        "why" => vec!["fake/echo"],
        "add" => vec!["new", "--", fake, "stdio"],
        "add-json" => vec!["newer", "{ \"command\": \"x\" }", "--no-test"],
        "get" => vec!["fake"],
        "remove" | "enable" | "disable" => vec!["gone"],
        "import" => vec!["--server", "other"],
        "connect" => vec!["cursor", "--yes"],
        "untrust" => vec!["theirs"],
        "config validate" => vec!["odd.json"],
        // As a client of its own, which shows no page.
        "login" | "logout" => vec!["guarded"],
        "auth status" => vec![],
        "secret set" => vec!["github"],
        "secret list" => vec![],
        "secret rm" => vec!["github"],
        "secret key" => vec![],
        "team token" => vec!["ann", "--tenant", "acme", "--group", "eng"],
        "team members" | "team tokens" => vec![],
        "team revoke" => vec!["--member", "ann"],
        "team remove" => vec!["ann"],
        "serve" => vec!["--listen", "127.0.0.1:0", "--with-parent"],
        "sessions export" => vec!["last"],
        "sessions rename" => vec!["last", "another"],
        "sessions delete" => vec!["last", "--yes"],
        "sessions import" => vec!["theirs.db"],
        "daemon start" | "daemon restart" => vec!["--listen", "127.0.0.1:0"],
        "daemon install" | "daemon uninstall" => vec!["--unit-folder", "units"],
        "daemon status" | "daemon stop" | "daemon logs" => vec![],
        "policy test" => vec!["fake/echo", "text=x"],
        "policy list" | "policy answers" => vec![],
        "policy forget" => vec!["--all"],
        "completions" => vec!["bash"],
        "man" => vec![],
        _ => return None,
    })
}

#[test]
fn every_command_prints_what_the_page_says() {
    let documented = documented();
    let authorization = FakeAuthorization::start([]);
    let rack = rack(&authorization);
    let commands = commands_of_help(&rack).into_iter().map(|command| command.join(" "));
    // The program alone, and what only gathers commands, print nothing; the gateway speaks MCP.
    let mut commands: Vec<_> = commands
        .filter(|command| {
            !["", "audit", "auth", "config", "daemon", "gateway", "policy", "secret", "sessions", "team"]
                .contains(&command.as_str())
        })
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    // What is looked at goes before what changes it.
    commands.sort_by_key(|command| ["untrust", "trust approve", "remove"].contains(&command.as_str()));
    for command in &commands {
        let example = documented.get(command).unwrap_or_else(|| panic!("docs/json.md says nothing of `{command}`"));
        let rest = asked(command).unwrap_or_else(|| panic!("say in this test how `{command}` is asked"));
        let words: Vec<&str> = command.split(' ').chain(rest.iter().copied()).chain(["--json"]).collect();
        // `--json` behind the command of a server would be the server's.
        let words = if command == "add" { [&["--json"], &words[..words.len() - 1]].concat() } else { words };
        let ran = if command == "secret set" { rack.run_with_stdin(&words, "value") } else { rack.run(&words) };
        if let Some(difference) = difference(command, example, &ran.json()) {
            panic!("{difference}: {ran}");
        }
    }
    let known = |title: &&String| commands.contains(title) || title.as_str() == "error";
    assert_eq!(documented.keys().filter(|title| !known(title)).collect::<Vec<_>>(), Vec::<&String>::new());
    let ran = rack.run(&["call", "fake/nope", "--json"]).ends_with(5);
    assert_eq!(difference("error", &documented["error"]["error"], &ran.error()), None);
}
