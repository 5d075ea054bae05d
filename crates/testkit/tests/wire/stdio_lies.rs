//! Answers that lie, and floods, over stdio.

use std::time::Duration;

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::plain_stdio::{LONG, Lines};
use crate::{call, modern_call, request, text};

/// Calls `write` once, on a server with this fault. Returns the lines that the server writes then, and checks that
/// there are `count` lines and that the tool ran.
fn lines_of(fault: &str, count: usize) -> Vec<Vec<u8>> {
    let effects = EffectLog::new();
    let mut server = Lines::with(&[fault], &["--log", effects.path_str()]);
    server.handshake();
    server.send(&call(5, "write", json!({})));
    let _ = effects.wait_until(LONG, |effects| effects.runs_of("write") == 1);
    let lines = (0..count).map(|_| server.line(LONG).unwrap()).collect();
    assert_eq!(server.line(Duration::from_millis(30)), None, "{fault}");
    assert!(server.runs(), "{fault}");
    lines
}

#[test]
fn each_fault_of_a_result_does_what_its_name_says() {
    type Check = fn(&[Value]) -> bool;
    let table: &[(&str, usize, Check)] = &[
        ("no-answer", 0, <[Value]>::is_empty),
        ("wrong-id", 1, |all| all[0]["id"] != 5),
        ("forged-first", 2, |all| all[0]["id"] != 5 && all[1]["id"] == 5),
        ("duplicate-answer", 2, |all| all[0] == all[1]),
        ("error-without-id", 1, |all| all[0]["id"].is_null() && all[0]["error"]["code"].is_i64()),
        ("duplicate-key", 1, |all| all[0]["id"] == 5),
        ("result-42", 1, |all| all[0]["result"] == 42),
        ("result-null", 1, |all| all[0]["result"].is_null() && all[0].get("result").is_some()),
        ("result-and-error", 1, |all| all[0]["result"].is_object() && all[0]["error"].is_object()),
        ("neither", 1, |all| all[0].as_object().unwrap().len() == 2),
        ("batch", 1, |all| all[0].is_array()),
        ("unknown-result-type", 1, |all| all[0]["result"]["resultType"] == "banana"),
        ("bad-content", 1, |all| all[0]["result"]["content"][1]["type"] == "hologram"),
        ("odd-is-error", 1, |all| all[0]["result"]["isError"] == "true"),
        ("stray-progress", 3, |all| all[1]["id"] == 5 && all[2]["method"] == "notifications/progress"),
        ("odd-messages", 17, |all| all[16]["id"] == 5),
        ("ping-flood=30", 31, |all| all[29]["method"] == "ping"),
        ("notify-flood=30", 31, |all| all[29]["method"] == "notifications/message"),
        ("request-flood=30", 31, |all| all[29]["method"] == "sampling/createMessage"),
    ];
    for (fault, count, says) in table {
        let all: Vec<Value> =
            lines_of(fault, *count).iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        assert!(says(&all), "{fault}: {all:?}");
    }
}

#[test]
fn each_garbled_answer_is_one_line_that_is_not_json() {
    for fault in ["unparsable-answer", "bad-utf8", "huge-number", "deep-json", "truncated"] {
        let lines = lines_of(fault, 1);
        assert!(serde_json::from_slice::<Value>(&lines[0]).is_err(), "{fault}");
        assert!(lines[0].starts_with(b"{\"") && lines[0].ends_with(b"\n"), "{fault}");
        assert!(lines[0].windows(6).any(|window| window == b"\"id\":5"), "{fault}: its id can be peeked at");
    }
}

#[test]
fn the_fault_huge_line_has_the_given_length() {
    let lines = lines_of("huge-line=3000000", 1);
    assert_eq!(lines[0].len(), 3_000_001);
    assert_eq!(serde_json::from_slice::<Value>(&lines[0]).unwrap()["id"], 5);
}

#[test]
fn a_fault_can_be_aimed_at_another_method_and_at_some_requests_only() {
    let args = ["--fault-on", "tools/list", "--fault-after", "1", "--fault-times", "1"];
    let mut server = Lines::with(&["result-42"], &args);
    server.handshake();
    let results: Vec<bool> =
        (1..4).map(|id| server.ask(&request(id, "tools/list", json!({})))["result"] == 42).collect();
    assert_eq!(results, [false, true, false]);
    assert_eq!(text(&server.ask(&call(9, "echo", json!({"text": "true"})))), "true");
}

#[test]
fn input_is_asked_for_without_an_end() {
    let mut server = Lines::with(&["endless-input"], &["--era", "modern"]);
    let mut request = modern_call(1, "elicit", json!({}));
    for id in 1..20 {
        request["id"] = json!(id);
        let result = server.ask(&request)["result"].clone();
        assert_eq!(result["resultType"], "input_required", "round {id}");
        request["params"]["requestState"] = result["requestState"].clone();
        request["params"]["inputResponses"] = json!({"the_answer": {"action": "decline"}});
    }
}
