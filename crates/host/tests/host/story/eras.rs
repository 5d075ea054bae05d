//! Eras: determined once, remembered, tried first, and corrected if they are wrong.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::Instant;
use toolrack_host::{Era, Host, Memory, ServerSpec, spec::Protocol};
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::{
    scripted::{Reaction, Scripted},
    worlds::{fake, host_of, selectors, settle, status, world},
};

/// A memory that a test can read.
#[derive(Debug, Default)]
struct Notebook(Mutex<BTreeMap<String, Era>>);

impl Notebook {
    fn with(spec: &ServerSpec, era: Era) -> Arc<Self> {
        Arc::new(Self(Mutex::new([(spec.fingerprint(), era)].into())))
    }

    fn remembered(&self, spec: &ServerSpec) -> Option<Era> {
        self.0.lock().unwrap().get(&spec.fingerprint()).copied()
    }
}

impl Memory for Notebook {
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>> {
        Box::pin(async move { self.0.lock().unwrap().get(fingerprint).copied() })
    }

    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.lock().unwrap().insert(fingerprint.to_owned(), era);
        })
    }
}

/// Connects with this memory, and shuts down. Returns the era of the connection.
async fn connect_once(memory: &Arc<Notebook>, spec: &ServerSpec) -> Era {
    let host = Host::builder().memory(memory.clone()).build();
    settle(&host, world([("server", spec.clone())])).await;
    assert!(selectors(&host).contains(&"server/echo".to_owned()), "{:?}", host.status());
    let era = status(&host, "server").era.unwrap();
    host.shutdown().await;
    era
}

/// How often the host tried the modern era and the legacy era.
fn tries(effects: &EffectLog) -> (usize, usize) {
    let effects = effects.read();
    (effects.count_of("server/discover"), effects.count_of("initialize"))
}

#[tokio::test]
async fn the_era_that_worked_is_remembered_per_server_and_tried_first() {
    for (option, era, first_tries, all_tries) in
        [("legacy", Era::Legacy, (1, 1), (1, 2)), ("modern", Era::Modern, (1, 0), (2, 0))]
    {
        let (stdio_effects, http_effects) = (EffectLog::new(), EffectLog::new());
        let http = FakeHttp::start(&["--era", option, "--log-all", "--log", http_effects.path_str()]);
        let stdio = fake(&["--era", option, "--log-all", "--log", stdio_effects.path_str()]);
        for (effects, spec) in [(&stdio_effects, stdio), (&http_effects, ServerSpec::http(http.url()))] {
            let memory = Arc::<Notebook>::default();
            assert_eq!(connect_once(&memory, &spec).await, era);
            assert_eq!(tries(effects), first_tries, "{option}, {}", spec.transport.kind());
            assert_eq!(memory.remembered(&spec), Some(era));
            assert_eq!(connect_once(&memory, &spec).await, era);
            assert_eq!(tries(effects), all_tries, "{option}, {}", spec.transport.kind());
        }
    }
}

#[tokio::test]
async fn a_changed_era_of_a_server_is_detected_and_remembered() {
    for (option, now, remembered) in [("modern", Era::Modern, Era::Legacy), ("legacy", Era::Legacy, Era::Modern)] {
        let http = FakeHttp::start(&["--era", option]);
        for spec in [fake(&["--era", option]), ServerSpec::http(http.url())] {
            let memory = Notebook::with(&spec, remembered);
            assert_eq!(connect_once(&memory, &spec).await, now, "{}", spec.transport.kind());
            assert_eq!(memory.remembered(&spec), Some(now));
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_of_the_probe_is_started_once_more_and_then_never_probed() {
    let effects = EffectLog::new();
    let spec = fake(&["--fault", "exit-on-discover", "--log-all", "--log", effects.path_str()]);
    let memory = Arc::<Notebook>::default();
    assert_eq!(connect_once(&memory, &spec).await, Era::Legacy);
    assert_eq!(effects.read().pids().len(), 2);
    assert_eq!(connect_once(&memory, &spec).await, Era::Legacy);
    assert_eq!(effects.read().pids().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_probe_gets_a_legacy_handshake_after_two_seconds() {
    let server = Scripted::new(Era::Legacy, |method, _| (method == "server/discover").then_some(Reaction::Silence));
    let start = Instant::now();
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!(status(&host, "server").era, Some(Era::Legacy));
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_slow_to_start_is_neither_restarted_nor_misjudged() {
    let server = Scripted::new(Era::Modern, |method, _| {
        let found = serde_json::json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
        });
        (method == "server/discover").then_some(Reaction::After(Duration::from_secs(12), found))
    });
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(status(&host, "server").era, Some(Era::Modern));
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_names_its_era_is_not_probed() {
    let (legacy, modern) = (Scripted::plain(), Scripted::new(Era::Modern, |_, _| None));
    let specs = [(&legacy, Protocol::Legacy), (&modern, Protocol::Modern)]
        .map(|(server, protocol)| ServerSpec { protocol, ..server.spec() });
    let [first, second] = specs;
    host_of([("legacy", first), ("modern", second)]).await;
    assert_eq!((legacy.count_of("server/discover"), legacy.count_of("initialize")), (0, 1));
    assert_eq!((modern.count_of("server/discover"), modern.count_of("initialize")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_is_refused() {
    let server = Scripted::new(Era::Legacy, |method, _| {
        let answer = serde_json::json!({"protocolVersion": "1999-01-01", "capabilities": {"tools": {}}});
        (method == "initialize").then_some(Reaction::Answer(answer))
    });
    let host = host_of([("server", server.spec())]).await;
    let state = status(&host, "server").state;
    assert!(state.error().unwrap().contains("`1999-01-01`"), "{state:?}");
    assert!(selectors(&host).is_empty());
}
