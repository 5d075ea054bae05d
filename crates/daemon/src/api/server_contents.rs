//! Shows the resources, the prompts and the log of a server. The world that answers a request is a host with its
//! configuration, questions and events.

use std::collections::BTreeMap;

use axum::{Extension, Json};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use toolrack_host::mcp;
use toolrack_store::LogQuery;
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, Body, JsonResult, Path, Query, SentBy, WorldExtension};
use crate::shown;

/// The default and the maximum number of log lines in one answer.
const DEFAULT_LINES: usize = 200;
const MAX_LINES: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LinesQuery {
    /// The number of lines, the newest: 200 by default, at most 5,000.
    #[serde(default)]
    limit: Option<usize>,
}

/// Lines that a server wrote.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogLines)]
pub(super) struct Lines {
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogLine)]
struct Line {
    /// In RFC 3339.
    at: Option<String>,
    /// `stderr`, a level of MCP, `noticed` or `failed`.
    level: String,
    text: String,
}

/// The newest lines that a server wrote, the oldest of them first.
#[utoipa::path(get, path = "/api/v1/servers/{name}/logs", tag = "servers", params(("name" = String, Path), LinesQuery),
    responses((status = 200, body = Lines), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn logs(
    Extension(world): WorldExtension,
    Path(name): Path<String>,
    Query(query): Query<LinesQuery>,
) -> JsonResult<Lines> {
    let loaded = world.loaded();
    let entry = super::servers::find_entry(&world, &loaded, &name)?;
    // The lines of a server without a file are stored with an empty source.
    let source = entry.source.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let limit = query.limit.unwrap_or(DEFAULT_LINES).min(MAX_LINES);
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let lines = store.log(&LogQuery { servers: vec![(name, source)], after: None, limit }).await?;
    let lines = lines.into_iter().map(|line| Line {
        at: DateTime::from_timestamp_millis(line.at).map(shown::rfc3339_millis),
        level: line.kind,
        text: line.text,
    });
    Ok(Json(Lines { lines: lines.collect() }))
}

/// The resources of a server. The fields are MCP's.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Resources {
    #[schema(value_type = Vec<Object>)]
    resources: Vec<mcp::Resource>,
    #[schema(value_type = Vec<Object>)]
    templates: Vec<mcp::ResourceTemplate>,
}

/// The resources and the resource templates of a server.
#[utoipa::path(get, path = "/api/v1/servers/{name}/resources", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = Resources), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 424, body = ApiError), (status = 502, body = ApiError)))]
pub(super) async fn resources(Extension(world): WorldExtension, Path(name): Path<String>) -> JsonResult<Resources> {
    let (resources, templates) = tokio::join!(world.host.resources(&name), world.host.resource_templates(&name));
    Ok(Json(Resources { resources: resources?, templates: templates? }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResourceRequest)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    uri: String,
}

/// The contents of a resource. The fields are MCP's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResourceContents)]
pub(super) struct Contents {
    #[schema(value_type = Vec<Object>)]
    contents: Vec<mcp::ResourceContents>,
}

/// Reads a resource.
#[utoipa::path(post, path = "/api/v1/servers/{name}/resources/read", tag = "servers", request_body = Read,
    params(("name" = String, Path)),
    responses((status = 200, body = Contents), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 424, body = ApiError), (status = 502, body = ApiError)))]
pub(super) async fn read(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    Body(request): Body<Read>,
) -> JsonResult<Contents> {
    let contents = world.host.read_resource_for(&caller, &name, &request.uri).await?;
    Ok(Json(Contents { contents }))
}

/// The prompts that a server has. The fields are MCP's.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Prompts {
    #[schema(value_type = Vec<Object>)]
    prompts: Vec<mcp::Prompt>,
}

/// The prompts of a server.
#[utoipa::path(get, path = "/api/v1/servers/{name}/prompts", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = Prompts), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 424, body = ApiError), (status = 502, body = ApiError)))]
pub(super) async fn prompts(Extension(world): WorldExtension, Path(name): Path<String>) -> JsonResult<Prompts> {
    Ok(Json(Prompts { prompts: world.host.prompts(&name).await? }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PromptRequest)]
#[serde(deny_unknown_fields)]
pub(super) struct GetPrompt {
    /// The prompt.
    name: String,
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// Gets a prompt, filled in with arguments.
#[utoipa::path(post, path = "/api/v1/servers/{name}/prompts/get", tag = "servers", request_body = GetPrompt,
    params(("name" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 424, body = ApiError), (status = 502, body = ApiError)))]
pub(super) async fn prompt(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    Body(request): Body<GetPrompt>,
) -> JsonResult<mcp::PromptResult> {
    let result = world.host.get_prompt_for(&caller, &name, &request.name, &request.arguments).await?;
    Ok(Json(result))
}
