use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

fn server() -> ServerName {
    ServerName::new("my server").unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_result_becomes_a_file_for_its_owner_only() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path().join("deep/artifacts"), ArtifactBounds::default());
    let handle = folder.keep(&server(), "../../etc/passwd", "text/plain; charset=utf-8", b"all of it").await.unwrap();
    let path = Path::new(&handle);
    assert_eq!(fs::read(path).unwrap(), b"all of it");
    assert_eq!(path.parent().unwrap(), home.path().join("deep/artifacts"));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.ends_with("Z-my_server-______etc_passwd.txt"), "{name}");
    assert!(is_artifact_name(name.as_ref()));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_media_type_decides_the_extension_of_the_file() {
    for (media_type, end) in [
        ("image/png", "png"),
        ("IMAGE/JPEG", "jpg"),
        ("application/problem+json", "json"),
        ("application/atom+xml; x=y", "xml"),
        ("text/x-python", "txt"),
        ("application/x-sh", "bin"),
        ("application/x-desktop", "bin"),
        ("", "bin"),
        ("../../x", "bin"),
    ] {
        assert_eq!(extension(media_type), end, "{media_type}");
    }
}

fn aged(second: u32, tool: &str) -> ArtifactName {
    ArtifactName {
        at: DateTime::from_timestamp(1_800_000_000 + i64::from(second), 0).unwrap(),
        server: "s".into(),
        tool: tool.into(),
        extension: "txt",
    }
}

#[test]
fn the_oldest_files_are_deleted_first_and_those_of_others_never() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("0-mine.txt"), [0; 100]).unwrap();
    let bounds = ArtifactBounds { files: 3, bytes: 100 };
    let folder = ArtifactFolder::new(home.path(), bounds);
    for second in 0..5 {
        folder.write(&aged(second, &format!("t{second}")), b"x").unwrap();
    }
    let stored = names(home.path());
    assert_eq!(stored.len(), 4);
    assert_eq!(stored[0], "0-mine.txt");
    assert!(stored[1].contains("t2") && stored[3].contains("t4"), "{stored:?}");

    folder.write(&aged(9, "big"), &[0; 99]).unwrap();
    let stored = names(home.path());
    assert_eq!(stored.len(), 3);
    assert!(stored[1].contains("t4") && stored[2].contains("big"), "{stored:?}");
}

#[test]
fn the_newest_file_is_kept_even_if_the_clock_went_back() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path(), ArtifactBounds { files: 1, bytes: 100 });
    folder.write(&aged(9, "old"), b"x").unwrap();
    let path = folder.write(&aged(1, "new"), b"x").unwrap();
    assert!(path.exists());
    assert_eq!(names(home.path()).len(), 1);
}

#[test]
fn results_of_one_moment_do_not_collide() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path(), ArtifactBounds::default());
    let paths: std::collections::BTreeSet<_> = (0..20).map(|_| folder.write(&aged(0, "t"), b"x").unwrap()).collect();
    assert_eq!(paths.len(), 20);
}

#[test]
fn a_file_larger_than_the_limit_of_the_folder_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path().join("a"), ArtifactBounds { files: 9, bytes: 10 });
    let error = folder.write(&aged(0, "t"), &[0; 11]).unwrap_err();
    assert_eq!(error.why, "it has 11 bytes, but at most 10 can be stored");
    assert!(!home.path().join("a").exists());
}

#[test]
fn the_error_names_a_folder_that_cannot_be_created() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let folder = ArtifactFolder::new(home.path().join("file/a"), ArtifactBounds::default());
    let error = folder.write(&aged(0, "t"), b"x").unwrap_err();
    assert!(error.why.contains("file/a"), "{}", error.why);
}

#[tokio::test]
async fn a_text_is_read_in_pieces_that_fit_together() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path(), ArtifactBounds::default());
    let text = "aé€😀".repeat(50);
    let handle = folder.keep(&server(), "tool", "text/plain", text.as_bytes()).await.unwrap();
    for most in [4, 5, 7, 64, 10_000] {
        let (mut joined, mut from) = (String::new(), 0);
        loop {
            let piece = folder.read(&handle, from, most).await.unwrap();
            assert!(piece.text.len() <= most && piece.from == from && piece.total == text.len() as u64, "{piece:?}");
            joined += &piece.text;
            from = piece.to;
            if piece.text.is_empty() || from == piece.total {
                break;
            }
        }
        assert_eq!(joined, text, "{most}");
    }
    // A position inside a character means the next character.
    let piece = folder.read(&handle, 2, 5).await.unwrap();
    assert_eq!((piece.from, &*piece.text), (3, "€"));
    assert_eq!(folder.read(&handle, 1_000_000, 5).await.unwrap().text, "");
}

#[tokio::test]
async fn only_texts_that_this_store_wrote_are_read() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path().join("kept"), ArtifactBounds::default());
    let picture = folder.keep(&server(), "tool", "image/png", b"\x89PNG\xff\xfe").await.unwrap();
    assert_eq!(folder.read(&picture, 0, 100).await, Err(ReadError::NoText { bytes: 6 }));
    let secret = home.path().join("secret.txt");
    fs::write(&secret, "secret").unwrap();
    let link = Path::new(&picture).with_file_name("20261121T120000000Z-a-b.txt");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let own = Path::new(&picture).with_file_name("notes.txt");
    fs::write(&own, "a note of the user").unwrap();
    let out = Path::new(&picture).with_file_name("../secret.txt");
    for handle in [secret, link, own, out, home.path().join("kept"), PathBuf::new()] {
        assert_eq!(folder.read(handle.to_str().unwrap(), 0, 100).await, Err(ReadError::Unknown), "{handle:?}");
    }
}
