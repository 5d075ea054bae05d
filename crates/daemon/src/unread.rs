//! Reads the rest of a request that no handler has read, so that its connection can serve the next request.
//!
//! The daemon can answer a request before its body has arrived, for example a request without a valid token or to an
//! unknown path. In HTTP/1 the next request comes after the rest of that body. A server that does not read the rest has
//! to close the connection, and a client that is sending its next request at that moment gets no answer at all.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, HttpBody as _},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{
    HeaderValue, Version,
    header::{CONNECTION, EXPECT},
};
use tokio::{sync::oneshot, time::timeout};

/// The maximum number of bytes of the rest that the daemon reads. A client that sends more has to reconnect.
const MAX_REST_BYTES: usize = 64 * 1024;

/// How long reading the rest may take.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the unread rest of each request's body before it passes on the answer. If the rest is too long or too late,
/// the answer says that the connection closes.
pub(crate) async fn read_rest(request: Request, next: Next) -> Response {
    // A client with `Expect: 100-continue` sends no body unless a handler reads it.
    if request.version() > Version::HTTP_11 || request.body().is_end_stream() || request.headers().contains_key(EXPECT)
    {
        return next.run(request).await;
    }
    let (return_sender, mut returned_body) = oneshot::channel();
    let request = request.map(|body| {
        Body::from_stream(ReturnOnDrop { stream: Some(body.into_data_stream()), return_sender: Some(return_sender) })
    });
    let mut response = next.run(request).await;
    // Without a returned body, the handler has read all of it, or still reads it.
    if let Ok(rest) = returned_body.try_recv()
        && !timeout(READ_TIMEOUT, ends_within_bound(rest)).await.unwrap_or(false)
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether the rest of the body ends within [`MAX_REST_BYTES`].
async fn ends_within_bound(mut rest: BodyDataStream) -> bool {
    let mut bytes = 0;
    while let Some(piece) = rest.next().await {
        let Ok(piece) = piece else { return false };
        bytes += piece.len();
        if bytes > MAX_REST_BYTES {
            return false;
        }
    }
    true
}

/// A body that a handler may read only partly. If the handler drops it before its end, the body is sent back to be
/// read.
struct ReturnOnDrop {
    stream: Option<BodyDataStream>,
    return_sender: Option<oneshot::Sender<BodyDataStream>>,
}

impl Stream for ReturnOnDrop {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let polled = stream.poll_next_unpin(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.stream = None;
        }
        polled
    }
}

impl Drop for ReturnOnDrop {
    fn drop(&mut self) {
        if let (Some(stream), Some(return_sender)) = (self.stream.take(), self.return_sender.take()) {
            // Fails if the connection is gone, which does not matter here.
            let _ = return_sender.send(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        middleware::from_fn,
        routing::{any, post},
    };
    use futures::channel::mpsc;
    use tower::ServiceExt as _;

    use super::*;

    type Piece = Result<Bytes, std::io::Error>;

    /// A server with a route that reads the body and one that does not.
    fn router() -> Router {
        Router::new()
            .route("/read", post(|body: Bytes| async move { body.len().to_string() }))
            .route("/ignored", any(|| async { "ignored" }))
            .layer(from_fn(read_rest))
    }

    /// Whether the answer to a request with this body says that the connection closes.
    async fn closes(path: &str, change: impl Fn(&mut Request), body: Body) -> bool {
        let mut request = Request::post(path).body(body).unwrap();
        change(&mut request);
        let response = router().oneshot(request).await.unwrap();
        response.headers().get(CONNECTION).is_some_and(|value| value == "close")
    }

    /// A body whose pieces come from the returned sender.
    fn arriving() -> (mpsc::UnboundedSender<Piece>, Body) {
        let (pieces, receiver) = mpsc::unbounded();
        (pieces, Body::from_stream(receiver))
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_stays_when_the_rest_of_a_body_is_short_and_in_time() {
        assert!(!closes("/ignored", |_| {}, Body::from("x".repeat(MAX_REST_BYTES))).await);
        assert!(
            !closes("/read", |_| {}, Body::from("x".repeat(2 * MAX_REST_BYTES))).await,
            "the handler read all of it"
        );
        assert!(!closes("/ignored", |_| {}, Body::empty()).await);
        let (pieces, body) = arriving();
        for _ in 0..4 {
            pieces.unbounded_send(Ok(Bytes::from_static(b"piece"))).unwrap();
        }
        drop(pieces);
        assert!(!closes("/ignored", |_| {}, body).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_closes_when_the_rest_is_too_long_too_late_or_broken() {
        assert!(closes("/ignored", |_| {}, Body::from("x".repeat(MAX_REST_BYTES + 1))).await);
        let (pieces, body) = arriving();
        pieces.unbounded_send(Ok(Bytes::from_static(b"the rest never comes"))).unwrap();
        assert!(closes("/ignored", |_| {}, body).await);
        drop(pieces);
        let (pieces, body) = arriving();
        pieces.unbounded_send(Err(std::io::Error::other("reset"))).unwrap();
        assert!(closes("/ignored", |_| {}, body).await);
    }

    #[tokio::test(start_paused = true)]
    async fn no_body_is_read_for_http_2_or_for_a_client_that_expects_100_continue() {
        let long = || Body::from("x".repeat(MAX_REST_BYTES + 1));
        assert!(!closes("/ignored", |request| *request.version_mut() = Version::HTTP_2, long()).await);
        let expects = |request: &mut Request| {
            request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        };
        assert!(!closes("/ignored", expects, long()).await);
    }
}
