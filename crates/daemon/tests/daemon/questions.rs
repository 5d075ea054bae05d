use reqwest::{Method, StatusCode};
use serde_json::json;
use toolrack_testkit::SideEffects;

use crate::up::{Up, fake};

#[tokio::test]
async fn a_call_that_no_rule_allows_waits_for_an_answer_and_sends_what_was_approved() {
    let effects = SideEffects::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let mut events = up.events(None).await;
    let call = up.post("/api/v1/calls", json!({ "tool": "fake/write", "arguments": { "path": "a" } }));
    let answer = async {
        let question = up.question().await;
        assert_eq!(
            (&question["kind"], &question["tool"], &question["destructive"]),
            (&json!("approval"), &json!("write"), &json!(true))
        );
        assert_eq!(question["arguments"], json!({ "path": "a" }));
        assert_eq!(effects.read().runs_of("write"), 0);
        assert_eq!(up.answer(&question, json!({ "answer": "accept" })).await, 422);
        assert_eq!(up.answer(&question, json!({ "answer": "once", "arguments": { "path": "b" } })).await, 204);
        assert_eq!(up.answer(&question, json!({ "answer": "once" })).await, 404);
    };
    let ((status, _), ()) = futures::join!(call, answer);
    assert_eq!(status, 200);
    let runs = effects.read().runs();
    assert_eq!(runs.len(), 1);
    assert!(format!("{runs:?}").contains(r#""b""#), "{runs:?}");
    events.wait("question_opened").await;
    events.wait("question_closed").await;
    up.down().await;
}

#[tokio::test]
async fn a_call_that_is_denied_fails_with_the_reason_and_nothing_runs() {
    let effects = SideEffects::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = up.post("/api/v1/calls", json!({ "tool": "fake/write" }));
    let answer = async {
        let question = up.question().await;
        up.answer(&question, json!({ "answer": "deny", "why": "not on a Sunday" })).await
    };
    let ((status, error), answered) = futures::join!(call, answer);
    assert_eq!((status.as_u16(), answered.as_u16(), &error["error"]["code"]), (403, 204, &json!("DENIED")));
    assert!(error["error"]["message"].as_str().unwrap().contains("not on a Sunday"));
    assert_eq!(effects.read().runs_of("write"), 0);
    up.down().await;
}

#[tokio::test]
async fn a_tool_that_is_always_allowed_is_asked_about_once_until_that_is_taken_back() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let call = || up.post("/api/v1/calls", json!({ "tool": "fake/write" }));
    let answer = async |word: &str| {
        let question = up.question().await;
        assert_eq!(question["lasting"], "always");
        up.answer(&question, json!({ "answer": word })).await
    };
    let ((status, _), _) = futures::join!(call(), answer("always_tool"));
    assert_eq!(status, 200);
    assert_eq!(call().await.0, 200);
    let standing = up.get("/api/v1/answers").await;
    assert_eq!(standing["answers"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&standing["answers"][0]["tool"], &standing["answers"][0]["given_for"]),
        (&json!("write"), &json!("tool"))
    );
    let forgotten = up.send(Method::DELETE, "/api/v1/answers?server=fake&tool=write", None).await;
    assert_eq!(forgotten, (StatusCode::OK, json!({ "forgotten": 1 })));
    let ((status, _), _) = futures::join!(call(), answer("session"));
    assert_eq!((status, call().await.0), (StatusCode::OK, StatusCode::OK));
    assert_eq!(up.get("/api/v1/answers").await["answers"], json!([]));
    up.down().await;
}

#[tokio::test]
async fn arguments_that_the_tool_does_not_take_leave_the_question_open() {
    let effects = SideEffects::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = up.post("/api/v1/calls", json!({ "tool": "fake/write", "arguments": { "path": "a" } }));
    let answer = async {
        let question = up.question().await;
        assert_eq!(up.answer(&question, json!({ "answer": "once", "arguments": { "path": 5 } })).await, 422);
        assert_eq!(effects.read().runs_of("write"), 0);
        assert_eq!(up.answer(&question, json!({ "answer": "once", "arguments": { "path": "b" } })).await, 204);
    };
    let ((status, _), ()) = futures::join!(call, answer);
    assert_eq!((status.as_u16(), effects.read().runs_of("write")), (200, 1));
    up.down().await;
}

#[tokio::test]
async fn a_form_of_a_server_is_filled_in_over_the_api() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let call = up.call("fake/elicit", json!({ "mode": "form" }));
    let answer = async {
        let question = up.question().await;
        assert_eq!((&question["kind"], &question["server"]), (&json!("form"), &json!("fake")));
        assert!(question["schema"]["properties"]["name"].is_object(), "{question}");
        up.answer(&question, json!({ "answer": "accept", "content": { "name": "Ada" } })).await
    };
    let ((status, outcome), answered) = futures::join!(call, answer);
    assert_eq!((status.as_u16(), answered.as_u16()), (200, 204));
    assert!(outcome["text"].as_str().unwrap().contains("Ada"), "{outcome}");
    up.down().await;
}
