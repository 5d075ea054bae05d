//! Answers that are event streams: one for each request that has something to send before its answer, and the standing
//! stream of a session.

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
    exchange::{Exchange, Out},
    message,
    news::{self, News},
    session::{OpenStream, Running, Session},
};
use crate::shares::Place;

/// Silence after which a request is answered with a stream, so that nothing between here and the client gives up on it.
const FIRST_SILENCE: Duration = Duration::from_secs(10);
/// The silence on a stream after which a comment keeps it alive.
const SILENCE: Duration = Duration::from_secs(15);

const COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// Returns the first message for a request; `None` if there is none for a long time.
pub(super) async fn first(exchange: &mut Exchange) -> Option<Out> {
    timeout(FIRST_SILENCE, exchange.next()).await.ok()
}

/// A message as an event. It has no line breaks.
fn event(message: &[u8]) -> Bytes {
    [b"event: message\ndata: ", message, b"\n\n"].concat().into()
}

fn streamed(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = futures::StreamExt::map(events, Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream that ends without an answer: the request was cancelled.
pub(super) fn nothing() -> Response {
    streamed(futures::stream::empty())
}

/// A request that is being answered by events. When its client disconnects, it is dropped, which cancels the request.
struct Answering {
    exchange: Exchange,
    running: Option<Running>,
    first: Option<Out>,
}

impl Answering {
    /// The next event, and whether it is the last; `None` when the request was cancelled.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        let next = async {
            match self.first.take() {
                Some(first) => Some(first),
                None => timeout(SILENCE, self.exchange.next()).await.ok(),
            }
        };
        let out = match &self.running {
            Some(running) => running.token.run_until_cancelled(next).await?,
            None => next.await,
        };
        let id = self.exchange.id();
        let (message, is_last) = match out {
            None => return Some((COMMENT, false)),
            Some(Out::Message(message)) => (message, false),
            Some(Out::Answer(Ok(result))) => (message::response(id, &result), true),
            Some(Out::Answer(Err(refusal))) => (message::error(Some(id), &refusal), true),
        };
        Some((event(&self.exchange.gateway().0.concealed(message)), is_last))
    }
}

/// Answers with events; `first` is `None` if there was none for long.
pub(super) fn response(exchange: Exchange, running: Option<Running>, first: Option<Out>) -> Response {
    let answering = Answering { exchange, running, first };
    streamed(unfold(Some(answering), async |answering| {
        let mut answering = answering?;
        let (event, is_last) = answering.next().await?;
        Some((event, (!is_last).then_some(answering)))
    }))
}

/// An event of a standing stream.
enum StandingEvent {
    News(Option<Vec<News>>),
    Updated(Vec<String>),
}

/// The standing stream of a session.
struct Standing {
    gateway: Gateway,
    session: Arc<Session>,
    /// Who opened it.
    principal: Principal,
    /// Taken when it ends.
    stream: Option<OpenStream>,
    to_say: Vec<Bytes>,
    _place: Place,
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.session.close_stream(stream);
        }
    }
}

impl Standing {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.to_say.is_empty() {
                return Some(event(&self.gateway.0.concealed(self.to_say.remove(0))));
            }
            let OpenStream { news, ends, .. } = self.stream.as_mut()?;
            let next = async {
                tokio::select! {
                    heard = news::next(news) => StandingEvent::News(heard),
                    uris = self.session.subscribed.updated() => StandingEvent::Updated(uris),
                }
            };
            let heard = ends.run_until_cancelled(timeout(SILENCE, next)).await?;
            let heard = match heard {
                Ok(StandingEvent::News(heard)) => heard,
                Ok(StandingEvent::Updated(uris)) => {
                    self.to_say.extend(uris.iter().map(|uri| news::updated(uri, None)));
                    continue;
                }
                Err(_) => return Some(COMMENT),
            };
            let concerned = heard?.into_iter().filter(|news| news.concerns(&self.session.view, &self.principal));
            self.to_say.extend(concerned.filter_map(|news| self.session.notification(&news)));
        }
    }
}

/// Opens the standing stream of a session, replacing an earlier one.
pub(super) fn standing(gateway: &Gateway, session: Arc<Session>, principal: Principal, place: Place) -> Response {
    let stream = session.open_stream(|| gateway.0.news.subscribe());
    let gateway = gateway.clone();
    let standing = Standing { gateway, session, principal, stream: Some(stream), to_say: Vec::new(), _place: place };
    // A first comment sends the headers on their way.
    let opened = futures::stream::once(std::future::ready(Bytes::from_static(b": listening\n\n")));
    let events = unfold(standing, async |mut standing| Some((standing.next().await?, standing)));
    streamed(futures::StreamExt::chain(opened, events))
}
