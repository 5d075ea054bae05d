//! The private data of a member of a team: conversations, and the events of their calls.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::{rack::fake, team::Team};

/// A team whose model answers each turn of a conversation with the same words.
fn talkative() -> Team {
    let team = Team::with(|tenant| vec![(tenant, fake(&[]))]);
    let home = team.rack.home.root().join("team/tenants/acme");
    let script = home.join("script.json");
    fs::write(&script, json!([{ "text": "Understood." }, { "text": "And further?" }]).to_string()).unwrap();
    let model = format!("[model]\nname = \"mock/{}\"\n", script.display());
    fs::write(home.join("toolrack.toml"), model).unwrap();
    team
}

fn say(team: &Team, token: &str, turn: &Value) -> (u16, String) {
    team.ask("POST", "/api/v1/turns", token, &turn.to_string())
}

fn sessions(team: &Team, token: &str, query: &str) -> Vec<Value> {
    let (status, body) = team.ask("GET", &format!("/api/v1/sessions{query}"), token, "");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["sessions"].as_array().unwrap().clone()
}

#[test]
fn only_its_member_reads_a_conversation_and_the_access_of_an_administrator_is_recorded() {
    let team = talkative();
    let [ann, bob, root] =
        [("ann", "user"), ("bob", "operator"), ("root", "admin")].map(|(name, role)| team.token(name, "acme", role).0);
    let (status, told) = say(&team, &ann, &json!({ "text": "my secret plan" }));
    assert!(status == 200 && told.contains("Understood."), "{told}");
    let own = sessions(&team, &ann, "");
    assert_eq!((own.len(), &own[0]["title"], &own[0]["owner"]["name"]), (1, &json!("my secret plan"), &json!("ann")));
    let id = own[0]["id"].as_str().unwrap();
    let path = format!("/api/v1/sessions/{id}");
    assert!(team.ask("GET", &path, &ann, "").1.contains("my secret plan"));

    // For all other members it does not exist, under any name and for any operation.
    assert!(sessions(&team, &bob, "").is_empty() && sessions(&team, &root, "").is_empty());
    for named in [id, &id[..8], "last"] {
        assert_eq!(team.status("GET", &format!("/api/v1/sessions/{named}"), &bob), 404, "{named}");
        assert_eq!(team.status("GET", &format!("/api/v1/sessions/{named}/export"), &bob), 404, "{named}");
        assert_eq!(team.status("DELETE", &format!("/api/v1/sessions/{named}"), &bob), 404, "{named}");
        for other in [&bob, &root] {
            let (status, told) = say(&team, other, &json!({ "text": "go on", "session": named }));
            assert!(status == 404 && !told.contains("plan"), "{named}: {told}");
        }
    }
    assert_eq!(team.status("GET", "/api/v1/sessions?of=all", &bob), 403);
    let (status, told) = say(&team, &bob, &json!({ "text": "hi", "model": "mock//etc/passwd" }));
    assert!(status == 403 && !told.contains("root:"), "{told}");

    // An administrator has to ask for all conversations, or name one by its whole id.
    assert_eq!(sessions(&team, &root, "?of=all").len(), 1);
    assert_eq!(team.status("GET", "/api/v1/sessions/last", &root), 404);
    assert!(team.ask("GET", &path, &root, "").1.contains("my secret plan"));
    assert_eq!(team.status("DELETE", &path, &root), 204);
    assert!(sessions(&team, &ann, "").is_empty());
    let audit = team.ask("GET", "/api/v1/audit", &root, "").1;
    for kind in ["conversation_read", "conversation_deleted"] {
        let rows: Value = serde_json::from_str(&audit).unwrap();
        let row = rows["rows"].as_array().unwrap().iter().find(|row| row["kind"] == kind).unwrap().clone();
        assert_eq!((&row["subject"], &row["why"]), (&json!("root"), &json!(format!("the conversation {id} of ann"))));
    }
}

#[test]
fn a_member_continues_their_conversation_but_not_after_a_removal() {
    let team = talkative();
    let (ann, _) = team.token("ann", "acme", "user");
    assert_eq!(say(&team, &ann, &json!({ "text": "first" })).0, 200);
    let (status, told) = say(&team, &ann, &json!({ "text": "second", "session": "last" }));
    assert_eq!(status, 200, "{told}");
    assert_eq!(sessions(&team, &ann, "")[0]["messages"], 4);
    let _ = team.rack.run(&["team", "remove", "ann"]).ends_with(0);
    let (again, _) = team.token("ann", "acme", "user");
    assert!(sessions(&team, &again, "").is_empty(), "a new membership begins with nothing");
    let (root, _) = team.token("root", "acme", "admin");
    assert_eq!(sessions(&team, &root, "?of=all").len(), 1);
}

/// The lines of an event stream up to the first that contains `end`.
fn read_until(stream: &mut BufReader<TcpStream>, end: &str) -> String {
    let mut read = String::new();
    loop {
        let from = read.len();
        assert_ne!(stream.read_line(&mut read).unwrap(), 0, "{read}");
        if read[from..].contains(end) {
            return read;
        }
    }
}

#[test]
fn a_member_gets_only_the_events_of_their_own_calls() {
    let team = talkative();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "acme", "user");
    let (operator, _) = team.token("eve", "acme", "operator");
    let [mut of_ann, mut of_operator] = [&ann, &operator].map(|token| {
        let mut stream = BufReader::new(team.send("GET", "/api/v1/events", token, ""));
        assert!(read_until(&mut stream, "\r\n").contains("200"));
        stream
    });
    let call = |token: &str, text: &str| {
        let body = json!({ "tool": "acme/echo", "arguments": { "text": text } }).to_string();
        let (status, answer) = team.ask("POST", "/api/v1/calls", token, &body);
        assert_eq!(status, 200, "{answer}");
    };
    call(&bob, "of bob");
    call(&ann, "of ann");
    call(&bob, "of bob again");
    let numbers = |events: &str| -> Vec<u64> {
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let data = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
        data.filter(|data| data["outcome"].is_string()).map(|data| data["call"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&read_until(&mut of_ann, "\"outcome\"")), [2]);
    let mut seen = String::new();
    while numbers(&seen).len() < 3 {
        seen += &read_until(&mut of_operator, "\"outcome\"");
    }
    assert_eq!(numbers(&seen), [1, 2, 3]);
    // The next event that ann reads after her own call belongs to her next call.
    call(&ann, "of ann again");
    assert_eq!(numbers(&read_until(&mut of_ann, "\"outcome\"")), [4]);
}
