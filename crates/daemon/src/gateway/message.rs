//! JSON-RPC messages: read without decoding what they carry, written without building a tree.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr2;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::refusal::{INVALID_REQUEST, PARSE_ERROR, Refusal};

/// The longest id of a request: it is kept and repeated.
const LONGEST_ID: usize = 1_024;

/// The id of a request: a string or an integer, as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let fits = text.len() <= LONGEST_ID && (text.starts_with('"') || is_integer(text));
        fits.then(|| Self(text.into()))
    }

    /// As JSON.
    pub(super) fn json(&self) -> &str {
        &self.0
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The answer to a request of the gateway.
    Response {
        id: Value,
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Reads the outer shape of one message.
///
/// # Errors
/// The problem, and the id of the request, if it could be read.
pub(super) fn read(bytes: &[u8]) -> Result<Incoming<'_>, (Option<Id>, Refusal)> {
    #[derive(Deserialize)]
    #[serde(expecting = "a JSON-RPC message, which is an object")]
    struct Wire<'a> {
        #[serde(borrow)]
        jsonrpc: Option<Cow<'a, str>>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = serde_json::from_slice(bytes).map_err(|error| (None, malformed(bytes, &error)))?;
    let id = wire.id.and_then(Id::read);
    let invalid = |id: &Option<Id>, why: &str| Err((id.clone(), Refusal::new(INVALID_REQUEST, why)));
    if wire.jsonrpc.as_deref() != Some("2.0") {
        return invalid(&id, "not a JSON-RPC 2.0 message");
    }
    if wire.params.is_some_and(|params| !params.get().starts_with('{')) {
        return invalid(&id, "`params` is not an object");
    }
    match (wire.method, wire.id, wire.result, wire.error) {
        (Some(method), None, None, None) => Ok(Incoming::Notification { method, params: wire.params }),
        (Some(method), Some(_), None, None) => match id {
            Some(id) => Ok(Incoming::Request { id, method, params: wire.params }),
            None => invalid(&None, "the id is neither a string nor an integer, or is longer than 1024 bytes"),
        },
        (None, Some(raw), Some(result), None) => Ok(Incoming::Response { id: value(raw), outcome: Ok(result) }),
        (None, Some(raw), None, Some(error)) => Ok(Incoming::Response { id: value(raw), outcome: Err(error) }),
        _ => invalid(&id, "neither a request, nor a notification, nor a response"),
    }
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

fn malformed(bytes: &[u8], error: &serde_json::Error) -> Refusal {
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Refusal::new(INVALID_REQUEST, "batches are not supported: send one message at a time");
    }
    // The parser's error for these six members quotes no text of the client.
    match error.classify() {
        serde_json::error::Category::Data => Refusal::new(INVALID_REQUEST, format!("not a JSON-RPC message: {error}")),
        _ => Refusal::new(PARSE_ERROR, format!("not valid JSON: {error}")),
    }
}

/// Writes the answer to a request; `result` is JSON.
pub(super) fn response(id: &Id, result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(result.len() + id.json().len() + 40);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.json().as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result);
    out.push(b'}');
    one_line(out)
}

/// Writes the refusal of a request.
pub(super) fn error(id: Option<&Id>, refusal: &Refusal) -> Bytes {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: &'a Option<Box<Value>>,
    }
    let error = json(&Error { code: refusal.code, message: &refusal.message, data: &refusal.data });
    let id = id.map_or("null", Id::json);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
}

/// Writes a notification, or with an id a request of the gateway.
pub(super) fn call(id: Option<u64>, method: &str, params: &impl Serialize) -> Bytes {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{}}}"#, json(params)).into()
}

/// Serializes a value of the gateway as JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    // Nothing here has keys other than strings, the only thing that could fail.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Removes line breaks: a server's JSON may have several lines, and on stdio and in an event stream each line break
/// would end the message. Inside a string a line break is always escaped, so those that are left are white space.
fn one_line(mut out: Vec<u8>) -> Bytes {
    if memchr2(b'\n', b'\r', &out).is_some() {
        for byte in &mut out {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    out.into()
}
