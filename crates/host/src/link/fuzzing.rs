//! Contains one function for each target of the crate `fuzz/`. They are not part of the library's interface.
//!
//! Each function takes any bytes, and checks properties of the result that must hold for all input. If a property does
//! not hold, the function panics: any panic here is a bug in the code under test.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use serde_json::{Value, value::RawValue};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    catalog::{Dashes, NameCap, NameStyle, Naming, ParamHeaders, names::assign},
    link::{
        decode,
        framing::{
            envelope::{self, BOM, Envelope, Id, MAX_DEPTH, Outcome, Scanner},
            lines::{Line, Lines},
            sse::SseParser,
        },
    },
    text,
};

/// Checks the findings (suspicious texts) in a tool's definition. The definition is the input if that is JSON; if not,
/// the input is its description. Each finding and its place must be printable, and their number and lengths must be
/// bounded.
pub fn findings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let definition = serde_json::from_slice(data).unwrap_or_else(|_| serde_json::json!({ "description": text }));
    let findings = crate::findings::in_definition(&definition);
    // The most findings that `in_definition` reports.
    assert!(findings.len() <= 20, "{}", findings.len());
    for finding in findings {
        assert_eq!(text::for_line(&finding.what), finding.what);
        assert_eq!(text::for_line(&finding.place), finding.place);
        // Each text is cut to some hundred bytes, of which each may become an escape.
        assert!(finding.what.len() + finding.place.len() < 16 * 1024);
    }
}

/// Checks the framer of stdio. The first byte is the limit, the second the size of a read, the rest the stream.
///
/// The framer must find the same as a plain split of the stream at its line feeds: the lines within the limit, those
/// over the limit, and the end that was cut off.
pub fn framer(data: &[u8]) {
    let [limit, size, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    let mut lines = Lines::new(Pieces { rest: stream, size: usize::from(*size) + 1 }, limit);
    let mut framed_lines = Vec::new();
    while let Some(line) = lines.next().now_or_never().and_then(Result::ok).flatten() {
        framed_lines.extend(framed_line(line));
    }
    assert_eq!(framed_lines, expected_lines(stream, limit), "limit {limit}, reads of {size} + 1");
}

/// The framer's result for one line, without the parts that depend on how the stream was cut.
#[derive(Debug, PartialEq, Eq)]
enum FramedLine {
    Full(Vec<u8>),
    TooLong(u64),
    Cut(u64),
}

fn framed_line(line: Line) -> Option<FramedLine> {
    match line {
        Line::Full(line) => Some(FramedLine::Full(line.to_vec())),
        Line::TooLong { bytes, .. } => Some(FramedLine::TooLong(bytes)),
        // Whether a line is reported as endless before it ends depends on the size of the reads.
        Line::Endless { .. } => None,
        Line::Cut { bytes } => Some(FramedLine::Cut(bytes)),
    }
}

/// Returns the lines that the framer must find, by a plain split of the whole stream.
fn expected_lines(stream: &[u8], limit: usize) -> Vec<FramedLine> {
    let line_of = |(index, piece): (usize, &[u8])| {
        let Some(line) = piece.strip_suffix(b"\n") else { return Some(FramedLine::Cut(piece.len() as u64)) };
        if line.len() > limit {
            return Some(FramedLine::TooLong(line.len() as u64));
        }
        let line = line.strip_prefix(BOM).filter(|_| index == 0).unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (!line.trim_ascii().is_empty()).then(|| FramedLine::Full(line.to_vec()))
    };
    stream.split_inclusive(|byte| *byte == b'\n').enumerate().filter_map(line_of).collect()
}

/// A stream that is always ready and gives at most `size` bytes per read.
struct Pieces<'a> {
    rest: &'a [u8],
    size: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.size.min(self.rest.len()).min(out.remaining());
        let (piece, rest) = self.rest.split_at(length);
        out.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Checks the parser of server-sent events. The first byte is the limit, the second the size of a chunk, the rest the
/// stream.
///
/// The result must not depend on how the stream was cut, and no event may be over the limit.
pub fn sse(data: &[u8]) {
    let [limit, size, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    let (whole, whole_id) = events(limit, std::iter::once(stream));
    let (pieces, pieces_id) = events(limit, stream.chunks(usize::from(*size) + 1));
    assert_eq!(whole, pieces, "limit {limit}, chunks of {size} + 1");
    assert_eq!(whole_id, pieces_id, "the last event id, chunks of {size} + 1");
}

type Events = (Vec<Result<super::framing::sse::Event, &'static str>>, Option<String>);

fn events<'a>(limit: usize, chunks: impl Iterator<Item = &'a [u8]>) -> Events {
    let (mut parser, mut events_and_errors) = (SseParser::new(limit), VecDeque::new());
    chunks.for_each(|chunk| parser.push(chunk, &mut events_and_errors));
    let id = parser.last_event_id().map(ToString::to_string);
    // These must not panic, whatever they return.
    let _ = (parser.retry(), parser.has_partial());
    // Only the code of an error is compared: how many bytes of a too large event were read depends on the chunks.
    let events: Vec<_> = events_and_errors.into_iter().map(|event| event.map_err(|error| error.code())).collect();
    assert!(events.iter().flatten().all(|event| event.data.len() <= limit), "an event is over the limit {limit}");
    (events, id)
}

/// Checks the first step of reading a message (`peek`), and the scanner that recovers the id of a broken message. The
/// first byte is the size of a piece, the rest the message.
///
/// The scanner must find the same parts in pieces of a message as in the whole message. In a valid message, it must
/// never report a wrong id as certain.
pub fn envelope(data: &[u8]) {
    let [size, message @ ..] = data else { return };
    let scan = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut scanner = Scanner::default();
        chunks.for_each(|chunk| scanner.feed(chunk));
        scanner.salvaged()
    };
    let salvaged = scan(&mut std::iter::once(message));
    assert_eq!(salvaged, scan(&mut message.chunks(usize::from(*size) + 1)), "pieces of {size} + 1");
    match envelope::peek(message) {
        Ok(message_parts) => {
            let id = checked_id(&message_parts);
            let is_misleading = salvaged.is_certain && id.is_some_and(|id| salvaged.id.as_ref() != Some(id));
            assert!(!is_misleading, "peek says {id:?}, the scanner {salvaged:?}");
        }
        Err(bad_message) => assert!(!bad_message.to_string().is_empty(), "a reason without words"),
    }
}

/// Checks the parts of a valid message; returns its id.
fn checked_id<'a>(message: &'a Envelope<'_>) -> Option<&'a Id> {
    let assert_shallow =
        |raw: &RawValue| assert!(!envelope::depth_exceeds(raw.get().as_bytes(), MAX_DEPTH), "too deep");
    match message {
        Envelope::Request { id, params, .. } => {
            params.iter().copied().for_each(assert_shallow);
            Some(id)
        }
        Envelope::Notification { params, .. } => {
            params.iter().copied().for_each(assert_shallow);
            None
        }
        Envelope::Response { id, outcome: Outcome::Error(raw) } => {
            assert_shallow(raw);
            Some(id)
        }
        // `peek` leaves the depth of a result to the code that waits for it.
        Envelope::Response { id, outcome: Outcome::Result(_) } => Some(id),
        Envelope::Orphan { error } => {
            assert_shallow(error);
            None
        }
        Envelope::Batch(messages) => {
            messages.iter().flatten().for_each(|message| {
                checked_id(message);
            });
            None
        }
    }
}

/// Checks the second step of reading a message: every decoder of a result, on the same bytes.
///
/// An accepted tool must have a usable name and a schema that is an object.
pub fn tool_decoder(data: &[u8]) {
    for raw in decode::page(data, "tools").map(|page| page.items).unwrap_or_default() {
        let Ok(tool) = decode::tool(raw) else { continue };
        assert!(!tool.name.is_empty(), "a tool without a name");
        let schema = tool.input_schema.get();
        assert!(schema.trim_start().starts_with('{'), "the schema is not an object: {schema}");
        if let Some(schema) = serde_json::from_str::<Value>(schema).ok().filter(|_| ParamHeaders::may_be_in(schema)) {
            let headers = ParamHeaders::from_schema(&schema);
            // Any object serves as the arguments; the schema is one.
            let _ = headers.map(|headers| headers.headers_for(schema.as_object().unwrap_or(&serde_json::Map::new())));
        }
    }
    // The other decoders may accept or refuse the bytes, but must not panic.
    let _ = decode::answer(data);
    let _ = decode::call_result(data);
    let _ = decode::resource_contents(data);
    let _ = decode::prompt_result(data);
    if let Ok(raw) = serde_json::from_slice::<&RawValue>(data) {
        let _ = decode::content(raw);
        let _ = decode::progress(raw);
    }
}

/// Checks the mapping from (server, tool) to model-visible names. The first line is a naming style, each other line a
/// pair `server<TAB>tool`.
///
/// Every name must be acceptable to every model provider and belong to one pair only. In a stable style, an additional
/// pair must not change the name of another pair.
pub fn names(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    let (style, pairs) = input.split_once('\n').unwrap_or_default();
    let style: NameStyle = style.parse().unwrap_or_default();
    let pairs: Vec<_> = pairs.lines().map(|line| line.split_once('\t').unwrap_or(("", line))).collect();
    let caps = [NameCap::Chars64, NameCap::Chars128];
    for (cap, dashes) in caps.into_iter().flat_map(|cap| [(cap, Dashes::Keep), (cap, Dashes::Underscore)]) {
        let naming = Naming { style: style.clone(), cap, dashes };
        let names = assign(&naming, pairs.iter().copied());
        let distinct: BTreeSet<_> = names.values().collect();
        assert_eq!(distinct.len(), names.len(), "two pairs share a name: {names:?}");
        assert!(pairs.iter().all(|pair| names.contains_key(pair)), "a pair has no name: {names:?}");
        assert!(distinct.iter().all(|name| is_acceptable(name, cap)), "no provider takes that: {names:?}");
        let fewer_names = assign(&naming, pairs.iter().copied().skip(1));
        let names_stay = fewer_names.iter().all(|(pair, name)| names.get(pair) == Some(name));
        assert!(names_stay || !naming.is_stable(), "{:?} renamed others: {fewer_names:?} {names:?}", pairs.first());
    }
}

fn is_acceptable(name: &str, cap: NameCap) -> bool {
    name.len() <= cap.chars()
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Checks the functions that make untrusted text safe to show. The first byte is the length to clip to, the rest the
/// text.
///
/// The result must contain no character that acts on a terminal or on a page, a second pass must change nothing, and
/// lengths must be kept.
pub fn text(data: &[u8]) {
    let [max_bytes, input @ ..] = data else { return };
    let (input, max_bytes) = (String::from_utf8_lossy(input), usize::from(*max_bytes));
    let is_display_control = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let (terminal, line) = (text::for_terminal(&input), text::for_line(&input));
    let (log, page) = (text::for_log(&input), text::for_html(&input));
    assert!(
        !terminal.chars().any(|c| is_display_control(c) && !matches!(c, '\n' | '\t')),
        "acts on a terminal: {terminal:?}"
    );
    assert!(
        !line.chars().any(is_display_control) && !log.chars().any(is_display_control),
        "acts on a line: {line:?} {log:?}"
    );
    assert!(!page.contains(['<', '>', '"', '\'']), "markup: {page:?}");
    assert!(log.len() <= text::LOG_BYTES, "{} bytes for a log", log.len());
    assert_eq!(text::for_terminal(&terminal), terminal, "a second pass");
    assert_eq!(text::for_line(&line), line, "a second pass");
    assert_eq!(text::for_log(&log), log, "a second pass");
    let clipped = text::clip(&input, max_bytes);
    assert!(clipped.len() <= max_bytes, "{} bytes in room for {max_bytes}", clipped.len());
    assert_eq!(text::clip(&clipped, max_bytes), clipped, "a second pass");
}
