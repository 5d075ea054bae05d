//! Watches files for changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::Metadata,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Editors write a file in several steps; events within this time count as one change.
const SETTLE: Duration = Duration::from_millis(150);

/// How often to check the files without an event. Some changes cause no event, such as replacing a folder far above
/// them, or any change in a folder that cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// How often to try to watch folders that come and go at the same moment. After that, the next check finds them.
const TRIES: usize = 3;

/// Files that cannot be watched. They can still be read on request.
#[derive(Debug, thiserror::Error)]
#[error("changes of configuration files cannot be noticed: {why}")]
pub struct WatchError {
    why: String,
}

/// Watches files for changes until it is dropped.
///
/// It watches folders, because editors replace files; and the folders above a folder, because it can be replaced as
/// well. For a file whose folder does not exist, it watches the nearest existing folder above, so that both can be
/// created later. If a file is a symbolic link, it also watches the target. Whenever one of them changes, it determines
/// the watched folders again. It also checks all files every ten seconds.
pub struct Watch {
    /// The sender to the thread, which ends when this is dropped.
    orders: Arc<Sender<Message>>,
}

/// A message to the thread of a [`Watch`].
enum Message {
    /// A file may have changed: check the files.
    Check,
    /// Follow these files instead of the earlier ones, then drop the sender.
    Follow(Vec<PathBuf>, Sender<()>),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Creates a watch that calls `changed`, on its own thread, 150 ms after one of the files has changed. It should
    /// only notify another thread: reading the configuration again shows whether anything is different.
    ///
    /// # Errors
    /// When the system has no way to watch files, or none left.
    pub fn new(changed: impl Fn() + Send + 'static) -> Result<Self, WatchError> {
        Self::polling(POLL_INTERVAL, changed)
    }

    fn polling(pause: Duration, changed: impl Fn() + Send + 'static) -> Result<Self, WatchError> {
        let (orders, inbox) = channel();
        let orders = Arc::new(orders);
        // Only the `Watch` owns the sender, so dropping it ends the thread.
        let weak_orders = Arc::downgrade(&orders);
        let relevant_paths = Arc::<RelevantPaths>::default();
        let filter = Arc::clone(&relevant_paths);
        let received = move |event: notify::Result<Event>| {
            // An error means that an event may have been missed.
            if event.map_or(true, |event| filter.has(&event))
                && let Some(orders) = weak_orders.upgrade()
            {
                let _ = orders.send(Message::Check);
            }
        };
        let watcher = notify::recommended_watcher(received).map_err(|error| unusable(&error))?;
        let (files, folders) = (BTreeMap::new(), BTreeMap::new());
        let followed = Followed { watcher, relevant_paths, files, folders };
        thread::Builder::new()
            .name("toolrack-watch".to_owned())
            .spawn(move || run(followed, &inbox, pause, &changed))
            .map_err(|error| WatchError { why: error.to_string() })?;
        Ok(Self { orders })
    }

    /// Watches these files instead of the earlier ones. A file whose folder cannot be watched is checked every ten
    /// seconds. All changes after the return of this function are reported.
    pub fn follow<'f>(&mut self, files: impl IntoIterator<Item = &'f Path>) {
        let (done, switched) = channel();
        let _ = self.orders.send(Message::Follow(files.into_iter().map(Path::to_owned).collect(), done));
        // Returns when the thread has switched to the new files, or has ended.
        let _ = switched.recv();
    }
}

/// The loop of the thread: reports changes until the [`Watch`] is dropped.
fn run(mut followed: Followed, inbox: &Receiver<Message>, pause: Duration, changed: &impl Fn()) {
    loop {
        let is_notified = match inbox.recv_timeout(pause) {
            Ok(Message::Check) => match followed.settle(inbox) {
                Ok(()) => true,
                Err(WatchDropped) => return,
            },
            Ok(Message::Follow(files, _done)) => {
                followed.follow(files);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if is_notified || followed.is_changed() {
            followed.rewatch_all();
            changed();
        }
    }
}

/// Signals that the watch was dropped.
struct WatchDropped;

/// The paths whose events matter. The watched folders may hold other files, such as a database.
#[derive(Default)]
struct RelevantPaths(ArcSwap<BTreeSet<PathBuf>>);

impl RelevantPaths {
    /// Returns whether `event` is relevant. Reads are irrelevant: otherwise a reader's own reads would wake it endlessly.
    fn has(&self, event: &Event) -> bool {
        let paths = self.0.load();
        !event.kind.is_access() && (event.need_rescan() || event.paths.iter().any(|path| paths.contains(path)))
    }
}

/// The followed files, with the state of the watch.
struct Followed {
    watcher: RecommendedWatcher,
    relevant_paths: Arc<RelevantPaths>,
    files: BTreeMap<PathBuf, Fingerprint>,
    /// The watched folders, with their fingerprints from the moment that watching began.
    folders: BTreeMap<PathBuf, Fingerprint>,
}

impl Followed {
    fn follow(&mut self, files: Vec<PathBuf>) {
        let mut old_files = std::mem::take(&mut self.files);
        for file in files {
            let print = old_files.remove(&file).unwrap_or_else(|| Fingerprint::of(&file));
            self.files.insert(file, print);
        }
        self.watch();
    }

    /// Waits until a change has settled. Messages that arrive meanwhile belong to the same change.
    fn settle(&mut self, inbox: &Receiver<Message>) -> Result<(), WatchDropped> {
        let end = Instant::now() + SETTLE;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match inbox.recv_timeout(left) {
                Ok(Message::Check) => {}
                Ok(Message::Follow(files, _done)) => self.follow(files),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(WatchDropped),
            }
        }
        Ok(())
    }

    /// Returns whether a file has changed since the last check, or a watched folder has been replaced by another one.
    fn is_changed(&self) -> bool {
        self.files.iter().any(|(file, known)| Fingerprint::of(file) != *known)
            || self.folders.iter().any(|(folder, known)| !Fingerprint::of(folder).is_same_file(known))
    }

    /// Watches every folder again, because a folder that replaced another one is not watched yet. The reader is
    /// notified afterwards, so it also sees what changed before the folder was watched.
    fn rewatch_all(&mut self) {
        for folder in std::mem::take(&mut self.folders).into_keys() {
            // An error means that the folder no longer exists.
            let _ = self.watcher.unwatch(&folder);
        }
        self.watch();
        for (file, print) in &mut self.files {
            *print = Fingerprint::of(file);
        }
    }

    /// Watches the folders that are not watched yet, and no more than needed.
    fn watch(&mut self) {
        for _ in 0..TRIES {
            let paths: BTreeSet<PathBuf> = self.files.keys().flat_map(|file| paths_to_watch(file)).collect();
            let folders: BTreeSet<PathBuf> =
                paths.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
            if self.folders.keys().eq(&folders) && **self.relevant_paths.0.load() == paths {
                return;
            }
            self.relevant_paths.0.store(Arc::new(paths));
            for (folder, _) in self.folders.extract_if(.., |folder, _| !folders.contains(folder)) {
                let _ = self.watcher.unwatch(&folder);
            }
            for folder in folders {
                if !self.folders.contains_key(&folder) {
                    self.watch_folder(folder);
                }
            }
        }
    }

    fn watch_folder(&mut self, folder: PathBuf) {
        // Take the fingerprint first: if the folder is replaced before it is watched, the next check finds a
        // difference.
        let print = Fingerprint::of(&folder);
        if let Err(error) = self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
            // Other errors, such as a folder without access, cannot be fixed.
            if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) {
                tracing::warn!("{}", unusable(&error));
            }
        }
        self.folders.insert(folder, print);
    }
}

/// The fingerprint of a file or folder; every field is `None` if it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    identity: Option<(u64, u64)>,
    created: Option<SystemTime>,
    content: Option<(SystemTime, u64)>,
}

impl Fingerprint {
    fn of(path: &Path) -> Self {
        let Ok(metadata) = std::fs::metadata(path) else { return Self::default() };
        Self {
            identity: identity(&metadata),
            created: metadata.created().ok(),
            content: metadata.modified().ok().map(|modified| (modified, metadata.len())),
        }
    }

    /// Returns whether both are of the same file or folder, regardless of its content.
    fn is_same_file(&self, other: &Self) -> bool {
        (self.identity, self.created) == (other.identity, other.created)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns the paths to watch for a change of `file`: itself, or the nearest existing folder; its link target; and the
/// folders of both, which can be replaced.
fn paths_to_watch(file: &Path) -> Vec<PathBuf> {
    let mut watched = Vec::new();
    if let Some(existing) = file.ancestors().find(|path| path.parent().is_some_and(Path::is_dir)) {
        watched.extend(with_real_parent(existing));
        let folder = existing.parent();
        watched.extend(folder.and_then(with_real_parent));
        watched.extend(folder.and_then(|folder| folder.canonicalize().ok()));
    }
    if let Ok(target) = file.canonicalize() {
        watched.extend(target.parent().map(Path::to_owned));
        watched.push(target);
    }
    watched
}

/// Returns `path` with its parent folder resolved to a real path; the last part may still be a link.
fn with_real_parent(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    Some(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
}

fn unusable(error: &notify::Error) -> WatchError {
    WatchError { why: error.to_string() }
}

#[cfg(test)]
mod tests;
