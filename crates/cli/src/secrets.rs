//! Stored secrets, and where the key to them is.
//!
//! `TOOLRACK_SECRET_KEY` is the key when it is set: 32 bytes as 64 hex digits or as base64, or a passphrase of at least 12
//! characters. Otherwise it is the file `secret.key` beside the database, made with the first secret. The file keeps copies
//! of the database from being read, such as a backup or one that is sent with a report; a program of the same person can
//! read both, and only the variable keeps it out.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use toolrack_config::Secrets;
use toolrack_store::{Space, Store, Uuid, Vault, VaultError, VaultKey};

use crate::error::{in_words, with_causes};

/// The variable that holds the key, or a passphrase.
pub(crate) const VARIABLE: &str = "TOOLRACK_SECRET_KEY";

/// The file that holds the key otherwise.
const FILE: &str = "secret.key";

/// Base64 as people have it, with `=` at its end or without.
const DECODING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The longest key file that is read, in bytes.
const MAX_FILE: u64 = 4096;

/// Where the key is.
#[derive(Debug)]
enum Place {
    Variable(Given),
    File(PathBuf),
}

/// What the variable says. Its `Debug` does not.
struct Given(OsString);

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Why a stored secret cannot be had. Names places and never a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretsError {
    #[error("the database cannot be used, and secrets are in it")]
    NoDatabase,
    #[error("{VARIABLE} is neither 32 bytes, as 64 hex digits or base64, nor a passphrase of at least 12 characters")]
    Variable,
    #[error("{} is missing, and what it sealed cannot be opened without it: put it back, or set the secrets anew", .0.display())]
    KeyGone(PathBuf),
    #[error("{} holds no key: put the right one back, or remove it and set the secrets anew", .0.display())]
    NoKey(PathBuf),
    #[error("{path} can be read by others, who then know the key: `chmod 600 {path}`", path = .0.display())]
    OpenToOthers(PathBuf),
    #[error("cannot use {}: {}", path.display(), in_words(source))]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{error} (the key is that of {place})", error = with_causes(.error))]
    Vault { error: Box<VaultError>, place: String },
}

/// What is stored, opened when it is needed.
#[derive(Debug)]
pub(crate) struct Stored {
    store: Option<Store>,
    place: Place,
    /// With the key of the variable, which cannot change: a passphrase takes its time.
    opened: OnceCell<Vault>,
}

impl Stored {
    /// What is in `store`, with the key that `variable` says, or else that of the file in `folder`.
    pub(crate) fn new(store: Option<Store>, variable: Option<OsString>, folder: &Path) -> Self {
        let place = match variable.filter(|value| !value.is_empty()) {
            Some(value) => Place::Variable(Given(value)),
            None => Place::File(folder.join(FILE)),
        };
        Self { store, place, opened: OnceCell::new() }
    }

    /// Whether somebody whose variable says this would open it with the same key.
    pub(crate) fn is_opened_with(&self, variable: Option<OsString>) -> bool {
        match (&self.place, variable.filter(|value| !value.is_empty())) {
            (Place::Variable(Given(ours)), Some(theirs)) => *ours == theirs,
            (Place::File(_), None) => true,
            _ => false,
        }
    }

    /// Where the key is, for people.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            Place::Variable(_) => VARIABLE.to_owned(),
            Place::File(path) => path.display().to_string(),
        }
    }

    /// The vault; its key is made if there is none and nothing was sealed with one.
    ///
    /// # Errors
    /// When the key is missing, unusable or in a place that others can read, or the database fails.
    pub(crate) async fn vault(&self) -> Result<Vault, SecretsError> {
        match self.existing().await? {
            Some(vault) => Ok(vault),
            None => self.open(made_in(self.file()?)?).await,
        }
    }

    /// The names of all secrets, which need no key.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn names(&self) -> Result<Vec<String>, SecretsError> {
        let names = self.store()?.sealed_names(Space::Secret).await;
        names.map_err(|error| self.failed(error.into()))
    }

    /// Deletes a secret, which needs no key. Whether there was one.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, SecretsError> {
        let removed = self.store()?.remove_sealed(Space::Secret, name).await;
        removed.map_err(|error| self.failed(error.into()))
    }

    /// Keeps a secret in the place of what was there.
    ///
    /// # Errors
    /// As [`Self::vault`].
    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<(), SecretsError> {
        let put = self.vault().await?.put(Space::Secret, name, value.as_bytes()).await;
        put.map_err(|error| self.failed(error))
    }

    /// A secret; `None` when it is not set.
    ///
    /// # Errors
    /// As [`Self::vault`], and when it was sealed with another key.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<String>, SecretsError> {
        let Some(vault) = self.existing().await? else {
            return Ok(None);
        };
        let found = vault.get(Space::Secret, name).await.map_err(|error| self.failed(error))?;
        Ok(found.and_then(|value| value.expose_text().map(str::to_owned)))
    }

    /// The vault, if there is a key to it.
    ///
    /// # Errors
    /// As [`Self::vault`].
    pub(crate) async fn existing(&self) -> Result<Option<Vault>, SecretsError> {
        match &self.place {
            Place::Variable(given) => {
                let opened = self.opened.get_or_try_init(|| async { self.open(key_in(given)?).await });
                Ok(Some(opened.await?.clone()))
            }
            Place::File(path) => match read(path)? {
                Some(key) => self.open(key).await.map(Some),
                None if self.is_empty().await? => Ok(None),
                None => Err(SecretsError::KeyGone(path.clone())),
            },
        }
    }

    /// Whether nothing was ever sealed that is still there.
    async fn is_empty(&self) -> Result<bool, SecretsError> {
        for space in [Space::Secret, Space::Token] {
            let names = self.store()?.sealed_names(space).await.map_err(|error| self.failed(error.into()))?;
            if !names.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn open(&self, key: VaultKey) -> Result<Vault, SecretsError> {
        Vault::open(self.store()?, key).await.map_err(|error| self.failed(error))
    }

    /// The database.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn store(&self) -> Result<&Store, SecretsError> {
        self.store.as_ref().ok_or(SecretsError::NoDatabase)
    }

    fn file(&self) -> Result<&Path, SecretsError> {
        match &self.place {
            Place::File(path) => Ok(path),
            Place::Variable(_) => Err(SecretsError::Variable),
        }
    }

    fn failed(&self, error: VaultError) -> SecretsError {
        match error {
            VaultError::Passphrase => SecretsError::Variable,
            error => SecretsError::Vault { error: Box::new(error), place: self.place() },
        }
    }
}

impl Secrets for Stored {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move { self.get(name).await.map_err(|error| with_causes(&error)) })
    }
}

/// The key that the variable says: 32 bytes, or else what a passphrase makes.
fn key_in(Given(value): &Given) -> Result<VaultKey, SecretsError> {
    let text = value.to_str().ok_or(SecretsError::Variable)?.trim();
    Ok(bytes_in(text).map_or_else(|| VaultKey::from_passphrase(text), VaultKey::from_bytes))
}

/// 32 bytes as hex digits or base64.
fn bytes_in(text: &str) -> Option<[u8; 32]> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let pairs = (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
        return pairs.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok();
    }
    let decoded = [alphabet::STANDARD, alphabet::URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, DECODING).decode(text).ok());
    decoded?.try_into().ok()
}

/// The key of the file; `None` when there is no file.
fn read(path: &Path) -> Result<Option<VaultKey>, SecretsError> {
    let failed = |source| SecretsError::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(SecretsError::OpenToOthers(path.to_owned()));
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(SecretsError::NoKey(path.to_owned()));
    }
    let text = io::read_to_string(file).map_err(failed)?;
    let key = bytes_in(text.trim()).ok_or_else(|| SecretsError::NoKey(path.to_owned()))?;
    Ok(Some(VaultKey::from_bytes(key)))
}

/// A new key, in a file that nobody else can read, which is there as a whole or not at all. Where another process was
/// quicker, its key.
fn made_in(path: &Path) -> Result<VaultKey, SecretsError> {
    let failed = |source| SecretsError::File { path: path.to_owned(), source };
    let key = VaultKey::generate().map_err(|_| failed(io::Error::other("the system gives no random numbers")))?;
    let digits: String = key.expose().into_iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    let beside = path.with_file_name(format!(".{FILE}.{}", Uuid::now_v7()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(digits.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        // Unlike a renaming, it takes the place of nothing.
        fs::hard_link(&beside, path)
    };
    let linked = write();
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(error)),
        _ => read(path)?.ok_or_else(|| SecretsError::KeyGone(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    async fn stored(folder: &Path, variable: Option<&str>) -> Stored {
        let store = Store::open(folder.join("t.db")).await.unwrap();
        Stored::new(Some(store), variable.map(Into::into), folder)
    }

    #[tokio::test]
    async fn the_key_file_is_made_with_the_first_secret_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let stored = stored(folder.path(), None).await;
        let file = folder.path().join(FILE);
        assert_eq!(stored.get("a").await.unwrap(), None);
        assert!(!file.exists(), "looking makes no key");
        stored.set("a", "one").await.unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap().trim().len(), 64);
        assert_eq!(stored.get("a").await.unwrap().as_deref(), Some("one"));
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "database, its two companions and the key: {left:?}");
    }

    #[tokio::test]
    async fn of_many_that_make_a_key_at_once_all_have_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let many = (0..8).map(async |index| {
            let stored = stored(folder.path(), None).await;
            stored.set(&format!("s{index}"), "value").await.unwrap();
        });
        futures::future::join_all(many).await;
        let stored = stored(folder.path(), None).await;
        for index in 0..8 {
            assert_eq!(stored.get(&format!("s{index}")).await.unwrap().as_deref(), Some("value"));
        }
    }

    #[tokio::test]
    async fn a_key_file_that_is_gone_damaged_or_open_to_others_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let stored = stored(folder.path(), None).await;
        let file = folder.path().join(FILE);
        stored.set("a", "canary").await.unwrap();
        let refused = async || {
            let got = stored.get("a").await.unwrap_err().to_string();
            assert_eq!(stored.set("b", "x").await.unwrap_err().to_string(), got);
            assert!(got.contains(FILE) && !got.contains("canary"), "{got}");
            got
        };
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(refused().await.contains("chmod 600"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "abc").unwrap();
        assert!(refused().await.contains("holds no key"));
        fs::write(&file, "00".repeat(32)).unwrap();
        let other = stored.get("a").await.unwrap_err().to_string();
        assert!(other.contains("another key") && other.contains(FILE), "{other}");
        fs::remove_file(&file).unwrap();
        assert!(refused().await.contains("is missing"));
        symlink("/nowhere", &file).unwrap();
        assert!(refused().await.contains("is missing"));
        assert_eq!(stored.names().await.unwrap(), ["a"], "names need no key");
        assert!(stored.remove("a").await.unwrap(), "nor does removing");
    }

    #[tokio::test]
    async fn the_variable_is_a_key_or_a_passphrase_and_goes_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let hex = "0f".repeat(32);
        stored(folder.path(), Some(&hex)).await.set("a", "one").await.unwrap();
        assert!(!folder.path().join(FILE).exists());
        for same in [hex.to_uppercase(), format!(" {hex}\n"), "Dw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8=".into()] {
            let again = stored(folder.path(), Some(&same)).await;
            assert_eq!(again.get("a").await.unwrap().as_deref(), Some("one"), "{same}");
        }
        let words = stored(folder.path(), Some("correct horse battery")).await;
        assert!(words.get("a").await.unwrap_err().to_string().contains(VARIABLE));
        assert!(!format!("{words:?}").contains("horse"));
        words.set("b", "two").await.unwrap();
        assert_eq!(words.get("b").await.unwrap().as_deref(), Some("two"));
        let short = stored(folder.path(), Some("short")).await;
        assert!(short.get("b").await.unwrap_err().to_string().contains("at least 12"));
    }

    #[tokio::test]
    async fn without_a_database_there_are_no_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let stored = Stored::new(None, None, folder.path());
        assert!(matches!(stored.get("a").await, Err(SecretsError::NoDatabase)));
        assert!(matches!(stored.set("a", "x").await, Err(SecretsError::NoDatabase)));
        assert!(!folder.path().join(FILE).exists(), "no key without a place for what it seals");
    }
}
