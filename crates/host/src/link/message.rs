//! Defines messages in the form that every transport carries: an outgoing request, and its outcome.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    link::{
        error::{LinkError, RpcError},
        framing::envelope::{self, BadMessage, Envelope, Outcome},
    },
    mcp::codes::INTERNAL_ERROR,
    text::quote,
};

/// Returns the empty object for a request without parameters.
pub(crate) fn no_params() -> Map<String, Value> {
    Map::new()
}

/// A raw result, or the reason why there is no result.
pub(crate) type RawAnswer = Result<Bytes, LinkError>;

/// An encoded request, with the data that a transport needs.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    /// This host's id, unique on the connection.
    pub(crate) id: i64,
    /// The MCP method, for the `Mcp-Method` header.
    pub(crate) method: &'static str,
    /// The tool's name, prompt's name or URI, for the `Mcp-Name` header.
    pub(crate) name: Option<String>,
    /// `Mcp-Param-*` headers.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The JSON-RPC request.
    pub(crate) body: Bytes,
    /// Whether to cancel the request at the server when the caller no longer waits. `initialize` must not be cancelled.
    pub(crate) cancellable: bool,
}

/// Calls `handle` with every message in these bytes: one message, or the messages of a batch.
pub(crate) fn for_each_message(bytes: &[u8], mut handle: impl FnMut(Result<Envelope<'_>, BadMessage>)) {
    match envelope::peek(bytes) {
        Ok(Envelope::Batch(messages)) => messages.into_iter().for_each(handle),
        message => handle(message),
    }
}

/// Returns the outcome of a response in `bytes`, without copying it.
pub(crate) fn into_answer(bytes: &Bytes, outcome: Outcome<'_>) -> RawAnswer {
    match outcome {
        Outcome::Result(raw) => Ok(bytes.slice_ref(raw.get().as_bytes())),
        Outcome::Error(raw) => Err(LinkError::Rpc(parse_rpc_error(raw))),
    }
}

/// Returns `notifications/cancelled` for a request of this host whose caller no longer waits.
pub(crate) fn cancelled_notification(id: i64) -> Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the caller no longer waits for the answer"}}}}"#
    )
    .into()
}

/// Parses a JSON-RPC error object leniently. An error without a code is an internal error.
pub(crate) fn parse_rpc_error(raw: &RawValue) -> RpcError {
    #[derive(Deserialize)]
    struct Error {
        code: Option<i64>,
        message: Option<String>,
        data: Option<Box<Value>>,
    }
    match serde_json::from_str::<Error>(raw.get()) {
        Ok(Error { code, message, data }) => RpcError {
            code: code.unwrap_or(INTERNAL_ERROR),
            message: quote(message.as_deref().unwrap_or("the server gave no reason")),
            data,
        },
        Err(_) => RpcError { code: INTERNAL_ERROR, message: quote(raw.get()), data: None },
    }
}
