use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::to_bytes;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::Notify;

use super::*;

/// What worlds share that `make_parts` makes. None of them may get as far as running.
pub(crate) fn that_never_run(make_parts: MakeWorld) -> CommonParts {
    let timeouts = WorldTimeouts { idle: Duration::from_secs(60), grace: Duration::from_secs(1) };
    let make_endpoints: MakeWorldEndpoints = Arc::new(|_, _, _| unreachable!("no world runs in these tests"));
    let (ending, tasks) = (CancellationToken::new(), TaskTracker::new());
    let daemon_began = Instant::now();
    CommonParts {
        make_parts,
        make_endpoints,
        daemon_began,
        base: None,
        timeouts,
        ending,
        tasks,
        question_log: None,
        limit: None,
    }
}

/// The error of a world that cannot begin.
pub(crate) fn broken() -> NoWorld {
    NoWorld { message: "the folder is gone".to_owned(), hint: Some("ask the operator".to_owned()) }
}

/// Worlds that wait for the signal while they begin, and then fail; and the number of worlds that were begun.
fn worlds_that_fail() -> (Arc<Worlds>, Arc<Notify>, Arc<AtomicUsize>) {
    let (signal, begun) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (awaited, counter) = (Arc::clone(&signal), Arc::clone(&begun));
    let make: MakeWorld = Box::new(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        let awaited = Arc::clone(&awaited);
        async move {
            awaited.notified().await;
            Err(broken())
        }
        .boxed()
    });
    (Worlds::new(that_never_run(make)), signal, begun)
}

/// Sends a request to the world `id`. Returns the status and the body of the answer.
async fn ask(worlds: &Arc<Worlds>, id: &str) -> (u16, Value) {
    let answer = worlds.answer(id, Request::new(Body::empty())).await;
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 10_000).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_world_that_cannot_begin_says_why_and_the_next_request_tries_again() {
    let (worlds, signal, begun) = worlds_that_fail();
    for number in 1..=2 {
        signal.notify_one();
        let (status, error) = ask(&worlds, "acme").await;
        assert_eq!((status, &error["error"]["code"]), (503, &Value::from("NO_WORLD")));
        assert_eq!(error["error"]["message"], "the folder is gone");
        assert_eq!(error["error"]["hint"], "ask the operator");
        assert_eq!(begun.load(Ordering::SeqCst), number);
        assert!(!worlds.is_running("acme") && worlds.count() == 0, "nothing of it stays");
    }
}

#[tokio::test]
async fn concurrent_requests_start_a_world_once() {
    let (worlds, signal, begun) = worlds_that_fail();
    let release = async {
        while begun.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(worlds.count(), 2);
        assert!(worlds.get("acme").is_none() && worlds.running_worlds().is_empty(), "none of them runs yet");
        signal.notify_waiters();
    };
    let (one, other, third, ()) =
        tokio::join!(ask(&worlds, "acme"), ask(&worlds, "acme"), ask(&worlds, "bolt"), release);
    assert_eq!((one.0, other.0, third.0), (503, 503, 503));
    assert_eq!(begun.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_world_that_a_request_uses_is_not_stopped_with_the_unused_ones() {
    let (worlds, _signal, _begun) = worlds_that_fail();
    let in_use = worlds.enter("acme", None).unwrap();
    drop(worlds.enter("bolt", None).unwrap());
    let is_stopped = |id: &str| worlds.running.lock().get(id).is_some_and(|world| world.stop.is_cancelled());
    worlds.stop_unused_where(|_| true);
    assert_eq!(["acme", "bolt"].map(is_stopped), [false, true]);
    drop(in_use);
    worlds.stop_unused_where(|id| id == "acme");
    assert!(is_stopped("acme"));
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_world_that_has_to_end_while_it_begins() {
    let (worlds, signal, begun) = worlds_that_fail();
    let stop = async {
        while begun.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        worlds.stop("bolt");
        worlds.stop("acme");
    };
    let ((status, error), ()) = tokio::join!(ask(&worlds, "acme"), stop);
    assert_eq!((status, &error["error"]["code"]), (503, &Value::from("ENDING")));
    // `end_where` waits until the attempt to begin is over, because servers could start until then.
    let mut ended = Box::pin(worlds.end_where(|id| id == "acme"));
    assert!(ended.as_mut().now_or_never().is_none());
    signal.notify_waiters();
    ended.await;
    assert!(!worlds.is_running("acme"));
}

#[tokio::test]
async fn an_answer_that_is_still_sent_breaks_off_when_the_grace_period_of_its_world_is_over() {
    let (use_count, stop) = (watch::Sender::new(0), CancellationToken::new());
    let world = Arc::new(OnDemandWorld { use_count, stop, phase: watch::Sender::new(Phase::Ending) });
    world.use_count.send_modify(|use_count| *use_count += 1);
    let begun = stream::once(async { Ok::<_, axum::Error>("piece") }).chain(stream::pending());
    let answer = hold_until_sent(Response::new(Body::from_stream(begun)), WorldUse(Arc::clone(&world)));
    let mut pieces = answer.into_body().into_data_stream();
    assert_eq!(pieces.next().await.unwrap().unwrap(), "piece");
    assert!(pieces.next().now_or_never().is_none(), "the answer goes on during the grace period");
    world.phase.send_replace(Phase::GraceOver);
    assert!(pieces.next().await.unwrap().is_err(), "the client must not take the answer for complete");
    assert!(pieces.next().await.is_none());
    assert_eq!(*world.use_count.borrow(), 0);
}

#[tokio::test]
async fn worlds_that_end_together_stop_before_the_first_of_them_has_ended() {
    let (worlds, signal, _) = worlds_that_fail();
    let requests = tokio::join!(ask(&worlds, "acme"), ask(&worlds, "bolt"), async {
        let mut ended = Box::pin(worlds.end_where(|_| true));
        assert!(ended.as_mut().now_or_never().is_none(), "no world can end before the signal");
        let are_stopped = worlds.running.lock().values().map(|world| world.stop.is_cancelled()).collect::<Vec<_>>();
        assert_eq!(are_stopped, [true, true]);
        while worlds.running.lock().values().any(|world| matches!(*world.phase.borrow(), Phase::Starting)) {
            signal.notify_waiters();
            tokio::task::yield_now().await;
        }
        ended.await;
    });
    assert_eq!((requests.0.0, requests.1.0), (503, 503));
}

#[tokio::test]
async fn only_a_member_of_a_team_is_named_to_the_maker_of_a_world() {
    let named = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&named);
    let make: MakeWorld = Box::new(move |id, by| {
        names.lock().push((id, by.map(|by| by.subject().to_owned())));
        async { Err(broken()) }.boxed()
    });
    let worlds = Worlds::new(that_never_run(make));
    let ann = Principal::new(toolrack_host::principal::Kind::Person, "acme", "https://login.example", "ann").unwrap();
    for by in [None, Some(Principal::LOCAL), Some(ann)] {
        let mut request = Request::new(Body::empty());
        if let Some(by) = by {
            request.extensions_mut().insert(by);
        }
        worlds.answer("acme", request).await;
    }
    let ids = ["acme", "acme", "acme"].map(str::to_owned);
    let named: Vec<_> = named.lock().drain(..).collect();
    assert_eq!(named.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);
    assert_eq!(named.into_iter().map(|(_, by)| by).collect::<Vec<_>>(), [None, None, Some("ann".to_owned())]);
}
