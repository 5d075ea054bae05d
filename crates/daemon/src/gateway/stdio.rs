//! A client over newline-delimited JSON, of either era, or of both in turn.

use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    time::timeout,
};
use toolrack_host::{ClientTransport, Era, Principal};

use super::{
    Gateway,
    exchange::{Opened, Out},
    http::{answer, handle_notification, modern},
    message::{self, Id, Incoming},
    methods::{Caller, ClientRequest},
    news::{self, News},
    refusal::Refusal,
    session::Session,
};

/// Messages that wait to be written. Senders wait while it is full.
const OUTBOX_MESSAGES: usize = 64;

/// How long running requests continue after their client has closed its end, and then how long the writing of their
/// answers may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a connection over stdio ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The client cannot be read from or written to.
    #[error("the connection to the client broke: {0}")]
    Io(#[from] io::Error),
    /// A line is too long to be a message.
    #[error("the client sent a message of more than {limit} bytes (body_bytes)")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
}

/// Serves one client until it has closed its end. Its user is the one who runs this process: the streams are theirs.
pub(super) async fn serve(
    gateway: &Gateway,
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin,
) -> Result<(), StdioError> {
    let bounds = &gateway.0.options.bounds;
    let session = Session::new(Principal::LOCAL, gateway.0.views.default_view(), gateway.0.news.subscribe(), bounds);
    let (outbox, messages) = mpsc::channel(OUTBOX_MESSAGES);
    let connection = Connection { gateway, session, outbox };
    let limit = bounds.body_bytes;
    let mut writing = pin!(write(messages, writer));
    let ended = tokio::select! {
        ended = connection.read(BufReader::new(reader), limit) => ended,
        ended = &mut writing => return ended.map_err(StdioError::Io),
        () = gateway.0.stop.cancelled() => Ok(()),
    };
    // Answers that are ready are still written.
    drop(connection);
    let _ = timeout(CLOSE_TIMEOUT, writing).await;
    ended
}

async fn write(mut messages: mpsc::Receiver<Bytes>, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writer.write_all(&message).await?;
        writer.write_all(b"\n").await?;
        if messages.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

struct Connection<'g> {
    gateway: &'g Gateway,
    session: Arc<Session>,
    outbox: mpsc::Sender<Bytes>,
}

impl Connection<'_> {
    /// Reads messages, and runs the requests among them, until the client has closed its end.
    async fn read(&self, mut reader: impl AsyncBufRead + Send + Unpin, limit: usize) -> Result<(), StdioError> {
        let mut requests = FuturesUnordered::new();
        let mut news = self.session.open_stream(|| self.gateway.0.news.subscribe()).news;
        let mut line = Vec::new();
        loop {
            tokio::select! {
                has_line = next_line(&mut reader, &mut line, limit) => {
                    if !has_line? {
                        // A client that sends all its requests and closes its end still gets its answers.
                        let rest = async { while requests.next().await.is_some() {} };
                        let _ = timeout(CLOSE_TIMEOUT, rest).await;
                        return Ok(());
                    }
                    let body = Bytes::from(std::mem::take(&mut line));
                    if let Some(id) = self.receive(&body).await {
                        requests.push(self.handle(id, body));
                    }
                }
                Some(()) = requests.next() => {}
                Some(received) = news::next(&mut news) => self.notify(received).await,
                uris = self.session.subscribed.updated() => {
                    for uri in uris {
                        self.say(news::updated(&uri, None)).await;
                    }
                }
            }
        }
    }

    async fn say(&self, message: Bytes) {
        // A send fails only once the writer has ended; the connection ends then anyway.
        let _ = self.outbox.send(self.gateway.0.concealed(message)).await;
    }

    async fn refuse(&self, id: Option<&Id>, refusal: &Refusal) {
        self.say(message::error(id, refusal)).await;
    }

    /// Sends notifications of changes. A client of the older era gets all of them, and one of 2026-07-28 those to which it
    /// has subscribed.
    async fn notify(&self, received: Vec<News>) {
        if self.session.agreed.get().is_none() {
            return;
        }
        for news in received.iter().filter(|news| news.concerns(&self.session.view, &self.session.principal)) {
            if let Some(message) = self.session.notification(news) {
                self.say(message).await;
            }
        }
    }

    /// Handles a message, unless it is a request: then it returns the id, and the caller has to handle the request.
    async fn receive(&self, body: &Bytes) -> Option<Id> {
        if body.trim_ascii().is_empty() {
            return None;
        }
        match message::read(body) {
            Ok(Incoming::Request { id, .. }) => return Some(id),
            Ok(Incoming::Notification { method, params }) => {
                handle_notification(&self.session, &method, params.map_or("{}", |params| params.get()));
            }
            Ok(Incoming::Response { id, outcome }) => self.session.answered(&id, answer(outcome)),
            Err((id, refusal)) => self.refuse(id.as_ref(), &refusal).await,
        }
        None
    }

    /// Handles a request, unless the client cancels it.
    async fn handle(&self, id: Id, body: Bytes) {
        let running = match self.session.running(&id) {
            Ok(running) => running,
            Err(refusal) => return self.refuse(Some(&id), &refusal).await,
        };
        let answer = running.token.run_until_cancelled(self.run(&id, &body)).await;
        drop(running);
        match answer {
            Some(Ok(result)) => self.say(message::response(&id, &result)).await,
            Some(Err(refusal)) => self.refuse(Some(&id), &refusal).await,
            None => {}
        }
    }

    async fn run(&self, id: &Id, body: &Bytes) -> Result<Bytes, Refusal> {
        let Ok(Incoming::Request { method, params, .. }) = message::read(body) else {
            return Err(Refusal::invalid_request("not a request"));
        };
        let request = ClientRequest { method: &method, params: params.map_or("{}", |params| params.get()), body };
        let caller = match modern(request.params) {
            Some(abilities) => self.caller(Era::Modern, abilities?),
            None if method == "initialize" => return self.gateway.greet(&self.session, request.params),
            None if method == "server/discover" => return Err(Refusal::malformed_meta("_meta lacks the version")),
            None => match self.session.agreed.get() {
                Some(agreed) => self.caller(Era::Legacy, agreed.abilities),
                None if method == "ping" => self.caller(Era::Legacy, toolrack_host::Abilities::NONE),
                None => return Err(Refusal::invalid_request("begin with initialize, or send _meta with each request")),
            },
        };
        let mut exchange = match self.gateway.open(&caller, id, request).await? {
            Opened::Answered(result) => return Ok(result),
            Opened::Exchange(exchange) => exchange,
        };
        loop {
            match exchange.next().await {
                Out::Message(message) => self.say(message).await,
                Out::Answer(answer) => return answer,
            }
        }
    }

    fn caller(&self, era: Era, abilities: toolrack_host::Abilities) -> Caller {
        let (view, session) = (self.session.view.clone(), Some(self.session.clone()));
        Caller {
            principal: self.session.principal.clone(),
            era,
            abilities,
            view,
            session,
            over: ClientTransport::Stdio,
        }
    }
}

/// Reads up to the end of a line; returns whether there was one. Cancel-safe.
async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> Result<bool, StdioError> {
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(false);
        }
        let end = memchr::memchr(b'\n', available);
        let part = end.map_or(available, |end| &available[..end]);
        if line.len() + part.len() > limit {
            return Err(StdioError::TooLarge { limit });
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}
