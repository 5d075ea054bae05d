//! `--help` of every command, word by word.

use std::{collections::BTreeSet, path::Path};

use crate::rack::{Rack, commands_of_help};

/// The folder of the transcripts, relative to this file.
const FOLDER: &str = "../help";

/// The transcript of the options that every command has.
const COMMON: &str = "options-of-every-command";

/// `config show` has the transcript `config-show`; the program alone is `toolrack`.
fn transcript(command: &[String]) -> String {
    if command.is_empty() { "toolrack".to_owned() } else { command.join("-") }
}

/// Splits the help of a command from the options that every command has.
fn help(rack: &Rack, command: &[String]) -> (String, String) {
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let ran = rack.run(&args).ends_with(0);
    assert_eq!(ran.stderr, "", "{args:?}");
    let (common, own): (Vec<_>, Vec<_>) =
        ran.stdout.trim_end().split("\n\n").partition(|part| part.starts_with("Options of every command:"));
    (own.join("\n\n"), common.join("\n\n"))
}

#[test]
fn every_command_says_the_same_as_ever_and_has_examples() {
    let rack = Rack::new().env("COLUMNS", "80");
    let (_, common) = help(&rack, &[]);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(FOLDER);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _settings = settings.bind_to_scope();
    insta::assert_snapshot!(COMMON, common);
    for command in commands_of_help(&rack) {
        let (own, theirs) = help(&rack, &command);
        assert_eq!(theirs, common, "{command:?}");
        assert!(own.contains("\n\nExample"), "{command:?} has no example: {own}");
        insta::assert_snapshot!(transcript(&command), own);
    }
}

#[test]
fn no_transcript_is_of_a_command_that_is_gone() {
    let commands = commands_of_help(&Rack::new());
    let names = commands.iter().map(|command| transcript(command)).chain([COMMON.to_owned()]);
    let wanted: BTreeSet<String> = names.map(|name| format!("{name}.snap")).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> = files.filter(|file| file.ends_with(".snap")).collect();
    assert_eq!(found, wanted);
}

#[test]
fn examples_are_not_broken_in_80_columns() {
    let (narrow, wide) = (Rack::new().env("COLUMNS", "80"), Rack::new().env("COLUMNS", "100"));
    for command in commands_of_help(&wide) {
        let examples = |rack: &Rack| {
            let (own, _) = help(rack, &command);
            let part = own.split("\n\n").find(|part| part.starts_with("Example"));
            part.unwrap().to_owned()
        };
        assert_eq!(examples(&narrow), examples(&wide), "{command:?}");
    }
}
