//! A client that writes and reads lines, for a fake server over stdio.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::initialize;

/// The time limit for what must happen: longer than it takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// How long to wait for what must not happen.
pub(crate) const SHORT: Duration = Duration::from_millis(250);

/// A fake server over stdio. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Lines {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Lines {
    /// Starts `fake-server stdio` with these arguments.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(fake_server_path());
        command.arg("stdio").args(args);
        Self::run(command)
    }

    /// Starts it with each of these faults, and the other arguments.
    pub(crate) fn with(faults: &[&str], args: &[&str]) -> Self {
        let mut all: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
        all.extend(args);
        Self::start(&all)
    }

    /// Starts this command.
    pub(crate) fn run(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut errors = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut all = Vec::new();
            // What came before an error is enough for a test.
            let _ = errors.read_to_end(&mut all);
            all
        });
        Self { child, stdin, lines, stderr: Some(stderr) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes the stdin of the server, so that a test can write bytes other than messages, or write in another thread.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// The next line with its end; `None` when none comes within `limit`, or none ever will.
    pub(crate) fn line(&self, limit: Duration) -> Option<Vec<u8>> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Whether stdout has ended, or ends within `limit`.
    pub(crate) fn ends(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// The next line that is a message.
    pub(crate) fn message(&self) -> Value {
        loop {
            let line = self.line(LONG).expect("a message");
            if let Ok(message) = serde_json::from_slice::<Value>(&line)
                && message["jsonrpc"] == "2.0"
            {
                return message;
            }
        }
    }

    /// The answer to this id. Drops all messages before it.
    pub(crate) fn answer(&self, id: u64) -> Value {
        loop {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        self.answer(request["id"].as_u64().unwrap())
    }

    /// The legacy handshake.
    pub(crate) fn handshake(&mut self) {
        self.ask(&initialize(0));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Closes stdin.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits until the server has ended by itself, and returns its exit status.
    pub(crate) fn status(&mut self) -> ExitStatus {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it still runs");
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Everything that came on stderr; waits for its end.
    pub(crate) fn stderr(&mut self) -> Vec<u8> {
        self.stderr.take().unwrap().join().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        // Errors mean that the process has ended already, and that it was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.kill();
    }
}
