//! An entry that was shown with its secrets hidden comes back, changed.

use serde_json::Value as Json;

use super::{EditError, Edited, File, Options, change, check, hidden, missing, written};
use crate::{
    entry::{Decoded, Report, decode},
    redact,
    trust::content_hash,
};

/// Puts `entry` in the place of the one that is called `name` in the file at `path`.
///
/// `entry` is what [`Entry::view`](crate::Entry::view) shows, changed by somebody who does not know what is hidden in it:
/// a text in which `***` stands keeps the value that the file has at the same place, in the same form. Secrets so never
/// leave the file, and are not lost either. A hidden text that has no such value, or that could be one of several, is an
/// error, as is everything that [`add`](super::add()) refuses.
///
/// `seen` is the [hash](crate::Entry::hash) of the entry that was shown: where the file has another one by now, it is left
/// alone. Nobody else edits the file between this look and the change. `None` changes whatever is there.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn revise(
    path: &std::path::Path,
    name: &str,
    entry: &Json,
    seen: Option<&str>,
    options: Options,
) -> Result<Edited, EditError> {
    let mut warnings = Vec::new();
    let edited = change(path, name, options.dry_run, |file| {
        if !file.find(name)? {
            return Err(missing(file, name));
        }
        let before = before(file, name)?;
        if seen.is_some_and(|seen| seen != content_hash(&before.written)) {
            return Err(EditError::Moved { name: name.to_owned(), path: file.path() });
        }
        let mut entry = entry.clone();
        hidden::reveal(name, &mut entry, &before.view, &before.written)?;
        warnings = check(name, &entry)?;
        file.replace(name, &entry)
    })?;
    Ok(Edited { warnings, ..edited })
}

/// An entry as the file has it, and as it is shown.
struct Before {
    written: Json,
    view: Json,
}

fn before(file: &dyn File, name: &str) -> Result<Before, EditError> {
    let raw = written(file, name)?.ok_or_else(|| missing(file, name))?;
    let mut report = Report::new(None, name);
    let view = match decode(&raw, &mut report) {
        Decoded::Server(spec) => redact(&spec),
        // Nothing of it was ever shown.
        Decoded::Switch(_) | Decoded::Broken => Json::Null,
    };
    Ok(Before { written: raw.node.to_json(), view })
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

    fn shown(folder: &std::path::Path, name: &str) -> Json {
        load(&Request::new(Places::under(folder), folder), &NoLedger).entry(name).unwrap().view.clone()
    }

    #[test]
    fn what_was_hidden_stays_as_the_file_has_it() {
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
    fn what_another_changed_meanwhile_is_left_alone_and_what_is_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        let loaded = || load(&Request::new(Places::under(folder.path()), folder.path()), &NoLedger);
        fs::write(&file, FILE).unwrap();
        let seen = loaded().entry("a").unwrap().clone();
        let theirs = FILE.replace("hunter2-hunter2", "another-one");
        fs::write(&file, &theirs).unwrap();
        let refused = revise(&file, "a", &seen.view, Some(&seen.hash), Options::default()).unwrap_err();
        assert!(matches!(refused, EditError::Moved { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), theirs);

        let now = loaded().entry("a").unwrap().clone();
        let mut entry = now.view.clone();
        entry["env"]["NEW"] = json!("x");
        let edited = revise(&file, "a", &entry, Some(&now.hash), Options::default()).unwrap();
        assert_eq!(edited.before, Some(now.hash));
        assert_eq!(edited.after.as_ref(), Some(&loaded().entry("a").unwrap().hash));
        let again = revise(&file, "a", &entry, edited.before.as_deref(), Options::default());
        assert!(matches!(again, Err(EditError::Moved { .. })), "the second of two with one version");
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

    /// The arguments of the entry `name` of [`TWO`] after it came back with these.
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
}
