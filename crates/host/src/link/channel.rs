//! Sends requests over a connection, whatever its transport. The era (generation of MCP) need not be known yet.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::link::{
    bounds::is_list,
    duplex::Duplex,
    error::LinkError,
    framing::envelope::{MAX_DEPTH, Reason, depth_exceeds},
    http::HttpTransport,
    inbound::{ConnectionEnd, Inbound, OpenRequest, RegisteredRequest},
    message::{OutgoingRequest, RawAnswer},
    recording::Player,
};

/// The open transport to a server.
#[derive(Debug)]
pub(crate) enum LinkTransport {
    Duplex(Duplex),
    Http(HttpTransport),
    /// There is no server: a recording answers.
    Recorded(Player),
}

impl LinkTransport {
    /// Sends a request and waits for its answer, without a time-out. Dropping the future cancels the request at the
    /// server.
    pub(crate) async fn exchange(&self, request: OutgoingRequest) -> RawAnswer {
        match self {
            Self::Duplex(duplex) => duplex.exchange(request).await,
            Self::Http(http) => http.exchange(request).await,
            Self::Recorded(player) => player.exchange(&request).await,
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        match self {
            Self::Duplex(duplex) => duplex.send(message).await,
            Self::Http(http) => http.notify(message).await,
            Self::Recorded(player) => {
                player.notify(&message);
                Ok(())
            }
        }
    }
}

/// A transport, with the parts that receive messages from it.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) transport: LinkTransport,
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) connection_end: Arc<ConnectionEnd>,
    next_id: AtomicI64,
}

/// A request that has not been encoded.
#[derive(Debug)]
pub(crate) struct NewRequest<'a, P> {
    pub(crate) method: &'static str,
    /// The tool's name, prompt's name or URI.
    pub(crate) name: Option<&'a str>,
    pub(crate) params: P,
    /// `Mcp-Param-*` headers.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Members of `_meta`, without braces.
    pub(crate) meta: &'a str,
    /// Whether to cancel the request at the server when the caller no longer waits.
    pub(crate) cancellable: bool,
}

impl<'a, P: Serialize> NewRequest<'a, P> {
    pub(crate) fn new(method: &'static str, params: P) -> Self {
        Self { method, name: None, params, headers: Vec::new(), meta: "", cancellable: true }
    }

    pub(crate) fn with_meta(self, meta: &'a str) -> Self {
        Self { meta, ..self }
    }
}

impl Channel {
    pub(crate) fn new(transport: LinkTransport, inbound: Arc<Inbound>, connection_end: Arc<ConnectionEnd>) -> Self {
        Self { transport, inbound, connection_end, next_id: AtomicI64::new(1) }
    }

    /// Sends a request and waits for its answer, or for the end of the connection. Sets no time-out; dropping the
    /// future cancels the request. Progress and questions of the server do not reach the request; [`Self::register`] is
    /// for that.
    pub(crate) async fn request<P: Serialize>(&self, request: NewRequest<'_, P>) -> RawAnswer {
        let progress_token = None;
        self.send(self.next_id(), request, progress_token).await
    }

    /// Sends a subscription as [`Self::request`] sends a request. Ends when the server answers, or when the server
    /// revokes the subscription.
    pub(crate) async fn listen<P: Serialize>(&self, request: NewRequest<'_, P>) -> RawAnswer {
        self.hold_open(self.next_id(), request).await
    }

    /// Sends a subscription as [`Self::listen`] does. The receiver gets the resources to which the server agreed.
    pub(crate) fn subscribe<'a, P: Serialize + Send + 'a>(
        &'a self,
        request: NewRequest<'a, P>,
    ) -> (oneshot::Receiver<Vec<String>>, impl Future<Output = RawAnswer> + 'a) {
        let id = self.next_id();
        (self.inbound.acknowledgement(id), self.hold_open(id, request))
    }

    /// Sends a subscription, and waits until it ends.
    async fn hold_open<P: Serialize>(&self, id: i64, request: NewRequest<'_, P>) -> RawAnswer {
        let subscription = self.inbound.register_subscription(id);
        let progress_token = None;
        tokio::select! {
            answer = self.send(id, request, progress_token) => answer,
            // The server may also end a subscription by `notifications/cancelled`, without an answer.
            () = subscription.revoked() => Ok(Bytes::new()),
        }
    }

    /// Registers a request that is about to be sent: progress and questions reach the request until the returned guard
    /// is dropped.
    pub(crate) fn register(&self, request: OpenRequest) -> RegisteredRequest {
        self.inbound.register(self.next_id(), request)
    }

    /// Sends a registered request, as [`Self::request`] does.
    pub(crate) async fn send_registered<P: Serialize>(
        &self,
        request: NewRequest<'_, P>,
        registered: &mut RegisteredRequest,
    ) -> RawAnswer {
        let answer = self.send(registered.id, request, Some(registered.id)).await;
        registered.note_answer();
        answer
    }

    fn next_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request as [`Self::exchange`] does, but refuses an answer that nests too deep. The answer to a list
    /// request is not checked here: its items are checked later, one by one.
    async fn send<P: Serialize>(&self, id: i64, request: NewRequest<'_, P>, progress_token: Option<i64>) -> RawAnswer {
        let method = request.method;
        let answer = self.exchange(id, request, progress_token).await?;
        // The answer is the `result` member: the message around it was one more level.
        if !is_list(method) && depth_exceeds(&answer, MAX_DEPTH - 1) {
            return Err(LinkError::unparsable(Reason::TooDeep { limit: MAX_DEPTH }.to_string()));
        }
        Ok(answer)
    }

    /// Encodes and sends a request. Waits for its answer, or for the end of the connection.
    async fn exchange<P: Serialize>(
        &self,
        id: i64,
        request: NewRequest<'_, P>,
        progress_token: Option<i64>,
    ) -> RawAnswer {
        let outgoing = OutgoingRequest {
            id,
            method: request.method,
            name: request.name.map(ToOwned::to_owned),
            headers: request.headers,
            body: write_request(id, request.method, &request.params, request.meta, progress_token)?,
            cancellable: request.cancellable,
        };
        // The `select!` below looks at the transport first, and would still send the request.
        if self.connection_end.is_closed() {
            return Err(self.connection_end.reason());
        }
        tokio::select! {
            biased;
            answer = self.transport.exchange(outgoing) => match answer {
                // The transport only knows that the connection ended; `connection_end` knows the reason.
                Err(LinkError::Stopped) => Err(self.connection_end.wait().await.for_requests_under_way()),
                answer => answer,
            },
            reason = self.connection_end.wait() => Err(reason.for_requests_under_way()),
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str) -> Result<(), LinkError> {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        self.transport.notify(message.into()).await
    }
}

/// Writes `{"jsonrpc":"2.0","id":…,"method":…,"params":{…,"_meta":{…}}}` in one pass.
fn write_request(
    id: i64,
    method: &str,
    params: &impl Serialize,
    meta: &str,
    progress_token: Option<i64>,
) -> Result<Bytes, LinkError> {
    let write_error = |error: serde_json::Error| LinkError::protocol(format!("the request cannot be written: {error}"));
    let mut json = Vec::with_capacity(256 + meta.len());
    json.extend_from_slice(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":"#).as_bytes());
    let params_start = json.len();
    serde_json::to_writer(&mut json, params).map_err(write_error)?;
    let token = progress_token.map(|token| format!(r#""progressToken":{token}"#)).unwrap_or_default();
    if !(meta.is_empty() && token.is_empty()) {
        // The params are an object, so the text ends with a brace.
        json.pop();
        let params_are_empty = json.len() == params_start + 1;
        let before_meta = if params_are_empty { "" } else { "," };
        let before_token = if meta.is_empty() || token.is_empty() { "" } else { "," };
        json.extend_from_slice(format!(r#"{before_meta}"_meta":{{{meta}{before_token}{token}}}}}"#).as_bytes());
    }
    json.push(b'}');
    Ok(json.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(params: &Value, meta: &str, token: Option<i64>) -> Value {
        serde_json::from_slice(&write_request(7, "m", params, meta, token).unwrap()).unwrap()
    }

    #[test]
    fn meta_is_added_to_any_params() {
        for (params, meta, token, expected) in [
            (json!({}), "", None, json!({})),
            (json!({}), "", Some(3), json!({"_meta": {"progressToken": 3}})),
            (json!({"a": {}}), "", Some(3), json!({"a": {}, "_meta": {"progressToken": 3}})),
            (json!({}), r#""x":{}"#, None, json!({"_meta": {"x": {}}})),
            (json!({"a": "}"}), r#""x":1"#, Some(9), json!({"a": "}", "_meta": {"x": 1, "progressToken": 9}})),
        ] {
            assert_eq!(
                written(&params, meta, token),
                json!({"jsonrpc": "2.0", "id": 7, "method": "m", "params": expected})
            );
        }
    }
}
