//! Makes entries, the content of the rows of the audit log, from events. The host reports calls and connections as a
//! [`Fact`]. For each other event, [`Entry`] has a constructor.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_host::{
    Caller, DefinitionHash, Fact, GatedCall, Principal, RecordedArguments, Way,
    pins::{PinMismatch, PinnedServer},
    text,
};

use super::{MAX_ARGUMENT_BYTES, chain::hex, writer::Hide};

/// The maximum size of a name that another program chose, in bytes. A longer one is cut.
const MAX_NAME_BYTES: usize = 256;

/// The maximum size of a reason, in bytes. A longer one is cut.
const MAX_REASON_BYTES: usize = 2 * 1024;

/// An event, as a row records it. Its texts contain no control characters and no known secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Entry {
    /// `call`, `answer`, `connected`, `failed`, `closed`, `trusted`, `untrusted`, `refused`, `quarantined`, `approved`,
    /// `signed_in`, `signed_out`, `sign_in_failed`, `turned_away`; `over_quota` for a refusal by a quota, unless it
    /// refused a call; in a team, `member_changed`, `member_removed`, `token_made`, `token_revoked`, `client_allowed`,
    /// `client_ended`, `refused_at_the_door`; `credential_given`, `credential_removed`, `own_server_added`,
    /// `own_server_removed`, `conversation_read`, `conversation_deleted`; `forgot` for old rows that the store removed,
    /// and `lost` for rows that the store could not write.
    pub kind: String,
    /// The origin of the event: `cli`, `daemon`, `gateway`, `agent`, `program`; for `turned_away`, the socket:
    /// `cli.sock`, `mcp.sock`; for `refused_at_the_door`, the endpoint: `authorize`, `token`, `register`, `revoke`,
    /// `sign-in`, `mcp`, or `daemon` for a token that the daemon refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The tenant of the principal that acted. `tenant`, `issuer`, `subject` and `name` are absent for the local user
    /// of a machine without a team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The identity provider of the principal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The id that the issuer has for the principal that acted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The name of that principal, as users see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that the client gives itself. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The transport of a client of the gateway: `http`, `stdio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// The id of the client's session, which distinguishes it from others of the same name. It is no credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The conversation whose turn made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The agent that acted, by its name in `toolrack.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The member of a team that was changed, or whose token was made or revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The tenant of that member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_tenant: Option<String>,
    /// The id of a token that was made or revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name of a value that a user gave or deleted; never the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool's own name; for `over_quota`, the refused action. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The folder of the project that the user trusts or no longer trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The hash of the content that the user trusted, or of the definition of a tool that was called, approved or put
    /// into quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// SHA-256 of the arguments, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_sha256: Option<String>,
    /// The size of the arguments as JSON, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<u64>,
    /// The arguments, if the log keeps them in full. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// `allowed`, `remembered`, `confirmed`, `edited`, `denied`, `declined`, `unasked`, `unanswered`; `forgotten` for a
    /// standing answer that a user took back.
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
    /// How long the call took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The size of the result in bytes, if the call was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The number of a connected server's tools, of lost rows, or of earlier refusals without a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In a row that records forgotten rows: the number of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
    /// In a row that records forgotten rows: the hash from which the chain continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// Bad input that an endpoint of a team refused.
#[derive(Clone, Debug, Default)]
pub struct DoorRefusal<'a> {
    /// The endpoint, in one word: `authorize`, `token`, `register`, `revoke`, `sign-in`, `mcp`; `daemon` for a token
    /// that the daemon refused.
    pub door: &'a str,
    /// The stable code of the refusal.
    pub code: &'a str,
    /// The reason, as text for users.
    pub why: &'a str,
    /// The name that the client gives itself, or its id. Untrusted.
    pub client: Option<&'a str>,
    /// The member for whom the client acted, if the client proved that.
    pub by: Option<&'a Principal>,
    /// The number of earlier refusals that have no row of their own.
    pub unrecorded: u64,
}

/// Returns `untrusted_text` as one line of at most about `max_bytes` bytes, without control characters. Never `None`; it is an
/// `Option` because the fields of an [`Entry`] are optional.
fn one_line(untrusted_text: &str, max_bytes: usize) -> Option<String> {
    Some(text::for_line(&text::clip(untrusted_text, max_bytes)).into_owned())
}

fn as_u64(number: usize) -> Option<u64> {
    u64::try_from(number).ok()
}

impl Entry {
    /// Creates an entry with only its kind.
    pub(crate) fn of_kind(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }

    /// Returns whether the row is about `tenant`: one of its members acted, or was changed.
    #[must_use]
    pub fn concerns_tenant(&self, tenant: &str) -> bool {
        [&self.tenant, &self.member_tenant].into_iter().flatten().any(|row_tenant| row_tenant == tenant)
    }

    /// Records that a user agreed to run the entry `name` of `project`, refused it, or took the agreement back.
    /// `content` is the hash of the entry's content.
    pub(crate) fn of_trust(kind: &str, caller: &Caller, project: &str, name: &str, content: Option<&str>) -> Self {
        Self {
            server: one_line(name, MAX_NAME_BYTES),
            project: one_line(project, MAX_REASON_BYTES),
            content: content.map(str::to_owned),
            ..Self::of_kind(kind).acted_by(caller)
        }
    }

    /// Records that a user approved the present definition of a tool, which ends its quarantine.
    pub(crate) fn of_release(
        caller: &Caller,
        pinned_server: &PinnedServer,
        tool: &str,
        definition: DefinitionHash,
    ) -> Self {
        Self {
            server: one_line(pinned_server.server.as_str(), MAX_NAME_BYTES),
            tool: one_line(tool, MAX_NAME_BYTES),
            content: Some(definition.to_string()),
            ..Self::of_kind("approved").acted_by(caller)
        }
    }

    /// Records that a tool was put into quarantine, because it differs from its pin.
    pub(crate) fn of_quarantine(pinned_server: &PinnedServer, mismatch: &PinMismatch) -> Self {
        Self {
            server: one_line(pinned_server.server.as_str(), MAX_NAME_BYTES),
            tool: one_line(&mismatch.tool, MAX_NAME_BYTES),
            content: Some(mismatch.definition.hash.to_string()),
            why: one_line(&mismatch.cause.to_string(), MAX_REASON_BYTES),
            ..Self::of_kind("quarantined")
        }
    }

    /// Records that a member of a team was changed or removed.
    pub(crate) fn of_member(kind: &str, caller: &Caller, member: &Principal) -> Self {
        let description = format!("{member} ({} of {}, {})", member.subject(), member.issuer(), member.role().word());
        Self {
            member: one_line(&description, MAX_REASON_BYTES),
            member_tenant: Some(member.tenant().to_owned()),
            ..Self::of_kind(kind).acted_by(caller)
        }
    }

    /// Records that the token `id` of `member` was made or revoked.
    pub(crate) fn of_token(kind: &str, caller: &Caller, member: &Principal, id: &str, label: &str) -> Self {
        Self {
            token: one_line(id, MAX_NAME_BYTES),
            why: one_line(label, MAX_REASON_BYTES),
            ..Self::of_member(kind, caller, member)
        }
    }

    /// Records that a member allowed a client to act in their name, or that this permission ended.
    pub(crate) fn of_grant(kind: &str, caller: &Caller, member: &Principal, client: &str) -> Self {
        Self { client: one_line(client, MAX_NAME_BYTES), ..Self::of_member(kind, caller, member) }
    }

    /// Records that an endpoint of a team refused bad input.
    pub(crate) fn of_door_refusal(refusal: &DoorRefusal<'_>) -> Self {
        // The default caller stands for the user of the machine, whom a row does not name.
        let caller = refusal.by.map(|member| Caller::of(member.clone(), Way::Daemon)).unwrap_or_default();
        Self {
            who: one_line(refusal.door, MAX_NAME_BYTES),
            client: refusal.client.and_then(|client| one_line(client, MAX_NAME_BYTES)),
            code: one_line(refusal.code, MAX_NAME_BYTES),
            why: one_line(refusal.why, MAX_REASON_BYTES),
            count: Some(refusal.unrecorded).filter(|unrecorded| *unrecorded > 0),
            ..Self::of_kind("refused_at_the_door").acted_by(&caller)
        }
    }

    /// Records that a user gave a value to their own servers, or deleted it.
    pub(crate) fn of_credential(caller: &Caller, name: &str, is_given: bool) -> Self {
        let kind = if is_given { "credential_given" } else { "credential_removed" };
        Self { credential: one_line(name, MAX_NAME_BYTES), ..Self::of_kind(kind).acted_by(caller) }
    }

    /// Sets the reason "the member was removed".
    pub(crate) fn because_of_removal(self) -> Self {
        Self { why: one_line("the member was removed", MAX_REASON_BYTES), ..self }
    }

    /// Records that a member added the server `name` for themselves, or removed it.
    pub(crate) fn of_own_server(caller: &Caller, name: &str, is_added: bool) -> Self {
        let kind = if is_added { "own_server_added" } else { "own_server_removed" };
        Self { server: one_line(name, MAX_NAME_BYTES), ..Self::of_kind(kind).acted_by(caller) }
    }

    /// Records that an administrator read or deleted the conversation `id` of the member `owner`.
    pub(crate) fn of_conversation(kind: &str, caller: &Caller, owner: &str, id: &str) -> Self {
        let why = format!("the conversation {id} of {owner}");
        Self { why: one_line(&why, MAX_REASON_BYTES), ..Self::of_kind(kind).acted_by(caller) }
    }

    /// Records that a user took back the standing answer that calls of `tool` run without a question.
    pub(crate) fn of_withdrawn_answer(caller: &Caller, server: &str, tool: &str) -> Self {
        Self {
            server: one_line(server, MAX_NAME_BYTES),
            tool: one_line(tool, MAX_NAME_BYTES),
            decision: Some("forgotten".to_owned()),
            ..Self::of_kind("answer").acted_by(caller)
        }
    }

    /// Returns the entry for `fact`. `agent` is the agent that owns the host, if there is one; `hide` hides secrets in
    /// texts.
    pub(super) fn from_fact(fact: Fact, agent: Option<&str>, hide: &Hide) -> Self {
        let row = Self::of_fact(fact, hide);
        // The agent that owns the host is known for certain; the agent that a caller names is only a claim.
        Self { agent: agent.and_then(|agent| one_line(agent, MAX_NAME_BYTES)).or(row.agent), ..row }
    }

    /// Returns the entry for `fact`, without the agent that owns the host.
    fn of_fact(fact: Fact, hide: &Hide) -> Self {
        let hidden_reason = |text: &str| one_line(&hide(text), MAX_REASON_BYTES);
        match fact {
            Fact::Called(call) => Self::of_call(*call, hide),
            Fact::Answered { server, tool, caller, by: answered_by, decision, why } => {
                // The row names the user who answered as the one who acted. If another user made the call, the reason
                // says so.
                let answering_user =
                    answered_by.as_ref().filter(|answered_by| !answered_by.principal().is_same(caller.principal()));
                let why = match answering_user {
                    Some(_) => format!("{why}; {} made the call", caller.principal().name()),
                    None => why,
                };
                Self {
                    server: Some(server.to_string()),
                    tool: one_line(&tool, MAX_NAME_BYTES),
                    decision: Some(decision.word().to_owned()),
                    why: hidden_reason(&why),
                    ..Self::of_kind("answer").acted_by(answering_user.unwrap_or(&caller))
                }
            }
            Fact::Connected { server, tools } => {
                Self { server: Some(server.to_string()), count: as_u64(tools), ..Self::of_kind("connected") }
            }
            Fact::Failed { server, error } => {
                Self { server: Some(server.to_string()), why: hidden_reason(&error), ..Self::of_kind("failed") }
            }
            Fact::Closed { server, reason } => Self {
                server: Some(server.to_string()),
                why: reason.as_deref().and_then(hidden_reason),
                ..Self::of_kind("closed")
            },
            Fact::SignedIn { server, issuer } => {
                Self { server: Some(server.to_string()), why: hidden_reason(&issuer), ..Self::of_kind("signed_in") }
            }
            Fact::SignedOut { server, outcome } => {
                Self { server: Some(server.to_string()), why: hidden_reason(&outcome), ..Self::of_kind("signed_out") }
            }
            Fact::SignInFailed { server, error, code } => Self {
                server: Some(server.to_string()),
                why: hidden_reason(&error),
                code: Some(code.to_owned()),
                ..Self::of_kind("sign_in_failed")
            },
            Fact::OverQuota { caller, server, what, why } => Self {
                server: server.map(|server| server.to_string()),
                tool: one_line(&hide(&what), MAX_NAME_BYTES),
                decision: Some("denied".to_owned()),
                why: hidden_reason(&why),
                code: Some("OVER_QUOTA".to_owned()),
                ..Self::of_kind("over_quota").acted_by(&caller)
            },
            Fact::TurnedAway { socket, process, why, unrecorded } => Self {
                who: Some(socket.to_owned()),
                client: one_line(&process, MAX_NAME_BYTES),
                why: hidden_reason(&why),
                count: as_u64(unrecorded).filter(|unrecorded| *unrecorded > 0),
                ..Self::of_kind("turned_away")
            },
            // `Fact` may get further kinds.
            _ => Self::of_kind("other"),
        }
    }

    /// Returns the entry for a call, with its arguments if the host recorded them.
    fn of_call(call: GatedCall, hide: &Hide) -> Self {
        let RecordedArguments { sha256, bytes, full: json } = call.arguments;
        let arguments = json.filter(|json| json.len() <= MAX_ARGUMENT_BYTES);
        let arguments =
            arguments.and_then(|json| serde_json::from_str(&json).ok()).map(|value| hide_in_texts(value, hide));
        let was_sent = call.end.is_some();
        Self {
            server: Some(call.server.to_string()),
            tool: one_line(&call.tool, MAX_NAME_BYTES),
            content: Some(call.definition.to_string()),
            arguments_sha256: Some(hex(&sha256)),
            arguments_bytes: as_u64(bytes),
            arguments,
            decision: Some(call.decision.word().to_owned()),
            why: one_line(&hide(&call.why), MAX_REASON_BYTES),
            outcome: call.end.map(|end| end.word().to_owned()),
            code: call.code.map(str::to_owned),
            duration_us: u64::try_from(call.duration.as_micros()).ok().filter(|_| was_sent),
            bytes: as_u64(call.bytes).filter(|_| was_sent),
            ..Self::of_kind("call").acted_by(&call.caller)
        }
    }

    /// Sets the fields about the caller that acted.
    fn acted_by(self, caller: &Caller) -> Self {
        let clip_name = |name: Option<&str>| name.and_then(|name| one_line(name, MAX_NAME_BYTES));
        let principal = caller.principal();
        let unless_local = |field: &str| clip_name((!principal.is_local()).then_some(field));
        Self {
            who: Some(caller.way().word().to_owned()),
            tenant: unless_local(principal.tenant()),
            issuer: unless_local(principal.issuer()),
            subject: unless_local(principal.subject()),
            name: unless_local(principal.name()),
            client: clip_name(caller.client_name()),
            over: caller.transport().map(|transport| transport.word().to_owned()),
            session: clip_name(caller.session()),
            conversation: clip_name(caller.conversation()),
            agent: clip_name(caller.agent()),
            ..self
        }
    }
}

/// Hides secrets in each text of `value`. It recurses no deeper than the JSON parser, which has a limit.
fn hide_in_texts(value: Value, hide: &Hide) -> Value {
    match value {
        Value::String(text) => Value::String(hide(&text)),
        Value::Array(items) => items.into_iter().map(|item| hide_in_texts(item, hide)).collect(),
        Value::Object(members) => {
            let hidden_members = members.into_iter().map(|(name, value)| (hide(&name), hide_in_texts(value, hide)));
            Value::Object(hidden_members.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolrack_host::{ClientTransport, Decision, ServerName, principal::Kind};

    use super::*;

    fn server() -> ServerName {
        ServerName::new("github").unwrap()
    }

    /// Hides the word `5ecret`.
    fn hide() -> Hide {
        Arc::new(|text: &str| text.replace("5ecret", "***"))
    }

    fn ann() -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", "u-17").unwrap().named("Ann").unwrap()
    }

    fn entry(fact: Fact) -> Entry {
        Entry::from_fact(fact, None, &hide())
    }

    #[test]
    fn each_fact_has_its_kind_and_hides_secrets_in_what_servers_say() {
        let (server, said) = (server(), || "said 5ecret\u{1b}[2J".to_owned());
        let facts = [
            (Fact::Failed { server: server.clone(), error: said() }, "failed"),
            (Fact::Closed { server: server.clone(), reason: Some(said()) }, "closed"),
            (Fact::SignedIn { server: server.clone(), issuer: said() }, "signed_in"),
            (Fact::SignedOut { server: server.clone(), outcome: said() }, "signed_out"),
            (Fact::SignInFailed { server: server.clone(), error: said(), code: "REFUSED" }, "sign_in_failed"),
        ];
        for (fact, kind) in facts {
            let entry = entry(fact);
            assert_eq!((&*entry.kind, entry.server.as_deref()), (kind, Some("github")));
            let why = entry.why.unwrap();
            assert!(why.starts_with("said ***") && !why.contains('\u{1b}'), "{kind}: {why}");
        }
        let connected = entry(Fact::Connected { server: server.clone(), tools: 7 });
        assert_eq!((&*connected.kind, connected.count, connected.why), ("connected", Some(7), None));
        let closed = entry(Fact::Closed { server, reason: None });
        assert_eq!((&*closed.kind, closed.why), ("closed", None));
    }

    #[test]
    fn a_row_names_the_principal_unless_it_is_the_local_user() {
        let caller = Caller::of(ann(), Way::Gateway)
            .with_client("Claude\nCode")
            .with_transport(ClientTransport::Http)
            .with_session("s-1");
        let answered = |caller| Fact::Answered {
            server: server(),
            tool: "push".to_owned(),
            caller,
            by: None,
            decision: Decision::Confirmed,
            why: String::new(),
        };
        let row = entry(answered(caller.with_conversation("c-1").with_agent("reviewer")));
        assert_eq!(
            (row.who.as_deref(), row.over.as_deref(), row.session.as_deref()),
            (Some("gateway"), Some("http"), Some("s-1"))
        );
        assert_eq!((row.tenant.as_deref(), row.issuer.as_deref()), (Some("acme"), Some("https://login.example")));
        assert_eq!((row.subject.as_deref(), row.name.as_deref()), (Some("u-17"), Some("Ann")));
        assert_eq!((row.conversation.as_deref(), row.agent.as_deref()), (Some("c-1"), Some("reviewer")));
        assert!(!row.client.unwrap().contains('\n'));
        assert_eq!((row.decision.as_deref(), row.kind.as_str()), (Some("confirmed"), "answer"));

        let row = entry(answered(Caller::local(Way::Cli)));
        assert_eq!((row.who.as_deref(), row.client), (Some("cli"), None));
        assert_eq!((row.tenant, row.issuer, row.subject, row.name), (None, None, None, None));
    }

    #[test]
    fn the_agent_of_the_host_overrides_the_agent_that_a_caller_names() {
        let fact = || Fact::Answered {
            server: server(),
            tool: "push".to_owned(),
            caller: Caller::local(Way::Agent).with_agent("claimed"),
            by: None,
            decision: Decision::Denied,
            why: String::new(),
        };
        assert_eq!(Entry::from_fact(fact(), Some("owner"), &hide()).agent.as_deref(), Some("owner"));
        assert_eq!(Entry::from_fact(fact(), None, &hide()).agent.as_deref(), Some("claimed"));
    }

    #[test]
    fn names_and_reasons_of_any_length_are_cut() {
        let long = "é".repeat(5_000);
        let fact = Fact::TurnedAway { socket: "cli.sock", process: long.clone(), why: long.clone(), unrecorded: 3 };
        let row = entry(fact);
        assert_eq!((row.who.as_deref(), row.count), (Some("cli.sock"), Some(3)));
        assert!(row.client.unwrap().len() <= MAX_NAME_BYTES && row.why.unwrap().len() <= MAX_REASON_BYTES);
        let none = entry(Fact::TurnedAway { socket: "cli.sock", process: String::new(), why: long, unrecorded: 0 });
        assert_eq!(none.count, None, "no earlier refusal lacks a row");
    }

    #[test]
    fn a_refusal_names_the_endpoint_the_client_and_the_proved_member() {
        let member = ann();
        let refusal = DoorRefusal {
            door: "token",
            code: "invalid_grant",
            why: "the code was used before",
            client: Some("Cursor\u{202e}"),
            by: Some(&member),
            unrecorded: 2,
        };
        let row = Entry::of_door_refusal(&refusal);
        assert_eq!((&*row.kind, row.who.as_deref()), ("refused_at_the_door", Some("token")));
        assert_eq!((row.code.as_deref(), row.count), (Some("invalid_grant"), Some(2)));
        assert_eq!((row.tenant.as_deref(), row.subject.as_deref()), (Some("acme"), Some("u-17")));
        assert!(!row.client.unwrap().contains('\u{202e}'));
        let row = Entry::of_door_refusal(&DoorRefusal { door: "mcp", code: "unknown_token", ..DoorRefusal::default() });
        assert_eq!((row.tenant, row.subject, row.client, row.count), (None, None, None, None));
    }

    #[test]
    fn secrets_are_hidden_in_names_and_values_of_arguments_at_every_depth() {
        let hidden =
            hide_in_texts(json!({ "5ecret": [{ "a": "x 5ecret" }, 5, null], "b": { "c": ["5ecret"] } }), &hide());
        assert_eq!(hidden, json!({ "***": [{ "a": "x ***" }, 5, null], "b": { "c": ["***"] } }));
    }

    #[test]
    fn a_row_concerns_the_tenants_of_who_acted_and_who_was_changed_and_none_that_a_name_mentions() {
        let of = |tenant, name| {
            Principal::new(Kind::Person, tenant, "https://login.example", "u-1").unwrap().named(name).unwrap()
        };
        let by = Caller::of(of("acme", "Ann"), Way::Daemon);
        let changed = Entry::of_member("member_changed", &by, &of("bolt", "Bob of corp (x"));
        let concerns = ["acme", "bolt", "corp", "*"].map(|tenant| changed.concerns_tenant(tenant));
        assert_eq!(concerns, [true, true, false, false]);
        assert!(changed.member.as_deref().is_some_and(|member| member.contains(" of corp (")), "{changed:?}");
        assert!(!Entry::of_kind("connected").concerns_tenant(""), "a row about no member");
    }

    #[test]
    fn rows_about_values_of_members_name_the_value_and_the_reason() {
        let by = Caller::of(ann(), Way::Daemon);
        let given = Entry::of_credential(&by, "GITHUB_TOKEN", true);
        assert_eq!((&*given.kind, given.credential.as_deref()), ("credential_given", Some("GITHUB_TOKEN")));
        let forgotten = Entry::of_credential(&by, "GITHUB_TOKEN", false).because_of_removal();
        assert_eq!(forgotten.kind, "credential_removed");
        assert_eq!(forgotten.why.as_deref(), Some("the member was removed"));
        let token = Entry::of_token("token_made", &by, &ann(), "t-1", "my laptop");
        assert_eq!((token.token.as_deref(), token.why.as_deref()), (Some("t-1"), Some("my laptop")));
        assert_eq!(token.member.as_deref(), Some("Ann of acme (u-17 of https://login.example, user)"));
    }
}
