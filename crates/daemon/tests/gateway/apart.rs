//! Several clients of the older era at the same time, each with its own session. No client sees, ends or receives
//! anything of another.

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::Call;
use toolrack_testkit::EffectLog;

use crate::world::{PATIENCE, Raw, World, fake, json_of, messages_of, object, request, until};

fn sleep(id: i64) -> Value {
    request(id, "tools/call", json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}}))
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The standing stream of a session, open.
async fn listen(raw: &Raw) -> Response {
    let mut stream = raw.builder(Method::GET, &[]).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    timeout(PATIENCE, stream.chunk()).await.expect("it begins").unwrap().expect("a comment");
    stream
}

/// The next message of a stream; `None` at its end.
async fn next(stream: &mut Response, left: &mut String) -> Option<Value> {
    loop {
        if let Some((block, rest)) = left.split_once("\n\n") {
            let data = block.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
            *left = rest.to_owned();
            match data {
                Some(data) => return Some(serde_json::from_str(&data).unwrap()),
                None => continue,
            }
        }
        let chunk = timeout(PATIENCE, stream.chunk()).await.expect("more, or the end").unwrap()?;
        *left += std::str::from_utf8(&chunk).unwrap();
    }
}

#[tokio::test]
async fn a_client_cancels_its_own_request_and_not_the_one_that_another_gave_the_same_id() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let (one, other) = (Raw::legacy(&world, json!({})).await, Raw::legacy(&world, json!({})).await);
    let (body, cancelled) = (sleep(7), notification("notifications/cancelled", json!({"requestId": 7})));
    let cancel = async {
        until("both run", || effects.read().runs_of("sleep") == 2).await;
        // Another id does not match the request, nor does the same number as a text.
        for odd in [json!(8), json!("7"), json!(7.5), Value::Null, json!({}), json!([7])] {
            let odd = notification("notifications/cancelled", json!({"requestId": odd}));
            assert_eq!(one.post(&odd, &[]).await.status(), 202);
        }
        assert_eq!(one.post(&notification("notifications/cancelled", json!({})), &[]).await.status(), 202);
        assert_eq!(effects.read().cancelled().len(), 0);
        assert_eq!(one.post(&cancelled, &[]).await.status(), 202);
        until("the server hears of it", || effects.read().cancelled().len() == 1).await;
    };
    let pair = async { tokio::join!(one.post(&body, &[]), cancel).0 };
    tokio::select! {
        _ = other.post(&body, &[]) => panic!("the other call ended"),
        ended = pair => assert_eq!(messages_of(ended).await, Vec::<Value>::new()),
    }
    until("and of the client that went away", || effects.read().cancelled().len() == 2).await;
    world.end().await;
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_calls_and_its_stream_and_no_others() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let (one, other) = (Raw::legacy(&world, json!({})).await, Raw::legacy(&world, json!({})).await);
    let (mut stream, mut theirs) = (listen(&one).await, listen(&other).await);
    let body = sleep(7);
    let leave = async {
        until("it runs", || effects.read().runs_of("sleep") == 1).await;
        one.builder(Method::DELETE, &[]).send().await.unwrap().status()
    };
    let (ended, left) = tokio::join!(one.post(&body, &[]), leave);
    assert_eq!(
        (left.as_u16(), messages_of(ended).await),
        (200, Vec::new()),
        "a call that its client gave up has no answer"
    );
    until("the server hears of it", || effects.read().cancelled().len() == 1).await;
    assert_eq!(next(&mut stream, &mut String::new()).await, None, "its stream ends");
    for method in [Method::DELETE, Method::GET] {
        assert_eq!(one.builder(method.clone(), &[]).send().await.unwrap().status(), 404, "{method} of what has ended");
    }
    assert_eq!(json_of(other.post(&request(2, "ping", json!({})), &[]).await).await["result"], json!({}));
    let changes = Call::from_map("fake/tools_changed", object(json!({"add": "one_more"})));
    world.host.call(changes).await.unwrap();
    let received = next(&mut theirs, &mut String::new()).await.unwrap();
    assert_eq!(received["method"], "notifications/tools/list_changed", "{received}");
    world.end().await;
}

#[tokio::test]
async fn each_session_is_notified_once_of_changes_of_its_visible_servers_only() {
    let servers = [("fake", fake("")), ("other", fake(""))];
    let world = World::with(servers, GatewayOptions::default()).await;
    let narrow = {
        let raw = Raw::new(&world).at("servers=other");
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let response = raw.post(&request(1, "initialize", params), &[]).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        (Raw::new(&world), session)
    };
    let all = Raw::legacy(&world, json!({})).await;
    let late = Raw::legacy(&world, json!({})).await;
    let open = narrow.0.builder(Method::GET, &[("mcp-session-id", &narrow.1)]).send();
    let (mut all, mut narrow) = (listen(&all).await, open.await.unwrap());
    let change = async |server: &str, name: &str| {
        let call = Call::from_map(format!("{server}/tools_changed"), object(json!({ "add": name })));
        world.host.call(call).await.unwrap();
        let shown = format!("{server}/{name}");
        until("the host has it", || world.host.catalog().select(&shown).is_ok()).await;
    };
    change("fake", "first").await;
    change("other", "second").await;
    let method = "notifications/tools/list_changed";
    let mut left = String::new();
    for _ in 0..2 {
        assert_eq!(next(&mut all, &mut left).await.unwrap()["method"], method);
    }
    assert_eq!(next(&mut narrow, &mut String::new()).await.unwrap()["method"], method);
    // A session that opens its stream gets the notifications that it missed before.
    let mut late = listen(&late).await;
    assert_eq!(next(&mut late, &mut String::new()).await.unwrap()["method"], method);
    world.gateway.shutdown().await;
    assert_eq!(next(&mut narrow, &mut String::new()).await, None, "it heard of one change, not of both");
    world.end().await;
}

#[tokio::test]
async fn only_so_many_streams_are_open_and_one_that_ends_makes_room() {
    let mut options = GatewayOptions::default();
    options.bounds.streams = 1;
    let world = World::with([("fake", fake(""))], options).await;
    let (one, other) = (Raw::legacy(&world, json!({})).await, Raw::legacy(&world, json!({})).await);
    let stream = listen(&one).await;
    let refused = other.builder(Method::GET, &[]).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    let message = json_of(refused).await["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("streams"), "{message}");
    let listening = Raw::new(&world).modern(3, "subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(listening.status(), 429, "subscriptions of the newer era count among them");
    drop(stream);
    let again = async {
        loop {
            let opened = other.builder(Method::GET, &[]).send().await.unwrap();
            if opened.status() == 200 {
                return;
            }
        }
    };
    timeout(PATIENCE, again).await.expect("there is room");
    world.end().await;
}

#[tokio::test]
async fn a_session_is_named_once_and_exactly_or_the_request_is_refused() {
    let world = World::new("").await;
    let raw = Raw::legacy(&world, json!({})).await;
    let ping = request(2, "ping", json!({}));
    let known = {
        let response = raw.builder(Method::POST, &[]).build().unwrap();
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    for (session, status) in [
        (known.to_uppercase(), 404),
        (format!("{known}0"), 404),
        (known[1..].to_owned(), 404),
        ("0".repeat(32), 404),
        ("x".repeat(4_000), 404),
        (known.clone(), 200),
    ] {
        let answer = raw.post(&ping, &[("mcp-session-id", &session)]).await;
        // An id of hexadecimal digits may happen to have no letter whose case could be changed.
        let status = if session == known { 200 } else { status };
        assert_eq!(answer.status(), status, "{session}");
    }
    let twice = raw.builder(Method::POST, &[]).header("mcp-session-id", &known).body(ping.to_string());
    let refused = twice.send().await.unwrap();
    assert_eq!(refused.status(), 400, "two names, of which another program might take the other one");
    let without = Raw::new(&world);
    for (body, status) in [
        (ping, 400),
        (json!({"jsonrpc": "2.0", "id": 1, "result": {}}), 400),
        (notification("notifications/initialized", json!({})), 202),
        (notification("notifications/no/such", json!({})), 202),
    ] {
        assert_eq!(without.post(&body, &[]).await.status(), status, "{body}");
    }
    for stray in [json!(1), json!("1"), json!(99), json!(1.5), json!({})] {
        let answer = json!({"jsonrpc": "2.0", "id": stray, "result": {"action": "accept"}});
        assert_eq!(raw.post(&answer, &[]).await.status(), 202, "an answer to no question changes nothing: {stray}");
    }
    world.end().await;
}

#[tokio::test]
async fn initialize_accepts_odd_client_info_but_needs_a_protocol_version() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    for (params, fine) in [
        (json!({"protocolVersion": "2025-06-18"}), true),
        (json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": "an editor"}), true),
        (json!({"protocolVersion": "2025-06-18", "clientInfo": {"name": 7}}), true),
        (json!({"protocolVersion": "2025-06-18", "clientInfo": {"name": "x".repeat(10_000)}}), true),
        (json!({"protocolVersion": "2025-06-18", "more": {"of": "it"}}), true),
        (json!({"protocolVersion": ""}), true),
        (json!({}), false),
        (json!({"protocolVersion": 20_250_618}), false),
        (json!({"protocolVersion": null}), false),
        (json!({"protocolVersion": "2025-06-18", "capabilities": []}), false),
        (json!({"protocolVersion": "2025-06-18", "capabilities": "all"}), false),
    ] {
        let response = raw.post(&request(1, "initialize", params.clone()), &[]).await;
        assert_eq!((response.status().as_u16(), response.headers().contains_key("mcp-session-id")), (200, fine));
        let answer = json_of(response).await;
        assert_eq!(answer["error"]["code"].as_i64(), (!fine).then_some(-32602), "{params}: {answer}");
    }
    world.end().await;
}
