use std::fs;

use sqlx::SqliteConnection;

use super::*;
use crate::tests::{Stage, new_store, on_both};
use crate::{OwnerFilter, Role, SessionQuery, Step};

/// The tables of the other program before it knew tools, from its design.
const FIRST: &str = "CREATE TABLE sessions (id TEXT PRIMARY KEY NOT NULL, name TEXT, provider TEXT NOT NULL, \
    model TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL); \
    CREATE TABLE messages (id TEXT PRIMARY KEY NOT NULL, session_id TEXT NOT NULL, role TEXT NOT NULL, \
    content TEXT NOT NULL, timestamp TEXT NOT NULL, \
    FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE);";

/// `20260208_002_add_tool_columns.sql`, word by word.
const SECOND: &str = "ALTER TABLE messages ADD COLUMN tool_calls TEXT;
ALTER TABLE messages ADD COLUMN tool_results TEXT;
";

const SESSION: &str = "019c2f00-0000-7000-8000-000000000001";
const OTHER: &str = "019c2f00-0000-7000-8000-000000000002";

fn message_id(number: u32) -> String {
    format!("019c2f00-0000-7000-9000-{number:012}")
}

/// A file of the other program, and a connection that writes to it.
struct Old {
    folder: tempfile::TempDir,
    connection: SqliteConnection,
}

impl Old {
    async fn new(schema: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("sessions.db")).create_if_missing(true);
        let connection = options.connect().await.unwrap();
        let mut old = Self { folder, connection };
        for sql in schema {
            old.run(sql).await;
        }
        old
    }

    async fn run(&mut self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection).await.unwrap();
    }

    async fn session(&mut self, id: &str, name: &str) {
        let name = if name.is_empty() { "NULL".to_owned() } else { format!("'{name}'") };
        self.run(&format!(
            "INSERT INTO sessions (id, name, provider, model, created_at, updated_at) VALUES ('{id}', {name}, \
             'anthropic', 'claude-3-5-sonnet', '2026-02-08T10:00:00.123456789+00:00', '2026-02-08T10:05:00+00:00')"
        ))
        .await;
    }

    async fn says(&mut self, number: u32, session: &str, role: &str, content: &str) {
        self.run(&format!(
            "INSERT INTO messages (id, session_id, role, content, timestamp) VALUES \
             ('{}', '{session}', '{role}', '{content}', '2026-02-08T10:00:{number:02}.5+00:00')",
            message_id(number)
        ))
        .await;
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("sessions.db")
    }

    /// Returns all files of the folder with their bytes, without the index of the write-ahead log, which readers
    /// change.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap());
        let mut files: Vec<_> = files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .filter(|(name, _)| !name.ends_with("-shm"))
            .collect();
        files.sort();
        files
    }
}

fn imported(sessions: u64, messages: u64, known: u64) -> ImportReport {
    ImportReport { sessions, messages, already_present: known }
}

async fn contents(store: &Store, session: &str) -> Vec<String> {
    let id = Uuid::try_parse(session).unwrap();
    store.messages(id, 0, usize::MAX).await.unwrap().into_iter().map(|message| message.content).collect()
}

#[tokio::test]
async fn sessions_from_before_there_were_tools_are_taken_over() {
    let mut old = Old::new(&[FIRST]).await;
    old.session(SESSION, "").await;
    old.says(2, SESSION, "assistant", "Hi!").await;
    old.says(1, SESSION, "user", "\n  What is in this folder?\nAll of it.").await;
    old.session(OTHER, "named").await;
    let before = old.files();
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(2, 2, 0));
    assert_eq!(old.files(), before);

    let session = store.find_session(SESSION, OwnerFilter::All).await.unwrap();
    assert_eq!(session.title, "What is in this folder?");
    assert_eq!(session.model.as_deref(), Some("anthropic/claude-3-5-sonnet"));
    assert_eq!(session.created_at.to_rfc3339(), "2026-02-08T10:00:00.123+00:00");
    assert_eq!(session.updated_at.to_rfc3339(), "2026-02-08T10:05:00+00:00");
    assert_eq!(store.find_session(OTHER, OwnerFilter::All).await.unwrap().title, "named");
    let messages = store.messages(session.id, 0, 9).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::User, Role::Assistant]);
    assert_eq!(messages[1].id.to_string(), message_id(2));
    assert_eq!(messages[1].timestamp.to_rfc3339(), "2026-02-08T10:00:02.500+00:00");
    assert!(messages.iter().all(|message| message.tool_calls.is_none() && message.body.is_none()));
}

#[tokio::test]
async fn the_positions_of_a_file_count_more_than_its_times() {
    let mut old = Old::new(&[FIRST, SECOND, "ALTER TABLE messages ADD COLUMN position INTEGER"]).await;
    old.session(SESSION, "").await;
    // The clock was set back before the second message.
    for (number, role, content, position) in [(2, "assistant", "second", 10), (3, "user", "first", 9)] {
        old.says(number, SESSION, role, content).await;
        old.run(&format!("UPDATE messages SET position = {position} WHERE content = '{content}'")).await;
    }
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(1, 2, 0));
    assert_eq!(contents(&store, SESSION).await, ["first", "second"]);
}

async fn calls_and_results_come_with_the_columns_of_the_second_schema(stage: &Stage) {
    let mut old = Old::new(&[FIRST]).await;
    old.session(SESSION, "").await;
    old.says(1, SESSION, "user", "from before").await;
    old.run(SECOND).await;
    old.says(2, SESSION, "assistant", "").await;
    old.says(3, SESSION, "tool", "a.txt").await;
    let calls = r#"[{"id":"call_1","name":"list","input":{"path":"."}}]"#;
    old.run(&format!("UPDATE messages SET tool_calls = '{calls}' WHERE role = 'assistant'")).await;
    old.run(r#"UPDATE messages SET tool_results = '{"tool_call_id":"call_1"}' WHERE role = 'tool'"#).await;
    let store = stage.store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(1, 3, 0));
    let messages = store.messages(Uuid::try_parse(SESSION).unwrap(), 0, 9).await.unwrap();
    assert_eq!((&messages[0].tool_calls, &messages[0].tool_results), (&None, &None), "old rows stay as they were");
    assert_eq!(messages[1].tool_calls.as_deref(), Some(calls));
    assert_eq!(messages[2].role, Role::Tool);
    assert_eq!(messages[2].tool_results.as_deref(), Some(r#"{"tool_call_id":"call_1"}"#));
}

async fn importing_again_adds_only_new_servers(stage: &Stage) {
    let mut old = Old::new(&[FIRST, SECOND]).await;
    old.session(SESSION, "one").await;
    old.says(1, SESSION, "user", "1").await;
    let store = stage.store().await;
    store.import_sessions(&old.path()).await.unwrap();
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(0, 0, 1));

    old.says(2, SESSION, "assistant", "2").await;
    old.session(OTHER, "two").await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(1, 1, 1));
    assert_eq!(contents(&store, SESSION).await, ["1", "2"]);

    // From here on, two conversations: ours stays what it is.
    let ours = Step { position: 2, messages: vec![NewMessage::new(Role::User, "ours")], ..Step::default() };
    store.append(Uuid::try_parse(SESSION).unwrap(), &ours).await.unwrap();
    store.rename_session(Uuid::try_parse(SESSION).unwrap(), "mine").await.unwrap();
    old.says(3, SESSION, "user", "3").await;
    old.says(4, SESSION, "user", "4").await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(0, 0, 2));
    assert_eq!(contents(&store, SESSION).await, ["1", "2", "ours"]);
    assert_eq!(store.find_session(SESSION, OwnerFilter::All).await.unwrap().title, "mine");
}

#[tokio::test]
async fn a_database_with_a_write_ahead_log_is_read_with_it_and_stays_unchanged() {
    let mut old = Old::new(&["PRAGMA journal_mode = WAL", FIRST, SECOND]).await;
    old.session(SESSION, "one").await;
    old.says(1, SESSION, "user", "in the log").await;
    let before = old.files();
    assert_eq!(before.len(), 2, "the file and its log");
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(1, 1, 0));
    assert_eq!(old.files(), before, "while the other program runs");

    let path = old.path();
    let Old { folder, connection } = old;
    connection.close().await.unwrap();
    let names = || fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names(), ["sessions.db"]);
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&path).await.unwrap(), imported(1, 1, 0));
    assert_eq!(names(), ["sessions.db"], "no file of SQLite is left behind");
}

#[tokio::test]
async fn a_log_that_a_crash_left_is_read_too() {
    let mut old = Old::new(&["PRAGMA journal_mode = WAL", FIRST, SECOND]).await;
    old.session(SESSION, "one").await;
    old.says(1, SESSION, "user", "in the log").await;
    // As the files stand when the program is killed: its locks are gone, and its log is there.
    let crashed = tempfile::tempdir().unwrap();
    for (name, bytes) in old.files() {
        fs::write(crashed.path().join(name), bytes).unwrap();
    }
    let path = crashed.path().join("sessions.db");
    let read = |name: &str| fs::read(crashed.path().join(name)).unwrap();
    let before = (read("sessions.db"), read("sessions.db-wal"));
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&path).await.unwrap(), imported(1, 1, 0));
    assert_eq!((read("sessions.db"), read("sessions.db-wal")), before);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut old = Old::new(&["PRAGMA journal_mode = WAL", FIRST]).await;
    old.session(SESSION, "one").await;
    let Old { folder, connection } = old;
    connection.close().await.unwrap();
    let path = folder.path().join("sessions.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(&path).await.unwrap(), imported(1, 0, 0));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

async fn refused(store: &Store, path: &Path) -> String {
    let error = store.import_sessions(path).await.unwrap_err();
    assert!(matches!(error, StoreError::NoSessions { .. }), "{error:?}");
    error.to_string().replace(&path.parent().unwrap().display().to_string(), "…")
}

#[tokio::test]
async fn a_file_without_sessions_is_refused_with_the_reason() {
    let (folder, store) = new_store().await;
    let file = |name: &str| folder.path().join(name);
    fs::write(file("text"), "no database at all, and long enough to be one\n".repeat(50)).unwrap();
    fs::write(file("empty"), "").unwrap();
    let reason = "holds no sessions that can be read:";
    assert_eq!(refused(&store, &file("none")).await, format!("…/none {reason} there is no such file"));
    fs::create_dir(file("folder")).unwrap();
    assert_eq!(refused(&store, &file("folder")).await, format!("…/folder {reason} it is not a file"));
    assert!(std::process::Command::new("mkfifo").arg(file("pipe")).status().unwrap().success());
    assert_eq!(refused(&store, &file("pipe")).await, format!("…/pipe {reason} it is not a file"));
    assert_eq!(refused(&store, &file("text")).await, format!("…/text {reason} it is damaged or no database"));
    let without = format!("{reason} it has no tables `sessions` and `messages` that are known here");
    assert_eq!(refused(&store, &file("empty")).await, format!("…/empty {without}"));
    assert_eq!(fs::read(file("empty")).unwrap(), b"", "it was only read");
    let other = Old::new(&["CREATE TABLE sessions (token TEXT); CREATE TABLE messages (id TEXT)"]).await;
    assert_eq!(refused(&store, &other.path()).await, format!("…/sessions.db {without}"));

    let mut odd = Old::new(&[FIRST]).await;
    odd.session(SESSION, "fine").await;
    odd.says(1, SESSION, "user", "fine").await;
    odd.session("not an id\u{1b}[2J", "odd").await;
    let why = r"a session's id is `not an id\u{1b}[2J`";
    assert_eq!(refused(&store, &odd.path()).await, format!("…/sessions.db {reason} {why}"));
    odd.run("DELETE FROM sessions WHERE name = 'odd'").await;
    odd.says(2, SESSION, "function", "x").await;
    assert_eq!(refused(&store, &odd.path()).await, format!("…/sessions.db {reason} a role is `function`"));
    assert_eq!(
        store.sessions(&SessionQuery { limit: 9, ..SessionQuery::default() }).await.unwrap(),
        [],
        "nothing stays"
    );
    odd.run("UPDATE messages SET role = 'tool', id = '1' WHERE role = 'function'").await;
    assert_eq!(refused(&store, &odd.path()).await, format!("…/sessions.db {reason} a message's id is `1`"));
}

async fn missing_columns_and_other_formats_are_read_as_well_as_possible(stage: &Stage) {
    let mut old = Old::new(&[
        "CREATE TABLE sessions (id BLOB PRIMARY KEY, model TEXT)",
        "CREATE TABLE messages (id BLOB, session_id BLOB, role TEXT, content TEXT, timestamp)",
    ])
    .await;
    let id = SESSION.replace('-', "");
    old.run(&format!("INSERT INTO sessions VALUES (x'{id}', 'gpt-4')")).await;
    for (number, at) in ["1770544800", "1770544801000", "'2026-02-08 10:00:02.5'", "NULL"].into_iter().enumerate() {
        let message = message_id(number as u32).replace('-', "");
        old.run(&format!("INSERT INTO messages VALUES (x'{message}', x'{id}', 'user', {number}, {at})")).await;
    }
    let store = stage.store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(1, 4, 0));
    let session = store.find_session(SESSION, OwnerFilter::All).await.unwrap();
    assert_eq!((session.title.as_str(), session.model.as_deref()), ("0", Some("gpt-4")));
    assert_eq!(session.created_at.to_rfc3339(), "2026-02-08T10:00:00+00:00");
    assert_eq!(session.updated_at.to_rfc3339(), "2026-02-08T10:00:02.500+00:00");
    assert_eq!(contents(&store, SESSION).await, ["0", "1", "2", "3"]);
}

async fn a_file_that_another_program_is_writing_to_is_named(stage: &Stage) {
    let mut old = Old::new(&[FIRST]).await;
    old.run("BEGIN EXCLUSIVE").await;
    let error = Source::open(&old.path(), Duration::from_millis(50)).await.err().unwrap();
    assert!(matches!(&error, StoreError::Locked { path } if *path == old.path()), "{error:?}");
    old.run("ROLLBACK").await;
    let store = stage.store().await;
    assert_eq!(store.import_sessions(&old.path()).await.unwrap(), imported(0, 0, 0));
}

#[tokio::test]
async fn sessions_of_another_toolrack_come_with_their_bodies() {
    let (_theirs, theirs) = new_store().await;
    let new =
        crate::NewSession { title: "theirs".to_owned(), model: Some("mock/one".to_owned()), agent: None, owner: None };
    let session = theirs.create_session(&new).await.unwrap();
    let message = |text: &str| NewMessage { body: Some(format!("[\"{text}\"]")), ..NewMessage::new(Role::User, text) };
    let step = Step { messages: vec![message("b"), message("a"), message("c")], ..Step::default() };
    theirs.append(session.id, &step).await.unwrap();
    let (_folder, store) = new_store().await;
    assert_eq!(store.import_sessions(theirs.path()).await.unwrap(), imported(1, 3, 0));
    assert_eq!(store.import_sessions(store.path()).await.unwrap(), imported(0, 0, 1), "its own are known");
    let (here, there) = (
        store.find_session("last", OwnerFilter::All).await.unwrap(),
        theirs.find_session("last", OwnerFilter::All).await.unwrap(),
    );
    assert_eq!((here.title, here.model, here.created_at), (there.title, there.model, there.created_at));
    assert_eq!(store.messages(session.id, 0, 9).await.unwrap(), theirs.messages(session.id, 0, 9).await.unwrap());
}

on_both!(
    calls_and_results_come_with_the_columns_of_the_second_schema,
    importing_again_adds_only_new_servers,
    missing_columns_and_other_formats_are_read_as_well_as_possible,
    a_file_that_another_program_is_writing_to_is_named
);
