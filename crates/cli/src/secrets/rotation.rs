//! Replaces the key with which stored secrets are sealed.
//!
//! The new key is stored first, in `secret.key.next` beside `secret.key` and in the same kind of place. Then one
//! transaction of the database seals all rows again and records which key replaced which. Finally `secret.key.next`
//! replaces `secret.key`. If a process ends in between, both files exist, and the database shows which key is in use: a
//! process that finds the old one retired uses the next one, and finishes the rotation. Until the transaction is
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
    KeyOrigin, KeychainError, SecretsError, Stored, VariableValue, digits,
    file::{self, KeyLock, StoredKey},
    key_in, new_key,
};

/// How long another process may take to move or change the key: a keychain has to answer it.
const KEY_CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look whether the other process has ended that.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits for the right to replace the key in `path`.
///
/// # Errors
/// [`SecretsError::Busy`], or the folder cannot be locked.
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

impl Stored {
    /// Returns whether the caller must provide the new key, because the key is in a place that cannot be written.
    pub(crate) fn requires_given_key(&self) -> bool {
        matches!(self.origin, KeyOrigin::Variable(_))
    }

    /// Seals everything with a new key: a random one that is stored where the old one was, or `given` where
    /// [`Self::requires_given_key`]. Returns the number of secrets and tokens; `None` when there is no key.
    ///
    /// # Errors
    /// As [`Self::vault`], when the new key cannot be stored or is not valid, or something does not open. Everything is
    /// then sealed with the old key, which is where it was, except after [`SecretsError::Unfinished`].
    pub(crate) async fn rotate(&self, given: Option<String>) -> Result<Option<usize>, SecretsError> {
        let path = match &self.origin {
            KeyOrigin::File(path) => path,
            KeyOrigin::Variable(_) => return self.rotate_given(given.unwrap_or_default()).await.map(Some),
        };
        let lock = lock(path).await?;
        let _ = self.settled(path, Some(&lock)).await?;
        match self.existing().await? {
            Some(vault) => self.change(&vault, path, &lock).await.map(Some),
            None => Ok(None),
        }
    }

    async fn rotate_given(&self, text: String) -> Result<usize, SecretsError> {
        let vault = self.existing().await?.ok_or(SecretsError::Variable)?;
        let key = key_in(&VariableValue(text.into())).map_err(|_| SecretsError::NewKey)?;
        vault.change_key(key).await.map_err(|error| match error {
            VaultError::Passphrase => SecretsError::NewKey,
            error => self.failed(error),
        })
    }

    async fn change(&self, vault: &Vault, path: &Path, lock: &KeyLock) -> Result<usize, SecretsError> {
        let key = self.store_next(path, lock).await?;
        match vault.change_key(key).await {
            Ok(count) => self.promote(path, lock).await.map(|()| count),
            Err(error) => {
                // Even after an error of the database, everything may be sealed with it.
                if !matches!(error, VaultError::Store(_)) {
                    self.drop_next(path, lock).await?;
                }
                Err(self.failed(error))
            }
        }
    }

    /// Creates the next key and stores it, in the same kind of place as the current key.
    async fn store_next(&self, path: &Path, lock: &KeyLock) -> Result<VaultKey, SecretsError> {
        // A key that is left over was never used: what it sealed was never committed.
        self.drop_next(path, lock).await?;
        let (next, key) = (file::next(path), new_key(path)?);
        if matches!(file::read(path)?, Some(StoredKey::InKeychain(_))) {
            // Write the file first, so that an unused item of the keychain can be found again.
            let id = Uuid::now_v7();
            file::link(&next, &file::naming(id))?;
            if let Err(error) = self.keychain.put(id, key).await {
                self.drop_next(path, lock).await?;
                return Err(SecretsError::NotTaken(error));
            }
        } else {
            file::link(&next, &digits(&key))?;
        }
        Ok(VaultKey::from_bytes(key))
    }

    /// Forgets the next key.
    async fn drop_next(&self, path: &Path, _lock: &KeyLock) -> Result<(), SecretsError> {
        let next = file::next(path);
        if let Ok(Some(StoredKey::InKeychain(id))) = file::read(&next) {
            self.forget(id).await;
        }
        match std::fs::remove_file(&next) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(SecretsError::File { path: next, source })
            }
            _ => Ok(()),
        }
    }

    /// Replaces the old key by the next one, and removes the old one.
    async fn promote(&self, path: &Path, _lock: &KeyLock) -> Result<(), SecretsError> {
        // While a file still says where the old one is.
        if let Ok(Some(StoredKey::InKeychain(id))) = file::read(path) {
            self.forget(id).await;
        }
        let next: PathBuf = file::next(path);
        file::rename(&next, path).map_err(|source| SecretsError::Unfinished { path: next, source })
    }

    async fn forget(&self, id: Uuid) {
        if let Err(error) = self.keychain.remove(id).await {
            tracing::warn!(%error, "a key that nothing is sealed with is still in the keychain");
        }
    }

    /// The vault with the next key, if everything is sealed with it by now. The next key also replaces the old one,
    /// with `lock` or if no process has the lock: the process that has it does so itself.
    ///
    /// # Errors
    /// When the next key cannot be read, or the database fails.
    pub(super) async fn settled(&self, path: &Path, lock: Option<&KeyLock>) -> Result<Option<Vault>, SecretsError> {
        let own = match lock {
            Some(_) => None,
            None => file::lock(path).ok().flatten(),
        };
        let Some(kept) = file::read(&file::next(path))? else {
            return Ok(None);
        };
        let key = match self.key_of(kept, path).await {
            // It did not get as far as the keychain.
            Err(SecretsError::Keychain { error: KeychainError::Missing, .. }) => return Ok(None),
            key => key?,
        };
        let vault = self.open(key).await?;
        if !vault.is_successor().await.map_err(|error| self.failed(error))? {
            return Ok(None);
        }
        if let Some(lock) = lock.or(own.as_ref())
            && let Err(error) = self.promote(path, lock).await
        {
            tracing::warn!(%error, "the new key could not replace the old file, and is read from its own");
        }
        Ok(Some(vault))
    }

    /// The vault with the key that replaced the one that caused this error.
    ///
    /// # Errors
    /// The same error, unless it says that the key was replaced and this process can read the new one. It cannot where
    /// the key comes from its environment.
    pub(crate) async fn renewed(&self, error: VaultError) -> Result<Vault, SecretsError> {
        if let (VaultError::Retired, KeyOrigin::File(path)) = (&error, &self.origin) {
            if let Some(vault) = self.settled(path, None).await? {
                return Ok(vault);
            }
            if let Some(vault) = self.existing().await? {
                return Ok(vault);
            }
        }
        Err(self.failed(error))
    }

    /// When the key was changed last, in seconds since 1970; `None` when it never was.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn key_changed_at(&self) -> Result<Option<i64>, SecretsError> {
        self.store()?.key_changed_at().await.map_err(|error| self.failed(error.into()))
    }
}

#[cfg(test)]
mod tests;
