//! Resources that clients subscribe to.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::{Host, Subscriptions, spec::Protocol};
use toolrack_testkit::EffectLog;

use crate::world::{PATIENCE, Raw, World, call, client, fake, json_of, name, object, request};

const NOTE: &str = "fake://note";

/// A listener to this resource of the gateway.
async fn listener(host: &Host, uri: &str) -> Subscriptions {
    let subscriptions = Subscriptions::new(8);
    timeout(PATIENCE, subscriptions.subscribe(host, "rack", uri)).await.expect("an answer").unwrap();
    subscriptions
}

async fn hears(subscriptions: &Subscriptions, uri: &str, about: &str) {
    let received = timeout(PATIENCE, subscriptions.updated()).await;
    assert_eq!(
        received.unwrap_or_else(|_| panic!("{about}: nothing of {uri}")),
        (name("rack"), uri.to_owned()),
        "{about}"
    );
}

async fn touch(host: &Host, uri: &str) {
    call(host, "touch", json!({ "uri": uri })).await.unwrap();
}

#[tokio::test]
async fn subscriptions_work_between_clients_and_servers_of_both_eras() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        for (way, spec) in world.client_entries() {
            let about = format!("{way}, {era} server");
            let host = client(spec, None).await;
            let note = listener(&host, NOTE).await;
            touch(&host, NOTE).await;
            hears(&note, NOTE, &about).await;
            // A second listener, in addition to the first.
            note.subscribe(&host, "rack", "fake://note/ada").await.unwrap();
            touch(&host, "fake://note/ada").await;
            // A change of `note/ada` is also a change of `note`, and may be reported more than once.
            let mut received = BTreeSet::new();
            while received.len() < 2 {
                received.insert(timeout(PATIENCE, note.updated()).await.expect(&about).1);
            }
            assert_eq!(received, [NOTE, "fake://note/ada"].map(str::to_owned).into(), "{about}");
            // From now on, the client listens to the other resource only.
            assert!(note.unsubscribe(&name("rack"), NOTE), "{about}");
            touch(&host, NOTE).await;
            touch(&host, "fake://note/ada").await;
            hears(&note, "fake://note/ada", &about).await;
            host.shutdown().await;
        }
        world.end().await;
    }
}

#[tokio::test]
async fn a_resource_of_two_servers_is_reported_under_the_name_that_the_client_used() {
    let world = World::with([("one", fake("")), ("two", fake(""))], GatewayOptions::default()).await;
    let host = client(world.over_stdio(Protocol::Legacy), None).await;
    let full = "toolrack://two/fake://note";
    let note = listener(&host, full).await;
    let touch = async |server: &str| {
        let arguments = object(json!({ "uri": NOTE }));
        let call = toolrack_host::Call::from_map(format!("rack/mcp__{server}__touch"), arguments);
        timeout(PATIENCE, host.call(call)).await.expect("an end").unwrap();
    };
    touch("one").await;
    touch("two").await;
    hears(&note, full, "the other is not heard").await;
    let either = Subscriptions::new(1).subscribe(&host, "rack", NOTE).await;
    assert!(either.unwrap_err().to_string().contains("several servers have"));
    host.shutdown().await;
    world.end().await;
}

/// How often the gateway sent this request to the server.
fn sent(effects: &EffectLog, method: &str) -> usize {
    effects.read().count_of(method)
}

#[tokio::test]
async fn many_clients_share_one_subscription_which_the_last_of_them_ends() {
    let effects = EffectLog::new();
    let args = format!("--era legacy --log {} --log-all", effects.path_str());
    let world = World::new(&args).await;
    let mut clients = Vec::new();
    for (way, spec) in world.client_entries() {
        let host = client(spec, None).await;
        let note = listener(&host, NOTE).await;
        clients.push((way, host, note));
    }
    assert_eq!(sent(&effects, "resources/subscribe"), 1);
    touch(&clients[0].1, NOTE).await;
    for (way, _, note) in &clients {
        hears(note, NOTE, way).await;
    }
    let (_, last, _note) = clients.pop().unwrap();
    for (_, host, note) in clients {
        // Some clients end their subscription, and some just disconnect.
        if sent(&effects, "resources/unsubscribe") == 0 {
            drop(note);
        }
        host.shutdown().await;
    }
    touch(&last, NOTE).await;
    assert_eq!(sent(&effects, "resources/unsubscribe"), 0, "one still listens");
    last.shutdown().await;
    let ends = tokio::task::spawn_blocking(move || {
        effects.wait_until(PATIENCE, |effects| effects.count_of("resources/unsubscribe") == 1)
    });
    ends.await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_session_that_ends_ends_its_subscriptions() {
    let effects = EffectLog::new();
    let args = format!("--era legacy --log {} --log-all", effects.path_str());
    let world = World::new(&args).await;
    let raw = Raw::legacy(&world, json!({})).await;
    let subscribe = |uri: &str| request(2, "resources/subscribe", json!({ "uri": uri }));
    assert_eq!(json_of(raw.post(&subscribe(NOTE), &[]).await).await["result"], json!({}));
    let nothing = json_of(raw.post(&subscribe("nobody://has/it"), &[]).await).await;
    assert_eq!(nothing["error"]["message"], "no such resource", "its server refuses: {nothing}");
    // A change in the meantime is sent once, when the stream is opened.
    let host = client(world.over_http(Protocol::Modern), None).await;
    touch(&host, NOTE).await;
    touch(&host, NOTE).await;
    let mut stream = raw.builder(reqwest::Method::GET, &[("accept", "text/event-stream")]).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("resources/updated") {
        let chunk = timeout(PATIENCE, stream.chunk()).await.expect("more").unwrap().expect("more");
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(text.contains(r#""params":{"uri":"fake://note"}"#), "{text}");
    drop(stream);
    let gone = raw.builder(reqwest::Method::DELETE, &[]).send().await.unwrap();
    assert!(gone.status().is_success());
    let ends = tokio::task::spawn_blocking(move || {
        effects.wait_until(PATIENCE, |effects| effects.count_of("resources/unsubscribe") == 1)
    });
    ends.await.unwrap();
    host.shutdown().await;
    world.end().await;
}

#[tokio::test]
async fn a_client_listens_to_so_many_resources_and_no_more() {
    let mut options = GatewayOptions::default();
    options.bounds.subscriptions = 2;
    let world = World::with([("fake", fake("--era legacy"))], options).await;
    let raw = Raw::legacy(&world, json!({})).await;
    for (uri, refused) in [("fake://note", false), ("fake://blob", false), ("fake://asked", true)] {
        let answer = raw.post(&request(2, "resources/subscribe", json!({ "uri": uri })), &[]).await;
        assert_eq!(json_of(answer).await.get("error").is_some(), refused, "{uri}");
    }
    let end = request(3, "resources/unsubscribe", json!({ "uri": "fake://blob" }));
    assert_eq!(json_of(raw.post(&end, &[]).await).await["result"], json!({}));
    let answer = raw.post(&request(4, "resources/subscribe", json!({ "uri": "fake://asked" })), &[]).await;
    assert_eq!(json_of(answer).await["result"], json!({}), "one was ended");

    let wanted = json!(["nobody://has/it", "fake://note", "fake://blob", "fake://asked"]);
    let params = json!({ "notifications": { "resourceSubscriptions": wanted } });
    let mut stream = Raw::new(&world).modern(9, "subscriptions/listen", params).await;
    let chunk = timeout(PATIENCE, stream.chunk()).await.expect("more").unwrap().expect("more");
    let text = std::str::from_utf8(&chunk).unwrap();
    let notification: Value =
        serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
    assert_eq!(
        notification["params"]["notifications"],
        json!({ "resourceSubscriptions": ["fake://note"] }),
        "{notification}"
    );
    world.end().await;
}

#[tokio::test]
async fn after_a_reconnect_subscriptions_are_renewed_and_lists_read_again() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        let host = client(world.over_stdio(Protocol::Modern), None).await;
        let note = listener(&host, NOTE).await;
        world.host.reconnect("fake").unwrap();
        hears(&note, NOTE, era).await;
        touch(&host, NOTE).await;
        hears(&note, NOTE, era).await;
        host.shutdown().await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_server_that_a_client_listens_to_is_not_stopped_as_idle() {
    let spec = toolrack_host::ServerSpec { idle_stop: Some(Duration::from_millis(50)), ..fake("") };
    let world = World::with([("fake", spec)], GatewayOptions::default()).await;
    let mut events = world.host.events();
    let note = Subscriptions::new(1);
    note.subscribe(&world.host, "fake", NOTE).await.unwrap();
    let rests =
        async { while !matches!(events.recv().await, Ok(toolrack_host::Event::McpServerDisconnected { .. })) {} };
    let mut rests = std::pin::pin!(rests);
    assert!(timeout(Duration::from_millis(500), &mut rests).await.is_err(), "it was stopped");
    drop(note);
    timeout(PATIENCE, rests).await.expect("no client listens any more");
    world.end().await;
}
