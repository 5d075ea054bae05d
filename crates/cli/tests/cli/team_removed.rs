//! The data that a removed member leaves behind, and the audit logs of a team in one view.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    rack::fake,
    team::{SOON, Team},
    team_admin::{get, send},
    warm::Daemon,
};

/// A team whose tenants have the server `mine` for each member, which needs the member's `TOKEN`.
fn team() -> Team {
    Team::with(|_| {
        let mut server = fake(&[]);
        server["env"] = json!({ "TOKEN": "${user:TOKEN}" });
        vec![("mine", server)]
    })
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "{what}");
    }
}

fn give(team: &Team, token: &str) {
    let value = json!({ "value": "canary-5f0e9c1d" });
    assert_eq!(send(team, "PUT", "/api/v1/me/credentials/TOKEN", token, &value).0, 204);
    until("the server does not start", || get(team, "/api/v1/servers/mine", token)["state"] == "connected");
}

fn is_given(team: &Team, token: &str) -> bool {
    get(team, "/api/v1/me/credentials", token)["credentials"][0]["given"] == true
}

fn file(team: &Team) -> String {
    team.rack.home.root().join("team/team.toml").to_str().unwrap().to_owned()
}

/// The folders of the members of `acme` who have had servers of their own.
fn people(team: &Team) -> PathBuf {
    team.rack.home.root().join("team/tenants/acme/people")
}

fn folders(team: &Team) -> Vec<PathBuf> {
    fs::read_dir(people(team)).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Whether a process has this folder as its home.
fn runs_in(folder: &Path) -> bool {
    let home = format!("HOME={}\0", folder.display()).into_bytes();
    let variables = |process: fs::DirEntry| fs::read(process.path().join("environ")).unwrap_or_default();
    let mut all = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(variables);
    all.any(|variables| variables.windows(home.len()).any(|part| part == home))
}

fn audit(team: &Team, words: &[&str]) -> Vec<Value> {
    let file = file(team);
    let all = [&["team", "audit", "--team", &file, "--json"], words].concat();
    team.rack.run(&all).ends_with(0).json()["rows"].as_array().unwrap().clone()
}

/// The rows of the tenant's audit log about deleted values.
fn deleted(team: &Team) -> Vec<Value> {
    let rows = audit(team, &["--tenant", "acme"]);
    rows.into_iter().filter(|row| row["kind"] == "credential_removed").collect()
}

#[test]
fn servers_of_a_removed_member_end_and_their_values_are_deleted() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (ada, _) = team.token("ada", "acme", "admin");
    for token in [&ann, &ada] {
        give(&team, token);
    }
    let all = folders(&team);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|folder| runs_in(folder)));
    let listed = get(&team, "/api/v1/members", &ada);
    let member = listed["members"].as_array().unwrap().iter().find(|member| member["name"] == "ann").unwrap();
    let id = member["id"].as_str().unwrap().to_owned();
    assert_eq!(send(&team, "DELETE", &format!("/api/v1/members/{id}"), &ada, &Value::Null).0, 204);
    let own = people(&team).join(&id);
    until("a server of the removed member still runs", || !runs_in(&own));
    until("what they gave is still there", || deleted(&team).len() == 1 && !own.exists());
    let row = deleted(&team).remove(0);
    assert_eq!((&row["credential"], &row["why"]), (&json!("TOKEN"), &json!("the member was removed")));
    // Other members keep their values, and a new member of the same name has none.
    assert!(is_given(&team, &ada));
    let (again, _) = team.token("ann", "acme", "user");
    assert!(!is_given(&team, &again));
}

#[test]
fn a_starting_daemon_deletes_values_of_members_who_were_removed_meanwhile() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    give(&team, &ann);
    let (file, Team { rack, daemon }) = (file(&team), team);
    assert_eq!(daemon.ended_by("TERM"), Some(143));
    let removed = rack.run(&["team", "remove", "ann"]).ends_with(0);
    assert!(removed.stderr.contains("or when the daemon starts"), "{removed}");
    let daemon = Daemon::start(&rack, &["--team", &file, "--allow", "*"]);
    let team = Team { rack, daemon };
    until("what they gave is still there", || folders(&team).is_empty() && deleted(&team).len() == 1);
    let (again, _) = team.token("ann", "acme", "user");
    assert!(!is_given(&team, &again));
}

#[test]
fn the_audit_logs_of_a_team_are_one_view_in_the_order_of_time() {
    let team = team();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "bolt", "user");
    for token in [&ann, &bob] {
        give(&team, token);
    }
    let all = audit(&team, &[]);
    let logs = |rows: &[Value], kind: &str| -> Vec<Value> {
        rows.iter().filter(|row| row["kind"] == kind).map(|row| row["log"].clone()).collect()
    };
    assert_eq!(logs(&all, "token_made"), [Value::Null, Value::Null]);
    assert_eq!(logs(&all, "credential_given"), [json!("acme"), json!("bolt")]);
    let times: Vec<_> = all.iter().map(|row| row["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let of_acme = audit(&team, &["--tenant", "acme"]);
    assert!(of_acme.iter().all(|row| row["log"] == "acme" || row["member_tenant"] == "acme"));
    assert_eq!(logs(&of_acme, "token_made"), [Value::Null]);
    assert_eq!(audit(&team, &["--limit", "1"]).len(), 1);
    assert!(audit(&team, &["--server", "none"]).is_empty());
    let page = team.rack.run(&["team", "audit", "--team", &file(&team)]).ends_with(0);
    assert!(page.stdout.contains("(team)") && page.stdout.contains("bolt"), "{page}");
    let unknown = team.rack.run(&["team", "audit", "--team", &file(&team), "--tenant", "corp"]).ends_with(2);
    assert!(unknown.stderr.contains("it has acme, bolt"), "{unknown}");
}
