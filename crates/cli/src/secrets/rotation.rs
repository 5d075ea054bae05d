//! Replaces the key of the vault, with which stored secrets are sealed (encrypted).
//!
//! The new key is stored first, in `secret.key.next` beside `secret.key` and in the same kind of place. Then one
//! transaction of the database seals all rows again and records which key replaced which. Finally `secret.key.next`
//! replaces `secret.key`. If a process ends in between, both files exist, and the database shows which key is in use. A
//! process that finds the old key retired uses the next key, and finishes the rotation. Until the transaction is
//! committed, no process uses the next key.
//!
//! A lock on the folder prevents two processes from writing keys at the same time.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use toolrack_store::{Uuid, Vault, VaultError, VaultKey};

use super::{
    KeyOrigin, KeychainError, SecretStore, SecretsError, VariableValue,
    file::{self, KeyLock, StoredKey},
    hex_digits, new_key, variable_key,
};

/// How long another process may take to move or change the key: a keychain has to answer it.
const KEY_CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to check whether the other process has released the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits for the lock that [`file::lock`] takes.
///
/// # Errors
/// [`SecretsError::Busy`] after [`KEY_CHANGE_TIMEOUT`], and when the folder cannot be locked.
pub(super) async fn lock(path: &Path) -> Result<KeyLock, SecretsError> {
    let deadline = Instant::now() + KEY_CHANGE_TIMEOUT;
    loop {
        match file::lock(path)? {
            Some(lock) => return Ok(lock),
            None if Instant::now() >= deadline => return Err(SecretsError::Busy),
            None => sleep(POLL_INTERVAL).await,
        }
    }
}

impl SecretStore {
    /// Returns whether the caller must provide the new key, because the key is in a place that cannot be written.
    pub(crate) fn requires_given_key(&self) -> bool {
        matches!(self.origin, KeyOrigin::Variable(_))
    }

    /// Seals everything with a new key. If [`Self::requires_given_key`], the new key is `given_key`; otherwise it is
    /// random, and is stored where the old key was. Returns the number of secrets and tokens; `None` when there is no
    /// key.
    ///
    /// # Errors
    /// As [`Self::vault`], when the new key cannot be stored or is not valid, or a sealed value cannot be opened.
    /// Everything is then sealed with the old key, which is where it was, except after [`SecretsError::Unfinished`].
    pub(crate) async fn rotate(&self, given_key: Option<String>) -> Result<Option<usize>, SecretsError> {
        let path = match &self.origin {
            KeyOrigin::File(path) => path,
            // A missing key is refused like an empty one.
            KeyOrigin::Variable(_) => return self.rotate_given(given_key.unwrap_or_default()).await.map(Some),
        };
        let lock = lock(path).await?;
        // Finishes an earlier rotation that was interrupted. The vault that it may return is not needed here.
        let _ = self.finish_rotation(path, Some(&lock)).await?;
        match self.existing_vault().await? {
            Some(vault) => self.rotate_stored(&vault, path, &lock).await.map(Some),
            None => Ok(None),
        }
    }

    async fn rotate_given(&self, text: String) -> Result<usize, SecretsError> {
        let vault = self.existing_vault().await?.ok_or(SecretsError::Variable)?;
        let key = variable_key(&VariableValue(text.into())).map_err(|_| SecretsError::NewKey)?;
        vault.change_key(key).await.map_err(|error| match error {
            VaultError::Passphrase => SecretsError::NewKey,
            error => self.vault_error(error),
        })
    }

    async fn rotate_stored(&self, vault: &Vault, path: &Path, lock: &KeyLock) -> Result<usize, SecretsError> {
        let key = self.store_next_key(path, lock).await?;
        match vault.change_key(key).await {
            Ok(count) => self.promote_next_key(path, lock).await.map(|()| count),
            Err(error) => {
                // After an error of the database, everything may nevertheless be sealed with the new key: keep it.
                if !matches!(error, VaultError::Store(_)) {
                    self.remove_next_key(path, lock).await?;
                }
                Err(self.vault_error(error))
            }
        }
    }

    /// Creates the next key and stores it, in the same kind of place as the current key.
    async fn store_next_key(&self, path: &Path, lock: &KeyLock) -> Result<VaultKey, SecretsError> {
        // A next key that an earlier attempt left behind is not in use: the transaction with it was never committed.
        self.remove_next_key(path, lock).await?;
        let (next_file, key) = (file::next_key_file(path), new_key(path)?);
        if matches!(file::read(path)?, Some(StoredKey::InKeychain(_))) {
            // Write the file first, so that an unused item of the keychain can be found again.
            let id = Uuid::now_v7();
            file::create(&next_file, &file::keychain_reference(id))?;
            if let Err(error) = self.keychain.put(id, key).await {
                self.remove_next_key(path, lock).await?;
                return Err(SecretsError::KeychainRefused(error));
            }
        } else {
            file::create(&next_file, &hex_digits(&key))?;
        }
        Ok(VaultKey::from_bytes(key))
    }

    /// Removes the next key. The caller needs `_lock` for that.
    async fn remove_next_key(&self, path: &Path, _lock: &KeyLock) -> Result<(), SecretsError> {
        let next_file = file::next_key_file(path);
        if let Ok(Some(StoredKey::InKeychain(id))) = file::read(&next_file) {
            self.remove_from_keychain(id).await;
        }
        match std::fs::remove_file(&next_file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(SecretsError::File { path: next_file, source })
            }
            _ => Ok(()),
        }
    }

    /// Replaces the old key by the next one, and removes the old one. The caller needs `_lock` for that.
    async fn promote_next_key(&self, path: &Path, _lock: &KeyLock) -> Result<(), SecretsError> {
        // First remove the old key from the keychain: afterwards no file names its id.
        if let Ok(Some(StoredKey::InKeychain(id))) = file::read(path) {
            self.remove_from_keychain(id).await;
        }
        let next_file: PathBuf = file::next_key_file(path);
        file::rename(&next_file, path).map_err(|source| SecretsError::Unfinished { path: next_file, source })
    }

    async fn remove_from_keychain(&self, id: Uuid) {
        if let Err(error) = self.keychain.remove(id).await {
            tracing::warn!(%error, "an unused key is still in the keychain");
        }
    }

    /// Returns the vault with the next key, if everything is sealed with that key by now; `None` if not. Before it
    /// returns the vault, replaces the old key by the next one, unless another process has the lock: that process does
    /// the same. `lock` is the lock of this process, if it has one.
    ///
    /// # Errors
    /// When the next key cannot be read, or the database fails.
    pub(super) async fn finish_rotation(
        &self,
        path: &Path,
        lock: Option<&KeyLock>,
    ) -> Result<Option<Vault>, SecretsError> {
        let own_lock = match lock {
            Some(_) => None,
            None => file::lock(path).ok().flatten(),
        };
        let Some(next_key) = file::read(&file::next_key_file(path))? else {
            return Ok(None);
        };
        let key = match self.load_key(next_key, path).await {
            // The process that began the rotation ended before it had put the next key into the keychain.
            Err(SecretsError::Keychain { error: KeychainError::Missing, .. }) => return Ok(None),
            key => key?,
        };
        let vault = self.open_vault(key).await?;
        if !vault.is_successor().await.map_err(|error| self.vault_error(error))? {
            return Ok(None);
        }
        if let Some(lock) = lock.or(own_lock.as_ref())
            && let Err(error) = self.promote_next_key(path, lock).await
        {
            tracing::warn!(%error, "the file of the new key could not replace the old key file; the new key is read from its own file");
        }
        Ok(Some(vault))
    }

    /// Returns the vault with the new key, after `error` said that the key of this process was replaced.
    ///
    /// # Errors
    /// `error` itself, if it says something else, or if this process cannot read the new key because its key comes from
    /// the environment.
    pub(crate) async fn vault_with_new_key(&self, error: VaultError) -> Result<Vault, SecretsError> {
        if let (VaultError::Retired, KeyOrigin::File(path)) = (&error, &self.origin) {
            if let Some(vault) = self.finish_rotation(path, None).await? {
                return Ok(vault);
            }
            if let Some(vault) = self.existing_vault().await? {
                return Ok(vault);
            }
        }
        Err(self.vault_error(error))
    }

    /// Returns when the key was changed last, in seconds since 1970; `None` when it never was.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn key_changed_at(&self) -> Result<Option<i64>, SecretsError> {
        self.store()?.key_changed_at().await.map_err(|error| self.vault_error(error.into()))
    }
}

#[cfg(test)]
mod tests;
