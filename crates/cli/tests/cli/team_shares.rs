//! What one member of a team can take of all others: places, and the sight of what they do.

use std::{fs, io::Read as _, net::TcpStream, time::Instant};

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
fn a_member_who_holds_all_connections_that_they_can_keeps_no_other_member_out() {
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
    let from = Instant::now();
    while team.status("GET", "/api/v1/me", &bob) != 200 {
        assert!(from.elapsed() < SOON, "the places are not free again");
    }
}
