//! Servers that go away and come back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{sync::Notify, time::Instant};
use toolrack_host::{
    CallErrorKind, ChildPlan, Host, ResolveError, Resolver, ServerName, ServerSpec, Verbatim,
    spec::{Http, Stdio},
};
use toolrack_testkit::{EffectLog, FakeHttp, fake_server_path};

use crate::{
    scripted::{Reaction, Scripted, text_result, tool},
    worlds::{call, host_of, settle, soon, state_is, status, text, world},
};

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_is_reconnected_and_keeps_its_tools_meanwhile() {
    let server = Scripted::calling(|name, _| match name {
        "die" => Reaction::HangUp,
        _ => Reaction::Answer(text_result("alive")),
    });
    let server = server.with_tools(["die", "live"].map(tool));
    let host = host_of([("server", server.spec())]).await;
    call(&host, "server/die", json!({})).await.unwrap_err();
    state_is(&host, "server", "reconnecting").await;
    assert_eq!(host.catalog().tools().len(), 2);
    state_is(&host, "server", "connected").await;
    assert_eq!(text(&host, "server/live", json!({})).await, "alive");
    assert_eq!((server.connections(), server.count_of("tools/call")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_the_back_off() {
    let server = Scripted::calling(|name, _| match name {
        "die" => Reaction::HangUp,
        _ => Reaction::Answer(text_result("alive")),
    });
    let server = server.with_tools(["die", "live"].map(tool));
    let mut spec = server.spec();
    spec.retry.first = Duration::from_secs(50);
    let host = host_of([("server", spec)]).await;
    call(&host, "server/die", json!({})).await.unwrap_err();
    state_is(&host, "server", "reconnecting").await;
    let start = Instant::now();
    assert_eq!(text(&host, "server/live", json!({})).await, "alive");
    assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_its_attempts_a_server_is_parked_and_a_call_still_tries() {
    let server = Scripted::calling(|_, _| Reaction::HangUp);
    let mut spec = server.spec();
    spec.retry.attempts = 0;
    let host = host_of([("server", spec)]).await;
    call(&host, "server/echo", json!({})).await.unwrap_err();
    state_is(&host, "server", "failed").await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(server.connections(), 1, "the host does not reconnect by itself");
    call(&host, "server/echo", json!({})).await.unwrap_err();
    assert_eq!((server.connections(), server.count_of("tools/call")), (2, 2));
}

/// A resolver that never finds a value, at once.
#[derive(Debug, Default)]
struct Unset(AtomicUsize);

impl Resolver for Unset {
    fn stdio<'a>(
        &'a self,
        _: &'a ServerName,
        _: &'a Stdio,
    ) -> futures::future::BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(ResolveError::new("env.TOKEN: ${TOKEN} is not set")) })
    }

    fn url<'a>(
        &'a self,
        _: &'a ServerName,
        _: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<String, ResolveError>> {
        Box::pin(async { Err(ResolveError::new("url: ${HOST} is not set")) })
    }

    fn headers<'a>(
        &'a self,
        _: &'a ServerName,
        _: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// A resolver that finds the value only at its second attempt, and tells when it is asked first.
#[derive(Debug, Default)]
struct Late {
    times: AtomicUsize,
    asked: Notify,
    go_on: Notify,
}

impl Resolver for Late {
    fn stdio<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Stdio,
    ) -> futures::future::BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        Box::pin(async move {
            if self.times.fetch_add(1, Ordering::SeqCst) > 0 {
                return Verbatim.stdio(server, spec).await;
            }
            self.asked.notify_one();
            self.go_on.notified().await;
            Err(ResolveError::new("env.TOKEN: ${TOKEN} is not set"))
        })
    }

    fn url<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<String, ResolveError>> {
        Verbatim.url(server, spec)
    }

    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> futures::future::BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        Verbatim.headers(server, spec)
    }
}

#[tokio::test]
async fn an_attempt_that_began_before_the_value_was_given_fails_no_call() {
    let late = Arc::new(Late::default());
    let host = Host::builder().resolver(late.clone()).build();
    host.apply(world([("fake", ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"]))])).await;
    late.asked.notified().await;
    assert_eq!(host.untried(), 1);
    // The user gives the value.
    host.reconnect("fake").unwrap();
    let (answer, ()) = tokio::join!(call(&host, "fake/echo", json!({ "text": "here" })), async {
        tokio::task::yield_now().await;
        late.go_on.notify_one();
    });
    assert_eq!(answer.unwrap().text, "here");
    assert_eq!(host.untried(), 0);
    host.shutdown().await;
}

#[tokio::test]
async fn a_call_and_a_list_right_after_a_requested_reconnection_wait_for_it() {
    let late = Arc::new(Late::default());
    late.go_on.notify_one();
    let host = Host::builder().resolver(late.clone()).build();
    let mut spec = ServerSpec::stdio(fake_server_path().to_str().unwrap(), ["stdio"]);
    spec.retry.first = Duration::from_secs(50);
    settle(&host, world([("fake", spec)])).await;
    state_is(&host, "fake", "reconnecting").await;
    assert!(host.catalog().select("fake/echo").is_err());
    host.reconnect("fake").unwrap();
    let (answer, ()) = tokio::join!(call(&host, "fake/echo", json!({ "text": "here" })), async {
        host.settled_within(Duration::from_secs(50)).await;
        assert!(host.catalog().select("fake/echo").is_ok(), "a list has its tools");
    });
    assert_eq!(answer.unwrap().text, "here");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_wakes_a_server_that_fails_at_once_hears_of_it_at_once() {
    let resolver = Arc::new(Unset::default());
    let host = Host::builder().resolver(resolver.clone()).build();
    let mut spec = ServerSpec::stdio("server", [""; 0]);
    spec.retry.first = Duration::from_secs(50);
    settle(&host, world([("server", spec)])).await;
    let start = Instant::now();
    let error = host.resources("server").await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Config);
    assert!(error.to_string().contains("${TOKEN} is not set"), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(resolver.0.load(Ordering::SeqCst), 2, "it was tried once more");
}

/// A call during a start that is not done yet.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_is_still_starting_does_not_say_that_it_was_stopped() {
    let server = Scripted::new(toolrack_host::Era::Legacy, |method, _| {
        (method == "server/discover").then_some(Reaction::Silence)
    });
    let host = Host::builder().build();
    host.apply(world([("server", server.spec())])).await;
    if let Err(error) = call(&host, "server/echo", json!({})).await {
        let message = error.to_string();
        assert!(!message.contains("stopped"), "{message}");
    }
}

/// HTTP 404 to a session: listing and reading are repeated in a new session, a call is not.
#[tokio::test]
async fn a_lost_session_is_reopened_and_only_safe_requests_are_repeated() {
    // The first request of the session is the list of tools, then comes the tested request.
    for lost_after in [1, 2] {
        let effects = EffectLog::new();
        let fault = format!("http-404-after={lost_after}");
        let server = FakeHttp::start(&["--fault", &fault, "--log-all", "--log", effects.path_str()]);
        let host = host_of([("fake", ServerSpec::http(server.url()))]).await;
        for _ in 0..2 {
            let resources = soon("resources", host.resources("fake")).await;
            let resources = resources.unwrap_or_else(|error| panic!("lost after {lost_after}: {error}"));
            assert_eq!(resources.len(), 3);
        }
        assert_eq!(effects.read().count_of("initialize"), 2, "one new session");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_call_in_a_lost_session_is_not_repeated_and_the_next_one_works() {
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--fault", "http-404-after=1", "--log-all", "--log", effects.path_str()]);
    let host = host_of([("fake", ServerSpec::http(server.url()))]).await;
    let first = soon("the first call", call(&host, "fake/write", json!({}))).await;
    assert_eq!(first.unwrap_err().code(), "MCP_SESSION_NOT_FOUND");
    let second = soon("the second call", call(&host, "fake/write", json!({}))).await;
    assert!(second.is_ok(), "{}", second.unwrap_err());
    assert_eq!(effects.read().runs_of("write"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_went_away_is_seen_to_be_gone() {
    let mut server = FakeHttp::start(&["--era", "modern"]);
    let mut spec = ServerSpec::http(server.url());
    spec.retry.first = Duration::from_millis(50);
    let host = host_of([("fake", spec)]).await;
    server.kill();
    let error = soon("a failure", call(&host, "fake/echo", json!({"text": "x"}))).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Unreachable, "{error}");
    state_is(&host, "fake", "reconnecting").await;
    assert!(status(&host, "fake").state.error().unwrap().contains("127.0.0.1"));
    host.shutdown().await;
}
