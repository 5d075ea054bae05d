//! Lists what waits for a user's agreement, and takes the user's decisions. Two things wait: entries of a project's
//! file, until a user agrees to run them, and tools that differ from their pins (the definitions that a user trusted).
//! The world that answers a request is a host with its configuration, questions and events.

use std::path::PathBuf;

use axum::{Extension, http::StatusCode, response::Response};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_config::{Entry, Loaded, look};
use toolrack_host::{
    DefinitionHash, findings,
    pins::{Cause, PinnedServer},
    spec::Trust as EntryTrust,
    text,
};
use toolrack_store::{QuarantinedTool as StoredTool, Refusal};
use utoipa::ToSchema;

use super::{ApiError, Body, SentBy, WorldExtension, concealed, no_content};
use crate::{
    rights::Right,
    shown::{self, Finding},
    world::World,
};

/// Entries and tools that wait for a user, and agreements.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Trust {
    pending: Vec<PendingEntry>,
    /// Entries that a user refused. They wait again once they change.
    refused: Vec<PendingEntry>,
    trusted: Vec<TrustedEntry>,
    /// Tools that differ from their pins.
    quarantined: Vec<QuarantinedTool>,
}

/// A tool that differs from its pin.
#[derive(Debug, Serialize, ToSchema)]
struct QuarantinedTool {
    server: String,
    tool: String,
    /// `changed`, `renamed` or `too_many`.
    cause: &'static str,
    /// The cause in words.
    why: String,
    /// The name that it had before, if it was renamed.
    was: Option<String>,
    /// In RFC 3339.
    since: Option<String>,
    /// The hash of the current definition.
    hash: String,
    /// Its current definition, with invisible characters spelled out.
    #[schema(value_type = Object)]
    definition: Value,
    /// The trusted definition, shown in the same way; `null` where nothing is pinned.
    #[schema(value_type = Option<Object>)]
    pinned: Option<Value>,
    /// In RFC 3339.
    pinned_at: Option<String>,
    /// Findings in the new definition, at which a user should look.
    findings: Vec<Finding>,
}

impl QuarantinedTool {
    fn new(stored_tool: StoredTool) -> Self {
        let rfc3339 = |seconds| DateTime::from_timestamp(seconds, 0).map(shown::rfc3339_seconds);
        let (cause, was) = match &stored_tool.mismatch.cause {
            Cause::Renamed { was } => ("renamed", Some(text::for_line(was).into_owned())),
            Cause::TooMany => ("too_many", None),
            // `Changed`. Tools whose pins cannot be read (`Unchecked`) are not in the stored quarantine.
            _ => ("changed", None),
        };
        let current = parse_definition(&stored_tool.mismatch.definition.text);
        Self {
            server: stored_tool.pinned_server.server.to_string(),
            tool: stored_tool.mismatch.tool,
            cause,
            why: stored_tool.mismatch.cause.to_string(),
            was,
            since: rfc3339(stored_tool.since),
            hash: stored_tool.mismatch.definition.hash.to_string(),
            findings: findings::in_definition(&current).into_iter().map(Finding::from).collect(),
            definition: spell_out_invisible(current),
            pinned_at: stored_tool.pinned.as_ref().and_then(|pinned| rfc3339(pinned.at)),
            pinned: stored_tool.pinned.map(|pinned| spell_out_invisible(parse_definition(&pinned.definition.text))),
        }
    }
}

/// Reads a stored definition. A text that is not JSON becomes a JSON string.
fn parse_definition(definition_text: &str) -> Value {
    serde_json::from_str(definition_text).unwrap_or_else(|_| Value::from(definition_text))
}

/// Spells out the invisible characters in a definition.
fn spell_out_invisible(mut definition: Value) -> Value {
    text::map_texts(&mut definition, &|text| text::for_terminal(text));
    definition
}

/// The tools in quarantine of the servers that are configured now.
async fn quarantined_tools(world: &World) -> Result<Vec<StoredTool>, ApiError> {
    let Some(store) = &world.store else {
        return Ok(Vec::new());
    };
    let loaded = world.loaded();
    let mut stored_tools = store.quarantine().await?;
    stored_tools.retain(|quarantined| {
        let spec = loaded.desired.get(&quarantined.pinned_server.server);
        spec.is_some_and(|spec| PinnedServer::of(&quarantined.pinned_server.server, spec) == quarantined.pinned_server)
    });
    Ok(stored_tools)
}

/// An entry of a project that no user has agreed to run.
#[derive(Debug, Serialize, ToSchema)]
struct PendingEntry {
    name: String,
    /// The folder that an agreement is for.
    project: String,
    source: Option<String>,
    line: Option<usize>,
    /// The hash of this content.
    hash: String,
    /// Exactly what would run, as the file has it: placeholders are not filled in. Clients must spell out invisible
    /// characters when they show it. Callers who may not agree to run it get it with secrets hidden.
    #[schema(value_type = Object)]
    config: Value,
    /// Findings at which a user should look before agreeing, each in words. A help, not a defence.
    points: Vec<String>,
    /// The earlier version of the entry that a user agreed to, as it was shown. `null` for callers who may not agree.
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
}

/// An entry that a user agreed to run.
#[derive(Debug, Serialize, ToSchema)]
struct TrustedEntry {
    name: String,
    project: String,
    hash: String,
    /// In RFC 3339.
    approved_at: Option<String>,
}

/// The entries and tools that wait for a user's agreement, and the entries that have it. Callers who do not operate the
/// servers get tools alone.
#[utoipa::path(get, path = "/api/v1/trust", tag = "trust",
    responses((status = 200, body = Trust), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, SentBy(caller): SentBy) -> Result<Response, ApiError> {
    let loaded = world.loaded();
    let (is_operator, may_agree) =
        (Right::Operate.is_held_by(caller.principal()), Right::Install.is_held_by(caller.principal()));
    let approvals = if is_operator { world.approvals().await? } else { Vec::new() };
    let agreed_version = |entry: &Entry| {
        let is_for_entry = |approval: &&toolrack_store::Approval| {
            Some(&approval.project) == entry.project.as_ref() && approval.name == entry.name
        };
        approvals.iter().find(is_for_entry).and_then(|approval| serde_json::from_str(&approval.shown).ok())
    };
    let refusals = match &world.store {
        Some(store) => store.refusals().await?,
        None => Vec::new(),
    };
    let is_refused = |shown: &PendingEntry| {
        refusals.iter().any(|refusal| refusal.covers(shown.project.as_ref(), &shown.name, &shown.hash))
    };
    let is_pending = |entry: &&Entry| is_operator && entry.trust == EntryTrust::Pending && entry.is_valid;
    // Only entries of projects need an agreement, so the others are left out.
    let pending = loaded.entries.iter().filter(is_pending).filter_map(|entry| {
        // A user must see everything that they agree to. For all others, it can have secrets of the tenant.
        let config = if may_agree { &entry.proposal } else { &entry.view };
        Some(PendingEntry {
            name: entry.name.clone(),
            project: entry.project.as_ref()?.display().to_string(),
            source: entry.source.path.as_ref().map(|path| path.display().to_string()),
            line: entry.line,
            hash: entry.agreement.clone(),
            points: look::points(config),
            config: config.clone(),
            before: if may_agree { agreed_version(entry) } else { None },
        })
    });
    let trusted = approvals.iter().filter(|approval| approval.project.starts_with(&loaded.project)).map(|approval| {
        let at = DateTime::from_timestamp(approval.approved_at, 0);
        TrustedEntry {
            name: approval.name.clone(),
            project: approval.project.display().to_string(),
            hash: approval.hash.clone(),
            approved_at: at.map(shown::rfc3339_seconds),
        }
    });
    let mut quarantined = quarantined_tools(&world).await?;
    quarantined.retain(|tool| world.may_read_about(tool.pinned_server.server.as_str(), caller.principal()));
    let quarantined = quarantined.into_iter().map(QuarantinedTool::new).collect();
    let (refused, pending) = pending.partition(is_refused);
    let trust = Trust { pending, refused, trusted: trusted.collect(), quarantined };
    // Values that a trusted server received count as secrets. Its author may have chosen them, so they must not be used
    // to hide parts of the next proposal. A user may still agree to an entry that was refused.
    let plain_fields: &[&str] = if may_agree { &["pending", "refused"] } else { &[] };
    Ok(concealed::answer_with_plain_fields(&world, plain_fields, &trust))
}

/// An entry as it was shown.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EntryApproval)]
#[serde(deny_unknown_fields)]
pub(super) struct Approve {
    project: String,
    name: String,
    hash: String,
}

/// Agrees to run an entry exactly as it was shown.
#[utoipa::path(post, path = "/api/v1/trust/approve", tag = "trust", request_body = Approve,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn approve(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<Approve>,
) -> Result<Response, ApiError> {
    let loaded = world.loaded();
    let entry = require_unchanged_entry(&loaded, &request)?;
    if world.store.is_none() {
        return Err(ApiError::no_store());
    }
    world.trust(entry, &caller).await?;
    world.reload().await?;
    Ok(no_content())
}

/// Refuses to run an entry as it was shown. The entry waits again once it changes.
#[utoipa::path(post, path = "/api/v1/trust/refuse", tag = "trust", request_body = Approve,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn refuse(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<Approve>,
) -> Result<Response, ApiError> {
    let loaded = world.loaded();
    let entry = require_unchanged_entry(&loaded, &request)?;
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    if entry.trust != EntryTrust::Pending {
        let message = "the entry does not wait for an agreement";
        return Err(ApiError::new(StatusCode::CONFLICT, "NOT_PENDING", message)
            .hint("an agreement is taken back with POST /api/v1/trust/revoke")
            .server(request.name));
    }
    let Approve { project, name, hash } = request;
    store.refuse(&Refusal { project: project.into(), name, hash }, &caller).await?;
    Ok(no_content())
}

/// The entry of the request, if it is still as it was shown to the user.
fn require_unchanged_entry<'a>(loaded: &'a Loaded, request: &Approve) -> Result<&'a Entry, ApiError> {
    let project = PathBuf::from(&request.project);
    let entry = loaded.entry(&request.name).filter(|entry| entry.project.as_ref() == Some(&project));
    let entry = entry.ok_or_else(|| ApiError::no_server(&request.name))?;
    if entry.agreement != request.hash {
        let message = "the entry has changed meanwhile";
        return Err(ApiError::new(StatusCode::CONFLICT, "CHANGED", message)
            .hint("look at it again before you decide")
            .server(request.name.as_str()));
    }
    Ok(entry)
}

/// An agreement.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TrustRevocation)]
#[serde(deny_unknown_fields)]
pub(super) struct Revoke {
    project: String,
    name: String,
}

/// Takes an agreement back, and stops the servers that ran because of it.
#[utoipa::path(post, path = "/api/v1/trust/revoke", tag = "trust", request_body = Revoke,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn revoke(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<Revoke>,
) -> Result<Response, ApiError> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    if !store.revoke(&PathBuf::from(&request.project), &request.name, &caller).await? {
        return Err(ApiError::not_found("no user has agreed to run this entry").server(request.name));
    }
    world.reload().await?;
    Ok(no_content())
}

/// A tool as it was shown.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ToolApproval)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveTool {
    server: String,
    tool: String,
    /// The hash of the definition that was shown.
    hash: String,
}

/// Releases a tool from quarantine if it is still as it was shown.
#[utoipa::path(post, path = "/api/v1/trust/tools/approve", tag = "trust", request_body = ApproveTool,
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn approve_tool(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<ApproveTool>,
) -> Result<Response, ApiError> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let is_tool = |stored: &StoredTool| {
        stored.pinned_server.server.as_str() == request.server && stored.mismatch.tool == request.tool
    };
    let quarantined = quarantined_tools(&world).await?.into_iter().find(is_tool);
    let quarantined = quarantined
        .ok_or_else(|| ApiError::not_found("this tool is not in quarantine").server(request.server.as_str()))?;
    // `release` compares the hash again in its transaction, because the definition may change until then.
    let hash = DefinitionHash::parse(&request.hash).filter(|hash| *hash == quarantined.mismatch.definition.hash);
    let released = match hash {
        Some(hash) => store.release(&quarantined.pinned_server, &request.tool, hash, &caller).await?,
        None => false,
    };
    if !released {
        return Err(ApiError::new(StatusCode::CONFLICT, "CHANGED", "the tool has changed meanwhile")
            .hint("look at it again before you approve it")
            .server(request.server));
    }
    // Fails only if the server was removed from the configuration meanwhile, and then it needs no message.
    let _ = world.host.pins_changed(&request.server);
    Ok(no_content())
}
