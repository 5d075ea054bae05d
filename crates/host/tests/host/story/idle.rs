//! Servers that run only while they are used.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use serde_json::json;
use toolrack_host::{Era, Host, Memory, ServerSpec, Start};
use toolrack_testkit::{EffectLog, processes};

use crate::scripted::{Reaction, Scripted};
use crate::worlds::{call, fake, host_of, selectors, settle, soon, state_is, status, text, world};

/// A memory that keeps only tools.
#[derive(Debug, Default)]
struct Tools(Mutex<BTreeMap<String, Bytes>>);

impl Memory for Tools {
    fn era<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<Era>> {
        Box::pin(async { None })
    }

    fn remember_era<'a>(&'a self, _: &'a str, _: Era) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move { self.0.lock().unwrap().get(fingerprint).cloned() })
    }

    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.lock().unwrap().insert(fingerprint.to_owned(), tools)) })
    }
}

fn lazy(args: &[&str]) -> ServerSpec {
    ServerSpec { start: Start::Lazy, ..fake(args) }
}

async fn up(memory: &Arc<Tools>, spec: ServerSpec) -> Host {
    let host = Host::builder().memory(Arc::<Tools>::clone(memory)).build();
    settle(&host, world([("fake", spec)])).await;
    host
}

#[tokio::test]
async fn a_lazy_server_shows_its_tools_without_running_and_starts_with_the_first_call() {
    let (memory, effects) = (Arc::<Tools>::default(), EffectLog::new());
    let spec = lazy(&["--log-all", "--log", effects.path_str()]);
    // Its tools are unknown yet: the host lists them once.
    let first = up(&memory, spec.clone()).await;
    assert_eq!(status(&first, "fake").state.word(), "connected");
    let known = selectors(&first);
    first.shutdown().await;
    let (before, starts) = (effects.read().methods().len(), effects.read().pids().len());

    let host = up(&memory, spec).await;
    assert_eq!(status(&host, "fake").state.word(), "idle");
    assert_eq!(selectors(&host), known);
    assert!(host.catalog().select("fake/add").unwrap().tool().input_schema.get().contains("required"));
    assert!(host.why("fake/echo").present, "{}", host.why("fake/echo"));
    let unknown = call(&host, "fake/echoo", json!({})).await.unwrap_err();
    let words = unknown.to_string();
    assert!(words.starts_with("no tool is called `fake/echoo`; did you mean `fake/echo`"), "{words}");
    assert_eq!(effects.read().methods().len(), before, "it was started");
    let numbers: Vec<_> = (0..8).map(|n| n.to_string()).collect();
    let calls = numbers.iter().map(|n| text(&host, "fake/echo", json!({ "text": n })));
    let texts = soon("eight calls at once", join_all(calls)).await;
    assert_eq!(texts, numbers);
    assert_eq!(effects.read().pids().len(), starts + 1, "it was started more than once");
    state_is(&host, "fake", "connected").await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_no_caller_uses_is_stopped_and_comes_back_when_it_is_called() {
    let effects = EffectLog::new();
    let spec = fake(&["--log", effects.path_str()]);
    let spec = ServerSpec { idle_stop: Some(Duration::from_millis(300)), ..spec };
    let host = up(&Arc::default(), spec).await;
    assert_eq!(text(&host, "fake/echo", json!({ "text": "1" })).await, "1");
    let tools = selectors(&host);
    state_is(&host, "fake", "idle").await;
    let pid = effects.read().pids()[0];
    soon("its process ends", async {
        while processes::alive(pid) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(selectors(&host), tools);
    let unknown = call(&host, "fake/nothing", json!({})).await.unwrap_err();
    assert_eq!(unknown.code(), "UNKNOWN_TOOL", "{unknown}");
    assert_eq!(text(&host, "fake/echo", json!({ "text": "2" })).await, "2");
    assert_eq!(effects.read().pids().len(), 2);
    host.shutdown().await;
}

#[tokio::test]
async fn a_long_call_is_a_use_for_as_long_as_it_takes() {
    let spec = ServerSpec { idle_stop: Some(Duration::from_millis(200)), ..fake(&[]) };
    let host = up(&Arc::default(), spec).await;
    assert_eq!(text(&host, "fake/sleep", json!({ "ms": 1500 })).await, "slept 1500 ms");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_listing_is_a_use_for_as_long_as_it_takes() {
    let server = Scripted::new(Era::Legacy, |method, _| match method {
        "initialize" => {
            let capabilities = json!({"tools": {}, "resources": {}});
            Some(Reaction::Answer(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})))
        }
        "resources/list" => Some(Reaction::After(Duration::from_secs(12), json!({"resources": []}))),
        _ => None,
    });
    let mut spec = ServerSpec { idle_stop: Some(Duration::from_secs(5)), ..server.spec() };
    spec.timeouts.list = Duration::from_secs(30);
    let host = host_of([("server", spec)]).await;
    let listed = host.resources("server").await;
    assert!(listed.as_ref().is_ok_and(Vec::is_empty), "{listed:?}");
    assert_eq!(server.connections(), 1);
    host.shutdown().await;
}
