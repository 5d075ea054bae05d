//! Removes the container of a server once the client of the container engine, such as `docker run`, has ended.
//!
//! The processes of a container do not descend from the client that started it: `docker run` asks a daemon for the
//! container, and `podman run` leaves it to another process. A signal kills only the client, and the container goes on.
//! Therefore the process that ends the client (the supervisor, or the host where there is none) also asks the engine to
//! remove the container.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long [`Removal::carry_out`] takes at most.
pub const REMOVAL_LIMIT: Duration = Duration::from_secs(10);

/// How long one command of the engine may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(6);

/// How often to check whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait between two attempts, and before the second look-up after the engine's client was killed. The last
/// request of a killed client may still be on its way, and start the container after the first look-up.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The longest answer to read: ids of containers, of 64 digits each.
const MAX_ANSWER_BYTES: usize = 4096;

/// The exit code of an engine's client when the engine itself has failed (`docker-run(1)`, `podman-run(1)`).
pub const ENGINE_FAILED: i32 = 125;

/// How the engine's client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// The client was killed, perhaps in the middle of a request to the engine.
    Killed,
    /// The client reported that the engine has failed: there may be no engine to ask.
    EngineFailed,
    /// The client exited by itself.
    Exited,
}

/// The removal of one container, to be carried out later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The full path of the engine's client.
    engine: OsString,
    /// The name of the container.
    name: OsString,
    /// The environment of the engine's client; `None` for that of this process.
    env: Option<Vec<(OsString, OsString)>>,
}

impl Removal {
    /// Creates the removal of the container `name` by the client `engine`, a full path. The client gets this process's
    /// environment, or [another](Self::with_env).
    #[must_use]
    pub fn new(engine: impl Into<OsString>, name: impl Into<OsString>) -> Self {
        Self { engine: engine.into(), name: name.into(), env: None }
    }

    /// Gives the engine's client `env` and nothing else.
    #[must_use]
    pub fn with_env(mut self, env: Vec<(OsString, OsString)>) -> Self {
        self.env = Some(env);
        self
    }

    /// Returns this removal as a word of a supervisor's command line. The word has only the name of the container: the
    /// engine is the server's program on that command line, and [its environment](Self::with_env) is left out.
    #[must_use]
    pub fn word(&self) -> OsString {
        let mut word = OsString::from("container=");
        word.push(&self.name);
        word
    }

    /// Parses the removal of a container of `engine` from `words`; `None` for other words.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_words(words: &[OsString], engine: Option<&OsString>) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt;
        let [word] = words else { return None };
        let name = word.as_bytes().strip_prefix(b"container=")?;
        Some(Self::new(engine?, OsStr::from_bytes(name)))
    }

    /// Removes the container, running or not, and returns whether it is gone. Blocks, for [`REMOVAL_LIMIT`] at most.
    ///
    /// The container is gone once the engine no longer lists it. The result of the removal itself tells little:
    /// removing fails for a container that removes itself meanwhile, and in some versions for one that does not exist.
    ///
    /// After [`ClientEnd::Killed`], a container that is not listed is looked for once more. After
    /// [`ClientEnd::EngineFailed`], silence of the engine means that it does not run, so the container counts as gone.
    #[must_use]
    pub fn carry_out(&self, end: ClientEnd) -> bool {
        let deadline = Instant::now() + REMOVAL_LIMIT;
        // A killed client's last request may start the container after the first look-up, so look once more.
        let mut checks_left = u32::from(end == ClientEnd::Killed);
        loop {
            match self.is_listed(deadline) {
                Some(false) if checks_left == 0 => return true,
                Some(false) => checks_left -= 1,
                Some(true) => {
                    // With its anonymous volumes, as `run --rm` does.
                    self.run(&[OsStr::new("rm"), OsStr::new("--force"), OsStr::new("--volumes"), &self.name], deadline);
                    if self.is_listed(deadline) == Some(false) {
                        return true;
                    }
                }
                // The engine does not seem to run, and then neither does a container.
                None if end == ClientEnd::EngineFailed => return true,
                None => {}
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                return false;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Returns whether the engine lists the container; `None` if the engine does not answer.
    fn is_listed(&self, deadline: Instant) -> Option<bool> {
        // The filter also finds longer names, but the name of the container ends with a random number.
        let mut filter = OsString::from("name=");
        filter.push(&self.name);
        let arguments = ["ps", "--all", "--quiet", "--filter"].map(OsStr::new);
        let answer = self.run(&[arguments.as_slice(), &[&filter]].concat(), deadline)?;
        Some(!answer.trim_ascii().is_empty())
    }

    /// Runs the engine's client with `arguments`. Returns its output if it succeeds in time.
    fn run(&self, arguments: &[&OsStr], deadline: Instant) -> Option<Vec<u8>> {
        let mut command = Command::new(&self.engine);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(env) = &self.env {
            command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        }
        let mut child = command.spawn().ok()?;
        let has_succeeded = wait_or_kill(&mut child, deadline.min(Instant::now() + COMMAND_LIMIT));
        let mut pipe = child.stdout.take().filter(|_| has_succeeded)?;
        let mut answer = vec![0; MAX_ANSWER_BYTES];
        // Do not wait for the end of the output: a process that the client has started may hold the pipe open.
        let length = if is_readable(&pipe) { pipe.read(&mut answer).ok()? } else { 0 };
        answer.truncate(length);
        Some(answer)
    }
}

/// Returns whether a read would return at once, even with end of file.
pub(crate) fn is_readable(pipe: &impl AsFd) -> bool {
    let mut source = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut source, PollTimeout::ZERO), Ok(1..))
}

/// Waits until `child` has ended, and kills it at `deadline`. Returns whether it exited with success.
fn wait_or_kill(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            // The deadline has passed, or the child can no longer be waited for.
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
