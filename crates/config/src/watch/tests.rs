use std::{fs, sync::mpsc};

use notify::event::CreateKind;

use super::*;

/// More time than a busy machine takes to report a change.
const LONG: Duration = Duration::from_secs(20);

fn watched(files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
    // The files are never checked: only events of the system can report a change.
    watched_polling_every(LONG * 1000, files)
}

fn watched_polling_every(poll_interval: Duration, files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
    watched_with(poll_interval, SystemWatcher::new, files)
}

fn watched_with(
    poll_interval: Duration,
    native: impl FnOnce(Box<dyn Fn(notify::Result<Event>) + Send>) -> SystemWatcher,
    files: &[&Path],
) -> (Watch, mpsc::Receiver<()>) {
    watched_by(&Watcher::polling(poll_interval, native), files)
}

fn watched_by(watcher: &Watcher, files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
    let (notify, hears) = mpsc::channel();
    let mut watch = watcher.watch(move || {
        // The receiver is gone once the test is over.
        let _ = notify.send(());
    });
    watch.follow(files.iter().copied());
    (watch, hears)
}

/// Waits until a change is reported, and then until no further report comes.
fn settled(hears: &mpsc::Receiver<()>) {
    hears.recv_timeout(LONG).unwrap();
    while hears.recv_timeout(SETTLE_TIME * 4).is_ok() {}
}

/// Creates a file in a folder, below a temporary folder that has nothing else.
fn folder_with_file() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("toolrack").join("mcp.json");
    make(&file);
    (root, file)
}

fn make(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "{}").unwrap();
}

#[test]
fn a_change_is_found_soon_without_a_watch_of_the_system() {
    let (_root, file) = folder_with_file();
    let (_watch, hears) = watched_with(LONG * 1000, |_| SystemWatcher::none(), &[&file]);
    fs::write(&file, "{ }").unwrap();
    settled(&hears);
}

#[test]
fn a_folder_that_is_removed_and_made_again_at_once_is_followed() {
    let (_root, file) = folder_with_file();
    let (_watch, hears) = watched(&[&file]);
    for text in ["{ }", "{  }", "{   }"] {
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
        make(&file);
        settled(&hears);
        fs::write(&file, text).unwrap();
        settled(&hears);
    }
}

#[test]
fn a_folder_that_is_moved_over_another_is_followed() {
    let (root, file) = folder_with_file();
    let folder = file.parent().unwrap();
    let (_watch, hears) = watched(&[&file]);
    for (index, text) in ["{ }", "{  }", "{   }"].into_iter().enumerate() {
        make(&root.path().join("new").join("mcp.json"));
        fs::rename(folder, root.path().join(format!("old-{index}"))).unwrap();
        fs::rename(root.path().join("new"), folder).unwrap();
        settled(&hears);
        fs::write(&file, text).unwrap();
        settled(&hears);
    }
}

#[test]
fn a_folder_that_disappears_and_comes_back_with_a_branch_is_watched_again() {
    let (_root, file) = folder_with_file();
    let other = file.with_file_name("toolrack.toml");
    let (_watch, hears) = watched(&[&file, &other]);
    for text in ["[policy]", "[policy]\ndeny = [\"*\"]"] {
        fs::remove_file(&file).unwrap();
        let _ = fs::remove_file(&other);
        fs::remove_dir(file.parent().unwrap()).unwrap();
        settled(&hears);
        make(&file);
        settled(&hears);
        fs::write(&other, text).unwrap();
        settled(&hears);
    }
}

#[test]
fn a_folder_that_is_a_link_is_followed_to_where_it_leads_next() {
    let root = tempfile::tempdir().unwrap();
    let link = root.path().join("toolrack");
    let link_to = |to: &str| {
        make(&root.path().join(to).join("mcp.json"));
        std::os::unix::fs::symlink(root.path().join(to), root.path().join("link")).unwrap();
        fs::rename(root.path().join("link"), &link).unwrap();
    };
    link_to("one");
    let file = link.join("mcp.json");
    let (_watch, hears) = watched(&[&file]);
    for next in ["two", "three"] {
        link_to(next);
        settled(&hears);
        fs::write(root.path().join(next).join("mcp.json"), "{ }").unwrap();
        settled(&hears);
    }
}

#[test]
fn a_change_that_the_system_does_not_report_is_found_by_the_regular_check() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("far/above/toolrack/mcp.json");
    make(&file);
    let (_watch, hears) = watched_polling_every(SETTLE_TIME, &[&file]);
    make(&root.path().join("new/above/toolrack/mcp.json"));
    fs::rename(root.path().join("far"), root.path().join("old")).unwrap();
    fs::rename(root.path().join("new"), root.path().join("far")).unwrap();
    settled(&hears);
    fs::write(&file, "{ }").unwrap();
    settled(&hears);
}

#[test]
fn a_dropped_watch_leaves_nothing_behind() {
    let (_root, file) = folder_with_file();
    let (watch, hears) = watched(&[&file]);
    drop(watch);
    assert_eq!(hears.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
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
fn reading_a_file_or_writing_another_does_not_count_as_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("mcp.json"), folder.path().join("toolrack.db"));
    fs::write(&file, "{}").unwrap();
    let (_watch, hears) = watched(&[&file]);
    fs::read(&file).unwrap();
    fs::write(&other, "rows").unwrap();
    std::thread::sleep(SETTLE_TIME * 4);
    fs::write(&file, "{ }").unwrap();
    hears.recv_timeout(LONG).unwrap();
    // The watch reported only the change of the file itself, and nothing else is on its way.
    assert!(hears.recv_timeout(SETTLE_TIME * 4).is_err());
}

#[test]
fn each_of_many_readers_hears_of_its_own_file_alone() {
    let root = tempfile::tempdir().unwrap();
    let watcher = Watcher::polling(LONG * 1000, SystemWatcher::new);
    let files: Vec<_> = (0..200).map(|number| root.path().join(number.to_string()).join("mcp.json")).collect();
    files.iter().for_each(|file| make(file));
    let readers: Vec<_> = files.into_iter().map(|file| (watched_by(&watcher, &[&file]), file)).collect();
    let ((_, hears), file) = &readers[150];
    fs::write(file, "{ }").unwrap();
    settled(hears);
    let others = readers.iter().filter(|(_, other)| other != file);
    assert_eq!(others.filter(|((_, hears), _)| hears.try_recv().is_ok()).count(), 0);
}

#[test]
fn readers_of_one_folder_hear_of_it_until_they_are_dropped() {
    let (_root, file) = folder_with_file();
    let watcher = Watcher::polling(LONG * 1000, SystemWatcher::new);
    let (first, second) = (watched_by(&watcher, &[&file]), watched_by(&watcher, &[&file]));
    fs::write(&file, "{ }").unwrap();
    settled(&first.1);
    settled(&second.1);
    drop(first.0);
    assert_eq!(first.1.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    fs::write(&file, "{  }").unwrap();
    settled(&second.1);
}

#[test]
fn all_readers_of_a_folder_that_is_replaced_follow_the_new_one() {
    let (root, file) = folder_with_file();
    let (folder, other) = (file.parent().unwrap(), file.with_file_name("toolrack.toml"));
    let watcher = Watcher::polling(LONG * 1000, SystemWatcher::new);
    let readers = [watched_by(&watcher, &[&file]), watched_by(&watcher, &[&other])];
    make(&root.path().join("new").join("mcp.json"));
    fs::rename(folder, root.path().join("old")).unwrap();
    fs::rename(root.path().join("new"), folder).unwrap();
    readers.iter().for_each(|(_, hears)| settled(hears));
    fs::write(&file, "{ }").unwrap();
    settled(&readers[0].1);
    fs::write(&other, "[policy]").unwrap();
    settled(&readers[1].1);
}

#[test]
fn what_is_written_to_another_file_does_not_wake_the_thread() {
    let names = FileNames::default();
    names.add([PathBuf::from("/x/mcp.json")].iter());
    let written = |path: &str| Event {
        kind: Modify(Data(notify::event::DataChange::Any)),
        paths: vec![PathBuf::from(path)],
        attrs: notify::event::EventAttributes::default(),
    };
    assert!(names.command_for(Ok(written("/x/toolrack.db-wal"))).is_none());
    assert!(matches!(names.command_for(Ok(written("/x/mcp.json"))), Some(Command::Check(_))));
}

#[test]
fn a_read_is_no_change_and_a_missed_event_has_all_files_checked() {
    let names = FileNames::default();
    names.add([PathBuf::from("/x/mcp.json")].iter());
    let of = |kind| Event { kind, paths: vec![PathBuf::from("/x/mcp.json")], attrs: Default::default() };
    assert!(names.command_for(Ok(of(notify::EventKind::Access(notify::event::AccessKind::Any)))).is_none());
    assert!(matches!(names.command_for(Err(notify::Error::generic("overflow"))), Some(Command::CheckAll)));
    let rescan = of(notify::EventKind::Other).set_flag(notify::event::Flag::Rescan);
    assert!(matches!(names.command_for(Ok(rescan)), Some(Command::CheckAll)));
    // A new folder or link may take the place of one above a followed file, so its name does not matter.
    let created = Event { paths: vec![PathBuf::from("/x")], ..of(notify::EventKind::Create(CreateKind::Folder)) };
    assert!(matches!(names.command_for(Ok(created)), Some(Command::Check(_))));
}

/// Returns the state of a thread without a watch of the system, with one reader for each of `files`, numbered from 0.
fn thread_state(files: &[&Path]) -> ThreadState {
    let folders = Folders::new(SystemWatcher::none());
    let mut watched =
        ThreadState { folders, names: Arc::default(), readers: BTreeMap::new(), readers_by_path: HashMap::new() };
    for (reader, file) in (0..).zip(files) {
        watched.handle(Command::Begin(reader, Box::new(|| {})));
        watched.handle(Command::Follow(reader, vec![file.to_path_buf()], mpsc::channel().0));
    }
    watched
}

#[test]
fn an_event_concerns_the_readers_of_its_path_and_a_missed_one_all_readers() {
    let (root, first) = folder_with_file();
    let second = root.path().join("other").join("mcp.json");
    make(&second);
    let mut watched = thread_state(&[&first, &second]);
    let path = first.canonicalize().unwrap();
    assert_eq!(watched.handle(Command::Check(vec![path])), BTreeSet::from([0]));
    assert_eq!(watched.handle(Command::Check(vec![root.path().join("toolrack.db")])), BTreeSet::new());
    assert_eq!(watched.handle(Command::CheckAll), BTreeSet::from([0, 1]));
}

#[test]
fn nothing_is_watched_for_a_reader_that_has_ended_or_follows_other_files() {
    let (root, first) = folder_with_file();
    let second = root.path().join("other").join("mcp.json");
    make(&second);
    let mut watched = thread_state(&[&first]);
    let [of_first, of_second] = [&first, &second].map(|file| file.parent().unwrap().canonicalize().unwrap());
    assert!(watched.folders.has(&of_first) && !watched.folders.has(&of_second));
    watched.handle(Command::Follow(0, vec![second.clone()], mpsc::channel().0));
    assert!(!watched.folders.has(&of_first) && watched.folders.has(&of_second));
    assert!(!watched.readers_by_path.contains_key(&first.canonicalize().unwrap()));
    watched.handle(Command::End(0));
    assert!(!watched.folders.has(&of_second) && watched.readers_by_path.is_empty() && watched.readers.is_empty());
}

#[test]
fn a_folder_that_two_readers_need_is_watched_until_both_have_ended() {
    let (_root, file) = folder_with_file();
    let folder = file.parent().unwrap().canonicalize().unwrap();
    let mut watched = thread_state(&[&file, &file]);
    watched.handle(Command::End(0));
    assert!(watched.folders.has(&folder));
    watched.handle(Command::End(1));
    assert!(!watched.folders.has(&folder));
}

#[test]
fn a_check_finds_only_readers_with_a_changed_file_or_a_replaced_folder() {
    let (root, first) = folder_with_file();
    let second = root.path().join("other").join("mcp.json");
    make(&second);
    let mut watched = thread_state(&[&first, &second]);
    let all = || BTreeSet::from([0, 1]);
    assert_eq!(watched.changed_readers(all()), BTreeSet::new());
    fs::write(&second, "{ }").unwrap();
    assert_eq!(watched.changed_readers(all()), BTreeSet::from([1]));
    watched.report(BTreeSet::from([1]));
    assert_eq!(watched.changed_readers(all()), BTreeSet::new());
    make(&root.path().join("new").join("mcp.json"));
    fs::rename(first.parent().unwrap(), root.path().join("old")).unwrap();
    fs::rename(root.path().join("new"), first.parent().unwrap()).unwrap();
    assert_eq!(watched.changed_readers(all()), BTreeSet::from([0]));
}

#[test]
fn a_reader_without_files_hears_of_nothing_and_can_follow_some_later() {
    let (_root, file) = folder_with_file();
    let (mut watch, hears) = watched(&[]);
    watch.follow([&*file]);
    assert!(hears.try_recv().is_err());
    fs::write(&file, "{ }").unwrap();
    hears.recv_timeout(LONG).unwrap();
}
