//! Makes the completion scripts, one for each shell.
//!
//! These scripts replace those of clap, which have faults that matter here. The bash script of clap breaks `path=` and
//! `--mcp-config=FILE` into three words. It also puts file names into the line without quotes, and expands the offered
//! words like globs. The zsh script of clap ends `path=` with a blank, and works only where it is sourced. The
//! PowerShell script of clap parses the line up to the cursor by running it, so TAB after `toolrack call $(anything)`
//! would run `anything`.

use std::{borrow::Cow, ffi::OsStr, path::Path};

use super::args::Shell;

/// The environment variable that names the shell which asks for completions. Only the scripts set this variable.
pub(crate) const VARIABLE: &str = "TOOLRACK_COMPLETE";

/// The variable in which the scripts pass the index of the word at the cursor. clap chose its name.
pub(crate) const INDEX: &str = "_CLAP_COMPLETE_INDEX";

/// The name of the command that is completed.
const COMMAND: &str = "toolrack";

/// Returns the script that makes `shell` complete the words of `toolrack`. `program` is the first word of the command
/// line that started this program, and `folder` the working folder. Without a `folder`, a relative path in `program`
/// stays relative.
pub(crate) fn script(shell: Shell, program: &OsStr, folder: Option<&Path>) -> String {
    let program = Path::new(program);
    // The shell looks a bare name up on the PATH each time. A relative path is made absolute, because the script runs
    // in other folders as well.
    let program = match folder {
        Some(folder) if program.components().count() > 1 => folder.join(program),
        _ => program.to_owned(),
    };
    fill_in(shell, &program.to_string_lossy())
}

/// Returns the script for `shell`, which calls `program`.
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

/// Puts `text` in single quotes, and `quote` in place of each single quote in `text`.
fn in_quotes<'t>(text: &str, quote: &str) -> Cow<'t, str> {
    format!("'{}'", text.replace('\'', quote)).into()
}
