//! Which program watches over stdio servers, and what this system offers it: see [`run_if_asked`].

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use toolrack_supervisor::{Exit, MARKER, run_if_asked};

/// Which version of Landlock this system has, for [sandboxes](crate::spec::Sandbox); `None`: none, or it is switched off.
///
/// Version 3 (Linux 6.2) can shut files, version 4 (Linux 6.7) TCP ports too, and version 6 (Linux 6.12) signals and
/// sockets that have no file as well.
#[must_use]
pub fn landlock() -> Option<i32> {
    #[cfg(target_os = "linux")]
    return toolrack_supervisor::confinement_support();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Whether this system can shut system calls (seccomp), for [sandboxes](crate::spec::Sandbox).
#[must_use]
pub fn seccomp() -> bool {
    #[cfg(target_os = "linux")]
    return toolrack_supervisor::seccomp_support();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Whether this user may have namespaces, for [sandboxes](crate::spec::Sandbox). Blocks some milliseconds: starts the
/// running program, which must call [`run_if_asked`], once more to try it.
///
/// # Errors
/// Why not, in the system's words.
pub fn namespaces() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return toolrack_supervisor::namespaces_support();
    #[cfg(not(target_os = "linux"))]
    Err("only Linux has them".to_owned())
}

/// The highest descriptor that the supervisor of a server gets for something else.
const LAST_TAKEN: i32 = toolrack_supervisor::protocol::REPORTS_FD;

/// Which program to start as the supervisor of a server.
///
/// Any program that calls [`run_if_asked`] first thing in its `main` will do, hence
/// [the running one](Self::this_program). It is started for each server, so a small one is worth having: a program of
/// 25 MB takes the system some 2 ms of processor time to start, one that only calls [`run_if_asked`] 0.7 ms.
#[derive(Clone, Debug)]
pub struct Supervisor {
    program: PathBuf,
    /// What `program` names, when it names a descriptor.
    _file: Option<Arc<File>>,
}

impl Supervisor {
    /// The running program itself.
    ///
    /// It is named as `/proc/self/exe`, which still is the same program when its file was replaced or removed by an
    /// upgrade. The program must call [`run_if_asked`].
    #[must_use]
    pub fn this_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), _file: None }
    }

    /// The program in this file, which is kept open: it still is the same program when another one takes its place.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn in_file(mut file: File) -> io::Result<Self> {
        // The low ones mean something else in the process that starts it.
        let mut low = Vec::new();
        while file.as_raw_fd() <= LAST_TAKEN {
            let higher = file.try_clone()?;
            low.push(std::mem::replace(&mut file, higher));
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
