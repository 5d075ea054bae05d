//! Chooses the file in which an entry (the configuration of one server) is added, changed, or switched on or off. The
//! files belong to layers ([`Scope`]), such as that of the user and that of the project.

use std::path::{Path, PathBuf};

use crate::{Entry, Places, Scope, project_root};

/// The file for an edit, with its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditTarget {
    /// The layer that the file belongs to.
    pub scope: Scope,
    /// The file.
    pub path: PathBuf,
}

/// The reason why an edit of an entry has no single file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEditTarget {
    /// The entry comes from a file on the command line, which Toolrack does not edit.
    CommandLine,
    /// The entry is built into the program, and can only be disabled.
    BuiltIn,
    /// Several files have an entry of this name; the strongest comes first.
    Several(Vec<EditTarget>),
}

impl EditTarget {
    /// Returns the file for new entries of `scope` when the user works in `folder`. Only [`Scope::Project`] and
    /// [`Scope::Local`] have their own files; all others use the user's file.
    #[must_use]
    pub fn for_new_entry(scope: Scope, places: &Places, folder: &Path) -> Self {
        match scope {
            Scope::Project => Self { scope, path: project_root(folder).join(".mcp.json") },
            Scope::Local => Self { scope, path: places.local_file(&project_root(folder)) },
            _ => Self { scope: Scope::User, path: places.user_file() },
        }
    }

    /// Returns every file that has an entry of this name, the strongest first.
    #[must_use]
    pub fn all_of(entry: &Entry) -> Vec<Self> {
        let shadows = entry.shadows.iter().map(|shadow| (shadow.scope, &shadow.source));
        std::iter::once((entry.scope, &entry.source))
            .chain(shadows)
            .filter_map(|(scope, source)| Some(Self { scope, path: source.path.clone()? }))
            .collect()
    }

    /// Returns the file of `scope` that has the entry already. If no such file exists, returns the file for new
    /// entries.
    #[must_use]
    pub fn in_scope(scope: Scope, entry: Option<&Entry>, places: &Places, folder: &Path) -> Self {
        let existing = entry.into_iter().flat_map(Self::all_of).find(|target| target.scope == scope);
        existing.unwrap_or_else(|| Self::for_new_entry(scope, places, folder))
    }

    /// Returns the only file that has the entry.
    ///
    /// # Errors
    /// When Toolrack does not edit the file, or when several files or no file have the entry.
    pub fn single_file_of(entry: &Entry) -> Result<Self, NoEditTarget> {
        let mut targets = Self::all_of(entry);
        match (entry.scope, targets.len()) {
            (Scope::CommandLine, _) => Err(NoEditTarget::CommandLine),
            (_, 0) => Err(NoEditTarget::BuiltIn),
            (_, 1) => Ok(targets.remove(0)),
            _ => Err(NoEditTarget::Several(targets)),
        }
    }

    /// Returns the file in which a user enables or disables a server for themselves: the file that already enables or
    /// disables the server, or else the file that configures it. If that file is not the user's own, returns one of the
    /// user's files instead, for an entry that has only `enabled`.
    ///
    /// # Errors
    /// [`NoEditTarget::CommandLine`] for a server that the command line configures or switches.
    pub fn for_switching(entry: &Entry, places: &Places, folder: &Path) -> Result<Self, NoEditTarget> {
        if entry.scope == Scope::CommandLine {
            return Err(NoEditTarget::CommandLine);
        }
        let local_target = || Self::for_new_entry(Scope::Local, places, folder);
        let switched_in = entry.switched_by.as_ref().and_then(|source| Some((&*source.scope, source.path.clone()?)));
        if let Some((scope, path)) = switched_in {
            return match scope {
                scope if scope == Scope::CommandLine.as_str() => Err(NoEditTarget::CommandLine),
                scope if scope == Scope::User.as_str() => Ok(Self { scope: Scope::User, path }),
                // A server that a project disabled is enabled again for this project only.
                _ => Ok(local_target()),
            };
        }
        Ok(match (&entry.scope, &entry.source.path) {
            (Scope::User | Scope::Local, Some(path)) => Self { scope: entry.scope, path: path.clone() },
            (Scope::Project, _) => local_target(),
            _ => Self::for_new_entry(Scope::User, places, folder),
        })
    }
}

#[cfg(test)]
mod tests;
