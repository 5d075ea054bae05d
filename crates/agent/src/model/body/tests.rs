use proptest::prelude::*;
use serde_json::json;
use toolrack_host::Wire;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Returns the body of a request with the members of `head`, of the settings and of the request.
fn body_of(head: Value, settings: Value, request: Value) -> Value {
    let mut model = ModelSettings::new("custom", "m", Wire::OpenAiChat, "http://127.0.0.1");
    model.extra_body = map(settings);
    let extra = map(request);
    let mut with_extra = Request::new(&[]);
    with_extra.extra_body = Some(&extra);
    let mut body = BodyWriter::new(map(head), &model, &with_extra);
    body.write_member("messages", &["ours"]);
    body.write_raw_member("tools", &["[", "1", "]"]);
    serde_json::from_slice(&body.finish()).unwrap()
}

#[test]
fn the_request_overrides_the_settings_and_the_settings_override_the_wire() {
    for (head, settings, request, expected) in [
        (json!({"a": 1}), json!({}), json!({}), json!({"a": 1})),
        (json!({"a": 1}), json!({"a": 2}), json!({}), json!({"a": 2})),
        (json!({"a": 1}), json!({"a": 2}), json!({"a": 3}), json!({"a": 3})),
        (json!({"a": 1}), json!({"a": null}), json!({}), json!({})),
        (json!({"a": 1}), json!({"a": null}), json!({"a": 4}), json!({"a": 4})),
        (json!({}), json!({"a": null}), json!({}), json!({})),
        (json!({"a": 1}), json!({"b": [1]}), json!({"c": {"d": 1}}), json!({"a": 1, "b": [1], "c": {"d": 1}})),
        // The members of an object in both are merged.
        (
            json!({"o": {"x": 1, "y": 2}}),
            json!({"o": {"x": 3}}),
            json!({"o": {"z": 4}}),
            json!({"o": {"x": 3, "y": 2, "z": 4}}),
        ),
        (
            json!({"o": {"x": {"deep": 1}}}),
            json!({"o": {"x": {"other": 2}}}),
            json!({}),
            json!({"o": {"x": {"other": 2}}}),
        ),
        (json!({"o": {"x": 1}}), json!({"o": 5}), json!({}), json!({"o": 5})),
        (json!({"o": 5}), json!({"o": {"x": 1}}), json!({}), json!({"o": {"x": 1}})),
    ] {
        let mut body = body_of(head.clone(), settings.clone(), request.clone());
        assert_eq!(body["messages"].take(), json!(["ours"]));
        assert_eq!(body["tools"].take(), json!([1]));
        let mut expected = expected;
        (expected["messages"], expected["tools"]) = (Value::Null, Value::Null);
        assert_eq!(body, expected, "{head} {settings} {request}");
    }
}

#[test]
fn a_member_with_any_name_is_one_member() {
    let name = r#"a":1,"b\c"#;
    let body = body_of(json!({}), json!({ name: 2 }), json!({}));
    assert_eq!(body, json!({ name: 2, "messages": ["ours"], "tools": [1] }));
}

#[test]
fn the_conversation_the_tools_and_the_stream_cannot_be_set_from_outside() {
    // The names that the four wires have for them.
    let names = "messages input contents tools stream system systemInstruction instructions";
    let members: Map<String, Value> = names.split(' ').map(|name| (name.to_owned(), json!("theirs"))).collect();
    for (settings, request) in [(members.clone(), Map::new()), (Map::new(), members)] {
        let body = body_of(json!({"model": "m"}), settings.into(), request.into());
        assert_eq!(body, json!({"model": "m", "messages": ["ours"], "tools": [1]}));
    }
}

proptest! {
    #[test]
    fn a_body_is_json_for_any_values(head in ".*", value in ".*", extra in ".*") {
        let body = body_of(json!({"model": head}), json!({"x": value}), json!({"y": extra}));
        prop_assert_eq!((&body["model"], &body["x"], &body["y"]), (&json!(head), &json!(value), &json!(extra)));
    }

    #[test]
    fn an_unfit_id_always_becomes_the_same_fitting_id(id in ".{0,80}", length in 1_usize..64) {
        let fits = |id: &str| id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let fitted = accepted_id(&id, fits, length);
        prop_assert!(fits(&fitted));
        prop_assert_eq!(&fitted, &accepted_id(&id, fits, length));
        prop_assert_eq!(&accepted_id(&fitted, fits, length), &fitted, "a fitting id stays");
        let other = format!("{id}x");
        prop_assert!(length < 9 || accepted_id(&other, fits, length) != fitted);
    }
}

#[test]
fn system_texts_are_joined_in_order_and_blank_ones_are_left_out() {
    let messages = [
        Message::new(Role::System, "one"),
        Message::new(Role::User, "hello"),
        Message::new(Role::System, " \n"),
        Message::new(Role::System, "two"),
    ];
    let mut request = Request::new(&messages);
    assert_eq!(system_text(&request).as_deref(), Some("one\n\ntwo"));
    request.system = Some("first");
    assert_eq!(system_text(&request).as_deref(), Some("first\n\none\n\ntwo"));
    request.system = Some("");
    assert_eq!(system_text(&request).as_deref(), Some("one\n\ntwo"));
    request.messages = &messages[1..3];
    assert_eq!(system_text(&request), None);
}

#[test]
fn pieces_of_one_role_become_one_message_and_no_pieces_become_none() {
    let mut sent = Vec::new();
    for (role, pieces) in [("user", vec![]), ("user", vec![1]), ("user", vec![2]), ("model", vec![]), ("user", vec![3])]
    {
        add_pieces(&mut sent, role, pieces.into_iter().map(Value::from).collect());
    }
    add_pieces(&mut sent, "model", vec![json!(4)]);
    assert_eq!(json!(sent), json!([["user", [1, 2, 3]], ["model", [4]]]));
}

#[test]
fn the_tokens_and_the_temperature_of_a_request_count_more_than_those_of_the_settings() {
    let mut settings = ModelSettings::new("custom", "m", Wire::OpenAiChat, "http://127.0.0.1");
    let mut request = Request::new(&[]);
    let members = |settings: &ModelSettings, request: &Request<'_>| {
        let mut members = map(json!({ "max": 1 }));
        add_sampling(&mut members, "max", settings, request);
        Value::Object(members)
    };
    assert_eq!(members(&settings, &request), json!({ "max": 1 }), "the wire's own number stays");
    settings.max_tokens = Some(2);
    assert_eq!(members(&settings, &request), json!({ "max": 2 }));
    (request.max_tokens, request.temperature) = (Some(3), Some(0.0));
    assert_eq!(members(&settings, &request), json!({ "max": 3, "temperature": 0.0 }));
}

#[test]
fn only_an_empty_answer_is_left_out() {
    let call = ToolCallData::new("a", "f", Map::new());
    let blocks = json!({"wire": "gemini", "model": "m", "blocks": []});
    for (message, is_sent) in [
        (Message::new(Role::Assistant, ""), false),
        (Message::new(Role::Assistant, " \n"), false),
        (Message::new(Role::Assistant, "x"), true),
        (Message::new(Role::Assistant, "").with_tool_calls(vec![call]), true),
        (Message { blocks: serde_json::from_value(blocks).unwrap(), ..Message::new(Role::Assistant, "") }, true),
        (Message::new(Role::User, ""), true),
        (Message::tool_result("a", ""), true),
    ] {
        assert_eq!(has_content(&message), is_sent, "{message:?}");
    }
}

#[test]
fn arguments_that_are_not_an_object_are_sent_back_as_an_empty_object() {
    for (written, sent) in
        [("{\"a\":1}", "{\"a\":1}"), ("", "{}"), ("null", "{}"), ("[1]", "{}"), ("{\"a\":", "{}"), ("7", "{}")]
    {
        let call = ToolCallData::from_text("id", "f", written);
        assert_eq!(arguments_text(&call), sent, "{written}");
        assert_eq!(Value::Object(arguments(&call).into_owned()), sent.parse::<Value>().unwrap(), "{written}");
    }
}

fn content(value: Value) -> Content {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_part_that_a_model_cannot_see_is_described() {
    for (part, words) in [
        (json!({"type": "text", "text": "hi"}), "hi"),
        (
            json!({"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"}),
            "[a picture, image/png, 6 bytes: it cannot be shown to this model]",
        ),
        (
            json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
            "[a sound, audio/wav, 3 bytes: it cannot be shown to this model]",
        ),
        // The host leaves out the bytes of a part that is too large.
        (json!({"type": "image", "data": "", "mimeType": "image/png"}), "[image/png: too large to be shown here]"),
        (json!({"type": "audio", "data": "", "mimeType": "audio/wav"}), "[audio/wav: too large to be shown here]"),
        (json!({"type": "resource", "resource": {"uri": "x:y", "text": "inside", "mimeType": "text/plain"}}), "inside"),
        (
            json!({"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA"}}),
            "[the file x:y, application/octet-stream, 3 bytes: it cannot be shown to this model]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA", "mimeType": "image/gif"}}),
            "[a picture, image/gif, 3 bytes: it cannot be shown to this model]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA", "mimeType": "audio/mpeg"}}),
            "[a sound, audio/mpeg, 3 bytes: it cannot be shown to this model]",
        ),
        (json!({"type": "resource_link", "uri": "x:y", "name": "n"}), "x:y"),
    ] {
        assert_eq!(media_as_text(&media(&content(part.clone()))), words, "{part}");
    }
}

#[test]
fn a_name_that_a_model_invented_goes_back_as_one_that_providers_accept() {
    let long = "x".repeat(200);
    for (name, sent) in [
        ("mcp__fs__read-file_2", "mcp__fs__read-file_2"),
        ("multi_tool_use.parallel", "multi_tool_use_parallel"),
        ("get weather!\n", "get_weather__"),
        ("wetter_fürs_dorf", "wetter_f_rs_dorf"),
        ("", "_"),
        (long.as_str(), &long[..128]),
    ] {
        assert_eq!(call_name(name, &[]), sent);
    }
    assert_eq!(call_name("default_api.read", &['.', ':']), "default_api.read");
}

#[test]
fn a_picture_has_the_type_of_its_bytes_and_is_text_if_a_provider_could_not_read_them() {
    let (png, jpeg, gif, webp) = ("iVBORw0KGgo=", "/9j/4AAQ", "R0lGODlh", "UklGRiQAAABXRUJQ");
    for (claimed, data, sent) in [
        ("image/png", png, Some("image/png")),
        ("image/png", jpeg, Some("image/jpeg")),
        ("image/jpg", jpeg, Some("image/jpeg")),
        ("image/gif", gif, Some("image/gif")),
        ("image/webp", webp, Some("image/webp")),
        ("image/svg+xml", "PHN2Zz48L3N2Zz4=", None),
        ("image/png", "data:image/png;base64,iVBORw0KGgo=", None),
        ("image/png", "iVBORw0KGgoAAAAN\nSUhEUgAAAAE", None),
        ("image/png", "iVBORw0KGgoAAAANSUhEUgA", None),
        ("image/png", "\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}", None),
    ] {
        let part = content(json!({"type": "image", "data": data, "mimeType": claimed}));
        let found = match media(&part) {
            Media::Image(bytes, kind) => (bytes == data).then_some(kind),
            Media::Text(words) => {
                assert!(words.starts_with(&format!("[a picture, {claimed}, ")), "{words}");
                None
            }
            _ => panic!("{claimed}"),
        };
        assert_eq!(found, sent, "{claimed} {data}");
    }
    let pdf = |blob: &str| {
        content(json!({"type": "resource", "resource": {"uri": "x:y", "blob": blob, "mimeType": "application/pdf"}}))
    };
    assert!(matches!(media(&pdf("JVBERi0=")), Media::Pdf("JVBERi0=", "application/pdf", "x:y")));
    assert!(matches!(media(&pdf("PGh0bWw+")), Media::Text(_)), "a page of HTML");
    let sound = content(json!({"type": "audio", "data": "not Base64", "mimeType": "audio/wav"}));
    assert!(matches!(media(&sound), Media::Text(_)));
}

#[test]
fn a_failed_result_says_so_once() {
    let failed = |text: &str| result_text(&Message::tool_error("a", text)).into_owned();
    for (text, sent) in [
        ("no such file", "Error: no such file"),
        ("", "Error: "),
        ("Error: no", "Error: no"),
        ("ERROR 7", "ERROR 7"),
        ("err", "Error: err"),
        ("\u{fc}\u{fc}\u{fc}", "Error: \u{fc}\u{fc}\u{fc}"),
    ] {
        assert_eq!(failed(text), sent);
    }
    assert_eq!(result_text(&Message::tool_result("a", "fine")), "fine");
}

#[test]
fn a_described_result_has_one_line_for_each_part() {
    let picture = content(json!({"type": "image", "data": "", "mimeType": "image/png"}));
    let with = |text: &str, parts: usize| Message::tool_result("a", text).with_parts(vec![picture.clone(); parts]);
    let line = "[image/png: too large to be shown here]";
    assert_eq!(result_as_text(&with("text", 0)), "text");
    assert_eq!(result_as_text(&with("text", 2)), format!("text\n{line}\n{line}"));
    assert_eq!(result_as_text(&with("", 1)), line);
}
