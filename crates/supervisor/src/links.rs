//! Checks symbolic links in the paths that an entry (the configuration of a server) grants to a server in the sandbox.
//! A server can make links wherever it may change files. When it starts again, such a link must not be followed: the
//! granted folder `data` could have become a link to the user's keys.

#![expect(clippy::disallowed_methods, reason = "this code must read links and folders directly")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::geteuid;

use crate::confinement::Confinement;

/// The most links that are followed in one path: as many as the kernel follows.
pub(crate) const MAX_LINKS: usize = 40;

/// Follows `path` from the root on, and returns the path to which it leads. `read_link` gets each path on the way. If
/// that path is a link to follow, `read_link` returns its target.
///
/// # Errors
/// Those of `read_link`, and `ELOOP` for more than [`MAX_LINKS`] links.
fn walk(path: &Path, mut read_link: impl FnMut(&Path) -> io::Result<Option<PathBuf>>) -> io::Result<PathBuf> {
    let mut current = PathBuf::from("/");
    let mut remaining_names: VecDeque<OsString> = path_names(path).collect();
    let mut link_count = 0;
    while let Some(name) = remaining_names.pop_front() {
        if name == ".." {
            current.pop();
            continue;
        }
        let next_path = current.join(name);
        let Some(target) = read_link(&next_path)? else {
            current = next_path;
            continue;
        };
        link_count += 1;
        if link_count > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        if target.is_absolute() {
            current = PathBuf::from("/");
        }
        for name in path_names(&target).collect::<Vec<_>>().into_iter().rev() {
            remaining_names.push_front(name);
        }
    }
    Ok(current)
}

/// Returns the names in a path, `..` among them, without `/` and `.`.
pub(crate) fn path_names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

/// Returns whether a server or a project of the user could have made `link`: whether this user may change the folder of
/// the link. `owner` and `mode` are those of that folder. `owner` is compared only with this user, because a user
/// namespace shows all other users under the same number.
pub(crate) fn is_untrusted_link(link: &Path, owner: u32, mode: u32) -> bool {
    if mode & 0o022 != 0 {
        return true;
    }
    // Root may change every folder. But no confined server may change the folders of the system, not even as root.
    let folder = link.parent().unwrap_or(link);
    // `/` and `/var` hold links of the system, such as `/bin` and `/var/run`. They are not in `SYSTEM`, because that
    // would let every confined server read all that is below them.
    let is_system_folder = [Path::new("/"), Path::new("/var")].contains(&folder) || is_system_path(folder);
    owner == geteuid().as_raw() && !(geteuid().is_root() && is_system_folder)
}

/// Returns whether `path` belongs to the system, so that every confined server may read it.
pub(crate) fn is_system_path(path: &Path) -> bool {
    Confinement::SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Follows the absolute `path`, and returns the first link on it that a server or a project of the user could have
/// made.
#[must_use]
pub fn first_untrusted_link(path: &Path) -> Option<PathBuf> {
    let mut untrusted_link = None;
    // An error ends the search: nothing can be reached behind that path.
    let _ = walk(path, |next_path| {
        // A path without a readable target is no link to follow.
        let Ok(target) = next_path.read_link() else { return Ok(None) };
        let folder = next_path.parent().unwrap_or(next_path).metadata()?;
        if is_untrusted_link(next_path, folder.uid(), folder.mode()) {
            untrusted_link = Some(next_path.to_owned());
            return Ok(None);
        }
        Ok(Some(target))
    });
    untrusted_link
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
        fs::create_dir_all(at("folder/deep")).unwrap();
        symlink(at("folder"), at("link")).unwrap();
        symlink("../folder/round", at("folder/round")).unwrap();
        for (path, link) in [
            ("folder/deep", None),
            ("folder/missing/x", None),
            ("folder/deep/../../folder", None),
            ("link", Some("link")),
            ("link/deep", Some("link")),
            ("folder/../link/..", Some("link")),
            ("folder/round", Some("folder/round")),
        ] {
            assert_eq!(first_untrusted_link(&at(path)), link.map(at), "{path}");
        }
        let round = walk(&at("folder/round"), |place| Ok(place.read_link().ok()));
        assert_eq!(round.unwrap_err().raw_os_error(), Some(Errno::ELOOP as i32));
    }

    #[test]
    fn links_in_folders_that_only_the_system_may_change_are_followed() {
        for (place, owner, mode, is_refused) in [
            ("/bin", 0, 0o755, false),
            ("/usr/bin/python3", 0, 0o755, false),
            ("/tmp/x", 0, 0o1777, true),
            ("/home/me/x", geteuid().as_raw(), 0o755, true),
            ("/var/run", 0, 0o755, false),
            ("/etc/x", 0, 0o775, true),
            ("/srv/x/y", 0, 0o755, geteuid().is_root()),
        ] {
            assert_eq!(is_untrusted_link(Path::new(place), owner, mode), is_refused, "{place}");
        }
    }
}
