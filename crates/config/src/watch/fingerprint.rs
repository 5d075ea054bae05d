//! Detects that a file or folder has been replaced by another one, or that its content has changed.

use std::{fs::Metadata, path::Path, time::SystemTime};

/// The fingerprint of a file or folder; every field is `None` if it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// The device and the inode.
    identity: Option<(u64, u64)>,
    created: Option<SystemTime>,
    /// The time of the last change, and the size.
    content: Option<(SystemTime, u64)>,
}

impl Fingerprint {
    /// Reads the present fingerprint of the file or folder at `path`.
    pub(super) fn read(path: &Path) -> Self {
        let Ok(metadata) = std::fs::metadata(path) else { return Self::default() };
        Self {
            identity: identity(&metadata),
            created: metadata.created().ok(),
            content: metadata.modified().ok().map(|modified| (modified, metadata.len())),
        }
    }

    /// Returns whether both fingerprints are of the same file or folder, regardless of its content.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.identity, self.created) == (other.identity, other.created)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems give no identity")]
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn another_content_is_another_fingerprint_of_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        assert_eq!(Fingerprint::read(&file), Fingerprint::default(), "there is no file yet");
        fs::write(&file, "{}").unwrap();
        let before = Fingerprint::read(&file);
        assert_eq!(Fingerprint::read(&file), before);
        fs::write(&file, "{ }").unwrap();
        let after = Fingerprint::read(&file);
        assert!(after != before && after.is_same_file(&before));
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_one_is_not_the_same_although_it_looks_like_it() {
        let folder = tempfile::tempdir().unwrap();
        let [file, new] = ["mcp.json", "new.json"].map(|name| folder.path().join(name));
        for path in [&file, &new] {
            fs::write(path, "{}").unwrap();
        }
        let before = Fingerprint::read(&file);
        fs::rename(&new, &file).unwrap();
        assert!(!Fingerprint::read(&file).is_same_file(&before));
        fs::remove_file(&file).unwrap();
        assert!(!Fingerprint::read(&file).is_same_file(&before));
    }
}
