//! Starts a daemon without a terminal, and manages its log.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use clap::CommandFactory as _;
use tokio::time::{Instant, sleep};

use super::{super::serve::record::DaemonRecord, PROCESS_POLL_INTERVAL};
use crate::{
    error::{Exit, Failure, in_words},
    lending,
    verbs::Cli,
};

/// How long a daemon may take until it listens. It starts its servers only after that.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The size in bytes at which the log is rotated, and the most bytes of it that are shown.
pub(super) const MAX_LOG_BYTES: u64 = 1024 * 1024;

/// Returns the path of the file to which a daemon in the background writes its output.
pub(super) fn log_path(data_folder: &Path) -> PathBuf {
    data_folder.join("daemon.log")
}

/// Starts `toolrack serve` with the words after `daemon VERB`, and waits until other commands can find it. If a daemon
/// that was started at the same moment was quicker, returns that one.
///
/// # Errors
/// When the daemon does not start. The failure contains the daemon's last message.
pub(super) async fn start(verb: &str, words: &[OsString], data_folder: &Path) -> Result<DaemonRecord, Failure> {
    let path = log_path(data_folder);
    let (file, length_before) = open_log(&path).map_err(|error| log_failure(&path, &error))?;
    let child = spawn(&serve_words(verb, words), file).map_err(|error| {
        Failure::new(Exit::Other, "NOT_STARTED", format!("the daemon cannot be started: {}", in_words(&error)))
    })?;
    let mut daemon = StartingDaemon { child, is_started: false };
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(record) =
            DaemonRecord::read(data_folder).filter(|record| record.pid == daemon.child.id() && record.is_alive())
            && lending::daemon_status(data_folder).await.is_some()
        {
            daemon.is_started = true;
            return Ok(record);
        }
        if let Ok(Some(status)) = daemon.child.try_wait() {
            // It ends because of another daemon of this user, which was started at the same moment.
            if let Some(other_daemon) = DaemonRecord::read(data_folder).filter(DaemonRecord::is_alive) {
                return Ok(other_daemon);
            }
            return Err(start_failure(failed_exit(status), &read_end(&path, length_before)));
        }
        if Instant::now() > deadline {
            let message = format!("the daemon did not listen within {} s", START_TIMEOUT.as_secs());
            return Err(Failure::new(Exit::Other, "NOT_STARTED", message).hint("`toolrack daemon logs` shows more"));
        }
        sleep(PROCESS_POLL_INTERVAL).await;
    }
}

/// A daemon that other commands do not find yet. Ends when this is dropped before it has started: after the time-out,
/// and when the user interrupts `daemon start`.
struct StartingDaemon {
    child: Child,
    is_started: bool,
}

impl Drop for StartingDaemon {
    fn drop(&mut self) {
        if !self.is_started {
            // Both calls fail only if it has ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the failure for a log that can be neither written nor read.
pub(super) fn log_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Other, "NO_LOG", format!("{} cannot be used: {}", path.display(), in_words(error)))
}

/// Opens the log for appending, and returns its length. A log that is too long is first renamed, and replaces the log
/// that was renamed before.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::metadata(path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn spawn(words: &[OsString], log: File) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn()
}

/// Turns the command line `words` of `daemon VERB` into a command line of `serve`, without the program's name.
pub(super) fn serve_words(verb: &str, words: &[OsString]) -> Vec<OsString> {
    let options_with_value: Vec<String> = Cli::command()
        .get_arguments()
        .filter(|option| option.get_action().takes_values())
        .filter_map(|option| option.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = |word: &OsStr| options_with_value.iter().any(|option| word == option.as_str());
    let mut serve = Vec::new();
    let mut words = words.iter().skip(1);
    // Only options that every command has can stand before each of the two words.
    for name in ["daemon", verb] {
        while let Some(word) = words.next() {
            if word == name {
                break;
            }
            serve.push(word.clone());
            if takes_value(word) {
                serve.extend(words.next().cloned());
            }
        }
    }
    serve.extend(["serve", "--detached", "--no-open"].map(OsString::from));
    serve.extend(words.filter(|word| *word != "--no-open").cloned());
    // The output of a detached daemon goes to a log, which users read as text.
    serve.retain(|word| word != "--json");
    serve
}

/// Returns the exit code for a daemon that did not start and has ended with `status`. It is never that of success.
fn failed_exit(status: ExitStatus) -> Exit {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    code.map_or(Exit::Other, Exit::from_code)
}

/// Returns the failure that a daemon wrote before it ended.
fn start_failure(exit: Exit, output: &str) -> Failure {
    let last_line_after = |label: &str| output.lines().rev().find_map(|line| line.strip_prefix(label));
    let why = last_line_after("error: ").unwrap_or("it ended without an error message");
    let failure = Failure::new(exit, "NOT_STARTED", format!("the daemon did not start: {why}"));
    failure.hint(last_line_after("hint: ").unwrap_or("`toolrack daemon logs` shows more"))
}

/// Returns the text in `path` from byte `start` on, but at most its last [`MAX_LOG_BYTES`] bytes. Invalid UTF-8 is
/// replaced. The text of a file that cannot be read is empty.
pub(super) fn read_end(path: &Path, start: u64) -> String {
    let read_bytes = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let start = start.max(length.saturating_sub(MAX_LOG_BYTES));
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read_bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_start_become_those_of_serve() {
        let as_serve_of = |verb: &str, line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            serve_words(verb, &words).iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let of = |line| as_serve_of("start", line);
        assert_eq!(of("toolrack daemon start"), "serve --detached --no-open");
        assert_eq!(
            of("toolrack --agent daemon daemon --mcp-config start start --json --listen 127.0.0.1:0"),
            "--agent daemon --mcp-config start serve --detached --no-open --listen 127.0.0.1:0"
        );
        assert_eq!(of("toolrack -v --json daemon start --allow *"), "-v serve --detached --no-open --allow *");
        assert_eq!(
            as_serve_of("restart", "toolrack --agent restart daemon restart --allow start"),
            "--agent restart serve --detached --no-open --allow start"
        );
    }

    #[test]
    fn a_daemon_that_did_not_start_never_counts_as_success() {
        use std::os::unix::process::ExitStatusExt as _;
        let exit_of = |wait_status| failed_exit(ExitStatus::from_raw(wait_status));
        // An exit code is in the second byte of the status, and a signal in the first.
        assert_eq!([0, 2 << 8, 77 << 8, 9].map(exit_of), [Exit::Other, Exit::Usage, Exit::Other, Exit::Other]);
    }

    #[test]
    fn the_last_line_of_a_daemon_explains_why_it_did_not_start() {
        let failure = start_failure(Exit::Usage, "error: old\nwarning: x\nerror: in use\nhint: another port\n");
        assert_eq!(failure.for_users(), "error: the daemon did not start: in use\nhint: another port");
        assert!(start_failure(Exit::Other, "").hint.is_some());
    }
}
