//! Servers that run once for each session of an MCP client (`share = "session"`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    time::Duration,
};

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, processes::wait_gone};

use crate::{
    gateway,
    rack::{Rack, fake},
    team::Team,
    team_person::Client,
    warm::Daemon,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that writes down what it does, and runs once for each session.
fn of_session(effects: &EffectLog) -> Value {
    let mut server = fake(&["--log", effects.path_str()]);
    server["share"] = "session".into();
    server
}

/// The processes that ran `write`, by the word in its arguments.
fn processes(effects: &EffectLog) -> BTreeMap<String, BTreeSet<u32>> {
    let mut by_word = BTreeMap::<_, BTreeSet<u32>>::new();
    for run in effects.read().runs().into_iter().filter(|run| run.tool == "write") {
        by_word.entry(run.args["word"].as_str().unwrap().to_owned()).or_default().insert(run.pid);
    }
    by_word
}

/// The only process that ran `write` with this word.
fn process(effects: &EffectLog, word: &str) -> u32 {
    let of_word = processes(effects).remove(word).unwrap_or_default();
    assert_eq!(of_word.len(), 1, "{word}: {of_word:?}");
    of_word.into_iter().next().unwrap()
}

fn writes(client: &Client<'_>, tool: &str, word: &str) {
    let answer = client.call(tool, &json!({ "word": word })).until(None);
    assert_eq!(answer["result"]["content"][0]["text"], "written", "{answer}");
}

/// The status and the body of the answer to a request in the session of `client`.
fn asked(client: &Client<'_>, method: &str, body: &str) -> (u16, String) {
    let mut answer = String::new();
    client.sent(method, body).read_to_string(&mut answer).unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

#[test]
fn each_session_has_a_process_of_its_own_and_all_share_the_other_servers() {
    let [own, shared] = [EffectLog::new(), EffectLog::new()];
    let team = Team::with(|_| vec![("own", of_session(&own)), ("shared", fake(&["--log", shared.path_str()]))]);
    let [ann, bob] = ["ann", "bob"].map(|name| team.token(name, "acme", "user").0);
    let clients = [("one", &ann), ("two", &ann), ("bob", &bob)]
        .map(|(word, token)| (word, Client::connect(&team, token, json!({}))));
    for _ in 0..2 {
        for (word, client) in &clients {
            writes(client, "mcp__own__write", word);
            writes(client, "mcp__shared__write", word);
        }
        // Requests without a session share one process of the member.
        for word in ["none", "again"] {
            let answer = team.call(&ann, "mcp__own__write", &json!({ "word": word }).to_string());
            assert!(answer.contains("written"), "{answer}");
        }
    }
    let [one, two, of_bob, none, again] = ["one", "two", "bob", "none", "again"].map(|word| process(&own, word));
    assert_eq!(BTreeSet::from([one, two, of_bob, none]).len(), 4);
    assert_eq!(none, again);
    assert_eq!(processes(&shared).into_values().flatten().collect::<BTreeSet<_>>().len(), 1);

    // The session of another member is unknown.
    let [(_, one_of_ann), _, (_, client_of_bob)] = &clients;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let stolen = one_of_ann.with_token(&bob);
    assert_eq!((asked(one_of_ann, "POST", list).0, asked(&stolen, "POST", list).0), (200, 404));
    assert_eq!(asked(&stolen, "DELETE", "").0, 404);

    // The end of a session is the end of its process, and of no other.
    assert_eq!(asked(one_of_ann, "DELETE", "").0, 200);
    assert!(wait_gone(one, LIMIT));
    assert_eq!(asked(one_of_ann, "POST", list).0, 404);
    writes(client_of_bob, "mcp__own__write", "bob");
    assert_eq!(process(&own, "bob"), of_bob);
}

#[test]
fn a_member_s_value_and_their_stop_reach_the_servers_of_their_sessions() {
    let effects = EffectLog::new();
    let mut server = of_session(&effects);
    server["env"] = json!({ "TOKEN": "${user:TOKEN}" });
    let team = Team::with(|_| vec![("own", server.clone())]);
    let ann = team.token("ann", "acme", "user").0;
    let give = |value: &str| {
        let body = json!({ "value": value }).to_string();
        assert_eq!(team.ask("PUT", "/api/v1/me/credentials/TOKEN", &ann, &body).0, 204);
    };
    give("first-value");
    let client = Client::connect(&team, &ann, json!({}));
    let token = || client.call("mcp__own__env", &json!({ "name": "TOKEN" })).until(None).to_string();
    // The value itself is shown to no client.
    assert!(token().contains("***"), "{}", token());
    writes(&client, "mcp__own__write", "first");
    give("second-value");
    writes(&client, "mcp__own__write", "second");
    assert_ne!(process(&effects, "first"), process(&effects, "second"), "the server starts again with the value");

    let (status, answer) = team.ask("POST", "/api/v1/servers/own/disconnect", &ann, "");
    assert_eq!(status, 202, "{answer}");
    assert!(wait_gone(process(&effects, "second"), LIMIT));
}

#[test]
fn a_session_beyond_the_bound_is_refused_and_its_setting_named() {
    let effects = EffectLog::new();
    let team = Team::with(|_| vec![("own", of_session(&effects))]);
    fs::write(team.rack.home.root().join("toolrack/toolrack.toml"), "[serve]\nsession_worlds = 1\n").unwrap();
    let team = team.restarted();
    let [ann, bob] = ["ann", "bob"].map(|name| team.token(name, "acme", "user").0);
    let first = Client::connect(&team, &ann, json!({}));
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } })
    .to_string();
    let (status, answer) = team.ask("POST", "/mcp", &ann, &begin);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("TOO_MANY_WORLDS") && answer.contains("session_worlds"), "{answer}");
    // Another member has a bound of their own.
    let _other = Client::connect(&team, &bob, json!({}));
    assert_eq!(asked(&first, "DELETE", "").0, 200);
    let _next = Client::connect(&team, &ann, json!({}));
}

#[test]
fn a_viewer_begins_no_session_with_servers() {
    let effects = EffectLog::new();
    let team = Team::with(|_| vec![("own", of_session(&effects))]);
    let vic = team.token("vic", "acme", "viewer").0;
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }).to_string();
    assert_eq!(team.ask("POST", "/mcp", &vic, &begin).0, 403);
}

#[test]
fn each_gateway_of_one_machine_has_a_process_of_its_own_behind_the_daemon() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", of_session(&effects))]);
    rack.home.write("toolrack/toolrack.toml", "[policy]\nallow = \"fake/*\"\n");
    let _daemon = Daemon::start(&rack, &[]);
    let mut clients = ["one", "two"].map(|word| (word, gateway::Client::of(&rack)));
    for id in 1..=2 {
        for (word, client) in &mut clients {
            client.call(id, "write", &json!({ "word": word }));
            let answer = client.answer(id);
            assert_eq!(answer["result"]["content"][0]["text"], "written", "{answer}");
        }
    }
    let [one, two] = ["one", "two"].map(|word| process(&effects, word));
    assert_ne!(one, two);
    let [(_, first), (_, mut second)] = clients;
    drop(first);
    assert!(wait_gone(one, LIMIT));
    second.call(3, "write", &json!({ "word": "two" }));
    assert_eq!(second.answer(3)["result"]["content"][0]["text"], "written");
    assert_eq!(process(&effects, "two"), two);
}
