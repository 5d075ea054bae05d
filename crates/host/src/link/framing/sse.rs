//! Parses server-sent events, as the WHATWG HTML standard specifies (section 9.2.6, "Interpreting an event stream").
//! The chunks of input may end anywhere.
//!
//! The parser adds three rules for cases that the standard leaves open:
//! - An event whose data is over a limit is reported and dropped as soon as it passes the limit. The events after it
//!   are read as if the dropped event had not been there.
//! - Data that is not UTF-8 is reported instead of being patched with U+FFFD: it is JSON, and must not be changed
//!   silently.
//! - A line other than a data line is at most 8 KiB long; a longer one is ignored, as an unknown field is.
//!
//! This module knows nothing of HTTP, JSON or MCP. It is public because the answers of models are such streams too, and
//! need the same limits. The caller decides when to reconnect, and with which `Last-Event-ID`.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use memchr::{memchr, memchr2};

use crate::link::framing::envelope::BOM;

/// The longest line other than a data line (a comment, an event name, an id, an unknown field), in bytes.
const MAX_FIELD_LINE: usize = 8 * 1024;

/// A line other than a data line counts as endless when it is longer than this, in bytes, and longer than the limit for
/// events.
const MIN_ENDLESS_LINE: usize = 1024 * 1024;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type of the event, from the server; `None` means `message`.
    pub event: Option<String>,
    /// The `data` lines of the event, joined by line feeds. May be empty: MCP servers send an event without data for
    /// its id, from which the stream can be resumed.
    pub data: String,
    /// The last event id after this event: the id of this event, or else the id of the last event that had one. Empty
    /// if the server reset the id; `None` if no event of this stream had an id.
    pub id: Option<Arc<str>>,
    /// The milliseconds to wait before reconnecting, according to this event. The parser does not limit them.
    pub retry: Option<u64>,
}

/// An event that was dropped. The stream itself continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// The data of the event is longer than the limit.
    #[error("an SSE event is too large: at least {seen} bytes of data, the limit is {limit}")]
    EventTooLarge {
        /// The limit, in bytes.
        limit: usize,
        /// The bytes of data that had been read when the event passed the limit.
        seen: usize,
    },
    /// The data of the event is not UTF-8.
    #[error("the data of an SSE event is not valid UTF-8")]
    InvalidData {
        /// The data, unchanged.
        data: Vec<u8>,
    },
    /// A line other than a data line has passed the limit for data without an end. Reported once for each such line.
    #[error("a line of an event stream does not end: at least {seen} bytes, the limit is {limit}")]
    EndlessLine {
        /// The limit, in bytes.
        limit: usize,
        /// The length of the line when it passed the limit.
        seen: usize,
    },
}

impl SseError {
    /// Returns the stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            SseError::EventTooLarge { .. } => "SSE_EVENT_DATA_TOO_LARGE",
            SseError::InvalidData { .. } => "INVALID_SSE_EVENT_DATA",
            SseError::EndlessLine { .. } => "SSE_LINE_TOO_LARGE",
        }
    }
}

/// Parses chunks of bytes into events. One parser per stream: a new connection needs a new parser.
///
/// Keeps in memory the data of one event, at most as long as the limit, and one line, at most as long as the limit and
/// one chunk.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    /// The beginning of a line that was cut by the end of a chunk.
    line: Vec<u8>,
    /// Whether the current line is ignored, so that the rest of it is dropped.
    is_skipping_line: bool,
    /// The number of dropped bytes of the ignored line. `None` if an endless line needs no error: it is a data line, or
    /// the error was already reported.
    dropped_bytes: Option<usize>,
    /// Whether the last byte was a carriage return. If so, a line feed directly after it belongs to the same line end.
    after_carriage_return: bool,
    /// Whether no line has ended yet, so that a byte order mark may come first.
    at_start: bool,
    /// The event that the lines since the last blank one describe.
    pending: PendingEvent,
    /// The id that takes effect with the next blank line.
    id: Option<Arc<str>>,
    last_event_id: Option<Arc<str>>,
    retry: Option<u64>,
}

/// An event whose blank line has not arrived.
#[derive(Debug, Default)]
struct PendingEvent {
    event: Option<String>,
    /// `None` until there is a `data` line; without one there is no event.
    data: Option<Vec<u8>>,
    retry: Option<u64>,
    /// Whether the data passed the limit. The error has then been reported, and the rest of the data is dropped.
    is_too_large: bool,
}

impl SseParser {
    /// Creates a parser for one stream, whose events have at most `limit` bytes of data each.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            is_skipping_line: false,
            dropped_bytes: None,
            after_carriage_return: false,
            at_start: true,
            pending: PendingEvent::default(),
            id: None,
            last_event_id: None,
            retry: None,
        }
    }

    /// Sets the most bytes of data that each later event may have.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes the next bytes of the stream and appends the events that they complete, in order, to `out`.
    ///
    /// An event is appended when the blank line after the event arrives, and an error as soon as it occurs.
    pub fn push(&mut self, chunk: &[u8], out: &mut VecDeque<Result<Event, SseError>>) {
        let mut rest = chunk;
        if self.after_carriage_return && !rest.is_empty() {
            self.after_carriage_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(line_end) = memchr2(b'\n', b'\r', rest) {
            let (piece, from_line_end) = rest.split_at(line_end);
            self.end_line(piece, out);
            self.after_carriage_return = from_line_end == b"\r";
            rest = match from_line_end {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.store_piece(rest, out);
    }

    /// Returns the id to reconnect with: that of the last event that ended. Dropped events count as well: otherwise,
    /// the server would send a dropped event again after each reconnect. `None` if no event of this stream had an id;
    /// the id of an earlier stream is then still valid.
    pub fn last_event_id(&self) -> Option<&Arc<str>> {
        self.last_event_id.as_ref()
    }

    /// Returns the last `retry` of this stream, in milliseconds. The parser does not limit this value. A `retry` line
    /// takes effect at once, even if it belongs to no event.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Returns whether an event has begun and not ended. If the stream ends now, the event is lost, as the standard
    /// requires.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn has_partial(&self) -> bool {
        !self.line.is_empty() || self.is_skipping_line || self.pending.data.is_some() || self.pending.is_too_large
    }

    /// Takes the last piece of a line, without the line end, and reads the line unless it is ignored.
    fn end_line(&mut self, piece: &[u8], out: &mut VecDeque<Result<Event, SseError>>) {
        if std::mem::take(&mut self.is_skipping_line) {
            self.at_start = false;
            self.dropped_bytes = None;
        } else if self.line.is_empty() {
            self.read_line(Cow::Borrowed(piece), out);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(piece);
            self.read_line(Cow::Owned(line), out);
        }
    }

    /// Stores a piece of an unfinished line, unless the line is ignored or becomes too long.
    fn store_piece(&mut self, piece: &[u8], out: &mut VecDeque<Result<Event, SseError>>) {
        if self.is_skipping_line {
            return self.drop_piece(piece.len(), out);
        }
        if piece.is_empty() {
            return;
        }
        self.line.extend_from_slice(piece);
        let text = self.without_bom(&self.line);
        let (is_data, is_too_long) = match text.strip_prefix(b"data:") {
            Some(value) => (true, !self.has_room_for(without_space(value).len(), out)),
            None => (false, text.len() > MAX_FIELD_LINE),
        };
        if is_too_long {
            let length = std::mem::take(&mut self.line).len();
            self.is_skipping_line = true;
            // `has_room_for` has reported data that is too long.
            self.dropped_bytes = (!is_data).then_some(0);
            self.drop_piece(length, out);
        }
    }

    /// Drops `length` bytes of an ignored line, and reports once when the line is longer than any event may be.
    fn drop_piece(&mut self, length: usize, out: &mut VecDeque<Result<Event, SseError>>) {
        let Some(dropped_bytes) = &mut self.dropped_bytes else { return };
        *dropped_bytes += length;
        let limit = self.limit.max(MIN_ENDLESS_LINE);
        if *dropped_bytes > limit {
            out.push_back(Err(SseError::EndlessLine { limit, seen: *dropped_bytes }));
            self.dropped_bytes = None;
        }
    }

    /// Reads a whole line: a field of the pending event, or the blank line that ends it.
    fn read_line(&mut self, line: Cow<'_, [u8]>, out: &mut VecDeque<Result<Event, SseError>>) {
        let text = self.without_bom(&line);
        self.at_start = false;
        if text.is_empty() {
            return self.end_event(out);
        }
        let (name, value) = match memchr(b':', text) {
            Some(colon) => (&text[..colon], without_space(&text[colon + 1..])),
            None => (text, [].as_slice()),
        };
        match name {
            b"data" => {
                let value_start = line.len() - value.len();
                if self.has_room_for(value.len(), out) {
                    self.add_data(line, value_start);
                }
            }
            _ if text.len() > MAX_FIELD_LINE => {}
            b"event" => self.pending.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if memchr(0, value).is_none() => self.id = Some(String::from_utf8_lossy(value).into()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                // A number that does not fit counts as the largest one.
                let number = String::from_utf8_lossy(value).parse().unwrap_or(u64::MAX);
                self.pending.retry = Some(number);
                self.retry = Some(number);
            }
            _ => {}
        }
    }

    /// Returns whether the pending event may have a further line of `length` bytes of data. Reports an event that is
    /// too large once, and drops its data.
    fn has_room_for(&mut self, length: usize, out: &mut VecDeque<Result<Event, SseError>>) -> bool {
        let seen = self.pending.data.as_ref().map_or(0, |data| data.len() + 1) + length;
        if seen > self.limit && !self.pending.is_too_large {
            self.pending.is_too_large = true;
            self.pending.data = None;
            out.push_back(Err(SseError::EventTooLarge { limit: self.limit, seen }));
        }
        !self.pending.is_too_large
    }

    fn add_data(&mut self, line: Cow<'_, [u8]>, value_start: usize) {
        match &mut self.pending.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(&line[value_start..]);
            }
            // In the usual case, an event has one line of data: reuse the line instead of copying it.
            no_data => {
                let mut data = line.into_owned();
                data.drain(..value_start);
                *no_data = Some(data);
            }
        }
    }

    /// Appends the pending event, if it has data, and puts its id into effect.
    fn end_event(&mut self, out: &mut VecDeque<Result<Event, SseError>>) {
        let PendingEvent { event, data, retry, .. } = std::mem::take(&mut self.pending);
        self.last_event_id.clone_from(&self.id);
        let Some(data) = data else { return };
        out.push_back(match String::from_utf8(data) {
            Ok(data) => Ok(Event { event: event.filter(|name| !name.is_empty()), data, id: self.id.clone(), retry }),
            Err(error) => Err(SseError::InvalidData { data: error.into_bytes() }),
        });
    }

    /// Returns the line without the byte order mark that may be at the start of the stream.
    fn without_bom<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        line.strip_prefix(BOM).filter(|_| self.at_start).unwrap_or(line)
    }
}

/// Returns the value of a field without the one space that may follow the colon.
fn without_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(parser: &mut SseParser, chunks: &[&[u8]]) -> Vec<Result<Event, SseError>> {
        let mut out = VecDeque::new();
        for chunk in chunks {
            parser.push(chunk, &mut out);
        }
        out.into()
    }

    /// One word per event: `type|data|id|retry`, with what is absent left out.
    fn words(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
        let word = |event: Result<Event, SseError>| match event {
            Ok(event) => {
                let retry = event.retry.map_or(String::new(), |retry| retry.to_string());
                let id = event.id.as_deref().map_or(String::new(), |id| format!("#{id}"));
                format!("{}|{}|{id}|{retry}", event.event.unwrap_or_default(), event.data)
            }
            Err(error) => error.code().to_owned(),
        };
        feed(&mut SseParser::new(limit), chunks).into_iter().map(word).collect()
    }

    #[test]
    fn an_endless_line_is_reported_once_and_costs_no_memory() {
        let mut parser = SseParser::new(2_000_000);
        let mut out = VecDeque::new();
        for _ in 0..5_000 {
            parser.push(&[b'x'; 1_000], &mut out);
            assert!(parser.line.len() <= MAX_FIELD_LINE);
        }
        assert_eq!(out, [Err(SseError::EndlessLine { limit: 2_000_000, seen: 2_001_000 })]);
        parser.push(b"\ndata: a\n\n", &mut out);
        assert!(out.pop_back().is_some_and(|event| event.is_ok()), "the event after the endless line is read");
    }

    #[test]
    fn events_are_parsed_as_the_standard_defines() {
        let table: &[(&str, &[&str])] = &[
            // the examples of the standard
            ("data: YHOO\ndata: +2\ndata: 10\n\n", &["|YHOO\n+2\n10||"]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
                &["|first event|#1|", "|second event|#|"],
            ),
            ("data\n\ndata\ndata\n\ndata:", &["|||", "|\n||"]),
            ("data:test\n\ndata: test\n\n", &["|test||", "|test||"]),
            // line ends, alone and mixed
            ("data:a\r\rdata:b\r\n\r\ndata:c\n\ndata:d\r\n\n", &["|a||", "|b||", "|c||", "|d||"]),
            ("data:a\n\rdata:b\r\ndata:c\r\r\n", &["|a||", "|b\nc||"]),
            // the byte order mark: one, in front of everything
            ("\u{feff}data:a\n\n\u{feff}data:b\n\n", &["|a||"]),
            ("\u{feff}\u{feff}data:a\n\n", &[]),
            ("\u{feff}\n\ndata:a\n\n", &["|a||"]),
            // the colon and the one space after it
            ("data:  a:b \n\n", &["| a:b ||"]),
            ("data:\ta\n\n", &["|\ta||"]),
            (" data:a\n\n", &[]),
            ("data :a\n\n", &[]),
            ("DATA:a\n\n", &[]),
            // comments and unknown fields
            (":data:a\n:\n\n", &[]),
            ("foo: bar\ndata: a\nwhatever\n\n", &["|a||"]),
            // the type: the last one counts, for one event; empty means none
            ("event: a\nevent: b\ndata: x\n\ndata: y\n\n", &["b|x||", "|y||"]),
            ("event: a\nevent\ndata: x\n\n", &["|x||"]),
            ("event: a\n\ndata: x\n\n", &["|x||"]),
            // the id: stays in force, may be empty, never holds NULL
            ("id: 1\ndata: x\n\ndata: y\n\nid: 2\n\ndata: z\n\n", &["|x|#1|", "|y|#1|", "|z|#2|"]),
            ("id: 1\nid: a\0b\ndata: x\n\n", &["|x|#1|"]),
            ("data: x\nid: 1\n\nid\ndata: y\n\n", &["|x|#1|", "|y|#|"]),
            // the time to wait: digits only
            ("retry: 500\ndata: x\n\ndata: y\n\n", &["|x||500", "|y||"]),
            ("retry: 5s\nretry: -1\nretry:\nretry: +1\ndata: x\n\n", &["|x||"]),
            ("retry: 99999999999999999999999\ndata: x\n\n", &["|x||18446744073709551615"]),
            // what is never finished is never an event
            ("data: x\n", &[]),
            ("data: x", &[]),
            ("\n\n\n", &[]),
            ("", &[]),
        ];
        for (stream, expected) in table {
            assert_eq!(words(99, &[stream.as_bytes()]), *expected, "{stream:?}");
        }
    }

    #[test]
    fn an_event_is_returned_as_soon_as_its_last_line_ends_even_with_a_carriage_return() {
        let mut parser = SseParser::new(99);
        assert_eq!(feed(&mut parser, &[b"data: x\r\n\r"]).len(), 1);
        assert_eq!(feed(&mut parser, &[b"\ndata: y\r", b"\n", b"\r"]).len(), 1);
        assert_eq!(feed(&mut parser, &[b"\r", b"\n\n"]).len(), 0);
    }

    #[test]
    fn an_event_over_the_limit_fails_only_that_event() {
        let stream = b"data: 12345\n\ndata: 123456\n\n\
            data: 12\ndata: 34\nid: 7\n\ndata: 12\ndata: 3\ndata: 456\ndata: 7\nid: 8\n\ndata: ok\n\n";
        let expected = ["|12345||", "SSE_EVENT_DATA_TOO_LARGE", "|12\n34|#7|", "SSE_EVENT_DATA_TOO_LARGE", "|ok|#8|"];
        assert_eq!(words(5, &[stream]), expected);
        assert_eq!(words(5, &stream.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn an_event_over_the_limit_is_an_error_and_is_never_stored() {
        let mut parser = SseParser::new(100_000);
        let piece = [b'x'; 1_000];
        assert_eq!(feed(&mut parser, &[b"data: ", &[b'x'; 100_000]]), []);
        let events = feed(&mut parser, &[&piece]);
        assert_eq!(events, [Err(SseError::EventTooLarge { limit: 100_000, seen: 101_000 })]);
        for _ in 0..10_000 {
            assert_eq!(feed(&mut parser, &[&piece]), []);
        }
        assert_eq!(parser.line.capacity(), 0);
        assert!(parser.has_partial());
        assert_eq!(feed(&mut parser, &[b"\ndata: more\n\ndata: ok\n\n"]).len(), 1);
        assert!(!parser.has_partial());
    }

    #[test]
    fn an_endless_line_is_never_buffered() {
        for start in [b"".as_slice(), b":", b"id: ", b"event: ", b"retry: ", b"foo: ", b"data"] {
            let mut parser = SseParser::new(100_000);
            feed(&mut parser, &[b"data: x\nid: 1\n", start]);
            for _ in 0..10_000 {
                feed(&mut parser, &[&[b'y'; 1_000]]);
                assert!(parser.line.capacity() <= 2 * MAX_FIELD_LINE + 1_000);
            }
            let out = feed(&mut parser, &[b"\n\n"]);
            let expected = Event { event: None, data: "x".to_owned(), id: Some("1".into()), retry: None };
            assert_eq!(out, [Ok(expected)], "{:?}", String::from_utf8_lossy(start));
        }
    }

    #[test]
    fn data_that_is_not_utf8_fails_only_that_event() {
        assert_eq!(
            words(99, &[b"data: \xff\nid: 1\n\ndata: \xc3", b"\xa4\n\n:\xff\nevent: \xff\ndata: x\n\n"]),
            ["INVALID_SSE_EVENT_DATA", "|\u{e4}|#1|", "\u{fffd}|x|#1|"]
        );
    }

    #[test]
    fn an_empty_event_name_is_ignored() {
        let out = feed(&mut SseParser::new(99), &[b"event:\ndata: x\n\n"]);
        assert!(matches!(out.as_slice(), [Ok(Event { event: None, .. })]));
    }

    #[test]
    fn the_line_feeds_between_lines_of_data_count_toward_the_limit() {
        let stream = b"data: 1\ndata: 2\ndata: 3\n\n";
        assert_eq!(words(5, &[stream]), ["|1\n2\n3||"]);
        assert_eq!(words(4, &[stream]), ["SSE_EVENT_DATA_TOO_LARGE"]);
    }

    #[test]
    fn a_long_line_is_ignored_in_one_chunk_and_in_many() {
        let stream = |length: usize| format!("event: {}\ndata: x\n\n", "e".repeat(length - 7));
        let named = |stream: &str, chunk: usize| {
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(chunk).collect();
            match feed(&mut SseParser::new(99), &chunks).as_slice() {
                [Ok(event)] => event.event.is_some(),
                other => panic!("{other:?}"),
            }
        };
        for chunk in [1_000, 100_000] {
            assert!(named(&stream(MAX_FIELD_LINE), chunk));
            assert!(!named(&stream(MAX_FIELD_LINE + 1), chunk));
        }
    }

    #[test]
    fn a_byte_order_mark_after_a_long_first_line_is_ordinary_text() {
        let first = [b'x'; MAX_FIELD_LINE + 1];
        assert_eq!(words(99, &[&first, b"\n\xef\xbb\xbfdata: x\n\n"]), [""; 0]);
    }

    #[test]
    fn events_without_data_also_set_what_a_reconnect_needs() {
        let mut parser = SseParser::new(99);
        assert_eq!((parser.last_event_id(), parser.retry()), (None, None));
        assert_eq!(feed(&mut parser, &[b"retry: 500\nid: event-1\n"]), []);
        assert_eq!((parser.last_event_id(), parser.retry()), (None, Some(500)), "an id waits for the end of its event");
        assert_eq!(feed(&mut parser, &[b"\n"]), []);
        assert_eq!(parser.last_event_id().map(AsRef::as_ref), Some("event-1"));
        assert!(!parser.has_partial());
        assert_eq!(feed(&mut parser, &[b"id: event-2\ndata: \n\n"]).len(), 1, "data may be empty");
        assert_eq!(parser.last_event_id().map(AsRef::as_ref), Some("event-2"));
    }

    #[test]
    fn the_parser_knows_whether_the_end_of_the_stream_cuts_an_event() {
        let partial = |stream: &[u8]| {
            let mut parser = SseParser::new(99);
            feed(&mut parser, &[stream]);
            parser.has_partial()
        };
        assert!(partial(b"data: x\n") && partial(b"da") && partial(b"data: x\n\ndata"));
        assert!(!partial(b"") && !partial(b"data: x\n\n") && !partial(b": ping\n") && !partial(b"id: 1\n\nretry: 1\n"));
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            4 => "(data|event|id|retry|foo|):? ?[a-c0-9]{0,9}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 0..6),
            1 => Just(BOM.to_vec()),
            1 => Just(vec![b'z'; MAX_FIELD_LINE]),
            3 => Just(Vec::new()),
        ];
        let end = prop_oneof![Just("\n"), Just("\r"), Just("\r\n"), Just("\n\n"), Just("")];
        proptest::collection::vec((line, end), 0..20)
            .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.into()].concat()).collect())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            stream in stream(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
            limit in 0_usize..12,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            let mut split = SseParser::new(limit);
            let mut full = SseParser::new(limit);
            // Compare errors by their codes: how much was read of an event before it passed the limit depends on the
            // split.
            let comparable = |all: Vec<Result<Event, SseError>>| -> Vec<Result<Event, &str>> {
                all.into_iter().map(|event| event.map_err(|error| error.code())).collect()
            };
            prop_assert_eq!(comparable(feed(&mut split, &chunks)), comparable(feed(&mut full, &[&stream])));
            prop_assert_eq!(split.last_event_id(), full.last_event_id());
            prop_assert_eq!(split.retry(), full.retry());
            prop_assert_eq!(split.has_partial(), full.has_partial());
        }

        #[test]
        fn data_of_several_lines_comes_back(
            lines in proptest::collection::vec("[^\r\n]{0,20}", 1..6),
            end in prop_oneof![Just("\n"), Just("\r"), Just("\r\n")],
        ) {
            let stream: String = lines.iter().map(|line| format!("data: {line}{end}")).collect::<String>() + end;
            prop_assert_eq!(words(1_000, &[stream.as_bytes()]), [format!("|{}||", lines.join("\n"))]);
        }
    }
}
