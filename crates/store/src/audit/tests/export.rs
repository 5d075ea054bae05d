//! How far the log was written to other places.

use super::*;

const LONG: Duration = Duration::from_secs(600);
const PLACE: &str = "file:///out";

async fn one_process_begins_and_another_goes_on_with_what_it_left(stage: &Stage) {
    let store = stage.store().await;
    let empty = store.begin_audit_export(PLACE, LONG).await.unwrap();
    assert!(!empty.is_due, "nothing is to be written");
    add_calls(&store, &["a", "b"]).await;
    let begun = store.begin_audit_export(PLACE, LONG).await.unwrap();
    assert_eq!((begun.is_due, begun.newest, begun.last_exported, begun.due_in), (true, 2, 0, None));
    let other = store.begin_audit_export(PLACE, LONG).await.unwrap();
    assert!(!other.is_due && other.due_in.is_some_and(|left| left <= LONG && !left.is_zero()), "{other:?}");
    assert!(store.begin_audit_export("file:///other", LONG).await.unwrap().is_due, "each place has its own row");

    assert!(store.plan_audit_export(PLACE, None, Some("one")).await.unwrap());
    assert!(!store.plan_audit_export(PLACE, Some("none"), Some("two")).await.unwrap(), "another process was faster");
    store.release_audit_export(PLACE, Duration::ZERO).await.unwrap();
    let next = store.begin_audit_export(PLACE, LONG).await.unwrap();
    assert_eq!((next.is_due, next.head, next.pending.as_deref()), (true, None, Some("one")));
    store.record_exported_head(PLACE, "other", 9, LONG).await.unwrap();
    store.record_exported_head(PLACE, "one", 2, LONG).await.unwrap();
    store.release_audit_export(PLACE, Duration::ZERO).await.unwrap();
    let done = store.begin_audit_export(PLACE, LONG).await.unwrap();
    assert_eq!((done.head.as_deref(), done.pending, done.last_exported), (Some("one"), None, 2));
    store.close().await;
}

async fn rows_are_read_with_their_chain_and_a_cut_one_is_noticed(stage: &Stage) {
    let store = stage.store().await;
    add_calls(&store, &["a", "b", "c"]).await;
    let all = store.audit_after(None, 2).await.unwrap().unwrap();
    assert_eq!((all.after.seq, all.rows.len()), (0, 2));
    let end = verified(&store).await.unwrap().end;
    let second = all.rows[1].end().unwrap();
    assert_eq!(store.audit_after(Some(second), 9).await.unwrap().unwrap().rows.len(), 1);
    assert_eq!(store.audit_after(Some(end), 9).await.unwrap().unwrap().rows, []);
    for (bad, broken) in [
        (ChainEnd { hash: [1; 32], ..second }, Break::Changed { seq: 3 }),
        (ChainEnd { hash: [1; 32], ..end }, Break::HashMismatch { seq: 3 }),
        (ChainEnd { seq: 5, ..end }, Break::Missing { from: 4, to: 5 }),
    ] {
        assert_eq!(store.audit_after(Some(bad), 9).await.unwrap(), Err(broken));
    }
    store.close().await;
}

async fn old_rows_stay_until_they_are_exported(stage: &Stage) {
    let store = stage.store().await;
    add_calls(&store, &["a", "b", "c", "d"]).await;
    assert!(store.begin_audit_export(PLACE, LONG).await.unwrap().is_due);
    assert!(store.plan_audit_export(PLACE, None, Some("one")).await.unwrap());
    store.record_exported_head(PLACE, "one", 2, LONG).await.unwrap();
    let keep_one = AuditRetention { days: None, rows: Some(1) };
    store.forget_old_audit(keep_one, 10 * DAY).await.unwrap();
    assert_eq!(verified(&store).await.unwrap().first, 3, "rows 3 and 4 are not exported");
    assert!(store.plan_audit_export(PLACE, Some("one"), Some("two")).await.unwrap());
    store.record_exported_head(PLACE, "two", 2, Duration::ZERO).await.unwrap();
    store.forget_old_audit(keep_one, 20 * DAY).await.unwrap();
    let first = verified(&store).await.unwrap().first;
    assert_eq!(first, 5, "they are kept for a bounded time");
    let left = store.audit_after(Some(ChainEnd { seq: 2, hash: [0; 32] }), 9).await.unwrap().unwrap();
    assert_eq!(left.after.seq, 4, "reading goes on behind them");
    store.close().await;
}

on_both!(
    one_process_begins_and_another_goes_on_with_what_it_left,
    rows_are_read_with_their_chain_and_a_cut_one_is_noticed,
    old_rows_stay_until_they_are_exported,
);
