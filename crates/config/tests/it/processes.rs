//! Several processes edit one file.

use std::process::{Child, Command};

use serde_json::json;
use toolrack_config::{
    Environment,
    edit::{self, Options},
};

use super::load_file;

/// What names the file, and the child's number, to a child of the test below.
const FILE: &str = "TOOLRACK_TEST_FILE";
const NUMBER: &str = "TOOLRACK_TEST_NUMBER";

const WRITERS: usize = 4;
const ENTRIES: usize = 5;

/// The other process. Does nothing unless the test below starts it.
#[test]
fn child_that_adds_entries() {
    let environment = Environment::of_process();
    let (Some(file), Some(number)) = (environment.get(FILE), environment.get(NUMBER)) else { return };
    for index in 0..ENTRIES {
        let name = format!("s{}-{index}", number.display());
        edit::add(file.as_ref(), &name, &json!({ "command": "x" }), Options::default()).expect("an edit");
    }
}

#[test]
fn processes_that_add_at_once_lose_nothing_of_each_other() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for file in ["mcp.json", "toolrack.toml"] {
        let path = home.path().join(file);
        let program = std::env::current_exe().expect("this program");
        let start = |number: usize| {
            let mut child = Command::new(&program);
            child
                .args(["--exact", "processes::child_that_adds_entries"])
                .env(FILE, &path)
                .env(NUMBER, number.to_string());
            child.stdout(std::process::Stdio::null()).spawn().expect("a child")
        };
        let children: Vec<Child> = (0..WRITERS).map(start).collect();
        for mut child in children {
            assert!(child.wait().expect("its end").success());
        }
        let loaded = load_file(home.path(), &path);
        assert!(loaded.problems.is_empty(), "{:#?}", loaded.problems);
        assert_eq!(loaded.desired.len(), WRITERS * ENTRIES, "{file}");
    }
    assert_eq!(std::fs::read_dir(home.path()).expect("the folder").count(), 2, "nothing is left lying around");
}
