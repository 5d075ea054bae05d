//! Holds the text of one file, and converts its offsets to lines and columns.

mod lines;
mod masked;

use std::{
    fs::File,
    io::{ErrorKind, Read},
    ops::Range,
    path::{Path, PathBuf},
};

use toolrack_host::text::for_line;
use unicode_width::UnicodeWidthStr;

use crate::problem::{Problem, Snippet};
use lines::{Line, Lines};
pub(crate) use masked::mask_line;

/// The size of the largest file that is read: 4 MiB. Configurations are about a thousand times smaller; the bound keeps
/// out devices and logs.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The maximum number of characters of a line that a snippet shows.
const MAX_SNIPPET_CHARS: usize = 66;

/// The maximum number of characters of a long line that a snippet shows before the marked part.
const MAX_CHARS_BEFORE_MARK: usize = 30;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: Option<PathBuf>,
    /// The text without the byte order mark.
    pub(crate) text: String,
    /// Whether the file begins with a byte order mark.
    pub(crate) has_byte_order_mark: bool,
    lines: Lines,
}

impl Document {
    pub(crate) fn new(path: Option<PathBuf>, text: &str) -> Self {
        let text_after_mark = text.strip_prefix(BYTE_ORDER_MARK);
        Self {
            path,
            text: text_after_mark.unwrap_or(text).to_owned(),
            has_byte_order_mark: text_after_mark.is_some(),
            lines: Lines::default(),
        }
    }

    /// Reads the regular file `path`, up to 4 MiB. Returns `None` when there is no such file. Any other kind of file is
    /// an error: opening a pipe in a repository would block the reader.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Box<Problem>> {
        Self::read_up_to(path, MAX_BYTES)
    }

    /// As [`Self::read`], up to `max_bytes`.
    pub(crate) fn read_up_to(path: &Path, max_bytes: u64) -> Result<Option<Self>, Box<Problem>> {
        Self::from_read_result(path, read_regular_file(path, max_bytes))
    }

    /// Reads `path`, up to 4 MiB, if it [gives its content only once](is_stream). Returns `None` for any other file,
    /// and when there is none. Waits for the process that writes into a pipe.
    pub(crate) fn read_stream(path: &Path) -> Result<Option<Self>, Box<Problem>> {
        match is_stream(path) {
            Ok(true) => Self::from_read_result(path, read_bytes(path, MAX_BYTES)),
            Ok(false) => Ok(None),
            Err(error) => Self::from_read_result(path, Err(error)),
        }
    }

    /// Creates the document of `path` from the result of reading that file; `None` if the file does not exist. A link
    /// to a file that does not exist is an error.
    fn from_read_result(path: &Path, result: std::io::Result<Vec<u8>>) -> Result<Option<Self>, Box<Problem>> {
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) && !path.is_symlink() => return Ok(None),
            Err(error) if is_absent(&error) => {
                // The target may be on a disk that is not mounted at the moment. If this counted as no file, the rules
                // in it would be lost without a message.
                let problem = Problem::error("the file is a symbolic link to a file that does not exist")
                    .in_file(path)
                    .hint("remove the link, or create its target: until then, this file is ignored");
                return Err(Box::new(problem));
            }
            Err(error) => {
                let problem = Problem::error(format!("the file cannot be read: {error}"))
                    .in_file(path)
                    .hint("this file is ignored until it can be read");
                return Err(Box::new(problem));
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(Self::new(Some(path.to_owned()), &text))),
            Err(error) => {
                let valid_length = error.utf8_error().valid_up_to();
                let mut problem = Problem::error("the file is not UTF-8 text").in_file(path);
                let valid_text = String::from_utf8_lossy(&error.as_bytes()[..valid_length]).into_owned();
                (problem.line, problem.column) = Self::new(None, &valid_text).line_and_column(valid_length);
                Err(Box::new(problem.hint("save it as UTF-8")))
            }
        }
    }

    /// Returns the whole content of the file for the new text `text`: with a byte order mark before it if the file
    /// begins with one.
    pub(crate) fn restore_byte_order_mark(&self, text: &str) -> String {
        let mark =
            if self.has_byte_order_mark { BYTE_ORDER_MARK.encode_utf8(&mut [0; 3]).to_owned() } else { String::new() };
        mark + text
    }

    /// Returns `problem` with the path of this file, and with the line, the column and the snippet of the bytes `span`.
    pub(crate) fn locate(&self, mut problem: Problem, span: Range<usize>) -> Problem {
        problem.path.clone_from(&self.path);
        (problem.line, problem.column) = self.line_and_column(span.start);
        problem.snippet = Some(self.snippet(span));
        problem
    }

    /// Returns the number of the line that contains the byte `offset`, from 1; `None` if the text comes from no file.
    pub(crate) fn line_of(&self, offset: usize) -> Option<usize> {
        self.path.as_ref()?;
        Some(self.lines.number_at(&self.text, self.char_boundary(offset)))
    }

    /// Returns the line and the column of the byte `offset`, both from 1, the column in characters.
    fn line_and_column(&self, offset: usize) -> (Option<usize>, Option<usize>) {
        let offset = self.char_boundary(offset);
        let (line, chars_before) =
            self.lines.with_line(&self.text, offset, |line| (line.number, line.chars_before(offset)));
        (Some(line), Some(chars_before + 1))
    }

    /// Returns the line in which `span` begins, with the part of `span` in that line marked.
    fn snippet(&self, span: Range<usize>) -> Snippet {
        let start = self.char_boundary(span.start);
        self.lines.with_line(&self.text, start, |line| {
            // `span` may begin in the line break, behind the content of the line.
            let line_end = line.start + line.byte_length.max(start - line.start);
            let end = self.char_boundary(span.end.clamp(start, line_end));
            let mark_start = line.chars_before(start);
            snippet(line, mark_start, line.chars_before(end) - mark_start)
        })
    }

    /// Returns `offset`, moved back to a character boundary inside the text.
    fn char_boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

/// Returns the snippet of `line` that marks `mark_length` characters from the character `mark_start` on.
fn snippet(line: &Line, mark_start: usize, mark_length: usize) -> Snippet {
    let line_chars = &line.masked_chars;
    let skipped_chars =
        if line_chars.len() > MAX_SNIPPET_CHARS { mark_start.saturating_sub(MAX_CHARS_BEFORE_MARK) } else { 0 };
    let printable = |range: Range<usize>| {
        let range = range.start.min(line_chars.len())..range.end.min(line_chars.len());
        let part: String = line_chars[range].iter().map(|&c| if c == '\t' { ' ' } else { c }).collect();
        for_line(&part).into_owned()
    };
    let shown_end = skipped_chars + MAX_SNIPPET_CHARS;
    let mark_end = (mark_start + mark_length).min(shown_end);
    let text_before = if skipped_chars > 0 {
        format!("…{}", printable(skipped_chars..mark_start))
    } else {
        printable(0..mark_start)
    };
    let mark = printable(mark_start..mark_end);
    let text_after = printable(mark_end..shown_end);
    let ellipsis = if line_chars.len() > shown_end { "…" } else { "" };
    Snippet {
        start: text_before.width(),
        width: mark.width().max(1),
        text: format!("{text_before}{mark}{text_after}{ellipsis}"),
    }
}

/// Returns whether `path` gives its content only once: a pipe, such as that of `<(command)`, or a device. The files in
/// `/dev/fd` are the open files of this process. On macOS, opening one again continues at the position of the earlier
/// reader, so even a regular file there can be read only once.
fn is_stream(path: &Path) -> std::io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    Ok(!metadata.is_dir() && (!metadata.is_file() || path.starts_with("/dev/fd")))
}

/// Like [`read_bytes`], but any file other than a regular one is an error.
fn read_regular_file(path: &Path, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    read_bytes(path, max_bytes)
}

/// Reads the file `path`. A file of more than `max_bytes` is an error.
fn read_bytes(path: &Path, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", max_bytes / (1024 * 1024))));
    }
    Ok(bytes)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str, at: Range<usize>) -> Problem {
        Document::new(Some("f.json".into()), text).locate(Problem::error("wrong"), at)
    }

    #[test]
    fn the_caret_is_below_the_marked_text() {
        let text = "{\n  \"name\": tru\n}";
        let problem = located(text, text.find("tru").map(|at| at..at + 3).unwrap());
        assert_eq!(problem.to_string(), "f.json:2:11: error: wrong\n  2 |   \"name\": ***\n    |           ^^^");
        assert_eq!(format!("{problem:#}"), "f.json:2:11: error: wrong");
    }

    #[test]
    fn wide_characters_and_tabs_keep_the_caret_in_place() {
        let text = "\t\"木\": x";
        let problem = located(text, text.find('x').map(|at| at..at + 1).unwrap());
        let snippet = problem.snippet.unwrap();
        assert_eq!(snippet.text, " \"木\": *");
        assert_eq!(snippet.start, 7);
        assert_eq!(problem.column, Some(7));
    }

    #[test]
    fn a_long_line_is_shown_around_the_mark() {
        let text = format!("{{{}\"here\": 1{}}}", " ".repeat(500), " ".repeat(500));
        let at = text.find("\"here").unwrap();
        let snippet = located(&text, at..at + 6).snippet.unwrap();
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with('…'));
        assert!(snippet.text.chars().count() <= MAX_SNIPPET_CHARS + 2);
        assert_eq!(&snippet.text.chars().skip(snippet.start).take(6).collect::<String>(), "\"here\"");
    }

    #[test]
    fn a_position_behind_the_end_is_marked_behind_the_last_character() {
        let problem = located("{", 7..9);
        assert_eq!((problem.line, problem.column), (Some(1), Some(2)));
        assert_eq!(problem.snippet.unwrap().width, 1);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_reported_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, b"{\n  \xff").unwrap();
        let problem = Document::read(&path).unwrap_err();
        assert_eq!((problem.line, problem.column), (Some(2), Some(3)));
    }

    #[test]
    fn a_folder_and_a_huge_file_are_refused_and_a_missing_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Document::read(folder.path()).is_err());
        let path = folder.path().join("big");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(Document::read(&path).unwrap_err().message.contains("4 MiB"));
        assert!(Document::read(&path.join("below")).unwrap().is_none());
        assert!(Document::read(&folder.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn line_numbers_are_the_same_for_every_line_ending_and_with_a_byte_order_mark() {
        for newline in ["\n", "\r\n"] {
            for mark in ["", "\u{feff}"] {
                let text = format!("{mark}{{{newline}  \"\u{e4}\": tru{newline}}}");
                let document = Document::new(Some("f.json".into()), &text);
                let at = document.text.find("tru").unwrap();
                let problem = document.locate(Problem::error("wrong"), at..at + 3);
                assert_eq!((problem.line, problem.column), (Some(2), Some(8)), "{text:?}");
                let shown = problem.to_string();
                assert!(shown.ends_with("  2 |   \"\u{e4}\": ***\n    |        ^^^"), "{shown}");
                assert_eq!(document.restore_byte_order_mark(&document.text), text, "it is written as it was");
            }
        }
    }

    #[test]
    fn a_mark_over_several_lines_points_at_the_first_line() {
        let text = "{ \"a\": [\r\n1,\r\n2] }";
        let start = text.find('[').unwrap();
        let snippet = located(text, start..text.len()).snippet.unwrap();
        assert_eq!((snippet.start, snippet.width), (7, 1), "{snippet:?}");
    }

    #[test]
    fn a_place_inside_of_a_character_is_the_place_of_the_character() {
        let problem = located("{ \u{6728}x", 3..4);
        assert_eq!((problem.line, problem.column), (Some(1), Some(3)));
        assert_eq!(Document::new(None, "a\nb").line_of(2), None, "a text that is in no file has no lines");
        assert_eq!(Document::new(Some("f".into()), "a\nb").line_of(2), Some(2));
        assert_eq!(Document::new(Some("f".into()), "").line_of(9), Some(1));
    }

    #[test]
    fn a_file_of_the_largest_size_is_read_and_only_one_byte_order_mark_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        std::fs::write(&path, "x".repeat(100)).unwrap();
        assert_eq!(Document::read_up_to(&path, 100).unwrap().unwrap().text.len(), 100);
        assert!(Document::read_up_to(&path, 99).is_err());
        std::fs::write(&path, "\u{feff}\u{feff}{}").unwrap();
        let document = Document::read(&path).unwrap().unwrap();
        assert_eq!((document.has_byte_order_mark, &*document.text), (true, "\u{feff}{}"));
    }
}
