use serde_json::json;
use uuid::Uuid;

use super::*;

/// A message as the database has it.
fn stored(role: Role, content: &str, body: Option<Value>) -> StoredMessage {
    StoredMessage {
        id: Uuid::nil(),
        session_id: Uuid::nil(),
        position: 7,
        role,
        content: content.to_owned(),
        tool_calls: None,
        tool_results: None,
        body: body.map(|body| body.to_string()),
        timestamp: DateTime::from_timestamp_millis(1_800_000_000_001).unwrap(),
        spent: None,
    }
}

fn transcript_of(message: StoredMessage) -> TranscriptMessage {
    TranscriptMessage::new(message, &str::to_owned)
}

#[test]
fn the_body_that_the_agent_wrote_takes_precedence_over_the_columns() {
    let body = json!({
        "content": "of the body", "tool_calls": [{"id": "c1", "name": "fs/read", "input": {"path": "a"}}],
        "parts": [{"type": "text", "text": "part"}],
    });
    let mut message = stored(Role::Assistant, "of the column", Some(body));
    message.tool_calls = Some(r#"[{"id":"other","name":"x"}]"#.to_owned());
    let shown = transcript_of(message.clone());
    assert_eq!((shown.content.as_str(), shown.position, shown.role), ("of the body", 7, "assistant"));
    let call = TranscriptCall { id: "c1".to_owned(), name: "fs/read".to_owned(), input: json!({"path": "a"}) };
    assert_eq!((shown.tool_calls, shown.parts.len()), (vec![call], 1));
    assert_eq!(shown.timestamp, "2027-01-15T08:00:00.001Z");

    // Without it, or where it cannot be read, the columns count.
    for body in [None, Some("{ oops".to_owned()), Some("[]".to_owned()), Some("7".to_owned()), Some("{}".to_owned())] {
        let shown = transcript_of(StoredMessage { body: body.clone(), ..message.clone() });
        assert_eq!((shown.content.as_str(), shown.tool_calls.len()), ("of the column", 1), "{body:?}");
        assert_eq!(shown.tool_calls[0].id, "other", "{body:?}");
    }
}

#[test]
fn calls_are_read_in_the_forms_of_several_programs() {
    let of_provider = json!({"id": "c", "type": "function", "function": {"name": "n", "arguments": "{\"a\":1}"}});
    for (written, id, name, input) in [
        (json!({"id": "c", "name": "n", "input": {"a": 1}}), "c", "n", json!({"a": 1})),
        (json!({"id": "c", "name": "n", "arguments": {"a": 1}}), "c", "n", json!({"a": 1})),
        (json!({"id": "c", "name": "n", "arguments": "{\"a\":1}"}), "c", "n", json!({"a": 1})),
        (of_provider, "c", "n", json!({"a": 1})),
        (json!({"id": "c", "name": "n", "raw_arguments": "{\"a\":", "input": {}}), "c", "n", json!("{\"a\":")),
        (json!({"id": "c", "name": "n", "raw_arguments": null, "input": {"a": 2}}), "c", "n", json!({"a": 2})),
        (json!({"id": 7, "name": ["n"]}), "", "", Value::Null),
        (json!("n"), "", "", Value::Null),
        (json!({}), "", "", Value::Null),
    ] {
        let mut message = stored(Role::Assistant, "", None);
        message.tool_calls = Some(json!([written]).to_string());
        let calls = transcript_of(message).tool_calls;
        let expected = TranscriptCall { id: id.to_owned(), name: name.to_owned(), input };
        assert_eq!(calls, [expected], "{written}");
    }
}

#[test]
fn a_result_says_which_call_it_answers_and_whether_that_failed() {
    for (results, id, failed) in [
        (r#"{"tool_call_id":"c1"}"#, Some("c1"), false),
        (r#"{"tool_call_id":"c1","is_error":true}"#, Some("c1"), true),
        (r#"[{"tool_call_id":"c1","is_error":true}]"#, Some("c1"), true),
        (r#"[{"tool_call_id":"c1"},{"tool_call_id":"c2"}]"#, Some("c1"), false),
        (r#"{"tool_call_id":"c1","is_error":"true"}"#, Some("c1"), false),
        (r#"{"tool_call_id":7}"#, None, false),
        ("[]", None, false),
        ("{ oops", None, false),
        ("", None, false),
    ] {
        let mut message = stored(Role::Tool, "x", None);
        message.tool_results = Some(results.to_owned());
        let shown = transcript_of(message);
        assert_eq!((shown.tool_call_id.as_deref(), shown.is_error), (id, failed), "{results}");
    }
}

#[test]
fn the_tool_of_a_result_is_the_one_that_was_called_last_by_that_id() {
    let asks = |id: &str, name: &str| {
        transcript_of(stored(Role::Assistant, "", Some(json!({"tool_calls": [{"id": id, "name": name, "input": {}}]}))))
    };
    let answers = |id: &str| transcript_of(stored(Role::Tool, "x", Some(json!({"tool_call_id": id}))));
    // Some providers count their calls from one in each answer.
    let all = [asks("1", "first"), answers("1"), asks("1", "second"), answers("1"), answers("2"), asks("2", "late")];
    let tools: Vec<_> = (0..7).map(|index| tool_name(&all, index)).collect();
    assert_eq!(tools, [None, Some("first"), None, Some("second"), None, None, None]);
}

#[test]
fn secrets_are_hidden_in_all_that_is_shown_of_a_message() {
    let secret = "hunter2";
    let body = json!({
        "content": format!("it is {secret}"),
        "tool_calls": [{"id": "c", "name": format!("use_{secret}"), "input": {"deep": [{secret: secret}], "n": 7}}],
        "parts": [{"type": "text", "text": secret}, {"type": "resource", "resource": {"uri": format!("x://{secret}")}}],
    });
    let shown = TranscriptMessage::new(stored(Role::Assistant, "", Some(body)), &|text| text.replace(secret, "***"));
    let text = serde_json::to_string(&shown).unwrap();
    assert!(!text.contains(secret) && text.matches("***").count() == 6, "{text}");
    assert_eq!(shown.tool_calls[0].input["n"], 7);
    // Of a message that no agent of ours wrote, too.
    let mut foreign = stored(Role::Tool, secret, None);
    foreign.tool_calls = Some(json!([{"name": "x", "arguments": json!({"key": secret}).to_string()}]).to_string());
    let text = serde_json::to_string(&TranscriptMessage::new(foreign, &|text| text.replace(secret, "***"))).unwrap();
    assert!(!text.contains(secret), "{text}");
}
