//! Pins a tool's definition when it is first seen; a tool that has changed since then waits for approval.
//!
//! Users approve tools by their descriptions. A server can change a description later (a "rug pull"), or remove a tool
//! and offer the same one under another name, which no rule covers. So a host with [`Pins`] stores the first list that
//! it gets from a server: trust on first use, as SSH does with host keys. It compares each later list with the pins. A
//! tool that has changed is in *quarantine*: models do not see it, and no call of it is sent until a user approves the
//! new definition. A new tool that does not resemble a removed one is pinned without approval.
//!
//! The key of a pin is the server's name in a file, and not its command line. So an operator who moves a server to its
//! next version sees how its tools differ.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use serde::Serialize;

use crate::{
    definition::DefinitionHash,
    spec::{ServerName, ServerSpec},
    text::quote,
};

mod judge;

pub(crate) use judge::{ListComparison, judge};

/// The key of pins: a server's name in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinnedServer {
    /// The name in the configuration.
    pub server: ServerName,
    /// The file in which the server is configured. For a server that no file configures, its scope and its
    /// [fingerprint](crate::ServerSpec::fingerprint).
    pub source: String,
}

impl PinnedServer {
    /// Returns the key of the pins of `server`.
    #[must_use]
    pub fn of(server: &ServerName, spec: &ServerSpec) -> Self {
        let source = match &spec.source.path {
            Some(path) => path.display().to_string(),
            None => format!("{} {}", spec.source.scope, spec.fingerprint()),
        };
        Self { server: server.clone(), source }
    }
}

/// A definition as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The hash of the definition.
    pub hash: DefinitionHash,
    /// The definition itself: JSON, to show and compare. An implementation of [`Pins`] may hide secrets in it;
    /// [`Self::hash`] is of the original text.
    pub text: String,
}

/// The pin of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The trusted definition.
    pub definition: Definition,
    /// The current name of the tool, if a user approved a renaming.
    pub renamed_to: Option<String>,
}

/// The stored pins of a server's tools.
#[derive(Clone, Debug)]
pub enum StoredPins {
    /// The list that [`Pins::recall`] asked about was compared with the current pins before, and no tool differed from
    /// its pin.
    Unchanged,
    /// The pins, by the tools' names; empty when the server was never listed.
    Pins {
        /// Changes whenever a pin of this server changes.
        generation: u64,
        /// The pins.
        pins: BTreeMap<String, Pin>,
    },
}

/// The result of comparing a list of tools with its pins, to store.
#[derive(Clone, Debug)]
pub struct PinComparison {
    /// The hash of the list: SHA-256 of all data about the tools.
    pub list: [u8; 32],
    /// The generation of the [`StoredPins`] with which the list was compared.
    pub generation: u64,
    /// The new tools, by name, to pin.
    pub new: Vec<(String, Definition)>,
    /// The tools that differ from their pins.
    pub mismatches: Vec<PinMismatch>,
}

/// A tool that differs from its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinMismatch {
    /// The name of the tool.
    pub tool: String,
    /// The current definition.
    pub definition: Definition,
    /// The reason why it is in quarantine.
    pub cause: Cause,
}

/// The reason why a tool is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The definition of the tool differs from the pinned definition.
    Changed,
    /// The tool appeared when another one was removed, and has the same, or nearly the same, definition.
    Renamed {
        /// The name of the removed tool; untrusted.
        was: String,
    },
    /// The server has had more tools than can be pinned.
    TooMany,
    /// The pins could not be read.
    Unchecked {
        /// The reason.
        why: String,
    },
}

/// A text for users, safe to print.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("its definition has changed since it was pinned"),
            Self::Renamed { was } => {
                write!(
                    f,
                    "it looks like {}, which the server no longer has: probably the same tool under a new name",
                    quote(was)
                )
            }
            Self::TooMany => write!(f, "its server has had more than {MAX_PINS} tools"),
            Self::Unchecked { why } => write!(f, "its pin cannot be read: {}", quote(why)),
        }
    }
}

/// The most pins that are kept for one server, so that a server with ever new tools does not fill the disk.
pub const MAX_PINS: usize = 20_000;

/// Stores pins.
///
/// Implementations must be quick: the host calls them whenever a server has listed its tools.
pub trait Pins: Send + Sync {
    /// Loads the pins of `server`. `list` is the hash of the list of tools that the server has sent now.
    ///
    /// # Errors
    /// If the pins cannot be read. The server's tools are then in quarantine until the pins can be read.
    fn recall<'a>(
        &'a self,
        server: &'a PinnedServer,
        list: &'a [u8; 32],
    ) -> BoxFuture<'a, Result<StoredPins, PinsUnreadable>>;

    /// Returns the [generation](StoredPins::Pins) of the pins of `server`, which is 0 before there are any; `None` when
    /// it cannot be read. Called every two seconds while one of its tools is in quarantine.
    fn generation<'a>(&'a self, server: &'a PinnedServer) -> BoxFuture<'a, Option<u64>>;

    /// Stores the result of comparing a list of tools with its pins. A tool that was pinned meanwhile keeps its pin.
    /// Best effort: if it fails, the implementation logs that, and the host compares the list again next time.
    fn record_comparison<'a>(&'a self, server: &'a PinnedServer, comparison: PinComparison) -> BoxFuture<'a, ()>;
}

impl fmt::Debug for dyn Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pins")
    }
}

/// Pins cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct PinsUnreadable {
    /// The reason, as text for users.
    pub why: String,
}

/// A tool that differs from its pin, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantined {
    /// The server's own name for the tool; untrusted.
    pub tool: String,
    /// The hash of the tool's current definition.
    pub definition: DefinitionHash,
    /// The reason why it is in quarantine.
    #[serde(flatten)]
    pub cause: Cause,
    /// Whether the tool can be used nevertheless, because the pins only warn.
    pub usable: bool,
}
