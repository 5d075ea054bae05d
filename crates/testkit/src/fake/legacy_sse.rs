//! HTTP+SSE of 2024-11-05: `GET /sse` opens the stream of a session and names the URL for posts; answers come on the
//! stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::faults::Fault;
use super::http::{After, Exchange, HttpRequest, accepted, bind, event, instead_of_mcp, plain_text};
use super::process::Death;
use super::server::{Peer, Server};
use super::wire::{self, Frame, Incoming, Outbox};

/// The state that all connections share. Each session is a [`Peer`] that listens.
#[derive(Debug)]
struct Endpoint {
    server: Arc<Server>,
}

/// Binds a port and prints it as the only line of stdout; then accepts connections forever.
pub(super) async fn serve(server: Arc<Server>) -> io::Result<()> {
    let listener = bind(server.options.port, "/sse").await?;
    let endpoint = Arc::new(Endpoint { server });
    loop {
        let (stream, _) = listener.accept().await?;
        let endpoint = Arc::clone(&endpoint);
        let server = Arc::clone(&endpoint.server);
        server.spawn(async move {
            let mut exchange = Exchange::new(stream);
            while let Ok(After::Keep) = endpoint.serve_one(&mut exchange).await {}
        });
    }
}

impl Endpoint {
    async fn serve_one(&self, exchange: &mut Exchange) -> io::Result<After> {
        let Some(request) = exchange.next().await? else { return Ok(After::Close) };
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/sse") => self.stream(exchange).await,
            ("POST", "/messages") => self.post(exchange, &request).await,
            (_, "/sse" | "/messages") => plain_text(exchange, 405, "method not allowed").await,
            _ => plain_text(exchange, 404, "no such page").await,
        }
    }

    async fn stream(&self, exchange: &mut Exchange) -> io::Result<After> {
        let id = format!("{:x}", rand::random::<u64>());
        let (out, frames) = Outbox::new();
        let peer = Peer::new(id.clone());
        self.server.listen(&peer, out, None);
        exchange.respond_in_chunks(200, &[("content-type", "text/event-stream")]).await?;
        if !self.server.has(Fault::NoEndpoint) {
            let own = format!("/messages?session={id}");
            let endpoint = self.server.options.faults.text(Fault::EndpointCross).unwrap_or(&own);
            exchange.chunk(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes()).await?;
        }
        let outcome = pump(exchange, frames).await;
        self.server.remove_listeners(&id);
        outcome.map(|()| After::Close)
    }

    async fn post(&self, exchange: &mut Exchange, request: &HttpRequest) -> io::Result<After> {
        let id = request.query.strip_prefix("session=").unwrap_or_default();
        let Some((peer, out)) = self.server.find_listener(id) else {
            return plain_text(exchange, 404, "no such session").await;
        };
        match wire::parse(&request.body) {
            Incoming::Request { id, method, params } => {
                let admitted = self.server.admit((id, method, params), &peer, out, request.headers.clone());
                if let Some(after) = instead_of_mcp(exchange, &self.server, &admitted, &request.path).await? {
                    return Ok(after);
                }
                self.server.start(admitted);
            }
            Incoming::Notification { method, params } => {
                let wait = self.server.options.faults.number(Fault::SlowNotices).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                self.server.notice(&peer, &method, &params);
            }
            Incoming::Response { id, body } => self.server.answered(&id, body),
            Incoming::Invalid(reason) => return plain_text(exchange, 400, &reason).await,
        }
        accepted(exchange).await
    }
}

/// Writes events until the client leaves.
async fn pump(exchange: &mut Exchange, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            () = exchange.gone() => None,
        };
        match frame {
            Some(Frame::Message(bytes) | Frame::Answer { bytes, .. }) => exchange.chunk(&event(&bytes)).await?,
            Some(Frame::Torn(bytes)) => {
                exchange.chunk(&[b"data: ", bytes.as_slice()].concat()).await?;
                Death::STATUS_7.die();
            }
            Some(Frame::Die(death)) => death.die(),
            Some(Frame::End | Frame::CloseStdout) | None => return Ok(()),
        }
    }
}
