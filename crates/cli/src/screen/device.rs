//! Writes the output of a screen to its device: the streams of this process, or those of the borrower, the process for
//! which this one runs a command.

use std::{
    io::{self, IsTerminal, Write as _},
    os::fd::AsFd,
    path::PathBuf,
};

use anstream::{AutoStream, ColorChoice};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    args::Color,
    lending::{Outbox, StreamProperties, ToBorrower},
};

/// The width where a stream is not a terminal: the reader of a pipe gets whole lines.
const UNBOUNDED: usize = usize::MAX;

/// The most bytes of a message to another process.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Stdout or stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The device of a screen.
#[derive(Debug)]
pub(super) enum Device {
    /// The streams of this process.
    Own(Color),
    /// The streams of the borrower, which gets the output in messages.
    Borrower { out: StreamProperties, err: StreamProperties, outbox: Outbox },
}

impl Device {
    pub(super) fn is_terminal(&self, stream: Stream) -> bool {
        match (self, stream) {
            (Self::Own(_), Stream::Out) => io::stdout().is_terminal(),
            (Self::Own(_), Stream::Err) => io::stderr().is_terminal(),
            (Self::Borrower { out, .. }, Stream::Out) => out.is_terminal,
            (Self::Borrower { err, .. }, Stream::Err) => err.is_terminal,
        }
    }

    pub(super) fn outbox(&self) -> Option<&Outbox> {
        match self {
            Self::Own(_) => None,
            Self::Borrower { outbox, .. } => Some(outbox),
        }
    }

    /// The width of the terminal behind `stream`. A stream of this process has the width of this moment, a stream of
    /// the borrower the width that it had when the command began.
    pub(super) fn columns(&self, stream: Stream) -> usize {
        match (self, stream) {
            (Self::Own(_), Stream::Out) => columns_of(io::stdout()),
            (Self::Own(_), Stream::Err) => columns_of(io::stderr()),
            (Self::Borrower { out, .. }, Stream::Out) => out.columns.unwrap_or(UNBOUNDED),
            (Self::Borrower { err, .. }, Stream::Err) => err.columns.unwrap_or(UNBOUNDED),
        }
    }

    /// Whether text that goes to `stream` keeps its colours.
    pub(super) fn has_colour(&self, stream: Stream) -> bool {
        match (self, stream) {
            (Self::Own(color), Stream::Out) => color_choice(*color, &io::stdout()) != ColorChoice::Never,
            (Self::Own(color), Stream::Err) => color_choice(*color, &io::stderr()) != ColorChoice::Never,
            (Self::Borrower { out, .. }, Stream::Out) => out.has_colour,
            (Self::Borrower { err, .. }, Stream::Err) => err.has_colour,
        }
    }

    /// The properties of `stream` that a daemon needs to write to it.
    pub(super) fn properties(&self, stream: Stream) -> StreamProperties {
        let columns = Some(self.columns(stream)).filter(|columns| *columns != UNBOUNDED);
        StreamProperties { is_terminal: self.is_terminal(stream), has_colour: self.has_colour(stream), columns }
    }

    /// Writes to stdout, on another thread: a reader that stalls must not delay the handling of signals.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) async fn write_stdout(&self, text: String) -> io::Result<()> {
        match self {
            Self::Own(color) => {
                let choice = color_choice(*color, &io::stdout());
                let write_task = tokio::task::spawn_blocking(move || {
                    let mut stdout = AutoStream::new(io::stdout().lock(), choice);
                    stdout.write_all(text.as_bytes())?;
                    stdout.flush()
                });
                write_task.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            }
            Self::Borrower { out, outbox, .. } => {
                for piece in pieces(&adapt_colour(&text, out.has_colour)) {
                    outbox.wait_for_room().await;
                    outbox.push(ToBorrower::Out(piece.to_owned()));
                }
                Ok(())
            }
        }
    }

    /// Writes bytes as they are. In this process, they go to stdout, and `file` is ignored. A borrower writes them into
    /// `file`, or to its stdout if `file` is `None`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) async fn bytes(&self, bytes: Vec<u8>, file: Option<PathBuf>) -> io::Result<()> {
        match self {
            Self::Own(_) => {
                let write_task = tokio::task::spawn_blocking(move || {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(&bytes)?;
                    stdout.flush()
                });
                write_task.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            }
            Self::Borrower { outbox, .. } => {
                for piece in bytes.chunks(MAX_PIECE_BYTES) {
                    outbox.wait_for_room().await;
                    outbox.push(ToBorrower::Bytes(STANDARD.encode(piece)));
                }
                // The borrower collects the pieces, and writes them when this message says that they are complete.
                outbox.push(ToBorrower::BytesFor(file));
                Ok(())
            }
        }
    }

    /// Writes help to stdout, on this thread: nothing else runs yet. Failures are ignored.
    pub(super) fn write_help(&self, text: &str) {
        match self {
            Self::Own(color) => {
                let mut stdout = AutoStream::new(io::stdout().lock(), color_choice(*color, &io::stdout()));
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
            Self::Borrower { out, outbox, .. } => outbox.push(ToBorrower::Out(adapt_colour(text, out.has_colour))),
        }
    }

    /// Writes to stderr. Failures are ignored, because they cannot be reported anywhere.
    pub(super) fn write_stderr(&self, text: &str) {
        match self {
            Self::Own(color) => write_to_stderr(text, color_choice(*color, &io::stderr())),
            Self::Borrower { err, outbox, .. } => outbox.push(ToBorrower::Err(adapt_colour(text, err.has_colour))),
        }
    }

    /// Writes a control sequence to the terminal behind stderr. A borrower gets it at once, with all messages that
    /// waited in the [`Outbox`] before it. Afterwards, the daemon can no longer hand the command back to the borrower.
    pub(super) fn write_control(&self, text: &str) {
        match self {
            Self::Own(_) => write_to_stderr(text, ColorChoice::AlwaysAnsi),
            Self::Borrower { outbox, .. } => {
                outbox.push(ToBorrower::Err(text.to_owned()));
                outbox.open();
            }
        }
    }
}

/// The width of the terminal behind `stream`.
fn columns_of(stream: impl AsFd) -> usize {
    terminal_size::terminal_size_of(stream).map_or(UNBOUNDED, |(width, _)| usize::from(width.0))
}

fn color_choice(color: Color, stream: &impl anstream::stream::RawStream) -> ColorChoice {
    match color {
        Color::Auto => AutoStream::choice(stream),
        Color::Always => ColorChoice::AlwaysAnsi,
        Color::Never => ColorChoice::Never,
    }
}

fn write_to_stderr(text: &str, choice: ColorChoice) {
    let mut stderr = AutoStream::new(io::stderr().lock(), choice);
    // A failure cannot be reported anywhere.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Returns `text` as the borrower prints it: without colours, unless its stream has them.
fn adapt_colour(text: &str, has_colour: bool) -> String {
    if has_colour { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
}

/// Returns `text` in pieces of at most [`MAX_PIECE_BYTES`] bytes.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE_BYTES));
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_and_end_between_characters() {
        let text = "é".repeat(MAX_PIECE_BYTES);
        let all: Vec<_> = pieces(&text).collect();
        assert!(all.iter().all(|piece| piece.len() <= MAX_PIECE_BYTES));
        assert_eq!(all.concat(), text);
        assert_eq!(pieces("").count(), 0);
    }
}
