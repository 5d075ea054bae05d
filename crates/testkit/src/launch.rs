//! Finding and starting the fake server.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The path of the `fake-server` program, next to the running test.
///
/// A test run of the whole workspace has built the program. A run of another crate alone (`cargo nextest run -p …`) has
/// not. In that case, and when a source file of the fake is newer than the program, this builds it into the same target
/// folder.
///
/// # Panics
/// When it cannot be found or built.
#[must_use]
pub fn fake_server_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let profile = profile_folder();
        let path = profile.join(format!("fake-server{}", std::env::consts::EXE_SUFFIX));
        if !is_fresh(&path) {
            build_fake_server(&profile);
        }
        assert!(path.is_file(), "{} was not built", path.display());
        path
    })
}

/// The folder of the running test's profile: `target/debug` for `target/debug/deps/test-…`.
fn profile_folder() -> PathBuf {
    let test_program = std::env::current_exe().unwrap_or_else(|error| panic!("no path of the running test: {error}"));
    let folder = test_program.parent().unwrap_or_else(|| panic!("{} has no folder", test_program.display()));
    let is_subfolder =
        folder.file_name().is_some_and(|name| name == OsStr::new("deps") || name == OsStr::new("examples"));
    let folder = if is_subfolder { folder.parent().unwrap_or(folder) } else { folder };
    folder.to_owned()
}

fn is_fresh(program: &Path) -> bool {
    let built = program.metadata().and_then(|meta| meta.modified());
    // Only the sources of the fake: changes elsewhere in the crate do not affect it.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let changed = [sources.join("fake"), sources.join("fake.rs")].iter().filter_map(|path| newest_change(path)).max();
    built.is_ok_and(|built| changed.is_none_or(|changed| changed <= built))
}

/// Returns when a file, or the newest file below a folder, was changed. `None` if there is no such file, as where only
/// the built programs were copied.
fn newest_change(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = std::fs::read_dir(path) else { return path.metadata().and_then(|meta| meta.modified()).ok() };
    entries.flatten().filter_map(|entry| newest_change(&entry.path())).max()
}

fn build_fake_server(profile: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "toolrack-testkit", "--bin", "fake-server"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    if let Some(target) = profile.parent() {
        command.arg("--target-dir").arg(target);
    }
    if profile.file_name() == Some(OsStr::new("release")) {
        command.arg("--release");
    }
    let status = command.status().unwrap_or_else(|error| panic!("cannot run cargo to build fake-server: {error}"));
    assert!(status.success(), "building fake-server failed: {status}");
}

/// A fake server on a port of 127.0.0.1. It is killed when this value is dropped.
#[derive(Debug)]
pub struct FakeHttp {
    child: Child,
    url: String,
    // Held open, so that a server that prints again does not die of a broken pipe.
    _stdout: BufReader<std::process::ChildStdout>,
}

impl FakeHttp {
    /// Starts `fake-server http` with these arguments and waits until it listens.
    ///
    /// # Panics
    /// When it does not start; its complaint is on stderr.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(args: &[S]) -> Self {
        Self::start_as("http", args)
    }

    /// Starts `fake-server sse`, the HTTP+SSE transport of 2024-11-05, and waits until it listens.
    ///
    /// # Panics
    /// When it does not start; its complaint is on stderr.
    #[must_use]
    pub fn start_sse<S: AsRef<OsStr>>(args: &[S]) -> Self {
        Self::start_as("sse", args)
    }

    fn start_as<S: AsRef<OsStr>>(transport: &str, args: &[S]) -> Self {
        let mut command = Command::new(fake_server_path());
        // The server ends with its stdin, and that ends with this process, even if the test is killed.
        command.arg(transport).arg("--until-eof").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start fake-server: {error}"));
        let stdout = child.stdout.take().unwrap_or_else(|| panic!("fake-server has no stdout"));
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let url = line.trim().strip_prefix("listening ").map(str::to_owned);
        let url = url.unwrap_or_else(|| panic!("fake-server did not listen: {read:?}, {line:?}"));
        Self { child, url, _stdout: stdout }
    }

    /// The URL of its endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        let rest = self.url.trim_start_matches("http://");
        rest.split_once('/').map_or(rest, |(address, _)| address)
    }

    /// The port. To simulate a restart, kill the server and start another one with `--port`.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.address().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in {}", self.url))
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server. Its port is closed when this returns.
    pub fn kill(&mut self) {
        // Errors mean that the process has ended already, and that it was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for FakeHttp {
    fn drop(&mut self) {
        self.kill();
    }
}
