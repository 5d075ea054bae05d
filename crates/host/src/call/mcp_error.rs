//! Converts a [`CallError`] into the `McpError` of Synapse (another program), for code that was written for that type.

use super::{CallError, error::not_ready_reason};
use crate::link::LinkError;

/// A [`CallError`] as one of four kinds, with the texts of Synapse's error of this name, for programs that match on
/// these kinds. [`CallError`] itself has more detail. `Display` is safe to print and holds no secret.
///
/// | kind | what |
/// |---|---|
/// | [`Config`](Self::Config) | the configuration of the server cannot be used, or a placeholder in it has no value |
/// | [`Connection`](Self::Connection) | there is no connection to the server |
/// | [`Io`](Self::Io) | the connection ended or broke while an answer was awaited |
/// | [`Tool`](Self::Tool) | everything else: no such tool, denied, refused by the server, late, an unusable answer |
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The configuration cannot be used.
    #[error("MCP config error: {0}")]
    Config(String),
    /// A server is not connected.
    #[error("MCP connection error for server '{server}': {message}")]
    Connection {
        /// The server.
        server: String,
        /// The reason.
        message: String,
    },
    /// A call has no result.
    #[error("MCP tool error: {0}")]
    Tool(String),
    /// The connection broke.
    #[error("MCP IO error: {0}")]
    Io(String),
}

impl From<&CallError> for McpError {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::NotReady { error: Some(cause), .. } if is_fault_of_entry(cause) => {
                Self::Config(error.to_string())
            }
            CallError::NotReady { server, state, error, .. } => {
                Self::Connection { server: server.to_string(), message: not_ready_reason(state, error.as_deref()) }
            }
            CallError::Link { error: cause, .. } if is_fault_of_entry(cause) => Self::Config(error.to_string()),
            CallError::Link { server, error: cause, .. } if means_no_connection(cause) => {
                Self::Connection { server: server.to_string(), message: cause.to_string() }
            }
            CallError::Link {
                error: LinkError::Exited { .. } | LinkError::Closed { .. } | LinkError::Broken { .. },
                ..
            } => Self::Io(error.to_string()),
            _ => Self::Tool(error.to_string()),
        }
    }
}

fn is_fault_of_entry(cause: &LinkError) -> bool {
    matches!(cause, LinkError::Config { .. } | LinkError::Resolve(_))
}

fn means_no_connection(cause: &LinkError) -> bool {
    matches!(
        cause,
        LinkError::Spawn(_)
            | LinkError::Container { .. }
            | LinkError::SlowStart { .. }
            | LinkError::Unreachable { .. }
            | LinkError::Refused(_)
            | LinkError::NeedsAuth { .. }
            | LinkError::SessionNotFound { .. }
            | LinkError::Stopped
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        spec::{ServerName, Source},
        state::State,
    };

    fn link(error: LinkError) -> CallError {
        let (server, configured_in) = (ServerName::new("fs").unwrap(), Box::new(Source::program()));
        CallError::Link { server, what: "read".to_owned(), configured_in, error }
    }

    #[test]
    fn sy_11_failures_have_the_four_texts_of_synapse() {
        let message = |error: &CallError| McpError::from(error).to_string();
        let unknown = CallError::UnknownServer { server: "gone".to_owned() };
        assert_eq!(message(&unknown), "MCP tool error: no server is called `gone`");
        let not_ready = CallError::NotReady {
            server: ServerName::new("fs").unwrap(),
            state: State::Disabled,
            configured_in: Box::new(Source::program()),
            error: None,
        };
        let expected = "MCP connection error for server 'fs': is not connected: it is disabled";
        assert_eq!(message(&not_ready), expected);
        let broken = message(&link(LinkError::Broken { why: "reset".to_owned() }));
        assert!(broken.starts_with("MCP IO error: read on the server fs "), "{broken}");
        let config = message(&link(LinkError::config("X", "no url")));
        assert!(config.starts_with("MCP config error: ") && config.ends_with("no url"), "{config}");
        let stopped = message(&link(LinkError::Stopped));
        assert_eq!(stopped, "MCP connection error for server 'fs': the server was stopped by this host");
    }
}
