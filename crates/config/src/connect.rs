//! Adds Toolrack to the files of other programs, and removes it again.
//!
//! A [`ClientFile`] names the file of one program, and the part of it that lists the servers. [`connect()`] and
//! [`undo()`] compute a [`Change`] of it, which can be shown as a diff. [`Change::write`] writes exactly that change,
//! or nothing if another program has written the file meanwhile. Toolrack stores the few bytes that it replaced. As
//! long as the file stays unchanged, an undo restores it byte for byte. If the file has changed since, an undo only
//! removes the entry.

mod client_file;
mod gateway_entry;
mod undo_data;

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use toolrack_host::text::for_line;

use crate::{
    edit::{
        EditError,
        other_programs::{self, EntryChange, Plan},
    },
    import::{Client, is_gateway},
};
use undo_data::UndoData;

pub use client_file::{ClientFile, is_installed};
pub use gateway_entry::{Reach, TOKEN_VARIABLE};

/// The state of a name in a [`ClientFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// The name is free.
    Free,
    /// The server of this name is Toolrack's gateway.
    Gateway,
    /// The server of this name is another one.
    Taken,
}

/// The reason why a program was not connected or disconnected. Its file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The home folder is unknown.
    #[error("the home folder is unknown, and so is the file of {0}: set `HOME`")]
    NoHome(Client),
    /// The program reads no files of projects.
    #[error("{0} has no file for a single project: leave `--project` out")]
    NoProject(Client),
    /// The program's format cannot express this endpoint.
    #[error(
        "{client} cannot be connected over HTTP: {why}. Leave `--http` out: the gateway over stdio shares the servers of a running daemon as well"
    )]
    NoHttp {
        /// The program.
        client: Client,
        /// The obstacle.
        why: &'static str,
    },
    /// Another server has the name.
    #[error("{} has another server called `{}`", for_line(&path.display().to_string()), for_line(name))]
    Taken {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The file has no entry for Toolrack.
    #[error("{} has no server `{}`, so there is nothing to undo", for_line(&path.display().to_string()), for_line(name))]
    NotConnected {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The file is write-protected.
    #[error("{} is write-protected: add the entry by hand, or `chmod u+w` it first", for_line(&path.display().to_string()))]
    WriteProtected {
        /// The file.
        path: PathBuf,
    },
    /// Another program wrote the file after the change was computed.
    #[error("{} was changed by another program meanwhile, and was left as it is: try again", for_line(&path.display().to_string()))]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The previous content cannot be stored for an undo.
    #[error("cannot store the data for an undo in {}: {kind}; the file of the program is unchanged", for_line(&path.display().to_string()), kind = source.kind())]
    NotKept {
        /// The place of the stored content.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file cannot be read or edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// A change that is computed but not written yet.
pub struct Change {
    plan: Plan,
    /// Whether the file gets exactly its former bytes again. For an undo, this change restores them; for a connection,
    /// a later undo can.
    is_exact: bool,
    /// The data for an undo, which is stored just before the change is written; `None` to delete the stored data.
    undo_data: Option<UndoData>,
    /// The file for that data.
    undo_file: PathBuf,
    /// The folders that Toolrack created for the file, innermost first. An undo that removes the file removes them,
    /// too.
    folders_to_remove: Vec<PathBuf>,
}

// Prints no texts, which may contain secrets.
impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("path", &self.plan.path)
            .field("is_exact", &self.is_exact)
            .finish_non_exhaustive()
    }
}

impl Change {
    /// Returns the file, with symbolic links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.plan.path
    }

    /// Returns the change as a unified diff, with secrets hidden; empty if nothing changes.
    #[must_use]
    pub fn diff(&self) -> String {
        self.plan.diff()
    }

    /// Returns whether the file needs no change.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.plan.before == self.plan.after
    }

    /// Returns whether the change creates the file.
    #[must_use]
    pub fn creates(&self) -> bool {
        self.plan.before.is_none() && self.plan.after.is_some()
    }

    /// Returns whether the change removes the file.
    #[must_use]
    pub fn removes(&self) -> bool {
        self.plan.before.is_some() && self.plan.after.is_none()
    }

    /// Returns whether the file gets exactly the bytes again that it had before the connection. For an undo, this
    /// change restores them; for a connection, a later undo can, unless the file changes meanwhile.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Writes the change. Blocks up to 5 s while another Toolrack process edits the file.
    ///
    /// # Errors
    /// [`ConnectError::Changed`] if the file has changed since the change was computed,
    /// [`ConnectError::WriteProtected`], [`ConnectError::NotKept`], and [`ConnectError::Edit`] for any other error of
    /// writing. The file is then unchanged.
    pub fn write(&self) -> Result<(), ConnectError> {
        if self.is_nothing() {
            return Ok(());
        }
        let path = self.plan.path.clone();
        if path.metadata().is_ok_and(|file| file.permissions().readonly()) {
            return Err(ConnectError::WriteProtected { path });
        }
        // The data for the undo is stored before the file is written. If the write then fails, the unused data does no
        // harm; in the other order, a file could be changed without the data to restore it.
        let store_undo_data = || match &self.undo_data {
            Some(undo_data) => undo_data.store(&self.undo_file),
            None => Ok(()),
        };
        if !self.plan.write(store_undo_data)? {
            return Err(ConnectError::Changed { path });
        }
        if self.undo_data.is_none() {
            undo_data::forget(&self.undo_file);
        }
        // Remove the innermost folder first. A folder with other files stays.
        for folder in &self.folders_to_remove {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the state of `name` in `client_file`.
///
/// # Errors
/// When its file cannot be read.
pub fn name_state(client_file: &ClientFile, name: &str) -> Result<NameState, ConnectError> {
    Ok(match other_programs::entry(&client_file.path, &client_file.servers_location, name)? {
        None => NameState::Free,
        Some(entry) if is_gateway(&entry) => NameState::Gateway,
        Some(_) => NameState::Taken,
    })
}

/// Returns the names of Toolrack's gateway in `client_file`.
///
/// # Errors
/// When its file cannot be read.
pub fn names(client_file: &ClientFile) -> Result<Vec<String>, ConnectError> {
    let entries = other_programs::entries(&client_file.path, &client_file.servers_location)?;
    Ok(entries.into_iter().filter(|(_, entry)| is_gateway(entry)).map(|(name, _)| name).collect())
}

/// Computes the change that adds Toolrack's gateway to `client_file` as the server `name`. If `client_file` has an
/// entry of Toolrack already, the change updates it and keeps the fields that the user has added. `reach` says how the
/// program reaches Toolrack: by a gateway that it starts, or at the endpoint of a daemon. [`Change::write`] stores the
/// data for an undo in the folder `undo_folder`.
///
/// # Errors
/// [`ConnectError::Taken`] if another server is called `name`, [`ConnectError::NoHttp`] if the program cannot use
/// `reach`, and [`ConnectError::Edit`] if the file cannot be read or edited.
pub fn connect(
    client_file: &ClientFile,
    name: &str,
    reach: &Reach,
    undo_folder: &Path,
) -> Result<Change, ConnectError> {
    let new_entry = gateway_entry::entry(client_file.client, reach)?;
    let existing = other_programs::entry(&client_file.path, &client_file.servers_location, name)?;
    if existing.as_ref().is_some_and(|entry| !is_gateway(entry)) {
        // `read_text` follows links, so that the error names the file itself.
        let (path, _) = other_programs::read_text(&client_file.path)?;
        return Err(ConnectError::Taken { path, name: name.to_owned() });
    }
    let new_entry = match existing.as_ref().and_then(Json::as_object) {
        Some(existing) => gateway_entry::merged(existing, new_entry),
        None => new_entry,
    };
    let plan = if existing.as_ref() == Some(&new_entry) {
        // The file has this entry already, so the plan changes nothing.
        let (path, text) = other_programs::read_text(&client_file.path)?;
        Plan { path, before: text.clone(), after: text }
    } else {
        other_programs::plan(&client_file.path, &client_file.servers_location, name, EntryChange::Put(&new_entry))?
    };
    let undo_file = undo_data::file_for(undo_folder, client_file, &plan.path, name);
    // If Toolrack was connected before, an undo must restore the state before the first connection.
    let earlier_undo_data = UndoData::read(&undo_file)
        .filter(|undo_data| plan.before.as_deref().is_some_and(|current_text| undo_data.matches(current_text)));
    let undo_data = match (earlier_undo_data, existing) {
        (Some(earlier_undo_data), _) => earlier_undo_data.followed_by(&plan),
        // The text before this change has an entry of Toolrack, so an undo must not restore it.
        (None, Some(_)) => None,
        (None, None) => UndoData::for_plan(&plan, missing_folders(&plan.path)),
    };
    Ok(Change { plan, is_exact: undo_data.is_some(), undo_data, undo_file, folders_to_remove: Vec::new() })
}

/// Computes the change that removes Toolrack's gateway, the server `name`, from `client_file`. If the file has not
/// changed since [`Change::write`] wrote it, the change restores its former bytes, with the data in `undo_folder`. If
/// it has changed, the change only removes the entry.
///
/// # Errors
/// [`ConnectError::NotConnected`] if there is no server `name`, [`ConnectError::Taken`] if it is not Toolrack's, and
/// [`ConnectError::Edit`] if the file cannot be read or edited.
pub fn undo(client_file: &ClientFile, name: &str, undo_folder: &Path) -> Result<Change, ConnectError> {
    let (path, current_text) = other_programs::read_text(&client_file.path)?;
    let undo_file = undo_data::file_for(undo_folder, client_file, &path, name);
    if let (Some(undo_data), Some(current_text)) = (UndoData::read(&undo_file), &current_text)
        && let Some(original) = undo_data.original_content(current_text)
    {
        let folders_to_remove = if original.is_none() { undo_data.folders() } else { Vec::new() };
        let plan = Plan { path, before: Some(current_text.clone()), after: original };
        return Ok(Change { plan, is_exact: true, undo_data: None, undo_file, folders_to_remove });
    }
    match name_state(client_file, name)? {
        NameState::Free => Err(ConnectError::NotConnected { path, name: name.to_owned() }),
        NameState::Taken => Err(ConnectError::Taken { path, name: name.to_owned() }),
        NameState::Gateway => {
            let plan =
                other_programs::plan(&client_file.path, &client_file.servers_location, name, EntryChange::Remove)?;
            Ok(Change { plan, is_exact: false, undo_data: None, undo_file, folders_to_remove: Vec::new() })
        }
    }
}

/// Returns the folders above `path` that do not exist, innermost first.
fn missing_folders(path: &Path) -> Vec<PathBuf> {
    path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests;
