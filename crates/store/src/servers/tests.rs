use bytes::Bytes;
use toolrack_host::Memory;

use super::*;
use crate::tests::{Stage, new_store, on_both};

fn tools(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[tokio::test]
async fn the_tools_of_a_server_are_remembered_for_its_fingerprint_and_survive_a_restart() {
    let (_folder, store) = new_store().await;
    assert_eq!(store.tools("a").await, None);
    store.remember_tools("a", tools("first")).await;
    store.remember_tools("b", tools("other")).await;
    store.remember_tools("a", tools("second")).await;
    // Tools are bytes, and no server is one without any.
    store.remember_tools("none", Bytes::new()).await;
    store.remember_tools("bytes", Bytes::from_static(b"\xff\0")).await;
    let path = store.path().to_owned();
    store.close().await;
    let store = Store::open(path).await.unwrap();
    for (fingerprint, known) in [
        ("a", Some(tools("second"))),
        ("b", Some(tools("other"))),
        ("none", Some(Bytes::new())),
        ("A", None),
        ("", None),
    ] {
        assert_eq!(store.tools(fingerprint).await, known, "{fingerprint}");
    }
    assert_eq!(store.tools("bytes").await.as_deref(), Some(&b"\xff\0"[..]));
    assert_eq!(store.era("a").await, None, "that it has tools says nothing of its era");
}

async fn pins_of_too_many_tools_are_not_stored_and_earlier_ones_stay(stage: &Stage) {
    let store = stage.store().await;
    store.remember_tools("a", tools("few")).await;
    store.write_tools("a", &vec![b'x'; MAX_LIST_BYTES + 1]).await.unwrap();
    assert_eq!(store.tools("a").await, Some(tools("few")));
    store.write_tools("a", &vec![b'x'; MAX_LIST_BYTES]).await.unwrap();
    assert_eq!(store.read_tools("a").await.unwrap().map(|kept| kept.len()), Some(MAX_LIST_BYTES));
}

#[tokio::test]
async fn beyond_the_limit_pins_of_the_least_recently_changed_servers_are_deleted() {
    let (_folder, store) = new_store().await;
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 499) \
         INSERT INTO server_tools (fingerprint, tools, kept_at) SELECT 'f' || i, x'78', i FROM n",
    )
    .execute(store.pool())
    .await
    .unwrap();
    store.remember_tools("f1", tools("changed")).await;
    assert_eq!(store.tools("f0").await, Some(tools("x")), "there is room for all of them");
    store.remember_tools("new", tools("y")).await;
    for (fingerprint, is_known) in [("f0", false), ("f1", true), ("f2", true), ("f499", true), ("new", true)] {
        assert_eq!(store.tools(fingerprint).await.is_some(), is_known, "{fingerprint}");
    }
}

#[tokio::test]
async fn tools_that_have_not_changed_are_not_written_again() {
    let (_folder, store) = new_store().await;
    store.remember_tools("a", tools("x")).await;
    let writes = "SELECT total_changes()";
    let before: i64 = sqlx::query_scalar(writes).fetch_one(store.pool()).await.unwrap();
    store.remember_tools("a", tools("x")).await;
    assert_eq!(sqlx::query_scalar::<_, i64>(writes).fetch_one(store.pool()).await.unwrap(), before);
    store.remember_tools("a", tools("y")).await;
    assert!(sqlx::query_scalar::<_, i64>(writes).fetch_one(store.pool()).await.unwrap() > before);
}

on_both!(pins_of_too_many_tools_are_not_stored_and_earlier_ones_stay);
