//! Defines the result of loading: the servers, the entry (the configuration of one server) of each name, the settings
//! and the problems of all files.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value as Json;
use toolrack_host::{
    Desired,
    spec::{Source, Trust},
};

use super::Scope;
use crate::{problem::Problem, settings::Settings, suggest::intended_name};

/// The loaded configuration, with its problems.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The servers for [`Host::apply`](toolrack_host::Host::apply), including disabled and pending servers, but without
    /// servers whose entries are broken.
    pub desired: Desired,
    /// The entry of every configured name, including broken entries, in the order of the names.
    pub entries: Vec<Entry>,
    /// The problems, file by file from the weakest layer to the strongest.
    pub problems: Vec<Problem>,
    /// The searched files, existing or not, from the weakest layer to the strongest. The caller should watch them.
    pub files: Vec<ConfigFile>,
    /// The user's `toolrack.toml` without its servers.
    pub settings: Settings,
    /// The agents that have servers of their own, by id.
    pub agents: Vec<String>,
    /// The root of the project.
    pub project: PathBuf,
    /// Files that exist and are empty, without even `{}`. Another program may be about to write them.
    pub(crate) blank_files: Vec<PathBuf>,
    /// Whether every file could be read. If not, a running host should keep its current servers.
    pub is_complete: bool,
}

impl Loaded {
    /// Returns the entry called `name`.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Returns whether a file that had servers no longer exists. An editor may be about to write it again.
    #[must_use]
    pub fn is_file_missing(&self) -> bool {
        let files = self.entries.iter().filter_map(|entry| entry.source.path.as_deref());
        files.collect::<BTreeSet<_>>().into_iter().any(|file| file.symlink_metadata().is_err())
    }

    /// Returns the problem with the agent `chosen`, if no file defines it.
    #[must_use]
    pub fn unknown_agent(&self, chosen: &str) -> Option<Problem> {
        unknown_agent(chosen, &self.agents)
    }

    /// Returns a warning for each rule of `[policy]` that matches no configured server, because its name is misspelt or
    /// the server is configured elsewhere.
    #[must_use]
    pub fn idle_rules(&self) -> Vec<Problem> {
        let servers: Vec<&str> = self.entries.iter().map(|entry| &*entry.name).collect();
        let idle_rules = self.settings.policy.idle(&servers).filter_map(|rule| Some((rule, rule.origin()?)));
        let problems = idle_rules.map(|(rule, origin)| {
            let message = format!("the rule {} `{}` names no configured server", rule.effect(), rule.pattern());
            let mut problem = Problem::warning(message).in_file(&origin.path).field("policy");
            problem.line = Some(origin.line);
            problem.hint("write server/tool, with a server that `toolrack list` shows")
        });
        problems.collect()
    }

    /// Returns the errors: each problem that made the loader skip something.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error())
    }
}

/// A file of one layer, existing or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// The layer of the file.
    pub scope: Scope,
    /// The path of the file.
    pub path: PathBuf,
}

/// One configured name: the entry that is used, and its origin.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the entry.
    pub name: String,
    /// The layer of the entry.
    pub scope: Scope,
    /// The file that contains the entry.
    pub source: Source,
    /// The line of the entry in that file, from 1.
    pub line: Option<usize>,
    /// The agent that the entry is for; `None` if it is for all agents.
    pub agent: Option<String>,
    /// Whether the entry has no errors. A broken entry has no server, and still replaces weaker entries of its name.
    pub is_valid: bool,
    /// Whether the entry is enabled, with the switches of all layers applied.
    pub enabled: bool,
    /// Whether the entry itself is enabled, without the switches of other layers (entries that have only `enabled`).
    pub enabled_itself: bool,
    /// The file of another layer that enables or disables the entry, with an entry that has only `enabled`.
    pub switched_by: Option<Source>,
    /// Whether the user agreed to run the entry.
    pub trust: Trust,
    /// The folder in which the user agrees to run the entry; `None` if it needs no agreement. For a project's entry it
    /// is the folder of the file. For one of the user's own entries that [depends on the working
    /// folder](Self::depends_on), it is the working folder.
    pub project: Option<PathBuf>,
    /// The argument or field that makes one of the user's own entries depend on the working folder, such as `.`.
    pub depends_on: Option<String>,
    /// The files in the project that the entry runs; the user's agreement covers them.
    pub files: Vec<PathBuf>,
    /// The content that an agreement covers, together with folder and name: [`Self::hash`] and the content of the files
    /// that the entry runs.
    pub agreement: String,
    /// The [`content_hash`](crate::trust::content_hash) of the entry without `enabled` and `disabled`, so that
    /// switching the entry does not change it.
    pub hash_unswitched: String,
    /// The [`content_hash`](crate::trust::content_hash) of the entry in the file.
    pub hash: String,
    /// The entries that this one replaces, the strongest first.
    pub shadows: Vec<ShadowedEntry>,
    /// The entry with its secrets hidden; see [`redact()`](crate::redact). `null` for a broken entry.
    pub view: Json,
    /// The proposal for the user's agreement: the entry with every value as it is written, including secrets, and under
    /// `files` the hashes of the files that it runs. It comes from a project's file, so escape it before you print it.
    /// `null` for a broken entry, and for one that needs no agreement.
    pub proposal: Json,
}

/// An entry that a stronger one replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowedEntry {
    /// The layer of the replaced entry.
    pub scope: Scope,
    /// The file of the replaced entry.
    pub source: Source,
}

/// Returns the problem with the agent `chosen`, if it is not one of `known_ids`.
pub(super) fn unknown_agent(chosen: &str, known_ids: &[String]) -> Option<Problem> {
    if known_ids.iter().any(|id| id == chosen) {
        return None;
    }
    let problem = Problem::error(format!("no agent is called `{chosen}`"));
    let id_list = || known_ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    Some(problem.hint(match intended_name(chosen, known_ids.iter().map(String::as_str)) {
        Some(similar) => format!("did you mean `{similar}`? There are {}", id_list()),
        None if known_ids.is_empty() => "write `[[agents]]` with `id = \"…\"` into toolrack.toml".to_owned(),
        None => format!("there are {}", id_list()),
    }))
}
