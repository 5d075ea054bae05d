//! The errors of the store, and their next steps.

mod problem;

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

pub use self::problem::DatabaseProblem;
#[cfg(feature = "postgres")]
pub(crate) use self::problem::ends_connection;

/// Why the database cannot be used. The failed operation has changed nothing in it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or its folder cannot be created.
    #[error("cannot make {}: {kind}; check that its folder can be written, or set `TOOLRACK_HOME`", path.display(), kind = source.kind())]
    Make {
        /// The file or folder.
        path: PathBuf,
        /// The error message of the system.
        #[source]
        source: io::Error,
    },
    /// Another process holds the database.
    #[error("{} is in use by another process: try again, or end that process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The database cannot be written.
    #[error("{} cannot be written: check its permissions and those of its folder", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk has no space left for the database.
    #[error("{} cannot grow: the disk is full", path.display())]
    Full {
        /// The file, or `the database` for a database server.
        path: PathBuf,
    },
    /// The file is damaged, or is not a database.
    #[error("{} is damaged or not a database: move it away, and Toolrack makes a new one", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of another program.
    #[error("{} is a database of another program: choose another place with `TOOLRACK_HOME`", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer Toolrack made the database.
    #[error("{} was made by a newer Toolrack (schema {found}, this one knows {known}): update this one", path.display())]
    Newer {
        /// The file, or the host and the name of the database.
        path: PathBuf,
        /// The schema version of the file.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// The schema could not be migrated to the newest version.
    #[error("{} could not be brought to the newest schema", path.display())]
    Migration {
        /// The file.
        path: PathBuf,
        /// A description of the problem.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The path is not UTF-8, so it cannot be stored.
    #[error("{} is not UTF-8 text and cannot be kept", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The id that the user typed matches no session.
    #[error("there is no session `{typed}`")]
    UnknownSession {
        /// The text: an id, a prefix of one, or `last`. Safe to print.
        typed: String,
    },
    /// The prefix that the user typed matches more than one session.
    #[error("`{typed}` may be one of several sessions: {}", prefixes.join(", "))]
    AmbiguousSession {
        /// The text. Safe to print.
        typed: String,
        /// Prefixes that tell these sessions apart, at most five, the most recently changed session first.
        prefixes: Vec<String>,
    },
    /// Another process has added to the session meanwhile.
    #[error(
        "another process has continued the session {prefix}: it has {found} messages where {expected} were expected"
    )]
    SessionMoved {
        /// The session.
        prefix: String,
        /// How many messages the caller expected.
        expected: u64,
        /// How many messages the session has.
        found: u64,
    },
    /// Another turn of the session is under way in this process.
    #[error("a turn of the session {prefix} is under way already")]
    SessionBusy {
        /// The session.
        prefix: String,
    },
    /// A message of a session cannot be read: another program, or a newer version, has written its row.
    #[error(
        "a message of the session {session} cannot be read, because another program, or a newer version of Toolrack, \
         has written it: `toolrack sessions delete {session}` removes the session"
    )]
    UnreadableMessage {
        /// The id of the session.
        session: uuid::Uuid,
    },
    /// A file from which to import sessions has no session that can be read.
    #[error("{} holds no sessions that can be read: {why}", path.display())]
    NoSessions {
        /// The file.
        path: PathBuf,
        /// The reason. Safe to print.
        why: String,
    },
    /// A database server cannot do an operation. The message does not name the server, because the callers of tools
    /// read the message, too; [`Self::database`] returns the name.
    #[error("the database {problem}")]
    Database {
        /// The host and the name of the database, for the operator of the daemon.
        database: String,
        /// The obstacle, and how to remove it.
        problem: DatabaseProblem,
        /// The error message of the server or the system.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Another replica has removed this one, because it wrote no heartbeat for too long. It cannot become the home of a
    /// tenant (the replica that serves the tenant).
    #[error("the replica {id} was silent for too long, and was removed: it has to join the other replicas again")]
    RemovedReplica {
        /// The id of the replica.
        id: String,
    },
    /// Another problem.
    #[error("{} failed at {operation}", path.display())]
    Other {
        /// The file, or `the database` for a database server.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// A description of the problem.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Primary result codes of SQLite (<https://www.sqlite.org/rescode.html>).
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

impl StoreError {
    /// Returns whether the operation failed only for now, because the database server is away, fails over, or is busy.
    /// The caller may then repeat the operation, unless it was the commit of a transaction: a commit that failed may
    /// have taken effect.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        use DatabaseProblem::{Busy, Conflict, Connections, Idle, Resources, Slow, Standby, Unreachable};
        let Self::Database { problem, .. } = self else { return false };
        matches!(problem, Unreachable | Connections | Busy | Slow | Conflict | Idle | Standby | Resources)
    }

    /// Returns the host and name of the database server that the error is about, or `None` for a database file.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        match self {
            Self::Database { database, .. } => Some(database),
            _ => None,
        }
    }

    /// Converts an error of sqlx or SQLite for the file at `path`.
    pub(crate) fn from_sqlx(operation: &'static str, path: &Path, error: sqlx::Error) -> Self {
        let path = path.to_owned();
        match primary_code(&error) {
            Some(code::BUSY | code::LOCKED) => Self::Locked { path },
            Some(code::READONLY) => Self::ReadOnly { path },
            Some(code::FULL) => Self::Full { path },
            Some(code::CORRUPT | code::NOTADB) => Self::Corrupt { path },
            Some(code::CANTOPEN) => Self::Make { path, source: io::Error::other(error) },
            _ if matches!(error, sqlx::Error::PoolTimedOut) => Self::Locked { path },
            _ => Self::Other { path, operation, source: Box::new(error) },
        }
    }
}

/// Returns SQLite's primary result code: the low byte of the extended code that SQLite reports.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<i32>().ok().map(|code| code & 0xff)
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, fmt};

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    /// An error of SQLite with this result code, or with none if it is empty.
    #[derive(Debug)]
    struct SqliteError(&'static str);

    impl fmt::Display for SqliteError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("it failed")
        }
    }

    impl Error for SqliteError {}

    impl DatabaseError for SqliteError {
        fn message(&self) -> &'static str {
            "it failed"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            (!self.0.is_empty()).then_some(self.0.into())
        }

        fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    /// Returns the message for an error with this result code.
    fn message_of(code: &'static str) -> String {
        let error = sqlx::Error::Database(Box::new(SqliteError(code)));
        StoreError::from_sqlx("testing", Path::new("/home/ann/toolrack.db"), error).to_string()
    }

    #[test]
    fn each_code_of_sqlite_has_its_message_also_in_extended_form() {
        for (code, expected) in [
            ("5", "is in use by another process"),
            ("261", "is in use by another process"), // SQLITE_BUSY_RECOVERY
            ("517", "is in use by another process"), // SQLITE_BUSY_SNAPSHOT
            ("6", "is in use by another process"),
            ("262", "is in use by another process"), // SQLITE_LOCKED_SHAREDCACHE
            ("8", "cannot be written"),
            ("1032", "cannot be written"), // SQLITE_READONLY_DBMOVED
            ("13", "the disk is full"),
            ("11", "is damaged or not a database"),
            ("779", "is damaged or not a database"), // SQLITE_CORRUPT_INDEX
            ("26", "is damaged or not a database"),
            ("14", "cannot make"),
            ("1", "failed at testing"),
            ("19", "failed at testing"),
            ("x", "failed at testing"),
            ("", "failed at testing"),
        ] {
            let message = message_of(code);
            assert!(message.contains(expected) && message.contains("/home/ann/toolrack.db"), "{code}: {message}");
        }
    }

    #[test]
    fn only_what_passes_by_itself_is_temporary() {
        use DatabaseProblem::{
            Busy, Conflict, Connections, Credentials, Idle, Migrating, Missing, Resources, Rights, Role, Slow, Standby,
            Tenant, Unreachable, Url, Version,
        };
        let of = |problem| StoreError::Database { database: "db/toolrack".to_owned(), problem, source: None };
        for problem in [Unreachable, Connections, Busy, Slow, Conflict, Idle, Standby, Resources] {
            assert!(of(problem).is_temporary(), "{problem:?}");
        }
        for problem in [Url, Tenant, Credentials, Missing, Rights, Role, Version { found: 14 }, Migrating] {
            assert!(!of(problem).is_temporary(), "{problem:?}");
        }
        assert!(!StoreError::Locked { path: "/x".into() }.is_temporary(), "a file is not on a server");
    }

    #[test]
    fn a_timeout_while_waiting_for_a_connection_means_that_another_process_has_the_database() {
        let error = StoreError::from_sqlx("testing", Path::new("/x"), sqlx::Error::PoolTimedOut);
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        let other = StoreError::from_sqlx("testing", Path::new("/x"), sqlx::Error::RowNotFound);
        assert!(matches!(&other, StoreError::Other { operation: "testing", .. }), "{other}");
        assert!(other.source().is_some(), "the cause is kept");
    }
}
