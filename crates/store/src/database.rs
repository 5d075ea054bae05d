//! Runs transactions on the database. Only this module knows whether that is SQLite or Postgres.
//!
//! Every transaction begins here, and every statement goes through [`query`]. `sqlite` and `postgres` have the code
//! that differs between the databases. Futures of Postgres are large, so they are boxed: a program on SQLite then never
//! copies them.

#[cfg(feature = "postgres")]
mod copy;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod query;
pub(crate) mod sqlite;

use std::{path::Path, sync::Arc};

use sqlx::{Sqlite, SqliteConnection, pool::PoolConnection};

#[cfg(feature = "postgres")]
pub(crate) use copy::{clear, copy, count};
pub(crate) use query::{Bind, Query, QueryBuilder, query, query_scalar, values};

use crate::{Store, StoreError};

/// The database of a store.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Sqlite(sqlite::File),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Tenant),
}

/// The properties of a write transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// If `true`, the commit waits until the whole transaction is on the disk. If `false`, a power cut can undo the
    /// transaction; a crash of this process cannot.
    pub(crate) is_durable: bool,
    /// Whether the transaction overwrites the bytes that it deletes, so that they do not stay in the file.
    pub(crate) overwrites_deleted: bool,
    /// Whether the transaction waits only for writers of the same rows, and not for all writers of its tenant. This has
    /// no effect on SQLite, which has one writer at a time.
    pub(crate) is_concurrent: bool,
}

/// The connection on which some statements run, inside a transaction. Reads from SQLite need no transaction, so they
/// run on the connection alone.
///
/// If it is dropped without a commit, its changes are undone.
pub(crate) struct Transaction {
    handle: Handle,
    context: ErrorContext,
}

/// The connection of a [`Transaction`], which keeps it for as long as it lives.
enum Handle {
    /// A connection to SQLite, to read without a transaction.
    Connection(PoolConnection<Sqlite>),
    Transaction(sqlx::Transaction<'static, Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Session),
}

/// The borrowed connection of a [`Transaction`], for one statement.
pub(crate) enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(&'a mut postgres::Session),
}

/// The information that each error contains: the database, and the operation that failed.
#[derive(Clone, Debug)]
pub(crate) struct ErrorContext {
    database: DatabaseName,
    operation: &'static str,
}

/// The path of a file, or the host and the name of a database on a server.
#[derive(Clone, Debug)]
enum DatabaseName {
    File(Arc<Path>),
    #[cfg(feature = "postgres")]
    Server(Arc<str>),
}

impl ErrorContext {
    #[cfg(feature = "postgres")]
    pub(crate) fn of_server(name: &Arc<str>, operation: &'static str) -> Self {
        Self { database: DatabaseName::Server(Arc::clone(name)), operation }
    }

    /// Returns the error for an error of sqlx in this operation.
    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        match &self.database {
            DatabaseName::File(path) => StoreError::from_sqlx(self.operation, path, error),
            #[cfg(feature = "postgres")]
            DatabaseName::Server(name) => StoreError::from_postgres(self.operation, name, error),
        }
    }
}

impl Transaction {
    /// Returns the connection for the next statement.
    fn connection(&mut self) -> Connection<'_> {
        match &mut self.handle {
            Handle::Connection(connection) => Connection::Sqlite(connection),
            Handle::Transaction(transaction) => Connection::Sqlite(transaction),
            #[cfg(feature = "postgres")]
            Handle::Postgres(session) => Connection::Postgres(session),
        }
    }

    pub(crate) fn context(&self) -> &ErrorContext {
        &self.context
    }

    /// Returns the time in milliseconds since 1970, by one clock for all programs that use the database. For a file,
    /// this is the clock of the machine. For Postgres, it is the clock of the server, because the clocks of its clients
    /// may be minutes apart.
    pub(crate) async fn now_millis(&mut self) -> Result<i64, StoreError> {
        match &self.handle {
            Handle::Connection(_) | Handle::Transaction(_) => Ok(chrono::Utc::now().timestamp_millis()),
            #[cfg(feature = "postgres")]
            Handle::Postgres(_) => {
                let select_now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
                Box::pin(query_scalar(select_now).fetch_one(self)).await
            }
        }
    }

    /// Runs the statements of a script.
    pub(crate) async fn run_script(&mut self, script: &'static str) -> Result<(), StoreError> {
        let result = match self.connection() {
            Connection::Sqlite(connection) => sqlx::raw_sql(script).execute(connection).await.map(drop),
            #[cfg(feature = "postgres")]
            Connection::Postgres(session) => {
                let (connection, limit, _) = session.start_statement();
                let result =
                    Box::pin(postgres::with_time_limit(limit, sqlx::raw_sql(script).execute(connection))).await;
                session.end_statement(result).map(drop)
            }
        };
        result.map_err(|error| self.context.error(error))
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let result = match self.handle {
            Handle::Connection(_) => Ok(()),
            Handle::Transaction(transaction) => transaction.commit().await,
            #[cfg(feature = "postgres")]
            Handle::Postgres(session) => Box::pin(session.commit()).await,
        };
        result.map_err(|error| self.context.error(error))
    }
}

impl Store {
    /// Returns a connection to read from. In this and the following functions, `operation` is the name of the operation
    /// in error messages, such as "reading pins".
    pub(crate) async fn begin_read(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        let context = self.context(operation);
        match &self.backend {
            Backend::Sqlite(file) => match file.pool.acquire().await {
                Ok(connection) => Ok(Transaction { handle: Handle::Connection(connection), context }),
                Err(error) => Err(context.error(error)),
            },
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => {
                Ok(Transaction { handle: Handle::Postgres(Box::pin(tenant.begin_read(&context)).await?), context })
            }
        }
    }

    /// Begins a transaction in which all statements read the same state of the database.
    pub(crate) async fn begin_snapshot(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        let context = self.context(operation);
        match &self.backend {
            // In WAL mode, a transaction that only reads keeps no writer waiting.
            Backend::Sqlite(file) => begin_with("BEGIN", file, context).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => {
                Ok(Transaction { handle: Handle::Postgres(Box::pin(tenant.begin_snapshot(&context)).await?), context })
            }
        }
    }

    /// Begins a write transaction. A power cut can undo it after its commit; a crash of this process cannot.
    pub(crate) async fn begin(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        self.begin_writing(WriteMode::default(), operation).await
    }

    /// Begins a write transaction whose commit waits until all of it is on the disk.
    pub(crate) async fn begin_durably(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        self.begin_writing(WriteMode { is_durable: true, ..WriteMode::default() }, operation).await
    }

    /// Begins a write transaction that overwrites the bytes of deleted rows, so that a file does not keep them.
    pub(crate) async fn begin_erasing(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        self.begin_writing(WriteMode { overwrites_deleted: true, ..WriteMode::default() }, operation).await
    }

    /// Begins a write transaction that overwrites the bytes of deleted rows, and whose commit waits until all of it is
    /// on the disk.
    pub(crate) async fn begin_erasing_durably(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        self.begin_writing(WriteMode { is_durable: true, overwrites_deleted: true, ..WriteMode::default() }, operation)
            .await
    }

    /// Begins a write transaction for rows that need no common order. It may run at the same time as other transactions
    /// of its tenant. Its commit waits until all of it is on the disk.
    pub(crate) async fn begin_concurrent(&self, operation: &'static str) -> Result<Transaction, StoreError> {
        self.begin_writing(WriteMode { is_durable: true, is_concurrent: true, ..WriteMode::default() }, operation).await
    }

    /// Runs one statement in its own write transaction, and returns how many rows the statement has changed.
    pub(crate) async fn write(&self, query: Query, operation: &'static str) -> Result<u64, StoreError> {
        let mut transaction = self.begin(operation).await?;
        let changed_rows = query.execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(changed_rows)
    }

    /// Begins a write transaction with these properties.
    async fn begin_writing(&self, mode: WriteMode, operation: &'static str) -> Result<Transaction, StoreError> {
        let context = self.context(operation);
        match &self.backend {
            Backend::Sqlite(file) => begin_with(file.begin_statement(mode), file, context).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => Ok(Transaction {
                handle: Handle::Postgres(Box::pin(tenant.begin_write(mode, &context)).await?),
                context,
            }),
        }
    }

    /// Returns the information for the errors of this operation.
    fn context(&self, operation: &'static str) -> ErrorContext {
        let database = match &self.backend {
            Backend::Sqlite(file) => DatabaseName::File(Arc::clone(&file.path)),
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => DatabaseName::Server(Arc::clone(tenant.name())),
        };
        ErrorContext { database, operation }
    }
}

/// Begins a transaction on SQLite with the statement `begin_sql`.
async fn begin_with(
    begin_sql: &'static str,
    file: &sqlite::File,
    context: ErrorContext,
) -> Result<Transaction, StoreError> {
    match file.pool.begin_with(begin_sql).await {
        Ok(transaction) => Ok(Transaction { handle: Handle::Transaction(transaction), context }),
        Err(error) => Err(context.error(error)),
    }
}
