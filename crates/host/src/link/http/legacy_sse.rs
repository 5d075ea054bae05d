//! Implements the HTTP+SSE transport of MCP 2024-11-05. The server sends all its messages on one event stream (`down`),
//! and the host posts its messages to a second endpoint (`up`). This transport is deprecated, and only used when the
//! configuration of a server has `transport = "sse"`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::link::{
    duplex::{Dispatcher, Duplex, PendingRequests, QUEUE_LENGTH},
    error::LinkError,
    framing::envelope::{self, Envelope},
    http::{EventError, HttpPlan, HttpTransport, endpoint_url},
    inbound::{ConnectionEnd, Inbound},
};

/// The most concurrent POSTs.
const MAX_POSTS: usize = 16;
/// The time-out of one POST.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a notification waits for the posts of earlier messages, and how long later messages wait for the post of
/// the notification.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the event stream and waits for the endpoint that the server names in it. The caller sets the time-out.
pub(crate) async fn open(
    plan: &HttpPlan<'_>,
    inbound: &Arc<Inbound>,
    connection_end: &Arc<ConnectionEnd>,
) -> Result<Duplex, LinkError> {
    let down = HttpTransport::new(plan, inbound, connection_end).await?;
    let base = endpoint_url(plan).await?;
    let (queue, outgoing) = mpsc::channel(QUEUE_LENGTH);
    let duplex = Duplex::with_queue(queue, Arc::default());
    let dispatcher = Dispatcher {
        bounds: plan.bounds,
        process: None,
        pending: duplex.pending().clone(),
        sink: duplex.sink().clone(),
        inbound: inbound.clone(),
    };
    let (endpoint_sender, endpoint_receiver) = oneshot::channel();
    let (reader, stop, closed_by_reader) = (down.clone(), inbound.stop.clone(), connection_end.clone());
    inbound.tracker.spawn(async move {
        let reason = stop.run_until_cancelled(read_stream(&reader, &dispatcher, endpoint_sender)).await;
        closed_by_reader.close(reason.unwrap_or(LinkError::Stopped));
    });
    let Ok(endpoint) = endpoint_receiver.await else {
        return Err(connection_end.wait().await);
    };
    let up = base
        .join(&endpoint)
        .ok()
        .filter(|up| up.origin() == base.origin())
        .ok_or_else(|| LinkError::protocol("it named an endpoint that is not a URL on the same origin"))?;
    let poster = Arc::new(Poster {
        up: down.for_url(up),
        pending: duplex.pending().clone(),
        inbound: inbound.clone(),
        connection_end: connection_end.clone(),
    });
    let stop = inbound.stop.clone();
    inbound.tracker.spawn(async move {
        stop.run_until_cancelled(post_queued_messages(outgoing, &poster)).await;
    });
    Ok(duplex)
}

/// Reads the stream to its end; returns the reason of the end.
async fn read_stream(
    down: &HttpTransport,
    dispatcher: &Dispatcher,
    endpoint_sender: oneshot::Sender<String>,
) -> LinkError {
    let mut endpoint_sender = Some(endpoint_sender);
    let event_size_bound = {
        let (bounds, pending) = (dispatcher.bounds, dispatcher.pending.clone());
        Arc::new(move || pending.current_size_bound(bounds))
    };
    let mut events = match down.open_stream(event_size_bound).await {
        Ok(events) => events,
        Err(error) => return error,
    };
    loop {
        match events.next().await {
            Ok(Some(event)) if event.event.as_deref() == Some("endpoint") => {
                if let Some(sender) = endpoint_sender.take() {
                    // Fails if `open` was dropped meanwhile.
                    let _ = sender.send(event.data);
                }
            }
            Ok(Some(event)) if !event.data.is_empty() => dispatcher.receive(&Bytes::from(event.data)),
            Ok(Some(_)) => {}
            Ok(None) => {
                return LinkError::Closed { why: "the event stream ended".into(), stderr: String::new() };
            }
            // If the event seems to be an answer, the dispatcher fails its request, which would otherwise wait in vain.
            Err(EventError::NotUtf8(data)) => dispatcher.receive(&data),
            Err(EventError::TooLarge(error)) => dispatcher.reject_unread(error),
        }
    }
}

/// Posts the messages of the queue. Requests and answers are posted concurrently, and may overtake each other. A
/// notification keeps its place: a cancellation must follow its request, and `notifications/initialized` must precede
/// all further requests.
async fn post_queued_messages(mut outgoing: mpsc::Receiver<Bytes>, poster: &Arc<Poster>) {
    let post_permits = Arc::new(Semaphore::new(MAX_POSTS));
    let mut running_posts = tokio::task::JoinSet::new();
    while let Some(message) = outgoing.recv().await {
        let Ok(permit) = post_permits.clone().acquire_owned().await else {
            return;
        };
        let is_notification = matches!(envelope::peek(&message), Ok(Envelope::Notification { .. }));
        if is_notification {
            // If the earlier posts take longer, the order is given up.
            let _ = timeout(ORDER_TIMEOUT, async { while running_posts.join_next().await.is_some() {} }).await;
        }
        // Forget the posts that have ended.
        while running_posts.try_join_next().is_some() {}
        // Dropping `post_guard` ends the wait for `post_end`.
        let (poster, (post_guard, post_end)) = (poster.clone(), oneshot::channel::<()>());
        running_posts.spawn(async move {
            let _permit = permit;
            poster.post(message).await;
            drop(post_guard);
        });
        if is_notification {
            let _ = timeout(ORDER_TIMEOUT, post_end).await;
        }
    }
}

/// Posts messages and fails the requests that cannot be posted.
struct Poster {
    up: HttpTransport,
    pending: Arc<PendingRequests>,
    inbound: Arc<Inbound>,
    connection_end: Arc<ConnectionEnd>,
}

impl Poster {
    /// Posts one message, within [`POST_TIMEOUT`].
    async fn post(&self, message: Bytes) {
        let request = request_id(&message);
        match timeout(POST_TIMEOUT, self.up.deliver(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.handle_failure(request, error),
            Err(_) => self.handle_failure(request, LinkError::stalled(POST_TIMEOUT)),
        }
    }

    /// Fails the request that could not be posted; other requests are usually not affected.
    fn handle_failure(&self, request: Option<i64>, error: LinkError) {
        let error =
            if means_unknown_session(&error) { LinkError::SessionNotFound { not_executed: true } } else { error };
        match request {
            // If no caller waits for the request any more, there is nothing to fail.
            Some(id) => drop(self.pending.settle(id, Err(error.clone()))),
            None => self.inbound.warn(format!("a message could not be delivered: {error}")),
        }
        if error.ends_the_connection(self.pending.has_waiting_requests()) {
            self.connection_end.close(error);
        }
    }
}

/// Returns the id of a message that is a request of this host.
fn request_id(message: &Bytes) -> Option<i64> {
    match envelope::peek(message) {
        Ok(Envelope::Request { id, .. }) => id.number(),
        _ => None,
    }
}

/// Returns whether the endpoint answers that it does not know the session. (The endpoint's URL names the session.)
fn means_unknown_session(error: &LinkError) -> bool {
    match error {
        LinkError::Http { status: 404 | 410, .. } => true,
        LinkError::Http { status: 400, body } => body.to_lowercase().contains("session"),
        _ => false,
    }
}
