//! Defines the events that a host reports to its observers, as one enum with stable names.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::{
    Principal,
    pins::Quarantined,
    spec::ServerName,
    state::{FailureText, State},
};

/// An event. The serialised `event` tag is stable; fields may be added. Four events (connected, disconnected, error,
/// tools updated) are also events of the program Qbit. In these, the server is serialised twice: as `server`, as in all
/// events, and as `server_name`, as in Qbit.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A server's state changed.
    McpServerState {
        /// The server.
        server: ServerName,
        /// The new state.
        state: State,
    },
    /// A server is connected and its tools are listed.
    McpServerConnected {
        /// The server.
        #[serde(flatten, serialize_with = "by_both_names")]
        server: ServerName,
        /// The number of the server's tools in the catalog.
        tool_count: usize,
    },
    /// A connection ended.
    McpServerDisconnected {
        /// The server.
        #[serde(flatten, serialize_with = "by_both_names")]
        server: ServerName,
        /// The reason, safe to print.
        reason: Option<FailureText>,
    },
    /// A server could not be connected, or answered a call with a protocol error (JSON-RPC error or invalid response).
    McpServerError {
        /// The server.
        #[serde(flatten, serialize_with = "by_both_names")]
        server: ServerName,
        /// The error, safe to print.
        error: FailureText,
        /// The call that failed with it; `None` for an error of the connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<EventCall>,
    },
    /// The catalog changed.
    McpToolsUpdated {
        /// The server whose tools changed.
        #[serde(flatten, serialize_with = "by_both_names")]
        server: ServerName,
        /// The model-visible names of the server's tools.
        tools: Vec<String>,
    },
    /// A tool differs from its pin (the trusted definition): the definition has changed, or the tool looks like a
    /// removed tool under a new name.
    McpToolQuarantined {
        /// The server.
        server: ServerName,
        /// The tool, and the reason.
        #[serde(flatten)]
        quarantined: Quarantined,
    },
    /// A server's prompts have changed. They are listed on the next request for them.
    McpPromptsChanged {
        /// The server.
        server: ServerName,
    },
    /// A server's resources, or their templates, have changed. They are listed on the next request for them.
    McpResourcesChanged {
        /// The server.
        server: ServerName,
    },
    /// A problem that does not end the connection: noise on stdout, a tool that was left out, a flood of messages that
    /// was muted.
    McpServerWarning {
        /// The server.
        server: ServerName,
        /// The warning, safe to print.
        warning: String,
    },
    /// A log message of the server (`notifications/message`), safe to print.
    McpServerLog {
        /// The server.
        server: ServerName,
        /// The MCP level: `debug` … `emergency`.
        level: String,
        /// The text.
        message: String,
    },
    /// A line that a child process wrote to stderr, safe to print.
    McpServerStderr {
        /// The server.
        server: ServerName,
        /// The line.
        line: String,
    },
    /// A call passed the gate (the check before each call) and is being sent.
    ToolStarted {
        /// The call.
        call: EventCall,
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
    },
    /// The server reported progress.
    ToolProgress {
        /// The call.
        call: EventCall,
        /// The progress so far.
        progress: f64,
        /// The expected total.
        total: Option<f64>,
        /// A text for users.
        message: Option<String>,
    },
    /// A call ended.
    ToolCompleted {
        /// The call.
        call: EventCall,
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The end of the call.
        outcome: CallEnd,
        /// How long the call took.
        #[serde(serialize_with = "millis", rename = "duration_ms")]
        duration: Duration,
    },
    /// The gate requires a user's decision.
    ToolApprovalRequest {
        /// The call.
        call: EventCall,
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The rule that requires the decision.
        why: String,
    },
    /// The gate refused a call.
    ToolDenied {
        /// The call.
        call: EventCall,
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The rule, or the user's answer.
        why: String,
    },
}

impl Event {
    /// Returns the event without the output of the server that it quotes. `None` if the event quotes no output.
    #[must_use]
    pub fn without_output(&self) -> Option<Self> {
        let mut reduced = self.clone();
        let failure = match &mut reduced {
            Self::McpServerState { state, .. } => state.failure_mut(),
            Self::McpServerDisconnected { reason, .. } => reason.as_mut(),
            Self::McpServerError { error, .. } => Some(error),
            _ => None,
        };
        failure?.remove_output().then_some(reduced)
    }
}

/// The call that an event is about. Serialised as its number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCall {
    /// The number of the call in this host, from 1.
    pub number: u64,
    /// The person or service that called. The texts of an event about a call may contain data that only this principal
    /// may read.
    pub principal: Principal,
}

impl Serialize for EventCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.number)
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The call has a result.
    Ok,
    /// The call has a result that the tool marks as an error.
    ToolError,
    /// The call has no result.
    Failed,
    /// The caller dropped the call.
    Cancelled,
}

impl CallEnd {
    /// Returns the stable word for this end, as in events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "64 bits of milliseconds are 600 million years")]
pub(crate) fn millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_millis() as u64)
}

/// Writes the server of an event under the name that all events use, and under Qbit's.
fn by_both_names<S: Serializer>(server: &ServerName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("server", server), ("server_name", server)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_read_that_a_server_has_ended_and_not_what_it_wrote() {
        let server = || ServerName::new("git").unwrap();
        let cause = "the server process ended (exit status 3)";
        let failures = |output: &str| {
            let error = || FailureText::new(cause.to_owned(), output);
            let reconnecting = State::Reconnecting { attempt: 1, attempts: 3, in_ms: 500, error: error() };
            [
                Event::McpServerState { server: server(), state: State::Failed { error: error() } },
                Event::McpServerState { server: server(), state: State::ToolsFailed { error: error() } },
                Event::McpServerState { server: server(), state: reconnecting },
                Event::McpServerDisconnected { server: server(), reason: Some(error()) },
                Event::McpServerError { server: server(), error: error(), call: None },
            ]
        };
        for (loud, silent) in failures("; its last words: of a caller").iter().zip(failures("")) {
            let written = |event: &Event| serde_json::to_value(event).unwrap();
            assert!(written(loud).to_string().contains("(exit status 3); its last words: of a caller"), "{loud:?}");
            assert_eq!(written(&loud.without_output().unwrap()), written(&silent));
            assert!(silent.without_output().is_none(), "{silent:?}");
        }
        let ended_by_host = Event::McpServerDisconnected { server: server(), reason: None };
        assert!(ended_by_host.without_output().is_none());
    }
}
