//! The error of a call, with its kind (what the caller can do next) and its stable code. The *gate* in these errors
//! decides before each call whether it may run.

use std::{fmt, sync::Arc};

use crate::{
    catalog::UnknownTool,
    link::{Demand, LinkError, RpcError},
    mcp::codes::METHOD_NOT_FOUND,
    pins::Cause,
    quota::OverQuota,
    spec::{ServerName, Source},
    state::State,
};

/// The reason why a call has no result. If the tool itself reports an error, the call has a result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such tool.
    #[error("{0}")]
    Unknown(UnknownTool),
    /// There is no such server.
    #[error("no server is called `{server}`")]
    UnknownServer {
        /// The name as given, safe to print.
        server: String,
    },
    /// [`Host::shutdown`](crate::Host::shutdown) was called, and all servers are gone.
    #[error("the host was shut down: make another one")]
    ShutDown,
    /// The gate or a user refused the call.
    #[error("the call of {server}/{tool} was not allowed: {why}")]
    Denied {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The rule, or the user's answer.
        why: String,
        /// Whether the call was denied because no asker could ask a user.
        unasked: bool,
    },
    /// A quota of the caller is used up.
    #[error("the call of {server}/{tool} was not made: {over}")]
    OverQuota {
        /// The server.
        server: ServerName,
        /// The tool, safe to print.
        tool: String,
        /// The quota, and when it is free again.
        over: Box<OverQuota>,
    },
    /// The tool differs from its pin, its definition as it was first seen or approved.
    #[error(
        "the call of {server}/{tool} was not made, because the tool is in quarantine: {cause}; `toolrack trust diff \
         {server}/{tool}` shows it"
    )]
    Quarantined {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The reason why it is in quarantine.
        cause: Cause,
    },
    /// The arguments do not match the tool's input schema, and nothing was sent
    /// ([`ValidateArgs::Strict`](crate::spec::ValidateArgs::Strict)).
    #[error("the call of {server}/{tool} was not made: the arguments do not match its input schema: {problem}")]
    ArgumentMismatch {
        /// The server.
        server: ServerName,
        /// The tool, safe to print.
        tool: String,
        /// The place and the reason, safe to print.
        problem: String,
    },
    /// The server has no connection, or its tools could not be listed.
    #[error("the server {server} ({configured_in}) {}", NotReady(.state, .error.as_deref()))]
    NotReady {
        /// The server.
        server: ServerName,
        /// The state of the server.
        state: State,
        /// The place where the server is configured.
        configured_in: Box<Source>,
        /// The reason why the last attempt failed.
        error: Option<Arc<LinkError>>,
    },
    /// The server answered with a JSON-RPC error.
    #[error("{server} refused {what}: {}", ServerMessage(error))]
    Remote {
        /// The server.
        server: ServerName,
        /// The tool, prompt or resource.
        what: String,
        /// The server's error.
        error: RpcError,
    },
    /// The request or its answer failed on the way.
    #[error("{what} on the server {server} ({configured_in}) failed: {error}")]
    Link {
        /// The server.
        server: ServerName,
        /// The tool, prompt or resource.
        what: String,
        /// The place where the server is configured.
        configured_in: Box<Source>,
        /// The error.
        error: LinkError,
    },
}

/// Displays a server's error message. Many servers answer an unknown request with only the request's name as the
/// message.
struct ServerMessage<'a>(&'a RpcError);

impl fmt::Display for ServerMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RpcError { code, message, .. } = self.0;
        let is_name = !message.contains(' ') && (message.contains('/') || message == "initialize" || message == "ping");
        if *code == METHOD_NOT_FOUND && is_name {
            write!(f, "it does not know the request `{message}` ({code})")
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Returns the reason why a server in this state has no connection.
pub(super) fn not_ready_reason(state: &State, error: Option<&LinkError>) -> String {
    NotReady(state, error).to_string()
}

/// Displays why a server accepts no call, in words that follow the server's name. The first field is the state of the
/// server, the second the error of the last attempt to connect.
struct NotReady<'a>(&'a State, Option<&'a LinkError>);

impl fmt::Display for NotReady<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0 {
            State::ToolsFailed { error } => {
                return write!(f, "is connected, but its tools could not be listed: {error}");
            }
            State::Idle { .. } => return f.write_str("is not running now; it is started when it is needed"),
            State::Disabled => "it is disabled",
            State::PendingTrust => "it is not trusted in this folder yet",
            State::Connecting => match self.1 {
                Some(error) => return write!(f, "is not connected: the host is reconnecting to it, after: {error}"),
                None => "it is still starting",
            },
            // Leave the hint out: the state already names the next step.
            State::NeedsAuth { .. } => {
                return match self.1 {
                    Some(LinkError::NeedsAuth { status, refused, .. }) => {
                        write!(f, "is not connected: it {} (HTTP {status})", Demand(*refused))
                    }
                    _ => write!(f, "is not connected: it {}", Demand(None)),
                };
            }
            state => state.error().unwrap_or("it was stopped"),
        };
        write!(f, "is not connected: {why}")
    }
}

/// The kind of a failure. Failures of one kind have the same next step for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The caller used a wrong name.
    UnknownTool,
    /// The gate or a user refused the call.
    Denied,
    /// The caller has made too many calls.
    OverQuota,
    /// The server, or the tool's current definition, waits for the user's trust.
    NotTrusted,
    /// The server needs a sign-in.
    NeedsAuth,
    /// The server cannot be reached, ended or did not answer in time.
    Unreachable,
    /// The server refused the call.
    Refused,
    /// The arguments do not fit the tool.
    BadArguments,
    /// The configuration is at fault.
    Config,
    /// The server broke the protocol, or exceeded a bound.
    Other,
}

impl CallError {
    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> CallErrorKind {
        match self {
            Self::Unknown(_) | Self::UnknownServer { .. } => CallErrorKind::UnknownTool,
            Self::ShutDown => CallErrorKind::Unreachable,
            Self::Denied { .. } => CallErrorKind::Denied,
            Self::OverQuota { .. } => CallErrorKind::OverQuota,
            Self::Remote { .. } => CallErrorKind::Refused,
            Self::ArgumentMismatch { .. } => CallErrorKind::BadArguments,
            Self::NotReady { state: State::PendingTrust, .. } | Self::Quarantined { .. } => CallErrorKind::NotTrusted,
            Self::NotReady { state: State::Disabled, .. } => CallErrorKind::Config,
            Self::NotReady { state: State::NeedsAuth { .. }, .. } => CallErrorKind::NeedsAuth,
            // A JSON-RPC error here is the refusal of the handshake or of the list of tools. No call reached the
            // server.
            Self::NotReady { error, .. } => match error.as_deref() {
                None | Some(LinkError::Rpc(_)) => CallErrorKind::Unreachable,
                Some(error) => kind_of_link_error(error),
            },
            Self::Link { error, .. } => kind_of_link_error(error),
        }
    }

    /// Returns whether the server answered with a protocol error: a JSON-RPC error, or a response that is not valid
    /// MCP.
    #[must_use]
    pub fn is_protocol_error(&self) -> bool {
        match self {
            Self::Remote { .. } => true,
            Self::Link { error, .. } => {
                matches!(kind_of_link_error(error), CallErrorKind::Refused | CallErrorKind::Other)
            }
            _ => false,
        }
    }

    /// Returns a stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "UNKNOWN_TOOL",
            Self::UnknownServer { .. } => "UNKNOWN_SERVER",
            Self::ShutDown => "SHUT_DOWN",
            Self::Denied { unasked: true, .. } => "APPROVAL_NEEDED",
            Self::Denied { .. } => "DENIED",
            Self::OverQuota { .. } => "OVER_QUOTA",
            Self::Quarantined { .. } => "QUARANTINED",
            Self::NotReady { state: State::PendingTrust, .. } => "NOT_TRUSTED",
            Self::NotReady { state: State::Disabled, .. } => "SERVER_DISABLED",
            Self::NotReady { error, .. } => error.as_deref().map_or("SERVER_NOT_CONNECTED", LinkError::code),
            Self::Remote { .. } => "RPC_ERROR",
            Self::ArgumentMismatch { .. } => "BAD_ARGUMENTS",
            Self::Link { error, .. } => error.code(),
        }
    }
}

/// Returns the kind of an error of the connection.
fn kind_of_link_error(error: &LinkError) -> CallErrorKind {
    match error {
        LinkError::NeedsAuth { .. } => CallErrorKind::NeedsAuth,
        LinkError::Resolve(_) | LinkError::Config { .. } | LinkError::Refused(_) => CallErrorKind::Config,
        LinkError::Rpc(_) | LinkError::Unanswered { .. } => CallErrorKind::Refused,
        LinkError::Unparsable { .. }
        | LinkError::InvalidEvent { .. }
        | LinkError::Protocol { .. }
        | LinkError::TooLarge { .. } => CallErrorKind::Other,
        // In all other cases, the server could not be started or reached, ended, or did not answer in time.
        _ => CallErrorKind::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_ready(state: State, error: Option<LinkError>) -> CallError {
        CallError::NotReady {
            server: ServerName::new("git").unwrap(),
            state,
            configured_in: Box::new(Source::program()),
            error: error.map(Arc::new),
        }
    }

    fn refusal() -> LinkError {
        LinkError::Rpc(RpcError { code: -32000, message: "license expired".into(), data: None })
    }

    #[test]
    fn while_a_server_reconnects_an_error_names_the_earlier_failure() {
        let again = not_ready(State::Connecting, Some(refusal()));
        assert!(again.to_string().contains("license expired"), "{again}");
        let first = not_ready(State::Connecting, None);
        assert!(first.to_string().ends_with("is not connected: it is still starting"), "{first}");
        assert!(first.hint().is_some_and(|hint| hint.contains("`call_timeout`")), "{first:?}");
    }

    #[test]
    fn a_server_that_refuses_to_begin_is_unreachable_and_refused_no_call() {
        let failed = State::Failed { error: "license expired".to_owned().into() };
        assert_eq!(not_ready(failed, Some(refusal())).kind(), CallErrorKind::Unreachable);
        let remote = CallError::Remote {
            server: ServerName::new("git").unwrap(),
            what: "echo".into(),
            error: RpcError { code: -32602, message: "no".into(), data: None },
        };
        assert_eq!(remote.kind(), CallErrorKind::Refused);
    }

    #[test]
    fn only_a_message_that_names_a_request_is_shown_as_one() {
        let shown = |message: &str| {
            let error = RpcError { code: METHOD_NOT_FOUND, message: message.to_owned(), data: None };
            ServerMessage(&error).to_string()
        };
        for name in ["prompts/get", "ping"] {
            assert_eq!(shown(name), format!("it does not know the request `{name}` (-32601)"));
        }
        for other in ["Unsupported", "", "no such method prompts/get"] {
            assert!(!shown(other).contains("the request"), "{other}");
        }
    }
}
