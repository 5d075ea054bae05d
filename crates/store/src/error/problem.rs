//! Says why a database server cannot be used, and what to do about it.

#[cfg(feature = "postgres")]
use std::io::ErrorKind;

#[cfg(feature = "postgres")]
use super::StoreError;

/// The `path` in errors about a database server, which has no file. It does not name the server, because the callers of
/// tools get these errors, too, and must not learn where the server is.
#[cfg(feature = "postgres")]
const PATH_PLACEHOLDER: &str = "the database";

/// Why a database server cannot do an operation. Each message continues the words "the database", and names the setting
/// to change, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseProblem {
    /// The URL of the database cannot be read.
    #[error("has a URL that cannot be parsed: write it as postgres://USER:PASSWORD@HOST/NAME")]
    Url,
    /// No tenant can have this name: `*` stands for the rows that are read before the tenant is known.
    #[error("cannot store rows of a tenant whose name is empty, contains NUL or is `*`")]
    Tenant,
    /// The server does not answer.
    #[error("cannot be reached: check its URL, that it runs, and `connect_timeout` and `acquire_timeout`")]
    Unreachable,
    /// The server refuses the user or the password.
    #[error("refuses the user or the password of its URL")]
    Credentials,
    /// There is no such database.
    #[error("does not exist: make it with `CREATE DATABASE`")]
    Missing,
    /// The URL's user lacks a right.
    #[error(
        "denies its user a right: make that user the owner of the database and its tables, or `GRANT CREATE ON SCHEMA public`"
    )]
    Rights,
    /// Row-level security does not bind the URL's user.
    #[error(
        "has a user that row-level security does not bind: use another one (`CREATE ROLE toolrack LOGIN NOSUPERUSER NOBYPASSRLS`)"
    )]
    Role,
    /// The server is too old.
    #[error("is Postgres {found}: use version 15 or newer")]
    Version {
        /// The version of the server.
        found: i64,
    },
    /// Another process is still migrating the schema.
    #[error("is still being migrated to the newest schema after `migration_timeout`: look at the other replicas")]
    Migrating,
    /// No connection was free in time.
    #[error("had no free connection within `acquire_timeout`: raise `most_connections`, or its own `max_connections`")]
    Connections,
    /// The server ended a statement that took too long.
    #[error("needed longer than `statement_timeout` for a statement")]
    Slow,
    /// Other writers of the tenant held the lock for too long.
    #[error("was locked by other writers of the same tenant for longer than `lock_timeout`: try again")]
    Busy,
    /// The transaction conflicted with another one.
    #[error("rolled a change back because of another one at the same time: try again")]
    Conflict,
    /// The server ended a transaction that was idle for too long.
    #[error("ended a transaction that was idle for longer than `idle_transaction_timeout`: try again")]
    Idle,
    /// The server accepts no writes.
    #[error("accepts no writes, because it is a standby: use the URL of the primary")]
    Standby,
    /// The server lacks memory or another resource.
    #[error("lacks memory or reached a limit of its own: look at its log")]
    Resources,
}

#[cfg(feature = "postgres")]
impl StoreError {
    /// Returns the error for a problem of the database server `name` that this program found without an error of
    /// Postgres.
    pub(crate) fn of_database(name: &str, problem: DatabaseProblem) -> Self {
        Self::Database { database: name.to_owned(), problem, source: None }
    }

    /// Converts an error of sqlx or Postgres (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
    pub(crate) fn from_postgres(operation: &'static str, name: &str, error: sqlx::Error) -> Self {
        match database_problem(&error) {
            Some(problem) => Self::Database { database: name.to_owned(), problem, source: Some(Box::new(error)) },
            // The disk is full.
            None if postgres_code(&error) == Some("53100") => Self::Full { path: PATH_PLACEHOLDER.into() },
            None => Self::Other { path: PATH_PLACEHOLDER.into(), operation, source: Box::new(error) },
        }
    }
}

/// Returns the error code of Postgres, five characters (SQLSTATE).
#[cfg(feature = "postgres")]
fn postgres_code(error: &sqlx::Error) -> Option<&str> {
    let error = error.as_database_error()?.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?;
    Some(error.code())
}

/// Returns the problem behind an error; `None` for an unexpected error.
#[cfg(feature = "postgres")]
fn database_problem(error: &sqlx::Error) -> Option<DatabaseProblem> {
    match error {
        sqlx::Error::PoolTimedOut => return Some(DatabaseProblem::Connections),
        // `with_time_limit` makes this error for a statement that took longer than its limit.
        sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut => return Some(DatabaseProblem::Slow),
        // A pool is closed only at exit, when the advice on the URL reaches no user.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed => {
            return Some(DatabaseProblem::Unreachable);
        }
        _ => {}
    }
    problem_of_code(postgres_code(error)?)
}

/// Returns whether Postgres ends the connection with this error code. Codes of class 08 mean a failed connection. The
/// other codes mean that the server shuts down or starts, or that the connection was idle for too long
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
#[cfg(feature = "postgres")]
pub(crate) fn ends_connection(code: &str) -> bool {
    code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05")
}

/// Returns the problem behind an error code of Postgres.
#[cfg(feature = "postgres")]
fn problem_of_code(code: &str) -> Option<DatabaseProblem> {
    Some(match code {
        "25006" => DatabaseProblem::Standby,
        "25P03" => DatabaseProblem::Idle,
        "3D000" => DatabaseProblem::Missing,
        "40001" | "40P01" => DatabaseProblem::Conflict,
        "42501" => DatabaseProblem::Rights,
        "53300" => DatabaseProblem::Connections,
        "53000" | "53200" | "53400" => DatabaseProblem::Resources,
        "55P03" => DatabaseProblem::Busy,
        "57014" => DatabaseProblem::Slow,
        code if ends_connection(code) => DatabaseProblem::Unreachable,
        code if code.starts_with("28") => DatabaseProblem::Credentials,
        _ => return None,
    })
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn no_error_of_a_database_server_says_where_it_is_because_callers_read_it_too() {
        let of = |error| StoreError::from_postgres("testing", "db.internal/tools", error);
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::PoolClosed, sqlx::Error::RowNotFound] {
            let error = of(error);
            assert!(!error.to_string().contains("internal"), "{error}");
        }
        assert_eq!(of(sqlx::Error::PoolClosed).database(), Some("db.internal/tools"));
    }

    #[test]
    fn each_code_of_postgres_says_what_to_do() {
        for (code, says) in [
            ("57P01", "cannot be reached"),
            ("57P03", "cannot be reached"),
            ("57P05", "cannot be reached"),
            ("08006", "cannot be reached"),
            ("53300", "`most_connections`"),
            ("53200", "lacks memory"),
            ("40001", "try again"),
            ("40P01", "try again"),
            ("55P03", "`lock_timeout`"),
            ("57014", "`statement_timeout`"),
            ("25P03", "`idle_transaction_timeout`"),
            ("25006", "standby"),
            ("28P01", "the password"),
            ("28000", "the password"),
            ("3D000", "CREATE DATABASE"),
            ("42501", "GRANT"),
        ] {
            let problem = problem_of_code(code).map(|problem| problem.to_string()).unwrap_or_default();
            assert!(problem.contains(says), "{code}: {problem}");
        }
        assert_eq!(problem_of_code("23505"), None);
    }

    #[test]
    fn a_connection_that_was_idle_for_too_long_is_replaced_like_any_other_that_is_lost() {
        for code in ["08006", "57P01", "57P02", "57P03", "57P05"] {
            assert!(ends_connection(code), "{code}");
        }
        for code in ["57014", "23505", "42501"] {
            assert!(!ends_connection(code), "{code}");
        }
    }
}
