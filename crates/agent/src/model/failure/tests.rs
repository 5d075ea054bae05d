use http::HeaderValue;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())).collect()
}

/// The kind of an error with this status and body, for a client with a key.
fn kind_of(status: u16, body: &str) -> ModelErrorKind {
    let key = Key::new("sk-secret-0123456789");
    let headers = HeaderMap::new();
    classify_response(&ErrorResponse {
        status: Some(status),
        headers: &headers,
        body: body.as_bytes(),
        key: Some(&key),
        key_advice: "set KEY",
    })
}

fn is_retried(status: u16, body: &str, pairs: &[(&'static str, &str)]) -> bool {
    let headers = headers(pairs);
    let response =
        ErrorResponse { status: Some(status), headers: &headers, body: body.as_bytes(), key: None, key_advice: "" };
    let kind = classify_response(&response);
    may_retry(&response, &kind)
}

#[test]
fn an_error_is_read_in_every_form_that_providers_send() {
    for (body, code, message) in [
        (json!({"error": {"message": "m", "type": "t", "code": "c"}}), "c", "m"),
        // OpenAI writes null where it has no code.
        (json!({"error": {"message": "m", "type": "t", "code": null}}), "t", "m"),
        (json!({"error": {"message": "m", "code": ""}}), "", "m"),
        (json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}), "RESOURCE_EXHAUSTED", "m"),
        (json!([{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}]), "INVALID_ARGUMENT", "m"),
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}), "overloaded_error", "m"),
        (json!({"error": "m"}), "", "m"),
        (json!({"error": "m", "code": "c"}), "c", "m"),
        (json!({"error": "m", "type": "t"}), "t", "m"),
        (json!({"message": "m"}), "", "m"),
        (json!({"message": "m", "type": "t", "code": "c"}), "c", "m"),
        (json!({"object": "error", "message": "m", "code": 404}), "404", "m"),
        (json!({"detail": "m"}), "", "m"),
        (json!({"detail": [{"msg": "m"}]}), "", r#"[{"msg":"m"}]"#),
        (json!({"error": {"message": {"detail": "m"}}}), "", r#"{"detail":"m"}"#),
        (json!({"error": {"code": "c"}}), "c", ""),
        (json!({"error": {"message": "m", "metadata": {"raw": "behind"}}}), "", "m: behind"),
    ] {
        let read = ErrorBody::read(&body).unwrap();
        assert_eq!((&*read.code, &*read.message), (code, message), "{body}");
    }
    for body in
        [json!({}), json!([]), json!(7), json!("error"), json!({"error": null}), json!({"error": 7}), json!({"id": 1})]
    {
        assert_eq!(ErrorBody::read(&body), None, "{body}");
    }
}

#[test]
fn the_kind_of_an_error_depends_on_the_status_alone() {
    for body in ["", "null", "{}", "plain", r#"{"error": {"message": "m"}}"#, "\u{fffd}\u{0}"] {
        for (status, code) in [
            (400, "MODEL_REFUSED"),
            (401, "MODEL_AUTH"),
            (402, "MODEL_REFUSED"),
            (403, "MODEL_AUTH"),
            (404, "MODEL_REFUSED"),
            (408, "MODEL_UNAVAILABLE"),
            (409, "MODEL_UNAVAILABLE"),
            (413, "MODEL_CONTEXT_OVERFLOW"),
            (418, "MODEL_REFUSED"),
            (422, "MODEL_REFUSED"),
            (429, "MODEL_RATE_LIMITED"),
            (500, "MODEL_UNAVAILABLE"),
            (501, "MODEL_UNAVAILABLE"),
            (529, "MODEL_UNAVAILABLE"),
            (599, "MODEL_UNAVAILABLE"),
            (600, "MODEL_REFUSED"),
            (302, "MODEL_REFUSED"),
        ] {
            let error = super::super::ModelError::new("p/m", 1, kind_of(status, body));
            assert_eq!((error.code(), error.status()), (code, Some(status)), "{body:?}");
        }
    }
}

#[test]
fn a_message_about_length_counts_only_with_a_status_about_the_request() {
    let long = r#"{"error": {"message": "maximum context length is 8192"}}"#;
    let coded = r#"{"error": {"message": "no", "code": "context_length_exceeded"}}"#;
    for status in [400, 413, 422, 500] {
        for body in [long, coded] {
            assert!(matches!(kind_of(status, body), ModelErrorKind::ContextOverflow { .. }), "{status} {body}");
        }
    }
    // Messages about limits of the account mention tokens, too.
    for status in [401, 403, 404, 429, 503] {
        for body in [long, coded] {
            assert!(!matches!(kind_of(status, body), ModelErrorKind::ContextOverflow { .. }), "{status} {body}");
        }
    }
    for message in [
        "This model's maximum context length is 8192 tokens",
        "the request exceeds the available CONTEXT SIZE (4096)",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "input length and `max_tokens` exceed context limit",
        "The input token count exceeds the maximum number of tokens allowed",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072",
        "Prompt contains too many tokens",
    ] {
        let body = json!({"error": {"message": message}}).to_string();
        assert!(matches!(kind_of(400, &body), ModelErrorKind::ContextOverflow { .. }), "{message}");
    }
    for message in ["max_tokens is too large: 900000", "messages: at least one message is required", "unknown model"] {
        let body = json!({"error": {"message": message}}).to_string();
        assert!(matches!(kind_of(400, &body), ModelErrorKind::Refused { .. }), "{message}");
    }
}

#[test]
fn googles_answer_to_a_wrong_key_counts_as_a_wrong_key() {
    let body = r#"[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}]"#;
    let kind = kind_of(400, body);
    assert!(matches!(&kind, ModelErrorKind::Auth { status: 400, advice, .. } if advice == "set KEY"), "{kind}");
    assert!(matches!(kind_of(404, body), ModelErrorKind::Refused { .. }));
}

#[test]
fn only_transient_errors_are_retried() {
    for (status, expected) in [
        (400, false),
        (401, false),
        (404, false),
        (408, true),
        (409, true),
        (413, false),
        (429, true),
        (500, true),
        (501, false),
        (502, true),
        (503, true),
        (504, true),
        (505, false),
        (529, true),
    ] {
        assert_eq!(is_retried(status, "", &[]), expected, "{status}");
        assert!(is_retried(status, "", &[("x-should-retry", "true")]), "{status}: the provider knows better");
        assert!(!is_retried(status, "", &[("x-should-retry", "false")]), "{status}");
        assert_eq!(is_retried(status, "", &[("x-should-retry", "perhaps")]), expected, "{status}");
    }
    for message in ["You exceeded your current quota", "Insufficient Balance", "insufficient_quota"] {
        let body = json!({"error": {"message": message}}).to_string();
        assert!(!is_retried(429, &body, &[]), "{message}: waiting does not add credit");
    }
    assert!(!is_retried(429, r#"{"error": {"message": "no", "code": "insufficient_quota"}}"#, &[]));
    assert!(!is_retried(400, r#"{"error": {"message": "maximum context length"}}"#, &[]));
}

#[test]
fn the_wait_that_a_provider_asks_for_is_read_in_every_form() {
    for (pairs, millis) in [
        (&[("retry-after", "2")][..], Some(2_000)),
        (&[("retry-after", " 2 ")], Some(2_000)),
        (&[("retry-after", "0.25")], Some(250)),
        (&[("retry-after", "0")], Some(0)),
        (&[("retry-after-ms", "1500")], Some(1_500)),
        // The header in milliseconds takes precedence, if it can be read.
        (&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1_500)),
        (&[("retry-after-ms", "soon"), ("retry-after", "9")], Some(9_000)),
        // A date in the past means now.
        (&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], Some(0)),
        (&[("retry-after", "-1")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "1e300")], None),
        (&[("retry-after", "")], None),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "2 s")], None),
        (&[], None),
    ] {
        assert_eq!(retry_after(&headers(pairs)), millis.map(Duration::from_millis), "{pairs:?}");
    }
    let later = Utc::now() + Duration::from_secs(60);
    let wait = retry_after(&headers(&[("retry-after", &later.to_rfc2822())])).unwrap();
    assert!((Duration::from_secs(50)..=Duration::from_secs(60)).contains(&wait), "{wait:?}");
}

#[test]
fn the_retry_after_header_overrides_the_body() {
    let body = r#"{"error": {"code": 429, "message": "x", "details": [{"@type": "Help"}, {"retryDelay": "3.5s"}]}}"#;
    let wait = |pairs: &[(&'static str, &str)]| {
        let headers = headers(pairs);
        let response =
            ErrorResponse { status: Some(429), headers: &headers, body: body.as_bytes(), key: None, key_advice: "" };
        super::super::ModelError::new("p/m", 1, classify_response(&response)).retry_after()
    };
    assert_eq!(wait(&[]), Some(Duration::from_millis(3_500)));
    assert_eq!(wait(&[("retry-after", "1")]), Some(Duration::from_secs(1)));
    for delay in ["3.5", "s", "-1s", "x", "3500ms"] {
        let body = json!({"error": {"details": [{"retryDelay": delay}]}});
        assert_eq!(ErrorBody::read(&body).unwrap().wait, None, "{delay}");
    }
}

#[test]
fn an_html_page_is_distinguished_from_a_text_about_html() {
    for page in
        ["<!DOCTYPE html><p>", "\u{feff}<html>", "\n\t <HTML lang=en>", "<head><title>", "<!doctype HTML PUBLIC"]
    {
        assert!(is_html(page), "{page:?}");
        assert!(kind_of(502, page).to_string().ends_with(": an HTML page"), "{page:?}");
    }
    for text in ["", "html", "<p>no", "see <html>", "{\"error\": \"<html>\"}", "<htm"] {
        assert!(!is_html(text), "{text:?}");
    }
}

#[test]
fn an_error_inside_of_a_stream_has_no_status() {
    let headers = HeaderMap::new();
    let response = ErrorResponse { status: None, headers: &headers, body: b"", key: None, key_advice: "" };
    let body = |code: &str| ErrorBody { code: code.into(), message: "m".into(), wait: None };
    assert_eq!(classify(&response, &body("")), ModelErrorKind::StreamError { code: None, message: "m".into() });
    let coded = ModelErrorKind::StreamError { code: Some("overloaded".into()), message: "m".into() };
    assert_eq!(classify(&response, &body("overloaded")), coded);
    let overflow = ModelErrorKind::ContextOverflow { status: None, message: "m".into() };
    assert_eq!(classify(&response, &body("context_length_exceeded")), overflow);
    assert!(!may_retry(&response, &coded), "an answer that was streamed in part is not requested again");
}

#[test]
fn a_key_is_hidden_however_a_provider_quotes_it() {
    let key = Key::new("sk-secret-0123456789");
    for (quoted, shown) in [
        ("no key sk-secret-0123456789", "no key [key]"),
        ("\"sk-secret-0123456789\" is wrong", "\"[key]\" is wrong"),
        ("'sk-secret-0123456789', or sk-secre******6789", "'[key]', or [key]"),
        ("key=sk-secret-0123456789&x=1 failed", "key=[key] failed"),
        ("sk-secret-0123456789\nsk-secret-0123456789", "[key]\\n[key]"),
        ("sk-secr is too short a part", "sk-secr is too short a part"),
        ("", ""),
    ] {
        assert_eq!(quote(quoted, Some(&key)), shown);
    }
    assert_eq!(quote("sk-secret-0123456789", None), "sk-secret-0123456789");
}

#[test]
fn short_and_unusual_keys_are_hidden_as_well() {
    for key in [
        "geheim",
        "passwort",
        "schl\u{fc}ssel-\u{fc}ber-alles",
        "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
        "\u{1f511}\u{1f511}\u{1f511}",
    ] {
        let quoted = quote(&format!("the key {key} is wrong"), Some(&Key::new(key)));
        assert_eq!(quoted, "the key [key] is wrong", "{key}");
    }
    // Neither an empty key nor a single letter hides anything.
    for key in ["", "a"] {
        assert_eq!(quote("a banana", Some(&Key::new(key))), "a banana");
    }
}

#[test]
fn a_key_that_was_copied_with_its_quotes_is_hidden_once() {
    for key in
        ["\"sk-secret-0123456789\"", "'sk-secret-0123456789'", ",,,,,,,,,,", "sk-a,b-secret", "\"\"\"\"\"\"\"\"x"]
    {
        let quoted = quote(&format!("no key {key} here"), Some(&Key::new(key)));
        assert_eq!(quoted, "no key [key] here", "{key}");
    }
}

proptest! {
    #[test]
    fn a_quote_is_one_short_safe_line_without_the_key(before in ".{0,700}", after in ".{0,700}", key in "[!-~]{8,40}") {
        let quoted = quote(&format!("{before} {key} {after}"), Some(&Key::new(&key)));
        prop_assert!(!quoted.contains(&key) || before.contains(&key) || after.contains(&key), "{}", quoted);
        let acts = quoted.contains(['\n', '\r', '\u{1b}', '\u{0}']);
        prop_assert!(!acts);
        // Escapes make a text longer, but only up to a bound.
        prop_assert!(quoted.len() <= 10 * (QUOTE_BYTES + 8));
        prop_assert_eq!(safe_line(&quoted), quoted);
    }
}
