//! What goes wrong while something is written: it is named, and nothing of it stays.

use toolrack_host::{Caller, Way};

use super::*;
use crate::audit::AuditQuery;

/// Everything that is written, with content that fits into no page that there is.
#[derive(Clone, Copy, Debug)]
enum Writes {
    Approval,
    Revocation,
    Refusal,
    Log,
    Session,
    Title,
    End,
}

const ALL: [Writes; 7] =
    [Writes::Approval, Writes::Revocation, Writes::Refusal, Writes::Log, Writes::Session, Writes::Title, Writes::End];

/// Whether it needs more room than it gives back.
fn grows(writes: Writes) -> bool {
    !matches!(writes, Writes::Revocation | Writes::Title | Writes::End)
}

impl Writes {
    async fn done(self, store: &Store) -> Result<(), StoreError> {
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
            Self::Title => store.rename_session(store.find_session("last", Whose::All).await?.id, "another").await,
            Self::End => store.delete_session(store.find_session("last", Whose::All).await?.id).await,
        }
    }
}

fn line(text: &str) -> LogLine {
    let (server, source, kind) = ("fs".to_owned(), "/f".to_owned(), "stderr".to_owned());
    LogLine { id: 0, server, source, at: 1, kind, text: text.to_owned() }
}

/// A store with one of each.
async fn filled() -> (tempfile::TempDir, Store) {
    let (folder, store) = new_store().await;
    store.approve(&approval("old", "1"), &Caller::local(Way::Cli)).await.unwrap();
    store.keep_log(&[line("old")]).await.unwrap();
    store.create_session(&NewSession { title: "old".to_owned(), ..NewSession::default() }).await.unwrap();
    (folder, store)
}

/// All that is in it.
async fn content(store: &Store) -> String {
    let rows = store.audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.unwrap();
    let seals: Vec<_> = rows.into_iter().map(|row| (row.seq, row.hash)).collect();
    let sessions = store.sessions(&SessionQuery { limit: 99, ..SessionQuery::default() }).await.unwrap();
    let log = store.log(&LogQuery { limit: 99, ..LogQuery::default() }).await.unwrap();
    assert!(store.verify_audit(None).await.unwrap().is_ok(), "the chain is whole");
    format!(
        "{:?} {:?} {seals:?} {sessions:?} {log:?}",
        store.approvals().await.unwrap(),
        store.refusals().await.unwrap()
    )
}

#[tokio::test]
async fn a_full_disk_is_named_by_every_write_and_nothing_of_it_stays() {
    for writes in ALL.into_iter().filter(|writes| grows(*writes)) {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(store.pool()).await.unwrap();
        let limit = |pages: i64| sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit(pages)).execute(store.pool()).await.unwrap();
        let error = writes.done(&store).await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{writes:?}: {error:?}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(content(&store).await, before, "{writes:?}");
        // There is room again.
        sqlx::query(limit(pages * 100)).execute(store.pool()).await.unwrap();
        writes.done(&store).await.unwrap_or_else(|error| panic!("{writes:?}: {error:?}"));
        assert_ne!(content(&store).await, before, "{writes:?}");
    }
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_named_by_every_write_and_nothing_of_it_stays() {
    for writes in ALL {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let patient = Store::open_within(store.path().to_owned(), Duration::from_millis(20)).await.unwrap();
        let holding = store.begin_durably("holding").await.unwrap();
        let error = writes.done(&patient).await.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{writes:?}: {error:?}");
        assert!(error.to_string().contains("toolrack.db is in use by another process"), "{error}");
        assert_eq!(content(&patient).await, before, "{writes:?}: reading needs no leave");
        drop(holding);
        writes.done(&patient).await.unwrap();
        assert_ne!(content(&store).await, before, "{writes:?}: the other process sees it");
    }
}

#[tokio::test]
async fn a_database_that_may_only_be_read_is_named_by_every_write() {
    for writes in ALL {
        let (_folder, store) = filled().await;
        let before = content(&store).await;
        let path = store.path().to_owned();
        store.close().await;
        let options = SqliteConnectOptions::new().filename(&path).read_only(true);
        let reader = Store::of(sqlite::File::of(sqlx::SqlitePool::connect_with(options).await.unwrap(), &path));
        let error = writes.done(&reader).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{writes:?}: {error:?}");
        assert!(error.to_string().contains("check its permissions"), "{error}");
        assert_eq!(content(&reader).await, before, "{writes:?}");
    }
}
