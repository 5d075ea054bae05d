//! Both eras over stdio, and the faults of starting and of choosing an era.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::plain_stdio::{LONG, Lines, SHORT};
use crate::{call, initialize, modern, modern_call, request, text};

/// Starts a server with one fault.
fn with(fault: &str) -> Lines {
    Lines::with(&[fault], &[])
}

#[test]
fn a_legacy_server_requires_the_handshake_and_has_no_discovery() {
    let mut server = Lines::start(&[]);
    assert_eq!(server.ask(&modern(1, "server/discover", json!({})))["error"]["code"], -32601);
    assert_eq!(server.ask(&request(2, "tools/list", json!({})))["error"]["code"], -32600);
    assert_eq!(server.ask(&request(3, "ping", json!({})))["result"], json!({}));
    let answer = server.ask(&initialize(4));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["serverInfo"]["name"], "fake-server");
    let answer = server.ask(&call(5, "add", json!({"a": 2, "b": 3})));
    assert_eq!(text(&answer), "5");
    assert!(answer["result"].get("resultType").is_none(), "no modern field in a legacy answer");
}

#[test]
fn a_legacy_server_echoes_the_versions_that_it_knows_and_offers_its_own_for_others() {
    for (asked, answered) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25"), ("x", "2025-11-25")]
    {
        let mut server = Lines::start(&[]);
        let params = json!({"protocolVersion": asked, "capabilities": {}});
        assert_eq!(server.ask(&request(1, "initialize", params))["result"]["protocolVersion"], answered);
    }
}

#[test]
fn a_modern_server_requires_meta_on_every_request_and_refuses_the_handshake() {
    let mut server = Lines::start(&["--era", "modern", "--ttl-ms", "5000"]);
    let refused = server.ask(&initialize(1));
    assert_eq!(refused["error"]["code"], -32601);
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(server.ask(&request(2, "tools/list", json!({})))["error"]["code"], -32602);
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut request = modern(7, "server/discover", json!({}));
        request["params"]["_meta"].as_object_mut().unwrap().shift_remove(&format!("io.modelcontextprotocol/{missing}"));
        assert_eq!(server.ask(&request)["error"]["code"], -32602, "{missing}");
    }
    let found = server.ask(&modern(3, "server/discover", json!({})));
    assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fake-server");
    let listed = server.ask(&modern(4, "tools/list", json!({})));
    assert_eq!(listed["result"]["ttlMs"], 5000);
    assert_eq!(listed["result"]["resultType"], "complete");
    assert_eq!(server.ask(&modern(5, "ping", json!({})))["error"]["code"], -32601);
    assert_eq!(text(&server.ask(&modern_call(6, "echo", json!({"text": "hi"})))), "hi");
}

#[test]
fn a_modern_server_refuses_another_version_and_names_its_own() {
    let mut server = Lines::start(&["--era", "modern"]);
    let mut request = modern(1, "server/discover", json!({}));
    request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1900-01-01");
    let error = &server.ask(&request)["error"];
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "1900-01-01"}));
}

#[test]
fn a_server_of_both_eras_answers_each_request_in_its_own() {
    let mut server = Lines::start(&["--era", "both"]);
    assert!(server.ask(&modern(1, "server/discover", json!({})))["result"]["supportedVersions"].is_array());
    server.handshake();
    assert_eq!(text(&server.ask(&call(2, "echo", json!({"text": "old"})))), "old");
    assert_eq!(server.ask(&modern_call(3, "echo", json!({"text": "new"})))["result"]["resultType"], "complete");
}

#[test]
fn each_fault_of_the_probe_does_what_its_name_says() {
    let mut server = with("exit-on-discover=4");
    server.send(&modern(1, "server/discover", json!({})));
    assert_eq!(server.status().code(), Some(4));

    let mut server = with("ignore-discover");
    server.send(&modern(1, "server/discover", json!({})));
    assert_eq!(server.ask(&initialize(2))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(server.line(SHORT), None, "the probe is never answered");

    let mut server = Lines::with(&["late-discover=500"], &["--era", "modern"]);
    server.send(&modern(1, "server/discover", json!({})));
    server.send(&initialize(2));
    let order: Vec<Value> = (0..2).map(|_| server.message()["id"].clone()).collect();
    assert_eq!(order, [2, 1], "`initialize` is refused at once, the probe is answered late");

    let mut server = Lines::with(&["late-then-legacy=500"], &["--era", "both"]);
    server.send(&modern(1, "server/discover", json!({})));
    server.send(&initialize(2));
    assert!(server.message()["result"]["protocolVersion"].is_string());
    assert_eq!(server.message()["error"]["code"], -32601);

    let mut server = with("discover-empty");
    assert_eq!(server.ask(&modern(1, "server/discover", json!({})))["result"], json!({}));

    let mut server = Lines::with(&["refuse-version"], &["--era", "modern", "--fault-times", "1"]);
    let refused = server.ask(&modern(1, "server/discover", json!({})));
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert!(server.ask(&modern(2, "server/discover", json!({})))["result"]["supportedVersions"].is_array());
}

#[test]
fn an_unknown_version_is_spoken_in_both_eras() {
    let mut server = Lines::with(&["version=1999-01-01"], &["--era", "both"]);
    assert_eq!(server.ask(&initialize(1))["result"]["protocolVersion"], "1999-01-01");
    assert_eq!(
        server.ask(&modern(2, "server/discover", json!({})))["error"]["data"]["supported"],
        json!(["1999-01-01"])
    );
}

#[test]
fn a_process_that_ends_at_start_says_why_on_stderr() {
    let mut server = with("exit-at-start=3");
    assert_eq!(server.status().code(), Some(3));
    assert!(String::from_utf8(server.stderr()).unwrap().contains("fatal: told to exit at start"));
    assert_eq!(with("signal-at-start=9").status().signal(), Some(9));
}

#[test]
fn a_silent_server_reads_everything_and_says_nothing() {
    let mut server = with("never-start");
    server.send(&modern(1, "server/discover", json!({})));
    server.send(&initialize(2));
    assert_eq!(server.line(SHORT), None);
    assert!(server.runs());
    server.close();
    assert!(server.status().success(), "the end of stdin ends it");
}

#[test]
fn delays_come_before_reading_and_before_each_answer() {
    let mut server = Lines::start(&["--start-delay-ms", "300", "--delay-ms", "200"]);
    server.send(&initialize(1));
    assert_eq!(server.line(SHORT), None, "half a second has not passed");
    assert_eq!(server.answer(1)["id"], 1);
}

#[test]
fn the_faults_of_framing_put_their_bytes_between_the_messages() {
    let raw = |fault: &str| {
        let mut server = with(fault);
        server.send(&initialize(1));
        let mut all = Vec::new();
        while let Some(line) = server.line(if all.is_empty() { LONG } else { SHORT }) {
            all.extend(line);
        }
        all
    };
    let has = |all: &[u8], piece: &[u8]| all.windows(piece.len()).any(|window| window == piece);
    let banner = raw("banner");
    assert!(banner.starts_with("Starting the fake server…\n".as_bytes()) && has(&banner, b"\n42\n"));
    assert!(has(&banner, b"2025-11-25"));
    assert!(raw("bom").starts_with(b"\xef\xbb\xbf{"));
    assert!(raw("crlf").ends_with(b"}\r\n"));
    assert!(raw("empty-lines").starts_with(b"\n\r\n\0\0\n{"));
    assert!(raw("split-writes").ends_with(b"}\n"));
}

#[test]
fn stderr_is_filled_until_the_host_reads_it() {
    let mut server = with("fill-stderr");
    server.handshake();
    server.close();
    server.status();
    assert!(server.stderr().len() > 2 << 20, "one megabyte at the start, one for the request");

    let mut server = with("stderr-line=100000");
    server.handshake();
    server.close();
    server.status();
    assert_eq!(server.stderr(), vec![b'e'; 100_000]);
}

#[test]
fn a_server_that_stops_reading_blocks_the_client_that_writes_to_it() {
    for (fault, answered) in [("stop-reading-stdin", true), ("stop-reading-stdin=start", false)] {
        let mut server = with(fault);
        if answered {
            server.handshake();
            assert_eq!(text(&server.ask(&call(1, "echo", json!({"text": "last"})))), "last");
        }
        let mut stdin = server.take_stdin();
        let writing = std::thread::spawn(move || stdin.write_all(&vec![b' '; 1 << 20]));
        std::thread::sleep(SHORT);
        assert!(!writing.is_finished(), "a pipe without a reader cannot take a megabyte");
        assert!(server.runs());
        server.kill();
        assert!(writing.join().unwrap().is_err());
    }
}

#[test]
fn a_server_that_closes_its_stdin_answers_and_lives_on() {
    let mut server = with("close-stdin");
    server.handshake();
    assert_eq!(text(&server.ask(&call(1, "echo", json!({"text": "last"})))), "last");
    assert!(server.take_stdin().write_all(b"in vain").is_err());
    assert!(server.runs());
    server.kill();
}

#[test]
fn a_server_that_ignores_the_end_of_stdin_and_signals_keeps_running() {
    let mut server = Lines::with(&["ignore-eof", "ignore-term"], &[]);
    server.handshake();
    server.close();
    let pid = nix::unistd::Pid::from_raw(server.pid().cast_signed());
    for signal in [nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT, nix::sys::signal::SIGHUP] {
        nix::sys::signal::kill(pid, signal).unwrap();
    }
    std::thread::sleep(SHORT);
    assert!(server.runs());

    let mut server = with("ignore-eof");
    server.handshake();
    let pid = nix::unistd::Pid::from_raw(server.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
    assert_eq!(server.status().signal(), Some(15), "without the fault, TERM ends it");
}

#[test]
fn a_cancelled_call_stops_and_is_logged() {
    let effects = EffectLog::new();
    let mut server = Lines::start(&["--log", effects.path_str()]);
    server.handshake();
    server.send(&call(7, "sleep", json!({"ms": 400})));
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("sleep") == 1);
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    server.send(&call(8, "sleep", json!({"ms": 600})));
    assert_eq!(server.message()["id"], 8, "the cancelled call is shorter, so its answer would have come first");
    assert_eq!(effects.read().cancelled(), [json!(7)]);
}

#[test]
fn a_server_that_ignores_a_cancellation_answers_all_the_same() {
    let mut server = with("ignore-cancel");
    server.handshake();
    server.send(&call(7, "sleep", json!({"ms": 200})));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(text(&server.answer(7)), "slept 200 ms");
}

#[test]
fn progress_comes_every_tenth_of_a_second_when_it_is_asked_for() {
    let mut server = Lines::start(&[]);
    server.handshake();
    let mut request = call(1, "sleep", json!({"ms": 250, "progress": true}));
    request["params"]["_meta"] = json!({"progressToken": "p"});
    server.send(&request);
    let values: Vec<Value> = (0..3).map(|_| server.message()["params"]["progress"].clone()).collect();
    assert_eq!(values, [100, 200, 250]);
    assert_eq!(server.message()["id"], 1);
}

#[test]
fn subscriptions_are_acknowledged_first_and_notified_with_their_id() {
    let mut server = Lines::start(&["--era", "modern"]);
    let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["fake://note"]}});
    server.send(&modern(9, "subscriptions/listen", filter));
    let acknowledged = server.message();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let id = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(id(&acknowledged), 9);
    server.send(&modern_call(10, "tools_changed", json!({"add": "fresh"})));
    let changed = server.message();
    assert_eq!((changed["method"].as_str(), id(&changed)), (Some("notifications/tools/list_changed"), json!(9)));
    server.answer(10);
    server.send(&modern_call(11, "touch", json!({"uri": "fake://note"})));
    let updated = server.message();
    assert_eq!(updated["params"]["uri"], "fake://note");
    server.answer(11);
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}));
    server.send(&modern_call(12, "tools_changed", json!({"add": "fresher"})));
    assert_eq!(server.message()["id"], 12, "a cancelled subscription gets no notification");
}

#[test]
fn faults_end_subscriptions() {
    let listen = modern(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut server = Lines::with(&["listen-ends=50"], &["--era", "modern"]);
    let ended = server.ask(&listen);
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);

    let mut server = Lines::with(&["listen-cancelled=50"], &["--era", "modern"]);
    server.send(&listen);
    server.message();
    let cancelled = server.message();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(9))
    );
}

#[test]
fn a_legacy_client_gets_notifications_only_after_the_handshake() {
    let mut server = Lines::start(&[]);
    server.ask(&initialize(0));
    assert_eq!(server.ask(&call(1, "tools_changed", json!({"add": "early"})))["id"], 1);
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.send(&call(2, "tools_changed", json!({"add": "late"})));
    assert_eq!(server.message()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_client_that_reads_nothing_costs_the_server_no_more_memory_than_its_queue() {
    let mut server = Lines::start(&[]);
    server.handshake();
    server.send(&call(1, "flood", json!({"n": 200_000})));
    std::thread::sleep(Duration::from_millis(500));
    assert!(toolrack_testkit::memory::rss_kib(server.pid()).unwrap() < 64 << 10);
}
