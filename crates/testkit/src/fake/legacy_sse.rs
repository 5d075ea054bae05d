//! The transport HTTP+SSE of 2024-11-05 of the fake server: `GET /sse` opens the stream of a session and names the URL
//! for posts; answers come on the stream. A *peer* is one client, here one session.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::faults::Fault;
use super::http::{
    Connection, ConnectionAction, HttpRequest, bind, event, respond_accepted, respond_plain_text, respond_with_fault,
};
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
            let mut connection = Connection::new(stream);
            while let Ok(ConnectionAction::Keep) = endpoint.serve_one(&mut connection).await {}
        });
    }
}

impl Endpoint {
    async fn serve_one(&self, connection: &mut Connection) -> io::Result<ConnectionAction> {
        let Some(request) = connection.read_request().await? else { return Ok(ConnectionAction::Close) };
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/sse") => self.stream(connection).await,
            ("POST", "/messages") => self.post(connection, &request).await,
            (_, "/sse" | "/messages") => respond_plain_text(connection, 405, "method not allowed").await,
            _ => respond_plain_text(connection, 404, "no such page").await,
        }
    }

    async fn stream(&self, connection: &mut Connection) -> io::Result<ConnectionAction> {
        let id = format!("{:x}", rand::random::<u64>());
        let (out, frames) = Outbox::new();
        let peer = Peer::new(id.clone());
        let subscription = None;
        self.server.listen(&peer, out, subscription);
        connection.respond_in_chunks(200, &[("content-type", "text/event-stream")]).await?;
        if !self.server.has(Fault::NoEndpoint) {
            let own_endpoint = format!("/messages?session={id}");
            let endpoint = self.server.options.faults.text(Fault::EndpointCross).unwrap_or(&own_endpoint);
            connection.write_chunk(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes()).await?;
        }
        let outcome = pump(connection, frames).await;
        self.server.remove_listeners(&id);
        outcome.map(|()| ConnectionAction::Close)
    }

    async fn post(&self, connection: &mut Connection, request: &HttpRequest) -> io::Result<ConnectionAction> {
        let id = request.query.strip_prefix("session=").unwrap_or_default();
        let Some((peer, out)) = self.server.find_listener(id) else {
            return respond_plain_text(connection, 404, "no such session").await;
        };
        match wire::parse(&request.body) {
            Incoming::Request { id, method, params } => {
                let admitted = self.server.admit((id, method, params), &peer, out, request.headers.clone());
                if let Some(action) = respond_with_fault(connection, &self.server, &admitted, &request.path).await? {
                    return Ok(action);
                }
                self.server.start(admitted);
            }
            Incoming::Notification { method, params } => {
                let wait = self.server.options.faults.number(Fault::SlowNotices).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                self.server.handle_notification(&peer, &method, &params);
            }
            Incoming::Response { id, body } => self.server.handle_response(&id, body),
            Incoming::Invalid(reason) => return respond_plain_text(connection, 400, &reason).await,
        }
        respond_accepted(connection).await
    }
}

/// Writes events until the client leaves.
async fn pump(connection: &mut Connection, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            () = connection.wait_until_closed() => None,
        };
        match frame {
            Some(Frame::Message(bytes) | Frame::Answer { bytes, .. }) => connection.write_chunk(&event(&bytes)).await?,
            Some(Frame::Torn(bytes)) => {
                connection.write_chunk(&[b"data: ", bytes.as_slice()].concat()).await?;
                Death::STATUS_7.die();
            }
            Some(Frame::Die(death)) => death.die(),
            Some(Frame::End | Frame::CloseStdout) | None => return Ok(()),
        }
    }
}
