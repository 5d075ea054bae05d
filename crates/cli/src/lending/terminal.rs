//! Describes the terminal of a command, so that a daemon can write for that terminal.

use serde::{Deserialize, Serialize};

/// The terminal of a command.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TerminalProperties {
    pub(crate) out: StreamProperties,
    pub(crate) err: StreamProperties,
    /// Whether a user reads stderr and types on stdin.
    pub(crate) interactive: bool,
    /// Whether progress lines may be shown.
    pub(crate) shows_status: bool,
    /// Whether the terminal shows Unicode.
    pub(crate) unicode: bool,
}

/// Properties of a stream of another process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StreamProperties {
    pub(crate) is_terminal: bool,
    pub(crate) has_colour: bool,
    /// The width, if the stream is a terminal.
    pub(crate) columns: Option<usize>,
}
