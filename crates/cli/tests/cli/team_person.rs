//! Servers that each member of a tenant has for themselves, with values that only the member gives.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolrack_testkit::FakeHttp;

use crate::{
    rack::{Rack, fake},
    team::{SOON, Team},
};

/// A server that needs the member's `TOKEN`.
pub(crate) fn personal() -> Value {
    let mut server = fake(&[]);
    server["env"] = json!({ "TOKEN": "${user:TOKEN}" });
    server
}

/// A team whose tenants have the server `mine` for each member, and `shared` for all.
fn team() -> Team {
    Team::with(|_| vec![("mine", personal()), ("shared", fake(&[]))])
}

/// Has a member give the value of `TOKEN`. Toolrack hides values of 6 bytes or more in results; servers can repeat
/// shorter ones.
pub(crate) fn give(team: &Team, token: &str, value: &str) {
    let body = json!({ "value": value }).to_string();
    let (status, answer) = team.ask("PUT", "/api/v1/me/credentials/TOKEN", token, &body);
    assert_eq!((status, &*answer), (204, ""));
}

/// Returns what the member's own server answers when it is asked for one of its variables.
pub(crate) fn variable(team: &Team, token: &str, name: &str) -> String {
    team.call(token, "mcp__mine__env", &json!({ "name": name }).to_string())
}

fn credentials(team: &Team, token: &str) -> Value {
    let (status, body) = team.ask("GET", "/api/v1/me/credentials", token, "");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["credentials"].clone()
}

/// The state of the server `mine`, as its member sees it.
fn state(team: &Team, token: &str) -> String {
    let (_, body) = team.ask("GET", "/api/v1/servers/mine", token, "");
    serde_json::from_str::<Value>(&body).unwrap()["state"].as_str().unwrap().to_owned()
}

/// Waits until the member's own server has connected.
pub(crate) fn begins(team: &Team, token: &str) {
    let started = Instant::now();
    while state(team, token) != "connected" {
        assert!(started.elapsed() < SOON, "{}", state(team, token));
    }
}

/// Waits until the member's own server has failed to start, because it has no value.
fn fails(team: &Team, token: &str) {
    let started = Instant::now();
    while !matches!(&*state(team, token), "failed" | "reconnecting") {
        assert!(started.elapsed() < SOON, "{}", state(team, token));
    }
}

#[test]
fn each_member_has_their_own_servers_beside_those_that_all_share() {
    let team = team();
    let members = [("ann", "acme", "ann-1"), ("bob", "acme", "bob-2"), ("eve", "bolt", "eve-3")];
    let members = members.map(|(name, tenant, value)| (team.token(name, tenant, "user").0, value));
    for (token, value) in &members {
        give(&team, token, value);
        begins(&team, token);
    }
    let mut homes = Vec::new();
    for (token, value) in &members {
        let own = variable(&team, token, "TOKEN");
        assert!(own.contains(value), "{own}");
        assert!(members.iter().all(|(_, other)| other == value || !own.contains(other)), "{own}");
        let echoed = team.call(token, "mcp__shared__echo", r#"{"text":"for all"}"#);
        assert!(echoed.contains("for all"), "{echoed}");
        homes.push(variable(&team, token, "HOME"));
    }
    assert!(team.rack.home.root().join("team/tenants/acme/people").exists());
    homes.sort();
    homes.dedup();
    assert_eq!(homes.len(), 3, "{homes:?}");
}

#[test]
fn a_member_starts_and_stops_their_own_servers_and_no_shared_one() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "acme", "user");
    for (token, value) in [(&ann, "ann-1"), (&bob, "bob-2")] {
        give(&team, token, value);
        begins(&team, token);
    }
    let post = |token: &str, server: &str, verb: &str| {
        team.ask("POST", &format!("/api/v1/servers/{server}/{verb}"), token, "")
    };
    let (status, stopped) = post(&ann, "mine", "disconnect");
    let stopped: Value = serde_json::from_str(&stopped).unwrap();
    assert_eq!((status, &stopped["state"], &stopped["own"]), (202, &json!("disconnected"), &json!(true)), "{stopped}");
    assert_eq!(state(&team, &bob), "connected", "the server of another member still runs");
    assert_eq!(post(&ann, "mine", "reconnect").0, 202);
    begins(&team, &ann);
    let named = team.ask("POST", "/api/agents/mcp/reconnect", &ann, r#"{"server":"mine"}"#);
    assert_eq!(named.0, 202, "{}", named.1);
    for verb in ["connect", "disconnect", "reconnect"] {
        let (status, refused) = post(&ann, "shared", verb);
        assert!(status == 403 && refused.contains("NO_RIGHT"), "{status} {refused}");
    }
    let named = team.ask("POST", "/api/agents/mcp/reconnect", &ann, r#"{"server":"shared"}"#);
    assert_eq!(named.0, 403, "{}", named.1);
    let (viewer, _) = team.token("vic", "acme", "viewer");
    assert_eq!(post(&viewer, "mine", "connect").0, 403, "a viewer may only look");
}

#[test]
fn an_operator_with_servers_of_their_own_sees_that_a_shared_one_is_disconnected_and_connects_it_by_its_name() {
    let team = team();
    let (olga, _) = team.token("olga", "acme", "operator");
    let until = |wanted: &str| {
        let started = Instant::now();
        loop {
            let (_, body) = team.ask("GET", "/api/v1/servers/shared", &olga, "");
            let shared: Value = serde_json::from_str(&body).unwrap();
            if shared["state"] == wanted {
                break;
            }
            assert!(started.elapsed() < SOON, "not {wanted}: {shared}");
        }
    };
    until("connected");
    assert_eq!(team.status("POST", "/api/v1/servers/shared/disconnect", &olga), 202);
    until("disconnected");
    let named = team.ask("POST", "/api/agents/mcp/reconnect", &olga, r#"{"server":"shared"}"#);
    assert_eq!(named.0, 202, "{}", named.1);
    until("connected");
}

#[test]
fn an_operator_with_servers_of_their_own_sees_the_sign_in_that_they_began_at_a_shared_server() {
    let team = Team::with(|_| vec![("mine", personal()), ("web", json!({ "url": "http://127.0.0.1:1/mcp" }))]);
    let (olga, _) = team.token("olga", "acme", "operator");
    let sign_in = |method| team.ask(method, "/api/v1/servers/web/sign-in", &olga, "");
    assert_eq!(sign_in("GET").0, 404);
    let (status, refused) = sign_in("POST");
    assert_eq!(status, 502, "nothing listens there: {refused}");
    let (status, shown) = sign_in("GET");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((status, &shown["state"]), (200, &json!("failed")), "{shown}");
}

#[test]
fn a_member_s_value_is_visible_to_no_other_member_and_in_no_response() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "acme", "admin");
    let canary = "canary-of-ann-5f0e9c1d";
    give(&team, &ann, canary);
    begins(&team, &ann);
    let _ = variable(&team, &ann, "TOKEN");
    assert_eq!(
        credentials(&team, &bob),
        json!([{"name": "TOKEN", "servers": ["mine"], "given": false, "given_at": null}])
    );
    assert_eq!(team.status("DELETE", "/api/v1/me/credentials/TOKEN", &bob), 404);
    let own = credentials(&team, &ann);
    assert_eq!((&own[0]["given"], &own[0]["servers"]), (&json!(true), &json!(["mine"])));
    // Ann's server repeats the value, but neither ann nor an operator sees it anywhere.
    let places = ["/api/v1/me/credentials", "/api/v1/servers", "/api/v1/audit", "/api/v1/config", "/metrics"];
    let read = places.map(|place| team.ask("GET", place, &bob, "").1 + &team.ask("GET", place, &ann, "").1);
    assert!(!read.concat().contains(canary));
    assert!(!variable(&team, &ann, "TOKEN").contains(canary));
    // The server of another member does not get the value, so it does not start.
    fails(&team, &bob);
    for file in files_below(&team.rack.home.root().join("team")) {
        let content = fs::read(&file).unwrap_or_default();
        assert!(!content.windows(canary.len()).any(|part| part == canary.as_bytes()), "{}", file.display());
    }
}

pub(crate) fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_server_gets_a_changed_value_at_once_and_no_longer_a_deleted_one() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    give(&team, &ann, "ann-1");
    begins(&team, &ann);
    give(&team, &ann, "ann-2");
    let started = Instant::now();
    while !variable(&team, &ann, "TOKEN").contains("ann-2") {
        assert!(started.elapsed() < SOON);
    }
    assert_eq!(team.status("DELETE", "/api/v1/me/credentials/TOKEN", &ann), 204);
    fails(&team, &ann);
    assert!(!variable(&team, &ann, "TOKEN").contains("ann-2"));
    assert_eq!(credentials(&team, &ann)[0]["given"], json!(false));
}

#[test]
fn the_audit_log_says_who_gave_and_deleted_which_name() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "admin");
    give(&team, &ann, "ann-1");
    assert_eq!(team.status("DELETE", "/api/v1/me/credentials/TOKEN", &ann), 204);
    let (_, body) = team.ask("GET", "/api/v1/audit", &ann, "");
    let body: Value = serde_json::from_str(&body).unwrap();
    let rows = body["rows"].as_array().unwrap();
    for kind in ["credential_given", "credential_removed"] {
        let row = rows.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("{rows:?}"));
        let who = (&row["credential"], &row["tenant"], &row["subject"]);
        assert_eq!(who, (&json!("TOKEN"), &json!("acme"), &json!("ann")), "{row}");
    }
}

#[test]
fn only_names_that_a_server_needs_are_kept_and_only_for_those_who_may_use_servers() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (viewer, _) = team.token("viewer", "acme", "viewer");
    let put =
        |token: &str, name: &str, body: &str| team.ask("PUT", &format!("/api/v1/me/credentials/{name}"), token, body);
    assert_eq!(put(&viewer, "TOKEN", r#"{"value":"x"}"#).0, 403);
    assert_eq!(put(&ann, "OTHER", r#"{"value":"x"}"#).0, 404);
    for value in ["", "a\0b", &"x".repeat(64 * 1024 + 1)] {
        assert_eq!(put(&ann, "TOKEN", &json!({ "value": value }).to_string()).0, 422, "{value:.9}");
    }
    assert_eq!(put(&ann, "TOKEN", r#"{"other":"x"}"#).0, 400);
    // The user of the machine has another world, in which no server needs a value.
    assert_eq!(put(&team.daemon.token.clone(), "TOKEN", r#"{"value":"x"}"#).0, 404);
}

#[test]
fn a_server_over_http_gets_the_value_of_the_member_in_its_headers() {
    let server = FakeHttp::start::<&str>(&[]);
    let url = server.url().to_owned();
    let entry = json!({ "url": url, "headers": { "X-Member": "${user:TOKEN}" } });
    let team = Team::with(|_| vec![("mine", entry.clone())]);
    for (name, value) in [("ann", "ann-1"), ("bob", "bob-2")] {
        let (token, _) = team.token(name, "acme", "user");
        give(&team, &token, value);
        begins(&team, &token);
        let headers = team.call(&token, "mcp__mine__headers", "{}");
        assert!(headers.contains(value), "{headers}");
    }
}

#[test]
fn without_a_server_for_each_member_no_member_has_a_world() {
    let team = Team::with(|_| vec![("shared", fake(&[]))]);
    let (ann, _) = team.token("ann", "acme", "user");
    let echoed = team.call(&ann, "mcp__shared__echo", r#"{"text":"for all"}"#);
    assert!(echoed.contains("for all"), "{echoed}");
    assert_eq!(credentials(&team, &ann), json!([]));
    assert!(!team.rack.home.root().join("team/tenants/acme/people").exists());
}

#[test]
fn a_changed_configuration_reaches_the_worlds_of_members() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    give(&team, &ann, "ann-1");
    begins(&team, &ann);
    let file = team.rack.home.root().join("team/tenants/acme/mcp.json");
    let mut own = fake(&[]);
    own["share"] = json!("user");
    fs::write(file, crate::rack::mcp_json(&[("other", own), ("later", fake(&[]))])).unwrap();
    let started = Instant::now();
    let names = |token: &str| team.ask("GET", "/api/v1/servers", token, "").1;
    while !names(&ann).contains("\"name\":\"other\"") || names(&ann).contains("\"name\":\"mine\"") {
        assert!(started.elapsed() < SOON, "{}", names(&ann));
    }
    let echoed = team.call(&ann, "mcp__other__echo", r#"{"text":"x1"}"#)
        + &team.call(&ann, "mcp__later__echo", r#"{"text":"x2"}"#);
    assert!(echoed.contains("x1") && echoed.contains("x2"), "{echoed}");
    // A value that no server needs any more can still be deleted.
    let kept = credentials(&team, &ann);
    assert_eq!((&kept[0]["name"], &kept[0]["servers"]), (&json!("TOKEN"), &json!([])));
    let file = team.rack.home.root().join("team/tenants/acme/mcp.json");
    fs::write(file, crate::rack::mcp_json(&[("later", fake(&[]))])).unwrap();
    let started = Instant::now();
    while names(&ann).contains("\"name\":\"other\"") {
        assert!(started.elapsed() < SOON, "{}", names(&ann));
    }
    assert_eq!(credentials(&team, &ann)[0]["name"], "TOKEN");
    assert_eq!(team.status("DELETE", "/api/v1/me/credentials/TOKEN", &ann), 204);
    assert_eq!(credentials(&team, &ann), json!([]));
}

#[test]
fn for_a_single_user_a_user_value_is_a_stored_secret() {
    let rack = Rack::with(&[("mine", personal())]);
    let missing = rack.run(&["call", "mine/env", "--args", r#"{"name":"TOKEN"}"#]);
    assert!(missing.stderr.contains("toolrack secret set TOKEN"), "{missing}");
    let _ = rack.run_with_stdin(&["secret", "set", "TOKEN"], "own-1").ends_with(0);
    let read = rack.run(&["call", "mine/env", "--args", r#"{"name":"TOKEN"}"#]).ends_with(0);
    assert!(read.stdout.contains("own-1"), "{read}");
}

#[test]
fn an_entry_that_needs_a_member_s_value_cannot_be_shared_with_the_tenant() {
    let mut shared = personal();
    shared["share"] = json!("tenant");
    let rack = Rack::with(&[("mine", shared)]);
    let refused = rack.run(&["config", "validate"]);
    assert!(
        format!("{}{}", refused.stdout, refused.stderr).contains("each member gives a value of their own"),
        "{refused}"
    );
}

#[test]
fn an_operator_who_is_asked_about_a_call_of_another_member_does_not_see_their_value() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "acme", "operator");
    let canary = "canary-of-ann-5f0e9c1d";
    give(&team, &ann, canary);
    begins(&team, &ann);
    // A model that has seen the value sends it to another server: an operator has to approve that.
    let call = json!({ "tool": "shared/echo", "arguments": { "text": format!("it is {canary}") } }).to_string();
    let mut under_way = team.send("POST", "/api/v1/calls", &ann, &call);
    let started = Instant::now();
    let open = |token: &str| {
        let (_, body) = team.ask("GET", "/api/v1/approvals", token, "");
        serde_json::from_str::<Value>(&body).unwrap()["approvals"].as_array().unwrap().clone()
    };
    while open(&bob).is_empty() {
        assert!(started.elapsed() < SOON, "no question");
    }
    let question = open(&bob).remove(0);
    assert_eq!((&question["server"], &question["caller"]["subject"]), (&json!("shared"), &json!("ann")));
    assert!(!question.to_string().contains("5f0e9c1d"), "{question}");
    // The call is sent unchanged.
    let id = question["id"].as_str().unwrap();
    let (status, refused) = team.ask("POST", &format!("/api/v1/approvals/{id}"), &bob, r#"{"answer":"once"}"#);
    assert!(status < 300, "{refused}");
    let mut answer = String::new();
    under_way.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("it is ***"), "{answer}");
}

/// A client of 2025-11-25 that writes HTTP itself.
#[derive(Clone)]
pub(crate) struct Client<'t> {
    team: &'t Team,
    token: String,
    session: String,
}

/// The messages of an answer, in the order in which they come.
pub(crate) struct Messages(BufReader<TcpStream>);

impl Messages {
    /// The next one; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            let text = line.trim();
            let text = text.strip_prefix("data:").unwrap_or(text).trim();
            if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                return Some(message);
            }
            line.clear();
        }
        None
    }

    /// Returns the next request or notification of this method; without a method, the next answer.
    pub(crate) fn until(&mut self, method: Option<&str>) -> Value {
        loop {
            let message = self.next().expect("a message");
            if message["method"].as_str() == method {
                return message;
            }
        }
    }
}

impl<'t> Client<'t> {
    pub(crate) fn connect(team: &'t Team, token: &str, capabilities: Value) -> Self {
        let mut client = Self { team, token: token.to_owned(), session: String::new() };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
        let mut answer = String::new();
        client.sent("POST", &body).read_to_string(&mut answer).unwrap();
        let head = answer.split("\r\n\r\n").next().unwrap();
        let session =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
        client.session = session.unwrap_or_else(|| panic!("{answer}"));
        let _ = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).next();
        client
    }

    /// Returns a client with another token, in the same session: it has learned the session's id.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// Returns the same client as it reaches the team through another replica.
    pub(crate) fn through<'o>(&self, team: &'o Team) -> Client<'o> {
        Client { team, token: self.token.clone(), session: self.session.clone() }
    }

    /// Sends a request in the session.
    pub(crate) fn sent(&self, method: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.team.daemon.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let session =
            if self.session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {}\r\n", self.session) };
        write!(
            stream,
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{session}\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            self.team.daemon.address,
            self.token,
            body.len()
        )
        .unwrap();
        stream
    }

    fn post(&self, message: &Value) -> Messages {
        Messages(BufReader::new(self.sent("POST", &message.to_string())))
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Messages {
        let params = json!({ "name": tool, "arguments": arguments });
        self.post(&json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }))
    }

    /// Answers a question of the gateway.
    pub(crate) fn answer(&self, question: &Value, action: &str) {
        self.answer_with(question, &json!({ "action": action }));
    }

    pub(crate) fn answer_with(&self, question: &Value, result: &Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
        assert_eq!(self.post(&answer).next(), None);
    }

    fn tools(&self) -> Vec<String> {
        let list = self.post(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/list" })).until(None);
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The capabilities of a client that can open pages.
fn with_pages() -> Value {
    json!({ "elicitation": { "url": {} } })
}

#[test]
fn a_call_that_lacks_a_value_names_the_page_and_continues_once_the_value_is_given() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let client = Client::connect(&team, &ann, with_pages());
    // The server's tools are not known yet; the tool for missing values leads to the page.
    assert_eq!(client.tools()[0], "give_credentials");
    let mut call = client.call("mcp__mine__env", &json!({ "name": "TOKEN" }));
    let question = call.until(Some("elicitation/create"));
    assert_eq!(question["params"]["mode"], "url");
    assert_eq!(question["params"]["url"], "http://127.0.0.1:1/#/credentials/TOKEN");
    client.answer(&question, "accept");
    give(&team, &ann, "ann-1");
    let completed = call.until(Some("notifications/elicitation/complete"));
    assert_eq!(completed["params"]["elicitationId"], question["params"]["elicitationId"]);
    let answer = call.until(None);
    assert_eq!(answer["result"]["content"][0]["text"], r#""ann-1""#, "{answer}");
    assert!(!client.tools().contains(&"give_credentials".to_owned()));
    // After the value is deleted, the server asks again; the client knows its tools by now.
    assert_eq!(team.status("DELETE", "/api/v1/me/credentials/TOKEN", &ann), 204);
    let mut call = client.call("mcp__mine__env", &json!({ "name": "TOKEN" }));
    let question = call.until(Some("elicitation/create"));
    // Giving the value on the page counts as an answer, even without a reply to the client.
    give(&team, &ann, "ann-2");
    let answer = call.until(None);
    assert_eq!(answer["result"]["content"][0]["text"], r#""ann-2""#, "{question} {answer}");
}

#[test]
fn a_user_who_declines_to_give_a_value_ends_the_call() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let client = Client::connect(&team, &ann, with_pages());
    let mut call = client.call("give_credentials", &json!({}));
    let question = call.until(Some("elicitation/create"));
    client.answer(&question, "decline");
    let answer = call.until(None);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(answer["result"]["isError"] == true && text.contains("declined"), "{answer}");
    let mut call = client.call("give_credentials", &json!({}));
    let question = call.until(Some("elicitation/create"));
    client.answer(&question, "accept");
    give(&team, &ann, "ann-1");
    let answer = call.until(None);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("`mine`"), "{answer}");
}

#[test]
fn a_client_that_opens_no_pages_gets_the_address_of_the_page() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let client = Client::connect(&team, &ann, json!({}));
    let answer = client.call("mcp__mine__env", &json!({ "name": "TOKEN" })).until(None);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("http://127.0.0.1:1/#/credentials/TOKEN"), "{answer}");
    // Servers that need no value can be used.
    let echoed = client.call("mcp__shared__echo", &json!({ "text": "x" })).until(None);
    assert_eq!(echoed["result"]["content"][0]["text"], "x");
}

#[test]
fn a_client_of_2026_07_28_is_led_to_the_page_in_the_answer_and_comes_back() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let call = |more: Value| {
        let mut params = json!({
            "name": "mcp__mine__env",
            "arguments": { "name": "TOKEN" },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": with_pages(),
            },
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let mut stream = TcpStream::connect(&team.daemon.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ann}\r\nConnection: close\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp__mine__env\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            team.daemon.address,
            body.len()
        )
        .unwrap();
        Messages(BufReader::new(stream)).until(None)
    };
    let asked = call(json!({}));
    let (key, question) =
        asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}")).iter().next().unwrap();
    assert_eq!(question["params"]["url"], "http://127.0.0.1:1/#/credentials/TOKEN", "{asked}");
    give(&team, &ann, "ann-1");
    let answered = call(json!({
        "requestState": asked["result"]["requestState"],
        "inputResponses": { key: { "action": "accept" } },
    }));
    assert_eq!(answered["result"]["content"][0]["text"], r#""ann-1""#, "{answered}");
}
