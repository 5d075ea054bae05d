//! Changes the entries of servers in configuration files. The world that answers a request is a host with its
//! configuration, questions and events.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    http::{HeaderMap, StatusCode, header},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolrack_config::{Scope, edit::Edited};
use toolrack_host::Caller;
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, Body, JsonResult, Path, Query, SentBy, WorldExtension};
use crate::{
    shown::Problem,
    world::{AddedEntry, Change, NewEntries, World},
};

/// A new server.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewServer {
    name: String,
    /// `user` (the default), `local` or `project`.
    #[serde(default)]
    scope: NewScope,
    /// The entry as configuration files have it: `command` or `url`, and so on.
    #[schema(value_type = Object)]
    entry: Value,
    /// Report the change, and write nothing.
    #[serde(default)]
    dry_run: bool,
    /// Replace an entry of this name in the same file.
    #[serde(default)]
    replace: bool,
    /// Write secrets into the file as they are, instead of keeping them among the stored secrets.
    #[serde(default)]
    plain: bool,
}

/// The scope of a new entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NewScope {
    /// The user's file, for every project.
    #[default]
    User,
    /// The user's file for this project.
    Local,
    /// The project's file, for all its users.
    Project,
}

impl From<NewScope> for Scope {
    fn from(scope: NewScope) -> Self {
        match scope {
            NewScope::User => Self::User,
            NewScope::Local => Self::Local,
            NewScope::Project => Self::Project,
        }
    }
}

/// A change of a file, made or planned.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileChange {
    name: String,
    scope: &'static str,
    path: String,
    /// Whether the file is new.
    created: bool,
    dry_run: bool,
    /// The change as a unified diff, without secrets.
    diff: String,
    /// Likely mistakes.
    warnings: Vec<Problem>,
    /// The secrets of a new entry that are kept among the stored secrets, or would be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<KeptSecret>,
}

/// A secret that is kept among the stored secrets; the file contains `${secret:NAME}` instead.
#[derive(Debug, Serialize, ToSchema)]
struct KeptSecret {
    /// Its variable, header or option in the entry.
    what: String,
    /// Its name among the stored secrets.
    name: String,
}

impl FileChange {
    fn new(name: &str, scope: Scope, edited: Edited, dry_run: bool) -> Self {
        Self {
            name: name.to_owned(),
            scope: scope.as_str(),
            path: edited.path.display().to_string(),
            created: edited.created,
            dry_run,
            diff: edited.diff,
            warnings: edited.warnings.iter().map(Problem::from).collect(),
            secrets: Vec::new(),
        }
    }
}

/// Changes the entry `name` in its file. With `dry_run`, only reports the change.
pub(super) async fn edit(
    world: &World,
    name: &str,
    change: Change,
    dry_run: bool,
    caller: &Caller,
) -> Result<FileChange, ApiError> {
    let (scope, edited) =
        world.edit(name, change, dry_run, caller).await.map_err(|error| ApiError::from(error).server(name))?;
    Ok(FileChange::new(name, scope, edited, dry_run))
}

/// Adds entries to a file: all of them, or none. With `dry_run`, only reports the changes.
pub(super) async fn add_all(
    world: &World,
    additions: NewEntries,
    dry_run: bool,
    caller: &Caller,
) -> Result<Vec<FileChange>, ApiError> {
    let added_entries = world.add(additions, dry_run, caller).await;
    let added_entries = added_entries.map_err(|(name, error)| ApiError::from(error).server(name))?;
    // `sealed` are the secrets that were moved from the entry into the secret store.
    let to_file_change = |AddedEntry { name, scope, edited, sealed }| {
        let secrets = sealed.iter();
        let secrets = secrets.map(|secret| KeptSecret { what: secret.field.clone(), name: secret.name.clone() });
        FileChange { secrets: secrets.collect(), ..FileChange::new(&name, scope, edited, dry_run) }
    };
    Ok(added_entries.into_iter().map(to_file_change).collect())
}

/// Adds a server to a configuration file, and starts it. Its secrets are kept among the stored secrets.
#[utoipa::path(post, path = "/api/v1/servers", tag = "servers", request_body = NewServer,
    responses((status = 200, body = FileChange), (status = 201, body = FileChange), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn add(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<NewServer>,
) -> Result<(StatusCode, Json<FileChange>), ApiError> {
    if let Err(error) = toolrack_host::ServerName::new(&*request.name) {
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_ENTRY", error.to_string()));
    }
    let NewServer { name, scope, entry, dry_run, replace, plain } = request;
    let entries = BTreeMap::from([(name, entry)]);
    let additions = NewEntries { scope: scope.into(), entries, replace, plain };
    let mut file_changes = add_all(&world, additions, dry_run, &caller).await?;
    let file_change = file_changes.pop().ok_or_else(|| ApiError::internal("the entry was not added"))?;
    let status = if dry_run { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(file_change)))
}

/// A changed entry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryRevision {
    /// The changed `config` of the server. A value that contains `***` stays as it is in the file.
    #[schema(value_type = Object)]
    entry: Map<String, Value>,
    #[serde(default)]
    dry_run: bool,
}

/// Changes the entry of a server. With `If-Match`, it does so only if the entry still has that version.
#[utoipa::path(put, path = "/api/v1/servers/{name}", tag = "servers", request_body = EntryRevision,
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The `version` of the server that was changed, in quotes.")),
    responses((status = 200, body = FileChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 412, body = ApiError), (status = 422, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn revise(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(revision): Body<EntryRevision>,
) -> JsonResult<FileChange> {
    let seen_hash = headers.get(header::IF_MATCH).and_then(|tag| tag.to_str().ok());
    // `If-Match: *` accepts any version (RFC 9110, section 13.1.1).
    let seen_hash = seen_hash.filter(|tag| *tag != "*").map(|tag| tag.trim_matches('"').to_owned());
    edit(&world, &name, Change::Revise { entry: revision.entry.into(), seen_hash }, revision.dry_run, &caller)
        .await
        .map(Json)
}

/// The options of a change that has no body.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DryRunQuery {
    /// Report the change, and write nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Removes the entry of a server, and stops it.
#[utoipa::path(delete, path = "/api/v1/servers/{name}", tag = "servers", params(("name" = String, Path), DryRunQuery),
    responses((status = 200, body = FileChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn remove(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    Query(query): Query<DryRunQuery>,
) -> JsonResult<FileChange> {
    edit(&world, &name, Change::Remove, query.dry_run, &caller).await.map(Json)
}

/// Switches a server on, in a configuration file.
#[utoipa::path(post, path = "/api/v1/servers/{name}/enable", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = FileChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn enable(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> JsonResult<FileChange> {
    world.resume_server(&name).await?;
    edit(&world, &name, Change::Switch(true), /* dry_run */ false, &caller).await.map(Json)
}

/// Switches a server off, in a configuration file.
#[utoipa::path(post, path = "/api/v1/servers/{name}/disable", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = FileChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn disable(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> JsonResult<FileChange> {
    edit(&world, &name, Change::Switch(false), /* dry_run */ false, &caller).await.map(Json)
}
