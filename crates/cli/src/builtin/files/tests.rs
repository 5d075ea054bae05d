use super::*;

struct Folder {
    folder: tempfile::TempDir,
    fence: Fence,
}

fn folder(files: &[(&str, &[u8])]) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let fence = Fence::new(folder.path().to_owned());
    Folder { folder, fence }
}

fn text(folder: &Folder, path: &str, part: Part) -> String {
    let text = read(&folder.fence, path, part).unwrap();
    assert_eq!(text.note, None);
    text.text
}

#[test]
fn a_folder_is_listed_by_name_with_kinds_and_sizes() {
    let folder = folder(&[("b.txt", b"12345"), ("a/inner", b""), ("c\n\x1b[2J", b"")]);
    let listing = list(&folder.fence, ".").unwrap();
    assert_eq!(listing.lines(), "[DIR] a\n[FILE] b.txt  5 B\n[FILE] c\\n\\u{1b}[2J  0 B");
    assert_eq!(
        serde_json::to_value(&listing).unwrap(),
        serde_json::json!({ "path": ".", "truncated": false, "entries": [
            { "name": "a", "kind": "directory" },
            { "name": "b.txt", "kind": "file", "size": 5 },
            { "name": "c\n\u{1b}[2J", "kind": "file", "size": 0 },
        ] })
    );
    assert_eq!(list(&folder.fence, "a").unwrap().path, "a");
}

#[test]
fn an_empty_folder_has_a_note() {
    let folder = folder(&[]);
    assert_eq!(list(&folder.fence, ".").unwrap().lines(), "(empty)");
}

#[test]
fn only_folders_are_listed() {
    let folder = folder(&[("a.txt", b"")]);
    let error = list(&folder.fence, "a.txt").unwrap_err().to_string();
    assert_eq!(error, "`a.txt` is not a folder");
    let error = list(&folder.fence, "nope").unwrap_err().to_string();
    assert_eq!(error, "cannot open `nope`: there is no such file or folder");
}

#[test]
fn a_file_is_read_in_full_or_by_its_first_or_last_lines() {
    let folder = folder(&[("t", b"1\n2\n3\n"), ("open", b"1\n2\n3"), ("empty", b"")]);
    assert_eq!(text(&folder, "t", Part::Whole), "1\n2\n3\n");
    assert_eq!(text(&folder, "t", Part::Head(2)), "1\n2\n");
    assert_eq!(text(&folder, "t", Part::Head(0)), "");
    assert_eq!(text(&folder, "t", Part::Head(9)), "1\n2\n3\n");
    assert_eq!(text(&folder, "t", Part::Tail(2)), "2\n3\n");
    assert_eq!(text(&folder, "t", Part::Tail(0)), "");
    assert_eq!(text(&folder, "t", Part::Tail(9)), "1\n2\n3\n");
    assert_eq!(text(&folder, "open", Part::Tail(1)), "3");
    assert_eq!(text(&folder, "empty", Part::Tail(1)), "");
    assert_eq!(text(&folder, "empty", Part::Whole), "");
}

#[test]
fn a_large_file_is_cut_between_characters_with_a_note() {
    // Three bytes each: the limit falls inside a character.
    let large = "日".repeat(MAX_TEXT_BYTES as usize / 3 + 100);
    let folder = folder(&[("large", large.as_bytes())]);
    for part in [Part::Whole, Part::Head(1), Part::Tail(1)] {
        let text = read(&folder.fence, "large", part).unwrap();
        assert!(text.text.len() as u64 <= MAX_TEXT_BYTES);
        assert!(text.text.len() as u64 > MAX_TEXT_BYTES - 3);
        assert!(text.text.chars().all(|c| c == '日'), "{part:?}");
        assert!(text.note.unwrap().contains("1.0 MB"), "{part:?}");
    }
}

#[test]
fn the_end_of_a_large_file_is_found_without_its_start() {
    let large = "x".repeat(MAX_TEXT_BYTES as usize) + "\nlast\n";
    let folder = folder(&[("large", large.as_bytes())]);
    assert_eq!(text(&folder, "large", Part::Tail(1)), "last\n");
}

#[test]
fn files_that_are_not_text_are_not_shown() {
    let folder = folder(&[("image", b"\x89PNG\0\0"), ("latin", b"caf\xe9")]);
    let error = read(&folder.fence, "image", Part::Whole).unwrap_err();
    assert_eq!(error.to_string(), "`image` is not text (6 B); file_info describes it");
    assert_eq!(text(&folder, "latin", Part::Whole), "caf\u{fffd}");
}

#[cfg(unix)]
#[test]
fn a_device_is_refused_before_it_is_opened() {
    let folder = folder(&[]);
    let socket = folder.folder.path().join("socket");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = read(&folder.fence, "socket", Part::Whole).unwrap_err();
    assert_eq!(error.to_string(), "`socket` is not a regular file");
    assert_eq!(info(&folder.fence, "socket").unwrap().kind, Kind::Other);
}

#[test]
fn the_facts_about_a_file_are_returned() {
    let folder = folder(&[("a.txt", b"12345")]);
    let about = info(&folder.fence, "a.txt").unwrap();
    assert_eq!((about.kind, about.size), (Kind::File, 5));
    let lines = about.lines();
    assert!(lines.starts_with("path: a.txt\nkind: file\nsize: 5 B (5 bytes)\nmodified: 2"), "{lines}");
    assert_eq!(info(&folder.fence, ".").unwrap().kind, Kind::Directory);
}
