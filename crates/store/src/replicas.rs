//! Records the replicas (daemons) that serve a team together, and the home of each tenant: the one replica that serves
//! the tenant.
//!
//! A replica counts its heartbeats in its row, and the other replicas (its siblings) watch the number. Each sibling
//! measures with its own clock how long the number has not changed. After a certain time, the silence limit, the
//! replica counts as silent, and a sibling removes it. So the clocks of two machines are never compared, and a failover
//! to a database with another clock does no harm. A home is valid for as long as its replica has a row.
//!
//! The silence limit begins when the replica begins its last [heartbeat](TeamStore::beat). No sibling may remove the
//! replica earlier, so the replica knows until when it may serve tenants.

use crate::{
    StoreError, TeamStore,
    database::{Transaction, query, query_scalar},
    rows::from_row,
};

/// A replica as its siblings see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The id of the replica: random, and another one each time that the replica joins.
    pub id: String,
    /// The address at which its siblings reach it.
    pub address: String,
    /// The public key that proves its identity to its siblings, in DER (`SubjectPublicKeyInfo`, RFC 5280).
    pub public_key: Vec<u8>,
}

/// The last heartbeat of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The replica.
    pub replica: Replica,
    /// How many heartbeats it has written.
    pub number: i64,
}

/// A replica, and how many tenants it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaHomes {
    /// The replica and its last heartbeat.
    pub last: Heartbeat,
    /// How many tenants have their home there.
    pub tenants: i64,
}

/// The replica that serves a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The replica.
    pub replica: Replica,
    /// How many homes this tenant has had, including this one. A later home has a higher number.
    pub epoch: i64,
}

struct ReplicaRow {
    id: String,
    address: String,
    public_key: Vec<u8>,
}

from_row!(ReplicaRow { id, address, public_key });

struct HeartbeatRow {
    beats: i64,
    replica: ReplicaRow,
}

from_row!(HeartbeatRow { beats } flatten replica);

impl HeartbeatRow {
    fn into_heartbeat(self) -> Heartbeat {
        Heartbeat { replica: self.replica.into_replica(), number: self.beats }
    }
}

struct ReplicaHomesRow {
    tenants: i64,
    last_heartbeat: HeartbeatRow,
}

from_row!(ReplicaHomesRow { tenants } flatten last_heartbeat);

struct HomeRow {
    epoch: i64,
    replica: ReplicaRow,
}

from_row!(HomeRow { epoch } flatten replica);

impl ReplicaRow {
    fn into_replica(self) -> Replica {
        Replica { id: self.id, address: self.address, public_key: self.public_key }
    }
}

impl HomeRow {
    fn into_home(self) -> Home {
        Home { replica: self.replica.into_replica(), epoch: self.epoch }
    }
}

impl TeamStore {
    /// Adds `replica`. Removes any other replica with the same address: its process has ended, because two processes
    /// cannot listen on one address. Returns `false`, and changes nothing, if a replica has this id already.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn join_replicas(&self, replica: &Replica) -> Result<bool, StoreError> {
        let mut transaction = self.begin_concurrent("adding a replica").await?;
        let added_rows = query(
            "INSERT INTO team_replicas (id, address, public_key, beats) VALUES ($1, $2, $3, 0) ON CONFLICT (id) DO NOTHING",
        )
        .bind(&replica.id)
        .bind(&replica.address)
        .bind(&replica.public_key[..])
        .execute(&mut transaction)
        .await?;
        if added_rows == 0 {
            return Ok(false);
        }
        query("DELETE FROM team_replicas WHERE address = $1 AND id <> $2")
            .bind(&replica.address)
            .bind(&replica.id)
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Writes a heartbeat of the replica `id`, without waiting for other writers. Returns `false` if a sibling has
    /// removed the replica: it must serve no tenant from now on, and join anew with another id.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. Whether the heartbeat was written is then unknown.
    pub async fn beat(&self, id: &str) -> Result<bool, StoreError> {
        let mut transaction = self.begin_concurrent("writing a heartbeat").await?;
        let update = query("UPDATE team_replicas SET beats = beats + 1 WHERE id = $1").bind(id);
        let changed_rows = update.execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(changed_rows > 0)
    }

    /// Returns the last heartbeat of every replica, ordered by id.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        let mut transaction = self.begin_read("reading the replicas").await?;
        let rows: Vec<HeartbeatRow> = query("SELECT beats, id, address, public_key FROM team_replicas ORDER BY id")
            .fetch_all(&mut transaction)
            .await?;
        Ok(rows.into_iter().map(HeartbeatRow::into_heartbeat).collect())
    }

    /// Returns how many tenants have their home at each replica, ordered by the replicas' addresses.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn replica_homes(&self) -> Result<Vec<ReplicaHomes>, StoreError> {
        let mut transaction = self.begin_read("reading the homes of the replicas").await?;
        let rows: Vec<ReplicaHomesRow> = query(
            "SELECT (SELECT count(*) FROM team_homes h WHERE h.replica = r.id) AS tenants, \
             r.beats, r.id, r.address, r.public_key FROM team_replicas r ORDER BY r.address, r.id",
        )
        .fetch_all(&mut transaction)
        .await?;
        let to_replica_homes =
            |row: ReplicaHomesRow| ReplicaHomes { last: row.last_heartbeat.into_heartbeat(), tenants: row.tenants };
        Ok(rows.into_iter().map(to_replica_homes).collect())
    }

    /// Removes the replica of `last_heartbeat` if that is still its last heartbeat; its tenants have no home then.
    /// Returns `false`, and changes nothing, if the replica has written another heartbeat meanwhile, or was removed
    /// before.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn remove_silent(&self, last_heartbeat: &Heartbeat) -> Result<bool, StoreError> {
        let mut transaction = self.begin_concurrent("removing a silent replica").await?;
        let removed_rows = query("DELETE FROM team_replicas WHERE id = $1 AND beats = $2")
            .bind(&last_heartbeat.replica.id)
            .bind(last_heartbeat.number)
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(removed_rows > 0)
    }

    /// Returns the home of `tenant`, if it has one.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn home(&self, tenant: &str) -> Result<Option<Home>, StoreError> {
        let mut transaction = self.begin_read("reading the home of a tenant").await?;
        Ok(find_home(&mut transaction, tenant).await?.map(HomeRow::into_home))
    }

    /// Returns the home of `tenant`. If the tenant has no home, first makes the replica `id` the home, with an epoch
    /// that is higher by one. If several replicas call this at once, one replica becomes the home, and every caller
    /// gets that home.
    ///
    /// # Errors
    /// [`StoreError::RemovedReplica`] when the tenant has no home and the replica `id` has been removed; others when
    /// the database fails.
    pub async fn home_or_take(&self, tenant: &str, id: &str) -> Result<Home, StoreError> {
        // Most tenants have a home, and reading it waits for no lock.
        if let Some(home) = self.home(tenant).await? {
            return Ok(home);
        }
        let mut transaction = self.begin_concurrent("taking the home of a tenant").await?;
        let home = take_home(&mut transaction, tenant, id).await?;
        transaction.commit().await?;
        Ok(home)
    }

    /// Leaves `tenant` without a home, if its home is the replica `id`. Keeps the epoch, so that the next home has a
    /// higher epoch.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn leave_home(&self, tenant: &str, id: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin_concurrent("giving up the home of a tenant").await?;
        query("UPDATE team_homes SET replica = NULL WHERE tenant = $1 AND replica = $2")
            .bind(tenant)
            .bind(id)
            .execute(&mut transaction)
            .await?;
        transaction.commit().await
    }

    /// Removes the replica `id`; its tenants have no home then.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn leave_replicas(&self, id: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin_concurrent("removing a replica").await?;
        query("DELETE FROM team_replicas WHERE id = $1").bind(id).execute(&mut transaction).await?;
        transaction.commit().await
    }
}

/// Makes the replica `id` the home of `tenant`, unless the tenant has a home. Returns the home.
async fn take_home(transaction: &mut Transaction, tenant: &str, id: &str) -> Result<Home, StoreError> {
    // This creates and locks the row, so that other replicas that want to be this home wait.
    query(
        "INSERT INTO team_homes (tenant, epoch) VALUES ($1, 0) \
         ON CONFLICT (tenant) DO UPDATE SET epoch = team_homes.epoch",
    )
    .bind(tenant)
    .execute(transaction)
    .await?;
    if let Some(row) = find_home(transaction, tenant).await? {
        return Ok(row.into_home());
    }
    let has_joined: bool = query_scalar("SELECT EXISTS (SELECT 1 FROM team_replicas WHERE id = $1)")
        .bind(id)
        .fetch_one(transaction)
        .await?;
    if has_joined {
        query("UPDATE team_homes SET replica = $2, epoch = epoch + 1 WHERE tenant = $1")
            .bind(tenant)
            .bind(id)
            .execute(transaction)
            .await?;
        // A sibling may have removed this replica meanwhile.
        if let Some(row) = find_home(transaction, tenant).await? {
            return Ok(row.into_home());
        }
    }
    Err(StoreError::RemovedReplica { id: id.to_owned() })
}

/// Reads the home of a tenant; `None` if it has none.
async fn find_home(transaction: &mut Transaction, tenant: &str) -> Result<Option<HomeRow>, StoreError> {
    query(
        "SELECT h.epoch, r.id, r.address, r.public_key FROM team_homes h \
         JOIN team_replicas r ON r.id = h.replica WHERE h.tenant = $1",
    )
    .bind(tenant)
    .fetch_optional(transaction)
    .await
}

#[cfg(test)]
#[cfg(feature = "postgres")]
mod needs_postgres;
#[cfg(test)]
mod tests;
