mod failures;
#[cfg(feature = "postgres")]
mod server;
mod stage;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use toolrack_host::{
    AnswerQuery, Answers, Caller, DefinitionHash, Memory, NewAnswer, Principal, ServerName, Way, principal::Kind,
    spec::Era,
};

use super::*;
use crate::database::{query, query_scalar};

pub(crate) use stage::{Stage, on_both};

/// Creates a store on SQLite; returns it with the folder of its file.
pub(crate) async fn new_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
    (folder, store)
}

/// Connects to the file without the code under test.
pub(crate) async fn raw(path: &Path) -> sqlx::SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

fn approval(name: &str, hash: &str) -> Approval {
    Approval { project: "/project".into(), name: name.into(), hash: hash.into(), shown: "{}".into(), approved_at: 1 }
}

#[tokio::test]
async fn remembered_eras_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/toolrack.db");
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.era("x").await, None);
    store.remember_era("x", Era::Modern).await;
    store.remember_era("y", Era::Legacy).await;
    store.remember_era("y", Era::Modern).await;
    store.close().await;

    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.era("x").await, Some(Era::Modern));
    assert_eq!(store.era("y").await, Some(Era::Modern));
}

async fn an_answer_of_a_member_covers_only_their_calls_and_is_deleted_with_them(stage: &Stage) {
    let store = stage.store().await;
    let fs = ServerName::new("fs").unwrap();
    let [ann, bob] = ["ann", "bob"].map(|name| Principal::new(Kind::Person, "acme", "i", name).unwrap());
    let tools = [("write".to_owned(), DefinitionHash::from_bytes([1; 32]))];
    let (fingerprint, definition) = ("a", tools[0].1);
    let about = |principal| AnswerQuery { server: &fs, fingerprint, tool: "write", definition, principal };
    let answer = |principal| NewAnswer {
        server: &fs,
        fingerprint,
        tools: &tools,
        of_server: false,
        principal,
        by: Way::Gateway,
    };
    assert!(store.remember(answer(Some(&ann))).await);
    assert!(store.recall(about(&ann)).await.is_some());
    let ann_added_again = ann.clone().in_membership(1);
    for other in [&bob, &ann_added_again, &Principal::LOCAL] {
        assert_eq!(store.recall(about(other)).await, None, "{other:?}");
    }
    assert!(store.remember(answer(None)).await);
    let by = Caller::local(Way::Daemon);
    let seen = async |principal| store.answers(OwnerFilter::Of(principal)).await.unwrap().len();
    assert_eq!((seen(&ann).await, seen(&bob).await, store.answers(OwnerFilter::All).await.unwrap().len()), (2, 1, 2));
    // A member cannot take back an answer that also covers the calls of others.
    assert_eq!(store.forget_answers(None, None, OwnerFilter::Of(&bob), &by).await.unwrap(), 0);
    assert!(store.recall(about(&bob)).await.is_some());
    assert_eq!(store.forget_answers(None, None, OwnerFilter::Of(&ann), &by).await.unwrap(), 1);
    assert!(store.remember(answer(Some(&bob))).await);
    store.forget_answers_of(&bob.key()).await.unwrap();
    store.forget_answers_of("").await.unwrap();
    let left = store.answers(OwnerFilter::All).await.unwrap();
    assert!(left.len() == 1 && left[0].owner.is_none(), "{left:?}");
}

async fn an_answer_covers_one_definition_of_one_server_until_it_is_taken_back(stage: &Stage) {
    let store = stage.store().await;
    let (fs, one, two) =
        (ServerName::new("fs").unwrap(), DefinitionHash::from_bytes([1; 32]), DefinitionHash::from_bytes([2; 32]));
    let about = |fingerprint, tool, definition| AnswerQuery {
        server: &fs,
        fingerprint,
        tool,
        definition,
        principal: &Principal::LOCAL,
    };
    let answer = |tools, of_server| NewAnswer {
        server: &fs,
        fingerprint: "a",
        tools,
        of_server,
        principal: None,
        by: Way::Agent,
    };
    let tools = [("read".to_owned(), one), ("write".to_owned(), one)];
    assert!(store.remember(answer(&tools, true)).await);
    let reason = store.recall(about("a", "read", one)).await.unwrap();
    assert!(
        reason.starts_with("a user said `always` on 2") && reason.ends_with("for all tools of this server"),
        "{reason}"
    );
    for other in [about("a", "read", two), about("b", "read", one), about("a", "wipe", one)] {
        assert_eq!(store.recall(other).await, None, "{other:?}");
    }
    // A newer answer is for the current definition, and replaces the answer for the older one.
    assert!(store.remember(answer(&[("write".to_owned(), two)], false)).await);
    assert_eq!(store.recall(about("a", "write", one)).await, None);
    assert!(store.recall(about("a", "write", two)).await.unwrap().ends_with("for this tool"));
    assert_eq!(store.answers(OwnerFilter::All).await.unwrap().len(), 2);

    assert_eq!(
        store.forget_answers(Some("fs"), Some("write"), OwnerFilter::All, &Caller::local(Way::Cli)).await.unwrap(),
        1
    );
    assert_eq!(store.forget_answers(Some("git"), None, OwnerFilter::All, &Caller::local(Way::Cli)).await.unwrap(), 0);
    assert_eq!(store.forget_answers(None, None, OwnerFilter::All, &Caller::local(Way::Daemon)).await.unwrap(), 1);
    assert_eq!(store.recall(about("a", "read", one)).await, None);
    let rows = store.audit(&audit::AuditQuery { limit: 9, ..audit::AuditQuery::default() }).await.unwrap();
    let decisions: Vec<_> =
        rows.into_iter().map(|row| (row.entry.decision.unwrap(), row.entry.tool.unwrap())).collect();
    assert_eq!(decisions, [("forgotten".into(), "write".into()), ("forgotten".into(), "read".into())]);
    assert!(store.verify_audit(None).await.unwrap().is_ok());
}

#[tokio::test]
async fn the_file_and_its_companions_are_for_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d/toolrack.db");
    let store = Store::open(&path).await.unwrap();
    store.remember_era("x", Era::Modern).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "database, log and index");
    assert!(files.iter().all(|file| mode(file) == 0o600));
    store.close().await;

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Store::open(&path).await.unwrap();
    assert_eq!(mode(&path), 0o600, "a file that others could read is closed to them");
}

async fn approvals_are_per_entry_and_can_be_taken_back(stage: &Stage) {
    let store = stage.store().await;
    store.approve(&approval("a", "1"), &Caller::local(Way::Cli)).await.unwrap();
    store.approve(&approval("b", "1"), &Caller::local(Way::Cli)).await.unwrap();
    store.approve(&approval("a", "2"), &Caller::local(Way::Cli)).await.unwrap();
    assert_eq!(store.approvals().await.unwrap(), [approval("a", "2"), approval("b", "1")]);
    assert!(store.revoke(Path::new("/project"), "a", &Caller::local(Way::Cli)).await.unwrap());
    assert!(!store.revoke(Path::new("/project"), "a", &Caller::local(Way::Cli)).await.unwrap());
    assert_eq!(store.approvals().await.unwrap(), [approval("b", "1")]);
}

async fn a_server_that_has_not_changed_is_not_written_again(stage: &Stage) {
    let store = stage.store().await;
    let seen = "SELECT seen_at FROM servers";
    store.remember_era("x", Era::Modern).await;
    let first: i64 =
        query_scalar(seen).fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap()).await.unwrap();
    store.write(query("UPDATE servers SET seen_at = seen_at - 10"), "testing").await.unwrap();
    store.remember_era("x", Era::Modern).await;
    assert_eq!(
        query_scalar(seen).fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap()).await.unwrap(),
        first - 10
    );
    store.write(query("UPDATE servers SET seen_at = seen_at - 100000"), "testing").await.unwrap();
    store.remember_era("x", Era::Modern).await;
    assert!(
        query_scalar(seen).fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap()).await.unwrap() >= first
    );
}

async fn servers_unseen_for_longest_are_forgotten(stage: &Stage) {
    let store = stage.store().await;
    store
        .write(
            query(
                "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 10004) \
         INSERT INTO servers (fingerprint, era, seen_at) SELECT 'f' || i, 'legacy', i FROM n",
            ),
            "testing",
        )
        .await
        .unwrap();
    store.remember_era("new", Era::Modern).await;
    let count: i64 = query_scalar("SELECT count(*) FROM servers")
        .fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap())
        .await
        .unwrap();
    assert_eq!(count, 10_000);
    assert_eq!(store.era("f0").await, None);
    assert_eq!(store.era("f10004").await, Some(Era::Legacy));
    assert_eq!(store.era("new").await, Some(Era::Modern));
}

async fn without_a_database_no_era_is_remembered_and_no_error_stops_a_connection(stage: &Stage) {
    let store = stage.store().await;
    stage.close(&store).await;
    store.remember_era("x", Era::Modern).await;
    assert_eq!(store.era("x").await, None);
    assert!(store.approvals().await.is_err());
}

#[tokio::test]
async fn memory_waits_for_a_busy_database_but_not_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    let store = Store::open(&path).await.unwrap();
    store.remember_era("x", Era::Modern).await;
    let mut other = raw(&path).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert_eq!(store.era("x").await, Some(Era::Modern), "readers do not wait for a writer");
    let start = Instant::now();
    store.remember_era("y", Era::Modern).await;
    assert!(start.elapsed() < Duration::from_secs(2));
}

/// Opens a file that the store must refuse; returns the error.
async fn refused(path: &Path) -> StoreError {
    Store::open_within(path.to_owned(), Duration::from_millis(50)).await.unwrap_err()
}

#[tokio::test]
async fn an_unusable_file_is_named_and_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);

    fs::write(file("text.db"), "this is not a database at all, and long enough to be one\n".repeat(50)).unwrap();
    let before = fs::read(file("text.db")).unwrap();
    assert!(matches!(refused(&file("text.db")).await, StoreError::Corrupt { .. }));
    assert_eq!(fs::read(file("text.db")).unwrap(), before);

    let mut connection = raw(&file("other.db")).await;
    sqlx::query("CREATE TABLE theirs (x)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let error = refused(&file("other.db")).await;
    assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");

    Store::open(file("new.db")).await.unwrap().close().await;
    let mut connection = raw(&file("new.db")).await;
    sqlx::query("PRAGMA user_version = 999").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let error = refused(&file("new.db")).await;
    let own = format!("schema 999, this one knows {}", sqlite::SCHEMA_VERSION);
    assert!(error.to_string().contains(&own), "{error}");

    let mut connection = raw(&file("busy.db")).await;
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut connection).await.unwrap();
    let error = refused(&file("busy.db")).await;
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");

    fs::create_dir(file("folder.db")).unwrap();
    let error = refused(&file("folder.db")).await;
    assert!(error.to_string().contains("folder.db"), "{error}");
    let error = refused(&file("text.db").join("below.db")).await;
    assert!(matches!(error, StoreError::Make { .. }), "{error:?}");
}

/// Files that older versions wrote, with the versions of their schemas.
const OLDER: [(i64, &[u8]); 3] = [
    (1, include_bytes!("../tests/fixtures/schema1.db")),
    (2, include_bytes!("../tests/fixtures/schema2.db")),
    (8, include_bytes!("../tests/fixtures/schema8.db")),
];

/// Asserts that the store has the rows that every file in [`OLDER`] has.
async fn assert_has_old_rows(store: &Store) {
    let approval = |name: &str| Approval {
        project: "/home/ada/shop".into(),
        hash: format!("hash of {name}"),
        shown: r#"{"command":"npx"}"#.into(),
        approved_at: 1_800_000_000,
        ..approval(name, "")
    };
    assert_eq!(store.approvals().await.unwrap(), [approval("fs"), approval("github")]);
    assert_eq!(store.era("npx -y @modelcontextprotocol/server-filesystem").await, Some(Era::Legacy));
    assert_eq!(store.era("https://example.com/mcp").await, Some(Era::Modern));
}

#[tokio::test]
async fn migrations_keep_the_content_of_older_files() {
    for (schema, bytes) in OLDER {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolrack.db");
        fs::write(&path, bytes).unwrap();
        assert!(Store::open_existing(&path).await.unwrap().is_none(), "schema {schema}");
        let store = Store::open(&path).await.unwrap();
        assert_has_old_rows(&store).await;
        let log = store.log(&LogQuery { limit: 9, ..LogQuery::default() }).await.unwrap();
        let lines: Vec<_> = log.iter().map(|line| (&*line.server, &*line.text)).collect();
        assert_eq!(lines, if schema == 1 { vec![] } else { vec![("fs", "first"), ("fs", "second")] });
        let query = audit::AuditQuery { limit: 9, ..audit::AuditQuery::default() };
        let rows = store.audit(&query).await.unwrap();
        let tools: Vec<_> = rows.iter().map(|row| (row.entry.tool.as_deref(), row.entry.agent.as_deref())).collect();
        assert_eq!(tools, if schema == 8 { vec![(Some("a"), None), (Some("bad"), None)] } else { vec![] });
        assert!(store.audit(&audit::AuditQuery { agent: Some("a".into()), ..query }).await.unwrap().is_empty());
        assert_eq!(store.verify_audit(None).await.unwrap().unwrap().rows, tools.len() as u64);
        let session = store.create_session(&NewSession::default()).await.unwrap();
        store.close().await;

        let store = Store::open_existing(&path).await.unwrap().unwrap();
        assert_has_old_rows(&store).await;
        assert_eq!(store.find_session("last", OwnerFilter::All).await.unwrap(), session);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_file_that_many_open_at_once_is_migrated_once() {
    for (_, bytes) in OLDER {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolrack.db");
        fs::write(&path, bytes).unwrap();
        let opening = (0..CHILDREN).map(async |_| {
            let store = Store::open(&path).await.unwrap();
            assert_has_old_rows(&store).await;
            store.create_session(&NewSession::default()).await.unwrap();
            store.close().await;
        });
        futures::future::join_all(opening).await;
        let store = Store::open(&path).await.unwrap();
        assert_eq!(store.session_totals(OwnerFilter::All).await.unwrap().sessions, CHILDREN as u64);
    }
}

#[tokio::test]
async fn an_older_file_that_cannot_be_migrated_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    fs::write(&path, OLDER[1].1).unwrap();
    let mut other = raw(&path).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert!(matches!(refused(&path).await, StoreError::Locked { .. }));
    other.close().await.unwrap();

    // A table of the same name makes the migration fail.
    let mut other = raw(&path).await;
    sqlx::query("CREATE TABLE chores (mine TEXT)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let error = refused(&path).await;
    assert!(error.to_string().contains("toolrack.db"), "{error}");
    let mut other = raw(&path).await;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('sessions', 'messages')";
    assert_eq!(sqlx::query_scalar::<_, i64>(tables).fetch_one(&mut other).await.unwrap(), 0);
    assert_eq!(sqlx::query_scalar::<_, i64>("PRAGMA user_version").fetch_one(&mut other).await.unwrap(), 2);
}

#[tokio::test]
async fn opening_waits_for_a_new_file_that_another_process_has_locked() {
    for hold in ["BEGIN EXCLUSIVE", "BEGIN; SELECT count(*) FROM sqlite_schema"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolrack.db");
        let mut other = raw(&path).await;
        sqlx::raw_sql(hold).execute(&mut other).await.unwrap();
        assert!(matches!(refused(&path).await, StoreError::Locked { .. }), "{hold}");
        let release = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
        };
        let (opened, ()) = futures::join!(Store::open(&path), release);
        opened.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_page_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    Store::open(&path).await.unwrap().close().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let error = match Store::open(&path).await {
        Ok(store) => store.approvals().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_read_only_database_is_reported_as_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    Store::open(&path).await.unwrap().close().await;
    let options = SqliteConnectOptions::new().filename(&path).read_only(true);
    let store =
        Store::from_file(sqlite::File::from_pool(sqlx::SqlitePool::connect_with(options).await.unwrap(), &path));
    let error = store.approve(&approval("a", "1"), &Caller::local(Way::Cli)).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
}

const CHILDREN: usize = 8;
const WRITES: usize = 20;

/// The child process of the next test: writes only if that test passes a path as an argument.
#[tokio::test]
async fn child_writes() {
    let Some(path) = std::env::args().find(|argument| argument.ends_with(".child.db")) else {
        return;
    };
    let id = std::process::id();
    let store = Store::open(path).await.unwrap();
    for index in 0..WRITES {
        store.approve(&approval(&format!("{id}-{index}"), "h"), &Caller::local(Way::Cli)).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn processes_that_open_and_write_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..CHILDREN)
        .map(|_| {
            Command::new(&program)
                .args(["--exact", "tests::child_writes"])
                .arg(&path)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.approvals().await.unwrap().len(), CHILDREN * WRITES);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_open_and_write_at_once_lose_nothing() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolrack.db");
        let writing = (0..CHILDREN).map(async |index| {
            let store = Store::open(&path).await.unwrap();
            store.approve(&approval(&index.to_string(), "h"), &Caller::local(Way::Cli)).await.unwrap();
            store.close().await;
        });
        futures::future::join_all(writing).await;
        let store = Store::open(&path).await.unwrap();
        assert_eq!(store.approvals().await.unwrap().len(), CHILDREN);
    }
}

#[tokio::test]
async fn a_database_is_opened_without_migration_only_if_its_schema_is_current() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    assert!(Store::open_existing(&path).await.unwrap().is_none());
    assert!(!path.exists(), "it was made");

    Store::open(&path).await.unwrap().close().await;
    let store = Store::open_existing(&path).await.unwrap().unwrap();
    assert_eq!(store.approvals().await.unwrap(), []);
    store.close().await;

    std::fs::write(&path, "").unwrap();
    assert!(Store::open_existing(&path).await.unwrap().is_none());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "it was migrated");
    std::fs::write(&path, "no database, but long enough to be looked at as one; ".repeat(20)).unwrap();
    assert!(Store::open_existing(&path).await.is_err());
}

#[tokio::test]
async fn a_store_that_closes_at_exit_loses_nothing_and_leaves_nothing_that_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    let log = sqlite::write_ahead_log(&path);
    let store = Store::open(&path).await.unwrap();
    let session = store.create_session(&NewSession::default()).await.unwrap();
    store.close_at_exit().await;
    assert!(log.metadata().is_ok_and(|log| log.len() > 0), "closing at exit does not wait for the disk");

    // This process still has the files open, so a copy of them shows what the next process would find.
    let (copy, copied) = (folder.path().join("copy.db"), sqlite::write_ahead_log(&folder.path().join("copy.db")));
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(&log, &copied).unwrap();
    let next = Store::open(&copy).await.unwrap();
    assert_eq!(next.session(session.id).await.unwrap().id, session.id);
    next.delete_session(session.id).await.unwrap();
    next.close_at_exit().await;
    assert!(!copied.exists(), "no file has the deleted rows");
}

on_both!(
    an_answer_of_a_member_covers_only_their_calls_and_is_deleted_with_them,
    an_answer_covers_one_definition_of_one_server_until_it_is_taken_back,
    approvals_are_per_entry_and_can_be_taken_back,
    a_server_that_has_not_changed_is_not_written_again,
    servers_unseen_for_longest_are_forgotten,
    without_a_database_no_era_is_remembered_and_no_error_stops_a_connection
);
