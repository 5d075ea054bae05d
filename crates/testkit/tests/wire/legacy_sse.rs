//! HTTP+SSE of 2024-11-05.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolrack_testkit::FakeHttp;

use crate::plain_http::{Open, open_get};
use crate::plain_stdio::SHORT;
use crate::{call, initialize, text};

/// The stream and the address that it gives.
fn connect(server: &FakeHttp) -> (Open, String) {
    let mut stream = open_get(server, &[]);
    loop {
        if let Some(endpoint) = stream.event_line().strip_prefix("data: ") {
            return (stream, endpoint.to_owned());
        }
    }
}

/// The status of a POST to this path.
fn post(server: &FakeHttp, path: &str, message: &Value) -> String {
    let body = message.to_string();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    String::from_utf8(status.to_vec()).unwrap()
}

/// The notification that a session waits for.
fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

#[test]
fn answers_come_on_the_stream() {
    let server = FakeHttp::start_sse::<&str>(&[]);
    let (mut stream, endpoint) = connect(&server);
    assert!(server.url().ends_with("/sse") && endpoint.starts_with("/messages?session="));
    assert_eq!(post(&server, &endpoint, &initialize(1)), "HTTP/1.1 202");
    assert_eq!(stream.event()["result"]["protocolVersion"], "2025-11-25");
    post(&server, &endpoint, &call(2, "echo", json!({"text": "too early"})));
    assert_eq!(stream.event()["error"]["code"], -32600);
    assert_eq!(post(&server, &endpoint, &initialized()), "HTTP/1.1 202");
    post(&server, &endpoint, &call(2, "echo", json!({"text": "hi"})));
    assert_eq!(text(&stream.event()), "hi");
    post(&server, &endpoint, &call(3, "tools_changed", json!({"add": "x"})));
    assert_eq!(stream.event()["method"], "notifications/tools/list_changed");
    assert_eq!(post(&server, "/messages?session=none", &call(4, "echo", json!({}))), "HTTP/1.1 404");
}

#[test]
fn the_faults_move_or_omit_the_sse_endpoint() {
    let server = FakeHttp::start_sse(&["--fault", "endpoint-cross=http://127.0.0.1:9/steal"]);
    assert_eq!(connect(&server).1, "http://127.0.0.1:9/steal");
    let server = FakeHttp::start_sse(&["--fault", "no-endpoint"]);
    let answer = open_get(&server, &[]).read(SHORT);
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[test]
fn two_sessions_get_each_their_own_answers() {
    let server = FakeHttp::start_sse::<&str>(&[]);
    let (mut first, to_first) = connect(&server);
    let (mut second, to_second) = connect(&server);
    for (endpoint, words) in [(&to_first, "one"), (&to_second, "two")] {
        post(&server, endpoint, &initialized());
        post(&server, endpoint, &call(1, "echo", json!({"text": words})));
    }
    assert_eq!(text(&first.event()), "one");
    assert_eq!(text(&second.event()), "two");
}

#[test]
fn notifications_are_taken_in_their_own_time() {
    let server = FakeHttp::start_sse(&["--fault", "slow-notices=200"]);
    let (_stream, endpoint) = connect(&server);
    let started = Instant::now();
    assert_eq!(post(&server, &endpoint, &initialized()), "HTTP/1.1 202");
    assert!(started.elapsed() >= Duration::from_millis(200));
}
