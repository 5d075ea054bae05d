//! A client in front of a daemon that may end: another daemon, or this process, continues the client's conversation.

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
    GatewayArgs, alone,
    conversation::{Conversation, answers},
    running,
};
use crate::{
    error::{Exit, Failure, with_causes},
    wire::World,
};

/// How long responses may take to come once the client asks nothing any more.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for the next daemon before this process does the work itself: longer than `daemon restart` usually
/// takes.
const NEXT_DAEMON_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look for the next daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the next backend may take to begin a conversation.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of one message, in either direction.
const MAX_LINE: usize = 128 * 1024 * 1024;

/// The most bytes that are buffered between the client and the gateway in this process.
const PIPE_BYTES: usize = 64 * 1024;

/// The backend that answers the client.
struct Behind<'a> {
    answers: BufReader<Pin<Box<dyn AsyncRead + 'a>>>,
    asks: Pin<Box<dyn AsyncWrite + 'a>>,
    /// If the backend is this process, the work that must continue for it to answer.
    work: Pin<Box<dyn Future<Output = Result<Exit, Failure>> + 'a>>,
}

impl<'a> Behind<'a> {
    fn daemon(stream: UnixStream) -> Self {
        let (answers, asks) = stream.into_split();
        let work = Box::pin(std::future::pending());
        Self { answers: BufReader::new(Box::pin(answers)), asks: Box::pin(asks), work }
    }

    fn this_process(args: &'a GatewayArgs, world: &'a World) -> Self {
        let (here, there) = tokio::io::duplex(PIPE_BYTES);
        let (answers, asks) = tokio::io::split(here);
        let (reader, writer) = tokio::io::split(there);
        let work = Box::pin(alone(args, world, reader, writer));
        Self { answers: BufReader::new(Box::pin(answers)), asks: Box::pin(asks), work }
    }
}

/// The client, and the conversation so far.
struct Front {
    typed: BufReader<Stdin>,
    /// A line of the client that has no end yet.
    begun: Vec<u8>,
    shown: Stdout,
    conversation: RefCell<Conversation>,
}

/// Why passing on has ended.
enum Ended {
    /// The client has closed its end and has all its responses.
    Client,
    /// The backend has ended.
    Behind,
    /// This process was the backend, and has ended with this result.
    Work(Result<Exit, Failure>),
}

/// Passes the client's messages on to `daemon` and, when that ends, to the next backend.
///
/// # Errors
/// When the client cannot be read from or written to, or when this process cannot do the work either.
pub(super) async fn share(daemon: UnixStream, world: &World) -> Result<Exit, Failure> {
    let args = GatewayArgs::default();
    let conversation = RefCell::default();
    let mut front = Front { typed: BufReader::new(stdin()), begun: Vec::new(), shown: stdout(), conversation };
    let mut behind = Behind::daemon(daemon);
    loop {
        match front.hand_on(&mut behind).await.map_err(|error| client_lost(&error))? {
            Ended::Client => return Ok(Exit::Ok),
            Ended::Work(ended) => return ended,
            Ended::Behind => {}
        }
        drop(behind);
        let lost = front.conversation.borrow_mut().lost();
        front.tell(&lost).await.map_err(|error| client_lost(&error))?;
        world.screen.warning("the toolrack daemon has ended: waiting for the next one");
        behind = front.next(&args, world).await?;
        let news = front.conversation.borrow_mut().news();
        front.tell(&news).await.map_err(|error| client_lost(&error))?;
    }
}

fn client_lost(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, "CLIENT_LOST", with_causes(error))
}

impl Front {
    /// # Errors
    /// When the client is gone.
    async fn tell(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        for line in lines {
            write_line(&mut self.shown, line).await?;
        }
        Ok(())
    }

    /// Returns the next daemon that continues the conversation, or this process if none does in time.
    async fn next<'a>(&mut self, args: &'a GatewayArgs, world: &'a World) -> Result<Behind<'a>, Failure> {
        let end = Instant::now() + NEXT_DAEMON_TIMEOUT;
        while Instant::now() < end {
            if let Some(stream) = running(world).await {
                let mut daemon = Behind::daemon(stream);
                if self.begin(&mut daemon).await {
                    world.screen.note("another toolrack daemon continues");
                    return Ok(daemon);
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        world.screen.note("no toolrack daemon is up: the servers are started here");
        let mut here = Behind::this_process(args, world);
        let Behind { answers, asks, work } = &mut here;
        let started = tokio::select! {
            started = timeout(BACKEND_TIMEOUT, self.restart_conversation(answers, asks)) => started,
            ended = work.as_mut() => return Err(ended.err().unwrap_or_else(not_begun)),
        };
        match started {
            Ok(Ok(())) => Ok(here),
            _ => Err(not_begun()),
        }
    }

    async fn begin(&mut self, behind: &mut Behind<'_>) -> bool {
        matches!(
            timeout(BACKEND_TIMEOUT, self.restart_conversation(&mut behind.answers, &mut behind.asks)).await,
            Ok(Ok(()))
        )
    }

    /// Restarts the conversation with the next backend, which then has the state that the client expects.
    async fn restart_conversation(
        &mut self,
        answers: &mut (impl AsyncBufRead + Unpin),
        asks: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let beginning = self.conversation.borrow_mut().beginning();
        if let Some((initialize, id)) = beginning {
            write_line(asks, &initialize).await?;
            let mut line = Vec::new();
            loop {
                if !next_line(answers, &mut line).await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if self::answers(&line, &id) {
                    break;
                }
                line.clear();
            }
        }
        let again = self.conversation.borrow_mut().again();
        for line in again {
            write_line(asks, &line).await?;
        }
        Ok(())
    }

    /// Forwards all lines in both directions.
    ///
    /// # Errors
    /// When the client is gone.
    async fn hand_on(&mut self, behind: &mut Behind<'_>) -> io::Result<Ended> {
        let Self { typed, begun, shown, conversation } = self;
        let Behind { answers, asks, work } = behind;
        let conversation = &*conversation;
        let answered = async {
            let mut line = Vec::new();
            // Whatever ends it, the backend is gone.
            while let Ok(true) = next_line(answers, &mut line).await {
                let is_for_client = conversation.borrow_mut().answered(&line);
                if is_for_client {
                    write_line(shown, &line).await?;
                }
                line.clear();
            }
            io::Result::Ok(())
        };
        let asked = async {
            while next_line(typed, begun).await? {
                let line = std::mem::take(begun);
                conversation.borrow_mut().asked(&line);
                if write_line(asks, &line).await.is_err() {
                    // Read what the backend still sends.
                    return std::future::pending().await;
                }
            }
            let _ = asks.shutdown().await;
            io::Result::Ok(())
        };
        tokio::pin!(answered);
        tokio::select! {
            answered = &mut answered => answered.map(|()| Ended::Behind),
            ended = work.as_mut() => Ok(Ended::Work(ended)),
            asked = asked => {
                asked?;
                let last = async {
                    tokio::select! {
                        _ = answered => {}
                        _ = work.as_mut() => {}
                    }
                };
                let _ = timeout(RESPONSE_TIMEOUT, last).await;
                Ok(Ended::Client)
            }
        }
    }
}

fn not_begun() -> Failure {
    Failure::new(
        Exit::Unreachable,
        "DAEMON_LOST",
        "the daemon has ended, and this process could not continue in its place",
    )
    .hint("restart the MCP client, or run `toolrack up` before it")
}

/// Reads up to the end of a line, which it leaves out; returns whether there was one. Can be dropped and called again.
async fn next_line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let available = from.fill_buf().await?;
        if available.is_empty() {
            return Ok(false);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > MAX_LINE {
            let message = format!("a message of more than {MAX_LINE} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

async fn write_line(to: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    to.write_all(line).await?;
    to.write_all(b"\n").await?;
    to.flush().await
}
