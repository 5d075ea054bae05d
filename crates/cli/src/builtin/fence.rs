//! Restricts the built-in file tools to one folder, the working folder. The fence refuses each path that leads out of
//! it.

use std::path::{Component, Path, PathBuf};

use super::files::FileError;

/// Accepts paths to one folder and to everything below it. Refuses all others as "outside".
///
/// Links are resolved before a path is judged, so a link that leads out of the folder is outside. A program that
/// replaces folders by links during a call could still bypass this: it restricts an honest caller, and is no sandbox
/// against hostile programs.
#[derive(Debug)]
pub(super) struct Fence {
    root: PathBuf,
}

impl Fence {
    pub(super) fn new(folder: PathBuf) -> Self {
        // If the folder cannot be resolved (it may not exist), `resolve` refuses every path, because none resolves to a
        // place below it.
        let root = folder.canonicalize().unwrap_or(folder);
        Self { root }
    }

    /// Returns the real path behind `typed_path`, which is relative to the folder, or absolute and below the folder.
    ///
    /// # Errors
    /// [`FileError::Outside`] when `typed_path` leads out of the folder, whether or not a file exists there;
    /// [`FileError::Io`] when it leads to a place inside that cannot be reached.
    pub(super) fn resolve(&self, typed_path: &str) -> Result<PathBuf, FileError> {
        let outside = || FileError::Outside { path: typed_path.to_owned() };
        let joined_path = self.root.join(typed_path);
        // Check this first, without touching the disk: an answer about a file outside would reveal whether it exists.
        if !lexically_normal(&joined_path).is_some_and(|path| path.starts_with(&self.root)) {
            return Err(outside());
        }
        match joined_path.canonicalize() {
            Ok(real_path) if real_path.starts_with(&self.root) => Ok(real_path),
            Ok(_) => Err(outside()),
            Err(error) => {
                // A link in a path that does not exist may also lead out: check the nearest folder that exists.
                let reached = joined_path.ancestors().find_map(|path| path.canonicalize().ok());
                if reached.is_none_or(|real_path| real_path.starts_with(&self.root)) {
                    Err(FileError::io("open", typed_path, &error))
                } else {
                    Err(outside())
                }
            }
        }
    }

    /// Returns `path` as it is shown: relative to the folder, with `/`, and `.` for the folder itself.
    pub(super) fn display_path(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
    }
}

/// Returns `path` with `.` and `..` resolved by name alone, without looking at the disk; `None` when a `..` climbs
/// above the start of the path.
fn lexically_normal(path: &Path) -> Option<PathBuf> {
    let mut normal_path = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal_path.pop() {
                    return None;
                }
            }
            part => normal_path.push(part),
        }
    }
    Some(normal_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent_and_fence() -> (tempfile::TempDir, Fence) {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(parent.path().join("in/deep")).unwrap();
        std::fs::write(parent.path().join("in/a.txt"), "a").unwrap();
        std::fs::write(parent.path().join("secret.txt"), "s").unwrap();
        let fence = Fence::new(parent.path().join("in"));
        (parent, fence)
    }

    fn is_outside(fence: &Fence, path: &str) -> bool {
        matches!(fence.resolve(path), Err(FileError::Outside { .. }))
    }

    #[test]
    fn paths_inside_the_folder_are_accepted_in_every_spelling() {
        let (_parent, fence) = parent_and_fence();
        for path in ["a.txt", "./a.txt", "deep/../a.txt", "deep/./../a.txt"] {
            assert_eq!(fence.display_path(&fence.resolve(path).unwrap()), "a.txt");
        }
        let absolute = fence.root.join("a.txt");
        assert_eq!(fence.resolve(absolute.to_str().unwrap()).unwrap(), absolute);
        assert_eq!(fence.display_path(&fence.resolve(".").unwrap()), ".");
    }

    #[test]
    fn paths_outside_are_refused_whether_or_not_they_exist() {
        let (parent, fence) = parent_and_fence();
        let absolute = parent.path().join("secret.txt");
        for path in [
            "..",
            "../secret.txt",
            "../nothing-here",
            "deep/../../secret.txt",
            "/etc/passwd",
            "/nothing-here",
            absolute.to_str().unwrap(),
        ] {
            assert!(is_outside(&fence, path), "{path}");
        }
    }

    #[test]
    fn a_folder_whose_name_only_begins_like_ours_is_outside() {
        let (parent, fence) = parent_and_fence();
        std::fs::create_dir(parent.path().join("in-other")).unwrap();
        assert!(is_outside(&fence, "../in-other"));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_refused_and_links_that_stay_in_are_followed() {
        use std::os::unix::fs::symlink;
        let (parent, fence) = parent_and_fence();
        symlink(parent.path(), fence.root.join("out")).unwrap();
        symlink(parent.path().join("secret.txt"), fence.root.join("s")).unwrap();
        symlink("deep", fence.root.join("stays")).unwrap();
        assert!(is_outside(&fence, "out"));
        assert!(is_outside(&fence, "out/secret.txt"));
        assert!(is_outside(&fence, "out/nothing-here"));
        assert!(is_outside(&fence, "s"));
        assert_eq!(fence.display_path(&fence.resolve("stays").unwrap()), "deep");
    }

    #[test]
    fn a_missing_file_inside_the_fence_is_reported_as_missing() {
        let (_parent, fence) = parent_and_fence();
        let error = fence.resolve("nope.txt").unwrap_err();
        assert_eq!(error.to_string(), "cannot open `nope.txt`: there is no such file or folder");
    }
}
