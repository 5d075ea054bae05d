use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use toolrack_testkit::{EffectLog, Effects};

use crate::up::{Events, LONG, Up, fake};

/// Waits until the server has logged the call.
async fn wait_for(effects: &EffectLog, says: impl Fn(&Effects) -> bool) {
    let waited = timeout(LONG, async {
        while !says(&effects.read()) {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("the server does it");
}

#[tokio::test]
async fn a_call_returns_the_tool_s_result_even_if_the_tool_failed() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let (status, outcome) = up.call("fake/echo", json!({ "text": "hello" })).await;
    assert_eq!((status.as_u16(), &outcome["text"], &outcome["is_error"]), (200, &json!("hello"), &json!(false)));
    let (status, outcome) = up.call("mcp__fake__fail", json!({ "message": "no" })).await;
    assert_eq!((status.as_u16(), &outcome["text"], &outcome["is_error"]), (200, &json!("no"), &json!(true)));
    let overview = up.get("/api/v1/overview").await;
    assert_eq!((&overview["calls"]["total"], &overview["calls"]["errors"]), (&json!(2), &json!(1)));
    assert_eq!(overview["recent"][0]["outcome"], "tool_error");
    let metrics = up.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("toolrack_calls_total{server=\"fake\",outcome=\"ok\"} 1"), "{metrics}");
    up.down().await;
}

#[tokio::test]
async fn each_kind_of_failed_call_has_its_own_status_and_a_hint() {
    let up = Up::with(&[("fake", fake(&[])), ("off", json!({ "command": "x", "enabled": false }))]).await;
    let (status, error) = up.call("fake/ecko", json!({})).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (404, &json!("UNKNOWN_TOOL")));
    assert!(error["error"]["message"].as_str().unwrap().contains("echo"), "{error}");
    let (status, error) = up.call("off/x", json!({})).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("SERVER_DISABLED")));
    let (status, error) = up.call("fake/protocol_error", json!({ "message": "broken" })).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (422, &json!("RPC_ERROR")));
    up.down().await;
}

#[tokio::test]
async fn progress_is_sent_in_order_and_the_result_last() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let call = json!({ "tool": "fake/sleep", "arguments": { "ms": 300, "progress": true }, "approved": true });
    let request = up.request(Method::POST, "/api/v1/calls").header("accept", "text/event-stream");
    let mut events = Events::of(request.json(&call).send().await.unwrap());
    let mut received = Vec::new();
    while let Some((_, name, data)) = events.next().await {
        received.push((name, data["progress"].clone()));
    }
    let names: Vec<_> = received.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["progress", "progress", "progress", "result"]);
    assert_eq!(received[..3].iter().map(|(_, at)| at.as_f64().unwrap()).collect::<Vec<_>>(), [100.0, 200.0, 300.0]);
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_can_be_cancelled_by_its_name_and_the_server_hears_of_it() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = json!({ "tool": "fake/sleep", "arguments": { "ms": 60_000 }, "approved": true, "id": "mine" });
    let cancel = async {
        wait_for(&effects, |effects| effects.runs_of("sleep") == 1).await;
        let (status, error) = up.post("/api/v1/calls", call.clone()).await;
        assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("ID_IN_USE")));
        up.send(Method::DELETE, "/api/v1/calls/mine", None).await.0
    };
    let called = up.post("/api/v1/calls", call.clone());
    let ((status, error), cancelled) = futures::join!(called, cancel);
    assert_eq!((cancelled.as_u16(), status.as_u16(), &error["error"]["code"]), (204, 409, &json!("CANCELLED")));
    wait_for(&effects, |effects| !effects.cancelled().is_empty()).await;
    assert_eq!(up.send(Method::DELETE, "/api/v1/calls/mine", None).await.0, 404);
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_goes_away_cancels_the_call() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = json!({ "tool": "fake/sleep", "arguments": { "ms": 60_000 }, "approved": true });
    let request = up.request(Method::POST, "/api/v1/calls").json(&call).send();
    let mut waiting = JoinSet::new();
    waiting.spawn(request);
    wait_for(&effects, |effects| effects.runs_of("sleep") == 1).await;
    waiting.abort_all();
    wait_for(&effects, |effects| !effects.cancelled().is_empty()).await;
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_are_finished_when_the_daemon_ends() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = json!({ "tool": "fake/sleep", "arguments": { "ms": 500 }, "approved": true });
    let request = up.request(Method::POST, "/api/v1/calls").json(&call);
    let mut called = JoinSet::new();
    called.spawn(request.send());
    wait_for(&effects, |effects| effects.runs_of("sleep") == 1).await;
    up.down().await;
    assert_eq!(called.join_next().await.unwrap().unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn the_tools_of_one_server_are_counted_and_given_page_by_page() {
    let up = Up::with(&[("fake", fake(&[])), ("other", fake(&[]))]).await;
    let page = async |query: &str| up.get(&format!("/api/v1/tools?server=fake&limit=2{query}")).await;
    let names = |page: &Value| {
        let tools = page["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = page("").await;
    let all = names(&up.get("/api/v1/tools?server=fake").await);
    assert_eq!((names(&first), &first["total"]), (all[..2].to_vec(), &json!(all.len())));
    assert_eq!(names(&page(&format!("&after={}", all[1])).await), all[2..4]);
    assert!(names(&page(&format!("&after={}", all[all.len() - 1])).await).is_empty());
    assert_eq!(up.send(Method::GET, "/api/v1/tools?server=nosuch", None).await.0, 404);
    up.down().await;
}

#[tokio::test]
async fn tools_are_found_by_words_and_shown_with_their_schemas() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let found = up.get("/api/v1/tools?q=add%20two%20numbers&limit=3").await;
    assert_eq!(found["tools"][0]["tool"], "add");
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.0 && found["total"].as_u64().unwrap() > 10);
    let tool = up.get("/api/v1/tools/fake/add").await;
    assert_eq!(
        (&tool["input_schema"]["required"], &tool["annotations"]["read_only"]),
        (&json!(["a", "b"]), &json!(true))
    );
    assert_eq!(up.send(Method::GET, "/api/v1/tools/fake/nope", None).await.0, 404);
    up.down().await;
}

#[tokio::test]
async fn resources_and_prompts_are_read_through_the_daemon() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let listed = up.get("/api/v1/servers/fake/resources").await;
    let uri = listed["resources"][0]["uri"].clone();
    let (_, read) = up.post("/api/v1/servers/fake/resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["contents"][0]["uri"], uri, "{read}");
    let (_, prompt) =
        up.post("/api/v1/servers/fake/prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } })).await;
    assert!(prompt["messages"][0].to_string().contains("Ada"), "{prompt}");
    up.down().await;
}
