//! Edits the entries of servers in the files of other programs. Writes an entry in the format of the program, and at
//! the place in the file where the program looks for servers. A [`Plan`] has the whole text before and after the
//! change, so that a caller can restore the file byte for byte.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{EditError, EditableFile, diff, ensure_safe, missing, objects, toml, write};
use crate::document::Document;

/// The size of the largest file that is edited: 64 MiB. Claude Code stores its history in the same file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The place of a program's servers in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServersLocation {
    /// JSON: the object at these keys.
    Under(Vec<String>),
    /// opencode's JSON: the object at `mcp`, or at `mcp.servers` if the file is in the format of version 2.
    OpenCode,
    /// Codex's TOML.
    Codex,
}

/// The change of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryChange<'a> {
    /// Write the entry, replacing one of the same name.
    Put(&'a Json),
    /// Remove the entry.
    Remove,
}

/// A change that is computed but not written yet. All texts are whole, including the byte order mark.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The file, with symbolic links followed.
    pub(crate) path: PathBuf,
    /// The present content of the file; `None` if there is no file.
    pub(crate) before: Option<String>,
    /// The new content of the file; `None` to remove the file.
    pub(crate) after: Option<String>,
}

/// Opens the file at `path`, or an empty one if it does not exist; also returns its whole text.
fn open(path: &Path, servers_location: &ServersLocation) -> Result<(Box<dyn EditableFile>, Option<String>), EditError> {
    let document = Document::read_up_to(path, MAX_BYTES).map_err(EditError::Unreadable)?;
    // `text` lacks the byte order mark, which `restore_byte_order_mark` adds again.
    let original_text = document.as_ref().map(|document| document.restore_byte_order_mark(&document.text));
    let document = document.unwrap_or_else(|| Document::new(Some(path.to_owned()), ""));
    let file: Box<dyn EditableFile> = match servers_location {
        ServersLocation::Under(keys) => Box::new(objects::JsonFile::open_at_keys(document, keys)?),
        ServersLocation::OpenCode => Box::new(objects::JsonFile::open_opencode(document)?),
        ServersLocation::Codex => Box::new(toml::TomlFile::open_codex(document)?),
    };
    Ok((file, original_text))
}

/// Returns the entry `name` of the file at `path`, as it is written.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn entry(path: &Path, servers_location: &ServersLocation, name: &str) -> Result<Option<Json>, EditError> {
    Ok(entries(path, servers_location)?
        .into_iter()
        .find_map(|(entry_name, entry)| (entry_name == name).then_some(entry)))
}

/// Returns the entries of the file at `path`.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn entries(path: &Path, servers_location: &ServersLocation) -> Result<Vec<(String, Json)>, EditError> {
    let (file, _) = open(&write::follow_links(path)?, servers_location)?;
    // In a file of Codex, `parts` calls the section of the servers `codex`; `server` would be Toolrack's own servers.
    let section = if *servers_location == ServersLocation::Codex { "codex" } else { "server" };
    let parts = file.parts().into_iter();
    Ok(parts
        .filter(|((part_section, _), _)| *part_section == section)
        .map(|((_, name), entry)| (name, entry))
        .collect())
}

/// Computes the content of the file at `path` after the change `change` of the entry `name`.
///
/// # Errors
/// When the file cannot be read, cannot be edited safely, or does not have the entry to remove.
pub(crate) fn plan(
    path: &Path,
    servers_location: &ServersLocation,
    name: &str,
    change: EntryChange<'_>,
) -> Result<Plan, EditError> {
    let target = write::follow_links(path)?;
    let (file, before) = open(&target, servers_location)?;
    let text = match (change, file.find(name)?) {
        (EntryChange::Put(entry), true) => file.replace(name, entry)?,
        (EntryChange::Put(entry), false) => file.insert(name, entry)?,
        (EntryChange::Remove, true) => file.remove(name)?,
        (EntryChange::Remove, false) => return Err(missing(&*file, name)),
    };
    ensure_safe(&*file, &text)?;
    Ok(Plan { after: Some(file.document().restore_byte_order_mark(&text)), path: target, before })
}

/// Returns `path` with symbolic links followed, and the whole text of that file; `None` if it does not exist.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn read_text(path: &Path) -> Result<(PathBuf, Option<String>), EditError> {
    let target = write::follow_links(path)?;
    let document = Document::read_up_to(&target, MAX_BYTES).map_err(EditError::Unreadable)?;
    // `text` lacks the byte order mark, which `restore_byte_order_mark` adds again.
    Ok((target, document.map(|document| document.restore_byte_order_mark(&document.text))))
}

/// Writes one of Toolrack's own files, readable only by its owner, and creates its folders.
///
/// # Errors
/// When a folder or the file cannot be written.
pub(crate) fn write_for_owner_only(path: &Path, text: &str) -> std::io::Result<()> {
    write::write_private(path, text)
}

impl Plan {
    /// Returns the change as a unified diff, with secrets hidden.
    pub(crate) fn diff(&self) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        diff::unified(&self.path, &text(&self.before), &text(&self.after))
    }

    /// Writes the change, unless the file has changed since the plan was made. Returns whether the change was written.
    /// Runs `before_write` first, while no other Toolrack process can edit a file in that folder.
    ///
    /// # Errors
    /// When the file cannot be written, or `before_write` fails; the file is then unchanged.
    pub(crate) fn write<E: From<EditError>>(&self, before_write: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        // The lock passes on only an `EditError`, so an error of `before_write` is stored here.
        let mut before_write_error = None;
        let was_written = write::with_lock(&self.path, || {
            if let Err(error) = before_write() {
                before_write_error = Some(error);
                return Ok(false);
            }
            match &self.after {
                Some(after) => write::replace_if_unchanged(&self.path, self.before.as_deref(), after),
                None => self.remove(),
            }
        });
        match before_write_error {
            Some(error) => Err(error),
            None => Ok(was_written?),
        }
    }

    fn remove(&self) -> Result<bool, EditError> {
        let remove = || match write::is_unchanged(&self.path, self.before.as_deref())? {
            true => std::fs::remove_file(&self.path).map(|()| true),
            false => Ok(false),
        };
        remove().map_err(|source| EditError::Io { doing: "remove", path: self.path.clone(), source })
    }
}
