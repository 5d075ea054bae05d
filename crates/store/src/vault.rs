//! Stores secrets and tokens in encrypted (sealed) form. A row has a space, which is its kind, and a name within it.
//!
//! A row is sealed with XChaCha20-Poly1305 (<https://datatracker.ietf.org/doc/html/draft-irtf-cfrg-xchacha>) and a
//! random nonce. The 24 bytes of the nonce make sure that no two rows get the same one. The space, the name and the id
//! of the key are associated data, so that a row that was copied to another name cannot be decrypted. A program that
//! can write the file can still delete a row, or restore an older value of the same name.

mod lease;
mod rotation;
mod seal;

use std::fmt;

use chrono::Utc;
use toolrack_host::{Caller, run_in_own_task};
use zeroize::Zeroizing;

pub use lease::Lease;
pub use seal::VaultKey;

use crate::{
    Store, StoreError,
    audit::{Entry, append},
    database::{Transaction, query, query_scalar},
    now,
};
use seal::Sealer;

/// The maximum size of a value, in bytes. Tokens are far shorter.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// The kind of a row. The same name can be used in two spaces, for two different rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// A secret that a user set, and to which entries refer by its name.
    Secret,
    /// A token from a sign-in.
    Token,
    /// A value that a member of a team gave to their own servers.
    MemberValue,
    /// A server that a member of a team added for themselves.
    OwnServer,
}

impl Space {
    /// Every space.
    pub const ALL: [Self; 4] = [Self::Secret, Self::Token, Self::MemberValue, Self::OwnServer];

    /// Returns the word for the space in the database. The word must not change, because stored rows are sealed with
    /// it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Token => "token",
            Self::MemberValue => "person",
            Self::OwnServer => "own server",
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemberValue => "value of a member",
            Self::OwnServer => "server of a member",
            _ => self.as_str(),
        })
    }
}

/// A decrypted value. Dropping it overwrites its memory, and its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<Vec<u8>>);

impl SecretValue {
    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value as text, if it is UTF-8.
    #[must_use]
    pub fn expose_text(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(***)")
    }
}

/// Why an operation of the vault failed. The error never contains the value, which is secret.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The row was sealed with another key.
    #[error(
        "the {space} `{name}` was sealed with another key than the one in use: use that key, or set the value again"
    )]
    OtherKey {
        /// The space of the row.
        space: Space,
        /// The name of the row.
        name: String,
    },
    /// The row was changed from outside, so that it cannot be decrypted.
    #[error("the {space} `{name}` cannot be decrypted, because its row was changed from outside: set the value again")]
    Damaged {
        /// The space of the row.
        space: Space,
        /// The name of the row.
        name: String,
    },
    /// A name that is empty or longer than 1,024 bytes.
    #[error("a {space} cannot have a name of {length} bytes: use 1 to {MAX_NAME_BYTES}")]
    Name {
        /// The space of the row.
        space: Space,
        /// How long the name is.
        length: usize,
    },
    /// A value beyond 64 KiB.
    #[error("the {space} `{name}` has {length} bytes, more than the {MAX_VALUE_BYTES} that are kept")]
    TooLong {
        /// The space of the row.
        space: Space,
        /// The name of the row.
        name: String,
        /// How long the value is.
        length: usize,
    },
    /// The lease ran out before the write that depends on it, or another process took it over. Nothing was written.
    #[error("the {space} `{name}` was changed by another process: read it again")]
    LeaseLost {
        /// The space of the row.
        space: Space,
        /// The name of the row.
        name: String,
    },
    /// A newer key has replaced this one, and all rows are sealed with it. Nothing was written.
    #[error(
        "another key has replaced the one in use: use the new key, and restart the programs that still have the old one"
    )]
    Retired,
    /// The new key is the one in use, or an earlier one.
    #[error("the new key is or was in use here already: use another one")]
    NotNew,
    /// The passphrase is too short, or no key could be derived from it.
    #[error("no key can be made of the passphrase: use one of at least 12 characters")]
    Passphrase,
    /// The system provides no random numbers.
    #[error("the system provides no random numbers, without which nothing can be sealed")]
    NoRandomness,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The id of the key, the nonce and the sealed value.
type Row = (Vec<u8>, Vec<u8>, Vec<u8>);

/// The sealed rows of a [`Store`], and the key to them. Clones share both.
///
/// ```
/// use toolrack_store::{Space, Store, Vault, VaultError, VaultKey};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = Store::open(folder.path().join("toolrack.db")).await?;
/// let vault = Vault::open(&store, VaultKey::from_bytes([7; 32])).await?;
/// vault.put(Space::Secret, "github", b"hunter2").await?;
/// let found = vault.get(Space::Secret, "github").await?;
/// assert_eq!(found.as_ref().and_then(|found| found.expose_text()), Some("hunter2"));
/// assert_eq!(format!("{found:?}"), "Some(SecretValue(***))");
///
/// let stranger = Vault::open(&store, VaultKey::from_bytes([8; 32])).await?;
/// assert!(matches!(stranger.get(Space::Secret, "github").await, Err(VaultError::OtherKey { .. })));
/// # store.close().await;
/// # Ok::<(), VaultError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Vault {
    store: Store,
    sealer: Sealer,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("path", &self.store.path()).finish_non_exhaustive()
    }
}

impl Vault {
    /// Opens the vault of `store`. Deriving a key from a passphrase takes about 50 ms of CPU time and 19 MiB of memory.
    /// A wrong key is no error here: reading a row fails with [`VaultError::OtherKey`].
    ///
    /// # Errors
    /// [`VaultError::Passphrase`], [`VaultError::NoRandomness`], or the database fails.
    pub async fn open(store: &Store, key: VaultKey) -> Result<Self, VaultError> {
        let sealer = key.sealer(store).await?;
        Ok(Self { store: store.clone(), sealer })
    }

    /// Seals and stores `value`, in place of an earlier one. The row is on the disk when this returns.
    ///
    /// # Errors
    /// [`VaultError::Name`], [`VaultError::TooLong`], [`VaultError::NoRandomness`], [`VaultError::Retired`], or the
    /// database fails.
    pub async fn put(&self, space: Space, name: &str, value: &[u8]) -> Result<(), VaultError> {
        let transaction = self.store.begin_durably(WRITING).await?;
        self.put_and_commit(transaction, space, name, value).await
    }

    /// Stores `value` under the name of `lease`. Fails if the lease is lost, because its next holder may have written a
    /// newer value.
    ///
    /// # Errors
    /// Those of [`Self::put`], and [`VaultError::LeaseLost`].
    pub async fn put_under(&self, lease: &Lease, value: &[u8]) -> Result<(), VaultError> {
        let mut transaction = self.store.begin_durably(WRITING).await?;
        lease.check_held(&mut transaction).await?;
        self.put_and_commit(transaction, lease.space(), lease.name(), value).await
    }

    /// Seals and stores `value` in a transaction, and commits it.
    async fn put_and_commit(
        &self,
        mut transaction: Transaction,
        space: Space,
        name: &str,
        value: &[u8],
    ) -> Result<(), VaultError> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(VaultError::TooLong { space, name: name.to_owned(), length: value.len() });
        }
        check_name(space, name)?;
        self.check_key(&mut transaction).await?;
        let (nonce, sealed) = self.sealer.seal(space, name, value)?;
        query(
            "INSERT INTO vault (space, name, key_id, nonce, sealed, changed_at) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (space, name) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce, \
             sealed = excluded.sealed, changed_at = excluded.changed_at",
        )
        .bind(space.as_str())
        .bind(name)
        .bind(self.sealer.key_id())
        .bind(nonce)
        .bind(sealed)
        .bind(now())
        .execute(&mut transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Decrypts the value of `name`; `None` when there is none.
    ///
    /// # Errors
    /// [`VaultError::OtherKey`], [`VaultError::Damaged`], [`VaultError::Retired`] when a newer key has replaced this
    /// one and sealed the row, or the database fails.
    pub async fn get(&self, space: Space, name: &str) -> Result<Option<SecretValue>, VaultError> {
        let (vault, owned_name) = (self.clone(), name.to_owned());
        let row = run_in_own_task(async move { vault.read_row(space, &owned_name).await }).await?;
        let Some((_, nonce, sealed)) = row else {
            return Ok(None);
        };
        let decrypted = self.sealer.open(space, name, &nonce, &sealed);
        let value = decrypted.ok_or_else(|| VaultError::Damaged { space, name: name.to_owned() })?;
        Ok(Some(SecretValue(value)))
    }

    /// Reads the row of `name`, and fails if another key sealed it.
    async fn read_row(&self, space: Space, name: &str) -> Result<Option<Row>, VaultError> {
        let row = self.store.read_sealed(space, name).await?;
        if row.as_ref().is_none_or(|(key_id, ..)| key_id == self.sealer.key_id()) {
            return Ok(row);
        }
        // If a newer key has replaced the key of this vault, that error explains more.
        let mut connection = self.store.begin_read("reading the vault").await?;
        self.check_key(&mut connection).await?;
        Err(VaultError::OtherKey { space, name: name.to_owned() })
    }

    /// Deletes `name`, and overwrites its bytes in the file. Returns whether it existed.
    ///
    /// # Errors
    /// [`VaultError::Store`] when the database fails.
    pub async fn remove(&self, space: Space, name: &str) -> Result<bool, VaultError> {
        Ok(self.store.remove_sealed(space, name).await?)
    }

    /// Deletes the row under the name of `lease`, and returns whether it existed. Fails if the lease is lost, because
    /// its next holder may have written a newer value.
    ///
    /// # Errors
    /// [`VaultError::LeaseLost`], or the database fails.
    pub async fn remove_under(&self, lease: &Lease) -> Result<bool, VaultError> {
        let mut transaction = self.store.begin_erasing(REMOVING).await?;
        lease.check_held(&mut transaction).await?;
        Ok(self.store.remove_and_commit(transaction, lease.space(), lease.name()).await?)
    }

    /// Returns all names of `space`, sorted.
    ///
    /// # Errors
    /// [`VaultError::Store`] when the database fails.
    pub async fn names(&self, space: Space) -> Result<Vec<String>, VaultError> {
        Ok(self.store.sealed_names(space).await?)
    }
}

/// Operations that need no key.
impl Store {
    /// Reads a sealed row.
    async fn read_sealed(&self, space: Space, name: &str) -> Result<Option<Row>, StoreError> {
        query("SELECT key_id, nonce, sealed FROM vault WHERE space = $1 AND name = $2")
            .bind(space.as_str())
            .bind(name)
            .fetch_optional(&mut self.begin_read("reading the vault").await?)
            .await
    }

    /// Like [`Vault::remove`], without a key.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn remove_sealed(&self, space: Space, name: &str) -> Result<bool, StoreError> {
        let transaction = self.begin_erasing(REMOVING).await?;
        self.remove_and_commit(transaction, space, name).await
    }

    /// Deletes a row in a transaction, and commits it. Returns whether the row existed.
    async fn remove_and_commit(
        &self,
        mut transaction: Transaction,
        space: Space,
        name: &str,
    ) -> Result<bool, StoreError> {
        let deleted_rows = query("DELETE FROM vault WHERE space = $1 AND name = $2")
            .bind(space.as_str())
            .bind(name)
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(deleted_rows > 0)
    }

    /// Like [`Vault::names`], without a key: names are not sealed.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn sealed_names(&self, space: Space) -> Result<Vec<String>, StoreError> {
        query_scalar("SELECT name FROM vault WHERE space = $1 ORDER BY name")
            .bind(space.as_str())
            .fetch_all(&mut self.begin_read("reading the vault").await?)
            .await
    }
}

/// Secrets, and the values and servers of members of a team, whose names begin with the key of the member.
impl Store {
    /// Returns the names of all secrets, each with the time at which it was set, in seconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn secret_names(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.names_with_times(Space::Secret, String::new()).await
    }

    /// Returns the names of the values that a member gave to their servers, sorted, each with the time at which the
    /// value was set. In the vault, these names begin with the key `member`, which is left out here.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn member_value_names(&self, member: &str) -> Result<Vec<(String, i64)>, StoreError> {
        self.names_with_times(Space::MemberValue, member.to_owned()).await
    }

    /// Returns the names of the servers that a member added for themselves, sorted. In the vault, these names begin
    /// with the key `member`, which is left out here.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn own_server_names(&self, member: &str) -> Result<Vec<String>, StoreError> {
        let names = self.names_with_times(Space::OwnServer, member.to_owned()).await?;
        Ok(names.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the names in `space` that begin with `prefix`, sorted, each without `prefix` and with the time at which
    /// the value was set.
    async fn names_with_times(&self, space: Space, prefix: String) -> Result<Vec<(String, i64)>, StoreError> {
        let store = self.clone();
        // Runs in a task of its own, so that the connection to the database is not held when the caller stops polling.
        run_in_own_task(async move {
            query(
                "SELECT substr(name, length($2) + 1), changed_at FROM vault \
                 WHERE space = $1 AND substr(name, 1, length($2)) = $2 ORDER BY name",
            )
            .bind(space.as_str())
            .bind(prefix)
            .fetch_all(&mut store.begin_read("reading the vault").await?)
            .await
        })
        .await
    }

    /// Deletes all values and servers of a member who was removed: all names in [`Space::MemberValue`] and
    /// [`Space::OwnServer`] that begin with the key `member`. Records each in the audit log, in the same transaction,
    /// and returns how many there were.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn delete_member_values(&self, member: &str, caller: &Caller) -> Result<usize, StoreError> {
        let mut transaction = self.begin_erasing(REMOVING).await?;
        let deleted_names: Vec<(String, String)> = query(
            "DELETE FROM vault WHERE space IN ($1, $2) AND substr(name, 1, length($3)) = $3 \
             RETURNING space, substr(name, length($3) + 1)",
        )
        .bind(Space::MemberValue.as_str())
        .bind(Space::OwnServer.as_str())
        .bind(member)
        .fetch_all(&mut transaction)
        .await?;
        let now_millis = Utc::now().timestamp_millis();
        // Both are `false`: the values and servers are deleted.
        let (is_given, is_added) = (false, false);
        let to_entry = |(space, name): &(String, String)| match space == Space::MemberValue.as_str() {
            true => Entry::of_credential(caller, name, is_given),
            false => Entry::of_own_server(caller, name, is_added),
        };
        let rows: Vec<_> = deleted_names.iter().map(|row| (now_millis, to_entry(row).because_of_removal())).collect();
        append(&mut transaction, &rows).await?;
        transaction.commit().await?;
        Ok(deleted_names.len())
    }

    /// Records in the audit log that `caller` gave the value `name` to their servers, or deleted it.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_credential_change(
        &self,
        caller: &Caller,
        name: &str,
        is_given: bool,
    ) -> Result<(), StoreError> {
        self.record(Entry::of_credential(caller, name, is_given)).await
    }
}

/// Servers that members of a team add for themselves.
impl Store {
    /// Records in the audit log that `caller` added the server `name` for themselves, or removed it.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_own_server(&self, caller: &Caller, name: &str, is_added: bool) -> Result<(), StoreError> {
        self.record(Entry::of_own_server(caller, name, is_added)).await
    }
}

// The names of the operations in error messages.
const WRITING: &str = "writing to the vault";
const REMOVING: &str = "removing from the vault";

/// Fails if a name is empty or too long.
fn check_name(space: Space, name: &str) -> Result<(), VaultError> {
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(()),
        length => Err(VaultError::Name { space, length }),
    }
}

#[cfg(test)]
mod tests;
