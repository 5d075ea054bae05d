//! Messages as every transport carries them: a request on its way out, and what comes of it.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    link::{
        error::{LinkError, RpcError},
        framing::envelope::{self, Bad, Envelope, Outcome},
    },
    text::quote,
};

/// The empty object of a request without parameters.
pub(crate) fn no_params() -> Map<String, Value> {
    Map::new()
}

/// A raw result, or why there is none.
pub(crate) type Answered = Result<Bytes, LinkError>;

/// An encoded request, with what a transport needs to know about it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Ours, and unique on the connection.
    pub(crate) id: i64,
    /// The MCP method, for the `Mcp-Method` header.
    pub(crate) method: &'static str,
    /// Tool name, prompt name or URI, for the `Mcp-Name` header.
    pub(crate) name: Option<String>,
    /// `Mcp-Param-*` headers.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The JSON-RPC request.
    pub(crate) body: Bytes,
    /// Whether the server is told when the caller no longer waits. `initialize` must not be cancelled.
    pub(crate) cancellable: bool,
}

/// Hands every message in these bytes to `each`: the one, or those of a batch.
pub(crate) fn messages(bytes: &[u8], mut each: impl FnMut(Result<Envelope<'_>, Bad>)) {
    match envelope::peek(bytes) {
        Ok(Envelope::Batch(messages)) => messages.into_iter().for_each(each),
        one => each(one),
    }
}

/// The outcome of a response that came in `bytes`, without copying it.
pub(crate) fn answered(bytes: &Bytes, outcome: Outcome<'_>) -> Answered {
    match outcome {
        Outcome::Result(raw) => Ok(bytes.slice_ref(raw.get().as_bytes())),
        Outcome::Error(raw) => Err(LinkError::Rpc(rpc_error(raw))),
    }
}

/// `notifications/cancelled` for a request of ours whose caller no longer waits.
pub(crate) fn cancelled(id: i64) -> Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the caller no longer waits for the answer"}}}}"#
    )
    .into()
}

/// A JSON-RPC error object, leniently.
pub(crate) fn rpc_error(raw: &RawValue) -> RpcError {
    #[derive(Deserialize)]
    struct Error {
        code: Option<i64>,
        message: Option<String>,
        data: Option<Box<Value>>,
    }
    match serde_json::from_str::<Error>(raw.get()) {
        Ok(Error { code, message, data }) => RpcError {
            code: code.unwrap_or(-32603),
            message: quote(message.as_deref().unwrap_or("the server gave no reason")),
            data,
        },
        Err(_) => RpcError { code: -32603, message: quote(raw.get()), data: None },
    }
}
