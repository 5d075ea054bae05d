//! What goes over the wire, byte by byte.

use reqwest::Method;
use serde_json::{Value, json};
use toolrack_daemon::gateway::{GatewayOptions, StdioError};

use crate::{
    lines::LineClient,
    world::{Raw, World, fake, json_of, messages_of, modern, request},
};

#[tokio::test]
async fn a_malformed_message_is_refused_with_an_explanation() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    for (body, status, code) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("7", 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, 400, -32600),
    ] {
        let response = raw.post_bytes(body, &[]).await;
        assert_eq!(response.status(), status, "{body}");
        let answer = json_of(response).await;
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
    }
    let answer = json_of(raw.post(&request(5, "ping", json!({})), &[]).await).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32600)), "no session");
    world.end().await;
}

/// Posts a request of 2026-07-28 with some headers changed.
async fn with(raw: &Raw, params: Value, changed: &[(&str, &str)]) -> (u16, Value) {
    let (body, headers) = modern(3, "tools/call", params, json!({}));
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.extend(changed);
    let response = raw.post(&body, &headers).await;
    let status = response.status().as_u16();
    (status, json_of(response).await)
}

#[tokio::test]
async fn headers_and_body_must_say_the_same() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let region = json!({"name": "mcp__fake__region", "arguments": {"region": "west", "text": "x"}});
    let base64 = "=?base64?d2VzdA==?=";
    for (changed, code) in [
        (vec![("mcp-param-region", "west")], 0),
        (vec![("mcp-param-region", base64)], 0),
        (vec![("mcp-param-region", "west"), ("mcp-name", "=?base64?bWNwX19mYWtlX19yZWdpb24=?=")], 0),
        (vec![("mcp-param-region", "east")], -32020),
        (vec![], -32020),
        (vec![("mcp-param-region", "west"), ("mcp-name", "mcp__fake__echo")], -32020),
        (vec![("mcp-param-region", "west"), ("mcp-name", "")], -32020),
        (vec![("mcp-param-region", "west"), ("mcp-method", "tools/list")], -32020),
        (vec![("mcp-param-region", "west"), ("mcp-protocol-version", "")], -32020),
        (vec![("mcp-param-region", "west"), ("mcp-protocol-version", "2025-11-25")], -32020),
    ] {
        let (status, answer) = with(&raw, region.clone(), &changed).await;
        let found = answer["error"]["code"].as_i64().unwrap_or(0);
        assert_eq!((found, status), (code, if code == 0 { 200 } else { 400 }), "{changed:?}: {answer}");
        assert_eq!(answer["id"], 3);
    }
    let without = json!({"name": "mcp__fake__region", "arguments": {"region": null}});
    assert_eq!(with(&raw, without.clone(), &[]).await.0, 200);
    assert_eq!(with(&raw, without, &[("mcp-param-region", "west")]).await.0, 400);
    world.end().await;
}

#[tokio::test]
async fn unknown_versions_methods_and_tools_are_refused_each_in_its_way() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let (mut body, _) = modern(3, "tools/list", json!({}), json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
    let response = raw.post(&body, &headers).await;
    assert_eq!(response.status(), 400);
    let answer = json_of(response).await;
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2099-01-01");
    assert_eq!(answer["error"]["data"]["supported"][0], "2026-07-28");

    for method in ["no/such", "ping", "initialize", "logging/setLevel", "resources/subscribe"] {
        let response = raw.modern(4, method, json!({})).await;
        assert_eq!(response.status(), 404, "{method}");
        assert_eq!(json_of(response).await["error"]["code"], -32601, "{method}");
    }
    let unknown = raw.modern(5, "tools/call", json!({"name": "mcp__fake__none"})).await;
    assert_eq!(json_of(unknown).await["error"]["code"], -32602);

    let legacy = Raw::legacy(&world, json!({})).await;
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("server/discover", json!({}), -32601),
        ("tools/call", json!({"name": "none"}), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": "mcp__fake__echo", "arguments": 7}), -32602),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
    ] {
        let response = legacy.post(&request(6, method, params), &[]).await;
        assert_eq!(response.status(), 200, "{method}");
        assert_eq!(json_of(response).await["error"]["code"], code, "{method}");
    }
    world.end().await;
}

/// Requests that need parameters and have none.
fn without_params() -> Vec<String> {
    let messages = |method: &str| {
        ["", r#","params":null"#].map(|params| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"{params}}}"#))
    };
    ["tools/call", "resources/read", "prompts/get"].iter().flat_map(|method| messages(method)).collect()
}

#[tokio::test]
async fn a_request_without_the_parameters_that_it_needs_is_refused_over_http() {
    let world = World::new("").await;
    let legacy = Raw::legacy(&world, json!({})).await;
    for body in without_params() {
        let answer = json_of(legacy.post_bytes(body.clone(), &[]).await).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32602)), "{body}: {answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_request_without_the_parameters_that_it_needs_is_refused_over_stdio_and_the_connection_lives() {
    let world = World::new("").await;
    let (mut connection, serving) = LineClient::of(&world);
    let client = async {
        let client_info = json!({"name": "raw", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info});
        connection.ask(request(1, "initialize", params)).await;
        for body in without_params() {
            let answer = connection.ask(&body).await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32602)), "{body}: {answer}");
        }
        assert_eq!(connection.ask(request(8, "ping", json!({}))).await["result"], json!({}));
    };
    tokio::select! {
        ended = serving => panic!("the connection has ended: {ended:?}"),
        () = client => {}
    }
    world.end().await;
}

#[tokio::test]
async fn a_request_without_the_members_of_its_meta_is_refused() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let version = "io.modelcontextprotocol/protocolVersion";
    for meta in [json!({}), json!({"_meta": {}}), json!({"_meta": {version: "2026-07-28"}})] {
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
        let response = raw.post(&request(1, "tools/list", meta), &headers).await;
        assert_eq!(response.status(), 400);
        assert_eq!(json_of(response).await["error"]["code"], -32602);
    }
    world.end().await;
}

#[tokio::test]
async fn foreign_pages_large_bodies_and_other_media_are_refused() {
    let mut options = GatewayOptions::default();
    options.bounds.body_bytes = 1_000;
    let world = World::with([("fake", fake(""))], options).await;
    let raw = Raw::new(&world);
    let body = request(1, "tools/list", json!({}));
    for (headers, status) in [
        ([("origin", "http://evil.example")], 403),
        ([("origin", "null")], 403),
        ([("host", "evil.example")], 403),
        ([("content-type", "text/plain")], 415),
        ([("accept", "application/json")], 406),
    ] {
        assert_eq!(raw.post(&body, &headers).await.status(), status, "{headers:?}");
    }
    let large = request(1, "tools/list", json!({"x": "x".repeat(2_000)}));
    let response = raw.post(&large, &[]).await;
    assert_eq!(response.status(), 413);
    assert!(json_of(response).await["error"]["message"].as_str().unwrap().contains("body_bytes"));
    for (method, status) in [(Method::GET, 405), (Method::DELETE, 405), (Method::PUT, 405)] {
        assert_eq!(raw.builder(method.clone(), &[]).send().await.unwrap().status(), status, "{method}");
    }
    world.end().await;
}

#[tokio::test]
async fn over_stdio_lines_are_answered_and_a_line_that_never_ends_ends_the_connection() {
    let mut options = GatewayOptions::default();
    options.bounds.body_bytes = 10_000;
    let world = World::with([("fake", fake(""))], options).await;
    let (mut connection, serving) = LineClient::of(&world);
    let client = async {
        connection.write(b"\n{\n").await;
        assert_eq!(connection.hear().await["error"]["code"], -32700);
        connection.say(request(1, "tools/list", json!({}))).await;
        assert_eq!(connection.hear().await["error"]["code"], -32600, "neither initialized nor modern");
        let (modern, _) = modern(2, "tools/list", json!({}), json!({}));
        connection.say(modern).await;
        let listed = connection.hear().await;
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        connection.write(&[b'x'; 20_000]).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = serving => assert!(matches!(ended, Err(StdioError::TooLarge { limit: 10_000 })), "{ended:?}"),
        () = client => {}
    }
    world.end().await;
}

#[tokio::test]
async fn over_stdio_requests_before_the_end_are_answered() {
    let world = World::new("").await;
    let (body, _) = modern(2, "tools/call", json!({"name": "mcp__fake__echo", "arguments": {"text": "hi"}}), json!({}));
    let input = format!("{body}\n");
    let mut output = Vec::new();
    world.gateway.serve_stdio(input.as_bytes(), &mut output).await.unwrap();
    let answer: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    world.end().await;
}

/// A batch of two requests with answers, two without, and what else a client may put into one.
fn mixed_batch() -> Value {
    let echo = json!({"name": "mcp__fake__echo", "arguments": {"text": "in a batch"}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer_to_nothing = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    json!([
        request(1, "ping", json!({})),
        initialized,
        request(2, "tools/call", echo),
        answer_to_nothing,
        request(3, "no/such", json!({})),
        request(4, "initialize", json!({})),
        request(1, "ping", json!({})),
        7,
    ])
}

/// Checks the answers to [`mixed_batch`].
fn assert_answers(answers: &[Value]) {
    let of = |id: Value| answers.iter().filter(move |answer| answer["id"] == id);
    assert_eq!(of(json!(1)).filter(|answer| answer["result"] == json!({})).count(), 1, "{answers:?}");
    assert_eq!(of(json!(1)).filter(|answer| answer["error"]["code"] == -32600).count(), 1, "the same id: {answers:?}");
    let text = |answer: &Value| answer["result"]["content"][0]["text"] == "in a batch";
    assert!(of(json!(2)).all(text), "{answers:?}");
    for (id, code) in [(json!(3), -32601), (json!(4), -32600), (Value::Null, -32600)] {
        assert!(of(id.clone()).all(|answer| answer["error"]["code"] == code), "{id}: {answers:?}");
    }
    assert_eq!(answers.len(), 6, "{answers:?}");
}

#[tokio::test]
async fn each_request_of_a_batch_is_answered_over_http_in_the_version_that_has_batches() {
    let world = World::new("").await;
    let raw = Raw::of_version(&world, "2025-03-26", json!({})).await;
    assert_answers(&messages_of(raw.post(&mixed_batch(), &[]).await).await);

    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = raw.post(&json!([notification, notification]), &[]).await;
    assert_eq!((response.status().as_u16(), response.text().await.unwrap()), (202, String::new()));

    let too_many = Value::from(vec![notification; 101]).to_string();
    for (body, code) in [("[]", -32600), (&*too_many, -32600), (r#"[{"jsonrpc""#, -32700)] {
        let response = raw.post_bytes(body.to_owned(), &[]).await;
        assert_eq!(response.status(), 400, "{body}");
        assert_eq!(json_of(response).await["error"]["code"], code, "{body}");
    }

    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let raw = Raw::of_version(&world, version, json!({})).await;
        let answer = json_of(raw.post(&mixed_batch(), &[]).await).await;
        assert_eq!(answer["error"]["code"], -32600, "{version}: {answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn the_answers_to_a_batch_over_stdio_are_a_batch() {
    let world = World::new("").await;
    let (mut connection, serving) = LineClient::of(&world);
    let client = async {
        let client_info = json!({"name": "raw", "version": "1"});
        let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client_info});
        assert_eq!(connection.ask(request(9, "initialize", params)).await["id"], 9);
        let answers = connection.ask(mixed_batch()).await;
        assert_answers(answers.as_array().unwrap());
    };
    tokio::select! {
        ended = serving => panic!("the connection has ended: {ended:?}"),
        () = client => {}
    }
    world.end().await;
}
