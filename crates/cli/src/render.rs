//! Renders data as text for people. All functions are pure: none of them writes anything.
//!
//! The text always has colour; the [screen](crate::screen) removes it if the output must have none. Every text from a
//! server passes through [`toolrack_host::text`], which escapes it.

pub(crate) mod excerpt;
pub(crate) mod progress;

use anstyle::{AnsiColor, Style};
use toolrack_host::text;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How to lay out a page: with which characters, and how wide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Whether the terminal shows Unicode.
    pub(crate) unicode: bool,
    /// In columns; `usize::MAX` where there is no terminal.
    pub(crate) width: usize,
}

/// The meaning of a colour. The text always says the same in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// A name to look for.
    Strong,
    /// Less important.
    Faint,
    /// The name of a tool.
    Tool,
    Good,
    /// Not finished, or waits for the user.
    Waiting,
    Bad,
}

/// Returns `words` in the colour of `tone`.
pub(crate) fn paint(tone: Tone, words: &str) -> String {
    let style = match tone {
        Tone::Plain => return words.to_owned(),
        Tone::Strong => Style::new().bold(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Tool => AnsiColor::Magenta.on_default(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Waiting => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default(),
    };
    if words.is_empty() {
        return String::new();
    }
    format!("{style}{words}{style:#}")
}

/// A sign in front of a line, for the state of the thing in that line. Each has a plain form for terminals without
/// Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Works, or succeeded.
    Good,
    /// Is connecting.
    Busy,
    /// Will be tried again, or has changed.
    Retrying,
    /// Waits for the user's approval, as a new server does, or a tool whose definition has changed.
    Paused,
    /// Needs a sign-in.
    Key,
    /// Is disabled, disconnected or not there.
    Off,
    /// Failed, or is broken.
    Bad,
    /// Works only in part, or is suspicious.
    Doubtful,
}

impl Layout {
    pub(crate) fn sign(self, sign: Sign) -> &'static str {
        let (unicode, plain) = match sign {
            Sign::Good => ("✔", "+"),
            Sign::Busy => ("⟳", "~"),
            Sign::Retrying => ("↻", "~"),
            Sign::Paused => ("⏸", "="),
            Sign::Key => ("!", "!"),
            Sign::Off => ("⊘", "o"),
            Sign::Bad => ("✘", "x"),
            Sign::Doubtful => ("⚠", "!"),
        };
        if self.unicode { unicode } else { plain }
    }

    /// Returns the sign between a state and its reason.
    pub(crate) fn dash(self) -> &'static str {
        if self.unicode { "—" } else { "-" }
    }

    /// Returns the sign between two facts.
    pub(crate) fn dot(self) -> &'static str {
        if self.unicode { "·" } else { "-" }
    }

    /// Returns the sign for something that is left out.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    /// Returns `words` in at most `columns` columns, with an ellipsis if it had to cut them, and in the same colours.
    pub(crate) fn clip(self, words: &str, columns: usize) -> String {
        if textwrap::core::display_width(words) <= columns {
            return words.to_owned();
        }
        let room = columns.saturating_sub(self.ellipsis().width());
        let (mut clipped, mut used) = (String::new(), 0);
        let (mut in_escape, mut is_full) = (false, false);
        for character in words.chars() {
            // A colour sequence does not count; it ends with a letter.
            in_escape |= character == '\u{1b}';
            if in_escape {
                clipped.push(character);
                in_escape = !character.is_ascii_alphabetic();
                continue;
            }
            used += character.width().unwrap_or(0);
            if used <= room {
                clipped.push(character);
            } else if !is_full {
                is_full = true;
                clipped.truncate(clipped.trim_end().len());
                clipped += self.ellipsis();
            }
        }
        clipped
    }
}

/// By how many characters the rest of a wrapped line is indented, if the line has no columns.
const HANGING_INDENT: usize = 4;
/// The least width of a terminal; a narrower one counts as this wide.
const MIN_WIDTH: usize = 20;
/// Marks a line that must be cut at the edge of the terminal. Text of servers cannot contain it, because it is escaped.
const CUT_MARK: char = '\u{1}';

/// Marks `line` to be cut at the edge of the terminal instead of wrapped.
///
/// The cut happens at printing, after the secrets are hidden, because a secret that was cut would not be recognized.
pub(crate) fn one_line(line: &str) -> String {
    format!("{CUT_MARK}{line}")
}

/// Returns `url` as a link of the terminal (OSC 8,
/// <https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda>), which stays one link where the terminal wraps
/// it. Without colour, only the text is printed. A URL that could end the link early is printed as escaped text.
pub(crate) fn link(url: &str) -> String {
    let escaped = text::for_line(url);
    if escaped != url || url.contains(|c: char| c.is_control() || !c.is_ascii()) {
        return escaped.into_owned();
    }
    format!("\u{1b}]8;;{url}\u{1b}\\{url}\u{1b}]8;;\u{1b}\\")
}

impl Layout {
    /// Fits `page` to the terminal: cuts each [`one_line`], and wraps other lines that are too wide. The rest of a
    /// wrapped line is indented to its last column. `page` may have colours. Without a terminal, it cuts and wraps
    /// nothing.
    pub(crate) fn fit(self, page: &str) -> String {
        if self.width == usize::MAX {
            return page.replace(CUT_MARK, "");
        }
        let width = self.width.max(MIN_WIDTH);
        let lines = page.split('\n').map(|line| {
            if let Some(line) = line.strip_prefix(CUT_MARK) {
                return self.clip(line, width);
            }
            if textwrap::core::display_width(line) <= width {
                return line.to_owned();
            }
            let indent = " ".repeat(hanging_indent(line, width));
            let options = textwrap::Options::new(width)
                .subsequent_indent(&indent)
                // Leaves a long URL to the terminal's own wrapping: a URL with line breaks cannot be copied or clicked.
                .break_words(!line.contains("://"))
                .word_separator(textwrap::WordSeparator::AsciiSpace)
                .word_splitter(textwrap::WordSplitter::NoHyphenation)
                .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
            textwrap::wrap(line, options).join("\n")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the indent for the rest of a wrapped line: that of its last column, if that leaves enough room.
fn hanging_indent(line: &str, width: usize) -> usize {
    let plain_line = anstream::adapter::strip_str(line).to_string();
    let indent = plain_line.len() - plain_line.trim_start().len();
    // Two blanks separate columns.
    let last_column = plain_line.trim_end().rfind("  ").map_or(0, |index| plain_line[..index].width() + 2);
    if last_column > indent && last_column <= width / 2 {
        last_column
    } else {
        (indent + HANGING_INDENT).min(width / 2)
    }
}

/// A field of a line.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    words: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(tone: Tone, words: impl Into<String>) -> Self {
        Self { words: words.into(), tone }
    }
}

/// Returns lines whose fields are aligned in columns; the last field of a line is not padded.
pub(crate) fn columns(rows: &[Vec<Cell>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| {
            rows.iter().filter(|row| column + 1 < row.len()).map(|row| row[column].words.width()).max().unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                line += &paint(cell.tone, &cell.words);
                if column + 1 < row.len() {
                    // The first column is a sign, close to what it belongs to.
                    let gap = if column == 0 { 1 } else { 2 };
                    let padding = widths[column].saturating_sub(cell.words.width());
                    line.extend(std::iter::repeat_n(' ', padding + gap));
                }
            }
            line
        })
        .collect()
}

/// Returns a number with its noun: `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns a number of bytes for people, in powers of ten: `812 B`, `12 kB`, `3.4 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    #[expect(clippy::cast_precision_loss, reason = "users see only two digits of it")]
    let mut number = bytes as f64;
    let mut unit = 0;
    // Rounding would show 999.5 as 1000, and 9.95 (the bound further below) as 10.0.
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1000.0;
        unit += 1;
    }
    if unit > 0 && number < 9.95 {
        format!("{number:.1} {}", UNITS[unit])
    } else {
        format!("{number:.0} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Layout = Layout { unicode: false, width: 80 };

    #[test]
    fn sizes_have_two_digits_and_a_unit() {
        let sizes = [0, 812, 999, 1_000, 1_049, 9_949, 9_950, 12_345, 999_499, 999_500, 1_048_576, u64::MAX];
        let words = sizes.map(size).join(" | ");
        assert_eq!(
            words,
            "0 B | 812 B | 999 B | 1.0 kB | 1.0 kB | 9.9 kB | 10 kB | 12 kB | 999 kB | 1.0 MB | 1.0 MB | 18446744 TB"
        );
    }

    #[test]
    fn columns_align_by_width_and_not_by_bytes() {
        let row = |words: [&str; 3]| words.map(|word| Cell::new(Tone::Plain, word)).to_vec();
        let lines = columns(&[row(["+", "日本", "x"]), row(["+", "abc", "yy"])]);
        assert_eq!(lines, ["+ 日本  x", "+ abc   yy"]);
    }

    #[test]
    fn text_is_clipped_by_width_between_characters() {
        assert_eq!(PLAIN.clip("short", 5), "short");
        assert_eq!(PLAIN.clip("a longer line", 10), "a longe...");
        assert_eq!(PLAIN.clip("日本語日本語", 9), "日本語...");
        assert_eq!(PLAIN.clip("anything", 0), "...");
        let red = paint(Tone::Bad, "a longer line");
        assert_eq!(PLAIN.clip(&red, 10), paint(Tone::Bad, "a longe..."));
    }

    #[test]
    fn a_line_that_is_marked_is_cut_at_the_edge_of_the_terminal_instead_of_wrapped() {
        let layout = Layout { unicode: true, width: 20 };
        let page = format!("{}\n{}", one_line("  more than twenty columns"), one_line("  less"));
        assert_eq!(layout.fit(&page), "  more than twenty…\n  less");
        let unbounded = Layout { width: usize::MAX, ..layout };
        assert_eq!(unbounded.fit(&page), "  more than twenty columns\n  less");
    }

    #[test]
    fn a_line_that_is_too_wide_continues_below_its_last_column() {
        let layout = Layout { unicode: true, width: 40 };
        let line =
            format!("{} gone  stdio  {}", paint(Tone::Bad, "✘"), paint(Tone::Bad, "failed because it was not there"));
        let wrapped = layout.fit(&line);
        assert_eq!(
            anstream::adapter::strip_str(&wrapped).to_string(),
            "✘ gone  stdio  failed because it was not\n               there"
        );
        let prose = "  error: a word, and some more words that say why it is so";
        assert_eq!(layout.fit(prose), "  error: a word, and some more words\n      that say why it is so");
        assert_eq!(Layout { width: usize::MAX, ..layout }.fit(prose), prose);
    }

    #[test]
    fn a_url_is_never_cut_by_line_ends() {
        let layout = Layout { unicode: true, width: 40 };
        let url = format!("https://id.example.com/authorize?{}", "client_id=abc&".repeat(20));
        for line in [format!("Sign in here: {url}"), format!("Sign in here: {}", link(&url)), format!("  {url} or not")]
        {
            assert!(layout.fit(&line).contains(&url), "{line}");
        }
    }

    #[test]
    fn a_link_is_only_its_text_where_there_is_no_colour() {
        assert_eq!(
            anstream::adapter::strip_str(&link("https://a.example/b?c=d")).to_string(),
            "https://a.example/b?c=d"
        );
        assert_eq!(link("https://a.example/\u{1b}]8;;x"), "https://a.example/\\u{1b}]8;;x");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_is_lost() {
        let words =
            ["short", "日本語", "averyveryverylongwordwithoutanyblankinit/and/on/and/on", "\u{1b}[31mred\u{1b}[0m", ""];
        for width in [0, 1, 20, 37, 80] {
            let layout = Layout { unicode: true, width };
            for start in 0..words.len() {
                let page: Vec<_> = (0..12).map(|at| words[(start + at * 3) % words.len()]).collect();
                let page = format!("  {}\n\nnext  {}\n", page.join(" "), page.join("  "));
                let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
                let wrapped = plain(&layout.fit(&page));
                assert!(wrapped.lines().all(|line| line.width() <= width.max(MIN_WIDTH)), "{width}: {wrapped}");
                let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
                assert_eq!(solid(&wrapped), solid(&plain(&page)));
            }
        }
    }

    #[test]
    fn every_sign_has_an_ascii_form_of_one_column() {
        for sign in
            [Sign::Good, Sign::Busy, Sign::Retrying, Sign::Paused, Sign::Key, Sign::Off, Sign::Bad, Sign::Doubtful]
        {
            let unicode = Layout { unicode: true, ..PLAIN };
            assert!(PLAIN.sign(sign).is_ascii());
            assert_eq!(PLAIN.sign(sign).width(), 1);
            assert_eq!(unicode.sign(sign).width(), 1, "{sign:?}");
        }
    }
}
