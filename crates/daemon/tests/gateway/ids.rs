//! Ids, tokens and headers of requests, as odd clients write them.

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    lines::LineClient,
    world::{Raw, World, json_of, messages_of, modern, request, until},
};

/// Ids as clients write them, and whether they are valid.
fn ids() -> Vec<(String, bool)> {
    let long = |length: usize| format!("\"{}\"", "x".repeat(length));
    let fine =
        ["1", "0", "-1", "9007199254740993", "18446744073709551616", "\"\"", "\"1\"", "\"a b\"", "\"\\u00e4\\n\""];
    let wrong = ["1.0", "1e3", "true", "{}", "[1]", "[]", "1.5"];
    let mut all: Vec<_> = fine.iter().map(|id| ((*id).to_owned(), true)).collect();
    all.extend(wrong.iter().map(|id| ((*id).to_owned(), false)));
    all.extend([(long(1_022), true), (long(1_023), false), (long(100_000), false)]);
    all
}

#[tokio::test]
async fn a_request_id_is_echoed_exactly_or_refused_over_http() {
    let world = World::new("").await;
    let raw = Raw::legacy(&world, json!({})).await;
    for (id, fine) in ids() {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let response = raw.post_bytes(body, &[]).await;
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        let shown = &id[..id.len().min(30)];
        if fine {
            assert_eq!((status, text), (200, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)), "{shown}");
        } else {
            assert_eq!(status, 400, "{shown}: {text}");
            let error: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32600)), "{shown}: {error}");
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.contains("1024 bytes"), "it says what an id may be: {message}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_request_id_is_echoed_exactly_or_refused_over_stdio() {
    let world = World::new("").await;
    let (mut connection, serving) = LineClient::of(&world);
    let client = async {
        for (id, fine) in ids() {
            connection.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
            let answer = connection.next_line().await;
            let shown = &id[..id.len().min(30)];
            match fine {
                true => assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#), "{shown}"),
                false => assert!(answer.contains("-32600") && answer.contains(r#""id":null"#), "{shown}: {answer}"),
            }
        }
        connection.close().await;
    };
    let (served, ()) = tokio::join!(serving, client);
    served.unwrap();
    world.end().await;
}

#[tokio::test]
async fn over_stdio_a_client_begins_once_and_cancels_by_the_id_of_its_request() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let (mut connection, serving) = LineClient::of(&world);
    let client = async {
        let begin = |id| request(id, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
        connection.say(begin(1)).await;
        assert_eq!(connection.hear().await["result"]["protocolVersion"], "2025-11-25");
        connection.say(begin(2)).await;
        assert_eq!(connection.hear().await["error"]["code"], -32600, "it is known already");
        let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
        connection.say(request(7, "tools/call", params)).await;
        until("it runs", || effects.read().runs_of("sleep") == 1).await;
        connection.say(request(7, "ping", json!({}))).await;
        assert_eq!(connection.hear().await["error"]["code"], -32600, "an id that is under way");
        connection.say(request(8, "ping", json!({}))).await;
        assert_eq!(
            connection.hear().await,
            json!({"jsonrpc": "2.0", "id": 8, "result": {}}),
            "others are answered meanwhile"
        );
        connection
            .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
            .await;
        until("it is cancelled", || effects.read().cancelled().len() == 1).await;
        connection.say(request(7, "ping", json!({}))).await;
        assert_eq!(
            connection.hear().await["result"],
            json!({}),
            "the id is free, and the cancelled call has no answer"
        );
    };
    tokio::select! {
        ended = serving => panic!("{ended:?}"),
        () = client => {}
    }
    world.end().await;
}

#[tokio::test]
async fn progress_is_reported_to_a_token_that_is_one_and_to_nothing_else() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    for (token, reports) in [
        (json!("a"), true),
        (json!(0), true),
        (json!(-7), true),
        (json!(""), true),
        (json!(true), false),
        (json!({"a": 1}), false),
        (json!([1]), false),
        (Value::Null, false),
    ] {
        let params = json!({
            "name": "mcp__fake__sleep", "arguments": {"ms": 50, "progress": true}, "_meta": {"progressToken": token},
        });
        let messages = messages_of(raw.modern(1, "tools/call", params).await).await;
        let (answer, progress) = messages.split_last().unwrap();
        assert_ne!(answer["result"]["isError"], true, "{token}: {answer}");
        assert_eq!(!progress.is_empty(), reports, "{token}: {progress:?}");
        for report in progress {
            assert_eq!(
                (&report["method"], &report["params"]["progressToken"]),
                (&json!("notifications/progress"), &token)
            );
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_header_that_comes_twice_or_cannot_be_read_is_refused() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let (body, headers) = modern(3, "tools/call", json!({"name": "mcp__fake__echo"}), json!({}));
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let given: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let same = given.iter().find(|(header, _)| *header == name).unwrap().1.to_owned();
        for second in [same.as_bytes(), b"other", b"\xe4"] {
            let twice = raw.builder(reqwest::Method::POST, &given).header(name, second).body(body.to_string());
            let response = twice.send().await.unwrap();
            assert_eq!(response.status(), 400, "{name}");
            let answer = json_of(response).await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32020)), "{name}: {answer}");
        }
    }
    // With one header of each, the request is valid: it is a call of `echo` with an empty text.
    let fine = raw.modern(3, "tools/call", json!({"name": "mcp__fake__echo", "arguments": {"text": ""}})).await;
    assert_eq!(fine.status(), 200);
    world.end().await;
}

#[tokio::test]
async fn a_gateway_that_has_shut_down_begins_nothing_in_either_era() {
    let world = World::new("").await;
    let (raw, legacy) = (Raw::new(&world), Raw::legacy(&world, json!({})).await);
    world.gateway.shutdown().await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    for refused in [
        raw.modern(1, "tools/list", json!({})).await,
        raw.modern(2, "tools/call", json!({"name": "mcp__fake__echo"})).await,
        legacy.post(&request(3, "ping", json!({})), &[]).await,
        raw.post(&request(4, "initialize", params), &[]).await,
    ] {
        assert_eq!(refused.status(), 503);
        assert!(json_of(refused).await["error"]["message"].as_str().unwrap().contains("shutting down"));
    }
    world.host.shutdown().await;
}
