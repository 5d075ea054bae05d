//! Decodes the escapes of JSON, so that a secret is found in JSON, and in JSON inside JSON strings at any depth.
//!
//! The decoder ignores the number of backslashes before an escaped character, because it depends only on the depth.
//! Each time that a program writes a text into JSON, it doubles the backslashes and adds one more.

use std::ops::Range;

/// The maximum number of backslashes in a row that count as an escape: only JSON nested ten times has more.
///
/// The limit bounds the text that `KnownSecrets::safe_len` holds back: it waits for the end of an incomplete escape.
const MAX_RUN: usize = 1_024;

/// A text without escapes, and the origin of each part.
#[derive(Debug)]
pub(super) struct Unescaped {
    text: String,
    /// The start of each part in `text`, and its start in the original, sorted by both. A part ends where the next one
    /// starts. A part is as long in `text` as in the original, except for a decoded escape, which is longer in the
    /// original.
    parts: Vec<(usize, usize)>,
}

/// An escape: backslashes and the text after them. The end is the position after the escape.
enum Escape {
    /// A character, and the end of the escape.
    Character(char, usize),
    /// One half of a character beyond U+FFFF, and the end of the escape.
    Half(u16, usize),
    /// An escape that the end of the text cuts off, and its end. If no text follows, the result is this character.
    Open(Option<char>, usize),
    /// Too many backslashes, and their end.
    Endless(usize),
}

impl Unescaped {
    /// Returns `text` with each escape replaced by its character; `None` when there is no backslash.
    ///
    /// When `may_continue`, more text may follow, so an escape that is cut at the end is left out. The cost is linear
    /// in the length of `text`.
    pub(super) fn of(text: &str, may_continue: bool) -> Option<Self> {
        let mut start = text.find('\\')?;
        let mut unescaped = Self { text: String::with_capacity(text.len()), parts: vec![(0, 0)] };
        let mut copied_end = 0;
        loop {
            let (character, end) = match whole_escape(text, start) {
                Escape::Open(..) if may_continue => {
                    unescaped.text.push_str(&text[copied_end..start]);
                    return Some(unescaped);
                }
                Escape::Endless(end) => {
                    let Some(next) = text[end..].find('\\') else { break };
                    start = end + next;
                    continue;
                }
                Escape::Character(character, end) => (Some(character), end),
                Escape::Open(character, end) => (character, end),
                // Cannot happen, because `whole_escape` returns no half.
                Escape::Half(_, end) => (Some(char::REPLACEMENT_CHARACTER), end),
            };
            unescaped.text.push_str(&text[copied_end..start]);
            unescaped.start_part(start);
            unescaped.text.extend(character);
            unescaped.start_part(end);
            copied_end = end;
            let Some(next) = text[end..].find('\\') else { break };
            start = end + next;
        }
        unescaped.text.push_str(&text[copied_end..]);
        Some(unescaped)
    }

    /// Records that the following part of [`Self::text`] begins at `original`.
    fn start_part(&mut self, original: usize) {
        let part = (self.text.len(), original);
        if self.parts.last() != Some(&part) {
            self.parts.push(part);
        }
    }

    /// Returns the text without escapes.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the position in the original of the character at `offset` of [`Self::text`]: for a decoded escape, the
    /// position of its first backslash.
    pub(super) fn original_position(&self, offset: usize) -> usize {
        let (start, original) = self.parts[self.parts.partition_point(|(start, _)| *start <= offset) - 1];
        original + (offset - start)
    }

    /// Like [`Self::original_position`], for a range that is not empty.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        let next_part = self.parts.partition_point(|(start, _)| *start < range.end);
        let (start, original) = self.parts[next_part - 1];
        let end = match self.parts.get(next_part) {
            Some((end, original_end)) if *end == range.end => *original_end,
            _ => original + (range.end - start),
        };
        self.original_position(range.start)..end
    }

    /// Returns the position in [`Self::text`] of the byte `offset` of the original. If the byte is inside an escape,
    /// returns the position of the decoded character.
    pub(super) fn position(&self, offset: usize) -> usize {
        let next_part = self.parts.partition_point(|(_, original)| *original <= offset);
        let (start, original) = self.parts[next_part - 1];
        // `text` lacks an escape that is cut off at the end of the original, and `offset` may be in that escape.
        if self.is_escape(next_part - 1) { start } else { (start + (offset - original)).min(self.text.len()) }
    }

    /// Returns the start of the escape in the original that begins before the byte `offset` and contains it.
    pub(super) fn escape_around(&self, offset: usize) -> Option<usize> {
        let part = self.parts.partition_point(|(_, original)| *original <= offset) - 1;
        let original = self.parts[part].1;
        (original < offset && self.is_escape(part)).then_some(original)
    }

    fn is_escape(&self, part: usize) -> bool {
        let ((start, original), next_part) = (self.parts[part], self.parts.get(part + 1));
        next_part.is_some_and(|(end, original_end)| end - start != original_end - original)
    }
}

/// Returns the escape that begins with the backslash at `start`, including both halves of its character.
fn whole_escape(text: &str, start: usize) -> Escape {
    let (first, first_end) = match escape(text, start) {
        Escape::Half(first, first_end) => (first, first_end),
        whole => return whole,
    };
    let lone_half = || Escape::Character(char::REPLACEMENT_CHARACTER, first_end);
    if !(0xd800..0xdc00).contains(&first) {
        return lone_half();
    }
    match text.as_bytes().get(first_end) {
        None => Escape::Open(Some(char::REPLACEMENT_CHARACTER), first_end),
        Some(b'\\') => match escape(text, first_end) {
            Escape::Half(second, end) => match char::decode_utf16([first, second]).next() {
                Some(Ok(character)) => Escape::Character(character, end),
                _ => lone_half(),
            },
            Escape::Open(..) => Escape::Open(Some(char::REPLACEMENT_CHARACTER), first_end),
            _ => lone_half(),
        },
        Some(_) => lone_half(),
    }
}

/// Returns the escape that begins with the backslash at `start`.
fn escape(text: &str, start: usize) -> Escape {
    let bytes = text.as_bytes();
    let mut position = start;
    loop {
        match &bytes[position..] {
            [b'\\', ..] => position += 1,
            // A backslash that is written as its number.
            [b'u', digits @ ..] if hex_number(digits) == Some(u16::from(b'\\')) => position += 5,
            _ => break,
        }
    }
    if position - start > MAX_RUN {
        return Escape::Endless(position);
    }
    let Some(character) = text[position..].chars().next() else { return Escape::Open(None, position) };
    let end = position + character.len_utf8();
    let decoded = match character {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let digits = &bytes[end..];
            return match hex_number(digits) {
                Some(unit) => match char::from_u32(u32::from(unit)) {
                    Some(character) => Escape::Character(character, end + 4),
                    None => Escape::Half(unit, end + 4),
                },
                None if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) => Escape::Open(Some('u'), end),
                None => Escape::Character('u', end),
            };
        }
        other => other,
    };
    Escape::Character(decoded, end)
}

/// Parses four hexadecimal digits at the beginning of `bytes`.
fn hex_number(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escape_means_the_same_however_deep_it_is() {
        for (text, unescaped) in [
            (r"a\nb", "a\nb"),
            (r"a\\\nb", "a\nb"),
            (r"\b\f\r\t\/\\", "\u{8}\u{c}\r\t/"),
            (r#"\"a\\\"b"#, "\"a\"b"),
            (r"\u0041\\u0042\\\\\u0043", "ABC"),
            (r"\ud83d\udd11 \\ud83d\\udd11", "🔑 🔑"),
            (r"\ud83dx \udd11 \ud83d\u0041", "\u{fffd}x \u{fffd} \u{fffd}A"),
            (r"\u005Cn \u005c\u005cu0041", "\n A"),
            (r"\u004 \u \uxyzw", "u004 u uxyzw"),
            (r"C:\x\é", "C:xé"),
            (r"end\\", "end"),
        ] {
            assert_eq!(Unescaped::of(text, false).unwrap().text(), unescaped, "{text}");
        }
        assert!(Unescaped::of("no \n backslash", false).is_none());
        for open in [r"a\", r"a\\\", r"a\u", r"a\\u00e", r"a\ud83d", r"a\ud83d\", r"a\ud83d\udd1"] {
            let unescaped = Unescaped::of(open, true).unwrap();
            assert_eq!((unescaped.text(), unescaped.original_position(1)), ("a", 1), "{open}");
        }
    }

    #[test]
    fn many_backslashes_cost_no_more_than_other_characters() {
        let text = "\\".repeat(1 << 20) + "x";
        assert_eq!(Unescaped::of(&text, true).unwrap().text(), text);
    }

    proptest! {
        #[test]
        fn every_character_is_found_where_it_came_from(text in r#"[aunté046d8\\\\\\"\n]{0,40}"#, may_continue: bool) {
            let Some(unescaped) = Unescaped::of(&text, may_continue) else { return Ok(()) };
            let mut end = 0;
            for (at, c) in unescaped.text().char_indices() {
                let range = unescaped.original_range(&(at..at + c.len_utf8()));
                prop_assert_eq!(range.start, end);
                end = range.end;
                prop_assert_eq!(unescaped.original_position(at), range.start);
                for inside in range.clone().filter(|at| text.is_char_boundary(*at)) {
                    prop_assert_eq!(unescaped.position(inside), at);
                    prop_assert_eq!(unescaped.escape_around(inside), (inside > range.start).then_some(range.start));
                }
                let alone = Unescaped::of(&text[range.clone()], false);
                prop_assert_eq!(alone.as_ref().map_or(&text[range.clone()], Unescaped::text), c.to_string());
            }
        }
    }
}
