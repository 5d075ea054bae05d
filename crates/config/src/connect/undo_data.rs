//! Stores the data with which an undo restores the bytes of a file: the place of the change and the replaced text.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ClientFile, ConnectError};
use crate::edit::other_programs::{Plan, ServersLocation, write_for_owner_only};

/// A change of a file, with the text that it replaced. Each hash covers the whole text, including the byte order mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoData {
    /// The hash of the text before the change; `None` if there was no file.
    before: Option<String>,
    /// The hash of the text after the change.
    after: String,
    /// The start of the new bytes in the text after the change.
    from: usize,
    /// The end of the new bytes in the text after the change.
    to: usize,
    /// The replaced text.
    replaced: String,
    /// The folders that were created for the file, innermost first.
    folders: Vec<PathBuf>,
}

/// The whole text of a file; `None` if there was no file.
type FileContent = Option<String>;

/// Returns the file that stores the undo data of the entry `name` of `client_file`. `path` is the path of that file
/// with links followed.
pub(super) fn file_for(folder: &Path, client_file: &ClientFile, path: &Path, name: &str) -> PathBuf {
    // One file can have entries of one name in several lists: Claude Code's has a list for the user, and one for each
    // project.
    let keys = match &client_file.servers_location {
        ServersLocation::Under(keys) => keys.as_slice(),
        ServersLocation::OpenCode | ServersLocation::Codex => &[],
    };
    let mut hash = Sha256::new();
    hash.update(path.as_os_str().as_encoded_bytes());
    // A path cannot contain this separator.
    hash.update([0]);
    hash.update(serde_json::json!([keys, name]).to_string());
    folder.join(format!("{}-{}.json", client_file.client.id(), &HEXLOWER.encode(&hash.finalize())[..16]))
}

/// Removes the undo data in `file`.
pub(super) fn forget(file: &Path) {
    // If this fails, the old undo data does no harm: its hash matches no later text of the file.
    let _ = fs::remove_file(file);
}

impl UndoData {
    /// Creates the data that undoes `plan`; `None` if `plan` removes the file.
    pub(super) fn for_plan(plan: &Plan, folders: Vec<PathBuf>) -> Option<Self> {
        Some(Self::between(plan.before.as_deref(), plan.after.as_deref()?, folders))
    }

    /// Creates the data that undoes the change from `before` to `after`. Stores only the bytes between the common
    /// beginning and the common end of both texts.
    fn between(before: Option<&str>, after: &str, folders: Vec<PathBuf>) -> Self {
        let old = before.unwrap_or_default();
        let common_start = old.bytes().zip(after.bytes()).take_while(|(old, new)| old == new).count();
        let change_start = old.floor_char_boundary(common_start).min(after.floor_char_boundary(common_start));
        // The common end must not overlap the common beginning.
        let max_common_end = old.len().min(after.len()) - change_start;
        let pairs_from_end = old.bytes().rev().zip(after.bytes().rev());
        let common_end = pairs_from_end.take(max_common_end).take_while(|(old, new)| old == new).count();
        let (old_end, new_end) =
            (old.ceil_char_boundary(old.len() - common_end), after.ceil_char_boundary(after.len() - common_end));
        // Both texts have the same end, so a character boundary in one is also a boundary in the other.
        let unchanged_end = (old.len() - old_end).min(after.len() - new_end);
        Self {
            before: before.map(hash),
            after: hash(after),
            from: change_start,
            to: after.len() - unchanged_end,
            replaced: old[change_start..old.len() - unchanged_end].to_owned(),
            folders,
        }
    }

    /// Returns the data with which one undo reverts this change together with `plan`, a later change of the same file.
    pub(super) fn followed_by(self, plan: &Plan) -> Option<Self> {
        let original = self.original_content(plan.before.as_deref()?)?;
        Some(Self::between(original.as_deref(), plan.after.as_deref()?, self.folders))
    }

    /// Returns whether this data belongs to a file with the content `current_text`.
    pub(super) fn matches(&self, current_text: &str) -> bool {
        self.after == hash(current_text)
    }

    /// Returns the content that the file had before the change. `None` if the file has changed since: `current_text` is
    /// not the text that the change wrote.
    pub(super) fn original_content(&self, current_text: &str) -> Option<FileContent> {
        if !self.matches(current_text) {
            return None;
        }
        let Some(before) = &self.before else { return Some(None) };
        let original = format!("{}{}{}", current_text.get(..self.from)?, self.replaced, current_text.get(self.to..)?);
        (hash(&original) == *before).then_some(Some(original))
    }

    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.folders.clone()
    }

    /// Reads the undo data in `file`; `None` if it cannot be read.
    pub(super) fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// Stores the undo data in `file`, readable only by its owner.
    pub(super) fn store(&self, file: &Path) -> Result<(), ConnectError> {
        let write = || write_for_owner_only(file, &serde_json::to_string(self).map_err(io::Error::other)?);
        write().map_err(|source| ConnectError::NotKept { path: file.to_owned(), source })
    }
}

fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_text_decodes_to_itself() {
        for (before, after) in [
            (Some("{}"), "{\"a\": 1}"),
            (Some("aaa"), "aaaa"),
            (Some("aaaa"), "aa"),
            (Some("é"), "è"),
            (Some("日"), "日本"),
            (Some("xéy"), "xây"),
            (Some(""), "x"),
            (Some("same"), "same"),
            (None, "new"),
        ] {
            let undo_data = UndoData::between(before, after, Vec::new());
            assert_eq!(undo_data.original_content(after), Some(before.map(str::to_owned)), "{before:?} {after}");
            assert_eq!(undo_data.original_content(&format!("{after} ")), None);
        }
    }

    #[test]
    fn unchanged_entries_are_not_remembered() {
        let undo_data = UndoData::between(Some("secret { } secret"), "secret { x } secret", Vec::new());
        assert!(!serde_json::to_string(&undo_data).unwrap().contains("secret"), "{undo_data:?}");
    }
}
