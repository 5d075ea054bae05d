//! Forwards a client's messages to a daemon. If the daemon ends, another daemon, or this process, continues the
//! client's conversation.

use std::{cell::RefCell, future::Future, io, pin::Pin, time::Duration};

use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Stdin, Stdout, stdin,
        stdout,
    },
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use super::{
    GatewayArgs, connect_to_daemon,
    conversation::{Conversation, is_response_to},
    serve_alone,
};
use crate::{
    context::Context,
    error::{Exit, Failure, with_causes},
};

/// How long responses may still take after the client has closed its end.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for the next daemon before this process serves the client itself: longer than `daemon restart`
/// usually takes.
const NEXT_DAEMON_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look for the next daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the restart of the conversation with the next backend may take.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of one message, in either direction.
const MAX_LINE_BYTES: usize = 128 * 1024 * 1024;

/// The most bytes that are buffered between the client and the gateway in this process.
const PIPE_BYTES: usize = 64 * 1024;

/// The backend that answers the client: a daemon, or a gateway in this process.
struct Backend<'a> {
    reader: BufReader<Pin<Box<dyn AsyncRead + 'a>>>,
    writer: Pin<Box<dyn AsyncWrite + 'a>>,
    /// The gateway in this process, which answers only while this future is polled. Pending forever for a daemon.
    local_gateway: Pin<Box<dyn Future<Output = Result<Exit, Failure>> + 'a>>,
}

impl<'a> Backend<'a> {
    fn daemon(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let local_gateway = Box::pin(std::future::pending());
        Self { reader: BufReader::new(Box::pin(reader)), writer: Box::pin(writer), local_gateway }
    }

    fn this_process(args: &'a GatewayArgs, context: &'a Context) -> Self {
        let (client_end, gateway_end) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(client_end);
        let (gateway_reader, gateway_writer) = tokio::io::split(gateway_end);
        let local_gateway = Box::pin(serve_alone(args, context, gateway_reader, gateway_writer));
        Self { reader: BufReader::new(Box::pin(reader)), writer: Box::pin(writer), local_gateway }
    }
}

/// The client, and the conversation so far.
struct ClientSide {
    input: BufReader<Stdin>,
    /// The part of the client's current line that was read so far.
    partial_line: Vec<u8>,
    output: Stdout,
    /// In a cell, because both directions of [`Self::forward`] note their lines in it.
    conversation: RefCell<Conversation>,
}

/// Why [`ClientSide::forward`] has ended.
enum ForwardEnd {
    /// The client has closed its end, and has all its responses or has waited [`RESPONSE_TIMEOUT`] for them.
    Client,
    /// The backend has ended.
    Backend,
    /// This process was the backend, and has ended with this result.
    LocalGateway(Result<Exit, Failure>),
}

/// Forwards the client's messages to `daemon`, and each time that a backend ends, to the next one, until the client
/// ends.
///
/// # Errors
/// When the client cannot be read from or written to, or when this process cannot take the daemon's place either.
pub(super) async fn share(daemon: UnixStream, context: &Context) -> Result<Exit, Failure> {
    // Only a gateway without options shares a daemon.
    let args = GatewayArgs::default();
    let conversation = RefCell::default();
    let mut client =
        ClientSide { input: BufReader::new(stdin()), partial_line: Vec::new(), output: stdout(), conversation };
    let mut backend = Backend::daemon(daemon);
    loop {
        match client.forward(&mut backend).await.map_err(|error| client_lost(&error))? {
            ForwardEnd::Client => return Ok(Exit::Ok),
            ForwardEnd::LocalGateway(result) => return result,
            ForwardEnd::Backend => {}
        }
        drop(backend);
        let errors = client.conversation.borrow_mut().fail_unanswered();
        client.send(&errors).await.map_err(|error| client_lost(&error))?;
        context.screen.warning("the toolrack daemon has ended: waiting for the next one");
        backend = client.next_backend(&args, context).await?;
        let changes = client.conversation.borrow_mut().list_change_notifications();
        client.send(&changes).await.map_err(|error| client_lost(&error))?;
    }
}

fn client_lost(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, "CLIENT_LOST", with_causes(error))
}

impl ClientSide {
    /// Sends messages of this process to the client.
    ///
    /// # Errors
    /// When the client is gone.
    async fn send(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        for line in lines {
            write_line(&mut self.output, line).await?;
        }
        Ok(())
    }

    /// Returns the next daemon that continues the conversation, or this process if no daemon does so in time.
    async fn next_backend<'a>(&mut self, args: &'a GatewayArgs, context: &'a Context) -> Result<Backend<'a>, Failure> {
        let deadline = Instant::now() + NEXT_DAEMON_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(stream) = connect_to_daemon(context).await {
                let mut daemon = Backend::daemon(stream);
                if self.try_continue_with(&mut daemon).await {
                    context.screen.note("another toolrack daemon continues");
                    return Ok(daemon);
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        context.screen.note("no toolrack daemon is up: the servers are started here");
        let mut this_process = Backend::this_process(args, context);
        let Backend { reader, writer, local_gateway } = &mut this_process;
        let result = tokio::select! {
            result = timeout(BACKEND_TIMEOUT, self.restart_conversation(reader, writer)) => result,
            result = local_gateway.as_mut() => return Err(result.err().unwrap_or_else(takeover_failure)),
        };
        match result {
            Ok(Ok(())) => Ok(this_process),
            _ => Err(takeover_failure()),
        }
    }

    /// Restarts the conversation with `backend`. Returns whether that succeeded in time.
    async fn try_continue_with(&mut self, backend: &mut Backend<'_>) -> bool {
        matches!(
            timeout(BACKEND_TIMEOUT, self.restart_conversation(&mut backend.reader, &mut backend.writer)).await,
            Ok(Ok(()))
        )
    }

    /// Restarts the conversation with the next backend, which then has the state that the client expects.
    async fn restart_conversation(
        &mut self,
        reader: &mut (impl AsyncBufRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let beginning = self.conversation.borrow_mut().initialize_to_repeat();
        if let Some((initialize, id)) = beginning {
            write_line(writer, &initialize).await?;
            let mut line = Vec::new();
            loop {
                if !next_line(reader, &mut line).await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if is_response_to(&id, &line) {
                    break;
                }
                line.clear();
            }
        }
        let lines = self.conversation.borrow_mut().lines_to_repeat();
        for line in lines {
            write_line(writer, &line).await?;
        }
        Ok(())
    }

    /// Forwards all lines in both directions, until the client or the backend ends.
    ///
    /// # Errors
    /// When the client is gone.
    async fn forward(&mut self, backend: &mut Backend<'_>) -> io::Result<ForwardEnd> {
        let Self { input, partial_line, output, conversation } = self;
        let Backend { reader, writer, local_gateway } = backend;
        let conversation = &*conversation;
        let to_client = async {
            let mut line = Vec::new();
            // An error counts as the end too: the backend is gone in either case.
            while let Ok(true) = next_line(reader, &mut line).await {
                let is_for_client = conversation.borrow_mut().note_from_backend(&line);
                if is_for_client {
                    write_line(output, &line).await?;
                }
                line.clear();
            }
            io::Result::Ok(())
        };
        let to_backend = async {
            while next_line(input, partial_line).await? {
                let line = std::mem::take(partial_line);
                conversation.borrow_mut().note_from_client(&line);
                if write_line(writer, &line).await.is_err() {
                    // `to_client` still forwards what the backend has sent, and then ends the `select!`.
                    return std::future::pending().await;
                }
            }
            // A failure means that the backend is gone, which `to_client` notices.
            let _ = writer.shutdown().await;
            io::Result::Ok(())
        };
        tokio::pin!(to_client);
        tokio::select! {
            result = &mut to_client => result.map(|()| ForwardEnd::Backend),
            result = local_gateway.as_mut() => Ok(ForwardEnd::LocalGateway(result)),
            result = to_backend => {
                result?;
                let remaining_responses = async {
                    tokio::select! {
                        _ = to_client => {}
                        _ = local_gateway.as_mut() => {}
                    }
                };
                // Responses that take longer are not forwarded.
                let _ = timeout(RESPONSE_TIMEOUT, remaining_responses).await;
                Ok(ForwardEnd::Client)
            }
        }
    }
}

/// Returns the failure for a conversation that neither another daemon nor this process continues.
fn takeover_failure() -> Failure {
    Failure::new(
        Exit::Unreachable,
        "DAEMON_LOST",
        "the daemon has ended, and this process could not continue in its place",
    )
    .hint("restart the MCP client, or run `toolrack up` before it")
}

/// Appends the next line of the input to `line`, without the line break. Returns `false` if the input ends before a
/// line break. If this future is dropped, another call with the same `line` continues where it stopped.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(false);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > MAX_LINE_BYTES {
            let message = format!("a message of more than {MAX_LINE_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        line.extend_from_slice(part);
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            return Ok(true);
        }
    }
}

async fn write_line(writer: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    writer.write_all(line).await?;
    writer.write_all(b"\n").await?;
    writer.flush().await
}
