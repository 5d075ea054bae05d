//! What goes over the wire, byte by byte.

use serde_json::json;

use crate::world::{Raw, World, json_of, request};

#[tokio::test]
async fn what_is_no_message_is_refused_with_words() {
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
