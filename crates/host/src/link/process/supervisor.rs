//! Names the program that supervises stdio servers, and lists the [layers](Layer) of a [sandbox](crate::spec::Sandbox).
//! See [`run_if_asked`] for what a supervisor does.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use toolrack_supervisor::{Exit, Layer, MARKER, run_if_asked};

/// The highest descriptor with a fixed purpose in the supervisor of a server.
const LAST_RESERVED_FD: i32 = toolrack_supervisor::protocol::REPORTS_FD;

/// The program to start as the supervisor of a server.
///
/// Any program whose `main` begins with [`run_if_asked`] can be used, even [the running one](Self::this_program). The
/// program is started for each server, so a small program is better. To start a program of 25 MB takes some 2 ms of
/// processor time; to start one that only calls [`run_if_asked`] takes 0.7 ms.
#[derive(Clone, Debug)]
pub struct Supervisor {
    program: PathBuf,
    /// Keeps the descriptor open that `program` names, if it names one.
    _file: Option<Arc<File>>,
}

impl Supervisor {
    /// Uses the running program itself.
    ///
    /// The path is `/proc/self/exe`, which stays the same program when an upgrade replaces or removes its file. The
    /// program must call [`run_if_asked`].
    #[must_use]
    pub fn this_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), _file: None }
    }

    /// Uses the program in this file, which is kept open. So the supervisor stays the same program when the file at its
    /// path is replaced.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn in_file(mut file: File) -> io::Result<Self> {
        // The low descriptors have another purpose when the supervisor starts. Each descriptor that is too low stays
        // open until the end of the loop, so that the next clone is higher.
        let mut low_files = Vec::new();
        while file.as_raw_fd() <= LAST_RESERVED_FD {
            let higher_file = file.try_clone()?;
            low_files.push(std::mem::replace(&mut file, higher_file));
        }
        Ok(Self { program: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _file: Some(Arc::new(file)) })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }
}

/// A program whose `main` begins with [`run_if_asked`].
impl From<PathBuf> for Supervisor {
    fn from(program: PathBuf) -> Self {
        Self { program, _file: None }
    }
}
