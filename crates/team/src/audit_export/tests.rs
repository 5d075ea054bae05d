use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tempfile::TempDir;
use toolrack_host::{Caller, Way};
use toolrack_store::{Store, audit::ChainEnd};

use super::{key::tests::PRIVATE, *};
use crate::TeamFile;

/// Another key.
const OTHER: &str = r"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIBui53Ksu9aAEBXty8HchgQ8IGsxS24fUtfwr3KlIinL
-----END PRIVATE KEY-----
";

/// An object store in memory, which fails when a test wants it.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<String, Bytes>>,
    /// How many of the next writes fail.
    failures: AtomicU32,
    /// For how many more objects there is room. Without room, all writes fail. `None` for no bound.
    room: Mutex<Option<u32>>,
}

impl ObjectStore for Memory {
    fn put<'a>(&'a self, name: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), ObjectStoreError>> {
        Box::pin(async move {
            let fails = |left: u32| left.checked_sub(1);
            if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
                return Err(ObjectStoreError::Failed { why: "the object store is away".to_owned() });
            }
            if let Some(room) = &mut *self.room.lock() {
                let full = ObjectStoreError::Failed { why: "the object store is full".to_owned() };
                *room = room.checked_sub(1).ok_or(full)?;
            }
            let mut files = self.files.lock();
            match files.get(name) {
                Some(existing) if *existing != content => Err(ObjectStoreError::Occupied { name: name.to_owned() }),
                _ => {
                    files.insert(name.to_owned(), content);
                    Ok(())
                }
            }
        })
    }
}

impl ExportedFiles for Memory {
    fn names(&self, folder: &str) -> Result<Vec<String>, String> {
        let below = |name: &String| {
            let rest = name.strip_prefix(folder)?.strip_prefix('/')?;
            rest.split('/').next().map(str::to_owned)
        };
        let names: BTreeSet<_> = self.files.lock().keys().filter_map(below).collect();
        Ok(names.into_iter().collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.files.lock().get(name).map(|content| content.to_vec()))
    }
}

/// A team with one tenant, `acme`, and an object store in memory.
struct Stage {
    folder: TempDir,
    store: Store,
    object_store: Arc<Memory>,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
        Self { folder, store, object_store: Arc::default() }
    }

    /// Adds rows to the log of `acme`.
    async fn rows(&self, many: usize) {
        for row in 0..many {
            self.store.record_own_server(&Caller::local(Way::Daemon), &format!("s{row}"), true).await.unwrap();
        }
    }

    fn exporter(&self, key: &str, settings: &str) -> AuditExporter {
        let text = format!(
            "url = \"https://tools.example\"\n[audit_export]\nto = \"file:///out\"\nsigning_key = \"x\"\n\
             every = \"1s\"\ntimeout = \"1s\"\n{settings}"
        );
        let size = if settings.contains("rows_per_object") { "" } else { "\nrows_per_object = 3" };
        let text = text + size;
        let file = TeamFile::parse(&text, self.folder.path()).unwrap();
        let (key, store) = (SigningKey::from_pem(key).unwrap(), self.store.clone());
        let open: OpenLog = Box::new(move |log| {
            let store = store.clone();
            let opened = (log != LogName::Team).then_some(OpenedLog { store, close_after_round: false });
            Box::pin(async move { Ok(opened) })
        });
        let logs = vec![LogName::Team, LogName::Tenant("acme".to_owned())];
        AuditExporter::new(&file.audit_export.unwrap(), key, Arc::<Memory>::clone(&self.object_store), logs, open)
    }

    /// Runs one round of a new process, whether or not a round is due.
    async fn round(&self, key: &str, settings: &str) -> Arc<AuditExportStatus> {
        self.store.release_audit_export("file:///out", Duration::ZERO).await.unwrap();
        let mut exporter = self.exporter(key, settings);
        exporter.round().await;
        exporter.status()
    }

    /// The result of verifying the only log with the key `PRIVATE`.
    fn report(&self) -> LogReport {
        let keys = [SigningKey::from_pem(PRIVATE).unwrap().public()];
        let mut reports = verify(&*self.object_store, &keys).unwrap();
        assert_eq!(reports.len(), 1);
        reports.remove(0)
    }

    fn problems(&self) -> Vec<String> {
        self.report().problems.into_iter().map(|problem| format!("{} {}", problem.name, problem.why)).collect()
    }

    /// Changes the files, returns what is wrong then, and changes them back.
    fn problems_after(&self, change: impl FnOnce(&mut BTreeMap<String, Bytes>)) -> Vec<String> {
        let before = self.object_store.files.lock().clone();
        change(&mut self.object_store.files.lock());
        let problems = self.problems();
        *self.object_store.files.lock() = before;
        problems
    }
}

fn object(first: u64, last: u64) -> String {
    format!("tenants/acme/rows/{first:019}-{last:019}.jsonl")
}

fn head(number: u64) -> String {
    format!("tenants/acme/heads/{number:010}.jws")
}

#[tokio::test]
async fn rows_become_objects_and_each_round_signs_a_head() {
    let stage = Stage::new().await;
    stage.round(PRIVATE, "").await;
    assert!(stage.object_store.files.lock().is_empty(), "a log without rows is in no export");
    stage.rows(7).await;
    let status = stage.round(PRIVATE, "").await;
    assert_eq!((status.rows_behind(), status.failures()), (0, 0));
    stage.rows(1).await;
    stage.round(PRIVATE, "").await;
    stage.round(PRIVATE, "").await;
    let key = format!("keys/{}.json", SigningKey::from_pem(PRIVATE).unwrap().public().id());
    let names: Vec<_> = stage.object_store.files.lock().keys().cloned().collect();
    let expected = [key, head(1), head(2), object(1, 3), object(4, 6), object(7, 7), object(8, 8)];
    assert_eq!(names, expected, "a round without new rows writes nothing");
    let report = stage.report();
    assert_eq!((report.heads, report.rows, report.first), (2, 8, Some(1)));
    let end = stage.store.verify_audit(None).await.unwrap().unwrap().end;
    assert_eq!((report.end.unwrap().0, report.problems), (end, Vec::new()));
    stage.round(PRIVATE, "idle_every = \"1ms\"").await;
    assert_eq!(stage.report().heads, 3, "after `idle_every`, a log without new rows gets a head, too");
    stage.store.close().await;
}

#[tokio::test]
async fn each_change_in_the_place_is_found_and_named() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        stage.rows(4).await;
        stage.round(PRIVATE, "").await;
    }
    assert_eq!(stage.problems(), Vec::<String>::new());
    let (first, second) = (object(1, 3), object(4, 4));

    let byte = stage.problems_after(|files| {
        let mut content = files[&first].to_vec();
        content[40] ^= 1;
        files.insert(first.clone(), content.into());
    });
    assert_eq!(byte, [format!("{first} is not what was signed")]);

    let removed = stage.problems_after(|files| drop(files.remove(&second)));
    assert_eq!(removed, [format!("{second} is missing")]);

    let swapped = stage.problems_after(|files| {
        let (one, two) = (files[&first].clone(), files[&second].clone());
        files.extend([(first.clone(), two), (second.clone(), one)]);
    });
    assert_eq!(swapped, [&first, &second].map(|name| format!("{name} is not what was signed")));

    let missing = stage.problems_after(|files| drop(files.remove(&head(2))));
    assert_eq!(missing, ["tenants/acme has no right head 2"]);

    let moved = stage.problems_after(|files| drop(files.insert(head(3), files[&head(2)].clone())));
    assert_eq!(moved, [format!("{} is head 2 of `tenants/acme`, and not in its place", head(3))]);

    let cut = stage.problems_after(|files| drop(files.insert(head(3), "e30.e30.e30".into())));
    assert_eq!(cut, [format!("{} is no signed head", head(3))]);
    stage.store.close().await;
}

#[tokio::test]
async fn a_head_of_another_key_and_a_head_that_was_changed_prove_nothing() {
    let stage = Stage::new().await;
    stage.rows(4).await;
    stage.round(PRIVATE, "").await;
    let forger = Stage::new().await;
    forger.rows(4).await;
    forger.round(OTHER, "").await;
    let theirs = forger.object_store.files.lock().clone();
    let forged = stage.problems_after(|files| files.extend(theirs));
    let other = SigningKey::from_pem(OTHER).unwrap().public().id();
    let why = format!("{} is signed with another key: `{other}`", head(1));
    assert_eq!(
        forged,
        [why, "tenants/acme/heads has no head with a right signature, so that nothing is proved".into()]
    );

    let edited = stage.problems_after(|files| {
        let text = String::from_utf8(files[&head(1)].to_vec()).unwrap();
        let (body, signature) = text.rsplit_once('.').unwrap();
        let (header, claims) = body.split_once('.').unwrap();
        // Changes one letter in the middle of the claims, which are base64.
        let at = claims.len() / 2;
        let letter = if &claims[at..=at] == "A" { "B" } else { "A" };
        let claims = format!("{}{letter}{}", &claims[..at], &claims[at + 1..]);
        files.insert(head(1), format!("{header}.{claims}.{signature}").into());
    });
    assert!(edited[0].starts_with(&head(1)), "{edited:?}");
    stage.store.close().await;
}

#[tokio::test]
async fn objects_that_no_head_names_are_reported_and_prove_nothing() {
    let stage = Stage::new().await;
    stage.rows(1).await;
    stage.round(PRIVATE, "").await;
    stage.object_store.files.lock().insert(object(2, 2), "{}".into());
    let report = stage.report();
    assert_eq!((report.rows, report.unnamed, report.problems), (1, vec![object(2, 2)], Vec::new()));
    stage.store.close().await;
}

#[tokio::test]
async fn a_round_goes_on_where_a_killed_process_stopped_and_writes_the_same_objects() {
    for room in 0..6 {
        let stage = Stage::new().await;
        stage.rows(4).await;
        *stage.object_store.room.lock() = Some(room);
        let status = stage.round(PRIVATE, "retries = 0").await;
        assert_eq!(status.failures(), u64::from(room < 4), "two objects, a key and a head");
        *stage.object_store.room.lock() = None;
        // The next process has more rows to write, and other settings.
        stage.rows(2).await;
        stage.round(PRIVATE, "rows_per_object = 2").await;
        let report = stage.report();
        assert_eq!((report.heads, report.rows), (2, 6), "{room}");
        assert_eq!((report.problems, report.unnamed), (Vec::new(), Vec::new()), "{room}");
        stage.store.close().await;
    }
}

#[tokio::test]
async fn a_place_that_is_away_is_tried_again_within_bounds_and_its_settings_are_named() {
    let stage = Stage::new().await;
    stage.rows(2).await;
    stage.object_store.failures.store(2, Ordering::Relaxed);
    let status = stage.round(PRIVATE, "retries = 2").await;
    assert_eq!((status.failures(), status.rows_behind()), (0, 0));
    stage.rows(1).await;
    stage.object_store.failures.store(3, Ordering::Relaxed);
    let status = stage.round(PRIVATE, "retries = 2").await;
    assert_eq!((status.failures(), stage.object_store.failures.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(status.rows_behind(), 1);
    stage.round(PRIVATE, "").await;
    assert_eq!((stage.report().heads, stage.problems()), (2, Vec::new()));
    stage.store.close().await;
}

#[tokio::test]
async fn a_database_that_was_set_back_is_noticed_and_overwrites_nothing() {
    let stage = Stage::new().await;
    stage.rows(2).await;
    stage.round(PRIVATE, "").await;
    let before = stage.object_store.files.lock().clone();
    let other = Stage { object_store: Arc::clone(&stage.object_store), ..Stage::new().await };
    other.rows(2).await;
    assert_eq!(other.round(PRIVATE, "").await.failures(), 1);
    assert_eq!(*stage.object_store.files.lock(), before);
    stage.store.close().await;
}

#[tokio::test]
async fn a_key_that_changes_while_the_process_runs_signs_the_next_head() {
    let stage = Stage::new().await;
    let keys = Arc::new(Mutex::new(Ok(PRIVATE)));
    let given = Arc::clone(&keys);
    let read: ReadSigningKey = Box::new(move || {
        let key = given.lock().map(|pem| SigningKey::from_pem(pem).unwrap()).map_err(str::to_owned);
        Box::pin(async move { key })
    });
    let mut exporter = stage.exporter(PRIVATE, "retries = 0").with_changing_key(read);
    let mut round = async |rows| {
        stage.rows(rows).await;
        stage.store.release_audit_export("file:///out", Duration::ZERO).await.unwrap();
        exporter.round().await;
        exporter.status().failures()
    };
    assert_eq!(round(1).await, 0);
    // The second head is begun with the first key.
    *stage.object_store.room.lock() = Some(1);
    assert_eq!(round(1).await, 1);
    *stage.object_store.room.lock() = None;
    *keys.lock() = Ok(OTHER);
    assert_eq!(round(1).await, 1);
    *keys.lock() = Err("the key is away");
    assert_eq!(round(1).await, 2, "without a key, nothing is signed");

    let [one, other] = [PRIVATE, OTHER].map(|key| SigningKey::from_pem(key).unwrap().public());
    let report = verify(&*stage.object_store, &[one, other]).unwrap().remove(0);
    assert_eq!((report.heads, report.rows, report.problems), (3, 3, Vec::new()));
    let why = format!("is signed with another key: `{}`", other.id());
    let found = verify(&*stage.object_store, &[one]).unwrap().remove(0);
    let found: Vec<_> = found.problems.into_iter().map(|problem| (problem.name, problem.why)).collect();
    assert_eq!(found, [(head(3), why)], "the head that was begun with the old key is signed with it");
    stage.store.close().await;
}

#[tokio::test]
async fn two_processes_write_one_head() {
    let stage = Stage::new().await;
    stage.rows(4).await;
    let (mut one, mut two) = (stage.exporter(PRIVATE, ""), stage.exporter(PRIVATE, ""));
    let _ = tokio::join!(one.round(), two.round());
    assert_eq!((stage.report().heads, stage.problems()), (1, Vec::new()));
    assert_eq!((one.status().failures(), two.status().failures()), (0, 0));
    stage.store.close().await;
}

#[test]
fn a_line_of_an_export_fits_only_behind_its_own_row() {
    let end = ChainEnd { seq: 0, hash: [0; 32] };
    for line in ["", "{}", "{\"seq\":1,\"at_ms\":0,\"body\":{},\"hash\":\"00\"}"] {
        assert_eq!(end.after_line(line), None, "{line}");
    }
}
