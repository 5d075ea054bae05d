//! Where the rows are: the one room that knows which database it is.
//!
//! Every transaction begins here, and every statement goes through [`query`]. What really differs between databases is
//! in a file for each.

mod query;
pub(crate) mod sqlite;

use std::{path::Path, sync::Arc};

use sqlx::{Sqlite, SqliteConnection, pool::PoolConnection};

pub(crate) use query::{Bind, Query, QueryBuilder, query, query_scalar, values};

use crate::{Store, StoreError};

/// What a transaction may do, and what its commit promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writing {
    /// The commit waits until all of it is on the disk. Otherwise, a power cut can undo it; a crash of this process
    /// cannot.
    pub(crate) durably: bool,
    /// It overwrites what it deletes, so that the file does not keep it.
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
}

pub(crate) enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
}

/// What an error says: which database, and what was to be done with it.
#[derive(Clone)]
pub(crate) struct Place {
    path: Arc<Path>,
    doing: &'static str,
}

impl Place {
    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        StoreError::from_sqlx(self.doing, &self.path, error)
    }
}

impl Transaction {
    fn connection(&mut self) -> Connection<'_> {
        match &mut self.on {
            On::Reading(connection) => Connection::Sqlite(connection),
            On::Writing(transaction) => Connection::Sqlite(transaction),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Runs the statements of a script.
    pub(crate) async fn run_script(&mut self, script: &'static str) -> Result<(), StoreError> {
        let done = match self.connection() {
            Connection::Sqlite(connection) => sqlx::raw_sql(script).execute(connection).await.map(drop),
        };
        done.map_err(|error| self.place.error(error))
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let done = match self.on {
            On::Reading(_) => Ok(()),
            On::Writing(transaction) => transaction.commit().await,
        };
        done.map_err(|error| self.place.error(error))
    }
}

impl Store {
    /// A connection to read from.
    pub(crate) async fn read(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        let place = self.place(doing);
        match self.file.pool.acquire().await {
            Ok(connection) => Ok(Transaction { on: On::Reading(connection), place }),
            Err(error) => Err(place.error(error)),
        }
    }

    /// Begins a transaction in which all statements read the same state of the database.
    pub(crate) async fn read_at_once(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_with("BEGIN", doing).await
    }

    /// Begins a write transaction. A power cut can undo it after its commit; a crash of this process cannot.
    pub(crate) async fn begin(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing::default(), doing).await
    }

    /// Begins a write transaction whose commit waits until all of it is on the disk.
    pub(crate) async fn begin_durably(&self, doing: &'static str) -> Result<Transaction, StoreError> {
        self.begin_to(Writing { durably: true, erasing: false }, doing).await
    }

    /// Begins a write transaction that overwrites what it deletes, so that the file does not keep it.
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
        self.begin_with(self.file.begin(writing), doing).await
    }

    async fn begin_with(&self, begin: &'static str, doing: &'static str) -> Result<Transaction, StoreError> {
        let place = self.place(doing);
        match self.file.pool.begin_with(begin).await {
            Ok(transaction) => Ok(Transaction { on: On::Writing(transaction), place }),
            Err(error) => Err(place.error(error)),
        }
    }

    fn place(&self, doing: &'static str) -> Place {
        Place { path: Arc::clone(&self.file.path), doing }
    }
}
