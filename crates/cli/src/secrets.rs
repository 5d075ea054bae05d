//! Stores secrets in the vault (the values in the database that are encrypted, or sealed), and finds the vault's key.
//!
//! If `TOOLRACK_SECRET_KEY` is set, it is the key: 32 bytes as 64 hex digits or as base64, or a passphrase of at least
//! 12 characters. Otherwise the file `secret.key` beside the database either contains the key, or names the id under
//! which the system's keychain has it. Toolrack makes the key when it stores the first secret, and puts it into the
//! keychain if it can. From then on it looks only where the file says: a locked keychain is an error, never a reason
//! for a new key. The module `rotation` replaces the key by a new one.
//!
//! A key file protects copies of the database, for example in a backup or in a report. It does not protect against
//! programs of the same user, which can read both files. A keychain also protects against an attacker who copies all
//! files, and against other programs while it is locked.

mod file;
mod keychain;
mod rotation;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use toolrack_config::Secrets;
use toolrack_daemon::Vault as DaemonVault;
use toolrack_store::{Space, Store, Uuid, Vault, VaultError, VaultKey};

use self::file::StoredKey;
pub(crate) use self::keychain::{Keychain, KeychainError};
use crate::error::{in_words, with_causes};

/// The variable that holds the key, or a passphrase.
pub(crate) const VARIABLE: &str = "TOOLRACK_SECRET_KEY";

/// The file that holds the key, or the id of the key in the keychain, if [`VARIABLE`] is not set.
const KEY_FILE: &str = "secret.key";

/// Base64 with or without `=` at its end.
const DECODING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Where to look for the key, as the environment decides it.
#[derive(Debug)]
enum KeyOrigin {
    Variable(VariableValue),
    /// The file [`KEY_FILE`], which holds the key or the id of the key in the keychain.
    File(PathBuf),
}

/// Where the key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyLocation {
    Variable,
    Keychain,
    File,
    /// There is no key yet, because no secret was ever stored.
    None,
}

/// The value of [`VARIABLE`]. Its `Debug` does not show it.
struct VariableValue(OsString);

impl std::fmt::Debug for VariableValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Why a stored secret is not available. The messages name places and never a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretsError {
    #[error("secrets are in the database, which cannot be used")]
    NoDatabase,
    #[error("{VARIABLE} is neither 32 bytes, as 64 hex digits or base64, nor a passphrase of at least 12 characters")]
    Variable,
    #[error("{} is missing, and the stored secrets cannot be opened without the key in it: put the file back, or set the secrets again", .0.display())]
    KeyGone(PathBuf),
    #[error("{} holds no key: put the right file back, or remove it and set the secrets again", .0.display())]
    UnreadableKey(PathBuf),
    #[error("{error}; according to {}, the keychain holds the key to stored secrets", .path.display())]
    Keychain { path: PathBuf, error: KeychainError },
    #[error("{0}; the key was not put there")]
    KeychainRefused(KeychainError),
    #[error("the new key is neither 32 bytes, as 64 hex digits or base64, nor a passphrase of at least 12 characters")]
    NewKey,
    #[error("another process is changing or moving the key: try again when it has ended")]
    Busy,
    #[error("all secrets are sealed with the new key, but its file {} could not replace the old key file: {}; the next command that needs the key tries again", .path.display(), in_words(.source))]
    Unfinished {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the key comes from {VARIABLE}, and Toolrack cannot move it from there")]
    KeyInVariable,
    #[error("{path} can be read by others, who then know the key: `chmod 600 {path}`", path = .0.display())]
    OpenToOthers(PathBuf),
    #[error("cannot use {}: {}", path.display(), in_words(source))]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{error} (the key is from {place})", error = with_causes(.error))]
    Vault { error: Box<VaultError>, place: String },
}

/// The stored secrets. The vault is opened when it is first needed.
#[derive(Debug)]
pub(crate) struct SecretStore {
    store: Option<Store>,
    origin: KeyOrigin,
    keychain: Keychain,
    /// Why the keychain refused a key that this process made.
    refusal: OnceLock<KeychainError>,
    /// The vault with the key of [`VARIABLE`]. Cached, because deriving a key from a passphrase takes time.
    variable_vault: OnceCell<Vault>,
}

impl SecretStore {
    /// Returns the secrets in `store`. Their key is `variable`, the value of [`VARIABLE`]; without one it is in the
    /// file below `folder`, or in the keychain. Opens nothing yet.
    pub(crate) fn new(store: Option<Store>, variable: Option<OsString>, folder: &Path, keychain: Keychain) -> Self {
        let origin = match variable.filter(|value| !value.is_empty()) {
            Some(value) => KeyOrigin::Variable(VariableValue(value)),
            None => KeyOrigin::File(folder.join(KEY_FILE)),
        };
        Self { store, origin, keychain, refusal: OnceLock::new(), variable_vault: OnceCell::new() }
    }

    /// Returns the value of [`VARIABLE`], if the key comes from it.
    pub(crate) fn variable(&self) -> Option<&OsStr> {
        match &self.origin {
            KeyOrigin::Variable(VariableValue(value)) => Some(value),
            KeyOrigin::File(_) => None,
        }
    }

    /// Returns whether a process with this value of [`VARIABLE`] would use the same key.
    pub(crate) fn uses_same_key(&self, variable: Option<OsString>) -> bool {
        match (&self.origin, variable.filter(|value| !value.is_empty())) {
            (KeyOrigin::Variable(VariableValue(own_value)), Some(other_value)) => *own_value == other_value,
            (KeyOrigin::File(_), None) => true,
            _ => false,
        }
    }

    /// Describes the place of the key for the user.
    pub(crate) fn key_place(&self) -> String {
        match &self.origin {
            KeyOrigin::Variable(_) => VARIABLE.to_owned(),
            KeyOrigin::File(_) if self.key_location() == KeyLocation::Keychain => "the system's keychain".to_owned(),
            KeyOrigin::File(path) => path.display().to_string(),
        }
    }

    /// Returns where the key is. An unusable key file also counts as [`KeyLocation::File`].
    pub(crate) fn key_location(&self) -> KeyLocation {
        match &self.origin {
            KeyOrigin::Variable(_) => KeyLocation::Variable,
            KeyOrigin::File(path) => match file::read(path) {
                Ok(Some(StoredKey::InKeychain(_))) => KeyLocation::Keychain,
                Ok(None) => KeyLocation::None,
                Ok(Some(StoredKey::InFile(_))) | Err(_) => KeyLocation::File,
            },
        }
    }

    /// Returns why the keychain refused the key that this process made; `None` if it did not. A missing keychain is no
    /// refusal: the user need not be warned of it.
    pub(crate) fn refusal(&self) -> Option<&KeychainError> {
        self.refusal.get().filter(|error| !matches!(error, KeychainError::Absent(_)))
    }

    /// Opens the vault. Makes a key if there is none and no stored value needs an older one.
    ///
    /// # Errors
    /// When the key is missing, unusable or in a place that others can read, or the database fails.
    pub(crate) async fn vault(&self) -> Result<Vault, SecretsError> {
        if let Some(vault) = self.existing_vault().await? {
            return Ok(vault);
        }
        // Never fails: with the variable, `existing_vault` returns the vault or an error.
        let KeyOrigin::File(path) = &self.origin else {
            return Err(SecretsError::Variable);
        };
        let key = new_key(path)?;
        let key = match self.keep_in_keychain(&key, path, file::create).await {
            Err(SecretsError::KeychainRefused(error)) => {
                // The user learns why from `refusal`; the key goes into the file instead.
                let _ = self.refusal.set(error);
                file::create(path, &hex_digits(&key))?
            }
            result => result?,
        };
        let key = self.load_key(key, path).await?;
        self.open_vault(key).await
    }

    /// Puts `key` into the keychain, and then calls `write` to record its id in the key file.
    async fn keep_in_keychain(
        &self,
        key: &[u8; 32],
        path: &Path,
        write: fn(&Path, &str) -> Result<StoredKey, SecretsError>,
    ) -> Result<StoredKey, SecretsError> {
        let id = Uuid::now_v7();
        self.keychain.put(id, *key).await.map_err(SecretsError::KeychainRefused)?;
        let stored_key = write(path, &file::keychain_reference(id));
        // If another process was quicker, or the file cannot be written, no process will use this key: remove it again.
        // A key that cannot be removed stays there unused.
        if !matches!(&stored_key, Ok(StoredKey::InKeychain(stored_key)) if *stored_key == id) {
            let _ = self.keychain.remove(id).await;
        }
        stored_key
    }

    /// Moves the key into the keychain, or from the keychain into the file; the secrets stay sealed as they are. If
    /// there is no key yet, makes one in that place. Returns `false` if the key was there already.
    ///
    /// # Errors
    /// As [`Self::vault`], and when the key comes from [`VARIABLE`]. After an error, the key is where it was.
    pub(crate) async fn move_key(&self, to_keychain: bool) -> Result<bool, SecretsError> {
        let KeyOrigin::File(path) = &self.origin else {
            return Err(SecretsError::KeyInVariable);
        };
        let lock = rotation::lock(path).await?;
        // Finishes a rotation that was interrupted. The vault that it may return is not needed here.
        let _ = self.finish_rotation(path, Some(&lock)).await?;
        let stored_key = file::read(path)?;
        if stored_key.is_none() && !self.has_no_values().await? {
            return Err(SecretsError::KeyGone(path.clone()));
        }
        match (stored_key, to_keychain) {
            (Some(StoredKey::InKeychain(_)), true) | (Some(StoredKey::InFile(_)), false) => return Ok(false),
            (Some(StoredKey::InFile(key)), true) => {
                self.keep_in_keychain(&key, path, file::replace).await?;
            }
            (None, true) => {
                self.keep_in_keychain(&new_key(path)?, path, file::create).await?;
            }
            (None, false) => {
                file::create(path, &hex_digits(&new_key(path)?))?;
            }
            (Some(StoredKey::InKeychain(id)), false) => {
                let keychain_error = |error| SecretsError::Keychain { path: path.clone(), error };
                let key = self.keychain.key(id).await.map_err(keychain_error)?;
                file::replace(path, &hex_digits(&key))?;
                if let Err(error) = self.keychain.remove(id).await {
                    tracing::warn!(%error, "the key is in the file now, and also still in the keychain");
                }
            }
        }
        Ok(true)
    }

    /// Returns the names of all secrets. Needs no key.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn names(&self) -> Result<Vec<String>, SecretsError> {
        let names = self.store()?.sealed_names(Space::Secret).await;
        names.map_err(|error| self.vault_error(error.into()))
    }

    /// Deletes a secret, without needing the key. Returns whether there was one.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, SecretsError> {
        self.remove_in(Space::Secret, name).await
    }

    /// As [`Self::remove`], in `space`.
    pub(crate) async fn remove_in(&self, space: Space, name: &str) -> Result<bool, SecretsError> {
        let result = self.store()?.remove_sealed(space, name).await;
        result.map_err(|error| self.vault_error(error.into()))
    }

    /// Stores a secret, and replaces an older one of this name.
    ///
    /// # Errors
    /// As [`Self::vault`].
    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<(), SecretsError> {
        self.set_in(Space::Secret, name, value).await
    }

    /// As [`Self::set`], in `space`.
    pub(crate) async fn set_in(&self, space: Space, name: &str, value: &str) -> Result<(), SecretsError> {
        let result = match self.vault().await?.put(space, name, value.as_bytes()).await {
            Err(error) => self.vault_with_new_key(error).await?.put(space, name, value.as_bytes()).await,
            Ok(()) => Ok(()),
        };
        result.map_err(|error| self.vault_error(error))
    }

    /// Returns a secret; `None` when it is not set.
    ///
    /// # Errors
    /// As [`Self::vault`], and when it was sealed with another key.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<String>, SecretsError> {
        self.get_in(Space::Secret, name).await
    }

    /// As [`Self::get`], in `space`.
    pub(crate) async fn get_in(&self, space: Space, name: &str) -> Result<Option<String>, SecretsError> {
        let Some(vault) = self.vault_for_reading(space, name).await? else {
            return Ok(None);
        };
        let value = match vault.get(space, name).await {
            Err(error) => self.vault_with_new_key(error).await?.get(space, name).await,
            value => value,
        };
        Ok(value.map_err(|error| self.vault_error(error))?.and_then(|value| value.expose_text().map(str::to_owned)))
    }

    /// Opens the vault to read `name`. Returns `None` if there is no key. If the key is in the keychain, also returns
    /// `None` for a name without a value: the user would unlock the keychain in vain.
    ///
    /// # Errors
    /// As [`Self::vault`].
    pub(crate) async fn vault_for_reading(&self, space: Space, name: &str) -> Result<Option<Vault>, SecretsError> {
        if let KeyOrigin::File(path) = &self.origin
            && let Some(StoredKey::InKeychain(id)) = file::read(path)?
            && !self.keychain.has_key(id)
        {
            let names = self.store()?.sealed_names(space).await.map_err(|error| self.vault_error(error.into()))?;
            if !names.iter().any(|known| known == name) {
                return Ok(None);
            }
        }
        self.existing_vault().await
    }

    /// Opens the vault, if there is a key to it.
    async fn existing_vault(&self) -> Result<Option<Vault>, SecretsError> {
        match &self.origin {
            KeyOrigin::Variable(value) => {
                let variable_vault =
                    self.variable_vault.get_or_try_init(|| async { self.open_vault(variable_key(value)?).await });
                Ok(Some(variable_vault.await?.clone()))
            }
            KeyOrigin::File(path) => {
                let stored_key = match file::read(path)? {
                    Some(stored_key) => stored_key,
                    None if self.has_no_values().await? => return Ok(None),
                    // After the file was read, another process may have made a key and stored values with it.
                    None => file::read(path)?.ok_or_else(|| SecretsError::KeyGone(path.clone()))?,
                };
                match self.load_key(stored_key, path).await {
                    Ok(key) => self.open_vault(key).await.map(Some),
                    // If a process has ended in the middle of a rotation, the old key may be gone: finish the rotation.
                    Err(error) => Ok(Some(self.finish_rotation(path, None).await?.ok_or(error)?)),
                }
            }
        }
    }

    /// Returns the key in the file, or the key in the keychain whose id the file holds.
    async fn load_key(&self, stored_key: StoredKey, path: &Path) -> Result<VaultKey, SecretsError> {
        let key = match stored_key {
            StoredKey::InFile(key) => Ok(key),
            StoredKey::InKeychain(id) => self.keychain.key(id).await,
        };
        key.map(VaultKey::from_bytes).map_err(|error| SecretsError::Keychain { path: path.to_owned(), error })
    }

    /// Returns whether the database has no sealed value.
    async fn has_no_values(&self) -> Result<bool, SecretsError> {
        for space in Space::ALL {
            let names = self.store()?.sealed_names(space).await.map_err(|error| self.vault_error(error.into()))?;
            if !names.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn open_vault(&self, key: VaultKey) -> Result<Vault, SecretsError> {
        Vault::open(self.store()?, key).await.map_err(|error| self.vault_error(error))
    }

    /// Returns the database.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn store(&self) -> Result<&Store, SecretsError> {
        self.store.as_ref().ok_or(SecretsError::NoDatabase)
    }

    /// Returns `error` with the place of the key.
    fn vault_error(&self, error: VaultError) -> SecretsError {
        match error {
            VaultError::Passphrase => SecretsError::Variable,
            error => SecretsError::Vault { error: Box::new(error), place: self.key_place() },
        }
    }
}

impl Secrets for SecretStore {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move { self.get(name).await.map_err(|error| with_causes(&error)) })
    }
}

impl DaemonVault for SecretStore {
    fn names(&self) -> BoxFuture<'_, Result<Vec<String>, String>> {
        Box::pin(async move { self.names().await.map_err(|error| with_causes(&error)) })
    }

    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.set(name, value).await.map_err(|error| with_causes(&error)) })
    }
}

/// Returns the key in the variable: 32 bytes, or else derived from a passphrase.
fn variable_key(VariableValue(value): &VariableValue) -> Result<VaultKey, SecretsError> {
    let text = value.to_str().ok_or(SecretsError::Variable)?.trim();
    Ok(parse_key(text).map_or_else(|| VaultKey::from_passphrase(text), VaultKey::from_bytes))
}

/// Reads 32 bytes that are written as hex digits or base64.
fn parse_key(text: &str) -> Option<[u8; 32]> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let pairs = (0..32).map(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16));
        return pairs.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok();
    }
    let decoded = [alphabet::STANDARD, alphabet::URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, DECODING).decode(text).ok());
    decoded?.try_into().ok()
}

/// Generates a key. `path` is the key file, for the error.
fn new_key(path: &Path) -> Result<[u8; 32], SecretsError> {
    let key = VaultKey::generate().ok().and_then(|key| key.expose().copied());
    let no_random_numbers = || io::Error::other("the system provides no random numbers");
    key.ok_or_else(|| SecretsError::File { path: path.to_owned(), source: no_random_numbers() })
}

/// Writes a key as 64 hex digits.
fn hex_digits(key: &[u8; 32]) -> String {
    toolrack_store::audit::hex(key)
}

#[cfg(test)]
mod tests;
