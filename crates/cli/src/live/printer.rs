//! Prints the answer on stdout and other lines on stderr, without mixing them.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use toolrack_host::text;

use super::{Output, running::StatusLine};
use crate::{error::Failure, screen::Screen};

/// The most lines of other sources that wait to be shown. Beyond that, the oldest are dropped.
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
    /// The progress line, while it is shown.
    status: Option<StatusLine>,
    /// Lines that wait until the cursor is at the start of a line.
    news: VecDeque<String>,
}

impl TurnPrinter {
    pub(super) fn new(screen: Arc<Screen>) -> Self {
        Self { screen, at_line_start: true, status: None, news: VecDeque::new() }
    }

    /// Prints each message, until there are no more.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) async fn print(mut self, mut messages: mpsc::UnboundedReceiver<Output>) -> Result<(), Failure> {
        loop {
            let next = if self.status.is_some() || !self.news.is_empty() {
                timeout(REFRESH_INTERVAL, messages.recv()).await
            } else {
                Ok(messages.recv().await)
            };
            let next = match next {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(_) => {
                    self.show_news();
                    self.show_status();
                    continue;
                }
            };
            match next {
                Output::Piece(piece) => self.print_piece(&piece).await?,
                Output::Line(line) => {
                    self.end_line().await?;
                    self.status = None;
                    self.queue_news(line);
                }
                Output::News(line) => self.queue_news(line),
                Output::Status(line) => self.set_status(line).await?,
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
        // Empty lines at the beginning or end of an answer carry no meaning.
        let piece = if self.at_line_start { piece.trim_start_matches('\n') } else { piece };
        if piece.is_empty() || (self.at_line_start && piece.trim().is_empty()) {
            return Ok(());
        }
        self.status = None;
        let lines_end = piece.rfind('\n').map_or(0, |end| end + 1);
        // Waiting lines are shown between two lines of the answer.
        let (lines, rest) = if self.news.is_empty() { ("", piece) } else { piece.split_at(lines_end) };
        for part in [lines, rest].into_iter().filter(|part| !part.is_empty()) {
            self.screen.fragment(text::for_terminal(part).into_owned()).await?;
            self.at_line_start = part.ends_with('\n');
            self.show_news();
        }
        Ok(())
    }

    async fn end_line(&mut self) -> Result<(), Failure> {
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

    /// Shows this progress line from now on. A line about a call ends the current line of the answer; any other is
    /// dropped while a line of the answer is incomplete.
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
