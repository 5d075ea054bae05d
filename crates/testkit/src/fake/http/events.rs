//! Answers that are event streams, and the faults of such a stream.

use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::super::faults::{Fault, Struck};
use super::super::process::Death;
use super::super::server::Server;
use super::super::wire::Frame;
use super::exchange::Exchange;
use super::{After, next};

/// The writer of one event stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) struck: &'a Struck,
    /// The session that this answer opens.
    pub(super) session: Option<&'a str>,
}

/// Returns whether a fault demands an event stream even if the answer could be one body.
pub(super) fn needs_stream(struck: &Struck) -> bool {
    struck.iter().any(spoils_events)
}

fn cuts_for_resuming(fault: Fault) -> bool {
    matches!(fault, Fault::SseResume | Fault::SseResetLoop | Fault::SseEmptyLoop | Fault::SseRefusesResume)
}

fn spoils_events(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::CutSse
            | Fault::SseUnknownField
            | Fault::SseBadJson
            | Fault::SseNoise
            | Fault::SseEndlessLine
            | Fault::SseHugeEvent
            | Fault::SseEndless
            | Fault::SseWrongId
            | Fault::SseSplit
    )
}

impl Stream<'_> {
    /// Begins the stream.
    pub(super) async fn open(&self, exchange: &mut Exchange) -> io::Result<()> {
        let mut fields = vec![("content-type", "text/event-stream"), ("cache-control", "no-cache, no-transform")];
        fields.extend(self.session.map(|id| ("mcp-session-id", id)));
        exchange.respond_in_chunks(200, &fields).await
    }

    /// If a fault cuts the stream so that the client must resume it: the milliseconds that the client has to wait
    /// before.
    pub(super) fn retry_delay(&self) -> Option<u64> {
        let fault = self.struck.iter().find(|fault| cuts_for_resuming(*fault))?;
        // The argument of this fault is an HTTP status, not a delay.
        if fault == Fault::SseRefusesResume { Some(0) } else { self.server.options.faults.number(fault) }
    }

    /// Writes a stream that ends after an event id.
    pub(super) async fn cut(&self, exchange: &mut Exchange, event: &str, retry: u64) -> io::Result<After> {
        self.open(exchange).await?;
        exchange.chunk(format!("id: {event}\nretry: {retry}\ndata: \n\n").as_bytes()).await?;
        exchange.chunk(b"").await?;
        Ok(After::Keep)
    }

    /// Opens a stream and writes it to its end; `None` when the client left first.
    pub(super) async fn whole(
        &self,
        exchange: &mut Exchange,
        first: Option<Frame>,
        frames: &mut mpsc::Receiver<Frame>,
    ) -> io::Result<Option<After>> {
        self.open(exchange).await?;
        self.run(exchange, first, frames).await
    }

    /// Writes frames until the answer; `None` when the client left first.
    pub(super) async fn run(
        &self,
        exchange: &mut Exchange,
        first: Option<Frame>,
        frames: &mut mpsc::Receiver<Frame>,
    ) -> io::Result<Option<After>> {
        let mut frame = first;
        loop {
            let current = match frame.take() {
                Some(frame) => frame,
                None => match next(exchange, frames).await {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            match current {
                Frame::Message(bytes) => exchange.chunk(&event(&bytes)).await?,
                Frame::Answer { bytes, .. } => return self.finish(exchange, &bytes).await.map(Some),
                Frame::Torn(bytes) => {
                    exchange.chunk(&[b"data: ", bytes.as_slice()].concat()).await?;
                    Death::Exit(7).die();
                }
                Frame::Die(death) => death.die(),
                Frame::CloseStdout | Frame::End => return Ok(Some(After::Close)),
            }
        }
    }

    /// Writes the event of the answer, with the fault that strikes it, and ends the stream.
    async fn finish(&self, exchange: &mut Exchange, answer: &[u8]) -> io::Result<After> {
        match self.struck.iter().find(|fault| spoils_events(*fault)) {
            Some(Fault::CutSse) => return Ok(After::Close),
            Some(Fault::SseBadJson) => exchange.chunk(b"event: message\ndata: {\"jsonrpc\": oops\n\n").await?,
            Some(Fault::SseNoise) => {
                exchange.chunk(b"data: not JSON\n\ndata: caf\xe9\n\ndata: {\"jsonrpc\":\n\n").await?;
                exchange.chunk(&event(answer)).await?;
            }
            Some(Fault::SseEndlessLine) => loop {
                exchange.chunk(&[b'x'; 64 * 1024]).await?;
            },
            Some(Fault::SseEndless) => endless(exchange).await?,
            Some(Fault::SseSplit) => byte_by_byte(exchange, &on_many_lines(answer)).await?,
            Some(Fault::SseUnknownField) => exchange.chunk(&with_oddities(answer)).await?,
            _ => exchange.chunk(&event(answer)).await?,
        }
        if self.struck.by(Fault::ResetAfterEffect) {
            return Ok(After::Reset);
        }
        exchange.chunk(b"").await?;
        Ok(After::Keep)
    }
}

/// One event that holds a message.
pub(crate) fn event(message: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", message, b"\n\n"].concat()
}

/// The message as an event, among oddities that the standard allows: unknown fields, comments, an event of another
/// kind, an event without data, lines that end in a bare CR.
fn with_oddities(message: &[u8]) -> Vec<u8> {
    let before = b": a comment\nfoo: bar\nfoo\n:\nretry: soon\nid: \0\nevent: ping\ndata: {}\n\nid: 7\n\n";
    [before.as_slice(), b"unknown: 1\revent:message\rdata:", message, b"\r\r"].concat()
}

/// The message as pretty JSON, with a data field for each line; each field ends with CR LF.
fn on_many_lines(message: &[u8]) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_slice(message).unwrap_or_default();
    let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
    let mut lines: String = pretty.lines().map(|line| format!("data: {line}\r\n")).collect();
    lines.push_str("\r\n");
    lines.into_bytes()
}

async fn byte_by_byte(exchange: &mut Exchange, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        exchange.chunk(&[*byte]).await?;
    }
    Ok(())
}

async fn endless(exchange: &mut Exchange) -> io::Result<()> {
    let lines = format!("data: {}\n", "x".repeat(80)).repeat(500);
    loop {
        exchange.chunk(lines.as_bytes()).await?;
    }
}
