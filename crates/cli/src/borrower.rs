//! Lets a running daemon run the command that the user typed. This process, which the user has started, then borrows
//! the daemon's servers, and serves as the terminal of the command.

use std::{ffi::OsString, future::Future, io, path::PathBuf, pin::Pin, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::BufReader,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
    time::{sleep, timeout},
};
use toolrack_config::{Environment, Places};
use toolrack_host::text;

use crate::{
    args,
    asker::{EDITOR_IS_OPEN, KeyMode, OwnLines},
    context::ArgsText,
    editor::Editor,
    error::{Exit, Failure, with_causes},
    lending::{Hello, ToBorrower, ToDaemon, receive, send},
    local_socket::{self, LocalSocket},
    screen::Screen,
    stop::StopSignals,
    verbs::{Cli, RunMode, Verb, offers::call},
};

/// How long to wait for the daemon to accept or refuse the command. A stopped process (SIGSTOP) never answers.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the daemon may take to end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The most messages of the daemon that wait to be shown.
const MAX_QUEUED_MESSAGES: usize = 16;

/// The most bytes of the binary content of a result: the largest `max_message_bytes` of a server.
const MAX_CONTENT_BYTES: usize = 1024 * 1024 * 1024;

/// A message of the daemon; `None` at the end.
type MessageResult = io::Result<Option<ToBorrower>>;

/// The result of the attempt to let a daemon run the command.
pub(crate) enum BorrowOutcome {
    /// The command is finished: the daemon has run it, or the user has ended it before.
    Done(Exit),
    /// This process has to run the command itself, with the text of `--args` if it has read that already.
    RunAlone(Option<ArgsText>),
}

/// Lets a running daemon run the command, if it can.
///
/// # Errors
/// When the connection breaks while the daemon works. The command is not started again.
pub(crate) async fn run(
    cli: &Cli,
    words: &[OsString],
    environment: &Environment,
    screen: &Screen,
    stop: &mut StopSignals,
) -> Result<BorrowOutcome, Failure> {
    let data = match daemon_use(cli, environment) {
        DaemonUse::NoDaemon => return Ok(BorrowOutcome::RunAlone(None)),
        DaemonUse::Unused(why) => {
            explain_unused(&why, screen);
            return Ok(BorrowOutcome::RunAlone(None));
        }
        DaemonUse::Use(data) => data,
    };
    let args_text = tokio::select! {
        biased;
        exit = stop.requested() => return Ok(BorrowOutcome::Done(exit)),
        args_text = read_args(&cli.verb, screen) => args_text,
    };
    let run_alone = |args_text| Ok(BorrowOutcome::RunAlone(args_text));
    let hello = match &args_text {
        // The command itself reports its mistake.
        Some(Err(_)) => None,
        Some(Ok(text)) => Hello::for_command(words, environment, screen.terminal_properties(), Some(text.clone())),
        None => Hello::for_command(words, environment, screen.terminal_properties(), None),
    };
    let Some(hello) = hello else {
        return run_alone(args_text);
    };
    // The results, from outside to inside: the time-out, the connection, the daemon's answer.
    let why = match timeout(ANSWER_TIMEOUT, request(&data, hello)).await {
        Ok(Ok(Ok(connection))) => {
            let follows = matches!(&cli.verb, Verb::Read(args) if args.follow);
            let editor = Editor::from_environment(environment);
            match run_on_daemon(connection, screen, stop, editor, follows).await? {
                DaemonOutcome::Done(exit) => return Ok(BorrowOutcome::Done(exit)),
                DaemonOutcome::Declined(why) => why,
            }
        }
        Ok(Ok(Err(why))) => why,
        // The socket is left over from a daemon that has ended.
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return run_alone(args_text),
        Ok(Err(_)) => "it refuses this process".to_owned(),
        Err(_) => "it does not answer".to_owned(),
    };
    explain_unused(&why, screen);
    run_alone(args_text)
}

/// With `-v`, says why the command does not use the running daemon.
fn explain_unused(why: &str, screen: &Screen) {
    screen.detail(&text::for_line(&format!("the running daemon was not used: {why}")));
}

/// Which daemon a command can use.
enum DaemonUse {
    /// No daemon runs, or no daemon can run this kind of command.
    NoDaemon,
    /// A daemon runs, but the command does not use it, for this reason.
    Unused(String),
    /// The command can use the daemon with this data folder.
    Use(PathBuf),
}

/// Returns which daemon this command can use.
fn daemon_use(cli: &Cli, environment: &Environment) -> DaemonUse {
    let global = &cli.global;
    // Some options need servers of the command's own: a daemon does not have the servers that a command line gives.
    let has_answers = global.answers.is_some() || !global.answer.is_empty();
    let has_typed_server = global.one_off.is_some() || global.mcp_config.iter().any(|file| args::is_inline(file));
    let places = Places::from_env(environment).ok().filter(|_| cli.verb.run_mode() == RunMode::Lent);
    let data = places.map(|places| places.data().to_owned());
    let Some(data) = data.filter(|data| std::fs::symlink_metadata(LocalSocket::Commands.path(data)).is_ok()) else {
        return DaemonUse::NoDaemon;
    };
    // The first reason that applies.
    let why = global.reason_against_daemon(environment).or(match () {
        () if has_answers => Some("`--answer` is for the servers of one command"),
        () if global.tape.is_some() => Some("`record` and `replay` have servers of their own"),
        () if has_typed_server => Some("a server that the command line gives is started by the command itself"),
        () => None,
    });
    match why {
        Some(why) => DaemonUse::Unused(why.to_owned()),
        None => DaemonUse::Use(data),
    }
}

/// Reads the text of `--args` from stdin (`-`) or from a file (`@FILE`); `None` if the command line gives no text or
/// contains it.
async fn read_args(verb: &Verb, screen: &Screen) -> Option<ArgsText> {
    match verb {
        Verb::Call(args) => {
            let word = args.args.clone().filter(|word| word == "-" || word.starts_with('@'))?;
            Some(call::read_arguments(word, screen).await)
        }
        _ => None,
    }
}

/// The two halves of a connection to a daemon that runs the command.
type ConnectionHalves = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

/// Sends the command to the daemon; the inner error says why the daemon cannot run the command.
async fn request(data: &std::path::Path, hello: Box<Hello>) -> io::Result<Result<ConnectionHalves, String>> {
    let stream = local_socket::connect(data, LocalSocket::Commands).await?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    send(&mut writer, &ToDaemon::Hello(hello)).await?;
    match receive(&mut reader).await? {
        Some(ToBorrower::Ready) => Ok(Ok((reader, writer))),
        Some(ToBorrower::Declined(why)) => Ok(Err(why)),
        _ => Ok(Err("it is busy, or is another build of Toolrack".to_owned())),
    }
}

/// The result of the daemon's work.
enum DaemonOutcome {
    Done(Exit),
    /// The daemon refused before it started the command, for this reason.
    Declined(String),
}

/// Tells the daemon to begin, and shows its output and its questions until the command has ended. A command that
/// `follows` a resource never ends by itself: it also ends when stdout is closed.
async fn run_on_daemon(
    (reader, mut writer): (BufReader<OwnedReadHalf>, OwnedWriteHalf),
    screen: &Screen,
    stop: &mut StopSignals,
    editor: Editor,
    follows: bool,
) -> Result<DaemonOutcome, Failure> {
    if send(&mut writer, &ToDaemon::Start).await.is_err() {
        // The daemon did not get the message, so it has not started the command.
        return Ok(DaemonOutcome::Declined("it has ended".to_owned()));
    }
    let (inbox, mut messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let lines = OwnLines::from_stdin(editor);
    let show_messages = async {
        let mut terminal =
            LocalTerminal { screen, lines: &lines, question: None, keys: None, content: Content::default() };
        let mut stop_exit: Option<Exit> = None;
        loop {
            tokio::select! {
                biased;
                exit = stop.requested() => {
                    // At the second signal, stops without waiting for the daemon.
                    if stop_exit.is_some() || send(&mut writer, &ToDaemon::Stop(exit as u8)).await.is_err() {
                        return Ok(DaemonOutcome::Done(exit));
                    }
                    stop_exit = Some(exit);
                }
                (number, line) = answer_to(&mut terminal.question) => {
                    terminal.question = None;
                    // Fails if the daemon has ended, which the next read reports.
                    let _ = send(&mut writer, &ToDaemon::Line(number, line)).await;
                }
                message = next_message(&mut messages, stop_exit.is_some()) => match message {
                    Ok(Some(message)) => tokio::select! {
                        biased;
                        // Stdout may be blocked. End anyway: the daemon notices that this process has ended.
                        exit = stop.requested() => return Ok(DaemonOutcome::Done(exit)),
                        exit = give_up_after(stop_exit) => return Ok(DaemonOutcome::Done(exit)),
                        outcome = terminal.handle(message) => {
                            if let Some(outcome) = outcome? {
                                return Ok(outcome);
                            }
                            // The daemon notices that this process has ended.
                            if follows && screen.is_stdout_closed() {
                                return Ok(DaemonOutcome::Done(Exit::Ok));
                            }
                        }
                    },
                    Ok(None) => match stop_exit {
                        Some(exit) => return Ok(DaemonOutcome::Done(exit)),
                        None => return Err(connection_lost("it has ended", screen)),
                    },
                    Err(error) => return Err(connection_lost(&with_causes(&error), screen)),
                },
            }
        }
    };
    tokio::select! {
        outcome = show_messages => outcome,
        // Never happens: `read_messages` does not return.
        () = read_messages(reader, inbox) => Ok(DaemonOutcome::Done(Exit::Other)),
    }
}

/// Waits for [`EXIT_TIMEOUT`], and returns `stop_exit`, the exit code of an earlier signal; never returns without such
/// a signal. This ends the command if stdout blocks after the signal.
async fn give_up_after(stop_exit: Option<Exit>) -> Exit {
    match stop_exit {
        Some(exit) => {
            sleep(EXIT_TIMEOUT).await;
            exit
        }
        None => std::future::pending().await,
    }
}

/// Reads the daemon's messages into `inbox`, and never returns. It is a future of its own, which is not dropped while
/// the command runs, because dropping a read would lose a part of a message.
async fn read_messages(mut reader: BufReader<OwnedReadHalf>, inbox: mpsc::Sender<MessageResult>) {
    loop {
        let message = receive::<ToBorrower>(&mut reader).await;
        let is_last = !matches!(message, Ok(Some(_)));
        if inbox.send(message).await.is_err() || is_last {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the next message. After a signal, waits at most [`EXIT_TIMEOUT`] for it; if none comes, that counts as the
/// end.
async fn next_message(messages: &mut mpsc::Receiver<MessageResult>, is_stopping: bool) -> MessageResult {
    let next = messages.recv();
    let message = if is_stopping { timeout(EXIT_TIMEOUT, next).await.ok().flatten() } else { next.await };
    message.unwrap_or(Ok(None))
}

/// Returns the failure for a lost connection. Erases the progress line that the daemon has left on the terminal.
fn connection_lost(why: &str, screen: &Screen) -> Failure {
    screen.erase_last_line();
    let message = format!("the connection to the daemon was lost while it worked: {why}");
    Failure::new(Exit::Unreachable, "DAEMON_LOST", message)
        .hint("check what the call has done before you repeat it; `--no-daemon` runs commands without the daemon")
}

/// The open question: its number, and the line that the user types.
type OpenQuestion<'a> = Option<(u32, Pin<Box<dyn Future<Output = Option<String>> + 'a>>)>;

/// Waits for the line that answers the open question; forever if there is none.
async fn answer_to(question: &mut OpenQuestion<'_>) -> (u32, Option<String>) {
    match question {
        Some((number, line)) => (*number, line.await),
        None => std::future::pending().await,
    }
}

/// The terminal of this process, which shows the daemon's output and asks its questions.
struct LocalTerminal<'a> {
    screen: &'a Screen,
    /// Reads what the user types.
    lines: &'a OwnLines,
    question: OpenQuestion<'a>,
    /// While this exists, keys are delivered immediately.
    keys: Option<KeyMode>,
    content: Content,
}

/// The binary content that was received so far. Its pieces are messages of their own, so it may be longer than a
/// message.
#[derive(Default)]
struct Content(Vec<u8>);

impl Content {
    /// Appends a piece in Base64. Returns `false`, and appends nothing, if the content would be longer than
    /// [`MAX_CONTENT_BYTES`].
    fn append(&mut self, piece: &str) -> bool {
        // The daemon is of the same build as this process, so a piece is always Base64.
        let piece = STANDARD.decode(piece).unwrap_or_default();
        let has_room = self.0.len() + piece.len() <= MAX_CONTENT_BYTES;
        if has_room {
            self.0.extend(piece);
        }
        has_room
    }

    /// Returns the whole content, and begins another.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl LocalTerminal<'_> {
    /// Executes a message of the daemon. Returns how the command ended, if it ended.
    async fn handle(&mut self, message: ToBorrower) -> Result<Option<DaemonOutcome>, Failure> {
        match message {
            ToBorrower::Out(text) => self.screen.raw(text).await?,
            ToBorrower::Err(text) => self.screen.raw_stderr(&text),
            ToBorrower::Bytes(piece) => {
                if !self.content.append(&piece) {
                    return Err(connection_lost("it sends content without end", self.screen));
                }
            }
            ToBorrower::BytesFor(file) => self.screen.raw_bytes(self.content.take(), file).await?,
            ToBorrower::Ask(number) => self.question = Some((number, Box::pin(self.lines.next()))),
            ToBorrower::Keys(true) => self.keys = self.lines.enter_key_mode(),
            ToBorrower::Keys(false) => self.keys = None,
            ToBorrower::AskKey(number) => self.question = Some((number, Box::pin(self.lines.key()))),
            ToBorrower::Edit(number, text) => {
                let lines = self.lines;
                if lines.has_editor() {
                    self.screen.message(EDITOR_IS_OPEN);
                }
                let edited_text = async move { serde_json::to_string(&lines.edit(&text).await).ok() };
                self.question = Some((number, Box::pin(edited_text)));
            }
            ToBorrower::Withdraw => self.question = None,
            ToBorrower::Forget => self.lines.discard_input(),
            ToBorrower::End(exit) => return Ok(Some(DaemonOutcome::Done(Exit::from_code(exit)))),
            ToBorrower::Declined(why) => return Ok(Some(DaemonOutcome::Declined(why))),
            // `Ready` comes only before the command begins, the others only after requests of other commands.
            ToBorrower::Ready | ToBorrower::Status(_) | ToBorrower::Differences(_) => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::{Limits, spec::FieldKind};

    use super::*;
    use crate::lending::MAX_MESSAGE_BYTES;

    #[test]
    fn content_may_be_longer_than_one_message_and_as_long_as_a_server_may_send() {
        let mut content = Content(vec![0; MAX_MESSAGE_BYTES + 1]);
        assert!(content.append(&STANDARD.encode("end")));
        assert!(content.take().ends_with(b"end"));
        assert!(content.append(&STANDARD.encode("next")));
        assert_eq!(content.take(), b"next");
        let bound = Limits::FIELDS.iter().find(|field| field.key == "max_message_bytes").map(|field| field.kind);
        let Some(FieldKind::Number { max, .. }) = bound else { panic!("{bound:?}") };
        assert_eq!(max, MAX_CONTENT_BYTES as u64);
    }
}
