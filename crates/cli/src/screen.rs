//! Prints data on stdout and messages on stderr, and hides the secrets of servers in both.
//!
//! A daemon can run a command for the process that the user has started (the borrower). The screen of such a command
//! writes to the terminal of that process.

mod device;

use std::{
    borrow::Cow,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use toolrack_config::{Environment, Interpolate, Problem};
use toolrack_host::text;

use self::device::{Device, Stream};
use crate::{
    args::Global,
    error::{Exit, Failure},
    lending::{Outbox, TerminalProperties},
    output,
    render::{Layout, Tone, paint},
};

/// Erases from the cursor to the end of its line (ECMA-48, EL).
const ERASE_REST: &str = "\u{1b}[K";
/// Erases the whole screen and goes to its first line (ECMA-48, ED and CUP).
const CLEAR_ALL: &str = "\u{1b}[2J\u{1b}[H";

/// Prints all output of the program.
#[derive(Debug)]
pub(crate) struct Screen {
    prints_json: bool,
    is_quiet: bool,
    is_verbose: bool,
    device: Device,
    layout: Layout,
    /// Whether a user reads stderr and types on stdin.
    is_interactive: bool,
    status: Mutex<Status>,
    question_clock: Mutex<QuestionClock>,
    /// Whether the reader of stdout has closed it.
    is_stdout_closed: AtomicBool,
    /// Knows the secrets that servers received, and hides them in all output.
    secrets: OnceLock<Arc<Interpolate>>,
}

/// A failure as one line of JSON.
#[derive(Serialize)]
struct ErrorLine<'a> {
    error: &'a Failure,
}

/// The last line of the terminal, below the output that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Stderr is not a terminal, or the user does not want a status line.
    Disabled,
    /// The line is empty.
    Clear,
    /// The line shows progress, which the next output replaces.
    Shown,
    /// The line shows a question, which stays until the user has answered it.
    Question,
}

/// The time that questions take.
#[derive(Debug, Default)]
struct QuestionClock {
    /// When the open question was asked; `None` if no question is open.
    asked_at: Option<Instant>,
    /// How long earlier questions took in total.
    earlier_total: Duration,
}

impl QuestionClock {
    fn begin(&mut self) {
        self.asked_at.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.earlier_total += self.asked_at.take().map_or(Duration::ZERO, |asked_at| asked_at.elapsed());
    }
}

impl Screen {
    pub(crate) fn new(global: &Global, environment: &Environment) -> Self {
        // A CI system may provide a terminal, but no user reads it.
        let on_terminal = io::stderr().is_terminal() && environment.get("CI").is_none();
        let is_dumb = environment.get("TERM").is_some_and(|terminal| terminal == "dumb");
        let device = Device::Own(global.color);
        let terminal = TerminalProperties {
            out: device.properties(Stream::Out),
            err: device.properties(Stream::Err),
            interactive: on_terminal && !global.no_input && io::stdin().is_terminal(),
            shows_status: on_terminal && !is_dumb && !global.quiet,
            unicode: supports_unicode(environment),
        };
        Self::with_device(device, global, terminal)
    }

    /// Creates the screen of a command that this process runs for another process, the borrower. The screen writes to
    /// the terminal of the borrower.
    pub(crate) fn for_borrower(global: &Global, terminal: TerminalProperties, outbox: Outbox) -> Self {
        Self::with_device(Device::Borrower { out: terminal.out, err: terminal.err, outbox }, global, terminal)
    }

    fn with_device(device: Device, global: &Global, terminal: TerminalProperties) -> Self {
        let TerminalProperties { interactive, shows_status, unicode, .. } = terminal;
        Self {
            prints_json: global.json,
            is_quiet: global.quiet,
            is_verbose: global.verbose > 0,
            layout: Layout { unicode, width: device.columns(Stream::Out) },
            device,
            is_interactive: interactive,
            status: Mutex::new(if shows_status { Status::Clear } else { Status::Disabled }),
            question_clock: Mutex::default(),
            is_stdout_closed: AtomicBool::new(false),
            secrets: OnceLock::new(),
        }
    }

    /// Returns the queue of messages to the borrower (the process whose terminal this screen writes to), if there is
    /// one.
    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        self.device.outbox()
    }

    /// Returns the properties of this terminal, for another process that renders output for it.
    pub(crate) fn terminal_properties(&self) -> TerminalProperties {
        TerminalProperties {
            out: self.device.properties(Stream::Out),
            err: self.device.properties(Stream::Err),
            interactive: self.is_interactive,
            shows_status: *self.status() != Status::Disabled,
            unicode: self.layout.unicode,
        }
    }

    /// Hides the secrets that servers have received from `secrets` in all output from now on.
    pub(crate) fn conceal(&self, secrets: Arc<Interpolate>) {
        // A screen serves one context, so this is called once.
        let _ = self.secrets.set(secrets);
    }

    /// Returns `text`, and hides the secrets that it contains completely.
    pub(crate) fn concealed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.get().map_or(Cow::Borrowed(text), |secrets| secrets.conceal(text))
    }

    /// Returns how many bytes of an unfinished text can be printed now, without cutting a secret in two.
    pub(crate) fn safe_len(&self, text: &str) -> usize {
        self.secrets.get().map_or(text.len(), |secrets| secrets.safe_len(text))
    }

    /// How to lay out pages for the current width of the terminal.
    pub(crate) fn layout(&self) -> Layout {
        Layout { width: self.device.columns(Stream::Out), ..self.layout }
    }

    /// Returns whether data is printed as JSON (`--json`).
    pub(crate) fn prints_json(&self) -> bool {
        self.prints_json
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.device.is_terminal(Stream::Out)
    }

    /// Whether the reader of stdout has closed it, as `head` does when it has enough. A command that would write for
    /// ever, such as `logs --follow`, then ends. It is known only after something was written.
    pub(crate) fn is_stdout_closed(&self) -> bool {
        self.is_stdout_closed.load(Ordering::Relaxed)
    }

    /// Whether there is a user to ask.
    pub(crate) fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// Whether messages to the user may have colour.
    pub(crate) fn is_coloured(&self) -> bool {
        self.device.has_colour(Stream::Err)
    }

    /// Prints a page for users to stdout, with a line end. On a terminal, it cuts or wraps lines that are too wide.
    /// Empty text prints nothing.
    ///
    /// # Errors
    /// As [`Self::verbatim`].
    pub(crate) async fn page(&self, text: String) -> Result<(), Failure> {
        // Hides secrets before it wraps lines: a wrapped or cut secret would no longer be found.
        self.verbatim(self.layout().fit(&self.concealed(&text))).await
    }

    /// Prints text that must stay as it is, such as a result or a script, and adds a line end. Empty text prints
    /// nothing.
    ///
    /// # Errors
    /// When stdout cannot be written. A closed pipe is not an error.
    pub(crate) async fn verbatim(&self, mut text: String) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        self.write_stdout(text).await
    }

    /// Writes bytes into `file` or to stdout. Bytes that are text get their secrets hidden; others stay as they are.
    ///
    /// # Errors
    /// When they cannot be written. A closed pipe on stdout is not an error.
    pub(crate) async fn bytes(&self, bytes: Vec<u8>, file: Option<&Path>) -> Result<(), Failure> {
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => self.concealed(&text).into_owned().into_bytes(),
            Err(error) => error.into_bytes(),
        };
        self.clear();
        self.raw_bytes(bytes, file.map(Path::to_owned)).await
    }

    /// Like [`Self::bytes`], for bytes that another screen has rendered for this one.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(crate) async fn raw_bytes(&self, bytes: Vec<u8>, file: Option<PathBuf>) -> Result<(), Failure> {
        match (&self.device, file) {
            (Device::Own(_), Some(file)) => output::write(file, bytes, output::DEFAULT_MODE).await,
            (_, file) => self.check_written(self.device.bytes(bytes, file).await),
        }
    }

    /// Prints a piece of a text, without a line end. Hides only secrets that are complete in the piece; see
    /// [`Self::safe_len`].
    ///
    /// # Errors
    /// As [`Self::verbatim`].
    pub(crate) async fn fragment(&self, text: String) -> Result<(), Failure> {
        self.write_stdout(text).await
    }

    /// Prints data for programs to stdout: one JSON document, on one line unless it goes to a terminal.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub(crate) async fn document(&self, document: &impl Serialize) -> Result<(), Failure> {
        let json = if self.device.is_terminal(Stream::Out) {
            serde_json::to_string_pretty(document)
        } else {
            serde_json::to_string(document)
        };
        let json = json.map_err(|error| {
            Failure::new(Exit::Other, "OUTPUT_FAILED", format!("the result cannot be written as JSON: {error}"))
        })?;
        self.write_stdout(escape_invisible(&json) + "\n").await
    }

    /// Prints one of many JSON documents, on a line of its own.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub(crate) async fn record(&self, record: &impl Serialize) -> Result<(), Failure> {
        // Records are plain data, so this cannot fail.
        let json = serde_json::to_string(record).unwrap_or_default();
        self.write_stdout(escape_invisible(&json) + "\n").await
    }

    /// Prints a message to stderr, in addition to the data, as one line; not with `--quiet`.
    pub(crate) fn note(&self, message: &str) {
        if !self.is_quiet {
            self.message(&text::for_line(message));
        }
    }

    /// Prints a detail for users who ask for more (`-v`). The message must be safe to print: all text of servers in it
    /// is escaped.
    pub(crate) fn detail(&self, message: &str) {
        if self.is_verbose {
            self.message(message);
        }
    }

    /// Prints a line in addition to the data; not with `--quiet`. The line must be safe to print.
    pub(crate) fn safe_note(&self, line: &str) {
        if !self.is_quiet {
            self.message(line);
        }
    }

    /// Prints a warning, which does not make the command fail; not with `--quiet`.
    pub(crate) fn warning(&self, message: &str) {
        if !self.is_quiet {
            let label = paint(Tone::Waiting, "warning:");
            self.message(&format!("{label} {}", text::for_line(message)));
        }
    }

    /// Prints lines for the user to stderr; they must be safe to print.
    pub(crate) fn message(&self, lines: &str) {
        let layout = Layout { width: self.device.columns(Stream::Err), ..self.layout };
        self.write_stderr(&format!("{}\n", layout.fit(&self.concealed(lines))));
    }

    /// Returns `lines` as another process can print them, unchanged, at the terminal of this process.
    pub(crate) fn rendered(&self, lines: &str) -> String {
        let layout = Layout { width: self.device.columns(Stream::Err), ..self.layout };
        let lines = layout.fit(&self.concealed(lines));
        if self.is_coloured() { lines } else { anstream::adapter::strip_str(&lines).to_string() }
    }

    /// Prints a question without a line end, so that the user types behind it. Call [`Self::record_answer`] afterwards.
    pub(crate) fn prompt(&self, question: &str) {
        self.question_clock.lock().begin();
        let layout = Layout { width: self.device.columns(Stream::Err), ..self.layout };
        let words = question.trim_end();
        let fitted = layout.fit(&self.concealed(words));
        self.write_stderr(&format!("{fitted}{}", &question[words.len()..]));
        let mut status = self.status();
        if *status != Status::Disabled {
            *status = Status::Question;
        }
    }

    /// Records that the user has answered the question of [`Self::prompt`].
    pub(crate) fn record_answer(&self) {
        self.question_clock.lock().end();
        let mut status = self.status();
        if *status == Status::Question {
            *status = Status::Clear;
        }
    }

    /// Whether a question on the terminal is still unanswered.
    pub(crate) fn is_asking(&self) -> bool {
        self.question_clock.lock().asked_at.is_some()
    }

    /// How long questions have waited for their answers in total, the open one included.
    pub(crate) fn time_waiting_for_answers(&self) -> Duration {
        let question_clock = self.question_clock.lock();
        question_clock.earlier_total + question_clock.asked_at.map_or(Duration::ZERO, |asked_at| asked_at.elapsed())
    }

    /// Shows what the command waits for, until the next output replaces it. Only on a terminal.
    pub(crate) fn progress(&self, words: &str) {
        let mut status = self.status();
        if matches!(*status, Status::Clear | Status::Shown) {
            let room = self.device.columns(Stream::Err).saturating_sub(1);
            let words = self.layout.clip(&text::for_line(&self.concealed(words)), room);
            self.device.write_control(&format!("\r{words}{ERASE_REST}"));
            *status = Status::Shown;
        }
    }

    /// Erases what [`Self::progress`] has shown.
    fn clear(&self) {
        let mut status = self.status();
        if *status == Status::Shown {
            self.device.write_control(&format!("\r{ERASE_REST}"));
            *status = Status::Clear;
        }
    }

    /// Clears the whole terminal.
    pub(crate) fn clear_all(&self) {
        if *self.status() != Status::Disabled {
            self.device.write_control(CLEAR_ALL);
        }
    }

    /// Erases the progress line, and ends the line of a question that an interruption has left unanswered.
    pub(crate) fn end_status_line(&self) {
        self.question_clock.lock().end();
        self.clear();
        let mut status = self.status();
        if *status == Status::Question {
            self.device.write_control("\n");
            *status = Status::Clear;
        }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock()
    }

    /// Prints a problem of a configuration file, which takes several lines; with `--quiet` only if it is an error.
    pub(crate) fn problem(&self, problem: &Problem) {
        if problem.is_error() || !self.is_quiet {
            self.message(&problem.to_string());
        }
    }

    /// Prints the failure that ends the command: for users, or with `--json` as one line of JSON.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.prints_json {
            // A failure has only texts and JSON, so this cannot fail.
            let line = serde_json::to_string(&ErrorLine { error: failure });
            self.write_stderr(&format!("{}\n", escape_invisible(&line.unwrap_or_default())));
        } else {
            let lines = failure.for_users();
            let lines = lines.replacen("error:", &paint(Tone::Bad, "error:"), 1);
            self.message(&lines);
        }
    }

    /// Prints what clap reports: help goes to stdout, a usage error to stderr.
    pub(crate) fn usage(&self, error: &clap::Error) {
        let text = error.render().ansi().to_string();
        if error.use_stderr() {
            self.message(text.trim_end());
        } else {
            self.device.write_help(&self.layout().fit(&text));
        }
    }

    async fn write_stdout(&self, text: String) -> Result<(), Failure> {
        self.clear();
        self.raw(self.concealed(&text).into_owned()).await
    }

    /// Prints text that another screen has rendered for this one, without changes.
    ///
    /// # Errors
    /// As [`Self::verbatim`].
    pub(crate) async fn raw(&self, text: String) -> Result<(), Failure> {
        self.check_written(self.device.write_stdout(text).await)
    }

    /// Returns the failure of writing to stdout. A closed pipe is not a failure: the program that reads may have
    /// enough.
    fn check_written(&self, result: io::Result<()>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_stdout_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Failure::new(Exit::Other, "OUTPUT_FAILED", format!("cannot write to stdout: {error}"))),
        }
    }

    /// Does the same as [`Self::raw`], on stderr.
    pub(crate) fn raw_stderr(&self, text: &str) {
        // The other screen has adapted the colours: pass the text on unchanged.
        self.device.write_control(text);
    }

    /// Erases the last line of the terminal, even if another process has printed it.
    pub(crate) fn erase_last_line(&self) {
        if *self.status() != Status::Disabled {
            self.device.write_control(&format!("\r{ERASE_REST}"));
        }
    }

    fn write_stderr(&self, text: &str) {
        self.clear();
        self.device.write_stderr(&self.concealed(text));
    }
}

/// Returns whether the locale uses UTF-8. The first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set and not empty
/// decides (POSIX).
fn supports_unicode(environment: &Environment) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| environment.get(name)?.to_str())
        .find(|value| !value.is_empty())
        .is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.ends_with("utf-8") || locale.ends_with("utf8")
        })
}

/// Returns the same JSON with control characters and invisible characters as `\u` escapes.
///
/// JSON demands escapes only below U+0020, and allows them everywhere: the value stays the same.
fn escape_invisible(json: &str) -> String {
    let mut visible = String::with_capacity(json.len());
    for character in json.chars() {
        let mut buffer = [0; 4];
        let is_visible = matches!(character, '\n' | ' '..='~') || {
            let character: &str = character.encode_utf8(&mut buffer);
            text::for_line(character) == character
        };
        if is_visible {
            visible.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                visible += &format!("\\u{unit:04x}");
            }
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_is_used_if_the_locale_allows_it() {
        let supported = |variables: &[(&str, &str)]| supports_unicode(&Environment::new(variables.iter().copied()));
        assert!(supported(&[("LANG", "de_DE.UTF-8")]));
        assert!(supported(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!supported(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!supported(&[]));
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_is_known_afterwards() {
        let screen = Screen::new(&Global::default(), &Environment::default());
        screen.check_written(Ok(())).unwrap();
        let failure = screen.check_written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!((failure.code, screen.is_stdout_closed()), ("OUTPUT_FAILED", false));
        screen.check_written(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        assert!(screen.is_stdout_closed());
    }

    #[test]
    fn json_output_escapes_control_characters_without_changing_the_value() {
        let value = "a\u{1b}[31m\u{9b}2J\u{202e}\u{200b}\u{e0041}é日";
        let json = serde_json::to_string(value).unwrap();
        let shown = escape_invisible(&json);
        assert!(shown.contains("é日"), "{shown}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{200b}', '\u{e0041}']), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
    }
}
