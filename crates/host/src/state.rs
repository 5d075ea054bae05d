//! Defines the states of a server, as the host reports them.

use std::fmt;

use serde::{Serialize, Serializer};

/// Why a server has failed, as one text that is safe to print. It may end with the last output of the server, which
/// only some readers may see. Serialised and displayed as the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureText {
    /// The cause, and then the output of the server.
    text: String,
    /// How many bytes of `text` are the cause.
    cause_bytes: usize,
}

impl FailureText {
    /// Joins `cause` and the `output` of the server, which is empty if the text quotes none.
    pub(crate) fn new(cause: String, output: &str) -> Self {
        let cause_bytes = cause.len();
        Self { text: cause + output, cause_bytes }
    }

    /// Returns the whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text without the output of the server. It is for people who may know that the server failed, but may
    /// not read what the server wrote.
    #[must_use]
    pub fn without_output(mut self) -> Self {
        self.remove_output();
        self
    }

    /// Removes the output of the server. Returns whether there was any.
    pub(crate) fn remove_output(&mut self) -> bool {
        let had_output = self.cause_bytes < self.text.len();
        self.text.truncate(self.cause_bytes);
        had_output
    }
}

impl fmt::Display for FailureText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text that quotes no output of a server.
impl From<String> for FailureText {
    fn from(cause: String) -> Self {
        Self::new(cause, "")
    }
}

impl Serialize for FailureText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

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
        /// The number of the server's tools in the catalog.
        tools: usize,
    },
    /// Connected; its tools are listed.
    Connected {
        /// The number of the server's tools in the catalog.
        tools: usize,
    },
    /// Connected, but its tools could not be listed.
    ToolsFailed {
        /// The reason, safe to print.
        error: FailureText,
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
        error: FailureText,
    },
    /// The server requires a sign-in first, or refuses the authorization that its configuration contains instead. In
    /// the second case, and on a host without an authorizer, a call makes the host try again.
    NeedsAuth {
        /// The next step for the user, or the server's message; safe to print.
        how: String,
    },
    /// No further attempt is made until a caller requests one or the configuration changes.
    Failed {
        /// The reason, safe to print.
        error: FailureText,
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
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => {
                Some(error.as_str())
            }
            Self::NeedsAuth { how } => Some(how),
            _ => None,
        }
    }

    /// Returns the error of this state, as [`Self::error`] does, as a text from which the server's output can be
    /// [removed](FailureText::without_output).
    #[must_use]
    pub fn failure(&self) -> Option<FailureText> {
        match self {
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => {
                Some(error.clone())
            }
            Self::NeedsAuth { how } => Some(how.clone().into()),
            _ => None,
        }
    }

    /// Returns the text of the failure that this state is about, if there is one.
    pub(crate) fn failure_mut(&mut self) -> Option<&mut FailureText> {
        match self {
            Self::ToolsFailed { error } | Self::Reconnecting { error, .. } | Self::Failed { error } => Some(error),
            _ => None,
        }
    }
}
