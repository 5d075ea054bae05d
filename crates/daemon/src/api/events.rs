//! Sends the events of a world (a host with its configuration and questions) to readers as they happen.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    Extension,
    http::{HeaderMap, HeaderValue},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt as _, future::select_all, stream};
use serde_json::json;
use tokio::sync::watch;
use toolrack_host::Principal;

use super::WorldExtension;
use crate::{
    credentials::WorldKind,
    event_log::{Audience, EventLog, LoggedEvent, RecentEvents, UnseenEvents},
    rights::Right,
    world::World,
};

/// Separates the two parts of an event's id: the position of the reader in each of the two logs that it reads.
const ID_SEPARATOR: &str = ".";

/// Events as they happen, as Server-Sent Events. A member of a tenant gets the events of their own calls, questions and
/// servers; a member who operates the servers gets all events of the tenant. With `Last-Event-ID`, the missed events
/// come first, as far as the daemon still has them (it keeps 1,000); `missed` has the number of the others. `0`
/// requests all kept events. The id of an event also names the run of the daemon: for an id of another run, `missed`
/// comes first, and then all kept events.
///
/// The data of each event is an object. Its field `at` is the time (RFC 3339), and `server` the server that the event
/// is about. Of an event of more than 16 KiB, the object has only `at`, `server` and `cut: true`. Readers should ignore
/// unknown names and fields.
///
/// `mcp_server_connected`, `mcp_server_disconnected`, `mcp_server_error` and `mcp_tools_updated` also have the name of
/// the server as `server_name`.
///
/// | event | fields of the data, besides `at` |
/// |---|---|
/// | `mcp_server_state` | `server`; `state`: an object whose own field `state` is a word, such as `connected` |
/// | `mcp_server_connected` | `server`, `tool_count` |
/// | `mcp_server_disconnected` | `server`, `reason` |
/// | `mcp_server_error` | `server`, `error`; `call`: the number of the call that failed with it, if it was a call |
/// | `mcp_server_warning` | `server`, `warning` |
/// | `mcp_server_log` | `server`, `level`, `message` |
/// | `mcp_server_stderr` | `server`, `line` |
/// | `mcp_tools_updated` | `server`, `tools`: the names that a model sees |
/// | `mcp_tool_quarantined` | `server`, `tool`, `definition` (a hash), `cause`, `usable`; `was` or `why` |
/// | `mcp_prompts_changed`, `mcp_resources_changed` | `server` |
/// | `tool_started` | `call`: the number of the call in this run of the daemon; `server`, `tool` |
/// | `tool_progress` | `call`, `progress`, `total`, `message` |
/// | `tool_completed` | `call`, `server`, `tool`, `outcome`, `duration_ms` |
/// | `tool_approval_request`, `tool_denied` | `call`, `server`, `tool`, `why` |
/// | `question_opened` | `question`, as in `GET /api/v1/approvals`; `agent`: the agent whose question it is, if any |
/// | `question_closed` | `id`: that of the question; `agent`: as in `question_opened` |
/// | `config_changed` | `added`, `removed`, `changed`: names of servers; `agents`: all agents, if these have changed |
/// | `config_rejected` | `problems`: why the changed configuration is not used |
/// | `missed` | `count`: how many events the daemon no longer has |
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header,
        description = "The id of the last event that was seen, as it was given, or `0`.")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let reader = Reader::new(&world, principal, headers.get("last-event-id"));
    let end = until_stream_ends(Arc::clone(&world), reader.principal.clone());
    let events = stream::unfold(reader, async |mut reader| Some((reader.next().await, reader)));
    Sse::new(events.map(Ok).take_until(end)).keep_alive(KeepAlive::default())
}

/// Waits until the stream has to end: when the world ends or, for a member of a tenant, when another world may serve
/// the member from now on. Readers connect again, and then reach that world.
async fn until_stream_ends(world: Arc<World>, reader: Principal) {
    tokio::select! {
        () = world.ending.cancelled() => {}
        () = until_world_changes(&world, &reader), if !reader.is_local() => {}
    }
}

/// Waits until another world may serve `member`. That is so after each change of the configuration. It is also so when
/// a member in the tenant's world adds their first server, and so gets a world of their own.
async fn until_world_changes(world: &World, member: &Principal) {
    let mut applied_changes = world.applied_changes();
    applied_changes.mark_unchanged();
    let until_server_added = async {
        match &world.own_servers {
            Some(own_servers) if matches!(world.kind, WorldKind::Tenant) => own_servers.until_added_by(member).await,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = applied_changes.changed() => {}
        () = until_server_added => {}
    }
}

/// A reader of the events of a world. In the world of a member, it also reads the log of the tenant's world, which has
/// the events of the servers that the tenant lends to the member. No event is in both logs.
struct Reader {
    logs: Vec<ReadLog>,
    world: Arc<World>,
    principal: Principal,
}

/// A log, as far as one reader has read it.
struct ReadLog {
    log: Arc<EventLog>,
    /// Notified of new events.
    changes: watch::Receiver<RecentEvents>,
    /// The number of the last event that the reader saw; `None` if the reader saw it in another run of the daemon.
    last_seen: Option<u64>,
    /// Events that were fetched and are not sent yet.
    unsent: VecDeque<Arc<LoggedEvent>>,
    /// Whether this is the log of the tenant's world, read in the world of a member.
    is_of_tenant: bool,
}

impl Reader {
    fn new(world: &Arc<World>, principal: Principal, last_event_id: Option<&HeaderValue>) -> Self {
        // No event has an empty id, so an unreadable header counts as the id of another run.
        let last_event_id = last_event_id.map(|id| id.to_str().unwrap_or_default());
        let tenant_log = world.questions.log().filter(|log| !Arc::ptr_eq(log, &world.log));
        let mut logs = vec![ReadLog::new(&world.log, last_event_id)];
        logs.extend(tenant_log.map(|log| ReadLog { is_of_tenant: true, ..ReadLog::new(log, last_event_id) }));
        Self { logs, world: Arc::clone(world), principal }
    }

    /// Waits for the next event that the reader may read.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(missed) = self.logs.iter_mut().find_map(ReadLog::fetch) {
                return Event::default().event("missed").data(json!({ "count": missed }).to_string());
            }
            while let Some((event, is_of_tenant)) = self.logs.iter_mut().find_map(ReadLog::next_unsent) {
                if self.may_read(&event.audience, is_of_tenant) {
                    return Event::default().id(self.event_id()).event(&event.name).data(&event.data);
                }
            }
            let changes = self.logs.iter_mut().map(|log| Box::pin(log.changes.changed()));
            // Cannot fail, because this reader owns the logs.
            if select_all(changes).await.0.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The position of the reader in each log: the id of an event, which the reader sends back as `Last-Event-ID`.
    fn event_id(&self) -> String {
        let positions = self.logs.iter().map(|log| log.log.format_id(log.last_seen.unwrap_or(0)));
        positions.collect::<Vec<_>>().join(ID_SEPARATOR)
    }

    /// Whether the reader may read an event for `audience`. `is_of_tenant` says which log the event is in.
    fn may_read(&self, audience: &Audience, is_of_tenant: bool) -> bool {
        let is_operator = Right::Operate.is_held_by(&self.principal);
        // Each event of a server is in the log of the world that runs it. If the member has a server of their own with
        // the name of a tenant's server, only operators may read about the tenant's server.
        let has_server = |name: &str| {
            self.world.may_read_about(name, &self.principal) && !(is_of_tenant && self.world.runs_for_one_member(name))
        };
        match audience {
            Audience::All => true,
            Audience::Approval(_) | Audience::Question(_) => audience.may_answer(&self.principal),
            // The numbers of calls in the tenant's world mean other calls than those in the member's own world, where
            // the calls of the member are made.
            Audience::Caller(caller) => is_operator || (!is_of_tenant && caller.is_same(&self.principal)),
            Audience::Server(name) => is_operator || has_server(name),
            // Operators get the full event, whose audience is `Operators`. This is its copy without the server's
            // output.
            Audience::Members(name) => !is_operator && has_server(name),
            Audience::Operators => is_operator,
        }
    }
}

impl ReadLog {
    fn new(log: &Arc<EventLog>, last_event_id: Option<&str>) -> Self {
        let last_seen = match last_event_id {
            Some(id) => id.split(ID_SEPARATOR).find_map(|part| log.parse_id(part)),
            None => Some(log.newest()),
        };
        Self { log: Arc::clone(log), changes: log.watch(), last_seen, unsent: VecDeque::new(), is_of_tenant: false }
    }

    /// Fetches the new events, unless earlier ones still wait to be sent. Returns how many events were missed, if any.
    fn fetch(&mut self) -> Option<u64> {
        if !self.unsent.is_empty() {
            return None;
        }
        // Before the events are fetched, so that an event that is logged meanwhile still wakes the reader.
        self.changes.mark_unchanged();
        let UnseenEvents { missed, events } = self.log.events_after(self.last_seen);
        self.unsent = events.into();
        if missed.is_some() {
            // The missed events count as seen, so that they are reported once.
            self.last_seen = Some(self.unsent.front().map_or(0, |first| first.id - 1));
        }
        missed
    }

    /// The next event to send, and whether it is in the log of the tenant's world.
    fn next_unsent(&mut self) -> Option<(Arc<LoggedEvent>, bool)> {
        let event = self.unsent.pop_front()?;
        self.last_seen = Some(event.id);
        Some((event, self.is_of_tenant))
    }
}
