//! Chooses the words that completion offers for each argument of a command line.
//!
//! The value name of an argument, which the help shows, decides what is offered. In every command, `SERVER` offers the
//! names of servers, and `TOOL` those of tools. An argument of a new command is completed if it has such a value name.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::Arc,
};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    PathCompleter,
    engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter},
};

use super::data::{CompletionData, NamedItem};
use crate::{
    notebook::{Argument, is_shell_safe},
    verbs::{Cli, about_program::args::Shell},
};

/// The kinds of values that are offered for an argument, by its value name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Servers,
    Tools,
    /// Like [`Self::Servers`]; after a `/`, like [`Self::Tools`].
    ServersThenTools,
    /// `server/`; after it, the server's prompts.
    Prompts,
    /// The URIs of the resources of the server that is named earlier on the line.
    Uris,
    /// `server/`; after it, the URIs of the server's resources.
    Resources,
    Arguments,
    Agents,
    Sessions,
    Secrets,
    Files,
    Folders,
    /// Names of environment variables.
    Variables,
    /// Nothing: the value cannot be predicted.
    Nothing,
}

/// The value names of arguments, each with what is offered for it. The list leaves out arguments that are not
/// completed, and arguments with a fixed set of values, which `clap_complete` completes by itself. A test fails for a
/// value name that contains `SERVER` or `TOOL` and is not listed.
pub(super) const VALUE_KINDS: &[(&str, ValueKind)] = &[
    ("SERVER", ValueKind::Servers),
    ("TOOL", ValueKind::Tools),
    ("SERVER[/TOOL]", ValueKind::Tools),
    ("SERVER | TOOL", ValueKind::ServersThenTools),
    ("PROMPT", ValueKind::Prompts),
    ("NAME=VALUE", ValueKind::Arguments),
    ("FILE", ValueKind::Files),
    ("DIR", ValueKind::Folders),
    ("COMMAND", ValueKind::Files),
    ("COMMAND | URL", ValueKind::Files),
    ("AGENT", ValueKind::Agents),
    ("RESOURCE", ValueKind::Resources),
    ("SECRET", ValueKind::Secrets),
    ("SESSION", ValueKind::Sessions),
    ("NAME[=VALUE]", ValueKind::Variables),
    ("URI", ValueKind::Uris),
    ("VARIABLE", ValueKind::Variables),
];

/// The part of the command line that decides what is offered.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) shell: Shell,
    /// The folder in which the command is typed.
    pub(super) folder: PathBuf,
    /// The word that the cursor is in, up to the cursor.
    pub(super) current: String,
    /// The tool, prompt or server that is named before the cursor, and which of them it is.
    pub(super) selector: Option<(ValueKind, String)>,
}

/// Returns what to offer for `arg`; `None` for a flag and for a fixed set of values.
pub(super) fn value_kind(arg: &Arg) -> Option<ValueKind> {
    let takes_value = arg.get_action().takes_values() && arg.get_num_args().is_none_or(|count| count.takes_values());
    if !takes_value || !arg.get_possible_values().is_empty() {
        return None;
    }
    let name = arg.get_value_names()?.first()?.as_str();
    Some(VALUE_KINDS.iter().find(|(value_name, _)| *value_name == name).map_or(ValueKind::Nothing, |(_, kind)| *kind))
}

/// Finds the positional argument of `command` that names a tool, a prompt or a server. That name decides what is
/// offered for later arguments. Returns what the argument names, and its id.
pub(super) fn selector_of(command: &Command) -> Option<(ValueKind, String)> {
    let mut arguments = command.get_positionals();
    arguments.find_map(|arg| match value_kind(arg)? {
        kind @ (ValueKind::Tools | ValueKind::Prompts | ValueKind::Servers) => Some((kind, arg.get_id().to_string())),
        _ => None,
    })
}

/// The whole command line, with what is offered for each argument.
pub(super) fn command(line: Line, data: CompletionData) -> Command {
    let line = Arc::new(line);
    let data = Arc::new(data);
    with_completers(Cli::command(), &line, &data)
}

/// Adds to each argument of `command` and of its subcommands what is offered for it.
fn with_completers(command: Command, line: &Arc<Line>, data: &Arc<CompletionData>) -> Command {
    // Options would outnumber the words that the user looks for. The library shows hidden ones only if there is nothing
    // else.
    let hides_options = !line.current.starts_with('-');
    command
        .disable_help_flag(hides_options)
        .disable_version_flag(hides_options)
        .mut_args(|arg| {
            let is_hidden = hides_options && !arg.is_positional();
            let arg = match value_kind(&arg) {
                Some(kind) => arg.add(completer(kind, line, data)),
                None => arg,
            };
            if is_hidden { arg.hide(true) } else { arg }
        })
        .mut_subcommands(|verb| with_completers(verb, line, data))
}

fn completer(kind: ValueKind, line: &Arc<Line>, data: &Arc<CompletionData>) -> ArgValueCompleter {
    let (line, data) = (Arc::clone(line), Arc::clone(data));
    ArgValueCompleter::new(move |current: &OsStr| {
        // Only paths can be other than UTF-8, and `paths` gets `current` itself.
        let typed_prefix = current.to_str().unwrap_or_default();
        match kind {
            ValueKind::Servers => servers(&data, typed_prefix, ""),
            ValueKind::ServersThenTools if !typed_prefix.contains('/') => servers(&data, typed_prefix, ""),
            ValueKind::Tools | ValueKind::ServersThenTools => server_then_name(&data, typed_prefix, |server| {
                data.tools(server).into_iter().map(|tool| (tool.name, tool.about))
            }),
            ValueKind::Prompts => server_then_name(&data, typed_prefix, |server| {
                data.prompts(server).into_iter().map(|prompt| (prompt.name, prompt.about))
            }),
            ValueKind::Resources => server_then_name(&data, typed_prefix, |server| {
                data.resources(server).into_iter().map(|resource| (resource.name, resource.about))
            }),
            ValueKind::Uris => uris(&data, &line, typed_prefix),
            ValueKind::Arguments => arguments(&data, &line, typed_prefix),
            ValueKind::Files => paths(&line, current, PathCompleter::file()),
            ValueKind::Folders => paths(&line, current, PathCompleter::dir()),
            ValueKind::Agents => matching(data.agents().iter().map(String::as_str), typed_prefix),
            ValueKind::Sessions => sessions(&data, typed_prefix),
            ValueKind::Secrets => matching(data.secrets().iter().map(String::as_str), typed_prefix),
            ValueKind::Variables => matching(data.variables(), typed_prefix),
            ValueKind::Nothing => Vec::new(),
        }
    })
}

fn candidate(word: impl Into<OsString>, about: &str) -> CompletionCandidate {
    let about = Some(about).filter(|about| !about.is_empty());
    CompletionCandidate::new(word).help(about.map(|about| about.to_owned().into()))
}

/// Completes the name of a server, and adds `suffix` to it.
fn servers(data: &CompletionData, typed_prefix: &str, suffix: &str) -> Vec<CompletionCandidate> {
    let is_match = |server: &&NamedItem| is_shell_safe(&server.name) && server.name.starts_with(typed_prefix);
    let servers = data.servers().iter().filter(is_match);
    servers.map(|server| candidate(format!("{}{suffix}", server.name), &server.about)).collect()
}

/// Sessions by the beginnings of their ids, the newest first, and `last` for the newest.
fn sessions(data: &CompletionData, typed_prefix: &str) -> Vec<CompletionCandidate> {
    let sessions = data.sessions();
    let newest = sessions.first().map(|newest| ("last", &newest.about));
    let words = sessions.iter().map(|session| (session.name.as_str(), &session.about)).chain(newest);
    let matching_words = words.filter(|(word, _)| is_shell_safe(word) && word.starts_with(typed_prefix)).enumerate();
    matching_words.map(|(order, (word, about))| candidate(word, about).display_order(Some(order))).collect()
}

/// Completes `server/name`: first the server, then what it has (name and description), as with folders and files.
/// `list` returns what a server has.
fn server_then_name<I: Iterator<Item = (String, String)>>(
    data: &CompletionData,
    typed_prefix: &str,
    list: impl Fn(&str) -> I,
) -> Vec<CompletionCandidate> {
    let Some((server, start)) = typed_prefix.split_once('/') else {
        return servers(data, typed_prefix, "/");
    };
    if !is_shell_safe(server) {
        return Vec::new();
    }
    list(server)
        .filter(|(name, _)| name.starts_with(start) && is_shell_safe(name))
        .map(|(name, about)| candidate(format!("{server}/{name}"), &about))
        .collect()
}

/// The URIs of the server that is named earlier on the line.
fn uris(data: &CompletionData, line: &Line, typed_prefix: &str) -> Vec<CompletionCandidate> {
    let Some((ValueKind::Servers, server)) = &line.selector else { return Vec::new() };
    let resources = data.resources(server).into_iter();
    resources
        .filter(|resource| resource.name.starts_with(typed_prefix) && is_shell_safe(&resource.name))
        .map(|resource| candidate(&resource.name, &resource.about))
        .collect()
}

/// The arguments of the tool or prompt that is named earlier on the line.
fn arguments_of_selected(data: &CompletionData, line: &Line) -> Vec<Argument> {
    let Some((kind, selector)) = &line.selector else { return Vec::new() };
    let Some((server, name)) = selector.split_once('/') else { return Vec::new() };
    let arguments = match kind {
        ValueKind::Prompts => {
            data.prompts(server).into_iter().find(|prompt| prompt.name == name).map(|prompt| prompt.arguments)
        }
        _ => data.tools(server).into_iter().find(|tool| tool.name == name).map(|tool| tool.arguments),
    };
    arguments.unwrap_or_default()
}

/// Completes an argument: first `name=`, then its values, or paths if no values are known.
fn arguments(data: &CompletionData, line: &Line, typed_prefix: &str) -> Vec<CompletionCandidate> {
    let arguments = arguments_of_selected(data, line);
    let Some((name, start)) = typed_prefix.split_once('=') else {
        return arguments
            .iter()
            .filter(|argument| argument.name.starts_with(typed_prefix) && is_shell_safe(&argument.name))
            .map(|argument| candidate(format!("{}=", argument.name), &argument.about))
            .collect();
    };
    let values = arguments.into_iter().find(|argument| argument.name == name).map(|Argument { values, .. }| values);
    let values = values.unwrap_or_default();
    // After `name:=` follows JSON, which is no path.
    if values.is_empty() && !name.ends_with(':') {
        let paths = paths(line, OsStr::new(start), PathCompleter::any());
        return paths.into_iter().map(|path| path.add_prefix(format!("{name}="))).collect();
    }
    let is_match = |value: &&String| value.starts_with(start) && is_shell_safe(value);
    values.iter().filter(is_match).map(|value| candidate(format!("{name}={value}"), "")).collect()
}

/// Returns those of `words` that need no quotes and start with what is typed.
fn matching<'a>(words: impl Iterator<Item = &'a str>, typed_prefix: &str) -> Vec<CompletionCandidate> {
    words.filter(|word| is_shell_safe(word) && word.starts_with(typed_prefix)).map(|word| candidate(word, "")).collect()
}

/// Returns the paths that begin with `typed_prefix`. For Bash, returns none: where nothing is offered, Bash itself
/// completes the names of files, and knows how to quote them.
fn paths(line: &Line, typed_prefix: &OsStr, completer: PathCompleter) -> Vec<CompletionCandidate> {
    if line.shell == Shell::Bash { Vec::new() } else { completer.current_dir(&line.folder).complete(typed_prefix) }
}
