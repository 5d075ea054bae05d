//! Properties of every file: an edit keeps every byte outside of its entry, and no output shows a secret.

use std::fs;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolrack_config::{
    Environment, Places, Request,
    edit::{self, Options},
    import::{Client, look},
    load,
    trust::NoLedger,
};

use super::load_file;

/// A file in parts: the text before the entries, each entry with its name, and the text after them.
#[derive(Clone, Debug)]
struct Parts {
    file: &'static str,
    head: String,
    entries: Vec<(String, String)>,
    tail: String,
}

impl Parts {
    fn text(&self) -> String {
        let entries: String = self.entries.iter().map(|(_, text)| text.as_str()).collect();
        format!("{}{entries}{}", self.head, self.tail)
    }

    /// The text before and after the entry `index`.
    fn around(&self, index: usize) -> (String, String) {
        let join = |entries: &[(String, String)]| entries.iter().map(|(_, text)| text.as_str()).collect::<String>();
        let before = format!("{}{}", self.head, join(&self.entries[..index]));
        (before, format!("{}{}", join(&self.entries[index + 1..]), self.tail))
    }
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set("[a-z][a-z0-9 ._🦀-]{0,6}[a-z]", 1..5).prop_map(|names| names.into_iter().collect())
}

fn comment() -> impl Strategy<Value = String> {
    "[a-z \"'{}\\[\\]=,#/]{0,12}".prop_map(|text| text.replace("*/", ""))
}

/// JSON with one entry a line, comments between and inside them, and commas after all of them or all but the last.
fn json_parts() -> impl Strategy<Value = Parts> {
    let style = (prop::sample::select(vec!["\n", "\r\n"]), prop::sample::select(vec!["  ", "\t"]), any::<bool>());
    (names(), style, prop::collection::vec((comment(), 0..4_usize), 5)).prop_map(|(names, style, notes)| {
        let (newline, indent, is_trailing) = style;
        let last = names.len() - 1;
        let entries = names.into_iter().enumerate().map(|(index, name)| {
            let (note, kind) = &notes[index];
            let body = match kind {
                0 => "{ \"command\": \"x\" }".to_owned(),
                1 => format!("{{ /* {note} */ \"odd\": [1, 2], \"command\": \"x\", \"enabled\": true }}"),
                2 => format!("{{{newline}{indent}{indent}\"url\": \"https://x\", // {note}{newline}{indent}}}"),
                _ => format!("{{{newline}{indent}{indent}\"command\": \"x\",{newline}{indent}}}"),
            };
            let comma = if index < last || is_trailing { "," } else { "" };
            let text = format!("{indent}// {note}{newline}{indent}{}: {body}{comma}{newline}", Json::from(&*name));
            (name, text)
        });
        let entries: Vec<_> = entries.collect();
        let head = format!("// {}{newline}{{ \"other\": 1,{newline}\"mcpServers\": {{{newline}", notes[4].0);
        Parts { file: "mcp.json", head, entries, tail: format!("}} }} // end{newline}") }
    })
}

/// TOML with a table for each entry, in our format or in Codex's.
fn toml_parts() -> impl Strategy<Value = Parts> {
    let style = (prop::sample::select(vec!["\n", "\r\n"]), any::<bool>());
    (names(), style, prop::collection::vec((comment(), 0..4_usize), 5)).prop_map(|(names, style, notes)| {
        let (newline, is_codex) = style;
        let entries = names.into_iter().enumerate().map(|(index, name)| {
            let (note, kind) = &notes[index];
            let key = Json::from(&*name);
            let (header, below) = match is_codex {
                true => (format!("[mcp_servers.{key}]"), format!("[mcp_servers.{key}.env]")),
                false => (format!("[[defaults.mcp]]{newline}name = {key}"), "[defaults.mcp.env]".to_owned()),
            };
            let body = match kind {
                0 => "command = \"x\"".to_owned(),
                1 => format!(
                    "odd = [{newline} 1, # {note}{newline}]{newline}command = 'x' # {note}{newline}enabled = true"
                ),
                2 => format!("command = \"\"\"{newline}x\"\"\"{newline}{below}{newline}K = \"v\" # {note}"),
                _ => "command = \"x\"\nenv.K = \"v\"".replace('\n', newline),
            };
            (name, format!("{newline}# {note}{newline}{header}{newline}{body}{newline}"))
        });
        let entries: Vec<_> = entries.collect();
        let head = format!("# {}{newline}model = \"m\"{newline}", notes[4].0);
        let file = if is_codex { "config.toml" } else { "toolrack.toml" };
        Parts { file, head, entries, tail: format!("{newline}[other]{newline}x = 1{newline}") }
    })
}

/// Removes white space and commas, which an edit may remove with an entry.
fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect()
}

fn check_edits(parts: &Parts, chosen: prop::sample::Index) -> Result<(), TestCaseError> {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join(parts.file);
    let text = parts.text();
    let read = || fs::read_to_string(&path).expect("the file");
    let index = chosen.index(parts.entries.len());
    let (name, own) = &parts.entries[index];
    let (before, after) = parts.around(index);
    fs::write(&path, &text).expect("a file");
    let loaded = load_file(home.path(), &path);
    prop_assert_eq!(loaded.desired.len(), parts.entries.len(), "{:#?}\n{}", loaded.problems, text);

    edit::add(&path, "new one", &json!({ "command": "n", "args": ["a"] }), Options::default()).expect("an edit");
    prop_assert_eq!(load_file(home.path(), &path).desired.len(), parts.entries.len() + 1);
    edit::remove(&path, "new one", Options::default()).expect("an edit");
    prop_assert_eq!(read(), text.as_str(), "adding and removing leaves no trace");

    edit::switch(&path, name, false, Options::default()).expect("an edit");
    let switched = read();
    prop_assert!(switched.starts_with(&before) && switched.ends_with(&after), "{}", switched);
    prop_assert!(!load_file(home.path(), &path).desired[&**name].enabled);

    fs::write(&path, &text).expect("a file");
    edit::add(&path, name, &json!({ "command": "n" }), Options { replace: true, dry_run: false }).expect("an edit");
    let replaced = read();
    prop_assert!(replaced.starts_with(&before) && replaced.ends_with(&after), "{}", replaced);

    fs::write(&path, &text).expect("a file");
    edit::remove(&path, name, Options::default()).expect("an edit");
    // The comment above an entry stays where it is.
    let note: String = own
        .split_inclusive('\n')
        .take_while(|line| {
            without_separators(line).is_empty()
                || !line.contains(['"', '['])
                || line.trim_start().starts_with(['#', '/'])
        })
        .take(2)
        .collect();
    let left = without_separators(&read());
    prop_assert!(
        left.starts_with(&without_separators(&before)) && left.ends_with(&without_separators(&after)),
        "{}",
        read()
    );
    prop_assert!(
        left.len()
            <= without_separators(&before).len() + without_separators(&after).len() + without_separators(&note).len(),
        "{}",
        read()
    );
    prop_assert_eq!(load_file(home.path(), &path).entries.len(), parts.entries.len() - 1);
    Ok(())
}

/// A value that holds a secret, and no placeholder that is named like it.
fn secret() -> impl Strategy<Value = String> {
    let around = r#"[ -~é\t]{0,10}"#;
    (around, around).prop_map(|(before, after)| format!("{before}.cAnArY.{after}").replace('$', "$$"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn edits_of_json_keep_every_other_byte(parts in json_parts(), chosen in any::<prop::sample::Index>()) {
        check_edits(&parts, chosen)?;
    }

    #[test]
    fn edits_of_toml_keep_every_other_byte(parts in toml_parts(), chosen in any::<prop::sample::Index>()) {
        check_edits(&parts, chosen)?;
    }

    #[test]
    fn no_output_shows_values_of_env_and_headers(value in secret(), name in "[A-Za-z][A-Za-z0-9_-]{0,8}", damage in 0..200_usize) {
        let home = tempfile::tempdir().expect("a temporary folder");
        for (entry, field) in [(json!({ "command": "x" }), "env"), (json!({ "url": "https://x" }), "headers")] {
            let mut entry = entry;
            entry[field] = json!({ &*name: value });
            let servers = json!({ "mcpServers": { "a": entry } });
            let text = serde_json::to_string_pretty(&servers).expect("JSON");
            let path = home.path().join(".cursor/mcp.json");
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            for text in [text.clone(), servers.to_string(), text[..text.floor_char_boundary(damage)].to_owned()] {
                fs::write(&path, &text).expect("a file");
                let loaded = load_file(home.path(), &path);
                let found = look(&Environment::new([("HOME", home.path())]), home.path(), &[Client::Cursor]);
                let dry = Options { dry_run: true, replace: true };
                let switched = edit::switch(&path, "a", false, dry);
                let added = edit::add(&path, "b", &entry, dry);
                let shown = [
                    loaded.entries.iter().map(|entry| entry.view.to_string()).collect::<String>(),
                    loaded.problems.iter().map(ToString::to_string).collect(),
                    found.offers.iter().map(|offer| format!("{} {:?}", offer.view, offer.notes)).collect(),
                    found.problems.iter().map(ToString::to_string).collect(),
                    switched.map_or_else(|error| error.to_string(), |edited| edited.diff),
                    added.map_or_else(|error| error.to_string(), |edited| edited.diff),
                ];
                prop_assert!(!shown.concat().contains("cAnArY"), "{:#?}", shown);
            }
        }
    }

    #[test]
    fn no_bytes_of_any_file_stop_a_command(bytes in prop::collection::vec(any::<u8>(), 0..120), which in 0..12_usize) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let places = [
            "toolrack.toml", "mcp.json", ".mcp.json", ".toolrack/mcp.json", ".claude.json", ".cursor/mcp.json",
            ".vscode/mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json",
            ".codeium/windsurf/mcp_config.json", ".config/Claude/claude_desktop_config.json",
        ];
        let path = home.path().join(places[which]);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &bytes).expect("a file");
        let request = Request { agent: Some("a".into()), ..Request::new(Places::under(home.path()), home.path()) };
        let loaded = load(&request, &NoLedger);
        let found = look(&Environment::new([("HOME", home.path())]), home.path(), Client::ALL);
        for problem in loaded.problems.iter().chain(&found.problems) {
            let shown = problem.to_string();
            prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        }
    }
}

#[test]
fn a_file_that_is_nested_without_end_is_an_error_and_no_crash() {
    for depth in [200, 2_000, 200_000] {
        for (name, text) in [
            ("mcp.json", format!("{{ \"mcpServers\": {}", "[".repeat(depth))),
            ("mcp.json", format!("{{ \"mcpServers\": {}1{} }}", "[".repeat(depth), "]".repeat(depth))),
            ("mcp.json", format!("{{ \"mcpServers\": {}1{} }}", "{\"a\":".repeat(depth), "}".repeat(depth))),
            ("toolrack.toml", format!("a = {}1{}", "[".repeat(depth), "]".repeat(depth))),
            ("toolrack.toml", format!("a = {}1{}", "{a=".repeat(depth), "}".repeat(depth))),
            ("toolrack.toml", format!("[{}a]", "a.".repeat(depth))),
            ("toolrack.toml", format!("{}a = 1", "a.".repeat(depth))),
        ] {
            let loaded = super::load_text(name, &text);
            assert!(!loaded.problems.is_empty() && loaded.problems[0].to_string().len() < 2000, "{name} {depth}");
        }
    }
}
