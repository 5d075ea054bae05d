//! Approvals in a team: who may answer which question, what an answer covers, and what the audit log says of it.

use std::{io::Read as _, net::TcpStream, time::Instant};

use serde_json::{Value, json};

use crate::{
    rack::fake,
    team::{SOON, Team},
    team_person::{Client, begins, give, personal},
};

const ASKS: &str = "[policy]\nconfirm = [\"shared/echo\", \"mine/*\"]\n";

/// A team with a server that all share, and one of each member's own. Calls of both need an approval.
fn team() -> Team {
    Team::with_settings(ASKS, |_| vec![("shared", fake(&[])), ("mine", personal())])
}

fn tokens<const N: usize>(team: &Team, members: [(&str, &str); N]) -> [String; N] {
    members.map(|(name, role)| team.token(name, "acme", role).0)
}

fn json_of(team: &Team, path: &str, token: &str) -> Value {
    serde_json::from_str(&team.ask("GET", path, token, "").1).unwrap()
}

/// The newest question that the member with this token may answer, once there is one.
pub(crate) fn question(team: &Team, token: &str) -> Value {
    let started = Instant::now();
    loop {
        let open = json_of(team, "/api/v1/approvals", token)["approvals"].as_array().unwrap().clone();
        match open.last() {
            Some(question) => return question.clone(),
            None => assert!(started.elapsed() < SOON, "no question"),
        }
    }
}

/// The status and the code of an answer to `question`.
pub(crate) fn answer(team: &Team, token: &str, question: &Value, answer: &Value) -> (u16, String) {
    let path = format!("/api/v1/approvals/{}", question["id"].as_str().unwrap());
    let (status, body) = team.ask("POST", &path, token, &answer.to_string());
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

pub(crate) fn call(team: &Team, token: &str, tool: &str, arguments: Value) -> TcpStream {
    let call = json!({ "tool": tool, "arguments": arguments }).to_string();
    team.send("POST", "/api/v1/calls", token, &call)
}

pub(crate) fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The members whose calls of `echo` run without a question, as the member with this token sees it.
pub(crate) fn standing(team: &Team, token: &str) -> Vec<String> {
    let answers = json_of(team, "/api/v1/answers", token)["answers"].as_array().unwrap().clone();
    let of_echo = answers.iter().filter(|answer| answer["tool"] == "echo");
    let mut members: Vec<_> = of_echo.map(|answer| answer["member"].as_str().unwrap_or("all").to_owned()).collect();
    members.sort();
    members
}

fn text() -> Value {
    json!({ "text": "hello" })
}

#[test]
fn a_standing_answer_of_a_member_covers_no_call_of_another_member() {
    // Because of `each`, the session of a client has a host of its own, which remembers the answers of its client.
    let mut each = fake(&[]);
    each["share"] = "session".into();
    let team = Team::with_settings(ASKS, |_| vec![("shared", fake(&[])), ("mine", personal()), ("each", each.clone())]);
    let [ann, bob, eve] = tokens(&team, [("ann", "user"), ("bob", "user"), ("eve", "operator")]);
    let clients = [&ann, &bob].map(|token| Client::connect(&team, token, json!({ "elicitation": {} })));
    for (client, decision) in clients.iter().zip(["always_server", "allow_session"]) {
        let mut call = client.call("mcp__shared__echo", &text());
        // Ann's answer before does not cover the call of Bob.
        let question = call.until(Some("elicitation/create"));
        client.answer_with(&question, &json!({ "action": "accept", "content": { "decision": decision } }));
        assert!(call.until(None)["result"]["content"][0]["text"].to_string().contains("hello"));
        let mut again = client.call("mcp__shared__echo", &text());
        assert!(again.next().unwrap()["result"].is_object(), "no question comes before the answer");
    }
    assert_eq!((standing(&team, &ann), standing(&team, &bob)), (vec!["ann".to_owned()], vec!["bob".to_owned()]));
    assert!(standing(&team, &eve).contains(&"ann".to_owned()));
    for (client, token) in clients.iter().zip([&ann, &bob]) {
        assert_eq!(team.status("DELETE", "/api/v1/answers", token), 200);
        assert!(standing(&team, token).is_empty(), "a member takes back their own, also those until the daemon ends");
        let mut call = client.call("mcp__shared__echo", &text());
        client.answer(&call.until(Some("elicitation/create")), "decline");
        assert_eq!(call.until(None)["result"]["isError"], true);
    }
}

#[test]
fn a_standing_answer_of_an_operator_covers_all_members_until_it_is_taken_back() {
    let team = Team::with_settings(ASKS, |_| vec![("shared", fake(&[]))]);
    let [ann, bob, eve] = tokens(&team, [("ann", "user"), ("bob", "user"), ("eve", "operator")]);
    for (word, covers) in [("session", "ann"), ("always_tool", "all")] {
        let under_way = call(&team, &ann, "shared/echo", text());
        assert_eq!(answer(&team, &eve, &question(&team, &eve), &json!({ "answer": word })).0, 204);
        assert!(rest(under_way).contains("hello"));
        assert_eq!(standing(&team, &eve), [covers], "{word}");
        if covers == "all" {
            assert!(rest(call(&team, &bob, "shared/echo", text())).contains("hello"));
            assert_eq!(standing(&team, &bob), ["all"]);
            assert_eq!(team.status("DELETE", "/api/v1/answers", &bob), 200);
            assert_eq!(standing(&team, &bob), ["all"], "a member takes back no answer that covers the calls of others");
        }
        assert_eq!(team.status("DELETE", "/api/v1/answers", &eve), 200);
        assert!(standing(&team, &eve).is_empty());
        let under_way = call(&team, &ann, "shared/echo", text());
        assert_eq!(answer(&team, &ann, &question(&team, &ann), &json!({ "answer": "deny" })).0, 204);
        assert!(rest(under_way).contains("DENIED"), "it is asked about again");
    }
}

#[test]
fn a_service_approves_no_call() {
    let team = team();
    let [eve] = tokens(&team, [("eve", "operator")]);
    let made =
        team.rack.run(&["team", "token", "bot", "--service", "--tenant", "acme", "--role", "operator", "--json"]);
    let bot = made.ends_with(0).json()["token"].as_str().unwrap().to_owned();
    let client = Client::connect(&team, &bot, json!({ "elicitation": {} }));
    let mut under_way = client.call("mcp__shared__echo", &text());
    let open_question = question(&team, &eve);
    for word in ["once", "always_server", "deny"] {
        assert_eq!(answer(&team, &bot, &open_question, &json!({ "answer": word })), (403, "NOT_A_PERSON".to_owned()));
    }
    assert_eq!(answer(&team, &eve, &open_question, &json!({ "answer": "once" })).0, 204);
    let first = under_way.next().unwrap();
    assert!(first["result"].is_object(), "the service's client was asked: {first}");
}

#[test]
fn an_operator_allows_or_denies_a_call_of_another_member_and_changes_nothing_in_it() {
    let team = team();
    let [ann, eve, joe] = tokens(&team, [("ann", "user"), ("eve", "operator"), ("joe", "auditor")]);
    give(&team, &ann, "ann-1");
    begins(&team, &ann);
    let under_way = call(&team, &ann, "mine/env", json!({ "name": "HOME" }));
    let open_question = question(&team, &eve);
    let other = json!({ "answer": "once", "arguments": { "name": "TOKEN" } });
    assert_eq!(answer(&team, &eve, &open_question, &other), (403, "NOT_THE_CALLER".to_owned()));
    assert_eq!(answer(&team, &eve, &open_question, &json!({ "answer": "once" })).0, 204);
    assert!(!rest(under_way).contains("ann-1"));
    // The row is that of the operator, and says whose call it was; that of the call says who decided.
    let started = Instant::now();
    let row = |kind: &str| {
        let rows = json_of(&team, "/api/v1/audit?server=mine", &joe)["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["kind"] == kind)
    };
    let (answered, called) = loop {
        match (row("answer"), row("call")) {
            (Some(answered), Some(called)) => break (answered, called),
            _ => assert!(started.elapsed() < SOON, "no row"),
        }
    };
    assert_eq!((&answered["subject"], &called["subject"]), (&json!("eve"), &json!("ann")));
    assert!(answered["why"].as_str().unwrap().ends_with("ann made the call"), "{answered}");
    assert!(called["why"].as_str().unwrap().ends_with("eve decided"), "{called}");
    // A member may change the arguments of their own call.
    let under_way = call(&team, &ann, "mine/env", json!({ "name": "HOME" }));
    assert_eq!(answer(&team, &ann, &question(&team, &ann), &other).0, 204);
    assert!(rest(under_way).contains("ann-1"));
}

#[test]
fn a_form_of_a_server_is_for_the_member_whose_call_it_is_alone() {
    let team = Team::with(|_| vec![("shared", fake(&[]))]);
    let [ann, eve] = tokens(&team, [("ann", "user"), ("eve", "admin")]);
    let under_way = call(&team, &ann, "shared/elicit", json!({}));
    let open_question = question(&team, &ann);
    assert_ne!(open_question["kind"], "approval", "{open_question}");
    let open = json_of(&team, "/api/v1/approvals", &eve)["approvals"].as_array().unwrap().clone();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(answer(&team, &eve, &open_question, &json!({ "answer": "accept", "content": {} })).0, 404);
    assert_eq!(answer(&team, &ann, &open_question, &json!({ "answer": "decline" })).0, 204);
    assert!(rest(under_way).contains("decline"));
}

#[test]
fn a_server_for_some_members_is_invisible_to_other_members() {
    let team = Team::with(|_| {
        let mut server = fake(&[]);
        server["for"] = json!(["group:dba"]);
        vec![("prod-db", server), ("shared", fake(&[]))]
    });
    for role in ["user", "operator"] {
        let (bob, _) = team.token("bob", "acme", role);
        let ask = |method: &str, path: &str, body: Value| {
            let path = format!("/api/v1/servers/prod-db{path}");
            team.ask(method, &path, &bob, &body.to_string()).0
        };
        assert_eq!(ask("POST", "/resources/read", json!({ "uri": "fake://note" })), 404, "{role}");
        assert_eq!(ask("POST", "/prompts/get", json!({ "name": "greet", "arguments": {} })), 404, "{role}");
        for verb in ["connect", "disconnect", "reconnect"] {
            assert_eq!(ask("POST", &format!("/{verb}"), json!({})), 404, "{role} {verb}");
        }
        for method in ["GET", "HEAD"] {
            assert_eq!(team.status(method, "/api/v1/servers/prod-db", &bob), 404, "{role} {method}");
        }
        let read = json!({ "uri": "fake://note" }).to_string();
        let read = team.ask("POST", "/api/v1/servers/shared/resources/read", &bob, &read);
        assert_ne!((read.0, read.1.contains("UNKNOWN_SERVER")), (404, true), "{role}: {}", read.1);
    }
}
