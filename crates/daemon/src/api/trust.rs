//! What projects bring, and whether somebody agreed to it.

use std::path::PathBuf;

use axum::{Json, extract::State as Extract, http::StatusCode, response::Response};
use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_config::Entry;
use toolrack_host::{Way, spec::Trust as Verdict};
use utoipa::ToSchema;

use super::{Answer, ApiError, Body, State, done};

/// What waits and what is agreed to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Trust {
    pending: Vec<Pending>,
    trusted: Vec<Trusted>,
}

/// An entry of a project that nobody has agreed to run.
#[derive(Debug, Serialize, ToSchema)]
struct Pending {
    name: String,
    /// The folder that an agreement is for.
    project: String,
    source: Option<String>,
    line: Option<usize>,
    /// Names exactly this content.
    hash: String,
    /// What would run, with secrets hidden.
    #[schema(value_type = Object)]
    config: Value,
    /// What was agreed to when the entry was another.
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
}

/// Something that was agreed to.
#[derive(Debug, Serialize, ToSchema)]
struct Trusted {
    name: String,
    project: String,
    hash: String,
    /// In RFC 3339.
    approved_at: Option<String>,
}

/// What waits for somebody's agreement, and what has it.
#[utoipa::path(get, path = "/api/v1/trust", tag = "trust", responses((status = 200, body = Trust)))]
pub(super) async fn list(Extract(world): State) -> Answer<Trust> {
    let loaded = world.loaded();
    let approvals = world.approvals().await?;
    let before = |entry: &Entry| {
        let of = |approval: &&toolrack_store::Approval| {
            Some(&approval.project) == entry.project.as_ref() && approval.name == entry.name
        };
        approvals.iter().find(of).and_then(|approval| serde_json::from_str(&approval.shown).ok())
    };
    let waits = |entry: &&Entry| entry.trust == Verdict::Pending && entry.is_valid;
    let pending = loaded.entries.iter().filter(waits).filter_map(|entry| {
        Some(Pending {
            name: entry.name.clone(),
            project: entry.project.as_ref()?.display().to_string(),
            source: entry.source.path.as_ref().map(|path| path.display().to_string()),
            line: entry.line,
            hash: entry.hash.clone(),
            config: entry.view.clone(),
            before: before(entry),
        })
    });
    let trusted = approvals.iter().filter(|approval| approval.project.starts_with(&loaded.project)).map(|approval| {
        let at = DateTime::from_timestamp(approval.approved_at, 0);
        Trusted {
            name: approval.name.clone(),
            project: approval.project.display().to_string(),
            hash: approval.hash.clone(),
            approved_at: at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)),
        }
    });
    Ok(Json(Trust { pending: pending.collect(), trusted: trusted.collect() }))
}

/// An entry as it was shown.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Approve {
    project: String,
    name: String,
    hash: String,
}

/// Agrees to run an entry exactly as it was shown.
#[utoipa::path(post, path = "/api/v1/trust/approve", tag = "trust", request_body = Approve,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn approve(Extract(world): State, Body(shown): Body<Approve>) -> Result<Response, ApiError> {
    let loaded = world.loaded();
    let project = PathBuf::from(&shown.project);
    let entry = loaded.entry(&shown.name).filter(|entry| entry.project.as_ref() == Some(&project));
    let entry = entry.ok_or_else(|| ApiError::no_server(&shown.name))?;
    if entry.hash != shown.hash {
        let message = "the entry is another by now";
        return Err(ApiError::new(StatusCode::CONFLICT, "CHANGED", message)
            .hint("look at it again before you agree")
            .server(shown.name));
    }
    if world.store.is_none() {
        return Err(ApiError::no_store());
    }
    world.trust(entry).await?;
    world.reload().await?;
    Ok(done())
}

/// An agreement.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Revoke {
    project: String,
    name: String,
}

/// Takes an agreement back, and stops what ran because of it.
#[utoipa::path(post, path = "/api/v1/trust/revoke", tag = "trust", request_body = Revoke,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn revoke(Extract(world): State, Body(agreed): Body<Revoke>) -> Result<Response, ApiError> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    if !store.revoke(&PathBuf::from(&agreed.project), &agreed.name, Way::Daemon).await? {
        return Err(ApiError::not_found("nobody has agreed to run it").server(agreed.name));
    }
    world.reload().await?;
    Ok(done())
}
