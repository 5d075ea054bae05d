//! Reads the audit log: calls, connections, agreements to run entries, and answers to questions. The world that answers
//! a request is a host with its configuration, questions and events.

use axum::{Extension, Json};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use toolrack_store::audit::AuditQuery;
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, JsonResult, Query, WorldExtension};
use crate::shown::audit::Row;

/// The default and the largest number of rows in one answer.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// A selection of rows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsQuery {
    /// Only rows about this server.
    server: Option<String>,
    /// Only rows about this tool, by the server's own name for it.
    tool: Option<String>,
    /// Only rows about this agent.
    agent: Option<String>,
    /// Only rows from this time on, in RFC 3339.
    since: Option<String>,
    /// Only calls that were not allowed.
    #[serde(default)]
    denied: bool,
    /// Only rows with smaller numbers: `next` of the page before.
    before: Option<usize>,
    /// How many rows: 100 by default, at most 1,000.
    limit: Option<usize>,
}

/// Rows of the audit log, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Audit {
    rows: Vec<Row>,
    /// Where the next page begins; `null` when there is none.
    next: Option<u64>,
}

/// Rows of the audit log (calls, connections, agreements, answers), the newest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(RowsQuery),
    responses((status = 200, body = Audit), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, Query(params): Query<RowsQuery>) -> JsonResult<Audit> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let since = params.since.as_deref().map(parse_time).transpose()?;
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    // Cannot fail, because `usize` is never wider than `u64`.
    let before = params.before.and_then(|before| u64::try_from(before).ok());
    let query = AuditQuery {
        server: params.server,
        tool: params.tool,
        agent: params.agent,
        since,
        denied: params.denied,
        before,
        limit,
        ..AuditQuery::default()
    };
    let rows = store.audit(&query).await?;
    // The oldest row comes first. A full page has a next one, unless it ends with row 1, the first of the log.
    let next = rows.first().map(|oldest| oldest.seq).filter(|seq| rows.len() == limit && *seq > 1);
    Ok(Json(Audit { rows: rows.into_iter().rev().map(Row::from).collect(), next }))
}

/// Reads a time in RFC 3339. Returns it in milliseconds since 1970.
fn parse_time(text: &str) -> Result<i64, ApiError> {
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        let message = "`since` is not a time of RFC 3339, such as 2026-11-22T03:11:28Z";
        ApiError::new(axum::http::StatusCode::BAD_REQUEST, "BAD_QUERY", message)
    })?;
    Ok(time.timestamp_millis())
}
