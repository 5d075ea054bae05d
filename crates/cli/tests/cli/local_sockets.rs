//! The sockets of a daemon, and which processes may use them.

use std::{
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::{
    rack::{Rack, fake},
    warm::Daemon,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits for the rows of the audit log about refused processes.
fn turned_away(rack: &Rack) -> Vec<Value> {
    let end = Instant::now() + LIMIT;
    loop {
        let rows = rack.run(&["audit", "list", "--json"]).ends_with(0).json();
        let rows = rows["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "turned_away").cloned();
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() || Instant::now() > end {
            return rows;
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_server_is_let_in_at_the_sockets_of_its_user() {
    let rack = Rack::new();
    // A server with all rights of its user, the key included.
    // The status has an exit code of its own for a daemon that does not answer, as it does not for a server.
    let script = "while status=$(\"$TOOLRACK\" daemon status --json); echo \"$status\" >&2; \
                  case $status in *'\"running\":true'*) false;; esac; do sleep 0.1; done; exec \"$0\" stdio";
    let nosy = json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": {
        "TOOLRACK": env!("CARGO_BIN_EXE_toolrack"), "TOOLRACK_HOME": rack.home.toolrack_home(), "HOME": rack.home.home(),
    } });
    rack.configure(&[("nosy", nosy)]);
    let _daemon = Daemon::start(&rack, &["--allow", "*"]);
    let rows = turned_away(&rack);
    assert_eq!(rows[0]["who"], "cli.sock", "{rows:?}");
    let (client, why) = (rows[0]["client"].as_str().unwrap(), rows[0]["why"].as_str().unwrap());
    assert!(client.starts_with("toolrack (process ") && why.starts_with("a server started it"), "{rows:?}");
    let _ = rack.run(&["call", "nosy/echo", "text=x"]).ends_with(0);
    let logs = rack.run(&["logs", "nosy"]).ends_with(0);
    assert!(logs.stdout.contains("\"answers\":false"), "{logs}");
    assert!(!logs.stdout.contains("\"answers\":true"), "{logs}");
    assert_eq!(rack.run(&["daemon", "status", "--json"]).ends_with(0).json()["answers"], true);
    let shown = rack.run(&["audit", "list"]).ends_with(0);
    assert!(shown.stdout.contains("turned away") && shown.stdout.contains("cli.sock toolrack (process"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_restarts_the_daemon_is_refused_and_the_daemon_stays_up() {
    let rack = Rack::new();
    let script = "until test -e \"$TOOLRACK_HOME/daemon.json\"; do sleep 0.1; done; \
                  \"$TOOLRACK\" daemon restart --listen 127.0.0.1:0 >&2; exec \"$0\" stdio";
    let (data, home) = (rack.home.toolrack_home(), rack.home.home());
    let restarting = json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": {
        "TOOLRACK": env!("CARGO_BIN_EXE_toolrack"), "TOOLRACK_HOME": data, "HOME": home,
    } });
    rack.configure(&[("restarting", restarting)]);
    let daemon = Daemon::start(&rack, &["--allow", "*"]);
    // The server answers only after its command has ended.
    let _ = rack.run(&["call", "restarting/echo", "text=x"]).ends_with(0);
    let logs = rack.run(&["logs", "restarting"]).ends_with(0);
    assert!(logs.stdout.contains("this process belongs to a server"), "{logs}");
    let status = rack.run(&["daemon", "status", "--json"]).ends_with(0).json();
    assert_eq!((&status["answers"], &status["pid"]), (&true.into(), &daemon.pid().into()), "{status}");
}

#[test]
fn connecting_to_a_socket_of_the_daemon_is_not_enough() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _daemon = Daemon::start(&rack, &["--allow", "*"]);
    let run = rack.home.toolrack_home().join("run");
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    let status = br#""Status""#;
    let length = u32::try_from(status.len()).unwrap().to_be_bytes();
    for (socket, message) in
        [("cli.sock", [&length[..], status].concat()), ("mcp.sock", format!("{initialize}\n").into_bytes())]
    {
        let mut stream = UnixStream::connect(run.join(socket)).unwrap();
        // As long as a proof, but not a valid one.
        stream.write_all(&message).unwrap();
        stream.write_all(&[0; 64]).unwrap();
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        assert_eq!(
            received.len(),
            32,
            "{socket}: the daemon sends only a random number: {}",
            String::from_utf8_lossy(&received)
        );
    }
    let end = Instant::now() + LIMIT;
    while turned_away(&rack).len() < 2 {
        assert!(Instant::now() < end, "{:?}", turned_away(&rack));
    }
    assert!(turned_away(&rack).iter().all(|row| row["why"] == "it did not prove that it can read the key"));
}

#[test]
fn a_stored_token_stays_the_same_until_a_new_one_is_requested() {
    let rack = Rack::new();
    let file = rack.home.root().join("token");
    let keep = ["--token-file", file.to_str().unwrap()];
    let token = |options: &[&str]| Daemon::start(&rack, options).token.clone();
    let first = token(&keep);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), first);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(token(&keep), first);
    assert_ne!(token(&[]), first, "without the file, a token is for one launch");
    let second = token(&[&keep[..], &["--new-token"]].concat());
    assert_ne!(second, first);
    assert_eq!(token(&keep), second);
    // A daemon that is running already keeps its token, and the file does not change.
    let up = Daemon::start(&rack, &keep);
    let again = ["serve", "--listen", &up.address, "--no-open", "--new-token", "--token-file", keep[1]];
    assert!(rack.run(&again).ends_with(0).stdout.contains(&second));
    drop(up);
    assert_eq!(token(&keep), second);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = rack.run(&["serve", "--listen", "127.0.0.1:0", "--token-file", file.to_str().unwrap()]).ends_with(2);
    assert!(refused.stderr.contains("other users of this machine can read or write it"), "{refused}");
    assert!(!refused.stderr.contains(&second), "{refused}");
    let _ = rack.run(&["serve", "--new-token"]).ends_with(2);
}

mod needs_landlock {
    use super::*;

    #[test]
    fn a_confined_server_cannot_read_the_key_and_is_not_let_in() {
        let rack = Rack::new();
        let folder = |path: &str| std::path::Path::new(path).parent().unwrap().to_owned();
        let script = "test -S \"$RUN/cli.sock\" || sleep 1; cat \"$RUN/key\" >/dev/null && echo 'has the key' >&2; \
                      \"$TOOLRACK\" daemon status --json >&2; echo tried >&2; exec \"$0\" stdio";
        let read = [fake_server_path().parent().unwrap().to_owned(), folder(env!("CARGO_BIN_EXE_toolrack"))];
        let data = rack.home.toolrack_home();
        let boxed = json!({
            "command": "sh", "args": ["-c", script, fake_server_path()], "sandbox": { "read": read },
            "env": { "TOOLRACK": env!("CARGO_BIN_EXE_toolrack"), "TOOLRACK_HOME": data, "RUN": data.join("run") },
        });
        rack.configure(&[("box", boxed)]);
        let _daemon = Daemon::start(&rack, &["--allow", "*"]);
        let _ = rack.run(&["call", "box/echo", "text=x"]).ends_with(0);
        let logs = rack.run(&["logs", "box"]).ends_with(0);
        assert!(logs.stdout.contains("tried"), "{logs}");
        assert!(!logs.stdout.contains("has the key") && !logs.stdout.contains("\"answers\":true"), "{logs}");
    }
}
