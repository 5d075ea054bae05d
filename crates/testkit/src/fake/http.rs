//! The transport Streamable HTTP of the fake, a scripted MCP server for tests, at `/mcp`. It serves both eras of MCP:
//! legacy (2025-11-25 and older, with sessions) and modern (2026-07-28, with headers that mirror the body).
//!
//! `connection` reads and writes HTTP by hand. A request goes through `stumbles` (faults that answer with something
//! other than MCP), then `mirror` (headers of 2026-07-28) or `sessions` (the legacy era). Its answer is one body
//! (`answers`, `gzip`) or a stream (`events`).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::faults::{Fault, RequestFaults};
use super::options::{AnswerFormat, Eras};
use super::server::{Era, Peer, Request, Server};
use super::wire::{self, Frame, Incoming, Outbox, Refusal, code};

mod answers;
mod connection;
mod events;
mod gzip;
mod mirror;
mod sessions;
mod stumbles;

pub(super) use connection::{Connection, HttpRequest};
pub(super) use events::event;
pub(super) use stumbles::respond_with_fault;

use sessions::{Session, Sessions};

/// What happens to a connection after an answer.
#[derive(Debug)]
pub(super) enum ConnectionAction {
    /// It stays open for the next request.
    Keep,
    /// It is closed in order.
    Close,
    /// It is broken, so that the client sees a reset.
    Reset,
}

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The same endpoint, for `redirect-same`.
const REDIRECT_PATH: &str = "/moved";

/// The state that the connections of one server share.
#[derive(Debug)]
struct Endpoint {
    server: Arc<Server>,
    state: Mutex<State>,
}

/// The state that outlives a single request.
#[derive(Debug)]
struct State {
    sessions: Sessions,
    /// Streams that were cut, and that a client can resume with a GET, by their event id.
    parked_streams: HashMap<String, ParkedStream>,
}

/// The rest of a stream that was cut.
#[derive(Debug)]
struct ParkedStream {
    frames: mpsc::Receiver<Frame>,
    request_faults: RequestFaults,
}

/// Binds a port of 127.0.0.1 and prints the URL as the only line of stdout; then accepts connections forever.
pub(super) async fn serve(server: Arc<Server>) -> io::Result<()> {
    let listener = bind(server.options.port, PATH).await?;
    let state = State { sessions: Sessions::new(&server.options.faults), parked_streams: HashMap::new() };
    let endpoint = Arc::new(Endpoint { server, state: Mutex::new(state) });
    loop {
        let (stream, _) = listener.accept().await?;
        let endpoint = Arc::clone(&endpoint);
        let server = Arc::clone(&endpoint.server);
        server.spawn(async move {
            let mut connection = Connection::new(stream);
            loop {
                match endpoint.answer_one(&mut connection).await {
                    Ok(ConnectionAction::Keep) => {}
                    Ok(ConnectionAction::Reset) => return connection.reset(),
                    Ok(ConnectionAction::Close) | Err(_) => return,
                }
            }
        });
    }
}

/// Binds, and prints `listening http://127.0.0.1:PORT{path}`.
pub(super) async fn bind(port: u16, path: &str) -> io::Result<TcpListener> {
    use std::io::Write as _;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut stdout = io::stdout();
    writeln!(stdout, "listening http://{}{path}", listener.local_addr()?)?;
    stdout.flush()?;
    Ok(listener)
}

impl Endpoint {
    /// Answers one HTTP request.
    async fn answer_one(&self, connection: &mut Connection) -> io::Result<ConnectionAction> {
        let Some(http_request) = connection.read_request().await? else { return Ok(ConnectionAction::Close) };
        if http_request.path != PATH && http_request.path != REDIRECT_PATH {
            return respond_plain_text(connection, 404, "no such page").await;
        }
        match http_request.method.as_str() {
            "POST" => self.post(connection, http_request).await,
            "GET" => self.get(connection, &http_request).await,
            "DELETE" => self.delete(connection, &http_request).await,
            _ => respond_plain_text(connection, 405, "method not allowed").await,
        }
    }

    async fn post(&self, connection: &mut Connection, http_request: HttpRequest) -> io::Result<ConnectionAction> {
        let accept = http_request.header("accept").unwrap_or_default();
        if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
            return respond_plain_text(connection, 406, "accept both application/json and text/event-stream").await;
        }
        match wire::parse(&http_request.body) {
            Incoming::Request { id, method, params } => {
                self.request(connection, http_request, (id, method, params)).await
            }
            Incoming::Notification { method, params } => {
                let session = self.state.lock().sessions.find_for_request(&http_request);
                if let Some(session) = session {
                    self.server.handle_notification(&session.peer, &method, &params);
                } else {
                    self.server.log.received(json!({"method": method, "params": params}));
                }
                respond_accepted(connection).await
            }
            Incoming::Response { id, body } => {
                self.server.handle_response(&id, body);
                respond_accepted(connection).await
            }
            Incoming::Invalid(reason) => respond_plain_text(connection, 400, &reason).await,
        }
    }

    async fn request(
        &self,
        connection: &mut Connection,
        http_request: HttpRequest,
        message: (serde_json::Value, String, serde_json::Value),
    ) -> io::Result<ConnectionAction> {
        let session = self.state.lock().sessions.find_for_request(&http_request);
        let (_, method, _) = &message;
        let is_initialize = method == "initialize";
        let peer = match &session {
            Some(session) => Arc::clone(&session.peer),
            None => Peer::new(format!("http-{}", self.server.unique_number())),
        };
        let (out, frames) = Outbox::new();
        let request = self.server.admit(message, &peer, out, http_request.headers.clone());
        if let Some(action) = respond_with_fault(connection, &self.server, &request, &http_request.path).await? {
            return Ok(action);
        }
        if request.era == Era::Modern {
            if let Err(refusal) = mirror::check(&self.server, &request) {
                return respond_error(connection, 400, &request.id, &refusal).await;
            }
        } else if !is_initialize {
            let error = self.state.lock().sessions.check(&http_request, session.as_deref());
            if let Some(error) = error {
                return error.write_to(connection, &request.id).await;
            }
        }
        let new_session =
            (is_initialize && request.era == Era::Legacy).then(|| self.state.lock().sessions.open(peer)).flatten();
        self.answer(connection, request, frames, new_session).await
    }

    /// Runs the request and writes its answer. `new_session` is the session that the request has opened.
    async fn answer(
        &self,
        connection: &mut Connection,
        request: Request,
        mut frames: mpsc::Receiver<Frame>,
        new_session: Option<Arc<Session>>,
    ) -> io::Result<ConnectionAction> {
        let (id, request_faults, era, peer) =
            (request.id.clone(), request.faults.clone(), request.era, Arc::clone(&request.peer));
        self.server.start(request);
        let session = new_session.as_ref().map(|session| session.id.as_str());
        let stream = events::StreamWriter { server: &self.server, request_faults: &request_faults, session };
        if let Some(retry) = stream.retry_delay() {
            let event = format!("stream-{}", self.server.unique_number());
            // Park the rest before the client gets the event id, because the client may resume immediately.
            self.park(&event, ParkedStream { frames, request_faults: request_faults.clone() });
            return stream.write_cut(connection, &event, retry).await;
        }
        let outcome = if self.server.options.answer_format == AnswerFormat::Sse || events::needs_stream(&request_faults)
        {
            let first_frame = None;
            stream.write_whole(connection, first_frame, &mut frames).await
        } else {
            match next_frame(connection, &mut frames).await {
                Some(Frame::Answer { bytes, status }) => {
                    answers::write(connection, &stream, status, &bytes).await.map(Some)
                }
                Some(Frame::Die(death)) => death.die(),
                Some(first) => stream.write_whole(connection, Some(first), &mut frames).await,
                None => Ok(None),
            }
        };
        // In the modern era, a client cancels a request by closing its stream.
        let client_left = !matches!(outcome, Ok(Some(_)));
        if client_left && era == Era::Modern && self.server.is_running(&peer, &id) {
            self.server.cancel(&peer, &id, "disconnect");
        }
        Ok(outcome?.unwrap_or(ConnectionAction::Close))
    }

    /// Answers a GET: with the stream of a legacy session, or with the rest of a stream that was cut.
    async fn get(&self, connection: &mut Connection, http_request: &HttpRequest) -> io::Result<ConnectionAction> {
        let resumed = http_request.header("last-event-id");
        self.server.log.received(json!({"http": "GET", "last_event_id": resumed}));
        if self.server.options.eras == Eras::Modern {
            return respond_plain_text(connection, 405, "no GET in this revision").await;
        }
        let no_faults = RequestFaults::default();
        let stream = events::StreamWriter { server: &self.server, request_faults: &no_faults, session: None };
        if let Some(event) = resumed {
            return self.resume(connection, &stream, event).await;
        }
        if let Some(status) = self.server.options.faults.number(Fault::RefuseStream) {
            let status = u16::try_from(status).unwrap_or(405);
            return respond_plain_text(connection, status, "no standing stream here").await;
        }
        let (session, error) = {
            let sessions = &mut self.state.lock().sessions;
            let session = sessions.find_for_request(http_request);
            let error = sessions.check(http_request, session.as_deref());
            (session, error)
        };
        if let Some(error) = error {
            return error.write_to(connection, &serde_json::Value::Null).await;
        }
        let (out, mut frames) = Outbox::new();
        // Without a session, which this server does not require, the stream gets a peer of its own.
        let peer = session.map_or_else(|| Peer::new("no session"), |session| Arc::clone(&session.peer));
        let (subscription, first_frame) = (None, None);
        self.server.listen(&peer, out.clone(), subscription);
        stream.begin(connection).await?;
        stream.write_frames(connection, first_frame, &mut frames).await?;
        // Without this second sender, the stream would end when the listener is removed.
        drop(out);
        Ok(ConnectionAction::Close)
    }

    /// Keeps the rest of a stream for a GET with this event id.
    fn park(&self, event: &str, rest: ParkedStream) {
        self.state.lock().parked_streams.insert(event.to_owned(), rest);
    }

    /// Writes the rest of the stream that was cut with this event id, unless its fault demands something else.
    async fn resume(
        &self,
        connection: &mut Connection,
        stream: &events::StreamWriter<'_>,
        event: &str,
    ) -> io::Result<ConnectionAction> {
        let parked = self.state.lock().parked_streams.remove(event);
        let Some(mut parked) = parked else { return respond_plain_text(connection, 404, "no such stream").await };
        if parked.request_faults.has(Fault::SseRefusesResume) {
            self.park(event, parked);
            let status = self.server.options.faults.number(Fault::SseRefusesResume).unwrap_or(405);
            return respond_plain_text(connection, u16::try_from(status).unwrap_or(405), "no stream is resumed here")
                .await;
        }
        stream.begin(connection).await?;
        if parked.request_faults.has(Fault::SseResetLoop) {
            self.park(event, parked);
            return Ok(ConnectionAction::Reset);
        }
        if parked.request_faults.has(Fault::SseEmptyLoop) {
            self.park(event, parked);
            // The empty chunk ends the response.
            connection.write_chunk(b"").await?;
            return Ok(ConnectionAction::Keep);
        }
        let first_frame = None;
        let outcome = stream.write_frames(connection, first_frame, &mut parked.frames).await?;
        if outcome.is_none() {
            self.park(event, parked);
        }
        Ok(outcome.unwrap_or(ConnectionAction::Close))
    }

    async fn delete(&self, connection: &mut Connection, http_request: &HttpRequest) -> io::Result<ConnectionAction> {
        self.server.log.received(json!({"http": "DELETE"}));
        let closed = self.state.lock().sessions.close(http_request);
        match closed {
            _ if self.server.options.eras == Eras::Modern => {
                respond_plain_text(connection, 405, "no DELETE in this revision").await
            }
            true => connection.respond(200, &[], b"").await.map(|()| ConnectionAction::Keep),
            false => respond_plain_text(connection, 404, "no such session").await,
        }
    }
}

/// Returns the next frame; `None` if the client closes the connection before there is one.
async fn next_frame(connection: &mut Connection, frames: &mut mpsc::Receiver<Frame>) -> Option<Frame> {
    tokio::select! {
        frame = frames.recv() => frame,
        () = connection.wait_until_closed() => None,
    }
}

/// Answers with plain text.
pub(super) async fn respond_plain_text(
    connection: &mut Connection,
    status: u16,
    text: &str,
) -> io::Result<ConnectionAction> {
    connection.respond(status, &[("content-type", "text/plain")], text.as_bytes()).await?;
    Ok(ConnectionAction::Keep)
}

/// Answers 202 without a body, as MCP demands for notifications and responses.
pub(super) async fn respond_accepted(connection: &mut Connection) -> io::Result<ConnectionAction> {
    connection.respond(202, &[], b"").await?;
    Ok(ConnectionAction::Keep)
}

/// Answers with a JSON-RPC error.
async fn respond_error(
    connection: &mut Connection,
    status: u16,
    id: &serde_json::Value,
    refusal: &Refusal,
) -> io::Result<ConnectionAction> {
    let body = refusal.answer(id).to_string();
    connection.respond(status, &[("content-type", "application/json")], body.as_bytes()).await?;
    Ok(ConnectionAction::Keep)
}

/// Returns the error that servers of the TypeScript SDK give for a request without a known session.
fn no_valid_session_error() -> Refusal {
    Refusal::new(code::SERVER, "Bad Request: No valid session ID provided")
}
