use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use serde_json::json;
use toolrack_testkit::EffectLog;

use crate::up::{Up, fake, servers};

#[tokio::test]
async fn an_edited_file_counts_at_once_and_leaves_unchanged_servers_alone() {
    let effects = EffectLog::new();
    let same = fake(&["--log", effects.path_str()]);
    let up = Up::with(&[("same", same.clone()), ("goes", fake(&[]))]).await;
    up.call("same/echo", json!({ "text": "before" })).await;
    let mut events = up.events(None).await;
    let began = Instant::now();
    up.save(&servers(&[("same", same.clone()), ("new", fake(&[]))]));
    let (_, changed) = events.wait("config_changed").await;
    let took = began.elapsed();
    assert_eq!(
        (&changed["added"], &changed["removed"], &changed["changed"]),
        (&json!(["new"]), &json!(["goes"]), &json!([]))
    );
    assert!(took > Duration::from_millis(100), "it is waited until an editor is done: {took:?}");
    up.until("new", "connected").await;
    assert_eq!(up.send(reqwest::Method::GET, "/api/v1/servers/goes", None).await.0, 404);
    up.call("same/echo", json!({ "text": "after" })).await;
    let effects = effects.read();
    assert_eq!((effects.runs_of("echo"), effects.pids().len()), (2, 1), "the unchanged server was started again");
    up.down().await;
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_world_and_says_where_it_is_broken() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let good = up.file();
    let mut events = up.events(None).await;
    up.save("{ \"mcpServers\": {\n  oops\n");
    let (_, rejected) = events.wait("config_rejected").await;
    assert_eq!(rejected["problems"][0]["line"], 2, "{rejected}");
    let listed = up.get("/api/v1/servers").await;
    assert_eq!((&listed["servers"][0]["state"], &listed["problems"][0]["line"]), (&json!("connected"), &json!(2)));
    assert_eq!(up.call("fake/echo", json!({ "text": "still" })).await.0, 200);
    up.save(&good);
    up.eventually("the report is gone", async || {
        up.get("/api/v1/servers").await["problems"].as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_survive_a_hundred_changes_around_them() {
    let effects = EffectLog::new();
    let same = fake(&["--log", effects.path_str()]);
    let up = Up::with(&[("same", same.clone())]).await;
    let changes = AtomicUsize::new(0);
    let changing = async {
        for round in 0..100 {
            let other = format!("other{}", round % 3);
            let entries = [("same", same.clone()), (other.as_str(), fake(&["--tools", &round.to_string()]))];
            up.save(&servers(&entries[..if round % 4 == 3 { 1 } else { 2 }]));
            assert_eq!(up.post("/api/v1/config/reload", json!({})).await.0, 204);
            changes.fetch_add(1, Ordering::Relaxed);
        }
    };
    let calls = stream::iter(0..1_000).map(|n| {
        let up = &up;
        async move {
            // Half of the calls are under way while the configuration changes.
            let ms = if n % 2 == 0 { 200 } else { 0 };
            let (status, outcome) = up.call("same/sleep", json!({ "ms": ms })).await;
            assert_eq!((status.as_u16(), &outcome["is_error"]), (200, &json!(false)), "{outcome}");
        }
    });
    let calling = calls.buffer_unordered(50).collect::<Vec<()>>();
    let (called, ()) = futures::join!(calling, changing);
    assert_eq!((called.len(), changes.into_inner(), effects.read().runs_of("sleep")), (1_000, 100, 1_000));
    assert_eq!(effects.read().pids().len(), 1, "the unchanged server was started again");
    up.down().await;
}
