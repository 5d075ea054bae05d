//! Serves a client of the gateway (one MCP server in front of all others) over newline-delimited JSON. The client may
//! speak either era (2026-07-28, or 2025-11-25 and older), or both in turn.

use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::{Either, join_all},
    stream::FuturesUnordered,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    time::timeout,
};
use toolrack_host::{ClientTransport, Era, Principal};

use super::{
    Gateway,
    exchange::{Outgoing, StartedRequest},
    http::modern_client,
    incoming::{Batch, BatchedRequest, client_answer, handle_notification},
    message::{self, Id, Incoming},
    methods::{ClientCaller, ClientRequest},
    news::{self, News},
    refusal::Refusal,
    session::{ClientInfo, RunningRequest, Session},
};

/// How many messages may wait to be written. Beyond this number, their senders wait.
const OUTBOX_MESSAGES: usize = 64;

/// How long running requests may continue after their client has closed its end of the connection. Afterwards, writing
/// their answers may take as long again.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a connection over stdio ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The connection cannot be read or written.
    #[error("the connection to the client broke: {0}")]
    Io(#[from] io::Error),
    /// The client sent a line that is too long.
    #[error("the client sent a message of more than {limit} bytes (body_bytes)")]
    TooLarge {
        /// The maximum size of a message, in bytes.
        limit: usize,
    },
}

/// Serves one client until it has closed its end of the connection. Its principal is the user of the machine, who runs
/// this process and owns its streams.
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
    let mut write_future = pin!(write_messages(messages, writer));
    let result = tokio::select! {
        result = connection.serve_messages(BufReader::new(reader), limit) => result,
        result = &mut write_future => return result.map_err(StdioError::Io),
        () = gateway.0.stop.cancelled() => Ok(()),
    };
    // Dropping the connection closes the outbox, so that `write_future` ends once all answers in it are written.
    drop(connection);
    // What the client does not read in time is lost.
    let _ = timeout(CLOSE_TIMEOUT, write_future).await;
    result
}

/// Writes messages, each on a line of its own, until all senders are dropped.
async fn write_messages(mut messages: mpsc::Receiver<Bytes>, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writer.write_all(&message).await?;
        writer.write_all(b"\n").await?;
        if messages.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

/// A client over stdio.
struct Connection<'g> {
    gateway: &'g Gateway,
    session: Arc<Session>,
    outbox: mpsc::Sender<Bytes>,
}

impl Connection<'_> {
    /// Reads messages, and runs the requests among them, until the client has closed its end.
    async fn serve_messages(
        &self,
        mut reader: impl AsyncBufRead + Send + Unpin,
        limit: usize,
    ) -> Result<(), StdioError> {
        let mut requests = FuturesUnordered::new();
        // The backlog of a new session has no messages yet, only news.
        let mut news = self.session.open_stream(|| self.gateway.0.news.subscribe()).backlog.news;
        let mut line = Vec::new();
        loop {
            tokio::select! {
                has_line = next_line(&mut reader, &mut line, limit) => {
                    if !has_line? {
                        // A client that sends all its requests and closes its end still gets its answers.
                        let all_answered = async { while requests.next().await.is_some() {} };
                        // Requests that take longer are cancelled when `requests` is dropped.
                        let _ = timeout(CLOSE_TIMEOUT, all_answered).await;
                        return Ok(());
                    }
                    let body = Bytes::from(std::mem::take(&mut line));
                    if message::is_batch(&body) && self.session.may_batch() {
                        requests.push(Either::Right(self.handle_batch(Batch::receive(&self.session, &body))));
                    } else if let Some((id, running_request)) = run_beside(&mut requests, self.receive(&body)).await {
                        requests.push(Either::Left(self.handle(id, body, running_request)));
                    }
                }
                Some(()) = requests.next() => {}
                Some(received) = news::next(&mut news) => run_beside(&mut requests, self.notify(received)).await,
                uris = self.session.subscriptions.until_updated() => {
                    for uri in uris {
                        let message = news::resource_updated(&uri, /* subscription */ None);
                        run_beside(&mut requests, self.send(message)).await;
                    }
                }
            }
        }
    }

    /// Sends a message to the client, without secrets.
    async fn send(&self, message: Bytes) {
        // This fails only once the writer has ended, and then the connection ends anyway.
        let _ = self.outbox.send(self.gateway.0.concealed(message)).await;
    }

    async fn refuse(&self, id: Option<&Id>, refusal: &Refusal) {
        self.send(message::error(id, refusal)).await;
    }

    /// Sends notifications of changes to a client that has sent `initialize`. A client of 2026-07-28 gets the
    /// notifications to which it has subscribed, in answer to its `subscriptions/listen`.
    async fn notify(&self, received_news: Vec<News>) {
        if self.session.client_info.get().is_none() {
            return;
        }
        for news in received_news.iter().filter(|news| news.concerns(&self.session.view, &self.session.principal)) {
            if let Some(message) = self.session.notification(news) {
                self.send(message).await;
            }
        }
    }

    /// Handles a message other than a request. Returns the id of a request, which the caller has to handle. A request
    /// counts as running from now on, because the next message may cancel it.
    async fn receive(&self, body: &Bytes) -> Option<(Id, RunningRequest)> {
        if body.trim_ascii().is_empty() {
            return None;
        }
        match message::read(body) {
            Ok(Incoming::Request { id, .. }) => match self.session.start_request(&id) {
                Ok(running_request) => return Some((id, running_request)),
                Err(refusal) => self.refuse(Some(&id), &refusal).await,
            },
            Ok(Incoming::Notification { method, params }) => {
                handle_notification(&self.session, &method, params.text());
            }
            Ok(Incoming::Response { id, outcome }) => self.session.accept_answer(&id, client_answer(outcome)),
            Err((id, refusal)) => self.refuse(id.as_ref(), &refusal).await,
        }
        None
    }

    /// Runs a request and sends its answer, unless the client cancels the request.
    async fn handle(&self, id: Id, body: Bytes, running_request: RunningRequest) {
        if let Some(answer) = self.answer(&id, &body, running_request).await {
            self.send(answer).await;
        }
    }

    /// Runs the requests of a batch at the same time, and sends their answers in one array when all have ended.
    async fn handle_batch(&self, received: Result<Batch, Refusal>) {
        let Batch { requests, errors } = match received {
            Ok(batch) => batch,
            Err(refusal) => return self.refuse(None, &refusal).await,
        };
        let answers = requests.into_iter().map(async |BatchedRequest { id, message, running_request }| {
            self.answer(&id, &message, running_request).await
        });
        let answers = join_all(answers).await.into_iter().flatten();
        let answers: Vec<Bytes> = answers.chain(errors).collect();
        if !answers.is_empty() {
            self.send(message::batch(&answers)).await;
        }
    }

    /// Runs a request and returns its answer; `None` if the client cancels the request.
    async fn answer(&self, id: &Id, body: &Bytes, running_request: RunningRequest) -> Option<Bytes> {
        let answer = running_request.token.run_until_cancelled(self.run(id, body)).await?;
        Some(match answer {
            Ok(result) => message::response(id, &result),
            Err(refusal) => message::error(Some(id), &refusal),
        })
    }

    /// Runs a request, and sends what the client gets before the answer. Returns the answer.
    async fn run(&self, id: &Id, body: &Bytes) -> Result<Bytes, Refusal> {
        let Ok(Incoming::Request { method, params, .. }) = message::read(body) else {
            return Err(Refusal::invalid_request("not a request"));
        };
        let request = ClientRequest { method: &method, params };
        let caller = match modern_client(params.text()) {
            Some(client) => self.caller(Era::Modern, client?),
            None if method == "initialize" => return self.gateway.negotiate(&self.session, params.text()),
            None if method == "server/discover" => return Err(Refusal::malformed_meta("_meta lacks the version")),
            None => match self.session.client_info.get() {
                Some(client) => self.caller(Era::Legacy, client.clone()),
                None if method == "ping" => self.caller(Era::Legacy, ClientInfo::default()),
                None => return Err(Refusal::invalid_request("begin with initialize, or send _meta with each request")),
            },
        };
        let mut exchange = match self.gateway.begin_exchange(&caller, id, request).await? {
            StartedRequest::Answered(result) => return Ok(result),
            StartedRequest::Exchange(exchange) => exchange,
        };
        loop {
            match exchange.next().await {
                Outgoing::Message(message) => self.send(message).await,
                Outgoing::Answer(answer) => return answer,
            }
        }
    }

    /// The caller of a request whose client says `client` about itself. If that has no name, the name in `initialize`
    /// counts.
    fn caller(&self, era: Era, client: ClientInfo) -> ClientCaller {
        let name_of_session = || self.session.client_info.get()?.name.clone();
        let client = ClientInfo { name: client.name.or_else(name_of_session), ..client };
        let (view, session) = (self.session.view.clone(), Some(self.session.clone()));
        ClientCaller {
            principal: self.session.principal.clone(),
            era,
            client,
            view,
            session,
            transport: ClientTransport::Stdio,
        }
    }
}

/// Runs `work` to its end, and `requests` meanwhile. Both send messages into the outbox, which gives its free capacity
/// to the senders in turn. A request that is not polled would keep the capacity for which `work` waits, forever.
async fn run_beside<T>(requests: &mut FuturesUnordered<impl Future<Output = ()>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            output = &mut work => return output,
            Some(()) = requests.next() => {}
        }
    }
}

/// Reads up to the end of a line, and appends the text to `line`, without the line break. Returns `false` at the end of
/// the input, even if the last line has begun and has no line break. Cancel-safe: what was read stays in `line`.
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
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::json;
    use tokio::time::Instant;
    use toolrack_host::Host;

    use super::*;
    use crate::gateway::{
        GatewayOptions,
        protocol_names::{META_CAPABILITIES, META_VERSION, MODERN_VERSION},
    };

    /// The requests beyond `calls_per_session` are refused while the answers to the others wait for the outbox.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_thousands_of_requests_at_once_gets_an_answer_to_each() {
        let host = Host::builder().build();
        let gateway = Gateway::new(host.clone(), GatewayOptions::default());
        let mut input = String::new();
        for id in 0..2_000 {
            writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).unwrap();
        }
        let mut output = Vec::new();
        let served = timeout(Duration::from_secs(60), gateway.serve_stdio(input.as_bytes(), &mut output)).await;
        served.expect("the gateway makes no more progress").unwrap();
        assert_eq!(output.iter().filter(|byte| **byte == b'\n').count(), 2_000);
        host.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_next_message_cancels_does_not_go_on() {
        let host = Host::builder().build();
        let gateway = Gateway::new(host.clone(), GatewayOptions::default());
        let mut input = String::new();
        for id in 0..32 {
            // A request that has no end of its own.
            let params = json!({
                "notifications": {},
                "_meta": { META_VERSION: MODERN_VERSION, META_CAPABILITIES: {} },
            });
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params });
            let cancelled = json!({ "requestId": id });
            let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
            writeln!(input, "{request}\n{cancel}").unwrap();
        }
        let (began, mut output) = (Instant::now(), Vec::new());
        gateway.serve_stdio(input.as_bytes(), &mut output).await.unwrap();
        assert!(began.elapsed() < CLOSE_TIMEOUT, "a cancelled request still ran when the client had closed its end");
        host.shutdown().await;
    }
}
