//! Imports conversations of another program.
//!
//! Synapse, another program that talks with models, has a SQLite file with the tables `sessions` and `messages`. Its
//! first schema has no tools; the second one adds the columns `tool_calls` and `tool_results`. Ids and times are text
//! (UUIDs, RFC 3339). The import looks up which columns exist, so that it also reads older and newer schemas, and the
//! database of another Toolrack.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use toolrack_host::text;
use uuid::Uuid;

use super::{
    cut_title,
    messages::{NewMessage, PositionedMessage, Role},
};
use crate::{
    LOCK_TIMEOUT, Store, StoreError,
    database::{Transaction, query, query_scalar},
    rows::from_row,
};

/// The maximum length of a title that the import makes of the first message, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// The columns of `sessions` that the import reads, each with whether a file may lack it.
const SESSION_COLUMNS: &[(&str, bool)] = &[
    ("id", false),
    ("name", true),
    ("title", true),
    ("provider", true),
    ("model", true),
    ("created_at", true),
    ("updated_at", true),
];

/// The columns of `messages` that the import reads, each with whether a file may lack it.
const MESSAGE_COLUMNS: &[(&str, bool)] = &[
    ("id", false),
    ("session_id", false),
    ("role", false),
    ("content", false),
    ("tool_calls", true),
    ("tool_results", true),
    ("timestamp", true),
    ("position", true),
    ("body", true),
];

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// How many sessions it added.
    pub sessions: u64,
    /// How many messages it added, including those to sessions that were here already.
    pub messages: u64,
    /// How many sessions were here already.
    pub already_present: u64,
}

#[derive(Debug)]
struct SourceSession {
    /// The `rowid`, by which SQLite finds the row.
    row: i64,
    id: String,
    name: Option<String>,
    title: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

from_row!(SourceSession { row, id, name, title, provider, model, created_at, updated_at });

#[derive(Debug)]
struct SourceMessage {
    id: String,
    role: String,
    content: Option<String>,
    tool_calls: Option<String>,
    tool_results: Option<String>,
    timestamp: Option<String>,
    position: Option<String>,
    body: Option<String>,
}

from_row!(SourceMessage { id, role, content, tool_calls, tool_results, timestamp, position, body });

impl SourceMessage {
    /// The position in the conversation, in a file whose messages have one.
    fn position(&self) -> Option<i64> {
        self.position.as_deref().and_then(|position| position.parse().ok())
    }
}

/// A file of another program, opened for reading only.
struct Source {
    path: PathBuf,
    connection: SqliteConnection,
    /// The query for the sessions of the file, up to the condition.
    select_sessions: String,
    /// The query for the messages of the file, up to the condition.
    select_messages: String,
}

impl Source {
    async fn open(path: &Path, busy_timeout: Duration) -> Result<Self, StoreError> {
        let refused = |why: &str| StoreError::NoSessions { path: path.to_owned(), why: why.to_owned() };
        let can_be_immutable = can_be_immutable(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused("there is no such file"),
            io::ErrorKind::InvalidInput => refused("it is not a file"),
            kind => refused(&kind.to_string()),
        })?;
        let failed = |error| unreadable(path, error);
        let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(can_be_immutable);
        let mut connection = options.busy_timeout(busy_timeout).connect().await.map_err(failed)?;
        let select_sessions = select("sessions", SESSION_COLUMNS, &mut connection).await.map_err(failed)?;
        let select_messages = select("messages", MESSAGE_COLUMNS, &mut connection).await.map_err(failed)?;
        let (Some(select_sessions), Some(select_messages)) = (select_sessions, select_messages) else {
            return Err(refused("it has no tables `sessions` and `messages` that are known here"));
        };
        Ok(Self { path: path.to_owned(), connection, select_sessions, select_messages })
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        unreadable(&self.path, error)
    }

    /// Returns the error for a value that the import cannot use. `kind` is what the value stands for, such as `role`.
    fn unexpected(&self, kind: &str, value: &str) -> StoreError {
        let why = format!("a {kind} is `{}`", text::for_log(value));
        StoreError::NoSessions { path: self.path.clone(), why }
    }

    async fn sessions(&mut self) -> Result<Vec<SourceSession>, StoreError> {
        let query = sqlx::query_as(AssertSqlSafe(format!("{} ORDER BY rowid", self.select_sessions)));
        query.fetch_all(&mut self.connection).await.map_err(|error| self.failed(error))
    }

    /// Returns the messages of a session in the order of their positions, or of their times where the file has no
    /// positions. Messages of the same position or time stay in the order of the file.
    async fn messages(
        &mut self,
        session: &SourceSession,
    ) -> Result<Vec<(DateTime<Utc>, Uuid, NewMessage)>, StoreError> {
        // The file may store ids as texts or as bytes: here, its own form of the session's id is compared.
        let condition = "WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?) ORDER BY rowid";
        let query = sqlx::query_as(AssertSqlSafe(format!("{} {condition}", self.select_messages))).bind(session.row);
        let mut rows: Vec<SourceMessage> =
            query.fetch_all(&mut self.connection).await.map_err(|error| self.failed(error))?;
        // A clock that was set back gave later messages earlier times.
        let have_positions = rows.iter().all(|row| row.position().is_some());
        if have_positions {
            rows.sort_by_key(SourceMessage::position);
        }
        let mut at = parse_time(session.created_at.as_deref()).unwrap_or_default();
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows {
            let id = Uuid::try_parse(&row.id).map_err(|_| self.unexpected("message's id", &row.id))?;
            let role = Role::from_word(&row.role).ok_or_else(|| self.unexpected("role", &row.role))?;
            // A message without a time gets the time of the message before it.
            at = parse_time(row.timestamp.as_deref()).unwrap_or(at);
            let mut message = NewMessage::new(role, row.content.unwrap_or_default());
            (message.tool_calls, message.tool_results, message.body) = (row.tool_calls, row.tool_results, row.body);
            messages.push((at, id, message));
        }
        if !have_positions {
            messages.sort_by_key(|(at, ..)| *at);
        }
        Ok(messages)
    }
}

/// Returns the error for a file of another program. It does not advise the user to move the file away, as errors about
/// Toolrack's own file do.
fn unreadable(path: &Path, error: sqlx::Error) -> StoreError {
    let why = match StoreError::from_sqlx("reading sessions", path, error) {
        StoreError::Corrupt { .. } => "it is damaged or no database",
        StoreError::Make { .. } => "it cannot be opened",
        StoreError::ReadOnly { .. } => "a change of it was interrupted; open it with the program that it belongs to",
        other => return other,
    };
    StoreError::NoSessions { path: path.to_owned(), why: why.to_owned() }
}

/// Returns whether the file is in WAL mode, and has no log beside it. The import opens such a file as immutable,
/// because SQLite would otherwise create files beside it. For any other file, SQLite locks out writers while the import
/// reads the file.
fn can_be_immutable(path: &Path) -> io::Result<bool> {
    // Reading a named pipe would block.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut header = Vec::new();
    File::open(path)?.take(20).read_to_end(&mut header)?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
    // Bytes 18 and 19 are 2 in WAL mode (<https://www.sqlite.org/fileformat.html#file_format_version_numbers>).
    Ok(header.get(18) == Some(&2) && !has_log)
}

/// Returns a query for all `columns` of `table` as text, up to the condition. A column that the table lacks is null; if
/// the table lacks a required one, returns `None`.
async fn select(
    table: &'static str,
    columns: &[(&'static str, bool)],
    connection: &mut SqliteConnection,
) -> sqlx::Result<Option<String>> {
    let found: Vec<String> =
        sqlx::query_scalar("SELECT lower(name) FROM pragma_table_info(?)").bind(table).fetch_all(connection).await?;
    let has_column = |name: &str| found.iter().any(|found| found == name);
    if columns.iter().any(|(name, is_optional)| !is_optional && !has_column(name)) {
        return Ok(None);
    }
    let columns = columns.iter().map(|(name, _)| match *name {
        name if !has_column(name) => format!("NULL AS {name}"),
        // A UUID may be stored as its 16 bytes.
        "id" => "CASE typeof(id) WHEN 'blob' THEN hex(id) ELSE CAST(id AS TEXT) END AS id".to_owned(),
        name => format!("CAST({name} AS TEXT) AS {name}"),
    });
    let columns: Vec<String> = columns.collect();
    Ok(Some(format!("SELECT rowid AS row, {} FROM {table}", columns.join(", "))))
}

/// Parses a time: RFC 3339, the format of SQLite's own functions (in UTC), or seconds or milliseconds since 1970.
fn parse_time(text: Option<&str>) -> Option<DateTime<Utc>> {
    /// Smaller numbers are seconds (up to the year 5138), others are milliseconds (from 1973 on).
    const FIRST_MILLISECOND: i64 = 100_000_000_000;
    let text = text?.trim();
    if let Ok(number) = text.parse::<i64>() {
        return if (1 - FIRST_MILLISECOND..FIRST_MILLISECOND).contains(&number) {
            DateTime::from_timestamp(number, 0)
        } else {
            DateTime::from_timestamp_millis(number)
        };
    }
    let as_sqlite = || NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").map(|time| time.and_utc());
    DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).or_else(|_| as_sqlite()).ok()
}

/// Returns a title for a session without a name: the beginning of the user's first message.
fn title_of(messages: &[(DateTime<Utc>, Uuid, NewMessage)]) -> String {
    let first = messages.iter().find(|(_, _, message)| message.role == Role::User);
    let line = first.and_then(|(_, _, message)| message.content.lines().find(|line| !line.trim().is_empty()));
    line.unwrap_or_default().trim().chars().take(MAX_TITLE_CHARS).collect()
}

impl Store {
    /// Imports the sessions that Synapse keeps in the file `path`, with or without the columns of its second schema.
    /// Sessions keep their ids, so that none is imported twice; a session that has grown in the file but not here gets
    /// the new messages. Stores either everything or nothing. The file itself stays as it is.
    ///
    /// The file may also be the database of another Toolrack; the cost of its messages is not imported.
    ///
    /// # Errors
    /// [`StoreError::NoSessions`] when the file is not there or holds something else; others when it is in use, or when
    /// this database fails.
    pub async fn import_sessions(&self, path: &Path) -> Result<ImportReport, StoreError> {
        let mut source = Source::open(path, LOCK_TIMEOUT).await?;
        let imported = self.import_from(&mut source).await;
        // The file was only read, so that a failure to close it loses nothing.
        let _ = source.connection.close().await;
        imported
    }

    async fn import_from(&self, source: &mut Source) -> Result<ImportReport, StoreError> {
        let operation = "importing sessions";
        // A transaction, to read a snapshot of the file even while other programs write to it.
        sqlx::query("BEGIN").execute(&mut source.connection).await.map_err(|error| source.failed(error))?;
        let mut transaction = self.begin_durably(operation).await?;
        let mut imported = ImportReport::default();
        for session in source.sessions().await? {
            let id = Uuid::try_parse(&session.id).map_err(|_| source.unexpected("session's id", &session.id))?;
            let messages = source.messages(&session).await?;
            let key = id.to_string();
            let is_new = insert(&key, &session, &messages, &mut transaction).await?;
            let stored_ids: Vec<String> =
                query_scalar("SELECT id FROM messages WHERE session_id = $1 ORDER BY position")
                    .bind(&key)
                    .fetch_all(&mut transaction)
                    .await?;
            imported.sessions += u64::from(is_new);
            imported.already_present += u64::from(!is_new);
            let ids_in_file = messages.iter().map(|(_, id, _)| id.to_string());
            // Leave the conversation as it is if the file has nothing new, or if it has also grown here.
            if stored_ids.len() >= messages.len() || !stored_ids.iter().cloned().eq(ids_in_file.take(stored_ids.len()))
            {
                continue;
            }
            for (position, (at, id, message)) in messages.iter().enumerate().skip(stored_ids.len()) {
                let positioned =
                    PositionedMessage { id: *id, at: at.timestamp_millis(), position: position as u64, message };
                positioned.insert(&key, &mut transaction).await?;
                imported.messages += 1;
            }
            if let (false, Some((last, ..))) = (is_new, messages.last()) {
                query("UPDATE sessions SET updated_at = $1 WHERE id = $2 AND updated_at < $1")
                    .bind(last.timestamp_millis())
                    .bind(&key)
                    .execute(&mut transaction)
                    .await?;
            }
        }
        transaction.commit().await?;
        Ok(imported)
    }
}

/// Adds the session unless it is here already; returns whether it was added.
async fn insert(
    key: &str,
    session: &SourceSession,
    messages: &[(DateTime<Utc>, Uuid, NewMessage)],
    transaction: &mut Transaction,
) -> Result<bool, StoreError> {
    let own_title = [&session.title, &session.name].into_iter().flatten().find(|title| !title.trim().is_empty());
    let title = own_title.map_or_else(|| title_of(messages), |title| title.trim().to_owned());
    let model = match (&session.provider, &session.model) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (_, model) => model.clone(),
    };
    let times = [messages.first(), messages.last()].map(|message| message.map(|(at, ..)| *at));
    let created = parse_time(session.created_at.as_deref()).or(times[0]).unwrap_or_else(Utc::now);
    let updated = parse_time(session.updated_at.as_deref()).or(times[1]).unwrap_or(created);
    let inserted = query(
        "INSERT INTO sessions (id, title, model, created_at, updated_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(key)
    .bind(cut_title(&title))
    .bind(model)
    .bind(created.timestamp_millis())
    .bind(updated.timestamp_millis())
    .execute(transaction)
    .await?;
    Ok(inserted > 0)
}

#[cfg(test)]
mod tests;
