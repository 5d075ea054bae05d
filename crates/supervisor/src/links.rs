//! Symbolic links in the paths that a server in a sandbox is given. A server can make links where it may change files.
//! Its next start must not follow them: `data`, which an entry names, could be a link to the user's keys by then.

#![expect(clippy::disallowed_methods, reason = "links are files")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// Follows `path` from the root on, and returns where it leads. `look` gets each place on the way, and whether the path
/// goes on from there; it returns the target of the link at that place, if it is one.
///
/// # Errors
/// Those of `look`, and `ELOOP` for too many links.
pub(crate) fn walk(
    path: &Path,
    mut look: impl FnMut(&Path, bool) -> io::Result<Option<PathBuf>>,
) -> io::Result<PathBuf> {
    let mut place = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(part);
        let Some(target) = look(&next, !rest.is_empty())? else {
            place = next;
            continue;
        };
        links += 1;
        if links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(place)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

/// The first link on the way of `path` that is in one of `folders`, which are named without links. `path` is a full path.
#[must_use]
pub fn first_within(path: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    let mut found = None;
    let _ = walk(path, |place, _| {
        // What is no link, or cannot be read, leads nowhere else.
        let target = place.read_link().ok();
        if target.is_some() && folders.iter().any(|folder| place.starts_with(folder)) {
            found = Some(place.to_owned());
            return Ok(None);
        }
        Ok(target)
    });
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_counts_where_it_is_and_not_where_it_leads() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["theirs/deep", "mine/data"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(at("mine"), at("theirs/link")).unwrap();
        symlink("../link/data", at("theirs/deep/far")).unwrap();
        symlink(at("theirs"), at("mine/in")).unwrap();
        symlink("round", at("theirs/round")).unwrap();
        let theirs = [at("theirs")];
        for (path, link) in [
            ("mine/data", None),
            ("mine/in", None),
            ("mine/in/deep", None),
            ("theirs/deep", None),
            ("theirs/missing/x", None),
            ("theirs/deep/../../mine", None),
            ("theirs/link", Some("theirs/link")),
            ("theirs/link/data", Some("theirs/link")),
            ("mine/in/deep/far", Some("theirs/deep/far")),
            ("mine/../theirs/link/..", Some("theirs/link")),
            ("theirs/round", Some("theirs/round")),
        ] {
            assert_eq!(first_within(&at(path), &theirs), link.map(at), "{path}");
        }
        assert_eq!(walk(&at("theirs/round"), |place, _| Ok(place.read_link().ok())).unwrap_err().raw_os_error(), {
            Some(Errno::ELOOP as i32)
        });
    }
}
