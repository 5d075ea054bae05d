//! Resources, prompts and completions of all servers.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::{Host, ServerSpec, spec::Invisible};

use crate::world::{Person, Raw, World, client, fake, json_of, name};

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read_over_every_way_in_both_eras() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let host = client(spec, Some(Person::new())).await;
            let uris: Vec<_> = host.resources("rack").await.unwrap().into_iter().map(|it| it.uri).collect();
            assert_eq!(uris, ["fake://asked", "fake://blob", "fake://note"], "{way}");
            let note = host.read_resource("rack", "fake://note").await.unwrap();
            assert_eq!(note[0].text.as_deref(), Some("a note"), "{way}");
            let blob = host.read_resource("rack", "fake://blob").await.unwrap();
            assert_eq!(blob[0].blob.as_deref(), Some("AAEC"), "{way}");
            let templates = host.resource_templates("rack").await.unwrap();
            assert_eq!(templates[0].uri_template, "fake://note/{name}", "{way}");
            let named = host.read_resource("rack", "fake://note/ada").await.unwrap();
            assert_eq!(named[0].text.as_deref(), Some("a note about ada"), "{way}");
            let asked = host.read_resource("rack", "fake://asked").await.unwrap();
            assert!(asked[0].text.as_deref().unwrap().contains("Ada"), "{way}: {asked:?}");

            let prompts: Vec<_> = host.prompts("rack").await.unwrap().into_iter().map(|it| it.name).collect();
            assert_eq!(prompts, ["mcp__fake__asked", "mcp__fake__greet"], "{way}");
            let arguments = BTreeMap::from([("name".to_owned(), "Ada".to_owned())]);
            let greet = host.get_prompt("rack", "mcp__fake__greet", &arguments).await.unwrap();
            assert_eq!(
                greet.messages[0].content,
                toolrack_host::Content::Text { text: "Say hello to Ada.".into() },
                "{way}"
            );
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn clients_get_descriptions_without_invisible_characters_unless_the_entry_keeps_them() {
    let keeping = ServerSpec { invisible: Some(Invisible::Keep), ..fake("--fault escape-text") };
    let servers = [("plain", fake("--fault escape-text")), ("keeps", keeping)];
    let world = World::with(servers, GatewayOptions::default()).await;
    let raw = Raw::new(&world);
    let listed = modern(&raw, "tools/list", json!({})).await;
    let description = |name: &str| {
        let tool = listed["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
        tool.unwrap()["description"].as_str().unwrap().to_owned()
    };
    assert_eq!(description("mcp__plain__echo"), "Echoes. ]0;owned[31mred[0mtxt.exe");
    assert!(description("mcp__keeps__echo").contains("\u{202e}txt.exe\u{202c}\u{e0041}"));
    world.end().await;
}

async fn modern(raw: &Raw, method: &str, params: Value) -> Value {
    json_of(raw.modern(1, method, params).await).await
}

#[tokio::test]
async fn a_uri_of_two_servers_needs_the_server_s_name() {
    let world = World::with([("one", fake("")), ("two", fake(""))], GatewayOptions::default()).await;
    let raw = Raw::new(&world);
    let listed = modern(&raw, "resources/list", json!({})).await;
    let uris: Vec<_> = listed["result"]["resources"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
    assert_eq!(uris.len(), 6, "{listed}");
    assert!(uris.contains(&&json!("toolrack://one/fake://note")), "{uris:?}");

    let read = modern(&raw, "resources/read", json!({"uri": "toolrack://two/fake://note"})).await;
    assert_eq!(read["result"]["contents"][0]["uri"], "toolrack://two/fake://note", "{read}");
    assert_eq!(read["result"]["contents"][0]["text"], "a note");
    let either = modern(&raw, "resources/read", json!({"uri": "fake://note"})).await;
    assert_eq!(either["error"]["code"], -32602);
    let message = either["error"]["message"].as_str().unwrap();
    assert!(message.contains("toolrack://one/fake://note"), "{message}");
    let none = modern(&raw, "resources/read", json!({"uri": "toolrack://three/fake://note"})).await;
    assert_eq!(none["error"]["data"]["uri"], "toolrack://three/fake://note");

    // If the view has only one of the servers, the URI is unambiguous, and the other server cannot be reached.
    let one = Raw::new(&world).at("servers=one");
    let read = modern(&one, "resources/read", json!({"uri": "fake://note"})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "a note", "{read}");
    let other = modern(&one, "resources/read", json!({"uri": "toolrack://two/fake://note"})).await;
    assert!(other["error"].is_object(), "{other}");
    let prompts = modern(&one, "prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"].as_array().map(Vec::len), Some(2), "{prompts}");
    world.end().await;
}

#[tokio::test]
async fn arguments_are_completed_by_the_server_that_knows_them() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        let raw = Raw::new(&world);
        for reference in [
            json!({"type": "ref/prompt", "name": "mcp__fake__greet"}),
            json!({"type": "ref/resource", "uri": "fake://note/{name}"}),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "name", "value": "a"}});
            let completed = modern(&raw, "completion/complete", params).await;
            assert_eq!(completed["result"]["completion"]["values"], json!(["ada", "alan"]), "{completed}");
        }
        let params = json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "x", "value": ""}});
        assert_eq!(modern(&raw, "completion/complete", params).await["error"]["code"], -32602);
        world.end().await;
    }
}

#[tokio::test]
async fn unknown_resources_and_prompts_are_not_found_in_the_words_of_each_era() {
    let world = World::new("").await;
    let raw = Raw::new(&world);
    let params = json!({"uri": "fake://none"});
    assert_eq!(modern(&raw, "resources/read", params.clone()).await["error"]["code"], -32602);
    let legacy = Raw::legacy(&world, json!({})).await;
    let request = crate::world::request(2, "resources/read", params);
    assert_eq!(json_of(legacy.post(&request, &[]).await).await["error"]["code"], -32002);
    assert_eq!(modern(&raw, "prompts/get", json!({"name": "greet"})).await["error"]["code"], -32602);
    world.end().await;
}

#[tokio::test]
async fn a_request_during_the_start_of_servers_is_answered_once_they_have_started() {
    for (method, params, found) in [
        ("tools/list", json!({}), "mcp__fake__echo"),
        ("tools/call", json!({"name": "mcp__fake__echo", "arguments": {"text": "here"}}), "here"),
        ("resources/list", json!({}), "fake://note"),
        ("resources/read", json!({"uri": "fake://note"}), "a note"),
        ("prompts/list", json!({}), "mcp__fake__greet"),
        ("prompts/get", json!({"name": "mcp__fake__greet", "arguments": {"name": "Ada"}}), "hello to Ada"),
    ] {
        let host = Host::builder().build();
        host.apply([(name("fake"), fake("--start-delay-ms 100"))].into_iter().collect()).await;
        assert_eq!(host.catalog().tools().len(), 0, "it has not said anything yet");
        let world = World::of(host, GatewayOptions::default()).await;
        let answer = modern(&Raw::new(&world), method, params).await;
        assert!(answer["result"].to_string().contains(found), "{method}: {answer}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_call_of_a_server_that_is_not_connected_is_answered_with_the_reason_and_only_where_it_may_be_seen() {
    let servers = [("dead", fake("--fault exit-at-start")), ("fake", fake(""))];
    let world = World::with(servers, GatewayOptions::default()).await;
    let params = json!({"name": "mcp__dead__echo", "arguments": {}});
    let answer = modern(&Raw::new(&world), "tools/call", params.clone()).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("the server dead") && text.contains("is not connected"), "{answer}");
    assert_eq!(answer["result"]["isError"], true);

    let elsewhere = modern(&Raw::new(&world).at("servers=fake"), "tools/call", params).await;
    assert_eq!(elsewhere["error"]["code"], -32602, "{elsewhere}");
    let missing = modern(&Raw::new(&world), "tools/call", json!({"name": "mcp__fake__none", "arguments": {}})).await;
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    world.end().await;
}
