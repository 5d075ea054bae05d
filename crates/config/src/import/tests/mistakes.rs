//! Files of other programs as people get them wrong.

use super::{fields::path_of, *};

/// Returns the text of a file of `client` with the entry `a` on line 4, as several editors would save it.
fn layouts(client: Client) -> Vec<String> {
    let key = match client {
        Client::VsCode => "servers",
        Client::Zed => "context_servers",
        Client::OpenCode => "mcp",
        _ => "mcpServers",
    };
    let text = match client {
        Client::Codex => "# mine\nmodel = \"x\"\n\n[mcp_servers.a]\ncommand = \"ä\"\nargs = [\"1\"] # one\n".to_owned(),
        _ => format!(
            "{{\n  // mine\n  \"{key}\": {{\n    \"a\": {{ \"command\": \"ä\", \"args\": [\"1\",], /* one */ }},\n  }},\n}}\n"
        ),
    };
    let windows = text.replace('\n', "\r\n");
    vec![format!("\u{feff}{text}"), format!("\u{feff}{windows}"), windows, text.trim_end().to_owned(), text]
}

#[test]
fn marks_and_line_ends_of_every_editor_change_nothing_in_what_is_offered() {
    for &client in Client::ALL {
        for text in layouts(client) {
            let disk = Disk::new();
            disk.write(path_of(client, &disk), &text);
            let found = disk.look(client);
            assert!(found.problems.is_empty(), "{client} {text:?}: {:#?}", found.problems);
            let [offer] = &*found.offers else { panic!("{client} {text:?}: {found:#?}") };
            assert_eq!((&*offer.name, offer.line), ("a", Some(4)), "{client} {text:?}");
            assert_eq!(offer.entry, json!({ "command": "ä", "args": ["1"] }), "{client} {text:?}");
        }
    }
}

#[test]
fn an_entry_with_a_mistake_is_named_with_its_line_and_costs_no_other() {
    for (fields, sentence) in [
        (r#""command": 5"#, "`command` must be text, not a number"),
        (r#""command": "", "description": "canary""#, "`command` is empty"),
        (r#""command": "x", "args": "canary""#, "`args` must be a list of texts"),
        (r#""command": "x", "args": [["canary"]]"#, "`args[0]` must be text, not a list"),
        (r#""command": "x", "env": ["A=canary"]"#, "`env` must be an object of texts"),
        (r#""command": "x", "env": { "A": { "canary": 1 } }"#, "`env.A` must be text, not an object"),
        (r#""command": "x", "env": { "A=B": "canary" }"#, "a variable's name cannot be empty or hold `=`"),
        (r#""command": "x", "disabled": "canary""#, "`disabled` must be true or false, not text"),
        (r#""command": "canary", "url": "https://x""#, "both `command` and `url` are given"),
        (r#""command": "x", "command": "canary""#, "`command` is given twice"),
        (r#""command": "x", "env": { "A": "canary", "A": "canary" }"#, "`A` is given twice"),
        (r#""url": true"#, "`url` must be text, not true or false"),
        (r#""url": "canary.example""#, "`url` must begin with `http://` or `https://`"),
        (r#""url": "https://x", "type": "canary""#, "`type` must be `stdio`, `http` or `sse`"),
        (r#""url": "https://x", "headers": { "A B": "canary" }"#, "this cannot be the name of a header"),
        (r#""url": "https://x", "headers": { "A": "canary\n" }"#, "`headers.A` holds control characters"),
        (r#""args": [], "headers": {}"#, "the entry is empty"),
    ] {
        let disk = Disk::new();
        let text = format!(
            "{{ \"mcpServers\": {{\n\"good\": {{ \"command\": \"x\" }},\n\"bad\": {{ {fields} }},\n\"also\": {{ \"url\": \"https://x\" }} }} }}"
        );
        disk.write(".cursor/mcp.json", &text);
        let found = disk.look(Client::Cursor);
        assert_eq!(found.offers.iter().map(|offer| &*offer.name).collect::<Vec<_>>(), ["good", "also"], "{fields}");
        let errors: Vec<_> = found.problems.iter().filter(|problem| problem.is_error()).collect();
        let [problem] = &*errors else { panic!("{fields}: {:#?}", found.problems) };
        assert_eq!((problem.entry.as_deref(), problem.line), (Some("bad"), Some(3)), "{fields}");
        assert!(problem.message.starts_with(sentence), "{fields}: {}", problem.message);
        assert!(!format!("{problem:#}").contains("canary"), "{fields}: {problem:#}");
    }
}

#[test]
fn of_several_entries_with_one_name_none_is_offered_because_programs_differ_in_which_they_use() {
    let disk = Disk::new();
    let entries = "\"a\": { \"command\": \"1\" },\n\"b\": { \"command\": \"b\" },\n\"a\": { \"command\": \"2\" }";
    disk.write(".cursor/mcp.json", &format!("{{ \"mcpServers\": {{\n{entries} }} }}"));
    let shop = json!(disk.project().to_str().unwrap());
    disk.write(".claude.json", &format!("{{ \"projects\": {{ {shop}: {{ \"mcpServers\": {{\n{entries} }} }} }} }}"));
    for (client, lines) in [(Client::Cursor, vec![Some(2), Some(4)]), (Client::ClaudeCode, vec![Some(2)])] {
        let found = disk.look(client);
        assert_eq!(found.offers.iter().map(|offer| &*offer.name).collect::<Vec<_>>(), ["b"], "{client}");
        assert_eq!(found.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), lines, "{client}");
        assert!(found.problems[0].message.contains("several entries of this name"), "{:#?}", found.problems);
    }
}

#[test]
fn a_file_that_is_nested_without_end_is_an_error_for_every_program() {
    for &client in Client::ALL {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let depth = 100_000;
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            let text = match client {
                Client::Codex => format!("mcp_servers = {}1{close}", open.replace(':', "=")),
                _ => format!("{{ \"mcpServers\": {open}1{close} }}"),
            };
            let disk = Disk::new();
            disk.write(path_of(client, &disk), &text);
            let found = disk.look(client);
            assert!(found.offers.is_empty() && found.problems.len() == 1, "{client}");
            assert!(found.problems[0].to_string().len() < 2_000, "{client}");
        }
    }
}

#[test]
fn a_place_of_servers_that_is_null_has_none_and_any_other_value_is_an_error() {
    for (client, keys) in [
        (Client::ClaudeCode, vec!["mcpServers"]),
        (Client::VsCode, vec!["servers"]),
        (Client::VsCode, vec!["mcp", "servers"]),
        (Client::VsCode, vec!["mcp.servers"]),
        (Client::Zed, vec!["context_servers"]),
        (Client::OpenCode, vec!["mcp"]),
    ] {
        for (value, is_error) in [(json!(null), false), (json!([]), true), (json!("canary"), true), (json!(1), true)] {
            let file = keys.iter().rev().fold(value.clone(), |below, key| json!({ *key: below }));
            let disk = Disk::new();
            disk.write(path_of(client, &disk), &file.to_string());
            let found = disk.look(client);
            let problems: Vec<_> = found.problems.iter().map(|problem| &*problem.message).collect();
            let expected = format!("`{}` must be an object of servers", keys.join("."));
            assert_eq!(problems, if is_error { vec![&*expected] } else { vec![] }, "{client} {value}");
        }
    }
}
