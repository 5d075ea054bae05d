//! Faults that answer with something other than MCP, or break the body of the answer.

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::plain_http::{Answer, End, open_post, post, post_modern};
use crate::plain_stdio::{LONG, SHORT};
use crate::{call, initialize, modern, text};

/// Calls `write` once, on a server with this fault. Returns the answer, and how often the tool ran.
fn struck(fault: &str) -> (Answer, usize) {
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--fault", fault, "--log", effects.path_str()]);
    let answer = open_post(&server, &[], &call(5, "write", json!({}))).read(LONG);
    (answer, effects.read().runs_of("write"))
}

#[test]
fn answers_that_are_not_mcp_have_no_effect() {
    for (fault, status, field, value) in [
        ("html", 200, "content-type", "text/html; charset=utf-8"),
        ("http-500", 500, "content-type", "text/plain"),
        ("http-401", 401, "content-type", "text/plain"),
        ("http-401=Bearer realm=x", 401, "www-authenticate", "Bearer realm=x"),
        ("http-400", 400, "content-type", "text/plain"),
        ("http-403", 403, "content-type", "text/plain"),
        ("http-404", 404, "content-type", "text/plain"),
        ("http-429=7", 429, "retry-after", "7"),
        ("http-503", 503, "retry-after", "1"),
        ("http-202", 202, "content-length", "0"),
        ("redirect-same", 307, "location", "/moved"),
        ("redirect-same=302", 302, "location", "/moved"),
        ("redirect-cross=http://127.0.0.1:9/x", 307, "location", "http://127.0.0.1:9/x"),
        ("redirect-loop", 307, "location", "/mcp"),
    ] {
        let (answer, runs) = struck(fault);
        assert_eq!(
            (answer.status, answer.header(field), answer.end, runs),
            (status, Some(value), End::Whole, 0),
            "{fault}"
        );
    }
    assert_eq!(struck("http-401").0.header("www-authenticate"), None);
}

#[test]
fn faults_of_every_request_strike_the_first_one_too() {
    for fault in ["html", "http-500", "http-401", "http-400", "http-403", "http-404"] {
        let server = FakeHttp::start(&["--fault", fault]);
        assert!(serde_json::from_slice::<Value>(&post(&server, &[], &initialize(0)).body).is_err(), "{fault}");
    }
}

#[test]
fn the_probe_alone_is_struck_by_its_own_faults() {
    for (fault, status) in [("discover-202", 202), ("discover-html", 200), ("discover-500", 500)] {
        let server = FakeHttp::start(&["--fault", fault]);
        let answer = post_modern(&server, 1, "server/discover", json!({}));
        assert_eq!(answer.status, status, "{fault}");
        assert!(serde_json::from_slice::<Value>(&answer.body).is_err(), "{fault}");
        assert_eq!(post(&server, &[], &initialize(0)).status, 200, "{fault}");
    }
    let server = FakeHttp::start(&["--fault", "hang-discover"]);
    let mut hanging = open_post(&server, &[], &modern(1, "server/discover", json!({})));
    assert_eq!(hanging.read(SHORT).end, End::Silent);
    assert_eq!(post(&server, &[], &initialize(0)).status, 200);
}

#[test]
fn a_redirect_on_the_same_origin_leads_to_the_answer() {
    let server = FakeHttp::start(&["--fault", "redirect-same"]);
    let message = call(5, "echo", json!({"text": "moved"})).to_string();
    let raw = format!(
        "POST /moved HTTP/1.1\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{message}",
        message.len()
    );
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    std::io::Write::write_all(&mut stream, raw.as_bytes()).unwrap();
    stream.set_read_timeout(Some(SHORT)).unwrap();
    let mut all = Vec::new();
    // Ends with a time-out, because the connection stays open.
    let _ = std::io::Read::read_to_end(&mut stream, &mut all);
    assert!(String::from_utf8(all).unwrap().contains("moved"));
}

#[test]
fn a_hanging_or_closed_connection_has_no_effect_and_a_reset_after_the_effect_has_one() {
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--fault", "hang", "--log", effects.path_str()]);
    assert_eq!(open_post(&server, &[], &call(5, "write", json!({}))).read(SHORT).end, End::Silent);
    assert_eq!(effects.read().runs_of("write"), 0);

    let (answer, runs) = struck("close-at-once");
    assert_eq!((answer.end, runs), (End::Cut, 0));
    let (answer, runs) = struck("reset-after-effect");
    assert_eq!((answer.end, answer.status, runs), (End::Reset, 0, 1));
}

#[test]
fn faults_of_bodies_strike_after_the_effect() {
    for (fault, end) in [
        ("cut-body", End::Cut),
        ("reset-body", End::Reset),
        ("bad-chunks", End::Garbled),
        ("body-endless", End::Endless),
        ("body-huge", End::Whole),
        ("huge-line=3000", End::Whole),
        ("no-content-type", End::Whole),
        ("gzip-bomb", End::Whole),
        ("headers-giant", End::Whole),
    ] {
        let (answer, runs) = struck(fault);
        assert_eq!((answer.end, answer.status, runs), (end, 200, 1), "{fault}");
    }
}

#[test]
fn faults_of_size_produce_the_given_size() {
    let (huge, _) = struck("body-huge=3000000");
    assert_eq!(huge.body.len(), 3_000_000);
    assert_eq!(huge.json()["id"], 5);
    let (giant, _) = struck("headers-giant=200000");
    assert_eq!(giant.header("x-filler").unwrap().len(), 200_000);
    let (bomb, _) = struck("gzip-bomb");
    assert_eq!(bomb.header("content-encoding"), Some("gzip"));
    assert!(bomb.body.len() < 2 << 20, "256 MiB in {} bytes", bomb.body.len());
    assert_eq!(struck("no-content-type").0.header("content-type"), None);
}

#[test]
fn a_slow_body_comes_byte_by_byte() {
    let server = FakeHttp::start(&["--fault", "slow-body=5"]);
    let started = std::time::Instant::now();
    let answer = post(&server, &[], &call(5, "echo", json!({"text": "x"})));
    assert_eq!(text(&answer.json()), "x");
    assert!(started.elapsed().as_millis() >= 5 * (answer.body.len() as u128 - 1));
}

#[test]
fn a_call_without_an_answer_leaves_the_client_waiting_and_a_crash_ends_the_connection() {
    let server = FakeHttp::start(&["--fault", "no-answer"]);
    assert_eq!(open_post(&server, &[], &call(5, "write", json!({}))).read(SHORT).end, End::Silent);
    let (answer, runs) = struck("crash-on-call=exit:3");
    assert_eq!((answer.status, runs), (0, 1));
    assert!(matches!(answer.end, End::Cut | End::Reset));
    let (answer, runs) = struck("half-line-then-crash");
    assert_eq!((answer.status, runs), (200, 1));
    assert!(answer.text().starts_with("data: {"));
}

#[test]
fn lies_of_two_messages_come_as_a_stream() {
    for fault in ["forged-first", "duplicate-answer", "ping-flood=1"] {
        let (answer, _) = struck(fault);
        assert_eq!((answer.events().len(), answer.header("content-type")), (2, Some("text/event-stream")), "{fault}");
    }
}
