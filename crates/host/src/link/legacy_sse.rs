//! The HTTP+SSE transport of MCP 2024-11-05: one event stream down, POSTs to a second endpoint up. Deprecated, and
//! only spoken when an entry says `transport = "sse"`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::{
    duplex::{Desk, Duplex, QUEUE},
    error::LinkError,
    http::{HttpPlan, HttpWire, endpoint_url},
    inbound::{Closed, Inbound},
};

/// POSTs at once.
const POSTS: usize = 16;
/// For one POST.
const POST_TIME: Duration = Duration::from_secs(30);

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
        max_line: plan.max_message,
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
    let (stop, closed) = (inbound.stop.clone(), closed.clone());
    let poster = post_all_of(outgoing, down.at(up), closed);
    inbound.tracker.spawn(async move {
        stop.run_until_cancelled(poster).await;
    });
    Ok(duplex)
}

/// Reads the stream to its end; tells why it ended.
async fn read(down: &HttpWire, desk: &Desk, found: oneshot::Sender<String>) -> LinkError {
    let mut found = Some(found);
    let mut events = match down.open_stream().await {
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
            Err(error) => desk.unreadable(error),
        }
    }
}

async fn post_all_of(mut outgoing: mpsc::Receiver<Bytes>, up: HttpWire, closed: Arc<Closed>) {
    let posts = Arc::new(Semaphore::new(POSTS));
    let mut running = tokio::task::JoinSet::new();
    while let Some(message) = outgoing.recv().await {
        let Ok(permit) = posts.clone().acquire_owned().await else {
            return;
        };
        while running.try_join_next().is_some() {}
        let (up, closed) = (up.clone(), closed.clone());
        running.spawn(async move {
            let _permit = permit;
            match timeout(POST_TIME, up.notify(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => closed.close(error),
                Err(_) => closed.close(LinkError::stalled(POST_TIME)),
            }
        });
    }
}
