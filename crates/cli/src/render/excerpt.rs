//! Shortens long foreign text (the text of a server) to its beginning, so that the lines above it do not scroll away.
//!
//! Text is cut between lines or words. A word is cut only if it alone is too long, because it could be a secret: the
//! screen hides secrets when it prints the page, and would not recognize one that was cut.

use toolrack_host::text;

use super::{Tone, count, paint};

/// The maximum number of lines of a text that are shown.
const MAX_LINES: usize = 15;
/// The maximum number of bytes of a text that are shown.
const MAX_BYTES: usize = 1_200;

/// Returns the beginning of `words` with at most `lines` lines and `bytes` bytes, and how many bytes are omitted.
fn beginning(words: &str, lines: usize, bytes: usize) -> (&str, usize) {
    let end = words.match_indices('\n').nth(lines.saturating_sub(1)).map_or(words.len(), |(at, _)| at);
    let end = if end <= bytes {
        end
    } else {
        let limit = words.floor_char_boundary(bytes);
        words[..limit].rfind(char::is_whitespace).filter(|at| *at > 0).unwrap_or(limit)
    };
    (&words[..end], words.len() - end)
}

/// Returns the lines of foreign `words`, escaped. If there are too many, a last line says how much is left out and that
/// the command `show_all` shows everything.
pub(crate) fn lines(words: &str, show_all: &str) -> Vec<String> {
    let (excerpt, omitted) = beginning(words.trim(), MAX_LINES, MAX_BYTES);
    let mut lines: Vec<String> = text::for_terminal(excerpt).lines().map(str::to_owned).collect();
    if omitted > 0 {
        lines.push(paint(Tone::Faint, &format!("… and {} more: `{show_all}` shows all of it", count(omitted, "byte"))));
    }
    lines
}

/// Returns foreign `words` on one line, escaped. Cuts them after `bytes` bytes, with an ellipsis.
pub(crate) fn line(words: &str, bytes: usize) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let (excerpt, omitted) = beginning(&words, usize::MAX, bytes);
    format!("{}{}", text::for_line(excerpt), if omitted > 0 { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_shown_in_full_and_long_text_is_cut_between_words() {
        assert_eq!(lines("one\ntwo\u{1b}[2J", "x --full"), ["one", "two\\u{1b}[2J"]);
        let many = lines(&"a line\n".repeat(5_000), "x --full");
        assert_eq!(many.len(), MAX_LINES + 1);
        assert!(many[MAX_LINES].contains("more: `x --full` shows all of it"), "{many:?}");
        let long = "a word é ".repeat(10_000);
        let (excerpt, omitted) = beginning(&long, MAX_LINES, MAX_BYTES);
        assert!(
            excerpt.len() <= MAX_BYTES && excerpt.ends_with('é') && omitted == long.len() - excerpt.len(),
            "{excerpt}"
        );
        assert_eq!(beginning(&"é".repeat(2_000), MAX_LINES, 5), ("éé", 3_996));
        assert_eq!(line("some\n  words and more", 11), "some words…");
        assert_eq!(line("a\tb", 100), "a b");
    }
}
