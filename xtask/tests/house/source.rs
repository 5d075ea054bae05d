//! The source files of the workspace, and their text without comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// A Rust file below `crates/`, `xtask/` or `fuzz/`.
pub(crate) struct Source {
    /// Relative to the root of the workspace, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl Source {
    /// The text with comments, strings and characters blanked out; lines stay where they are.
    pub(crate) fn code(&self) -> String {
        code(&self.text)
    }

    /// Whether the file has only code for tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.starts_with("crates/testkit/")
    }

    /// The text before its inline tests, which stand at the end.
    pub(crate) fn without_tests(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }
}

/// Returns all source files, ordered by path.
pub(crate) fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in ["bench", "crates", "embedder", "xtask", "fuzz/fuzz_targets"] {
        visit(&root().join(folder), &mut |path| {
            if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source { path: relative(path), text: fs::read_to_string(path).unwrap() });
            }
        });
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(sources.len() > 50, "found only {} sources: correct the list of folders", sources.len());
    sources
}

/// Returns a path relative to the root of the workspace, with `/`.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Calls `each` with every file below the folder, except in folders for build output, downloads and git.
pub(crate) fn visit(folder: &Path, each: &mut impl FnMut(&Path)) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = !matches!(&*name, "target" | ".git" | ".cache" | "corpus" | "artifacts" | "node_modules");
        if path.is_dir() && !path.is_symlink() && is_ours {
            visit(&path, each);
        } else if path.is_file() {
            each(&path);
        }
    }
}

/// Blanks out what is not code. Not a parser: it knows comments, strings, raw strings, characters and lifetimes.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let length = if in_word { 0 } else { raw_string(rest) };
        let length = if length > 0 { length } else { blank(rest) };
        let (current, after) = rest.split_at(if length > 0 { length } else { first.len_utf8() });
        if length > 0 {
            out.extend(current.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            out.push(first);
        }
        in_word = length == 0 && (first.is_alphanumeric() || first == '_');
        rest = after;
    }
    out
}

/// Returns the length of the comment, string or character at the beginning of the text; 0 if there is none.
fn blank(text: &str) -> usize {
    let to = |end: Option<usize>| end.unwrap_or(text.len());
    match text.as_bytes() {
        [b'/', b'/', ..] => to(text.find('\n')),
        [b'/', b'*', ..] => block_comment(text),
        [b'"', ..] => quoted(text, '"'),
        // A lifetime has no second quote right after its first character.
        [b'\'', b'\\', ..] => quoted(text, '\''),
        [b'\'', ..] => {
            let second = text.char_indices().nth(2);
            second.filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1)
        }
        _ => 0,
    }
}

/// Returns the length of the raw string at the beginning of the text, `r#"…"#` with any number of hashes and an optional
/// `b` or `c` before it; 0 if there is none.
fn raw_string(text: &str) -> usize {
    let after = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let Some(after) = after.strip_prefix('r') else { return 0 };
    let body = after.trim_start_matches('#');
    let hashes = &after[..after.len() - body.len()];
    let Some(body) = body.strip_prefix('"') else { return 0 };
    let end = format!("\"{hashes}");
    body.find(&end).map_or(text.len(), |at| text.len() - body.len() + at + end.len())
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = text[at..].find(['/', '*']).map(|next| at + next) {
        (depth, at) = match &text.as_bytes()[next..] {
            [b'/', b'*', ..] => (depth + 1, next + 2),
            [b'*', b'/', ..] => (depth - 1, next + 2),
            _ => (depth, next + 1),
        };
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[test]
fn comments_and_strings_are_blanked_out() {
    let table = [
        ("a // b\nc", "a c"),
        ("a /* b /* c */ d */ e", "a e"),
        (r#"f("x\"y") g"#, "f( ) g"),
        (r###"f(r#"x"y"#) g"###, "f( ) g"),
        ("f(br\"x\") g", "f( ) g"),
        ("f('x', '\\'', 'é') g", "f( , , ) g"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("for r in x {}", "for r in x {}"),
        ("\"//\" x", "x"),
        ("/* never closed", ""),
    ];
    for (text, expected) in table {
        let code = code(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        assert_eq!(code.chars().count(), text.chars().count(), "the length stays the same: {text}");
        assert_eq!(code.lines().count(), text.lines().count(), "the number of lines stays the same: {text}");
    }
}
