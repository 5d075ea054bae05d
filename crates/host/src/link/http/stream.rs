//! Reads event streams. An event stream may be the answer to a POST, or the standing stream on which a server of the
//! legacy era (MCP 2025-11-25 and older) sends its own messages. In the legacy era, a stream that breaks is resumed.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::HeaderValue;
use reqwest::Response;
use tokio::{sync::oneshot, task::coop::consume_budget, time::sleep};

use crate::{
    link::{
        bounds::Bound,
        error::LinkError,
        framing::{
            envelope::peek,
            sse::{Event, SseError, SseParser},
        },
        http::{HttpTransport, MediaType, Outgoing, body::AnswerSource, media_type},
        inbound::MessageSink,
        message::{OutgoingRequest, RawAnswer, for_each_message},
    },
    spec::Era,
};

/// The shortest wait between two connections, even if the server asks for less.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait between two connections, even if the server asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The progress of a stream, across its reconnects.
#[derive(Debug)]
struct Position {
    /// The id of the last event, to resume after it.
    last_event_id: Option<HeaderValue>,
    /// How long the server asks to wait before a reconnect.
    retry_wait: Duration,
    /// The number of connections since the last event.
    connections_without_event: u32,
    reconnects_left: u32,
}

impl Position {
    fn new(reconnects: u32) -> Self {
        Self {
            last_event_id: None,
            retry_wait: SHORTEST_WAIT,
            connections_without_event: 0,
            reconnects_left: reconnects,
        }
    }

    /// Updates the position from a stream that has ended: after which event to resume, and how long to wait first.
    fn update_from(&mut self, parser: &SseParser) {
        if let Some(id) = parser.last_event_id() {
            self.last_event_id = HeaderValue::from_bytes(id.as_bytes()).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = parser.retry() {
            self.retry_wait = Duration::from_millis(retry).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        }
    }

    /// Waits before a reconnect: as long as the server asked, and twice as long after each connection without an event.
    /// Returns `false` at once if no reconnect is left.
    async fn wait_to_reconnect(&mut self) -> bool {
        if self.reconnects_left == 0 {
            return false;
        }
        self.reconnects_left -= 1;
        // Doubling more than 8 times would change nothing: by then, even the shortest wait exceeds the longest wait.
        let wait = self.retry_wait.saturating_mul(1 << self.connections_without_event.min(8)).min(LONGEST_WAIT);
        self.connections_without_event += 1;
        sleep(wait).await;
        true
    }
}

/// The events of one response body.
pub(crate) struct Events {
    response: Response,
    parser: SseParser,
    ready: VecDeque<Result<Event, SseError>>,
    bound: CurrentBound,
}

/// Returns the current bound of an event.
pub(crate) type CurrentBound = Arc<dyn Fn() -> Bound + Send + Sync>;

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl Events {
    fn new(response: Response, bound: CurrentBound) -> Self {
        Self { response, parser: SseParser::new(bound().bytes), ready: VecDeque::new(), bound }
    }

    /// Returns the next event; `None` once the body has ended or broken off.
    ///
    /// # Errors
    /// [`EventError`], which concerns only that event.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, EventError> {
        loop {
            // Yield: a chunk holds many events, and a flood of them would starve other tasks.
            consume_budget().await;
            if let Some(event) = self.ready.pop_front() {
                return event.map(Some).map_err(|error| EventError::from_sse(error, (self.bound)()));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => {
                    self.parser.set_limit((self.bound)().bytes);
                    self.parser.push(&chunk, &mut self.ready);
                }
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }
}

impl HttpTransport {
    /// Opens an event stream by GET, from its beginning.
    pub(crate) async fn open_stream(&self, bound: CurrentBound) -> Result<Events, LinkError> {
        let reconnects = 0;
        let response = self.get_stream(&Position::new(reconnects)).await?;
        Ok(Events::new(response, bound))
    }

    /// Reads the answer from the event stream of a POST. If the stream breaks, resumes it if the era and the server
    /// allow that; if not, fails at once.
    pub(super) async fn streamed_answer(&self, response: Response, request: &OutgoingRequest) -> RawAnswer {
        let mut position = Position::new(self.0.spec.sse_max_reconnects);
        let bound = self.0.bounds.answer_to(request.method);
        let (mut response, mut unreadable_event_error) = (response, None);
        loop {
            let mut events = Events::new(response, Arc::new(move || bound));
            loop {
                let data = match events.next().await {
                    Ok(None) => break,
                    Ok(Some(event)) => {
                        position.connections_without_event = 0;
                        if event.data.is_empty() || !is_message(&event) {
                            continue;
                        }
                        Bytes::from(event.data)
                    }
                    Err(EventError::NotUtf8(data)) => data,
                    Err(EventError::TooLarge(error)) => return Err(error),
                };
                if let Some(answer) = self.find_answer(&data, request, AnswerSource::Event) {
                    return answer.map_err(into_invalid_event);
                }
                // Skip an event that is no message, as stdio skips such a line: the answer may be in the next event.
                if let Err(bad_message) = peek(&data) {
                    unreadable_event_error = Some(LinkError::InvalidEvent { why: bad_message.to_string() });
                }
            }
            position.update_from(&events.parser);
            response = self.resume(&mut position).await.map_err(|error| match error {
                // The event that could not be read probably was the answer.
                LinkError::Broken { .. } => unreadable_event_error.take().unwrap_or(error),
                error => error,
            })?;
        }
    }

    /// Opens a broken stream again, after its last event.
    async fn resume(&self, position: &mut Position) -> Result<Response, LinkError> {
        let broken_error = |why: &str| LinkError::Broken { why: why.into() };
        let is_resumable = self.0.session_headers.load().era == Some(Era::Legacy);
        if !is_resumable || position.last_event_id.is_none() {
            return Err(broken_error("the event stream ended before the answer"));
        }
        while position.wait_to_reconnect().await {
            match self.get_stream(position).await {
                Ok(response) => return Ok(response),
                // The server had already accepted the original request, so it may have executed it.
                Err(LinkError::SessionNotFound { .. }) => {
                    return Err(LinkError::SessionNotFound { not_executed: false });
                }
                Err(error @ LinkError::NeedsAuth { .. }) => return Err(error),
                // The server would refuse the next attempt as well.
                Err(error) if is_permanent(&error) => {
                    return Err(broken_error(&format!(
                        "the event stream ended before the answer, and cannot be resumed: {error}"
                    )));
                }
                Err(_) => {}
            }
        }
        Err(broken_error("the event stream ended before the answer, and sse_max_reconnects is spent"))
    }

    /// Opens an event stream by GET, after the last event of `position`.
    async fn get_stream(&self, position: &Position) -> Result<Response, LinkError> {
        let response = self.0.send(&Outgoing::Stream { last_event: position.last_event_id.as_ref() }).await?;
        let response = self.0.check_status(response).await?;
        match media_type(response.headers()) {
            MediaType::Events => Ok(response),
            _ => Err(LinkError::protocol("the answer to GET is not an event stream")),
        }
    }

    /// Keeps the stream open on which a legacy server sends its own messages. The stream is optional: the host can use
    /// a server that has no such stream, or whose stream keeps breaking. Notifies `first_try_done` after the first try,
    /// even if that try failed.
    pub(super) async fn keep_standing_stream(&self, first_try_done: oneshot::Sender<()>, sink: &Arc<dyn MessageSink>) {
        let mut position = Position::new(self.0.spec.sse_max_reconnects);
        let (mut first_try_done, mut was_open) = (Some(first_try_done), false);
        loop {
            let response = self.get_stream(&position).await;
            if let Some(first_try_done) = first_try_done.take() {
                // This fails if the caller no longer waits.
                let _ = first_try_done.send(());
            }
            match response {
                Ok(response) => {
                    was_open = true;
                    self.handle_events(response, &mut position, sink).await;
                }
                Err(error) if !was_open && !may_open_later(&error) => return,
                Err(error) => {
                    // The stream was open before: an error about the session now concerns all other requests as well.
                    if was_open {
                        self.close_if_required(&error);
                    }
                    if self.0.connection_end.is_closed() {
                        return;
                    }
                }
            }
            if !position.wait_to_reconnect().await {
                return self.0.inbound.warn("the standing event stream broke too often and is given up");
            }
        }
    }

    /// Handles the messages of the standing stream until it ends.
    async fn handle_events(&self, response: Response, position: &mut Position, sink: &Arc<dyn MessageSink>) {
        let bound = self.0.bounds.message();
        let mut events = Events::new(response, Arc::new(move || bound));
        loop {
            match events.next().await {
                Ok(None) => break,
                Ok(Some(event)) => {
                    // A stream that works gets all its reconnects back.
                    position.connections_without_event = 0;
                    position.reconnects_left = self.0.spec.sse_max_reconnects;
                    self.handle_event(&event, sink);
                }
                Err(EventError::NotUtf8(data)) => {
                    self.0.inbound.observe_received(&data);
                    self.0.inbound.note_noise("an event that is not an MCP message", &data);
                }
                Err(EventError::TooLarge(error)) => self.0.inbound.warn(error.to_string()),
            }
        }
        position.update_from(&events.parser);
    }

    /// Handles the messages in an event of the standing stream.
    fn handle_event(&self, event: &Event, sink: &Arc<dyn MessageSink>) {
        if event.data.is_empty() || !is_message(event) {
            return;
        }
        self.0.inbound.observe_received(event.data.as_bytes());
        for_each_message(event.data.as_bytes(), |message| match message {
            // The standing stream belongs to no request.
            Ok(message) => self.0.inbound.accept(message, None, sink),
            Err(_) => self.0.inbound.note_noise("an event that is not an MCP message", event.data.as_bytes()),
        });
    }
}

/// Returns whether the standing stream may open later, although it failed with this error now. Any other error counts
/// as a sign that the server has no such stream: servers do not always use the right status to say so.
fn may_open_later(error: &LinkError) -> bool {
    matches!(
        error,
        LinkError::Unreachable { .. }
            | LinkError::Broken { .. }
            | LinkError::RateLimited { .. }
            | LinkError::NoToken { .. }
            | LinkError::Http { status: 502..=504, .. }
    )
}

/// Returns whether another try to resume a stream is useless after this error: the server would refuse again.
fn is_permanent(error: &LinkError) -> bool {
    match error {
        LinkError::Http { status, .. } => (400..=499).contains(status) && *status != 408,
        LinkError::Rpc(_) | LinkError::Protocol { .. } | LinkError::Redirect { .. } | LinkError::Refused(_) => true,
        _ => false,
    }
}

/// An event that cannot be read. The stream itself continues.
pub(crate) enum EventError {
    /// The data of the event, which is not UTF-8.
    NotUtf8(Bytes),
    /// The event is too large, or one of its lines does not end.
    TooLarge(LinkError),
}

impl EventError {
    fn from_sse(error: SseError, bound: Bound) -> Self {
        let code = error.code();
        match error {
            SseError::InvalidData { data } => Self::NotUtf8(data.into()),
            SseError::EventTooLarge { seen, .. } => {
                Self::TooLarge(bound.too_large(code, "the data of an event", seen as u64))
            }
            SseError::EndlessLine { seen, .. } => {
                Self::TooLarge(bound.too_large(code, "a line without an end in the event stream", seen as u64))
            }
        }
    }
}

/// Converts a parse error of the answer into one that names the event.
fn into_invalid_event(error: LinkError) -> LinkError {
    match error {
        LinkError::Unparsable { why } => LinkError::InvalidEvent { why },
        error => error,
    }
}

/// Returns whether an event is of the type that carries messages.
fn is_message(event: &Event) -> bool {
    event.event.as_deref().is_none_or(|name| name.is_empty() || name == "message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Setting;

    #[tokio::test]
    async fn a_flood_of_events_leaves_time_for_other_tasks() {
        let response = Response::from(http::Response::new("data: {}\n\n".repeat(10_000)));
        let mut events =
            Events::new(response, Arc::new(|| Bound { bytes: 1 << 20, setting: Setting::MaxMessageBytes }));
        let (mut events_seen, mut turns) = (0, 0);
        let flood = async {
            while let Ok(Some(_)) = events.next().await {
                events_seen += 1;
            }
        };
        let other_task = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = flood => {}
            () = other_task => {}
        }
        assert_eq!(events_seen, 10_000);
        assert!(turns > 10, "the other task had {turns} turns");
    }
}
