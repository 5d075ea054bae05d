//! Has one function for each fuzz target. Only the crate `fuzz/` uses them; they are not a part of the library's
//! interface.
//!
//! Each function takes any bytes, and panics if a property that must hold for every file does not hold.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::{
    dialect,
    document::Document,
    edit,
    entry::{Decoded, Report, decode},
    import::{self, Client},
    node::{Member, Node},
    placeholder::{self, BareName, Piece, Reference, TemplateError},
    redact,
};

/// The names of files. Each one selects a dialect.
const FILES: &[&str] = &["mcp.json", "toolrack.toml", "opencode.json", "config.toml"];

/// A part of each secret in the tests. No output may contain it.
const CANARY: &str = "cAnArY7";

/// Splits `data`: the first byte chooses one of `choices`, and the rest is text.
fn split_choice<'a, T: Copy>(data: &'a [u8], choices: &[T]) -> Option<(T, std::borrow::Cow<'a, str>)> {
    let [choice, text @ ..] = data else { return None };
    Some((choices[usize::from(*choice) % choices.len()], String::from_utf8_lossy(text)))
}

/// Checks the readers of configuration files. The first byte decides the dialect, the rest is the file.
pub fn readers(data: &[u8]) {
    let Some((path, text)) = split_choice(data, FILES) else { return };
    let document = Document::new(Some(path.into()), &text);
    let servers = match dialect::servers(&document) {
        Ok(servers) => servers,
        Err(problem) => return assert_printable(&problem.to_string()),
    };
    for raw_entry in &servers.entries {
        let mut report = Report::new(Some(&document), &raw_entry.name);
        let is_broken = matches!(decode(raw_entry, &mut report), Decoded::Broken);
        assert_eq!(is_broken, report.has_errors(), "{}", raw_entry.name);
        for problem in report.into_problems() {
            assert_printable(&problem.to_string());
        }
    }
}

/// Checks the readers of other programs' files. The first byte decides whose file it is.
pub fn imports(data: &[u8]) {
    let Some((client, text)) = split_choice(data, Client::ALL) else { return };
    let found = import::read(client, &text);
    for problem in &found.problems {
        assert_printable(&problem.to_string());
    }
    for offer in &found.offers {
        offer.notes.iter().for_each(|note| assert_printable(note));
        // An offer can be added, and must keep its meaning.
        let raw_entry = Member { name: offer.name.clone(), name_span: 0..0, node: Node::from_json(&offer.entry) };
        let mut report = Report::new(None, &offer.name);
        let Decoded::Server(spec) = decode(&raw_entry, &mut report) else { panic!("{offer:?}") };
        assert_eq!(redact::redact(&spec), offer.view);
    }
}

/// Checks the editor. The first byte decides whose file it is.
pub fn editor(data: &[u8]) {
    let Some((path, text)) = split_choice(data, FILES) else { return };
    edit::every_edit(path, &text);
}

/// Checks redacted files and entries. The input has lines of text: names, and the text around a secret.
pub fn redaction(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    // The length of the fifth line decides where the file is cut.
    let (server, variable, text_before, text_after, cut_length) = (line(), line(), line(), line(), line().len());
    let secret = format!("{text_before}{CANARY}{text_after}");
    if [server, variable].iter().any(|name| name.contains(CANARY)) || !is_secret(&secret) {
        return;
    }
    for entry in [
        json!({ "command": "x", "env": { variable: secret } }),
        json!({ "url": "https://x", "headers": { variable: secret } }),
    ] {
        let raw_entry = Member { name: server.to_owned(), name_span: 0..0, node: Node::from_json(&entry) };
        let mut report = Report::new(None, server);
        if let Decoded::Server(spec) = decode(&raw_entry, &mut report) {
            assert_hidden(&redact::redact(&spec).to_string());
        }
        for (path, file) in files(server, &entry) {
            let document = Document::new(Some(path.into()), &file);
            assert_hidden(&redact::redact_file(&document));
            assert_eq!(redact::redact_file(&document).lines().count(), document.text.lines().count());
            assert_hidden(&edit::diff(Path::new(path), "", &file));
            // Half a file, as an interrupted writer leaves it.
            let half_document = Document::new(Some(path.into()), &file[..file.floor_char_boundary(cut_length)]);
            assert_hidden(&redact::redact_file(&half_document));
            if let Err(problem) = dialect::servers(&half_document) {
                assert_hidden(&problem.to_string());
            }
        }
    }
}

/// Returns the entry in files of all kinds, and commented out.
fn files(server: &str, entry: &Json) -> Vec<(&'static str, String)> {
    let json = json!({ "mcpServers": { server: entry } });
    let with_comment = |marker: &str, text: &str| format!("{marker} {entry}\n{text}");
    let text = json.to_string();
    let mut files = vec![
        ("mcp.json", serde_json::to_string_pretty(&json).unwrap_or_default()),
        ("mcp.json", with_comment("//", &text)),
        ("mcp.json", text),
        (
            "opencode.json",
            json!({ "mcp": { server: { "environment": entry["env"], "headers": entry["headers"] } } }).to_string(),
        ),
    ];
    let codex = edit::toml_of(&json!({ "mcp_servers": { server: entry } }));
    let toolrack = edit::toml_of(&json!({ "defaults": { "mcp": [entry] } }));
    for text in codex.into_iter().chain(toolrack) {
        files.push(("config.toml", with_comment("#", &text)));
        files.push(("config.toml", text));
    }
    files
}

/// Returns whether the canary is in a literal, and not in the name of a placeholder, which may be shown.
fn is_secret(text: &str) -> bool {
    // A malformed text is hidden as a whole.
    let Ok(pieces) = placeholder::pieces(text, BareName::Placeholder) else { return true };
    pieces.iter().all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Variable { name, .. } | Piece::Secret(name) | Piece::UserValue(name) | Piece::Input(name) => {
            !name.contains(CANARY)
        }
    })
}

/// Checks that `shown`, an output, does not contain the canary.
fn assert_hidden(shown: &str) {
    assert!(!shown.contains(CANARY), "{shown}");
}

/// Checks that placeholders are expanded or refused.
pub fn placeholders(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lookup = |(Reference::Variable(name) | Reference::Secret(name) | Reference::UserValue(name)): Reference<'_>| {
        Ok(name.len().is_multiple_of(2).then(|| name.to_owned()))
    };
    for bare_name in [BareName::Placeholder, BareName::Literal] {
        let expanded = placeholder::expand(&text, bare_name, &lookup);
        if !text.contains('$') {
            assert_eq!(expanded.as_deref(), Ok(&*text));
        }
        // A well-formed text fails only for external reasons.
        if placeholder::check(&text).is_ok() {
            assert!(!matches!(expanded, Err(TemplateError::Unterminated | TemplateError::TooDeep)));
        }
    }
}

/// Checks that `shown`, an output, has no control characters except line breaks.
fn assert_printable(shown: &str) {
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}
