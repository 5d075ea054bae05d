//! Reads error responses of providers, and classifies them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;
use toolrack_host::text;
use url::Url;

use super::{error::ModelErrorKind, settings::Key};

/// The maximum size of a quote of a provider's words in an error, in bytes.
const QUOTE_BYTES: usize = 600;
/// The length of the prefix by which a key is recognized, in bytes: a word that begins with this prefix is hidden.
const KEY_PREFIX_BYTES: usize = 8;
/// The minimum length of a key that is hidden, in bytes. A shorter key occurs in many unrelated words.
const MIN_KEY_BYTES: usize = 4;

/// An error response.
pub(super) struct ErrorResponse<'a> {
    /// The HTTP status; `None` if the error came within a stream.
    pub(super) status: Option<u16>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// The key of the request, to hide it in the provider's words.
    pub(super) key: Option<&'a Key>,
    /// The next step for the user if the provider refuses the key.
    pub(super) key_advice: &'a str,
}

/// The provider's description of an error, in any of the known formats.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ErrorBody {
    /// The stable code of the error.
    pub(super) code: String,
    pub(super) message: String,
    /// How long to wait, if the body says so. Gemini's does.
    pub(super) wait: Option<Duration>,
}

/// The forms of an error: `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, or a list of one of
/// them (Gemini).
#[derive(Deserialize)]
struct ErrorEnvelope {
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
    code: Option<Value>,
    r#type: Option<String>,
}

impl ErrorBody {
    /// Reads a description from JSON; `None` if nothing in it looks like an error.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let envelope: ErrorEnvelope = serde_json::from_value(value.clone()).ok()?;
        let error = match (envelope.error, envelope.message, envelope.detail) {
            (Some(Value::Object(error)), ..) => Value::Object(error),
            (Some(Value::String(message)), ..) | (_, Some(Value::String(message)), _) => {
                let code = envelope.code.or_else(|| envelope.r#type.map(Value::String));
                serde_json::json!({"message": message, "code": code})
            }
            (_, _, Some(detail)) => serde_json::json!({"message": text_or_json(&detail)}),
            _ => return None,
        };
        // OpenAI has both `type` and `code`, Gemini a number and `status`, Anthropic only `type`, OpenRouter a number.
        let code = ["code", "status", "type"]
            .iter()
            .filter_map(|name| error.get(name)?.as_str().map(str::to_owned))
            .find(|code| !code.is_empty())
            .or_else(|| Some(error.get("code")?.as_u64()?.to_string()));
        let mut message = error.get("message").map(text_or_json).unwrap_or_default();
        // OpenRouter includes the message of the provider behind it.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}: {raw}");
        }
        let mut details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let wait =
            details.find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s')).and_then(parse_seconds);
        Some(Self { code: code.unwrap_or_default(), message, wait })
    }
}

/// Returns a text as it is, and any other value as JSON.
fn text_or_json(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the kind of error for a response with an error status.
pub(super) fn classify_response(response: &ErrorResponse<'_>) -> ModelErrorKind {
    let body = serde_json::from_slice::<Value>(response.body).ok().and_then(|value| ErrorBody::read(&value));
    let body = body.unwrap_or_else(|| ErrorBody { message: plain_text(response), ..ErrorBody::default() });
    classify(response, &body)
}

/// Returns the kind of error for the status of `response`, if it has one, and the provider's description in `body`.
pub(super) fn classify(response: &ErrorResponse<'_>, body: &ErrorBody) -> ModelErrorKind {
    let message = quote(&body.message, response.key);
    if is_overflow(response.status, body) {
        return ModelErrorKind::ContextOverflow { status: response.status, message };
    }
    let retry_after = retry_after(response.headers).or(body.wait);
    match response.status {
        None => {
            let code = (!body.code.is_empty()).then(|| quote(&body.code, response.key));
            ModelErrorKind::StreamError { code, message }
        }
        // Google answers a wrong key with 400.
        Some(status @ 400) if message.to_lowercase().contains("api key not valid") => {
            ModelErrorKind::Auth { status, message, advice: response.key_advice.to_owned() }
        }
        Some(status @ (401 | 403)) => ModelErrorKind::Auth { status, message, advice: response.key_advice.to_owned() },
        Some(429) => ModelErrorKind::RateLimited { retry_after, message },
        Some(status @ 300..=399) => ModelErrorKind::Refused { status, message: redirect_text(response.headers) },
        Some(status @ (408 | 409 | 500..=599)) => ModelErrorKind::Unavailable { status, retry_after, message },
        Some(status) => ModelErrorKind::Refused { status, message },
    }
}

/// Describes a redirect. No request follows redirects, because they would carry the key to another address. The text
/// names only the origin of that address, because the rest may repeat a secret of the base URL.
fn redirect_text(headers: &HeaderMap) -> String {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    match location.and_then(|location| Url::parse(location).ok()) {
        Some(url) => quote(&format!("it redirects to {}", url.origin().ascii_serialization()), None),
        None => "it redirects to another address".to_owned(),
    }
}

/// Returns whether the same request may succeed later.
pub(super) fn may_retry(response: &ErrorResponse<'_>, kind: &ModelErrorKind) -> bool {
    // Anthropic's and OpenAI's own clients obey this header.
    match response.headers.get("x-should-retry").and_then(|value| value.to_str().ok()) {
        Some("true") => return true,
        Some("false") => return false,
        _ => {}
    }
    match kind {
        ModelErrorKind::RateLimited { message, .. } => {
            // Waiting does not help a user without credit.
            let no_credit_phrases = ["insufficient_quota", "exceeded your current quota", "insufficient balance"];
            let body = String::from_utf8_lossy(response.body);
            !no_credit_phrases.iter().any(|phrase| body.contains(phrase) || message.to_lowercase().contains(phrase))
        }
        // Any such status may be temporary, except for 501 (not implemented) and 505 (version of HTTP).
        ModelErrorKind::Unavailable { status, .. } => !matches!(status, 501 | 505),
        _ => false,
    }
}

/// Returns whether the provider reports in a stream that it is overloaded.
pub(super) fn is_overload(kind: &ModelErrorKind) -> bool {
    // The code of Anthropic, the code of Gemini, and the codes of OpenRouter, which are HTTP statuses.
    let overload_codes = ["overloaded_error", "UNAVAILABLE", "429", "502", "503", "529"];
    matches!(kind, ModelErrorKind::StreamError { code: Some(code), .. } if overload_codes.contains(&code.as_str()))
}

/// Returns whether the provider reports that the conversation is too long. Each provider words this differently.
fn is_overflow(status: Option<u16>, body: &ErrorBody) -> bool {
    if !matches!(status, None | Some(400 | 413 | 422 | 500)) {
        return false;
    }
    if matches!(body.code.as_str(), "context_length_exceeded" | "exceed_context_size_error" | "request_too_large") {
        return true;
    }
    let message = body.message.to_lowercase();
    let phrases = [
        "context length",
        "context window",
        "context size",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "input length and `max_tokens` exceed",
        "exceeds the maximum number of tokens",
        "too many tokens",
        "reduce the length of the messages",
        "maximum prompt length",
    ];
    status == Some(413) || phrases.iter().any(|phrase| message.contains(phrase))
}

/// Returns how long the provider asks to wait: `retry-after-ms`, then `Retry-After` in seconds or as a date (RFC 9110,
/// 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header_text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = header_text("retry-after-ms").and_then(parse_seconds) {
        // `parse_seconds` has read the number of milliseconds as seconds.
        return Some(wait / 1_000);
    }
    let value = header_text(header::RETRY_AFTER.as_str())?;
    parse_seconds(value).or_else(|| {
        let date = DateTime::parse_from_rfc2822(value).ok()?;
        // A date in the past means no wait.
        Some((date.with_timezone(&Utc) - Utc::now()).to_std().unwrap_or_default())
    })
}

/// Reads a number of seconds, such as `1.5`.
fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Returns the text of a body that is not JSON.
fn plain_text(response: &ErrorResponse<'_>) -> String {
    let text = String::from_utf8_lossy(response.body);
    if is_html(&text) { "an HTML page".to_owned() } else { text.into_owned() }
}

/// Returns whether a text is an HTML page.
pub(super) fn is_html(text: &str) -> bool {
    // 15 characters are enough for each of the beginnings below.
    let start: String = text.trim_start_matches('\u{feff}').trim_start().chars().take(15).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

/// Turns an untrusted text into one safe, clipped line, to quote it in an error. Hides the `key` of the request in the
/// text. For a text in an answer, `key` is `None`, because providers repeat a key only when they refuse it.
pub(super) fn quote(untrusted_text: &str, key: Option<&Key>) -> String {
    let concealed = key.map_or_else(|| untrusted_text.to_owned(), |key| hide_key(untrusted_text, key.reveal()));
    safe_line(&text::clip(concealed.trim(), QUOTE_BYTES))
}

/// Turns a text into one safe line.
pub(super) fn safe_line(untrusted_text: &str) -> String {
    text::for_line(untrusted_text).into_owned()
}

/// Replaces the key in a text by `[key]`. Providers quote a key that they refuse, in full or with stars for its middle.
fn hide_key(text: &str, key: &str) -> String {
    if key.len() < MIN_KEY_BYTES {
        return text.to_owned();
    }
    let prefix = &key[..key.floor_char_boundary(KEY_PREFIX_BYTES)];
    let mut concealed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(prefix) {
        concealed.push_str(&rest[..start]);
        concealed.push_str("[key]");
        let key_and_rest = &rest[start..];
        // Remove the whole key if it is there: it may contain a character that ends a word below.
        let following = key_and_rest.strip_prefix(key).unwrap_or(&key_and_rest[prefix.len()..]);
        rest = following.trim_start_matches(|c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | ','));
    }
    concealed + rest
}

/// Returns the innermost cause of an error, as one safe line.
pub(super) fn innermost_cause(error: &(dyn std::error::Error + 'static)) -> String {
    safe_line(&text::clip(&text::root_cause(error), QUOTE_BYTES))
}

#[cfg(test)]
mod tests;
