//! Sessions of the older era, and subscriptions of 2026-07-28.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::spec::Protocol;
use toolrack_testkit::EffectLog;

use crate::world::{PATIENCE, Raw, World, call, client, fake, json_of, messages_of, modern, request, until};

#[tokio::test]
async fn a_session_begins_is_used_and_ends() {
    let world = World::new("").await;
    let raw = Raw::legacy(&world, json!({})).await;
    let ping = request(2, "ping", json!({}));
    assert_eq!(json_of(raw.post(&ping, &[]).await).await["result"], json!({}));
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(raw.post(&notification, &[]).await.status(), 202);
    let ended = raw.builder(Method::DELETE, &[]).send().await.unwrap();
    assert_eq!(ended.status(), 200);
    for gone in [raw.post(&ping, &[]).await, raw.builder(Method::GET, &[]).send().await.unwrap()] {
        assert_eq!(gone.status(), 404);
    }
    let unknown = raw.post(&ping, &[("mcp-session-id", "0123")]).await;
    assert_eq!(unknown.status(), 404);
    world.end().await;
}

#[tokio::test]
async fn each_legacy_version_is_accepted_and_unknown_ones_get_the_newest() {
    let world = World::new("").await;
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let answer = json_of(Raw::new(&world).post(&request(1, "initialize", params), &[]).await).await;
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "toolrack");
    }
    let raw = Raw::legacy(&world, json!({})).await;
    let odd = raw.post(&request(2, "ping", json!({})), &[("mcp-protocol-version", "1999-01-01")]).await;
    assert_eq!(odd.status(), 400);
    world.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_has_its_calls_cancelled() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let legacy = Raw::legacy(&world, json!({})).await;
    let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
    let (body, headers) = modern(1, "tools/call", params.clone(), json!({}));
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let raw = Raw::new(&world);
    let calls: [std::pin::Pin<Box<dyn Future<Output = _>>>; 2] = [
        Box::pin(raw.builder(Method::POST, &headers).body(body.to_string()).send()),
        Box::pin(legacy.builder(Method::POST, &[]).body(request(2, "tools/call", params).to_string()).send()),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        tokio::select! {
            _ = call => panic!("an answer"),
            () = until("the call runs", || effects.read().runs_of("sleep") == number + 1) => {}
        }
        until("it is cancelled", || effects.read().cancelled().len() == number + 1).await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_request_that_is_taken_back_has_no_answer() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let raw = Raw::legacy(&world, json!({})).await;
    let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
    let body = request(7, "tools/call", params);
    let call = raw.post(&body, &[]);
    let cancel = async {
        until("the call runs", || effects.read().runs_of("sleep") == 1).await;
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        assert_eq!(raw.post(&cancelled, &[]).await.status(), 202);
    };
    let (response, ()) = tokio::join!(call, cancel);
    assert_eq!(messages_of(response).await, Vec::<Value>::new());
    until("it is cancelled", || effects.read().cancelled().len() == 1).await;
    world.end().await;
}

#[tokio::test]
async fn an_id_of_a_running_request_is_refused() {
    let effects = EffectLog::new();
    let world = World::new(&format!("--log {}", effects.path_str())).await;
    let raw = Raw::legacy(&world, json!({})).await;
    let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
    let body = request(7, "tools/call", params);
    let again = async {
        until("the call runs", || effects.read().runs_of("sleep") == 1).await;
        json_of(raw.post(&request(7, "ping", json!({})), &[]).await).await
    };
    tokio::select! {
        _ = raw.post(&body, &[]) => panic!("an answer"),
        refused = again => assert_eq!(refused["error"]["code"], -32600, "{refused}"),
    }
    world.end().await;
}

#[tokio::test]
async fn a_subscription_is_acknowledged_first_and_gets_only_its_notifications() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let params = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["fake://note"]}});
    let mut stream = raw.modern(9, "subscriptions/listen", params).await;
    let mut text = String::new();
    let host = client(world.over_http(Protocol::Modern), None).await;
    let mut changed = false;
    while text.matches("data: ").count() < 2 {
        let chunk = timeout(PATIENCE, stream.chunk()).await.expect("more").unwrap().expect("more");
        text += std::str::from_utf8(&chunk).unwrap();
        if !std::mem::replace(&mut changed, true) {
            call(&host, "tools_changed", json!({"add": "one_more"})).await.unwrap();
        }
    }
    let messages: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(messages[0]["method"], "notifications/subscriptions/acknowledged");
    let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["fake://note"]});
    assert_eq!(messages[0]["params"]["notifications"], honoured);
    assert_eq!(messages[1]["method"], "notifications/tools/list_changed");
    for message in &messages {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    }
    // The server reports that the session has ended.
    world.gateway.shutdown().await;
    let rest = timeout(PATIENCE, stream.text()).await.expect("the end").unwrap();
    assert!(rest.contains(r#""resultType":"complete""#), "{rest}");
    host.shutdown().await;
    world.end().await;
}

#[tokio::test]
async fn a_session_too_many_is_refused_while_all_are_in_use() {
    let mut options = GatewayOptions::default();
    options.bounds.sessions = 2;
    let world = World::with([("fake", fake(""))], options).await;
    let _both = [Raw::legacy(&world, json!({})).await, Raw::legacy(&world, json!({})).await];
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let refused = Raw::new(&world).post(&request(1, "initialize", params), &[]).await;
    assert_eq!(refused.status(), 429);
    world.end().await;
}

#[tokio::test]
async fn only_so_many_requests_of_one_session_run_at_once() {
    let mut options = GatewayOptions::default();
    options.bounds.calls_per_session = 1;
    let effects = EffectLog::new();
    let log = format!("--log {}", effects.path_str());
    let world = World::with([("fake", fake(&log))], options).await;
    let raw = Raw::legacy(&world, json!({})).await;
    let params = json!({"name": "mcp__fake__sleep", "arguments": {"ms": 60_000}});
    let body = request(7, "tools/call", params);
    let second = async {
        until("the call runs", || effects.read().runs_of("sleep") == 1).await;
        raw.post(&request(8, "ping", json!({})), &[]).await.status()
    };
    tokio::select! {
        _ = raw.post(&body, &[]) => panic!("an answer"),
        status = second => assert_eq!(status, 429),
    }
    world.end().await;
}
