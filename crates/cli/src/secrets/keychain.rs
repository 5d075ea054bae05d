//! Keeps the key to stored secrets in the keychain of the system.
//!
//! Toolrack runs the system's own programs to reach the keychain: `secret-tool` of libsecret, which speaks the Secret
//! Service of GNOME, KDE and KeePassXC (<https://specifications.freedesktop.org/secret-service/latest/>), and
//! `security` on macOS. The key goes to them over stdin and comes from them over stdout, and is never on a command
//! line. A process asks for a key once, and not before it needs a secret.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    sync::OnceCell,
    time::timeout,
};
use toolrack_config::Environment;
use toolrack_host::text;
use toolrack_store::Uuid;

use crate::error::in_words;

/// How long an answer may take: the user may have to type the password of the keychain.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// For this long after a failure, tasks get the same error without another request. Otherwise, if ten servers start,
/// each would wait for [`ANSWER_TIMEOUT`].
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The most bytes of a program's output that are kept.
const MAX_OUTPUT: u64 = 8 * 1024;

/// The variables that the programs get. They need them to find the keychain, and to ask the user to unlock it.
const VARIABLES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// The exit code of `security` if there is no such item: the last byte of errSecItemNotFound.
const SECURITY_NOT_FOUND: i32 = 44;

/// The service name of Toolrack's items in the keychain.
const SERVICE: &str = "toolrack";

/// The label of an item in the keychain.
const LABEL: &str = "Toolrack: the key to stored secrets";

/// Why the keychain did not return or take a key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum KeychainError {
    #[error("there is no keychain: {0}")]
    Absent(&'static str),
    #[error("the keychain is locked and was not unlocked")]
    Locked,
    #[error("the keychain has no such key")]
    Missing,
    #[error("the keychain gave no answer within {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the keychain holds something else in the place of the key")]
    WrongContent,
    /// With the message of the program, in one line.
    #[error("the keychain cannot be used: {0}")]
    Failed(String),
}

/// The program that reaches the keychain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeychainProgram {
    /// `secret-tool`, found on the path.
    SecretTool,
    /// `security` of macOS, at its fixed path.
    Security,
}

/// The keychain of the user who runs this process.
pub(crate) struct Keychain {
    kind: KeychainProgram,
    /// The variables that the program gets.
    variables: Vec<(&'static str, OsString)>,
    answer_timeout: Duration,
    /// The last look-up, so that the keychain is asked once for each key.
    last_lookup: ArcSwapOption<Lookup>,
}

impl std::fmt::Debug for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keychain").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The look-up of a key, and its outcome.
struct Lookup {
    id: Uuid,
    key: OnceCell<[u8; 32]>,
    /// The last failure, and its time.
    last_failure: ArcSwapOption<(Instant, KeychainError)>,
}

/// How a run of the program ended, and its output.
struct ProgramOutput {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Keychain {
    /// Returns the keychain that `environment` leads to, without asking it anything yet.
    pub(crate) fn from_environment(environment: &Environment) -> Self {
        let value = |name: &&'static str| Some((*name, environment.get(name)?.to_owned()));
        let kind = if cfg!(target_os = "macos") { KeychainProgram::Security } else { KeychainProgram::SecretTool };
        Self {
            kind,
            variables: VARIABLES.iter().filter_map(value).collect(),
            answer_timeout: ANSWER_TIMEOUT,
            last_lookup: ArcSwapOption::default(),
        }
    }

    /// Returns the key under `id`. Another task that asks for the key meanwhile waits for the same answer.
    ///
    /// # Errors
    /// When there is no keychain, or when it is locked, slow or without such a key.
    pub(crate) async fn key(&self, id: Uuid) -> Result<[u8; 32], KeychainError> {
        let lookup = self.lookup(id);
        let ask = || async {
            if let Some((failed_at, error)) = lookup.last_failure.load().as_deref()
                && failed_at.elapsed() < RETRY_PAUSE
            {
                return Err(error.clone());
            }
            let answer = self.ask(id).await;
            let failure = answer.as_ref().err().map(|error| Arc::new((Instant::now(), error.clone())));
            lookup.last_failure.store(failure);
            answer
        };
        lookup.key.get_or_try_init(ask).await.copied()
    }

    /// Returns whether [`Self::key`] already has the key, and so returns at once.
    pub(crate) fn has_key(&self, id: Uuid) -> bool {
        self.lookup(id).key.initialized()
    }

    /// Returns the last look-up if it is for `id`; otherwise begins one, which becomes the last.
    fn lookup(&self, id: Uuid) -> Arc<Lookup> {
        let new_lookup = Arc::new(Lookup { id, key: OnceCell::new(), last_failure: ArcSwapOption::default() });
        let is_for_id = |lookup: &&Arc<Lookup>| lookup.id == id;
        let last_lookup =
            self.last_lookup.rcu(|last_lookup| last_lookup.as_ref().filter(is_for_id).or(Some(&new_lookup)).cloned());
        last_lookup.filter(|lookup| is_for_id(&lookup)).unwrap_or(new_lookup)
    }

    /// Asks the keychain for the key under `id`.
    async fn ask(&self, id: Uuid) -> Result<[u8; 32], KeychainError> {
        let program = self.program()?;
        let id = id.to_string();
        let output = match self.kind {
            KeychainProgram::SecretTool => self.run(&program, &["lookup", "service", SERVICE, "key", &id], "").await?,
            KeychainProgram::Security => {
                self.run(&program, &["find-generic-password", "-s", SERVICE, "-a", &id, "-w"], "").await?
            }
        };
        if output.status.success() {
            return super::parse_key(output.stdout.trim()).ok_or(KeychainError::WrongContent);
        }
        Err(match self.kind {
            // `secret-tool` prints nothing in two cases: there is no such key, or the keychain stays locked. A search,
            // which needs no unlocking, distinguishes them.
            KeychainProgram::SecretTool if output.stderr.trim().is_empty() || is_locked(&output.stderr) => {
                let search = self.run(&program, &["search", "service", SERVICE, "key", &id], "").await?;
                if search.stdout.trim().is_empty() { KeychainError::Missing } else { KeychainError::Locked }
            }
            KeychainProgram::Security if output.status.code() == Some(SECURITY_NOT_FOUND) => KeychainError::Missing,
            // 36 and 51 are the last bytes of errSecInteractionNotAllowed and errSecAuthFailed.
            KeychainProgram::Security if matches!(output.status.code(), Some(36 | 51)) => KeychainError::Locked,
            _ => output.failure(),
        })
    }

    /// Stores `key` under `id`, and checks that it can be read back.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub(crate) async fn put(&self, id: Uuid, key: [u8; 32]) -> Result<(), KeychainError> {
        let program = self.program()?;
        let (name, digits) = (id.to_string(), super::hex_digits(&key));
        let label = format!("--label={LABEL}");
        let output = match self.kind {
            KeychainProgram::SecretTool => {
                self.run(&program, &["store", &label, "service", SERVICE, "key", &name], &digits).await?
            }
            // `security -i` reads its commands from stdin, so that the key is on no command line.
            KeychainProgram::Security => {
                let line = format!("add-generic-password -s {SERVICE} -a {name} -l \"{LABEL}\" -w {digits}\n");
                self.run(&program, &["-i"], &line).await?
            }
        };
        match self.ask(id).await {
            Ok(stored_key) if stored_key == key => Ok(()),
            Ok(_) => Err(KeychainError::WrongContent),
            Err(_) if is_locked(&output.stderr) => Err(KeychainError::Locked),
            Err(_) if !output.status.success() => Err(output.failure()),
            Err(error) => Err(error),
        }
    }

    /// Removes the key under `id`.
    ///
    /// # Errors
    /// As [`Self::key`]; a missing key is not an error.
    pub(crate) async fn remove(&self, id: Uuid) -> Result<(), KeychainError> {
        let program = self.program()?;
        let id = id.to_string();
        let output = match self.kind {
            KeychainProgram::SecretTool => self.run(&program, &["clear", "service", SERVICE, "key", &id], "").await?,
            KeychainProgram::Security => {
                self.run(&program, &["delete-generic-password", "-s", SERVICE, "-a", &id], "").await?
            }
        };
        // A failure without a message means that `secret-tool` has found no such key.
        let is_gone = output.status.success()
            || output.stderr.trim().is_empty()
            || output.status.code() == Some(SECURITY_NOT_FOUND);
        if is_gone { Ok(()) } else { Err(output.failure()) }
    }

    /// Returns the path of the program that reaches the keychain.
    fn program(&self) -> Result<PathBuf, KeychainError> {
        if self.kind == KeychainProgram::Security {
            return Ok(PathBuf::from("/usr/bin/security"));
        }
        let bus = self.variable("XDG_RUNTIME_DIR").map(|folder| Path::new(folder).join("bus"));
        if self.variable("DBUS_SESSION_BUS_ADDRESS").is_none() && !bus.is_some_and(|bus| bus.exists()) {
            return Err(KeychainError::Absent(
                "there is no session of D-Bus to reach one (`DBUS_SESSION_BUS_ADDRESS`)",
            ));
        }
        // Skip relative folders: they would be in the working folder, where a project could put a program of this name.
        let path = self.variable("PATH").cloned().unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        // Never fails: folders that were parts of a list can be joined again.
        let folders = std::env::join_paths(folders).unwrap_or_default();
        which::which_in("secret-tool", Some(folders), "/")
            .map_err(|_| KeychainError::Absent("`secret-tool` is not installed (Debian: libsecret-tools)"))
    }

    fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().find(|(variable, value)| *variable == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// Runs the program to its end, within the time-out. It reads `stdin`, which is empty for commands without a key.
    async fn run(&self, program: &Path, args: &[&str], stdin: &str) -> Result<ProgramOutput, KeychainError> {
        let run_error =
            |error: io::Error| KeychainError::Failed(format!("{}: {}", program.display(), in_words(&error)));
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let exchange = async {
            let mut child = command.spawn()?;
            let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let write_stdin = async move {
                if let Some(mut input) = input {
                    // A program that ends without reading stdin says why on stderr.
                    let _ = input.write_all(stdin.as_bytes()).await;
                }
            };
            let ((), stdout, stderr, status) =
                tokio::join!(write_stdin, read_output(stdout), read_output(stderr), child.wait());
            Ok(ProgramOutput { status: status?, stdout, stderr })
        };
        match timeout(self.answer_timeout, exchange).await {
            Ok(output) => output.map_err(run_error),
            Err(_) => Err(KeychainError::Slow(self.answer_timeout)),
        }
    }
}

impl ProgramOutput {
    /// Returns the failure with the first line of stderr.
    fn failure(&self) -> KeychainError {
        let line = self.stderr.lines().find(|line| !line.trim().is_empty());
        KeychainError::Failed(match line {
            Some(line) => text::for_log(line.trim()).into_owned(),
            None => format!("its program ended with {}", self.status),
        })
    }
}

/// Returns whether `secret-tool` has printed that the keychain was not unlocked.
fn is_locked(stderr: &str) -> bool {
    stderr.contains("locked collection") || stderr.contains("locked object")
}

/// Reads up to [`MAX_OUTPUT`] bytes, and discards the rest, so that the program can end.
async fn read_output(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let mut output = Vec::new();
    // After an error, the output so far counts.
    let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut output).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&output).into_owned()
}

#[cfg(test)]
mod tests;
