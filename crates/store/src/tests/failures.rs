//! Failing writes: each error names its cause, and a failed write changes nothing.

use toolrack_host::{Caller, Way};

use super::*;
use crate::audit::AuditQuery;

/// The kinds of writes. A row that one of them adds is so large that it needs new pages.
#[derive(Clone, Copy, Debug)]
enum Write {
    Approval,
    Revocation,
    Refusal,
    Log,
    Session,
    Title,
    End,
}

const ALL: [Write; 7] =
    [Write::Approval, Write::Revocation, Write::Refusal, Write::Log, Write::Session, Write::Title, Write::End];

/// Whether this write makes the file larger.
fn grows(write: Write) -> bool {
    !matches!(write, Write::Revocation | Write::Title | Write::End)
}

impl Write {
    async fn run(self, store: &Store) -> Result<(), StoreError> {
        let long = "x".repeat(200_000);
        match self {
            Self::Approval => store.approve(&approval("new", &long), &Caller::local(Way::Cli)).await,
            Self::Revocation => store.revoke(Path::new("/project"), "old", &Caller::local(Way::Cli)).await.map(drop),
            Self::Refusal => {
                let refusal = Refusal { project: "/project".into(), name: "new".into(), hash: long };
                store.refuse(&refusal, &Caller::local(Way::Cli)).await
            }
            Self::Log => store.keep_log(&vec![line(&long); 50]).await,
            Self::Session => {
                store.create_session(&NewSession { model: Some(long), ..NewSession::default() }).await.map(drop)
            }
            Self::Title => {
                store.rename_session(store.find_session("last", OwnerFilter::All).await?.id, "another").await
            }
            Self::End => store.delete_session(store.find_session("last", OwnerFilter::All).await?.id).await,
        }
    }
}

fn line(text: &str) -> LogLine {
    let (server, source, kind) = ("fs".to_owned(), "/f".to_owned(), "stderr".to_owned());
    LogLine { id: 0, server, source, at: 1, kind, text: text.to_owned() }
}

/// A store with one approval, one log line and one session.
async fn filled() -> (tempfile::TempDir, Store) {
    let (folder, store) = new_store().await;
    store.approve(&approval("old", "1"), &Caller::local(Way::Cli)).await.unwrap();
    store.keep_log(&[line("old")]).await.unwrap();
    store.create_session(&NewSession { title: "old".to_owned(), ..NewSession::default() }).await.unwrap();
    (folder, store)
}

/// Everything that the store contains, as text.
async fn content(store: &Store) -> String {
    let rows = store.audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.unwrap();
    let hashes: Vec<_> = rows.into_iter().map(|row| (row.seq, row.hash)).collect();
    let sessions = store.sessions(&SessionQuery { limit: 99, ..SessionQuery::default() }).await.unwrap();
    let log = store.log(&LogQuery { limit: 99, ..LogQuery::default() }).await.unwrap();
    assert!(store.verify_audit(None).await.unwrap().is_ok(), "the chain is intact");
    format!(
        "{:?} {:?} {hashes:?} {sessions:?} {log:?}",
        store.approvals().await.unwrap(),
        store.refusals().await.unwrap()
    )
}

#[tokio::test]
async fn every_write_reports_a_full_disk_and_changes_nothing() {
    for write in ALL.into_iter().filter(|write| grows(*write)) {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(store.pool()).await.unwrap();
        let limit = |pages: i64| sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit(pages)).execute(store.pool()).await.unwrap();
        let error = write.run(&store).await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{write:?}: {error:?}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(content(&store).await, before, "{write:?}");
        // There is room again.
        sqlx::query(limit(pages * 100)).execute(store.pool()).await.unwrap();
        write.run(&store).await.unwrap_or_else(|error| panic!("{write:?}: {error:?}"));
        assert_ne!(content(&store).await, before, "{write:?}");
    }
}

#[tokio::test]
async fn every_write_reports_a_locked_database_and_changes_nothing() {
    for write in ALL {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let impatient = Store::open_within(store.path().to_owned(), Duration::from_millis(20)).await.unwrap();
        let lock = store.begin_durably("holding the lock").await.unwrap();
        let error = write.run(&impatient).await.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{write:?}: {error:?}");
        assert!(error.to_string().contains("toolrack.db is in use by another process"), "{error}");
        assert_eq!(content(&impatient).await, before, "{write:?}: reading needs no lock");
        drop(lock);
        write.run(&impatient).await.unwrap();
        assert_ne!(content(&store).await, before, "{write:?}: the other process sees it");
    }
}

#[tokio::test]
async fn every_write_reports_a_read_only_database() {
    for write in ALL {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let path = store.path().to_owned();
        store.close().await;
        let options = SqliteConnectOptions::new().filename(&path).read_only(true);
        let reader =
            Store::from_file(sqlite::File::from_pool(sqlx::SqlitePool::connect_with(options).await.unwrap(), &path));
        let error = write.run(&reader).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{write:?}: {error:?}");
        assert!(error.to_string().contains("check its permissions"), "{error}");
        assert_eq!(content(&reader).await, before, "{write:?}");
    }
}
