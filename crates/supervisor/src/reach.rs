//! Follows each path that a server in the sandbox may use, once, and holds the file at its end open. So the server gets
//! the file that was checked, even if the path leads to another file a moment later.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, which opens the files that its server may reach"
)]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat};

use crate::links::{MAX_LINKS, is_untrusted_link, path_names};

/// A file or folder, held open (`O_PATH`).
pub(crate) struct OpenedPath {
    pub(crate) file: OwnedFd,
    /// The path of the file or folder, without links.
    pub(crate) real_path: PathBuf,
    /// The links that were followed, each with its target.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) is_folder: bool,
}

/// The reason why a path could not be followed to its end.
pub(crate) enum PathError {
    /// The caller refuses to follow this link.
    Link(PathBuf),
    /// The system's error; `InvalidInput` if the path is not absolute.
    Error(io::Error),
}

impl From<rustix::io::Errno> for PathError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Error(errno.into())
    }
}

impl OpenedPath {
    fn new(file: OwnedFd, real_path: PathBuf, links: Vec<(PathBuf, PathBuf)>) -> Result<Self, PathError> {
        let is_folder = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory;
        Ok(Self { file, real_path, links, is_folder })
    }

    /// Opens the working folder of this process.
    pub(crate) fn working_folder() -> Result<Self, PathError> {
        let file = open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Self::new(file, std::env::current_dir().map_err(PathError::Error)?, Vec::new())
    }
}

/// Follows `path`, which must be absolute, from the root on, and opens the file or folder at its end. `refuses` gets
/// the path of each link and the `stat` of the folder that contains the link; if it returns `true`, the link is not
/// followed.
///
/// # Errors
/// [`PathError::Link`] with the first link that `refuses` refused; [`PathError::Error`] if the path leads nowhere, or
/// through more than [`MAX_LINKS`] links.
pub(crate) fn reach(path: &Path, mut refuses: impl FnMut(&Path, &Stat) -> bool) -> Result<OpenedPath, PathError> {
    if !path.is_absolute() {
        return Err(PathError::Error(io::ErrorKind::InvalidInput.into()));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open("/", flags | OFlags::DIRECTORY, Mode::empty())?;
    // The part of the path that was followed: the name of each file and folder below the root, and its descriptor.
    let mut followed_files: Vec<(OsString, OwnedFd)> = Vec::new();
    let mut remaining_names: VecDeque<OsString> = path_names(path).collect();
    let mut links = Vec::new();
    while let Some(name) = remaining_names.pop_front() {
        if name == ".." {
            followed_files.pop();
            continue;
        }
        let folder = followed_files.last().map_or(root.as_fd(), |(_, folder)| folder.as_fd());
        let next_file = openat(folder, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&next_file)?.st_mode) != FileType::Symlink {
            followed_files.push((name, next_file));
            continue;
        }
        let link = joined_path(&followed_files).join(name);
        if refuses(&link, &fstat(folder)?) {
            return Err(PathError::Link(link));
        }
        if links.len() == MAX_LINKS {
            return Err(PathError::Error(Errno::ELOOP.into()));
        }
        // With an empty path, `readlinkat` reads the link that `next_file` holds open. Its name could lead to another
        // link by now.
        let target = PathBuf::from(OsString::from_vec(readlinkat(&next_file, "", Vec::new())?.into_bytes()));
        if target.is_absolute() {
            followed_files.clear();
        }
        for name in path_names(&target).collect::<Vec<_>>().into_iter().rev() {
            remaining_names.push_front(name);
        }
        links.push((link, target));
    }
    let real_path = joined_path(&followed_files);
    OpenedPath::new(followed_files.pop().map_or(root, |(_, file)| file), real_path, links)
}

/// Returns the path that the names of `files` form.
fn joined_path(files: &[(OsString, OwnedFd)]) -> PathBuf {
    Path::new("/").join(files.iter().map(|(name, _)| name).collect::<PathBuf>())
}

/// Returns whether a server could have made `link`, given the `stat` of the folder that contains it.
pub(crate) fn server_could_have_made(link: &Path, folder: &Stat) -> bool {
    is_untrusted_link(link, folder.st_uid, folder.st_mode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, RenameFlags};

    use super::*;

    #[test]
    fn a_path_is_held_open_with_its_own_place_and_the_links_on_its_way() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/deep/file"), "old").unwrap();
        symlink("real/../real", root.join("link")).unwrap();
        let reached = reach(&root.join("link/deep/../deep/file"), |_, _| false).ok().unwrap();
        assert_eq!(reached.real_path, root.join("real/deep/file"));
        assert_eq!(reached.links, [(root.join("link"), PathBuf::from("real/../real"))]);
        assert!(!reached.is_folder);
        // When another file takes the place of this one, the open file stays the same.
        fs::write(root.join("other"), "new").unwrap();
        fs::rename(root.join("other"), root.join("real/deep/file")).unwrap();
        let (held, named) = (fstat(&reached.file).unwrap(), rustix::fs::stat(root.join("real/deep/file")).unwrap());
        assert_ne!(held.st_ino, named.st_ino);
        assert!(
            matches!(reach(&root.join("link/deep"), |_, _| true), Err(PathError::Link(link)) if link == root.join("link"))
        );
        assert!(matches!(reach(&root.join("none"), |_, _| false), Err(PathError::Error(_))));
    }

    #[test]
    fn a_link_that_is_exchanged_with_a_folder_during_the_check_is_never_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (data, link, keys) = (root.join("data"), root.join("link"), root.join("keys"));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&keys).unwrap();
        symlink(&keys, &link).unwrap();
        let secret = rustix::fs::stat(&keys).unwrap().st_ino;
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let (mut reached, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = rustix::fs::renameat_with(CWD, &data, CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            while reached + refused < 20_000 {
                match reach(&data, server_could_have_made) {
                    Ok(found) => {
                        assert!(found.links.is_empty() && found.real_path == data);
                        assert_ne!(fstat(&found.file).unwrap().st_ino, secret);
                        reached += 1;
                    }
                    Err(PathError::Link(at)) => {
                        assert_eq!(at, data);
                        refused += 1;
                    }
                    // The file was exchanged between two steps of `reach`.
                    Err(PathError::Error(_)) => {}
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(reached > 0 && refused > 0, "both cases must occur: {reached} reached, {refused} refused");
    }

    #[test]
    fn a_server_could_have_made_any_link_but_those_of_the_system() {
        let root = tempfile::tempdir().unwrap();
        symlink("/", root.path().join("link")).unwrap();
        let link = root.path().canonicalize().unwrap().join("link");
        assert!(matches!(reach(&link, server_could_have_made), Err(PathError::Link(at)) if at == link));
        assert!(reach(Path::new("/bin/sh"), server_could_have_made).is_ok());
    }

    #[test]
    fn a_path_leads_to_the_same_file_as_in_the_system() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        for (name, target) in [
            ("up", "a/b/.."),
            ("a/b/back", "../../up/./b"),
            ("a/slash", "b/c/"),
            ("a/dots", ".././//a/../a/b"),
            ("deep", "a/b/back/back/c"),
            ("a/b/to-file", "../file"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        symlink(root.join("a/b"), root.join("absolute")).unwrap();
        symlink("/", root.join("a/top")).unwrap();
        for path in [
            "",
            ".",
            "a",
            "a/",
            "a/../a/./b",
            "up",
            "up/b/c",
            "a/b/back",
            "a/b/back/back/back",
            "a/slash/..",
            "a/dots/c",
            "deep/../c",
            "a/b/to-file",
            "absolute",
            "absolute/../..",
            "absolute/back/c",
            "a/top",
            "a/top/..",
            "a/top/../../..",
            "../../../../../../../../../..",
        ] {
            let path = root.join(path);
            let reached = reach(&path, |_, _| false).ok().unwrap();
            assert_eq!(reached.real_path, path.canonicalize().unwrap(), "{}", path.display());
            assert_eq!(reached.is_folder, path.is_dir(), "{}", path.display());
            let (held, named) = (fstat(&reached.file).unwrap(), rustix::fs::stat(&path).unwrap());
            assert_eq!((held.st_dev, held.st_ino), (named.st_dev, named.st_ino), "{}", path.display());
        }
    }

    #[test]
    fn links_are_followed_up_to_the_limit_of_the_system() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::write(root.join("0"), "").unwrap();
        for number in 1..=MAX_LINKS + 1 {
            symlink((number - 1).to_string(), root.join(number.to_string())).unwrap();
        }
        for (number, is_followed) in [(1, true), (MAX_LINKS, true), (MAX_LINKS + 1, false)] {
            let path = root.join(number.to_string());
            assert_eq!(reach(&path, |_, _| false).is_ok(), is_followed, "{number}");
            assert_eq!(fs::metadata(&path).is_ok(), is_followed, "{number}: the system does as `reach` does");
        }
        let too_many = reach(&root.join((MAX_LINKS + 1).to_string()), |_, _| false);
        assert!(matches!(too_many, Err(PathError::Error(error)) if error.raw_os_error() == Some(Errno::ELOOP as i32)));
    }

    #[test]
    fn the_error_of_a_path_that_leads_nowhere_names_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink("none", root.join("dangling")).unwrap();
        for (path, kind) in [
            ("relative/x".into(), io::ErrorKind::InvalidInput),
            ("".into(), io::ErrorKind::InvalidInput),
            (root.join("none"), io::ErrorKind::NotFound),
            (root.join("dangling"), io::ErrorKind::NotFound),
            (root.join("file/x"), io::ErrorKind::NotADirectory),
            (root.join("x".repeat(300)), io::ErrorKind::InvalidFilename),
        ] {
            match reach(&path, |_, _| false) {
                Err(PathError::Error(error)) => assert_eq!(error.kind(), kind, "{}", path.display()),
                _ => panic!("{} leads somewhere", path.display()),
            }
        }
    }

    #[test]
    fn each_link_of_a_path_is_judged_by_the_folder_that_contains_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("one/two")).unwrap();
        symlink("one", root.join("first")).unwrap();
        symlink("two", root.join("one/second")).unwrap();
        let mut judged = Vec::new();
        let folders = [&root, &root.join("one")].map(|folder| rustix::fs::stat(folder).unwrap().st_ino);
        let reached = reach(&root.join("first/second"), |place, folder| {
            judged.push((place.to_owned(), folder.st_ino));
            false
        });
        assert!(reached.is_ok());
        assert_eq!(judged, [(root.join("first"), folders[0]), (root.join("one/second"), folders[1])]);
    }
}
