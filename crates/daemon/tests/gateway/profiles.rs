//! Profiles: the tools that a group of clients sees, under the names that an operator gave.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tokio::time::timeout;
use toolrack_daemon::gateway::{GatewayOptions, Profiles};
use toolrack_host::{Call, Selection, ShownAs, ToolProfile, spec::Protocol};

use crate::world::{PATIENCE, Raw, World, client, fake, json_of, name, object, request, until};

/// The tools `echo` and `add` of the server `fake`; `echo` is shown as `say`.
fn few() -> ToolProfile {
    let only = Selection::all().only(["fake/echo".parse().unwrap(), "fake/add".parse().unwrap()]);
    let shown = ShownAs { name: Some("say".to_owned()), description: Some("Says it.".to_owned()) };
    ToolProfile::new(only).showing(name("fake"), "echo", shown)
}

async fn with_few() -> (World, Profiles) {
    let profiles = Profiles::from(BTreeMap::from([("few".into(), few())]));
    let mut options = GatewayOptions::default();
    options.profiles = profiles.clone();
    (World::with([("fake", fake(""))], options).await, profiles)
}

/// The names and descriptions in the answer to `tools/list`.
fn listed(answer: &Value) -> Vec<(&str, &str)> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_client_of_a_profile_lists_and_calls_a_tool_by_the_name_that_the_profile_gives_it() {
    let (world, _) = with_few().await;
    let raw = Raw::new(&world).at("profile=few");
    let answer = json_of(raw.modern(1, "tools/list", json!({})).await).await;
    let tools = listed(&answer);
    assert_eq!(tools.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["mcp__fake__add", "say"]);
    assert_eq!(tools[1].1, "Says it.");
    for protocol in [Protocol::Modern, Protocol::Legacy] {
        let spec = toolrack_host::ServerSpec {
            protocol,
            ..toolrack_host::ServerSpec::http(format!("{}?profile=few", world.url))
        };
        let host = client(spec, None).await;
        let call = Call::from_map("rack/say", object(json!({"text": "hello"})));
        let outcome = timeout(PATIENCE, host.call(call)).await.expect("the call ends").unwrap();
        assert!(outcome.text.contains("hello"), "{outcome:?}");
        host.shutdown().await;
    }
    // The profile does not have the tool under its name in the catalog, nor any other tool.
    for hidden in ["mcp__fake__echo", "fake/echo", "mcp__fake__write"] {
        let refused = json_of(raw.modern(2, "tools/call", json!({"name": hidden})).await).await;
        assert_eq!(refused["error"]["code"], -32602, "{hidden}: {refused}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_call_by_the_name_of_a_profile_says_why_the_server_of_the_tool_is_not_connected() {
    let only = Selection::all().only(["dead/echo".parse().unwrap()]);
    let shown = ShownAs { name: Some("say".to_owned()), description: None };
    let profile = ToolProfile::new(only).showing(name("dead"), "echo", shown);
    let mut options = GatewayOptions::default();
    options.profiles = Profiles::from(BTreeMap::from([("few".into(), profile)]));
    let world = World::with([("dead", fake("--fault exit-at-start"))], options).await;
    let raw = Raw::new(&world).at("profile=few");
    let answer = json_of(raw.modern(1, "tools/call", json!({"name": "say"})).await).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("the server dead") && text.contains("is not connected"), "{answer}");
    let unknown = json_of(raw.modern(2, "tools/call", json!({"name": "shout"})).await).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    world.end().await;
}

#[tokio::test]
async fn a_session_of_one_profile_is_unknown_to_another_and_without_one() {
    let (world, _) = with_few().await;
    let all = Raw::legacy(&world, json!({})).await;
    let list = request(2, "tools/list", json!({}));
    assert!(listed(&json_of(all.post(&list, &[]).await).await).len() > 2);
    let few = all.at("profile=few");
    assert_eq!(few.post(&list, &[]).await.status(), 404);
    let stream = few.builder(reqwest::Method::GET, &[]).send().await.unwrap();
    assert_eq!(stream.status(), 404);
    let end = few.builder(reqwest::Method::DELETE, &[]).send().await.unwrap();
    assert_eq!(end.status(), 404);
    world.end().await;
}

#[tokio::test]
async fn a_client_that_names_no_profile_has_the_default_profile_in_its_session_and_whatever_else_it_selects() {
    let mut options = GatewayOptions::default();
    options.profiles = Profiles::from(BTreeMap::from([("few".into(), few())]));
    options.profile = Some("few".into());
    let world = World::with([("fake", fake(""))], options).await;
    let list = request(2, "tools/list", json!({}));
    let names = |answer: &Value| listed(answer).iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let client = Raw::legacy(&world, json!({})).await;
    assert_eq!(names(&json_of(client.post(&list, &[]).await).await), ["mcp__fake__add", "say"]);
    let all = json_of(Raw::new(&world).at("servers=fake").modern(1, "tools/list", json!({})).await).await;
    assert_eq!(names(&all), ["mcp__fake__add", "say"], "a selection leads out of no profile");
    let named = client.at("profile=few");
    assert_eq!(named.post(&list, &[]).await.status(), 200, "this is the profile of the session");
    assert_eq!(named.builder(reqwest::Method::DELETE, &[]).send().await.unwrap().status(), 200);
    world.end().await;
}

#[tokio::test]
async fn a_changed_profile_applies_to_open_sessions_and_notifies_their_clients() {
    let (world, profiles) = with_few().await;
    let spec = toolrack_host::ServerSpec {
        protocol: Protocol::Legacy,
        ..toolrack_host::ServerSpec::http(format!("{}?profile=few", world.url))
    };
    let host = client(spec, None).await;
    let names = || host.catalog().tools().map(|tool| tool.tool().name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["mcp__fake__add", "say"]);
    let only = Selection::all().only(["fake/add".parse().unwrap()]);
    profiles.set(BTreeMap::from([("few".into(), Arc::new(ToolProfile::new(only)))]));
    until("the client has the new list", || names() == ["mcp__fake__add"]).await;
    profiles.set(BTreeMap::new());
    until("the client has no tools", || names().is_empty()).await;
    let raw = Raw::new(&world).at("profile=few");
    let refused = raw.modern(1, "tools/list", json!({})).await;
    assert_eq!(refused.status(), 404);
    host.shutdown().await;
    world.end().await;
}
