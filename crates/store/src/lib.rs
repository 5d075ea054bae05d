//! Stores everything that Toolrack remembers across restarts.
//!
//! [`Store`] is one SQLite file, which only its owner can read. It holds:
//!
//! - the era (generation of MCP versions) that worked with each server: it implements the host's trait
//!   [`Memory`](toolrack_host::Memory),
//! - the entries (configured servers) of projects that a user agreed to run ([`Approval`]),
//! - the pins (trusted definitions) of tools: it implements the host's trait [`Pins`](toolrack_host::Pins),
//! - the tools that differ from their pins ([`QuarantinedTool`]),
//! - the tool calls that a user allowed once and for all ([`StandingAnswer`]),
//! - what servers wrote to their logs ([`LogLine`]),
//! - the audit log, a chain of hashes that shows tampering ([`audit`]),
//! - conversations with models ([`Session`]),
//! - sealed (encrypted) secrets and tokens ([`Vault`]),
//! - how much of each quota was used ([`QuotaUse`]),
//! - the members of a team, the hashes of their tokens ([`TeamToken`]), and what they allowed clients ([`Grant`]),
//! - the replicas (daemons) that serve a team together ([`Replica`]), and which of them serves each tenant ([`Home`]).
//!
//! [`ArtifactFolder`] stores results that are too long for a model, as files. It implements the host's trait
//! [`Artifacts`](toolrack_host::Artifacts).
//!
//! With the feature `postgres`, [`Database`](https://docs.rs/toolrack-store/latest/toolrack_store/struct.Database.html)
//! stores the same for many tenants and processes, in Postgres. It has a [`Store`] for each tenant, whose rows no other
//! tenant can see.
//!
//! This crate knows nothing of how a host or an agent behaves, and connects to nothing but its database.
//!
//! The modules:
//!
//! - `sessions` stores and imports conversations. `journal` stores an agent's conversation with it, and `transcript`
//!   prepares a stored message to be shown.
//! - `vault` stores secrets, with their keys and leases.
//! - `team` stores members and their tokens, and `replicas` the replicas and homes.
//! - `pins`, `approvals`, `answers` and `refusals` store what a user agreed to or refused. Each change gets a row in
//!   the audit log.
//! - `audit` is the audit log.
//! - `servers` stores eras and lists of tools.
//! - `log` stores the log lines of servers.
//! - `quotas` stores how much of each quota was used.
//! - `database` runs the transactions and statements of all these modules, and brings the file to the newest schema.
//! - `error` says why the database fails, `owner` names the owner of a row, and `rows` reads rows as structs.
//! - `moving` moves the rows of a file into Postgres.
//! - `artifacts` stores files beside the database.
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
//! use toolrack_store::{NewMessage, NewSession, OwnerFilter, Role, Step, Store, StoreError};
//!
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(folder.path().join("toolrack.db")).await?;
//! let session = store.create_session(&NewSession { title: "Greetings".to_owned(), ..NewSession::default() }).await?;
//! let step = Step { messages: vec![NewMessage::new(Role::User, "hello")], ..Step::default() };
//! assert_eq!(store.append(session.id, &step).await?, 1);
//! // A step from an outdated position is refused, and changes nothing.
//! assert!(matches!(store.append(session.id, &step).await, Err(StoreError::SessionMoved { found: 1, .. })));
//! assert_eq!(store.find_session("last", OwnerFilter::All).await?.title, "Greetings");
//! # store.close().await;
//! # Ok::<(), StoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod approvals;
mod artifacts;
pub mod audit;
mod database;
mod error;
pub mod journal;
mod log;
#[cfg(feature = "postgres")]
mod moving;
mod owner;
mod pins;
mod quotas;
mod refusals;
mod replicas;
mod rows;
mod servers;
mod sessions;
mod team;
pub mod transcript;
mod vault;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use database::{Backend, sqlite};

pub use answers::StandingAnswer;
pub use approvals::Approval;
pub use artifacts::{ArtifactBounds, ArtifactFolder, Piece, ReadError};
#[cfg(feature = "postgres")]
pub use database::postgres::{Database, DatabaseSettings};
pub use error::{DatabaseProblem, StoreError};
pub use log::{LogLine, LogQuery};
#[cfg(feature = "postgres")]
pub use moving::{MoveError, MoveReport};
pub use owner::{Owner, OwnerFilter};
pub use pins::{QuarantinedTool, StoredPin};
pub use quotas::QuotaUse;
pub use refusals::Refusal;
pub use replicas::{Heartbeat, Home, Replica, ReplicaHomes};
pub use sessions::{
    Claim, ImportReport, ModelUse, NewMessage, NewSession, Retention, Role, Session, SessionQuery, SessionTotals, Step,
    StoredMessage,
};
pub use team::{
    CodeUse, Grant, GrantFilter, MemberChange, MemberChangeOutcome, MemberIdentity, NewGrant, NewToken, Purpose,
    RefreshHash, RefreshUse, RegisteredClient, RemovedMember, TeamStore, TeamToken, TokenFilter, TokenHash,
};
pub use uuid::Uuid;
pub use vault::{Lease, SecretValue, Space, Vault, VaultError, VaultKey};

/// How long to wait for another process that has the database locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for another process that has the database locked, when the caller can do without the database.
const BRIEF_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// The database. Clones share it.
///
/// A file has one connection, which runs one statement after another; other processes may use the file at the same time
/// (SQLite's WAL mode). After a future is dropped, its statement has either run as a whole or not at all.
///
/// Each operation that a call of a tool needs (the traits of the host, [`Vault::get`], the [`journal`]) runs in a task
/// of its own ([`toolrack_host::run_in_own_task`]). So it never holds the connection because its caller stopped
/// polling.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
    /// The sessions (conversations) in which this process has a turn under way.
    claims: sessions::Claims,
}

impl Store {
    /// Opens the database at `path` and migrates it to the newest schema. If there is no database, creates it with its
    /// folders. Waits up to 5 s for another process that does the same.
    ///
    /// # Errors
    /// [`StoreError`] names the problem and the next step. The file is never replaced.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_within(path.into(), LOCK_TIMEOUT).await
    }

    /// Opens the database at `path` without creating or migrating it, for callers that only want to read something
    /// quickly. Waits at most 200 ms for another process. Returns `None` if there is no database, or it has another
    /// schema.
    ///
    /// # Errors
    /// [`StoreError`], as for [`Self::open`].
    pub async fn open_existing(path: impl Into<PathBuf>) -> Result<Option<Self>, StoreError> {
        let path = path.into();
        let file = sqlite::File::open_existing(&path, BRIEF_LOCK_TIMEOUT).await?;
        Ok(file.map(Self::from_file))
    }

    /// Opens the database at `path`, and waits up to `busy_timeout` for another process that has it locked.
    async fn open_within(path: PathBuf, busy_timeout: Duration) -> Result<Self, StoreError> {
        Ok(Self::from_file(sqlite::File::open(&path, busy_timeout).await?))
    }

    /// Returns whether the file has rows that a user would miss in a new Postgres database: of the audit log, secrets,
    /// conversations, or a team. On Postgres, returns `false`.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn is_worth_moving(&self) -> Result<bool, StoreError> {
        if !matches!(self.backend, Backend::Sqlite(_)) {
            return Ok(false);
        }
        let mut transaction = self.begin_read("looking for rows").await?;
        // Each approval, pin and answer has a row in the audit log. A file has the tables of a team only if it has
        // served one.
        database::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM vault) OR EXISTS (SELECT 1 FROM sessions) \
             OR EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'team_schema')",
        )
        .fetch_one(&mut transaction)
        .await
    }

    fn from_file(file: sqlite::File) -> Self {
        Self::from_backend(Backend::Sqlite(file))
    }

    /// The pool of SQLite, for tests that look into the file.
    #[cfg(test)]
    fn pool(&self) -> &sqlx::SqlitePool {
        match &self.backend {
            Backend::Sqlite(file) => &file.pool,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => panic!("not a file"),
        }
    }

    fn from_backend(backend: Backend) -> Self {
        Self { backend, claims: sessions::Claims::default() }
    }

    /// Returns the path of the database file, or on Postgres, the host and the name of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.backend {
            Backend::Sqlite(file) => &file.path,
            #[cfg(feature = "postgres")]
            Backend::Postgres(tenant) => Path::new(&**tenant.name()),
        }
    }

    /// Waits for the running statement and closes the file. Afterwards, each operation of the store and its clones
    /// fails. A store that is merely dropped loses nothing, but leaves the write-ahead log beside the file. On
    /// Postgres, does nothing: the other stores of the database use the same connections.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite(file) => file.pool.close().await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => {}
        }
    }

    /// Closes the store of a process that is about to exit. Waits for the running statement, and leaves a short
    /// write-ahead log (up to 256 KiB) beside the file. This saves four waits for the disk, and loses nothing: the log
    /// contains all commits, and the next process reads it. If the log is longer, or may still contain deleted secrets,
    /// closes the file like [`Self::close`]. On Postgres, does nothing.
    ///
    /// The store cannot be used afterwards; its thread and its open files remain until the process exits.
    pub async fn close_at_exit(&self) {
        match &self.backend {
            Backend::Sqlite(file) => file.close_at_exit().await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => {}
        }
    }
}

/// Returns the current time, in seconds since 1970 (UTC).
fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
