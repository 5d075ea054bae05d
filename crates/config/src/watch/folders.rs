//! Manages the folders that the system watches. The owner of a [`Watch`](super::Watch) is called a reader. Each folder
//! is watched once for all readers of files in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{ReaderId, fingerprint::Fingerprint};

/// The watcher of the operating system, such as inotify.
pub(super) struct SystemWatcher {
    /// `None` if the system could not create one.
    watcher: Option<RecommendedWatcher>,
    /// Whether the system watches all folders that it should.
    is_complete: bool,
}

impl SystemWatcher {
    pub(super) fn new(on_event: impl Fn(notify::Result<Event>) + Send + 'static) -> Self {
        match notify::recommended_watcher(on_event) {
            Ok(watcher) => Self { watcher: Some(watcher), is_complete: true },
            Err(error) => {
                warn_of_incomplete_watch(&error);
                Self::none()
            }
        }
    }

    pub(super) fn none() -> Self {
        Self { watcher: None, is_complete: false }
    }

    fn watch(&mut self, folder: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            // Checking more often does not help against other errors, such as a folder without access.
            if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) && self.is_complete {
                self.is_complete = false;
                warn_of_incomplete_watch(&error);
            }
        }
    }

    fn unwatch(&mut self, folder: &Path) {
        // An error means that the folder no longer exists.
        let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(folder));
    }
}

fn warn_of_incomplete_watch(error: &notify::Error) {
    tracing::warn!("the system cannot watch all configuration files: {error}; they are checked regularly");
}

/// A watched folder.
struct Folder {
    /// The fingerprint of the folder when the system began to watch it.
    fingerprint: Fingerprint,
    readers: BTreeSet<ReaderId>,
}

/// All watched folders.
pub(super) struct Folders {
    system_watcher: SystemWatcher,
    by_path: BTreeMap<PathBuf, Folder>,
}

impl Folders {
    pub(super) fn new(system_watcher: SystemWatcher) -> Self {
        Self { system_watcher, by_path: BTreeMap::new() }
    }

    #[cfg(test)]
    pub(super) fn has(&self, folder: &Path) -> bool {
        self.by_path.contains_key(folder)
    }

    /// Returns whether the system reports all changes.
    pub(super) fn is_complete(&self) -> bool {
        self.system_watcher.is_complete
    }

    /// Watches `folder` for `reader`.
    pub(super) fn add(&mut self, folder: &Path, reader: ReaderId) {
        if let Some(watched_folder) = self.by_path.get_mut(folder) {
            watched_folder.readers.insert(reader);
            return;
        }
        // Take the fingerprint first: if the folder is replaced before it is watched, the next check finds a
        // difference.
        let fingerprint = Fingerprint::read(folder);
        self.system_watcher.watch(folder);
        self.by_path.insert(folder.to_owned(), Folder { fingerprint, readers: BTreeSet::from([reader]) });
    }

    /// Stops watching `folder` for `reader`. After its last reader has left, the system stops watching it.
    pub(super) fn remove(&mut self, folder: &Path, reader: ReaderId) {
        let Some(watched_folder) = self.by_path.get_mut(folder) else { return };
        watched_folder.readers.remove(&reader);
        if watched_folder.readers.is_empty() {
            self.by_path.remove(folder);
            self.system_watcher.unwatch(folder);
        }
    }

    /// Treats `folder` as replaced until [`Self::watch_again`]. Called after an event of the folder itself: another
    /// folder may be in its place.
    pub(super) fn mark_replaced(&mut self, folder: &Path) {
        if let Some(watched_folder) = self.by_path.get_mut(folder) {
            watched_folder.fingerprint = Fingerprint::default();
        }
    }

    /// Returns whether another folder may have replaced the watched folder.
    pub(super) fn is_replaced(&self, folder: &Path) -> bool {
        self.by_path
            .get(folder)
            .is_some_and(|watched_folder| !Fingerprint::read(folder).is_same_file(&watched_folder.fingerprint))
    }

    /// Watches the new folder at this path in place of the old one. Returns the readers of the folder, which may have
    /// missed a change.
    pub(super) fn watch_again(&mut self, folder: &Path) -> BTreeSet<ReaderId> {
        let Some(watched_folder) = self.by_path.get_mut(folder) else { return BTreeSet::new() };
        self.system_watcher.unwatch(folder);
        watched_folder.fingerprint = Fingerprint::read(folder);
        self.system_watcher.watch(folder);
        watched_folder.readers.clone()
    }
}
