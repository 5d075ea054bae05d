//! Removes the line breaks that an encoder inserted, so that a secret on several lines is found.
//!
//! Base64 has lines of 76 characters in MIME (RFC 2045, 6.8) and of 64 in PEM (RFC 7468); `base64(1)` and `xxd -p`
//! break lines, too.

use std::ops::Range;

/// A text without the breaks between its lines, and the origin of each part.
#[derive(Debug)]
pub(super) struct Unwrapped {
    text: String,
    /// The start of each part in `text`, and its start in the original, sorted by both.
    parts: Vec<(usize, usize)>,
}

impl Unwrapped {
    /// Returns `text` without the breaks between two characters of base64, and without the indentation after them.
    /// `None` when there is no such break.
    ///
    /// When `may_continue`, more text may follow, so a possible break at the end, or the beginning of one, is left out
    /// as well. The cost is linear in the length of `text`.
    pub(super) fn of(text: &str, may_continue: bool) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut unwrapped = Self { text: String::new(), parts: vec![(0, 0)] };
        let (mut end, mut copied_end) = (0, 0);
        while let Some(start) = next_break(bytes, end) {
            end = break_end(bytes, start);
            let is_after_encoded = start > 0 && is_encoded(bytes[start - 1]);
            let is_before_encoded = bytes.get(end).map_or(may_continue, |next| is_encoded(*next));
            if is_after_encoded && is_before_encoded {
                unwrapped.leave_out(&text[copied_end..start], end);
                copied_end = end;
            }
        }
        let trimmed = text[copied_end..].trim_end_matches([' ', '\t']);
        if may_continue
            && copied_end + trimmed.len() < text.len()
            && trimmed.ends_with(|c| u8::try_from(c).is_ok_and(is_encoded))
        {
            unwrapped.leave_out(trimmed, text.len());
            copied_end = text.len();
        }
        if unwrapped.parts.len() == 1 {
            return None;
        }
        unwrapped.text.push_str(&text[copied_end..]);
        Some(unwrapped)
    }

    /// Adds `part`, and leaves out the break after it. The original continues at `next_position`.
    fn leave_out(&mut self, part: &str, next_position: usize) {
        self.text.push_str(part);
        self.parts.push((self.text.len(), next_position));
    }

    /// Returns the text without the breaks.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the position in the original of the character at `offset` of [`Self::text`].
    pub(super) fn original_position(&self, offset: usize) -> usize {
        let part = self.parts.partition_point(|(start, _)| *start <= offset) - 1;
        let (start, original) = self.parts[part];
        original + (offset - start)
    }

    /// Like [`Self::original_position`], for a range that is not empty, including breaks inside it.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        self.original_position(range.start)..self.original_position(range.end - 1) + 1
    }

    /// Returns the position in [`Self::text`] of the byte `offset` of the original. If the byte is inside a removed
    /// break, returns the position after the break.
    pub(super) fn position(&self, offset: usize) -> usize {
        let part = self.parts.partition_point(|(_, original)| *original <= offset) - 1;
        let (start, original) = self.parts[part];
        let end = self.parts.get(part + 1).map_or(self.text.len(), |(next, _)| *next);
        (start + (offset - original)).min(end)
    }
}

/// Returns whether a byte is a character of base64, in either alphabet, or of hex.
fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)
}

/// Returns the start of the next break at or after `start`. The spaces before a break belong to it.
fn next_break(bytes: &[u8], start: usize) -> Option<usize> {
    let line_end = start + bytes[start..].iter().position(|byte| is_break(*byte))?;
    let spaces = bytes[start..line_end].iter().rev().take_while(|byte| is_space(**byte)).count();
    Some(line_end - spaces)
}

/// Returns the end of the breaks and spaces that begin at `start`.
fn break_end(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|byte| is_break(**byte) || is_space(**byte)).count()
}

/// Returns whether a byte is a part of a line break.
fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_line_breaks_within_encoded_text_are_left_out() {
        for (text, unwrapped) in [
            ("YWJj\nZGVm", Some("YWJjZGVm")),
            ("YWJj \r\n  ZGVm", Some("YWJjZGVm")),
            ("YWJj\n\tZGVm\n\tZ2hp", Some("YWJjZGVmZ2hp")),
            ("one line", None),
            ("a word. \n\"Another\"", None),
            ("YWJj\n", None),
        ] {
            assert_eq!(Unwrapped::of(text, false).as_ref().map(Unwrapped::text), unwrapped, "{text}");
        }
        for open in ["YWJj\r", "YWJj ", "YWJj \n \t"] {
            assert_eq!(Unwrapped::of(open, true).unwrap().text(), "YWJj", "{open}");
            assert!(Unwrapped::of(open, false).is_none(), "{open}");
        }
    }

    proptest! {
        #[test]
        fn every_character_is_found_where_it_came_from(text in "[aé .\t\n]{0,40}", may_continue: bool) {
            let Some(unwrapped) = Unwrapped::of(&text, may_continue) else { return Ok(()) };
            for (at, c) in unwrapped.text().char_indices() {
                let original = unwrapped.original_position(at);
                prop_assert_eq!(text[original..].chars().next(), Some(c));
                prop_assert_eq!(unwrapped.position(original), at);
                let range = unwrapped.original_range(&(at..at + c.len_utf8()));
                prop_assert_eq!(range, original..original + c.len_utf8());
            }
        }
    }
}
