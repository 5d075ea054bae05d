//! The errors of failed answers, for every kind of failure over every wire.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolrack_agent::{
    Delta, Message, ModelError, Request, Role,
    model::{Key, ModelErrorKind, ModelSettings, Wire},
};
use toolrack_testkit::{FakeModel, model::Answer};

use crate::talk::{scripted, settings, streamed, tools};

const WIRES: [Wire; 4] = Wire::ALL;

fn hello() -> [Message; 1] {
    [Message::new(Role::User, "hello")]
}

/// The first event of an answer.
fn first_event(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hel"}}"#,
        Wire::OpenAiChat => r#"{"choices":[{"delta":{"content":"Hel"}}]}"#,
        Wire::OpenAiResponses => r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}"#,
        Wire::Gemini => r#"{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}"#,
    }
}

/// A further event of that answer.
fn next_event(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"l"}}"#,
        other => first_event(other),
    }
}

/// A complete answer.
fn complete_answer(wire: Wire) -> Answer {
    let end = match wire {
        Wire::Anthropic => r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        Wire::OpenAiChat => r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        Wire::OpenAiResponses => r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
        Wire::Gemini => r#"{"candidates":[{"finishReason":"STOP"}]}"#,
    };
    Answer::events([first_event(wire), end])
}

/// Returns the error of a request, after checking that it is the same with and without streaming.
async fn error_of(wire: Wire, answer: Answer) -> ModelError {
    let (server, model) = scripted("anthropic", wire, [answer.clone(), answer]).await;
    let (_, streamed) = streamed(&*model, Request::new(&hello())).await;
    let error = streamed.unwrap_err();
    let completed = model.complete(Request::new(&hello())).await.unwrap_err();
    assert_eq!(completed.kind, error.kind, "streamed or not, the kind is the same");
    assert_eq!(server.requests().len(), 2, "the request is not retried");
    assert!(!format!("{error} {error:?}").contains("sk-secret"), "a key in {error:?}");
    error
}

#[tokio::test]
async fn refusing_statuses_are_reported_with_the_provider_s_text() {
    let refused_with = async |wire, status, body: serde_json::Value| error_of(wire, Answer::json(status, &body)).await;
    for wire in WIRES {
        let error = refused_with(wire, 401, json!({"error": {"message": "Incorrect API key provided: sk-secret-0123456789. Or sk-secre*****6789", "code": "invalid_api_key"}})).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"anthropic/some-model: the key was refused (HTTP 401): Incorrect API key provided: [key] Or [key]; check the key");
        }
        assert_eq!((error.status(), error.code()), (Some(401), "MODEL_AUTH"));
        let error = refused_with(
            wire,
            404,
            json!({"type": "error", "error": {"type": "not_found_error", "message": "model: \u{1b}[31mx"}}),
        )
        .await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @r"anthropic/some-model: the provider refused the request (HTTP 404): model: \u{1b}[31mx; check the name of the model and the base URL");
        }
        let error = error_of(wire, Answer::new(400, "text/html", "<!DOCTYPE html><p>Bad")).await;
        assert_eq!(
            error.to_string(),
            "anthropic/some-model: the provider refused the request (HTTP 400): an HTML page"
        );
        let error = error_of(wire, Answer::new(400, "text/plain", "x".repeat(1_000_000))).await;
        assert!(error.to_string().len() < 1_000, "{error}");
        let elsewhere = "https://example.org/v1?key=hunter2";
        let error = error_of(wire, Answer::new(302, "text/plain", "").header("location", elsewhere)).await;
        assert_eq!(error.status(), Some(302), "a redirect would carry the key elsewhere");
        assert_eq!(
            error.to_string(),
            "anthropic/some-model: the provider refused the request (HTTP 302): it redirects to https://example.org; \
             check the base URL"
        );
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_has_its_own_error() {
    let refusals = [
        (
            400,
            json!({"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}}),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        ),
        (
            400,
            json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}),
        ),
        (
            400,
            json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}]),
        ),
        (413, json!({"error": "request too large"})),
        (422, json!({"detail": [{"msg": "Prompt contains too many tokens"}]})),
    ];
    for (status, body) in refusals {
        let error = error_of(Wire::OpenAiChat, Answer::json(status, &body)).await;
        assert_eq!(error.code(), "MODEL_CONTEXT_OVERFLOW", "{error}");
        assert_eq!(error.status(), Some(status));
    }
    let event = r#"{"error":{"message":"the context window is full","code":"context_length_exceeded"}}"#;
    let (_server, model) = scripted("custom", Wire::OpenAiChat, [Answer::events([event])]).await;
    let error = streamed(&*model, Request::new(&hello())).await.1.unwrap_err();
    assert_eq!(error.code(), "MODEL_CONTEXT_OVERFLOW", "{error}");
    let body = json!({"error": {"message": "`max_tokens` must be positive"}});
    assert_ne!(error_of(Wire::OpenAiChat, Answer::json(400, &body)).await.code(), "MODEL_CONTEXT_OVERFLOW");
}

#[tokio::test]
async fn transient_failures_are_retried_and_reported() {
    for wire in WIRES {
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            let busy = Answer::json(status, &json!({"error": {"message": "busy"}}));
            let (server, model) = scripted(
                "custom",
                wire,
                [busy.clone(), busy.clone(), complete_answer(wire), busy, complete_answer(wire)],
            )
            .await;
            let (deltas, reply) = streamed(&*model, Request::new(&hello())).await;
            assert_eq!(reply.unwrap().message.content, "Hel");
            let retries =
                deltas.iter().filter(|delta| matches!(delta, Delta::Retry { why, .. } if why.contains("busy"))).count();
            assert_eq!((retries, server.requests().len()), (2, 3), "{status}");
            assert_eq!(server.requests()[0].body, server.requests()[2].body);
        }
    }
}

#[tokio::test]
async fn an_overload_that_a_stream_reports_before_the_first_word_is_retried() {
    let usage = r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}"#;
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let unavailable = r#"{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}"#;
    // OpenRouter's, for a provider behind it.
    let bad_gateway = r#"{"error":{"code":502,"message":"Overloaded"}}"#;
    for (wire, events) in [
        (Wire::Anthropic, vec![usage, overloaded]),
        (Wire::Gemini, vec![unavailable]),
        (Wire::OpenAiChat, vec![bad_gateway]),
    ] {
        let (server, model) = scripted("custom", wire, [Answer::events(events), complete_answer(wire)]).await;
        let (deltas, reply) = streamed(&*model, Request::new(&hello())).await;
        let reply = reply.unwrap();
        assert_eq!((&*reply.message.content, reply.usage.input, server.requests().len()), ("Hel", 0, 2), "{wire}");
        let is_retry = |delta: &Delta| matches!(delta, Delta::Retry { why, .. } if why.contains("Overloaded"));
        assert_eq!(deltas.iter().filter(|delta| is_retry(delta)).count(), 1, "{deltas:?}");
    }
}

#[tokio::test]
async fn a_request_is_tried_five_times_at_most() {
    let busy =
        Answer::json(529, &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let (server, model) = scripted("custom", Wire::Anthropic, vec![busy; 9]).await;
    let error = model.complete(Request::new(&hello())).await.unwrap_err();
    insta::assert_snapshot!(error, @"custom/some-model: the provider is overloaded or broken (HTTP 529): Overloaded (tried 5 times)");
    assert_eq!((error.attempts, server.requests().len(), error.status()), (5, 5, Some(529)));
}

#[tokio::test]
async fn retry_after_is_obeyed_within_a_bound() {
    let wait =
        |seconds: &str| Answer::json(429, &json!({"error": {"message": "slow down"}})).header("retry-after", seconds);
    let (_server, model) =
        scripted("custom", Wire::OpenAiChat, [wait("0.05"), complete_answer(Wire::OpenAiChat)]).await;
    let (deltas, reply) = streamed(&*model, Request::new(&hello())).await;
    assert!(reply.is_ok());
    assert!(matches!(deltas[0], Delta::Retry { after, .. } if after == Duration::from_millis(50)), "{deltas:?}");
    let delay =
        json!([{"error": {"code": 429, "message": "x", "details": [{"@type": "RetryInfo", "retryDelay": "0.02s"}]}}]);
    let (_server, model) =
        scripted("custom", Wire::Gemini, [Answer::json(429, &delay), complete_answer(Wire::Gemini)]).await;
    let (deltas, _) = streamed(&*model, Request::new(&hello())).await;
    assert!(matches!(deltas[0], Delta::Retry { after, .. } if after == Duration::from_millis(20)), "{deltas:?}");
    for (header, seconds) in [("90", 90), ("Fri, 01 Jan 2100 00:00:00 GMT", 1_000_000)] {
        let (server, model) =
            scripted("custom", Wire::OpenAiChat, [wait(header), complete_answer(Wire::OpenAiChat)]).await;
        let error = streamed(&*model, Request::new(&hello())).await.1.unwrap_err();
        assert_eq!(server.requests().len(), 1, "a wait beyond the bound is not kept");
        assert!(error.retry_after().unwrap() >= Duration::from_secs(seconds), "{error}");
        assert_eq!(error.code(), "MODEL_RATE_LIMITED");
    }
}

#[tokio::test]
async fn a_lack_of_credit_and_a_final_refusal_are_not_retried() {
    let spent = json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}});
    error_of(Wire::OpenAiChat, Answer::json(429, &spent)).await;
    error_of(Wire::Anthropic, Answer::json(500, &json!({"error": "x"})).header("x-should-retry", "false")).await;
    let wrong =
        json!({"error": {"code": 400, "message": "API key not valid. Please pass one.", "status": "INVALID_ARGUMENT"}});
    assert_eq!(error_of(Wire::Gemini, Answer::json(400, &wrong)).await.code(), "MODEL_AUTH");
    error_of(Wire::Anthropic, Answer::json(501, &json!({"error": "x"}))).await;
}

#[tokio::test]
async fn a_closed_port_is_retried_and_reported_with_its_address() {
    let server = FakeModel::start([]).await;
    let mut settings = settings(&server, "custom", Wire::OpenAiChat);
    drop(server);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    settings.base_url = format!("http://user:secret@127.0.0.1:{port}/v1?key=secret");
    let error = settings.connect().unwrap().complete(Request::new(&hello())).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("MODEL_UNREACHABLE", 5));
    assert!(error.to_string().contains(&format!("cannot reach http://127.0.0.1:{port}: ")), "{error}");
    assert!(std::error::Error::source(&error).is_none(), "printing the sources would repeat the message");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn a_request_whose_connection_closes_before_the_answer_is_sent_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings =
        ModelSettings::new("custom", "m", Wire::OpenAiChat, format!("http://{}", listener.local_addr().unwrap()));
    settings.bounds.first_pause = Duration::from_millis(1);
    let model = settings.connect().unwrap();
    let server = async {
        let mut request = [0; 10_000];
        let (mut first, _) = listener.accept().await.unwrap();
        assert_ne!(first.read(&mut request).await.unwrap(), 0);
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        assert_ne!(second.read(&mut request).await.unwrap(), 0);
        let body = r#"{"choices": [{"message": {"content": "at last"}, "finish_reason": "stop"}]}"#;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        second.write_all((head + body).as_bytes()).await.unwrap();
        second
    };
    let (reply, _connection) = tokio::join!(model.complete(Request::new(&hello())), server);
    assert_eq!(reply.unwrap().message.content, "at last");
}

#[tokio::test]
async fn an_html_page_instead_of_an_answer_is_reported_as_one() {
    for wire in WIRES {
        let error =
            error_of(wire, Answer::new(200, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title>")).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"anthropic/some-model: the answer does not come from a model: it is an HTML page; check the base URL");
        }
        let error = error_of(wire, Answer::new(200, "application/json", "<html>")).await;
        assert!(error.to_string().contains("it is an HTML page"), "{error}");
        for body in ["", "{", "null", "[]", "7", r#"{"choices": []}"#, r#"{"hello": "world"}"#] {
            let error = error_of(wire, Answer::new(200, "application/json", body)).await;
            assert_eq!(error.code(), "MODEL_UNREADABLE", "{body}: {error}");
        }
        let error =
            error_of(wire, Answer::json(200, &json!({"error": {"message": "no such model", "code": 404}}))).await;
        assert_eq!(error.code(), "MODEL_BROKEN_OFF", "{error}");
    }
}

/// Returns the error of a stream that fails after its first text.
async fn error_after_text(wire: Wire, answer: Answer, change: impl FnOnce(&mut ModelSettings)) -> ModelError {
    let server = FakeModel::start([answer, complete_answer(wire)]).await;
    let mut settings = settings(&server, "custom", wire);
    change(&mut settings);
    let (deltas, reply) = streamed(&*settings.connect().unwrap(), Request::new(&hello())).await;
    assert_eq!(deltas.first(), Some(&Delta::Text("Hel".into())), "the text before the failure is streamed");
    assert_eq!(server.requests().len(), 1, "after streamed text the request is not repeated");
    reply.unwrap_err()
}

#[tokio::test]
async fn a_stream_that_breaks_is_never_taken_for_an_answer() {
    for wire in WIRES {
        let started = || Answer::events([first_event(wire)]);
        let error = error_after_text(wire, started().cut(), |_| {}).await;
        assert_eq!(error.code(), "MODEL_ANSWER_CUT", "{error}");
        let error = error_after_text(wire, started(), |_| {}).await;
        assert_eq!(
            error.to_string(),
            "custom/some-model: the answer was cut off before its end: the connection was closed",
            "a stream that ends without its last event"
        );
        let error = error_after_text(wire, started().stall_after(), |settings| {
            settings.bounds.silence = Duration::from_millis(60)
        })
        .await;
        assert_eq!(
            error.to_string(),
            "custom/some-model: the next piece of the answer took longer than 0.06 s (silence_timeout)"
        );
        let error = error_after_text(wire, Answer::events([first_event(wire), "{\"oops"]), |_| {}).await;
        assert_eq!(error.code(), "MODEL_UNREADABLE", "{error}");
        let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let error = error_after_text(wire, Answer::events([first_event(wire), overloaded]), |_| {}).await;
        assert_eq!(
            error.to_string(),
            "custom/some-model: the provider reported an error in place of the rest of its answer: Overloaded"
        );
        assert!(
            matches!(error.kind, ModelErrorKind::StreamError { code: Some(code), .. } if code == "overloaded_error")
        );
    }
}

#[tokio::test]
async fn a_server_that_sends_headers_before_it_reads_the_prompt_gets_the_first_token_timeout() {
    let head = r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":3}}"#;
    let server = FakeModel::start([Answer::events([head]).stall_after(), Answer::events([]).stall_after()]).await;
    let mut settings = settings(&server, "custom", Wire::OpenAiChat);
    settings.bounds.silence = Duration::from_millis(1);
    settings.bounds.first_token = Duration::from_millis(60);
    let model = settings.connect().unwrap();
    for _ in 0..2 {
        let error = streamed(&*model, Request::new(&hello())).await.1.unwrap_err();
        assert_eq!(
            error.to_string(),
            "custom/some-model: the beginning of the answer took longer than 0.06 s (first_token_timeout)"
        );
    }
}

#[tokio::test]
async fn only_the_total_time_limits_the_wait_for_an_answer_that_does_not_come_as_a_stream() {
    // The system accepts connections to it; no program answers them.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut settings = ModelSettings::new("custom", "some-model", Wire::OpenAiChat, &url);
    settings.bounds.first_token = Duration::from_millis(20);
    settings.bounds.total = Duration::from_millis(200);
    let model = settings.connect().unwrap();
    let (conversation, late) = (hello(), "took longer than 0.02 s (first_token_timeout)");
    let error = streamed(&*model, Request::new(&conversation)).await.1.unwrap_err();
    assert_eq!(error.to_string(), format!("custom/some-model: the beginning of the answer {late}"));
    let error = model.complete(Request::new(&conversation)).await.unwrap_err();
    assert_eq!(error.to_string(), "custom/some-model: the answer took longer than 0.2 s (total_timeout)");
}

#[tokio::test]
async fn a_stream_that_never_ends_is_ended_at_the_bound_of_bytes_and_of_time() {
    for wire in WIRES {
        let endless = || Answer::events([first_event(wire)]).repeat_forever(next_event(wire));
        let error = error_after_text(wire, endless(), |settings| settings.bounds.response_bytes = 100_000).await;
        assert_eq!(error.to_string(), "custom/some-model: the answer is larger than 100000 bytes (max_response_bytes)");
        let error =
            error_after_text(wire, endless(), |settings| settings.bounds.total = Duration::from_millis(200)).await;
        assert_eq!(error.to_string(), "custom/some-model: the answer took longer than 0.2 s (total_timeout)");
    }
}

#[tokio::test]
async fn an_answer_of_too_many_calls_is_refused() {
    let calls: Vec<_> = (0..3_000)
        .map(|number| json!({"id": format!("c{number}"), "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    let body = json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
    let error = error_of(Wire::OpenAiChat, Answer::json(200, &body)).await;
    assert!(error.to_string().contains("more than 2048 pieces"), "{error}");
}

#[tokio::test]
async fn unusable_settings_are_errors_before_any_request() {
    let error = |provider: &str, url: &str, key: Option<&str>| {
        let mut settings = ModelSettings::new(provider, "m", Wire::OpenAiChat, url);
        settings.key = key.map(Key::new);
        settings.connect().unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("deepseek", "https://api.deepseek.com", None), @"deepseek/m: there is no key; set DEEPSEEK_API_KEY");
    insta::assert_snapshot!(error("custom", "", None), @"custom/m: the base URL is not a URL: relative URL without a base");
    insta::assert_snapshot!(error("custom", "ftp://example.org", None), @"custom/m: the base URL is neither http nor https");
    insta::assert_snapshot!(error("custom", "http://127.0.0.1", Some("a\nb")), @"custom/m: the key has forbidden characters");
    assert!(ModelSettings::new("ollama", "m", Wire::OpenAiChat, "http://127.0.0.1:11434").connect().is_ok());
}

#[tokio::test]
async fn tools_for_another_wire_are_not_sent() {
    let (server, model) = scripted("custom", Wire::OpenAiChat, []).await;
    let (hello, tools) = (hello(), tools(Wire::Gemini));
    let mut request = Request::new(&hello);
    request.tools = Some(&tools);
    let error = streamed(&*model, request.clone()).await.1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "custom/some-model: the tools are written for gemini, but this model speaks openai-chat"
    );
    assert_eq!(model.complete(request).await.unwrap_err().kind, error.kind);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn dropping_a_stream_ends_the_request() {
    let answer = Answer::events([first_event(Wire::OpenAiChat)]).stall_after();
    let (_server, model) = scripted("custom", Wire::OpenAiChat, [answer]).await;
    let mut stream = model.stream(Request::new(&hello()));
    let first = futures::StreamExt::next(&mut stream).await;
    assert!(matches!(first, Some(Ok(Delta::Text(_)))));
    drop(stream);
}
