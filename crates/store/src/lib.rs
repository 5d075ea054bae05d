//! What Toolrack remembers across restarts.
//!
//! [`Store`] is one SQLite file: which era of MCP worked with a server (the host's
//! [`Memory`](toolrack_host::Memory)), which entries of a project a person agreed to run ([`Approval`]), which
//! tools are as they were first seen and which are not (its [`Pins`](toolrack_host::Pins), [`Stranger`]), which calls a person
//! always lets run ([`StandingAnswer`]), what servers
//! wrote to their logs ([`LogLine`]), what was done, in a chain that shows tampering ([`audit`]), conversations with models
//! ([`Session`]), and, sealed, secrets and tokens ([`Vault`]).
//! [`ArtifactFolder`] keeps what is too long for a model as files (the host's [`Artifacts`](toolrack_host::Artifacts)).
//! Everything is readable by its owner only.
//!
//! This crate knows nothing of how a host or an agent behaves, and has no network.
//!
//! ```text
//!   journal, transcript                               a conversation as an agent says it; a stored message
//!      │
//!      ▼
//!   sessions                     vault                conversations, imports; secrets, keys, leases
//!      │                           │
//!      │   pins, approvals, answers, refusals         what a person agreed to, each with a row in
//!      │      │                    │                  the log of what was done
//!      │      ▼                    │
//!      │    audit    servers, log  │                  a chain of hashes; eras and kept lists, log lines
//!      │      │          │         │
//!      └──────┴─────┬────┴─────────┘
//!                   ▼
//!                 Store ──► open                      one connection; the file, brought to the newest schema
//!                   │
//!                   ▼
//!                 error      artifacts                why it cannot be used; files, beside the database
//! ```
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
//! A conversation grows by steps, each of which is stored as a whole and names its position:
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
//! // A step from an outdated position is refused, and changes nothing.
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
mod migrations;
mod open;
mod pins;
mod refusals;
mod rows;
mod servers;
mod sessions;
pub mod transcript;
mod vault;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{Sqlite, SqlitePool, Transaction};

pub use answers::StandingAnswer;
pub use approvals::Approval;
pub use artifacts::{ArtifactBounds, ArtifactFolder, Piece, ReadError};
pub use error::StoreError;
pub use log::{LogLine, LogQuery};
pub use pins::{Pinned, Stranger};
pub use refusals::Refusal;
pub use sessions::{
    Claim, Imported, NewMessage, NewSession, Retention, Role, Session, SessionQuery, SessionTotals, Spent, Step,
    StoredMessage,
};
pub use uuid::Uuid;
pub use vault::{Lease, Sealed, Space, Vault, VaultError, VaultKey};

/// How long to wait for another process that holds the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same, for callers that can do without.
const BRIEF_PATIENCE: Duration = Duration::from_millis(200);

/// Up to this size in bytes, the next process reads a write-ahead log faster than this one writes it to the file.
const SHORT_LOG: u64 = 256 * 1024;

/// The database. Clones share it.
///
/// One connection does everything, one statement after another; other processes may use the same file at the same time
/// (SQLite's WAL mode). Dropping a future leaves the database as if the statement had run or had not.
///
/// The operations that calls of tools need (the traits of the host, [`Vault::get`], the [`journal`]) run in tasks of
/// their own ([`toolrack_host::owned`]), so that an unpolled future in a collection never keeps the connection.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
    path: PathBuf,
    /// Whether something was deleted that must not stay in the file.
    has_erased: Arc<AtomicBool>,
    claims: sessions::Claims,
}

impl Store {
    /// Opens the database at `path`, which is created, with its folders, when there is none, and migrated to the
    /// newest schema. Waits up to 5 s for another process that is doing the same.
    ///
    /// # Errors
    /// [`StoreError`] says what is in the way and what to do. The file is never replaced.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_within(path.into(), PATIENCE).await
    }

    /// Opens the database at `path` if it is there and of the schema that this version writes; changes neither, and
    /// waits at most 200 ms for another process. `None` when there is nothing that can be read as it is.
    ///
    /// For callers that only want to know something quickly.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_as_it_is(path: impl Into<PathBuf>) -> Result<Option<Self>, StoreError> {
        let path = path.into();
        let pool = open::open_as_it_is(&path, BRIEF_PATIENCE).await?;
        Ok(pool.map(|pool| Self::of(pool, path)))
    }

    async fn open_within(path: PathBuf, patience: Duration) -> Result<Self, StoreError> {
        let pool = open::open(&path, patience).await?;
        Ok(Self::of(pool, path))
    }

    fn of(pool: SqlitePool, path: PathBuf) -> Self {
        Self { pool, path, has_erased: Arc::default(), claims: sessions::Claims::default() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for what is running and closes the file. A store that is dropped instead loses nothing, but the
    /// write-ahead log then stays beside the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// For a process that is about to end: waits for what is running, and leaves the write-ahead log beside the file
    /// while it is short (256 KiB), which saves four waits for the disk. It holds all commits, and the next process
    /// reads it. Where that log is longer, or could hold what was to be erased, this is [`Self::close`].
    ///
    /// The store cannot be used any more, and its thread and its files stay until the process ends.
    pub async fn leave(&self) {
        let log = std::fs::metadata(sidecar(&self.path)).map_or(0, |log| log.len());
        if self.has_erased.load(Ordering::Relaxed) || log > SHORT_LOG {
            return self.close().await;
        }
        if let Ok(connection) = self.pool.acquire().await {
            // Dropped, it would be closed.
            Box::leak(Box::new(connection.leak()));
        }
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

    /// A transaction that writes, and that overwrites what it deletes
    /// (<https://www.sqlite.org/pragma.html#pragma_secure_delete>), so that the file does not keep it.
    async fn begin_erasing(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.has_erased.store(true, Ordering::Relaxed);
        self.pool.begin_with("PRAGMA secure_delete = ON; BEGIN IMMEDIATE").await.map_err(self.error(doing))
    }

    /// Both at once: what is deleted is overwritten, and all of it is on the disk after the commit.
    async fn begin_erasing_durably(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.has_erased.store(true, Ordering::Relaxed);
        let begin = "PRAGMA secure_delete = ON; PRAGMA synchronous = FULL; BEGIN IMMEDIATE";
        self.pool.begin_with(begin).await.map_err(self.error(doing))
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

/// The write-ahead log of a database.
fn sidecar(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

#[cfg(test)]
mod tests;
