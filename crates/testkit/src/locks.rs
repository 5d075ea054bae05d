//! A lock on a database, as if another program's SQLite held it.

use std::fs::File;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// A database that no other process can use until this value is dropped.
#[derive(Debug)]
pub struct LockedDatabase {
    // Closing the file gives up the lock.
    _file: File,
}

impl LockedDatabase {
    /// Locks all bytes of the file, among them those that SQLite uses as its locks
    /// (<https://www.sqlite.org/fileformat2.html#the_lock_byte_page>). Such a lock belongs to the process: it
    /// excludes only other processes, and this process loses it as soon as it opens and closes the file again.
    ///
    /// # Panics
    /// When the file is not there, or another process has locked it.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        let file = file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
        // A length of 0 reaches to the end, wherever that is.
        let whole_file = libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
        if let Err(error) = fcntl(&file, FcntlArg::F_SETLK(&whole_file)) {
            panic!("cannot lock {}: {error}", path.display());
        }
        Self { _file: file }
    }
}
