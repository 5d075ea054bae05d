//! Drains the stderr of a program, so that a full pipe never blocks the program. Stores the end of the output (the
//! tail).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::link::process::child::handle::{Life, wait_until_gone};

/// The most bytes that a tail stores.
const TAIL_BYTES: usize = 64 * 1024;

/// The most bytes of one line that a hook gets.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// How long the pipe is read after the process and all its descendants have ended. The pipe is then at its end, unless
/// a process that could not be ended holds it open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Called with each line, without the line end, as text: bytes that are not UTF-8 are replaced, and a line over 4 KiB
/// is cut. The hook runs on the draining task and must neither block nor panic. The text comes from the program and may
/// contain control characters.
pub type LineHook = Arc<dyn Fn(&str) + Send + Sync>;

/// The last 64 KiB of a program's stderr. Clones share the same bytes, which can be read during and after the program's
/// life.
#[derive(Clone)]
pub struct StderrTail {
    ring: watch::Receiver<Ring>,
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = self.ring.borrow();
        f.debug_struct("StderrTail").field("total", &ring.total).field("kept", &ring.bytes.len()).finish()
    }
}

impl StderrTail {
    /// Creates an empty tail, and the writing end for the draining task.
    pub(super) fn new() -> (TailWriter, Self) {
        let (sender, ring) = watch::channel(Ring { bytes: VecDeque::new(), total: 0 });
        (TailWriter(sender), Self { ring })
    }

    /// Returns the last `max_lines` lines that are not blank, oldest first, as text. The lines come from the program
    /// and may contain control characters.
    #[must_use]
    pub fn tail(&self, max_lines: usize) -> Vec<String> {
        let (text, total_bytes) = {
            let ring = self.ring.borrow();
            (ring.bytes.iter().copied().collect::<Vec<u8>>(), ring.total)
        };
        let was_cut = total_bytes > text.len() as u64;

        let mut last_lines: Vec<String> = text
            .split(|byte| *byte == b'\n')
            // The first line has lost its beginning.
            .skip(usize::from(was_cut && text.contains(&b'\n')))
            .filter(|line| !line.trim_ascii().is_empty())
            .map(|line| String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
            .collect();
        last_lines.drain(..last_lines.len().saturating_sub(max_lines));
        last_lines
    }

    /// Returns how many bytes the program has written in total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ring.borrow().total
    }

    /// Waits until all output has been read.
    ///
    /// The last output of a program that has just ended may still be in the pipe: wait for this, with a time-out of
    /// some tenths of a second, before quoting [`Self::tail`] in an error. Without a time-out, this can wait until all
    /// descendants of the program have ended.
    pub async fn drained(&self) {
        let mut ring = self.ring.clone();
        // `changed` fails when the writing end is dropped.
        while ring.changed().await.is_ok() {}
    }
}

/// The writing end of a [`StderrTail`]. Dropping it marks the end of the output; the task that drains stderr drops it
/// when it ends.
pub(super) struct TailWriter(watch::Sender<Ring>);

impl TailWriter {
    fn push(&self, bytes: &[u8]) {
        self.0.send_if_modified(|ring| {
            ring.push(bytes);
            // Do not wake readers, which read on demand; only the end wakes them.
            false
        });
    }
}

/// The last bytes of the output.
struct Ring {
    bytes: VecDeque<u8>,
    /// The number of bytes in the whole output.
    total: u64,
}

impl Ring {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }
}

/// Reads `stderr` to its end, and passes the bytes to its tail and its lines to the hook.
pub(super) async fn drain(
    mut stderr: impl AsyncRead + Unpin,
    writer: TailWriter,
    hook: Option<LineHook>,
    mut life: watch::Receiver<Life>,
) {
    let mut lines = LineSplitter { hook, line: Vec::new() };
    {
        let mut read = std::pin::pin!(read_to_end(&mut stderr, &writer, &mut lines));
        tokio::select! {
            () = &mut read => {}
            () = wait_until_gone(&mut life) => {
                let _ = timeout(DRAIN_TIMEOUT, read).await;
            }
        }
    }
    lines.end();
}

async fn read_to_end(stderr: &mut (impl AsyncRead + Unpin), writer: &TailWriter, lines: &mut LineSplitter) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        writer.push(&buffer[..length]);
        lines.push(&buffer[..length]);
    }
}

/// Splits a stream of bytes into lines for the hook.
struct LineSplitter {
    hook: Option<LineHook>,
    /// The current line so far, [`MAX_LINE_BYTES`] bytes at most.
    line: Vec<u8>,
}

impl LineSplitter {
    fn push(&mut self, bytes: &[u8]) {
        if self.hook.is_none() {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_ended {
                self.emit();
            }
        }
    }

    /// Ends the stream: the rest is a line.
    fn end(&mut self) {
        if !self.line.is_empty() {
            self.emit();
        }
    }

    fn emit(&mut self) {
        if let Some(hook) = &self.hook {
            let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
            hook(&String::from_utf8_lossy(line));
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt as _;

    use super::*;

    fn collector() -> (LineHook, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        (Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned())), seen)
    }

    #[test]
    fn the_tail_gives_the_last_lines_that_say_something() {
        let (writer, tail) = StderrTail::new();
        writer.push(b"one\ntwo\r\n\n  \nthr");
        writer.push(b"ee");
        assert_eq!(tail.tail(2), ["two", "three"]);
        assert_eq!(tail.tail(0), [""; 0]);
        assert_eq!(tail.tail(99), ["one", "two", "three"]);
    }

    #[test]
    fn the_ring_keeps_the_last_complete_lines() {
        let (writer, tail) = StderrTail::new();
        for number in 0..10_000 {
            writer.push(format!("line {number:06}\n").as_bytes());
        }
        let lines = tail.tail(usize::MAX);
        assert_eq!(tail.total(), 120_000);
        assert_eq!(tail.ring.borrow().bytes.len(), TAIL_BYTES);
        assert_eq!(lines.last().unwrap(), "line 009999");
        assert!(lines.iter().all(|line| line.len() == 11), "{:?}", lines.first());
    }

    #[test]
    fn an_endless_line_is_stored_in_part() {
        let (writer, tail) = StderrTail::new();
        writer.push(&vec![b'x'; TAIL_BYTES * 3]);
        assert_eq!(tail.tail(5), ["x".repeat(TAIL_BYTES)]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        let (writer, tail) = StderrTail::new();
        writer.push(b"a\xff\xfeb\n");
        assert_eq!(tail.tail(1), ["a\u{fffd}\u{fffd}b"]);
    }

    #[tokio::test]
    async fn the_hook_gets_each_line_once_and_no_more_than_4_kib_of_it() {
        let (hook, seen) = collector();
        let text = format!("first\r\n{}\n\nlast", "x".repeat(MAX_LINE_BYTES * 3));
        let (_life, watched) = watch::channel(Life::Running);
        drain(text.as_bytes(), StderrTail::new().0, Some(hook), watched).await;
        assert_eq!(
            *seen.lock().unwrap(),
            ["first".to_owned(), "x".repeat(MAX_LINE_BYTES), String::new(), "last".to_owned()]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_with_the_process_even_if_the_pipe_is_held_open() {
        let (mut held, pipe) = tokio::io::duplex(64);
        let (writer, tail) = StderrTail::new();
        let (life, watched) = watch::channel(Life::Running);
        let drained = drain(pipe, writer, None, watched);
        let ended = async {
            tokio::io::AsyncWriteExt::write_all(&mut held, b"last words").await.unwrap();
            life.send_replace(Life::Gone(super::super::Exit::Code(0)));
        };
        tokio::join!(drained, ended);
        assert_eq!(tail.tail(1), ["last words"]);
    }

    #[tokio::test]
    async fn the_tail_waits_for_the_end_of_the_draining_task_also_when_that_is_dropped() {
        let (held, pipe) = tokio::io::duplex(64);
        let (writer, tail) = StderrTail::new();
        let (_life, watched) = watch::channel(Life::Running);
        writer.push(b"so far");
        let draining = drain(pipe, writer, None, watched);
        assert!(tail.drained().now_or_never().is_none(), "the pipe is open");
        drop(draining);
        tail.drained().await;
        assert_eq!(tail.tail(1), ["so far"]);
        drop(held);
    }
}
