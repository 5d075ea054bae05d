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

/// What the connections share. A session is a peer that listens.
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
            while let Ok(After::Keep) = endpoint.one(&mut exchange).await {}
        });
    }
}

impl Endpoint {
    async fn one(&self, exchange: &mut Exchange) -> io::Result<After> {
        let Some(asked) = exchange.next().await? else { return Ok(After::Close) };
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/sse") => self.stream(exchange).await,
            ("POST", "/messages") => self.post(exchange, &asked).await,
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
        self.server.leaves(&id);
        outcome.map(|()| After::Close)
    }

    async fn post(&self, exchange: &mut Exchange, asked: &HttpRequest) -> io::Result<After> {
        let id = asked.query.strip_prefix("session=").unwrap_or_default();
        let Some((peer, out)) = self.server.listening(id) else {
            return plain_text(exchange, 404, "no such session").await;
        };
        match wire::parse(&asked.body) {
            Incoming::Request { id, method, params } => {
                let request = self.server.admit((id, method, params), &peer, out, asked.headers.clone());
                if let Some(after) = instead_of_mcp(exchange, &self.server, &request, &asked.path).await? {
                    return Ok(after);
                }
                self.server.start(request);
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
                Death::Exit(7).die();
            }
            Some(Frame::Die(death)) => death.die(),
            Some(Frame::End | Frame::CloseStdout) | None => return Ok(()),
        }
    }
}
