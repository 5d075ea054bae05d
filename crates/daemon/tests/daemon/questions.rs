use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolrack_testkit::{EffectLog, Home};

use crate::up::{Up, fake, servers};

#[tokio::test]
async fn a_call_without_a_rule_waits_for_an_answer_and_sends_the_approved_arguments() {
    let effects = EffectLog::new();
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
    let effects = EffectLog::new();
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
    let standing = up.get("/api/v1/answers").await;
    assert_eq!((&standing["answers"][0]["lasting"], &standing["answers"][1]), (&json!("session"), &json!(null)));
    let forgotten = up.send(Method::DELETE, "/api/v1/answers?server=fake", None).await;
    assert_eq!(forgotten, (StatusCode::OK, json!({ "forgotten": 1 })));
    let ((status, _), _) = futures::join!(call(), answer("deny"));
    assert_eq!(status, 403);
    up.down().await;
}

#[tokio::test]
async fn arguments_that_the_tool_does_not_take_leave_the_question_open() {
    let effects = EffectLog::new();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_that_come_at_once_one_counts_and_the_call_runs_once() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    for round in 1..=5 {
        let call = up.post("/api/v1/calls", json!({ "tool": "fake/write", "arguments": { "path": "a" } }));
        let answers = async {
            let question = up.question().await;
            let answers = (0..8).map(|_| up.answer(&question, json!({ "answer": "once" })));
            let statuses = futures::future::join_all(answers).await;
            statuses.iter().filter(|status| **status == 204).count() * 100
                + statuses.iter().filter(|status| **status == 404).count()
        };
        let ((status, _), taken) = futures::join!(call, answers);
        assert_eq!((status.as_u16(), taken, effects.read().runs_of("write")), (200, 107, round));
    }
    up.down().await;
}

#[tokio::test]
async fn an_unanswered_question_is_a_no_and_a_late_answer_gets_an_error() {
    let effects = EffectLog::new();
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&["--log", effects.path_str()]))]));
    let up = Up::patient(home, Duration::from_millis(300)).await;
    let mut events = up.events(None).await;
    let (status, error) = up.post("/api/v1/calls", json!({ "tool": "fake/write" })).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (403, &json!("DENIED")), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("no person answered in time"), "{error}");
    let (_, opened) = events.wait("question_opened").await;
    let question = &opened["question"];
    assert!(question["asked_at"].as_str() < question["expires_at"].as_str(), "{question}");
    assert_eq!(events.wait("question_closed").await.1["id"], question["id"]);
    assert_eq!(up.answer(question, json!({ "answer": "once" })).await, 404);
    assert_eq!(up.get("/api/v1/approvals").await["approvals"], json!([]));
    let (_, outcome) = up.call("fake/elicit", json!({ "mode": "form" })).await;
    assert!(outcome["text"].as_str().unwrap().contains("cancel"), "a form without an answer is cancelled: {outcome}");
    assert_eq!(effects.read().runs_of("write"), 0);
    up.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_question_of_a_caller_who_disconnects_closes_and_an_answer_starts_nothing() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let mut events = up.events(None).await;
    let mut waiting = JoinSet::new();
    waiting.spawn(up.request(Method::POST, "/api/v1/calls").json(&json!({ "tool": "fake/write" })).send());
    let question = up.question().await;
    waiting.abort_all();
    assert_eq!(events.wait("question_closed").await.1["id"], question["id"]);
    assert_eq!(up.answer(&question, json!({ "answer": "always_server" })).await, 404);
    assert_eq!((up.get("/api/v1/answers").await["answers"].clone(), effects.read().runs_of("write")), (json!([]), 0));
    up.down().await;
}

#[tokio::test]
async fn every_answer_word_fits_only_its_kind_of_question() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let unfit = async |question: &Value, words: &[&str], status: u16| {
        for word in words {
            assert_eq!(up.answer(question, json!({ "answer": word })).await, status, "{word} to {question}");
        }
    };
    // An answer to an approval.
    let call = up.post("/api/v1/calls", json!({ "tool": "fake/write" }));
    let answer = async {
        let question = up.question().await;
        unfit(&question, &["accept", "decline", "cancel"], 422).await;
        unfit(&question, &["yes", "Once", "ONCE", "", "always"], 400).await;
        up.answer(&question, json!({ "answer": "deny" })).await
    };
    let ((status, _), answered) = futures::join!(call, answer);
    assert_eq!((status.as_u16(), answered.as_u16()), (403, 204));
    // Answers to a form and to a page.
    for (mode, kind) in [("form", "form"), ("url", "url")] {
        for (word, said) in [("accept", "accept"), ("decline", "decline"), ("cancel", "cancel")] {
            let call = up.call("fake/elicit", json!({ "mode": mode }));
            let answer = async {
                let question = up.question().await;
                assert_eq!(question["kind"], kind, "{question}");
                unfit(&question, &["once", "session", "always_tool", "always_server", "deny"], 422).await;
                up.answer(&question, json!({ "answer": word, "content": { "name": "Ada" } })).await
            };
            let ((status, outcome), answered) = futures::join!(call, answer);
            assert_eq!((status.as_u16(), answered.as_u16()), (200, 204), "{mode} {word}");
            let text = outcome["text"].as_str().unwrap();
            assert!(text.contains(said), "{mode} {word}: {outcome}");
            // The server gets the typed values only if the user accepts the form.
            assert_eq!(text.contains("Ada"), (mode, word) == ("form", "accept"), "{mode} {word}: {outcome}");
        }
    }
    up.down().await;
}

#[tokio::test]
async fn questions_are_listed_from_the_oldest_and_answered_in_any_order() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let call = async |path: &str| {
        let call = json!({ "tool": "fake/write", "arguments": { "path": path }, "id": path });
        up.post("/api/v1/calls", call).await.0.as_u16()
    };
    let waiting = async |number: usize| {
        up.eventually(&format!("{number} wait"), async || {
            let open = up.get("/api/v1/approvals").await["approvals"].as_array().unwrap().clone();
            (open.len() == number).then_some(open)
        })
        .await
    };
    let first = call("a");
    let then = async {
        waiting(1).await;
        let second = call("b");
        let rest = async {
            let open = waiting(2).await;
            let asked: Vec<_> = open.iter().map(|question| &question["arguments"]["path"]).collect();
            assert_eq!(asked, [&json!("a"), &json!("b")]);
            let by: Vec<_> = open.iter().map(|question| &question["caller"]["request"]).collect();
            assert_eq!(by, [&json!("a"), &json!("b")], "each says whose call it is about");
            assert_eq!(up.get("/api/v1/overview").await["approvals"], 2);
            assert_eq!(up.answer(&open[1], json!({ "answer": "once" })).await, 204);
            assert_eq!(waiting(1).await[0]["id"], open[0]["id"]);
            assert_eq!(up.answer(&open[0], json!({ "answer": "deny" })).await, 204);
        };
        futures::join!(second, rest).0
    };
    assert_eq!(futures::join!(first, then), (403, 200));
    assert_eq!(effects.read().runs_of("write"), 1);
    up.down().await;
}
