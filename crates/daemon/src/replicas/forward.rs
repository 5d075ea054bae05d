//! Forwards a request to another replica (a sibling), and the answer of that replica back to the client.

use std::io;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri,
    header::{
        CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE,
    },
    request::Parts,
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body_util::{BodyDataStream, BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use toolrack_store::Replica;

use super::{
    connection::{Connector, was_not_processed},
    identity::Identity,
};

/// Headers that are about one connection, and are never passed on to the next (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Another replica.
pub(super) struct Sibling {
    replica: Replica,
    connector: Connector,
    /// The sibling's last heartbeat. The watch channel serves as a lock: no task waits for a change.
    last_heartbeat: watch::Sender<SeenHeartbeat>,
    /// Cancelled when the sibling's row has gone from the database.
    sibling_gone: CancellationToken,
}

/// A heartbeat of a sibling, as this replica saw it.
struct SeenHeartbeat {
    number: i64,
    /// When this replica first saw a heartbeat of this number.
    first_seen: Instant,
}

/// The outcome of forwarding a request.
pub(super) enum ForwardOutcome {
    Answered(Response),
    /// The request can be sent again: the sibling has not read it, or is not the replica that serves the tenant (its
    /// home), or the request changes nothing.
    SendAgain,
    /// The sibling may have read the request, and does not answer.
    Lost,
}

impl Sibling {
    pub(super) fn new(replica: Replica, identity: &Identity) -> Self {
        let (tls, sibling_gone) = (identity.client_config(replica.public_key.clone()).ok(), CancellationToken::new());
        // Without TLS settings, the connector never connects, as with a sibling that cannot be reached.
        let connector = Connector::new(replica.address.clone(), tls, sibling_gone.clone());
        // No heartbeat has the number -1, so the first heartbeat that is recorded counts as new.
        let last_heartbeat = watch::Sender::new(SeenHeartbeat { number: -1, first_seen: Instant::now() });
        Self { replica, connector, last_heartbeat, sibling_gone }
    }

    pub(super) fn id(&self) -> &str {
        &self.replica.id
    }

    pub(super) fn public_key(&self) -> &[u8] {
        &self.replica.public_key
    }

    /// Records the `number` of the sibling's last heartbeat, as it was read now. Returns when this replica first saw
    /// that number.
    pub(super) fn record_heartbeat(&self, number: i64) -> Instant {
        self.last_heartbeat.send_if_modified(|last_heartbeat| {
            let is_new = last_heartbeat.number != number;
            if is_new {
                *last_heartbeat = SeenHeartbeat { number, first_seen: Instant::now() };
            }
            is_new
        });
        self.last_heartbeat.borrow().first_seen
    }

    /// Gives up all requests to this sibling, and ends their answers with an error.
    pub(super) fn give_up(&self) {
        self.sibling_gone.cancel();
    }

    /// Sends a request, once. Dropping the future, or the body of the answer, cancels the request. The answer to a
    /// request that changes nothing may be an endless stream of events, and ends when the daemon is `ending`.
    pub(super) async fn forward(
        &self,
        head: &Parts,
        body: Bytes,
        host: &HeaderValue,
        ending: &CancellationToken,
    ) -> ForwardOutcome {
        let Some(request) = request_to_sibling(head, body, host) else { return ForwardOutcome::SendAgain };
        let connect_result = self.sibling_gone.run_until_cancelled(self.connector.request_sender()).await;
        let Some(mut sender) = connect_result.flatten() else { return ForwardOutcome::SendAgain };
        match self.sibling_gone.run_until_cancelled(sender.try_send_request(request)).await {
            Some(Ok(response)) if response.status() == StatusCode::MISDIRECTED_REQUEST => ForwardOutcome::SendAgain,
            Some(Ok(response)) => {
                ForwardOutcome::Answered(self.answer(response, head.method.is_safe().then_some(ending)))
            }
            // hyper gives a request back as `message` if it has sent nothing of it.
            Some(Err(error)) if error.message().is_some() || was_not_processed(error.error()) => {
                ForwardOutcome::SendAgain
            }
            Some(Err(error)) => {
                tracing::debug!("a request to another replica was lost: {}", error.error());
                self.outcome_without_answer(head)
            }
            None => self.outcome_without_answer(head),
        }
    }

    /// The outcome of a request that got no answer. A request that changes nothing can be sent again.
    fn outcome_without_answer(&self, head: &Parts) -> ForwardOutcome {
        match head.method.is_safe() {
            true => ForwardOutcome::SendAgain,
            false => ForwardOutcome::Lost,
        }
    }

    /// The answer of the sibling. Its body is passed on piece by piece, as it arrives. Cancelling `end` ends the body
    /// as if it were complete. A body that the sibling does not finish ends with an error, so that the client knows
    /// that it is incomplete.
    fn answer(&self, response: Response<Incoming>, end: Option<&CancellationToken>) -> Response {
        let (status, headers) = (response.status(), end_to_end_headers(response.headers()));
        let body = ForwardedBody {
            is_sized: response.headers().contains_key(CONTENT_LENGTH),
            held_back: None,
            sibling_body: response.into_body().into_data_stream(),
            sibling_gone: self.sibling_gone.clone(),
            // The default is never cancelled.
            end: end.cloned().unwrap_or_default(),
        };
        let pieces = stream::unfold(body, async |mut body| Some((body.next_piece().await?, body)));
        let mut answer = Response::new(Body::from_stream(pieces));
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        answer
    }
}

/// The body of a sibling's answer, on its way to the client.
struct ForwardedBody {
    /// Whether the answer has a `Content-Length`. After the last byte of such a body, the HTTP server of this daemon
    /// drops the body without reading the end of the sibling's stream. The sibling would then treat the request as
    /// cancelled. So each piece of such a body is held back until the next one, or the end, has arrived.
    is_sized: bool,
    /// The piece that is held back.
    held_back: Option<Bytes>,
    /// The body as the sibling sends it.
    sibling_body: BodyDataStream<Incoming>,
    /// Cancelled when the sibling is gone: the body then ends with an error.
    sibling_gone: CancellationToken,
    /// Cancelled when the body is to end as if it were complete.
    end: CancellationToken,
}

impl ForwardedBody {
    /// The next piece for the client. `None` at the end.
    async fn next_piece(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.receive_piece().await {
                Some(Ok(piece)) if self.is_sized => {
                    if let Some(previous) = self.held_back.replace(piece) {
                        return Some(Ok(previous));
                    }
                }
                None => return self.held_back.take().map(Ok),
                piece_or_error => return piece_or_error,
            }
        }
    }

    /// The next piece from the sibling. `None` at the end.
    async fn receive_piece(&mut self) -> Option<io::Result<Bytes>> {
        tokio::select! {
            piece = self.sibling_body.next() => piece.map(|piece| piece.map_err(io::Error::other)),
            () = self.sibling_gone.cancelled() => Some(Err(io::Error::other("the replica that answers is gone"))),
            () = self.end.cancelled() => None,
        }
    }
}

/// The request that is sent to the sibling: the client's own request, with the `host` of the team. `None` if no URI can
/// be made of `host` and the path.
fn request_to_sibling(head: &Parts, body: Bytes, host: &HeaderValue) -> Option<Request<Full<Bytes>>> {
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
    uri.path_and_query = Some(head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")));
    let mut request = Request::new(Full::new(body));
    (*request.method_mut(), *request.uri_mut()) = (head.method.clone(), Uri::from_parts(uri).ok()?);
    let mut headers = end_to_end_headers(&head.headers);
    // hyper sets the length of `body`. `Expect` has been answered: the client has already sent the whole body.
    headers.remove(CONTENT_LENGTH);
    headers.remove(EXPECT);
    headers.insert(HOST, host.clone());
    *request.headers_mut() = headers;
    Some(request)
}

/// Returns the headers that are passed on. Headers that are only about the connection on which they came are left out:
/// [`HOP_BY_HOP`], and the headers that `Connection` names.
fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    let connection_headers: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        .collect();
    for name in connection_headers.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_not_passed_on() {
        let headers = [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer t"),
            ("mcp-session-id", "s"),
        ];
        let headers = headers.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        let kept = end_to_end_headers(&headers.into_iter().collect());
        let names: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "mcp-session-id"]);
    }
}
