//! Reads JSON-RPC messages without decoding their parameters and results, and writes them without building a JSON tree.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use memchr::memchr2;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use toolrack_host::mcp::codes::{INVALID_REQUEST, PARSE_ERROR};

use super::{protocol_names::BATCH_VERSION, refusal::Refusal};

/// The maximum length of a request's id, in bytes: the gateway keeps the id and repeats it in the answer.
const MAX_ID_BYTES: usize = 1_024;

/// How many messages a client may send in one batch.
const MAX_BATCH: usize = 100;

/// The parameters of a message that has none, as JSON.
const NO_PARAMS: &str = "{}";

/// The id of a request: a string or an integer, as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let is_valid = text.len() <= MAX_ID_BYTES && (text.starts_with('"') || is_integer(text));
        is_valid.then(|| Self(text.into()))
    }

    /// Returns the id as JSON.
    pub(super) fn json(&self) -> &str {
        &self.0
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The parameters of a message. Only [`read`] makes them, so that they are always a part of their message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params<'a> {
    /// `None` if the message has no parameters.
    raw: Option<&'a RawValue>,
    /// The whole message.
    message: &'a Bytes,
}

impl<'a> Params<'a> {
    /// The parameters as JSON. Those of a message without parameters are [`NO_PARAMS`].
    pub(super) fn text(self) -> &'a str {
        self.raw.map_or(NO_PARAMS, RawValue::get)
    }

    /// The same JSON as [`Self::text`], in the memory of the message.
    pub(super) fn bytes(self) -> Bytes {
        match self.raw {
            Some(raw) => self.message.slice_ref(raw.get().as_bytes()),
            None => Bytes::from_static(NO_PARAMS.as_bytes()),
        }
    }
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: Params<'a>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Params<'a>,
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
pub(super) fn read(message: &Bytes) -> Result<Incoming<'_>, (Option<Id>, Refusal)> {
    #[derive(Deserialize)]
    #[serde(expecting = "a JSON-RPC message, which is an object")]
    struct RawMessage<'a> {
        #[serde(borrow)]
        jsonrpc: Option<Cow<'a, str>>,
        #[serde(borrow, default, deserialize_with = "some_even_if_null")]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "some_even_if_null")]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let raw_message: RawMessage<'_> =
        serde_json::from_slice(message).map_err(|error| (None, malformed(message, &error)))?;
    let id = raw_message.id.and_then(Id::read);
    let invalid = |id: &Option<Id>, why: &str| Err((id.clone(), Refusal::new(INVALID_REQUEST, why)));
    if raw_message.jsonrpc.as_deref() != Some("2.0") {
        return invalid(&id, "not a JSON-RPC 2.0 message");
    }
    if raw_message.params.is_some_and(|params| !params.get().starts_with('{')) {
        return invalid(&id, "`params` is not an object");
    }
    // Some clients write fields that do not apply as null: `id` of a notification, `result` beside an `error`.
    let is_null = |raw: &&RawValue| raw.get() == "null";
    let is_notification = raw_message.method.as_deref().is_some_and(|method| method.starts_with("notifications/"));
    let id_field = raw_message.id.filter(|id| !(is_null(id) && is_notification));
    let result = raw_message
        .result
        .filter(|result| !(is_null(result) && (raw_message.error.is_some() || raw_message.method.is_some())));
    let params = Params { raw: raw_message.params, message };
    match (raw_message.method, id_field, result, raw_message.error) {
        (Some(method), None, None, None) => Ok(Incoming::Notification { method, params }),
        (Some(method), Some(_), None, None) => match id {
            Some(id) => Ok(Incoming::Request { id, method, params }),
            None => invalid(&None, "the id is neither a string nor an integer, or is longer than 1024 bytes"),
        },
        (None, Some(raw), Some(result), None) => Ok(Incoming::Response { id: to_value(raw), outcome: Ok(result) }),
        (None, Some(raw), None, Some(error)) => Ok(Incoming::Response { id: to_value(raw), outcome: Err(error) }),
        _ => invalid(&id, "neither a request, nor a notification, nor a response"),
    }
}

/// Returns whether the bytes are a batch (an array of messages), as far as their first character shows.
pub(super) fn is_batch(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"[")
}

/// Returns the messages of a batch, without reading them.
///
/// # Errors
/// When `body` is not an array, or when it has no message or more than [`MAX_BATCH`].
pub(super) fn split_batch(body: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let Elements(elements) = serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Refusal::new(INVALID_REQUEST, format!("not a batch: {error}")),
        _ => Refusal::new(PARSE_ERROR, format!("not valid JSON: {error}")),
    })?;
    if elements.is_empty() {
        return Err(Refusal::new(INVALID_REQUEST, "the batch is empty"));
    }
    Ok(elements.into_iter().map(|element| body.slice_ref(element.get().as_bytes())).collect())
}

/// The elements of an array, at most [`MAX_BATCH`].
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {MAX_BATCH} messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element()? {
            if elements.len() == MAX_BATCH {
                return Err(A::Error::invalid_length(elements.len() + 1, &self));
            }
            elements.push(element);
        }
        Ok(Elements(elements))
    }
}

/// Writes messages as a batch.
pub(super) fn batch(messages: &[Bytes]) -> Bytes {
    [b"[", &*messages.join(&b","[..]), b"]"].concat().into()
}

/// Reads a field that is present: `Some` even if its value is null.
fn some_even_if_null<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

fn to_value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

/// The refusal of bytes that are not a JSON-RPC message.
fn malformed(bytes: &[u8], error: &serde_json::Error) -> Refusal {
    if is_batch(bytes) {
        let message = format!("send one message at a time: only sessions of {BATCH_VERSION} have batches");
        return Refusal::new(INVALID_REQUEST, message);
    }
    // The parser's error for the six fields of `RawMessage` quotes no text of the client.
    match error.classify() {
        serde_json::error::Category::Data => Refusal::new(INVALID_REQUEST, format!("not a JSON-RPC message: {error}")),
        _ => Refusal::new(PARSE_ERROR, format!("not valid JSON: {error}")),
    }
}

/// Writes the answer to a request; `result` is JSON.
pub(super) fn response(id: &Id, result: &[u8]) -> Bytes {
    const FIXED_TEXT: usize = r#"{"jsonrpc":"2.0","id":,"result":}"#.len();
    let mut buffer = Vec::with_capacity(result.len() + id.json().len() + FIXED_TEXT);
    buffer.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    buffer.extend_from_slice(id.json().as_bytes());
    buffer.extend_from_slice(b",\"result\":");
    buffer.extend_from_slice(result);
    buffer.push(b'}');
    one_line(buffer)
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

/// Writes a request of the gateway, or a notification if `id` is `None`.
pub(super) fn request_or_notification(id: Option<u64>, method: &str, params: &impl Serialize) -> Bytes {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{}}}"#, json(params)).into()
}

/// Serializes a value of the gateway as JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    // Cannot fail: serialization fails only for maps whose keys are not strings, and nothing here has those.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Removes line breaks: a server's JSON may have several lines, and on stdio and in an event stream each line break
/// would end the message. Inside a string a line break is always escaped, so every other one is white space.
fn one_line(mut buffer: Vec<u8>) -> Bytes {
    if memchr2(b'\n', b'\r', &buffer).is_some() {
        for byte in &mut buffer {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    buffer.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The kind of a message and its id, or the code of the refusal and the id that it goes to.
    fn kind(text: &str) -> Result<(&'static str, String), (i64, Option<String>)> {
        match read(&Bytes::copy_from_slice(text.as_bytes())) {
            Ok(Incoming::Request { id, .. }) => Ok(("request", id.json().to_owned())),
            Ok(Incoming::Notification { .. }) => Ok(("notification", String::new())),
            Ok(Incoming::Response { id, outcome: Ok(_) }) => Ok(("result", id.to_string())),
            Ok(Incoming::Response { id, outcome: Err(_) }) => Ok(("error", id.to_string())),
            Err((id, refusal)) => Err((refusal.code, id.map(|id| id.json().to_owned()))),
        }
    }

    #[test]
    fn each_kind_of_message_is_recognised_and_its_id_stays_as_the_client_wrote_it() {
        for (text, expected, id) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request", "1"),
            (r#"{"jsonrpc":"2.0","id":-9007199254740993,"method":"ping"}"#, "request", "-9007199254740993"),
            (r#"{"jsonrpc":"2.0","id":"\u00e9\n","method":"ping","params":{}}"#, "request", r#""\u00e9\n""#),
            (r#"{"method":"ping","unknown":[1],"id":"","jsonrpc":"2.0"}"#, "request", r#""""#),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notification", ""),
            (r#"{"jsonrpc":"2.0","id":"a","result":null}"#, "result", r#""a""#),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}"#, "error", "7"),
            (r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1,"message":""}}"#, "error", "7"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null}"#, "result", "7"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"result":null}"#, "request", "1"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"notifications/cancelled"}"#, "notification", ""),
            ("\n {\"jsonrpc\":\"2.0\",\"method\":\"pi\\u006eg\"} \n", "notification", ""),
        ] {
            assert_eq!(kind(text), Ok((expected, id.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_message_that_is_none_is_refused_under_its_id_where_that_can_be_read() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(MAX_ID_BYTES));
        for (text, code, id) in [
            ("", PARSE_ERROR, None),
            ("{", PARSE_ERROR, None),
            ("\u{feff}{}", PARSE_ERROR, None),
            ("7", INVALID_REQUEST, None),
            ("null", INVALID_REQUEST, None),
            (" [{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", INVALID_REQUEST, None),
            ("[", INVALID_REQUEST, None),
            ("{}", INVALID_REQUEST, None),
            (r#"{"id":1,"method":"ping"}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, INVALID_REQUEST, Some("1")),
            (r#"{"jsonrpc":"2.0","result":{}}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, INVALID_REQUEST, None),
            (&*long, INVALID_REQUEST, None),
        ] {
            assert_eq!(kind(text), Err((code, id.map(ToOwned::to_owned))), "{text}");
        }
    }

    #[test]
    fn a_refusal_of_a_malformed_message_repeats_no_text_of_the_client() {
        for text in [r#"{"jsonrpc":"2.0","id":1,"method":{"canary":1}}"#, r#"{"jsonrpc":"2.0","canary"}"#, "canary"] {
            let (_, refusal) = read(&Bytes::copy_from_slice(text.as_bytes())).unwrap_err();
            assert!(!refusal.message.contains("canary"), "{}", refusal.message);
        }
    }

    #[test]
    fn the_parameters_are_the_same_as_text_and_as_bytes_also_when_there_are_none() {
        for (params, expected) in [("", "{}"), (r#","params":null"#, "{}"), (r#","params":{"a":[1]}"#, r#"{"a":[1]}"#)]
        {
            let message = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{params}}}"#));
            let Ok(Incoming::Request { params, .. }) = read(&message) else { panic!("{message:?}") };
            assert_eq!((params.text(), &*params.bytes()), (expected, expected.as_bytes()));
        }
    }

    fn id(text: &str) -> Id {
        Id::read(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_is_one_line_whatever_white_space_the_result_has() {
        let answer = response(&id("\"a\""), b"{\r\n  \"text\": \"two\\nlines\"\n}");
        assert!(!answer.contains(&b'\n') && !answer.contains(&b'\r'));
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "a", "result": { "text": "two\nlines" } }));
    }

    #[test]
    fn an_error_has_the_id_of_its_request_or_null() {
        let refusal = Refusal::invalid_params("say \"when\"");
        let read = |bytes: Bytes| serde_json::from_slice::<Value>(&bytes).unwrap();
        let expected = json!({ "code": -32602, "message": "say \"when\"" });
        assert_eq!(read(error(None, &refusal)), json!({ "jsonrpc": "2.0", "id": null, "error": expected }));
        let unsupported = read(error(Some(&id("9")), &Refusal::unsupported_version("1999-01-01")));
        assert_eq!((&unsupported["id"], &unsupported["error"]["data"]["requested"]), (&json!(9), &json!("1999-01-01")));
    }

    #[test]
    fn the_gateway_writes_requests_with_an_id_and_notifications_without() {
        let read = |bytes: Bytes| serde_json::from_slice::<Value>(&bytes).unwrap();
        let params = json!({ "a": 1 });
        let request = read(request_or_notification(Some(3), "roots/list", &params));
        assert_eq!(request, json!({ "jsonrpc": "2.0", "id": 3, "method": "roots/list", "params": { "a": 1 } }));
        let notification = read(request_or_notification(None, "notifications/message", &params));
        assert_eq!(notification, json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "a": 1 } }));
    }
}
