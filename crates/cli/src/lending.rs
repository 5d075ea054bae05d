//! The messages between the two processes when a running daemon lends its servers to a command.
//!
//! The daemon (the lender, a part of `serve`) runs the verb on servers that are connected already. The command's own
//! process (the [borrower](crate::borrower)) would otherwise run the same verb itself. The output and the questions of
//! the verb go through the borrower, which is only its terminal. So the same code runs in either case, and the output
//! is the same.
//!
//! ```text
//! toolrack call …  (the borrower)                  toolrack serve  (the lender)
//!   Hello: words, folder, variables, terminal ──►    checks: does it have the servers and rules of this command?
//!                            ◄── Ready, or Declined: then the borrower runs the command as if there were no daemon
//!   Start ──►                                        runs the verb
//!                            ◄── Out, Err, Ask, …, End
//! ```
//!
//! Before `Start`, the daemon has not begun the command. After it, the daemon can still hand the command back
//! ([`ToBorrower::Declined`]), until it has shown some output. It does so if its output could differ from what the
//! borrower would print by itself. There is one exception: a command that only shows servers also shows those that the
//! daemon could not connect to, as the daemon knows them. Once there is output, a broken connection is a failure, and
//! the borrower does not run the command again: a call is never made twice.
//!
//! Both ends are the same build of the same program ([`Build`]), so the messages may change with each version.

mod lines;
mod outbox;
mod terminal;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use toolrack_config::Environment;

pub(crate) use self::{
    lines::{BorrowerKeys, BorrowerLines},
    outbox::Outbox,
    terminal::{StreamProperties, TerminalProperties},
};
use crate::local_socket::{self, LocalSocket};

/// The most bytes of one message: the arguments of a call, and the words and variables of a process. Longer data, such
/// as output, are sent in several messages.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// How long a daemon may take to report its status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Identifies the program. When the user installs a newer program, a running daemon still is the old one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Build {
    version: String,
    /// The size of the file in bytes, and when it was written: seconds and nanoseconds.
    file: (u64, i64, i64),
}

impl Build {
    /// Returns the build of this process; `None` if it cannot find its own program file.
    pub(crate) fn current() -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let file = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
        let file = (file.len(), file.mtime(), file.mtime_nsec());
        Some(Self { version: env!("CARGO_PKG_VERSION").to_owned(), file })
    }
}

/// The first message of a command to the daemon.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) build: Build,
    /// The words as they were typed, with the program's name in front.
    pub(crate) words: Vec<String>,
    pub(crate) folder: PathBuf,
    /// The environment variables of the process, except those that are not UTF-8.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) terminal: TerminalProperties,
    /// The text of `--args`, if it was read from a file or from stdin.
    pub(crate) args_text: Option<String>,
}

impl Hello {
    /// Returns the first message of this process; `None` if its command cannot be passed to another process unchanged.
    pub(crate) fn for_command(
        words: &[OsString],
        environment: &Environment,
        terminal: TerminalProperties,
        args_text: Option<String>,
    ) -> Option<Box<Self>> {
        let to_text = |word: &OsStr| word.to_str().map(str::to_owned);
        let variables: BTreeMap<_, _> =
            environment.iter().filter_map(|(name, value)| Some((to_text(name)?, to_text(value)?))).collect();
        Some(Box::new(Self {
            build: Build::current()?,
            words: words.iter().map(|word| to_text(word)).collect::<Option<_>>()?,
            folder: std::env::current_dir().ok()?,
            variables,
            terminal,
            args_text,
        }))
    }
}

/// From the command to the daemon.
#[derive(Serialize, Deserialize)]
pub(crate) enum ToDaemon {
    Hello(Box<Hello>),
    /// Run the command.
    Start,
    /// The user's answer to the [`ToBorrower::Ask`], [`ToBorrower::AskKey`] or [`ToBorrower::Edit`] of this number;
    /// `None` at the end of input.
    Line(u32, Option<String>),
    /// A signal arrived; this is its exit code.
    Stop(u8),
    /// Asks for the status. Sent instead of [`ToDaemon::Hello`].
    Status,
    /// Asks which servers keep the command from using the daemon. Sent instead of [`ToDaemon::Hello`].
    Compare(Box<Hello>),
}

/// The status of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonStatus {
    pub(crate) version: String,
    /// The number of servers in each state, by the name of the state.
    pub(crate) servers: BTreeMap<String, usize>,
}

/// From the daemon to the process of the command: the borrower, or a command that asks for the status or the
/// differences.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToBorrower {
    /// The daemon can run the command.
    Ready,
    /// The daemon cannot run the command, and has done nothing. The text is the reason, without the value of any
    /// variable.
    Declined(String),
    /// A piece of stdout.
    Out(String),
    /// A piece of stderr.
    Err(String),
    /// A piece of binary content, in Base64.
    Bytes(String),
    /// The pieces are complete: they are for this file, or for stdout.
    BytesFor(Option<PathBuf>),
    /// Asks for a line of stdin. The number identifies the question.
    Ask(u32),
    /// Begins (`true`) or ends (`false`) to deliver single keys, and discards earlier input.
    Keys(bool),
    /// Asks for a key, as [`Self::Ask`].
    AskKey(u32),
    /// Lets the user change this text in an editor. The answer is an [`EditOutcome`](crate::editor::EditOutcome) as
    /// JSON.
    Edit(u32, String),
    /// The line, key or text that was asked for is no longer needed.
    Withdraw,
    /// Discards earlier input, so that it answers no question.
    Forget,
    /// The command is done, with this exit code.
    End(u8),
    /// The answer to [`ToDaemon::Status`].
    Status(DaemonStatus),
    /// The answer to [`ToDaemon::Compare`]: a line for each server that differs, or one line for all.
    Differences(Vec<String>),
}

impl ToBorrower {
    /// Returns the size in bytes that counts for the limits of the [`Outbox`]. A message without output counts as one
    /// byte, because the reader handles it at once.
    fn queued_bytes(&self) -> usize {
        match self {
            Self::Out(text) | Self::Err(text) | Self::Bytes(text) | Self::Edit(_, text) => text.len(),
            _ => 1,
        }
    }
}

/// Asks the daemon whose data are in `data` for its status. `None` if no daemon answers, if the daemon refuses this
/// process, or if it is of another version.
pub(crate) async fn daemon_status(data: &Path) -> Option<DaemonStatus> {
    let exchange = async {
        let mut stream = local_socket::connect(data, LocalSocket::Commands).await?;
        send(&mut stream, &ToDaemon::Status).await?;
        receive(&mut stream).await
    };
    match timeout(STATUS_TIMEOUT, exchange).await {
        Ok(Ok(Some(ToBorrower::Status(status)))) => Some(status),
        _ => None,
    }
}

/// Asks the daemon with the data folder `data` why a command of this process would not use it. Returns one line for
/// each server that differs there, or one line for all servers; `None` if the daemon gives no answer.
pub(crate) async fn differences(data: &Path, terminal: TerminalProperties) -> Option<Vec<String>> {
    // The servers are the same for all commands, so `list` stands for any command.
    let words = ["toolrack", "list"].map(OsString::from);
    let args_text = None;
    let hello = Hello::for_command(&words, &Environment::of_process(), terminal, args_text)?;
    let exchange = async {
        let mut stream = local_socket::connect(data, LocalSocket::Commands).await?;
        send(&mut stream, &ToDaemon::Compare(hello)).await?;
        receive(&mut stream).await
    };
    match timeout(STATUS_TIMEOUT, exchange).await {
        Ok(Ok(Some(ToBorrower::Differences(differences)))) => Some(differences),
        Ok(Ok(Some(ToBorrower::Declined(why)))) => Some(vec![why]),
        _ => None,
    }
}

/// Reads a message; `None` at the end. If the future is dropped before it is ready, a part of a message is lost.
///
/// # Errors
/// When the connection breaks, or the bytes are not a message.
pub(crate) async fn receive<T: for<'de> Deserialize<'de>>(
    reader: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    let length = match reader.read_u32().await {
        Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut body = Vec::new();
    // The buffer grows with the received bytes, not with the announced length.
    reader.take(length as u64).read_to_end(&mut body).await?;
    serde_json::from_slice(&body).map(Some).map_err(io::Error::from)
}

/// Writes a message.
///
/// # Errors
/// When the connection breaks.
pub(crate) async fn send(writer: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    // The first 4 bytes are the length of what follows.
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    writer.write_all(&bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_arrives_as_it_was_sent() {
        let (mut one, mut other) = tokio::io::duplex(16);
        let sending = async {
            send(&mut one, &ToDaemon::Line(7, Some("a\nb\u{1b}".to_owned()))).await.unwrap();
            drop(one);
        };
        let receiving = async {
            let line: Option<ToDaemon> = receive(&mut other).await.unwrap();
            assert!(matches!(line, Some(ToDaemon::Line(7, Some(line))) if line == "a\nb\u{1b}"));
            assert!(receive::<ToDaemon>(&mut other).await.unwrap().is_none());
        };
        tokio::join!(sending, receiving);
    }

    #[tokio::test]
    async fn a_message_of_an_impossible_length_is_refused() {
        let mut endless: &[u8] = &[0xff, 0xff, 0xff, 0xff, b'{'];
        assert!(receive::<ToDaemon>(&mut endless).await.is_err());
        let mut nonsense: &[u8] = &[0, 0, 0, 2, b'{', b'}'];
        assert!(receive::<ToDaemon>(&mut nonsense).await.is_err());
    }
}
