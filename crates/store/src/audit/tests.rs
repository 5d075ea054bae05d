mod export;
mod lines;
mod queries;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use serde_json::json;
use sqlx::{Connection as _, Executor as _};
use tempfile::TempDir;
use toolrack_host::{Caller, Fact, ServerName, Way, Witness as _};

use super::*;
use crate::database::query;
use crate::{
    Approval,
    tests::{Stage, new_store, on_both, raw},
};

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn call(tool: &str) -> Entry {
    let decision = if tool.starts_with("bad") { "denied" } else { "allowed" };
    Entry {
        server: Some("fs".to_owned()),
        tool: Some(tool.to_owned()),
        decision: Some(decision.to_owned()),
        ..Entry::of_kind("call")
    }
}

async fn open(folder: &TempDir) -> Store {
    Store::open(folder.path().join("toolrack.db")).await.unwrap()
}

/// Adds a row for a call of each of `tools`.
async fn add_calls(store: &Store, tools: &[&str]) {
    for (at, tool) in tools.iter().enumerate() {
        store.keep_audit(&[(1_000 + at as i64, call(tool))]).await.unwrap();
    }
}

/// Verifies the chain, without an end that was saved elsewhere.
async fn verified(store: &Store) -> Result<Chain, Break> {
    store.verify_audit(None).await.unwrap()
}

/// Changes the file as an attacker would: first removes the triggers that forbid it.
async fn tamper(path: &Path, statements: &str) {
    let mut connection = raw(path).await;
    let all = format!("DROP TRIGGER audit_rows_stay; DROP TRIGGER audit_rows_stay_as_they_are; {statements}");
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(all))).await.unwrap();
    connection.close().await.unwrap();
}

async fn an_untouched_chain_is_valid_and_is_read_in_order(stage: &Stage) {
    let store = stage.store().await;
    assert_eq!(verified(&store).await.unwrap(), Chain { rows: 0, first: 1, end: ChainEnd { seq: 0, hash: [0; 32] } });
    add_calls(&store, &["a", "b", "bad", "d"]).await;
    // Rows of one batch, which is split over several statements.
    let many: Vec<_> = (0..70).map(|number| (2_000, call(&format!("t{number}")))).collect();
    store.keep_audit(&many).await.unwrap();
    let full = verified(&store).await.unwrap();
    assert_eq!((full.rows, full.first, full.end.seq), (74, 1, 74));
    assert_eq!(full.end.to_string().parse(), Ok(full.end));

    let tools = |query: AuditQuery| {
        let store = store.clone();
        async move {
            let rows = store.audit(&query).await.unwrap();
            rows.into_iter().map(|row| (row.seq, row.entry.tool.unwrap())).collect::<Vec<_>>()
        }
    };
    let named = |rows: &[(u64, &str)]| rows.iter().map(|(seq, tool)| (*seq, (*tool).to_owned())).collect::<Vec<_>>();
    let limit = 2;
    assert_eq!(tools(AuditQuery { limit, ..AuditQuery::default() }).await, named(&[(73, "t68"), (74, "t69")]));
    let before = Some(4);
    assert_eq!(tools(AuditQuery { limit, before, ..AuditQuery::default() }).await, named(&[(2, "b"), (3, "bad")]));
    assert_eq!(tools(AuditQuery { limit, denied: true, ..AuditQuery::default() }).await, named(&[(3, "bad")]));
    let (tool, server) = (Some("b".to_owned()), Some("fs".to_owned()));
    assert_eq!(tools(AuditQuery { limit, tool, server, ..AuditQuery::default() }).await, named(&[(2, "b")]));
    let server = Some("other".to_owned());
    assert!(tools(AuditQuery { limit, server, ..AuditQuery::default() }).await.is_empty());
    assert_eq!(tools(AuditQuery { limit: 99, since: Some(2_000), ..AuditQuery::default() }).await.len(), 70);
    let first = store.oldest_audit_rows(&AuditQuery { after: 2, limit: 1, ..AuditQuery::default() }).await.unwrap();
    assert_eq!(first[0].seq, 3);
}

async fn the_filter_for_denied_calls_finds_exactly_the_calls_that_did_not_run(stage: &Stage) {
    let store = stage.store().await;
    let all = [
        Decision::Allowed,
        Decision::Remembered,
        Decision::Confirmed,
        Decision::Edited,
        Decision::Denied,
        Decision::Declined,
        Decision::CannotAsk,
        Decision::Unanswered,
    ];
    let decided = |decision: &Decision| Entry { decision: Some(decision.word().to_owned()), ..call("t") };
    store.keep_audit(&all.iter().map(|decision| (1_000, decided(decision))).collect::<Vec<_>>()).await.unwrap();
    let rows = store.audit(&AuditQuery { denied: true, limit: 99, ..AuditQuery::default() }).await.unwrap();
    let denied: Vec<_> = rows.into_iter().map(|row| row.entry.decision.unwrap()).collect();
    let expected: Vec<_> =
        all.into_iter().filter(|decision| !Decision::YES.contains(decision)).map(Decision::word).collect();
    assert_eq!(denied, expected);
}

async fn batches_of_every_size_are_added_in_their_order(stage: &Stage) {
    let store = stage.store().await;
    let mut written = Vec::new();
    for size in [1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 100] {
        let tools: Vec<_> = (0..size).map(|number| format!("{number} of {size}")).collect();
        let batch: Vec<_> = tools.iter().map(|tool| (2_000, call(tool))).collect();
        store.keep_audit(&batch).await.unwrap();
        written.extend(tools);
    }
    let rows = store.oldest_audit_rows(&AuditQuery { limit: MAX_ROWS, ..AuditQuery::default() }).await.unwrap();
    let read: Vec<_> = rows.into_iter().filter_map(|row| row.entry.tool).collect();
    assert_eq!(read, written);
    assert_eq!(verified(&store).await.unwrap().rows, written.len() as u64);
}

async fn rows_can_be_neither_changed_nor_deleted_by_mistake(stage: &Stage) {
    let store = stage.store().await;
    add_calls(&store, &["a", "b"]).await;
    for statement in ["UPDATE audit SET at = 0", "DELETE FROM audit WHERE seq = 2", "DELETE FROM audit"] {
        let error = format!("{:?}", store.write(query(statement), "testing").await.unwrap_err());
        assert!(error.contains("rows of the audit log are never"), "{error}");
    }
    assert_eq!(verified(&store).await.unwrap().rows, 2);
}

#[tokio::test]
async fn the_first_bad_row_is_named() {
    let (folder, store) = new_store().await;
    add_calls(&store, &["a", "b", "c", "d"]).await;
    let end = verified(&store).await.unwrap().end;
    store.close().await;
    let genuine = fs::read(folder.path().join("toolrack.db")).unwrap();
    let missing = |from, to| Break::Missing { from, to };
    for (statements, broken, text) in [
        ("UPDATE audit SET at = 7 WHERE seq = 2", Break::Changed { seq: 2 }, "row 2 is not what was written"),
        ("UPDATE audit SET body = '{}' WHERE seq = 4", Break::Changed { seq: 4 }, "row 4"),
        ("UPDATE audit SET body = CAST(x'ff' AS TEXT) WHERE seq = 1", Break::Changed { seq: 1 }, "row 1"),
        ("DELETE FROM audit WHERE seq = 2", missing(2, 2), "row 2 is missing"),
        ("DELETE FROM audit WHERE seq = 4", missing(4, 4), "row 4 is missing"),
        ("DELETE FROM audit WHERE seq < 3", missing(1, 2), "rows 1 to 2 are missing"),
        ("DELETE FROM audit", missing(1, 4), "rows 1 to 4 are missing"),
        ("DELETE FROM audit; DELETE FROM audit_head", Break::End { seq: 0 }, "the end of the chain"),
        ("DELETE FROM audit_head", Break::End { seq: 4 }, "ends at row 4"),
        // An attacker who knows the format fails as well, because the end of the chain was saved elsewhere.
        (
            "DELETE FROM audit WHERE seq = 4; UPDATE audit_head SET seq = 3, hash = (SELECT hash FROM audit WHERE seq = 3)",
            missing(4, 4),
            "row 4 is missing",
        ),
    ] {
        let path = folder.path().join("changed.db");
        fs::write(&path, &genuine).unwrap();
        tamper(&path, statements).await;
        let store = Store::open(&path).await.unwrap();
        let found = store.verify_audit(Some(end)).await.unwrap().unwrap_err();
        assert_eq!(found, broken, "{statements}");
        assert!(found.to_string().contains(text), "{found}");
        assert_eq!(found.row(), broken.row());
        // A broken log can still be read.
        store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn a_saved_chain_end_reveals_a_rewritten_chain() {
    let (_folder, store) = new_store().await;
    add_calls(&store, &["a", "b"]).await;
    let end = verified(&store).await.unwrap().end;
    add_calls(&store, &["c"]).await;
    store.verify_audit(Some(end)).await.unwrap().unwrap();
    let other = ChainEnd { hash: [1; 32], ..end };
    assert_eq!(store.verify_audit(Some(other)).await.unwrap(), Err(Break::HashMismatch { seq: 2 }));

    tamper(store.path(), "DELETE FROM audit; UPDATE audit_head SET seq = 0, hash = zeroblob(32)").await;
    add_calls(&store, &["a", "harmless", "c"]).await;
    verified(&store).await.unwrap();
    assert_eq!(store.verify_audit(Some(end)).await.unwrap(), Err(Break::HashMismatch { seq: 2 }));
    for bad in ["", "1", "1:", "1:zz", &format!("x:{}", "0".repeat(64)), &format!("1:+{}", "0".repeat(63))] {
        assert_eq!(bad.parse::<ChainEnd>(), Err(BadChainEnd), "{bad}");
    }
}

#[tokio::test]
async fn a_chain_whose_end_was_removed_continues_and_stays_broken() {
    let (_folder, store) = new_store().await;
    add_calls(&store, &["a", "b"]).await;
    tamper(store.path(), "DELETE FROM audit_head").await;
    add_calls(&store, &["c"]).await;
    assert_eq!(verified(&store).await, Err(Break::Changed { seq: 3 }));
    assert_eq!(store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap().len(), 3);
}

#[tokio::test]
async fn old_rows_are_deleted_and_the_chain_stays_valid() {
    let (folder, store) = new_store().await;
    let day = |day: i64, tool: &str| (day * DAY, call(tool));
    store.keep_audit(&[day(1, "a"), day(2, "b"), day(50, "c"), day(3, "late"), day(60, "d")]).await.unwrap();
    let end = verified(&store).await.unwrap().end;
    let keep = AuditRetention { days: Some(30), rows: None };
    store.forget_old_audit(keep, 70 * DAY).await.unwrap();
    let full = verified(&store).await.unwrap();
    assert_eq!((full.first, full.rows), (3, 4), "an old row stays if it follows a row that is not old");
    store.verify_audit(Some(end)).await.unwrap().unwrap();
    let forgotten = ChainEnd { seq: 2, hash: [0; 32] };
    assert_eq!(store.verify_audit(Some(forgotten)).await.unwrap(), Err(Break::Forgotten { seq: 2 }));

    // The store looks for old rows only once a day.
    assert!(!store.is_audit_retention_due(70 * DAY + 1).await.unwrap());
    store.forget_old_audit(AuditRetention { days: Some(1), rows: None }, 70 * DAY + 1).await.unwrap();
    assert_eq!(verified(&store).await.unwrap().first, 3);
    assert!(store.is_audit_retention_due(72 * DAY).await.unwrap());
    let few = AuditRetention { days: None, rows: Some(1) };
    store.forget_old_audit(few, 72 * DAY).await.unwrap();
    assert_eq!(verified(&store).await.unwrap().first, 6);
    // Every row is old: only the row that records their removal stays.
    store.forget_old_audit(AuditRetention { days: Some(1), rows: None }, 100 * DAY).await.unwrap();
    let full = verified(&store).await.unwrap();
    assert_eq!((full.first, full.rows), (8, 1));
    let stored = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    assert_eq!((stored[0].entry.kind.as_str(), stored[0].entry.through), ("forgot", Some(7)));
    add_calls(&store, &["e"]).await;
    verified(&store).await.unwrap();
    store.close().await;

    // An attacker who deletes one row more, and moves the recorded beginning of the chain, is detected.
    let statements = "DELETE FROM audit WHERE seq = 8; UPDATE audit_head SET kept_from = 9";
    tamper(&folder.path().join("toolrack.db"), statements).await;
    let store = open(&folder).await;
    assert_eq!(verified(&store).await, Err(Break::Missing { from: 1, to: 8 }));
}

#[tokio::test]
async fn old_rows_are_deleted_also_while_the_writer_has_nothing_to_write() {
    let (_folder, store) = new_store().await;
    store.keep_audit(&[(DAY, call("old"))]).await.unwrap();
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(str::to_owned));
    log.set(false, AuditRetention::default());
    let deleted = async {
        while verified(&store).await.unwrap().first == 1 {
            tokio::task::yield_now().await;
        }
        log.close();
    };
    let writer = writer.with_retention_interval(Duration::from_millis(1));
    let done = async { tokio::join!(writer.run(), deleted) };
    tokio::time::timeout(Duration::from_secs(30), done).await.unwrap();
}

#[tokio::test]
async fn agreements_are_recorded_with_their_user() {
    let (_folder, store) = new_store().await;
    let approval = |name: &str| Approval {
        project: "/project".into(),
        name: name.into(),
        hash: "h1".into(),
        shown: "{}".into(),
        approved_at: 1,
    };
    store.approve(&approval("a\nb"), &Caller::local(Way::Cli)).await.unwrap();
    assert!(store.revoke(Path::new("/project"), "a\nb", &Caller::local(Way::Daemon)).await.unwrap());
    assert!(!store.revoke(Path::new("/project"), "a\nb", &Caller::local(Way::Daemon)).await.unwrap());
    let rows = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    let kinds: Vec<_> = rows
        .iter()
        .map(|row| (row.entry.kind.as_str(), row.entry.who.as_deref(), row.entry.content.as_deref()))
        .collect();
    assert_eq!(kinds, [("trusted", Some("cli"), Some("h1")), ("untrusted", Some("daemon"), None)]);
    assert!(rows.iter().all(|row| row.entry.server.as_deref() == Some("a\\nb")), "{}", rows[0].body);

    tamper(store.path(), "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    store.approve(&approval("c"), &Caller::local(Way::Cli)).await.unwrap_err();
    assert!(store.approvals().await.unwrap().is_empty(), "without a row in the log, there is no agreement");
}

fn connected(tools: usize) -> Fact {
    Fact::Connected { server: ServerName::new("fs").unwrap(), tools }
}

async fn facts_are_written_in_order_and_without_secrets(stage: &Stage) {
    let store = stage.store().await;
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(|text| text.replace("hunter2", "***")));
    for tools in 0..1_000 {
        log.record(connected(tools));
    }
    let server = ServerName::new("fs").unwrap();
    log.record(Fact::Failed { server, error: "no\n2 ok \u{1b}[2J\u{202e} with hunter2".to_owned() });
    log.close();
    writer.run().await;
    let rows = store.audit(&AuditQuery { limit: MAX_ROWS, ..AuditQuery::default() }).await.unwrap();
    let counts: Vec<_> = rows.iter().filter_map(|row| row.entry.count).collect();
    assert_eq!(counts, (0..1_000).collect::<Vec<_>>());
    let failed = rows.iter().find(|row| row.entry.kind == "failed").unwrap();
    let why = failed.entry.why.as_deref().unwrap();
    assert!(why.contains("with ***") && !why.contains(char::is_control) && !why.contains('\u{202e}'), "{why:?}");
    verified(&store).await.unwrap();
}

async fn rows_of_a_member_have_no_secret_that_only_the_member_knows(stage: &Stage) {
    let store = stage.store().await;
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(str::to_owned));
    let log = Arc::new(log);
    let ann = log.witness_for_member(Arc::new(|text| text.replace("of-ann", "***")));
    let failed = || Fact::Failed { server: ServerName::new("fs").unwrap(), error: "with of-ann".to_owned() };
    ann.record(failed());
    log.witness_for_member(Arc::new(|text| text.replace("of-bob", "***"))).record(failed());
    log.close();
    writer.run().await;
    let rows = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    let why: Vec<_> = rows.iter().map(|row| row.entry.why.as_deref().unwrap()).collect();
    assert_eq!(why, ["with ***", "with of-ann"]);
}

async fn rows_name_the_agent_in_whose_name_they_are_and_are_found_by_it(stage: &Stage) {
    let store = stage.store().await;
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(str::to_owned));
    let log = Arc::new(log);
    let coder = log.witness_for_agent("a\ncoder");
    log.set(true, AuditRetention::default());
    assert!(coder.wants_arguments(), "the setting of the log applies to its agents");
    log.record(connected(1));
    coder.record(connected(2));
    log.witness_for_agent("other").record(connected(3));
    log.close();
    writer.run().await;
    let rows = async |agent: Option<&str>| {
        let query = AuditQuery { agent: agent.map(str::to_owned), limit: 9, ..AuditQuery::default() };
        let rows = store.audit(&query).await.unwrap();
        rows.into_iter().map(|row| (row.entry.count.unwrap(), row.entry.agent)).collect::<Vec<_>>()
    };
    let (coder, other) = ((2, Some("a\\ncoder".to_owned())), (3, Some("other".to_owned())));
    assert_eq!(rows(None).await, [(1, None), coder.clone(), other]);
    assert_eq!(rows(Some("a\\ncoder")).await, [coder]);
    assert_eq!(rows(Some("nobody")).await, []);
    verified(&store).await.unwrap();
}

async fn rows_that_could_not_be_written_are_counted_and_no_caller_waits(stage: &Stage) {
    let store = stage.store().await;
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(str::to_owned));
    for tools in 0..9_000 {
        log.record(connected(tools));
    }
    log.close();
    writer.run().await;
    let last = store.audit(&AuditQuery { limit: 1, ..AuditQuery::default() }).await.unwrap();
    let lost_rows: u64 = 9_000 - 8 * 1024;
    let lost = store.audit(&AuditQuery { limit: MAX_ROWS, ..AuditQuery::default() }).await.unwrap();
    let lost = lost.iter().find(|row| row.entry.kind == "lost").unwrap_or(&last[0]);
    assert_eq!((lost.entry.kind.as_str(), lost.entry.count), ("lost", Some(lost_rows)));
}

async fn a_continuous_log_is_written_in_batches(stage: &Stage) {
    let store = stage.store().await;
    let (log, writer) = AuditLog::new(store.clone(), Arc::new(str::to_owned));
    let written = async {
        log.record(connected(1));
        while store.audit(&AuditQuery { limit: 1, ..AuditQuery::default() }).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        log.record(connected(2));
        log.close();
    };
    tokio::join!(writer.run(), written);
    let rows = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
    let counts: Vec<_> = rows.iter().filter_map(|row| row.entry.count).collect();
    assert_eq!(counts, [1, 2]);
}

/// What an attacker may do to a chain of twelve rows.
#[derive(Clone, Debug)]
enum Tampering {
    /// Sets a column of a row to another value.
    Change(u8, String),
    Delete(u8),
    /// Deletes a row, and all rows after it.
    Cut(u8),
    /// Swaps two rows with all their columns, apart from the number.
    Swap(u8, u8),
    /// Adds a row at the end, and moves the stored end there.
    Forge(String),
    /// Sets a column of the stored end of the chain to another value.
    Head(String),
}

const ROWS: u8 = 12;

impl Tampering {
    fn statements(&self) -> String {
        match self {
            Self::Change(row, set) => format!("UPDATE audit SET {set} WHERE seq = {row}"),
            Self::Delete(row) => format!("DELETE FROM audit WHERE seq = {row}"),
            Self::Cut(row) => format!("DELETE FROM audit WHERE seq >= {row}"),
            Self::Swap(one, other) => format!(
                "UPDATE audit SET seq = 1000 WHERE seq = {one}; UPDATE audit SET seq = {one} WHERE seq = {other}; \
                 UPDATE audit SET seq = {other} WHERE seq = 1000"
            ),
            Self::Forge(hash) => format!(
                "INSERT INTO audit (seq, at, body, hash) VALUES (13, 1, '{{\"kind\":\"call\"}}', {hash}); \
                 UPDATE audit_head SET seq = 13, hash = {hash}"
            ),
            Self::Head(set) => format!("UPDATE audit_head SET {set}"),
        }
    }
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let row = 1..=ROWS;
    let column = prop_oneof![
        (1_i64..1_000).prop_map(|by| format!("at = at + {by}")),
        (13_u8..99).prop_map(|seq| format!("seq = {seq}")),
        "[a-z]{1,9}".prop_map(|tool| format!("body = json_set(body, '$.tool', 'x{tool}')")),
        Just("body = body || ' '".to_owned()),
        Just("body = json_remove(body, '$.decision')".to_owned()),
        "[0-9a-f]{64}".prop_map(|hash| format!("hash = x'{hash}'")),
    ];
    let head = prop_oneof![
        (0_u8..12).prop_map(|seq| format!("seq = {seq}")),
        (13_u8..99).prop_map(|seq| format!("seq = {seq}")),
        (2_u8..99).prop_map(|seq| format!("kept_from = {seq}")),
        "[0-9a-f]{64}".prop_map(|hash| format!("hash = x'{hash}'")),
    ];
    prop_oneof![
        4 => (row.clone(), column).prop_map(|(row, set)| Tampering::Change(row, set)),
        2 => row.clone().prop_map(Tampering::Delete),
        1 => row.clone().prop_map(Tampering::Cut),
        2 => (row.clone(), row).prop_filter("two rows", |(one, other)| one != other)
            .prop_map(|(one, other)| Tampering::Swap(one, other)),
        1 => "[0-9a-f]{64}".prop_map(|hash| Tampering::Forge(format!("x'{hash}'"))),
        1 => head.prop_map(Tampering::Head),
    ]
}

#[test]
fn every_change_of_the_audit_log_is_detected() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let genuine = runtime.block_on(async {
        let store = open(&folder).await;
        add_calls(&store, &["a", "b", "c", "bad", "e", "f", "g", "h", "i", "j", "k", "l"]).await;
        assert_eq!(verified(&store).await.unwrap().rows, u64::from(ROWS));
        store.close().await;
        fs::read(folder.path().join("toolrack.db")).unwrap()
    });
    let path = folder.path().join("changed.db");
    proptest!(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() },
        |(tampering in tampering())| {
        let found = runtime.block_on(async {
            fs::write(&path, &genuine).unwrap();
            tamper(&path, &tampering.statements()).await;
            let store = Store::open(&path).await.unwrap();
            let found = verified(&store).await;
            store.close().await;
            found
        });
        let Err(broken) = found else { panic!("{tampering:?} was not found") };
        match tampering {
            Tampering::Change(row, _) | Tampering::Delete(row) | Tampering::Cut(row) => {
                prop_assert_eq!(broken.row(), u64::from(row));
            }
            Tampering::Swap(one, other) => prop_assert_eq!(broken.row(), u64::from(one.min(other))),
            Tampering::Forge(_) => prop_assert_eq!(broken.row(), 13),
            Tampering::Head(_) => {}
        }
    });
}

/// The number of rows that each process writes.
const ROWS_PER_PROCESS: usize = 40;

/// The part of the test below that runs in processes of its own. Without the argument that the test gives it, it does
/// nothing.
#[tokio::test]
async fn child_writes() {
    let Some(words) = std::env::args().find(|word| word.ends_with(".child.db")) else {
        return;
    };
    let (writer, path) = words.split_once('=').unwrap();
    let store = Store::open(path).await.unwrap();
    for number in 0..ROWS_PER_PROCESS {
        let body = json!({ "number": number });
        let entry = Entry { client: Some(writer.to_owned()), arguments: Some(body), ..call("t") };
        store.keep_audit(&[(1, entry)]).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn processes_that_write_at_once_make_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let store = Store::open(&path).await.unwrap();
    let writers = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let children: Vec<_> = writers
        .iter()
        .map(|writer| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", "audit::tests::child_writes"])
                .arg(format!("{writer}={}", path.display()))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
    assert_eq!(verified(&store).await.unwrap().rows, (writers.len() * ROWS_PER_PROCESS) as u64);
    let rows = store.oldest_audit_rows(&AuditQuery { limit: MAX_ROWS, ..AuditQuery::default() }).await.unwrap();
    for writer in writers {
        let of_one = rows.iter().filter(|row| row.entry.client.as_deref() == Some(writer));
        let numbers: Vec<_> =
            of_one.map(|row| row.entry.arguments.as_ref().unwrap()["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..ROWS_PER_PROCESS as u64).collect::<Vec<_>>(), "the rows of one process stay in order");
    }
}

on_both!(
    an_untouched_chain_is_valid_and_is_read_in_order,
    the_filter_for_denied_calls_finds_exactly_the_calls_that_did_not_run,
    batches_of_every_size_are_added_in_their_order,
    rows_can_be_neither_changed_nor_deleted_by_mistake,
    facts_are_written_in_order_and_without_secrets,
    rows_of_a_member_have_no_secret_that_only_the_member_knows,
    rows_name_the_agent_in_whose_name_they_are_and_are_found_by_it,
    rows_that_could_not_be_written_are_counted_and_no_caller_waits,
    a_continuous_log_is_written_in_batches
);
