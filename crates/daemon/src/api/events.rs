//! The events of a world, as they happen.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    extract::State as Extract,
    http::{HeaderMap, HeaderValue},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt as _, stream};
use serde_json::json;
use tokio::sync::watch;

use super::State;
use crate::{
    event_log::{EventLog, LoggedEvent, RecentEvents, Unseen},
    world::World,
};

/// Events as they happen, as Server-Sent Events. With `Last-Event-ID`, the missed events come first, as far as the
/// daemon keeps them (1,000); `missed` has the number of the others. `0` requests all that are kept. The id of an event
/// also names the run of the daemon: for an id of another run, `missed` comes at once, and then all kept events.
///
/// The data of each is an object with `at` (the time, RFC 3339); `server` is the server that it is about. An event of
/// more than 16 KiB has `cut: true` instead of its other fields. Readers should ignore unknown names and fields.
///
/// `mcp_server_connected`, `mcp_server_disconnected`, `mcp_server_error` and `mcp_tools_updated` name the server as `server_name`, too.
///
/// | event | data |
/// |---|---|
/// | `mcp_server_state` | `server`, `state`: an object, with the word in `state` |
/// | `mcp_server_connected` | `server`, `tool_count` |
/// | `mcp_server_disconnected` | `server`, `reason` |
/// | `mcp_server_error`, `mcp_server_warning` | `server`; `error` or `warning`; `call`, where it was the answer to one |
/// | `mcp_server_log`, `mcp_server_stderr` | `server`; `level` and `message`, or `line` |
/// | `mcp_tools_updated` | `server`, `tools`: the names that a model sees |
/// | `mcp_tool_quarantined` | `server`, `tool`, and what is the matter |
/// | `mcp_prompts_changed`, `mcp_resources_changed` | `server` |
/// | `tool_started` | `call`: its number in this run; `server`, `tool` |
/// | `tool_progress` | `call`, `progress`, `total`, `message` |
/// | `tool_completed` | `call`, `server`, `tool`, `outcome`, `duration_ms` |
/// | `tool_approval_request`, `tool_denied` | `call`, `server`, `tool`, `why` |
/// | `question_opened` | `question`, as in `GET /api/v1/approvals`; `agent`, where one asks |
/// | `question_closed` | `id` of the question; `agent` |
/// | `config_changed` | what was added, removed and changed |
/// | `config_rejected` | `problems` |
/// | `missed` | `count`: how many events are gone |
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header,
        description = "The id of the last event that was seen, as it was given, or `0`.")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    Extract(world): State,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let reader = Reader::new(&world, headers.get("last-event-id"));
    let events = stream::unfold(reader, async |mut reader| Some((reader.next().await, reader)));
    let ending = world.ending.clone();
    Sse::new(events.map(Ok).take_until(ending.cancelled_owned())).keep_alive(KeepAlive::default())
}

/// A reader of the log.
struct Reader {
    log: Arc<EventLog>,
    news: watch::Receiver<RecentEvents>,
    /// The last one that it saw; `None` where that was in another run.
    seen: Option<u64>,
    ready: VecDeque<Arc<LoggedEvent>>,
}

impl Reader {
    fn new(world: &World, last: Option<&HeaderValue>) -> Self {
        let log = Arc::clone(&world.log);
        let seen = match last {
            Some(last) => last.to_str().ok().and_then(|last| log.number_of(last)),
            None => Some(log.newest()),
        };
        Self { news: log.watch(), log, seen, ready: VecDeque::new() }
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some(happened) = self.ready.pop_front() {
                self.seen = Some(happened.id);
                return Event::default().id(self.log.name_of(happened.id)).event(&happened.name).data(&happened.data);
            }
            self.news.mark_unchanged();
            let Unseen { missed, events } = self.log.after(self.seen);
            self.ready = events.into();
            if let Some(missed) = missed {
                self.seen = Some(self.ready.front().map_or(0, |first| first.id - 1));
                return Event::default().event("missed").data(json!({ "count": missed }).to_string());
            }
            if self.ready.is_empty() && self.news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
