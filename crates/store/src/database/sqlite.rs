//! Opens a SQLite file, and brings it to the newest schema.

mod migrations;

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{
    Connection, SqliteConnection, SqlitePool,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::time::{Instant, sleep};

pub(crate) use self::migrations::SCHEMA_VERSION;
use self::migrations::migrator;
use super::WriteMode;
use crate::StoreError;

/// The pause between tries while another process has the database locked.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The maximum number of prepared statements that the connection caches.
const STATEMENT_CACHE_SIZE: usize = 32;

/// The maximum size in bytes of a write-ahead log that stays at exit. The next process reads such a log faster than
/// this process could move it into the file.
const MAX_LOG_BYTES_AT_EXIT: u64 = 256 * 1024;

/// An open file. Clones share its one connection.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) pool: SqlitePool,
    pub(crate) path: Arc<Path>,
    /// Whether a transaction has deleted data that must not remain in the files, such as secrets.
    has_erased: Arc<AtomicBool>,
}

impl File {
    /// Opens the file, creates it if there is none, and brings it to the newest schema.
    pub(crate) async fn open(path: &Path, busy_timeout: Duration) -> Result<Self, StoreError> {
        prepare_file(path)?;
        let pool = open_pool(path, busy_timeout).await?;
        let to_store_error = |error| StoreError::from_sqlx("opening", path, error);
        let mut connection = pool.acquire().await.map_err(to_store_error)?;
        let result = migrate_if_needed(&mut connection, path, busy_timeout).await;
        drop(connection);
        if result.is_err() {
            pool.close().await;
        }
        result.map(|()| Self::from_pool(pool, path))
    }

    /// Opens the file if it exists with the newest schema, without creating or migrating it.
    pub(crate) async fn open_existing(path: &Path, busy_timeout: Duration) -> Result<Option<Self>, StoreError> {
        if !path.is_file() {
            return Ok(None);
        }
        let pool = open_pool(path, busy_timeout).await?;
        let to_store_error = |error| StoreError::from_sqlx("opening", path, error);
        let mut connection = pool.acquire().await.map_err(to_store_error)?;
        let found_version = schema_version(&mut connection).await;
        drop(connection);
        if matches!(found_version, Ok(SCHEMA_VERSION)) {
            return Ok(Some(Self::from_pool(pool, path)));
        }
        pool.close().await;
        // The file has another schema, or the schema cannot be read.
        found_version.map(|_| None).map_err(|error| StoreError::from_sqlx("reading the schema", path, error))
    }

    pub(crate) fn from_pool(pool: SqlitePool, path: &Path) -> Self {
        Self { pool, path: path.into(), has_erased: Arc::default() }
    }

    /// Returns the SQL that begins a write transaction (<https://www.sqlite.org/pragma.html#pragma_synchronous> and
    /// <https://www.sqlite.org/pragma.html#pragma_secure_delete>).
    pub(crate) fn begin_statement(&self, mode: WriteMode) -> &'static str {
        if mode.overwrites_deleted {
            self.has_erased.store(true, Ordering::Relaxed);
        }
        match (mode.is_durable, mode.overwrites_deleted) {
            (false, false) => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
            (true, false) => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            (false, true) => "PRAGMA secure_delete = ON; BEGIN IMMEDIATE",
            (true, true) => "PRAGMA secure_delete = ON; PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
        }
    }

    /// Closes the file, or leaves a short write-ahead log beside it, and the connection open until the process exits.
    pub(crate) async fn close_at_exit(&self) {
        let log_bytes = std::fs::metadata(write_ahead_log(&self.path)).map_or(0, |metadata| metadata.len());
        if self.has_erased.load(Ordering::Relaxed) || log_bytes > MAX_LOG_BYTES_AT_EXIT {
            return self.pool.close().await;
        }
        if let Ok(connection) = self.pool.acquire().await {
            // Dropping the connection would close it, and SQLite would move the log into the file.
            Box::leak(Box::new(connection.leak()));
        }
    }
}

/// Returns the path of the write-ahead log of the database at `path`.
pub(crate) fn write_ahead_log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens the file. The pool has one connection.
async fn open_pool(path: &Path, busy_timeout: Duration) -> Result<SqlitePool, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(busy_timeout)
        // With a write-ahead log, a power cut can undo the last commits, but damages nothing. A transaction that needs
        // more sets `synchronous` itself.
        .synchronous(SqliteSynchronous::Normal)
        .statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // A pool with one connection is a queue for it, so that no task holds a lock across an await.
    SqlitePoolOptions::new()
        .max_connections(1)
        // The statement that holds the connection may itself wait for `busy_timeout`.
        .acquire_timeout(busy_timeout + Duration::from_secs(1))
        // A connection to a file stays usable, so the pool keeps it open, and does not test it.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        // On a full disk, SQLite rolls a transaction back by itself (<https://www.sqlite.org/lang_transaction.html>),
        // but sqlx believes forever that the connection is still inside it (sqlx issue 3742).
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .connect_with(options)
        .await
        .map_err(|error| StoreError::from_sqlx("opening", path, error))
}

/// Creates the file before SQLite does, so that no other user can ever read it. SQLite gives the files beside it
/// (`-wal`, `-shm`) the same permissions.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let creation_error = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Make { path, source }
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(creation_error(folder))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            make_private(path);
            Ok(())
        }
        Err(error) => Err(creation_error(path)(error)),
    }
}

/// Removes the permissions of other users from an existing file, which a user may have copied here. Logs a failure.
fn make_private(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if let Ok(metadata) = std::fs::metadata(path)
            && metadata.permissions().mode() & 0o077 != 0
        {
            let mode = metadata.permissions().mode() & 0o700;
            let permissions = std::fs::Permissions::from_mode(mode);
            if let Err(error) = std::fs::set_permissions(path, permissions) {
                tracing::warn!(path = %path.display(), %error, "other users can read the database");
            }
        }
    }
}

/// Brings the file to the newest schema, unless it has that schema. An error if a newer program has made the file.
async fn migrate_if_needed(
    connection: &mut SqliteConnection,
    path: &Path,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    let to_store_error = |error| StoreError::from_sqlx("reading the schema", path, error);
    // The only query on a database that needs no migration, so that opening it is quick.
    match schema_version(connection).await.map_err(to_store_error)? {
        SCHEMA_VERSION => Ok(()),
        found if found > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION })
        }
        _ => {
            use_write_ahead_log(connection, path, busy_timeout).await?;
            migrate(connection, path).await
        }
    }
}

/// Reads the number of the last migration; 0 in a new file.
async fn schema_version(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}

/// Switches the file to WAL mode, permanently. SQLite does not always wait for other processes that have the file
/// locked, so this function does.
async fn use_write_ahead_log(
    connection: &mut SqliteConnection,
    path: &Path,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + busy_timeout;
    loop {
        let result = sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await;
        match result.map_err(|error| StoreError::from_sqlx("switching to WAL", path, error)) {
            Err(StoreError::Locked { .. }) if Instant::now() < deadline => sleep(RETRY_PAUSE).await,
            other => return other.map(drop),
        }
    }
}

/// Runs the missing migrations in one exclusive transaction, because sqlx takes no migration lock on SQLite.
async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let to_store_error = |error| StoreError::from_sqlx("bringing the schema up to date", path, error);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(to_store_error)?;
    // Another process may have migrated the file meanwhile.
    let found_version = schema_version(&mut transaction).await.map_err(to_store_error)?;
    if found_version == 0 && has_tables(&mut transaction).await.map_err(to_store_error)? {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    if found_version < SCHEMA_VERSION {
        // Runs the migrations up to the last, and does not only mark them as done.
        let (last, skip) = (None, false);
        // Not `run`: the compiler cannot prove its bound on the lifetime of the connection inside a task.
        migrator().run_direct(last, &mut *transaction, skip).await.map_err(|error| match error {
            MigrateError::Execute(source) => StoreError::from_sqlx("bringing the schema up to date", path, source),
            source => StoreError::Migration { path: path.to_owned(), source: Box::new(source) },
        })?;
    }
    transaction.commit().await.map_err(to_store_error)
}

async fn has_tables(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetch_one(connection).await
}
