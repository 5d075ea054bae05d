//! Grants leases. A lease is the right to do some work that only one process may do at a time. It has a space and a
//! name, like the row of the vault that the work changes.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Space, Vault, VaultError, check_name};
use crate::{
    Store, StoreError,
    database::{Transaction, query, query_scalar},
};

/// The maximum length of a lease. If a stored lease ends later than this, counted from now, the clock was set back
/// after the lease was taken. It then counts as expired.
const MAX_LEASE_LENGTH: Duration = Duration::from_secs(10 * 60);

/// The pause between two tries of a waiting process. With it, twenty waiting processes read one row 800 times a second.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The name of the operation in error messages.
const TAKING: &str = "taking a lease";

/// The exclusive right to some work, until [`Self::release`] or until it expires. A dropped lease, or the lease of a
/// process that has died, stays taken until it expires.
pub struct Lease {
    store: Store,
    space: Space,
    name: String,
    /// The id of this lease, by which the database knows its holder.
    holder: [u8; 16],
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("space", &self.space).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Vault {
    /// Takes the lease of this name for `length`, at most 10 minutes. Returns `None` when another holder has it.
    ///
    /// The clock of the database decides when the lease expires. For a file, this is the clock of the machine.
    ///
    /// # Errors
    /// [`VaultError::Name`], or the database fails.
    pub async fn try_lease(&self, space: Space, name: &str, length: Duration) -> Result<Option<Lease>, VaultError> {
        check_name(space, name)?;
        // Reads first, which waits for no lock, because usually another process holds the lease.
        if self.store.is_leased(space, name).await? {
            return Ok(None);
        }
        Ok(self.store.take_lease(space, name, length.min(MAX_LEASE_LENGTH)).await?)
    }

    /// Takes the lease, and waits up to `max_wait` for its holder to release it. Returns `None` if the holder did not.
    /// With the lease, check first whether the earlier holder has done the work.
    ///
    /// # Errors
    /// [`VaultError::Name`], or the database fails.
    pub async fn lease(
        &self,
        space: Space,
        name: &str,
        length: Duration,
        max_wait: Duration,
    ) -> Result<Option<Lease>, VaultError> {
        let deadline = Instant::now() + max_wait;
        loop {
            let lease = self.try_lease(space, name, length).await?;
            if lease.is_some() || Instant::now() >= deadline {
                return Ok(lease);
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}

impl Lease {
    /// Returns the space of the name.
    #[must_use]
    pub fn space(&self) -> Space {
        self.space
    }

    /// Returns the name of the lease.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the lease back; does nothing if it has expired.
    ///
    /// # Errors
    /// When the database fails; the lease then stays taken until it expires.
    pub async fn release(self) -> Result<(), VaultError> {
        let operation = "giving a lease back";
        let mut transaction = self.store.begin(operation).await?;
        query("DELETE FROM leases WHERE space = $1 AND name = $2 AND holder = $3")
            .bind(self.space.as_str())
            .bind(&self.name)
            .bind(&self.holder[..])
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Fails if the lease is lost. Call it in the transaction whose write depends on the lease.
    pub(super) async fn check_held(&self, transaction: &mut Transaction) -> Result<(), VaultError> {
        let now = transaction.now_millis().await?;
        let holder: Option<Vec<u8>> =
            query_scalar("SELECT holder FROM leases WHERE space = $1 AND name = $2 AND ends_at > $3")
                .bind(self.space.as_str())
                .bind(&self.name)
                .bind(now)
                .fetch_optional(transaction)
                .await?;
        if holder.as_deref() == Some(&self.holder[..]) {
            return Ok(());
        }
        Err(VaultError::LeaseLost { space: self.space, name: self.name.clone() })
    }
}

impl Store {
    /// Returns whether another holder has the lease.
    async fn is_leased(&self, space: Space, name: &str) -> Result<bool, StoreError> {
        let mut transaction = self.begin_read(TAKING).await?;
        let now = transaction.now_millis().await?;
        query_scalar(
            "SELECT EXISTS (SELECT 1 FROM leases WHERE space = $1 AND name = $2 AND ends_at > $3 AND ends_at <= $4)",
        )
        .bind(space.as_str())
        .bind(name)
        .bind(now)
        .bind(now + milliseconds(MAX_LEASE_LENGTH))
        .fetch_one(&mut transaction)
        .await
    }

    /// Takes the lease, unless another holder has it.
    async fn take_lease(&self, space: Space, name: &str, length: Duration) -> Result<Option<Lease>, StoreError> {
        let holder = *Uuid::now_v7().as_bytes();
        let mut transaction = self.begin(TAKING).await?;
        // Reads the clock only now, because the transaction may have waited for seconds before it began.
        let now = transaction.now_millis().await?;
        let changed_rows = query(
            "INSERT INTO leases (space, name, holder, ends_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (space, name) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at \
             WHERE leases.ends_at <= $5 OR leases.ends_at > $6",
        )
        .bind(space.as_str())
        .bind(name)
        .bind(&holder[..])
        .bind(now + milliseconds(length))
        .bind(now)
        .bind(now + milliseconds(MAX_LEASE_LENGTH))
        .execute(&mut transaction)
        .await?;
        transaction.commit().await?;
        let lease = Lease { store: self.clone(), space, name: name.to_owned(), holder };
        Ok((changed_rows > 0).then_some(lease))
    }
}

fn milliseconds(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}
