//! Multi round-trip requests of 2026-07-28, byte by byte.

use serde_json::{Value, json};
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_testkit::EffectLog;

use crate::world::{Raw, World, fake, json_of, modern};

async fn ask(raw: &Raw, id: i64, params: Value) -> Value {
    let (body, headers) = modern(id, "tools/call", params, json!({"elicitation": {}}));
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    json_of(raw.post(&body, &headers).await).await
}

fn elicit() -> Value {
    json!({"name": "mcp__fake__elicit", "arguments": {"mode": "form"}})
}

#[tokio::test]
async fn a_call_asks_in_one_round_and_continues_in_the_next() {
    let effects = EffectLog::new();
    // The server behind the gateway is of the older era: while it asks, its call waits, and the gateway must not make
    // the call again.
    let world = World::new(&format!("--log {} --log-all", effects.path_str())).await;
    let raw = Raw::new(&world);
    let question = ask(&raw, 1, elicit()).await;
    assert_eq!(question["result"]["resultType"], "input_required", "{question}");
    let request = &question["result"]["inputRequests"]["question-1"];
    assert_eq!(request["method"], "elicitation/create");
    assert!(request["params"]["requestedSchema"]["properties"]["name"].is_object());

    let mut again = elicit();
    again["requestState"] = question["result"]["requestState"].clone();
    again["inputResponses"] = json!({"other": {}});
    let still = ask(&raw, 2, again.clone()).await;
    assert_eq!(still["result"]["resultType"], "input_required", "an answer is missing: {still}");
    assert_ne!(still["result"]["requestState"], question["result"]["requestState"], "good for one round");

    again["requestState"] = still["result"]["requestState"].clone();
    again["inputResponses"] = json!({"question-1": {"action": "accept", "content": {"name": "Ada"}}, "more": 1});
    let done = ask(&raw, 3, again.clone()).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{done}");
    assert_eq!(effects.read().count_of("tools/call"), 1);

    let replayed = ask(&raw, 4, again).await;
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
    assert_eq!(effects.read().count_of("tools/call"), 1, "nothing is called for a state that is used up");
    world.end().await;
}

#[tokio::test]
async fn a_state_leads_only_the_same_request_of_the_same_view_back() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let question = ask(&raw, 1, elicit()).await;
    let answers = json!({"question-1": {"action": "accept", "content": {"name": "Ada"}}});
    let state = &question["result"]["requestState"];
    let with = |mut params: Value, state: &Value| {
        params["requestState"] = state.clone();
        params["inputResponses"] = answers.clone();
        params
    };
    let other_arguments = json!({"name": "mcp__fake__elicit", "arguments": {"mode": "form", "rounds": 2}});
    let other_tool = json!({"name": "mcp__fake__sample", "arguments": {"mode": "form"}});
    for wrong in [with(other_arguments, state), with(other_tool, state), with(elicit(), &json!("0".repeat(32)))] {
        let refused = ask(&raw, 2, wrong).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let elsewhere = Raw::new(&world).at("servers=fake");
    let refused = ask(&elsewhere, 2, with(elicit(), state)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = ask(&raw, 3, with(elicit(), state)).await;
    assert_eq!(done["result"]["resultType"], "complete", "none of that has used it up: {done}");
    world.end().await;
}

#[tokio::test]
async fn only_so_many_calls_wait_for_their_clients() {
    let mut options = GatewayOptions::default();
    options.bounds.parked = 1;
    let world = World::with([("fake", fake(""))], options).await;
    let raw = Raw::new(&world);
    let question = ask(&raw, 1, elicit()).await;
    assert_eq!(question["result"]["resultType"], "input_required");
    let refused = ask(&raw, 2, elicit()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("parked"), "{refused}");
    world.end().await;
}
