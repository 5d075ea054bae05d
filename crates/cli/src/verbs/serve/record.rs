//! What the other commands of the same person know of a daemon that runs.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use nix::{sys::signal::kill, unistd::Pid};
use serde::{Deserialize, Serialize};

/// A daemon that runs. For its owner only: the token opens it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) address: String,
    pub(super) token: String,
    pub(super) pid: u32,
}

impl Record {
    /// What was written down of the last daemon, whether it still runs or not.
    pub(super) fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file(data)).ok()?).ok()
    }

    pub(super) fn write(&self, data: &Path) -> io::Result<()> {
        let file = file(data);
        let new = file.with_extension(format!("{}.new", self.pid));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        fs::create_dir_all(data)?;
        options.open(&new)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new, file)
    }

    /// Takes it back, unless another daemon has written there since.
    pub(super) fn forget(&self, data: &Path) {
        if Self::read(data).as_ref() == Some(self) {
            // A stale record names a process that no longer runs.
            let _ = fs::remove_file(file(data));
        }
    }

    /// Whether its process still runs.
    pub(super) fn is_alive(&self) -> bool {
        i32::try_from(self.pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None).is_ok())
    }
}

fn file(data: &Path) -> PathBuf {
    data.join("daemon.json")
}
