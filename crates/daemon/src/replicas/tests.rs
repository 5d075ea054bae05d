use axum::{Router, routing::any};
use http::{Method, header::HOST};
use tokio::{net::TcpListener, task::JoinSet};
use toolrack_store::Store;

use super::{forward::Sibling, *};

/// A replica that answers each request of a member of `acme` with its own name, the request line, the `Host` and the
/// body of the request. It answers `/large` with 8 MiB.
struct RunningReplica {
    replicas: Arc<Replicas>,
    ending: CancellationToken,
    leaving: CancellationToken,
    _tasks: JoinSet<()>,
}

impl RunningReplica {
    async fn start(name: &'static str, store: &TeamStore, takeover_timeout: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = ReplicaOptions {
            heartbeat_timeout: Duration::from_secs(30),
            takeover_timeout,
            ..ReplicaOptions::at(listener.local_addr().unwrap(), store.clone())
        };
        let (ending, leaving) = (CancellationToken::new(), CancellationToken::new());
        let host = HeaderValue::from_static("tools.example");
        let replicas = Replicas::new(store.clone(), options, host, 1_000, ending.clone()).unwrap();
        let siblings = SiblingListener::new(listener, &replicas).unwrap();
        let own_replicas = Arc::clone(&replicas);
        let router = Router::new().fallback(any(move |request| answer(name, own_replicas, request)));
        let mut tasks = JoinSet::new();
        tasks.spawn(siblings.serve(router, ending.clone()));
        tasks.spawn(Arc::clone(&replicas).run(Box::new(|| Box::pin(async {})), leaving.clone()));
        let _ = replicas.term.subscribe().wait_for(Option::is_some).await;
        Self { replicas, ending, leaving, _tasks: tasks }
    }
}

/// What the replica `name` does with a request: it answers itself if it is the home of `acme`, or has the home answer.
async fn answer(name: &'static str, replicas: Arc<Replicas>, request: Request) -> Response {
    match replicas.route("acme", request).await {
        RouteOutcome::ServeHere(request) if request.uri().path() == "/large" => vec![0; 8 << 20].into_response(),
        RouteOutcome::ServeHere(request) => {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, 1_000).await.unwrap();
            let host = head.headers[HOST].to_str().unwrap();
            let path = head.uri.path_and_query().unwrap();
            format!("{name}: {} {path} {host} {}", head.method, String::from_utf8_lossy(&body)).into_response()
        }
        RouteOutcome::Answered(response) => response,
    }
}

/// Sends a request to the replica `through`, whose name is `name`. Returns the status and the text of the answer.
async fn send(name: &'static str, through: &RunningReplica, method: Method) -> (u16, String) {
    let request = Request::builder().method(method).uri("/api/v1/calls?x=1").header(HOST, "elsewhere:1");
    let response = answer(name, Arc::clone(&through.replicas), request.body("hello".into()).unwrap()).await;
    let status = response.status().as_u16();
    (status, String::from_utf8(to_bytes(response.into_body(), 1_000).await.unwrap().to_vec()).unwrap())
}

/// Two replicas, `one` and `other`, that have joined. Neither is a home yet.
async fn pair(store: &TeamStore) -> (RunningReplica, RunningReplica) {
    let takeover_timeout = Duration::from_secs(20);
    let one = RunningReplica::start("one", store, takeover_timeout).await;
    (one, RunningReplica::start("other", store, takeover_timeout).await)
}

async fn store() -> (tempfile::TempDir, TeamStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
    (folder, store)
}

#[tokio::test]
async fn the_first_replica_that_gets_a_request_answers_for_all_until_it_leaves() {
    let (_folder, store) = store().await;
    let (one, other) = pair(&store).await;
    assert_eq!(
        send("one", &one, Method::POST).await,
        (200, "one: POST /api/v1/calls?x=1 elsewhere:1 hello".to_owned())
    );
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let expected = format!("one: {method} /api/v1/calls?x=1 tools.example hello");
        assert_eq!(send("other", &other, method).await, (200, expected));
    }
    one.ending.cancel();
    one.leaving.cancel();
    assert_eq!(send("other", &other, Method::POST).await.1, "other: POST /api/v1/calls?x=1 elsewhere:1 hello");
}

#[tokio::test]
async fn clients_that_do_not_read_their_answers_hold_up_no_other_client() {
    let (_folder, store) = store().await;
    let (one, other) = pair(&store).await;
    assert_eq!(send("one", &one, Method::GET).await.0, 200);
    let mut unread = Vec::new();
    for _ in 0..100 {
        let large = Request::get("/large").body(Body::empty()).unwrap();
        unread.push(answer("other", Arc::clone(&other.replicas), large).await);
    }
    let answered = timeout(Duration::from_secs(10), send("other", &other, Method::POST)).await;
    assert_eq!(answered.expect("the unread answers are in the way").0, 200);
    let read = to_bytes(unread.remove(0).into_body(), 8 << 20).await.unwrap();
    assert_eq!(read.len(), 8 << 20);
}

#[tokio::test]
async fn a_request_waits_for_a_home_that_cannot_be_reached_and_then_says_that_it_was_not_sent() {
    let (_folder, store) = store().await;
    let one = RunningReplica::start("one", &store, Duration::from_millis(500)).await;
    // Nothing listens there, and its heartbeat is not late yet.
    let gone = Replica { id: "gone".to_owned(), address: "127.0.0.1:1".to_owned(), public_key: vec![1] };
    assert!(store.join_replicas(&gone).await.unwrap());
    assert_eq!(store.home_or_take("acme", "gone").await.unwrap().replica, gone);
    let (status, text) = send("one", &one, Method::POST).await;
    assert!(status == 503 && text.contains("NO_HOME") && text.contains("was not carried out"), "{status}: {text}");
}

#[tokio::test]
async fn a_replica_that_its_siblings_removed_ends_its_worlds_and_joins_anew() {
    let (_folder, store) = store().await;
    let listen = "127.0.0.1:1".parse().unwrap();
    let options =
        ReplicaOptions { heartbeat_timeout: Duration::from_millis(200), ..ReplicaOptions::at(listen, store.clone()) };
    let host = HeaderValue::from_static("tools.example");
    let replicas = Replicas::new(store.clone(), options, host, 1_000, CancellationToken::new()).unwrap();
    let (counter, mut times_ended) = watch::channel(0);
    let counter = Arc::new(counter);
    let end_worlds: EndWorlds = Box::new(move || {
        let counter = Arc::clone(&counter);
        Box::pin(async move { counter.send_modify(|times| *times += 1) })
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&replicas).run(end_worlds, CancellationToken::new()));
    let mut terms = replicas.term.subscribe();
    let first = terms.wait_for(Option::is_some).await.unwrap().as_ref().unwrap().id.clone();
    assert!(replicas.is_home_of("acme").await);
    store.leave_replicas(&first).await.unwrap();
    times_ended.wait_for(|times| *times == 1).await.unwrap();
    let second = terms.wait_for(|term| term.as_ref().is_some_and(|term| term.id != first)).await.unwrap().clone();
    assert!(second.unwrap().remembered_home("acme").is_none());
}

#[tokio::test]
async fn a_request_of_a_stranger_is_not_read() {
    let (_folder, store) = store().await;
    let one = RunningReplica::start("one", &store, Duration::from_secs(20)).await;
    let replica = store.heartbeats().await.unwrap().remove(0).replica;
    let stranger = Sibling::new(replica, &Identity::new().unwrap());
    let (head, ()) = Request::builder().method(Method::POST).uri("/mcp").body(()).unwrap().into_parts();
    let sent = stranger.forward(&head, Bytes::from("hello"), &HeaderValue::from_static("x"), &one.ending).await;
    assert!(matches!(sent, ForwardOutcome::SendAgain));
    assert_eq!(store.home("acme").await.unwrap(), None);
}
