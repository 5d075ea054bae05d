//! Servers repeat secrets that they were given.

use reqwest::Method;
use serde_json::{Value, json};

use crate::up::{Events, Up, fake};

const SECRET: &str = "hunter2-hunter2";

#[tokio::test]
async fn no_answer_repeats_what_a_server_was_given_in_confidence() {
    let mut talks = fake(&[]);
    talks["env"] = json!({ "API_KEY": SECRET });
    let dies = json!({ "command": "/bin/sh", "args": ["-c", "echo \"bad key $API_KEY\" >&2; exit 1"], "env": { "API_KEY": SECRET } });
    let up = Up::with(&[("talks", talks), ("dies", dies)]).await;
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments, "approved": true });
    let refused = call("talks/protocol_error", json!({ "message": format!("401 for key {SECRET}") }));
    let (status, error) = up.post("/api/v1/calls", refused.clone()).await;
    let error = error.to_string();
    assert_eq!(status.as_u16(), 422);
    assert!(error.contains("401 for key ***") && !error.contains(SECRET), "{error}");

    let works = json!({ "ms": 100, "progress": true, "message": format!("with {SECRET}") });
    for (call, shown) in [(refused, "401 for key ***"), (call("talks/sleep", works), "with ***")] {
        let request = up.request(Method::POST, "/api/v1/calls").header("accept", "text/event-stream").json(&call);
        let body = request.send().await.unwrap().text().await.unwrap();
        assert!(body.contains(shown) && !body.contains(SECRET), "{body}");
    }

    let died = up.eventually("the server has died", async || {
        let found = up.get("/api/v1/servers/dies").await;
        found["error"].is_string().then(|| found["error"].to_string())
    });
    let died = died.await;
    assert!(died.contains("bad key ***"), "{died}");
    let servers = up.get("/api/v1/servers").await.to_string();
    let (_, tested) = up.post("/api/v1/servers/dies/test", json!({})).await;
    let tested = tested.to_string();
    assert!(servers.contains("bad key ***") && tested.contains("bad key ***"), "{servers} {tested}");
    assert!(!format!("{servers}{tested}").contains(SECRET), "{servers} {tested}");
    up.down().await;
}

#[tokio::test]
async fn the_title_of_a_conversation_tells_no_secret_in_any_answer() {
    let mut talks = fake(&[]);
    talks["env"] = json!({ "API_KEY": SECRET });
    let up = Up::with(&[("talks", talks)]).await;
    let model = json!([{ "text": "No." }]).to_string();
    let turn = json!({ "text": format!("is it {SECRET}?"), "model": model });
    let _ = up.request(Method::POST, "/api/v1/turns").json(&turn).send().await.unwrap().text().await.unwrap();
    for below in ["", "/last", "/last/export?format=md", "/last/export?format=json"] {
        let answer = up.request(Method::GET, &format!("/api/v1/sessions{below}")).send().await.unwrap();
        let answer = answer.text().await.unwrap();
        assert!(answer.contains("is it ***?") && !answer.contains(SECRET), "{below}: {answer}");
    }
    up.down().await;
}

#[tokio::test]
async fn a_secret_streamed_in_pieces_is_concealed_in_every_piece() {
    let mut talks = fake(&[]);
    // The model streams its answer word by word.
    talks["env"] = json!({ "API_KEY": "hunter2 hunter2" });
    let up = Up::with(&[("talks", talks)]).await;
    let text = "it is hunter2 hunter2 I think";
    let model = json!([{ "thinking": text, "text": text }]).to_string();
    let request = up.request(Method::POST, "/api/v1/turns").json(&json!({ "text": "What is it?", "model": model }));
    let mut events = Events::of(request.send().await.unwrap());
    let (mut thought, mut text) = (String::new(), String::new());
    while let Some((_, name, data)) = events.next().await {
        match name.as_str() {
            "thinking" => thought += data["text"].as_str().unwrap(),
            "text" => text += data["text"].as_str().unwrap(),
            _ => assert!(!data.to_string().contains("hunter2"), "{name} {data}"),
        }
    }
    assert_eq!([thought, text], ["it is *** I think", "it is *** I think"]);
    up.down().await;
}
