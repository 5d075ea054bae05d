//! Quotas of a team, through all doors of the real program.

use std::{fs, time::Instant};

use serde_json::{Value, json};

use crate::{
    rack::Rack,
    team::{SOON, Team, called},
};

/// The JSON of an answer, which may be the first event of a stream.
fn parsed(body: &str) -> Value {
    let body = body.split_once("data: ").map_or(body, |(_, event)| event.lines().next().unwrap_or_default());
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Makes the server of `tenant` repeat a long text, over the API; returns whether the call was allowed.
fn echo(team: &Team, token: &str, tenant: &str) -> (bool, String) {
    let call = json!({ "tool": format!("{tenant}/echo"), "arguments": { "text": "long ".repeat(100) } });
    // The answer is a stream, whose status is 200.
    let (_, body) = team.ask("POST", "/api/v1/calls", token, &call.to_string());
    (body.contains("long long"), body)
}

fn read(team: &Team, token: &str, tenant: &str) -> (u16, String) {
    let path = format!("/api/v1/servers/{tenant}/resources/read");
    team.ask("POST", &path, token, &json!({ "uri": "fake://note" }).to_string())
}

/// The quotas that a member sees: holder, name, quota and use.
fn seen(team: &Team, token: &str) -> Vec<(String, Option<String>, String, u64)> {
    let (status, body) = team.ask("GET", "/api/v1/quotas", token, "");
    assert_eq!(status, 200, "{body}");
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let quotas = parsed(&body)["quotas"].as_array().unwrap().clone();
    let quota = |quota: &Value| {
        let used = quota["used"].as_u64().unwrap();
        (word(&quota["of"]).unwrap(), word(&quota["name"]), word(&quota["setting"]).unwrap(), used)
    };
    quotas.iter().map(quota).collect()
}

fn team_quotas(rack: &Rack) -> Value {
    let path = rack.home.root().join("team/team.toml");
    rack.run(&["team", "quotas", "--team", path.to_str().unwrap(), "--json"]).ends_with(0).json()
}

#[test]
fn the_quota_of_result_bytes_is_per_member_and_survives_a_restart() {
    let team = Team::with_limits("each_member = { result_bytes_per_month = 400 }");
    let (ann, _) = team.token("ann", "acme", "user");
    let (olga, _) = team.token("olga", "acme", "operator");
    let (bob, _) = team.token("bob", "bolt", "user");
    assert_eq!(read(&team, &ann, "acme").0, 200, "what is left allows it");
    // A running call is never cut, so its result can be larger than what is left.
    let (is_made, body) = echo(&team, &ann, "acme");
    assert!(is_made, "{body}");
    let (status, read_refused) = read(&team, &ann, "acme");
    assert_eq!(status, 429, "{read_refused}");
    let (is_made, call_refused) = echo(&team, &ann, "acme");
    assert!(!is_made, "{call_refused}");
    for body in [read_refused, call_refused] {
        let error = &parsed(&body)["error"];
        assert_eq!(error["code"], "OVER_QUOTA");
        let quota = &error["quota"];
        assert_eq!(quota["setting"], "limits.each_member.result_bytes_per_month", "{body}");
        assert_eq!(
            (&quota["quantity"], &quota["window"], &quota["limit"]),
            (&json!("result_bytes"), &json!("month"), &json!(400))
        );
        assert!(quota["used"].as_u64().unwrap() > 500 && quota["retry_after_seconds"].as_u64().unwrap() > 0, "{quota}");
    }
    assert!(echo(&team, &olga, "acme").0, "another member has bytes of their own");
    for _ in 0..3 {
        assert!(echo(&team, &bob, "bolt").0, "another tenant has no such quota");
    }
    let of_ann = seen(&team, &ann);
    assert!(
        matches!(&of_ann[..], [(of, Some(name), _, used)] if of == "member" && name == "ann" && *used > 500),
        "{of_ann:?}"
    );
    assert_eq!(seen(&team, &olga)[1], of_ann[0], "an operator sees those of others");
    assert_eq!(seen(&team, &bob), []);

    let team = team.restarted();
    let (is_made, body) = echo(&team, &ann, "acme");
    assert!(!is_made && body.contains("OVER_QUOTA"), "{body}");
    let listed = team_quotas(&team.rack);
    let rows = listed["quotas"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "ann").unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((&row["tenant"], &row["used"], &row["limit"]), (&json!("acme"), &json!(of_ann[0].3), &json!(400)));
    assert!(row["free_at"].is_string(), "{row}");
    // A member who is made again after a removal starts with no use.
    let _ = team.rack.run(&["team", "remove", "ann"]).ends_with(0);
    let until = Instant::now() + SOON;
    let has_ann = |listed: &Value| listed["quotas"].as_array().unwrap().iter().any(|row| row["name"] == "ann");
    while has_ann(&team_quotas(&team.rack)) {
        assert!(Instant::now() < until, "what a removed member used is kept");
    }
    let team = team.restarted();
    let (ann, _) = team.token("ann", "acme", "user");
    let (is_made, body) = echo(&team, &ann, "acme");
    assert!(is_made, "{body}");
}

#[test]
fn a_refused_read_is_a_row_of_the_audit_log() {
    let team = Team::with_limits("each_member = { result_bytes_per_day = 1 }");
    let (olga, _) = team.token("olga", "acme", "admin");
    assert_eq!(read(&team, &olga, "acme").0, 200);
    assert_eq!(read(&team, &olga, "acme").0, 429);
    let until = Instant::now() + SOON;
    let row = loop {
        let rows = parsed(&team.ask("GET", "/api/v1/audit", &olga, "").1);
        let rows = rows["rows"].as_array().unwrap().clone();
        if let Some(row) = rows.into_iter().find(|row| row["kind"] == "over_quota") {
            break row;
        }
        assert!(Instant::now() < until, "the refusal has no row of the audit log");
    };
    assert_eq!((&row["subject"], &row["server"], &row["code"]), (&json!("olga"), &json!("acme"), &json!("OVER_QUOTA")));
    assert!(row["why"].as_str().unwrap().contains("receive 1 byte of results in a day"), "{row}");
}

#[test]
fn the_clients_of_a_profile_share_its_quota_and_the_refusal_of_mcp_says_which() {
    let team = Team::with_limits("");
    let (ann, _) = team.token("ann", "acme", "operator");
    let home = team.rack.home.root().join("team/tenants/acme");
    let profile = "[[profiles]]\nname = \"few\"\ntools = \"env/env\"\nlimits = { calls_per_day = 2 }\n";
    fs::write(home.join("toolrack.toml"), profile).unwrap();
    assert_eq!(team.status("POST", "/api/v1/config/reload", &ann), 204);
    for _ in 0..2 {
        let (status, answer) = called(&team, &ann, "/p/few/mcp");
        assert!(status == 200 && answer.contains("canary-of-acme"), "{answer}");
    }
    let (status, answer) = called(&team, &ann, "/p/few/mcp");
    assert!(status == 429 && answer.contains("retry-after: "), "{answer}");
    assert!(answer.contains("all clients together of the profile `few` may make 2 calls in a day"), "{answer}");
    assert!(
        answer.contains("\"quota\":\"profiles.limits.calls_per_day\"") && answer.contains("\"used\":2,\"limit\":2"),
        "{answer}"
    );
    assert_eq!(called(&team, &ann, "/mcp").0, 200, "outside of the profile");
    let profile = ("profile".to_owned(), Some("few".to_owned()), "profiles.limits.calls_per_day".to_owned(), 2);
    assert_eq!(seen(&team, &ann), [profile]);
    let (_, metrics) = team.ask("GET", "/metrics", &ann, "");
    assert!(metrics.contains("toolrack_quota_used{profile=\"few\",quota=\"calls_per_day\"} 2"), "{metrics}");
}

/// Runs a turn of `acme` with this script, and returns the status and the events of the turn.
fn turn(team: &Team, token: &str, script: &Value) -> (u16, String) {
    fs::write(team.rack.home.root().join("team/tenants/acme/script.json"), script.to_string()).unwrap();
    team.ask("POST", "/api/v1/turns", token, &json!({ "text": "Add them." }).to_string())
}

#[test]
fn a_turn_stops_before_the_next_request_to_the_model_once_its_tokens_are_used_up() {
    let team = Team::with_limits("each_member = { tokens_per_day = 100 }");
    let home = team.rack.home.root().join("team/tenants/acme");
    let model = format!("[model]\nname = \"mock/{}\"\n", home.join("script.json").display());
    fs::write(home.join("toolrack.toml"), model).unwrap();
    let (olga, _) = team.token("olga", "acme", "user");
    let (otto, _) = team.token("otto", "acme", "user");
    let call = |tokens: u64| {
        let call = json!({ "name": "mcp__acme__add", "input": { "a": 2, "b": 3 } });
        json!({ "tool_calls": [call], "usage": { "input": tokens, "output": 1 } })
    };
    let script = json!([call(49), call(50), { "text": "never said" }]);
    let (status, events) = turn(&team, &olga, &script);
    assert_eq!(status, 200, "{events}");
    assert_eq!(events.matches("event: asked").count(), 2, "{events}");
    let error = events.split("event: error").nth(1).unwrap_or_else(|| panic!("{events}"));
    assert!(!events.contains("never said") && error.contains("OVER_QUOTA"), "{events}");
    assert!(error.contains("limits.each_member.tokens_per_day") && error.contains("\"used\":101"), "{error}");
    // The next turn does not begin.
    let (status, body) = turn(&team, &olga, &script);
    assert_eq!((status, &parsed(&body)["error"]["quota"]["used"]), (429, &json!(101)), "{body}");
    assert_eq!(turn(&team, &otto, &json!([{ "text": "said" }])).0, 200, "another member has tokens of their own");
    let of_olga = seen(&team, &olga);
    assert_eq!((of_olga[0].1.as_deref(), of_olga[0].3), (Some("olga"), 101), "{of_olga:?}");
}
