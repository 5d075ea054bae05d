//! Describes why a model gave no answer.

use std::{fmt, time::Duration};

/// The reason why a model gave no answer.
///
/// Its `Display` is one line, safe to print, with the model, the problem and the next step. It never contains a key. A
/// program that fills in the texts itself must ensure this.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{model}: {kind}{}", TriesSuffix(*.attempts))]
#[non_exhaustive]
pub struct ModelError {
    /// `provider/name`, safe to print.
    pub model: String,
    /// The number of times that the request was sent.
    pub attempts: u32,
    /// The kind of error.
    pub kind: ModelErrorKind,
}

/// The kind of a model's error. In the errors of this crate, all text is safe to print. A quote of a provider is cut to
/// 600 bytes, and then its control characters are escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The settings of the model cannot be used.
    #[error("{why}")]
    Settings {
        /// The reason.
        why: String,
    },
    /// No server answers at the address.
    #[error("cannot reach {origin}: {why}; check the base URL and the network")]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// The error message of the HTTP client.
        why: String,
    },
    /// HTTP 401 or 403: the provider refused the key.
    #[error("the key was refused (HTTP {status}){}; {advice}", QuoteSuffix(.message))]
    Auth {
        /// The status.
        status: u16,
        /// The provider's words.
        message: String,
        /// The next step for the user.
        advice: String,
    },
    /// The conversation does not fit into the model.
    #[error("the conversation is too long for the model{}; start a new one, or use a model with a larger context", QuoteSuffix(.message))]
    ContextOverflow {
        /// The status; `None` if the error came inside of a stream.
        status: Option<u16>,
        /// The provider's words.
        message: String,
    },
    /// HTTP 429: too many requests, or no credit left.
    #[error("too many requests, or no credit left (HTTP 429){}{}", QuoteSuffix(.message), WaitSuffix(*.retry_after))]
    RateLimited {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// HTTP 408, 409 or 5xx, including Anthropic's 529: the provider is overloaded or broken.
    #[error(
        "the provider is overloaded or broken (HTTP {status}){}{}",
        QuoteSuffix(.message),
        WaitSuffix(*.retry_after)
    )]
    Unavailable {
        /// The status.
        status: u16,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// Any other status that is an error.
    #[error("the provider refused the request (HTTP {status}){}{}", QuoteSuffix(.message), AdviceSuffix(*.status))]
    Refused {
        /// The status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The provider reported an error in the stream of its answer. Unlike in [`Self::Cut`], the connection still works.
    #[error("the provider reported an error in place of the rest of its answer{}", QuoteSuffix(.message))]
    StreamError {
        /// The provider's name for the error, such as `overloaded_error`.
        code: Option<String>,
        /// The provider's words.
        message: String,
    },
    /// The connection or the stream broke off before the answer was complete, and the provider did not say why.
    #[error("the answer was cut off before its end: {why}")]
    Cut {
        /// The reason.
        why: String,
    },
    /// The provider was silent for too long, or the whole answer took too long.
    #[error("{what} took longer than {} s ({setting})", .after.as_secs_f64())]
    TimedOut {
        /// What took too long, such as `the beginning of the answer`.
        what: &'static str,
        /// The time limit.
        after: Duration,
        /// The name of the limit in the configuration, such as `first_token_timeout`.
        setting: &'static str,
    },
    /// The answer has more bytes than allowed.
    #[error("{what} is larger than {limit} bytes ({setting})")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
        /// The name of the limit in the configuration, such as `max_response_bytes`.
        setting: &'static str,
    },
    /// The response is not in the format of a model's API.
    #[error("the answer does not come from a model: {why}; check the base URL")]
    Unreadable {
        /// A description of the response.
        why: String,
    },
}

impl ModelErrorKind {
    /// Returns the provider's words, if it refused the request because the model does not support tools.
    #[must_use]
    pub fn tools_refusal(&self) -> Option<&str> {
        let (Self::Refused { status, message } | Self::Unavailable { status, message, .. }) = self else {
            return None;
        };
        let lower_message = message.to_lowercase();
        let mentions_tools = ["tool", "function call"].iter().any(|word| lower_message.contains(word));
        let phrases = [
            // Ollama
            "not support",
            // OpenRouter
            "that support",
            // any server that speaks of an "unsupported parameter"
            "unsupported",
            // vLLM
            "requires --enable-auto-tool-choice",
            // llama.cpp
            "requires --jinja",
        ];
        let is_refusal = phrases.iter().any(|phrase| lower_message.contains(phrase));
        // llama.cpp refuses tools with 500, and 501 means that something is not implemented: both are `Unavailable`.
        (matches!(status, 400 | 404 | 422 | 500 | 501) && mentions_tools && is_refusal).then_some(message.as_str())
    }
}

impl ModelError {
    /// Creates an error, for programs that implement [`Model`](super::Model).
    pub fn new(model: impl Into<String>, attempts: u32, kind: ModelErrorKind) -> Self {
        Self { model: model.into(), attempts, kind }
    }

    /// Returns the HTTP status, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.kind {
            ModelErrorKind::Auth { status, .. }
            | ModelErrorKind::Unavailable { status, .. }
            | ModelErrorKind::Refused { status, .. } => Some(status),
            ModelErrorKind::RateLimited { .. } => Some(429),
            ModelErrorKind::ContextOverflow { status, .. } => status,
            _ => None,
        }
    }

    /// Returns how long the provider asks to wait, if it names a time.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ModelErrorKind::RateLimited { retry_after, .. } | ModelErrorKind::Unavailable { retry_after, .. } => {
                retry_after
            }
            _ => None,
        }
    }

    /// Returns a stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind {
            ModelErrorKind::Settings { .. } => "MODEL_SETTINGS",
            ModelErrorKind::Unreachable { .. } => "MODEL_UNREACHABLE",
            ModelErrorKind::Auth { .. } => "MODEL_AUTH",
            ModelErrorKind::ContextOverflow { .. } => "MODEL_CONTEXT_OVERFLOW",
            ModelErrorKind::RateLimited { .. } => "MODEL_RATE_LIMITED",
            ModelErrorKind::Unavailable { .. } => "MODEL_UNAVAILABLE",
            ModelErrorKind::Refused { .. } => "MODEL_REFUSED",
            ModelErrorKind::StreamError { .. } => "MODEL_BROKEN_OFF",
            ModelErrorKind::Cut { .. } => "MODEL_ANSWER_CUT",
            ModelErrorKind::TimedOut { .. } => "MODEL_TIMED_OUT",
            ModelErrorKind::TooLarge { .. } => "MODEL_ANSWER_TOO_LARGE",
            ModelErrorKind::Unreadable { .. } => "MODEL_UNREADABLE",
        }
    }
}

struct TriesSuffix(u32);

impl fmt::Display for TriesSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, " (tried {} times)", self.0) } else { Ok(()) }
    }
}

struct QuoteSuffix<'a>(&'a str);

impl fmt::Display for QuoteSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The next step after a refusal with this status. Empty if the status does not show the cause.
struct AdviceSuffix(u16);

impl fmt::Display for AdviceSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // No request follows a redirect, which mostly comes from a wrong base URL.
            300..=399 => f.write_str("; check the base URL"),
            404 => f.write_str("; check the name of the model and the base URL"),
            _ => Ok(()),
        }
    }
}

struct WaitSuffix(Option<Duration>);

impl fmt::Display for WaitSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {} s", wait.as_secs().max(1)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
