//! The state of a server, as the host reports it.

use serde::Serialize;

/// The state of a server, for people and programs. `state` is the stable tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Configured and switched off.
    Disabled,
    /// Configured by a project file and not approved: neither started nor looked up.
    PendingTrust,
    /// Not connected, and no attempt is under way or planned.
    Disconnected,
    /// Being connected for the first time, or again on request.
    Connecting,
    /// Not running; the next call starts it. Its tools are known from its last run.
    Idle {
        /// How many of its tools are in the catalog.
        tools: usize,
    },
    /// Connected; its tools are listed.
    Connected {
        /// How many of its tools are in the catalog.
        tools: usize,
    },
    /// Connected, but its tools could not be listed.
    ToolsFailed {
        /// Why, safe to print.
        error: String,
    },
    /// The connection failed or ended; the next attempt waits.
    Reconnecting {
        /// Failed attempts so far.
        attempt: u32,
        /// How many attempts are made in all.
        attempts: u32,
        /// The wait before the next one, in milliseconds, as of when this was published.
        in_ms: u64,
        /// Why, safe to print.
        error: String,
    },
    /// The server requires a sign-in first.
    NeedsAuth {
        /// What to do, or what the server said; safe to print.
        how: String,
    },
    /// No further attempt, until a caller asks for one or the configuration changes.
    Failed {
        /// Why, safe to print.
        error: String,
    },
}

impl State {
    /// The stable tag: `connected`, `pending_trust`, …
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

    /// The error of this state, if it has one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => Some(error),
            Self::NeedsAuth { how } => Some(how),
            _ => None,
        }
    }
}
