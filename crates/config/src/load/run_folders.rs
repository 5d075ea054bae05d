//! Decides in which folder the program of each entry (a configured server) runs.
//!
//! A user may be in any folder, also in a repository that was just cloned. Package runners and interpreters read files
//! of their working folder: `node_modules/.bin`, `.npmrc`, `uv.toml`, a module. So the program of a user's entry runs
//! in a folder of its own. But an entry depends on the working folder if one of its words names a file there. Such an
//! entry waits until the user has agreed to run it in that folder.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use toolrack_host::{
    ServerSpec,
    spec::{Stdio, Transport},
};

use super::{Scope, layers::Layer};
use crate::{
    home::{below_home, is_full_or_placeholder},
    places::Places,
    trust::files_of,
};

/// The editors' placeholder for the open folder.
const WORKSPACE: &str = "${workspaceFolder}";

/// Variables that name the working folder.
const WORKING_FOLDER_VARIABLES: &[&str] = &["PWD", "OLDPWD", "INIT_CWD"];

/// The folders that decide where a program runs.
#[derive(Debug)]
pub(super) struct RunFolders {
    /// The working folder, with symbolic links resolved.
    pub(super) working_folder: PathBuf,
    /// The root of the project that it is in.
    pub(super) project: PathBuf,
    places: Places,
}

impl RunFolders {
    pub(super) fn new(cwd: &Path, project: &Path, places: &Places) -> Self {
        let working_folder = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        Self { working_folder, project: project.to_owned(), places: places.clone() }
    }

    /// Sets the folder in which the program of `spec` runs. If a word of a user's entry names something in the working
    /// folder, returns that word.
    pub(super) fn set_folder(&self, spec: &mut ServerSpec, layer: &Layer) -> Option<String> {
        let stdio = program_of(spec)?;
        let mounted_folder = mounted_working_folder(stdio);
        let names_workspace = fill_workspace(stdio, layer.folder.as_deref().unwrap_or(&self.project));
        if stdio.container.is_some() {
            // The image has the program and its working folder. Only a mount leads to a folder of this machine.
            return mounted_folder.filter(|_| layer.scope == Scope::User);
        }
        if let Some(folder) = &layer.folder {
            stdio.cwd = Some(match stdio.cwd.take() {
                Some(cwd) if is_full(&cwd) => cwd,
                Some(cwd) => escaped(folder).join(cwd),
                None => escaped(folder),
            });
            return None;
        }
        let word = names_workspace
            .then(|| WORKSPACE.to_owned())
            .or_else(|| folder_dependent_word(stdio, &self.working_folder));
        // If the user names a file of the project on the command line, its entries run programs of the project.
        let is_file_in_project = layer.scope == Scope::CommandLine
            && layer.text.is_none()
            && layer.path.canonicalize().is_ok_and(|file| file.starts_with(&self.project));
        if word.is_some() || is_file_in_project {
            stdio.cwd = Some(match stdio.cwd.take() {
                Some(cwd) if is_full(&cwd) => cwd,
                Some(cwd) => escaped(&self.working_folder).join(cwd),
                None => escaped(&self.working_folder),
            });
        }
        // Only entries of the user's files need an agreement. By naming a file on the command line or typing the
        // configuration, the user agrees.
        word.filter(|_| layer.scope == Scope::User)
    }

    /// Returns the files in the project that `spec` runs, each with its fingerprint.
    pub(super) fn files(&self, spec: &mut ServerSpec) -> BTreeMap<String, String> {
        program_of(spec).map(|stdio| files_of(stdio, &self.project)).unwrap_or_default()
    }

    /// Lets the program of the entry `name` run in its own folder, unless the entry names one.
    pub(super) fn set_own_folder(&self, name: &str, spec: &mut ServerSpec) {
        let folder = || escaped(&self.places.own_folder(name));
        if let Some(stdio) = program_of(spec).filter(|stdio| stdio.container.is_none()) {
            stdio.cwd.get_or_insert_with(folder);
        }
    }
}

/// Returns the child process that `spec` starts, if any.
fn program_of(spec: &mut ServerSpec) -> Option<&mut Stdio> {
    match &mut spec.transport {
        Transport::Stdio(stdio) => Some(stdio),
        Transport::Http(http) | Transport::Sse(http) => http.headers_helper.as_deref_mut(),
        Transport::Native(_) => None,
    }
}

/// Escapes each `$`, so that no part of `path` is a placeholder.
fn escaped(path: &Path) -> PathBuf {
    path.to_str()
        .filter(|text| text.contains('$'))
        .map_or_else(|| path.to_owned(), |text| text.replace('$', "$$").into())
}

/// Returns whether `cwd` does not depend on another folder: it is absolute, or begins with `~` or a placeholder.
fn is_full(cwd: &Path) -> bool {
    cwd.to_str().is_some_and(is_full_or_placeholder)
}

/// Replaces [`WORKSPACE`] by `folder`. Returns whether the entry contains [`WORKSPACE`].
fn fill_workspace(stdio: &mut Stdio, folder: &Path) -> bool {
    let Some(folder) = escaped(folder).to_str().map(str::to_owned) else {
        return false;
    };
    let mut contains_workspace = false;
    let mut fill = |text: &mut String| {
        if text.contains(WORKSPACE) {
            *text = text.replace(WORKSPACE, &folder);
            contains_workspace = true;
        }
    };
    fill(&mut stdio.command);
    stdio.args.iter_mut().chain(stdio.env.values_mut()).for_each(&mut fill);
    let sandbox = stdio.sandbox.iter_mut().flat_map(|sandbox| sandbox.read.iter_mut().chain(&mut sandbox.write));
    sandbox.for_each(&mut fill);
    let mounts = stdio.container.iter_mut().flat_map(|container| &mut container.mounts);
    mounts.for_each(|mount| fill(&mut mount.source));
    if let Some(cwd) = &mut stdio.cwd
        && let Some(mut text) = cwd.to_str().map(str::to_owned)
    {
        fill(&mut text);
        *cwd = text.into();
    }
    contains_workspace
}

/// Returns the first mount of a container whose source is the working folder or the project.
fn mounted_working_folder(stdio: &Stdio) -> Option<String> {
    let mut sources = stdio.container.iter().flat_map(|container| &container.mounts).map(|mount| &mount.source);
    sources.find(|source| source.contains(WORKSPACE) || names_working_folder(source)).cloned()
}

/// Returns the first word of `stdio` whose meaning depends on the folder.
fn folder_dependent_word(stdio: &Stdio, folder: &Path) -> Option<String> {
    if let Some(cwd) = stdio.cwd.as_deref().and_then(Path::to_str)
        && (!is_full_or_placeholder(cwd) || names_working_folder(cwd))
    {
        return Some(cwd.to_owned());
    }
    let command = &stdio.command;
    if (command.contains('/') && !is_full_or_placeholder(command)) || names_working_folder(command) {
        return Some(command.clone());
    }
    let sandbox = stdio.sandbox.iter().flat_map(|sandbox| sandbox.read.iter().chain(&sandbox.write));
    let is_dependent = |word: &String| is_relative(word) || names_working_folder(word) || exists_in(folder, word);
    // In a `PATH`, only variables of the working folder count, because a server gets the `PATH` without its relative
    // folders.
    let is_dependent_variable = |(name, value): &(&String, &String)| {
        names_working_folder(value) || has_variable(value, &["$"]) || (*name != "PATH" && is_dependent(value))
    };
    let env_value = || stdio.env.iter().find(is_dependent_variable).map(|(_, value)| value);
    stdio.args.iter().chain(sandbox).find(|word| is_dependent(word)).or_else(env_value).cloned()
}

/// Returns whether `word` contains a relative path: `.`, `./data`, `--root=../x`.
fn is_relative(word: &str) -> bool {
    let is_path = |part: &str| part == "." || part == ".." || part.starts_with("./") || part.starts_with("../");
    word.split(|c: char| c.is_whitespace() || "=:,;'\"".contains(c)).any(is_path)
}

/// Returns whether `text` contains a placeholder of the working folder. `$PWD` without braces does not count: in
/// `args`, it is text for a shell.
fn names_working_folder(text: &str) -> bool {
    has_variable(text, &["${", "${env:", "$env:"])
}

/// Returns whether `text` contains one of [`WORKING_FOLDER_VARIABLES`] after one of `prefixes`.
fn has_variable(text: &str, prefixes: &[&str]) -> bool {
    let is_in_text = |name: &&str| {
        prefixes.iter().any(|prefix| {
            text.match_indices(&format!("{prefix}{name}")).any(|(start, found)| {
                !text[start + found.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            })
        })
    };
    text.contains('$') && WORKING_FOLDER_VARIABLES.iter().any(is_in_text)
}

/// Returns whether `word` looks like a path and such a file exists in `folder`. A repository that creates the file on
/// purpose only causes a question to the user.
fn exists_in(folder: &Path, word: &str) -> bool {
    word.contains(['/', '.'])
        && !word.starts_with(['-', '@', '$', '/'])
        && below_home(word).is_none()
        && !word.contains("://")
        && folder.join(word).symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_depend_on_the_working_folder_are_found() {
        for word in [".", "..", "./data", "--root=./x", "-v=.:/data", "../up", "sh -c './run'"] {
            assert!(is_relative(word), "{word}");
        }
        for word in ["-y", "@scope/server", "a.b", "/abs/./x", "--flag", "https://x/../y", "..."] {
            assert!(!is_relative(word), "{word}");
        }
        for text in ["${PWD}", "$env:PWD/x", "${env:PWD:-/x}", "a${OLDPWD}"] {
            assert!(names_working_folder(text), "{text}");
        }
        assert!(has_variable("$PWD/x", &["$"]) && !names_working_folder("$PWD/x"));
        assert!(!names_working_folder("${PWDX}") && !names_working_folder("PWD") && !names_working_folder("${HOME}"));
    }
}
