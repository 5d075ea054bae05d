//! Writes an entry that the user has changed in an editor. The editor, such as the dashboard, showed the entry with its
//! secrets hidden.

use std::path::Path;

use serde_json::Value as Json;

use super::{
    EditError, Edited, Options, change, change_members, check, hidden,
    merge::{self, ReturnedEntry},
    missing, written_entry,
};
use crate::{redact, trust::hash};

/// An entry as an editor showed it, and the user's change of it.
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    /// The entry as [`Entry::view`](crate::Entry::view) showed it.
    pub shown: &'a Json,
    /// The entry as the user changed it, with `***` where the editor hides secrets.
    pub entry: &'a Json,
    /// The [hash](crate::Entry::hash) of the entry that was shown: an entry with another hash is not changed. No other
    /// Toolrack process can edit the file between this check and the change. `None` skips the check.
    pub shown_hash: Option<&'a str>,
}

/// Applies the user's changes to the entry `name` in the file at `path`.
///
/// A field that the user did not change stays as it is written, with its comments. Fields that only other programs know
/// are never shown, and stay, too. A changed field is written in place, under the name and in the form that it
/// has in the file; if that form cannot express the new value, it is written in Toolrack's own form.
///
/// A text with `***` keeps the value that the file has at the same place, so the editor needs no secrets. It is an
/// error if the file has no such value or more than one candidate, or if [`add`](super::add()) would refuse the entry.
/// An entry with errors, which the editor could not show, is replaced as a whole.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then unchanged.
pub fn revise(path: &Path, name: &str, revision: &Revision<'_>, options: Options) -> Result<Edited, EditError> {
    let mut warnings = Vec::new();
    let edited = change(path, name, options.dry_run, |file| {
        if !file.find(name)? {
            return Err(missing(file, name));
        }
        let raw_entry = written_entry(file, name)?.ok_or_else(|| missing(file, name))?;
        let entry_in_file = raw_entry.node.to_json();
        if revision.shown_hash.is_some_and(|shown_hash| shown_hash != hash(&raw_entry.node)) {
            return Err(EditError::Changed { name: name.to_owned(), path: file.path() });
        }
        let mut revealed_entry = revision.entry.clone();
        let (Some((current, _)), Json::Object(members)) = (merge::decode_entry(name, raw_entry.node), &entry_in_file)
        else {
            // The entry in the file is broken, so no hidden value can come from there.
            hidden::refuse_hidden(name, &revealed_entry)?;
            warnings = check(name, &revealed_entry)?;
            return file.replace(name, &file.translated(name, &revealed_entry)?);
        };
        hidden::reveal(name, &mut revealed_entry, &redact(&current), &redact::proposal(&current))?;
        warnings = check(name, &revealed_entry)?;
        let returned_entry = ReturnedEntry {
            name,
            entry_in_file: members,
            shown_entry: revision.shown,
            sent_entry: revision.entry,
            revealed_entry: &revealed_entry,
        };
        change_members(file, name, members, &returned_entry.merged(file)?)
    })?;
    Ok(Edited { warnings, ..edited })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::{Places, Request, load, trust::NoLedger};

    const FILE: &str = r#"{ "mcpServers": {
  // mine
  "a": { "command": "srv", "args": ["--token", "s3cret-value-9", "--fast"], "env": { "API_KEY": "hunter2-hunter2", "PLACE": "${PLACE}" } },
  "b": { "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer abcdefgh" } }
} }"#;

    /// Revises the entry `name` of `file`: the editor showed it as it is in the file now, and sends back `entry`.
    fn revise(
        file: &Path,
        name: &str,
        entry: &Json,
        shown_hash: Option<&str>,
        options: Options,
    ) -> Result<Edited, EditError> {
        let shown = shown(file.parent().unwrap(), name);
        super::revise(file, name, &Revision { shown: &shown, entry, shown_hash }, options)
    }

    fn shown(folder: &std::path::Path, name: &str) -> Json {
        load(&Request::new(Places::under(folder), folder), &NoLedger).entry(name).unwrap().view.clone()
    }

    #[test]
    fn hidden_values_stay_as_the_file_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, FILE).unwrap();
        let mut entry = shown(folder.path(), "a");
        assert!(!entry.to_string().contains("hunter2") && !entry.to_string().contains("s3cret"), "{entry}");
        entry["args"].as_array_mut().unwrap().insert(0, json!("-v"));
        entry["env"]["NEW"] = json!("x");
        let edited = revise(&file, "a", &entry, None, Options::default()).unwrap();
        assert!(!edited.diff.contains("hunter2"), "{}", edited.diff);
        let after: Json = serde_json::from_str(&fs::read_to_string(&file).unwrap().replace("// mine", "")).unwrap();
        let after = &after["mcpServers"]["a"];
        assert_eq!(after["args"], json!(["-v", "--token", "s3cret-value-9", "--fast"]));
        assert_eq!(after["env"], json!({ "API_KEY": "hunter2-hunter2", "NEW": "x", "PLACE": "${PLACE}" }));
        assert!(fs::read_to_string(&file).unwrap().contains("// mine"));
    }

    #[test]
    fn an_entry_that_changed_since_it_was_shown_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        let loaded = || load(&Request::new(Places::under(folder.path()), folder.path()), &NoLedger);
        fs::write(&file, FILE).unwrap();
        let seen = loaded().entry("a").unwrap().clone();
        let changed_elsewhere = FILE.replace("hunter2-hunter2", "another-one");
        fs::write(&file, &changed_elsewhere).unwrap();
        let refused = revise(&file, "a", &seen.view, Some(&seen.hash), Options::default()).unwrap_err();
        assert!(matches!(refused, EditError::Changed { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), changed_elsewhere);

        let now = loaded().entry("a").unwrap().clone();
        let mut entry = now.view.clone();
        entry["env"]["NEW"] = json!("x");
        let edited = revise(&file, "a", &entry, Some(&now.hash), Options::default()).unwrap();
        assert_eq!(edited.hash_before, Some(now.hash));
        assert_eq!(edited.hash_after.as_ref(), Some(&loaded().entry("a").unwrap().hash));
        let again = revise(&file, "a", &entry, edited.hash_before.as_deref(), Options::default());
        assert!(matches!(again, Err(EditError::Changed { .. })), "the first of two changes of one version wins");
    }

    #[test]
    fn a_header_keeps_its_scheme_and_its_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, FILE).unwrap();
        let mut entry = shown(folder.path(), "b");
        entry["url"] = json!("https://example.com/other");
        revise(&file, "b", &entry, None, Options::default()).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("Bearer abcdefgh") && text.contains("/other"), "{text}");
    }

    #[test]
    fn a_hidden_value_under_another_name_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, FILE).unwrap();
        let mut entry = shown(folder.path(), "a");
        entry["env"]["OTHER_KEY"] = json!("***");
        let error = revise(&file, "a", &entry, None, Options::default()).unwrap_err();
        assert!(error.to_string().contains("env.OTHER_KEY"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), FILE);
    }

    const TWO: &str = r#"{ "mcpServers": {
  "a": { "type": "stdio", "command": "srv", "args": ["--api-key", "FIRSTsecret111111", "--password", "SECONDsecret22222"] },
  "b": { "type": "stdio", "command": "srv", "args": ["ghp_canarycanary11111", "x", "ghp_canarycanary22222"] }
} }"#;

    /// Revises the entry `name` of [`TWO`] so that it has the arguments `args`; returns the arguments that are then in
    /// the file. After an error the file must be unchanged.
    fn revised(name: &str, args: &Json) -> Result<Json, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, TWO).unwrap();
        let mut entry = shown(folder.path(), name);
        entry["args"] = args.clone();
        let edited = revise(&file, name, &entry, None, Options::default());
        let text = fs::read_to_string(&file).unwrap();
        match edited {
            Ok(_) => Ok(serde_json::from_str::<Json>(&text).unwrap()["mcpServers"][name]["args"].clone()),
            Err(error) => {
                assert_eq!(text, TWO);
                Err(error.to_string())
            }
        }
    }

    #[test]
    fn two_values_that_look_the_same_are_never_taken_for_each_other() {
        let (first, second) = ("FIRSTsecret111111", "SECONDsecret22222");
        for (sent, kept) in [
            (json!(["--api-key", "***", "--password", "***"]), json!(["--api-key", first, "--password", second])),
            (
                json!(["-v", "--api-key", "***", "--password", "***"]),
                json!(["-v", "--api-key", first, "--password", second]),
            ),
            (json!(["--password", "***", "--api-key", "***"]), json!(["--password", second, "--api-key", first])),
            (json!(["--password", "***"]), json!(["--password", second])),
            (json!(["--api-key", "new", "--password", "***"]), json!(["--api-key", "new", "--password", second])),
        ] {
            assert_eq!(revised("a", &sent), Ok(kept), "{sent}");
        }
        let tokens = json!(["ghp_canarycanary11111", "x", "ghp_canarycanary22222"]);
        assert_eq!(revised("b", &json!(["***", "x", "***"])), Ok(tokens));
    }

    #[test]
    fn a_hidden_value_that_could_be_either_of_two_is_refused_and_nothing_is_written() {
        for (name, sent) in [
            ("a", json!(["--token", "***", "--password", "***"])),
            ("a", json!(["--api-key", "***", "--api-key", "***"])),
            ("a", json!(["***"])),
            ("b", json!(["***"])),
            ("b", json!(["x", "***", "***", "***"])),
        ] {
            let error = revised(name, &sent).unwrap_err();
            assert!(error.contains("`args["), "{sent}: {error}");
        }
    }

    /// Writes `text` to `file`, has `set` change the view of its entry `a`, and revises the entry with that; returns
    /// the new text.
    fn after(file: &str, text: &str, set: impl FnOnce(&mut Json)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let places = Places::under(folder.path().join("home"));
        let loaded = load(
            &Request { mcp_config: vec![path.clone()], strict: true, ..Request::new(places, folder.path()) },
            &NoLedger,
        );
        let shown = &loaded.entry("a").unwrap().view;
        let mut entry = shown.clone();
        set(&mut entry);
        let revision = Revision { shown, entry: &entry, shown_hash: None };
        super::revise(&path, "a", &revision, Options::default()).unwrap();
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn an_edit_changes_only_its_field_in_every_format() {
        let json = r#"{ "mcpServers": { "a": {
  // how long
  "type": "http", "httpUrl": "https://h/mcp", "timeout": 90000, "disabled": true, // off
  "headers": { "A": "$A", "B": "secret-1" },
  "alwaysAllow": ["x"], "description": "ours"
} } }"#;
        let set = |set: fn(&mut Json)| after("mcp.json", json, set);
        assert_eq!(set(|_| {}), json);
        assert_eq!(
            set(|entry| entry["enabled"] = json!(true)),
            json.replace("\"disabled\": true", "\"disabled\": false")
        );
        assert_eq!(set(|entry| entry["url"] = json!("https://h/other")), json.replace("h/mcp", "h/other"));
        assert_eq!(
            set(|entry| entry["headers"]["C"] = json!("c")),
            json.replace("\"secret-1\"", "\"secret-1\", \"C\": \"c\"")
        );
        assert_eq!(
            set(|entry| drop(entry["headers"].as_object_mut().unwrap().shift_remove("A"))),
            json.replace("\"A\": \"$A\", ", "")
        );
        // `timeout` sets two bounds to one value. Once the bounds differ, each is written as a field of its own.
        let both = set(|entry| entry["max_call_time"] = json!(120));
        let expected = json.replace("\"timeout\": 90000, ", "").replace(
            "\"description\": \"ours\"",
            "\"description\": \"ours\",\n  \"call_timeout\": 90,\n  \"max_call_time\": 120",
        );
        assert_eq!(both, expected);

        let toml = "[[defaults.mcp]] # mine\nname = \"a\"\ncommand = \"x\" # the program\nodd = 1\nargs = [\n  \"--token\", # one\n  \"s3cret-value-9\",\n]\n[defaults.mcp.env]\nA = \"${A}\" # two\n\n[[defaults.mcp]]\nname = \"b\"\ncommand = \"y\"\n";
        let set = |set: fn(&mut Json)| after("toolrack.toml", toml, set);
        assert_eq!(set(|_| {}), toml);
        assert_eq!(set(|entry| entry["command"] = json!("z")), toml.replace("\"x\"", "\"z\""));
        assert_eq!(set(|entry| entry["cwd"] = json!("/d")), toml.replace("]\n[defaults", "]\ncwd = \"/d\"\n[defaults"));
        assert_eq!(set(|entry| entry["env"]["B"] = json!("b")), toml.replace("# two\n", "# two\nB = \"b\"\n"));
        assert_eq!(set(|entry| entry["env"]["A"] = json!("b")), toml.replace("\"${A}\"", "\"b\""));

        let codex = "[mcp_servers.a]\nurl = \"https://h\" # here\nbearer_token_env_var = \"T\"\nodd = 1\n";
        let set = |set: fn(&mut Json)| after(".codex/config.toml", codex, set);
        assert_eq!(set(|_| {}), codex);
        assert_eq!(set(|entry| entry["enabled"] = json!(false)), format!("{codex}enabled = false\n"));
        assert_eq!(set(|entry| entry["headers"]["X"] = json!("x")), format!("{codex}http_headers = {{ X = \"x\" }}\n"));

        let opencode = r#"{ "mcp": { "a": { "type": "local", "command": ["x", "--api-key", "s3cret-1"], "odd": 1,
  "environment": { "A": "{env:A}" }, "timeout": { "startup": 5000 } } } }"#;
        let set = |set: fn(&mut Json)| after("opencode.json", opencode, set);
        assert_eq!(set(|_| {}), opencode);
        assert_eq!(
            set(|entry| entry["args"] = json!(["--api-key", "***", "-v"])),
            opencode.replace("\"s3cret-1\"]", "\"s3cret-1\", \"-v\"]")
        );
        assert_eq!(
            set(|entry| entry["env"]["B"] = json!("${B}")),
            opencode.replace("\"{env:A}\"", "\"{env:A}\", \"B\": \"{env:B}\"")
        );
    }

    #[test]
    fn the_folder_that_a_project_s_entry_runs_in_is_not_written_into_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        let file = project.join(".mcp.json");
        let text = "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"autoApprove\": [\"y\"] } } }\n";
        fs::write(&file, text).unwrap();
        let loaded = load(&Request::new(Places::under(folder.path().join("home")), &project), &NoLedger);
        let shown = &loaded.entry("a").unwrap().view;
        assert!(shown["cwd"].is_string(), "{shown}");
        let mut entry = shown.clone();
        entry["args"] = json!(["z"]);
        super::revise(&file, "a", &Revision { shown, entry: &entry, shown_hash: None }, Options::default()).unwrap();
        let expected = text.replace("[\"y\"]", "[\"y\"], \"args\": [\"z\"]");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    }
}
