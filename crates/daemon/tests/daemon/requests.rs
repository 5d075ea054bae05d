//! Which requests the daemon accepts, how it refuses malformed ones, and how a client continues a stream of events.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use toolrack_testkit::Home;

use crate::up::{DaemonOptions, LONG, Up, fake, servers};

#[tokio::test]
async fn a_request_needs_the_token_the_right_host_and_the_right_origin() {
    let up = Up::with(&[]).await;
    let without_token = |path: &str| up.client.get(format!("{}{path}", up.url));
    assert_eq!(without_token("/api/v1/servers").send().await.unwrap().status(), 401);
    assert_eq!(without_token("/metrics").send().await.unwrap().status(), 401);
    assert_eq!(without_token("/health").send().await.unwrap().status(), 200);
    let foreign = without_token("/api/v1/servers").bearer_auth("key").header("origin", "https://evil.example");
    assert_eq!(foreign.send().await.unwrap().status(), 403);
    let rebound = without_token("/health").header("host", "evil.example");
    assert_eq!(rebound.send().await.unwrap().status(), 403);
    up.down().await;
}

/// How many connections without a token a test opens. Each takes a file descriptor at both ends.
const UNAUTHENTICATED_CONNECTIONS: usize = 400;

#[tokio::test]
async fn a_client_with_the_token_is_served_while_others_hold_all_unauthenticated_connections() {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&[]))]));
    let up = Up::started(home, DaemonOptions { connections: (48, 32, LONG), ..DaemonOptions::default() }).await;
    let address = up.url.strip_prefix("http://").unwrap();
    // A connection that was opened before the others stays open.
    let mut events = up.events(None).await;
    let mut held = Vec::new();
    for number in 0..UNAUTHENTICATED_CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let first_bytes: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /health HTTP/1.1\r\nHost: ",
            _ => b"POST /api/v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
        };
        // This may fail, because the daemon may have closed the connection already.
        let _ = stream.write_all(first_bytes).await;
        held.push(stream);
        if number % 50 == 0 {
            let request = up.client.get(format!("{}/api/v1/overview", up.url)).bearer_auth("key");
            let answer =
                timeout(Duration::from_secs(5), request.send()).await.expect("the daemon answers at once").unwrap();
            assert_eq!(answer.status(), 200, "with {number} others");
        }
    }
    // A separate client opens a new connection.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.get(format!("{}/api/v1/overview", up.url)).bearer_auth("key").send();
    let answer = timeout(Duration::from_secs(5), request).await.expect("the daemon answers at once").unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(up.call("fake/echo", json!({ "text": "x" })).await.0, 200);
    events.wait("tool_completed").await;
    drop(held);
    up.down().await;
}

#[tokio::test]
async fn a_client_without_a_token_must_send_its_headers_in_time() {
    let header_timeout = Duration::from_millis(500);
    let up = Up::begun(Home::new(), DaemonOptions { connections: (16, 8, header_timeout), ..DaemonOptions::default() })
        .await;
    let address = up.url.strip_prefix("http://").unwrap();
    let mut known = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /api/v1/overview HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer key\r\n\r\n");
    let mut request_with_token = async || {
        known.write_all(request.as_bytes()).await.unwrap();
        let mut status_line = [0; 15];
        timeout(LONG, known.read_exact(&mut status_line)).await.expect("the daemon answers").unwrap();
        assert_eq!(&status_line, b"HTTP/1.1 200 OK");
        let mut rest = vec![0; 64 * 1024];
        let _ = known.read(&mut rest).await.unwrap();
    };
    request_with_token().await;
    let (mut silent, mut begun) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    begun.write_all(b"GET /health HTTP/1.1\r\nHost: ").await.unwrap();
    for stream in [&mut silent, &mut begun] {
        let mut rest = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("the daemon closes the connection");
    }
    // The connection with the token has been silent for as long, and stays open.
    request_with_token().await;
    up.down().await;
}

#[tokio::test]
async fn a_request_with_two_hosts_origins_or_lengths_is_refused() {
    let up = Up::with(&[]).await;
    let address = up.url.strip_prefix("http://").unwrap();
    for (line, more, status) in [
        ("GET /api/v1/overview", "", "200"),
        ("GET /api/v1/overview", "Host: evil.example\r\n", "400"),
        ("GET /api/v1/overview", "Origin: http://evil.example\r\nOrigin: http://127.0.0.1\r\n", "400"),
        ("GET http://evil.example/api/v1/overview", "", "400"),
        ("POST /mcp", "Host: evil.example\r\n", "400"),
        ("POST /api/v1/calls", "Content-Length: 2\r\nContent-Length: 3\r\n", "400"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer key\r\nConnection: close\r\n");
        stream.write_all(format!("{head}{more}\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        let _ = timeout(LONG, stream.read_to_string(&mut text)).await.expect("the daemon answers");
        assert_eq!(text.get(9..12), Some(status), "{line} {more}: {text}");
    }
    up.down().await;
}

/// Reads the next answer. Returns its status line and its headers.
async fn next_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(LONG, stream.read_u8()).await.expect("the daemon answers");
        head.push(byte.expect("the connection stays open"));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    let _ = stream.read_exact(&mut body).await.unwrap();
    head
}

#[tokio::test]
async fn a_request_refused_before_its_body_leaves_the_connection_open() {
    let up = Up::with(&[]).await;
    let address = up.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    for (path, token, status) in
        [("/mcp", "wrong", 401), ("/api/v1/nothing", "key", 404), ("/api/v1/calls", "key", 415)]
    {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
        stream.write_all(format!("{head}Content-Length: 4\r\n\r\n{{").as_bytes()).await.unwrap();
        // The rest of the body is sent so late that a daemon that does not wait for it would have answered before.
        let early = timeout(Duration::from_millis(100), stream.peek(&mut [0])).await;
        assert!(early.is_err(), "the daemon answers before it has the whole body: {path}");
        stream.write_all(b"}  ").await.unwrap();
        let answer = next_head(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && !answer.contains("connection: close"), "{answer}");
    }
    // The daemon does not wait for a body that does not arrive, and does not read one that is too long.
    for (length, sent) in [(4, 0), (10_000_000, 100_000)] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; sent]).await.unwrap();
        let answer = next_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
    }
    up.down().await;
}

#[tokio::test]
async fn a_malformed_request_gets_an_error_in_json() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let body = |body: &str| {
        up.request(Method::POST, "/api/v1/calls").header("content-type", "application/json").body(body.to_owned())
    };
    for (request, status) in [
        (body("{"), 400),
        (body("{\"tool\": 3}"), 400),
        (body("{\"tool\": \"fake/echo\", \"nonsense\": 1}"), 400),
        (body(&format!("{{\"tool\": \"{}\"}}", "x".repeat(5 * 1024 * 1024))), 413),
        (up.request(Method::POST, "/api/v1/calls").body("{}"), 415),
        (up.request(Method::PATCH, "/api/v1/calls"), 405),
        (up.request(Method::GET, "/api/v1/nothing"), 404),
        (up.request(Method::GET, "/api/v1/tools?limit=many"), 400),
        (up.request(Method::GET, "/api/v1/servers/%ff"), 400),
        (up.request(Method::GET, "/api/v1/servers/nobody"), 404),
        (up.request(Method::POST, "/api/v1/approvals/q99").json(&json!({ "answer": "once" })), 404),
        (up.request(Method::GET, "/api/v1/sessions/nobody"), 404),
    ] {
        let response = request.send().await.unwrap();
        let (url, found) = (response.url().clone(), response.status());
        let error: serde_json::Value = response.json().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(found, status, "{url}: {error}");
        assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{error}");
    }
    up.down().await;
}

#[tokio::test]
async fn a_client_continues_the_events_where_it_stopped() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut events = up.events(None).await;
    up.call("fake/echo", json!({ "text": "1" })).await;
    let seen = events.wait("tool_completed").await.0.unwrap();
    drop(events);
    up.call("fake/add", json!({ "a": 1, "b": 2 })).await;
    let mut events = up.events(Some(&seen)).await;
    let (next, started) = events.wait("tool_started").await;
    let number = |id: &str| id.rsplit_once('-').unwrap().1.parse::<u64>().unwrap();
    assert_eq!((number(&next.unwrap()), &started["tool"]), (number(&seen) + 1, &json!("add")));
    up.down().await;
}

#[tokio::test]
async fn a_client_with_an_event_id_of_another_run_gets_a_missed_event_at_once() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let mut events = up.events(Some("0")).await;
    let (first, name, _) = events.next().await.unwrap();
    assert_ne!(name, "missed", "the client asked for all stored events");
    let up = Up::of(up.down().await).await;
    up.until("fake", "connected").await;
    let mut events = up.events(first.as_deref()).await;
    assert_eq!(events.next().await.unwrap().1, "missed");
    let (now, _, _) = events.next().await.unwrap();
    assert_ne!(now, first, "the events of this run follow, beginning with the first");
    up.down().await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test renews a file of the repository")]
async fn the_served_description_is_the_published_one() {
    let up = Up::with(&[]).await;
    let served = up.client.get(format!("{}/openapi.json", up.url)).send().await.unwrap().text().await.unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("TOOLRACK_RENEW").is_some() {
        std::fs::write(file, format!("{}\n", served.trim())).unwrap();
    }
    let published = std::fs::read_to_string(file).unwrap();
    // Compared without `assert_eq`, which would print both files whole, and the command somewhere in between.
    assert!(
        served.trim() == published.trim(),
        "docs/openapi.json is outdated: TOOLRACK_RENEW=1 cargo nextest run -p toolrack-daemon published",
    );
    up.down().await;
}
