//! Passes on the facts that must be recorded, for example in an audit log. These are each call, with its caller and the
//! reason why it ran or not, and the beginnings and ends of connections.
//!
//! [Events](crate::Event) are for observers, and a slow observer misses some events. A [`Witness`] receives every fact,
//! in order, on the task where the fact arises. The *gate* in these facts decides whether a call may run.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{
    canonical::CanonicalMap, definition::DefinitionHash, event::CallEnd, principal::Principal, spec::ServerName, text,
};

/// Receives the facts that must be recorded.
///
/// A witness must not block, because it runs during calls.
pub trait Witness: Send + Sync {
    /// Records a fact.
    fn record(&self, fact: Fact);

    /// Returns whether [`GatedCall::arguments`] should contain the arguments in full, and not only their
    /// [hash](RecordedArguments::sha256). Default `false`, because arguments may be confidential.
    fn wants_arguments(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// A fact that must be recorded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// A call has ended, was refused, or was abandoned by its caller.
    Called(Box<GatedCall>),
    /// A user answered the question whether a call may run. The [`GatedCall`] of the call follows at its end.
    Answered {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The caller.
        caller: Caller,
        /// The user who answered; `None` if that is the user of the caller.
        by: Option<Caller>,
        /// The answer.
        decision: Decision,
        /// The rule that required the question.
        why: String,
    },
    /// A server is connected and its tools are listed.
    Connected {
        /// The server.
        server: ServerName,
        /// The number of the server's tools in the catalog.
        tools: usize,
    },
    /// A server could not be connected, or its tools could not be listed.
    Failed {
        /// The server.
        server: ServerName,
        /// The error, safe to print.
        error: String,
    },
    /// A connection ended.
    Closed {
        /// The server.
        server: ServerName,
        /// The reason, safe to print; `None` when this side ended the connection.
        reason: Option<String>,
    },
    /// A user signed in to a server, or this program did.
    SignedIn {
        /// The server.
        server: ServerName,
        /// The issuer of the tokens; untrusted.
        issuer: String,
    },
    /// A user signed out of a server.
    SignedOut {
        /// The server.
        server: ServerName,
        /// The outcome of the revocation of the tokens, which are deleted here in any case; safe to print.
        outcome: String,
    },
    /// Signing in to a server failed, or a token could not be renewed.
    SignInFailed {
        /// The server.
        server: ServerName,
        /// The error, safe to print.
        error: String,
        /// The stable code of the error.
        code: &'static str,
    },
    /// A quota refused something other than a call of a tool. A refused call is a [`Self::Called`].
    OverQuota {
        /// The caller.
        caller: Caller,
        /// The server, if the refused operation was about one.
        server: Option<ServerName>,
        /// The refused operation, safe to print.
        what: String,
        /// The quota, and when it is free again.
        why: String,
    },
    /// A daemon refused a request of a local process at one of its sockets.
    TurnedAway {
        /// The socket.
        socket: &'static str,
        /// The process, as the system names it; untrusted.
        process: String,
        /// The reason.
        why: String,
        /// The number of further refusals since the last such fact. They were too many to be reported one by one.
        unrecorded: usize,
    },
}

/// A call, from the gate to its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GatedCall {
    /// The server.
    pub server: ServerName,
    /// The tool's own name; untrusted.
    pub tool: String,
    /// The caller.
    pub caller: Caller,
    /// The hash of the tool's definition at the time of the call.
    pub definition: DefinitionHash,
    /// The arguments that were sent, or would have been sent.
    pub arguments: RecordedArguments,
    /// Whether the call ran, and who decided that.
    pub decision: Decision,
    /// The rule or the answer behind the decision; untrusted.
    pub why: String,
    /// The end of the call; `None` when it was not sent.
    pub end: Option<CallEnd>,
    /// The [`CallError::code`](crate::CallError::code) of a failed call.
    pub code: Option<&'static str>,
    /// The time from the gate to the end; zero when the call was not sent.
    pub duration: Duration,
    /// The size of the result object as the server sent it, in bytes; 0 if there is none.
    pub bytes: usize,
}

/// The arguments of a call, as a witness records them: their hash and their size, and their text if the witness wants
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordedArguments {
    /// SHA-256 of the arguments as JSON without spaces, members in the order of their names. A reader who guesses the
    /// arguments can verify the guess.
    pub sha256: [u8; 32],
    /// The size of that JSON in bytes.
    pub bytes: usize,
    /// The JSON itself, if the witness [wants it](Witness::wants_arguments).
    pub full: Option<String>,
}

impl fmt::Debug for RecordedArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedArguments").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl RecordedArguments {
    /// Computes the hash and the size of `arguments`. If `in_full` is `true`, adds their text.
    pub(crate) fn of(arguments: &Map<String, Value>, in_full: bool) -> Self {
        let mut writer = HashingWriter { hash: Sha256::new(), bytes: 0 };
        // Neither a map of JSON values nor this writer can fail.
        let _ = serde_json::to_writer(&mut writer, &CanonicalMap(arguments));
        let full = in_full.then(|| serde_json::to_string(arguments).unwrap_or_default());
        Self { sha256: writer.hash.finalize().into(), bytes: writer.bytes, full }
    }
}

/// Hashes and counts bytes without storing them.
struct HashingWriter {
    hash: Sha256,
    bytes: usize,
}

impl std::io::Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.update(bytes);
        self.bytes += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether a call ran, and who decided that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// A rule allowed it.
    Allowed,
    /// A user's earlier answer, which covers this call, allowed it.
    Remembered,
    /// A user allowed it unchanged.
    Confirmed,
    /// A user allowed it with other arguments.
    Edited,
    /// A rule denied it.
    Denied,
    /// A user denied it.
    Declined,
    /// The policy requires a user's decision, and the program could not ask a user.
    #[serde(rename = "unasked")]
    CannotAsk,
    /// The call was abandoned before the user answered.
    Unanswered,
}

impl Decision {
    /// The decisions that let a call run.
    pub const YES: [Self; 4] = [Self::Allowed, Self::Remembered, Self::Confirmed, Self::Edited];

    /// Returns a stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Remembered => "remembered",
            Self::Confirmed => "confirmed",
            Self::Edited => "edited",
            Self::Denied => "denied",
            Self::Declined => "declined",
            Self::CannotAsk => "unasked",
            Self::Unanswered => "unanswered",
        }
    }
}

/// The most bytes of a name in a [`Caller`]; a longer one is cut.
const MAX_NAME_BYTES: usize = 200;

/// The caller: the principal, the way in, and the known facts about the client.
///
/// Plain data. The code of each way into the host creates it in one place, and the host passes it to the gate, to the
/// [asker](crate::Asker) and to the [witness](Witness). Only [`Self::client_name`] and [`Self::request`] come from the
/// client itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    principal: Principal,
    way: Way,
    /// `None` if nothing is known, which costs no allocation. Shared otherwise, so that a clone costs none either.
    details: Option<Arc<CallerDetails>>,
}

/// The known facts about a caller besides its principal and its way in. The methods of [`Caller`] that set them say
/// what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CallerDetails {
    client: Option<Arc<str>>,
    transport: Option<ClientTransport>,
    session: Option<Arc<str>>,
    request: Option<Arc<str>>,
    conversation: Option<Arc<str>>,
    agent: Option<Arc<str>>,
    profile: Option<Arc<str>>,
}

impl Caller {
    /// The program that embeds this library.
    pub(crate) const PROGRAM: Self = Self { principal: Principal::LOCAL, way: Way::Program, details: None };

    /// Creates the caller for the person of a machine with a single user, by this way in.
    #[must_use]
    pub fn local(way: Way) -> Self {
        Self::of(Principal::LOCAL, way)
    }

    /// Creates a caller whose identity was proved, by this way in.
    #[must_use]
    pub fn of(principal: Principal, way: Way) -> Self {
        Self { principal, way, details: None }
    }

    fn with_details(mut self, set: impl FnOnce(&mut CallerDetails)) -> Self {
        set(Arc::make_mut(self.details.get_or_insert_default()));
        self
    }

    /// Sets the client's own name for itself; untrusted. At most 200 bytes of it are kept.
    #[must_use]
    pub fn with_client(self, client: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.client = Some(clipped_name(client.into())))
    }

    /// Sets how a client of the [gateway](Way::Gateway) is connected.
    #[must_use]
    pub fn with_transport(self, transport: ClientTransport) -> Self {
        self.with_details(|details| details.transport = Some(transport))
    }

    /// Sets a text that distinguishes this client from others of its name. Never use a whole session id that grants
    /// access, because the text is shown with questions.
    #[must_use]
    pub fn with_session(self, session: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.session = Some(clipped_name(session.into())))
    }

    /// Sets the client's id of this one request; untrusted.
    #[must_use]
    pub fn with_request(self, request: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.request = Some(clipped_name(request.into())))
    }

    /// Sets the conversation with a model whose turn makes the call.
    #[must_use]
    pub fn with_conversation(self, conversation: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.conversation = Some(clipped_name(conversation.into())))
    }

    /// Sets the agent of `toolrack.toml` in whose world (the host with the agent's own rules) the call is made.
    #[must_use]
    pub fn with_agent(self, agent: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.agent = Some(clipped_name(agent.into())))
    }

    /// Sets the profile of `toolrack.toml` at whose endpoint the client is connected.
    #[must_use]
    pub fn with_profile(self, profile: impl Into<Arc<str>>) -> Self {
        self.with_details(|details| details.profile = Some(clipped_name(profile.into())))
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the way in.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
    }

    /// Returns the client's own name for itself; untrusted.
    #[must_use]
    pub fn client_name(&self) -> Option<&str> {
        self.details.as_ref()?.client.as_deref()
    }

    /// Returns how a client of the gateway is connected.
    #[must_use]
    pub fn transport(&self) -> Option<ClientTransport> {
        self.details.as_ref()?.transport
    }

    /// Returns the text that distinguishes this client from others of its name.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.details.as_ref()?.session.as_deref()
    }

    /// Returns the client's id of this one request; untrusted.
    #[must_use]
    pub fn request(&self) -> Option<&str> {
        self.details.as_ref()?.request.as_deref()
    }

    /// Returns the conversation with a model whose turn makes the call.
    #[must_use]
    pub fn conversation(&self) -> Option<&str> {
        self.details.as_ref()?.conversation.as_deref()
    }

    /// Returns the profile at whose endpoint the client is connected.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.details.as_ref()?.profile.as_deref()
    }

    /// Returns the agent in whose world the call is made.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.details.as_ref()?.agent.as_deref()
    }
}

/// Returns at most [`MAX_NAME_BYTES`] bytes of a name.
fn clipped_name(name: Arc<str>) -> Arc<str> {
    match &*text::clip(&name, MAX_NAME_BYTES) {
        clipped if clipped.len() != name.len() => Arc::from(clipped),
        _ => name,
    }
}

/// Writes text for users, on one line, safe to print.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.principal.is_local() {
            write!(f, "{}, with ", self.principal)?;
        }
        let client = self.client_name().map(|name| format!("a client that calls itself `{}`", text::for_line(name)));
        match (self.way, client) {
            (Way::Program, client) => f.write_str(client.as_deref().unwrap_or("this program"))?,
            (Way::Cli, _) => f.write_str("a command that was typed")?,
            (Way::Agent, _) => f.write_str("a model, in a conversation")?,
            (Way::Daemon, client) => {
                write!(f, "{}, through the control API", client.as_deref().unwrap_or("a client"))?;
            }
            (Way::Gateway, client) => {
                write!(f, "{}, through the gateway", client.as_deref().unwrap_or("a client that gives no name"))?;
            }
        }
        if let Some(transport) = self.transport() {
            write!(f, " over {}", transport.word())?;
        }
        let labelled_details =
            [("session", self.session()), ("conversation", self.conversation()), ("agent", self.agent())];
        for (label, value) in labelled_details {
            if let Some(value) = value {
                write!(f, ", {label} {}", text::for_line(value))?;
            }
        }
        Ok(())
    }
}

/// The transport of a client of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientTransport {
    /// Over HTTP.
    Http,
    /// Over lines: the standard streams of a program, or a socket of the same user.
    Stdio,
}

impl ClientTransport {
    /// Returns a stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

/// The way in which a call arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// A program that embeds this library. The default.
    #[default]
    Program,
    /// A user's command.
    Cli,
    /// The control API of a daemon, and its dashboard.
    Daemon,
    /// The MCP endpoint in front of all servers.
    Gateway,
    /// A model, in a turn of a conversation.
    Agent,
}

impl Way {
    /// Returns a stable word.
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
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_caller_is_shown_on_one_line_with_the_bounded_name_of_its_client() {
        let caller =
            Caller::local(Way::Gateway).with_client(format!("nice\n\u{1b}[2Jrule: allowed {}", "x".repeat(500)));
        assert!(caller.client_name().unwrap().len() <= MAX_NAME_BYTES);
        let text =
            caller.with_transport(ClientTransport::Http).with_session("0f3a91c2").with_agent("helper").to_string();
        assert!(text.starts_with("a client that calls itself `nice"), "{text}");
        assert!(text.ends_with("`, through the gateway over http, session 0f3a91c2, agent helper"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']), "{text:?}");
        assert_eq!(Caller::local(Way::Cli).to_string(), "a command that was typed");
        assert_eq!(
            Caller::local(Way::Agent).with_conversation("0192").to_string(),
            "a model, in a conversation, conversation 0192"
        );
    }

    #[test]
    fn the_hash_of_arguments_does_not_depend_on_the_order_of_members() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let recorded = RecordedArguments::of(&map(json!({ "b": [1, "é"], "a": null })), false);
        assert_eq!(recorded, RecordedArguments::of(&map(json!({ "a": null, "b": [1, "é"] })), false));
        let text = r#"{"a":null,"b":[1,"é"]}"#;
        assert_eq!(recorded.sha256, <[u8; 32]>::from(Sha256::digest(text)));
        assert_eq!((recorded.bytes, recorded.full.as_deref()), (text.len(), None));
        assert_eq!(
            RecordedArguments::of(&map(json!({ "a": "secret" })), true).full.as_deref(),
            Some(r#"{"a":"secret"}"#)
        );
        assert!(!format!("{:?}", RecordedArguments::of(&map(json!({ "a": "secret" })), true)).contains("secret"));
    }

    #[test]
    fn the_hash_of_arguments_is_the_same_in_every_version() {
        let given = r#"{"z":{"k":2,"a":1},"b":[1,{"y":{"n":1.5,"m":true},"x":"é"}],"a":null}"#;
        let recorded = RecordedArguments::of(&serde_json::from_str(given).unwrap(), true);
        assert_eq!(
            HEXLOWER.encode(&recorded.sha256),
            "1ebfd34f5349e0ad217857591f0b2c23a0645f0a36bf2051df90ac29f88bf0e3"
        );
        assert_eq!(recorded.full.as_deref(), Some(given), "the full text has the members in the order of the caller");
    }
}
