//! Untrusted entries are neither started nor resolved.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use toolrack_host::{
    CallErrorKind, ChildPlan, Host, ResolveError, Resolver, ServerName, ServerSpec, Verbatim,
    spec::{Http, Source, Stdio, Trust},
};
use toolrack_testkit::Home;

use crate::worlds::{call, settle, status, world};

/// Counts resolved values.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Resolver for Counting {
    fn stdio<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Stdio,
    ) -> futures::future::BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verbatim.stdio(server, spec)
    }

    fn url<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<String, ResolveError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verbatim.url(server, spec)
    }

    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verbatim.headers(server, spec)
    }
}

#[tokio::test]
async fn no_request_starts_or_resolves_a_pending_server() {
    let home = Home::new();
    let marker = home.work().join("started");
    let touch = format!("echo started > '{}'; exit 3", marker.display());
    let pending = |spec: ServerSpec| ServerSpec {
        trust: Trust::Pending,
        source: Source::file("project", "/project/.mcp.json"),
        ..spec
    };
    let resolver = Arc::new(Counting::default());
    let host = Host::builder().resolver(resolver.clone()).build();
    let desired = world([
        ("program", pending(ServerSpec::stdio("/bin/sh", ["-c", &touch]))),
        ("remote", pending(ServerSpec::http("http://127.0.0.1:1/mcp"))),
    ]);
    settle(&host, desired.clone()).await;
    settle(&host, desired.clone()).await;
    for server in ["program", "remote"] {
        assert_eq!(status(&host, server).state.word(), "pending_trust");
        let error = call(&host, &format!("{server}/any"), json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("NOT_TRUSTED", CallErrorKind::NotTrusted));
        assert!(error.to_string().contains("/project/.mcp.json"), "{error}");
        assert_eq!(host.resources(server).await.unwrap_err().code(), "NOT_TRUSTED");
        host.reconnect(server).unwrap();
        let why = host.why(&format!("{server}/any"));
        assert_eq!(why.steps.last().unwrap().stage, "trust");
    }
    assert!(host.catalog().tools().len() == 0);
    assert_eq!(resolver.0.load(Ordering::SeqCst), 0);

    // Once approved, the server starts. So the checks above would have noticed an earlier start.
    let approved = desired.into_iter().map(|(name, spec)| (name, ServerSpec { trust: Trust::Trusted, ..spec }));
    settle(&host, approved.collect()).await;
    assert_eq!(home.read("work/started"), "started\n");
    assert!(resolver.0.load(Ordering::SeqCst) >= 2);
    host.shutdown().await;
}
