//! Writes JSON-RPC answers directly into bytes, without a tree.

use bytes::Bytes;
use memchr::memchr2;
use serde::Serialize;

use crate::link::framing::envelope::Id;

/// The capacity for a short answer; the buffer grows for a longer one.
const INITIAL_CAPACITY: usize = 256;

/// Encodes the host's answer to a request of the server: one line of JSON, without a line feed at its end.
///
/// `result` may be raw JSON (`&RawValue`) as well as any type.
///
/// # Errors
/// If `result` cannot be JSON, such as a map whose keys are not strings. Raw JSON, `Value` and plain structs always
/// succeed.
pub(crate) fn response<R: Serialize + ?Sized>(id: &Id, result: &R) -> serde_json::Result<Bytes> {
    let mut json = begin_response(Some(id))?;
    json.extend_from_slice(b",\"result\":");
    serde_json::to_writer(&mut json, result)?;
    json.push(b'}');
    Ok(one_line(json))
}

/// Encodes the host's refusal of a request of the server: one line of JSON, without a line feed at its end.
///
/// `id` is `None` if the request could not be read well enough to have one.
///
/// # Errors
/// Never in practice: numbers and strings always serialize.
pub(crate) fn error_response(id: Option<&Id>, code: i64, message: &str) -> serde_json::Result<Bytes> {
    let mut json = begin_response(id)?;
    json.extend_from_slice(b",\"error\":{\"code\":");
    serde_json::to_writer(&mut json, &code)?;
    json.extend_from_slice(b",\"message\":");
    serde_json::to_writer(&mut json, message)?;
    json.extend_from_slice(b"}}");
    Ok(one_line(json))
}

/// Writes `{"jsonrpc":"2.0","id":…`, without the rest.
fn begin_response(id: Option<&Id>) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::with_capacity(INITIAL_CAPACITY);
    json.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    serde_json::to_writer(&mut json, &id)?;
    Ok(json)
}

/// Replaces line breaks by spaces, because raw JSON may have several lines, and on stdio each line break would end the
/// message. JSON escapes line breaks inside strings, so all line breaks in `json` are white space between values.
fn one_line(mut json: Vec<u8>) -> Bytes {
    if memchr2(b'\n', b'\r', &json).is_some() {
        for byte in &mut json {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    json.into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::{json, value::RawValue};

    use super::*;
    use crate::{
        link::framing::envelope::{Envelope, Outcome, peek},
        mcp::codes::{INVALID_REQUEST, METHOD_NOT_FOUND},
    };

    #[test]
    fn an_answer_is_a_single_line() {
        assert_eq!(
            response(&Id::String("a\n".into()), &json!({"b": "c\n"})).unwrap(),
            r#"{"jsonrpc":"2.0","id":"a\n","result":{"b":"c\n"}}"#
        );
        assert_eq!(
            error_response(Some(&Id::Number(-1)), METHOD_NOT_FOUND, "no such \"method\"").unwrap(),
            r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32601,"message":"no such \"method\""}}"#
        );
        assert_eq!(
            error_response(None, INVALID_REQUEST, "").unwrap(),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}"#
        );
    }

    #[test]
    fn raw_json_written_over_several_lines_becomes_one() {
        let raw: Box<RawValue> = serde_json::from_str("{\r\n  \"a\": \"x\\n\"\n}").unwrap();
        assert_eq!(response(&Id::Number(1), &raw).unwrap(), r#"{"jsonrpc":"2.0","id":1,"result":{    "a": "x\n" }}"#);
    }

    #[test]
    fn a_result_that_cannot_be_json_is_an_error() {
        assert!(response(&Id::Number(1), &HashMap::from([((1, 2), 3)])).is_err());
    }

    proptest! {
        #[test]
        fn any_id_of_a_server_is_echoed_exactly(
            id in prop_oneof![any::<i64>().prop_map(Id::Number), ".{0,20}".prop_map(|s| Id::String(s.into()))],
            text in ".{0,20}",
        ) {
            let line = response(&id, &json!(text)).unwrap();
            prop_assert_eq!(memchr2(b'\n', b'\r', &line), None);
            let Ok(Envelope::Response { id: read, outcome: Outcome::Result(raw) }) = peek(&line) else {
                panic!("not an answer: {line:?}");
            };
            prop_assert_eq!(read, id);
            prop_assert_eq!(serde_json::from_str::<String>(raw.get()).unwrap(), text);
        }
    }
}
