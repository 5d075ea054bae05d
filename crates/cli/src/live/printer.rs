//! The answer and the lines beside it, each in its place.

use std::{collections::VecDeque, mem, sync::Arc};

use tokio::sync::mpsc;
use toolrack_host::text;

use super::Out;
use crate::{error::Failure, screen::Screen};

/// Lines about something else that wait for their place; the oldest make room.
const WAITING: usize = 64;

/// Where a turn is printed: the answer on stdout, lines beside it on stderr, and the live line at the end of both.
#[derive(Debug)]
pub(super) struct TurnPrinter {
    screen: Arc<Screen>,
    /// Nothing stands on the last line.
    at_start: bool,
    /// The live line, while it is there.
    status: Option<String>,
    /// What waits for a line of its own.
    news: VecDeque<String>,
}

impl TurnPrinter {
    pub(super) fn new(screen: Arc<Screen>) -> Self {
        Self { screen, at_start: true, status: None, news: VecDeque::new() }
    }

    /// Prints what comes.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) async fn print(mut self, mut out: mpsc::UnboundedReceiver<Out>) -> Result<(), Failure> {
        while let Some(next) = out.recv().await {
            match next {
                Out::Piece(piece) => self.piece(&piece).await?,
                Out::Line(line) => {
                    self.end_line().await?;
                    self.status = None;
                    self.tell_news();
                    self.screen.aside(&line);
                }
                Out::News(line) => {
                    if self.news.len() == WAITING {
                        self.news.pop_front();
                    }
                    self.news.push_back(line);
                    self.tell_news();
                }
                Out::Status(words) if self.at_start => {
                    self.tell_news();
                    self.screen.progress(&words);
                    self.status = Some(words);
                }
                Out::Status(_) => {}
                Out::Record(record) => self.screen.record(&record).await?,
                Out::Flush(printed) => drop(printed.send(())),
            }
        }
        if !self.news.is_empty() {
            self.end_line().await?;
            self.tell_news();
        }
        Ok(())
    }

    async fn piece(&mut self, piece: &str) -> Result<(), Failure> {
        // Empty lines at the beginning or end of an answer carry no meaning.
        let piece = if self.at_start { piece.trim_start_matches('\n') } else { piece };
        if piece.is_empty() || (self.at_start && piece.trim().is_empty()) {
            return Ok(());
        }
        self.status = None;
        let complete = piece.rfind('\n').map_or(0, |end| end + 1);
        // Waiting lines get their place between two lines of the answer.
        let (lines, rest) = if self.news.is_empty() { ("", piece) } else { piece.split_at(complete) };
        for part in [lines, rest].into_iter().filter(|part| !part.is_empty()) {
            self.screen.piece(text::for_terminal(part).into_owned()).await?;
            self.at_start = part.ends_with('\n');
            self.tell_news();
        }
        Ok(())
    }

    async fn end_line(&mut self) -> Result<(), Failure> {
        if !mem::replace(&mut self.at_start, true) {
            self.screen.piece("\n".to_owned()).await?;
        }
        Ok(())
    }

    /// Shows the waiting lines, and the live line below them, unless they would come between words or into a question.
    fn tell_news(&mut self) {
        if !self.at_start || self.news.is_empty() || self.screen.is_asking() {
            return;
        }
        for line in self.news.drain(..) {
            self.screen.aside(&line);
        }
        if let Some(words) = &self.status {
            self.screen.progress(words);
        }
    }
}
