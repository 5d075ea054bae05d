//! Ctrl-C, SIGTERM and SIGHUP during a call.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use toolrack_testkit::{EffectLog, processes};

use crate::{
    rack::{Rack, fake},
    warm::Daemon,
};

/// Enough for a loaded machine; nothing here takes a tenth of it on an idle one.
const LIMIT: Duration = Duration::from_secs(30);

/// A call that hangs, its log, and the home it runs in.
struct Hanging {
    child: Child,
    effects: EffectLog,
    _rack: Rack,
}

fn hanging_call() -> Hanging {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    let mut command = rack.command(&["call", "fake/sleep", "ms=600000"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    Hanging { child, effects, _rack: rack }
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn ends_cleanly(signal: &str, code: i32) {
    let Hanging { child, effects, _rack } = hanging_call();
    let started = processes::descendants(child.id());
    assert!(!started.is_empty(), "the server runs");
    send(signal, &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert!(processes::wait_all_gone(&started, LIMIT), "something was left running");
    assert_eq!(effects.read().runs_of("sleep"), 1);
}

#[test]
fn an_interrupt_ends_with_130_and_leaves_nothing_running() {
    ends_cleanly("INT", 130);
}

#[test]
fn a_termination_ends_with_143_and_leaves_nothing_running() {
    ends_cleanly("TERM", 143);
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_is_closed_ends_with_129_and_leaves_nothing_running() {
    ends_cleanly("HUP", 129);
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_under_nohup_outlives_its_terminal() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    let mut command = Command::new("sh");
    // As `nohup` does.
    let script = "trap '' HUP; exec \"$0\" call fake/sleep ms=600000";
    rack.set_environment(command.args(["-c", script, env!("CARGO_BIN_EXE_toolrack")]));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    send("HUP", &child);
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_with_a_running_call_ends_within_five_seconds_and_names_the_signal() {
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let effects = EffectLog::new();
        let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
        let daemon = Daemon::start(&rack, &[]);
        let body = "{\"tool\":\"fake/sleep\",\"arguments\":{\"ms\":600000},\"approved\":true}";
        let head = format!(
            "POST /api/v1/calls HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            daemon.address,
            daemon.token,
            body.len()
        );
        let mut calling = TcpStream::connect(&daemon.address).unwrap();
        calling.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
        let started = processes::descendants(daemon.pid());
        let began = Instant::now();
        assert_eq!(daemon.ended_by(signal), Some(code));
        assert!(began.elapsed() < Duration::from_secs(5), "{signal}: {:?}", began.elapsed());
        assert!(processes::wait_all_gone(&started, LIMIT), "something was left running");
        assert!(!rack.home.toolrack_home().join("daemon.json").exists(), "it ended in no order");
    }
}

#[test]
fn a_database_that_does_not_answer_can_be_interrupted() {
    let rack = Rack::new();
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = database.local_addr().unwrap();
    let file = rack.home.root().join("team.toml");
    let store = format!("[store]\nurl = \"postgres://u@{address}/n\"\nconnect_timeout = \"60s\"\n");
    fs::write(&file, format!("url = \"http://127.0.0.1:1\"\n{store}[[tenants]]\nid = \"acme\"\n")).unwrap();
    let mut command = rack.command(&["team", "quotas", "--team", file.to_str().unwrap()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (_silent, _) = database.accept().unwrap();
    let began = Instant::now();
    send("INT", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[test]
fn a_daemon_that_has_not_started_yet_ends_with_the_command_that_starts_it() {
    let rack = Rack::new();
    let pipe = rack.home.work().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = ["daemon", "start", "--listen", "127.0.0.1:0", "--tls-cert", "pipe", "--tls-key", "pipe"];
    let child = rack.command(&start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The daemon opens the pipe, and waits for its content.
    let _writer = fs::File::options().write(true).open(&pipe).unwrap();
    let started = processes::descendants(child.id());
    assert!(!started.is_empty(), "the daemon runs");
    send("INT", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(processes::wait_all_gone(&started, LIMIT), "the daemon was left running");
}

#[test]
fn a_file_that_never_comes_can_be_interrupted() {
    let rack = Rack::new();
    let pipe = rack.home.work().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for args in [["--mcp-config", "pipe", "list"], ["config", "validate", "pipe"], ["--answers", "pipe", "list"]] {
        let mut command = rack.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Opens once the other end is open, and then holds it open.
        let _writer = std::fs::File::options().write(true).open(&pipe).unwrap();
        send("INT", &child);
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130), "{args:?}");
    }
}
