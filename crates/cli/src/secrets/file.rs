//! Reads and writes the file `secret.key`. It holds a key, or the id of a key in the keychain.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use toolrack_store::Uuid;

use super::{KEY_FILE, SecretsError, parse_key};

/// The longest key file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// What stands before the id of a key in the keychain.
const KEYCHAIN_PREFIX: &str = "keychain ";

/// The content of the file. It has no `Debug`, which would show the key.
pub(super) enum StoredKey {
    /// The key itself.
    InFile([u8; 32]),
    /// The keychain has it, under this id.
    InKeychain(Uuid),
}

/// The file with the next key. It will replace the key file at `path`.
pub(super) fn next_key_file(path: &Path) -> PathBuf {
    path.with_file_name(format!("{KEY_FILE}.next"))
}

/// While this exists, only this process may replace the key in a file. The lock ends with the process at the latest.
pub(super) struct KeyLock {
    _folder: File,
}

/// Locks the folder of the key file at `path`; `None` while another process has the lock.
///
/// # Errors
/// When the folder cannot be locked.
pub(super) fn lock(path: &Path) -> Result<Option<KeyLock>, SecretsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file_error = |source| SecretsError::File { path: folder.to_owned(), source };
    let folder_file = File::open(folder).map_err(file_error)?;
    match folder_file.try_lock() {
        Ok(()) => Ok(Some(KeyLock { _folder: folder_file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(file_error(error)),
    }
}

/// The content of the file for a key that is in the keychain.
pub(super) fn keychain_reference(id: Uuid) -> String {
    format!("{KEYCHAIN_PREFIX}{id}")
}

/// Reads the file; `None` when there is none.
///
/// # Errors
/// When it cannot be read, other users can read it, or it contains neither a key nor an id.
pub(super) fn read(path: &Path) -> Result<Option<StoredKey>, SecretsError> {
    let file_error = |source| SecretsError::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(error)),
    };
    let metadata = file.metadata().map_err(file_error)?;
    // Any permission of the group or of others.
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(SecretsError::OpenToOthers(path.to_owned()));
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(SecretsError::UnreadableKey(path.to_owned()));
    }
    let text = io::read_to_string(file).map_err(file_error)?;
    let text = text.trim();
    let stored_key = match text.strip_prefix(KEYCHAIN_PREFIX) {
        Some(id) => Uuid::parse_str(id.trim()).ok().map(StoredKey::InKeychain),
        None => parse_key(text).map(StoredKey::InFile),
    };
    stored_key.map(Some).ok_or_else(|| SecretsError::UnreadableKey(path.to_owned()))
}

/// Creates the file as a whole or not at all; only its owner can read it. If another process has created it already,
/// keeps and returns what that process wrote.
///
/// # Errors
/// When it cannot be written.
pub(super) fn create(path: &Path, content: &str) -> Result<StoredKey, SecretsError> {
    let temporary = write_temporary(path, content)?;
    // Unlike a rename, a link replaces no file.
    let link_result = fs::hard_link(&temporary, path);
    // If that fails, a second file with the key stays, which also only the owner can read.
    let _ = fs::remove_file(&temporary);
    match link_result {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(SecretsError::File { path: path.to_owned(), source: error })
        }
        _ => {
            sync_folder(path).map_err(|source| SecretsError::File { path: path.to_owned(), source })?;
            read_back(path)
        }
    }
}

/// As [`create`], but replaces an existing file.
///
/// # Errors
/// When it cannot be written; the old file then stays.
pub(super) fn replace(path: &Path, content: &str) -> Result<StoredKey, SecretsError> {
    let temporary = write_temporary(path, content)?;
    if let Err(source) = rename(&temporary, path) {
        let _ = fs::remove_file(&temporary);
        return Err(SecretsError::File { path: path.to_owned(), source });
    }
    read_back(path)
}

/// Renames `from` to `to`, and waits until the change is on the disk. Replaces an existing `to`.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(to)
}

/// Waits until the name of the file is on the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads the file that was just written.
fn read_back(path: &Path) -> Result<StoredKey, SecretsError> {
    read(path)?.ok_or_else(|| SecretsError::KeyGone(path.to_owned()))
}

/// Writes `content` to a temporary file in the folder of `path`, and syncs it to the disk.
fn write_temporary(path: &Path, content: &str) -> Result<PathBuf, SecretsError> {
    let temporary = path.with_file_name(format!(".{KEY_FILE}.{}", Uuid::now_v7()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        SecretsError::File { path: path.to_owned(), source }
    })?;
    Ok(temporary)
}
