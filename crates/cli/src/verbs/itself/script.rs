//! The completion scripts, one for each shell.
//!
//! They replace the scripts of clap, which have faults that matter here. In bash they break `path=` and
//! `--mcp-config=FILE` into three words, put names of files into the line without quotes, and expand what is offered
//! like a glob. In zsh they end `path=` with a blank, and work only where they are sourced. In PowerShell they run the
//! line up to the cursor to take it apart, so that `toolrack call $(anything)` would do anything when TAB is pressed.

use std::{borrow::Cow, ffi::OsStr, path::Path};

use super::args::Shell;

/// Names the shell that asks for completions. Only the scripts set it.
pub(crate) const VARIABLE: &str = "TOOLRACK_COMPLETE";

/// The variable in which the scripts pass the index of the word at the cursor. clap chose its name.
pub(crate) const INDEX: &str = "_CLAP_COMPLETE_INDEX";

/// The name of the command that is completed.
const COMMAND: &str = "toolrack";

/// The script that makes `shell` complete the words of `toolrack`. `program` is the word with which this program was
/// started, in `folder`.
pub(crate) fn script(shell: Shell, program: &OsStr, folder: Option<&Path>) -> String {
    let program = Path::new(program);
    // A name is looked up on the path each time; a path must mean the same in every folder.
    let program = match folder {
        Some(folder) if program.components().count() > 1 => folder.join(program),
        _ => program.to_owned(),
    };
    fill_in(shell, &program.to_string_lossy())
}

/// The script for `shell`, which calls `program`.
fn fill_in(shell: Shell, program: &str) -> String {
    let (script, program) = match shell {
        // Works in bash 3.2 and later.
        Shell::Bash => (include_str!("scripts/bash"), shell_words::quote(program)),
        Shell::Zsh => (include_str!("scripts/zsh"), shell_words::quote(program)),
        Shell::Fish => (include_str!("scripts/fish"), in_quotes(&program.replace('\\', r"\\"), r"\'")),
        Shell::Powershell => (include_str!("scripts/powershell"), in_quotes(program, "''")),
        Shell::Elvish => (include_str!("scripts/elvish"), in_quotes(program, "''")),
    };
    // Replace the program last, so that nothing in its path is taken for a placeholder.
    let script = script.replace("VARIABLE", VARIABLE).replace("INDEX", INDEX).replace("NAME", COMMAND);
    script.replace("PROGRAM", &program)
}

/// `text` in single quotes, with `quote` in place of each single quote.
fn in_quotes<'t>(text: &str, quote: &str) -> Cow<'t, str> {
    format!("'{}'", text.replace('\'', quote)).into()
}
