//! Conversations over the API, with a scripted model.

use reqwest::Method;
use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::up::{Events, Up, fake};

/// Sends a message, and returns all events of the turn.
async fn say(up: &Up, body: Value) -> Vec<(String, Value)> {
    let response = up.request(Method::POST, "/api/v1/turns").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    let mut events = Events::of(response);
    let mut all = Vec::new();
    while let Some((_, name, data)) = events.next().await {
        all.push((name, data));
    }
    all
}

/// The name of a model that takes these steps.
fn script(steps: Value) -> String {
    steps.to_string()
}

/// The data of all events of this name.
fn of<'t>(events: &'t [(String, Value)], name: &str) -> Vec<&'t Value> {
    events.iter().filter(|(kind, _)| kind == name).map(|(_, data)| data).collect()
}

#[tokio::test]
async fn a_model_calls_a_tool_and_answers_and_the_conversation_is_stored() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let calls = json!([{ "name": "mcp__fake__add", "input": { "a": 17, "b": 25 } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "It is 42." }]));
    let events = say(&up, json!({ "text": "How much is it?", "model": model })).await;
    let started = of(&events, "call_begins");
    assert_eq!((&started[0]["tool"], &started[0]["arguments"]), (&json!("fake/add"), &json!({ "a": 17, "b": 25 })));
    assert!(of(&events, "call_ends")[0]["text"].as_str().unwrap().contains("42"), "{events:?}");
    let text: String = of(&events, "text").iter().map(|data| data["text"].as_str().unwrap()).collect();
    assert_eq!(text, "It is 42.");
    let (last, done) = events.last().unwrap();
    assert_eq!((last.as_str(), &done["end"], &done["text"]), ("done", &json!("answered"), &json!("It is 42.")));
    let session = of(&events, "session")[0]["id"].as_str().unwrap();
    assert_eq!(done["session"], session);

    let again =
        say(&up, json!({ "text": "Sure?", "session": session, "model": script(json!([{ "text": "Yes." }])) })).await;
    assert_eq!(again.last().unwrap().1["text"], "Yes.");
    let stored = up.get(&format!("/api/v1/sessions/{session}")).await;
    let roles: Vec<_> =
        stored["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    assert_eq!(stored["next"], Value::Null);
    // The same conversation, in three pages of two messages.
    let (mut paged, mut after) = (Vec::new(), String::new());
    for has_next in [true, true, false] {
        let page = up.get(&format!("/api/v1/sessions/{session}?limit=2{after}")).await;
        paged.extend(page["messages"].as_array().unwrap().clone());
        assert_eq!(page["next"], if has_next { paged.last().unwrap()["position"].clone() } else { Value::Null });
        after = format!("&after={}", page["next"]);
    }
    assert_eq!(Value::from(paged), stored["messages"]);
    let exported = up.get(&format!("/api/v1/sessions/{session}/export?format=json")).await;
    assert_eq!((&exported["messages"], &exported["next"]), (&stored["messages"], &Value::Null));

    let delete = async |id: &str| up.send(Method::DELETE, &format!("/api/v1/sessions/{id}"), None).await.0.as_u16();
    for (id, status) in [("last", 404), (&session[..8], 404), (session, 204), (session, 404)] {
        assert_eq!(delete(id).await, status, "only the whole id of a conversation deletes it: {id}");
    }
    up.down().await;
}

#[tokio::test]
async fn a_call_of_a_model_waits_for_approval_like_every_other_call() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let calls = json!([{ "name": "mcp__fake__write", "input": { "path": "a" } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "It was not allowed." }]));
    let turn = say(&up, json!({ "text": "Write.", "model": model }));
    let answer = async { up.answer(&up.question().await, json!({ "answer": "deny", "why": "no" })).await };
    let (body, answered) = futures::join!(turn, answer);
    assert_eq!((answered.as_u16(), &of(&body, "call_ends")[0]["is_error"]), (204, &json!(true)));
    assert_eq!((effects.read().runs_of("write"), &body.last().unwrap().1["end"]), (0, &json!("answered")));
    up.down().await;
}

/// Each call looks up the user's standing answer to its approval in the database, while the results of other calls are
/// written to it.
#[tokio::test]
async fn calls_that_need_a_decision_and_the_conversation_share_one_database() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let call = |path: String| json!({ "name": "mcp__fake__write", "input": { "path": path } });
    let model = script(json!([{ "tool_calls": [call("first".to_owned())] }, { "text": "done" }]));
    let first = say(&up, json!({ "text": "Write.", "model": model }));
    let answer = async { up.answer(&up.question().await, json!({ "answer": "always_tool" })).await };
    assert_eq!(futures::join!(first, answer).1.as_u16(), 204);
    for turn in 0..25 {
        let round = |round: usize| {
            let calls: Vec<_> = (0..8).map(|at| call(format!("{turn} {round} {at}"))).collect();
            json!({ "tool_calls": calls })
        };
        let mut steps: Vec<_> = (0..8).map(round).collect();
        steps.push(json!({ "text": "done" }));
        let events = say(&up, json!({ "text": "Write.", "model": script(json!(steps)) })).await;
        let ends = of(&events, "call_ends");
        assert_eq!((ends.len(), ends.iter().find(|end| end["is_error"] == true)), (64, None));
        assert_eq!(events.last().unwrap().1["end"], "answered", "{:?}", events.last());
    }
    up.down().await;
}

#[tokio::test]
async fn a_call_cancelled_during_its_approval_is_stored_as_not_run() {
    let effects = EffectLog::new();
    let up = Up::with(&[("fake", fake(&["--log", effects.path_str()]))]).await;
    let calls = json!([{ "name": "mcp__fake__write", "input": { "path": "a" } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "never" }]));
    let turn = say(&up, json!({ "text": "Write.", "model": model, "id": "mine" }));
    let cancel = async {
        up.question().await;
        up.send(Method::DELETE, "/api/v1/turns/mine", None).await.0
    };
    let (events, _) = futures::join!(turn, cancel);
    let done = &events.last().unwrap().1;
    let stored = up.get(&format!("/api/v1/sessions/{}", done["session"].as_str().unwrap())).await;
    assert!(stored["messages"][2]["content"].as_str().unwrap().ends_with("it was not run"), "{stored}");
    assert_eq!(effects.read().runs_of("write"), 0);
    up.down().await;
}

#[tokio::test]
async fn a_cancelled_turn_keeps_its_messages() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let calls = json!([{ "name": "mcp__fake__sleep", "input": { "ms": 60_000 } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "never" }]));
    let turn = say(&up, json!({ "text": "Sleep.", "model": model, "id": "mine" }));
    let cancel = async {
        up.answer(&up.question().await, json!({ "answer": "once" })).await;
        up.eventually("the question is closed, so that the call goes on", async || {
            let overview = up.get("/api/v1/overview").await;
            (overview["approvals"] == 0).then_some(())
        })
        .await;
        up.send(Method::DELETE, "/api/v1/turns/mine", None).await.0
    };
    let (events, cancelled) = futures::join!(turn, cancel);
    let (last, done) = events.last().unwrap();
    assert_eq!((cancelled.as_u16(), last.as_str(), &done["end"]), (204, "done", &json!("cancelled")), "{events:?}");
    let stored = up.get(&format!("/api/v1/sessions/{}", done["session"].as_str().unwrap())).await;
    assert_eq!((&stored["session"]["open_turn"], &stored["messages"][2]["role"]), (&json!(false), &json!("tool")));
    up.down().await;
}

#[tokio::test]
async fn a_conversation_has_one_turn_at_a_time_and_a_second_one_does_not_disturb_it() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let calls = json!([{ "name": "mcp__fake__write", "input": { "path": "a" } }]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "Written." }]));
    let second = json!({ "text": "And?", "session": "last", "model": script(json!([{ "text": "Yes." }])) });
    // The first turn starts a new conversation, and the next one continues it.
    for session in [Value::Null, json!("last")] {
        let turn = say(&up, json!({ "text": "Write.", "model": model, "session": session }));
        let meanwhile = async {
            let question = up.question().await;
            let refused = up.post("/api/v1/turns", second.clone()).await;
            up.answer(&question, json!({ "answer": "once" })).await;
            refused
        };
        let (events, (status, error)) = futures::join!(turn, meanwhile);
        assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("SESSION_BUSY")), "{error}");
        let ends = of(&events, "call_ends");
        assert_eq!((ends.len(), &ends[0]["is_error"]), (1, &json!(false)), "{events:?}");
        let (last, done) = events.last().unwrap();
        assert_eq!((last.as_str(), &done["text"]), ("done", &json!("Written.")), "{events:?}");
    }
    assert_eq!(say(&up, second).await.last().unwrap().1["text"], "Yes.");
    up.down().await;
}

#[tokio::test]
async fn without_a_model_or_a_message_the_error_says_what_is_missing() {
    let up = Up::with(&[]).await;
    let model = up.get("/api/v1/model").await;
    assert_eq!((&model["model"], &model["error"]["code"]), (&Value::Null, &json!("NO_MODEL")));
    let (status, error) = up.post("/api/v1/turns", json!({ "text": "hello" })).await;
    assert_eq!((status.as_u16(), &error["error"]["hint"]), (409, &json!("set one")));
    let model = script(json!([{ "text": "x" }]));
    assert_eq!(up.post("/api/v1/turns", json!({ "text": " ", "model": model })).await.0, 422);
    assert_eq!(up.post("/api/v1/turns", json!({ "text": "x", "session": "nobody", "model": model })).await.0, 404);
    up.down().await;
}

#[tokio::test]
async fn tools_beyond_the_budget_are_found_by_search_and_called_under_their_names() {
    let effects = EffectLog::new();
    let many = fake(&["--tools", "400", "--log", effects.path_str()]);
    let up = Up::with(&[("fake", many.clone()), ("other", many), ("toolrack", fake(&[]))]).await;
    let call = |tool: &str, arguments: Value| {
        let input = json!({ "name": tool, "arguments": arguments });
        json!([{ "name": "mcp__toolrack-2__call_tool", "input": input }])
    };
    let search = json!([{ "name": "mcp__toolrack-2__search_tools", "input": { "query": "add two numbers" } }]);
    let model = script(json!([
        { "tool_calls": search },
        { "tool_calls": call("mcp__fake__add", json!({ "a": 17, "b": 25 })) },
        { "tool_calls": call("mcp__other__echo", json!({ "text": "hi" })) },
        { "tool_calls": call("mcp__fake__write", json!({ "path": "a" })) },
        { "text": "It is 42." },
    ]));
    let turn = say(&up, json!({ "text": "How much is it?", "model": model, "servers": ["fake"] }));
    let answer = async {
        let question = up.question().await;
        assert_eq!(
            (&question["server"], &question["tool"]),
            (&json!("fake"), &json!("write")),
            "the gate judges the inner call"
        );
        up.answer(&question, json!({ "answer": "deny" })).await
    };
    let (body, answered) = futures::join!(turn, answer);
    let ends = of(&body, "call_ends");
    let text = |at: usize| ends[at]["text"].as_str().unwrap();
    assert!(text(0).contains("mcp__fake__add") && !text(0).contains("mcp__other__"), "{}", text(0));
    assert!(text(1).contains("42"), "{body:?}");
    assert_eq!(ends[2]["is_error"], true, "the tool of a server that was not chosen was called: {body:?}");
    assert_eq!((answered.as_u16(), &ends[3]["is_error"], effects.read().runs_of("write")), (204, &json!(true), 0));
    assert_eq!(of(&body, "call_begins")[0]["tool"], "toolrack-2/search_tools");
    assert_eq!(body.last().unwrap().1["text"], "It is 42.");
    let seen = up.get("/api/v1/servers").await.to_string();
    assert!(!seen.contains("\"toolrack-2\""), "no other server has this name: {seen}");
    up.down().await;
}

#[tokio::test]
async fn a_turn_has_only_the_selected_tools() {
    let up = Up::with(&[("fake", fake(&[])), ("other", fake(&[]))]).await;
    let calls = json!([
        { "name": "mcp__fake__add", "input": { "a": 17, "b": 25 } },
        { "name": "mcp__fake__echo", "input": { "text": "hi" } },
        { "name": "mcp__other__add", "input": { "a": 1, "b": 2 } },
    ]);
    let model = script(json!([{ "tool_calls": calls }, { "text": "So." }]));
    let body = json!({ "text": "Go.", "model": model, "servers": ["fake"], "tools": ["*/add", "other/*"] });
    let events = say(&up, body).await;
    let mut ends: Vec<_> =
        of(&events, "call_ends").iter().map(|end| (end["tool"].clone(), end["is_error"].clone())).collect();
    ends.sort_by_key(|(tool, _)| tool.to_string());
    let expected = [("fake/add", false), ("fake/echo", true), ("other/add", true)];
    assert_eq!(ends, expected.map(|(tool, is_error)| (json!(tool), json!(is_error))), "{events:?}");
    for id in ["call_1_0", "call_1_1", "call_1_2"] {
        let at = |name: &str| events.iter().position(|(kind, data)| kind == name && data["id"] == id);
        assert!(at("call_begins") < at("call_ends"), "it ended before it began: {events:?}");
    }
    let body = json!({ "text": "Go.", "model": model, "tools": ["fake/"] });
    let (status, error) = up.post("/api/v1/turns", body).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (422, &json!("BAD_PATTERN")), "{error}");
    up.down().await;
}

#[tokio::test]
async fn the_list_of_providers_says_which_can_be_used_and_has_no_keys() {
    let up = Up::with(&[]).await;
    let answer = up.get("/api/v1/model").await;
    let find = |name: &str| {
        answer["providers"].as_array().unwrap().iter().find(|known| known["name"] == name).unwrap().clone()
    };
    let (anthropic, ollama) = (find("anthropic"), find("ollama"));
    assert_eq!((&anthropic["usable"], &anthropic["key_variable"]), (&json!(true), &json!("ANTHROPIC_API_KEY")));
    assert_eq!(
        (&ollama["usable"], &ollama["local"], &find("openai")["usable"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert!(!answer.to_string().contains("sk-of-the-test"), "{answer}");
    up.down().await;
}
