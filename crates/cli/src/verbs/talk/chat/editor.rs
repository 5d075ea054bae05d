//! Runs the line editor at a terminal, in a separate thread.

use std::{
    borrow::Cow,
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
};

use reedline::{
    ColumnarMenu, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, Highlighter, KeyCode, KeyModifiers,
    MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    StyledText, ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::sync::oneshot;

use super::{
    completer::ChatCompleter,
    input::{self, UserInput},
    known_items::KnownItems,
};
use crate::{
    context::Context,
    error::{Exit, Failure, in_words},
};

/// The most lines that are remembered from one conversation to the next.
const MAX_HISTORY_LINES: usize = 1_000;

/// The most lines that wait to be shown above the edited text.
const MAX_WAITING_LINES: usize = 64;

/// The name of the menu of completions.
const MENU: &str = "completions";

/// A request for the next text that the user types: the channel on which the text is sent.
type Request = oneshot::Sender<io::Result<UserInput>>;

/// The handle of the editor's thread, which edits one text per request.
#[derive(Debug)]
pub(super) struct Editor {
    /// `None` once the editor ends.
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    must_end: Arc<AtomicBool>,
    lines_above: SyncSender<String>,
}

impl Editor {
    /// Starts the thread. The Tab key offers the prompts and resources in `known_items`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(context: &Context, known_items: Arc<KnownItems>) -> Result<Self, Failure> {
        let start_failure = |error: io::Error| Failure::new(Exit::Other, "INTERNAL", format!("cannot start: {error}"));
        let must_end = Arc::new(AtomicBool::new(false));
        let history = open_history(&context.places.data().join("chat-history"));
        let history = history.map_err(|(file, error)| {
            let file = file.display();
            context.screen.warning(&format!("the input history is not stored: {file}: {}", in_words(&error)));
        });
        let (is_coloured, unicode) = (context.screen.is_coloured(), context.screen.layout().unicode);
        let printer = ExternalPrinter::new(MAX_WAITING_LINES);
        let lines_above = printer.sender();
        let (to_thread, requests) = mpsc::channel();
        let break_signal = Arc::clone(&must_end);
        let thread = thread::Builder::new().name("editor".to_owned()).spawn(move || {
            let editor = build_editor(history.ok(), is_coloured, ChatCompleter { known_items })
                .with_break_signal(break_signal)
                .with_external_printer(printer);
            serve_requests(&requests, editor, &LinePrompt { unicode });
        });
        Ok(Self { requests: Some(to_thread), thread: Some(thread.map_err(start_failure)?), must_end, lines_above })
    }

    /// Shows a line above the edited text, a moment later.
    pub(super) fn show_above(&self, line: String) {
        // Lines that come too fast to be read are dropped.
        let _ = self.lines_above.try_send(line);
    }

    /// Returns the next text that the user types.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub(super) async fn next(&self) -> Result<UserInput, Failure> {
        let (request, user_input) = oneshot::channel();
        let is_sent = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
        match user_input.await {
            Ok(user_input) if is_sent => user_input.map_err(|error| {
                Failure::new(Exit::Other, "TERMINAL", format!("the terminal cannot be read: {}", in_words(&error)))
            }),
            _ => Ok(UserInput::End),
        }
    }
}

impl Drop for Editor {
    /// Waits until the terminal is restored. The editor checks a few times a second whether it has to end.
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the editor must not become a panic of the program.
            let _ = thread.join();
        }
    }
}

fn serve_requests(requests: &mpsc::Receiver<Request>, mut editor: Reedline, prompt: &LinePrompt) {
    while let Ok(request) = requests.recv() {
        let user_input = match editor.read_line(prompt) {
            Ok(Signal::Success(text)) => {
                // Write the history after each line, in case this process is killed. A failure only means that the line
                // is not remembered.
                let _ = editor.sync_history();
                Ok(UserInput::Text(input::join_lines(&text)))
            }
            Ok(Signal::CtrlC) => Ok(UserInput::Interrupted),
            // Ctrl-D, or `must_end` is set.
            Ok(_) => Ok(UserInput::End),
            Err(error) => Err(io::Error::other(error)),
        };
        // The conversation may have ended meanwhile.
        let _ = request.send(user_input);
    }
}

fn build_editor(history: Option<FileBackedHistory>, is_coloured: bool, completer: ChatCompleter) -> Reedline {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
    let tab = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(tab));
    let menu = ColumnarMenu::default().with_name(MENU);
    let mut editor = Reedline::create()
        .with_completer(Box::new(completer))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_validator(Box::new(BackslashContinues))
        .with_highlighter(Box::new(NoHighlighting))
        .with_ansi_colors(is_coloured)
        .use_bracketed_paste(true);
    if let Some(history) = history {
        editor = editor.with_history(Box::new(history));
    }
    editor
}

/// Opens the history in `file`. Only the owner of the file may read it.
fn open_history(file: &Path) -> Result<FileBackedHistory, (PathBuf, io::Error)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Makes the file with the right mode before the line editor opens it.
    let new_file = options.open(file).map_err(|error| (file.to_owned(), error))?;
    drop(new_file);
    let history = FileBackedHistory::with_file(MAX_HISTORY_LINES, file.to_owned());
    history.map_err(|error| (file.to_owned(), io::Error::other(error)))
}

/// A text that ends with a backslash continues on the next line.
struct BackslashContinues;

impl Validator for BackslashContinues {
    fn validate(&self, text: &str) -> ValidationResult {
        if input::is_continued(text) { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// Shows the text as it is: it is not code, which the default highlighter expects.
struct NoHighlighting;

impl Highlighter for NoHighlighting {
    fn highlight(&self, text: &str, _: usize) -> StyledText {
        let mut styled = StyledText::new();
        styled.push((Default::default(), text.to_owned()));
        styled
    }
}

/// The prompt in front of the edited lines.
struct LinePrompt {
    /// Whether the terminal shows Unicode.
    unicode: bool,
}

impl Prompt for LinePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(if self.unicode { "❯ " } else { "> " })
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("history: {} ", search.term))
    }
}
