//! No bytes make a reader panic, and no edit loses any.

use std::fs;

use proptest::prelude::*;
use serde_json::json;
use toolrack_config::edit::{self, EditError, Options};

use super::{load_file, load_text};

const EXAMPLES: &[&str] = &[
    include_str!("examples/vscode.json"),
    include_str!("examples/gemini.json"),
    include_str!("examples/codex.toml"),
    include_str!("examples/spacebot.toml"),
];

/// A real file with some bytes overwritten, and cut off somewhere.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (prop::sample::select(EXAMPLES), damage, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(example, damage, end, is_cut)| {
            let mut bytes = example.as_bytes().to_vec();
            for (index, byte) in damage {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes
        },
    )
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let grammar = r#"[\[\]{}:,."'/*#= \n$a-c0-9\\-]{0,80}"#;
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), grammar.prop_map(String::into_bytes), damaged(),]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_reader_survives_any_bytes(bytes in any_bytes()) {
        for name in ["mcp.json", "config.toml"] {
            let loaded = load_text(name, &bytes);
            for problem in &loaded.problems {
                let shown = problem.to_string();
                prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
            }
            prop_assert_eq!(loaded.desired.len(), loaded.entries.iter().filter(|entry| entry.is_valid).count());
        }
    }

    #[test]
    fn an_edit_of_any_bytes_is_refused_or_keeps_every_entry(bytes in any_bytes()) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("mcp.json");
        fs::write(&path, &bytes).expect("a file");
        let before = load_file(home.path(), &path);
        match edit::add(&path, "new", &json!({ "command": "x" }), Options::default()) {
            Err(EditError::Unsafe { .. }) => prop_assert!(false, "what was read could not be edited"),
            Err(_) => prop_assert_eq!(fs::read(&path).expect("the file"), bytes),
            Ok(edited) => {
                prop_assert!(!edited.diff.is_empty());
                let mut after = load_file(home.path(), &path).desired;
                prop_assert!(after.remove("new").is_some());
                prop_assert_eq!(after, before.desired);
            }
        }
    }
}
