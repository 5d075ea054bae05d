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
    assert!(is_ours(name.as_ref()));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_media_type_decides_how_the_file_ends() {
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

fn aged(second: u32, tool: &str) -> Name {
    Name {
        at: DateTime::from_timestamp(1_800_000_000 + i64::from(second), 0).unwrap(),
        server: "s".into(),
        tool: tool.into(),
        extension: "txt",
    }
}

#[test]
fn the_oldest_files_go_first_and_foreign_ones_never() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("0-mine.txt"), [0; 100]).unwrap();
    let bounds = ArtifactBounds { files: 3, bytes: 100 };
    let folder = ArtifactFolder::new(home.path(), bounds);
    for second in 0..5 {
        folder.write(&aged(second, &format!("t{second}")), b"x").unwrap();
    }
    let kept = names(home.path());
    assert_eq!(kept.len(), 4);
    assert_eq!(kept[0], "0-mine.txt");
    assert!(kept[1].contains("t2") && kept[3].contains("t4"), "{kept:?}");

    folder.write(&aged(9, "big"), &[0; 99]).unwrap();
    let kept = names(home.path());
    assert_eq!(kept.len(), 3);
    assert!(kept[1].contains("t4") && kept[2].contains("big"), "{kept:?}");
}

#[test]
fn the_newest_file_stays_even_when_a_clock_went_back() {
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
fn what_is_larger_than_the_folder_may_be_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = ArtifactFolder::new(home.path().join("a"), ArtifactBounds { files: 9, bytes: 10 });
    let error = folder.write(&aged(0, "t"), &[0; 11]).unwrap_err();
    assert_eq!(error.why, "it has 11 bytes, and at most 10 are kept");
    assert!(!home.path().join("a").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let folder = ArtifactFolder::new(home.path().join("file/a"), ArtifactBounds::default());
    let error = folder.write(&aged(0, "t"), b"x").unwrap_err();
    assert!(error.why.contains("file/a"), "{}", error.why);
}
