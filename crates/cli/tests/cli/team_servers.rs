//! Servers that members of a team add for themselves.

use std::{fs, path::Path, time::Instant};

use serde_json::{Value, json};
use toolrack_testkit::FakeHttp;

use crate::{
    rack::fake,
    team::{SOON, Team},
    team_person::files_below,
};

/// A team whose members may add two servers, also on this machine.
fn team() -> Team {
    Team::with_tenant("own_servers = { most = 2, allow = [\"127.0.0.1\"] }", |tenant| vec![(tenant, fake(&[]))])
}

fn holds(file: &Path, text: &[u8]) -> bool {
    fs::read(file).unwrap_or_default().windows(text.len()).any(|part| part == text)
}

fn add(team: &Team, token: &str, name: &str, server: &Value) -> (u16, String) {
    team.ask("PUT", &format!("/api/v1/me/servers/{name}"), token, &server.to_string())
}

fn names(team: &Team, token: &str) -> Vec<String> {
    let (status, body) = team.ask("GET", "/api/v1/servers", token, "");
    assert_eq!(status, 200, "{body}");
    let servers = serde_json::from_str::<Value>(&body).unwrap()["servers"].as_array().unwrap().clone();
    servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_member_s_own_server_is_theirs_alone_and_gets_their_value() {
    let http = FakeHttp::start::<&str>(&[]);
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "acme", "admin");
    let server = json!({ "url": http.url(), "headers": { "X-Token": "${user:MINE}" } });
    assert_eq!(add(&team, &ann, "mine", &server), (204, String::new()));
    let value = json!({ "value": "ann-1" }).to_string();
    assert_eq!(team.ask("PUT", "/api/v1/me/credentials/MINE", &ann, &value).0, 204);
    let started = Instant::now();
    let is_connected = || team.ask("GET", "/api/v1/servers/mine", &ann, "").1.contains(r#""state":"connected""#);
    while !is_connected() {
        assert!(started.elapsed() < SOON, "it does not connect");
    }
    let echoed = team.call(&ann, "mcp__mine__echo", r#"{"text":"to my own server"}"#);
    assert!(echoed.contains("to my own server"), "{echoed}");
    // The value is shorter than what Toolrack hides in results.
    let headers = team.call(&ann, "mcp__mine__headers", "{}");
    assert!(headers.contains("ann-1"), "{headers}");
    let shared = team.call(&ann, "mcp__acme__echo", r#"{"text":"to that of all"}"#);
    assert!(shared.contains("to that of all"), "{shared}");

    assert_eq!(names(&team, &ann), ["acme", "mine"]);
    assert_eq!(names(&team, &bob), ["acme"]);
    let other = team.call(&bob, "mcp__mine__echo", r#"{"text":"x"}"#);
    assert!(other.contains("no tool"), "{other}");
    let (_, listed) = team.ask("GET", "/api/v1/me/servers", &ann, "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        listed,
        json!({ "most": 2, "servers": [{ "name": "mine", "url": http.url(), "headers": ["X-Token"] }] })
    );

    assert_eq!(team.status("DELETE", "/api/v1/me/servers/mine", &bob), 404);
    assert_eq!(team.status("DELETE", "/api/v1/me/servers/mine", &ann), 204);
    assert_eq!(names(&team, &ann), ["acme"]);
    let audit = team.ask("GET", "/api/v1/audit", &bob, "").1;
    assert!(audit.contains("own_server_added") && audit.contains("own_server_removed"), "{audit}");
}

#[test]
fn a_member_adds_nothing_that_is_the_tenants_or_leads_into_its_network() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let at = |url: &str| json!({ "url": url });
    for (name, server, status, says) in [
        ("mine", at("http://10.1.2.3/mcp"), 422, "own_servers"),
        ("mine", at("https://169.254.169.254/latest"), 422, "own_servers"),
        ("mine", at("http://mcp.example/mcp"), 422, "own_servers"),
        ("mine", at("file:///etc/passwd"), 422, "url"),
        ("mine", json!({ "url": "https://a.example", "headers": { "A": "${secret:TENANT}" } }), 422, "no placeholder"),
        ("mine", json!({ "url": "https://a.example", "headers": { "A": "$HOME" } }), 422, "no placeholder"),
        ("mine", json!({ "command": "sh", "args": ["-c", "id"] }), 400, "command"),
        ("mine", json!({ "url": "https://a.example", "headers_helper": { "command": "id" } }), 400, "headers_helper"),
        ("acme", at("https://a.example"), 409, "has a server `acme` already"),
        ("a/b", at("https://a.example"), 404, ""),
    ] {
        let (got, body) = add(&team, &ann, name, &server);
        assert!(got == status && body.contains(says), "{server}: {got} {body}");
    }
    for name in ["one", "two"] {
        assert_eq!(add(&team, &ann, name, &at("http://127.0.0.1:9/mcp")).0, 204);
    }
    let (status, body) = add(&team, &ann, "three", &at("http://127.0.0.1:9/mcp"));
    assert!(status == 409 && body.contains("2 servers of your own"), "{body}");
    // A viewer may not add servers, and no member may in a tenant without the setting.
    let (eve, _) = team.token("eve", "acme", "viewer");
    assert_eq!(add(&team, &eve, "mine", &at("https://a.example")).0, 403);
    let (zoe, _) = team.token("zoe", "bolt", "admin");
    assert_eq!(add(&team, &zoe, "mine", &at("https://a.example")).0, 404);
}

#[test]
fn servers_of_a_removed_member_are_deleted_and_headers_are_sealed() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let server =
        json!({ "url": "http://127.0.0.1:9/mcp", "headers": { "Authorization": "Bearer canary-of-a-header" } });
    assert_eq!(add(&team, &ann, "mine", &server).0, 204);
    let home = team.rack.home.root().join("team/tenants/acme");
    assert!(!files_below(&home).iter().any(|file| holds(file, b"canary-of-a-header")));
    let _ = team.rack.run(&["team", "remove", "ann"]).ends_with(0);
    let (again, _) = team.token("ann", "acme", "user");
    assert_eq!(names(&team, &again), ["acme"]);
}
