//! Describes the terminal of a command, so that a daemon can write for that terminal.

use serde::{Deserialize, Serialize};

/// The terminal of a command.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct BorrowerTerminal {
    pub(crate) out: BorrowerStream,
    pub(crate) err: BorrowerStream,
    pub(crate) interactive: bool,
    pub(crate) shows_status: bool,
    pub(crate) unicode: bool,
}

/// Properties of a stream of another process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct BorrowerStream {
    pub(crate) is_terminal: bool,
    pub(crate) has_colour: bool,
    /// The width, if the stream is a terminal.
    pub(crate) columns: Option<usize>,
}
