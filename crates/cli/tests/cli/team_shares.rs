//! What one member of a team can take of all others: places, and the sight of what they do.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    rack::fake,
    team::{SOON, Team},
};

/// The status of an answer whose body is not read.
fn status_of(mut stream: &TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

#[test]
fn a_member_with_the_most_connections_keeps_no_other_member_out() {
    let team = Team::with(|_| vec![("shared", fake(&[]))]);
    let [ann, bob] = ["ann", "bob"].map(|name| team.token(name, "acme", "viewer").0);
    let settings = "[serve]\nconnections = 8\nmember_connections = 3\n";
    fs::write(team.rack.home.root().join("toolrack/toolrack.toml"), settings).unwrap();
    let team = team.restarted();
    let hold = || {
        let stream = team.send("GET", "/api/v1/events", &bob, "");
        (status_of(&stream), stream)
    };
    let held = [hold(), hold(), hold()];
    assert!(held.iter().all(|(status, _)| *status == 200));
    let (status, body) = team.ask("GET", "/api/v1/me", &bob, "");
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("TOO_MANY_CONNECTIONS") && body.contains("member_connections"), "{body}");
    assert_eq!(team.status("GET", "/api/v1/me", &ann), 200);
    assert_eq!(team.status("GET", "/api/v1/servers", &team.daemon.token), 200);
    drop(held);
    let started = Instant::now();
    while team.status("GET", "/api/v1/me", &bob) != 200 {
        assert!(started.elapsed() < SOON, "the places are not free again");
    }
}

/// What the server `broken` says before it ends.
const WORDS: &str = "of-a-caller-of-the-server";

/// The first event of this name in a stream.
fn event(stream: TcpStream, name: &str) -> String {
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line == &format!("event: {name}")).unwrap();
    lines.next().unwrap()
}

/// The server of this name, as soon as `is_there` is true of it.
fn server(team: &Team, token: &str, name: &str, is_there: fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let (status, body) = team.ask("GET", &format!("/api/v1/servers/{name}"), token, "");
        let server: Value = serde_json::from_str(&body).unwrap();
        if status == 200 && is_there(&server) {
            return server;
        }
        assert!(started.elapsed() < 3 * SOON, "{body}");
    }
}

#[test]
fn the_last_words_of_a_shared_server_and_its_file_are_for_operators_alone() {
    let broken = json!({ "command": "sh", "args": ["-c", format!("echo {WORDS} >&2; exit 3")] });
    let team = Team::with(|_| vec![("broken", broken.clone())]);
    // An entry that waits for an agreement, which only the user of the machine can give.
    let pending = json!({ "command": "true", "env": { "API_TOKEN": "canary-of-a-project" } });
    let project = team.rack.home.root().join("team/tenants/acme/.mcp.json");
    fs::write(project, json!({ "mcpServers": { "pending": pending } }).to_string()).unwrap();
    let [bob, eve] = [("bob", "user"), ("eve", "operator")].map(|(name, role)| team.token(name, "acme", role).0);
    let [for_bob, for_eve] = [&bob, &eve].map(|token| team.ask("GET", "/api/v1/trust", token, "").1);
    assert!(!for_bob.contains("API_TOKEN") && for_bob.contains("\"pending\":[]"), "{for_bob}");
    assert!(for_eve.contains("API_TOKEN") && !for_eve.contains("canary-of-a-project"), "{for_eve}");
    let failed = |token| server(&team, token, "broken", |server| server["error"].is_string());
    let (of_bob, of_eve) = (failed(&bob), failed(&eve));
    let error = of_bob["error"].as_str().unwrap();
    assert!(error.contains("exit status 3") && !error.contains("last words"), "{error}");
    assert!(of_eve["error"].as_str().unwrap().contains(WORDS), "{of_eve}");
    assert!(["source", "line", "config"].iter().all(|field| of_bob[field].is_null()), "{of_bob}");
    assert!(of_eve["source"].as_str().unwrap().ends_with("mcp.json"), "{of_eve}");
    assert!(of_eve["config"]["command"].is_string(), "{of_eve}");
    let (_, list) = team.ask("GET", "/api/v1/servers", &bob, "");
    let list: Value = serde_json::from_str(&list).unwrap();
    assert!(!list["servers"][0]["error"].as_str().unwrap_or_default().contains(WORDS), "{list}");

    let streams = [&bob, &eve].map(|token| team.send("GET", "/api/v1/events", token, ""));
    assert!(streams.iter().all(|stream| status_of(stream) == 200));
    assert_eq!(team.status("POST", "/api/v1/servers/broken/reconnect", &eve), 202);
    let [to_bob, to_eve] = streams.map(|stream| event(stream, "mcp_server_error"));
    assert!(to_bob.contains("exit status 3") && !to_bob.contains(WORDS), "{to_bob}");
    assert!(to_eve.contains(WORDS), "{to_eve}");
}

#[test]
fn the_error_of_a_call_has_neither_the_file_nor_the_words_of_a_shared_server_and_that_of_an_own_server_has_its_words() {
    let noisy = |name: &str| {
        let server = fake(&[]);
        let (program, words) = (server["command"].as_str().unwrap(), format!("{WORDS}-{name}"));
        json!({ "command": "sh", "args": ["-c", format!("echo {words} >&2; exec {program} stdio")] })
    };
    let mut own = noisy("own");
    own["share"] = "user".into();
    let broken = json!({ "command": "sh", "args": ["-c", format!("echo {WORDS} >&2; exit 3")] });
    let team = Team::with(|_| vec![("shared", noisy("shared")), ("own", own.clone()), ("broken", broken.clone())]);
    let [bob, eve] = [("bob", "user"), ("eve", "operator")].map(|(name, role)| team.token(name, "acme", role).0);
    let call = |token: &str, tool: &str| {
        team.ask("POST", "/api/v1/calls", token, &json!({ "tool": tool, "arguments": { "code": 3 } }).to_string()).1
    };
    for token in [&bob, &eve] {
        let answer = call(token, "shared/crash");
        assert!(answer.contains("exit status 3") && !answer.contains(WORDS), "{answer}");
        let answer = team.call(token, "mcp__shared__crash", r#"{"code":3}"#);
        assert!(answer.contains("failed") && !answer.contains(WORDS) && !answer.contains("mcp.json"), "{answer}");
        let answer = call(token, "broken/x");
        assert!(answer.contains("exit status 3") && !answer.contains(WORDS), "{answer}");
        assert!(answer.contains("(the shared configuration)") && !answer.contains("mcp.json"), "{answer}");
    }
    let answer = call(&bob, "own/crash");
    assert!(answer.contains(&format!("{WORDS}-own")), "{answer}");
}

#[test]
fn the_overview_of_a_member_has_their_own_calls_and_that_of_an_operator_those_of_all() {
    let team = Team::with(|_| vec![("shared", fake(&[]))]);
    let [ann, vic, eve] =
        [("ann", "user"), ("vic", "viewer"), ("eve", "operator")].map(|(name, role)| team.token(name, "acme", role).0);
    let call = json!({ "tool": "shared/echo", "arguments": { "text": "x" } }).to_string();
    assert_eq!(team.ask("POST", "/api/v1/calls", &ann, &call).0, 200);
    let recent = |token| {
        let (_, body) = team.ask("GET", "/api/v1/overview", token, "");
        serde_json::from_str::<Value>(&body).unwrap()["recent"].as_array().unwrap().len()
    };
    let started = Instant::now();
    while recent(&eve) == 0 {
        assert!(started.elapsed() < SOON);
    }
    assert_eq!((recent(&ann), recent(&vic)), (1, 0));
}

/// How many events say that the server `counted` has connected, up to the first one that says so of `last`.
fn connections(stream: &mut BufReader<TcpStream>, counted: &str, last: &str) -> usize {
    let (mut count, mut line) = (0, String::new());
    loop {
        while line.trim_end() != "event: mcp_server_connected" {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream has ended");
        }
        while !line.starts_with("data: ") {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream has ended");
        }
        let data: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
        count += usize::from(data["server"] == counted);
        if data["server"] == last {
            return count;
        }
    }
}

#[test]
fn a_member_with_own_servers_gets_each_event_of_a_shared_server_once() {
    let mut own = fake(&[]);
    own["share"] = "user".into();
    let broken = json!({ "command": "sh", "args": ["-c", format!("echo {WORDS} >&2; exit 3")] });
    let team = Team::with(|_| vec![("shared", fake(&[])), ("own", own.clone()), ("broken", broken.clone())]);
    let operator = team.token("eve", "acme", "operator").0;
    let user = team.token("bob", "acme", "user").0;
    for (name, role, token) in [("bob", "user", user), ("eve", "operator", operator.clone())] {
        for name in ["shared", "own"] {
            server(&team, &token, name, |server| server["state"] == "connected");
        }
        let stream = team.send("GET", "/api/v1/events", &token, "");
        assert_eq!(status_of(&stream), 200);
        let mut stream = BufReader::new(stream);
        assert_eq!(team.status("POST", "/api/v1/servers/shared/reconnect", &operator), 202);
        assert_eq!(connections(&mut stream, "shared", "shared"), 1);
        assert_eq!(team.status("POST", "/api/v1/servers/own/reconnect", &token), 202);
        assert_eq!(connections(&mut stream, "shared", "own"), 0, "{name} got the event twice");
        // Also an event that only the tenant's world has reaches a member who has a world of their own.
        assert_eq!(team.status("POST", "/api/v1/servers/broken/reconnect", &operator), 202);
        let failed = event(stream.into_inner(), "mcp_server_error");
        assert_eq!((failed.contains("exit status 3"), failed.contains(WORDS)), (true, role == "operator"), "{failed}");
    }
}

#[test]
fn calls_of_members_with_own_servers_count_for_their_tenant() {
    let mut own = fake(&[]);
    own["share"] = "user".into();
    let team = Team::with(|_| vec![("shared", fake(&[])), ("own", own.clone())]);
    let [ann, eve] = [("ann", "user"), ("eve", "operator")].map(|(name, role)| team.token(name, "acme", role).0);
    for tool in ["shared/echo", "own/echo"] {
        let call = json!({ "tool": tool, "arguments": { "text": "x" } }).to_string();
        assert_eq!(team.ask("POST", "/api/v1/calls", &ann, &call).0, 200);
    }
    let counted = |server: &str| format!("toolrack_calls_total{{server=\"{server}\",outcome=\"ok\"}} 1");
    let started = Instant::now();
    loop {
        let (_, metrics) = team.ask("GET", "/metrics", &eve, "");
        if ["shared", "own"].iter().all(|server| metrics.contains(&counted(server))) {
            return;
        }
        assert!(started.elapsed() < SOON, "{metrics}");
    }
}
