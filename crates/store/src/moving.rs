//! Moves the rows of SQLite files into Postgres. Each file is one transaction, so that a run that failed can begin
//! again.

use crate::{
    Database, Store, StoreError,
    audit::{Break, Chain, verify},
    database::{Transaction, clear, copy, count, query, query_scalar},
};

/// The tables of a tenant, in the order in which they are copied: a table comes after the tables to which its rows
/// refer.
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

/// The tables that have a row in a new database.
const TABLES_WITH_A_FIRST_ROW: [&str; 1] = ["audit_head"];

/// The name of the operation in error messages.
const MOVING: &str = "moving the rows of a file";

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveReport {
    /// Each table, and how many rows it has in the file and now in Postgres.
    pub tables: Vec<(&'static str, u64)>,
    /// The state of the audit log, which is the same in the file and in Postgres.
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
    /// Postgres has another number of rows after the move.
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
    /// [`MoveError`] says which rows are in the way or missing, or which database fails.
    pub async fn move_rows(&self, tenant: Option<&str>, source: &Store) -> Result<MoveReport, MoveError> {
        let store = self.target_store(tenant).await?;
        if tenant.is_none() && has_team(&mut source.begin_read(MOVING).await?).await? {
            // Brings the tables to the newest schema.
            source.with_team().await?;
        }
        let chain = source.verify_audit(None).await?;
        let mut target = store.begin_durably(MOVING).await?;
        let mut file = source.begin_snapshot(MOVING).await?;
        let tables = tables(tenant.is_none(), &mut file).await?;
        let were_already_moved = self.check_target(&tables, &mut file, &mut target).await?;
        let mut moved_tables = Vec::with_capacity(tables.len());
        for table in tables {
            if !were_already_moved {
                if TABLES_WITH_A_FIRST_ROW.contains(&table) {
                    clear(table, &mut target).await?;
                }
                copy(table, &mut file, &mut target).await?;
            }
            let (rows_in_file, rows_in_target) =
                (row_count(table, &mut file).await?, row_count(table, &mut target).await?);
            if rows_in_file != rows_in_target {
                return Err(MoveError::Incomplete { table, before: rows_in_file, after: rows_in_target });
            }
            moved_tables.push((table, rows_in_target));
        }
        if moved_tables.iter().any(|(table, _)| TEAM_TABLES.contains(table)) {
            raise_version(&mut file, &mut target).await?;
        }
        if verify(&mut target, None).await? != chain {
            return Err(MoveError::Audit);
        }
        target.commit().await?;
        Ok(MoveReport { tables: moved_tables, audit: chain, were_already_moved })
    }

    /// Opens the store of `tenant`, or of the team for `None`.
    async fn target_store(&self, tenant: Option<&str>) -> Result<Store, StoreError> {
        match tenant {
            Some(tenant) => self.store(tenant).await,
            None => Ok(Store::clone(&*self.team().await?)),
        }
    }

    /// Returns whether Postgres has the rows of the file already. An error if Postgres has other rows.
    async fn check_target(
        &self,
        tables: &[&'static str],
        file: &mut Transaction,
        target: &mut Transaction,
    ) -> Result<bool, MoveError> {
        let mut first_non_empty = None;
        let mut are_same = audit_end(file).await? == audit_end(target).await?;
        for table in tables {
            let (rows_in_file, rows_in_target) = (row_count(table, file).await?, row_count(table, target).await?);
            are_same &= rows_in_file == rows_in_target;
            if rows_in_target > 0 && !TABLES_WITH_A_FIRST_ROW.contains(table) && first_non_empty.is_none() {
                first_non_empty = Some((*table, rows_in_target));
            }
        }
        match first_non_empty {
            Some(_) if are_same => Ok(true),
            Some((table, rows)) => Err(MoveError::NotEmpty { database: self.name().to_owned(), table, rows }),
            None => Ok(false),
        }
    }
}

/// Returns the tables of the file that are moved.
async fn tables(includes_team: bool, file: &mut Transaction) -> Result<Vec<&'static str>, StoreError> {
    let team_tables = if includes_team && has_team(file).await? { &TEAM_TABLES[..] } else { &[] };
    Ok(TABLES.iter().chain(team_tables).copied().collect())
}

/// Returns whether the file has the tables of a team.
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

/// Sets the version of the team to a higher number than in the file. The version counts the changes of the team, so a
/// program that remembers the file's version then reads the members again.
async fn raise_version(file: &mut Transaction, target: &mut Transaction) -> Result<(), StoreError> {
    let file_version: i64 = query_scalar("SELECT version FROM team_version").fetch_one(file).await?;
    let raise = query("UPDATE team_version SET version = CASE WHEN version > $1 THEN version ELSE $1 END + 1");
    raise.bind(file_version).execute(target).await.map(drop)
}

#[cfg(test)]
mod tests;
