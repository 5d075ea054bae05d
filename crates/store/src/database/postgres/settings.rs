//! The settings of the connections to a Postgres database, and the time-outs of its operations.

use std::{fmt, time::Duration};

/// How to connect to a database. Each duration limits a wait. When a wait takes longer, the error names the setting.
#[derive(Clone)]
pub struct DatabaseSettings {
    /// The URL of the database: `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=verify-full`, or with `?host=FOLDER`
    /// for a socket. Parts that the URL leaves out come from libpq's variables (`PGHOST`, …) and password file. No
    /// message contains the URL.
    pub url: String,
    /// The maximum number of connections of this process.
    pub most_connections: u32,
    /// How long the first connection may take.
    pub connect_timeout: Duration,
    /// How long an operation waits for a free connection, or for the database to come back.
    pub acquire_timeout: Duration,
    /// How long the schema may take to be brought up to date, by this program or another one.
    pub migration_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// How long a writer waits for other writers of its tenant.
    pub lock_timeout: Duration,
    /// How long a transaction may be idle before the database ends it, so that a frozen process does not keep its
    /// locks.
    pub idle_transaction_timeout: Duration,
    /// Whether connections keep prepared statements, which saves a round trip for each statement. A pooler in front of
    /// the database must then support prepared statements (PgBouncer from 1.21, with `max_prepared_statements`).
    pub prepared_statements: bool,
}

impl DatabaseSettings {
    /// The default settings for the database at `url`.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let seconds = Duration::from_secs;
        Self {
            url: url.into(),
            most_connections: 20,
            connect_timeout: seconds(5),
            acquire_timeout: seconds(5),
            migration_timeout: seconds(60),
            statement_timeout: seconds(15),
            lock_timeout: seconds(5),
            idle_transaction_timeout: seconds(30),
            prepared_statements: false,
        }
    }
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most_connections, statement_timeout, lock_timeout, .. } = self;
        f.debug_struct("DatabaseSettings")
            .field("most_connections", most_connections)
            .field("statement_timeout", statement_timeout)
            .field("lock_timeout", lock_timeout)
            .finish_non_exhaustive()
    }
}
