//! Finds any number of lines of a text in little more time than reading the text once.
//!
//! A file is untrusted, and a single line can contain a hundred thousand mistakes.

use std::cell::{OnceCell, RefCell};

use super::mask_line;

/// The positions of the lines of one text. Every call must pass the same text.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// The start of each line, in bytes.
    starts: OnceCell<Vec<usize>>,
    /// The line of the last call; consecutive problems are often on the same line.
    last: RefCell<Option<Line>>,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The number, from 1.
    pub(super) number: usize,
    /// The position of the line's first byte.
    pub(super) start: usize,
    /// The length of the line in bytes, without the line break.
    pub(super) bytes: usize,
    /// The characters of the line, with values hidden.
    pub(super) masked_chars: Vec<char>,
    /// The start of each character, in bytes from the beginning of the text.
    char_starts: Vec<usize>,
}

impl Lines {
    /// Returns the number of the line that contains the byte `at`, from 1.
    pub(super) fn number(&self, text: &str, at: usize) -> usize {
        self.starts(text).partition_point(|start| *start <= at)
    }

    /// Calls `read` with the line that contains the byte `at`.
    pub(super) fn with_line<T>(&self, text: &str, at: usize, read: impl FnOnce(&Line) -> T) -> T {
        let number = self.number(text, at);
        let mut last = self.last.borrow_mut();
        let line = last.take().filter(|line| line.number == number).unwrap_or_else(|| {
            let start = self.starts(text).get(number - 1).copied().unwrap_or_default();
            Line::read(number, start, text)
        });
        let result = read(&line);
        *last = Some(line);
        result
    }

    fn starts(&self, text: &str) -> &[usize] {
        self.starts.get_or_init(|| {
            let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect()
        })
    }
}

impl Line {
    fn read(number: usize, start: usize, text: &str) -> Self {
        let rest = &text[start..];
        let line = rest.split('\n').next().unwrap_or_default();
        let content = line.strip_suffix('\r').unwrap_or(line);
        Self {
            number,
            start,
            bytes: content.len(),
            masked_chars: mask_line(content).chars().collect(),
            char_starts: line.char_indices().map(|(at, _)| start + at).collect(),
        }
    }

    /// Returns the number of its characters before the byte `at`.
    pub(super) fn chars_before(&self, at: usize) -> usize {
        self.char_starts.partition_point(|start| *start < at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_in_the_line_that_counting_finds(text in "[a\u{e9}\u{1f600}\r\n\"]{0,40}", ats in prop::collection::vec(0_usize..60, 1..8)) {
            let lines = Lines::default();
            for at in ats {
                let at = text.floor_char_boundary(at);
                let before = &text[..at];
                let start = before.rfind('\n').map_or(0, |newline| newline + 1);
                let expected = (before.matches('\n').count() + 1, start, before[start..].chars().count());
                let found = lines.with_line(&text, at, |line| (line.number, line.start, line.chars_before(at)));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
