//! Both eras over Streamable HTTP: sessions, streams, and the headers that repeat parts of the body.

use serde_json::{Value, json};
use toolrack_testkit::processes::wait_gone;
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::plain_http::{handshake, mirrored, open, open_get, open_modern, open_post, post, post_modern};
use crate::plain_stdio::LONG;
use crate::{call, initialize, modern, modern_call, request, text};

fn start(args: &[&str]) -> FakeHttp {
    FakeHttp::start(args)
}

#[test]
fn a_legacy_session_is_opened_used_and_closed() {
    let server = start(&[]);
    let session = handshake(&server);
    let session: &[(&str, &str)] = &[("mcp-session-id", &session)];
    let answer = post(&server, session, &call(1, "echo", json!({"text": "hi"})));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(text(&answer.json()), "hi");
    assert_eq!(open(&server, "DELETE", session, b"").read(LONG).status, 200);
    assert_eq!(post(&server, session, &call(2, "echo", json!({}))).status, 404);
}

#[test]
fn an_answer_after_other_messages_comes_as_a_stream() {
    let server = start(&[]);
    let answer = post(&server, &[], &call(1, "flood", json!({"n": 3})));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!((events.len(), &events[3]["id"]), (4, &json!(1)));
    let always = start(&["--answers", "sse"]);
    assert_eq!(post(&always, &[], &call(1, "echo", json!({"text": "x"}))).events().len(), 1);
}

#[test]
fn the_stream_of_a_session_has_notifications_of_changes() {
    let server = start(&[]);
    let session = handshake(&server);
    let session: &[(&str, &str)] = &[("mcp-session-id", &session)];
    let mut stream = open_get(&server, session);
    // The server adds the stream to its listeners before it writes the head.
    stream.event_line();
    post(&server, session, &call(1, "tools_changed", json!({"add": "fresh"})));
    assert_eq!(stream.event()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_legacy_server_asks_on_the_stream_of_the_call() {
    let server = start(&[]);
    let session = handshake(&server);
    let session: &[(&str, &str)] = &[("mcp-session-id", &session)];
    let mut stream = open_post(&server, session, &call(1, "elicit", json!({})));
    let asked = stream.event();
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_eq!(post(&server, session, &answer).status, 202);
    assert_eq!(text(&stream.event()), r#"{"action":"decline"}"#);
}

#[test]
fn the_session_faults_require_lose_or_omit_a_session() {
    let server = start(&["--fault", "session-required"]);
    let refused = post(&server, &[], &modern(1, "server/discover", json!({})));
    assert_eq!((refused.status, &refused.json()["id"]), (400, &Value::Null));
    let session = handshake(&server);
    assert_eq!(post(&server, &[("mcp-session-id", &session)], &request(1, "tools/list", json!({}))).status, 200);

    let server = start(&["--fault", "no-session"]);
    assert_eq!(post(&server, &[], &initialize(0)).header("mcp-session-id"), None);

    for (fault, status) in [("http-404-after=2", 404), ("http-400-session=2", 400)] {
        let effects = EffectLog::new();
        let server = start(&["--fault", fault, "--log", effects.path_str()]);
        let statuses = |rounds: u64| -> Vec<u16> {
            let session = handshake(&server);
            let one = |id| post(&server, &[("mcp-session-id", &session)], &call(id, "write", json!({}))).status;
            (1..=rounds).map(one).collect()
        };
        assert_eq!(statuses(4), [200, 200, status, status], "{fault}");
        assert_eq!(statuses(4), [200; 4], "{fault}: the next session stays");
        assert_eq!(effects.read().runs_of("write"), 6, "{fault}: a lost session runs nothing");
    }
}

#[test]
fn modern_requests_are_answered_without_a_session() {
    let server = start(&["--era", "modern"]);
    let found = post_modern(&server, 1, "server/discover", json!({}));
    assert_eq!((found.status, found.header("mcp-session-id")), (200, None));
    let answer = post_modern(&server, 2, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    assert_eq!(text(&answer.json()), "hi");
    assert_eq!(open_get(&server, &[]).read(LONG).status, 405);
    assert_eq!(open(&server, "DELETE", &[], b"").read(LONG).status, 405);
}

#[test]
fn modern_refusals_have_the_status_of_the_specification() {
    let server = start(&["--era", "modern"]);
    let unknown = post_modern(&server, 1, "no/such", json!({}));
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!(-32601)));
    let mut old = modern(2, "server/discover", json!({}));
    old["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1900-01-01");
    let headers = [("mcp-protocol-version", "1900-01-01"), ("mcp-method", "server/discover")];
    let refused = post(&server, &headers, &old);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32022)));
    let initialized = post(&server, &[("mcp-method", "initialize")], &initialize(3));
    assert_eq!(initialized.json()["error"]["code"], -32601);
}

#[test]
fn mirrored_headers_must_equal_the_body() {
    let server = start(&["--era", "modern"]);
    let request = modern_call(1, "region", json!({"region": "Hello, 世界"}));
    let base = mirrored(&request);
    let with = |field: &str, value: Option<&str>| {
        let mut headers: Vec<(&str, &str)> =
            base.iter().map(|(name, value)| (*name, value.as_str())).filter(|(name, _)| *name != field).collect();
        headers.extend(value.map(|value| (field, value)));
        let answer = post(&server, &headers, &request);
        (answer.status, answer.json()["error"]["code"].as_i64())
    };
    let refused = (400, Some(-32020));
    assert_eq!(with("mcp-param-region", None), refused);
    assert_eq!(with("mcp-param-region", Some("Hello")), refused);
    assert_eq!(with("mcp-method", None), refused);
    assert_eq!(with("mcp-name", Some("echo")), refused);
    assert_eq!(with("mcp-protocol-version", Some("2025-11-25")), refused);
    assert_eq!(with("mcp-param-region", Some("=?base64?SGVsbG8sIOS4lueVjA==?=")), (200, None));
}

#[test]
fn a_modern_client_cancels_a_call_by_closing_the_connection_and_a_legacy_one_does_not() {
    let effects = EffectLog::new();
    let server = start(&["--era", "both", "--log", effects.path_str()]);
    let waiting = open_modern(&server, &modern_call(7, "sleep", json!({"ms": 60_000})));
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("sleep") == 1);
    drop(waiting);
    let _ = effects.wait_until(LONG, |effects| effects.cancelled() == [json!(7)]);

    let waiting = open_post(&server, &[], &call(8, "sleep", json!({"ms": 60_000})));
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("sleep") == 2);
    drop(waiting);
    std::thread::sleep(crate::plain_stdio::SHORT);
    assert_eq!(effects.read().cancelled(), [json!(7)]);
}

#[test]
fn a_legacy_client_cancels_a_call_with_a_notification() {
    let effects = EffectLog::new();
    let server = start(&["--log", effects.path_str()]);
    let session = handshake(&server);
    let session: &[(&str, &str)] = &[("mcp-session-id", &session)];
    let _waiting = open_post(&server, session, &call(8, "sleep", json!({"ms": 60_000})));
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("sleep") == 1);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}});
    assert_eq!(post(&server, session, &cancel).status, 202);
    assert_eq!(effects.read().cancelled(), [json!(8)]);
}

#[test]
fn faults_end_the_streams_of_subscriptions() {
    let listen = modern(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let server = start(&["--era", "modern"]);
    let mut stream = open_modern(&server, &listen);
    assert_eq!(stream.event()["method"], "notifications/subscriptions/acknowledged");
    open_modern(&server, &modern_call(1, "tools_changed", json!({"add": "x"}))).read(LONG);
    assert_eq!(stream.event()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);

    let server = start(&["--era", "modern", "--fault", "listen-ends=50"]);
    let answer = open_modern(&server, &listen).read(LONG);
    assert_eq!((answer.end, &answer.events()[1]["id"]), (crate::plain_http::End::Whole, &json!(9)));

    let server = start(&["--era", "modern", "--fault", "listen-drops=50"]);
    let answer = open_modern(&server, &listen).read(LONG);
    assert_eq!((answer.end, answer.events().len()), (crate::plain_http::End::Cut, 1));
}

#[test]
fn the_headers_tool_returns_what_the_client_sent() {
    let server = start(&[]);
    let answer = post(&server, &[("x-mark", "seen")], &call(1, "headers", json!({})));
    assert!(text(&answer.json()).contains(r#"["x-mark","seen"]"#));
}

#[test]
fn requests_that_are_not_mcp_are_refused() {
    let server = start(&[]);
    let body = call(1, "echo", json!({})).to_string();
    assert_eq!(open(&server, "POST", &[("accept", "application/json")], body.as_bytes()).read(LONG).status, 406);
    assert_eq!(post(&server, &[], &json!([])).status, 400);
    assert_eq!(open(&server, "PUT", &[], b"").read(LONG).status, 405);
    assert_eq!(post(&server, &[("mcp-session-id", "made-up")], &call(1, "echo", json!({}))).status, 404);
}

#[test]
fn the_log_of_everything_has_methods_and_header_fields() {
    let effects = EffectLog::new();
    let server = start(&["--log", effects.path_str(), "--log-all"]);
    let session = handshake(&server);
    open(&server, "DELETE", &[("mcp-session-id", &session)], b"").read(LONG);
    let effects = effects.read();
    assert_eq!(effects.methods(), ["initialize", "notifications/initialized"]);
    assert_eq!(effects.http_count_of("DELETE"), 1);
    assert!(effects.lines[0]["headers"]["accept"].is_string());
    assert_eq!(effects.pids(), [server.pid()]);
    assert_eq!(effects.count_of("initialize"), 1);
}

#[test]
fn a_restarted_server_can_have_the_same_port_and_has_no_sessions() {
    let mut server = start(&[]);
    let session = handshake(&server);
    server.kill();
    let again = start(&["--port", &server.port().to_string()]);
    assert_eq!(again.url(), server.url());
    assert_eq!(post(&again, &[("mcp-session-id", &session)], &call(1, "echo", json!({}))).status, 404);
}

#[test]
fn a_dropped_server_leaves_no_process() {
    let server = start(&[]);
    let pid = server.pid();
    drop(server);
    assert!(wait_gone(pid, LONG));
}
