//! Parses the outer structure of a JSON-RPC message, without decoding its content.
//!
//! Messages are read in two steps. The first, [`peek`], determines the kind of a message (a request, a notification, an
//! answer) and borrows its `params`, `result` or `error` as raw JSON. The second step belongs to the code that waits
//! for the message, which decodes the raw part into the one type that it expects. This is fast, and separates the id of
//! an answer from its content, so that an answer with undecodable content still reaches its call.
//!
//! A message that fails the first step yields a [`BadMessage`], with the reason and the parts that a tolerant scan
//! could [salvage](Salvaged). The most important part is the id of the call: without the id, the call would wait for
//! its answer until its deadline.
//!
//! `peek` checks that each value is JSON but decodes none. A lone surrogate (`"\ud800"`), a number like `1e400` and a
//! wrong type inside `params`, `result` or `error` are therefore found in the second step, when the id is known.
//!
//! This module reads and writes bytes; it does not know which methods exist, nor which requests are under way.

use std::{borrow::Cow, fmt};

use memchr::memchr2;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

mod encode;
mod members;
mod salvage;

pub(crate) use encode::{error_response, response};
pub(crate) use salvage::{Salvaged, Scanner};

use members::{Elements, Members};
use salvage::salvage;

/// How deep arrays and objects may nest in one message, the message itself included. The result of an answer is not
/// checked here: the code that waits for the answer checks its depth (for a list, the depth of each item).
///
/// Half of the limit of `serde_json`, so that every later step has room for its own wrapper.
pub(crate) const MAX_DEPTH: usize = 64;

/// How many messages one JSON-RPC batch may hold. (Only MCP 2025-03-26 has batches.)
pub(crate) const MAX_BATCH: usize = 1_000;

/// The byte order mark that some servers put before their first byte of UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// The id of a request, as JSON-RPC and MCP allow it: an integer or a string, never null.
///
/// The requests of this host have numbers as ids. A server may use strings, which the host sends back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// An integer. `7.0` and `7e0` are read as 7; fractions are not ids.
    Number(i64),
    /// Any string that the server chose.
    String(Box<str>),
}

impl Id {
    /// Returns the id as a number. A string that contains a number counts: some servers answer request 5 as `"5"`.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Id::Number(number) => Some(*number),
            Id::String(text) => text.parse().ok(),
        }
    }
}

/// Written as in JSON: a string is quoted and its control characters are escaped, because a server chose it.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => write!(f, "{number}"),
            Id::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Number(number) => serializer.serialize_i64(*number),
            Id::String(text) => serializer.serialize_str(text),
        }
    }
}

/// One JSON-RPC message; its parts borrow from the bytes given to [`peek`].
///
/// To pass a raw part to another task without copying, slice the `Bytes` of the message:
/// `line.slice_ref(raw.get().as_bytes())`.
#[derive(Debug)]
pub(crate) enum Envelope<'a> {
    /// A request of the server, which waits for an answer with this id.
    Request { id: Id, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notification of the server. A request whose id is null counts as a notification, as in JSON-RPC 1.0.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// The answer to a request.
    Response { id: Id, outcome: Outcome<'a> },
    /// An error that names no request (its id is null or missing): the server could not parse a message of this host,
    /// or refuses the whole connection.
    Orphan { error: &'a RawValue },
    /// Several messages in one array, at least one and at most [`MAX_BATCH`]. A bad one does not affect the others.
    Batch(Vec<Result<Envelope<'a>, BadMessage>>),
}

/// The result of a request.
///
/// `"error": null` beside a result and `"result": null` beside an error are JSON-RPC 1.0 and count as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<'a> {
    /// The `result`, any JSON; the second step checks whether it has the expected type.
    Result(&'a RawValue),
    /// The `error`, not yet checked to be an object with `code` and `message`.
    Error(&'a RawValue),
}

/// Bytes that are not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct BadMessage {
    /// The problem.
    pub(crate) reason: Reason,
    /// The parts that could be recovered.
    pub(crate) salvaged: Salvaged,
}

impl BadMessage {
    /// Returns whether the only known fault is that some bytes are not UTF-8.
    pub(crate) fn is_not_utf8(&self) -> bool {
        matches!(self.reason, Reason::NotUtf8 { .. })
    }
}

/// The reason why bytes are not a JSON-RPC message. No variant repeats content of the message, which may hold a secret.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Reason {
    /// The text begins with neither `{` nor `[`: a banner or a line of a log.
    #[error("not a JSON-RPC message but other text")]
    OtherText,
    /// JSON, but without `"jsonrpc": "2.0"`: most often a line of a structured log.
    #[error("JSON, but not a JSON-RPC 2.0 message")]
    NotJsonRpc,
    /// The text is not UTF-8, as JSON must be (RFC 8259, section 8.1).
    #[error("not valid UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The offset of the first byte that is not UTF-8.
        at: usize,
    },
    /// The syntax is broken; `detail` comes from the parser and names the position.
    #[error("not valid JSON: {detail}")]
    NotJson {
        /// The parser's message, such as `invalid escape at line 1 column 44`.
        detail: String,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("arrays and objects nested deeper than the limit of {limit}")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// More messages in one array than [`MAX_BATCH`].
    #[error("a batch of more messages than the limit of {limit}")]
    BatchTooLong {
        /// The limit.
        limit: usize,
    },
    /// A member that JSON-RPC defines is repeated, missing, contradicts another, or has a wrong type.
    #[error("not a JSON-RPC message: {0}")]
    Malformed(&'static str),
}

/// Parses the outer structure of one message (or of one batch) and borrows the rest.
///
/// Accepts any bytes. For an answer to a request of this host, it costs one pass over the bytes and no allocation,
/// apart from the few bytes in which `serde_json` remembers open brackets.
///
/// # Errors
/// [`BadMessage`] if the bytes are not a JSON-RPC message, with the id of the call that they probably answer.
pub(crate) fn peek(bytes: &[u8]) -> Result<Envelope<'_>, BadMessage> {
    read(bytes).map_err(|reason| BadMessage { reason, salvaged: salvage(bytes) })
}

/// Returns whether arrays and objects nest deeper than `max` in this JSON. Brackets inside of strings do not count.
///
/// This is a cheap check before any code that recurses into the JSON. The bytes need not be valid JSON.
pub(crate) fn depth_exceeds(bytes: &[u8], max: usize) -> bool {
    // Count the brackets first, which is many times faster than tracking the depth: most messages have at most `max`
    // brackets in total. The count of each piece fits into a byte, so that the processor can handle sixteen bytes at a
    // time.
    let mut pieces = bytes.chunks(128);
    let mut opening_brackets = 0_usize;
    pieces.any(|piece| {
        // `[` and `{` differ only in bit 5.
        let brackets: u8 = piece.iter().map(|byte| u8::from(*byte | 0x20 == b'{')).sum();
        opening_brackets += usize::from(brackets);
        opening_brackets > max
    }) && nests_deeper_than(bytes, max)
}

fn nests_deeper_than(bytes: &[u8], max: usize) -> bool {
    let mut depth = 0_usize;
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'{' | b'[' if depth == max => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => rest = after_string(tail),
            _ => {}
        }
    }
    false
}

/// Returns the rest after a string whose opening quote has been read; empty if the string is never closed.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(index) = memchr2(b'"', b'\\', rest) {
        let is_escape = rest.get(index) == Some(&b'\\');
        rest = rest.get(index + 1 + usize::from(is_escape)..).unwrap_or_default();
        if !is_escape {
            return rest;
        }
    }
    &[]
}

/// Reads a message or a batch.
fn read(bytes: &[u8]) -> Result<Envelope<'_>, Reason> {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let first = bytes.trim_ascii_start().first();
    if !matches!(first, Some(b'{' | b'[')) {
        return Err(Reason::OtherText);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 { at: error.valid_up_to() })?;
    if first == Some(&b'[') { read_batch(text) } else { read_one(text) }
}

/// Reads one message. Checks the depth of all parts except a `result`.
fn read_one(text: &str) -> Result<Envelope<'_>, Reason> {
    let message = serde_json::from_str::<Members<'_>>(text).map_err(|error| not_json(&error))?.classify()?;
    let checked_part = match &message {
        Envelope::Request { params, .. } | Envelope::Notification { params, .. } => *params,
        Envelope::Response { outcome: Outcome::Error(error), .. } | Envelope::Orphan { error } => Some(*error),
        Envelope::Response { outcome: Outcome::Result(_), .. } | Envelope::Batch(_) => None,
    };
    if checked_part.is_some_and(|checked_part| depth_exceeds(checked_part.get().as_bytes(), MAX_DEPTH - 1)) {
        return Err(Reason::TooDeep { limit: MAX_DEPTH });
    }
    Ok(message)
}

/// Replaces invalid UTF-8 in `bytes` by `\ud800`, the escape of half a surrogate pair. Inside a string, that is valid
/// JSON syntax but cannot be decoded. So only a list item that contains the escape is lost, and not the whole list.
pub(crate) fn escape_invalid_utf8(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len() + 64);
    for chunk in bytes.utf8_chunks() {
        escaped.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            escaped.extend_from_slice(br"\ud800");
        }
    }
    escaped
}

fn read_batch(text: &str) -> Result<Envelope<'_>, Reason> {
    let Elements(elements) = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    match elements.len() {
        0 => Err(Reason::Malformed("an empty batch")),
        1..=MAX_BATCH => Ok(Envelope::Batch(elements.into_iter().map(read_element).collect())),
        _ => Err(Reason::BatchTooLong { limit: MAX_BATCH }),
    }
}

fn read_element(raw: &RawValue) -> Result<Envelope<'_>, BadMessage> {
    let text = raw.get();
    let message = if text.starts_with('{') {
        read_one(text)
    } else {
        Err(Reason::Malformed("an element of a batch is not an object"))
    };
    message.map_err(|reason| BadMessage { reason, salvaged: salvage(text.as_bytes()) })
}

/// Converts an error of the parser. Uses the text of a syntax error, in which `serde_json` never quotes content.
/// Replaces the text of an error about types, which may quote content, by a fixed text.
fn not_json(error: &serde_json::Error) -> Reason {
    if error.is_data() {
        Reason::Malformed("a member is repeated or has the wrong type")
    } else {
        Reason::NotJson { detail: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn number(id: i64) -> Id {
        Id::Number(id)
    }

    /// One word per message, so that a table can say what is expected.
    fn word(message: &str) -> String {
        describe(peek(message.as_bytes()))
    }

    fn describe(read: Result<Envelope<'_>, BadMessage>) -> String {
        let params = |params: Option<&RawValue>| params.map_or(String::new(), |raw| format!(" {}", raw.get()));
        match read {
            Ok(Envelope::Request { id, method, params: raw }) => format!("request {id} {method}{}", params(raw)),
            Ok(Envelope::Notification { method, params: raw }) => format!("notification {method}{}", params(raw)),
            Ok(Envelope::Response { id, outcome: Outcome::Result(raw) }) => format!("result {id} {}", raw.get()),
            Ok(Envelope::Response { id, outcome: Outcome::Error(raw) }) => format!("error {id} {}", raw.get()),
            Ok(Envelope::Orphan { error }) => format!("orphan {}", error.get()),
            Ok(Envelope::Batch(all)) => all.into_iter().map(describe).collect::<Vec<_>>().join(" + "),
            Err(bad) => format!("bad: {bad}"),
        }
    }

    #[test]
    fn messages_are_classified_by_their_members() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"y":[1, 2]}}"#, r#"request "a" x {"y":[1, 2]}"#),
            (r#"{"method":"x","params":null,"jsonrpc":"2.0","id":7.0}"#, "request 7 x"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
                "notification notifications/progress {}",
            ),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "notification x"),
            (r#"{"jsonrpc":"2.0","method":"a\u002fb"}"#, "notification a/b"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "result 1 {}"),
            (r#"{"result":{"content":[]},"jsonrpc":"2.0","id":1}"#, r#"result 1 {"content":[]}"#),
            (r#"{"jsonrpc":"2.0","id":1,"result":42}"#, "result 1 42"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "result 1 null"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, "result 1 {}"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}"#, r#"error 1 {"code":1}"#),
            (r#"{"jsonrpc":"2.0","id":"5","error":"boom"}"#, r#"error "5" "boom""#),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, r#"orphan {"code":-32700}"#),
            (r#"{"jsonrpc":"2.0","error":{}}"#, "orphan {}"),
            (r#" {"jsonrpc":"2.0","id":1,"result":{},"_extra":{"id":9}} "#, "result 1 {}"),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", "result 1 {}"),
        ];
        for (message, expected) in table {
            assert_eq!(word(message), expected, "{message}");
        }
    }

    #[test]
    fn a_malformed_message_has_an_error_that_says_what_is_wrong() {
        let table = [
            ("", "bad: not a JSON-RPC message but other text"),
            ("Server listening on port 3000", "bad: not a JSON-RPC message but other text"),
            ("42", "bad: not a JSON-RPC message but other text"),
            (r#"{"level":"info","msg":"started"}"#, "bad: JSON, but not a JSON-RPC 2.0 message"),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "bad: JSON, but not a JSON-RPC 2.0 message"),
            (r#"{"jsonrpc":2.0,"id":1,"result":{}}"#, "bad: JSON, but not a JSON-RPC 2.0 message"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "bad: not a JSON-RPC message: neither a method nor a result nor an error"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
                "bad: not a JSON-RPC message: neither a method nor a result nor an error",
            ),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "bad: not a JSON-RPC message: a result without the id of its request"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
                "bad: not a JSON-RPC message: both a result and an error",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
                "bad: not a JSON-RPC message: both a method and a result or an error",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#,
                "bad: not a JSON-RPC message: a member is repeated or has the wrong type",
            ),
            (
                r#"{"jsonrpc":"2.0","id":[],"result":{}}"#,
                "bad: not a JSON-RPC message: a member is repeated or has the wrong type",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
                "bad: not a JSON-RPC message: a member is repeated or has the wrong type",
            ),
            (
                r#"{"jsonrpc":"2.0","id":9223372036854775808,"result":{}}"#,
                "bad: not a JSON-RPC message: a member is repeated or has the wrong type",
            ),
            (
                r#"{"jsonrpc":"2.0","method":3}"#,
                "bad: not a JSON-RPC message: a member is repeated or has the wrong type",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\uZZZZ"}}"#,
                "bad: not valid JSON: invalid escape at line 1 column 45",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"#,
                "bad: not valid JSON: EOF while parsing an object at line 1 column 34",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}{"#,
                "bad: not valid JSON: trailing characters at line 1 column 37",
            ),
            ("[]", "bad: not a JSON-RPC message: an empty batch"),
        ];
        for (message, expected) in table {
            assert_eq!(word(message), expected, "{message}");
        }
    }

    #[test]
    fn an_error_never_repeats_content() {
        let secrets = [
            r#"{"jsonrpc":"2.0","id":{"hunter2":1},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":["hunter2"]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"hunter2\x"}"#,
            r#"{"hunter2":"hunter2"}"#,
            "hunter2",
        ];
        for message in secrets {
            assert!(!word(message).contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn errors_that_only_decoding_finds_are_left_to_the_step_that_knows_the_id() {
        assert_eq!(word(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1e400}}"#), r#"result 1 {"a":1e400}"#);
        assert_eq!(word(r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800"}}"#), r#"result 1 {"a":"\ud800"}"#);
    }

    #[test]
    fn the_method_and_the_raw_parts_are_borrowed() {
        let message = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
        let Ok(Envelope::Request { method: Cow::Borrowed(method), params: Some(params), .. }) = peek(message) else {
            panic!("not a borrowed request");
        };
        let within = |part: &str| message.as_ptr_range().contains(&part.as_ptr());
        assert!(within(method) && within(params.get()));
    }

    #[test]
    fn a_bad_message_in_a_batch_costs_only_itself() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"result":{}}, 7, {"jsonrpc":"2.0","id":2,"result":{},"error":{}}, {"jsonrpc":"2.0","method":"x"}]"#;
        assert_eq!(
            word(batch),
            "result 1 {} + bad: not a JSON-RPC message: an element of a batch is not an object \
             + bad: not a JSON-RPC message: both a result and an error + notification x"
        );
        let Ok(Envelope::Batch(all)) = peek(batch.as_bytes()) else { panic!("not a batch") };
        let Err(bad) = &all[2] else { panic!("not bad") };
        assert_eq!(bad.salvaged, Salvaged { id: Some(number(2)), is_certain: true, is_answer: true });
    }

    #[test]
    fn a_batch_is_not_nested_and_not_endless() {
        assert_eq!(
            word(r#"[[{"jsonrpc":"2.0","method":"x"}]]"#),
            "bad: not a JSON-RPC message: an element of a batch is not an object"
        );
        let message = r#"{"jsonrpc":"2.0","method":"x"}"#;
        let batch = |length: usize| format!("[{}]", vec![message; length].join(","));
        assert!(peek(batch(MAX_BATCH).as_bytes()).is_ok());
        assert_eq!(
            peek(batch(MAX_BATCH + 1).as_bytes()).unwrap_err().reason,
            Reason::BatchTooLong { limit: MAX_BATCH }
        );
    }

    #[test]
    fn depth_is_counted_without_the_brackets_in_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!depth_exceeds(nested(64).as_bytes(), 64));
        assert!(depth_exceeds(nested(65).as_bytes(), 64));
        assert!(depth_exceeds(nested(5_000_000).as_bytes(), 64));
        assert!(!depth_exceeds(br#"{"a":"[[[\"[[[","b":"\\","c":[]}"#, 2));
        assert!(depth_exceeds(br#"{"a":"\\","c":[[]]}"#, 2));
        assert!(!depth_exceeds("[]".repeat(1_000).as_bytes(), 1));
        assert!(!depth_exceeds(b"\"[[[[[[", 2));
    }

    #[test]
    fn a_message_nested_too_deep_is_refused_but_its_id_is_known() {
        let deep =
            |depth: usize| format!(r#"{{"jsonrpc":"2.0","error":{}{},"id":3}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(peek(deep(MAX_DEPTH - 1).as_bytes()).is_ok());
        let bad = peek(deep(MAX_DEPTH).as_bytes()).unwrap_err();
        assert_eq!(bad.reason, Reason::TooDeep { limit: MAX_DEPTH });
        assert_eq!(bad.salvaged, Salvaged { id: Some(number(3)), is_certain: true, is_answer: true });
    }

    #[test]
    fn an_answer_that_is_not_utf8_is_refused_but_its_id_is_known() {
        let bad = peek(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":\"\xff\"}").unwrap_err();
        assert_eq!(bad.reason, Reason::NotUtf8 { at: 34 });
        assert_eq!(bad.salvaged, Salvaged { id: Some(number(8)), is_certain: true, is_answer: true });
    }

    #[test]
    fn a_server_that_answers_with_the_digits_of_a_number_is_understood() {
        assert_eq!(Id::String("5".into()).number(), Some(5));
        assert_eq!(Id::Number(5).number(), Some(5));
        assert_eq!(Id::String("five".into()).number(), None);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i64>().prop_map(|n| json!(n)),
            ".{0,12}".prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(|all| json!(all)),
                proptest::collection::btree_map("(id|result|error|method|[a-z]{0,3})", inner, 0..4)
                    .prop_map(|all| json!(all)),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = peek(&bytes);
            let _ = depth_exceeds(&bytes, 3);
        }

        #[test]
        fn no_text_of_json_pieces_makes_it_panic(
            text in r#"(\{|\}|\[|\]|"id"|"result"|"jsonrpc":"2.0"|"|:|,|1|1e9|\\|null| ){0,30}"#
        ) {
            let _ = peek(text.as_bytes());
        }

        #[test]
        fn any_answer_is_read_back_whatever_the_order_of_its_members(
            id in any::<i64>(), result in json(), order in Just(vec![0, 1, 2]).prop_shuffle()
        ) {
            let members = [r#""jsonrpc":"2.0""#.to_owned(), format!(r#""id":{id}"#), format!(r#""result":{result}"#)];
            let message = format!("{{{}}}", order.iter().map(|at| members[*at].clone()).collect::<Vec<_>>().join(","));
            prop_assert_eq!(word(&message), format!("result {id} {result}"));
        }

        #[test]
        fn the_depth_of_a_text_equals_that_of_the_parsed_value(value in json(), max in 0_usize..6) {
            fn depth(value: &serde_json::Value) -> usize {
                match value {
                    serde_json::Value::Array(all) => 1 + all.iter().map(depth).max().unwrap_or(0),
                    serde_json::Value::Object(all) => 1 + all.values().map(depth).max().unwrap_or(0),
                    _ => 0,
                }
            }
            prop_assert_eq!(depth_exceeds(value.to_string().as_bytes(), max), depth(&value) > max);
        }
    }
}
