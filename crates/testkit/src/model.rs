//! A scripted model provider over HTTP, which gives the scripted answers in order and records the requests.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A provider on a port of 127.0.0.1. It ends when this is dropped.
#[derive(Debug)]
pub struct FakeModel {
    address: SocketAddr,
    script: Script,
    _server: JoinSet<()>,
}

/// The state that the test and the server share.
#[derive(Clone, Debug)]
struct Script(Arc<Mutex<ScriptState>>);

#[derive(Debug)]
struct ScriptState {
    /// The answers that the server has not given yet.
    remaining: std::vec::IntoIter<Answer>,
    /// The requests so far.
    requests: Vec<RecordedRequest>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let remaining = answers.into_iter().collect::<Vec<_>>().into_iter();
        Self(Arc::new(Mutex::new(ScriptState { remaining, requests: Vec::new() })))
    }

    /// Records a request, and returns the next answer; `None` after the last one.
    fn next_answer(&self, request: RecordedRequest) -> Option<Answer> {
        let mut state = self.0.lock();
        state.requests.push(request);
        state.remaining.next()
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Path and query.
    pub path: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: String,
}

impl RecordedRequest {
    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(named, _)| named == name).map(|(_, value)| value.as_str())
    }
}

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Bytes>,
    end: End,
}

/// How an answer ends.
#[derive(Clone, Debug)]
enum End {
    /// The body ends normally.
    Complete,
    /// The connection breaks.
    Cut,
    /// The server sends nothing more, and keeps the connection open.
    Silence,
    /// The server sends the same piece forever.
    Endless(Bytes),
}

impl Answer {
    /// Creates an answer with a body of this type.
    #[must_use]
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        Self { status, headers, pieces: vec![body.into()], end: End::Complete }
    }

    /// Creates an answer with a body of JSON.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Creates an answer of events with this data. The server sends each event separately.
    #[must_use]
    pub fn events<'a>(events: impl IntoIterator<Item = &'a str>) -> Self {
        let mut answer = Self::new(200, "text/event-stream", "");
        answer.pieces = events.into_iter().map(|data| format!("data: {data}\n\n").into()).collect();
        answer
    }

    /// Sets a header, in place of an earlier one of this name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(named, _)| named != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Cuts the body into pieces of one byte.
    #[must_use]
    pub fn byte_by_byte(mut self) -> Self {
        let bytes: Vec<u8> = self.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        self.pieces = bytes.into_iter().map(|byte| Bytes::copy_from_slice(&[byte])).collect();
        self
    }

    /// Breaks the connection after the body.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { end: End::Cut, ..self }
    }

    /// Sends nothing after the body, and keeps the connection open.
    #[must_use]
    pub fn stall_after(self) -> Self {
        Self { end: End::Silence, ..self }
    }

    /// Repeats this event forever after the body.
    #[must_use]
    pub fn repeat_forever(self, data: &str) -> Self {
        Self { end: End::Endless(format!("data: {data}\n\n").into()), ..self }
    }

    fn respond(self) -> Response {
        let rest: stream::BoxStream<'static, io::Result<Bytes>> = match self.end {
            End::Complete => stream::empty().boxed(),
            End::Cut => stream::once(async {
                // Let the server send the body first: an error would discard what it has not sent yet.
                tokio::task::yield_now().await;
                Err(io::ErrorKind::ConnectionReset.into())
            })
            .boxed(),
            End::Silence => stream::pending().boxed(),
            End::Endless(piece) => stream::repeat_with(move || Ok(piece.clone())).boxed(),
        };
        let pieces = stream::iter(self.pieces).then(|piece| async {
            // Let the server send the piece before this one, so that each is sent alone.
            tokio::task::yield_now().await;
            Ok::<_, io::Error>(piece)
        });
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(name, value);
        }
        response
            .body(Body::from_stream(pieces.chain(rest)))
            .unwrap_or_else(|error| panic!("a scripted answer is not HTTP: {error}"))
    }
}

impl FakeModel {
    /// Starts a provider that answers the first request with the first answer, and so on. Further requests get a 404.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script::new(answers);
        let listener = match TcpListener::bind(("127.0.0.1", 0)).await {
            Ok(listener) => listener,
            Err(error) => panic!("no port: {error}"),
        };
        let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
        let router = Router::new().fallback(answer).with_state(script.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                panic!("the fake model ended: {error}");
            }
        });
        Self { address, script, _server: server }
    }

    /// The base URL of the provider, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.script.0.lock().requests.clone()
    }

    /// The body of the last request.
    ///
    /// # Panics
    /// When there was none.
    #[must_use]
    pub fn last_body(&self) -> Value {
        match self.script.0.lock().requests.last() {
            Some(request) => request.json(),
            None => panic!("the model has received no request"),
        }
    }
}

async fn answer(State(script): State<Script>, request: Request) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = axum::body::to_bytes(body, 64 * 1024 * 1024).await.unwrap_or_default();
    let request = RecordedRequest { path, headers, body: String::from_utf8_lossy(&body).into_owned() };
    let next = script.next_answer(request);
    let next = next.unwrap_or_else(|| Answer::new(404, "text/plain", "the script has no further answer"));
    Ok(next.respond())
}
