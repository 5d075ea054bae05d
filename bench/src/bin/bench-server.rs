//! A fast server, written by hand:
//! `bench-server stdio|http [--tools N] [--page N] [--start-delay-ms N] [--messages N] [--port N]
//! [--era legacy|modern]`.
//!
//! It does no more than the protocol requires, on one thread. `http` prints its URL and then serves. `GET /accepted`
//! returns the number of connections that the server has accepted; the connection of such a request does not count.

#![expect(clippy::print_stdout, reason = "prints the address on which it listens")]

use std::{
    convert::Infallible,
    env,
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};
use toolrack_bench::{
    AnyError,
    fast_server::{Offer, Request},
};

const USAGE: &str = "usage: bench-server stdio|http [--tools N] [--page N] [--start-delay-ms N] [--messages N] \
    [--port N] [--era legacy|modern]";

struct Options {
    offer: Offer,
    start_delay: Duration,
    /// The number of messages after which the server exits; over stdio only.
    messages: usize,
    port: u16,
}

fn main() -> Result<(), AnyError> {
    let mut words = env::args().skip(1);
    let kind = words.next().unwrap_or_default();
    let mut options = Options { offer: Offer::default(), start_delay: Duration::ZERO, messages: usize::MAX, port: 0 };
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match option.as_str() {
            "--tools" => options.offer.tools = value.parse()?,
            "--page" => options.offer.page = value.parse()?,
            "--start-delay-ms" => options.start_delay = Duration::from_millis(value.parse()?),
            "--messages" => options.messages = value.parse()?,
            "--era" => options.offer.is_modern = value == "modern",
            "--port" => options.port = value.parse()?,
            _ => return Err(format!("unknown option `{option}`; {USAGE}").into()),
        }
    }
    thread::sleep(options.start_delay);
    match kind.as_str() {
        "stdio" => stdio(&options).map_err(Into::into),
        "http" => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(http(options)),
        _ => Err(USAGE.into()),
    }
}

/// Answers all requests of one read with one write.
fn stdio(options: &Options) -> io::Result<()> {
    let mut messages_left = options.messages;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let (mut pending, mut out) = (Vec::with_capacity(1 << 16), Vec::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = stdin.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&buffer[..read]);
        let mut from = 0;
        while let Some(length) = memchr::memchr(b'\n', &pending[from..]) {
            let line = &pending[from..from + length];
            from += length + 1;
            if messages_left == 0 {
                return Ok(());
            }
            messages_left -= 1;
            let Ok(request) = serde_json::from_slice::<Request<'_>>(line) else { continue };
            let answer = request.answer(options.offer);
            for message in answer.events.iter().chain(&answer.response) {
                out.extend_from_slice(message.as_bytes());
                out.push(b'\n');
            }
        }
        pending.drain(..from);
        if !out.is_empty() {
            stdout.write_all(&out)?;
            stdout.flush()?;
            out.clear();
        }
    }
}

async fn http(options: Options) -> Result<(), AnyError> {
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let mut connections = JoinSet::new();
    let accepted = Arc::new(AtomicU64::new(0));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            // Forget a connection that has ended.
            Some(_) = connections.join_next() => continue,
        };
        stream.set_nodelay(true)?;
        accepted.fetch_add(1, Ordering::Relaxed);
        let (offer, accepted) = (options.offer, accepted.clone());
        let serve = service_fn(move |request| answer(request, offer, accepted.clone()));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), serve));
    }
}

async fn answer(
    request: http::Request<Incoming>,
    offer: Offer,
    accepted: Arc<AtomicU64>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let empty = |status| response(status, None, Bytes::new());
    if request.uri().path() == "/accepted" {
        // The connection of this request does not count.
        let before = accepted.fetch_sub(1, Ordering::Relaxed) - 1;
        return Ok(response(StatusCode::OK, Some("text/plain"), before.to_string().into()));
    }
    if request.method() != Method::POST {
        // The server has no standing stream, and no session to end.
        let ends_session = request.method() == Method::DELETE;
        return Ok(empty(if ends_session { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED }));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let body = body.to_bytes();
    let Ok(request) = serde_json::from_slice::<Request<'_>>(&body) else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let is_new = request.method == Some("initialize");
    let answer = request.answer(offer);
    let mut response = match answer.response {
        None => empty(StatusCode::ACCEPTED),
        Some(message) if answer.events.is_empty() => response(StatusCode::OK, Some("application/json"), message.into()),
        Some(message) => {
            let mut events = String::new();
            for event in answer.events.iter().chain([&message]) {
                events.extend(["data: ", event, "\n\n"]);
            }
            response(StatusCode::OK, Some("text/event-stream"), events.into())
        }
    };
    if is_new {
        response.headers_mut().insert("mcp-session-id", HeaderValue::from_static("fast"));
    }
    Ok(response)
}

fn response(status: StatusCode, kind: Option<&'static str>, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}
