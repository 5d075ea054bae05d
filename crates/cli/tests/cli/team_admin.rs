//! The control API for a team: administrators manage the members of their own tenant, and each member manages their own
//! tokens.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    rack::fake,
    team::{SOON, Team},
};

/// A team whose tenants have one server.
pub(crate) fn team() -> Team {
    Team::with(|tenant| vec![(tenant, fake(&[]))])
}

pub(crate) fn get(team: &Team, path: &str, token: &str) -> Value {
    let (status, body) = team.ask("GET", path, token, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The status and the body of an answer that may be empty.
pub(crate) fn send(team: &Team, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let sent = if body.is_null() { String::new() } else { body.to_string() };
    let (status, body) = team.ask(method, path, token, &sent);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

fn members(team: &Team, token: &str) -> Vec<Value> {
    get(team, "/api/v1/members", token)["members"].as_array().unwrap().clone()
}

/// The address of a member, as an administrator finds it.
fn place(team: &Team, admin: &str, name: &str) -> String {
    let found = members(team, admin).into_iter().find(|member| member["name"] == name);
    format!("/api/v1/members/{}", found.unwrap()["id"].as_str().unwrap())
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "{what}");
    }
}

/// The rows of the audit log of the daemon's user, about members and tokens.
fn audit(team: &Team) -> Vec<Value> {
    let rows = team.rack.run(&["audit", "list", "--json"]).ends_with(0).json();
    rows["rows"].as_array().unwrap().clone()
}

#[test]
fn an_administrator_sees_and_changes_the_members_of_their_own_tenant_alone() {
    let team = team();
    let (ada, _) = team.token("ada", "acme", "admin");
    let (ann, ann_token) = team.token("ann", "acme", "user");
    let (bea, bea_token) = team.token("bea", "bolt", "admin");
    let listed = members(&team, &ada);
    let names: Vec<_> = listed.iter().map(|member| (&member["name"], &member["role"], &member["you"])).collect();
    assert_eq!(names, [(&json!("ada"), &json!("admin"), &json!(true)), (&json!("ann"), &json!("user"), &json!(false))]);
    assert_eq!(
        (&listed[1]["tokens"], &listed[1]["sessions"], &listed[1]["clients"]),
        (&json!(1), &json!(0), &json!(0))
    );

    // Something of another tenant is answered like something that does not exist.
    let (own, of_other, nowhere) =
        (place(&team, &ada, "ann"), place(&team, &bea, "bea"), "/api/v1/members/0000".to_owned());
    let of_none = |place: &str| {
        let role = json!({ "role": "viewer" });
        [
            ("PUT", place.to_owned(), role),
            ("DELETE", place.to_owned(), Value::Null),
            ("GET", format!("{place}/tokens"), Value::Null),
            ("DELETE", format!("{place}/tokens/{bea_token}"), Value::Null),
            ("GET", format!("{place}/clients"), Value::Null),
            ("DELETE", format!("{place}/clients/x"), Value::Null),
        ]
        .map(|(method, path, body)| send(&team, method, &path, &ada, &body))
    };
    assert_eq!(of_none(&of_other), of_none(&nowhere));
    assert!(of_none(&of_other).iter().all(|(status, _)| *status == 404), "{:?}", of_none(&of_other));
    assert_eq!(send(&team, "DELETE", &format!("{own}/tokens/{bea_token}"), &ada, &Value::Null).0, 404);
    assert_eq!(team.status("GET", "/api/v1/me", &bea), 200);

    // A changed role applies to the same token.
    assert_eq!(team.status("GET", "/api/v1/members", &ann), 403);
    assert_eq!(send(&team, "PUT", &own, &ada, &json!({ "role": "operator" })).0, 204);
    until("the role does not count", || get(&team, "/api/v1/me", &ann)["role"] == "operator");
    assert_eq!(send(&team, "PUT", &own, &ada, &json!({ "role": "king" })).0, 400);

    let tokens = get(&team, &format!("{own}/tokens"), &ada);
    assert_eq!(tokens["tokens"][0]["id"], ann_token.as_str());
    assert!(!tokens.to_string().contains(&ann));
    assert_eq!(send(&team, "DELETE", &format!("{own}/tokens/{ann_token}"), &ada, &Value::Null).0, 204);
    until("the token still counts", || team.status("GET", "/api/v1/me", &ann) == 401);

    assert_eq!(send(&team, "DELETE", &own, &ada, &Value::Null).0, 204);
    assert_eq!(members(&team, &ada).len(), 1);
    let rows = audit(&team);
    let by_ada: Vec<_> = rows.iter().filter(|row| row["name"] == "ada").map(|row| &row["kind"]).collect();
    assert_eq!(by_ada, ["member_changed", "token_revoked", "member_removed"], "{rows:?}");
}

#[test]
fn the_last_administrator_of_a_tenant_stays_one() {
    let team = team();
    let (ada, _) = team.token("ada", "acme", "admin");
    let _ = team.token("bea", "bolt", "admin");
    let own = place(&team, &ada, "ada");
    for (method, body) in [("DELETE", Value::Null), ("PUT", json!({ "role": "user" }))] {
        let (status, error) = send(&team, method, &own, &ada, &body);
        assert_eq!((status, &error["error"]["code"]), (409, &json!("LAST_ADMIN")), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("only administrator"), "{error}");
    }
    let _ = team.token("ann", "acme", "admin");
    assert_eq!(send(&team, "DELETE", &own, &ada, &Value::Null).0, 204);
    until("the removed member is still in", || team.status("GET", "/api/v1/me", &ada) == 401);
}

#[test]
fn a_member_sees_makes_and_revokes_only_their_own_tokens() {
    let team = team();
    let (ann, ann_token) = team.token("ann", "acme", "user");
    let (_, bob_token) = team.token("bob", "acme", "user");
    let make = |token: &str, body: Value| send(&team, "POST", "/api/v1/me/tokens", token, &body);
    let (status, made) = make(&ann, json!({ "label": "laptop", "days": 7 }));
    assert_eq!(status, 200, "{made}");
    let (secret, id) = (made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned());
    assert_eq!(get(&team, "/api/v1/me", &secret)["role"], "user");

    let listed = get(&team, "/api/v1/me/tokens", &ann)["tokens"].as_array().unwrap().clone();
    let shown: Vec<_> = listed.iter().map(|token| (&token["id"], &token["current"])).collect();
    assert_eq!(shown, [(&json!(ann_token), &json!(true)), (&json!(id), &json!(false))]);
    assert!(!json!(listed).to_string().contains(&secret), "the secret is shown once");

    for (body, code) in [
        (json!({ "days": 0 }), "BAD_LIFETIME"),
        (json!({ "days": 366 }), "BAD_LIFETIME"),
        (json!({ "label": "two\nlines" }), "BAD_LABEL"),
    ] {
        let (status, error) = make(&ann, body);
        assert_eq!((status, &error["error"]["code"]), (422, &json!(code)), "{error}");
    }
    // Another member's token is as unknown as one that does not exist.
    let rest = send(&team, "DELETE", &format!("/api/v1/me/tokens/{bob_token}"), &ann, &Value::Null);
    assert_eq!(rest, send(&team, "DELETE", "/api/v1/me/tokens/0000", &ann, &Value::Null));
    assert_eq!(rest.0, 404);

    assert_eq!(send(&team, "DELETE", &format!("/api/v1/me/tokens/{id}"), &ann, &Value::Null).0, 204);
    until("the token still counts", || team.status("GET", "/api/v1/me", &secret) == 401);
    assert_eq!(team.status("GET", "/api/v1/me", &ann), 200);
    let rows = audit(&team);
    let by_ann: Vec<_> = rows.iter().filter(|row| row["name"] == "ann").map(|row| &row["kind"]).collect();
    assert_eq!(by_ann, ["token_made", "token_revoked"]);
    assert!(!json!(rows).to_string().contains(&secret));
}

#[test]
fn a_token_makes_none_that_lasts_longer_and_takes_those_that_it_made_along() {
    let team = team();
    let made = team.rack.run(&["team", "token", "ann", "--tenant", "acme", "--lasts", "2d", "--json"]).ends_with(0);
    let made = made.json();
    let (ann, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let make = |token: &str, body: Value| send(&team, "POST", "/api/v1/me/tokens", token, &body);
    let (status, error) = make(ann, json!({ "days": 3 }));
    assert_eq!((status, &error["error"]["code"]), (422, &json!("BAD_LIFETIME")), "{error}");
    let (_, child) = make(ann, json!({}));
    assert_eq!(child["ends_at"], made["ends_at"]);
    let (_, grandchild) = make(child["token"].as_str().unwrap(), json!({ "days": 1 }));
    let grandchild = grandchild["token"].as_str().unwrap();
    assert_eq!(team.status("GET", "/api/v1/me", grandchild), 200);
    let revoked = team.rack.run(&["team", "revoke", id, "--json"]).ends_with(0).json();
    assert_eq!(revoked["revoked"], 3);
    until("a token still counts", || team.status("GET", "/api/v1/me", grandchild) == 401);
    assert_eq!(team.status("GET", "/api/v1/me", child["token"].as_str().unwrap()), 401);
}

#[test]
fn the_user_of_the_machine_is_not_a_member_of_a_team() {
    let team = team();
    let own = team.daemon.token.clone();
    for path in ["/api/v1/members", "/api/v1/me/tokens", "/api/v1/me/clients"] {
        let (status, error) = send(&team, "GET", path, &own, &Value::Null);
        assert_eq!((status, &error["error"]["code"]), (404, &json!("NO_TEAM")), "{path}: {error}");
    }
}
