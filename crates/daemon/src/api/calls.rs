//! Runs and cancels calls of tools that come over the control API. The world that answers a request is a host with its
//! configuration, questions and events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use toolrack_host::{Call, Principal, ToolOutcome, TraceContext, mcp::Progress, principal::Kind};
use utoipa::ToSchema;

use super::{ApiError, Body, Path, SentBy, WorldExtension, cancel_response, concealed};
use crate::world::{RunningWork, WorkKind, World};

/// The maximum number of progress reports that wait for a slow reader. Further ones are dropped.
const MAX_PROGRESS: usize = 1_000;

/// The longest time-out that a caller can request.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCall {
    /// `server/tool`, or the name that a model sees.
    tool: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// How long the server may be silent.
    timeout_ms: Option<u64>,
    /// The caller's name for this call, with which the caller can cancel it. Two calls at the same time must have
    /// different names.
    id: Option<String>,
    /// A user has seen the arguments and wants them sent: the call runs without another question, unless a rule forbids
    /// it.
    #[serde(default)]
    approved: bool,
}

/// The result of a tool. Its content is MCP's.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolResult {
    server: String,
    tool: String,
    /// Whether the tool reports a failure.
    is_error: bool,
    text: String,
    #[schema(value_type = Vec<Object>)]
    content: Value,
    #[schema(value_type = Option<Object>)]
    structured: Option<Value>,
    warnings: Vec<String>,
    /// Whether `text` is only a part.
    truncated: bool,
    #[schema(value_type = Vec<Object>)]
    artifacts: Value,
    duration_ms: u64,
}

/// Calls a tool and waits for its result. With `Accept: text/event-stream`, the answer is a stream of events:
/// `progress` as it comes, then `result` or `error`. A caller that disconnects cancels the call.
#[utoipa::path(post, path = "/api/v1/calls", tag = "calls", request_body = NewCall,
    responses((status = 200, body = ToolResult), (status = 403, body = ApiError), (status = 404, body = ApiError),
        (status = 409, body = ApiError), (status = 422, body = ApiError), (status = 424, body = ApiError),
        (status = 502, body = ApiError)))]
pub(super) async fn call(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    headers: HeaderMap,
    Body(request): Body<NewCall>,
) -> Result<Response, ApiError> {
    let name = request.id.as_ref().map(|id| work_name(caller.principal(), id));
    let running_call = world.work_in_progress.begin(WorkKind::Call, name)?;
    let trace = TraceContext::from_fields(|name| headers.get(name)?.to_str().ok());
    if request.approved && caller.principal().kind() != Kind::Person {
        let message = "only a person approves a call, and this token is a service's";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "NOT_A_PERSON", message)
            .hint("leave out `approved`: then a user is asked"));
    }
    let caller = match &request.id {
        Some(id) => caller.with_request(id.as_str()),
        None => caller,
    };
    let call = call_from(request).caller(caller).trace(trace);
    let accept_header = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if !accept_header.is_some_and(|accept_header| accept_header.contains("text/event-stream")) {
        return Ok(Json(run_call(&world, running_call, call).await?).into_response());
    }
    let (progress_sender, progress_reports) = mpsc::channel(MAX_PROGRESS);
    // When the channel is full, a slow reader misses reports.
    let call = call.on_progress(Arc::new(move |progress: Progress| drop(progress_sender.try_send(progress))));
    Ok(stream_call(world, running_call, call, progress_reports).into_response())
}

/// The name under which a running call or turn is found. It contains the principal, so that two members of a tenant can
/// choose the same `id`, and cannot cancel each other's calls.
pub(super) fn work_name(principal: &Principal, id: &str) -> String {
    format!("{} {id}", principal.key())
}

/// Makes the call that the request asks for.
fn call_from(request: NewCall) -> Call {
    let mut call = Call::from_map(request.tool, request.arguments);
    if let Some(timeout) = request.timeout_ms {
        call = call.timeout(Duration::from_millis(timeout).min(MAX_TIMEOUT));
    }
    if request.approved {
        call = call.approved();
    }
    call
}

/// The progress of the call, then its outcome. A reader that stops reading drops the call.
fn stream_call(
    world: Arc<World>,
    running_call: RunningWork,
    call: Call,
    progress_reports: mpsc::Receiver<Progress>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let report_world = Arc::clone(&world);
    let to_event = move |report: Progress| make_concealed_event(&report_world, "progress", &report);
    let outcome_event = async move {
        match run_call(&world, running_call, call).await {
            Ok(outcome) => make_concealed_event(&world, "result", &outcome),
            Err(error) => make_concealed_event(&world, "error", &error),
        }
    };
    let events = reports_then_last_event(progress_reports, to_event, outcome_event.boxed());
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::default())
}

/// Streams each report of a call when it comes, and then `last_event`.
fn reports_then_last_event<R, T>(
    reports: mpsc::Receiver<R>,
    to_event: impl Fn(R) -> T,
    last_event: BoxFuture<'static, T>,
) -> impl Stream<Item = T> {
    /// The state of the call. `Ended` has the last event, until the reports that came together with it are sent.
    enum State<T> {
        Running(BoxFuture<'static, T>),
        Ended(Option<T>),
    }
    stream::unfold((reports, State::Running(last_event), to_event), async |(mut reports, mut state, to_event)| {
        if let State::Running(last_event) = &mut state {
            let ended = tokio::select! {
                biased;
                Some(report) = reports.recv() => Err(report),
                event = last_event => Ok(event),
            };
            match ended {
                Ok(event) => state = State::Ended(Some(event)),
                Err(report) => return Some((to_event(report), (reports, state, to_event))),
            }
        }
        let next_event = match (reports.try_recv(), &mut state) {
            (Ok(report), _) => Some(to_event(report)),
            (Err(_), State::Ended(event)) => event.take(),
            (Err(_), State::Running(_)) => None,
        };
        Some((next_event?, (reports, state, to_event)))
    })
}

pub(super) fn make_event(name: &str, data: &impl Serialize) -> Event {
    // Serialization cannot fail: the data of events has only texts as keys.
    Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

/// Makes an event, and replaces secrets in its texts by `***`.
fn make_concealed_event(world: &World, name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).data(concealed::to_concealed_json(world, data))
}

/// Runs the call until it ends or is cancelled by name.
async fn run_call(world: &World, running_call: RunningWork, call: Call) -> Result<ToolOutcome, ApiError> {
    tokio::select! {
        outcome = world.host.call(call) => Ok(outcome?),
        () = running_call.cancelled() => {
            Err(ApiError::new(StatusCode::CONFLICT, "CANCELLED", "the call was cancelled"))
        }
    }
}

/// Cancels the call to which the same caller gave this name.
#[utoipa::path(delete, path = "/api/v1/calls/{id}", tag = "calls", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError)))]
pub(super) async fn cancel(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    cancel_response(world.work_in_progress.cancel(WorkKind::Call, &work_name(&principal, &id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_call_comes_after_all_of_its_reports() {
        let (sender, reports) = mpsc::channel(8);
        for report in 1..=3 {
            sender.try_send(report).unwrap();
        }
        let end = async move {
            sender.try_send(4).unwrap();
            9
        };
        let events: Vec<i32> = reports_then_last_event(reports, |report| report, end.boxed()).collect().await;
        assert_eq!(events, [1, 2, 3, 4, 9]);
    }
}
