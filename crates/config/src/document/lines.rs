//! Finds the line in which a byte of a text is. Any number of searches together take little more time than reading the
//! text once: an untrusted file can contain a hundred thousand mistakes, all in one line.

use std::cell::{OnceCell, RefCell};

use super::mask_line;

/// The positions of the lines of one text. Every call must pass the same text.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// The start of each line, in bytes.
    starts: OnceCell<Vec<usize>>,
    /// The line that the last call found; consecutive problems are often on the same line.
    last_line: RefCell<Option<Line>>,
}

/// A line of the text.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The number, from 1.
    pub(super) number: usize,
    /// The position of the line's first byte.
    pub(super) start: usize,
    /// The length of the line in bytes, without the line break.
    pub(super) byte_length: usize,
    /// The characters of the line, with values hidden.
    pub(super) masked_chars: Vec<char>,
    /// The start of each character, in bytes from the beginning of the text.
    char_starts: Vec<usize>,
}

impl Lines {
    /// Returns the number of the line that contains the byte `offset`, from 1.
    pub(super) fn number_at(&self, text: &str, offset: usize) -> usize {
        self.line_starts(text).partition_point(|start| *start <= offset)
    }

    /// Calls `read` with the line that contains the byte `offset`.
    pub(super) fn with_line<T>(&self, text: &str, offset: usize, read: impl FnOnce(&Line) -> T) -> T {
        let number = self.number_at(text, offset);
        let mut last_line = self.last_line.borrow_mut();
        let line = last_line.take().filter(|line| line.number == number).unwrap_or_else(|| {
            let start = self.line_starts(text).get(number - 1).copied().unwrap_or_default();
            Line::new(number, start, text)
        });
        let result = read(&line);
        *last_line = Some(line);
        result
    }

    fn line_starts(&self, text: &str) -> &[usize] {
        self.starts.get_or_init(|| {
            let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(breaks.map(|(offset, _)| offset + 1)).collect()
        })
    }
}

impl Line {
    /// Creates the line `number`, which begins at the byte `start` of `text`.
    fn new(number: usize, start: usize, text: &str) -> Self {
        let text_from_start = &text[start..];
        let line = text_from_start.split('\n').next().unwrap_or_default();
        let content = line.strip_suffix('\r').unwrap_or(line);
        Self {
            number,
            start,
            byte_length: content.len(),
            masked_chars: mask_line(content).chars().collect(),
            char_starts: line.char_indices().map(|(offset, _)| start + offset).collect(),
        }
    }

    /// Returns the number of characters of the line before the byte `offset`.
    pub(super) fn chars_before(&self, offset: usize) -> usize {
        self.char_starts.partition_point(|start| *start < offset)
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
