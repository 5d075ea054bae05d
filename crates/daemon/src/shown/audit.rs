//! The form in which rows of the audit log are shown.

use chrono::DateTime;
use serde::Serialize;
use serde_json::Value;
use toolrack_store::audit::{AuditRow, hex};
use utoipa::ToSchema;

/// A row of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditRow)]
pub struct Row {
    /// The number of the row in its log, from 1.
    seq: u64,
    /// In RFC 3339.
    at: Option<String>,
    /// `call`, `answer`, `connected`, `failed`, `closed`, `trusted`, `untrusted`, `refused`, `quarantined`, `approved`,
    /// `signed_in`, `signed_out`, `sign_in_failed`, `turned_away`, `over_quota`, `forgot`, `lost`; in a team
    /// also `member_changed`, `member_removed`, `token_made`, `token_revoked`, `client_allowed`, `client_ended`,
    /// `refused_at_the_door`, `credential_given`, `credential_removed`, `conversation_read`, `conversation_deleted`,
    /// `own_server_added`, `own_server_removed`.
    #[schema(example = "call")]
    kind: String,
    /// `cli`, `daemon`, `gateway`, `agent`, `program`; for `turned_away`, the socket: `cli.sock`, `mcp.sock`.
    who: Option<String>,
    /// The tenant of the member who acted. This field and the next five are only in rows of teams.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The issuer that vouches for the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// The member, as the issuer names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// The name of the member, as users see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The member that was changed, or whose token it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    /// The tenant of that member.
    #[serde(skip_serializing_if = "Option::is_none")]
    member_tenant: Option<String>,
    /// The id of the token that was made or revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The name of the value that a user gave or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<String>,
    /// The name that the client gives itself.
    client: Option<String>,
    /// How a client of the gateway is connected: `http`, `stdio`.
    over: Option<String>,
    /// Distinguishes clients of the same name.
    session: Option<String>,
    /// The conversation in whose turn a call was made.
    conversation: Option<String>,
    /// The agent of `toolrack.toml` in whose name it happened.
    agent: Option<String>,
    /// The server.
    server: Option<String>,
    /// The tool; for `over_quota`, what was refused.
    tool: Option<String>,
    /// `allowed`, `remembered`, `confirmed`, `edited`, `denied`, `declined`, `unasked`, `unanswered`; `forgotten` for
    /// an answer that covered later calls, when the user took it back.
    decision: Option<String>,
    /// The rule or the answer behind the decision; why a connection failed or ended.
    why: Option<String>,
    /// How a call ended that was sent: `ok`, `tool_error`, `failed`, `cancelled`.
    outcome: Option<String>,
    /// The code of the error.
    code: Option<String>,
    /// The arguments of the call, if they are stored in full.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
    /// The SHA-256 of the arguments, in hexadecimal digits.
    arguments_sha256: Option<String>,
    /// The size of the arguments as JSON, in bytes.
    arguments_bytes: Option<u64>,
    /// How long the call took, in microseconds, if it was sent.
    duration_us: Option<u64>,
    /// The size of the result in bytes, if the call was sent.
    bytes: Option<u64>,
    /// For `connected`, how many tools the server has; for `lost`, how many rows were lost; for `turned_away` and
    /// `refused_at_the_door`, how many earlier refusals have no row of their own.
    count: Option<u64>,
    /// The folder of the project that the user trusts or no longer trusts.
    project: Option<String>,
    /// The hash of the content that the user trusted, or of the definition of a tool that was called, approved or put
    /// into quarantine.
    content: Option<String>,
    /// For `forgot`, the number of the last row that was deleted because of its age, or because there were too many
    /// rows.
    through: Option<u64>,
    /// The hash over this row and all rows before it.
    hash: String,
}

impl From<AuditRow> for Row {
    fn from(row: AuditRow) -> Self {
        let at = DateTime::from_timestamp_millis(row.at);
        let entry = row.entry;
        Self {
            seq: row.seq,
            at: at.map(super::rfc3339_millis),
            kind: entry.kind,
            who: entry.who,
            tenant: entry.tenant,
            issuer: entry.issuer,
            subject: entry.subject,
            name: entry.name,
            member: entry.member,
            member_tenant: entry.member_tenant,
            token: entry.token,
            credential: entry.credential,
            client: entry.client,
            over: entry.over,
            session: entry.session,
            conversation: entry.conversation,
            agent: entry.agent,
            server: entry.server,
            tool: entry.tool,
            decision: entry.decision,
            why: entry.why,
            outcome: entry.outcome,
            code: entry.code,
            arguments: entry.arguments,
            arguments_sha256: entry.arguments_sha256,
            arguments_bytes: entry.arguments_bytes,
            duration_us: entry.duration_us,
            bytes: entry.bytes,
            count: entry.count,
            project: entry.project,
            content: entry.content,
            through: entry.through,
            hash: hex(&row.hash),
        }
    }
}
