//! Errors of models.

use std::{fmt, time::Duration};

/// Why a model gave no answer.
///
/// Displays as one safe line that names the model, what went wrong and what to do next. A key is never in it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{model}: {kind}{}", Tries(*.attempts))]
#[non_exhaustive]
pub struct ModelError {
    /// `provider/name`, safe to print.
    pub model: String,
    /// How often the request was sent.
    pub attempts: u32,
    /// What went wrong.
    pub kind: ModelErrorKind,
}

/// What went wrong. All text in it is safe to print and bounded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The settings of the model cannot be used.
    #[error("{why}")]
    Settings {
        /// The reason.
        why: String,
    },
    /// No server answers there.
    #[error("cannot reach {origin}: {why}; check the base URL and the network")]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// In the words of the HTTP client.
        why: String,
    },
    /// 401 or 403.
    #[error("the key was refused (HTTP {status}){}; {advice}", Quote(.message))]
    Auth {
        /// The status.
        status: u16,
        /// The provider's words.
        message: String,
        /// What to do.
        advice: String,
    },
    /// The conversation does not fit into the model.
    #[error("the conversation is too long for the model{}; start a new one, or take a model with a larger context", Quote(.message))]
    ContextOverflow {
        /// The status; `None` if the error came inside of a stream.
        status: Option<u16>,
        /// The provider's words.
        message: String,
    },
    /// 429.
    #[error("too many requests, or no credit left (HTTP 429){}{}", Quote(.message), Wait(*.retry_after))]
    RateLimited {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// 408, 409 or 5xx, Anthropic's 529 included.
    #[error("the provider is overloaded or broken (HTTP {status}){}{}", Quote(.message), Wait(*.retry_after))]
    Unavailable {
        /// The status.
        status: u16,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// Any other status that is an error.
    #[error("the provider refused the request (HTTP {status}){}", Quote(.message))]
    Refused {
        /// The status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// An error inside of a stream that had begun well.
    #[error("the provider broke the answer off{}", Quote(.message))]
    BrokenOff {
        /// The provider's name for it, such as `overloaded_error`.
        code: Option<String>,
        /// The provider's words.
        message: String,
    },
    /// The connection ended in the middle of an answer.
    #[error("the answer was cut off before its end: {why}")]
    Cut {
        /// The reason.
        why: String,
    },
    /// Too long a silence, or too long an answer.
    #[error("{what} took longer than {} s ({setting})", .after.as_secs_f64())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
        /// The setting to change.
        setting: &'static str,
    },
    /// More bytes than an answer may have.
    #[error("{what} is larger than {limit} bytes ({setting})")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// The bound.
        limit: usize,
        /// The setting to change.
        setting: &'static str,
    },
    /// The address answers with something else than a model's API.
    #[error("the answer is no answer of a model: {why}; is the base URL right?")]
    Unreadable {
        /// What came instead.
        why: String,
    },
}

impl ModelErrorKind {
    /// The provider's words, where it refuses the request because the model takes no tools.
    #[must_use]
    pub fn refuses_tools(&self) -> Option<&str> {
        let (Self::Refused { status, message } | Self::Unavailable { status, message, .. }) = self else {
            return None;
        };
        let said = message.to_lowercase();
        let about = ["tool", "function call"].iter().any(|word| said.contains(word));
        // Ollama, OpenRouter, vLLM, llama.cpp, in this order.
        let refuses =
            ["not support", "that support", "unsupported", "requires --enable-auto-tool-choice", "requires --jinja"];
        let refuses = refuses.iter().any(|sign| said.contains(sign));
        (matches!(status, 400 | 404 | 422 | 500 | 501) && about && refuses).then_some(message.as_str())
    }
}

impl ModelError {
    /// The error of a model of your own.
    pub fn new(model: impl Into<String>, attempts: u32, kind: ModelErrorKind) -> Self {
        Self { model: model.into(), attempts, kind }
    }

    /// The HTTP status, if there was one.
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

    /// How long the provider asks to wait, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ModelErrorKind::RateLimited { retry_after, .. } | ModelErrorKind::Unavailable { retry_after, .. } => {
                retry_after
            }
            _ => None,
        }
    }

    /// A stable code for programs.
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
            ModelErrorKind::BrokenOff { .. } => "MODEL_BROKEN_OFF",
            ModelErrorKind::Cut { .. } => "MODEL_ANSWER_CUT",
            ModelErrorKind::TimedOut { .. } => "MODEL_TIMED_OUT",
            ModelErrorKind::TooLarge { .. } => "MODEL_ANSWER_TOO_LARGE",
            ModelErrorKind::Unreadable { .. } => "MODEL_UNREADABLE",
        }
    }
}

struct Tries(u32);

impl fmt::Display for Tries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, " (tried {} times)", self.0) } else { Ok(()) }
    }
}

struct Quote<'a>(&'a str);

impl fmt::Display for Quote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

struct Wait(Option<Duration>);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {} s", wait.as_secs().max(1)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
