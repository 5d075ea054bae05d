//! Stores the rows of many tenants in one Postgres database, separated by row-level security.
//!
//! Every transaction begins with one message, which names the tenant and says how long a statement may take. No
//! statement depends on settings of the session. So a pooler in front of Postgres (PgBouncer) may give each transaction
//! another connection.

mod migrations;
mod settings;

use std::{fmt, sync::Arc, time::Duration};

use sha2::{Digest as _, Sha256};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, SqlSafeStr as _,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions, PgTransactionManager},
};
use sqlx_core::transaction::TransactionManager as _;
use tokio::time::{Instant, timeout};

pub use self::settings::DatabaseSettings;
use super::{Backend, ErrorContext, WriteMode};
use crate::{
    Store, StoreError,
    error::{DatabaseProblem, ends_connection},
};

/// The oldest version of Postgres that works.
const MIN_VERSION: i64 = 15;

/// The time that this program waits for the end of a statement, in addition to the database's own limit. Also the
/// time-out of closing a connection.
const EXTRA_TIME: Duration = Duration::from_secs(2);

/// The name that stands for the tenant in rows that the daemon reads before it knows the tenant: the members, tokens
/// and sign-ins of a team. The team's front door, where users sign in, reads these rows.
const FRONT_DOOR: &str = "*";

/// The maximum number of prepared statements that a connection keeps, if the settings allow any.
const STATEMENT_CACHE_SIZE: usize = 100;

/// A Postgres database, for all tenants of this process. Clones share its connections.
#[derive(Clone)]
pub struct Database(Arc<DatabaseState>);

/// The state that the clones of a [`Database`] share.
struct DatabaseState {
    pool: PgPool,
    name: Arc<str>,
    settings: DatabaseSettings,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Database {
    /// Connects to a database, and brings it to the newest schema. If another process does that already, waits for it.
    ///
    /// # Errors
    /// [`StoreError::Database`] names the problem and the next step. No error contains the URL, which may contain a
    /// password.
    pub async fn connect(settings: DatabaseSettings) -> Result<Self, StoreError> {
        let options = connect_options(&settings)?;
        let name: Arc<str> = database_name(&options).into();
        prepare(&options, &name, &settings).await?;
        let pool = PgPoolOptions::new()
            // Without any connection, every operation would time out.
            .max_connections(settings.most_connections.max(1))
            .acquire_timeout(settings.acquire_timeout)
            // `begin` replaces a dead connection anyway, and a test would cost a round trip for each transaction.
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Ok(Self(Arc::new(DatabaseState { pool, name, settings })))
    }

    /// Returns the host and the name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Opens the store of a tenant. Open it only once: turns of a conversation exclude each other only on one store and
    /// its clones.
    ///
    /// # Errors
    /// [`StoreError::Database`] when `tenant` is not a valid name of a tenant, or the database fails.
    pub async fn store(&self, tenant: &str) -> Result<Store, StoreError> {
        if tenant.is_empty() || tenant == FRONT_DOOR || tenant.contains('\0') {
            return Err(StoreError::of_database(&self.0.name, DatabaseProblem::Tenant));
        }
        self.store_for(tenant).await
    }

    /// Opens the store of the rows that the daemon reads before it knows the tenant.
    pub(crate) async fn front_door(&self) -> Result<Store, StoreError> {
        self.store_for(FRONT_DOOR).await
    }

    /// Opens a store, and begins its audit log if there is none yet.
    async fn store_for(&self, tenant: &str) -> Result<Store, StoreError> {
        let store = Store::from_backend(Backend::Postgres(Tenant::new(self, tenant)));
        store.begin_audit().await?;
        Ok(store)
    }

    /// Waits for the running statements and closes all connections, of all stores.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }
}

/// The rows of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    database: Database,
    /// The SQL that follows `BEGIN`: it names the tenant whose rows are visible, and limits the time of statements.
    transaction_settings: Arc<str>,
    /// The number of the advisory lock of the tenant. Only one writer of the tenant holds it at a time.
    lock_number: i64,
}

impl Tenant {
    fn new(database: &Database, tenant: &str) -> Self {
        let DatabaseSettings { statement_timeout, lock_timeout, idle_transaction_timeout, .. } = &database.0.settings;
        let transaction_settings = format!(
            "SET LOCAL toolrack.tenant = '{}'; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}",
            tenant.replace('\'', "''"),
            milliseconds(*statement_timeout),
            milliseconds(*lock_timeout),
            milliseconds(*idle_transaction_timeout),
        );
        Self {
            database: database.clone(),
            transaction_settings: transaction_settings.into(),
            lock_number: lock_number(tenant),
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.database.0.name
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Begins a transaction that only reads.
    pub(crate) async fn begin_read(&self, context: &ErrorContext) -> Result<Session, StoreError> {
        self.begin(format!("BEGIN READ ONLY; {}", self.transaction_settings), context).await
    }

    /// Begins a transaction that only reads, and in which all statements see the same rows.
    pub(crate) async fn begin_snapshot(&self, context: &ErrorContext) -> Result<Session, StoreError> {
        self.begin(format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", self.transaction_settings), context)
            .await
    }

    /// Begins a write transaction. Waits for the lock of the tenant, unless the mode is concurrent.
    pub(crate) async fn begin_write(&self, mode: WriteMode, context: &ErrorContext) -> Result<Session, StoreError> {
        let (transaction_settings, lock_number) = (&self.transaction_settings, self.lock_number);
        let synchronous_commit = if mode.is_durable { "on" } else { "off" };
        let take_lock = match mode.is_concurrent {
            true => String::new(),
            false => format!("; SELECT pg_advisory_xact_lock({lock_number})"),
        };
        let begin_sql =
            format!("BEGIN; {transaction_settings}; SET LOCAL synchronous_commit = {synchronous_commit}{take_lock}");
        self.begin(begin_sql, context).await
    }

    /// Begins a transaction with one message, `begin_sql`. A connection that has died since its last use is replaced:
    /// the transaction has done nothing on it yet.
    async fn begin(&self, begin_sql: String, context: &ErrorContext) -> Result<Session, StoreError> {
        let DatabaseState { pool, settings, .. } = &*self.database.0;
        let time_limit = settings.statement_timeout.max(settings.lock_timeout) + EXTRA_TIME;
        let deadline = Instant::now() + settings.acquire_timeout;
        loop {
            let connection = pool.acquire().await.map_err(|error| self.acquire_error(error, context))?;
            let keeps_statements = settings.prepared_statements;
            let mut session = Session { connection, time_limit, keeps_statements, may_still_run: false };
            match session.begin(&begin_sql).await {
                Ok(()) => return Ok(session),
                Err(error) if is_connection_lost(&error) && Instant::now() < deadline => {}
                Err(error) => return Err(context.error(error)),
            }
        }
    }

    /// Returns the error for a transaction that got no connection: all connections are in use, or the database cannot
    /// be reached.
    fn acquire_error(&self, error: sqlx::Error, context: &ErrorContext) -> StoreError {
        let DatabaseState { pool, settings, name } = &*self.database.0;
        let are_all_in_use = pool.size() >= settings.most_connections && pool.num_idle() == 0;
        match error {
            sqlx::Error::PoolTimedOut if !are_all_in_use => StoreError::of_database(name, DatabaseProblem::Unreachable),
            error => context.error(error),
        }
    }
}

/// A connection with a transaction. If a session is dropped without a commit, its changes are undone.
pub(crate) struct Session {
    connection: PoolConnection<Postgres>,
    /// How long a statement may take.
    time_limit: Duration,
    /// Whether the connection keeps statements prepared.
    keeps_statements: bool,
    /// Whether the last statement may still run. If so, the connection is closed instead of used again.
    may_still_run: bool,
}

impl Session {
    /// Begins the transaction with the message `begin_sql`.
    async fn begin(&mut self, begin_sql: &str) -> sqlx::Result<()> {
        self.may_still_run = true;
        let statement = Some(AssertSqlSafe(begin_sql.to_owned()).into_sql_str());
        let result =
            with_time_limit(self.time_limit, PgTransactionManager::begin(&mut self.connection, statement)).await;
        // After an error, the connection may be in a failed transaction, so it must not be used again.
        self.may_still_run = result.is_err();
        result
    }

    /// Marks the start of a statement; pass its result to [`Self::end_statement`]. Returns the connection, how long the
    /// statement may take, and whether the connection keeps it prepared.
    pub(crate) fn start_statement(&mut self) -> (&mut PgConnection, Duration, bool) {
        self.may_still_run = true;
        (&mut self.connection, self.time_limit, self.keeps_statements)
    }

    /// Marks the end of a statement, and returns its result. After an error that the database did not send, the
    /// statement may still run.
    pub(crate) fn end_statement<T>(&mut self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        self.may_still_run = result.as_ref().is_err_and(|error| error.as_database_error().is_none());
        result
    }

    pub(crate) async fn commit(mut self) -> sqlx::Result<()> {
        let (connection, limit, _) = self.start_statement();
        let result = with_time_limit(limit, PgTransactionManager::commit(connection)).await;
        self.end_statement(result)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.may_still_run {
            self.connection.close_on_drop();
        } else {
            PgTransactionManager::start_rollback(&mut self.connection);
        }
    }
}

/// Waits for a statement, at most for `limit`. This is a little longer than the database's own limit, which does not
/// help if the network has failed.
pub(crate) async fn with_time_limit<T>(
    limit: Duration,
    statement: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    timeout(limit, statement).await.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}

/// Returns the statement `sql` of SQLite with the change that Postgres needs; `None` if it needs no change. In
/// Postgres, the keys of all tables begin with the tenant, so the keys after `ON CONFLICT` must begin with it, too. The
/// statements for the two databases have no other difference.
pub(crate) fn with_tenant_in_keys(sql: &str) -> Option<String> {
    sql.contains("ON CONFLICT (").then(|| sql.replace("ON CONFLICT (", "ON CONFLICT (of_tenant, "))
}

/// Replaces NUL by U+FFFD, because Postgres allows no NUL in texts.
pub(crate) fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Parses the URL, and adds the options of this program.
fn connect_options(settings: &DatabaseSettings) -> Result<PgConnectOptions, StoreError> {
    // The parser's error is dropped, because it may repeat the URL. The new error cannot name the database, so it names
    // the section of the team file that has the URL.
    let parse_result: Result<PgConnectOptions, _> = settings.url.parse();
    let options = parse_result.map_err(|_| StoreError::of_database("[store]", DatabaseProblem::Url))?;
    let cache_size = if settings.prepared_statements { STATEMENT_CACHE_SIZE } else { 0 };
    Ok(options.application_name("toolrack").statement_cache_capacity(cache_size))
}

/// Returns the name of the database for messages: its host or socket, and its name there.
fn database_name(options: &PgConnectOptions) -> String {
    // Without a name in the URL, Postgres opens the database that is named after the user.
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

/// Checks, on a separate connection, that the database can be used, and brings it to the newest schema.
async fn prepare(options: &PgConnectOptions, name: &Arc<str>, settings: &DatabaseSettings) -> Result<(), StoreError> {
    let context = ErrorContext::of_server(name, "connecting");
    let Ok(connect_result) = timeout(settings.connect_timeout, options.connect()).await else {
        return Err(StoreError::of_database(name, DatabaseProblem::Unreachable));
    };
    let mut connection = connect_result.map_err(|error| context.error(error))?;
    let check_result = check_server(&mut connection, name, &context).await;
    let result = match check_result {
        Ok(()) => migrations::run(&mut connection, name, settings).await,
        error => error,
    };
    // The schema is up to date, or the error is known, even if this connection does not close well.
    let _ = timeout(EXTRA_TIME, connection.close()).await;
    result
}

/// Refuses a version of Postgres that is too old. Also refuses a role that row-level security does not bind, because
/// such a role reads the rows of all tenants.
async fn check_server(connection: &mut PgConnection, name: &str, context: &ErrorContext) -> Result<(), StoreError> {
    // `server_version_num` is 150004 for version 15.4. The statement is not prepared, because a pooler may run the next
    // one on another connection, which does not have the prepared statement.
    let (version, bypasses_row_security): (i64, bool) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::bigint, \
         EXISTS (SELECT 1 FROM pg_roles WHERE rolname IN (current_user, session_user) AND (rolsuper OR rolbypassrls))",
    )
    .persistent(false)
    .fetch_one(connection)
    .await
    .map_err(|error| context.error(error))?;
    let found_version = version / 10_000;
    if found_version < MIN_VERSION {
        return Err(StoreError::of_database(name, DatabaseProblem::Version { found: found_version }));
    }
    if bypasses_row_security {
        return Err(StoreError::of_database(name, DatabaseProblem::Role));
    }
    Ok(())
}

/// Returns whether the error means that the connection is lost, and not that the database has refused the statement.
fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        // `with_time_limit` reports a statement that took too long as timed out.
        sqlx::Error::Io(error) => error.kind() != std::io::ErrorKind::TimedOut,
        sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| ends_connection(&code)),
        _ => false,
    }
}

/// Converts a limit for Postgres, which takes 0 as no limit.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// Returns the number of the advisory lock of a tenant: the first eight bytes of a hash of its name.
fn lock_number(tenant: &str) -> i64 {
    let hash = Sha256::new().chain_update("toolrack tenant ").chain_update(tenant).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | i64::from(*byte))
}
