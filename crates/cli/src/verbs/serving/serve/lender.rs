//! Runs the commands of other processes of the same user in the daemon: the daemon's side of [lending](crate::lending).
//! `Context` is what a command works with: its configuration, database, screen and servers. Here, the servers are those
//! of the daemon.

use std::{
    collections::BTreeMap, ffi::OsString, future::Future, io, os::unix::net::UnixListener as StdUnixListener,
    sync::Arc, time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::BufReader,
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::{sleep, timeout},
};
use toolrack_config::Environment;
use toolrack_daemon::CurrentWorld;

use crate::{
    context::{Borrower, Context},
    error::{Exit, Failure},
    lending::{BorrowerLines, Build, DaemonStatus, Hello, Outbox, ToBorrower, ToDaemon, receive, send},
    local_socket::{LocalSocket, SocketGuard},
    screen::Screen,
    verbs::{Cli, RunMode, Verb},
};

/// The most commands that run here at once. Further ones run in their own processes.
const MAX_COMMANDS: usize = 64;

/// How long a command may take to send its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after a failed accept, which is most likely caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The parts of a daemon that it lends.
struct Lender<'a, R> {
    /// The build of this program as it was when the daemon started: an update may replace its file.
    build: Option<Build>,
    context: &'a Context,
    current_world: &'a CurrentWorld,
    guard: &'a SocketGuard,
    /// Runs a verb whose run mode is [`RunMode::Lent`].
    run: R,
}

/// The socket through which other processes have the daemon run their commands.
pub(super) struct CommandSocket {
    pub(super) socket: StdUnixListener,
    pub(super) guard: Arc<SocketGuard>,
}

/// Runs commands with `run`, each in its own future, until the daemon ends. Running commands then have `grace` to end.
pub(super) async fn lend(
    command_socket: CommandSocket,
    context: &Context,
    current_world: &CurrentWorld,
    grace: Duration,
    run: impl AsyncFn(Verb, &Context) -> Result<Exit, Failure>,
) -> io::Result<()> {
    let CommandSocket { socket, guard } = command_socket;
    socket.set_nonblocking(true)?;
    let socket = UnixListener::from_std(socket)?;
    let lender = Lender { build: Build::current(), context, current_world, guard: &guard, run };
    let mut commands = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = current_world.ending() => break,
            Some(()) = commands.next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) if commands.len() < MAX_COMMANDS => {
                    commands.push(Box::pin(serve_command(stream, &lender)));
                }
                // Too many commands run here already. The connection closes, and the command's own process runs it.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("a command could not be served: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(socket);
    // Commands that take longer are dropped.
    let _ = timeout(grace, async { while commands.next().await.is_some() {} }).await;
    Ok(())
}

/// Serves one command, from its greeting to its end. The outcome is sent over the connection.
async fn serve_command(stream: UnixStream, lender: &Lender<'_, impl AsyncFn(Verb, &Context) -> Result<Exit, Failure>>) {
    let Some(stream) = lender.guard.admit(LocalSocket::Commands, stream).await else { return };
    let (reader, writer) = stream.into_split();
    let mut command = Command { reader: BufReader::new(reader), writer, outbox: Outbox::default() };
    if let Err(error) = command.run(lender).await {
        tracing::debug!("a command went away: {error}");
    }
}

/// A command of another process, and the connection to that process.
struct Command {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// The messages to that process that were not sent yet.
    outbox: Outbox,
}

impl Command {
    async fn run(
        &mut self,
        lender: &Lender<'_, impl AsyncFn(Verb, &Context) -> Result<Exit, Failure>>,
    ) -> io::Result<()> {
        let (hello, only_compares) = match timeout(GREETING_TIMEOUT, receive(&mut self.reader)).await?? {
            Some(ToDaemon::Hello(hello)) => (hello, false),
            Some(ToDaemon::Compare(hello)) => (hello, true),
            Some(ToDaemon::Status) => return send(&mut self.writer, &ToBorrower::Status(lender.status())).await,
            // The connection has ended, or did not begin with a greeting.
            _ => return Ok(()),
        };
        let lines = BorrowerLines::new(self.outbox.clone());
        let (verb, lent_context) = match lender.verb_and_context(*hello, &lines, &self.outbox).await {
            Ok(verb_and_context) => verb_and_context,
            Err(why) => return send(&mut self.writer, &ToBorrower::Declined(why)).await,
        };
        if only_compares {
            return send(&mut self.writer, &ToBorrower::Differences(lent_context.differences().await)).await;
        }
        send(&mut self.writer, &ToBorrower::Ready).await?;
        // By now, the command may have stopped waiting and run in its own process, so nothing begins before it sends
        // `Start`.
        let Ok(Some(ToDaemon::Start)) = timeout(GREETING_TIMEOUT, receive(&mut self.reader)).await? else {
            return Ok(());
        };
        let running_verb =
            run_to_end((lender.run)(verb, &lent_context), &lent_context, read_until_stop(&mut self.reader, &lines));
        tokio::pin!(running_verb);
        loop {
            tokio::select! {
                message = self.outbox.next() => match message {
                    Some(message) => send(&mut self.writer, &message).await?,
                    // So much output waits that the command is given up.
                    None => return Ok(()),
                },
                is_connected = &mut running_verb => {
                    if !is_connected {
                        return Ok(());
                    }
                    break;
                }
            }
        }
        self.outbox.open();
        while let Some(message) = self.outbox.next().await {
            send(&mut self.writer, &message).await?;
            if matches!(message, ToBorrower::End(_) | ToBorrower::Declined(_)) {
                break;
            }
        }
        Ok(())
    }
}

impl<R> Lender<'_, R> {
    fn status(&self) -> DaemonStatus {
        let mut servers = BTreeMap::new();
        for server in self.context.host().status() {
            *servers.entry(server.state.word().to_owned()).or_default() += 1;
        }
        DaemonStatus { version: env!("CARGO_PKG_VERSION").to_owned(), servers }
    }

    /// Returns the verb that a command wants, and the context to run it in.
    ///
    /// # Errors
    /// When the daemon cannot run the command as its own process would; the text tells the user why.
    async fn verb_and_context(
        &self,
        hello: Hello,
        lines: &BorrowerLines,
        outbox: &Outbox,
    ) -> Result<(Verb, Context), String> {
        let Hello { build, words, folder, variables, terminal, args_text } = hello;
        if self.build.as_ref() != Some(&build) {
            return Err("the daemon is another build of Toolrack: `toolrack daemon restart` starts this one".to_owned());
        }
        // Parse the words as the command's own process does.
        let words: Vec<_> = words.into_iter().map(OsString::from).collect();
        let cli = Cli::parse_words(&words).ok().filter(is_lent).ok_or("it does not do this command")?;
        let screen = Arc::new(Screen::for_borrower(&cli.global, terminal, outbox.clone()));
        let environment = Environment::new::<OsString, OsString>(to_os_pairs(variables));
        let borrower = Borrower { global: cli.global, folder, environment, screen, lines: lines.clone(), args_text };
        Ok((cli.verb, self.context.lend(borrower, self.current_world).await?))
    }
}

/// Returns whether a daemon can run this command. It cannot if the command has servers of its own, or a recording.
fn is_lent(cli: &Cli) -> bool {
    cli.verb.run_mode() == RunMode::Lent && cli.global.one_off.is_none() && cli.global.tape.is_none()
}

fn to_os_pairs(variables: BTreeMap<String, String>) -> impl Iterator<Item = (OsString, OsString)> {
    variables.into_iter().map(|(name, value)| (name.into(), value.into()))
}

/// Reads the typed input until a signal comes, and returns the exit code of the signal; `None` if the command is gone.
async fn read_until_stop(reader: &mut BufReader<OwnedReadHalf>, lines: &BorrowerLines) -> Option<Exit> {
    loop {
        match receive(reader).await {
            Ok(Some(ToDaemon::Line(number, line))) => lines.receive(number, line),
            Ok(Some(ToDaemon::Stop(exit))) => return Some(Exit::from_code(exit)),
            _ => return None,
        }
    }
}

/// Runs the verb as [`crate::run`] does, and sends its exit code after its output. Returns whether the command is still
/// connected.
async fn run_to_end(
    verb_run: impl Future<Output = Result<Exit, Failure>>,
    context: &Context,
    stop_signal: impl Future<Output = Option<Exit>>,
) -> bool {
    let outbox = context.screen.outbox();
    let result = tokio::select! {
        biased;
        stop_exit = stop_signal => match stop_exit {
            Some(exit) => Ok(exit),
            None => return false,
        },
        result = verb_run => result,
    };
    context.close_server_output().await;
    if let Some(why) = reason_to_run_elsewhere(&result, context)
        // Only output that was not sent yet can be taken back.
        && outbox.is_none_or(Outbox::take_back)
    {
        outbox.inspect(|outbox| outbox.push(ToBorrower::Declined(why)));
        return true;
    }
    context.screen.end_status_line();
    if let Err(failure) = &result {
        context.screen.failure(failure);
    }
    let exit = result.unwrap_or_else(|failure| failure.exit);
    outbox.inspect(|outbox| outbox.push(ToBorrower::End(exit as u8)));
    true
}

/// Returns why the command must run in its own process: it has other servers there, or the daemon's rules forbid what
/// the user typed. These rules are made for callers without a terminal. In both cases, nothing has begun.
fn reason_to_run_elsewhere(result: &Result<Exit, Failure>, context: &Context) -> Option<String> {
    let is_denied = || matches!(result, Err(failure) if failure.code == "DENIED");
    let why = context.decline_reason().map(str::to_owned);
    why.or_else(|| is_denied().then(|| "its rules, which are meant for other callers, forbid this command".to_owned()))
}
