//! What was called, connected, trusted and answered.

use axum::{Json, extract::State as Extract};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_store::audit::{AuditQuery, AuditRow, hex};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, ApiError, Query, State};
use crate::shown;

/// Rows of one answer, usually and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// Which rows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Only of this server.
    server: Option<String>,
    /// Only of this tool, by its own name.
    tool: Option<String>,
    /// Only what happened in the name of this agent.
    agent: Option<String>,
    /// Only what happened at this time or later, in RFC 3339.
    since: Option<String>,
    /// Only calls that were not allowed.
    #[serde(default)]
    denied: bool,
    /// Only rows with smaller numbers: `next` of the page before.
    before: Option<usize>,
    /// How many: 100 unless said, at most 1,000.
    limit: Option<usize>,
}

/// Rows of the audit log, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Audit {
    rows: Vec<Row>,
    /// Where the next page begins; `null` when there is none.
    next: Option<u64>,
}

/// One row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "AuditRow")]
struct Row {
    seq: u64,
    /// In RFC 3339.
    at: Option<String>,
    /// `call`, `answer`, `connected`, `failed`, `closed`, `trusted`, `untrusted`, `refused`, `quarantined`, `approved`, `signed_in`,
    /// `signed_out`, `sign_in_failed`, `turned_away`, `forgot`, `lost`.
    #[schema(example = "call")]
    kind: String,
    /// `cli`, `daemon`, `gateway`, `agent`, `program`; for `turned_away`, the socket: `cli.sock`, `mcp.sock`.
    who: Option<String>,
    /// What the client calls itself.
    client: Option<String>,
    /// How a client of the gateway is connected: `http`, `stdio`.
    over: Option<String>,
    /// Tells a client from others of its name.
    session: Option<String>,
    /// The conversation in whose turn a call was made.
    conversation: Option<String>,
    /// The agent of `toolrack.toml` in whose name it happened.
    agent: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    /// `allowed`, `remembered`, `confirmed`, `edited`, `denied`, `declined`, `unasked`, `unanswered`; `forgotten` of an answer
    /// that counts no more.
    decision: Option<String>,
    /// The rule or the answer behind the decision; why a connection failed or ended.
    why: Option<String>,
    /// `ok`, `tool_error`, `failed`, `cancelled`.
    outcome: Option<String>,
    code: Option<String>,
    /// Where they are kept in full.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
    arguments_sha256: Option<String>,
    arguments_bytes: Option<u64>,
    duration_us: Option<u64>,
    bytes: Option<u64>,
    count: Option<u64>,
    project: Option<String>,
    content: Option<String>,
    through: Option<u64>,
    /// Seals this row and all before it.
    hash: String,
}

impl From<AuditRow> for Row {
    fn from(row: AuditRow) -> Self {
        let at = DateTime::from_timestamp_millis(row.at);
        let entry = row.entry;
        Self {
            seq: row.seq,
            at: at.map(shown::millis),
            kind: entry.kind,
            who: entry.who,
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

/// What was called, connected, trusted and answered, the newest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(Which),
    responses((status = 200, body = Audit), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn list(Extract(world): State, Query(which): Query<Which>) -> Answer<Audit> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let since = which.since.as_deref().map(time).transpose()?;
    let limit = which.limit.unwrap_or(USUAL).min(MOST);
    let query = AuditQuery {
        server: which.server,
        tool: which.tool,
        agent: which.agent,
        since,
        denied: which.denied,
        before: which.before.and_then(|before| u64::try_from(before).ok()),
        limit,
        ..AuditQuery::default()
    };
    let rows = store.audit(&query).await?;
    let next = rows.first().map(|oldest| oldest.seq).filter(|oldest| rows.len() == limit && *oldest > 1);
    Ok(Json(Audit { rows: rows.into_iter().rev().map(Row::from).collect(), next }))
}

fn time(text: &str) -> Result<i64, ApiError> {
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        let message = "`since` is no time of RFC 3339, such as 2026-11-22T03:11:28Z";
        ApiError::new(axum::http::StatusCode::BAD_REQUEST, "BAD_QUERY", message)
    })?;
    Ok(time.timestamp_millis())
}
