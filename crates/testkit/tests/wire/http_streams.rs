//! Event streams that are cut, resumed, garbled.

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, FakeHttp};

use crate::plain_http::{Answer, End, handshake, open_get, open_post};
use crate::plain_stdio::LONG;
use crate::{call, text};

/// Calls `write` once, on a server with this fault. Returns the answer, and how often the tool ran.
fn struck(fault: &str) -> (Answer, usize) {
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--fault", fault, "--log", effects.path_str()]);
    let answer = open_post(&server, &[], &call(5, "write", json!({}))).read(LONG);
    let effects = effects.wait_until(LONG, |effects| effects.runs_of("write") > 0);
    (answer, effects.runs_of("write"))
}

#[test]
fn faults_of_streams_strike_after_the_effect() {
    for (fault, end, events) in [
        ("cut-sse", End::Cut, 0),
        ("sse-bad-json", End::Whole, 0),
        ("sse-huge-event=300000", End::Whole, 1),
        ("sse-endless", End::Endless, 0),
        ("sse-endless-line", End::Endless, 0),
        ("sse-wrong-id", End::Whole, 2),
    ] {
        let (answer, runs) = struck(fault);
        let seen = if end == End::Endless { 0 } else { answer.events().len() };
        assert_eq!((answer.end, seen, runs), (end, events, 1), "{fault}");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{fault}");
    }
    let noisy = struck("sse-noise").0;
    assert!(noisy.body.windows(4).any(|part| part == b"caf\xe9") && noisy.end == End::Whole);
    assert!(struck("sse-huge-event=300000").0.body.len() > 300_000);
    let forged = struck("sse-wrong-id").0.events();
    assert_eq!((text(&forged[0]), text(&forged[1])), ("forged", "written"));
}

#[test]
fn a_stream_of_oddities_still_holds_its_answer() {
    let (answer, _) = struck("sse-unknown-field");
    let all = answer.text();
    assert!(all.contains("foo: bar\n") && all.contains("unknown: 1\r"));
    let data = all.split(['\r', '\n']).filter_map(|line| line.strip_prefix("data:"));
    let messages: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
    assert_eq!(messages.iter().filter(|message| message["id"] == 5).count(), 1);
}

#[test]
fn a_split_event_is_one_message_on_many_lines() {
    let (answer, _) = struck("sse-split");
    let joined: String = answer.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(serde_json::from_str::<Value>(&joined).unwrap()["id"], 5);
}

#[test]
fn a_cut_stream_is_resumed_by_its_event_id_once() {
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--fault", "sse-resume=250", "--log", effects.path_str(), "--log-all"]);
    let session = handshake(&server);
    let session: &[(&str, &str)] = &[("mcp-session-id", &session)];
    let cut = open_post(&server, session, &call(5, "write", json!({}))).read(LONG);
    assert_eq!(cut.end, End::Whole);
    let all = cut.text();
    assert!(all.contains("retry: 250\n") && all.contains("data: \n\n"));
    let id = all.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let resumed = open_get(&server, &[session, &[("last-event-id", id)]].concat()).read(LONG);
    assert_eq!(text(&resumed.events()[0]), "written");
    assert_eq!(open_get(&server, &[("last-event-id", id)]).read(LONG).status, 404, "there is nothing left");
    assert_eq!(effects.read().runs_of("write"), 1);
    assert_eq!(effects.read().http_count_of("GET"), 2);
}

#[test]
fn loops_of_resumption_never_give_the_answer() {
    for (fault, end) in [("sse-reset-loop", End::Reset), ("sse-empty-loop", End::Whole)] {
        let server = FakeHttp::start(&["--fault", fault]);
        let cut = open_post(&server, &[], &call(5, "write", json!({}))).read(LONG).text();
        assert!(cut.contains("retry: 0\n"), "{fault}");
        let id = cut.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        for _ in 0..3 {
            let again = open_get(&server, &[("last-event-id", id)]).read(LONG);
            assert_eq!((again.end, again.events().len()), (end, 0), "{fault}");
        }
    }
}

#[test]
fn a_cut_stream_is_not_resumed_where_each_get_is_refused() {
    for (fault, status) in [("sse-refuses-resume", 405), ("sse-refuses-resume=500", 500)] {
        let server = FakeHttp::start(&["--fault", fault]);
        let cut = open_post(&server, &[], &call(5, "write", json!({}))).read(LONG).text();
        let id = cut.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        for _ in 0..2 {
            assert_eq!(open_get(&server, &[("last-event-id", id)]).read(LONG).status, status, "{fault}");
        }
    }
}

#[test]
fn progress_comes_on_the_stream_while_the_call_runs() {
    let server = FakeHttp::start::<&str>(&[]);
    let mut request = call(1, "sleep", json!({"ms": 600_000, "progress": true}));
    request["params"]["_meta"] = json!({"progressToken": 1});
    let mut stream = open_post(&server, &[], &request);
    assert_eq!(stream.event()["params"]["progress"], 100);
    assert_eq!(stream.event()["params"]["progress"], 200);
}

#[test]
fn without_a_standing_stream_calls_are_answered() {
    for (fault, status) in [("refuse-stream", 405), ("refuse-stream=500", 500)] {
        let server = FakeHttp::start(&["--fault", fault]);
        let session = handshake(&server);
        let session = [("mcp-session-id", session.as_str())];
        assert_eq!(open_get(&server, &session).read(LONG).status, status);
        assert_eq!(open_post(&server, &session, &call(5, "write", json!({}))).read(LONG).status, 200);
    }
}
