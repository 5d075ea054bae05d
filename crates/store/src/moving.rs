//! Moves the rows of files into Postgres, one transaction for each file, so that a run that failed can begin again.

use crate::{
    Database, Store, StoreError,
    audit::{Break, Chain, verify},
    database::{Transaction, clear, copy, count, query, query_scalar},
};

/// The tables of a tenant. A table whose rows refer to another table comes after that table.
const TABLES: [&str; 20] = [
    "servers",
    "server_tools",
    "approvals",
    "refusals",
    "answers",
    "server_log",
    "sessions",
    "messages",
    "chores",
    "vault",
    "vault_salt",
    "vault_retired",
    "leases",
    "audit",
    "audit_head",
    "audit_exports",
    "pinned_servers",
    "pins",
    "quarantine",
    "quota_uses",
];

/// The tables of a team. Replicas and their homes are not moved, because the processes that they describe have ended.
const TEAM_TABLES: [&str; 5] = ["team_members", "team_tokens", "team_clients", "team_grants", "team_departures"];

/// Tables in which a new database has a row already.
const TABLES_WITH_A_FIRST_ROW: [&str; 1] = ["audit_head"];

const MOVING: &str = "moving the rows of a file";

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveReport {
    /// Each table, and how many rows it has in the file and now in Postgres.
    pub tables: Vec<(&'static str, u64)>,
    /// The state of the audit log, the same before and after.
    pub audit: Result<Chain, Break>,
    /// Whether an earlier run had moved the rows.
    pub were_already_moved: bool,
}

/// Why rows cannot be moved. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// A database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Postgres has other rows of this tenant.
    #[error("{database} has other rows of this tenant already: {rows} in the table `{table}`")]
    NotEmpty {
        /// The host and the name of the database.
        database: String,
        /// The first table with rows.
        table: &'static str,
        /// The number of its rows.
        rows: u64,
    },
    /// Not all rows have arrived.
    #[error("the table `{table}` has {before} rows in the file and {after} in Postgres: nothing was moved")]
    Incomplete {
        /// The table.
        table: &'static str,
        /// The number of its rows in the file.
        before: u64,
        /// The number of its rows in Postgres after the move.
        after: u64,
    },
    /// The audit log would differ from that in the file.
    #[error("the audit log in Postgres differs from the one in the file: nothing was moved")]
    Audit,
}

impl Database {
    /// Checks that the rows of `source` can be moved to `tenant`; `None` stands for the team. Returns whether they have
    /// been moved already. Changes nothing.
    ///
    /// # Errors
    /// [`MoveError::NotEmpty`] when `tenant` has other rows, so that these cannot be moved; [`MoveError::Store`] when a
    /// database fails.
    pub async fn check_movable(&self, tenant: Option<&str>, source: &Store) -> Result<bool, MoveError> {
        let store = self.target_store(tenant).await?;
        let mut target = store.begin_snapshot(MOVING).await?;
        let mut file = source.begin_snapshot(MOVING).await?;
        let tables = tables(tenant.is_none(), &mut file).await?;
        self.check_target(&tables, &mut file, &mut target).await
    }

    /// Moves all rows of the file `source` to `tenant`; `None` stands for the team. After an error, no row was moved.
    /// The file stays as it is. Encrypted values stay encrypted with the same key. No other program should use the file
    /// meanwhile.
    ///
    /// # Errors
    /// [`MoveError`]
    pub async fn move_rows(&self, tenant: Option<&str>, source: &Store) -> Result<MoveReport, MoveError> {
        let store = self.target_store(tenant).await?;
        if tenant.is_none() && has_team(&mut source.begin_read(MOVING).await?).await? {
            // Brings the tables to the newest schema.
            source.with_team().await?;
        }
        let audit = source.verify_audit(None).await?;
        let mut target = store.begin_durably(MOVING).await?;
        let mut file = source.begin_snapshot(MOVING).await?;
        let tables = tables(tenant.is_none(), &mut file).await?;
        let were_already_moved = self.check_target(&tables, &mut file, &mut target).await?;
        let mut moved = Vec::with_capacity(tables.len());
        for table in tables {
            if !were_already_moved {
                if TABLES_WITH_A_FIRST_ROW.contains(&table) {
                    clear(table, &mut target).await?;
                }
                copy(table, &mut file, &mut target).await?;
            }
            let (before, after) = (row_count(table, &mut file).await?, row_count(table, &mut target).await?);
            if before != after {
                return Err(MoveError::Incomplete { table, before, after });
            }
            moved.push((table, after));
        }
        if moved.iter().any(|(table, _)| TEAM_TABLES.contains(table)) {
            raise_version(&mut file, &mut target).await?;
        }
        if verify(&mut target, None).await? != audit {
            return Err(MoveError::Audit);
        }
        target.commit().await?;
        Ok(MoveReport { tables: moved, audit, were_already_moved })
    }

    async fn target_store(&self, tenant: Option<&str>) -> Result<Store, StoreError> {
        match tenant {
            Some(tenant) => self.store(tenant).await,
            None => Ok(Store::clone(&*self.team().await?)),
        }
    }

    /// Returns whether Postgres has the rows of the file. Fails when it has other rows.
    async fn check_target(
        &self,
        tables: &[&'static str],
        file: &mut Transaction,
        target: &mut Transaction,
    ) -> Result<bool, MoveError> {
        let mut first_occupied = None;
        let mut is_same = audit_end(file).await? == audit_end(target).await?;
        for table in tables {
            let (before, after) = (row_count(table, file).await?, row_count(table, target).await?);
            is_same &= before == after;
            if after > 0 && !TABLES_WITH_A_FIRST_ROW.contains(table) && first_occupied.is_none() {
                first_occupied = Some((*table, after));
            }
        }
        match first_occupied {
            Some(_) if is_same => Ok(true),
            Some((table, rows)) => Err(MoveError::NotEmpty { database: self.name().to_owned(), table, rows }),
            None => Ok(false),
        }
    }
}

/// Returns the tables of the file that are moved.
async fn tables(is_of_team: bool, file: &mut Transaction) -> Result<Vec<&'static str>, StoreError> {
    let team_tables = if is_of_team && has_team(file).await? { &TEAM_TABLES[..] } else { &[] };
    Ok(TABLES.iter().chain(team_tables).copied().collect())
}

async fn has_team(file: &mut Transaction) -> Result<bool, StoreError> {
    query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'team_schema')").fetch_one(file).await
}

async fn row_count(table: &str, transaction: &mut Transaction) -> Result<u64, StoreError> {
    Ok(u64::try_from(count(table, transaction).await?).unwrap_or_default())
}

/// Returns the number and the hash of the newest row of the audit log.
async fn audit_end(transaction: &mut Transaction) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
    query("SELECT seq, hash FROM audit_head").fetch_optional(transaction).await
}

/// Sets the version of the team, which counts its changes, to a higher number than in the file. A program that
/// remembers the file's version then reads the members again.
async fn raise_version(file: &mut Transaction, target: &mut Transaction) -> Result<(), StoreError> {
    let file_version: i64 = query_scalar("SELECT version FROM team_version").fetch_one(file).await?;
    let raise = query("UPDATE team_version SET version = CASE WHEN version > $1 THEN version ELSE $1 END + 1");
    raise.bind(file_version).execute(target).await.map(drop)
}

#[cfg(test)]
mod tests;
