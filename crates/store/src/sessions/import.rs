//! Imports conversations of another program.
//!
//! Synapse, another program that talks with models, has a SQLite file with the tables `sessions` and `messages`. Its
//! first schema has no tools; the second one adds the columns `tool_calls` and `tool_results`. Ids and times are text
//! (UUIDs, RFC 3339). The import looks up which columns exist. So it also reads older and newer schemas, and the
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

/// The maximum length of a title that is taken from the first message, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// The columns of `sessions` that the import reads. `true` marks a column that the file may lack.
const SESSION_COLUMNS: &[(&str, bool)] = &[
    ("id", false),
    ("name", true),
    ("title", true),
    ("provider", true),
    ("model", true),
    ("created_at", true),
    ("updated_at", true),
];

/// The columns of `messages` that the import reads. `true` marks a column that the file may lack.
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
    /// How many messages it added, to new sessions and to sessions that this store had already.
    pub messages: u64,
    /// How many sessions of the file this store had already.
    pub already_present: u64,
}

/// A session in the file, with its columns as text.
#[derive(Debug)]
struct SourceSession {
    /// The `rowid` of SQLite, by which the messages find the session.
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

/// A message in the file, with its columns as text.
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
    /// Returns the position in the conversation; `None` if the file has no positions.
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
    /// Opens the file, and looks up which tables and columns it has.
    async fn open(path: &Path, busy_timeout: Duration) -> Result<Self, StoreError> {
        let no_sessions_error = |why: &str| StoreError::NoSessions { path: path.to_owned(), why: why.to_owned() };
        let can_be_immutable = can_be_immutable(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_sessions_error("there is no such file"),
            io::ErrorKind::InvalidInput => no_sessions_error("it is not a file"),
            kind => no_sessions_error(&kind.to_string()),
        })?;
        let read_error = |error| unreadable_file_error(path, error);
        let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(can_be_immutable);
        let mut connection = options.busy_timeout(busy_timeout).connect().await.map_err(read_error)?;
        let select_sessions = select("sessions", SESSION_COLUMNS, &mut connection).await.map_err(read_error)?;
        let select_messages = select("messages", MESSAGE_COLUMNS, &mut connection).await.map_err(read_error)?;
        let (Some(select_sessions), Some(select_messages)) = (select_sessions, select_messages) else {
            return Err(no_sessions_error("it has no tables `sessions` and `messages` that are known here"));
        };
        Ok(Self { path: path.to_owned(), connection, select_sessions, select_messages })
    }

    /// Returns the error for a file that cannot be read.
    fn read_error(&self, error: sqlx::Error) -> StoreError {
        unreadable_file_error(&self.path, error)
    }

    /// Returns the error for a value that the import cannot use. `kind` is the kind of value, such as `role`.
    fn unexpected_value_error(&self, kind: &str, value: &str) -> StoreError {
        let why = format!("a {kind} is `{}`", text::for_log(value));
        StoreError::NoSessions { path: self.path.clone(), why }
    }

    /// Returns all sessions of the file, in its order.
    async fn sessions(&mut self) -> Result<Vec<SourceSession>, StoreError> {
        let query = sqlx::query_as(AssertSqlSafe(format!("{} ORDER BY rowid", self.select_sessions)));
        query.fetch_all(&mut self.connection).await.map_err(|error| self.read_error(error))
    }

    /// Returns the messages of a session in the order of their positions, or of their times where the file has no
    /// positions. Messages of the same position or time stay in the order of the file.
    async fn messages(
        &mut self,
        session: &SourceSession,
    ) -> Result<Vec<(DateTime<Utc>, Uuid, NewMessage)>, StoreError> {
        // The file may store ids as texts or as bytes. The inner query gets the session's id in the same form.
        let condition = "WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?) ORDER BY rowid";
        let query = sqlx::query_as(AssertSqlSafe(format!("{} {condition}", self.select_messages))).bind(session.row);
        let mut rows: Vec<SourceMessage> =
            query.fetch_all(&mut self.connection).await.map_err(|error| self.read_error(error))?;
        // Prefers positions, because a clock that was set back gave later messages earlier times.
        let have_positions = rows.iter().all(|row| row.position().is_some());
        if have_positions {
            rows.sort_by_key(SourceMessage::position);
        }
        let mut time = parse_time(session.created_at.as_deref()).unwrap_or_default();
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows {
            let id = Uuid::try_parse(&row.id).map_err(|_| self.unexpected_value_error("message's id", &row.id))?;
            let role = Role::from_word(&row.role).ok_or_else(|| self.unexpected_value_error("role", &row.role))?;
            // A message without a time gets the time of the message before it.
            time = parse_time(row.timestamp.as_deref()).unwrap_or(time);
            let mut message = NewMessage::new(role, row.content.unwrap_or_default());
            (message.tool_calls, message.tool_results, message.body) = (row.tool_calls, row.tool_results, row.body);
            messages.push((time, id, message));
        }
        if !have_positions {
            messages.sort_by_key(|(time, ..)| *time);
        }
        Ok(messages)
    }
}

/// Returns the error for a file of another program. Unlike errors about Toolrack's own file, it does not advise the
/// user to move the file away.
fn unreadable_file_error(path: &Path, error: sqlx::Error) -> StoreError {
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
    let mut log_path = path.as_os_str().to_owned();
    log_path.push("-wal");
    let has_log = std::fs::metadata(log_path).is_ok_and(|metadata| metadata.len() > 0);
    // Bytes 18 and 19 are 2 in WAL mode (<https://www.sqlite.org/fileformat.html#file_format_version_numbers>).
    Ok(header.get(18) == Some(&2) && !has_log)
}

/// Returns a query for all `columns` of `table` as text, up to the condition. A missing optional column becomes null.
/// If a required column is missing, returns `None`.
async fn select(
    table: &'static str,
    columns: &[(&'static str, bool)],
    connection: &mut SqliteConnection,
) -> sqlx::Result<Option<String>> {
    let existing_columns: Vec<String> =
        sqlx::query_scalar("SELECT lower(name) FROM pragma_table_info(?)").bind(table).fetch_all(connection).await?;
    let has_column = |name: &str| existing_columns.iter().any(|column| column == name);
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
    /// A number below this is in seconds (up to the year 5138), and any other number in milliseconds (from 1973 on).
    const MIN_MILLISECONDS: i64 = 100_000_000_000;
    let text = text?.trim();
    if let Ok(number) = text.parse::<i64>() {
        return if (1 - MIN_MILLISECONDS..MIN_MILLISECONDS).contains(&number) {
            DateTime::from_timestamp(number, 0)
        } else {
            DateTime::from_timestamp_millis(number)
        };
    }
    let parse_sqlite_time = || NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").map(|time| time.and_utc());
    DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).or_else(|_| parse_sqlite_time()).ok()
}

/// Returns a title for a session without a name: the beginning of the user's first message.
fn title_from_messages(messages: &[(DateTime<Utc>, Uuid, NewMessage)]) -> String {
    let first_message = messages.iter().find(|(_, _, message)| message.role == Role::User);
    let line = first_message.and_then(|(_, _, message)| message.content.lines().find(|line| !line.trim().is_empty()));
    line.unwrap_or_default().trim().chars().take(MAX_TITLE_CHARS).collect()
}

impl Store {
    /// Imports the sessions that Synapse stores in the file `path`, with or without the columns of its second schema.
    /// Sessions keep their ids, so that none is imported twice. A session that has grown in the file but not here gets
    /// the new messages. Stores either all of this or nothing. The file itself is not changed.
    ///
    /// The file may also be the database of another Toolrack; the cost of its messages is not imported.
    ///
    /// # Errors
    /// [`StoreError::NoSessions`] when there is no such file, or it has no sessions that can be read; others when it is
    /// in use, or when this database fails.
    pub async fn import_sessions(&self, path: &Path) -> Result<ImportReport, StoreError> {
        let mut source = Source::open(path, LOCK_TIMEOUT).await?;
        let result = self.import_from(&mut source).await;
        // The file was only read, so a failure to close it loses nothing.
        let _ = source.connection.close().await;
        result
    }

    /// Imports all sessions of `source` in one transaction.
    async fn import_from(&self, source: &mut Source) -> Result<ImportReport, StoreError> {
        let operation = "importing sessions";
        // The transaction reads one snapshot of the file, even while other programs write to it.
        sqlx::query("BEGIN").execute(&mut source.connection).await.map_err(|error| source.read_error(error))?;
        let mut transaction = self.begin_durably(operation).await?;
        let mut report = ImportReport::default();
        for session in source.sessions().await? {
            let id =
                Uuid::try_parse(&session.id).map_err(|_| source.unexpected_value_error("session's id", &session.id))?;
            let messages = source.messages(&session).await?;
            let session_id = id.to_string();
            let is_new = insert(&session_id, &session, &messages, &mut transaction).await?;
            let stored_ids: Vec<String> =
                query_scalar("SELECT id FROM messages WHERE session_id = $1 ORDER BY position")
                    .bind(&session_id)
                    .fetch_all(&mut transaction)
                    .await?;
            report.sessions += u64::from(is_new);
            report.already_present += u64::from(!is_new);
            let ids_in_file = messages.iter().map(|(_, id, _)| id.to_string());
            // Skips the conversation if the file has no new messages, or if the conversation has also grown here.
            if stored_ids.len() >= messages.len() || !stored_ids.iter().cloned().eq(ids_in_file.take(stored_ids.len()))
            {
                continue;
            }
            for (position, (time, id, message)) in messages.iter().enumerate().skip(stored_ids.len()) {
                let positioned_message = PositionedMessage {
                    id: *id,
                    timestamp: time.timestamp_millis(),
                    position: position as u64,
                    message,
                };
                positioned_message.insert(&session_id, &mut transaction).await?;
                report.messages += 1;
            }
            if let (false, Some((last_time, ..))) = (is_new, messages.last()) {
                query("UPDATE sessions SET updated_at = $1 WHERE id = $2 AND updated_at < $1")
                    .bind(last_time.timestamp_millis())
                    .bind(&session_id)
                    .execute(&mut transaction)
                    .await?;
            }
        }
        transaction.commit().await?;
        Ok(report)
    }
}

/// Adds the session unless it is here already; returns whether it was added.
async fn insert(
    session_id: &str,
    session: &SourceSession,
    messages: &[(DateTime<Utc>, Uuid, NewMessage)],
    transaction: &mut Transaction,
) -> Result<bool, StoreError> {
    let title_in_file = [&session.title, &session.name].into_iter().flatten().find(|title| !title.trim().is_empty());
    let title = title_in_file.map_or_else(|| title_from_messages(messages), |title| title.trim().to_owned());
    let model = match (&session.provider, &session.model) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (_, model) => model.clone(),
    };
    let first_and_last_time = [messages.first(), messages.last()].map(|message| message.map(|(time, ..)| *time));
    let created_at = parse_time(session.created_at.as_deref()).or(first_and_last_time[0]).unwrap_or_else(Utc::now);
    let updated_at = parse_time(session.updated_at.as_deref()).or(first_and_last_time[1]).unwrap_or(created_at);
    let inserted_rows = query(
        "INSERT INTO sessions (id, title, model, created_at, updated_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(session_id)
    .bind(cut_title(&title))
    .bind(model)
    .bind(created_at.timestamp_millis())
    .bind(updated_at.timestamp_millis())
    .execute(transaction)
    .await?;
    Ok(inserted_rows > 0)
}

#[cfg(test)]
mod tests;
