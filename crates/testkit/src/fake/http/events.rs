//! Answers of the fake server that are event streams, and the *faults* of such a stream: misbehaviour that its command
//! line asks for. A *frame* is an instruction of the code that answers, such as to send this message.

use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::super::faults::{Fault, RequestFaults};
use super::super::process::Death;
use super::super::server::Server;
use super::super::wire::Frame;
use super::connection::Connection;
use super::{ConnectionAction, next_frame};

/// The writer of one event stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamWriter<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) request_faults: &'a RequestFaults,
    /// The session that this answer opens.
    pub(super) session: Option<&'a str>,
}

/// Returns whether a fault demands an event stream even if the answer could be one body.
pub(super) fn needs_stream(request_faults: &RequestFaults) -> bool {
    request_faults.iter().any(spoils_events)
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

impl StreamWriter<'_> {
    /// Begins the stream.
    pub(super) async fn begin(&self, connection: &mut Connection) -> io::Result<()> {
        let mut fields = vec![("content-type", "text/event-stream"), ("cache-control", "no-cache, no-transform")];
        fields.extend(self.session.map(|id| ("mcp-session-id", id)));
        connection.respond_in_chunks(200, &fields).await
    }

    /// Returns how many milliseconds the client has to wait before it resumes the stream; `None` if no fault cuts the
    /// stream for that.
    pub(super) fn retry_delay(&self) -> Option<u64> {
        let fault = self.request_faults.iter().find(|fault| cuts_for_resuming(*fault))?;
        // The argument of this fault is an HTTP status, not a delay.
        if fault == Fault::SseRefusesResume { Some(0) } else { self.server.options.faults.number(fault) }
    }

    /// Writes a stream that ends after an event id.
    pub(super) async fn write_cut(
        &self,
        connection: &mut Connection,
        event: &str,
        retry: u64,
    ) -> io::Result<ConnectionAction> {
        self.begin(connection).await?;
        connection.write_chunk(format!("id: {event}\nretry: {retry}\ndata: \n\n").as_bytes()).await?;
        connection.write_chunk(b"").await?;
        Ok(ConnectionAction::Keep)
    }

    /// Opens a stream and writes it to its end, as [`Self::write_frames`] does.
    pub(super) async fn write_whole(
        &self,
        connection: &mut Connection,
        first: Option<Frame>,
        frames: &mut mpsc::Receiver<Frame>,
    ) -> io::Result<Option<ConnectionAction>> {
        self.begin(connection).await?;
        self.write_frames(connection, first, frames).await
    }

    /// Writes frames until the answer: the frame `first`, if the caller has received it already, then those of
    /// `frames`. Returns `None` when the client closes the connection before the answer.
    pub(super) async fn write_frames(
        &self,
        connection: &mut Connection,
        first: Option<Frame>,
        frames: &mut mpsc::Receiver<Frame>,
    ) -> io::Result<Option<ConnectionAction>> {
        let mut frame = first;
        loop {
            let current = match frame.take() {
                Some(frame) => frame,
                None => match next_frame(connection, frames).await {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            match current {
                Frame::Message(bytes) => connection.write_chunk(&event(&bytes)).await?,
                Frame::Answer { bytes, .. } => return self.finish(connection, &bytes).await.map(Some),
                Frame::Torn(bytes) => {
                    connection.write_chunk(&[b"data: ", bytes.as_slice()].concat()).await?;
                    Death::STATUS_7.die();
                }
                Frame::Die(death) => death.die(),
                Frame::CloseStdout | Frame::End => return Ok(Some(ConnectionAction::Close)),
            }
        }
    }

    /// Writes the event of the answer, with the fault that strikes it, and ends the stream.
    async fn finish(&self, connection: &mut Connection, answer: &[u8]) -> io::Result<ConnectionAction> {
        match self.request_faults.iter().find(|fault| spoils_events(*fault)) {
            Some(Fault::CutSse) => return Ok(ConnectionAction::Close),
            Some(Fault::SseBadJson) => connection.write_chunk(b"event: message\ndata: {\"jsonrpc\": oops\n\n").await?,
            Some(Fault::SseNoise) => {
                connection.write_chunk(b"data: not JSON\n\ndata: caf\xe9\n\ndata: {\"jsonrpc\":\n\n").await?;
                connection.write_chunk(&event(answer)).await?;
            }
            Some(Fault::SseEndlessLine) => loop {
                connection.write_chunk(&[b'x'; 64 * 1024]).await?;
            },
            Some(Fault::SseEndless) => endless(connection).await?,
            Some(Fault::SseSplit) => byte_by_byte(connection, &on_many_lines(answer)).await?,
            Some(Fault::SseUnknownField) => connection.write_chunk(&with_oddities(answer)).await?,
            // `lies` makes the wrong bytes of `SseHugeEvent` and `SseWrongId`.
            _ => connection.write_chunk(&event(answer)).await?,
        }
        if self.request_faults.has(Fault::ResetAfterEffect) {
            return Ok(ConnectionAction::Reset);
        }
        connection.write_chunk(b"").await?;
        Ok(ConnectionAction::Keep)
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

async fn byte_by_byte(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        connection.write_chunk(&[*byte]).await?;
    }
    Ok(())
}

async fn endless(connection: &mut Connection) -> io::Result<()> {
    let lines = format!("data: {}\n", "x".repeat(80)).repeat(500);
    loop {
        connection.write_chunk(lines.as_bytes()).await?;
    }
}
