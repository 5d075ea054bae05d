//! What must not go unrecorded: each call with who made it and why it ran or did not, and how connections went.
//!
//! [Events](crate::Event) are for whoever watches, and a slow reader misses some. A [`Witness`] is told of everything, in
//! order, by whoever does it.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{catalog::DefinitionHash, event::CallEnd, spec::ServerName};

/// Is told of everything that must not go unrecorded.
///
/// Must not block: it is called on the way of calls.
pub trait Witness: Send + Sync {
    /// Something happened.
    fn saw(&self, fact: Fact);

    /// Whether calls are to be told with their arguments in full, and not only with what
    /// [identifies](Evidence::sha256) them. The default is not: arguments are what people work on.
    fn wants_arguments(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// Something that must not go unrecorded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// A call has ended, was refused, or was given up by its caller.
    Called(Box<Called>),
    /// A person answered whether a call may run. Its [`Called`] follows when it has ended.
    Answered {
        /// Which server.
        server: ServerName,
        /// Which tool.
        tool: String,
        /// Who wanted the call.
        caller: Caller,
        /// What of it.
        decision: Decision,
        /// The rule that asked.
        why: String,
    },
    /// A server is connected and its tools are listed.
    Connected {
        /// Which.
        server: ServerName,
        /// How many of its tools are in the catalog.
        tools: usize,
    },
    /// A server could not be connected, or its tools could not be listed.
    Failed {
        /// Which.
        server: ServerName,
        /// What went wrong, made safe to print.
        error: String,
    },
    /// A connection ended.
    Closed {
        /// Which server's.
        server: ServerName,
        /// Why, made safe to print; `None` when this side ended it.
        reason: Option<String>,
    },
    /// A person signed in to a server, or this program did.
    SignedIn {
        /// Which server.
        server: ServerName,
        /// Who gave the tokens; untrusted.
        issuer: String,
    },
    /// A person signed out of a server.
    SignedOut {
        /// Which server.
        server: ServerName,
        /// What became of the tokens, which are forgotten in any case; made safe to print.
        outcome: String,
    },
    /// Signing in to a server failed, or a token could not be renewed.
    SignInFailed {
        /// Which server.
        server: ServerName,
        /// What went wrong, made safe to print.
        error: String,
        /// A stable word for it.
        code: &'static str,
    },
}

/// A call, from the gate to its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Called {
    /// Which server.
    pub server: ServerName,
    /// The tool's own name; untrusted.
    pub tool: String,
    /// Who wanted it.
    pub caller: Caller,
    /// The tool's definition at that moment.
    pub definition: DefinitionHash,
    /// What was sent, or would have been.
    pub arguments: Evidence,
    /// Whether it ran, and who said so.
    pub decision: Decision,
    /// The rule or the answer behind the decision; untrusted.
    pub why: String,
    /// How it ended; `None` when nothing was sent.
    pub end: Option<CallEnd>,
    /// [`CallError::code`](crate::CallError::code) of a call that failed.
    pub code: Option<&'static str>,
    /// From the gate to the end; zero when nothing was sent.
    pub duration: Duration,
    /// Size of the result object as the server sent it; 0 without one.
    pub bytes: usize,
}

/// What the arguments of a call were, without telling them.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    /// SHA-256 of the arguments as JSON without spaces, members in the order of their names. Whoever can guess the arguments
    /// can find out that they were these.
    pub sha256: [u8; 32],
    /// The size of that JSON.
    pub bytes: usize,
    /// The JSON itself, when the witness [wants it](Witness::wants_arguments).
    pub full: Option<String>,
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evidence").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Evidence {
    pub(crate) fn of(arguments: &Map<String, Value>, in_full: bool) -> Self {
        let mut measured = Measured { hash: Sha256::new(), bytes: 0 };
        // Nothing in a map of JSON values, and no writer here, can fail.
        let _ = serde_json::to_writer(&mut measured, arguments);
        let full = in_full.then(|| serde_json::to_string(arguments).unwrap_or_default());
        Self { sha256: measured.hash.finalize().into(), bytes: measured.bytes, full }
    }
}

/// Takes bytes and keeps none.
struct Measured {
    hash: Sha256,
    bytes: usize,
}

impl std::io::Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.update(bytes);
        self.bytes += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether a call ran, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// A rule let it run.
    Allowed,
    /// A person let calls like it run, some time before.
    Remembered,
    /// A person let it run as it was asked.
    Confirmed,
    /// A person let it run with other arguments.
    Edited,
    /// A rule forbids it.
    Denied,
    /// A person said no.
    Declined,
    /// A person would have had to be asked, and nobody was there.
    Unasked,
    /// It was given up before anybody answered.
    Unanswered,
}

impl Decision {
    /// Those with which a call runs.
    pub const YES: [Self; 4] = [Self::Allowed, Self::Remembered, Self::Confirmed, Self::Edited];

    /// Whether the call ran.
    #[must_use]
    pub fn is_yes(self) -> bool {
        Self::YES.contains(&self)
    }

    /// A stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Remembered => "remembered",
            Self::Confirmed => "confirmed",
            Self::Edited => "edited",
            Self::Denied => "denied",
            Self::Declined => "declined",
            Self::Unasked => "unasked",
            Self::Unanswered => "unanswered",
        }
    }
}

/// Who wants a call: the way it came in, and on the way in what the client says it is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    way: Way,
    client: Option<Arc<str>>,
}

impl Caller {
    /// The program that embeds this library.
    pub(crate) const NOBODY: Self = Self { way: Way::Program, client: None };

    /// Whoever comes this way.
    #[must_use]
    pub fn by(way: Way) -> Self {
        Self { way, client: None }
    }

    /// What the client calls itself; untrusted.
    #[must_use]
    pub fn client(self, client: impl Into<Arc<str>>) -> Self {
        Self { client: Some(client.into()), ..self }
    }

    /// The way.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
    }

    /// What the client calls itself; untrusted.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.client.as_deref()
    }
}

/// The way a call came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// A program that embeds this library. The default.
    #[default]
    Program,
    /// A person's command.
    Cli,
    /// The control API of a daemon, and its dashboard.
    Daemon,
    /// The MCP endpoint in front of all servers.
    Gateway,
    /// A model, in a turn of a conversation.
    Agent,
}

impl Way {
    /// A stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Cli => "cli",
            Self::Daemon => "daemon",
            Self::Gateway => "gateway",
            Self::Agent => "agent",
        }
    }
}

impl Serialize for Way {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_known_by_their_content_and_not_by_their_order() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let evidence = Evidence::of(&map(json!({ "b": [1, "é"], "a": null })), false);
        assert_eq!(evidence, Evidence::of(&map(json!({ "a": null, "b": [1, "é"] })), false));
        let text = r#"{"a":null,"b":[1,"é"]}"#;
        assert_eq!(evidence.sha256, <[u8; 32]>::from(Sha256::digest(text)));
        assert_eq!((evidence.bytes, evidence.full.as_deref()), (text.len(), None));
        assert_eq!(Evidence::of(&map(json!({ "a": "secret" })), true).full.as_deref(), Some(r#"{"a":"secret"}"#));
        assert!(!format!("{:?}", Evidence::of(&map(json!({ "a": "secret" })), true)).contains("secret"));
    }
}
