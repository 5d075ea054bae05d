//! Watches files for changes. The owner of a [`Watch`] is called a reader. Its function is called when one of its files
//! has changed.

mod fingerprint;
mod folders;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use notify::{
    Event,
    EventKind::Modify,
    event::ModifyKind::{Data, Metadata},
};

use self::{
    fingerprint::Fingerprint,
    folders::{Folders, SystemWatcher},
};

/// Editors write a file in several steps; events within this time count as one change.
const SETTLE_TIME: Duration = Duration::from_millis(150);

/// The interval at which all files are checked, even without an event. Some changes cause no event: a folder far above
/// a file is replaced, or a folder cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum number of attempts to watch the folders of a reader while other programs create and remove folders. The
/// next check finds a change that these attempts miss.
const MAX_WATCH_ATTEMPTS: usize = 3;

/// The interval at which all files are checked if the system has no watch left: Linux bounds the watches of all
/// programs of a user together (`fs.inotify.max_user_instances` and `max_user_watches`).
const POLL_INTERVAL_WITHOUT_WATCH: Duration = Duration::from_millis(600);

/// Watches the files of any number of readers, in one thread and with one watch of the system. Stops when the watcher
/// and all its [`Watch`]es are dropped.
///
/// The watcher watches folders, because editors replace files, and also the folders above them, because a folder can be
/// replaced as well. If the folder of a file does not exist yet, it watches the nearest existing folder above. If a
/// file is a symbolic link, it also watches the target. Whenever one of the files of a reader changes, it determines
/// the reader's folders again. It also checks all files every ten seconds, or more often if the system has no watch
/// left.
#[derive(Clone)]
pub struct Watcher {
    /// Sends commands to the thread, which ends when all of these senders are dropped. If the thread could not start,
    /// every command fails. All code ignores this error, because no file can be watched then.
    commands: Arc<Sender<Command>>,
    /// The id of the next reader.
    next_reader: Arc<AtomicU64>,
}

/// The files of one reader, which are watched until this is dropped.
pub struct Watch {
    reader: ReaderId,
    commands: Arc<Sender<Command>>,
}

/// Identifies a reader of a [`Watcher`].
type ReaderId = u64;

/// A command for the thread of a [`Watcher`].
enum Command {
    /// Check the files at these paths, because of an event.
    Check(Vec<PathBuf>),
    /// Check all files, because the watcher may have missed events.
    CheckAll,
    /// Add a reader, and call this function when one of its files has changed.
    Begin(ReaderId, Box<dyn Fn() + Send>),
    /// Follow these files instead of the reader's earlier ones, then drop the sender.
    Follow(ReaderId, Vec<PathBuf>, Sender<()>),
    /// Forget the reader.
    End(ReaderId),
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Watcher {
    /// Starts the thread. If the system can start none, the log says so, and no change is reported.
    #[must_use]
    pub fn new() -> Self {
        Self::polling(POLL_INTERVAL, SystemWatcher::new)
    }

    /// Starts a watcher that also checks all files every `poll_interval`.
    fn polling(
        poll_interval: Duration,
        make_system_watcher: impl FnOnce(Box<dyn Fn(notify::Result<Event>) + Send>) -> SystemWatcher,
    ) -> Self {
        let (commands, command_receiver) = channel();
        let commands = Arc::new(commands);
        // The event handler has only a weak reference, so the thread ends when all watchers and watches are dropped.
        let weak_commands = Arc::downgrade(&commands);
        let names = Arc::<FileNames>::default();
        let event_filter = Arc::clone(&names);
        let on_event = move |event: notify::Result<Event>| {
            if let Some(command) = event_filter.command_for(event)
                && let Some(commands) = weak_commands.upgrade()
            {
                let _ = commands.send(command);
            }
        };
        let folders = Folders::new(make_system_watcher(Box::new(on_event)));
        let state = ThreadState { folders, names, readers: BTreeMap::new(), readers_by_path: HashMap::new() };
        let thread = thread::Builder::new().name("toolrack-watch".to_owned());
        if let Err(error) = thread.spawn(move || state.run(&command_receiver, poll_interval)) {
            tracing::warn!("the configuration files cannot be watched: {error}; changes are applied on request");
        }
        Self { commands, next_reader: Arc::default() }
    }

    /// Returns a watch that calls `on_change`, on the watcher's thread, 150 ms after one of its files has changed. It
    /// should only notify another thread: reading the configuration again shows whether anything is different.
    pub fn watch(&self, on_change: impl Fn() + Send + 'static) -> Watch {
        let reader = self.next_reader.fetch_add(1, Ordering::Relaxed);
        let _ = self.commands.send(Command::Begin(reader, Box::new(on_change)));
        Watch { reader, commands: Arc::clone(&self.commands) }
    }
}

impl Watch {
    /// Watches `files` instead of the earlier ones. Blocks until the thread watches them: all changes after the return
    /// are reported. A file whose folder cannot be watched is checked every ten seconds.
    pub fn follow<'f>(&mut self, files: impl IntoIterator<Item = &'f Path>) {
        let (done_sender, done_receiver) = channel();
        let files = files.into_iter().map(Path::to_owned).collect();
        let _ = self.commands.send(Command::Follow(self.reader, files, done_sender));
        // Returns when the thread has switched to the new files, or has ended.
        let _ = done_receiver.recv();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::End(self.reader));
    }
}

/// The names of all followed files and their folders. The watched folders may contain other files, such as a busy
/// database. The events of such files do not wake the thread.
#[derive(Default)]
struct FileNames(ArcSwap<BTreeSet<OsString>>);

impl FileNames {
    /// Returns the command for the thread after `event`; `None` if the event does not matter. Reads of files do not
    /// matter: a reader's own reads would wake the thread endlessly.
    fn command_for(&self, event: notify::Result<Event>) -> Option<Command> {
        // An error means that an event may have been missed.
        let Ok(event) = event else { return Some(Command::CheckAll) };
        if event.need_rescan() {
            return Some(Command::CheckAll);
        }
        let is_content_change = matches!(event.kind, Modify(Data(_) | Metadata(_)));
        let is_relevant =
            !event.kind.is_access() && (!is_content_change || event.paths.iter().any(|path| self.has(path)));
        is_relevant.then_some(Command::Check(event.paths))
    }

    /// Returns whether a followed file has the same name as `path`.
    fn has(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.0.load().contains(name))
    }

    /// Adds the names of the files at `paths`.
    fn add<'p>(&self, paths: impl Iterator<Item = &'p PathBuf>) {
        let known_names = self.0.load();
        let new_names: Vec<_> =
            paths.filter_map(|path| path.file_name()).filter(|name| !known_names.contains(*name)).collect();
        if !new_names.is_empty() {
            let all_names = known_names.iter().cloned().chain(new_names.into_iter().map(ToOwned::to_owned)).collect();
            self.0.store(Arc::new(all_names));
        }
    }
}

/// A reader and the files that it follows.
struct Reader {
    /// The function to call when one of the files has changed.
    on_change: Box<dyn Fn() + Send>,
    /// The followed files, as they were when the reader last heard of a change.
    files: BTreeMap<PathBuf, Fingerprint>,
    /// The paths of the events that matter to the reader; their folders are watched.
    paths: BTreeSet<PathBuf>,
}

impl Reader {
    fn folders(&self) -> BTreeSet<PathBuf> {
        folders_of(&self.paths)
    }
}

/// The error that the watcher and all its watches were dropped. The thread then ends.
struct AllDropped;

/// The state of the thread.
struct ThreadState {
    folders: Folders,
    names: Arc<FileNames>,
    readers: BTreeMap<ReaderId, Reader>,
    /// The readers to which an event at a path matters.
    readers_by_path: HashMap<PathBuf, BTreeSet<ReaderId>>,
}

impl ThreadState {
    /// Reports changes until the watcher and all its watches are dropped.
    fn run(mut self, command_receiver: &Receiver<Command>, poll_interval: Duration) {
        let current_interval = |state: &Self| match state.folders.is_complete() {
            true => poll_interval,
            false => poll_interval.min(POLL_INTERVAL_WITHOUT_WATCH),
        };
        let mut last_check = Instant::now();
        loop {
            let remaining = current_interval(&self).saturating_sub(last_check.elapsed());
            let mut affected_readers = match command_receiver.recv_timeout(remaining) {
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout) => {
                    last_check = Instant::now();
                    self.changed_readers(self.readers.keys().copied().collect())
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !affected_readers.is_empty() && self.settle(command_receiver, &mut affected_readers).is_err() {
                return;
            }
            self.report(affected_readers);
        }
    }

    /// Carries out `command`. Returns the readers whose files may have changed.
    fn handle(&mut self, command: Command) -> BTreeSet<ReaderId> {
        match command {
            Command::Check(paths) => {
                paths.iter().for_each(|path| self.folders.mark_replaced(path));
                return paths.iter().filter_map(|path| self.readers_by_path.get(path)).flatten().copied().collect();
            }
            Command::CheckAll => return self.readers.keys().copied().collect(),
            Command::Begin(reader, on_change) => {
                self.readers.insert(reader, Reader { on_change, files: BTreeMap::new(), paths: BTreeSet::new() });
            }
            // `_done` is dropped after the files are followed, which wakes `Watch::follow`.
            Command::Follow(reader, files, _done) => self.follow(reader, files),
            Command::End(reader) => {
                self.set_paths(reader, BTreeSet::new());
                self.readers.remove(&reader);
            }
        }
        BTreeSet::new()
    }

    /// Waits until a change has settled. Events that arrive meanwhile belong to the same change.
    fn settle(
        &mut self,
        command_receiver: &Receiver<Command>,
        affected_readers: &mut BTreeSet<ReaderId>,
    ) -> Result<(), AllDropped> {
        let end = Instant::now() + SETTLE_TIME;
        while let Some(remaining) = end.checked_duration_since(Instant::now()) {
            match command_receiver.recv_timeout(remaining) {
                Ok(command) => affected_readers.extend(self.handle(command)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(AllDropped),
            }
        }
        Ok(())
    }

    /// Reports a change to each of these readers. Determines the reader's folders again before that, so that the reader
    /// also sees changes from before a folder was watched.
    fn report(&mut self, mut affected_readers: BTreeSet<ReaderId>) {
        let mut reported = BTreeSet::new();
        while let Some(reader) = affected_readers.pop_first() {
            reported.insert(reader);
            let readers_with_new_folders = self.watch_again(reader);
            let changed_readers =
                self.changed_readers(readers_with_new_folders.difference(&reported).copied().collect());
            affected_readers.extend(changed_readers);
            if let Some(reader) = self.readers.get_mut(&reader) {
                for (file, fingerprint) in &mut reader.files {
                    *fingerprint = Fingerprint::read(file);
                }
                (reader.on_change)();
            }
        }
    }

    /// Watches the folders that `reader` needs now. Returns the readers of folders that another folder has replaced:
    /// these readers may have missed a change.
    fn watch_again(&mut self, reader: ReaderId) -> BTreeSet<ReaderId> {
        let mut affected_readers = BTreeSet::new();
        let folders = self.readers.get(&reader).map(Reader::folders).unwrap_or_default();
        for folder in folders.iter().filter(|folder| self.folders.is_replaced(folder)).collect::<Vec<_>>() {
            affected_readers.extend(self.folders.watch_again(folder));
        }
        self.watch(reader);
        affected_readers
    }

    /// Returns the readers among `readers` for whom a file has changed since the last check, or a watched folder has
    /// been replaced.
    fn changed_readers(&self, readers: BTreeSet<ReaderId>) -> BTreeSet<ReaderId> {
        let is_changed = |reader: &Reader| {
            reader.files.iter().any(|(file, fingerprint)| Fingerprint::read(file) != *fingerprint)
                || reader.folders().iter().any(|folder| self.folders.is_replaced(folder))
        };
        readers.into_iter().filter(|reader| self.readers.get(reader).is_some_and(is_changed)).collect()
    }

    /// Lets the reader follow `files` instead of its earlier ones. A file that it followed before keeps its
    /// fingerprint, so that the next check still finds a change of it.
    fn follow(&mut self, id: ReaderId, files: Vec<PathBuf>) {
        let Some(reader) = self.readers.get_mut(&id) else { return };
        let mut old_files = std::mem::take(&mut reader.files);
        for file in files {
            let fingerprint = old_files.remove(&file).unwrap_or_else(|| Fingerprint::read(&file));
            reader.files.insert(file, fingerprint);
        }
        self.watch(id);
    }

    /// Watches the folders that the reader needs now, and stops watching the reader's other folders. Tries again if the
    /// folders change meanwhile.
    fn watch(&mut self, id: ReaderId) {
        for _ in 0..MAX_WATCH_ATTEMPTS {
            let Some(reader) = self.readers.get(&id) else { return };
            let paths: BTreeSet<PathBuf> = reader.files.keys().flat_map(|file| paths_to_watch(file)).collect();
            if reader.paths == paths {
                return;
            }
            self.set_paths(id, paths);
        }
    }

    /// Sets the paths of the events that matter to the reader, and watches their folders.
    fn set_paths(&mut self, id: ReaderId, paths: BTreeSet<PathBuf>) {
        let Some(reader) = self.readers.get_mut(&id) else { return };
        self.names.add(paths.iter());
        let old_paths = std::mem::replace(&mut reader.paths, paths);
        for path in old_paths.difference(&reader.paths) {
            if let Some(readers) = self.readers_by_path.get_mut(path) {
                readers.remove(&id);
                if readers.is_empty() {
                    self.readers_by_path.remove(path);
                }
            }
        }
        for path in reader.paths.difference(&old_paths) {
            self.readers_by_path.entry(path.clone()).or_default().insert(id);
        }
        let (old_folders, folders) = (folders_of(&old_paths), reader.folders());
        old_folders.difference(&folders).for_each(|folder| self.folders.remove(folder, id));
        folders.difference(&old_folders).for_each(|folder| self.folders.add(folder, id));
    }
}

/// Returns the folders that contain these paths.
fn folders_of(paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    paths.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect()
}

/// Returns the paths at which an event can mean a change of `file`:
///
/// - the file itself, or if its folder is missing, the topmost missing folder above it
/// - if it is a link, the target
/// - the folders of these, because a folder can be replaced
fn paths_to_watch(file: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(topmost_path) = file.ancestors().find(|path| path.parent().is_some_and(Path::is_dir)) {
        paths.extend(with_real_parent(topmost_path));
        let folder = topmost_path.parent();
        paths.extend(folder.and_then(with_real_parent));
        paths.extend(folder.and_then(|folder| folder.canonicalize().ok()));
    }
    if let Ok(target) = file.canonicalize() {
        paths.extend(target.parent().map(Path::to_owned));
        paths.push(target);
    }
    paths
}

/// Returns `path` with its parent folder resolved to a real path; the last part may still be a link.
fn with_real_parent(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    Some(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
}

#[cfg(test)]
mod tests;
