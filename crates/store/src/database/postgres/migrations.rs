//! Runs the steps that lead from an empty database to the newest schema. No step leads back.
//!
//! The database records two numbers: `version`, the number of its schema, and `least`, the number of the oldest schema
//! whose programs can still use the database. A program uses a newer database as it is if the program's newest schema
//! is at least `least`. So old and new replicas can run side by side for one version.

use std::sync::Arc;

use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use super::{DatabaseSettings, FRONT_DOOR};
use crate::{StoreError, database::ErrorContext, error::DatabaseProblem};

/// The migrations in the order of their numbers, which begin at one.
const MIGRATIONS: [&str; 4] = [
    include_str!("../../../postgres_migrations/0001_start.sql"),
    include_str!("../../../postgres_migrations/0002_team.sql"),
    include_str!("../../../postgres_migrations/0003_replicas.sql"),
    include_str!("../../../postgres_migrations/0004_audit_exports.sql"),
];

/// The newest schema: the number of the last migration.
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// The advisory lock that a program holds while it migrates the database: "toolrack" in ASCII.
const MIGRATION_LOCK: i64 = 0x746f_6f6c_7261_636b;

/// The name of the operation in error messages.
const OPERATION: &str = "bringing the schema up to date";

/// Runs the missing migrations. If another program is running them, waits for that program.
pub(super) async fn run(
    connection: &mut PgConnection,
    name: &Arc<str>,
    settings: &DatabaseSettings,
) -> Result<(), StoreError> {
    let context = ErrorContext::of_server(name, OPERATION);
    let numbers = schema_numbers(connection).await.map_err(|error| context.error(error))?;
    if check_schema(name, numbers)? {
        return Ok(());
    }
    let time_limit = settings.migration_timeout;
    match timeout(time_limit, migrate(connection, name, &context)).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::of_database(name, DatabaseProblem::Migrating)),
    }
}

/// Returns whether a database with these numbers needs no migration. An error if this program is too old for it.
fn check_schema(name: &str, (version, least): (i64, i64)) -> Result<bool, StoreError> {
    match version {
        version if version > SCHEMA_VERSION && least > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: name.into(), found: version, known: SCHEMA_VERSION })
        }
        version => Ok(version >= SCHEMA_VERSION),
    }
}

/// Reads `version` and `least`; both are 0 in an empty database.
async fn schema_numbers(connection: &mut PgConnection) -> sqlx::Result<(i64, i64)> {
    // Statements are not prepared, because a pooler may run the next one on another connection, which does not have the
    // prepared statement.
    let table_query = sqlx::query_scalar("SELECT to_regclass('toolrack_schema') IS NOT NULL").persistent(false);
    match table_query.fetch_one(&mut *connection).await? {
        true => {
            sqlx::query_as("SELECT version, least FROM toolrack_schema").persistent(false).fetch_one(connection).await
        }
        false => Ok((0, 0)),
    }
}

async fn migrate(connection: &mut PgConnection, name: &Arc<str>, context: &ErrorContext) -> Result<(), StoreError> {
    let to_store_error = |error| context.error(error);
    let mut transaction = connection.begin().await.map_err(to_store_error)?;
    let begin = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK}); SET LOCAL toolrack.tenant = '{FRONT_DOOR}'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(begin)).execute(&mut *transaction).await.map_err(to_store_error)?;
    // Another program may have migrated meanwhile.
    let numbers = schema_numbers(&mut transaction).await.map_err(to_store_error)?;
    if check_schema(name, numbers)? {
        return Ok(());
    }
    let (version, _) = numbers;
    // No version is negative.
    for script in MIGRATIONS.into_iter().skip(usize::try_from(version).unwrap_or_default()) {
        sqlx::raw_sql(script).execute(&mut *transaction).await.map_err(to_store_error)?;
    }
    transaction.commit().await.map_err(to_store_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_used_only_if_it_declares_to_be_compatible() {
        assert!(!check_schema("db", (0, 0)).unwrap());
        assert!(check_schema("db", (SCHEMA_VERSION, 1)).unwrap());
        assert!(check_schema("db", (SCHEMA_VERSION + 1, SCHEMA_VERSION)).unwrap());
        let error = check_schema("db", (SCHEMA_VERSION + 2, SCHEMA_VERSION + 1)).unwrap_err();
        assert!(error.to_string().contains("was made by a newer Toolrack"), "{error}");
    }
}
