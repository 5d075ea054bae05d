//! What the fake (a scripted MCP server for tests) does as a process: its descriptors, signals, children and deaths.
//! Tests choose this behaviour with *faults*, the options on its command line.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use super::faults::{Fault, Faults};

/// One open file descriptor.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Descriptor {
    pub(crate) fd: i32,
    pub(crate) target: String,
}

/// The descriptors that are open now, without the one that lists them.
pub(crate) fn open_descriptors() -> Vec<Descriptor> {
    // The descriptor that lists them is a link to this name, not to `self`.
    let own_folder = format!("/proc/{}/fd", std::process::id());
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut descriptors: Vec<Descriptor> = entries
        .flatten()
        .filter_map(|entry| {
            let fd = entry.file_name().to_str()?.parse().ok()?;
            let target = std::fs::read_link(entry.path()).ok()?.display().to_string();
            (target != own_folder).then_some(Descriptor { fd, target })
        })
        .collect();
    descriptors.sort_by_key(|descriptor| descriptor.fd);
    descriptors
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Death {
    /// How a process ends for the faults that are described as "exits with status 7". Tests look for this status.
    pub(crate) const STATUS_7: Self = Self::Exit(7);

    /// Reads `exit:N` or `signal:N`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, number) = text.split_once(':')?;
        let number = number.parse().ok()?;
        match kind {
            "exit" => Some(Self::Exit(number)),
            "signal" => Some(Self::Signal(number)),
            _ => None,
        }
    }

    /// Ends this process.
    pub(crate) fn die(self) -> ! {
        match self {
            Self::Exit(code) => std::process::exit(code),
            Self::Signal(number) => die_by(number),
        }
    }
}

fn die_by(number: i32) -> ! {
    let Ok(signal) = Signal::try_from(number) else { std::process::exit(255) };
    // More than once: Rust's runtime catches the first SIGSEGV to detect stack overflows; it then restores the default
    // action and returns.
    for _ in 0..20 {
        // If the signal cannot be sent, the process exits below.
        let _ = kill(Pid::this(), signal);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::exit(255)
}

/// Stops this process, with all its threads, until it is continued.
pub(crate) fn freeze() {
    // A process may always signal itself, so this does not fail.
    let _ = kill(Pid::this(), Signal::SIGSTOP);
    // It takes a moment until every thread has stopped: nothing may be answered meanwhile.
    std::thread::sleep(Duration::from_millis(50));
}

/// Blocks the signals that ask a process to end. Call it before any thread starts: threads inherit the mask.
pub(crate) fn block_termination() {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    if let Err(error) = signals.thread_block() {
        super::complain(&format!("fake-server: cannot block signals: {error}\n"));
    }
}

/// Does what the faults demand at the start.
pub(crate) fn misbehave_at_start(faults: &Faults) -> io::Result<()> {
    if let Some(kind) = faults.text(Fault::Grandchild) {
        start_grandchild(kind.contains("setsid"), kind.contains("ignore-term"))?;
    }
    if let Some(bytes) = faults.number(Fault::FillStderr) {
        fill_stderr(bytes);
    }
    if let Some(bytes) = faults.number(Fault::StderrLine) {
        // No line feed: the host must not keep a line without an end. A closed stderr does not end the server.
        let _ = io::stderr().write_all(&vec![b'e'; usize::try_from(bytes).unwrap_or(usize::MAX)]);
    }
    if let Some(code) = faults.number(Fault::ExitAtStart) {
        super::complain("fake-server: reading the configuration\nfake-server: fatal: told to exit at start\n");
        Death::Exit(i32::try_from(code).unwrap_or(1)).die();
    }
    if let Some(signal) = faults.number(Fault::SignalAtStart) {
        Death::Signal(i32::try_from(signal).unwrap_or(9)).die();
    }
    Ok(())
}

/// Writes this many bytes of lines to stderr. Blocks while the host does not read: that is the point.
pub(crate) fn fill_stderr(bytes: u64) {
    let line = format!("fake-server: {}\n", "noise ".repeat(20));
    let lines = bytes / line.len() as u64 + 1;
    let mut stderr = io::stderr().lock();
    for _ in 0..lines {
        if stderr.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts a child (for the host, a grandchild) that keeps this process's stdout and stderr open, and sleeps for an
/// hour. Returns its process id once it runs.
pub(crate) fn start_grandchild(setsid: bool, ignore_term: bool) -> io::Result<u32> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("sleeper").stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    if setsid {
        command.arg("setsid");
    }
    if ignore_term {
        command.arg("ignore-term");
    }
    let child = command.spawn()?;
    // `command` still holds the child's end: with it, the read below would not notice that the child died.
    drop(command);
    ours.set_read_timeout(Some(Duration::from_secs(10)))?;
    ours.read_exact(&mut [0])?;
    Ok(child.id())
}

/// Runs `fake-server sleeper [setsid] [ignore-term]`, the process that [`start_grandchild`] starts.
pub(crate) fn run_sleeper(args: &[String]) -> ! {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("ignore-term") {
        block_termination();
    }
    if has("setsid") {
        // Fails only if the process leads a process group already.
        let _ = nix::unistd::setsid();
    }
    // Its stdin is a socket to the parent, which waits for this byte. If the parent is gone, the process sleeps all the
    // same.
    let _ = nix::unistd::write(io::stdin(), b"!");
    std::thread::sleep(Duration::from_secs(3_600));
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_read_from_its_name_and_number() {
        assert_eq!(Death::parse("exit:3"), Some(Death::Exit(3)));
        assert_eq!(Death::parse("signal:11"), Some(Death::Signal(11)));
        assert_eq!(Death::parse("exit"), None);
        assert_eq!(Death::parse("leave:1"), None);
    }

    #[test]
    fn the_first_three_descriptors_are_among_the_open_ones() {
        let open = open_descriptors();
        for fd in 0..3 {
            assert!(open.iter().any(|descriptor| descriptor.fd == fd), "{fd} in {open:?}");
        }
    }
}
