use std::fs;

use toolrack_host::{ServerName, ServerSpec};

use super::*;
use crate::{Loaded, Request, load, trust::Candidate};

/// A home and a project, with these files.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(files: &[(&str, &str)]) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(disk.project().join(".git")).unwrap();
        fs::create_dir_all(disk.project().join("deep/er")).unwrap();
        for (name, text) in files {
            let path = match *name {
                "local" => disk.local(),
                name => disk.root().join(name),
            };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        disk
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    fn places(&self) -> Places {
        Places::under(self.root().join("home"))
    }

    fn user(&self) -> PathBuf {
        self.places().user_file()
    }

    fn local(&self) -> PathBuf {
        self.places().local_file(&self.project())
    }

    fn load(&self, change: impl FnOnce(&mut Request)) -> Loaded {
        let mut request = Request::new(self.places(), self.project().join("deep"));
        change(&mut request);
        load(&request, &|_: &Candidate<'_>| true)
    }

    fn to_switch(&self) -> Result<EditTarget, NoEditTarget> {
        let loaded = self.load(|_| {});
        EditTarget::for_switching(loaded.entry("a").unwrap(), &self.places(), &self.project())
    }
}

const A: &str = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
const OFF: &str = r#"{ "mcpServers": { "a": { "enabled": false } } }"#;

#[test]
fn a_new_entry_goes_to_the_file_of_its_layer_from_anywhere_in_the_project() {
    let disk = Disk::new(&[]);
    for folder in [disk.project(), disk.project().join("deep/er")] {
        for (scope, path, of) in [
            (Scope::Project, disk.project().join(".mcp.json"), Scope::Project),
            (Scope::Local, disk.local(), Scope::Local),
            (Scope::User, disk.user(), Scope::User),
            // A layer without its own file uses the user's file.
            (Scope::CommandLine, disk.user(), Scope::User),
            (Scope::BuiltIn, disk.user(), Scope::User),
        ] {
            assert_eq!(
                EditTarget::for_new_entry(scope, &disk.places(), &folder),
                EditTarget { scope: of, path },
                "{scope:?}"
            );
        }
    }
}

#[test]
fn an_entry_is_edited_in_the_one_file_that_has_it_and_in_none_where_several_do() {
    let disk = Disk::new(&[("home/mcp.json", A)]);
    let loaded = disk.load(|_| {});
    let user = EditTarget { scope: Scope::User, path: disk.user() };
    assert_eq!(EditTarget::single_file_of(loaded.entry("a").unwrap()), Ok(user.clone()));

    let disk = Disk::new(&[("home/mcp.json", A), ("local", A), ("project/.mcp.json", A)]);
    let loaded = disk.load(|_| {});
    let entry = loaded.entry("a").unwrap();
    let all = EditTarget::all_of(entry);
    let scopes: Vec<Scope> = all.iter().map(|place| place.scope).collect();
    assert_eq!(scopes, [Scope::Local, Scope::Project, Scope::User], "the one that counts comes first");
    assert_eq!(EditTarget::single_file_of(entry), Err(NoEditTarget::Several(all)));
}

#[test]
fn an_entry_of_the_command_line_is_not_ours_to_edit() {
    let disk = Disk::new(&[("typed.json", A), ("home/mcp.json", A)]);
    let typed = disk.root().join("typed.json");
    let loaded = disk.load(|request| request.mcp_config = vec![typed]);
    let entry = loaded.entry("a").unwrap();
    assert_eq!(entry.scope, Scope::CommandLine);
    assert_eq!(EditTarget::single_file_of(entry), Err(NoEditTarget::CommandLine));
    assert_eq!(EditTarget::for_switching(entry, &disk.places(), &disk.project()), Err(NoEditTarget::CommandLine));
    let disk = Disk::new(&[("home/mcp.json", A), ("typed.json", OFF)]);
    let typed = disk.root().join("typed.json");
    let loaded = disk.load(|request| request.mcp_config = vec![typed]);
    let switched = EditTarget::for_switching(loaded.entry("a").unwrap(), &disk.places(), &disk.project());
    assert_eq!(switched, Err(NoEditTarget::CommandLine), "a switch of the command line");
}

#[test]
fn within_a_layer_the_file_that_has_the_entry_comes_before_the_usual_one() {
    // The file with the entry is in `deep`, and the usual one at the root of the project.
    let disk = Disk::new(&[("project/deep/.mcp.json", A)]);
    let loaded = disk.load(|_| {});
    let entry = loaded.entry("a");
    let within = |scope| EditTarget::in_scope(scope, entry, &disk.places(), &disk.project()).path;
    assert_eq!(within(Scope::Project), disk.project().join("deep/.mcp.json"));
    assert_eq!(within(Scope::User), disk.user());
    assert_eq!(
        EditTarget::in_scope(Scope::Project, None, &disk.places(), &disk.project()).path,
        disk.project().join(".mcp.json")
    );
}

#[test]
fn a_user_switches_a_server_in_a_file_of_their_own() {
    let local = |disk: &Disk| EditTarget { scope: Scope::Local, path: disk.local() };
    let user = |disk: &Disk| EditTarget { scope: Scope::User, path: disk.user() };
    for (files, expected) in [
        (&[("home/mcp.json", A)][..], &user as &dyn Fn(&Disk) -> EditTarget),
        (&[("local", A)], &local),
        // A project's file is for all users of the project, so this user's choice goes into the local file.
        (&[("project/.mcp.json", A)], &local),
        (&[("project/.mcp.json", A), ("local", OFF)], &local),
        // The file that switches the server already is changed again.
        (&[("project/.mcp.json", A), ("home/mcp.json", A), ("local", OFF)], &local),
        (&[("home/mcp.json", A), ("project/.mcp.json", OFF)], &local),
        (&[("home/toolrack.toml", "[[defaults.mcp]]\nname = \"a\"\ncommand = \"x\"\n"), ("home/mcp.json", OFF)], &user),
    ] {
        let disk = Disk::new(files);
        assert_eq!(disk.to_switch(), Ok(expected(&disk)), "{files:?}");
    }
}

#[test]
fn the_users_settings_are_their_own_also_inside_of_a_project() {
    let places = |disk: &Disk| Places::under(disk.project().join("own"));
    let disk = Disk::new(&[("project/own/toolrack.toml", "[[defaults.mcp]]\nname = \"a\"\nenabled = false\n")]);
    let loaded = disk.load(|request| {
        request.places = places(&disk);
        request.built_in.insert(ServerName::new("a").unwrap(), ServerSpec::stdio("x", [""; 0]));
    });
    let target = EditTarget::for_switching(loaded.entry("a").unwrap(), &places(&disk), &disk.project());
    assert_eq!(target, Ok(EditTarget { scope: Scope::User, path: places(&disk).settings() }));
}
