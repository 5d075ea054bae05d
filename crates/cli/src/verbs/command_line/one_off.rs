//! Finds the one-off server, which the command line describes for only this command: by a URL among the words of a
//! verb, or by a command after `--`.

use std::{ffi::OsString, path::Path};

use clap::{
    CommandFactory as _, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::Cli;
use crate::{
    args::{ONE_OFF_NAME, OneOffArgs, OneOffServer},
    verbs::Verb,
};

impl Cli {
    /// Takes the server for this one command out of the verb's words, so that the verb sees the same words as for a
    /// configured server.
    ///
    /// # Errors
    /// When two servers are named, or when the name of the tool, prompt or resource is missing.
    pub(super) fn take_one_off(&mut self) -> Result<(), Error> {
        let one_off = self.verb.take_one_off_server()?;
        self.global.one_off = one_off;
        Ok(())
    }
}

impl Verb {
    fn take_one_off_server(&mut self) -> Result<Option<OneOffServer>, Error> {
        match self {
            Self::Tools(args) => take_from_servers(&mut args.servers, &mut args.one_off),
            Self::Test(args) => take_from_servers(&mut args.filter.servers, &mut args.one_off),
            Self::Resources(args) | Self::Prompts(args) => {
                take_from_servers(&mut args.filter.servers, &mut args.one_off)
            }
            Self::Call(args) => {
                take_server_before_name(&mut args.selector, &mut args.arguments, &mut args.one_off, "TOOL")
            }
            Self::Prompt(args) => {
                take_server_before_name(&mut args.selector, &mut args.arguments, &mut args.one_off, "PROMPT")
            }
            Self::Read(args) => {
                let mut words_after: Vec<_> = args.uri.take().into_iter().collect();
                let one_off = take_server_before_name(&mut args.server, &mut words_after, &mut args.one_off, "URI")?;
                let mut words_after = words_after.into_iter();
                // With a server for one command, the first word is the URI.
                args.uri = match one_off {
                    Some(_) => Some(std::mem::replace(&mut args.server, ONE_OFF_NAME.to_owned())),
                    None => words_after.next(),
                };
                match (words_after.next(), &args.uri) {
                    (Some(extra), _) => Err(conflict_error(&format!("`{extra}` is one word too many"))),
                    (None, None) => Err(conflict_error("name the resource after the server: toolrack read SERVER URI")),
                    _ => Ok(one_off),
                }
            }
            Self::Ask(args) => take_from_servers(&mut args.talk.policy.server, &mut args.one_off),
            _ => Ok(None),
        }
    }
}

/// Takes the command after `--`, if there is one. Other words after `--` are added to `rest`, because that `--` only
/// ends the options.
fn take_command(one_off: &mut OneOffArgs, rest: &mut Vec<String>) -> Option<OneOffServer> {
    let words = std::mem::take(&mut one_off.command);
    let first = words.first()?;
    if first.starts_with('-') || is_argument(first) {
        rest.extend(words);
        return None;
    }
    Some(OneOffServer::Command(split_single_word(words)))
}

/// Splits a command that was pasted as one word, as a shell would, unless a program has the whole word as its name.
fn split_single_word(words: Vec<String>) -> Vec<String> {
    let [word] = &*words else { return words };
    if !word.contains(char::is_whitespace) || Path::new(word).exists() {
        return words;
    }
    match shell_words::split(word) {
        Ok(split) if !split.is_empty() => split,
        _ => words,
    }
}

/// Returns whether `word` is `NAME=VALUE` or `NAME:=JSON`, and not the path of a program.
fn is_argument(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.contains('/') && !name.starts_with('-'))
}

/// Returns the words of `call -- COMMAND… TOOL NAME=VALUE…` with the tool and its arguments moved before the `--`, and
/// in the same way those of `prompt` and `read`; `None` for other words. The tool or prompt is the last word that is
/// not an argument. The resource is the last word, if it is a URI.
pub(super) fn name_before_command(words: &[OsString]) -> Option<Vec<OsString>> {
    let dashes_index = words.iter().position(|word| word == "--")?;
    let (words_before, words_after_dashes) = (&words[..dashes_index], &words[dashes_index + 1..]);
    let is_verb = |verb: &str| words_before.iter().any(|word| word == verb);
    let is_name = |word: &OsString| word.to_str().is_some_and(|word| !is_argument(word));
    let is_uri = |word: &OsString| word.to_str().is_some_and(|word| word.contains(':'));
    let name_index = if is_verb("call") || is_verb("prompt") {
        words_after_dashes.iter().rposition(is_name)?
    } else if is_verb("read") && words_after_dashes.last().is_some_and(is_uri) {
        words_after_dashes.len() - 1
    } else {
        return None;
    };
    // At least one word before the name is the command.
    if name_index == 0 {
        return None;
    }
    let (command, name_and_arguments) = words_after_dashes.split_at(name_index);
    Some([words_before, name_and_arguments, &words[dashes_index..=dashes_index], command].concat())
}

/// Takes the server out of the words of a verb whose words name servers. One of these words may be a URL.
fn take_from_servers(servers: &mut Vec<String>, one_off: &mut OneOffArgs) -> Result<Option<OneOffServer>, Error> {
    let command = take_command(one_off, servers);
    let index = servers.iter().position(|word| OneOffServer::is_url(word));
    let url = index.map(|index| OneOffServer::Url(servers.remove(index)));
    if (url.is_some() && command.is_some()) || servers.iter().any(|word| OneOffServer::is_url(word)) {
        return Err(two_servers_error());
    }
    let one_off = url.or(command);
    if one_off.is_some() && servers.is_empty() {
        // The server for one command counts as named, so the command fails if that server cannot be used.
        servers.push(ONE_OFF_NAME.to_owned());
    }
    Ok(one_off)
}

/// Takes the server out of the words of a verb whose first word names a tool, prompt or resource. If the first word is
/// a server's URL, the next word is that name. `kind` is the placeholder for the name in the help, such as `TOOL`.
fn take_server_before_name(
    first: &mut String,
    rest: &mut Vec<String>,
    one_off: &mut OneOffArgs,
    kind: &str,
) -> Result<Option<OneOffServer>, Error> {
    let command = take_command(one_off, rest);
    // After a command, a URL is not a second server, but the URI of a resource.
    if !OneOffServer::is_url(first) || (command.is_some() && kind == "URI") {
        return Ok(command);
    }
    if command.is_some() {
        return Err(two_servers_error());
    }
    if rest.is_empty() {
        return Err(conflict_error(&format!("{kind} is missing after the URL of the server")));
    }
    Ok(Some(OneOffServer::Url(std::mem::replace(first, rest.remove(0)))))
}

fn two_servers_error() -> Error {
    conflict_error(
        "a command can use only one server that is not configured: give its address or, after `--`, its command",
    )
}

fn conflict_error(why: &str) -> Error {
    Cli::command().error(ErrorKind::ArgumentConflict, why)
}

/// Adds a tip to `error` for users who typed only the command of a server, or an argument of a tool as if it were an
/// option. The tip says what to write instead.
pub(super) fn with_tip(mut error: Error, words: &[OsString]) -> Error {
    let verb = words.iter().find_map(|word| {
        [("call", "TOOL NAME=VALUE"), ("read", "URI"), ("prompt", "PROMPT NAME=VALUE")]
            .into_iter()
            .find(|(verb, _)| word == verb)
    });
    let Some((verb, arguments)) = verb else { return error };
    let tip = match error.kind() {
        ErrorKind::MissingRequiredArgument if words.iter().any(|word| word == "--") => {
            format!("the name of what you want comes before `--`: toolrack {verb} {arguments} -- COMMAND")
        }
        ErrorKind::UnknownArgument if verb != "read" && error.get(ContextKind::SuggestedArg).is_none() => {
            match unknown_option(&error) {
                Some(name) => format!("an argument for the server is written without dashes: {name}=VALUE"),
                None => return error,
            }
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

/// Returns the name of the option that `error` does not know; `None` for a short one.
fn unknown_option(error: &Error) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = option.strip_prefix("--")?;
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    (!name.is_empty()).then(|| name.to_owned())
}
