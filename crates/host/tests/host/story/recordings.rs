//! Messages that are recorded, and later replayed without any server.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolrack_host::{
    CallError, Event, Host, LinkError, Recorder, Recording, ServerSpec, Subscriptions, spec::Transport,
};
use toolrack_testkit::FakeHttp;

use crate::worlds::{call, event, fake, selectors, settle, soon, text, to_call, world};

const ROOM: usize = 1 << 20;

/// A host that records the messages of its server `server`.
async fn recording_host(spec: ServerSpec) -> (Host, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(ROOM, Arc::new(|text| text.replace("hunter2", "***"))));
    let host = Host::builder().record(Arc::clone(&recorder)).build();
    settle(&host, world([("server", spec)])).await;
    (host, recorder)
}

/// Ends the host, and returns its recording.
async fn ended(host: Host, recorder: &Recorder) -> Recording {
    host.shutdown().await;
    Recording::read("tape.jsonl", &recorder.bytes().unwrap()).unwrap()
}

/// A host with this recording, and a server of that name which cannot be started.
async fn replaying_host(recording: Recording) -> Host {
    let host = Host::builder().replay(Arc::new(recording)).build();
    settle(&host, world([("server", ServerSpec::stdio("/nonexistent/server", [""; 0]))])).await;
    host
}

/// The fake server over every transport and era.
fn everywhere() -> (Vec<ServerSpec>, [FakeHttp; 3]) {
    let servers = [
        FakeHttp::start(&["--era", "legacy"]),
        FakeHttp::start(&["--era", "modern"]),
        FakeHttp::start_sse::<&str>(&[]),
    ];
    let [legacy, modern, sse] = &servers;
    let mut old = ServerSpec::http(sse.url());
    if let Transport::Http(http) = old.transport.clone() {
        old.transport = Transport::Sse(http);
    }
    let specs = vec![
        fake(&["--era", "legacy"]),
        fake(&["--era", "modern"]),
        ServerSpec::http(legacy.url()),
        ServerSpec::http(modern.url()),
        old,
    ];
    (specs, servers)
}

#[tokio::test]
async fn a_recording_answers_as_the_server_did_over_every_wire_and_era() {
    let (specs, _servers) = everywhere();
    for spec in specs {
        let (host, recorder) = recording_host(spec).await;
        let tools = selectors(&host);
        let first = text(&host, "server/echo", json!({"text": "first"})).await;
        let failed = call(&host, "server/fail", json!({})).await.unwrap();
        let refused = call(&host, "server/protocol_error", json!({})).await.unwrap_err().to_string();
        let note = host.read_resource("server", "fake://note").await.unwrap();
        let replayed = replaying_host(ended(host, &recorder).await).await;
        assert_eq!(selectors(&replayed), tools);
        assert_eq!(text(&replayed, "server/echo", json!({"text": "first"})).await, first);
        let again = call(&replayed, "server/fail", json!({})).await.unwrap();
        assert_eq!((again.is_error, again.text), (true, failed.text));
        assert_eq!(call(&replayed, "server/protocol_error", json!({})).await.unwrap_err().to_string(), refused);
        let contents = replayed.read_resource("server", "fake://note").await.unwrap();
        assert_eq!(format!("{contents:?}"), format!("{note:?}"));
        replayed.shutdown().await;
    }
}

#[tokio::test]
async fn a_call_that_was_not_recorded_fails_and_names_server_tool_and_recording() {
    let (host, recorder) = recording_host(fake(&[])).await;
    let _ = text(&host, "server/echo", json!({"text": "recorded"})).await;
    let replayed = replaying_host(ended(host, &recorder).await).await;
    for (tool, arguments, has_similar) in
        [("echo", json!({"text": "another"}), true), ("add", json!({"a": 1, "b": 2}), false)]
    {
        let error = call(&replayed, &format!("server/{tool}"), arguments).await.unwrap_err();
        assert_eq!(error.code(), "NOT_RECORDED");
        let text = error.to_string();
        for word in ["tape.jsonl", "`server`", &format!("tools/call of `{tool}`")] {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(text.contains("other parameters"), has_similar, "{text}");
        assert!(error.hint().is_some_and(|hint| hint.contains("record")), "{error:?}");
        assert!(matches!(error, CallError::Link { error: LinkError::NotRecorded(_), .. }));
    }
    let read = replayed.read_resource("server", "fake://note").await.unwrap_err().to_string();
    assert!(read.contains("resources/read of `fake://note`"), "{read}");
    replayed.shutdown().await;
}

#[tokio::test]
async fn a_server_without_a_recording_is_not_started_either() {
    let (host, recorder) = recording_host(fake(&[])).await;
    let recording = ended(host, &recorder).await;
    assert_eq!(recording.servers().map(ToString::to_string).collect::<Vec<_>>(), ["server"]);
    let host = Host::builder().replay(Arc::new(recording)).build();
    settle(&host, world([("other", fake(&[]))])).await;
    let error = call(&host, "other/echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "NOT_RECORDED", "{error}");
    assert!(error.to_string().contains("no answer of `other` to initialize"), "{error}");
    host.shutdown().await;
}

/// The lines of a recording by hand: a legacy server with one tool, and these messages.
fn by_hand(messages: &[(&str, Value)]) -> Recording {
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "hand", "version": "1"}});
    let tools = json!({"tools": [{"name": "next", "inputSchema": {"type": "object"}}]});
    let start = [
        ("sent", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})),
        ("received", json!({"jsonrpc": "2.0", "id": 1, "result": greeting})),
        ("sent", json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})),
        ("received", json!({"jsonrpc": "2.0", "id": 2, "result": tools})),
    ];
    let mut lines = json!({"toolrack_recording": 1}).to_string();
    for (direction, message) in start.iter().chain(messages) {
        let line = json!({"server": "server", "direction": direction, "message": message});
        lines = format!("{lines}\n{line}");
    }
    Recording::read("by hand", lines.as_bytes()).unwrap()
}

fn asks(id: u64) -> (&'static str, Value) {
    let params = json!({"name": "next", "arguments": {}, "_meta": {"progressToken": id}});
    ("sent", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

fn says(id: u64, text: &str) -> (&'static str, Value) {
    let result = json!({"content": [{"type": "text", "text": text}]});
    ("received", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

#[tokio::test]
async fn equal_calls_get_their_answers_in_order_and_then_the_last_one() {
    // The one in the middle was cancelled, or the recording ended: there is no answer to give.
    let recording = by_hand(&[asks(3), says(3, "one"), asks(4), asks(5), says(5, "two")]);
    let host = replaying_host(recording).await;
    for expected in ["one", "two", "two", "two"] {
        assert_eq!(text(&host, "server/next", json!({})).await, expected);
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_call_without_an_answer_is_not_recorded() {
    let host = replaying_host(by_hand(&[asks(3)])).await;
    let error = call(&host, "server/next", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "NOT_RECORDED", "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn progress_and_logs_come_again_with_their_call() {
    let report = |progress: u64| {
        let params = json!({"progressToken": 77, "progress": progress, "message": format!("step {progress}")});
        ("received", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
    };
    let logged = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "as it was"}});
    let recording = by_hand(&[asks(77), report(1), ("received", logged), report(2), says(77, "done")]);
    let host = replaying_host(recording).await;
    let mut events = host.events();
    let steps = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&steps);
    let next = to_call("server/next", json!({})).on_progress(Arc::new(move |progress| {
        seen.lock().unwrap().push(progress.message.unwrap());
    }));
    assert_eq!(host.call(next).await.unwrap().text, "done");
    assert_eq!(*steps.lock().unwrap(), ["step 1", "step 2"]);
    let log = event(&mut events, |event| match event {
        Event::McpServerLog { message, .. } => Some(message.clone()),
        _ => None,
    });
    assert_eq!(log.await, "as it was");
    host.shutdown().await;
}

#[tokio::test]
async fn changes_of_tools_and_resources_come_again_in_both_eras() {
    for era in ["legacy", "modern"] {
        let (host, recorder) = recording_host(fake(&["--era", era])).await;
        let listener = Subscriptions::new(1);
        listener.subscribe(&host, "server", "fake://note").await.unwrap();
        let _ = text(&host, "server/touch", json!({"uri": "fake://note"})).await;
        soon("the change", listener.updated()).await;
        let _ = text(&host, "server/tools_changed", json!({"add": "grown"})).await;
        crate::worlds::catalog_has(&host, "server/grown", true).await;
        let replayed = replaying_host(ended(host, &recorder).await).await;
        let listener = Subscriptions::new(1);
        listener.subscribe(&replayed, "server", "fake://note").await.unwrap();
        let _ = text(&replayed, "server/touch", json!({"uri": "fake://note"})).await;
        assert_eq!(soon("the change again", listener.updated()).await.1, "fake://note", "{era}");
        let _ = text(&replayed, "server/tools_changed", json!({"add": "grown"})).await;
        crate::worlds::catalog_has(&replayed, "server/grown", true).await;
        replayed.shutdown().await;
    }
}

#[tokio::test]
async fn a_recording_has_no_secrets_and_replays_calls_that_had_one() {
    let (host, recorder) = recording_host(fake(&[])).await;
    assert_eq!(text(&host, "server/echo", json!({"text": "it is hunter2"})).await, "it is hunter2");
    host.shutdown().await;
    let bytes = recorder.bytes().unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));
    let recording = Recording::read("tape.jsonl", &bytes).unwrap();
    let replayed = replaying_host(recording.concealing(Arc::new(|text| text.replace("hunter2", "***")))).await;
    assert_eq!(text(&replayed, "server/echo", json!({"text": "it is hunter2"})).await, "it is ***");
    replayed.shutdown().await;
}

#[tokio::test]
async fn a_recording_has_a_bound_and_is_none_beyond_it() {
    let recorder = Arc::new(Recorder::new(20_000, Arc::new(str::to_owned)));
    let host = Host::builder().record(Arc::clone(&recorder)).build();
    settle(&host, world([("server", fake(&[]))])).await;
    assert!(recorder.bytes().is_ok());
    let big = text(&host, "server/big", json!({"bytes": 30_000})).await;
    assert_eq!(big.len(), 30_000, "the call itself is not disturbed");
    assert!(recorder.bytes().unwrap_err().to_string().contains("20000 bytes"));
    host.shutdown().await;
}

#[test]
fn an_invalid_recording_is_refused_with_its_line() {
    let read = |text: &str| Recording::read("file", text.as_bytes()).unwrap_err().to_string();
    for none in ["", "{}", "hello", "{\"mcpServers\": {}}"] {
        assert!(read(none).starts_with("line 1: this is not a recording"), "{none}");
    }
    assert!(read("{\"toolrack_recording\": 2}").contains("another version"));
    let bad = read("{\"toolrack_recording\": 1}\n\n{\"server\": \"x\", \"direction\": \"up\", \"message\": {}}");
    assert!(bad.starts_with("line 3: ") && bad.contains("up"), "{bad}");
    let cut = read("{\"toolrack_recording\": 1}\n{\"server\": \"x\", \"dir");
    assert!(cut.starts_with("line 2: ") && !cut.contains("line 1"), "{cut}");
    assert!(
        read("{\"toolrack_recording\": 1}\n{\"server\": \"a/b\", \"direction\": \"sent\", \"message\": {}}")
            .starts_with("line 2: ")
    );
}
