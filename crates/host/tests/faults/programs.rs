//! The programs that take part: where they are, and canaries that no connection may reach.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use toolrack_testkit::fake_server_path;

/// The supervisor of child processes: `supervised`, next to the fake server. Builds it if it is missing or older than
/// the host's sources, as when only this crate is tested.
#[expect(clippy::disallowed_methods, reason = "a stale program would test yesterday's code")]
pub(crate) fn supervised() -> PathBuf {
    let path = fake_server_path().with_file_name(format!("supervised{}", std::env::consts::EXE_SUFFIX));
    let host = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let sources = [host.join("src"), host.join("../testkit/src/bin/supervised.rs")];
    let built = path.metadata().and_then(|meta| meta.modified()).ok();
    if sources.iter().filter_map(|source| newest(source)).max() > built {
        build(&path);
    }
    path
}

#[expect(clippy::disallowed_methods, reason = "a stale program would test yesterday's code")]
fn newest(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = path.read_dir() else { return path.metadata().ok()?.modified().ok() };
    entries.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

#[expect(clippy::disallowed_methods, reason = "cargo says in its environment which cargo it is")]
fn build(path: &Path) {
    let profile = path.parent().unwrap();
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "toolrack-testkit", "--bin", "supervised"]);
    command.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/Cargo.toml")]);
    command.arg("--target-dir").arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success(), "building `supervised` failed");
    // cargo does not touch an unchanged program: mark it as new.
    std::fs::File::open(path).unwrap().set_modified(SystemTime::now()).unwrap();
}

/// An address that a server lures the host to. It counts connections.
#[derive(Debug)]
pub(crate) struct Canary {
    url: String,
    visits: Arc<AtomicUsize>,
}

impl Canary {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/canary", listener.local_addr().unwrap());
        let visits = Arc::<AtomicUsize>::default();
        let seen = visits.clone();
        std::thread::spawn(move || listener.incoming().for_each(|_| _ = seen.fetch_add(1, Ordering::Relaxed)));
        Self { url, visits }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert_eq!(self.visits.load(Ordering::Relaxed), 0, "a client followed the address of the server");
    }
}
