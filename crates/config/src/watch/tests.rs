use std::{fs, sync::mpsc};

use super::*;

/// Longer than a change takes to be reported on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn watched(files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
    // Nothing is found by looking that was not heard of.
    watched_looking_every(LONG * 1000, files)
}

fn watched_looking_every(pause: Duration, files: &[&Path]) -> (Watch, mpsc::Receiver<()>) {
    let (told, hears) = mpsc::channel();
    let mut watch = Watch::polling(pause, move || {
        // The receiver is gone once the test is over.
        let _ = told.send(());
    })
    .unwrap();
    watch.follow(files.iter().copied());
    (watch, hears)
}

/// Waits until every change is reported.
fn settled(hears: &mpsc::Receiver<()>) {
    hears.recv_timeout(LONG).unwrap();
    while hears.recv_timeout(SETTLE * 4).is_ok() {}
}

/// A folder with a file, below one that is all its own.
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
    let put = |to: &str| {
        make(&root.path().join(to).join("mcp.json"));
        std::os::unix::fs::symlink(root.path().join(to), root.path().join("link")).unwrap();
        fs::rename(root.path().join("link"), &link).unwrap();
    };
    put("one");
    let file = link.join("mcp.json");
    let (_watch, hears) = watched(&[&file]);
    for next in ["two", "three"] {
        put(next);
        settled(&hears);
        fs::write(root.path().join(next).join("mcp.json"), "{ }").unwrap();
        settled(&hears);
    }
}

#[test]
fn a_change_that_the_system_does_not_report_is_found_by_looking() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("far/above/toolrack/mcp.json");
    make(&file);
    let (_watch, hears) = watched_looking_every(SETTLE, &[&file]);
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
