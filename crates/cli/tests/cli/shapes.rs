//! `docs/json.md` agrees with the output of the commands.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolrack_testkit::authorization::{CLIENT, CLIENT_SECRET, FakeAuthorization};

use crate::{
    rack::{Rack, Usage, commands_of_help, fake, mcp_json, usages, work_file},
    sessions,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");

/// The example of each command in the page, by its title.
fn documented() -> BTreeMap<String, Value> {
    let page = std::fs::read_to_string(PAGE).unwrap();
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
        // Structured content may have any form.
        _ if at.ends_with(".structured") || at.ends_with("before") || at.ends_with("after") => None,
        _ => Some(format!("{at}: {documented} is not {printed}")),
    }
}

/// A home with an example of everything, and the arguments of each command.
fn rack(authorization: &FakeAuthorization) -> Rack {
    let oauth = json!({ "client_id": CLIENT, "client_secret": CLIENT_SECRET, "grant": "client_credentials" });
    let guarded = json!({ "url": authorization.mcp_url(), "oauth": oauth });
    let gone = json!({ "command": "/nonexistent/server" });
    let rack = Rack::with(&[("fake", fake(&[])), ("gone", gone), ("guarded", guarded)]);
    rack.home.write("home/.cursor/mcp.json", mcp_json(&[("other", fake(&[])), ("more", fake(&[]))]));
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[])), ("fake", fake(&["--tools", "1"]))]));
    let _ = rack.run(&["trust", "--yes"]).ends_with(0);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&["--tools", "2"]))]));
    work_file(
        &rack,
        "team.toml",
        "url = \"http://127.0.0.1:1\"\n[[tenants]]\nid = \"acme\"\nlimits = { calls_per_day = 9 }\n",
    );
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

/// The arguments with which each command is asked: those of this table, or else those that its help requires.
fn asked(usage: &Usage) -> Vec<&'static str> {
    let fake = toolrack_testkit::fake_server_path().to_str().unwrap();
    match usage.command.as_str() {
        "call" => vec!["fake/echo", "text=x"],
        "record" | "replay" => vec!["tape.jsonl", "call", "fake/echo", "text=x"],
        "ask" | "chat" => vec!["what?", "--model", "mock/answers.json", "--allow", "*"],
        "read" => vec!["fake", "fake://note"],
        "prompt" => vec!["fake/greet", "name=x"],
        "trust diff" => vec!["--mcp-config", "turned.json"],
        "trust" => vec!["--yes"],
        "trust approve" => vec!["turned", "--yes", "--mcp-config", "turned.json"],
        "add" => vec!["new", "--", fake, "stdio"],
        "add-json" => vec!["newer", "{ \"command\": \"x\" }", "--no-test"],
        "remove" | "enable" | "disable" => vec!["gone"],
        "import" => vec!["--server", "other"],
        "connect" => vec!["cursor", "--yes"],
        "untrust" => vec!["theirs"],
        "config validate" => vec!["odd.json"],
        // With a client that requests no page.
        "login" | "logout" => vec!["guarded"],
        "team token" => vec!["ann", "--tenant", "acme", "--group", "eng"],
        "team revoke" => vec!["--member", "ann"],
        "team audit" => vec!["--team", "team.toml", "--limit", "1"],
        "team quotas" | "team replicas" => vec!["--team", "team.toml"],
        // Where there are no rows, it needs no database.
        "store migrate" => vec!["--team", "team.toml", "--from", "sqlite:none", "--to", "postgres://127.0.0.1:1/none"],
        "serve" => vec!["--listen", "127.0.0.1:0", "--with-parent"],
        "sessions rename" => vec!["last", "another"],
        "sessions delete" => vec!["last", "--yes"],
        "sessions import" => vec!["theirs.db"],
        "daemon start" | "daemon restart" => vec!["--listen", "127.0.0.1:0"],
        "daemon install" | "daemon uninstall" => vec!["--unit-folder", "units"],
        "policy test" => vec!["fake/echo", "text=x"],
        "policy forget" => vec!["--all"],
        command => usage
            .required
            .iter()
            .map(|name| match name.as_str() {
                // One without an export.
                "FOLDER" => ".",
                "MEMBER" => "ann",
                "SECRET" => "github",
                "SERVER" => "fake",
                "SESSION" => "last",
                "SHELL" => "bash",
                "TOOL" => "fake/echo",
                other => panic!("say in this test how `{command}` is asked: it wants {other}"),
            })
            .collect(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a contributor who runs the tests sets the variable")]
fn is_renewed() -> bool {
    std::env::var_os("TOOLRACK_RENEW").is_some()
}

/// Adds the section of `command` to the page, with one item of each list, behind the section of the command before it.
fn add_section(command: &str, before: Option<&str>, printed: &Value, rack: &Rack) {
    fn shortened(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().take(1).map(shortened).collect(),
            Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
            other => other.clone(),
        }
    }
    let example = shortened(printed).to_string().replace(rack.home.root().to_str().unwrap(), "/home/ada");
    let section = format!("\n### {command}\n\n```json\n{example}\n```\n");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let start = before.and_then(|before| page.find(&format!("\n### {before}\n"))).unwrap_or(page.len());
    let rest = page.get(start + 1..).unwrap_or_default();
    let end =
        ["\n### ", "\n## "].iter().filter_map(|next| rest.find(next)).min().map_or(page.len(), |end| start + 1 + end);
    std::fs::write(PAGE, [&page[..end], &section, &page[end..]].concat()).unwrap();
}

#[test]
fn every_command_prints_the_documented_json() {
    let documented = documented();
    let authorization = FakeAuthorization::start([]);
    let rack = rack(&authorization);
    let known = usages();
    let commands = commands_of_help(&rack).into_iter().map(|command| command.join(" "));
    let usages = commands.filter_map(|command| known.iter().find(|usage| usage.command == command));
    // The gateway speaks MCP.
    let mut usages: Vec<_> = usages.filter(|usage| usage.command != "gateway").collect();
    // Commands that only read come before those that change something.
    usages.sort_by_key(|usage| ["untrust", "trust approve", "remove"].contains(&usage.command.as_str()));
    let mut before = None;
    for usage in &usages {
        let command = usage.command.as_str();
        let rest = asked(usage);
        let words: Vec<&str> = command.split(' ').chain(rest.iter().copied()).chain(["--json"]).collect();
        // `--json` behind the command of a server would be the server's.
        let words = if command == "add" { [&["--json"], &words[..words.len() - 1]].concat() } else { words };
        let ran = if command == "secret set" { rack.run_with_stdin(&words, "value") } else { rack.run(&words) };
        match documented.get(command) {
            Some(example) => {
                if let Some(difference) = difference(command, example, &ran.json()) {
                    panic!("{difference}: {ran}");
                }
            }
            None if is_renewed() => add_section(command, before, &ran.json(), &rack),
            None => panic!("docs/json.md says nothing of `{command}`: run this test with TOOLRACK_RENEW=1"),
        }
        before = Some(command);
    }
    let commands: Vec<_> = usages.iter().map(|usage| usage.command.clone()).collect();
    let known = |title: &&String| commands.contains(title) || title.as_str() == "error";
    assert_eq!(documented.keys().filter(|title| !known(title)).collect::<Vec<_>>(), Vec::<&String>::new());
    let ran = rack.run(&["call", "fake/nope", "--json"]).ends_with(5);
    assert_eq!(difference("error", &documented["error"]["error"], &ran.error()), None);
}
