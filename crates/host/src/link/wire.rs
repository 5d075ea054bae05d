//! What every transport can do: carry a request to its answer, and a message without one.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    duplex::Duplex,
    envelope::{self, Bad, Envelope, Outcome},
    error::{LinkError, RpcError},
    http::HttpWire,
};
use crate::text::quote;

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

/// The way to a server.
#[derive(Debug)]
pub(crate) enum Wire {
    Duplex(Duplex),
    Http(HttpWire),
}

impl Wire {
    /// Sends a request and waits for its answer. Dropping the future cancels the request at the server. Has no time
    /// bound of its own.
    pub(crate) async fn exchange(&self, request: Outgoing) -> Answered {
        match self {
            Self::Duplex(duplex) => duplex.exchange(request).await,
            Self::Http(http) => http.exchange(request).await,
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        match self {
            Self::Duplex(duplex) => duplex.send(message).await,
            Self::Http(http) => http.notify(message).await,
        }
    }
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
