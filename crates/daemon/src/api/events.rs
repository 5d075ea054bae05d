//! Everything that happens, as it happens.

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
    event_log::{EventLog, Kept, LoggedEvent, Unseen},
    world::World,
};

/// Events as they happen, as Server-Sent Events. With `Last-Event-ID`, those that were missed come first, as far as they are
/// kept (1,000); `missed` tells how many are not. `0` asks for all that are kept. The id of an event names the run of the daemon,
/// too: where another run gave it, `missed` comes at once, and then all that is kept.
///
/// The data of each is an object with `at` (when it happened, RFC 3339); `server` says which one it is about. One that would be
/// longer than 16 KiB has `cut: true` instead of the rest. Who does not know a name or a field should pass over it.
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

/// One who reads the log.
struct Reader {
    log: Arc<EventLog>,
    news: watch::Receiver<Kept>,
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
