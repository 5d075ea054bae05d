//! One function per fuzz target, for the crate `fuzz/` alone; no part of the library's interface.
//!
//! Each takes any bytes, and panics when something does not hold that must hold of every file.

use crate::{
    dialect,
    document::Document,
    entry::{Decoded, Report, decode},
    placeholder::{self, Bare, TemplateError},
    redact,
};

/// The readers. The first byte decides the dialect, the rest is the file.
pub fn readers(data: &[u8]) {
    let [dialect, text @ ..] = data else { return };
    let path = if dialect % 2 == 0 { "f.json" } else { "f.toml" };
    let document = Document::new(Some(path.into()), &String::from_utf8_lossy(text));
    let servers = match dialect::servers(&document) {
        Ok(servers) => servers,
        Err(problem) => return assert_printable(&problem.to_string()),
    };
    for raw in &servers.raw {
        let mut report = Report::new(Some(&document), &raw.name);
        let is_broken = matches!(decode(raw, &mut report), Decoded::Broken);
        assert_eq!(is_broken, report.has_errors(), "{}", raw.name);
        for problem in report.into_problems() {
            assert_printable(&problem.to_string());
        }
    }
}

/// The editor.
pub fn editor(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    crate::edit::add_and_remove(&text);
    assert_eq!(redact::file(&text).lines().count(), Document::new(None, &text).text.lines().count());
}

/// Placeholders.
pub fn placeholders(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lookup = |name: &str| Ok(name.len().is_multiple_of(2).then(|| name.to_owned()));
    for bare in [Bare::Names, Bare::Nothing] {
        let expanded = placeholder::expand(&text, bare, &lookup);
        if !text.contains('$') {
            assert_eq!(expanded.as_deref(), Ok(&*text));
        }
        // What is well-formed fails only for what is outside of the text.
        if placeholder::check(&text).is_ok() {
            assert!(!matches!(expanded, Err(TemplateError::Unterminated | TemplateError::TooDeep)));
        }
    }
}

fn assert_printable(shown: &str) {
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}
