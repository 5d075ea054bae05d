//! The end of a host leaves nothing behind, in whichever way it ends.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::{runtime::Handle, time::timeout};
use toolrack_host::{AllowAll, CallErrorKind, Host, NoAsker, ServerSpec};
use toolrack_testkit::{EffectLog, FakeHttp, processes};

use crate::{
    scripted::{Reaction, Scripted},
    worlds::{call, fake, host_of, soon, text, to_call, world},
};

/// Waits until no more than `before` tasks are left.
async fn no_task_is_left(before: usize) {
    let left = async {
        while Handle::current().metrics().num_alive_tasks() > before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let left = timeout(Duration::from_secs(5), left).await;
    assert!(left.is_ok(), "{} tasks are left", Handle::current().metrics().num_alive_tasks() - before);
}

#[tokio::test]
async fn requests_to_a_shut_down_host_fail_with_that_reason() {
    let server = Scripted::calling(|_, _| Reaction::Silence);
    let host = host_of([("native", server.spec())]).await;
    let all = host.excerpt(|_| true, Arc::new(NoAsker), Arc::new(AllowAll)).await;
    all.shutdown().await;
    let unknown = call(&host, "native/nothing", json!({})).await.unwrap_err();
    assert_eq!(unknown.code(), "UNKNOWN_TOOL", "an excerpt shuts nothing down");

    let pinned = to_call("native/nothing", json!({})).in_catalog(host.catalog());
    host.shutdown().await;
    host.apply(world([("native", server.spec())])).await;
    soon("settle", host.settled()).await;
    assert!(host.status().is_empty());
    for error in [
        call(&host, "native/say", json!({})).await.unwrap_err(),
        host.call(pinned).await.unwrap_err(),
        host.prompts("native").await.unwrap_err(),
        host.reconnect("native").unwrap_err(),
    ] {
        assert_eq!((error.code(), error.kind()), ("SHUT_DOWN", CallErrorKind::Unreachable));
        assert_eq!(error.to_string(), "the host was shut down: make another one");
    }
}

#[tokio::test]
async fn after_a_shutdown_there_is_no_process_no_task_and_no_waiting_call() {
    let before = Handle::current().metrics().num_alive_tasks();
    let effects = EffectLog::new();
    let http = FakeHttp::start(&["--era", "modern"]);
    let hanging = Scripted::calling(|_, _| Reaction::Silence);
    let host = host_of([
        ("polite", fake(&["--log", effects.path_str()])),
        ("modern", fake(&["--era", "modern", "--log", effects.path_str()])),
        ("parent", fake(&["--fault", "grandchild", "--log", effects.path_str()])),
        ("http", ServerSpec::http(http.url())),
        ("native", hanging.spec()),
        ("missing", ServerSpec::stdio("/no/such/program", [""; 0])),
    ])
    .await;
    for server in ["polite", "modern", "parent"] {
        text(&host, &format!("{server}/write"), json!({})).await;
    }
    text(&host, "http/echo", json!({"text": "x"})).await;
    let mut pids = effects.read().pids();
    pids.extend(pids.clone().into_iter().flat_map(processes::descendants));
    assert!(pids.len() >= 4, "three servers and a grandchild: {pids:?}");

    let end = async {
        hanging.hears_of("tools/call").await;
        host.shutdown().await;
    };
    let both = Box::pin(async { tokio::join!(call(&host, "native/echo", json!({})), end) });
    let (hung, ()) = soon("shutdown", both).await;
    assert_eq!(hung.unwrap_err().code(), "SERVER_STOPPED");
    assert_eq!(pids.iter().filter(|pid| processes::alive(**pid)).count(), 0);
    assert!(host.status().is_empty() && host.catalog().tools().len() == 0);

    // The pool of the HTTP client ends with the host.
    drop(host);
    no_task_is_left(before).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_shut_down_is_empty_and_harmless() {
    let server = Scripted::plain();
    let host = host_of([("server", server.spec())]).await;
    host.shutdown().await;
    host.shutdown().await;
    host.apply([].into()).await;
    host.settled().await;
    let error = call(&host, "server/echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "SHUT_DOWN");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test]
async fn dropping_the_last_handle_stops_every_server() {
    let effects = EffectLog::new();
    let host = host_of([("fake", fake(&["--log", effects.path_str()]))]).await;
    let second = host.clone();
    drop(host);
    text(&second, "fake/write", json!({})).await;
    let pid = effects.read().pids()[0];
    drop(second);
    no_task_is_left(0).await;
    assert!(!processes::alive(pid));
}

#[tokio::test]
async fn a_server_that_does_not_want_to_end_is_ended() {
    let effects = EffectLog::new();
    let mut spec = fake(&["--fault", "ignore-eof", "--fault", "ignore-term", "--log", effects.path_str()]);
    spec.timeouts.shutdown = Duration::from_millis(100);
    let host: Host = host_of([("stubborn", spec)]).await;
    text(&host, "stubborn/write", json!({})).await;
    let pid = effects.read().pids()[0];
    host.shutdown().await;
    assert!(!processes::alive(pid));
}
