use super::*;

/// One error of each kind, with its code and its line.
fn all() -> Vec<(ModelErrorKind, &'static str, &'static str)> {
    let (message, why) = ("m".to_owned(), "w".to_owned());
    let wait = Some(Duration::from_millis(2_900));
    vec![
        (ModelErrorKind::Settings { why: why.clone() }, "MODEL_SETTINGS", "w"),
        (
            ModelErrorKind::Unreachable { origin: "http://x:1".into(), why: why.clone() },
            "MODEL_UNREACHABLE",
            "cannot reach http://x:1: w; check the base URL and the network",
        ),
        (
            ModelErrorKind::Auth { status: 403, message: message.clone(), advice: "set KEY".into() },
            "MODEL_AUTH",
            "the key was refused (HTTP 403): m; set KEY",
        ),
        (
            ModelErrorKind::ContextOverflow { status: None, message: String::new() },
            "MODEL_CONTEXT_OVERFLOW",
            "the conversation is too long for the model; start a new one, or use a model with a larger context",
        ),
        (
            ModelErrorKind::RateLimited { retry_after: wait, message: message.clone() },
            "MODEL_RATE_LIMITED",
            "too many requests, or no credit left (HTTP 429): m; it asks to wait 2 s",
        ),
        (
            ModelErrorKind::Unavailable { status: 529, retry_after: Some(Duration::ZERO), message: String::new() },
            "MODEL_UNAVAILABLE",
            "the provider is overloaded or broken (HTTP 529); it asks to wait 1 s",
        ),
        (
            ModelErrorKind::Refused { status: 404, message: message.clone() },
            "MODEL_REFUSED",
            "the provider refused the request (HTTP 404): m; check the name of the model and the base URL",
        ),
        (
            ModelErrorKind::StreamError { code: Some("c".into()), message },
            "MODEL_BROKEN_OFF",
            "the provider reported an error in place of the rest of its answer: m",
        ),
        (ModelErrorKind::Cut { why: why.clone() }, "MODEL_ANSWER_CUT", "the answer was cut off before its end: w"),
        (
            ModelErrorKind::TimedOut {
                what: "the answer",
                after: Duration::from_millis(1_500),
                setting: "total_timeout",
            },
            "MODEL_TIMED_OUT",
            "the answer took longer than 1.5 s (total_timeout)",
        ),
        (
            ModelErrorKind::TooLarge { what: "the answer", limit: 7, setting: "max_response_bytes" },
            "MODEL_ANSWER_TOO_LARGE",
            "the answer is larger than 7 bytes (max_response_bytes)",
        ),
        (
            ModelErrorKind::Unreadable { why },
            "MODEL_UNREADABLE",
            "the answer does not come from a model: w; check the base URL",
        ),
    ]
}

#[test]
fn every_model_error_names_model_failure_and_tries_and_has_its_own_code() {
    let mut codes = std::collections::HashSet::new();
    for (kind, code, line) in all() {
        for (attempts, tries) in [(0, ""), (1, ""), (3, " (tried 3 times)")] {
            let error = ModelError::new("p/m", attempts, kind.clone());
            assert_eq!(error.to_string(), format!("p/m: {line}{tries}"));
            assert_eq!(error.code(), code);
        }
        assert!(codes.insert(code), "{code} is two errors");
    }
}

#[test]
fn an_error_names_status_and_wait_if_there_are_any() {
    let messages: Vec<_> = all()
        .into_iter()
        .map(|(kind, ..)| ModelError::new("p/m", 1, kind))
        .filter(|error| error.status().is_some() || error.retry_after().is_some())
        .map(|error| (error.code(), error.status().unwrap(), error.retry_after()))
        .collect();
    assert_eq!(
        messages,
        [
            ("MODEL_AUTH", 403, None),
            ("MODEL_RATE_LIMITED", 429, Some(Duration::from_millis(2_900))),
            ("MODEL_UNAVAILABLE", 529, Some(Duration::ZERO)),
            ("MODEL_REFUSED", 404, None),
        ]
    );
}

#[test]
fn a_model_without_tools_and_one_that_refuses_them_have_different_errors() {
    let refused = |status: u16, message: &str| ModelErrorKind::Refused { status, message: message.into() };
    for message in [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        "No endpoints found that support tool use.",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        "tools param requires --jinja flag",
        "Unsupported parameter: Tools",
        "Function calling is not supported by this model: function call",
    ] {
        for status in [400, 404, 422, 501] {
            assert_eq!(refused(status, message).tools_refusal(), Some(message), "{status}");
        }
        let broken = ModelErrorKind::Unavailable { status: 500, retry_after: None, message: message.into() };
        assert_eq!(broken.tools_refusal(), Some(message));
        for status in [401, 403, 429, 503] {
            assert_eq!(refused(status, message).tools_refusal(), None, "{status}");
        }
        assert_eq!(ModelErrorKind::Cut { why: message.into() }.tools_refusal(), None);
    }
    for message in [
        "tools.0.name: String should match pattern",
        "Invalid schema for function call: 'type' is missing",
        "this model does not support images",
        "unsupported value: 'temperature'",
        "",
    ] {
        assert_eq!(refused(400, message).tools_refusal(), None, "{message}");
    }
}
