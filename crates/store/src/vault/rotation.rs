//! Replaces the key of the vault.
//!
//! One transaction seals all rows with the new key and records that the old one is retired. From then on, a vault with
//! the old key writes nothing and cannot read the rows: it gets [`VaultError::Retired`].

use super::{Row, Space, Vault, VaultError, VaultKey, seal::Sealer};
use crate::{
    Store, StoreError,
    database::{Transaction, query, query_scalar},
    now,
};

// The names of the operations in error messages.
const CHANGING: &str = "changing the key of the vault";
const CHECKING: &str = "checking the key of the vault";

impl Vault {
    /// Seals all rows with `key`, retires the key of this vault, and returns the number of rows. The change is on the
    /// disk when this returns. After an error of the database, the key may have changed: open a vault with the new key,
    /// and ask [`Self::is_successor`]. After any other error, the key has not changed.
    ///
    /// Afterwards, open a vault with the new key: this vault and its clones fail with [`VaultError::Retired`].
    ///
    /// # Errors
    /// [`VaultError::Retired`] when another key has already replaced the key of this vault. [`VaultError::NotNew`] when
    /// `key` is or was in use. [`VaultError::OtherKey`] or [`VaultError::Damaged`] with the name of the first row that
    /// does not open. [`VaultError::Passphrase`] or [`VaultError::NoRandomness`] when the new key cannot be made.
    /// [`VaultError::Store`] when the database fails.
    pub async fn change_key(&self, key: VaultKey) -> Result<usize, VaultError> {
        let new_sealer = key.sealer(&self.store).await?;
        let mut transaction = self.store.begin_erasing_durably(CHANGING).await?;
        self.check_key(&mut transaction).await?;
        if new_sealer.key_id() == self.sealer.key_id()
            || self.store.is_retired(&mut transaction, new_sealer.key_id()).await?
        {
            return Err(VaultError::NotNew);
        }
        let mut row_count = 0;
        for space in Space::ALL {
            let names: Vec<String> = query_scalar("SELECT name FROM vault WHERE space = $1 ORDER BY name")
                .bind(space.as_str())
                .fetch_all(&mut transaction)
                .await?;
            for name in &names {
                self.reseal(&mut transaction, &new_sealer, space, name).await?;
            }
            row_count += names.len();
        }
        query("INSERT INTO vault_retired (key_id, successor, retired_at) VALUES ($1, $2, $3)")
            .bind(self.sealer.key_id())
            .bind(new_sealer.key_id())
            .bind(now())
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(row_count)
    }

    /// Seals one row with the new key.
    async fn reseal(
        &self,
        transaction: &mut Transaction,
        new_sealer: &Sealer,
        space: Space,
        name: &str,
    ) -> Result<(), VaultError> {
        let (key_id, nonce, sealed): Row =
            query("SELECT key_id, nonce, sealed FROM vault WHERE space = $1 AND name = $2")
                .bind(space.as_str())
                .bind(name)
                .fetch_one(transaction)
                .await?;
        if key_id != self.sealer.key_id() {
            return Err(VaultError::OtherKey { space, name: name.to_owned() });
        }
        let value = self.sealer.open(space, name, &nonce, &sealed);
        let value = value.ok_or_else(|| VaultError::Damaged { space, name: name.to_owned() })?;
        let (nonce, sealed) = new_sealer.seal(space, name, &value)?;
        // Does not set `changed_at`, because the value has not changed.
        query("UPDATE vault SET key_id = $1, nonce = $2, sealed = $3 WHERE space = $4 AND name = $5")
            .bind(new_sealer.key_id())
            .bind(nonce)
            .bind(sealed)
            .bind(space.as_str())
            .bind(name)
            .execute(transaction)
            .await?;
        Ok(())
    }

    /// Returns whether the key of this vault has replaced another one and has not been replaced itself.
    ///
    /// # Errors
    /// [`VaultError::Store`] when the database fails.
    pub async fn is_successor(&self) -> Result<bool, VaultError> {
        let mut connection = self.store.begin_read(CHECKING).await?;
        let result = query_scalar(
            "SELECT EXISTS (SELECT 1 FROM vault_retired WHERE successor = $1) \
             AND NOT EXISTS (SELECT 1 FROM vault_retired WHERE key_id = $1)",
        )
        .bind(self.sealer.key_id())
        .fetch_one(&mut connection)
        .await;
        Ok(result?)
    }

    /// Fails if another key has replaced the key of this vault.
    pub(super) async fn check_key(&self, connection: &mut Transaction) -> Result<(), VaultError> {
        match self.store.is_retired(connection, self.sealer.key_id()).await? {
            true => Err(VaultError::Retired),
            false => Ok(()),
        }
    }
}

impl Store {
    /// Returns whether another key has replaced the key with this id.
    async fn is_retired(&self, connection: &mut Transaction, key_id: &[u8]) -> Result<bool, StoreError> {
        query_scalar("SELECT EXISTS (SELECT 1 FROM vault_retired WHERE key_id = $1)")
            .bind(key_id)
            .fetch_one(connection)
            .await
    }

    /// Returns when the key of the vault was changed last, in seconds since 1970; `None` if it never was.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn key_changed_at(&self) -> Result<Option<i64>, StoreError> {
        query_scalar("SELECT MAX(retired_at) FROM vault_retired").fetch_one(&mut self.begin_read(CHECKING).await?).await
    }
}

#[cfg(test)]
mod tests;
