//! What Toolrack remembers across restarts.
//!
//! [`Store`] is one SQLite file: which era of MCP worked with a server (the host's
//! [`Memory`](toolrack_host::Memory)), which entries of a project a person agreed to run ([`Approval`]), which calls a person always lets run ([`StandingAnswer`]), what servers
//! wrote to their logs ([`LogLine`]), what was done, in a chain that shows tampering ([`audit`]), conversations with models
//! ([`Session`]), and, sealed, secrets and tokens ([`Vault`]).
//! [`ArtifactFolder`] keeps what is too long for a model as files (the host's [`Artifacts`](toolrack_host::Artifacts)).
//! Everything is readable by its owner only.
//!
//! This crate knows nothing of how a host or an agent behaves, and has no network.
//!
//! ```
//! use toolrack_host::{Memory, spec::Era};
//! use toolrack_store::Store;
//!
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(folder.path().join("toolrack.db")).await?;
//! store.remember_era("fingerprint", Era::Modern).await;
//! assert_eq!(store.era("fingerprint").await, Some(Era::Modern));
//! store.close().await;
//! # Ok::<(), toolrack_store::StoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A conversation grows by steps, each of which is kept as a whole and says what it goes on from:
//!
//! ```
//! use toolrack_store::{NewMessage, NewSession, Role, Step, Store, StoreError};
//!
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(folder.path().join("toolrack.db")).await?;
//! let session = store.create_session(&NewSession { title: "Greetings".to_owned(), ..NewSession::default() }).await?;
//! let step = Step { messages: vec![NewMessage::new(Role::User, "hello")], ..Step::default() };
//! assert_eq!(store.append(session.id, &step).await?, 1);
//! // Somebody who does not know of that message yet is told so, and nothing is mixed up.
//! assert!(matches!(store.append(session.id, &step).await, Err(StoreError::SessionMoved { found: 1, .. })));
//! assert_eq!(store.find_session("last").await?.title, "Greetings");
//! # store.close().await;
//! # Ok::<(), StoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod approvals;
mod artifacts;
pub mod audit;
mod error;
pub mod journal;
mod log;
mod open;
mod servers;
mod sessions;
pub mod transcript;
mod vault;

use std::{path::PathBuf, time::Duration};

use sqlx::{Sqlite, SqlitePool, Transaction};

pub use answers::StandingAnswer;
pub use approvals::Approval;
pub use artifacts::{ArtifactBounds, ArtifactFolder, Piece, ReadError};
pub use error::StoreError;
pub use log::{LogLine, LogQuery};
pub use sessions::{
    Imported, NewMessage, NewSession, Retention, Role, Session, SessionQuery, SessionTotals, Spent, Step, StoredMessage,
};
pub use uuid::Uuid;
pub use vault::{Lease, Sealed, Space, Vault, VaultError, VaultKey};

/// How long to wait for another process that holds the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same, for those who can do without.
const BRIEF_PATIENCE: Duration = Duration::from_millis(200);

/// The database. Clones share it.
///
/// One connection does everything, one statement after another; other processes may use the same file at the same time
/// (SQLite's WAL mode). Dropping a future leaves the database as if the statement had run or had not.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
    path: PathBuf,
}

impl Store {
    /// Opens the database at `path`, which is made, with its folders, when there is none, and brought to the newest
    /// schema. Waits up to 5 s for another process that is doing the same.
    ///
    /// # Errors
    /// [`StoreError`] says what is in the way and what to do. The file is never replaced.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_within(path.into(), PATIENCE).await
    }

    /// Opens the database at `path` if it is there and of the schema that this version writes; changes neither, and
    /// waits at most 200 ms for another process. `None` when there is nothing that can be read as it is.
    ///
    /// For those who only want to know something quickly.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_as_it_is(path: impl Into<PathBuf>) -> Result<Option<Self>, StoreError> {
        let path = path.into();
        let pool = open::open_as_it_is(&path, BRIEF_PATIENCE).await?;
        Ok(pool.map(|pool| Self { pool, path }))
    }

    async fn open_within(path: PathBuf, patience: Duration) -> Result<Self, StoreError> {
        let pool = open::open(&path, patience).await?;
        Ok(Self { pool, path })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Waits for what is running and closes the file. A store that is dropped instead loses nothing, but the
    /// write-ahead log then stays beside the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// A transaction that writes. A power cut can undo it after its commit; the end of this process cannot.
    async fn begin(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool.begin_with("PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE").await.map_err(self.error(doing))
    }

    /// The same, and its commit waits until all of it is on the disk
    /// (<https://www.sqlite.org/pragma.html#pragma_synchronous>).
    async fn begin_durably(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool.begin_with("PRAGMA synchronous = FULL; BEGIN IMMEDIATE").await.map_err(self.error(doing))
    }

    /// A transaction that writes, and in which what is deleted is overwritten
    /// (<https://www.sqlite.org/pragma.html#pragma_secure_delete>): nobody finds it in the file.
    async fn begin_erasing(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool.begin_with("PRAGMA secure_delete = ON; BEGIN IMMEDIATE").await.map_err(self.error(doing))
    }

    fn error(&self, doing: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
        let path = self.path.clone();
        move |error| StoreError::from_sqlx(doing, &path, error)
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

#[cfg(test)]
mod tests;
