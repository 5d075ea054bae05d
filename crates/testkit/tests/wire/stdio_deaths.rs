//! Faults that end or stop the process in the middle of a call, and what they leave behind.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use toolrack_testkit::processes::{alive, descendants, wait_gone, with_env};
use toolrack_testkit::{EffectLog, fake_server_path};

use crate::plain_stdio::{LONG, Lines, SHORT};
use crate::{call, text};

/// Kills a process.
fn end(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).unwrap();
}

/// A server that was sent one call of `write`.
fn after_a_write(fault: &str) -> (Lines, EffectLog) {
    let effects = EffectLog::new();
    let mut server = Lines::with(&[fault], &["--log", effects.path_str()]);
    server.handshake();
    server.send(&call(1, "write", json!({"path": "x"})));
    (server, effects)
}

#[test]
fn a_crash_on_a_call_comes_after_the_effect() {
    for (fault, code, signal) in [
        ("crash-on-call", None, Some(11)),
        ("crash-on-call=signal:6", None, Some(6)),
        ("crash-on-call=exit:3", Some(3), None),
    ] {
        let (mut server, effects) = after_a_write(fault);
        let status = server.status();
        assert_eq!((status.code(), status.signal()), (code, signal), "{fault}");
        assert!(server.ends(LONG));
        assert_eq!(effects.read().runs_of("write"), 1, "{fault}");
    }
}

#[test]
fn the_crash_tool_ends_the_process_as_its_arguments_say() {
    let mut server = Lines::start(&[]);
    server.handshake();
    server.send(&call(1, "crash", json!({"code": 5})));
    assert_eq!(server.status().code(), Some(5));
    let mut server = Lines::start(&[]);
    server.handshake();
    server.send(&call(1, "crash", json!({"signal": 15})));
    assert_eq!(server.status().signal(), Some(15));
    assert!(String::from_utf8(server.stderr()).unwrap().contains("about to crash"));
}

#[test]
fn a_grandchild_holds_the_pipe_after_the_server_is_gone() {
    let effects = EffectLog::new();
    let mut command = Command::new(fake_server_path());
    command.args(["stdio", "--fault", "crash-holding-pipe", "--log", effects.path_str()]);
    command.env("TESTKIT_RUN", effects.path_str());
    let mut server = Lines::run(command);
    server.handshake();
    server.send(&call(1, "write", json!({})));
    assert_eq!(server.status().code(), Some(7));
    assert!(!server.ends(SHORT), "stdout is still open");
    let left = with_env("TESTKIT_RUN", effects.path_str());
    assert_eq!(left.len(), 1);
    end(left[0]);
    assert!(server.ends(LONG));
}

#[test]
fn half_of_an_answer_is_written_before_a_crash() {
    let (mut server, effects) = after_a_write("half-line-then-crash");
    let half = server.line(LONG).unwrap();
    assert!(half.starts_with(b"{") && !half.ends_with(b"\n"));
    assert_eq!(server.status().code(), Some(7));
    assert_eq!(effects.read().runs_of("write"), 1);
}

#[test]
fn stdout_is_closed_while_the_process_lives_on() {
    let (mut server, _effects) = after_a_write("close-stdout");
    assert!(server.ends(LONG));
    std::thread::sleep(SHORT);
    assert!(server.runs());
}

#[test]
fn a_frozen_server_answers_when_it_is_continued() {
    let (server, effects) = after_a_write("freeze");
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("write") == 1);
    assert_eq!(server.line(SHORT), None);
    let pid = nix::unistd::Pid::from_raw(server.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).unwrap();
    assert_eq!(text(&server.answer(1)), "written");
}

#[test]
fn the_fault_grandchild_leaves_a_process_behind() {
    for (fault, survives_term) in
        [("grandchild", false), ("grandchild=setsid", false), ("grandchild=setsid+ignore-term", true)]
    {
        let mut server = Lines::with(&[fault], &[]);
        server.handshake();
        let children = descendants(server.pid());
        assert_eq!(children.len(), 1, "{fault}");
        let child = children[0];
        let pid = nix::unistd::Pid::from_raw(child.cast_signed());
        let own_session = nix::unistd::getsid(Some(pid)).unwrap() == pid;
        assert_eq!(own_session, fault.contains("setsid"), "{fault}");
        server.kill();
        assert!(alive(child), "{fault}: nothing took it along");
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
        let limit = if survives_term { Duration::from_millis(300) } else { LONG };
        assert_eq!(wait_gone(child, limit), !survives_term, "{fault}");
        if survives_term {
            end(child);
        }
    }
}

#[test]
fn the_spawn_tool_returns_the_process_that_it_left() {
    let mut server = Lines::start(&[]);
    server.handshake();
    let answer = server.ask(&call(1, "spawn", json!({"setsid": true, "ignore_term": true})));
    let pid: u32 = text(&answer).parse().unwrap();
    assert_eq!(descendants(server.pid()), [pid]);
    end(pid);
    assert!(wait_gone(pid, LONG));
}
