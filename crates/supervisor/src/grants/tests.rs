use super::*;

#[test]
fn a_program_may_read_its_own_installation_but_never_the_home() {
    let homes = [PathBuf::from("/data/me"), PathBuf::from("/home/me")];
    for (program, installed) in [
        ("/home/me/.nvm/versions/node/v22/bin/node", "/home/me/.nvm/versions/node/v22"),
        ("/home/me/.local/share/uv/tools/x/bin/x", "/home/me/.local/share/uv/tools/x"),
        ("/home/me/bin/server", "/home/me/bin"),
        ("/home/bin/server", "/home/bin"),
        ("/home/me/server", "/home/me/server"),
        ("/home/server", "/home/server"),
        ("/bin/sh", "/bin"),
        ("/opt/x/bin/sh", "/opt/x"),
        ("/home/me/project/server", "/home/me/project"),
    ] {
        assert_eq!(installation_folders_of(Path::new(program), &homes), [PathBuf::from(installed)], "{program}");
    }
    for program in ["/home/me/.cargo/bin/server", "/home/me/.local/bin/uvx", "/home/me/.pyenv/shims/python3"] {
        let installation = installation_folders_of(Path::new(program), &homes);
        assert!(installation.contains(&Path::new(program).parent().unwrap().to_owned()), "{program}: {installation:?}");
        assert!(installation.iter().all(|path| path.components().count() == 5), "{program}: {installation:?}");
    }
}

/// A tree of files, folders (a name that ends in `/`), programs (`*`) and links (`link -> target`).
fn tree(entries: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().canonicalize().unwrap();
    for entry in entries {
        let (name, target) = entry.split_once(" -> ").map_or((*entry, None), |(name, target)| (name, Some(target)));
        let path = at.join(name.trim_end_matches(['/', '*']));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match target {
            Some(target) if target.starts_with('~') => {
                std::os::unix::fs::symlink(at.join(target.trim_start_matches("~/")), path).unwrap();
            }
            Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
            None if name.ends_with('/') => std::fs::create_dir_all(path).unwrap(),
            None => std::fs::write(&path, "").unwrap(),
        }
        if name.ends_with('*') {
            std::fs::set_permissions(at.join(name.trim_end_matches('*')), std::fs::Permissions::from_mode(0o755))
                .unwrap();
        }
    }
    (root, at)
}

#[test]
fn a_link_of_a_project_leads_to_an_installation_and_nowhere_else() {
    let (_root, at) = tree(&[
        "home/.pyenv/versions/3/bin/python3*",
        "home/.pyenv/shims/python -> ../versions/3/bin/python3",
        "home/.pyenv/secret -> ~/home/keys",
        "home/keys",
        "home/code/tool/bin/tool*",
        "project/server*",
        "project/python -> ~/home/.pyenv/shims/python",
        "project/tool -> ~/home/code/tool/bin/tool",
        "project/keys -> ~/home/keys",
        "project/twice -> tool",
        "project/own -> server",
        "project/system -> /bin/sh",
        "project/node_modules/pkg/cli*",
        "project/node_modules/.bin/pkg -> ../pkg/cli",
        "project/node_modules/.bin/out -> ../../server",
        "project/node_modules/.bin/keys -> ~/home/keys",
        "project/node_modules/.bin/around -> ../around",
        "project/node_modules/around -> ~/home/code/tool",
        "project/node_modules/other/cli -> ../pkg/cli",
    ]);
    let home = at.join("home");
    for (path, leads_to) in [
        ("project/server", Some("project/server")),
        ("home/.pyenv/shims/python", Some("home/.pyenv/versions/3/bin/python3")),
        ("project/python", Some("home/.pyenv/versions/3/bin/python3")),
        ("project/node_modules/.bin/pkg", Some("project/node_modules/pkg/cli")),
        // The link lies in an installation, which no server may change.
        ("home/.pyenv/secret", Some("home/keys")),
        ("project/tool", None),
        ("project/keys", None),
        ("project/twice", None),
        ("project/own", None),
        ("project/node_modules/.bin/out", None),
        ("project/node_modules/.bin/keys", None),
        ("project/node_modules/.bin/around", None),
        // Only `.bin` is where package managers put links.
        ("project/node_modules/other/cli", None),
    ] {
        let reached = |is_in_namespaces| Installations::new(Some(&home), is_in_namespaces).open(&at.join(path));
        match (reached(false), leads_to) {
            (Ok(reached), Some(leads_to)) => assert_eq!(reached.real_path, at.join(leads_to), "{path}"),
            (Err(PathError::Link(_)), None) => {}
            (reached, _) => panic!("{path}: {:?}", reached.ok().map(|reached| reached.real_path)),
        }
        assert!(reached(true).is_ok(), "{path}: inside namespaces, only granted files exist");
    }
    assert!(Installations::new(Some(&home), false).open(&at.join("project/system")).is_ok());
    let without_home = Installations::new(None, false);
    assert!(matches!(without_home.open(&at.join("project/python")), Err(PathError::Link(_))));
    assert!(matches!(without_home.open(&at.join("project/none")), Err(PathError::Error(_))));
}

#[test]
fn a_home_that_is_a_link_is_a_home_by_both_names() {
    let (_root, at) =
        tree(&["disk/me/.cargo/bin/server*", "home -> disk/me", "project/run -> ~/home/.cargo/bin/server"]);
    let installations = Installations::new(Some(&at.join("home")), false);
    assert!(installations.contains(&at.join("home/.cargo/bin/x")));
    assert!(installations.contains(&at.join("disk/me/.cargo/bin/x")));
    assert!(!installations.contains(&at.join("disk/me/code/x")));
    assert!(!installations.contains(&at.join("disk/you/.cargo/bin/x")));
    assert!(
        !installations.contains(&at.join("disk/me/.cargo-of-mine/x")),
        "a prefix of letters is not a parent folder"
    );
}

#[test]
fn a_virtual_environment_includes_the_python_that_created_it() {
    let (_root, at) = tree(&[
        "home/.pyenv/versions/3/bin/python3.12*",
        "home/.pyenv/versions/3/lib/os.py",
        "project/.venv/bin/python -> ~/home/.pyenv/versions/3/bin/python3.12",
        "project/.venv/bin/server*",
    ]);
    let granted = Installations::new(Some(&at.join("home")), false).folders_for(&at.join("project/.venv/bin/server"));
    assert!(granted.contains(&at.join("project/.venv")), "{granted:?}");
    assert!(granted.contains(&at.join("home/.pyenv/versions/3")), "{granted:?}");
    assert!(granted.iter().all(|path| !at.join("home/.pyenv/versions").starts_with(path)), "{granted:?}");
}

#[test]
fn an_installed_python_is_a_program_in_bin_with_the_name_of_a_python() {
    let (_root, at) = tree(&[
        "x/bin/python*",
        "x/bin/python3.12*",
        "x/bin/pypy3*",
        "x/bin/graalpy*",
        "x/bin/python-notes",
        "x/bin/python-folder/",
        "x/bin/node*",
        "x/keys/python3*",
    ]);
    for (program, is_python) in [
        ("x/bin/python", true),
        ("x/bin/python3.12", true),
        ("x/bin/pypy3", true),
        ("x/bin/graalpy", true),
        ("x/bin/python-notes", false),
        ("x/bin/python-folder", false),
        ("x/bin/python-none", false),
        ("x/bin/node", false),
        ("x/keys/python3", false),
        ("", false),
    ] {
        assert_eq!(is_installed_python(&at.join(program)), is_python, "{program}");
    }
}

#[test]
fn a_refusal_names_the_field_the_path_and_the_link_and_what_to_do() {
    let text = untrusted_link_error("`sandbox.read`", Path::new("/w/data/x"), Path::new("/w/data"));
    assert_eq!(
        text,
        "`sandbox.read` names /w/data/x, which leads through the symbolic link /w/data, and a server could have made \
         that link: name its target instead"
    );
}
