//! Runs the verbs of `toolrack daemon`. `Context` is what a command works with: its configuration, database, screen and
//! servers.

mod background;
mod install;
mod tail;

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat};
use clap::{Args, Subcommand};
use nix::sys::signal::Signal;
use serde::Serialize;
use tokio::time::{sleep, timeout};
use toolrack_host::text;

use self::tail::Tail;
use super::serve::{self, StartedDaemon, args::ServeArgs, record::DaemonRecord};
use crate::{
    args::parse_duration,
    context::Context,
    error::{Exit, Failure},
    lending::{self, DaemonStatus},
    local_socket,
    render::count,
};

/// `daemon`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack daemon start
  toolrack daemon status
  toolrack daemon stop")]
pub(crate) enum DaemonVerb {
    /// Start `toolrack serve` in the background, and print its address once it listens
    #[command(
        after_help = "The daemon takes the options of `toolrack serve`, and runs in the folder in which you start it.

Examples:
  toolrack daemon start
  toolrack daemon start --yes-read-only --allow 'fs/*'"
    )]
    Start(Box<ServeArgs>),
    /// Stop the daemon if one runs, and start another: after an update of Toolrack, or with other options
    #[command(
        after_help = "Give the options as for `toolrack daemon start`: the new daemon keeps neither the options nor the folder of the old one.

Examples:
  toolrack daemon restart
  toolrack daemon restart --yes-read-only --allow 'fs/*'"
    )]
    Restart(Box<ServeArgs>),
    /// Show whether a daemon runs, at which address, and the states of its servers; fails when none answers
    #[command(after_help = "Examples:
  toolrack daemon status
  toolrack daemon status --json")]
    Status,
    /// Stop the daemon; running calls may still end
    Stop(StopArgs),
    /// Show the output of the daemon in the background
    Logs(DaemonLogsArgs),
    /// Write a unit with which systemd starts the daemon, with your session or with the machine
    Install(Box<install::InstallArgs>),
    /// Remove the unit that `daemon install` wrote
    Uninstall(install::UninstallArgs),
}

/// `daemon stop`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack daemon stop")]
pub(crate) struct StopArgs {
    /// How long the daemon may take to end before it is killed, instead of 30s and the time of its --grace and --drain
    #[arg(long = "patience", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) kill_after: Option<Duration>,
}

/// `daemon logs`.
#[derive(Debug, Args)]
#[command(after_help = "For the output of servers, use `toolrack logs`.

Examples:
  toolrack daemon logs --lines 20
  toolrack daemon logs --follow")]
pub(crate) struct DaemonLogsArgs {
    /// Show at most this many of the last lines
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) lines: usize,

    /// Keep showing what is written, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// How often to check whether a process has started, or ended.
const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How often to look for new lines of a log.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long to wait for the end of a process that was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a daemon may take to end, after the time that its options give to calls under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// What `daemon status --json` prints.
#[derive(Debug, Default, Serialize)]
struct StatusDocument {
    running: bool,
    /// Whether the daemon reports its status. A daemon that hangs or has another version does not report it.
    answers: bool,
    pid: Option<u32>,
    since: Option<String>,
    /// The URL of the dashboard, with the token that opens it.
    url: Option<String>,
    address: Option<String>,
    version: Option<String>,
    /// How many servers are in each state.
    servers: BTreeMap<String, usize>,
    /// Why commands in this folder do not use the daemon: a line for each server that differs here, or one for all
    /// servers.
    unused: Vec<String>,
    log: PathBuf,
}

/// What `daemon stop --json` prints.
#[derive(Debug, Default, Serialize)]
struct StopOutcome {
    stopped: bool,
    pid: Option<u32>,
    /// Whether the daemon was killed because it did not end in time.
    killed: bool,
}

/// What `daemon restart --json` prints.
#[derive(Debug, Serialize)]
struct RestartDocument {
    #[serde(flatten)]
    started: StartedDaemon,
    /// How the previous daemon ended.
    before: StopOutcome,
}

/// What `daemon logs --json` prints.
#[derive(Debug, Serialize)]
struct LogDocument<'a> {
    path: &'a Path,
    lines: Vec<&'a str>,
}

/// What `daemon logs --follow --json` prints for each line.
#[derive(Debug, Serialize)]
struct LogLine<'a> {
    line: &'a str,
}

pub(crate) async fn run(verb: DaemonVerb, words: &[OsString], context: &Context) -> Result<Exit, Failure> {
    if matches!(verb, DaemonVerb::Start(_) | DaemonVerb::Restart(_) | DaemonVerb::Install(_)) {
        context.refuse_consumed_configuration()?;
    }
    match verb {
        DaemonVerb::Start(args) => {
            refuse_with_parent(&args)?;
            start(words, context).await
        }
        DaemonVerb::Restart(args) => {
            refuse_with_parent(&args)?;
            restart(&args, words, context).await
        }
        DaemonVerb::Status => status(context).await,
        DaemonVerb::Stop(args) => stop(args.kill_after, context).await,
        DaemonVerb::Logs(args) if args.follow => follow(&args, context).await,
        DaemonVerb::Logs(args) => logs(&args, context).await,
        DaemonVerb::Install(args) => install::install(&args, words, context).await,
        DaemonVerb::Uninstall(args) => install::uninstall(&args, context).await,
    }
}

/// Refuses `--with-parent`, which only `serve` has a use for.
fn refuse_with_parent(args: &ServeArgs) -> Result<(), Failure> {
    if args.with_parent {
        return Err(Failure::usage("`--with-parent` is for `toolrack serve`")
            .hint("a daemon in the background has no parent that could end"));
    }
    Ok(())
}

/// Returns the running daemon. Removes the files that a dead daemon has left.
fn running_daemon(context: &Context) -> Option<DaemonRecord> {
    let data = context.places.data();
    let record = DaemonRecord::read(data)?;
    if record.is_alive() {
        return Some(record);
    }
    record.remove(data);
    None
}

async fn start(words: &[OsString], context: &Context) -> Result<Exit, Failure> {
    let record = match running_daemon(context) {
        Some(record) => {
            context.screen.note(&format!("a daemon is up already (process {})", record.pid));
            record
        }
        None => {
            refuse_in_server()?;
            start_new("start", words, context).await?
        }
    };
    serve::print_address(&record, context).await?;
    Ok(Exit::Ok)
}

/// Refuses to start a daemon in a process of a server.
fn refuse_in_server() -> Result<(), Failure> {
    if local_socket::was_started_by_server() {
        let message = "this process belongs to a server: a daemon that it starts would end with the server, and would \
                       refuse commands from here";
        return Err(Failure::new(Exit::Other, "IN_A_SERVER", message).hint("start it from a terminal"));
    }
    Ok(())
}

/// Starts a daemon with the options that the user typed after `daemon VERB`.
async fn start_new(verb: &str, words: &[OsString], context: &Context) -> Result<DaemonRecord, Failure> {
    let record = background::start(verb, words, context.places.data()).await?;
    context.screen.note(&format!("process {}; `toolrack daemon stop` ends it", record.pid));
    Ok(record)
}

async fn restart(args: &ServeArgs, words: &[OsString], context: &Context) -> Result<Exit, Failure> {
    // Check this first: if the new daemon cannot start, the running one must not end.
    refuse_in_server()?;
    serve::check_startable(args, context).await?;
    let kill_after = None;
    let before = stop_running(kill_after, context).await?;
    context.screen.note(&stop_message(&before));
    let record = start_new("restart", words, context).await?;
    if context.screen.prints_json() {
        context.screen.document(&RestartDocument { started: StartedDaemon::from(&record), before }).await?;
    } else {
        serve::print_address(&record, context).await?;
    }
    Ok(Exit::Ok)
}

async fn status(context: &Context) -> Result<Exit, Failure> {
    let log = background::log_path(context.places.data());
    let Some(record) = running_daemon(context) else {
        if context.screen.prints_json() {
            context.screen.document(&StatusDocument { log, ..StatusDocument::default() }).await?;
        } else {
            context.screen.note("no daemon is up; `toolrack daemon start` starts one");
        }
        return Ok(Exit::Other);
    };
    let daemon_report = lending::daemon_status(context.places.data()).await;
    let since = DateTime::from_timestamp(record.since, 0).map(|since| since.to_rfc3339_opts(SecondsFormat::Secs, true));
    let status = StatusDocument {
        running: true,
        answers: daemon_report.is_some(),
        pid: Some(record.pid),
        since,
        url: Some(record.url()),
        address: Some(record.address),
        version: daemon_report.as_ref().map(|daemon_report| daemon_report.version.clone()),
        servers: daemon_report.map(|daemon_report: DaemonStatus| daemon_report.servers).unwrap_or_default(),
        unused: lending::differences(context.places.data(), context.screen.terminal_properties())
            .await
            .unwrap_or_default(),
        log,
    };
    if context.screen.prints_json() {
        context.screen.document(&status).await?;
    } else {
        context.screen.page(page(&status)).await?;
        if !status.answers {
            context.screen.warning("the daemon does not report its status: it hangs, or has another version");
        }
    }
    // Health checks of containers look at the exit code.
    Ok(if status.answers { Exit::Ok } else { Exit::Unreachable })
}

/// Describes a running daemon, which always has a process and a URL.
fn page(status: &StatusDocument) -> String {
    let total = status.servers.values().sum();
    let states: Vec<_> =
        status.servers.iter().map(|(state, number)| format!("{number} {}", state_in_words(state))).collect();
    let mut lines = vec![
        format!("process {} since {}", status.pid.unwrap_or_default(), status.since.as_deref().unwrap_or("?")),
        status.url.clone().unwrap_or_default(),
    ];
    if status.answers {
        lines.push(format!("{}: {}", count(total, "server"), states.join(", ")));
    }
    lines.extend(status.unused.iter().map(|why| format!("commands here do not use it: {}", text::for_line(why))));
    lines.join("\n")
}

/// Returns the word of a state as people write it, without underscores.
fn state_in_words(state: &str) -> String {
    text::for_line(state).replace('_', " ")
}

async fn stop(kill_after: Option<Duration>, context: &Context) -> Result<Exit, Failure> {
    let outcome = stop_running(kill_after, context).await?;
    if context.screen.prints_json() {
        context.screen.document(&outcome).await?;
    } else {
        context.screen.note(&stop_message(&outcome));
    }
    Ok(Exit::Ok)
}

fn stop_message(outcome: &StopOutcome) -> String {
    match outcome.pid {
        Some(pid) => format!("the daemon (process {pid}) has ended"),
        None => "no daemon is up".to_owned(),
    }
}

/// Returns how long this daemon may take to end before it is killed: what the user typed, or else [`STOP_TIMEOUT`] more
/// than its calls may take.
fn time_to_end(daemon: &DaemonRecord, typed_timeout: Option<Duration>) -> Duration {
    typed_timeout.unwrap_or_else(|| Duration::from_secs(daemon.seconds_for_calls).saturating_add(STOP_TIMEOUT))
}

/// Ends the daemon that runs, and waits until it is gone; kills it after `kill_after`, or else after [`time_to_end`].
async fn stop_running(kill_after: Option<Duration>, context: &Context) -> Result<StopOutcome, Failure> {
    let Some(record) = running_daemon(context) else {
        return Ok(StopOutcome::default());
    };
    // If the system does not report start times, only a process that answers is certainly the daemon.
    if record.process_start.is_none() && lending::daemon_status(context.places.data()).await.is_none() {
        let message = format!("process {} does not answer, and may be another one by now", record.pid);
        return Err(Failure::new(Exit::Other, "NOT_SURE", message).hint("end it yourself if it is the daemon"));
    }
    record.send(Signal::SIGTERM);
    let killed = timeout(time_to_end(&record, kill_after), wait_until_gone(&record)).await.is_err();
    if killed {
        record.send(Signal::SIGKILL);
        if timeout(KILL_TIMEOUT, wait_until_gone(&record)).await.is_err() {
            let message = format!("the daemon (process {}) does not end", record.pid);
            return Err(Failure::new(Exit::Other, "NOT_STOPPED", message));
        }
        context.screen.warning("the daemon did not end in time, and was killed");
    }
    record.remove(context.places.data());
    Ok(StopOutcome { stopped: true, pid: Some(record.pid), killed })
}

async fn wait_until_gone(record: &DaemonRecord) {
    while record.is_alive() {
        sleep(PROCESS_POLL_INTERVAL).await;
    }
}

async fn logs(args: &DaemonLogsArgs, context: &Context) -> Result<Exit, Failure> {
    let path = background::log_path(context.places.data());
    let first_byte = 0;
    let text = background::read_end(&path, first_byte);
    let lines: Vec<_> = text.lines().collect();
    let lines = lines[lines.len().saturating_sub(args.lines)..].to_vec();
    if context.screen.prints_json() {
        context.screen.document(&LogDocument { path: &path, lines }).await?;
    } else {
        if lines.is_empty() {
            context.screen.note("no daemon in the background has written anything yet");
        }
        show(&lines, context).await?;
    }
    Ok(Exit::Ok)
}

/// Prints the last lines, and then new ones, until the user interrupts the command or stdout is closed.
async fn follow(args: &DaemonLogsArgs, context: &Context) -> Result<Exit, Failure> {
    let path = background::log_path(context.places.data());
    let log_failure = |error| background::log_failure(&path, &error);
    let mut tail = Tail::open(path.clone(), background::MAX_LOG_BYTES).map_err(log_failure)?;
    let mut last_lines = VecDeque::new();
    while let Some(lines) = tail.read_lines().map_err(log_failure)? {
        last_lines.extend(lines);
        last_lines.drain(..last_lines.len().saturating_sub(args.lines));
    }
    let mut lines = Vec::from(last_lines);
    loop {
        let lines_of_text: Vec<_> = lines.iter().map(String::as_str).collect();
        if context.screen.prints_json() {
            for line in lines_of_text {
                context.screen.record(&LogLine { line }).await?;
            }
        } else {
            show(&lines_of_text, context).await?;
        }
        if context.screen.is_stdout_closed() {
            return Ok(Exit::Ok);
        }
        lines = loop {
            match tail.read_lines().map_err(log_failure)? {
                Some(lines) => break lines,
                None => sleep(LOG_POLL_INTERVAL).await,
            }
        };
    }
}

async fn show(lines: &[&str], context: &Context) -> Result<(), Failure> {
    // An empty page prints nothing; a page with one empty line prints that line.
    context.screen.page(lines.iter().map(|line| text::for_line(line) + "\n").collect()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_not_killed_while_its_options_give_time_to_calls() {
        let record = |more: &str| -> DaemonRecord {
            let text = format!(r#"{{"address": "a", "token": "t", "pid": 1, "birth": null, "since": 0{more}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let patient = record(r#", "seconds_for_calls": 600"#);
        assert_eq!(time_to_end(&patient, None), Duration::from_secs(630));
        assert_eq!(time_to_end(&patient, Some(Duration::from_secs(1))), Duration::from_secs(1));
        assert_eq!(time_to_end(&record(""), None), STOP_TIMEOUT, "the record of an older version");
    }
}
