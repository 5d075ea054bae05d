//! Defines the errors of a connection to a server. Each variant is one cause with one next step. An error may quote
//! what the server has written on stdout or stderr (its output), which can be removed again.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    egress::Refused,
    link::{process::child::SpawnError, recording::NotRecorded},
    resolve::ResolveError,
    spec::Setting,
    state::FailureText,
    text::quote,
};

/// An error of a connection.
///
/// `Display` is one safe line without secrets: untrusted text in it is escaped and clipped when the error is made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The child process could not be started.
    #[error("{0}")]
    Spawn(Arc<SpawnError>),
    /// A placeholder has no value.
    #[error("{0}")]
    Resolve(ResolveError),
    /// The configuration cannot be used.
    #[error("{why}")]
    Config {
        /// The stable code of this case.
        code: &'static str,
        /// The problem.
        why: String,
    },
    /// The child process ended.
    #[error("the server process ended ({exit}){}{}", Suffix(BEFORE_STDERR, .stderr), Suffix(BEFORE_NOISE, .noise))]
    Exited {
        /// How the process ended: `exit status 3`, `killed by signal 9 (SIGKILL)`.
        exit: String,
        /// The end of its stderr, escaped.
        stderr: String,
        /// Its output on stdout that is not an MCP message: how often there was some, and the first piece, escaped.
        /// Empty if there was none.
        noise: String,
    },
    /// The engine did not run the container of the server.
    #[error("the server is not started, because its container is not available: {why}{}", Suffix(BEFORE_STDERR, .stderr))]
    Container {
        /// The problem.
        why: &'static str,
        /// The next step.
        next: &'static str,
        /// The end of the engine's stderr, escaped.
        stderr: String,
    },
    /// The other side closed the connection.
    #[error("the connection was closed: {why}{}", Suffix(BEFORE_STDERR, .stderr))]
    Closed {
        /// The observation of the host, such as `it closed its output`.
        why: String,
        /// The end of a child's stderr, escaped.
        stderr: String,
    },
    /// This host stopped the server, because the server was removed, changed or disabled, or because the host shuts
    /// down.
    #[error("the server was stopped by this host")]
    Stopped,
    /// A time limit was reached.
    #[error("{what} took longer than {} ({setting})", Seconds(*.after))]
    TimedOut {
        /// The operation that took too long.
        what: &'static str,
        /// The time-out.
        after: Duration,
        /// The setting of the time-out.
        setting: Setting,
    },
    /// The handshake did not end in time.
    #[error("the server did not finish the handshake within {} ({}){}{}", Seconds(*.after), Setting::StartupTimeout, Suffix(BEFORE_STDERR, .stderr), Suffix(BEFORE_NOISE, .noise))]
    SlowStart {
        /// The time-out.
        after: Duration,
        /// The end of the server's stderr, escaped.
        stderr: String,
        /// Its output on stdout that is not an MCP message: how often there was some, and the first piece, escaped.
        /// Empty if there was none.
        noise: String,
    },
    /// A message is larger than its limit.
    #[error("{what} is too large: {seen} bytes, the limit is {limit} ({setting})")]
    TooLarge {
        /// The stable code of this case.
        code: &'static str,
        /// The kind of message.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
        /// The bytes that were counted before the message was given up; the whole message may be larger.
        seen: u64,
        /// The setting of the limit.
        setting: Setting,
    },
    /// An answer cannot be parsed.
    #[error("the server's answer cannot be read: {why}")]
    Unparsable {
        /// The problem.
        why: String,
    },
    /// The data of an event is no JSON-RPC message.
    #[error("the server sent an event that cannot be read: {why}")]
    InvalidEvent {
        /// The problem.
        why: String,
    },
    /// The other side broke the protocol.
    #[error("the server broke the protocol: {why}")]
    Protocol {
        /// The violation.
        why: String,
    },
    /// The server needs an answer from the client to continue, and got none.
    #[error("the server asked for {method} and got no answer: {why}")]
    Unanswered {
        /// The method that the server requested.
        method: &'static str,
        /// The reason why the server got no answer.
        why: String,
    },
    /// The server requires an MCP version that the host does not support.
    #[error("the server answered with MCP version `{version}`, which is not supported (2024-11-05 to 2026-07-28 are)")]
    UnsupportedVersion {
        /// The server's version.
        version: String,
    },
    /// The server answered with an HTTP status that means failure.
    #[error("the server answered HTTP {status}{}", Suffix(": ", .body))]
    Http {
        /// The status code.
        status: u16,
        /// The start of a textual body, escaped.
        body: String,
    },
    /// The endpoint cannot be reached.
    #[error("cannot reach {origin}: {why}")]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// The innermost cause.
        why: String,
        /// The whole chain of causes.
        #[source]
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    /// The [egress](crate::egress) rules forbid the request.
    #[error("{0}")]
    Refused(Arc<Refused>),
    /// The connection broke before an answer arrived.
    #[error("the connection broke before the answer came: {why}")]
    Broken {
        /// The observation of the host.
        why: String,
    },
    /// The server has ended the session (HTTP 404 to a request with a session id).
    #[error("the server no longer knows this session{}", if *.not_executed { ", and therefore refused the request" } else { "" })]
    SessionNotFound {
        /// Whether the server certainly did not execute the failed request, because it gave this answer to that
        /// request. If false, the server gave this answer to another request, or after it had accepted the request.
        not_executed: bool,
    },
    /// The server requires a sign-in, or other values of the headers in its entry (its configuration).
    #[error("the server {} (HTTP {status}){}", Demand(*.refused), Suffix(": ", .how.as_deref().unwrap_or_default()))]
    NeedsAuth {
        /// 401 or 403.
        status: u16,
        /// The `WWW-Authenticate` header of the server's answer, escaped.
        challenge: Option<String>,
        /// The next step, in the words of the host's [`Authorizer`](crate::Authorizer), escaped. With such a step, the
        /// host connects again when the user has signed in, but not when a caller wants a call.
        how: Option<String>,
        /// The part of the server's entry that the server refused. `None` if the entry authorizes no requests.
        refused: Option<RefusedPart>,
    },
    /// No access token is available at the moment.
    #[error("no access token is available: {why}")]
    NoToken {
        /// The problem, escaped.
        why: String,
    },
    /// The program of `headers_helper` printed no headers.
    #[error("the program of headers_helper gave no headers: {why}{}", Suffix(BEFORE_STDERR, .stderr))]
    Helper {
        /// The problem.
        why: String,
        /// The end of the program's stderr, escaped.
        stderr: String,
    },
    /// The server refuses the request, because it got too many requests.
    #[error("the server refuses more requests for now (HTTP 429){}", RetryAfter(*.retry_after))]
    RateLimited {
        /// How long to wait, if the server says so.
        retry_after: Option<Duration>,
    },
    /// The server answered with a redirect that the host does not follow.
    #[error("the server redirects (HTTP {status}) to {to}, which is not followed: {why}")]
    Redirect {
        /// The status code.
        status: u16,
        /// The origin of the target.
        to: String,
        /// The reason why the redirect is not followed.
        why: &'static str,
        /// The next step: the beginning of a sentence, such as `check the url in`. The caller appends where the server
        /// is configured.
        next: &'static str,
    },
    /// The server answered with a JSON-RPC error.
    #[error("{0}")]
    Rpc(RpcError),
    /// A recording is replayed instead of the server, and has no answer to this request.
    #[error("{0}")]
    NotRecorded(Box<NotRecorded>),
}

impl LinkError {
    /// Returns a stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Spawn(error) if matches!(**error, SpawnError::NotConfined { .. }) => "SANDBOX_FAILED",
            Self::Spawn(error) if matches!(**error, SpawnError::NotContained { .. }) => "CONTAINER_FAILED",
            Self::Spawn(_) => "SPAWN_FAILED",
            Self::Container { .. } => "CONTAINER_FAILED",
            Self::Resolve(_) => "UNRESOLVED_VALUE",
            Self::Exited { .. } => "SERVER_EXITED",
            Self::Closed { .. } => "CONNECTION_CLOSED",
            Self::Stopped => "SERVER_STOPPED",
            Self::SlowStart { .. } | Self::TimedOut { .. } => "TIMED_OUT",
            Self::Config { code, .. } | Self::TooLarge { code, .. } => code,
            Self::Unparsable { .. } => "UNPARSABLE_ANSWER",
            Self::InvalidEvent { .. } => "INVALID_SSE_EVENT_DATA",
            Self::Protocol { .. } => "PROTOCOL_ERROR",
            Self::Unanswered { .. } => "NOT_ANSWERED",
            Self::UnsupportedVersion { .. } => "UNSUPPORTED_PROTOCOL_VERSION",
            Self::Http { .. } => "HTTP_ERROR",
            Self::Unreachable { .. } => "UNREACHABLE",
            Self::Refused(_) => Refused::CODE,
            Self::Broken { .. } => "CONNECTION_BROKEN",
            Self::SessionNotFound { .. } => "MCP_SESSION_NOT_FOUND",
            Self::NeedsAuth { .. } => "AUTH_REQUIRED",
            Self::NoToken { .. } => "NO_ACCESS_TOKEN",
            Self::Helper { .. } => "HEADERS_HELPER_FAILED",
            Self::RateLimited { .. } => "RATE_LIMITED",
            Self::Redirect { .. } => "REDIRECT_REFUSED",
            Self::Rpc(_) => "RPC_ERROR",
            Self::NotRecorded(_) => "NOT_RECORDED",
        }
    }

    /// Returns whether this error ends the whole connection, and not only one exchange. `has_other_requests` says
    /// whether other requests are still under way on the connection.
    pub(crate) fn ends_the_connection(&self, has_other_requests: bool) -> bool {
        // Where no new TCP connection can be opened, the open ones may still deliver the answers to other requests.
        let spares_open_connections = matches!(self, Self::Unreachable { .. });
        let ends = matches!(
            self,
            Self::Exited { .. }
                | Self::Container { .. }
                | Self::Closed { .. }
                | Self::Stopped
                | Self::SessionNotFound { .. }
                // A token that is refused for one request (403) is valid for the others.
                | Self::NeedsAuth { status: 401, .. }
                | Self::Unreachable { .. }
                | Self::Refused(_)
        );
        ends && !(has_other_requests && spares_open_connections)
    }

    /// Converts the error that ended the connection into the error of the other requests that were under way. An answer
    /// to one request, such as a refused token or a redirect, says nothing about other requests, so they get
    /// [`Self::Broken`] instead.
    pub(crate) fn for_requests_under_way(self) -> Self {
        match self {
            Self::Exited { .. }
            | Self::Container { .. }
            | Self::Closed { .. }
            | Self::Stopped
            | Self::TooLarge { .. } => self,
            Self::SessionNotFound { .. } => Self::SessionNotFound { not_executed: false },
            other => Self::Broken {
                why: format!("it was given up after another request failed: {}", other.without_output()),
            },
        }
    }

    /// Returns whether only a sign-in by the user helps. Without one, the server would refuse each further attempt.
    pub(crate) fn waits_for_sign_in(&self) -> bool {
        matches!(self, Self::NeedsAuth { how: Some(_), .. })
    }

    pub(crate) fn protocol(why: impl AsRef<str>) -> Self {
        Self::Protocol { why: quote(why.as_ref()) }
    }

    pub(crate) fn config(code: &'static str, why: impl AsRef<str>) -> Self {
        Self::Config { code, why: quote(why.as_ref()) }
    }

    pub(crate) fn unparsable(why: impl AsRef<str>) -> Self {
        Self::Unparsable { why: quote(why.as_ref()) }
    }

    pub(crate) fn stalled(after: Duration) -> Self {
        Self::Closed {
            why: format!("the server stopped reading its input for {}", Seconds(after)),
            stderr: String::new(),
        }
    }
}

/// A JSON-RPC error object, made safe to print.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}{}", CodeUnlessInMessage(.message, *.code))]
pub struct RpcError {
    /// The JSON-RPC error code.
    pub code: i64,
    /// The server's text, escaped and clipped.
    pub message: String,
    /// The server's data, unchanged.
    pub data: Option<Box<Value>>,
}

/// Displays the code (second) of an error, unless the server's message (first) already contains that number: many
/// messages begin with `MCP error -32602:`.
struct CodeUnlessInMessage<'a>(&'a str, i64);

impl fmt::Display for CodeUnlessInMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(message, code) = self;
        let digits = code.to_string();
        let is_number_start = |start: usize| !message[..start].ends_with(|c: char| c.is_ascii_digit() || c == '-');
        let is_number_end = |end: usize| !message[end..].starts_with(|c: char| c.is_ascii_digit());
        let is_whole_number = |start: usize| is_number_start(start) && is_number_end(start + digits.len());
        if message.match_indices(&digits).any(|(start, _)| is_whole_number(start)) {
            return Ok(());
        }
        write!(f, " (error {code})")
    }
}

/// The words before the end of a server's stderr.
const BEFORE_STDERR: &str = "; its last words: ";

/// The characters before the noise: output of a server on stdout that is not an MCP message.
const BEFORE_NOISE: &str = "; ";

impl LinkError {
    /// Removes the output (stdout and stderr) that the error quotes. The output may be of the server, of the container
    /// engine or of the program of `headers_helper`.
    pub(crate) fn without_output(mut self) -> Self {
        match &mut self {
            Self::Exited { stderr, noise, .. } | Self::SlowStart { stderr, noise, .. } => {
                stderr.clear();
                noise.clear();
            }
            Self::Container { stderr, .. } | Self::Closed { stderr, .. } | Self::Helper { stderr, .. } => {
                stderr.clear();
            }
            _ => {}
        }
        self
    }

    /// Returns the output that the error quotes, with the words before it: exactly the text that
    /// [`Self::without_output`] removes.
    fn output(&self) -> String {
        let (stderr, noise) = match self {
            Self::Exited { stderr, noise, .. } | Self::SlowStart { stderr, noise, .. } => (stderr.as_str(), &**noise),
            Self::Container { stderr, .. } | Self::Closed { stderr, .. } | Self::Helper { stderr, .. } => {
                (&**stderr, "")
            }
            _ => ("", ""),
        };
        format!("{}{}", Suffix(BEFORE_STDERR, stderr), Suffix(BEFORE_NOISE, noise))
    }
}

impl From<&LinkError> for FailureText {
    fn from(error: &LinkError) -> Self {
        Self::new(error.clone().without_output().to_string(), &error.output())
    }
}

/// Displays an introduction (first) and a text (second); nothing if the text is empty.
struct Suffix<'a>(&'static str, &'a str);

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(introduction, text) = self;
        if text.is_empty() { Ok(()) } else { write!(f, "{introduction}{text}") }
    }
}

/// The part of a server's entry (its configuration) that authorizes requests to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedPart {
    /// The `Authorization` header.
    Authorization,
    /// The headers that the program in `headers_helper` prints.
    HeadersHelper,
}

impl fmt::Display for RefusedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authorization => "`Authorization` header",
            Self::HeadersHelper => "headers of `headers_helper`",
        })
    }
}

/// Displays the demand of a server that needs authorization: another value of the part of its entry that it refused, or
/// a sign-in if it refused no part (`None`).
pub(crate) struct Demand(pub(crate) Option<RefusedPart>);

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(part) => write!(f, "refuses the {part} of its entry"),
            None => f.write_str("asks for a sign-in"),
        }
    }
}

/// Displays how long the server asks to wait; nothing if it does not say.
struct RetryAfter(Option<Duration>);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {}", Seconds(wait)),
            None => Ok(()),
        }
    }
}

/// Displays a duration: `1.5 s`, `30 s`, `10 min`.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0..1_000 => write!(f, "{millis} ms"),
            _ if millis.is_multiple_of(60_000) => write!(f, "{} min", millis / 60_000),
            _ if millis.is_multiple_of(1_000) => write!(f, "{} s", millis / 1_000),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of each variant that quotes output, with that output.
    fn with_output(stderr: &str, noise: &str) -> [LinkError; 5] {
        let (stderr, noise) = (stderr.to_owned(), noise.to_owned());
        let after = Duration::from_secs(1);
        [
            LinkError::Exited { exit: "exit status 3".to_owned(), stderr: stderr.clone(), noise: noise.clone() },
            LinkError::SlowStart { after, stderr: stderr.clone(), noise },
            LinkError::Container { why: "the engine refuses", next: "look at it", stderr: stderr.clone() },
            LinkError::Closed { why: "it went away".to_owned(), stderr: stderr.clone() },
            LinkError::Helper { why: "it failed".to_owned(), stderr },
        ]
    }

    #[test]
    fn the_text_of_a_failure_is_that_of_the_error_and_parts_with_the_output_whatever_the_output_says() {
        let tricky = "; its last words: of a caller; 2 times it sent more";
        let silent = with_output("", "").map(|error| error.to_string());
        for (error, silent) in with_output(tricky, "it sent canary").iter().zip(silent) {
            let mut text = FailureText::from(error);
            assert_eq!(text.as_str(), error.to_string());
            assert_eq!(text.clone().without_output().as_str(), silent);
            assert!(text.remove_output() && !text.remove_output(), "{error}");
        }
    }

    #[test]
    fn words_of_an_error_that_look_like_output_stay_where_there_is_no_output() {
        let error = LinkError::Protocol { why: "the answer; it sent two; its last words: none".to_owned() };
        assert_eq!(FailureText::from(&error).without_output().as_str(), error.to_string());
    }

    #[test]
    fn requests_that_end_with_another_one_say_nothing_of_its_output() {
        for error in with_output("canary", "canary") {
            let ends_all =
                matches!(error, LinkError::Exited { .. } | LinkError::Container { .. } | LinkError::Closed { .. });
            let under_way = error.for_requests_under_way();
            assert_eq!(under_way.to_string().contains("canary"), ends_all, "{under_way}");
            assert!(!under_way.without_output().to_string().contains("canary"));
        }
    }
}
