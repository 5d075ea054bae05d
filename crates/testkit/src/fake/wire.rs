//! The JSON-RPC messages of the fake (a scripted MCP server for tests), and the *frames* that the code of a method
//! sends to its transport (stdio or HTTP). A frame is an instruction: send this message, or end the process.
//!
//! "Legacy" is MCP 2025-11-25 and older, "modern" is 2026-07-28.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::process::Death;

/// The revision that the modern era speaks.
pub(crate) const MODERN: &str = "2026-07-28";
/// The revisions that the legacy era answers with when asked for them, newest first.
pub(crate) const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The key of the protocol version in `_meta`, on every modern request.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the client's capabilities in `_meta`, on every modern request.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key of the id of a subscription in `_meta`, on modern notifications that belong to one.
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The key of the server's name and version in `_meta`, on modern results.
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// JSON-RPC and MCP error codes that the fake uses, from JSON-RPC 2.0 (5.1) and the named revision of MCP. They are not
/// those of the crate `toolrack-host`: a wrong code there would go unnoticed if the fake had it as well.
pub(crate) mod code {
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    pub(crate) const SERVER: i64 = -32000;
    /// MCP 2025-11-25 and older.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    /// MCP 2026-07-28.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// MCP 2026-07-28.
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    /// MCP 2026-07-28.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
    /// MCP 2025-11-25.
    pub(crate) const URL_REQUIRED: i64 = -32042;
}

/// A message from the client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, body: Result<Value, Value> },
    Invalid(String),
}

/// Reads one message, whatever form it has.
pub(crate) fn parse(bytes: &[u8]) -> Incoming {
    let mut message: Value = match serde_json::from_slice(bytes) {
        Ok(message) => message,
        Err(error) => return Incoming::Invalid(error.to_string()),
    };
    let Some(object) = message.as_object_mut() else {
        return Incoming::Invalid("not an object".to_owned());
    };
    let id = object.shift_remove("id");
    let method = object.shift_remove("method").and_then(|method| method.as_str().map(str::to_owned));
    let params = object.shift_remove("params").unwrap_or_else(|| json!({}));
    match (id, method) {
        (Some(id), Some(method)) => Incoming::Request { id, method, params },
        (None, Some(method)) => Incoming::Notification { method, params },
        (Some(id), None) => {
            let error = object.shift_remove("error");
            let body = error.map_or_else(|| Ok(object.shift_remove("result").unwrap_or_default()), Err);
            Incoming::Response { id, body }
        }
        (None, None) => Incoming::Invalid("neither an id nor a method".to_owned()),
    }
}

/// A successful answer.
pub(crate) fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A request of the server to a legacy client.
pub(crate) fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A JSON-RPC error, without the id of the request that it answers.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The error as an answer to `id`.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }

    /// The HTTP status that 2026-07-28 asks for with this error.
    pub(crate) fn modern_status(&self) -> u16 {
        match self.code {
            code::METHOD_NOT_FOUND => 404,
            code::INVALID_PARAMS
            | code::INVALID_REQUEST
            | code::HEADER_MISMATCH
            | code::MISSING_CAPABILITY
            | code::UNSUPPORTED_VERSION => 400,
            _ => 200,
        }
    }
}

/// An instruction of a handler to its transport, which carries out all of them in order.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// A message before the answer.
    Message(Vec<u8>),
    /// The last message of the exchange, and its status over HTTP.
    Answer { bytes: Vec<u8>, status: u16 },
    /// Part of a message, without an end of line. The process exits after it.
    Torn(Vec<u8>),
    /// The process ends after everything before was written.
    Die(Death),
    /// stdout is closed; the process lives on.
    CloseStdout,
    /// The stream ends without an answer (HTTP only).
    End,
}

impl Frame {
    pub(crate) fn message(message: &Value) -> Self {
        Self::Message(message.to_string().into_bytes())
    }
}

/// Where a handler sends its frames: the one writer of stdio, or the stream of one HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<Frame>);

impl Outbox {
    /// A new outbox and the queue that a transport reads, of 64 frames.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Frame>) {
        let (sender, receiver) = mpsc::channel(64);
        (Self(sender), receiver)
    }

    /// Sends a frame, and waits while the queue is full. A frame to a client that is gone is dropped.
    pub(crate) async fn send(&self, frame: Frame) {
        let _ = self.0.send(frame).await;
    }

    /// Whether the client no longer reads.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_recognized() {
        let kind = |text: &str| match parse(text.as_bytes()) {
            Incoming::Request { .. } => "request",
            Incoming::Notification { .. } => "notification",
            Incoming::Response { body: Ok(_), .. } => "result",
            Incoming::Response { body: Err(_), .. } => "error",
            Incoming::Invalid(_) => "invalid",
        };
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), "request");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#), "notification");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#), "result");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":"a","error":{}}"#), "error");
        assert_eq!(kind("[]"), "invalid");
        assert_eq!(kind("{}"), "invalid");
        assert_eq!(kind("{"), "invalid");
    }
}
