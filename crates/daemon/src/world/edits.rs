//! Makes the edits of configuration files that users request, and applies them to the world (the host with its
//! configuration).

use std::{collections::BTreeMap, path::PathBuf};

use futures::future::BoxFuture;
use serde_json::Value;
use toolrack_config::{
    Entry, Scope,
    edit::{self, EditError, EditTarget, Edited, NoEditTarget, NotAdded, Options, Revision},
    import::{Sealed, has_secrets},
};
use toolrack_host::{Caller, spec::Trust};
use toolrack_store::{Approval, StoreError};

use super::World;

/// A change of an entry.
#[derive(Debug)]
pub(crate) enum Change {
    /// Changes an entry that the user has seen. `seen_hash` is the hash of the entry as the user saw it.
    Revise { entry: Value, seen_hash: Option<String> },
    /// Removes the entry.
    Remove,
    /// Enables (`true`) or disables the entry.
    Switch(bool),
}

/// Stores the secrets of new entries. The entries then contain `${secret:NAME}` in place of the secrets. Errors are
/// texts for the user, and never contain a secret.
pub trait Vault: Send + Sync {
    /// The names of the stored secrets.
    fn names(&self) -> BoxFuture<'_, Result<Vec<String>, String>>;

    /// Stores `value` as `name`.
    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// New entries, by their names.
#[derive(Debug)]
pub(crate) struct NewEntries {
    pub(crate) scope: Scope,
    pub(crate) entries: BTreeMap<String, Value>,
    /// Whether the new entries may replace entries of these names.
    pub(crate) replace: bool,
    /// Whether secrets are written into the file instead of being stored.
    pub(crate) plain: bool,
}

/// An added entry.
#[derive(Debug)]
pub(crate) struct AddedEntry {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) edited: Edited,
    /// The secrets that were moved out of the entry into the secret store.
    pub(crate) sealed: Sealed,
}

/// Why an edit was not made.
#[derive(Debug)]
pub(crate) enum EditFailed {
    /// A secret of a new entry was not stored.
    Secrets(String),
    /// There is no entry of this name.
    Unknown,
    /// The entry is in no file, or in several files, so that the name does not say which file to edit.
    NoEditTarget(NoEditTarget),
    /// The file was not edited.
    Edit(EditError),
    /// The change was written, but the agreement to run the changed entry was not stored.
    Store(StoreError),
    /// The edit ended before it had a result: the daemon is ending, or the edit panicked.
    Unfinished,
}

impl From<NoEditTarget> for EditFailed {
    fn from(no_target: NoEditTarget) -> Self {
        Self::NoEditTarget(no_target)
    }
}

impl From<StoreError> for EditFailed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl World {
    /// Adds entries to one file for `caller`. Writes the file once, with all entries or with none of them, and stores
    /// their secrets only after it has checked that all entries can be added. An error has the name of the entry at
    /// fault.
    pub(crate) async fn add(
        &self,
        additions: NewEntries,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Vec<AddedEntry>, (String, EditFailed)> {
        let NewEntries { scope, mut entries, replace, plain } = additions;
        let mut sealed_by_entry = if plain { BTreeMap::new() } else { self.move_secrets_out(&mut entries).await? };
        let target = EditTarget::for_new_entry(scope, &self.load_request.places, &self.load_request.cwd);
        let loaded = self.loaded();
        let write_all = |dry_run| add_to_file(target.path.clone(), entries.clone(), Options { replace, dry_run });
        // A dry run first: no secret may be stored if one of the entries cannot be added.
        let mut edited = write_all(/* dry_run */ true).await?;
        if !dry_run {
            for (name, sealed) in &sealed_by_entry {
                self.store_secrets(sealed).await.map_err(|error| (name.clone(), error))?;
            }
            edited = write_all(/* dry_run */ false).await?;
            // Only a reload shows how the entries read now. The world itself reports files that cannot be used.
            let _ = self.reload().await;
            for (name, edited) in entries.keys().zip(&edited).filter(|_| target.scope == Scope::Project) {
                let edited_entry = EditedEntry { name, before: loaded.entry(name), is_new: true };
                self.agree_to_edit(edited_entry, edited, caller).await.map_err(|error| (name.clone(), error))?;
            }
        }
        let added_entries = entries.into_keys().zip(edited).map(|(name, edited)| {
            let sealed = sealed_by_entry.remove(&name).unwrap_or_default();
            AddedEntry { name, scope: target.scope, edited, sealed }
        });
        Ok(added_entries.collect())
    }

    /// Takes the secrets out of `entries`, and returns them by the names of the entries.
    async fn move_secrets_out(
        &self,
        entries: &mut BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Sealed>, (String, EditFailed)> {
        let mut sealed_by_entry = BTreeMap::new();
        // `None` until an entry has secrets: most have none, and then the store is not read.
        let mut taken_names = None;
        for (name, entry) in entries.iter_mut().filter(|(_, entry)| has_secrets(entry)) {
            if taken_names.is_none() {
                taken_names = Some(self.secret_names().await.map_err(|error| (name.clone(), error))?);
            }
            let taken_names = taken_names.get_or_insert_default();
            let mut sealed = Sealed::default();
            sealed.seal(name, entry, taken_names);
            taken_names.extend(sealed.iter().map(|secret| secret.name.clone()));
            sealed_by_entry.insert(name.clone(), sealed);
        }
        Ok(sealed_by_entry)
    }

    /// The names of the stored secrets, which the secrets of a new entry must not have.
    async fn secret_names(&self) -> Result<Vec<String>, EditFailed> {
        self.vault.names().await.map_err(EditFailed::Secrets)
    }

    async fn store_secrets(&self, sealed: &Sealed) -> Result<(), EditFailed> {
        for secret in sealed.iter() {
            self.vault.set(&secret.name, &secret.value).await.map_err(EditFailed::Secrets)?;
        }
        Ok(())
    }

    /// Changes the entry `name` for `caller`, and applies the changed files. With `dry_run`, only reports the
    /// change.
    pub(crate) async fn edit(
        &self,
        name: &str,
        change: Change,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<(Scope, Edited), EditFailed> {
        let loaded = self.loaded();
        let entry = loaded.entry(name);
        let require_entry = || entry.ok_or(EditFailed::Unknown);
        let (places, folder) = (&self.load_request.places, &self.load_request.cwd);
        let target = match &change {
            Change::Revise { .. } | Change::Remove => EditTarget::single_file_of(require_entry()?)?,
            Change::Switch(_) => EditTarget::for_switching(require_entry()?, places, folder)?,
        };
        let shown_entry = entry.map_or(Value::Null, |entry| entry.view.clone());
        let edited = change_file(target.path.clone(), name.to_owned(), change, shown_entry, dry_run).await?;
        if dry_run {
            return Ok((target.scope, edited));
        }
        // Only a reload shows how the entry reads now. An error is ignored here, because the world itself reports files
        // that cannot be used any more.
        let _ = self.reload().await;
        if target.scope == Scope::Project {
            self.agree_to_edit(EditedEntry { name, before: entry, is_new: false }, &edited, caller).await?;
        }
        Ok((target.scope, edited))
    }

    /// Stores the agreement that an edit implies. A user who adds an entry to a project's file agrees to run exactly
    /// that entry. Enabling or disabling an entry keeps an earlier agreement. A user who revises an entry agrees to run
    /// the revised entry only if they had agreed to the original entry: the original has hidden values that the user
    /// did not see, and the revised entry keeps them.
    async fn agree_to_edit(
        &self,
        EditedEntry { name, before: entry_before, is_new }: EditedEntry<'_>,
        edited: &Edited,
        caller: &Caller,
    ) -> Result<(), EditFailed> {
        let loaded = self.loaded();
        let trusted_before = entry_before.filter(|entry| entry.trust == Trust::Trusted);
        let Some(entry_after) = loaded.entry(name) else {
            if let (Some(store), Some(project)) = (&self.store, entry_before.and_then(|entry| entry.project.as_ref())) {
                // An entry that is put back later needs a new approval.
                store.revoke(project, name, caller).await?;
            }
            return Ok(());
        };
        // Another program may have changed the file just before or after this edit, and the user has not agreed to that
        // change.
        let is_as_the_edit_left_it = edited.hash_after.as_ref() == Some(&entry_after.hash);
        let is_only_switched =
            trusted_before.is_some_and(|before| before.hash_unswitched == entry_after.hash_unswitched);
        let user_agreed =
            is_new || trusted_before.is_some_and(|before| edited.hash_before.as_ref() == Some(&before.hash));
        if is_only_switched || (is_as_the_edit_left_it && user_agreed) {
            self.trust(entry_after, caller).await?;
            // Applies the agreement. The world itself reports files that cannot be used.
            let _ = self.reload().await;
        }
        Ok(())
    }

    /// Records that a user agreed to run `entry`. The user's own entries need no agreement.
    pub(crate) async fn trust(&self, entry: &Entry, caller: &Caller) -> Result<(), StoreError> {
        match (&self.store, approval_of(entry)) {
            (Some(store), Some(approval)) => store.approve(&approval, caller).await,
            _ => Ok(()),
        }
    }
}

/// An entry that the user has edited.
struct EditedEntry<'a> {
    name: &'a str,
    /// The entry as it was before the edit, if there was one.
    before: Option<&'a Entry>,
    /// Whether the user has added the entry.
    is_new: bool,
}

/// Makes the approval of a user who agrees now to run `entry`. `None` for an entry that no project brings, which needs
/// no approval.
#[must_use]
pub fn approval_of(entry: &Entry) -> Option<Approval> {
    Some(Approval {
        project: entry.project.clone()?,
        name: entry.name.clone(),
        hash: entry.agreement.clone(),
        shown: entry.proposal.to_string(),
        approved_at: chrono::Utc::now().timestamp(),
    })
}

/// Changes one entry of the file on a blocking thread, because the edit may wait for another process that edits the
/// same file.
async fn change_file(
    path: PathBuf,
    name: String,
    change: Change,
    shown_entry: Value,
    dry_run: bool,
) -> Result<Edited, EditFailed> {
    let options = Options { dry_run, ..Options::default() };
    let edit = move || match change {
        Change::Revise { entry, seen_hash } => {
            let revision = Revision { shown: &shown_entry, entry: &entry, shown_hash: seen_hash.as_deref() };
            edit::revise(&path, &name, &revision, options)
        }
        Change::Remove => edit::remove(&path, &name, options),
        Change::Switch(enabled) => edit::switch(&path, &name, enabled, options),
    };
    tokio::task::spawn_blocking(edit).await.map_err(|_| EditFailed::Unfinished)?.map_err(EditFailed::Edit)
}

/// Adds entries to the file, on a blocking thread as [`change_file`] does. An error has the name of the entry at fault.
async fn add_to_file(
    path: PathBuf,
    entries: BTreeMap<String, Value>,
    options: Options,
) -> Result<Vec<Edited>, (String, EditFailed)> {
    // An edit that did not finish does not say at which entry it stopped, so its error names the first one.
    let first_name = entries.keys().next().cloned().unwrap_or_default();
    let edit_result = tokio::task::spawn_blocking(move || edit::add_all(&path, &entries, options)).await;
    let edit_result = edit_result.map_err(|_| (first_name, EditFailed::Unfinished))?;
    edit_result.map_err(|NotAdded { name, error }| (name, EditFailed::Edit(error)))
}
