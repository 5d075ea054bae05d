//! Completes words in shells, when TAB is pressed.
//!
//! A shell runs [`script`](crate::verbs::about_program::script) once. The script makes the shell call this program on
//! each TAB, with the words so far and [`VARIABLE`] set. The program then answers from local data ([`data`]), without
//! connecting to a server. It knows the commands, the options, the configured servers, and the tools that each server
//! had when it was last connected ([`notebook`](crate::notebook)).
//!
//! This module starts no server, uses no network and changes no file. After any error there are no completions: an
//! error message does not belong in the middle of a line. A shell inserts the completions into a command line, so only
//! words are offered that need no quotes in any shell ([`is_shell_safe`](crate::notebook::is_shell_safe)).

mod data;
mod offer;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::Path,
};

use clap::{CommandFactory, FromArgMatches, ValueEnum};
use clap_complete::{
    engine,
    env::{self, EnvCompleter as _},
};
use toolrack_config::Environment;

use crate::{
    args::Global,
    verbs::{
        Cli,
        about_program::{
            args::Shell,
            script::{INDEX, VARIABLE},
        },
    },
};
use data::CompletionData;
use offer::{Line, ValueKind};

/// The maximum number of words of a line.
const MAX_WORDS: usize = 100_000;

/// Answers a shell that asks what to offer. `words` is the whole command line of this process.
///
/// Returns whether a shell asked.
pub(crate) fn answer_if_asked(words: &[OsString], environment: &Environment) -> bool {
    let Some(name) = environment.get(VARIABLE).filter(|name| !name.is_empty()) else {
        return false;
    };
    let mut answer = Vec::new();
    let shell = name.to_str().and_then(|name| Shell::from_str(name, false).ok());
    if let (Some(shell), Ok(folder)) = (shell, std::env::current_dir()) {
        // After an error there are no completions: the reason has no place on the line.
        let _ = answer_to(shell, words, environment, &folder, &mut answer);
    }
    let mut stdout = io::stdout().lock();
    // Fails if the shell no longer reads.
    let _ = stdout.write_all(&answer).and_then(|()| stdout.flush());
    true
}

/// Writes the answer to `shell` into `answer`.
fn answer_to(
    shell: Shell,
    words: &[OsString],
    environment: &Environment,
    folder: &Path,
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    let words = words.iter().skip_while(|word| *word != "--").skip(1);
    let mut words: Vec<OsString> = words.map(|word| unquoted(shell, word)).collect();
    let last_index = words.len().saturating_sub(1);
    // Bash and fish ask for the last word.
    let index = environment.get(INDEX).filter(|_| !matches!(shell, Shell::Bash | Shell::Fish));
    let index = index.and_then(|index| index.to_str()?.parse().ok()).unwrap_or(last_index);
    if index > MAX_WORDS {
        return Ok(());
    }
    // An empty word at the cursor may be missing from `words`. The words after the cursor do not matter.
    words.resize(index + 1, OsString::new());
    skip_record_words(&mut words, index);
    let (global, selector) = parse_before_cursor(&words[..index]);
    let current = words[index].to_string_lossy().into_owned();
    let data = CompletionData::new(environment.clone(), folder.to_owned(), &global);
    let mut command = offer::command(Line { shell, folder: folder.to_owned(), current, selector }, data);
    let (command, folder) = (&mut command, Some(folder));
    match shell {
        Shell::Bash => {
            for candidate in engine::complete(command, words, index, folder)? {
                writeln!(answer, "{}", candidate.get_value().to_string_lossy())?;
            }
            Ok(())
        }
        Shell::Zsh => env::Zsh.write_complete(command, words, folder, answer),
        Shell::Fish => env::Fish.write_complete(command, words, folder, answer),
        Shell::Powershell => env::Powershell.write_complete(command, words, folder, answer),
        Shell::Elvish => env::Elvish.write_complete(command, words, folder, answer),
    }
}

/// Replaces `record FILE` or `replay FILE` by two words without effect, so that the command after them is completed as
/// usual. The number of words stays the same, because shells count them.
fn skip_record_words(words: &mut [OsString], index: usize) {
    if let [_, verb, file, ..] = words
        // At index 1 or 2, the verb or FILE itself is being completed.
        && index > 2
        && (*verb == "record" || *verb == "replay")
        && !file.as_encoded_bytes().starts_with(b"-")
    {
        (*verb, *file) = ("--color".into(), "auto".into());
    }
}

/// Reads the global options and the selector (the word that names a tool, prompt or server) from the words before the
/// cursor. Ignores words that cannot be understood.
fn parse_before_cursor(words_before: &[OsString]) -> (Global, Option<(ValueKind, String)>) {
    let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(words_before) else {
        return (Global::default(), None);
    };
    let root = Cli::command();
    let (mut command, mut matches) = (&root, &matches);
    // Some commands are below others: `policy test`.
    while let Some((verb, verb_matches)) = matches.subcommand()
        && let Some(subcommand) = command.find_subcommand(verb)
    {
        (command, matches) = (subcommand, verb_matches);
    }
    let selector = offer::selector_of(command)
        .and_then(|(kind, id)| Some((kind, matches.try_get_one::<String>(&id).ok().flatten().cloned()?)));
    (Global::from_arg_matches(matches).unwrap_or_default(), selector)
}

/// Returns `word` without its quotes, as the program would get it. Some shells pass the word as it was typed.
fn unquoted(shell: Shell, word: &OsStr) -> OsString {
    let is_raw = matches!(shell, Shell::Bash | Shell::Zsh);
    let parts = word.to_str().filter(|_| is_raw).and_then(|word| shell_words::split(word).ok());
    match parts.as_deref() {
        Some([only]) => only.into(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests;
