//! Conversations over the API, with a model that answers by a script.

use reqwest::Method;
use serde_json::{Value, json};
use toolrack_testkit::SideEffects;

use crate::up::{Events, Up, fake};

/// Says something, and everything that is told then.
async fn say(up: &Up, body: Value) -> Vec<(String, Value)> {
    let response = up.request(Method::POST, "/api/v1/turns").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    let mut events = Events::of(response);
    let mut told = Vec::new();
    while let Some((_, name, data)) = events.next().await {
        told.push((name, data));
    }
    told
}

fn script(steps: Value) -> String {
    steps.to_string()
}

fn of<'t>(told: &'t [(String, Value)], name: &str) -> Vec<&'t Value> {
    told.iter().filter(|(told, _)| told == name).map(|(_, data)| data).collect()
}

#[tokio::test]
async fn a_model_calls_a_tool_and_answers_and_the_conversation_is_kept() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let calls = json!([{ "name": "mcp__fake__add", "input": { "a": 17, "b": 25 } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "It is 42." }]));
    let told = say(&up, json!({ "text": "How much is it?", "model": model })).await;
    let begun = of(&told, "call_begins");
    assert_eq!((&begun[0]["tool"], &begun[0]["arguments"]), (&json!("fake/add"), &json!({ "a": 17, "b": 25 })));
    assert!(of(&told, "call_ends")[0]["text"].as_str().unwrap().contains("42"), "{told:?}");
    let text: String = of(&told, "text").iter().map(|data| data["text"].as_str().unwrap()).collect();
    assert_eq!(text, "It is 42.");
    let (last, done) = told.last().unwrap();
    assert_eq!((last.as_str(), &done["end"], &done["text"]), ("done", &json!("answered"), &json!("It is 42.")));
    let session = of(&told, "session")[0]["id"].as_str().unwrap();
    assert_eq!(done["session"], session);

    let again =
        say(&up, json!({ "text": "Sure?", "session": session, "model": script(json!([{ "text": "Yes." }])) })).await;
    assert_eq!(again.last().unwrap().1["text"], "Yes.");
    let kept = up.get(&format!("/api/v1/sessions/{session}")).await;
    let roles: Vec<_> =
        kept["messages"].as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    up.down().await;
}

#[tokio::test]
async fn a_call_of_a_model_waits_for_approval_like_every_other() {
    let effects = SideEffects::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let calls = json!([{ "name": "mcp__fake__write", "input": { "path": "a" } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "It was not allowed." }]));
    let turn = say(&up, json!({ "text": "Write.", "model": model }));
    let answer = async { up.answer(&up.question().await, json!({ "answer": "deny", "why": "no" })).await };
    let (told, answered) = futures::join!(turn, answer);
    assert_eq!((answered.as_u16(), &of(&told, "call_ends")[0]["is_error"]), (204, &json!(true)));
    assert_eq!((effects.read().runs_of("write"), &told.last().unwrap().1["end"]), (0, &json!("answered")));
    up.down().await;
}

#[tokio::test]
async fn a_turn_is_cancelled_by_its_name_and_what_was_said_is_kept() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let calls = json!([{ "name": "mcp__fake__sleep", "input": { "ms": 60_000 } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "never" }]));
    let turn = say(&up, json!({ "text": "Sleep.", "model": model, "id": "mine" }));
    let cancel = async {
        up.answer(&up.question().await, json!({ "answer": "once" })).await;
        up.eventually("the tool runs", async || {
            let log = up.get("/api/v1/overview").await;
            (log["approvals"] == 0).then_some(())
        })
        .await;
        up.send(Method::DELETE, "/api/v1/turns/mine", None).await.0
    };
    let (told, cancelled) = futures::join!(turn, cancel);
    let (last, done) = told.last().unwrap();
    assert_eq!((cancelled.as_u16(), last.as_str(), &done["end"]), (204, "done", &json!("cancelled")), "{told:?}");
    let kept = up.get(&format!("/api/v1/sessions/{}", done["session"].as_str().unwrap())).await;
    assert_eq!((&kept["session"]["open_turn"], &kept["messages"][2]["role"]), (&json!(false), &json!("tool")));
    up.down().await;
}

#[tokio::test]
async fn without_a_model_or_anything_said_it_is_clear_what_is_missing() {
    let up = Up::with(&[]).await;
    let who = up.get("/api/v1/model").await;
    assert_eq!((&who["model"], &who["error"]["code"]), (&Value::Null, &json!("NO_MODEL")));
    let (status, error) = up.post("/api/v1/turns", json!({ "text": "hello" })).await;
    assert_eq!((status.as_u16(), &error["error"]["hint"]), (409, &json!("set one")));
    let model = script(json!([{ "text": "x" }]));
    assert_eq!(up.post("/api/v1/turns", json!({ "text": " ", "model": model })).await.0, 422);
    assert_eq!(up.post("/api/v1/turns", json!({ "text": "x", "session": "nobody", "model": model })).await.0, 404);
    up.down().await;
}
