//! Where the rows are: the one room that knows which database it is.
//!
//! Every transaction begins here, and every statement goes through [`query`]. What really differs between databases is
//! in a file for each. Futures of Postgres are large, and boxed, so that a program on SQLite does not copy them around.

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

/// What a transaction may do, and what its commit promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writing {
    /// The commit waits until all of it is on the disk. Otherwise, a power cut can undo it; a crash of this process
    /// cannot.
    pub(crate) durably: bool,
    /// It overwrites what it deletes, so that a file does not keep it.
    pub(crate) erasing: bool,
}

/// The connection for some statements: a transaction, but where SQLite needs none to read.
///
/// Dropping it undoes what it has written.
pub(crate) struct Transaction {
    on: On,
    place: Place,
}

enum On {
    Reading(PoolConnection<Sqlite>),
    Writing(sqlx::Transaction<'static, Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Session),
}

pub(crate) enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(&'a mut postgres::Session),
}

/// What an error says: which database, and what was to be done with it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    database: Named,
    doing: &'static str,
}

#[derive(Clone, Debug)]
enum Named {
    File(Arc<Path>),
    #[cfg(feature = "postgres")]
    Server(Arc<str>),
}

impl Place {
    #[cfg(feature = "postgres")]
    pub(crate) fn of_server(name: &Arc<str>, doing: &'static str) -> Self {
        Self { database: Named::Server(Arc::clone(name)), doing }
    }

    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        match &self.database {
            Named::File(path) => StoreError::from_sqlx(self.doing, path, error),
            #[cfg(feature = "postgres")]
            Named::Server(name) => StoreError::from_postgres(self.doing, name, error),
        }
    }
}

impl Transaction {
    fn connection(&mut self) -> Connection<'_> {
        match &mut self.on {
            On::Reading(connection) => Connection::Sqlite(connection),
            On::Writing(transaction) => Connection::Sqlite(transaction),
            #[cfg(feature = "postgres")]
            On::Postgres(session) => Connection::Postgres(session),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Milliseconds since 1970, by the clock that all who use the database share: that of this machine for a file, and that
    /// of the server for Postgres, whose clients may be minutes apart.
    pub(crate) async fn clock(&mut self) -> Result<i64, StoreError> {
        match &self.on {
            On::Reading(_) | On::Writing(_) => Ok(chrono::Utc::now().timestamp_millis()),
            #[cfg(feature = "postgres")]
            On::Postgres(_) => {
                let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
                Box::pin(query_scalar(clock).fetch_one(self)).await
            }
        }
    }

    /// Runs the statements of a script.
    pub(crate) async fn run_script(&mut self, script: &'static str) -> Result<(), StoreError> {
        let done = match self.connection() {
            Connection::Sqlite(connection) => sqlx::raw_sql(script).execute(connection).await.map(drop),
            #[cfg(feature = "postgres")]
            Connection::Postgres(session) => {
                let (connection, limit, _) = session.start();
                let done = Box::pin(postgres::within(limit, sqlx::raw_sql(script).execute(connection))).await;
                session.end(done).map(drop)
            }
        };
        done.map_err(|error| self.place.error(error))
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let done = match self.on {
            On::Reading(_) => Ok(()),
            On::Writing(transaction) => transaction.commit().await,
            #[cfg(feature = "postgres")]
            On::Postgres(session) => Box::pin(session.commit()).await,
        };
        done.map_err(|error| self.place.error(error))
    }
}

impl Store {
    /// A connection to read from.
    pub(crate) async fn read(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        let place = self.place(doing);
        match &self.backend {
            Backend::Sqlite(file) => match file.pool.acquire().await {
                Ok(connection) => Ok(Transaction { on: On::Reading(connection), place }),
                Err(error) => Err(place.error(error)),
            },
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => {
                Ok(Transaction { on: On::Postgres(Box::pin(tenant.read(&place)).await?), place })
            }
        }
    }

    /// Begins a transaction in which all statements read the same state of the database.
    pub(crate) async fn read_at_once(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        let place = self.place(doing);
        match &self.backend {
            Backend::Sqlite(file) => begin_with("BEGIN", file, place).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => {
                Ok(Transaction { on: On::Postgres(Box::pin(tenant.read_at_once(&place)).await?), place })
            }
        }
    }

    /// Begins a write transaction. A power cut can undo it after its commit; a crash of this process cannot.
    pub(crate) async fn begin(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing::default(), doing).await
    }

    /// Begins a write transaction whose commit waits until all of it is on the disk.
    pub(crate) async fn begin_durably(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing { durably: true, erasing: false }, doing).await
    }

    /// Begins a write transaction that overwrites what it deletes, so that a file does not keep it.
    pub(crate) async fn begin_erasing(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing { durably: false, erasing: true }, doing).await
    }

    /// Begins a write transaction that overwrites what it deletes, and whose commit waits until it is on the disk.
    pub(crate) async fn begin_erasing_durably(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing { durably: true, erasing: true }, doing).await
    }

    /// Runs one statement in a write transaction of its own, and returns how many rows it has changed.
    pub(crate) async fn write(&self, query: Query, doing: &'static str) -> Result<u64, StoreError> {
        let mut transaction = self.begin(doing).await?;
        let changed = query.execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(changed)
    }

    async fn begin_to(&self, writing: Writing, doing: &'static str) -> Result<Transaction, StoreError> {
        let place = self.place(doing);
        match &self.backend {
            Backend::Sqlite(file) => begin_with(file.begin(writing), file, place).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => {
                Ok(Transaction { on: On::Postgres(Box::pin(tenant.write(writing, &place)).await?), place })
            }
        }
    }

    fn place(&self, doing: &'static str) -> Place {
        let database = match &self.backend {
            Backend::Sqlite(file) => Named::File(Arc::clone(&file.path)),
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => Named::Server(Arc::clone(tenant.name())),
        };
        Place { database, doing }
    }
}

async fn begin_with(begin: &'static str, file: &sqlite::File, place: Place) -> Result<Transaction, StoreError> {
    match file.pool.begin_with(begin).await {
        Ok(transaction) => Ok(Transaction { on: On::Writing(transaction), place }),
        Err(error) => Err(place.error(error)),
    }
}
