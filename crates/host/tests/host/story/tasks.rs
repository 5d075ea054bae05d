//! Tools that run as tasks of the server (2025-11-25, experimental).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::timeout;
use toolrack_host::{CallErrorKind, Era, Host, OnProgress, mcp::Progress};

use crate::{
    askers::Person,
    scripted::{Reaction, Scripted, progress, text_result},
    worlds::{call, host_of, settle, to_call, world},
};

fn status_of(status: &str) -> Value {
    json!({"taskId": "t1", "status": status, "pollInterval": 1_000, "ttl": 60_000})
}

/// A server whose only tool must run as a task, which works for `polls` polls.
fn working(polls: usize) -> Scripted {
    ending(polls, "completed", || Reaction::Answer(text_result("studied")))
}

/// The same server, whose task ends in this status and with this result.
fn ending(polls: usize, last: &'static str, result: fn() -> Reaction) -> Scripted {
    let polled = AtomicUsize::new(0);
    let required = json!({
        "name": "study", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
    });
    let server = Scripted::new(Era::Legacy, move |method, params| {
        Some(Reaction::Answer(match method {
            "tools/call" if params["task"].is_object() => json!({"task": status_of("working")}),
            "tasks/get" if polled.fetch_add(1, Ordering::SeqCst) + 1 < polls => status_of("working"),
            "tasks/get" => status_of(last),
            "tasks/result" => return Some(result()),
            "tasks/cancel" => status_of("cancelled"),
            _ => return None,
        }))
    });
    server.with_tools([required])
}

#[tokio::test(start_paused = true)]
async fn a_task_is_started_once_watched_and_fetched() {
    let server = working(3);
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(call(&host, "server/study", json!({})).await.unwrap().text, "studied");
    let counts = ["tools/call", "tasks/get", "tasks/result", "tasks/cancel"].map(|method| server.count_of(method));
    assert_eq!(counts, [1, 3, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_no_caller_waits_for_any_more_is_cancelled() {
    let server = working(1_000);
    let host = host_of([("server", server.spec())]).await;
    let given_up = timeout(Duration::from_secs(5), call(&host, "server/study", json!({}))).await;
    assert!(given_up.is_err());
    assert_eq!(server.hears_of("tasks/cancel").await["params"]["taskId"], "t1");
}

/// The token stays valid for the whole life of the task, says the specification.
#[tokio::test(start_paused = true)]
async fn the_progress_of_a_task_is_heard() {
    let server = working(5);
    let host = host_of([("server", server.spec())]).await;
    let received = Arc::new(Mutex::new(Vec::new()));
    let on_progress: OnProgress = {
        let received = received.clone();
        Arc::new(move |report: Progress| received.lock().unwrap().push(report.progress))
    };
    let talk = async {
        let called = server.hears_of("tools/call").await;
        server.hears_of("tasks/get").await;
        server.say(progress(&called["params"], 1));
    };
    let study = host.call(to_call("server/study", json!({})).on_progress(on_progress));
    let (outcome, ()) = tokio::join!(study, talk);
    outcome.unwrap();
    assert_eq!(*received.lock().unwrap(), [1.0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_fails_its_call() {
    let server = ending(2, "failed", || Reaction::Refuse(-32603));
    let host = host_of([("server", server.spec())]).await;
    let error = call(&host, "server/study", json!({})).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Refused);
    assert!(error.to_string().contains("study"), "{error}");
    assert_eq!(server.count_of("tasks/cancel"), 0, "it has ended by itself");
}

/// A task that needs input asks while its result is waited for, after the call itself was answered.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_task_goes_to_its_caller_and_stops_the_clocks() {
    let server = ending(2, "input_required", || Reaction::After(Duration::from_secs(130), text_result("studied")));
    let (caller, bystander) = (Person { takes: Duration::from_secs(120), ..Person::eager() }, Person::eager());
    let (caller, bystander) = (caller.shared(), bystander.shared());
    let host = Host::builder().asker(bystander.clone()).build();
    settle(&host, world([("server", server.spec())])).await;
    let ask = async {
        server.hears_of("tasks/result").await;
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let params = json!({"message": "Who?", "requestedSchema": schema});
        server.say(json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": params}));
    };
    let study = host.call(to_call("server/study", json!({})).asker(caller.clone()));
    let (outcome, ()) = tokio::join!(study, ask);
    assert_eq!((caller.asked().len(), bystander.asked().len()), (1, 0));
    assert_eq!(outcome.unwrap().text, "studied");
}
