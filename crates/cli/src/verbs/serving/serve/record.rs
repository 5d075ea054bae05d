//! Reads and writes the record of a running daemon: a file in which other commands of the same user look for the
//! daemon.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::process_start::ProcessStart;
use crate::local_socket::{Key, LocalSocket, folder};

/// A running daemon. Only the user who runs it may read the record, because it contains the token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonRecord {
    pub(crate) address: String,
    /// The beginning of the daemon's URLs; `None` in the record of an older version.
    #[serde(default)]
    pub(crate) base: Option<String>,
    pub(crate) token: String,
    pub(crate) pid: u32,
    /// Distinguishes the process from others with the same number; not known on every system.
    #[serde(rename = "birth")]
    pub(crate) process_start: Option<ProcessStart>,
    /// Seconds since 1970.
    pub(crate) since: i64,
    /// The seconds that its options give to calls under way once it is told to end; 0 in the record of an older
    /// version.
    #[serde(default)]
    pub(crate) seconds_for_calls: u64,
}

impl DaemonRecord {
    /// Makes the record of this process.
    pub(crate) fn of_this_process(address: String, base: String, token: String, time_for_calls: Duration) -> Self {
        let (pid, base) = (std::process::id(), Some(base));
        Self {
            address,
            base,
            token,
            pid,
            process_start: ProcessStart::read(pid),
            since: chrono::Utc::now().timestamp(),
            seconds_for_calls: time_for_calls.as_secs(),
        }
    }

    /// Returns the URL of the dashboard, with the token that opens it.
    pub(crate) fn url(&self) -> String {
        format!("{}/#token={}", self.base(), self.token)
    }

    /// Returns the URL of the MCP endpoint.
    pub(crate) fn mcp_url(&self) -> String {
        format!("{}/mcp", self.base())
    }

    fn base(&self) -> String {
        self.base.clone().unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// Reads the record of the last daemon, which may have ended.
    pub(crate) fn read(data_folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(record_path(data_folder)).ok()?).ok()
    }

    pub(crate) fn write(&self, data_folder: &Path) -> io::Result<()> {
        let file = record_path(data_folder);
        let new_file = file.with_extension(format!("{}.new", self.pid));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        fs::create_dir_all(data_folder)?;
        options.open(&new_file)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new_file, file)
    }

    /// Removes the record, the sockets and the key to them, unless another daemon has replaced them since.
    pub(crate) fn remove(&self, data_folder: &Path) {
        if Self::read(data_folder).as_ref() == Some(self) {
            // A file that cannot be removed does no harm: its record names a process that no longer runs.
            let _ = fs::remove_file(record_path(data_folder));
            for socket in [LocalSocket::Commands, LocalSocket::Clients] {
                let _ = fs::remove_file(socket.path(data_folder));
            }
            let _ = fs::remove_file(Key::path(data_folder));
        }
    }

    /// Returns whether the daemon's process still runs. A new process with the same number does not count.
    pub(crate) fn is_alive(&self) -> bool {
        let is_pid_used = i32::try_from(self.pid).is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None).is_ok());
        is_pid_used && (self.process_start.is_none() || ProcessStart::read(self.pid) == self.process_start)
    }

    /// Sends the process a signal, if it is still the same process.
    pub(crate) fn send(&self, signal: Signal) {
        if self.is_alive()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            // The process may have ended since the check.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// Makes the folder of the sockets, which only this user can enter.
pub(crate) fn make_socket_folder(data_folder: &Path) -> io::Result<()> {
    let folder = folder(data_folder);
    fs::create_dir_all(&folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Listens on `socket`. First removes the socket file that a killed daemon may have left.
pub(crate) fn listen(socket: LocalSocket, data_folder: &Path) -> io::Result<UnixListener> {
    let path = socket.path(data_folder);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

fn record_path(data_folder: &Path) -> PathBuf {
    data_folder.join("daemon.json")
}
