//! Makes answers of the gateway that are event streams. A request gets such a stream if there is something to send
//! before its answer. The standing stream of a session answers a GET, and stays open for notifications.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures::stream::{Stream, unfold};
use tokio::time::timeout;
use toolrack_host::Principal;

use super::super::{
    Gateway,
    exchange::{Exchange, Outgoing},
    message,
    news::{self, News},
    session::{Backlog, OpenStream, RunningRequest, Session},
};
use crate::fair_limit::Permit;

/// The silence after which a request is answered with a stream, so that no proxy on the way to the client times out.
const STREAM_AFTER: Duration = Duration::from_secs(10);
/// The silence on a stream after which a comment keeps it alive.
const COMMENT_AFTER: Duration = Duration::from_secs(15);

const COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// Returns the first message for a request; `None` if none comes within [`STREAM_AFTER`].
pub(super) async fn first_message(exchange: &mut Exchange) -> Option<Outgoing> {
    timeout(STREAM_AFTER, exchange.next()).await.ok()
}

/// Returns a message, which has no line breaks, as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    [b"event: message\ndata: ", message, b"\n\n"].concat().into()
}

/// Makes an answer that is an event stream, with headers against buffering by proxies.
pub(super) fn stream_response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = futures::StreamExt::map(events, Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells nginx, and proxies that follow it, to pass each event on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Returns a stream that ends without an answer, for a cancelled request.
pub(super) fn empty_stream() -> Response {
    stream_response(futures::stream::empty())
}

/// A request that is answered by a stream of events. When the client disconnects, this is dropped, which cancels the
/// request.
struct AnswerStream {
    exchange: Exchange,
    running_request: Option<RunningRequest>,
    first_message: Option<Outgoing>,
}

impl AnswerStream {
    /// Returns the next event, and whether it is the last; `None` when the request was cancelled.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        let next_message = async {
            match self.first_message.take() {
                Some(first_message) => Some(first_message),
                None => timeout(COMMENT_AFTER, self.exchange.next()).await.ok(),
            }
        };
        let outgoing = match &self.running_request {
            Some(running_request) => running_request.token.run_until_cancelled(next_message).await?,
            None => next_message.await,
        };
        let id = self.exchange.id();
        let (message, is_last) = match outgoing {
            None => return Some((COMMENT, false)),
            Some(Outgoing::Message(message)) => (message, false),
            Some(Outgoing::Answer(Ok(result))) => (message::response(id, &result), true),
            Some(Outgoing::Answer(Err(refusal))) => (message::error(Some(id), &refusal), true),
        };
        Some((event(&self.exchange.gateway().0.concealed(message)), is_last))
    }
}

/// Answers with events. `first_message` is the message that has arrived already, if any.
pub(super) fn response(
    exchange: Exchange,
    running_request: Option<RunningRequest>,
    first_message: Option<Outgoing>,
) -> Response {
    stream_response(answer_events(exchange, running_request, first_message))
}

/// Returns the events of a request up to its answer. `first_message` is the message that has arrived already, if any.
pub(super) fn answer_events(
    exchange: Exchange,
    running_request: Option<RunningRequest>,
    first_message: Option<Outgoing>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let stream = AnswerStream { exchange, running_request, first_message };
    unfold(Some(stream), async |stream| {
        let mut stream = stream?;
        let (event, is_last) = stream.next().await?;
        Some((event, (!is_last).then_some(stream)))
    })
}

/// An event of a standing stream.
enum StandingEvent {
    /// `None` when there will be no more news.
    News(Option<Vec<News>>),
    /// The URIs of the resources that have changed.
    Updated(Vec<String>),
}

/// The standing stream of a session.
struct StandingStream {
    gateway: Gateway,
    session: Arc<Session>,
    /// The principal that opened the stream.
    principal: Principal,
    /// `None` once the stream has ended.
    stream: Option<OpenStream>,
    /// A permit of the gateway's limit of streams. Dropping the stream frees the permit.
    _permit: Permit,
}

impl Drop for StandingStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.session.close_stream(stream);
        }
    }
}

impl StandingStream {
    /// Returns the next event, or a comment after a silence; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let OpenStream { backlog: Backlog { messages, news }, stop, .. } = self.stream.as_mut()?;
            if let Some(message) = messages.pop_front() {
                return Some(event(&self.gateway.0.concealed(message)));
            }
            let next_event = async {
                tokio::select! {
                    received = news::next(news) => StandingEvent::News(received),
                    uris = self.session.subscriptions.until_updated() => StandingEvent::Updated(uris),
                }
            };
            let received_event = stop.run_until_cancelled(timeout(COMMENT_AFTER, next_event)).await?;
            let received_news = match received_event {
                Ok(StandingEvent::News(news)) => news,
                Ok(StandingEvent::Updated(uris)) => {
                    messages.extend(uris.iter().map(|uri| news::resource_updated(uri, /* subscription */ None)));
                    continue;
                }
                Err(_) => return Some(COMMENT),
            };
            let relevant_news =
                received_news?.into_iter().filter(|news| news.concerns(&self.session.view, &self.principal));
            messages.extend(relevant_news.filter_map(|news| self.session.notification(&news)));
        }
    }
}

/// Opens the standing stream of a session, replacing an earlier one.
pub(super) fn open_standing_stream(
    gateway: &Gateway,
    session: Arc<Session>,
    principal: Principal,
    permit: Permit,
) -> Response {
    let stream = session.open_stream(|| gateway.0.news.subscribe());
    let gateway = gateway.clone();
    let stream = StandingStream { gateway, session, principal, stream: Some(stream), _permit: permit };
    // The first comment makes the server send the headers.
    let first_comment = futures::stream::once(std::future::ready(Bytes::from_static(b": listening\n\n")));
    let events = unfold(stream, async |mut stream| Some((stream.next().await?, stream)));
    stream_response(futures::StreamExt::chain(first_comment, events))
}
