//! Writes the files that the user asked for (`-o FILE`).

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use atomic_write_file::AtomicWriteFile;
use nix::unistd::{AccessFlags, access};

use crate::error::{Exit, Failure, in_words};

/// Permissions of a new file that only its owner may read.
pub(crate) const OWNER_ONLY_MODE: u32 = 0o600;
/// Permissions of any other new file; the umask narrows them.
pub(crate) const DEFAULT_MODE: u32 = 0o666;

/// Returns whether `file` means stdout: `-`.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Checks that `file` can be written, as far as possible without writing. So the user learns of a missing folder before
/// a tool is called, and not after the call, when the result would be lost.
///
/// # Errors
/// When `file` is a folder or has an impossible name, or when no file can be made in its folder.
pub(crate) fn check_writable(file: &Path) -> Result<(), Failure> {
    reason_against_writing(file).map_or(Ok(()), |error| Err(not_written(file, &error)))
}

/// Returns why [`write()`] would certainly fail for `file`.
fn reason_against_writing(file: &Path) -> Option<io::Error> {
    let access_error = |path: &Path, flags: AccessFlags| access(path, flags).err().map(io::Error::from);
    let plain_file = match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => return Some(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => return access_error(file, AccessFlags::W_OK),
        Ok(_) => fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Some(error),
    };
    // A plain file is replaced by a new file, which is made in the same folder.
    let folder = plain_file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => access_error(folder, AccessFlags::W_OK | AccessFlags::X_OK),
        Ok(_) => Some(io::ErrorKind::NotADirectory.into()),
        Err(error) => Some(error),
    }
}

/// Replaces the content of `file` with `content`. A plain file is replaced atomically; an existing one keeps its
/// permissions, and a new one gets `mode`. A pipe, a device or anything else that is no plain file stays: `content` is
/// written to it.
///
/// # Errors
/// When it cannot be written.
pub(crate) async fn write(file: PathBuf, content: Vec<u8>, mode: u32) -> Result<(), Failure> {
    let target = file.clone();
    // Writing to a pipe waits for its reader, and signals must be handled meanwhile.
    let write_result = tokio::task::spawn_blocking(move || write_blocking(&target, &content, mode)).await;
    write_result.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())).map_err(|error| not_written(&file, &error))
}

/// Replaces the content of `file` with `content`, as a whole or not at all. Only the owner can read the file, even if
/// an older file had other permissions.
///
/// # Errors
/// When it cannot be written.
pub(crate) async fn write_for_owner(file: PathBuf, content: Vec<u8>) -> Result<(), Failure> {
    let target = file.clone();
    let write_result = tokio::task::spawn_blocking(move || {
        if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
            // A device or a pipe would be replaced by a file.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // If `target` is a link, replace its target.
        let target = fs::canonicalize(&target).unwrap_or(target);
        let mut options = AtomicWriteFile::options();
        #[cfg(unix)]
        {
            atomic_write_file::unix::OpenOptionsExt::preserve_mode(&mut options, false);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY_MODE);
        }
        let mut new_file = options.open(target)?;
        new_file.write_all(&content)?;
        new_file.commit()
    });
    let write_result = write_result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
    write_result.map_err(|error| not_written(&file, &error))
}

fn write_blocking(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return File::options().write(true).open(file)?.write_all(content);
    }
    // If `file` is a link, replace its target.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut options = AtomicWriteFile::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut new_file = options.open(file)?;
    new_file.write_all(content)?;
    new_file.commit()
}

fn not_written(file: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write {}: {}", file.display(), in_words(error));
    Failure::new(Exit::Other, "NOT_WRITTEN", message).hint("name a file that you may write to")
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    };

    use nix::fcntl::OFlag;

    use super::*;

    fn mode(file: &Path) -> u32 {
        fs::metadata(file).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_file_is_replaced_where_it_is_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(file.clone(), b"one, and more".to_vec(), OWNER_ONLY_MODE).await.unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write(link.clone(), b"two".to_vec(), OWNER_ONLY_MODE).await.unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"two".to_vec(), 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[tokio::test]
    async fn a_target_that_is_not_a_plain_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Opens before there is a writer, and does not wait for one that never comes.
        let mut reader = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&pipe).unwrap();
        check_writable(&pipe).unwrap();
        write(pipe.clone(), b"through".to_vec(), DEFAULT_MODE).await.unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "through");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn a_missing_folder_is_reported_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let message = |below: &str| check_writable(&folder.path().join(below)).map_err(|failure| failure.message);
        assert_eq!(message("new"), Ok(()));
        assert_eq!(message("file"), Ok(()));
        assert!(message("none/file").unwrap_err().ends_with("there is no such file or folder"));
        assert!(message("file/file").unwrap_err().ends_with("not a directory"));
        assert!(message("").unwrap_err().ends_with("is a directory"));
        check_writable(Path::new("name")).unwrap();
        let too_long = "x".repeat(300);
        assert!(message(&too_long).unwrap_err().ends_with("invalid filename"));
    }

    #[test]
    fn a_folder_in_which_no_file_can_be_made_is_reported_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
        // The superuser may write everywhere.
        let is_superuser = nix::unistd::geteuid().is_root();
        for file in [file, folder.path().join("new")] {
            assert_eq!(check_writable(&file).is_ok(), is_superuser, "{}", file.display());
        }
        // So that the folder can be removed.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check_writable(Path::new("/dev/null")).is_ok());
    }
}
