//! Prints the answer on stdout and other lines on stderr, without mixing them.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use toolrack_host::text;

use super::{Output, running::StatusLine};
use crate::{error::Failure, screen::Screen};

/// The most lines of news that wait to be shown: lines about something other than the turn, such as a server that is
/// disconnected. Beyond that, the oldest are dropped.
const MAX_WAITING_LINES: usize = 64;

/// How often the progress line is written again while nothing is reported.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Prints a turn (all that the model does until it has answered): the answer on stdout, other lines on stderr, and the
/// progress line below both.
#[derive(Debug)]
pub(super) struct TurnPrinter {
    screen: Arc<Screen>,
    /// Whether the cursor is at the start of a line.
    at_line_start: bool,
    white_space: WhiteSpaceFilter,
    /// The progress line, while it is shown.
    status: Option<StatusLine>,
    /// Lines of calls and news that wait until the cursor is at the start of a line.
    news: VecDeque<String>,
}

impl TurnPrinter {
    pub(super) fn new(screen: Arc<Screen>) -> Self {
        let white_space = WhiteSpaceFilter::default();
        Self { screen, at_line_start: true, white_space, status: None, news: VecDeque::new() }
    }

    /// Prints each message, until there are no more.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) async fn print(mut self, mut messages: mpsc::UnboundedReceiver<Output>) -> Result<(), Failure> {
        loop {
            let output = if self.status.is_some() || !self.news.is_empty() {
                timeout(REFRESH_INTERVAL, messages.recv()).await
            } else {
                Ok(messages.recv().await)
            };
            let output = match output {
                Ok(Some(output)) => output,
                Ok(None) => break,
                Err(_) => {
                    self.show_news();
                    self.show_status();
                    continue;
                }
            };
            match output {
                Output::Piece(piece) => self.print_piece(&piece).await?,
                Output::Line(line) => {
                    self.end_line().await?;
                    self.status = None;
                    self.queue_news(line);
                }
                Output::News(line) => self.queue_news(line),
                Output::Status(line) => {
                    let line = line.lock().take();
                    if let Some(line) = line {
                        self.set_status(line).await?;
                    }
                }
                Output::Record(record) => self.screen.record(&record).await?,
                Output::Flush(printed) => {
                    self.show_news();
                    // Fails if the turn no longer waits for it.
                    let _ = printed.send(());
                }
            }
        }
        if !self.news.is_empty() {
            self.end_line().await?;
            self.show_news();
        }
        Ok(())
    }

    /// Shows a line as soon as it interrupts neither the answer nor a question.
    fn queue_news(&mut self, line: String) {
        if self.news.len() == MAX_WAITING_LINES {
            self.news.pop_front();
        }
        self.news.push_back(line);
        self.show_news();
    }

    async fn print_piece(&mut self, piece: &str) -> Result<(), Failure> {
        // First hide secrets in the whole piece: a secret may contain line breaks, and the text is cut at those below.
        let piece = self.screen.concealed(piece);
        let text = self.white_space.printable(&piece, self.at_line_start);
        if text.is_empty() {
            return Ok(());
        }
        self.status = None;
        let lines_end = text.rfind('\n').map_or(0, |end| end + 1);
        // Waiting lines are shown between two lines of the answer.
        let (lines, rest) = if self.news.is_empty() { ("", &*text) } else { text.split_at(lines_end) };
        for part in [lines, rest].into_iter().filter(|part| !part.is_empty()) {
            self.screen.fragment(text::for_terminal(part).into_owned()).await?;
            self.at_line_start = part.ends_with('\n');
            self.show_news();
        }
        Ok(())
    }

    /// Ends the current line, and with it the answer: the next text belongs to another answer.
    async fn end_line(&mut self) -> Result<(), Failure> {
        self.white_space = WhiteSpaceFilter::default();
        if !mem::replace(&mut self.at_line_start, true) {
            self.screen.fragment("\n".to_owned()).await?;
        }
        Ok(())
    }

    /// Shows the waiting lines, and the progress line below them, unless they would interrupt a line of the answer or a
    /// question.
    fn show_news(&mut self) {
        if !self.at_line_start || self.news.is_empty() || self.screen.is_asking() {
            return;
        }
        for line in self.news.drain(..) {
            self.screen.safe_note(&line);
        }
        self.show_status();
    }

    /// Shows this progress line from now on. A line about a call ends the current line of the answer. Any other
    /// progress line is dropped while a line of the answer is incomplete.
    async fn set_status(&mut self, line: StatusLine) -> Result<(), Failure> {
        if matches!(line, StatusLine::Call(_)) {
            self.end_line().await?;
        }
        if self.at_line_start {
            self.show_news();
            self.status = Some(line);
            self.show_status();
        }
        Ok(())
    }

    /// Writes the progress line as it is now. While a question is open, the screen does not show it.
    fn show_status(&self) {
        if let Some(line) = &self.status {
            self.screen.progress(&line.words(self.screen.time_waiting_for_answers()));
        }
    }
}

/// Decides which white space of an answer is printed. Empty lines at its beginning and at its end are left out, because
/// they carry no meaning.
#[derive(Debug, Default)]
struct WhiteSpaceFilter {
    /// Whether something of the answer was printed.
    has_begun: bool,
    /// White space behind the last line break that was printed, or before the answer. It is printed if more text
    /// follows.
    withheld_space: String,
}

impl WhiteSpaceFilter {
    /// Returns what can be printed now that `piece` has come; `at_line_start` says whether the cursor is at the start
    /// of a line.
    fn printable(&mut self, piece: &str, at_line_start: bool) -> String {
        if at_line_start && piece.trim().is_empty() {
            self.withheld_space.push_str(piece);
            return String::new();
        }
        let mut text = mem::take(&mut self.withheld_space) + piece;
        let words_end = text.trim_end().len();
        let line_end = text[words_end..].find('\n').map_or(text.len(), |end| words_end + end + 1);
        self.withheld_space = text.split_off(line_end);
        if !mem::replace(&mut self.has_begun, true) {
            let words_start = text.len() - text.trim_start().len();
            // The first line that is not empty keeps its indentation.
            let empty_lines_end = text[..words_start].rfind('\n').map_or(0, |end| end + 1);
            text.drain(..empty_lines_end);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let mut white_space = WhiteSpaceFilter::default();
        let mut printed = String::new();
        for piece in pieces {
            let at_line_start = printed.is_empty() || printed.ends_with('\n');
            printed += &white_space.printable(piece, at_line_start);
        }
        printed
    }

    #[test]
    fn an_answer_keeps_its_white_space_however_it_is_cut_into_pieces() {
        assert_eq!(printed(["def f():\n", "    ", "return 1"]), "def f():\n    return 1");
        assert_eq!(printed(["Hello.\n", "\nWorld"]), "Hello.\n\nWorld");
        for (answer, shown) in [
            ("def f():\n\n    x = 1\n\n\n    return x\n", "def f():\n\n    x = 1\n\n\n    return x\n"),
            ("\n \n    indented\n", "    indented\n"),
            ("words  \n\n\t\n\n", "words  \n"),
            ("é\r\n\r\nö ", "é\r\n\r\nö "),
            ("\n \n", ""),
        ] {
            let each_alone = answer.split_inclusive(|_: char| true);
            assert_eq!(printed(each_alone), shown, "{answer:?}");
            for (cut, _) in answer.char_indices() {
                let (before, after) = answer.split_at(cut);
                assert_eq!(printed([before, after]), shown, "{before:?} {after:?}");
            }
        }
    }
}
