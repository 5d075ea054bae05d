//! The content of a row.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_host::{
    Caller, DefinitionHash, Evidence, Fact, GatedCall, Principal, Way,
    pins::{PinMismatch, PinnedServer},
    text,
};

use super::{chain::hex, writer::Hide};

/// The most bytes of a name that another program chose. Longer ones are cut, as are reasons beyond [`MAX_WHY`].
const MAX_NAME: usize = 256;
const MAX_WHY: usize = 2 * 1024;

/// Larger arguments are not stored in full: only their hash and size are.
const MAX_ARGUMENTS: usize = 64 * 1024;

/// An event, in the form that a row records. Its texts hold no control characters and no known secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Entry {
    /// `call`, `answer`, `connected`, `failed`, `closed`, `trusted`, `untrusted`, `refused`, `quarantined`, `approved`,
    /// `signed_in`, `signed_out`, `sign_in_failed`, `turned_away`; of a team `member_changed`, `member_removed`,
    /// `token_made`, `token_revoked`, `client_allowed`, `client_ended`, `refused_at_the_door`; `credential_given`,
    /// `credential_removed`; `forgot` for old rows that the store removed, and `lost` for rows that could not
    /// be written.
    pub kind: String,
    /// Where it came from: `cli`, `daemon`, `gateway`, `agent`, `program`; for `turned_away`, the socket: `cli.sock`,
    /// `mcp.sock`; for `refused_at_the_door`, the door: `authorize`, `token`, `register`, `revoke`, `sign-in`,
    /// `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The tenant of the principal that acted. This and the next three are absent for the user of a machine with a
    /// single user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The issuer that vouches for the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The principal that acted, as the issuer knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the client calls itself. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// How a client of the gateway is connected: `http`, `stdio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Tells a client from others of the same name. It is an id, not a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The conversation whose turn made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The agent, as `toolrack.toml` names it, that acted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The member of a team that was changed, or whose token it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The id of a token that was made or revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name of a value that a person gave or deleted; never the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool's own name. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The folder of the project that the user trusts or trusts no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The hash of the content that the user trusted, or of the definition of a tool that was called, approved or put
    /// into quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// SHA-256 of the arguments, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_sha256: Option<String>,
    /// The size of the arguments as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<u64>,
    /// The arguments, if the log keeps them in full. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// `allowed`, `remembered`, `confirmed`, `edited`, `denied`, `declined`, `unasked`, `unanswered`; `forgotten` of an
    /// answer that counts no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The rule or the answer behind the decision; why a connection or a sign-in failed or ended; the issuer of the
    /// tokens. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How a call that ran ended: `ok`, `tool_error`, `failed`, `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The size of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many tools a connected server has; how many rows were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In a row that records forgotten rows: the number of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
    /// In such a row: the hash from which the chain continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// Bad input that a door refused.
#[derive(Clone, Debug, Default)]
pub struct DoorRefusal<'a> {
    /// Which door, in one word: `authorize`, `token`, `register`, `sign-in`.
    pub door: &'a str,
    /// The stable code of the refusal.
    pub code: &'a str,
    /// Why, for people.
    pub why: &'a str,
    /// What the client calls itself, or its id. Untrusted.
    pub client: Option<&'a str>,
    /// The member in whose name it was tried, where that was proved.
    pub by: Option<&'a Principal>,
    /// How many earlier refusals have no row of their own.
    pub untold: u64,
}

fn line(from: &str, most: usize) -> Option<String> {
    Some(text::for_line(&text::clip(from, most)).into_owned())
}

fn size(bytes: usize) -> Option<u64> {
    u64::try_from(bytes).ok()
}

impl Entry {
    pub(crate) fn of_kind(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }

    /// A user agreed to run the entry `name` of `project` with content of this hash, or took that back.
    pub(crate) fn of_trust(kind: &str, by: &Caller, (project, name): (&str, &str), content: Option<&str>) -> Self {
        Self {
            server: line(name, MAX_NAME),
            project: line(project, MAX_WHY),
            content: content.map(str::to_owned),
            ..Self::of_kind(kind).by(by)
        }
    }

    /// A user approved the tool `tool` of `of` as it is now.
    pub(crate) fn of_release(by: &Caller, of: &PinnedServer, tool: &str, definition: DefinitionHash) -> Self {
        Self {
            server: line(of.server.as_str(), MAX_NAME),
            tool: line(tool, MAX_NAME),
            content: Some(definition.to_string()),
            ..Self::of_kind("approved").by(by)
        }
    }

    /// A tool differs from its pin.
    pub(crate) fn of_quarantine(of: &PinnedServer, mismatch: &PinMismatch) -> Self {
        Self {
            server: line(of.server.as_str(), MAX_NAME),
            tool: line(&mismatch.tool, MAX_NAME),
            content: Some(mismatch.definition.hash.to_string()),
            why: line(&mismatch.cause.to_string(), MAX_WHY),
            ..Self::of_kind("quarantined")
        }
    }

    /// A member of a team was changed or removed.
    pub(crate) fn of_member(kind: &str, by: &Caller, member: &Principal) -> Self {
        let shown = format!("{member} ({} of {}, {})", member.subject(), member.issuer(), member.role().word());
        Self { member: line(&shown, MAX_WHY), ..Self::of_kind(kind).by(by) }
    }

    /// The token `id` of `member` was made or revoked.
    pub(crate) fn of_token(kind: &str, by: &Caller, (member, id): (&Principal, &str), label: &str) -> Self {
        Self { token: line(id, MAX_NAME), why: line(label, MAX_WHY), ..Self::of_member(kind, by, member) }
    }

    /// A member allowed a client to act in their name, or that ended.
    pub(crate) fn of_grant(kind: &str, by: &Caller, member: &Principal, client: &str) -> Self {
        Self { client: line(client, MAX_NAME), ..Self::of_member(kind, by, member) }
    }

    /// A door of a team refused bad input.
    pub(crate) fn of_door(refusal: &DoorRefusal<'_>) -> Self {
        let by = refusal.by.map(|member| Caller::of(member.clone(), Way::Daemon)).unwrap_or_default();
        Self {
            who: line(refusal.door, MAX_NAME),
            client: refusal.client.and_then(|client| line(client, MAX_NAME)),
            code: line(refusal.code, MAX_NAME),
            why: line(refusal.why, MAX_WHY),
            count: Some(refusal.untold).filter(|untold| *untold > 0),
            ..Self::of_kind("refused_at_the_door").by(&by)
        }
    }

    /// A person gave a value for servers of their own, or deleted it.
    pub(crate) fn of_credential(by: &Caller, name: &str, is_given: bool) -> Self {
        let kind = if is_given { "credential_given" } else { "credential_removed" };
        Self { credential: line(name, MAX_NAME), ..Self::of_kind(kind).by(by) }
    }

    /// The same, which happened because the member was removed.
    pub(crate) fn because_of_removal(self) -> Self {
        Self { why: line("the member was removed", MAX_WHY), ..self }
    }

    /// A member added the server `name` for themselves, or removed it.
    pub(crate) fn of_own_server(by: &Caller, name: &str, is_added: bool) -> Self {
        let kind = if is_added { "own_server_added" } else { "own_server_removed" };
        Self { server: line(name, MAX_NAME), ..Self::of_kind(kind).by(by) }
    }

    /// An administrator read or deleted the conversation `id` of the member `owner`.
    pub(crate) fn of_conversation(kind: &str, by: &Caller, owner: &str, id: &str) -> Self {
        let why = format!("the conversation {id} of {owner}");
        Self { why: line(&why, MAX_WHY), ..Self::of_kind(kind).by(by) }
    }

    /// A user took back the answer that calls of `tool` always run.
    pub(crate) fn of_forgotten(by: &Caller, server: &str, tool: &str) -> Self {
        Self {
            server: line(server, MAX_NAME),
            tool: line(tool, MAX_NAME),
            decision: Some("forgotten".to_owned()),
            ..Self::of_kind("answer").by(by)
        }
    }

    /// The entry for `fact`, on behalf of `agent`.
    pub(super) fn of(fact: Fact, agent: Option<&str>, hide: &Hide) -> Self {
        let row = Self::of_fact(fact, hide);
        // The agent that owns the host takes precedence over the one that the caller names.
        Self { agent: agent.and_then(|agent| line(agent, MAX_NAME)).or(row.agent), ..row }
    }

    fn of_fact(fact: Fact, hide: &Hide) -> Self {
        let hidden = |text: &str| line(&hide(text), MAX_WHY);
        match fact {
            Fact::Called(called) => Self::of_call(*called, hide),
            Fact::Answered { server, tool, caller, decision, why } => Self {
                server: Some(server.to_string()),
                tool: line(&tool, MAX_NAME),
                decision: Some(decision.word().to_owned()),
                why: hidden(&why),
                ..Self::of_kind("answer").by(&caller)
            },
            Fact::Connected { server, tools } => {
                Self { server: Some(server.to_string()), count: size(tools), ..Self::of_kind("connected") }
            }
            Fact::Failed { server, error } => {
                Self { server: Some(server.to_string()), why: hidden(&error), ..Self::of_kind("failed") }
            }
            Fact::Closed { server, reason } => Self {
                server: Some(server.to_string()),
                why: reason.as_deref().and_then(hidden),
                ..Self::of_kind("closed")
            },
            Fact::SignedIn { server, issuer } => {
                Self { server: Some(server.to_string()), why: hidden(&issuer), ..Self::of_kind("signed_in") }
            }
            Fact::SignedOut { server, outcome } => {
                Self { server: Some(server.to_string()), why: hidden(&outcome), ..Self::of_kind("signed_out") }
            }
            Fact::SignInFailed { server, error, code } => Self {
                server: Some(server.to_string()),
                why: hidden(&error),
                code: Some(code.to_owned()),
                ..Self::of_kind("sign_in_failed")
            },
            Fact::TurnedAway { door, process, why, untold } => Self {
                who: Some(door.to_owned()),
                client: line(&process, MAX_NAME),
                why: hidden(&why),
                count: size(untold).filter(|untold| *untold > 0),
                ..Self::of_kind("turned_away")
            },
            _ => Self::of_kind("other"),
        }
    }

    fn of_call(called: GatedCall, hide: &Hide) -> Self {
        let Evidence { sha256, bytes, full } = called.arguments;
        let arguments = full.filter(|full| full.len() <= MAX_ARGUMENTS);
        let arguments = arguments.and_then(|full| serde_json::from_str(&full).ok()).map(|value| each_text(value, hide));
        let sent = called.end.is_some();
        Self {
            server: Some(called.server.to_string()),
            tool: line(&called.tool, MAX_NAME),
            content: Some(called.definition.to_string()),
            arguments_sha256: Some(hex(&sha256)),
            arguments_bytes: size(bytes),
            arguments,
            decision: Some(called.decision.word().to_owned()),
            why: line(&hide(&called.why), MAX_WHY),
            outcome: called.end.map(|end| end.word().to_owned()),
            code: called.code.map(str::to_owned),
            duration_us: u64::try_from(called.duration.as_micros()).ok().filter(|_| sent),
            bytes: size(called.bytes).filter(|_| sent),
            ..Self::of_kind("call").by(&called.caller)
        }
    }

    fn by(self, caller: &Caller) -> Self {
        let short = |name: Option<&str>| name.and_then(|name| line(name, MAX_NAME));
        let principal = caller.principal();
        let of_team = |part: &str| short((!principal.is_local()).then_some(part));
        Self {
            who: Some(caller.way().word().to_owned()),
            tenant: of_team(principal.tenant()),
            issuer: of_team(principal.issuer()),
            subject: of_team(principal.subject()),
            name: of_team(principal.name()),
            client: short(caller.name()),
            over: caller.connected_over().map(|over| over.word().to_owned()),
            session: short(caller.in_session()),
            conversation: short(caller.in_conversation()),
            agent: short(caller.of_agent()),
            ..self
        }
    }
}

/// Hides secrets in each text of `value`. It recurses no deeper than the JSON parser, which has a limit.
fn each_text(value: Value, hide: &Hide) -> Value {
    match value {
        Value::String(text) => Value::String(hide(&text)),
        Value::Array(items) => items.into_iter().map(|item| each_text(item, hide)).collect(),
        Value::Object(members) => {
            let hidden = members.into_iter().map(|(name, value)| (hide(&name), each_text(value, hide)));
            Value::Object(hidden.collect())
        }
        plain => plain,
    }
}
