//! A release: its version, its time, and the folder for its files.

use std::path::PathBuf;

use crate::report::Stop;
use crate::run::{capture, program, root};

/// The repository, which has the sources and the files of each release.
pub(crate) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The data of a release that every package needs.
#[derive(Debug)]
pub(crate) struct Released {
    /// The version of the workspace.
    pub(crate) version: String,
    /// The time of the last commit in seconds since 1970. Every packed file gets this time, so that the packages are
    /// reproducible.
    pub(crate) time: u64,
    /// Where the files of the release go.
    pub(crate) folder: PathBuf,
}

impl Released {
    /// Returns the release of the current work tree.
    ///
    /// # Errors
    /// When git does not know the time of the last commit.
    pub(crate) fn of_this_tree() -> Result<Self, Stop> {
        let printed = capture(program("git").args(["log", "-1", "--format=%ct"]))?;
        let time = printed.trim().parse().map_err(|_| Stop::Failed(format!("git printed no time, but {printed:?}")))?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { version, time, folder: root().join("target/dist/release") })
    }

    /// Returns the URL under which users download its files.
    pub(crate) fn address(&self) -> String {
        format!("{REPOSITORY}/releases/download/v{}", self.version)
    }
}

/// A release for tests.
#[cfg(test)]
pub(crate) mod fixtures {
    use std::path::Path;

    use super::Released;

    /// Version 9.9.9, in a folder below `folder`.
    pub(crate) fn released(folder: &Path) -> Released {
        let release = folder.join("release");
        std::fs::create_dir_all(&release).unwrap();
        Released { version: "9.9.9".to_owned(), time: 1_700_000_000, folder: release }
    }
}
