use std::{fs, os::unix::fs::PermissionsExt, thread};

use serde_json::json;

use super::*;

const REPLACE: Options = Options { replace: true, dry_run: false };
const DRY: Options = Options { replace: false, dry_run: true };

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(text: &str) -> Self {
        let folder = Self::new();
        fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("mcp.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }
}

fn entry() -> Json {
    json!({ "command": "npx", "args": ["-y", "server"] })
}

#[test]
fn a_missing_file_is_made_with_its_folders_for_its_owner_only() {
    let folder = Folder::new();
    let path = folder.0.path().join("a/b/mcp.json");
    let edited = add(&path, "fs", &entry(), Options::default()).unwrap();
    assert!(edited.created);
    assert!(edited.diff.contains("+    \"fs\": {"), "{}", edited.diff);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"mcpServers\": {\n    \"fs\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"server\"]\n    }\n  }\n}\n"
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn several_entries_are_added_by_one_write_with_all_of_them() {
    let folder = Folder::with("{ \"mcpServers\": { \"old\": { \"command\": \"x\" } } } // mine\n");
    let entries = BTreeMap::from([("b".to_owned(), entry()), ("a".to_owned(), json!({ "url": "https://a" }))]);
    let tried = add_all(&folder.file(), &entries, DRY).unwrap();
    assert!(!folder.text().contains("npx"), "a dry run writes nothing");
    let edited = add_all(&folder.file(), &entries, Options::default()).unwrap();
    assert_eq!(validate("mcp.json", &folder.text()).0, ["old", "a", "b"]);
    assert!(folder.text().ends_with("// mine\n"), "{}", folder.text());
    for (tried, edited) in tried.iter().zip(&edited) {
        assert_eq!((&tried.diff, &tried.hash_after), (&edited.diff, &edited.hash_after));
        assert!(!edited.created && edited.hash_before.is_none() && edited.hash_after.is_some());
    }
    assert!(edited[0].diff.contains("+ ") && edited[0].diff.contains("https://a"), "{}", edited[0].diff);
    assert!(edited[1].diff.contains("npx"), "{}", edited[1].diff);
}

#[test]
fn of_several_entries_of_which_one_cannot_be_added_none_is_and_the_error_names_it() {
    let folder = Folder::with("{ \"mcpServers\": { \"m\": { \"command\": \"x\" } } }\n");
    let before = folder.text();
    let with = |name: &str, entry: Json| {
        BTreeMap::from([("a".to_owned(), self::entry()), (name.to_owned(), entry), ("z".to_owned(), self::entry())])
    };
    for entries in [with("m", entry()), with("k", json!({ "command": 7 })), with("k", json!({ "url": "***" }))] {
        let not_added = add_all(&folder.file(), &entries, Options::default()).unwrap_err();
        assert_ne!(not_added.name, "a", "{not_added}");
        assert!(entries.contains_key(&not_added.name) && not_added.name != "z", "{not_added}");
        assert_eq!(folder.text(), before);
    }
    let replaced = add_all(&folder.file(), &with("m", entry()), REPLACE).unwrap();
    assert!(replaced[1].hash_before.is_some() && replaced[1].hash_before != replaced[1].hash_after);
}

#[test]
fn a_file_that_several_entries_make_is_created_once() {
    let folder = Folder::new();
    let entries = BTreeMap::from([("a".to_owned(), entry()), ("b".to_owned(), entry())]);
    let edited = add_all(&folder.file(), &entries, Options::default()).unwrap();
    assert_eq!(edited.iter().map(|edited| edited.created).collect::<Vec<_>>(), [true, false]);
    assert!(add_all(&folder.0.path().join("none/mcp.json"), &BTreeMap::new(), Options::default()).unwrap().is_empty());
    assert!(!folder.0.path().join("none").exists(), "nothing is made for no entry");
}

#[test]
fn comments_unknown_keys_and_permissions_survive() {
    let before = "\u{feff}// mine\n{\n  \"inputs\": [],\n  \"servers\": {\n    \"a\": { \"command\": \"a\", \"odd\": 1 }, // a\n  },\n}\n";
    let folder = Folder::with(before);
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o640)).unwrap();
    add(&folder.file(), "b", &json!({ "url": "https://b" }), Options::default()).unwrap();
    assert_eq!(folder.text(), before.replace("// a\n", "// a\n    \"b\": {\n      \"url\": \"https://b\"\n    },\n"));
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o640);
    remove(&folder.file(), "b", Options::default()).unwrap();
    assert_eq!(folder.text(), before);
}

#[test]
fn servers_are_added_where_the_file_has_them() {
    for (before, after) in [
        (r#"{ "a": { "command": "x" } }"#, r#"{ "a": { "command": "x" }, "n": { "command": "y" } }"#),
        (
            r#"{ "mcp": { "servers": {} } }"#,
            "{ \"mcp\": { \"servers\": {\n  \"n\": {\n    \"command\": \"y\"\n  }\n} } }",
        ),
        (r#"{ "inputs": [] }"#, r#"{ "inputs": [], "mcpServers": { "n": { "command": "y" } } }"#),
        ("// empty\n", "// empty\n{\n  \"mcpServers\": {\n    \"n\": {\n      \"command\": \"y\"\n    }\n  }\n}\n"),
    ] {
        let folder = Folder::with(before);
        add(&folder.file(), "n", &json!({ "command": "y" }), Options::default()).unwrap();
        assert_eq!(folder.text(), after);
    }
}

#[test]
fn a_value_that_was_shown_hidden_is_not_written_down_as_if_it_were_one() {
    let folder = Folder::with("{}");
    for (entry, field) in [
        (json!({ "command": "srv", "args": ["--api-key", "***"] }), "args[1]"),
        (json!({ "command": "srv", "env": { "KEY": "Bearer ***" } }), "env.KEY"),
        (json!({ "url": "https://h/mcp?api_key=***" }), "url"),
        (json!({ "url": "https://h/mcp", "headers": { "X": "***" } }), "headers.X"),
        (json!({ "url": "https://h/mcp", "oauth": { "client_secret": "***" } }), "oauth.client_secret"),
        (json!({ "url": "https://h/mcp", "headers_helper": ["get", "--token", "***"] }), "headers_helper[2]"),
    ] {
        let error = add(&folder.file(), "a", &entry, Options::default()).unwrap_err();
        let EditError::Invalid { problems, .. } = &error else { panic!("{error}") };
        assert_eq!(problems[0].field.as_deref(), Some(field));
        assert!(problems[0].hint.is_some());
    }
    assert_eq!(folder.text(), "{}");
}

#[test]
fn a_taken_name_is_refused_unless_it_may_be_replaced() {
    let folder = Folder::with("{ \"mcpServers\": { \"fs\": { \"command\": \"old\" } } }");
    let before = folder.text();
    let error = add(&folder.file(), "fs", &entry(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("already configured"), "{error}");
    assert_eq!(folder.text(), before);
    add(&folder.file(), "fs", &entry(), REPLACE).unwrap();
    assert!(folder.text().contains("npx") && !folder.text().contains("old"));
}

#[test]
fn an_entry_with_errors_never_reaches_the_file() {
    let folder = Folder::new();
    let error = add(&folder.file(), "x", &json!({ "command": "x", "url": "https://x" }), Options::default());
    let EditError::Invalid { problems, .. } = error.unwrap_err() else { panic!() };
    assert!(problems[0].line.is_none());
    assert!(matches!(add(&folder.file(), "a/b", &entry(), REPLACE), Err(EditError::Invalid { .. })));
    assert!(!folder.file().exists());
    let edited = add(&folder.file(), "x", &json!({ "command": "x", "comand": 1 }), REPLACE).unwrap();
    assert_eq!(edited.warnings.len(), 1);
}

#[test]
fn removing_an_unknown_server_suggests_a_similar_one() {
    let folder = Folder::with(r#"{ "mcpServers": { "github": { "command": "x" } } }"#);
    let error = remove(&folder.file(), "githbu", Options::default()).unwrap_err();
    assert!(error.to_string().ends_with("did you mean `github`?"), "{error}");
    let nowhere = folder.0.path().join("none.json");
    assert!(matches!(remove(&nowhere, "x", Options::default()), Err(EditError::Missing { .. })));
    assert!(!nowhere.exists());
}

#[test]
fn the_last_server_of_a_bare_file_can_be_removed() {
    let folder = Folder::with(r#"{ "$schema": "s", "a": { "command": "x" } }"#);
    remove(&folder.file(), "a", Options::default()).unwrap();
    assert_eq!(folder.text(), r#"{ "$schema": "s" }"#);
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    for text in ["{ \"mcpServers\": {", "[]", "{ \"mcpServers\": 1 }"] {
        let folder = Folder::with(text);
        let error = add(&folder.file(), "n", &entry(), REPLACE).unwrap_err();
        assert!(matches!(error, EditError::Unreadable(_)), "{error:?}");
        assert!(error.to_string().contains("mcp.json:1:"), "{error}");
        assert_eq!(folder.text(), text);
    }
    let folder = Folder::with(r#"{ "mcpServers": { "a": {}, "a": {} } }"#);
    assert!(matches!(remove(&folder.file(), "a", REPLACE), Err(EditError::Ambiguous { .. })));
    let toml = folder.0.path().join("settings.toml");
    assert!(matches!(add(&toml, "a", &entry(), REPLACE), Err(EditError::UnknownForm { .. })));
    assert!(!toml.exists());
}

#[test]
fn a_dry_run_shows_the_change_and_makes_none() {
    let folder = Folder::new();
    let path = folder.0.path().join("deep/mcp.json");
    let entry = json!({ "command": "x", "env": { "TOKEN": "canary", "URL": "${URL}" } });
    let edited = add(&path, "fs", &entry, DRY).unwrap();
    assert!(!path.parent().unwrap().exists());
    assert!(edited.diff.contains("${URL}") && !edited.diff.contains("canary"), "{}", edited.diff);
}

#[test]
fn a_server_is_switched_in_its_entry_or_by_a_lone_enabled() {
    let folder = Folder::with(
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    },\n    \"b\": { \"disabled\": true, \"command\": \"x\" }\n  }\n}\n",
    );
    for (name, enabled) in [("a", false), ("b", true), ("c", false)] {
        switch(&folder.file(), name, enabled, Options::default()).unwrap();
    }
    assert_eq!(
        folder.text(),
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"enabled\": false\n    },\n    \"b\": { \"disabled\": false, \"command\": \"x\" },\n    \"c\": {\n      \"enabled\": false\n    }\n  }\n}\n"
    );
    let edited = switch(&folder.file(), "a", false, Options::default()).unwrap();
    assert!(edited.diff.is_empty());
}

#[test]
fn a_symbolic_link_stays_one() {
    let folder = Folder::new();
    let real = folder.0.path().join("real.json");
    fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, folder.file()).unwrap();
    add(&folder.file(), "n", &entry(), Options::default()).unwrap();
    assert!(fs::symlink_metadata(folder.file()).unwrap().is_symlink());
    assert!(fs::read_to_string(real).unwrap().contains("npx"));
}

#[test]
fn a_link_that_leads_nowhere_stays_one_and_the_file_is_made_where_it_leads() {
    let folder = Folder::new();
    let second = folder.0.path().join("second.json");
    std::os::unix::fs::symlink("second.json", folder.file()).unwrap();
    std::os::unix::fs::symlink("nothere/deep.json", &second).unwrap();
    let dry = add(&folder.file(), "n", &entry(), DRY).unwrap();
    let edited = add(&folder.file(), "n", &entry(), Options::default()).unwrap();
    let real = folder.0.path().join("nothere/deep.json");
    assert!(edited.created && edited.path == dry.path);
    assert_eq!(edited.path.canonicalize().unwrap(), real.canonicalize().unwrap());
    for link in [&folder.file(), &second] {
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    assert!(fs::read_to_string(&real).unwrap().contains("npx"));
    assert_eq!(fs::symlink_metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_link_that_leads_to_itself_is_an_error_and_stays() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("mcp.json", folder.file()).unwrap();
    let error = add(&folder.file(), "n", &entry(), Options::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("cannot follow the link ") && error.contains("too many links"), "{error}");
    assert!(fs::symlink_metadata(folder.file()).unwrap().is_symlink());
}

#[test]
fn a_replaced_link_becomes_a_file_for_its_owner_only() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("nothere", folder.file()).unwrap();
    // As if another program had created the link after `follow_links` had found none.
    assert!(write::replace_if_unchanged(&folder.file(), None, "{}").unwrap());
    assert_eq!(fs::symlink_metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let folder = Folder::new();
    thread::scope(|scope| {
        for index in 0..16 {
            let path = folder.file();
            scope.spawn(move || add(&path, &format!("s{index}"), &entry(), Options::default()).unwrap());
        }
    });
    assert_eq!(open(Document::new(None, &folder.text())).unwrap().names().len(), 16);
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "nothing is left lying around");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::with("{}");
    let error = add(&folder.file().join("below.json"), "n", &entry(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("mcp.json"), "{error}");
    assert!(matches!(error, EditError::Io { .. } | EditError::Unreadable(_)), "{error:?}");
}

#[test]
fn a_change_beyond_one_entry_is_refused() {
    let file = |text: &str| open(Document::new(None, text)).unwrap();
    let file = file(r#"{ "inputs": [], "mcpServers": { "a": { "command": "x" }, "b": { "command": "x" } } }"#);
    for (text, is_safe) in [
        (r#"{ "inputs": [], "mcpServers": { "b": { "command": "x" } } }"#, true),
        (r#"{ "inputs": [], "mcpServers": {} }"#, false),
        (r#"{ "inputs": [], "mcpServers": { "a": { "command": "y" }, "b": { "command": "y" } } }"#, false),
        (r#"{ "inputs": [1], "mcpServers": { "b": { "command": "x" } } }"#, false),
        (r#"{ "inputs": [], "mcpServers": { "a": "#, false),
    ] {
        assert_eq!(ensure_safe(&*file, text).is_ok(), is_safe, "{text}");
    }
}

#[test]
fn a_folder_that_is_read_only_is_named_and_loses_nothing() {
    let folder = Folder::with(r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    let before = folder.text();
    fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(folder.0.path().join("probe"), "").is_ok() {
        // To the superuser nothing is read-only.
        return;
    }
    let results = [
        add(&folder.file(), "n", &entry(), Options::default()),
        remove(&folder.file(), "a", Options::default()),
        switch(&folder.file(), "a", false, Options::default()),
        add(&folder.file().with_file_name("sub/mcp.json"), "n", &entry(), Options::default()),
    ];
    fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, EditError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains("permission denied"), "{error}");
    }
    assert_eq!(folder.text(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_where_nothing_can_be_made_is_named() {
    // Not even the superuser makes a folder there.
    let error = add(Path::new("/proc/toolrack/mcp.json"), "n", &entry(), Options::default()).unwrap_err();
    assert!(matches!(error, EditError::Io { .. }), "{error:?}");
    assert!(error.to_string().starts_with("cannot make the folder /proc/toolrack: "), "{error}");
}

#[test]
fn names_of_every_kind_survive_in_both_formats() {
    let folder = Folder::new();
    for file in ["mcp.json", "toolrack.toml"] {
        let path = folder.file().with_file_name(file);
        for name in ["a b", "é🦀", "a.b", "$x", "#", "it's", "a\"b", "a\\b", "[x]", "mcpServers"] {
            add(&path, name, &entry(), Options::default()).unwrap();
            switch(&path, name, false, Options::default()).unwrap();
        }
        let names = |path: &Path| open(Document::read(path).unwrap().unwrap()).unwrap().names();
        assert_eq!(names(&path).len(), 10, "{file}");
        for name in names(&path) {
            remove(&path, &name, Options::default()).unwrap();
        }
        assert!(names(&path).is_empty(), "{file}");
        for name in ["a/b", "a\u{1b}[31m", "a\nb", "\u{202e}", "", " "] {
            let error = add(&path, name, &entry(), Options::default()).unwrap_err();
            assert!(matches!(error, EditError::Invalid { .. }), "{name:?}: {error:?}");
            assert!(!error.to_string().contains(['\u{1b}', '\n', '\u{202e}']), "{error}");
        }
    }
}

#[test]
fn an_edit_is_repeated_on_a_file_that_changed_meanwhile() {
    let folder = Folder::with("{ \"mcpServers\": {} }");
    let mut round = 0;
    let edited = change(&folder.file(), "n", false, |file| {
        round += 1;
        if round == 1 {
            // Another program knows nothing of the lock.
            fs::write(folder.file(), "{ \"mcpServers\": {}, \"theirs\": 1 }").unwrap();
        }
        file.insert("n", &entry())
    });
    edited.unwrap();
    assert!(folder.text().contains("theirs") && folder.text().contains("npx"), "{}", folder.text());

    let error = change(&folder.file(), "m", false, |file| {
        round += 1;
        fs::write(folder.file(), format!("{{ \"theirs\": {round} }}")).unwrap();
        file.insert("m", &entry())
    });
    assert!(matches!(error, Err(EditError::Busy { .. })), "{error:?}");
    assert_eq!(folder.text(), format!("{{ \"theirs\": {round} }}"));
}
