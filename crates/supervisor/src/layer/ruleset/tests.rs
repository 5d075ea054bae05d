use std::fs;

use super::*;

#[test]
fn the_error_for_an_old_kernel_names_what_it_lacks() {
    let (files, ports) = (landlock_too_old_error(false), landlock_too_old_error(true));
    assert!(
        files.starts_with("this kernel cannot restrict access to files (Linux 6.2): Landlock ABI 3 is needed"),
        "{files}"
    );
    assert!(
        ports
            .starts_with("this kernel cannot restrict access to files and ports (Linux 6.7): Landlock ABI 4 is needed"),
        "{ports}"
    );
    let has = landlock_abi().map_or_else(|| "none".to_owned(), |abi| abi.to_string());
    assert!(files.ends_with(&format!("and it has {has}")), "{files}");
}

#[test]
fn the_check_for_landlock_does_not_restrict_this_process() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let _ = landlock_abi();
    fs::write(file.path(), "x").unwrap();
    assert!(std::net::TcpListener::bind("127.0.0.1:0").is_ok());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("NoNewPrivs:\t0"), "{status}");
}

/// A folder like `/etc`, with files and folders of these modes; a name that ends in `/` is a folder.
fn config_folder(entries: &[(&str, u32)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, _) in entries {
        match name.strip_suffix('/') {
            Some(folder) => fs::create_dir_all(root.path().join(folder)).unwrap(),
            None => fs::write(root.path().join(name), "x").unwrap(),
        }
    }
    for (name, mode) in entries {
        fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(*mode)).unwrap();
    }
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    root
}

/// The parts of `root` that every user may read, and the folders that every user may list; an empty name is `root`
/// itself.
fn public(root: &Path) -> (Vec<String>, Vec<String>) {
    let mut public = PublicPart::default();
    public.collect(root, 0);
    let names = |paths: Vec<PathBuf>| {
        let name = |path: PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = paths.into_iter().map(name).collect();
        names.sort();
        names
    };
    (names(public.readable), names(public.listable))
}

#[test]
fn a_server_of_root_reads_only_public_files_of_etc() {
    let open = [("hosts", 0o644), ("ssl/", 0o755), ("ssl/ca", 0o444)];
    assert_eq!(public(config_folder(&open).path()), (vec![String::new()], Vec::new()), "all of it, as a whole");

    let secret = config_folder(&[
        ("hosts", 0o644),
        ("shadow", 0o640),
        ("ssl/", 0o755),
        ("ssl/ca", 0o644),
        ("ssl/deep/", 0o755),
        ("ssl/deep/x", 0o644),
        ("app/", 0o755),
        ("app/conf", 0o644),
        ("app/key", 0o600),
        ("locked/", 0o700),
        ("locked/open", 0o644),
        ("passed/", 0o711),
        ("passed/open", 0o644),
        ("listed/", 0o744),
    ]);
    let (readable, listable) = public(secret.path());
    assert_eq!(readable, ["app/conf", "hosts", "ssl"]);
    assert_eq!(listable, ["", "app"]);
}

#[test]
fn folders_below_the_search_depth_are_not_readable() {
    let deep = |depth: usize| {
        let root = config_folder(&[]);
        let folder = root.path().join(vec!["d"; depth].join("/"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
        root
    };
    assert_eq!(public(deep(MAX_DEPTH - 1).path()).0, [""]);
    assert!(public(deep(MAX_DEPTH).path()).0.is_empty(), "a part below the depth is not readable");
}

#[test]
fn a_link_in_etc_is_judged_by_its_target() {
    let root = config_folder(&[("hosts", 0o644), ("secret", 0o600)]);
    std::os::unix::fs::symlink("secret", root.path().join("link")).unwrap();
    let (readable, listable) = public(root.path());
    assert_eq!((readable, listable), (vec!["hosts".to_owned()], vec![String::new()]));
}
