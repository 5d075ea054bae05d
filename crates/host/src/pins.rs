//! Pins a tool as it was first seen; a tool that has changed since waits for approval.
//!
//! A person agrees to tools by what they say of themselves. A server can say something else later (a "rug pull"), or
//! take a tool away and offer the same one under another name, which no rule covers. So a host with [`Pins`] stores the
//! first list that it gets of a server: trust on first use, as SSH does with host keys. It compares each later list
//! with the pins: a tool that has changed is in *quarantine*, in no catalog, and not called until the new definition is
//! approved. A tool that is new, and resembles none that has gone, is pinned as it is.
//!
//! Pins belong to a name in a file, and not to a command line: an operator who moves a server to its next version wants
//! to see how its tools differ.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use serde::Serialize;

use crate::{
    definition::DefinitionHash,
    spec::{ServerName, ServerSpec},
    text::quote,
};

mod judge;

pub(crate) use judge::{Judged, judge};

/// The owner of pins: a server's name, in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinnedServer {
    /// The name in the configuration.
    pub server: ServerName,
    /// The file that it is configured in; without one, its [fingerprint](crate::ServerSpec::fingerprint).
    pub source: String,
}

impl PinnedServer {
    /// The owner of the pins of the tools of `server`.
    #[must_use]
    pub fn of(server: &ServerName, spec: &ServerSpec) -> Self {
        let source = match &spec.source.path {
            Some(path) => path.display().to_string(),
            None => format!("{} {}", spec.source.scope, spec.fingerprint()),
        };
        Self { server: server.clone(), source }
    }
}

/// A definition as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its hash.
    pub hash: DefinitionHash,
    /// The definition itself: JSON, to be shown and compared. A keeper may hide secrets in it; [`Self::hash`] is of the
    /// original text.
    pub text: String,
}

/// The pin of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The tool as it is trusted.
    pub definition: Definition,
    /// The name under which it is offered now, if a person approved that.
    pub renamed_to: Option<String>,
}

/// The stored pins of a server's tools.
#[derive(Clone, Debug)]
pub enum Recalled {
    /// This exact list was compared with the pins before, and nothing was found.
    AsBefore,
    /// The pins, by the tools' names; none when the server was never listed.
    Pins {
        /// Changes whenever a pin of this server does.
        generation: u64,
        /// Each of them.
        pins: BTreeMap<String, Pin>,
    },
}

/// The result of comparing a list of tools with its pins, to be stored.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The hash of the list: SHA-256 of everything that it says of the tools.
    pub list: [u8; 32],
    /// The generation of the [`Recalled`] pins that it was compared with.
    pub generation: u64,
    /// Tools to be pinned, by name: those that are new.
    pub new: Vec<(String, Definition)>,
    /// All tools that are not as they are pinned.
    pub strange: Vec<Strange>,
}

/// A tool that is not as it is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strange {
    /// Its name.
    pub tool: String,
    /// Its definition now.
    pub definition: Definition,
    /// Why it is in quarantine.
    pub cause: Cause,
}

/// Why a tool is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Its definition differs from the pinned one.
    Changed,
    /// It came when another tool went, and says the same, or nearly.
    Renamed {
        /// The name of that tool; untrusted.
        was: String,
    },
    /// Its server has had more tools than may be pinned.
    TooMany,
    /// The pins could not be read.
    Unchecked {
        /// Why, in words.
        why: String,
    },
}

/// For people; safe to print.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("its definition has changed since it was pinned"),
            Self::Renamed { was } => {
                write!(f, "it says what {} said, which is gone: a tool under another name", quote(was))
            }
            Self::TooMany => write!(f, "its server has had more than {MAX_PINS} tools"),
            Self::Unchecked { why } => write!(f, "its pin cannot be read: {}", quote(why)),
        }
    }
}

/// Most pins that are kept for one server. A server that goes on inventing tools does not fill the disk.
pub const MAX_PINS: usize = 20_000;

/// Keeps pins.
///
/// Must be quick: it is called whenever a server has listed its tools.
pub trait Pins: Send + Sync {
    /// The pins of `server`, whose list of tools has this hash.
    ///
    /// # Errors
    /// When they cannot be read. The server's tools are then in quarantine until they can.
    fn recall<'a>(
        &'a self,
        server: &'a PinnedServer,
        list: &'a [u8; 32],
    ) -> BoxFuture<'a, Result<Recalled, PinsUnreadable>>;

    /// The [generation](Recalled::Pins) of the pins of `server`, which is 0 before there are any; `None` when it cannot
    /// be read. Called every two seconds while one of its tools is in quarantine.
    fn generation<'a>(&'a self, server: &'a PinnedServer) -> BoxFuture<'a, Option<u64>>;

    /// Stores what was seen of `server`. A tool that was pinned meanwhile keeps its pin. Best effort: a failure is its
    /// own to log, and the list is compared again next time.
    fn saw<'a>(&'a self, server: &'a PinnedServer, seen: Seen) -> BoxFuture<'a, ()>;
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
    /// In words for a person.
    pub why: String,
}

/// A tool that is not as it is pinned, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantined {
    /// The server's own name for it; untrusted.
    pub tool: String,
    /// The hash of its definition now.
    pub definition: DefinitionHash,
    /// Why it is in quarantine.
    #[serde(flatten)]
    pub cause: Cause,
    /// Whether it can be used all the same, because pins only warn.
    pub usable: bool,
}
