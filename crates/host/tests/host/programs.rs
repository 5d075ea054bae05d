//! Finds and starts real programs for tests.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

use toolrack_host::ServerSpec;

/// Node 22.
pub(crate) fn node() -> String {
    installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node", "")
}

/// A file of an npm package.
pub(crate) fn npm(file: &str) -> String {
    installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules", file)
}

/// A program of the Python environment.
pub(crate) fn python(program: &str) -> String {
    installed("TOOLRACK_TEST_VENV", ".cache/venv", &format!("bin/{program}"))
}

/// A server from npm, over stdio.
pub(crate) fn npm_server(package: &str, args: &[&str]) -> ServerSpec {
    let script = npm(&format!("@modelcontextprotocol/{package}/dist/index.js"));
    ServerSpec::stdio(node(), [script.as_str()].iter().chain(args).copied())
}

#[expect(clippy::disallowed_methods, reason = "the environment tells where the programs are installed")]
fn installed(variable: &str, by_default: &str, below: &str) -> String {
    let base = std::env::var_os(variable).map_or_else(|| workspace().join(by_default), PathBuf::from);
    let path = if below.is_empty() { base } else { base.join(below) };
    assert!(path.exists(), "{} is not installed; `cargo xtask test` installs it", path.display());
    path.to_str().unwrap().to_owned()
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A program of the testkit, next to this test. Built first if it is missing, or older than its sources, as after a run
/// of this crate alone.
pub(crate) fn testkit_program(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let profile = profile_folder();
    let path = profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let sources = ["crates/testkit/src", "crates/host/src"].map(|folder| workspace().join(folder));
    if modified_at(&path).is_none_or(|built| sources.iter().any(|folder| newest_change(folder) > Some(built))) {
        BUILT.get_or_init(|| build(&profile));
    }
    path
}

/// The folder of the running test's profile: `target/debug` for `target/debug/deps/test-…`.
fn profile_folder() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "compares the times of files")]
fn modified_at(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

#[expect(clippy::disallowed_methods, reason = "compares the times of files")]
fn newest_change(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| {
            if entry.file_type().ok()?.is_dir() { newest_change(&entry.path()) } else { modified_at(&entry.path()) }
        })
        .max()
}

#[expect(clippy::disallowed_methods, reason = "cargo says in its environment which cargo it is")]
fn build(profile: &Path) {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "toolrack-testkit", "--bins", "--manifest-path"]);
    command.arg(workspace().join("Cargo.toml")).arg("--target-dir").arg(profile.parent().unwrap());
    if profile.file_name() == Some(OsStr::new("release")) {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success(), "building the programs of the testkit failed");
}

/// A running server over HTTP. Dropping this value kills it.
#[derive(Debug)]
pub(crate) struct HttpProgram {
    child: Child,
    url: String,
}

impl HttpProgram {
    /// The official Rust SDK's server.
    pub(crate) fn rmcp() -> Self {
        let mut command = Command::new(testkit_program("rmcp-server"));
        let mut child = command.arg("http").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = line_with("listening ", child.stdout.take().unwrap());
        Self { child, url: line.trim_start_matches("listening ").to_owned() }
    }

    /// server-everything over Streamable HTTP.
    pub(crate) fn everything() -> Self {
        let port = free_port();
        let mut command = Command::new(node());
        command.arg(npm("@modelcontextprotocol/server-everything/dist/index.js")).arg("streamableHttp");
        command.env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        line_with("listening on port", child.stderr.take().unwrap());
        Self { child, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    /// A server with the official TypeScript SDK that makes its client poll.
    pub(crate) fn polling() -> Self {
        let mut command = Command::new(node());
        let mut child = command.arg(npm("../polling-server.mjs")).stdout(Stdio::piped()).spawn().unwrap();
        let line = line_with("listening ", child.stdout.take().unwrap());
        Self { child, url: line.trim_start_matches("listening ").to_owned() }
    }

    pub(crate) fn spec(&self) -> ServerSpec {
        ServerSpec::http(&self.url)
    }
}

impl Drop for HttpProgram {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Reads up to the line that contains `mark`, and keeps reading in the background: a server that writes must not
/// block on a full pipe, nor die of a closed one.
fn line_with(mark: &str, from: impl Read + Send + 'static) -> String {
    let mut lines = BufReader::new(from).lines();
    let found = lines.find_map(|line| line.ok().filter(|line| line.contains(mark)));
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("the server ended without saying `{mark}`"))
}
