//! The file `secret.key`: a key, or the id under which the keychain has it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use toolrack_store::Uuid;

use super::{FILE, SecretsError, bytes_in};

/// The longest key file that is read, in bytes.
const MAX_FILE: u64 = 4096;

/// The prefix of an id of the keychain.
const NAMING: &str = "keychain ";

/// The content of the file. No `Debug` shows a key.
pub(super) enum StoredKey {
    /// The key itself.
    InFile([u8; 32]),
    /// The keychain has it, under this id.
    InKeychain(Uuid),
}

/// The file with the next key, which will replace the one in `path`.
pub(super) fn next(path: &Path) -> PathBuf {
    path.with_file_name(format!("{FILE}.next"))
}

/// The right of one process to replace the key in a file. It ends with the process at the latest.
pub(super) struct KeyLock {
    _folder: File,
}

/// Takes the right to replace the key in `path`; `None` while another process has it.
///
/// # Errors
/// When the folder cannot be locked.
pub(super) fn lock(path: &Path) -> Result<Option<KeyLock>, SecretsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |source| SecretsError::File { path: folder.to_owned(), source };
    let opened = File::open(folder).map_err(failed)?;
    match opened.try_lock() {
        Ok(()) => Ok(Some(KeyLock { _folder: opened })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The content of the file for a key that is in the keychain.
pub(super) fn naming(id: Uuid) -> String {
    format!("{NAMING}{id}")
}

/// Reads the file; `None` when there is none.
///
/// # Errors
/// When it cannot be read, other users can read it, or it says neither.
pub(super) fn read(path: &Path) -> Result<Option<StoredKey>, SecretsError> {
    let failed = |source| SecretsError::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(SecretsError::OpenToOthers(path.to_owned()));
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(SecretsError::NoKey(path.to_owned()));
    }
    let text = io::read_to_string(file).map_err(failed)?;
    let text = text.trim();
    let stored = match text.strip_prefix(NAMING) {
        Some(id) => Uuid::parse_str(id.trim()).ok().map(StoredKey::InKeychain),
        None => bytes_in(text).map(StoredKey::InFile),
    };
    stored.map(Some).ok_or_else(|| SecretsError::NoKey(path.to_owned()))
}

/// Writes the file, which only its owner can read, as a whole or not at all. Where another process was quicker, the
/// content that it wrote stays and is returned.
///
/// # Errors
/// When it cannot be written.
pub(super) fn link(path: &Path, content: &str) -> Result<StoredKey, SecretsError> {
    let beside = beside(path, content)?;
    // Unlike a rename, a link replaces no file.
    let linked = fs::hard_link(&beside, path);
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(SecretsError::File { path: path.to_owned(), source: error })
        }
        _ => {
            sync_folder(path).map_err(|source| SecretsError::File { path: path.to_owned(), source })?;
            again(path)
        }
    }
}

/// As [`link`], but replaces an existing file.
///
/// # Errors
/// When it cannot be written; the old file then stays.
pub(super) fn replace(path: &Path, content: &str) -> Result<StoredKey, SecretsError> {
    let beside = beside(path, content)?;
    if let Err(source) = rename(&beside, path) {
        let _ = fs::remove_file(&beside);
        return Err(SecretsError::File { path: path.to_owned(), source });
    }
    again(path)
}

/// Replaces one file by another, and waits until the disk has it.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(to)
}

/// Waits until the name of the file is on the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn again(path: &Path) -> Result<StoredKey, SecretsError> {
    read(path)?.ok_or_else(|| SecretsError::KeyGone(path.to_owned()))
}

/// Writes a file beside `path` with this content, synced to the disk.
fn beside(path: &Path, content: &str) -> Result<PathBuf, SecretsError> {
    let beside = path.with_file_name(format!(".{FILE}.{}", Uuid::now_v7()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(content.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&beside);
        SecretsError::File { path: path.to_owned(), source }
    })?;
    Ok(beside)
}
