//! Reads and writes the file with the token that a daemon uses again at its next start.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use toolrack_daemon::Token;

use crate::error::{Exit, Failure, in_words};

/// Bytes of a token: 256 bits in hex.
const TOKEN_BYTES: usize = 64;

/// Makes a random token.
pub(super) fn new_token() -> Result<Token, Failure> {
    Token::new().map_err(|error| Failure::new(Exit::Other, "NO_RANDOM", error.to_string()))
}

/// Returns the token in `file`, or a new token if there is no such file or `replace` is set. Writes nothing.
///
/// # Errors
/// When the file cannot be used, holds something else than a token, or can be read by other users.
pub(super) fn read_or_make(file: &Path, replace: bool) -> Result<Token, Failure> {
    match read(file)? {
        Some(token) if !replace => Ok(token),
        _ => new_token(),
    }
}

/// Stores `token` in `file`, which only its owner may read. To be called once the daemon listens, so that a daemon that
/// cannot start does not change the file.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn store(file: &Path, token: &Token) -> Result<(), Failure> {
    if read(file)?.is_some_and(|stored| stored.reveal() == token.reveal()) {
        return Ok(());
    }
    write(file, token).map_err(|error| token_file_failure(file, &in_words(&error)))
}

/// Returns the token in `file`; `None` if there is no such file.
fn read(file: &Path) -> Result<Option<Token>, Failure> {
    let read_failure = |error: &io::Error| token_file_failure(file, &in_words(error));
    // Without this flag, opening a named pipe would wait for a writer, possibly forever.
    let open_file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(file);
    let open_file = match open_file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        open_file => open_file.map_err(|error| read_failure(&error))?,
    };
    let metadata = open_file.metadata().map_err(|error| read_failure(&error))?;
    if !metadata.is_file() {
        return Err(token_file_failure(file, "it is not a file"));
    }
    if metadata.mode() & 0o077 != 0 {
        let hint =
            format!("`chmod 600 {}`, and make a new token with --new-token: others may know this one", file.display());
        return Err(token_file_failure(file, "other users of this machine can read or write it").hint(hint));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(token_file_failure(file, "it belongs to another user"));
    }
    let mut text = String::new();
    // Two more bytes are enough for a line break, and to recognize a text that is too long.
    open_file.take(TOKEN_BYTES as u64 + 2).read_to_string(&mut text).map_err(|error| read_failure(&error))?;
    let token = text.trim_end();
    if token.len() != TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let why = format!("it does not hold a token, which is {TOKEN_BYTES} hexadecimal digits");
        return Err(token_file_failure(file, &why).hint("name a file that does not exist yet: the daemon makes it"));
    }
    Ok(Some(Token::from_secret(token)))
}

/// Writes a new file and then replaces the old one with it, so that no reader sees half of a token.
fn write(file: &Path, token: &Token) -> io::Result<()> {
    let mut name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new_path = file.with_file_name(name);
    // An earlier process with the same id, such as the first process of a container, may have left the file behind.
    match fs::remove_file(&new_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new_file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new_path)?;
    let write_result = writeln!(new_file, "{}", token.reveal()).and_then(|()| new_file.sync_all());
    if let Err(error) = write_result.and_then(|()| fs::rename(&new_path, file)) {
        // The first error is the one to report.
        let _ = fs::remove_file(&new_path);
        return Err(error);
    }
    Ok(())
}

fn token_file_failure(file: &Path, why: &str) -> Failure {
    Failure::new(Exit::Usage, "TOKEN_FILE", format!("--token-file {}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn kept(file: &Path, replace: bool) -> Token {
        let token = read_or_make(file, replace).unwrap();
        store(file, &token).unwrap();
        token
    }

    #[test]
    fn a_token_is_created_once_stored_and_replaced_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let first = kept(&file, false);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make(&file, false).unwrap().reveal(), first.reveal());
        let second = kept(&file, true);
        assert_ne!(second.reveal(), first.reveal());
        assert_eq!(read_or_make(&file, false).unwrap().reveal(), second.reveal());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_file_that_a_process_with_the_same_id_has_left_behind_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(folder.path().join(format!("token.{}.new", std::process::id())), "half of a").unwrap();
        kept(&file, false);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_token_file_that_is_public_or_invalid_is_refused_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        kept(&file, false);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            for replace in [false, true] {
                assert!(read_or_make(&file, replace).unwrap_err().message.contains("other users"), "{mode:o}");
            }
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short", &"x".repeat(TOKEN_BYTES), &"a".repeat(TOKEN_BYTES + 1)] {
            fs::write(&file, text).unwrap();
            for replace in [false, true] {
                assert!(
                    read_or_make(&file, replace).unwrap_err().message.contains("does not hold a token"),
                    "{text:?}"
                );
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert!(read_or_make(folder.path(), false).is_err());
        assert!(store(&folder.path().join("no/such"), &new_token().unwrap()).is_err());
    }
}
