//! The files of eight programs as their documentation shows them: each loads, is imported, and survives edits.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};
use toolrack_config::{
    Environment,
    edit::{self, EditError, Options},
    import::{Client, Offer, look},
};

use super::{load_file, load_text};

/// A file, where its program keeps it, and the names of its servers.
struct Example {
    client: Client,
    place: &'static str,
    text: &'static str,
    names: &'static [&'static str],
}

const EXAMPLES: &[Example] = &[
    Example {
        client: Client::ClaudeCode,
        place: ".claude.json",
        text: include_str!("examples/claude-code.json"),
        names: &["airtable", "asana", "internal-api", "stripe"],
    },
    Example {
        client: Client::ClaudeDesktop,
        place: ".config/Claude/claude_desktop_config.json",
        text: include_str!("examples/claude-desktop.json"),
        names: &["brave-search", "filesystem"],
    },
    Example {
        client: Client::Cursor,
        place: ".cursor/mcp.json",
        text: include_str!("examples/cursor.json"),
        names: &["local-server", "oauth-server", "web-api"],
    },
    Example {
        client: Client::VsCode,
        place: ".config/Code/User/mcp.json",
        text: include_str!("examples/vscode.json"),
        names: &["github", "perplexity", "playwright"],
    },
    Example {
        client: Client::VsCode,
        place: ".config/Code/User/settings.json",
        text: include_str!("examples/vscode-settings.json"),
        names: &["myServer"],
    },
    Example {
        client: Client::Windsurf,
        place: ".codeium/windsurf/mcp_config.json",
        text: include_str!("examples/windsurf.json"),
        names: &["github", "remote"],
    },
    Example {
        client: Client::Codex,
        place: ".codex/config.toml",
        text: include_str!("examples/codex.toml"),
        names: &["context7", "figma"],
    },
    Example {
        client: Client::Gemini,
        place: ".gemini/settings.json",
        text: include_str!("examples/gemini.json"),
        names: &["discoveredServer", "googleCloudServer", "httpServer", "pythonTools"],
    },
    Example {
        client: Client::OpenCode,
        place: ".config/opencode/opencode.jsonc",
        text: include_str!("examples/opencode.jsonc"),
        names: &["context7", "my-local-mcp-server", "sentry"],
    },
    Example {
        client: Client::OpenCode,
        place: ".config/opencode/opencode.json",
        text: include_str!("examples/opencode-2.jsonc"),
        names: &["everything", "my-server"],
    },
];

impl Example {
    /// A home folder that holds the file.
    fn home(&self) -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join(self.place);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, self.text).expect("a file");
        (home, path)
    }

    fn file_name(&self) -> &str {
        Path::new(self.place).file_name().and_then(|name| name.to_str()).expect("a name")
    }
}

#[test]
fn every_program_s_file_loads() {
    for example in EXAMPLES {
        let loaded = load_text(example.file_name(), example.text);
        let mut names: Vec<_> = loaded.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, example.names, "{}", example.place);
        // What only VS Code can ask for is an error, and the only one.
        let broken: Vec<_> = loaded.errors().filter_map(|problem| problem.entry.as_deref()).collect();
        let expected: &[&str] = if example.place.ends_with("User/mcp.json") { &["perplexity"] } else { &[] };
        assert_eq!(broken, expected, "{}: {:#?}", example.place, loaded.problems);
    }
}

fn offers(example: &Example) -> Vec<Offer> {
    let (home, path) = example.home();
    let environment = Environment::new([("HOME", home.path())]);
    let found = look(&environment, Path::new("/home/ada/shop"), &[example.client]);
    assert!(found.problems.is_empty(), "{:#?}", found.problems);
    assert_eq!(found.files, [path]);
    found.offers
}

#[test]
fn every_program_s_servers_are_offered_and_can_be_added_as_they_are() {
    for example in EXAMPLES {
        let offers = offers(example);
        let mut names: Vec<_> = offers.iter().map(|offer| offer.name.as_str()).collect();
        // The private server of the folder is there too.
        names.retain(|name| *name != "memory");
        names.sort_unstable();
        assert_eq!(names, example.names, "{}", example.place);

        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("mcp.json");
        for offer in &offers {
            let edited = edit::add(&path, &offer.name, &offer.entry, Options::default()).expect("an edit");
            assert!(edited.warnings.is_empty(), "{}: {:#?}", offer.name, edited.warnings);
        }
        let loaded = load_file(home.path(), &path);
        assert!(loaded.problems.is_empty(), "{:#?}", loaded.problems);
        for offer in &offers {
            let entry = loaded.entry(&offer.name).expect("the entry");
            assert_eq!((&entry.view, &entry.hash), (&offer.view, &offer.hash), "{}", offer.name);
        }
    }
}

/// The offers of the program's files as `name: entry` and its notes, for all to see.
#[test]
fn imported_servers_keep_the_meaning_of_every_program() {
    let entry = |client: Client, name: &str| {
        let found = EXAMPLES.iter().filter(|example| example.client == client).flat_map(offers);
        let offer = found.into_iter().find(|offer| offer.name == name).expect("an offer");
        (offer.entry, offer.notes.join("\n"))
    };
    let same = |client, name, expected: Json, notes: &[&str]| {
        let (entry, said) = entry(client, name);
        assert_eq!(entry, expected);
        assert_eq!(said.lines().count(), notes.len(), "{said}");
        notes.iter().for_each(|note| assert!(said.contains(note), "{note}: {said}"));
    };
    same(
        Client::ClaudeCode,
        "airtable",
        json!({
            "type": "stdio", "command": "npx", "args": ["-y", "airtable-mcp-server"],
            "env": { "AIRTABLE_API_KEY": "${AIRTABLE_API_KEY}" }, "call_timeout": 600, "max_call_time": 600,
        }),
        &[],
    );
    same(
        Client::ClaudeCode,
        "asana",
        json!({ "type": "sse", "url": "https://mcp.asana.com/sse", "headers": { "X-API-Key": "${ASANA_KEY:-none}" } }),
        &[],
    );
    same(
        Client::Cursor,
        "local-server",
        json!({ "command": "python", "args": ["/home/ada/shop/tools/mcp_server.py"], "env": { "API_KEY": "${API_KEY}" } }),
        &["`envFile` is left out", "`${workspaceFolder}` is replaced by /home/ada/shop"],
    );
    same(
        Client::VsCode,
        "perplexity",
        json!({
            "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask"],
            "env": { "PERPLEXITY_API_KEY": "${secret:perplexity-key}" },
        }),
        &["`toolrack secret set perplexity-key` stores what VS Code asks for (API key)"],
    );
    same(
        Client::Windsurf,
        "remote",
        json!({
            "type": "http", "url": "https://example.com/mcp", "headers": { "API_KEY": "${AUTH_TOKEN}" }, "disabled": true,
        }),
        &[],
    );
    same(
        Client::Codex,
        "figma",
        json!({
            "type": "http", "url": "https://mcp.figma.com/mcp", "enabled": false,
            "headers": { "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}", "X-Figma-Region": "us-east-1" },
            "tools": { "allow": ["open", "screenshot"], "deny": ["screenshot"] },
        }),
        &[],
    );
    same(
        Client::Gemini,
        "discoveredServer",
        json!({ "type": "sse", "url": "https://api.example.com/sse", "enabled": false }),
        &["`mcp.excluded` disables this server"],
    );
    same(
        Client::OpenCode,
        "context7",
        json!({
            "type": "http", "url": "https://mcp.context7.com/mcp", "startup_timeout": 5, "list_timeout": 5,
            "headers": { "CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}" },
        }),
        &[],
    );
    same(
        Client::OpenCode,
        "everything",
        json!({
            "type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"], "cwd": ".",
            "env": { "LOG_LEVEL": "info" }, "startup_timeout": 10, "call_timeout": 120,
        }),
        &[],
    );
}

#[test]
fn every_program_s_file_survives_edits_byte_for_byte() {
    let servers = [
        json!({ "command": "new", "args": ["a b", "\"c\""], "env": { "A": "b" } }),
        json!({ "type": "http", "url": "https://x", "headers": { "Authorization": "Bearer ${TOKEN}" } }),
    ];
    for example in EXAMPLES {
        let (home, path) = example.home();
        let text = || fs::read_to_string(&path).expect("the file");
        for server in &servers {
            edit::add(&path, "new", server, Options::default()).expect("an edit");
            assert_ne!(text(), example.text);
            let added = load_file(home.path(), &path);
            assert!(added.desired.contains_key("new"), "{}: {:#?}\n{}", example.place, added.problems, text());
            for enabled in [false, true] {
                edit::switch(&path, "new", enabled, Options::default()).expect("an edit");
                assert_eq!(load_file(home.path(), &path).desired["new"].enabled, enabled, "{}", text());
            }
            edit::remove(&path, "new", Options::default()).expect("an edit");
            assert_eq!(text(), example.text, "{}", example.place);
        }
        for name in example.names {
            for enabled in [false, true] {
                edit::switch(&path, name, enabled, Options::default()).expect("an edit");
                let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
                let (before, after) = (lines(example.text), lines(&text()));
                let changed = after.iter().filter(|line| !before.contains(line)).count();
                assert!(changed <= 2, "{name}: {}", text());
                let entry = load_file(home.path(), &path).entry(name).expect("the entry").clone();
                assert!(!entry.is_valid || entry.enabled == enabled, "{name}");
            }
            fs::write(&path, example.text).expect("a file");
            let comments = |text: &str| text.matches("//").count() - text.matches("://").count();
            edit::remove(&path, name, Options::default()).expect("an edit");
            let loaded = load_file(home.path(), &path);
            assert_eq!(loaded.entries.len(), example.names.len() - 1, "{name}: {}", text());
            assert!(comments(&text()) + 2 >= comments(example.text));
            // Every line that remains was there before, and in this order: but for a comma.
            let mut before = example.text.lines();
            for line in text().lines() {
                let bare =
                    |line: &str| line.trim_end().trim_end_matches(',').trim_end_matches(['{', '}', ' ']).to_owned();
                assert!(before.any(|other| bare(other) == bare(line)), "{name}: {line}\n{}", text());
            }
            fs::write(&path, example.text).expect("a file");
        }
    }
}

#[test]
fn opencode_two_is_switched_in_its_own_word() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("opencode.json");
    fs::write(&path, r#"{ "mcp": { "servers": { "a": { "type": "local", "command": ["a"] } } } }"#).expect("a file");
    edit::switch(&path, "a", false, Options::default()).expect("an edit");
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.contains(r#""command": ["a"], "disabled": true"#), "{text}");
    assert!(!load_file(home.path(), &path).desired["a"].enabled);
}

#[test]
fn a_program_gets_nothing_that_it_has_no_words_for() {
    for example in EXAMPLES.iter().filter(|example| matches!(example.client, Client::Codex | Client::OpenCode)) {
        let (_home, path) = example.home();
        let entry = json!({ "type": "sse", "url": "https://x" });
        let error = edit::add(&path, "new", &entry, Options::default()).expect_err("an error");
        assert!(matches!(&error, EditError::Foreign { field, .. } if field == "type"), "{error}");
        assert!(error.to_string().contains(&format!("belongs to {}, which has nothing like `type`", example.client)));
        let error = edit::switch(&path, "none", false, Options::default()).expect_err("an error");
        assert!(matches!(error, EditError::Missing { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("the file"), example.text);
    }
}
