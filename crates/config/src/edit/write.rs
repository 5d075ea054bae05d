//! Writes configuration files. Only one process of Toolrack writes at a time, and each file is replaced in one step, so
//! that no reader sees half of it.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use atomic_write_file::AtomicWriteFile;
use fd_lock::RwLock;

use super::EditError;

/// How long to wait for another process that edits a file in the same folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between attempts while waiting.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The maximum number of links that are followed in a row, as in Linux. More of them are taken for a loop.
const MAX_LINKS: usize = 40;

/// Follows the links from `path`, and returns the file at their end, even if that file does not exist yet. A new file
/// is created there and does not replace the link, because its owner expects it there.
pub(super) fn follow_links(path: &Path) -> Result<PathBuf, EditError> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Ok(real_path) = target.canonicalize() {
            return Ok(real_path);
        }
        let Ok(link_target) = fs::read_link(&target) else { return Ok(target) };
        target = folder_of(&target).join(link_target);
    }
    let source = io::ErrorKind::TooManyLinks.into();
    Err(EditError::Io { doing: "follow the link", path: path.to_owned(), source })
}

/// Runs `edit` while no other Toolrack process edits a file in the folder of `path`. Creates the folder if it does not
/// exist.
///
/// The lock is on the folder and not on the file, because a lock on a replaced file stays with the old file. It needs
/// no additional lock file.
pub(super) fn with_lock<T>(path: &Path, edit: impl FnOnce() -> Result<T, EditError>) -> Result<T, EditError> {
    with_lock_within(LOCK_TIMEOUT, path, edit)
}

fn with_lock_within<T>(
    timeout: Duration,
    path: &Path,
    edit: impl FnOnce() -> Result<T, EditError>,
) -> Result<T, EditError> {
    let folder = folder_of(path);
    create_folder(folder)?;
    let folder_file = File::open(folder).map_err(|source| EditError::Io {
        doing: "open the folder",
        path: folder.to_owned(),
        source,
    })?;
    let mut lock = RwLock::new(folder_file);
    let deadline = Instant::now() + timeout;
    let _guard = loop {
        match lock.try_write() {
            Ok(guard) => break guard,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(EditError::Busy { path: path.to_owned() });
                }
                thread::sleep(RETRY_INTERVAL);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(EditError::Io { doing: "lock the folder", path: folder.to_owned(), source });
            }
        }
    };
    edit()
}

/// Replaces the content of `path` in one step. An existing file keeps its permissions; a new file is readable only by
/// its owner.
///
/// `old_text` is the expected content, or `None` for a file that does not exist. If the content differs, leaves the
/// file as it is and returns `false`: a program without the lock has written it. The check comes right before the
/// rename, because a change between the two would be lost.
pub(super) fn replace_if_unchanged(path: &Path, old_text: Option<&str>, new_text: &str) -> Result<bool, EditError> {
    let write = || -> io::Result<bool> {
        let mut file = open_replacement(path)?;
        file.write_all(new_text.as_bytes())?;
        if !is_unchanged(path, old_text)? {
            file.discard()?;
            return Ok(false);
        }
        file.commit()?;
        Ok(true)
    };
    write().map_err(|source| EditError::Io { doing: "write", path: path.to_owned(), source })
}

/// Writes a file of Toolrack, readable only by its owner, and creates its folders.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    create_private_folders(folder_of(path))?;
    let mut file = open_replacement(path)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}

fn open_replacement(path: &Path) -> io::Result<AtomicWriteFile> {
    let mut options = AtomicWriteFile::options();
    #[cfg(unix)]
    {
        use atomic_write_file::unix::OpenOptionsExt as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        // Keeps the permissions only of a file. Another process may have put a link here meanwhile, and the permissions
        // of a link itself let every user write.
        let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        options.mode(0o600).preserve_mode(is_file);
    }
    options.open(path)
}

/// Returns whether the content of `path` is still `old_text`.
pub(super) fn is_unchanged(path: &Path, old_text: Option<&str>) -> io::Result<bool> {
    match (fs::read(path), old_text) {
        (Ok(bytes), Some(old_text)) => Ok(bytes == old_text.as_bytes()),
        (Ok(_), None) => Ok(false),
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(old_text.is_none()),
        (Err(error), _) => Err(error),
    }
}

fn create_folder(folder: &Path) -> Result<(), EditError> {
    create_private_folders(folder).map_err(|source| EditError::Io {
        doing: "make the folder",
        path: folder.to_owned(),
        source,
    })
}

fn create_private_folders(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_another_holds_is_busy_and_nothing_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        let mut other = RwLock::new(File::open(folder.path()).unwrap());
        let held = other.write().unwrap();
        let mut is_done = false;
        let result = with_lock_within(RETRY_INTERVAL * 2, &path, || {
            is_done = true;
            Ok(())
        });
        let error = result.unwrap_err();
        assert!(matches!(&error, EditError::Busy { path: busy } if *busy == path), "{error:?}");
        assert!(error.to_string().ends_with("mcp.json is being edited by another process: try again"), "{error}");
        assert!(!is_done);

        drop(held);
        assert_eq!(with_lock_within(Duration::ZERO, &path, || Ok(1)).unwrap(), 1);
    }
}
