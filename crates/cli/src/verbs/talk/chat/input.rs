//! Reads the user's next message: from an editor at a terminal, line by line from anything else.

use std::sync::Arc;

use super::{editor::Editor, known_items::KnownItems};
use crate::{asker::Terminal, context::Context, error::Failure, screen::Screen};

/// At the end of a line, this continues the text on the next line.
const CONTINUATION: char = '\\';

/// The user's input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserInput {
    /// One or more lines.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// The source of the user's input.
#[derive(Debug)]
pub(super) enum InputSource {
    /// A user at a terminal.
    Editor(Editor, Arc<Terminal>),
    /// A pipe, a file, or a terminal at which the program may not ask anything.
    Lines(Arc<Terminal>),
}

impl InputSource {
    /// Opens the input: an editor at a terminal, whose completion offers `known_items`, or lines from a pipe or file.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn open(context: &Context, known_items: &Arc<KnownItems>) -> Result<Self, Failure> {
        let terminal = context.terminal();
        Ok(match context.screen.is_interactive() {
            true => Self::Editor(Editor::start(context, Arc::clone(known_items))?, terminal),
            false => Self::Lines(terminal),
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Editor(..))
    }

    /// Shows a line, above the text that the user types if there is an editor. The line must be safe to print.
    pub(super) fn show_line(&self, line: &str, screen: &Screen) {
        match self {
            Self::Editor(editor, _) => editor.show_above(screen.rendered(line)),
            Self::Lines(_) => screen.safe_note(line),
        }
    }

    /// Waits for the next input of the user. Meanwhile, no other task reads from the terminal.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub(super) async fn next(&self) -> Result<UserInput, Failure> {
        match self {
            Self::Editor(editor, terminal) => terminal.run_exclusively(editor.next()).await,
            Self::Lines(terminal) => Ok(read_message(terminal).await),
        }
    }
}

/// Reads the next line, and the lines that continue it.
async fn read_message(terminal: &Terminal) -> UserInput {
    let mut text = String::new();
    loop {
        match terminal.next_line().await {
            Some(line) => text.push_str(&line),
            None if text.is_empty() => return UserInput::End,
            None => return UserInput::Text(text),
        }
        if !text.ends_with(CONTINUATION) {
            return UserInput::Text(text);
        }
        text.pop();
        text.push('\n');
    }
}

/// Returns whether `text` continues on another line.
pub(super) fn is_continued(text: &str) -> bool {
    text.ends_with(CONTINUATION)
}

/// Returns the lines of `text` without the continuation marks at their ends.
pub(super) fn join_lines(text: &str) -> String {
    text.replace(&format!("{CONTINUATION}\n"), "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_at_the_end_continues_the_line_and_is_not_sent() {
        assert!(is_continued("one\\") && !is_continued("one\\ ") && !is_continued("one"));
        assert_eq!(join_lines("one\\\ntwo\\three\nfour"), "one\ntwo\\three\nfour");
    }
}
