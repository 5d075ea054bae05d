//! Streamable HTTP of both eras, at `/mcp`.
//!
//! `exchange` reads and writes HTTP by hand. A request goes through `stumbles` (faults that answer with something other
//! than MCP), then `mirror` (headers of 2026-07-28) or `sessions` (the legacy era). Its answer is one body (`answers`,
//! `gzip`) or a stream (`events`).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::faults::{Fault, Struck};
use super::options::{Answers, Eras};
use super::server::{Era, Peer, Request, Server};
use super::wire::{self, Frame, Incoming, Outbox, Refusal, code};

mod answers;
mod events;
mod exchange;
mod gzip;
mod mirror;
mod sessions;
mod stumbles;

pub(super) use events::event;
pub(super) use exchange::{Exchange, HttpRequest};
pub(super) use stumbles::instead_of_mcp;

use sessions::{Session, Sessions};

/// The state of a connection after an answer.
#[derive(Debug)]
pub(super) enum After {
    Keep,
    Close,
    Reset,
}

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The same endpoint, for `redirect-same`.
const MOVED: &str = "/moved";

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
    parked: HashMap<String, Parked>,
}

/// The rest of a stream that was cut.
#[derive(Debug)]
struct Parked {
    frames: mpsc::Receiver<Frame>,
    struck: Struck,
}

/// Binds a port of 127.0.0.1 and prints the URL as the only line of stdout; then accepts connections forever.
pub(super) async fn serve(server: Arc<Server>) -> io::Result<()> {
    let listener = bind(server.options.port, PATH).await?;
    let state = State { sessions: Sessions::new(&server.options.faults), parked: HashMap::new() };
    let endpoint = Arc::new(Endpoint { server, state: Mutex::new(state) });
    loop {
        let (stream, _) = listener.accept().await?;
        let endpoint = Arc::clone(&endpoint);
        let server = Arc::clone(&endpoint.server);
        server.spawn(async move {
            let mut exchange = Exchange::new(stream);
            loop {
                match endpoint.answer_one(&mut exchange).await {
                    Ok(After::Keep) => {}
                    Ok(After::Reset) => return exchange.reset(),
                    Ok(After::Close) | Err(_) => return,
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
    async fn answer_one(&self, exchange: &mut Exchange) -> io::Result<After> {
        let Some(http_request) = exchange.next().await? else { return Ok(After::Close) };
        if http_request.path != PATH && http_request.path != MOVED {
            return plain_text(exchange, 404, "no such page").await;
        }
        match http_request.method.as_str() {
            "POST" => self.post(exchange, http_request).await,
            "GET" => self.get(exchange, &http_request).await,
            "DELETE" => self.delete(exchange, &http_request).await,
            _ => plain_text(exchange, 405, "method not allowed").await,
        }
    }

    async fn post(&self, exchange: &mut Exchange, http_request: HttpRequest) -> io::Result<After> {
        let accept = http_request.header("accept").unwrap_or_default();
        if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
            return plain_text(exchange, 406, "accept both application/json and text/event-stream").await;
        }
        match wire::parse(&http_request.body) {
            Incoming::Request { id, method, params } => {
                self.request(exchange, http_request, (id, method, params)).await
            }
            Incoming::Notification { method, params } => {
                let session = self.state.lock().sessions.of_request(&http_request);
                if let Some(session) = session {
                    self.server.notice(&session.peer, &method, &params);
                } else {
                    self.server.log.seen(json!({"method": method, "params": params}));
                }
                accepted(exchange).await
            }
            Incoming::Response { id, body } => {
                self.server.answered(&id, body);
                accepted(exchange).await
            }
            Incoming::Invalid(reason) => plain_text(exchange, 400, &reason).await,
        }
    }

    async fn request(
        &self,
        exchange: &mut Exchange,
        http_request: HttpRequest,
        message: (serde_json::Value, String, serde_json::Value),
    ) -> io::Result<After> {
        let session = self.state.lock().sessions.of_request(&http_request);
        let is_initialize = message.1 == "initialize";
        let peer = match &session {
            Some(session) => Arc::clone(&session.peer),
            None => Peer::new(format!("http-{}", self.server.unique())),
        };
        let (out, frames) = Outbox::new();
        let request = self.server.admit(message, &peer, out, http_request.headers.clone());
        if let Some(after) = instead_of_mcp(exchange, &self.server, &request, &http_request.path).await? {
            return Ok(after);
        }
        if request.era == Era::Modern {
            if let Err(refusal) = mirror::check(&self.server, &request) {
                return refuse(exchange, 400, &request.id, &refusal).await;
            }
        } else if !is_initialize {
            let error = self.state.lock().sessions.check(&http_request, session.as_deref());
            if let Some(error) = error {
                return error.write_to(exchange, &request.id).await;
            }
        }
        let new_session =
            (is_initialize && request.era == Era::Legacy).then(|| self.state.lock().sessions.open(peer)).flatten();
        self.answer(exchange, request, frames, new_session).await
    }

    /// Runs the request and writes its answer. `new_session` is the session that the request has opened.
    async fn answer(
        &self,
        exchange: &mut Exchange,
        request: Request,
        mut frames: mpsc::Receiver<Frame>,
        new_session: Option<Arc<Session>>,
    ) -> io::Result<After> {
        let (id, struck, era, peer) =
            (request.id.clone(), request.struck.clone(), request.era, Arc::clone(&request.peer));
        self.server.start(request);
        let session = new_session.as_ref().map(|session| session.id.as_str());
        let stream = events::Stream { server: &self.server, struck: &struck, session };
        if let Some(retry) = stream.retry_delay() {
            let event = format!("stream-{}", self.server.unique());
            // Park the rest before the client gets the event id, because the client may resume immediately.
            self.park(&event, Parked { frames, struck: struck.clone() });
            return stream.cut(exchange, &event, retry).await;
        }
        let outcome = if self.server.options.answers == Answers::Sse || events::needs_stream(&struck) {
            stream.whole(exchange, None, &mut frames).await
        } else {
            match next(exchange, &mut frames).await {
                Some(Frame::Answer { bytes, status }) => {
                    answers::write(exchange, &stream, status, &bytes).await.map(Some)
                }
                Some(Frame::Die(death)) => death.die(),
                Some(first) => stream.whole(exchange, Some(first), &mut frames).await,
                None => Ok(None),
            }
        };
        // A client that closes the stream cancels the request, but only in the modern era.
        let client_left = !matches!(outcome, Ok(Some(_)));
        if client_left && era == Era::Modern && self.server.is_running(&peer, &id) {
            self.server.cancel(&peer, &id, "disconnect");
        }
        Ok(outcome?.unwrap_or(After::Close))
    }

    /// Answers a GET: with the stream of a legacy session, or with the rest of a stream that was cut.
    async fn get(&self, exchange: &mut Exchange, http_request: &HttpRequest) -> io::Result<After> {
        let resumed = http_request.header("last-event-id");
        self.server.log.seen(json!({"http": "GET", "last_event_id": resumed}));
        if self.server.options.eras == Eras::Modern {
            return plain_text(exchange, 405, "no GET in this revision").await;
        }
        let no_faults = Struck::default();
        let stream = events::Stream { server: &self.server, struck: &no_faults, session: None };
        if let Some(event) = resumed {
            return self.resume(exchange, &stream, event).await;
        }
        if let Some(status) = self.server.options.faults.number(Fault::RefuseStream) {
            let status = u16::try_from(status).unwrap_or(405);
            return plain_text(exchange, status, "no standing stream here").await;
        }
        let (session, error) = {
            let sessions = &mut self.state.lock().sessions;
            let session = sessions.of_request(http_request);
            let error = sessions.check(http_request, session.as_deref());
            (session, error)
        };
        if let Some(error) = error {
            return error.write_to(exchange, &serde_json::Value::Null).await;
        }
        let (out, mut frames) = Outbox::new();
        let peer = session.map_or_else(|| Peer::new("no session"), |session| Arc::clone(&session.peer));
        self.server.listen(&peer, out.clone(), None);
        stream.open(exchange).await?;
        stream.run(exchange, None, &mut frames).await?;
        drop(out);
        Ok(After::Close)
    }

    /// Keeps the rest of a stream for a GET with this event id.
    fn park(&self, event: &str, rest: Parked) {
        self.state.lock().parked.insert(event.to_owned(), rest);
    }

    /// Writes the rest of the stream that was cut with this event id, unless its fault demands something else.
    async fn resume(&self, exchange: &mut Exchange, stream: &events::Stream<'_>, event: &str) -> io::Result<After> {
        let parked = self.state.lock().parked.remove(event);
        let Some(mut parked) = parked else { return plain_text(exchange, 404, "no such stream").await };
        if parked.struck.by(Fault::SseRefusesResume) {
            self.park(event, parked);
            let status = self.server.options.faults.number(Fault::SseRefusesResume).unwrap_or(405);
            return plain_text(exchange, u16::try_from(status).unwrap_or(405), "no stream is resumed here").await;
        }
        stream.open(exchange).await?;
        if parked.struck.by(Fault::SseResetLoop) {
            self.park(event, parked);
            return Ok(After::Reset);
        }
        if parked.struck.by(Fault::SseEmptyLoop) {
            self.park(event, parked);
            exchange.chunk(b"").await?;
            return Ok(After::Keep);
        }
        let outcome = stream.run(exchange, None, &mut parked.frames).await?;
        if outcome.is_none() {
            self.park(event, parked);
        }
        Ok(outcome.unwrap_or(After::Close))
    }

    async fn delete(&self, exchange: &mut Exchange, http_request: &HttpRequest) -> io::Result<After> {
        self.server.log.seen(json!({"http": "DELETE"}));
        let closed = self.state.lock().sessions.close(http_request);
        match closed {
            _ if self.server.options.eras == Eras::Modern => {
                plain_text(exchange, 405, "no DELETE in this revision").await
            }
            true => exchange.respond(200, &[], b"").await.map(|()| After::Keep),
            false => plain_text(exchange, 404, "no such session").await,
        }
    }
}

/// Returns the next frame; `None` if the client closes the connection before there is one.
async fn next(exchange: &mut Exchange, frames: &mut mpsc::Receiver<Frame>) -> Option<Frame> {
    tokio::select! {
        frame = frames.recv() => frame,
        () = exchange.gone() => None,
    }
}

/// Answers with plain text.
pub(super) async fn plain_text(exchange: &mut Exchange, status: u16, text: &str) -> io::Result<After> {
    exchange.respond(status, &[("content-type", "text/plain")], text.as_bytes()).await?;
    Ok(After::Keep)
}

/// Answers 202 without a body, as MCP demands for notifications and responses.
pub(super) async fn accepted(exchange: &mut Exchange) -> io::Result<After> {
    exchange.respond(202, &[], b"").await?;
    Ok(After::Keep)
}

/// Answers with a JSON-RPC error.
async fn refuse(exchange: &mut Exchange, status: u16, id: &serde_json::Value, refusal: &Refusal) -> io::Result<After> {
    let body = refusal.answer(id).to_string();
    exchange.respond(status, &[("content-type", "application/json")], body.as_bytes()).await?;
    Ok(After::Keep)
}

/// Returns the error that servers of the TypeScript SDK give for a request without a known session.
fn no_valid_session() -> Refusal {
    Refusal::new(code::SERVER, "Bad Request: No valid session ID provided")
}
