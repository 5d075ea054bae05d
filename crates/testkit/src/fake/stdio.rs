//! The stdio transport of the fake (a scripted MCP server for tests): each line of stdin and stdout is a message in
//! JSON. *Faults* (misbehaviour that the command line asks for) change how it reads and writes.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::eras::wait_forever;
use super::faults::Fault;
use super::process::Death;
use super::server::{Peer, Server};
use super::wire::{self, Frame, Incoming, Outbox};

/// Lines that are not messages: text, JSON that is not JSON-RPC, broken JSON.
const BANNER: &str = "Starting the fake server…\n\n{\"level\":30,\"msg\":\"ready\"}\n[info] { not JSON\n42\n";

/// Serves until stdin ends, unless a fault changes that.
pub(crate) async fn serve(server: Arc<Server>) -> io::Result<()> {
    let (out, frames) = Outbox::new();
    let style = Style::new(&server);
    server.spawn(async move {
        if let Err(error) = write_frames(frames, style).await {
            super::complain(&format!("fake-server: stdout: {error}\n"));
        }
    });
    read_requests(&server, &out).await?;
    if server.has(Fault::IgnoreEof) {
        wait_forever::<()>().await;
    }
    Ok(())
}

async fn read_requests(server: &Arc<Server>, out: &Outbox) -> io::Result<()> {
    let peer = Peer::new("stdio");
    let stop_method = server.options.faults.text(Fault::StopReadingStdin);
    let close_method = server.options.faults.text(Fault::CloseStdin);
    if stop_method == Some("start") {
        wait_forever::<()>().await;
    }
    let mut stdin = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        if stdin.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if close_method.is_some_and(|method| is_request(&line, method)) {
            // Closed before the answer: what a client writes after it has read the answer is lost.
            nix::unistd::close(0)?;
        }
        let method = handle_line(server, &peer, out, &line);
        if method.is_some() && (method.as_deref() == stop_method || method.as_deref() == close_method) {
            wait_forever::<()>().await;
        }
    }
}

/// Returns whether a line is a request of this method.
fn is_request(line: &[u8], expected_method: &str) -> bool {
    matches!(wire::parse(line), Incoming::Request { method, .. } if method == expected_method)
}

/// Handles one line. Returns the method if it is a request.
fn handle_line(server: &Arc<Server>, peer: &Arc<Peer>, out: &Outbox, line: &[u8]) -> Option<String> {
    match wire::parse(line) {
        Incoming::Request { id, method, params } => {
            let request = server.admit((id, method.clone(), params), peer, out.clone(), Vec::new());
            server.start(request);
            Some(method)
        }
        Incoming::Notification { method, params } => {
            if method == "notifications/initialized" {
                let subscription = None;
                server.listen(peer, out.clone(), subscription);
            }
            server.handle_notification(peer, &method, &params);
            None
        }
        Incoming::Response { id, body } => {
            server.handle_response(&id, body);
            None
        }
        Incoming::Invalid(reason) => {
            server.log.received(serde_json::json!({"invalid": reason}));
            None
        }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug)]
struct Style {
    /// The output begins with a byte order mark.
    bom: bool,
    /// [`BANNER`] precedes each message.
    banner: bool,
    /// Empty lines precede each message.
    empty_lines: bool,
    line_end: &'static [u8],
    /// Each message is written in pieces of a few bytes.
    split: bool,
}

impl Style {
    fn new(server: &Server) -> Self {
        Self {
            bom: server.has(Fault::Bom),
            banner: server.has(Fault::Banner),
            empty_lines: server.has(Fault::EmptyLines),
            line_end: if server.has(Fault::Crlf) { b"\r\n" } else { b"\n" },
            split: server.has(Fault::SplitWrites),
        }
    }
}

async fn write_frames(mut frames: mpsc::Receiver<Frame>, style: Style) -> io::Result<()> {
    let mut stdout = tokio::io::stdout();
    if style.bom {
        stdout.write_all(b"\xef\xbb\xbf").await?;
    }
    if style.banner {
        stdout.write_all(BANNER.as_bytes()).await?;
        stdout.flush().await?;
    }
    while let Some(frame) = frames.recv().await {
        match frame {
            Frame::Message(bytes) | Frame::Answer { bytes, .. } => write_line(&mut stdout, style, bytes).await?,
            Frame::Torn(bytes) => {
                stdout.write_all(&bytes).await?;
                stdout.flush().await?;
                Death::STATUS_7.die();
            }
            Frame::Die(death) => death.die(),
            Frame::CloseStdout => {
                nix::unistd::close(1)?;
            }
            Frame::End => {}
        }
    }
    Ok(())
}

async fn write_line(stdout: &mut (impl AsyncWrite + Unpin), style: Style, mut bytes: Vec<u8>) -> io::Result<()> {
    if style.banner {
        stdout.write_all(BANNER.as_bytes()).await?;
    }
    if style.empty_lines {
        stdout.write_all(b"\n\r\n\0\0\n").await?;
    }
    bytes.extend_from_slice(style.line_end);
    if style.split {
        for piece in bytes.chunks(7) {
            stdout.write_all(piece).await?;
            stdout.flush().await?;
        }
    } else {
        stdout.write_all(&bytes).await?;
    }
    stdout.flush().await
}
