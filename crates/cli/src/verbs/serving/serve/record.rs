//! Reads and writes the record of a running daemon: a file in which other commands of the same user look for the
//! daemon.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
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
pub(crate) struct Record {
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
}

impl Record {
    /// Makes the record of this process.
    pub(crate) fn of_this_process(address: String, base: String, token: String) -> Self {
        let (pid, base) = (std::process::id(), Some(base));
        Self {
            address,
            base,
            token,
            pid,
            process_start: ProcessStart::read(pid),
            since: chrono::Utc::now().timestamp(),
        }
    }

    /// The URL of the dashboard, with the token that opens it.
    pub(crate) fn url(&self) -> String {
        format!("{}/#token={}", self.base(), self.token)
    }

    /// The URL of the MCP endpoint.
    pub(crate) fn mcp_url(&self) -> String {
        format!("{}/mcp", self.base())
    }

    fn base(&self) -> String {
        self.base.clone().unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// Reads the record of the last daemon, which may have ended.
    pub(crate) fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(record_path(data)).ok()?).ok()
    }

    pub(crate) fn write(&self, data: &Path) -> io::Result<()> {
        let file = record_path(data);
        let new = file.with_extension(format!("{}.new", self.pid));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        fs::create_dir_all(data)?;
        options.open(&new)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new, file)
    }

    /// Removes the record, the sockets and the key to them, unless another daemon has replaced them since.
    pub(crate) fn remove(&self, data: &Path) {
        if Self::read(data).as_ref() == Some(self) {
            // A file that cannot be removed does no harm: its record names a process that no longer runs.
            let _ = fs::remove_file(record_path(data));
            for socket in [LocalSocket::Commands, LocalSocket::Clients] {
                let _ = fs::remove_file(socket.path(data));
            }
            let _ = fs::remove_file(Key::path(data));
        }
    }

    /// Returns whether the daemon's process still runs. A new process with the same number does not count.
    pub(crate) fn is_alive(&self) -> bool {
        let number_is_used = i32::try_from(self.pid).is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None).is_ok());
        number_is_used && (self.process_start.is_none() || ProcessStart::read(self.pid) == self.process_start)
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
pub(crate) fn make_socket_folder(data: &Path) -> io::Result<()> {
    let folder = folder(data);
    fs::create_dir_all(&folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Listens on `socket`. First removes the socket file that a killed daemon may have left.
pub(crate) fn listen(socket: LocalSocket, data: &Path) -> io::Result<UnixListener> {
    let path = socket.path(data);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

fn record_path(data: &Path) -> PathBuf {
    data.join("daemon.json")
}
