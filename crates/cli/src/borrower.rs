//! The process that was typed, when a daemon does the work: it is the terminal of the daemon's verb.

use std::{ffi::OsString, future::Future, io, path::PathBuf, pin::Pin, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::BufReader,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
    time::timeout,
};
use toolrack_config::{Environment, Places};
use toolrack_host::text;

use crate::{
    args,
    asker::OwnLines,
    door::{self, Door},
    error::{Exit, Failure, with_causes},
    lending::{Hello, MAX_MESSAGE, ToCommand, ToDaemon, receive, send},
    screen::Screen,
    stop::Stop,
    verbs::{Cli, Verb, Way, offers::call},
    wire::Brought,
};

/// Means `--no-daemon`, unless it is empty or `0`.
const NO_DAEMON: &str = "TOOLRACK_NO_DAEMON";

/// How long a daemon may take to say whether it can do it. A daemon that is stopped never does.
const ANSWER: Duration = Duration::from_millis(500);

/// How long the daemon may take to end after a signal.
const END: Duration = Duration::from_secs(2);

/// Messages that wait to be shown.
const INBOX: usize = 16;

/// A message of the daemon; `None` at the end.
type Received = io::Result<Option<ToCommand>>;

/// How the attempt to borrow ended.
pub(crate) enum Borrowed {
    /// The daemon did it, or nothing was done.
    Done(Exit),
    /// This process has to do it, with this if it was read already.
    Alone(Option<Brought>),
}

/// Has a running daemon do the command, if one can.
///
/// # Errors
/// When the daemon is lost while it works; what was begun is not begun again.
pub(crate) async fn run(
    cli: &Cli,
    words: &[OsString],
    environment: &Environment,
    screen: &Screen,
    stop: &mut Stop,
) -> Result<Borrowed, Failure> {
    let data = match wanted(cli, environment) {
        Wanted::Nothing => return Ok(Borrowed::Alone(None)),
        Wanted::ToBeAlone(why) => {
            not_used(&why, screen);
            return Ok(Borrowed::Alone(None));
        }
        Wanted::DaemonOf(data) => data,
    };
    let brought = tokio::select! {
        biased;
        exit = stop.requested() => return Ok(Borrowed::Done(exit)),
        brought = brought(&cli.verb, screen) => brought,
    };
    let alone = |brought| Ok(Borrowed::Alone(brought));
    let hello = match &brought {
        // The command itself reports what is wrong with it.
        Some(Err(_)) => None,
        Some(Ok(text)) => Hello::of(words, environment, screen.terminal(), Some(text.clone())),
        None => Hello::of(words, environment, screen.terminal(), None),
    };
    let Some(hello) = hello else {
        return alone(brought);
    };
    let why = match timeout(ANSWER, welcomed(&data, hello)).await {
        Ok(Ok(Ok((from, mut to)))) => match show(from, &mut to, screen, stop).await? {
            Ended::Done(exit) => return Ok(Borrowed::Done(exit)),
            Ended::Elsewhere(why) => why,
        },
        Ok(Ok(Err(why))) => why,
        // A socket that a daemon has left behind.
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return alone(brought),
        Ok(Err(_)) => "it does not let this process in".to_owned(),
        Err(_) => "it does not answer".to_owned(),
    };
    not_used(&why, screen);
    alone(brought)
}

/// Tells a user who wants to know why the daemon that runs has nothing to do with the command.
fn not_used(why: &str, screen: &Screen) {
    screen.detail(&text::for_line(&format!("the running daemon was not used: {why}")));
}

/// What a command wants of a daemon.
enum Wanted {
    /// There is none, or none could do it.
    Nothing,
    /// There is one, and what was typed does without, for this reason.
    ToBeAlone(String),
    /// The daemon with this data folder.
    DaemonOf(PathBuf),
}

/// What the command wants of a daemon.
fn wanted(cli: &Cli, environment: &Environment) -> Wanted {
    let is_off = environment.get(NO_DAEMON).is_some_and(|value| !value.is_empty() && value != "0");
    let global = &cli.global;
    // Servers are told of folders when they are connected. What is typed, no daemon has.
    let has_answers = global.answers.is_some() || !global.answer.is_empty();
    let is_typed = global.once.is_some() || global.mcp_config.iter().any(|file| args::is_typed(file));
    let places = Places::from_env(environment).ok().filter(|_| cli.verb.way() == Way::Lent);
    let data = places.map(|places| places.data().to_owned());
    let Some(data) = data.filter(|data| std::fs::symlink_metadata(Door::Commands.socket(data)).is_ok()) else {
        return Wanted::Nothing;
    };
    let why = match () {
        () if global.no_daemon => "`--no-daemon` says so",
        () if is_off => "`TOOLRACK_NO_DAEMON` says so",
        () if global.verbose > 1 => "`-vv` shows what this process does",
        () if !global.root.is_empty() => "its servers know of no `--root`",
        () if has_answers => "`--answer` is for the servers of one command",
        () if is_typed => "what is typed for one time is started for one time",
        () => return Wanted::DaemonOf(data),
    };
    Wanted::ToBeAlone(why.to_owned())
}

/// What `--args` stands for, where only this process can read it.
async fn brought(verb: &Verb, screen: &Screen) -> Option<Brought> {
    match verb {
        Verb::Call(args) => {
            let word = args.args.clone().filter(|word| word == "-" || word.starts_with('@'))?;
            Some(call::read_arguments(word, screen).await)
        }
        _ => None,
    }
}

/// The two halves of a connection to a daemon that does the command.
type Halves = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

/// Asks the daemon; the inner error says why it cannot do the command.
async fn welcomed(data: &std::path::Path, hello: Box<Hello>) -> io::Result<Result<Halves, String>> {
    let stream = door::enter(data, Door::Commands).await?;
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    send(&mut to, &ToDaemon::Hello(hello)).await?;
    match receive(&mut from).await? {
        Some(ToCommand::Ready) => Ok(Ok((from, to))),
        Some(ToCommand::Elsewhere(why)) => Ok(Err(why)),
        _ => Ok(Err("it has enough to do, or is another build of Toolrack".to_owned())),
    }
}

/// How the daemon's work ended.
enum Ended {
    Done(Exit),
    /// It gave up before anything began, for this reason.
    Elsewhere(String),
}

/// Shows the daemon's output until it is done.
async fn show(
    from: BufReader<OwnedReadHalf>,
    to: &mut OwnedWriteHalf,
    screen: &Screen,
    stop: &mut Stop,
) -> Result<Ended, Failure> {
    if send(to, &ToDaemon::Go).await.is_err() {
        // The daemon never heard that it should begin.
        return Ok(Ended::Elsewhere("it has ended".to_owned()));
    }
    let (inbox, mut messages) = mpsc::channel(INBOX);
    let lines = OwnLines::of_stdin();
    let showing = async {
        let mut shown = Shown { screen, lines: &lines, typed: None, bytes: Vec::new() };
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                exit = stop.requested() => {
                    // A user who presses Ctrl-C again does not want to wait.
                    if stopped || send(to, &ToDaemon::Stop(exit as u8)).await.is_err() {
                        return Ok(Ended::Done(exit));
                    }
                    stopped = true;
                }
                (number, line) = typed(&mut shown.typed) => {
                    shown.typed = None;
                    // A daemon that is gone says so by itself.
                    let _ = send(to, &ToDaemon::Line(number, line)).await;
                }
                message = next_message(&mut messages, stopped) => match message {
                    Ok(Some(message)) => tokio::select! {
                        biased;
                        // The reader of stdout may have stopped; the daemon sees that this process is gone.
                        exit = stop.requested() => return Ok(Ended::Done(exit)),
                        taken = shown.take(message) => if let Some(end) = taken? {
                            return Ok(end);
                        },
                    },
                    Ok(None) if stopped => return Ok(Ended::Done(Exit::Interrupted)),
                    Ok(None) => return Err(lost("it has ended", screen)),
                    Err(error) => return Err(lost(&with_causes(&error), screen)),
                },
            }
        }
    };
    tokio::select! {
        shown = showing => shown,
        () = pass_on(from, inbox) => Ok(Ended::Done(Exit::Other)),
    }
}

/// Passes the daemon's messages on. Never ends: reading must not be dropped half way through a message.
async fn pass_on(mut from: BufReader<OwnedReadHalf>, inbox: mpsc::Sender<Received>) {
    loop {
        let message = receive::<ToCommand>(&mut from).await;
        let is_last = !matches!(message, Ok(Some(_)));
        if inbox.send(message).await.is_err() || is_last {
            std::future::pending::<()>().await;
        }
    }
}

/// The next message. After a signal, it is waited for at most [`END`].
async fn next_message(messages: &mut mpsc::Receiver<Received>, stopped: bool) -> Received {
    let next = messages.recv();
    let message = if stopped { timeout(END, next).await.ok().flatten() } else { next.await };
    message.unwrap_or(Ok(None))
}

/// The failure for a lost daemon. Removes the live line that the daemon left on the terminal.
fn lost(why: &str, screen: &Screen) -> Failure {
    screen.wipe();
    let message = format!("the daemon was lost while it worked: {why}");
    Failure::new(Exit::Unreachable, "DAEMON_LOST", message)
        .hint("see what the call has done before you repeat it; `--no-daemon` does without")
}

/// A question that stands, with its number.
type Typed<'a> = Option<(u32, Pin<Box<dyn Future<Output = Option<String>> + 'a>>)>;

/// The line that answers the standing question; pending for ever without one.
async fn typed(question: &mut Typed<'_>) -> (u32, Option<String>) {
    match question {
        Some((number, line)) => (*number, line.await),
        None => std::future::pending().await,
    }
}

struct Shown<'a> {
    screen: &'a Screen,
    lines: &'a OwnLines,
    typed: Typed<'a>,
    /// The binary content that has come so far.
    bytes: Vec<u8>,
}

impl Shown<'_> {
    /// Does what the daemon says; returns the end when the message is one.
    async fn take(&mut self, message: ToCommand) -> Result<Option<Ended>, Failure> {
        match message {
            ToCommand::Out(text) => self.screen.raw(text).await?,
            ToCommand::Err(text) => self.screen.raw_aside(&text),
            ToCommand::Bytes(_) if self.bytes.len() > MAX_MESSAGE => {
                return Err(lost("it sends without end", self.screen));
            }
            ToCommand::Bytes(piece) => self.bytes.extend(STANDARD.decode(piece).unwrap_or_default()),
            ToCommand::BytesFor(file) => self.screen.raw_bytes(std::mem::take(&mut self.bytes), file).await?,
            ToCommand::Ask(number) => self.typed = Some((number, Box::pin(self.lines.next()))),
            ToCommand::Unask => self.typed = None,
            ToCommand::Forget => self.lines.forget(),
            ToCommand::End(exit) => return Ok(Some(Ended::Done(Exit::of(exit)))),
            ToCommand::Elsewhere(why) => return Ok(Some(Ended::Elsewhere(why))),
            ToCommand::Ready | ToCommand::Status(_) | ToCommand::Misfits(_) => {}
        }
        Ok(None)
    }
}
