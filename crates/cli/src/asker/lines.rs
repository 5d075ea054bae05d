//! Reads lines and keys from stdin, without blocking an async thread and without reading more than requested.
//!
//! A daemon can run a command for the process that the user has started (the borrower). The lines then come from the
//! stdin of that process.

use std::{
    io::{self, BufRead, IsTerminal as _},
    os::fd::AsFd as _,
    sync::{OnceLock, mpsc},
    thread,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{FlushArg, tcflush},
};
use tokio::sync::oneshot;

use super::keys::{KeyMode, read_key};
use crate::{
    editor::{EditOutcome, Editor},
    lending::{BorrowerKeys, BorrowerLines},
};

/// How often the thread checks whether the question is still open, in milliseconds.
const POLL_MILLISECONDS: u8 = 50;

/// A line without its end, or a key; `None` at the end of input.
type Input = Option<String>;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputKind {
    Line,
    Key,
}

/// A task that waits for a line or a key.
type Request = (InputKind, oneshot::Sender<Input>);

/// While this exists, keys are delivered immediately.
#[derive(Debug)]
pub(super) struct KeyGuard {
    _own_mode: Option<KeyMode>,
    _borrower_mode: Option<BorrowerKeys>,
}

/// Reads one line per request, on a thread that starts with the first request.
///
/// When the requesting task is dropped before the user has typed anything, the thread reads nothing: later input is for
/// another task. A read that has begun cannot be cancelled. Its line goes to the next task, if a task waits by then; if
/// none waits, the line is dropped.
#[derive(Debug)]
pub(crate) struct OwnLines {
    /// The channel to the thread; `None` when the thread could not be started.
    requests: OnceLock<Option<mpsc::Sender<Request>>>,
    editor: Editor,
}

/// The source of lines.
#[derive(Debug)]
pub(super) enum Lines {
    /// The stdin of this process.
    Own(OwnLines),
    /// The stdin of the process for which this one runs a command (the borrower).
    Borrower(BorrowerLines),
}

impl Lines {
    pub(super) fn from_stdin(editor: Editor) -> Self {
        Self::Own(OwnLines::from_stdin(editor))
    }

    /// Lines of a source that is always ready to be read.
    #[cfg(test)]
    pub(super) fn new(mut read: impl FnMut() -> Input + Send + 'static) -> Self {
        let requests = OnceLock::from(start_reader(|| true, move |_| read()));
        Self::Own(OwnLines { requests, editor: Editor::none() })
    }

    /// Discards earlier input, so that it answers no later question.
    pub(super) fn discard_input(&self) {
        match self {
            Self::Own(lines) => lines.discard_input(),
            Self::Borrower(lines) => lines.discard_input(),
        }
    }

    /// The next line that is typed.
    pub(super) async fn next(&self) -> Input {
        match self {
            Self::Own(lines) => lines.next().await,
            Self::Borrower(lines) => lines.next().await,
        }
    }

    /// Discards earlier input, and delivers keys immediately while the result exists.
    pub(super) fn enter_key_mode(&self) -> KeyGuard {
        match self {
            Self::Own(lines) => KeyGuard { _own_mode: lines.enter_key_mode(), _borrower_mode: None },
            Self::Borrower(lines) => KeyGuard { _own_mode: None, _borrower_mode: Some(lines.enter_key_mode()) },
        }
    }

    /// The next key; `None` at the end of input (Ctrl-D).
    pub(super) async fn key(&self) -> Input {
        match self {
            Self::Own(lines) => lines.key().await,
            Self::Borrower(lines) => lines.key().await,
        }
    }

    /// Returns whether [`Self::edit`] opens an editor of this process. A borrower says itself when it opens one.
    pub(super) fn has_own_editor(&self) -> bool {
        match self {
            Self::Own(lines) => lines.has_editor(),
            Self::Borrower(_) => false,
        }
    }

    /// Lets the user change `text` in an editor.
    pub(super) async fn edit(&self, text: &str) -> EditOutcome {
        match self {
            Self::Own(lines) => lines.edit(text).await,
            Self::Borrower(lines) => lines.edit(text).await,
        }
    }
}

impl OwnLines {
    pub(crate) fn from_stdin(editor: Editor) -> Self {
        Self { requests: OnceLock::new(), editor }
    }

    /// As [`Lines::discard_input`].
    pub(crate) fn discard_input(&self) {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // Only for a terminal: the user there sees the question, and can type the answer again.
            let _ = tcflush(stdin.as_fd(), FlushArg::TCIFLUSH);
        }
    }

    /// The next line that is typed.
    pub(crate) async fn next(&self) -> Input {
        self.wait_for(InputKind::Line).await
    }

    /// As [`Lines::enter_key_mode`]; `None` where stdin is not a terminal.
    pub(crate) fn enter_key_mode(&self) -> Option<KeyMode> {
        KeyMode::enter_on_stdin()
    }

    /// As [`Lines::key`].
    pub(crate) async fn key(&self) -> Input {
        self.wait_for(InputKind::Key).await
    }

    /// Returns whether [`Self::edit`] opens an editor.
    pub(crate) fn has_editor(&self) -> bool {
        self.editor.is_set()
    }

    /// As [`Lines::edit`].
    pub(crate) async fn edit(&self, text: &str) -> EditOutcome {
        self.editor.edit(text).await
    }

    async fn wait_for(&self, kind: InputKind) -> Input {
        let requests = self.requests.get_or_init(|| start_reader(wait_for_input, read_stdin)).as_ref()?;
        let (answer, input) = oneshot::channel();
        requests.send((kind, answer)).ok()?;
        input.await.ok().flatten()
    }
}

/// Starts the thread that reads; `None` when the system cannot start it. `is_ready` waits up to [`POLL_MILLISECONDS`],
/// and returns whether a read would find something.
fn start_reader(
    is_ready: fn() -> bool,
    read: impl FnMut(InputKind) -> Input + Send + 'static,
) -> Option<mpsc::Sender<Request>> {
    let (sender, requests) = mpsc::channel();
    // The thread ends with the process: nothing can wake it while it waits for a terminal.
    thread::Builder::new().name("stdin".to_owned()).spawn(move || answer_requests(&requests, is_ready, read)).ok()?;
    Some(sender)
}

fn read_stdin(kind: InputKind) -> Input {
    match kind {
        InputKind::Line => read_line(&mut io::stdin().lock()),
        InputKind::Key => read_key(),
    }
}

/// Reads a line. Replaces invalid UTF-8 in it, because an error would end the input.
fn read_line(input: &mut impl BufRead) -> Input {
    let mut line = Vec::new();
    match input.read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
    }
}

/// Waits up to [`POLL_MILLISECONDS`] for input at the terminal, and returns whether there is some. Any other stdin
/// counts as ready.
fn wait_for_input() -> bool {
    let stdin = io::stdin();
    let mut poll_fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if !stdin.is_terminal() {
        return true;
    }
    // A read from a terminal returns a single line, so no further line waits in the buffer of this process.
    match poll(&mut poll_fds, PollTimeout::from(POLL_MILLISECONDS)) {
        Ok(ready_count) => ready_count > 0,
        // The terminal was resized, or another signal arrived that is handled elsewhere.
        Err(Errno::EINTR) => false,
        // The read reports the error.
        Err(_) => true,
    }
}

/// Answers each request with a line or a key that `read` returns.
fn answer_requests(
    requests: &mpsc::Receiver<Request>,
    is_ready: fn() -> bool,
    mut read: impl FnMut(InputKind) -> Input,
) {
    while let Ok((mut kind, mut answer)) = requests.recv() {
        // This does not spin, because `is_ready` waits.
        while !answer.is_closed() && !is_ready() {}
        if answer.is_closed() {
            continue;
        }
        let mut input = read(kind);
        // If the task was dropped during the read, the line goes to the next task that waits for the same.
        while let Err(unsent) = answer.send(input) {
            input = unsent;
            match requests.try_recv() {
                Ok((next_kind, next_answer)) if next_kind == kind => answer = next_answer,
                // The next task wants a key instead of a line, or the reverse, so what was typed is not for it.
                Ok(next_request) => {
                    (kind, answer) = next_request;
                    input = read(kind);
                }
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_typed_after_its_question_went_away_answers_the_next_question() {
        let (wanted, requests) = mpsc::channel();
        let (gone, dropped) = oneshot::channel();
        let (answer, mut line) = oneshot::channel();
        wanted.send((InputKind::Line, gone)).unwrap();
        let mut first = Some((dropped, wanted, answer));
        answer_requests(
            &requests,
            || true,
            move |_| {
                // While the user types the line, the first question is withdrawn and the second is asked.
                let (dropped, wanted, answer) = first.take().unwrap();
                drop(dropped);
                wanted.send((InputKind::Line, answer)).unwrap();
                Some("blue".to_owned())
            },
        );
        assert_eq!(line.try_recv().unwrap().as_deref(), Some("blue"));
    }

    #[test]
    fn a_line_that_is_not_text_is_not_the_last() {
        let mut input: &[u8] = b"one\n\xff\xfe bad\r\nthree";
        let lines: Vec<_> = std::iter::from_fn(|| read_line(&mut input)).collect();
        assert_eq!(lines, ["one", "\u{fffd}\u{fffd} bad", "three"]);
    }

    #[test]
    fn a_question_that_went_away_before_its_turn_reads_nothing() {
        let (wanted, requests) = mpsc::channel();
        let (gone, dropped) = oneshot::channel();
        drop(dropped);
        wanted.send((InputKind::Line, gone)).unwrap();
        drop(wanted);
        answer_requests(&requests, || true, |_| unreachable!("no one-line answer is wanted"));
    }
}
