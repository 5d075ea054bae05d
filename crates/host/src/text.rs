//! Makes untrusted text safe to show.
//!
//! All text of a server (names, descriptions, results, error texts, its stderr) can contain terminal escapes that hide
//! or fake lines, bidi controls that reorder them, and invisible characters. Text goes through one of these functions
//! before it is shown: [`for_terminal`] and [`for_line`] for users at a terminal, [`for_log`] for logs, [`for_html`]
//! for pages, [`Safe`] inside a `format!`. Models and programs get text [without invisible
//! characters](without_invisible).
//!
//! A character that would act on the display becomes a visible escape such as `\u{1b}`. Of all characters, only the
//! carriage return of a CRLF line end is dropped. Text without such characters is returned borrowed. Escaping
//! is for display, not for storage: a backslash is not escaped, so the escaping cannot be undone.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Arc;

use serde_json::Value;
use unicode_width::UnicodeWidthChar;

/// The longest text, in bytes, that [`for_log`] returns.
pub const LOG_BYTES: usize = 2_048;

/// The mark that [`clip`] puts in place of removed text (3 bytes in UTF-8).
pub const ELLIPSIS: &str = "…";

/// The most bytes that [`clip`] steps back to keep a cluster (a character with its marks) whole. It cuts inside a
/// longer run of marks.
const MAX_CLUSTER_BYTES: usize = 64;

/// The most bytes of a server's text that [`quote`] takes into an error.
const MAX_QUOTE_BYTES: usize = 600;

/// Returns a text with its secrets hidden.
pub type Conceal = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Untrusted text for a message of one line: displays as [`for_line`] would return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Safe<'a>(pub &'a str);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&for_line(self.0))
    }
}

/// Makes text of several lines safe for a terminal: line feed and tab stay, CRLF becomes LF, all other characters that
/// are not plain text are escaped. Idempotent.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    escape(text, Sink { kind: SinkKind::Lines, is_html: false })
}

/// Makes text safe for one line of a terminal, a table cell or an error message: as [`for_terminal`], and line feed,
/// carriage return and tab become `\n`, `\r` and `\t`. Idempotent.
pub fn for_line(text: &str) -> Cow<'_, str> {
    escape(text, Sink { kind: SinkKind::Line, is_html: false })
}

/// Makes text safe for one field of a log line, as [`for_line`] does, and cuts it to [`LOG_BYTES`]. So a server cannot
/// forge a line or flood the log. Idempotent.
pub fn for_log(text: &str) -> Cow<'_, str> {
    // Escaping for one line never shortens a text, so this part of the text is enough to fill the limit.
    let head = &text[..text.floor_char_boundary(LOG_BYTES + MAX_CLUSTER_BYTES)];
    match for_line(head) {
        Cow::Borrowed(line) => clip(line, LOG_BYTES),
        Cow::Owned(line) => Cow::Owned(clip(&line, LOG_BYTES).into_owned()),
    }
}

/// Makes text safe for HTML, between tags or inside a quoted attribute: as [`for_terminal`], and `& < > " '` become
/// character references. Not idempotent, like any HTML escaping: apply it once, when the page is built.
pub fn for_html(text: &str) -> Cow<'_, str> {
    escape(text, Sink { kind: SinkKind::Lines, is_html: true })
}

/// Returns text for models and programs, without characters that are invisible or act on a display, otherwise
/// unchanged.
///
/// This removes tag characters, zero-width characters, bidi controls, soft hyphens, fillers, variation selectors,
/// control characters and similar ones. It keeps line feed, tab and carriage return. It also keeps joiners inside an
/// emoji and between letters of scripts that are spelled with joiners, and selectors that turn a character into an
/// emoji or back. Other ends of lines and paragraphs (U+0085, U+2028, U+2029, vertical tab, form feed) become line
/// feeds. Idempotent.
pub fn without_invisible(text: &str) -> Cow<'_, str> {
    escape(text, Sink { kind: SinkKind::Model, is_html: false })
}

/// Applies `change` to every text in `value`, including the names of members. So a function that hides secrets leaves
/// no secret in `value`.
pub fn map_texts(value: &mut Value, change: &dyn for<'t> Fn(&'t str) -> Cow<'t, str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| map_texts(item, change)),
        Value::Object(members) => {
            for (name, mut value) in std::mem::take(members) {
                map_texts(&mut value, change);
                members.insert(change(&name).into_owned(), value);
            }
        }
        _ => {}
    }
}

/// Makes untrusted text fit for an error: one safe, clipped line.
pub(crate) fn quote(untrusted: &str) -> String {
    let clipped = clip(untrusted.trim(), MAX_QUOTE_BYTES);
    for_line(&clipped).into_owned()
}

/// Cuts the text to at most `max_bytes` bytes, including [`ELLIPSIS`]; returns it unchanged when it fits.
///
/// Never cuts inside a character, nor between the parts of a displayed character: a letter and its marks, an emoji
/// joined from several, a flag, CRLF (a cheap approximation of UAX #29). A limit below 3 bytes leaves no room for the
/// ellipsis, and gives only a prefix. Idempotent.
pub fn clip(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    match max_bytes.checked_sub(ELLIPSIS.len()) {
        Some(room) => Cow::Owned(format!("{}{ELLIPSIS}", &text[..cluster_boundary(text, room)])),
        None => Cow::Borrowed(&text[..cluster_boundary(text, max_bytes)]),
    }
}

/// Returns the text of the innermost cause of an error. For an error of an HTTP client, that is the message of the
/// system or of the peer.
///
/// The text is untrusted: a peer may have sent parts of it. Pass it through one of the functions above. An error of an
/// HTTP client without a cause names its URL, which may hold a secret; take the URL out of the error first.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The kind of output, and whether the output is HTML, so that markup must be escaped.
#[derive(Clone, Copy)]
struct Sink {
    kind: SinkKind,
    is_html: bool,
}

/// The treatment of line ends, and of characters that are not plain text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SinkKind {
    /// Lines stay, other such characters are escaped.
    Lines,
    /// All such characters are escaped, including line ends.
    Line,
    /// Lines stay, other such characters are removed.
    Model,
}

impl Sink {
    /// Returns whether a byte is ASCII that never needs a change here. [`escape`] returns a text of such bytes at once.
    fn keeps_byte(self, byte: u8) -> bool {
        match byte {
            b'\n' | b'\t' => self.kind != SinkKind::Line,
            b'\r' => self.kind == SinkKind::Model,
            b'&' | b'<' | b'>' | b'"' | b'\'' => !self.is_html,
            0x20..=0x7e => true,
            _ => false,
        }
    }
}

/// Escapes the text in one pass. `escaped` is `None` until the first change, so that clean text is never copied.
fn escape(text: &str, sink: Sink) -> Cow<'_, str> {
    if text.bytes().all(|byte| sink.keeps_byte(byte)) {
        return Cow::Borrowed(text);
    }
    let mut escaped: Option<String> = None;
    // This character, and not the last one of the source, decides whether a joiner stays. So a second pass changes
    // nothing.
    let mut last_written = '\0';
    let mut rest = text.char_indices().peekable();
    while let Some((offset, c)) = rest.next() {
        let after = rest.peek().map_or('\0', |&(_, next)| next);
        match replacement(sink, last_written, c, after) {
            None => {
                last_written = c;
                if let Some(escaped) = &mut escaped {
                    escaped.push(c);
                }
            }
            Some(replacement) => {
                let escaped = escaped.get_or_insert_with(|| text[..offset].to_owned());
                last_written = push_replacement(escaped, &replacement).unwrap_or(last_written);
            }
        }
    }
    escaped.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The text that is written in place of a character.
enum Replacement {
    Nothing,
    Fixed(&'static str),
    /// An escape with the number of this character, such as `\u{1b}`.
    Code(char),
}

/// Returns the replacement of the character `c` between its neighbours; `None` keeps it.
fn replacement(sink: Sink, before: char, c: char, after: char) -> Option<Replacement> {
    use Replacement::{Code, Fixed, Nothing};
    match c {
        '\n' | '\t' if sink.kind != SinkKind::Line => None,
        '\r' if sink.kind == SinkKind::Model => None,
        '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' if sink.kind == SinkKind::Model => Some(Fixed("\n")),
        '\r' if sink.kind == SinkKind::Lines && after == '\n' => Some(Nothing),
        '\n' => Some(Fixed(r"\n")),
        '\r' => Some(Fixed(r"\r")),
        '\t' => Some(Fixed(r"\t")),
        '&' if sink.is_html => Some(Fixed("&amp;")),
        '<' if sink.is_html => Some(Fixed("&lt;")),
        '>' if sink.is_html => Some(Fixed("&gt;")),
        '"' if sink.is_html => Some(Fixed("&quot;")),
        '\'' if sink.is_html => Some(Fixed("&#39;")),
        ZWJ | ZWNJ if joins_letters(before) && joins_letters(after) => None,
        ZWJ if joins_emoji(before) && is_pictograph(after) => None,
        '\u{fe0e}' | '\u{fe0f}' if takes_variant(before) => None,
        c if is_unsafe(c) => Some(if sink.kind == SinkKind::Model { Nothing } else { Code(c) }),
        _ => None,
    }
}

/// Writes the replacement and returns the last character written, if any was.
fn push_replacement(out: &mut String, replacement: &Replacement) -> Option<char> {
    match *replacement {
        Replacement::Nothing => return None,
        Replacement::Fixed(text) => out.push_str(text),
        Replacement::Code(c) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    out.chars().next_back()
}

const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';

/// Returns whether a character acts on the display or is invisible. A table, so that its coverage is easy to read.
fn is_unsafe(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'               // C0, DEL, C1: escapes, bells, cursor movement
        | '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}'    // soft hyphen, grapheme joiner, Mongolian selectors
        | '\u{61c}' | '\u{200e}' | '\u{200f}'               // bidi marks
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // bidi embeddings, overrides, isolates
        | '\u{200b}'..='\u{200d}' | '\u{feff}'              // zero-width space, joiners, byte order mark
        | '\u{2028}' | '\u{2029}'                           // line and paragraph separator
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' // word joiner, invisible operators, deprecated formats
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers: letters without a shape
        | '\u{17b4}' | '\u{17b5}'                           // Khmer inherent vowels, never shown
        | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' // variation selectors
        | '\u{fdd0}'..='\u{fdef}'                           // noncharacters
        | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' // specials: annotation marks and unassigned
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' // shorthand and musical format controls
        | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' // tag characters and the rest of their plane
    )
}

/// Returns whether a character is a letter of a script whose spelling needs joiners between letters: Arabic to
/// Malayalam and Sinhala, Myanmar, Khmer, Mongolian, and the Arabic presentation forms. Between other letters, a joiner
/// only hides something.
fn joins_letters(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{fb50}'..='\u{fdfb}' | '\u{fe70}'..='\u{fefc}')
        && !is_unsafe(c)
}

/// Returns whether a joiner after this character builds one emoji from several.
fn joins_emoji(c: char) -> bool {
    is_pictograph(c) || c == '\u{fe0f}'
}

/// Returns whether a variation selector switches this character between text and emoji, including the keycap bases.
fn takes_variant(c: char) -> bool {
    is_pictograph(c)
        || matches!(c, '0'..='9' | '#' | '*' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙')
}

/// Returns whether a character is in a block of emoji (roughly `Extended_Pictographic` and the skin tones).
fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns the last offset, at most `max_offset`, that splits neither a character nor a cluster (a character with its
/// marks). Goes back at most [`MAX_CLUSTER_BYTES`] to keep a cluster whole.
fn cluster_boundary(text: &str, max_offset: usize) -> usize {
    let max_boundary = text.floor_char_boundary(max_offset);
    let mut offset = max_boundary;
    while offset > 0 && max_boundary - offset <= MAX_CLUSTER_BYTES {
        if !is_inside_cluster(text, offset) {
            return offset;
        }
        offset = text.floor_char_boundary(offset - 1);
    }
    // The text begins with a cluster that does not fit, or with a run of marks that is too long to be a cluster. A cut
    // inside the run must not leave a joiner at the end.
    if offset == 0 { 0 } else { text[..max_boundary].trim_end_matches([ZWJ, ZWNJ]).len() }
}

/// Returns whether the characters around `offset` (a character boundary, not 0) belong to one cluster.
fn is_inside_cluster(text: &str, offset: usize) -> bool {
    let (head, tail) = text.split_at(offset);
    let (Some(before), Some(after)) = (head.chars().next_back(), tail.chars().next()) else {
        return false;
    };
    let is_mark = after.width() == Some(0) && !after.is_control() || is_skin_tone(after);
    let is_crlf = before == '\r' && after == '\n';
    // A flag is a pair of regional indicators, so an odd number of them before the offset means that it splits a pair.
    let is_inside_flag = is_regional(before)
        && is_regional(after)
        && head.chars().rev().take_while(|&c| is_regional(c)).take(MAX_CLUSTER_BYTES).count() % 2 == 1;
    is_mark || is_crlf || is_inside_flag || matches!(before, ZWJ | ZWNJ)
}

fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_regional(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::prelude::*;

    use super::*;

    /// Text in which characters that need a change are frequent, and often beside each other.
    fn nasty() -> impl Strategy<Value = String> {
        let chars = prop_oneof![
            prop::sample::select(
                "\0\u{7}\u{8}\t\n\r\u{1b}[]m\\ab9 \u{7f}\u{85}\u{9b}é\u{301}\u{ad}\u{61c}م\u{200b}\u{200c}\u{200d}\
                 \u{200e}\u{2028}\u{202e}\u{2066}\u{2069}क्ष👩👨🏽🇩🇪❤\u{fe0e}\u{fe0f}\u{e0041}\u{e007f}\u{e0100}\
                 \u{fff9}\u{ffff}\u{fffd}<>&\"'"
                    .chars()
                    .collect::<Vec<_>>()
            ),
            any::<char>(),
        ];
        prop::collection::vec(chars, 0..64).prop_map(String::from_iter)
    }

    fn is_clean(text: &str, lines: bool) -> bool {
        let chars: Vec<char> = text.chars().collect();
        chars.iter().enumerate().all(|(i, &c)| {
            let seen_joiner = || i > 0 && i + 1 < chars.len() && !chars[i - 1].is_ascii() && !chars[i + 1].is_ascii();
            match c {
                '\n' | '\t' => lines,
                '\u{200c}' | '\u{200d}' => seen_joiner(),
                '\u{fe0e}' | '\u{fe0f}' => i > 0,
                _ => !c.is_control() && !is_unsafe(c),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn text_for_terminals_has_no_control_characters(text in nasty()) {
            prop_assert!(is_clean(&for_terminal(&text), true));
            prop_assert!(is_clean(&for_line(&text), false));
            prop_assert!(is_clean(&for_log(&text), false));
            prop_assert!(is_clean(&for_html(&text), true));
        }

        #[test]
        fn text_for_models_loses_only_invisible_characters(text in nasty()) {
            let plain = without_invisible(&text);
            prop_assert!(is_clean(&plain.replace('\r', ""), true), "{:?}", plain);
            prop_assert_eq!(without_invisible(&plain), &*plain);
            let seen = |text: &str| text.chars().filter(|c| !is_unsafe(*c)).collect::<String>();
            prop_assert_eq!(seen(&plain), seen(&text));
        }

        #[test]
        fn escaping_twice_changes_nothing(text in nasty()) {
            for sink in [for_terminal, for_line, for_log] {
                let once = sink(&text).into_owned();
                prop_assert_eq!(&*sink(&once), &once);
            }
        }

        #[test]
        fn markup_never_reaches_a_page(text in nasty()) {
            let page = for_html(&text);
            prop_assert!(!page.contains(['<', '>', '"', '\'']));
            let plain = page.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
            prop_assert_eq!(plain.replace("&amp;", "&"), &*for_terminal(&text));
        }

        #[test]
        fn plain_text_is_borrowed(text in "[a-zA-Zéß漢字 .\\\\/-]{0,40}") {
            prop_assert!(matches!(for_terminal(&text), Cow::Borrowed(_)));
            prop_assert!(matches!(for_line(&text), Cow::Borrowed(_)));
            prop_assert!(matches!(for_log(&text), Cow::Borrowed(_)));
        }

        #[test]
        fn a_clip_fits_and_keeps_the_beginning(text in nasty(), max in 0_usize..80) {
            let clipped = clip(&text, max);
            prop_assert!(clipped.len() <= max);
            if text.len() <= max {
                prop_assert_eq!(&*clipped, &text);
            } else {
                let head = clipped.strip_suffix(ELLIPSIS).unwrap_or(&clipped);
                prop_assert!(text.starts_with(head));
            }
            prop_assert_eq!(clip(&clipped, max), clipped.as_ref());
        }

        #[test]
        fn a_log_field_is_bounded(text in nasty(), times in 1_usize..80) {
            let long = text.repeat(times);
            let field = for_log(&long);
            prop_assert!(field.len() <= LOG_BYTES);
            prop_assert_eq!(&*for_log(&field), &*field);
        }
    }

    #[test]
    fn escapes_are_shown_and_do_not_act_on_the_display() {
        assert_eq!(for_terminal("a\u{1b}[31mred\u{7}\n"), "a\\u{1b}[31mred\\u{7}\n");
        assert_eq!(for_line("one\r\ntwo\tthree"), r"one\r\ntwo\tthree");
        assert_eq!(for_terminal("hide\rshow\r\nnext"), "hide\\rshow\nnext");
        assert_eq!(for_terminal("\u{9b}31m \u{202e}txt.exe"), r"\u{9b}31m \u{202e}txt.exe");
        assert_eq!(for_terminal("hi\u{e0068}\u{e0069}"), r"hi\u{e0068}\u{e0069}");
        assert_eq!(for_line("pay\u{200b}pal"), r"pay\u{200b}pal");
        assert_eq!(for_html("<b title='x'>&\u{1b}"), r"&lt;b title=&#39;x&#39;&gt;&amp;\u{1b}");
    }

    #[test]
    fn everything_that_acts_or_hides_is_escaped() {
        let acting = [
            0x00..=0x1f,
            0x7f..=0x9f,
            0x61c..=0x61c,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x206f,
            0xfe00..=0xfe0f,
            0xfeff..=0xfeff,
            0xfff9..=0xfffb,
            0xe0000..=0xe007f,
            0xe0100..=0xe01ef,
        ];
        for c in acting.into_iter().flatten().filter_map(char::from_u32) {
            let line = for_line(&format!("a{c}b")).into_owned();
            assert!(line.is_ascii() && line.starts_with(r"a\") && !line.contains(c), "{:x} in {line}", u32::from(c));
        }
    }

    #[test]
    fn visible_joiners_are_kept() {
        for text in
            ["👨\u{200d}👩\u{200d}👧", "❤\u{fe0f}\u{200d}🔥", "می\u{200c}خواهم", "क्\u{200d}ष", "1\u{fe0f}\u{20e3}"]
        {
            assert_eq!(for_terminal(text), text);
        }
        assert_eq!(for_terminal("a\u{200d}b"), r"a\u{200d}b");
        assert_eq!(for_terminal("a\u{fe0f}"), r"a\u{fe0f}");
        assert_eq!(for_terminal("👩\u{200d}"), r"👩\u{200d}");
    }

    #[test]
    fn models_get_text_without_invisible_characters_but_with_scripts_and_emoji() {
        for text in [
            "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "two\r\nlines\tand more",
            "漢字 ß é \u{301}",
        ] {
            assert!(matches!(without_invisible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        for (text, seen) in [
            ("Reads.\u{e0049}\u{e0067}\u{e007f}", "Reads."),
            ("pay\u{200b}pal\u{feff} so\u{ad}ft\u{2060}", "paypal soft"),
            ("\u{202e}txt.exe\u{202c} \u{2066}a\u{2069}", "txt.exe a"),
            ("a\u{fe0f}\u{fe01}\u{e0100}b\u{e01ef}", "ab"),
            ("a\u{200d}b\u{200c}c", "abc"),
            ("\u{1b}[31mred\u{1b}[0m\u{7}", "[31mred[0m"),
            ("one\u{2028}two\u{85}three", "one\ntwo\nthree"),
            ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}"),
        ] {
            assert_eq!(without_invisible(text), seen);
        }
    }

    /// Compares the table in this file with Unicode's own properties.
    #[test]
    fn every_character_that_unicode_calls_ignorable_or_a_bidi_control_is_covered() {
        use icu_properties::{
            CodePointSetData,
            props::{BidiControl, DefaultIgnorableCodePoint},
        };
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let bidi = CodePointSetData::new::<BidiControl>();
        for c in '\0'..=char::MAX {
            if ignorable.contains(c) || bidi.contains(c) {
                assert!(is_unsafe(c), "U+{:04X}", u32::from(c));
                assert_eq!(without_invisible(&format!("a{c}b")), "ab");
            }
        }
    }

    #[test]
    fn the_display_wrapper_keeps_to_one_line_and_pads() {
        assert_eq!(format!("[{:<6}]", Safe("a\nb")), r"[a\nb  ]");
        assert_eq!(format!("server {} left", Safe("a\u{1b}[2Jb")), r"server a\u{1b}[2Jb left");
    }

    #[test]
    fn a_clip_never_splits_a_grapheme_cluster() {
        assert_eq!(clip("hello", 5), "hello");
        assert_eq!(clip("hello world", 8), "hello…");
        assert_eq!(clip("hello", 2), "he");
        assert_eq!(clip("x👨\u{200d}👩\u{200d}👧 and more", 20), "x…");
        assert_eq!(clip("x👨\u{200d}👩\u{200d}👧 and more", 22), "x👨\u{200d}👩\u{200d}👧…");
        assert_eq!(clip("🇩🇪🇫🇷", 11), "🇩🇪…");
        assert_eq!(clip("🇩🇪🇫🇷🇪🇸", 17), "🇩🇪…");
        assert_eq!(clip("e\u{301}e\u{301}e\u{301}", 8), "e\u{301}…");
        assert_eq!(clip("👍🏽👍🏽", 12), "👍🏽…");
    }

    #[test]
    fn an_endless_run_of_marks_is_cut_inside() {
        let zalgo = format!("ab{}", "\u{301}".repeat(1_000));
        let clipped = clip(&zalgo, 1_000);
        assert!(clipped.len() > 900 && clipped.len() <= 1_000);
        let joiners = format!("👩{}", "\u{200d}👩".repeat(1_000));
        for max in 900..1_000 {
            let clipped = clip(&joiners, max);
            assert!(clipped.len() + 10 > max && !clipped.contains("\u{200d}…"), "{max}");
        }
    }

    #[test]
    fn the_root_cause_is_the_text_of_the_innermost_error_alone() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        let inner = io::Error::other("inner");
        assert_eq!(root_cause(&Outer(inner)), "inner");
        assert_eq!(root_cause(&io::Error::other("alone")), "alone");
    }
}
