//! Everything that happens, as it happens.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    extract::State as Extract,
    http::HeaderMap,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt as _, stream};
use serde_json::json;
use tokio::sync::watch;

use super::State;
use crate::{
    event_log::{EventLog, Happened, Unseen},
    world::World,
};

/// Events as they happen, as Server-Sent Events. With `Last-Event-ID`, those that were missed come first, as far as they are
/// kept (1,000); `missed` tells how many are not.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    Extract(world): State,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let reader = Reader::new(&world, last);
    let events = stream::unfold(reader, async |mut reader| Some((reader.next().await, reader)));
    let ending = world.ending.clone();
    Sse::new(events.map(Ok).take_until(ending.cancelled_owned())).keep_alive(KeepAlive::default())
}

/// One who reads the log.
struct Reader {
    log: Arc<EventLog>,
    news: watch::Receiver<u64>,
    seen: u64,
    ready: VecDeque<Arc<Happened>>,
}

impl Reader {
    fn new(world: &World, last: Option<u64>) -> Self {
        let log = Arc::clone(&world.log);
        let seen = last.unwrap_or_else(|| log.newest());
        Self { news: log.watch(), log, seen, ready: VecDeque::new() }
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some(happened) = self.ready.pop_front() {
                self.seen = happened.id;
                return Event::default().id(happened.id.to_string()).event(&happened.name).data(&happened.data);
            }
            self.news.borrow_and_update();
            let Unseen { missed, events } = self.log.after(self.seen);
            self.ready = events.into();
            if missed > 0 {
                self.seen = self.ready.front().map_or_else(|| self.log.newest(), |first| first.id - 1);
                return Event::default().event("missed").data(json!({ "count": missed }).to_string());
            }
            if self.ready.is_empty() && self.news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
