//! The HTTP+SSE transport of MCP 2024-11-05: one event stream down, POSTs to a second endpoint up. Deprecated, and
//! only used when an entry says `transport = "sse"`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::link::{
    duplex::{Desk, Duplex, Pending, QUEUE},
    error::LinkError,
    framing::envelope::{self, Envelope},
    http::{HttpPlan, HttpWire, Unread, endpoint_url},
    inbound::{Closed, Inbound},
};

/// POSTs at once.
const POSTS: usize = 16;
/// The time-out of one POST.
const POST_TIME: Duration = Duration::from_secs(30);
/// How long a notification waits for what was sent before it, and what comes after it waits for it.
const IN_ORDER: Duration = Duration::from_secs(2);

/// Opens the event stream and waits for the endpoint that the server names in it. The caller bounds the time.
pub(crate) async fn open(
    plan: &HttpPlan<'_>,
    inbound: &Arc<Inbound>,
    closed: &Arc<Closed>,
) -> Result<Duplex, LinkError> {
    let down = HttpWire::new(plan, inbound, closed).await?;
    let base = endpoint_url(plan).await?;
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let duplex = Duplex::over(queue, Arc::default());
    let desk = Desk {
        bounds: plan.bounds,
        process: None,
        pending: duplex.pending().clone(),
        outlet: duplex.outlet().clone(),
        inbound: inbound.clone(),
    };
    let (found, endpoint) = oneshot::channel();
    let (reader, stop, ended) = (down.clone(), inbound.stop.clone(), closed.clone());
    inbound.tracker.spawn(async move {
        let end = stop.run_until_cancelled(read(&reader, &desk, found)).await;
        ended.close(end.unwrap_or(LinkError::Stopped));
    });
    let Ok(endpoint) = endpoint.await else {
        return Err(closed.wait().await);
    };
    let up = base
        .join(&endpoint)
        .ok()
        .filter(|up| up.origin() == base.origin())
        .ok_or_else(|| LinkError::protocol("the endpoint it names is on another origin"))?;
    let poster = Arc::new(Poster {
        up: down.at(up),
        pending: duplex.pending().clone(),
        inbound: inbound.clone(),
        closed: closed.clone(),
    });
    let stop = inbound.stop.clone();
    inbound.tracker.spawn(async move {
        stop.run_until_cancelled(post_all_of(outgoing, &poster)).await;
    });
    Ok(duplex)
}

/// Reads the stream to its end; returns why it ended.
async fn read(down: &HttpWire, desk: &Desk, found: oneshot::Sender<String>) -> LinkError {
    let mut found = Some(found);
    let bound = {
        let (bounds, pending) = (desk.bounds, desk.pending.clone());
        Arc::new(move || pending.bound(bounds))
    };
    let mut events = match down.open_stream(bound).await {
        Ok(events) => events,
        Err(error) => return error,
    };
    loop {
        match events.next().await {
            Ok(Some(event)) if event.event.as_deref() == Some("endpoint") => {
                if let Some(found) = found.take() {
                    let _ = found.send(event.data);
                }
            }
            Ok(Some(event)) if !event.data.is_empty() => desk.message(&Bytes::from(event.data)),
            Ok(Some(_)) => {}
            Ok(None) => {
                return LinkError::Closed { why: "the event stream ended".into(), stderr: String::new() };
            }
            Err(Unread::NotUtf8(data)) => desk.message(&data),
            Err(Unread::TooLarge(error)) => desk.unreadable(error),
        }
    }
}

/// Posts what comes out of the queue, many messages at a time. Each goes on a connection of its own, so that they may
/// overtake each other; a notification neither overtakes nor is overtaken: a cancellation is about a request before it, and
/// requests count on `notifications/initialized`.
async fn post_all_of(mut outgoing: mpsc::Receiver<Bytes>, poster: &Arc<Poster>) {
    let posts = Arc::new(Semaphore::new(POSTS));
    let mut running = tokio::task::JoinSet::new();
    while let Some(message) = outgoing.recv().await {
        let Ok(permit) = posts.clone().acquire_owned().await else {
            return;
        };
        let in_order = matches!(envelope::peek(&message), Ok(Envelope::Notification { .. }));
        if in_order {
            let _ = timeout(IN_ORDER, async { while running.join_next().await.is_some() {} }).await;
        }
        while running.try_join_next().is_some() {}
        let (poster, (taken, told)) = (poster.clone(), oneshot::channel::<()>());
        running.spawn(async move {
            let _permit = permit;
            poster.post(message).await;
            drop(taken);
        });
        if in_order {
            let _ = timeout(IN_ORDER, told).await;
        }
    }
}

/// Posts messages and fails the requests that cannot be posted.
struct Poster {
    up: HttpWire,
    pending: Arc<Pending>,
    inbound: Arc<Inbound>,
    closed: Arc<Closed>,
}

impl Poster {
    async fn post(&self, message: Bytes) {
        let request = request_id(&message);
        match timeout(POST_TIME, self.up.deliver(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.failed(request, error),
            Err(_) => self.failed(request, LinkError::stalled(POST_TIME)),
        }
    }

    /// Fails the request that could not be posted; other requests are mostly not affected.
    fn failed(&self, request: Option<i64>, error: LinkError) {
        let error = if forgot_the_session(&error) { LinkError::SessionNotFound { unread: true } } else { error };
        match request {
            Some(id) => drop(self.pending.settle(id, Err(error.clone()))),
            None => self.inbound.warn(format!("a message could not be delivered: {error}")),
        }
        if error.ends_the_connection(self.pending.is_awaited()) {
            self.closed.close(error);
        }
    }
}

/// The id of a message that is a request of ours.
fn request_id(message: &Bytes) -> Option<i64> {
    match envelope::peek(message) {
        Ok(Envelope::Request { id, .. }) => id.number(),
        _ => None,
    }
}

/// Whether an endpoint, whose address names the session, answers that it does not know it.
fn forgot_the_session(error: &LinkError) -> bool {
    match error {
        LinkError::Http { status: 404 | 410, .. } => true,
        LinkError::Http { status: 400, body } => body.to_lowercase().contains("session"),
        _ => false,
    }
}
