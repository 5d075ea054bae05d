//! `--help` of every command, word by word.

use std::{collections::BTreeSet, path::Path};

use crate::rack::{Rack, commands_of_help};

/// Where the transcripts are, seen from here.
const FOLDER: &str = "../help";

/// `config show` has the transcript `config-show`; the program alone is `toolrack`.
fn transcript(command: &[String]) -> String {
    if command.is_empty() { "toolrack".to_owned() } else { command.join("-") }
}

#[test]
fn every_command_says_the_same_as_ever_and_has_examples() {
    let rack = Rack::new().env("COLUMNS", "80");
    for command in commands_of_help(&rack) {
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = rack.run(&args).ends_with(0);
        assert_eq!(ran.stderr, "", "{args:?}");
        assert!(ran.stdout.contains("\nExample"), "{args:?} has no example: {}", ran.stdout);
        insta::with_settings!({ snapshot_path => FOLDER, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(transcript(&command), ran.stdout);
        });
    }
}

#[test]
fn no_transcript_is_of_a_command_that_is_gone() {
    let wanted: BTreeSet<String> =
        commands_of_help(&Rack::new()).iter().map(|command| format!("{}.snap", transcript(command))).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> = files.filter(|file| file.ends_with(".snap")).collect();
    assert_eq!(found, wanted);
}

#[test]
fn examples_are_not_broken_in_80_columns() {
    let rack = Rack::new().env("COLUMNS", "80");
    let wide = Rack::new().env("COLUMNS", "100");
    for command in commands_of_help(&rack) {
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let examples = |rack: &Rack| {
            let help = rack.run(&args).stdout;
            let at = help.find("\nExample").unwrap();
            let (_, examples) = help.split_at(at);
            examples.trim_start().split("\n\n").next().unwrap().to_owned()
        };
        assert_eq!(examples(&rack), examples(&wide), "{args:?}");
    }
}
