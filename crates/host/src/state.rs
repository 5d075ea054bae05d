//! Defines the states of a server, as the host reports them.

use serde::Serialize;

/// The state of a server, for users and programs. `state` is the stable tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Configured but disabled.
    Disabled,
    /// Configured by a project file and not approved: neither started nor resolved.
    PendingTrust,
    /// Not connected; no attempt is under way or planned.
    Disconnected,
    /// Being connected for the first time, or again on request.
    Connecting,
    /// Not running; the next call starts it. Its tools are known from its last run.
    Idle {
        /// The number of its tools in the catalog.
        tools: usize,
    },
    /// Connected; its tools are listed.
    Connected {
        /// The number of its tools in the catalog.
        tools: usize,
    },
    /// Connected, but its tools could not be listed.
    ToolsFailed {
        /// The reason, safe to print.
        error: String,
    },
    /// The connection failed or ended; the next attempt waits.
    Reconnecting {
        /// The number of failed attempts so far.
        attempt: u32,
        /// The total number of attempts.
        attempts: u32,
        /// The wait before the next attempt, in milliseconds, at the time of publication.
        in_ms: u64,
        /// The reason, safe to print.
        error: String,
    },
    /// The server requires a sign-in first.
    NeedsAuth {
        /// The next step for the user, or the server's message; safe to print.
        how: String,
    },
    /// No further attempt is made until a caller requests one or the configuration changes.
    Failed {
        /// The reason, safe to print.
        error: String,
    },
}

impl State {
    /// Returns the stable tag: `connected`, `pending_trust`, …
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::PendingTrust => "pending_trust",
            Self::Disconnected => "disconnected",
            Self::Idle { .. } => "idle",
            Self::Connecting => "connecting",
            Self::Connected { .. } => "connected",
            Self::ToolsFailed { .. } => "tools_failed",
            Self::Reconnecting { .. } => "reconnecting",
            Self::NeedsAuth { .. } => "needs_auth",
            Self::Failed { .. } => "failed",
        }
    }

    /// Returns the error of this state, if it has one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => Some(error),
            Self::NeedsAuth { how } => Some(how),
            _ => None,
        }
    }
}
