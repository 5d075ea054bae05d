//! Subscriptions of the modern era: unanswered, refused, and cancelled.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolrack_host::{Desired, Era, Host, Principal, Subscriptions};

use crate::{
    scripted::{Reaction, Scripted},
    worlds::{host_of, settle, soon},
};

/// The resources that a request is about, if it is one for changes of resources.
fn resources<'a>(method: &str, params: &'a Value) -> Option<&'a Vec<Value>> {
    params["notifications"]["resourceSubscriptions"].as_array().filter(|_| method == "subscriptions/listen")
}

/// A modern server that announces changes of resources, and reacts to subscriptions with `react`.
fn telling(react: impl Fn(&[Value]) -> Reaction + Send + Sync + 'static) -> Scripted {
    Scripted::new(Era::Modern, move |method, params| match method {
        "server/discover" => Some(Reaction::Answer(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "telling", "version": "1"},
            "ttlMs": 0,
        }))),
        method => resources(method, params).map(|uris| react(uris)),
    })
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_never_acknowledged_holds_up_no_later_one() {
    let asked = AtomicUsize::new(0);
    let server = telling(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reaction::Silence,
        _ => Reaction::Acknowledge,
    });
    let host = host_of([("server", server.spec())]).await;
    let lost = Subscriptions::new(1).subscribe(&host, "server", "x://lost").await.unwrap_err();
    assert!(lost.to_string().contains("call_timeout"), "{lost}");
    let kept = Subscriptions::new(1);
    kept.subscribe(&host, "server", "x://kept").await.unwrap();
    let params = json!({ "uri": "x://kept" });
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}));
    assert_eq!(soon("the change", kept.updated()).await.1, "x://kept");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_a_lent_server_can_be_subscribed_to() {
    let server = telling(|_| Reaction::Acknowledge);
    let lender = host_of([("shared", server.spec())]).await;
    let host = Host::builder().lender(lender.clone(), Principal::LOCAL).build();
    settle(&host, Desired::new()).await;
    let kept = Subscriptions::new(1);
    kept.subscribe(&host, "shared", "x://kept").await.unwrap();
    let params = json!({ "uri": "x://kept" });
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}));
    assert_eq!(soon("the change", kept.updated()).await.1, "x://kept");
    host.shutdown().await;
    lender.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_open_subscription_survives_a_refused_larger_one() {
    let server = telling(|uris| match uris.contains(&json!("x://bad")) {
        true => Reaction::Refuse(-32602),
        false => Reaction::Acknowledge,
    });
    let host = host_of([("server", server.spec())]).await;
    let good = Subscriptions::new(1);
    good.subscribe(&host, "server", "x://good").await.unwrap();
    let refused = Subscriptions::new(1).subscribe(&host, "server", "x://bad").await.unwrap_err();
    assert!(refused.to_string().contains("-32602"), "{refused}");
    // The client wants less now, and subscribes anew, while the first request still stands.
    let asked = |seen: &[Value]| {
        let of =
            |message: &Value| resources(message["method"].as_str().unwrap_or_default(), &message["params"]).is_some();
        seen.iter().filter(|message| of(message)).count()
    };
    while asked(&server.seen()) < 3 {
        sleep(Duration::from_millis(10)).await;
    }
    let seen = server.seen();
    let third = seen.iter().rposition(|message| message["method"] == "subscriptions/listen").unwrap();
    let given_up: Vec<_> =
        seen[..third].iter().filter(|message| message["method"] == "notifications/cancelled").collect();
    assert!(given_up.is_empty(), "{given_up:?}");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_subscriptions_is_listed_without_a_wait_for_one() {
    let server =
        Scripted::new(Era::Modern, |method, _| (method == "subscriptions/listen").then(|| Reaction::Refuse(-32601)));
    let began = Instant::now();
    let host = host_of([("server", server.spec())]).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_only_with_a_cancellation_that_names_it() {
    let server = Scripted::new(Era::Modern, |_, _| None);
    let host = host_of([("server", server.spec())]).await;
    let listen = server.hears_of("subscriptions/listen").await;
    let cancel = |id: Value| {
        server.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    };
    cancel(json!(4_711));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(server.count_of("subscriptions/listen"), 1, "another request was meant");
    cancel(listen["id"].clone());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(server.count_of("subscriptions/listen"), 2, "it is asked for again");
    host.shutdown().await;
}
