//! Entries in the files of other programs: each at its own place, in that program's words, and put back to the byte.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{EditError, File, diff, ensure_safe, missing, objects, toml, write};
use crate::document::Document;

/// The largest file that is edited: 64 MiB. Claude Code keeps its history beside its servers.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Where a program has its servers in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// In JSON, in the object that these keys lead to.
    Under(Vec<String>),
    /// In opencode's JSON, where its version says.
    OpenCode,
    /// In Codex's TOML.
    Codex,
}

/// What happens to an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed<'a> {
    /// It is written, in the place of one of the same name where there is one.
    Put(&'a Json),
    /// It is taken out.
    Remove,
}

/// A change that is worked out and not written yet. All texts are whole, byte order mark and all.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The file, with symbolic links followed.
    pub(crate) path: PathBuf,
    /// What it holds; `None` where it is not there.
    pub(crate) before: Option<String>,
    /// What it is to hold; `None` where it is to go.
    pub(crate) after: Option<String>,
}

/// Opens the file at `path`, as it is or empty; also returns its whole text.
fn open(path: &Path, spot: &Spot) -> Result<(Box<dyn File>, Option<String>), EditError> {
    let document = Document::read_up_to(path, MAX_BYTES).map_err(EditError::Unreadable)?;
    let before = document.as_ref().map(|document| document.with_text(&document.text));
    let document = document.unwrap_or_else(|| Document::new(Some(path.to_owned()), ""));
    let file: Box<dyn File> = match spot {
        Spot::Under(keys) => Box::new(objects::File::under(document, keys)?),
        Spot::OpenCode => Box::new(objects::File::of_opencode(document)?),
        Spot::Codex => Box::new(toml::File::of_codex(document)?),
    };
    Ok((file, before))
}

/// The entry `name` as the file at `path` has it.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn entry(path: &Path, spot: &Spot, name: &str) -> Result<Option<Json>, EditError> {
    Ok(entries(path, spot)?.into_iter().find_map(|(known, entry)| (known == name).then_some(entry)))
}

/// The entries of the file at `path`.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn entries(path: &Path, spot: &Spot) -> Result<Vec<(String, Json)>, EditError> {
    let (file, _) = open(&write::target(path)?, spot)?;
    let servers = if *spot == Spot::Codex { "codex" } else { "server" };
    let parts = file.parts().into_iter();
    Ok(parts.filter(|((place, _), _)| *place == servers).map(|((_, name), entry)| (name, entry)).collect())
}

/// Works out what the file at `path` is to hold after `deed` was done to the entry `name`.
///
/// # Errors
/// When the file cannot be read, cannot be edited safely, or does not have what is to be removed.
pub(crate) fn plan(path: &Path, spot: &Spot, name: &str, deed: Deed<'_>) -> Result<Plan, EditError> {
    let target = write::target(path)?;
    let (file, before) = open(&target, spot)?;
    let text = match (deed, file.find(name)?) {
        (Deed::Put(entry), true) => file.replace(name, entry)?,
        (Deed::Put(entry), false) => file.insert(name, entry)?,
        (Deed::Remove, true) => file.remove(name)?,
        (Deed::Remove, false) => return Err(missing(&*file, name)),
    };
    ensure_safe(&*file, &text)?;
    Ok(Plan { after: Some(file.document().with_text(&text)), path: target, before })
}

/// The whole text of the file at `path`, with the file that it leads to; `None` where there is none.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn text(path: &Path) -> Result<(PathBuf, Option<String>), EditError> {
    let target = write::target(path)?;
    let document = Document::read_up_to(&target, MAX_BYTES).map_err(EditError::Unreadable)?;
    Ok((target, document.map(|document| document.with_text(&document.text))))
}

/// Writes a file of our own for its owner only, with the folders that it needs.
///
/// # Errors
/// As the system says.
pub(crate) fn keep_for_the_owner(path: &Path, text: &str) -> std::io::Result<()> {
    write::keep(path, text)
}

impl Plan {
    /// The change as a unified diff, with secrets hidden.
    pub(crate) fn diff(&self) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        diff::of(&self.path, &text(&self.before), &text(&self.after))
    }

    /// Writes it, unless the file is not what it was: returns whether it did. `first` is done before, while no other
    /// process of ours edits a file in that folder.
    ///
    /// # Errors
    /// When the file cannot be written, or `first` fails; it is unchanged then.
    pub(crate) fn write<E: From<EditError>>(&self, first: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        // Another error than an edit's has to come through the lock.
        let mut failed = None;
        let written = write::locked(&self.path, || {
            if let Err(error) = first() {
                failed = Some(error);
                return Ok(false);
            }
            match &self.after {
                Some(after) => write::replace(&self.path, self.before.as_deref(), after),
                None => self.remove(),
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(written?),
        }
    }

    fn remove(&self) -> Result<bool, EditError> {
        let remove = || match write::is_still(&self.path, self.before.as_deref())? {
            true => std::fs::remove_file(&self.path).map(|()| true),
            false => Ok(false),
        };
        remove().map_err(|source| EditError::Io { doing: "remove", path: self.path.clone(), source })
    }
}
