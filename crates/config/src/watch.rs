//! Hears of changes of files.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::RecursiveMode;
use notify_debouncer_full::{DebounceEventResult, DebouncedEvent, Debouncer, RecommendedCache, new_debouncer};

/// Editors write a file in several steps; what happens within this time is one change.
const SETTLE: Duration = Duration::from_millis(150);

/// Files that cannot be watched. They can still be read when somebody asks.
#[derive(Debug, thiserror::Error)]
#[error("changes of configuration files cannot be noticed: {why}")]
pub struct WatchError {
    why: String,
}

/// Hears of changes of files until it is dropped.
///
/// It is folders that are watched, since editors put a new file in the place of the old one. Of a file whose folder does not
/// exist, the nearest folder above that does is watched, so that both can be made later. Where a file is a symbolic link, so
/// is the file that it leads to.
pub struct Watch {
    debouncer: Debouncer<notify::RecommendedWatcher, RecommendedCache>,
    folders: BTreeSet<PathBuf>,
    /// What is worth telling of, among all that happens in those folders: a database may lie beside.
    paths: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl Watch {
    /// `changed` is called, on a thread of its own, 150 ms after one of the files has changed. It should do no more than tell
    /// somebody: reading the configuration again finds out whether anything is different.
    ///
    /// # Errors
    /// When the system has no way to watch files, or none left.
    pub fn new(changed: impl Fn() + Send + 'static) -> Result<Self, WatchError> {
        let paths = Arc::<Mutex<BTreeSet<PathBuf>>>::default();
        let watched = Arc::clone(&paths);
        let told = move |events: DebounceEventResult| {
            let is_ours = |events: &Vec<DebouncedEvent>| {
                let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
                events.iter().any(|event| is_change(event) && event.paths.iter().any(|path| watched.contains(path)))
            };
            // An error means that something may have been missed.
            if events.as_ref().map_or(true, is_ours) {
                changed();
            }
        };
        let debouncer = new_debouncer(SETTLE, None, told).map_err(|error| unusable(&error))?;
        Ok(Self { debouncer, folders: BTreeSet::new(), paths })
    }

    /// Watches these files in place of the ones before. One whose folder cannot be watched is left out.
    pub fn follow<'f>(&mut self, files: impl IntoIterator<Item = &'f Path>) {
        let wanted: BTreeSet<PathBuf> = files.into_iter().flat_map(watched).collect();
        let folders: BTreeSet<PathBuf> = wanted.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        *self.paths.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
        for folder in self.folders.difference(&folders) {
            // It may not exist any longer.
            let _ = self.debouncer.unwatch(folder);
        }
        for folder in folders.difference(&self.folders) {
            if let Err(error) = self.debouncer.watch(folder, RecursiveMode::NonRecursive) {
                tracing::warn!("{}", unusable(&error));
            }
        }
        self.folders = folders;
    }
}

/// Whether it is more than that somebody has read a file: whoever reads because of that would never come to an end.
fn is_change(event: &DebouncedEvent) -> bool {
    !event.kind.is_access()
}

/// What to look at for a change of `file`: itself, or what has to be made first, and what it leads to.
fn watched(file: &Path) -> impl Iterator<Item = PathBuf> {
    let seen = file.ancestors().find(|path| path.parent().is_some_and(Path::is_dir)).and_then(|path| {
        let folder = path.parent()?;
        Some(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
    });
    seen.into_iter().chain(file.canonicalize())
}

fn unusable(error: &notify::Error) -> WatchError {
    WatchError { why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc};

    use super::*;

    /// Longer than a change takes to be told of on a busy machine.
    const LONG: Duration = Duration::from_secs(20);

    fn watched(files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
        let (told, hears) = mpsc::channel();
        let mut watch = Watch::new(move || {
            // Nobody listens any more once the test is over.
            let _ = told.send(());
        })
        .unwrap();
        watch.follow(files.iter().copied());
        (watch, hears)
    }

    #[test]
    fn a_file_that_is_replaced_as_editors_do_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, "{}").unwrap();
        let (_watch, hears) = watched(&[&file]);
        fs::write(folder.path().join("mcp.json.new"), "{ }").unwrap();
        fs::rename(folder.path().join("mcp.json.new"), &file).unwrap();
        hears.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn a_file_in_a_folder_that_is_made_later_is_a_change_once_it_is_followed_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("later").join("mcp.json");
        let (mut watch, hears) = watched(&[&file]);
        fs::create_dir(folder.path().join("later")).unwrap();
        hears.recv_timeout(LONG).unwrap();
        watch.follow([&*file]);
        fs::write(&file, "{}").unwrap();
        hears.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn the_file_that_a_link_leads_to_is_watched_too() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (link, real) = (folder.path().join("mcp.json"), other.path().join("dotfile.json"));
        fs::write(&real, "{}").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let (_watch, hears) = watched(&[&link]);
        fs::write(&real, "{ }").unwrap();
        hears.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn reading_a_file_and_writing_another_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("mcp.json"), folder.path().join("toolrack.db"));
        fs::write(&file, "{}").unwrap();
        let (_watch, hears) = watched(&[&file]);
        fs::read(&file).unwrap();
        fs::write(&other, "rows").unwrap();
        std::thread::sleep(SETTLE * 4);
        fs::write(&file, "{ }").unwrap();
        hears.recv_timeout(LONG).unwrap();
        // One change of the three was told of, and no other is on its way.
        assert!(hears.recv_timeout(SETTLE * 4).is_err());
    }
}
