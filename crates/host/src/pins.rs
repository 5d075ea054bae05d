//! Tools are pinned as they were when they were first seen; one that is another by now waits until somebody has looked.
//!
//! A person agrees to tools by what they say of themselves. A server can say something else later (a "rug pull"), or take a
//! tool away and offer the same one under another name, which no rule speaks of. So the first list of a server that a host with
//! [`Pins`] gets is written down, trusted on first use as host keys are by SSH. From then on each list is held against
//! that: what has changed is in *quarantine*, is in no catalog, and is not called until the new definition is approved.
//! A tool that is new, and resembles none that has gone, is pinned as it is.
//!
//! Pins belong to a name in a file, and not to a command line: whoever moves a server to its next version wants to hear
//! what its tools say differently.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    catalog::DefinitionHash,
    link::quote,
    spec::{ServerName, ServerSpec},
};

mod judge;

pub(crate) use judge::{Judged, judge};

/// What happens to a tool that is not as it is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Nothing is pinned, nothing is compared.
    Off,
    /// It is told, and the tool can be used.
    Warn,
    /// It is told, and the tool is in quarantine. The default.
    #[default]
    Enforce,
}

impl PinMode {
    /// The configuration's word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    /// The mode of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Enforce].into_iter().find(|mode| mode.word() == word)
    }
}

/// Whose tools are pinned: a name, in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinnedServer {
    /// The name in the configuration.
    pub server: ServerName,
    /// The file that it is configured in; of a server that no file has, its
    /// [fingerprint](crate::ServerSpec::fingerprint).
    pub source: String,
}

impl PinnedServer {
    /// Under which the tools of `server` are pinned.
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
    /// What names it.
    pub hash: DefinitionHash,
    /// The definition itself: JSON, to be shown and compared. A keeper may hide secrets in it; [`Self::hash`] is of the text
    /// without that.
    pub text: String,
}

/// The pin of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The tool as it is trusted.
    pub definition: Definition,
    /// The name under which it is offered now, if somebody approved that.
    pub renamed_to: Option<String>,
}

/// What is known of a server's tools.
#[derive(Clone, Debug)]
pub enum Recalled {
    /// This very list was held against the pins, and nothing was found.
    AsBefore,
    /// The pins, by the tools' names; none when the server was never listed.
    Pins {
        /// Changes whenever a pin of this server does.
        generation: u64,
        /// Each of them.
        pins: BTreeMap<String, Pin>,
    },
}

/// What a list of tools turned out to be, to be written down.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What names the list: SHA-256 of all that it says of the tools.
    pub list: [u8; 32],
    /// Of the [`Recalled`] that it was held against.
    pub generation: u64,
    /// Tools to be pinned, by name: those that were never seen.
    pub new: Vec<(String, Definition)>,
    /// All tools that are not as they are pinned.
    pub strange: Vec<Strange>,
}

/// A tool that is not as it is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strange {
    /// Its name.
    pub tool: String,
    /// What it says of itself now.
    pub definition: Definition,
    /// What is the matter.
    pub cause: Cause,
}

/// Why a tool is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Its definition is another than the one that is pinned.
    Changed,
    /// It came when another tool went, and says the same, or nearly.
    Renamed {
        /// The name of that tool; untrusted.
        was: String,
    },
    /// Its server has had more tools than are pinned.
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

/// Pins that are kept for one server. A server that goes on inventing tools does not fill the disk.
pub const MAX_PINS: usize = 20_000;

/// Keeps pins.
///
/// Must be quick: it is asked whenever a server has listed its tools.
pub trait Pins: Send + Sync {
    /// What is pinned of `server`, whose list of tools has this hash.
    ///
    /// # Errors
    /// When it cannot be read. The server's tools are then in quarantine until it can.
    fn recall<'a>(
        &'a self,
        server: &'a PinnedServer,
        list: &'a [u8; 32],
    ) -> BoxFuture<'a, Result<Recalled, PinsUnreadable>>;

    /// The [generation](Recalled::Pins) of the pins of `server`, which is 0 before there are any; `None` when it cannot be read.
    /// Asked every two seconds while one of its tools is in quarantine.
    fn generation<'a>(&'a self, server: &'a PinnedServer) -> BoxFuture<'a, Option<u64>>;

    /// Writes down what was seen of `server`. A tool that was pinned meanwhile keeps its pin. Best effort: what goes wrong is
    /// its own to log, and the list is looked at again next time.
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

/// A tool that is not as it is pinned, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantined {
    /// The server's own name for it; untrusted.
    pub tool: String,
    /// What names its definition as it is now.
    pub definition: DefinitionHash,
    /// What is the matter.
    #[serde(flatten)]
    pub cause: Cause,
    /// Whether it can be used all the same, because pins only warn.
    pub usable: bool,
}
