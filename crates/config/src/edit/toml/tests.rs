use std::fs;

use serde_json::json;

use super::super::{EditError, Edited, Options, add, remove, switch};

const REPLACE: Options = Options { replace: true, dry_run: false };

/// A file of this name.
struct File(tempfile::TempDir, &'static str);

impl File {
    fn new(name: &'static str, text: &str) -> Self {
        let file = Self(tempfile::tempdir().unwrap(), name);
        fs::create_dir_all(file.path().parent().unwrap()).unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn ours(text: &str) -> Self {
        Self::new("toolrack.toml", text)
    }

    fn codex(text: &str) -> Self {
        Self::new(".codex/config.toml", text)
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().canonicalize().unwrap().join(self.1)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn add(&self, name: &str) -> Result<Edited, EditError> {
        add(&self.path(), name, &json!({ "command": "npx", "args": ["-y", "x"] }), Options::default())
    }

    fn switch(&self, name: &str, enabled: bool) -> Result<Edited, EditError> {
        switch(&self.path(), name, enabled, Options::default())
    }

    fn remove(&self, name: &str) -> Result<Edited, EditError> {
        remove(&self.path(), name, Options::default())
    }
}

const NEW: &str = "[[defaults.mcp]]\nname = \"new\"\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\n";

#[test]
fn an_added_server_comes_last_and_its_removal_leaves_no_trace() {
    for (before, after) in [
        ("", NEW.to_owned()),
        ("# settings\nunset = \"empty\"", format!("# settings\nunset = \"empty\"\n\n{NEW}")),
        (
            "[[defaults.mcp]] # first\nname = \"a\"\ncommand = 'a' # why\nenv.K = \"v\"\n[defaults.mcp.headers]\nA = \"b\"\n# end of it\n\n[other]\nx = 1\n",
            format!(
                "[[defaults.mcp]] # first\nname = \"a\"\ncommand = 'a' # why\nenv.K = \"v\"\n[defaults.mcp.headers]\nA = \"b\"\n\n{NEW}# end of it\n\n[other]\nx = 1\n"
            ),
        ),
    ] {
        let file = File::ours(before);
        file.add("new").unwrap();
        assert_eq!(file.text(), after);
        file.remove("new").unwrap();
        let trimmed = |text: &str| text.trim_end().to_owned();
        assert_eq!(trimmed(&file.text()), trimmed(before), "but for a line end that was missing");
    }
}

#[test]
fn comments_order_unknown_keys_and_line_ends_survive() {
    let before = "\u{feff}# mine\r\nodd = { a = 1 }\r\n\r\n[[defaults.mcp]]\r\nname = \"a\"\r\nunknown = 1 # kept\r\ncommand = \"\"\"a\r\nb\"\"\"\r\n\r\n# about b\r\n[[defaults.mcp]]\r\nname = \"b\"\r\nurl = \"https://b\"\r\n";
    let file = File::ours(before);
    file.switch("a", false).unwrap();
    assert_eq!(file.text(), before.replace("b\"\"\"\r\n", "b\"\"\"\r\nenabled = false\r\n"));
    file.switch("a", true).unwrap();
    assert_eq!(file.text(), before.replace("b\"\"\"\r\n", "b\"\"\"\r\nenabled = true\r\n"));
    fs::write(file.path(), before).unwrap();
    file.remove("b").unwrap();
    assert_eq!(file.text(), before.split("[[defaults.mcp]]\r\nname = \"b\"").next().unwrap(), "what is above stays");
    file.remove("a").unwrap();
    assert_eq!(file.text(), "\u{feff}# mine\r\nodd = { a = 1 }\r\n\r\n# about b\r\n");
}

#[test]
fn tables_of_an_entry_are_found_wherever_they_are() {
    let before = "[mcp_servers.x]\ncommand = \"x\"\n\n[mcp_servers.y]\ncommand = \"y\"\n\n[mcp_servers.x.env]\nK = \"v\"\n\n[mcp_servers.y.env]\nK = \"w\"\n";
    let file = File::codex(before);
    file.remove("x").unwrap();
    assert_eq!(file.text(), "\n[mcp_servers.y]\ncommand = \"y\"\n\n[mcp_servers.y.env]\nK = \"w\"\n");
    let file = File::codex(before);
    add(&file.path(), "x", &json!({ "url": "https://x" }), REPLACE).unwrap();
    assert_eq!(
        file.text(),
        "[mcp_servers.x]\nurl = \"https://x\"\n\n[mcp_servers.y]\ncommand = \"y\"\n\n[mcp_servers.y.env]\nK = \"w\"\n"
    );
    file.switch("x", false).unwrap();
    assert!(file.text().starts_with("[mcp_servers.x]\nurl = \"https://x\"\nenabled = false\n\n"));
}

#[test]
fn entries_on_one_line_are_edited_there() {
    let before = "[mcp_servers]\na = { command = \"a\" } # a\n\"b c\" = { command = \"b\", enabled = true }\n";
    let file = File::codex(before);
    file.switch("a", false).unwrap();
    file.switch("b c", false).unwrap();
    assert_eq!(
        file.text(),
        "[mcp_servers]\na = { command = \"a\", enabled = false } # a\n\"b c\" = { command = \"b\", enabled = false }\n"
    );
    add(&file.path(), "b c", &json!({ "command": "c" }), REPLACE).unwrap();
    assert!(file.text().ends_with("\"b c\" = { command = \"c\" }\n"), "{}", file.text());
    file.remove("a").unwrap();
    assert_eq!(file.text(), "[mcp_servers]\n\"b c\" = { command = \"c\" }\n");
    file.add("d").unwrap();
    assert!(
        file.text().ends_with("\n\n[mcp_servers.d]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\n"),
        "{}",
        file.text()
    );
}

#[test]
fn an_entry_with_only_enabled_switches_a_built_in_server() {
    let file = File::ours("");
    file.switch("toolrack", false).unwrap();
    assert_eq!(file.text(), "[[defaults.mcp]]\nname = \"toolrack\"\nenabled = false\n");
}

#[test]
fn names_and_values_of_any_kind_are_quoted_as_they_need() {
    let file = File::codex("");
    let entry = json!({ "command": "a\"b\\c\u{7f}\n'''", "args": ["é 🦀", ""], "env": { "A B": "#", "C": "1" } });
    add(&file.path(), "x.y 🦀", &entry, Options::default()).unwrap();
    let parsed = crate::dialect::toml::parse(&crate::document::Document::new(None, &file.text())).unwrap().to_json();
    assert_eq!(parsed["mcp_servers"]["x.y 🦀"], entry);
}

#[test]
fn a_title_field_called_name_does_not_override_the_name() {
    let file = File::ours("");
    add(&file.path(), "a", &json!({ "command": "x", "name": "A server" }), Options::default()).unwrap();
    assert_eq!(file.text(), "[[defaults.mcp]]\nname = \"a\"\ncommand = \"x\"\n");
}

#[test]
fn a_form_that_cannot_be_edited_is_refused_and_left_alone() {
    for text in
        ["[defaults]\nmcp = [{ name = \"a\", command = \"a\" }]\n", "mcp_servers = { a = { command = \"a\" } }\n"]
    {
        let file = File::codex(text);
        for result in [file.add("new"), file.remove("a")] {
            let error = result.unwrap_err();
            assert!(matches!(error, EditError::Unsafe { .. }), "{text}: {error:?}");
        }
        assert_eq!(file.text(), text);
    }
    let file = File::codex("mcp_servers.a.command = \"a\"\n");
    for result in [file.remove("a"), file.switch("a", false)] {
        assert!(matches!(result, Err(EditError::Unsafe { .. })), "{result:?}");
    }
    for (text, place) in [("[defaults", ":1:"), ("mcp_servers = 1", ":1:"), ("a = 1\na = 2", ":2:")] {
        let file = File::ours(text);
        let error = file.add("new").unwrap_err();
        assert!(matches!(error, EditError::Unreadable(_)) && error.to_string().contains(place), "{error}");
    }
    let file = File::ours("[[defaults.mcp]]\nname = \"a\"\n[[defaults.mcp]]\nname = \"a\"\n");
    assert!(matches!(file.remove("a"), Err(EditError::Ambiguous { .. })));
    assert!(matches!(file.add("a"), Err(EditError::Ambiguous { .. })));
    assert!(file.remove("b").unwrap_err().to_string().contains("no entry `b`"));
    let file = File::new("other.toml", "x = 1\n");
    assert!(matches!(file.add("new"), Err(EditError::UnknownForm { .. })));
}

#[test]
fn a_diff_hides_secrets_and_a_dry_run_writes_nothing() {
    let file = File::ours("[[defaults.mcp]]\nname = \"a\"\ncommand = \"a\"\nenv = { K = \"canary\" }\n");
    let before = file.text();
    let entry = json!({ "command": "b", "env": { "T": "canary", "U": "${U}" } });
    let edited = add(&file.path(), "b", &entry, Options { dry_run: true, ..Options::default() }).unwrap();
    assert!(edited.diff.contains("+env = { T = \"***\", U = \"${U}\" }"), "{}", edited.diff);
    assert!(!edited.diff.contains("canary"));
    assert_eq!(file.text(), before);
    assert!(matches!(add(&file.path(), "a", &entry, Options::default()), Err(EditError::Exists { .. })));
}
