//! Lists and searches the catalog, which is the immutable list of the tools of all servers: a change makes a new one.
//! The world that answers a request is a host with its configuration, questions and events.

use std::sync::Arc;

use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolrack_host::{CatalogTool, Selection, ServerName, mcp::Annotations};
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, JsonResult, Path, Query, WorldExtension};
use crate::shown::Finding;

/// The maximum number of tools in one answer. Without a search, this is also the default.
const MAX_TOOLS: usize = 10_000;

/// The default number of tools that a search finds.
const DEFAULT_HITS: usize = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ToolsQuery {
    /// What the tool should do, in words: the best matches come first.
    q: Option<String>,
    /// Only tools of this server.
    server: Option<String>,
    /// The most tools: 10,000 by default, 50 in a search.
    limit: Option<usize>,
    /// The `name` of the last tool of the page before this one. A search has no further pages.
    after: Option<String>,
}

/// Tools of the catalog.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tools {
    /// Grows whenever the catalog changes.
    version: u64,
    /// The number of selected tools, including those that are not on this page or do not match the words.
    total: usize,
    tools: Vec<Tool>,
}

/// A tool, without its schemas.
#[derive(Debug, Serialize, ToSchema)]
struct Tool {
    /// The name that a model sees.
    name: String,
    server: String,
    tool: String,
    title: Option<String>,
    description: Option<String>,
    annotations: Hints,
    /// The tokens of its definition for a model; an estimate.
    tokens: usize,
    /// The number of findings in its definition, at which a user should look.
    finding_count: usize,
    /// How well it matches the search.
    score: Option<f32>,
}

/// What the server claims about a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolHints)]
struct Hints {
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl From<&Annotations> for Hints {
    fn from(annotations: &Annotations) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world, .. } = *annotations;
        Self { read_only, destructive, idempotent, open_world }
    }
}

impl Tool {
    fn new(entry: &CatalogTool, finding_count: usize, score: Option<f32>) -> Self {
        let tool = entry.tool();
        Self {
            name: entry.name.clone(),
            server: entry.server.to_string(),
            tool: tool.name.clone(),
            title: tool.title.clone().or_else(|| tool.annotations.title.clone()),
            description: tool.description.clone(),
            annotations: (&tool.annotations).into(),
            tokens: entry.tokens(),
            finding_count,
            score,
        }
    }
}

/// The tools of all servers, or those that match some words.
#[utoipa::path(get, path = "/api/v1/tools", tag = "tools", params(ToolsQuery),
    responses((status = 200, body = Tools), (status = 404, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, Query(params): Query<ToolsQuery>) -> JsonResult<Tools> {
    let catalog = world.host.catalog();
    let mut selection = Selection::all();
    if let Some(server) = &params.server {
        let name = ServerName::new(server.as_str()).map_err(|_| ApiError::no_server(server))?;
        let is_running = || world.host.status().iter().any(|status| status.name == name);
        if super::servers::find_entry(&world, &world.loaded(), server).is_err() && !is_running() {
            return Err(ApiError::no_server(server));
        }
        selection = selection.of_servers([name]);
    }
    let findings = world.findings_cache.for_catalog(Arc::clone(&catalog)).await;
    let finding_count =
        |tool: &CatalogTool| findings.get(&(tool.server.clone(), tool.tool().name.clone())).map_or(0, Vec::len);
    let total = catalog.tools().filter(|tool| selection.has(tool)).count();
    let tools = match params.q.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => {
            let hits = world.host.search(words, params.limit.unwrap_or(DEFAULT_HITS).min(MAX_TOOLS), &selection).await;
            hits.iter().map(|hit| Tool::new(&hit.tool, finding_count(&hit.tool), Some(hit.score))).collect()
        }
        None => {
            // Ordered by name, so that a page continues where the previous one ended even if tools were added or
            // removed meanwhile.
            let is_on_later_page = |tool: &CatalogTool| params.after.as_ref().is_none_or(|after| tool.name > *after);
            let tools = catalog.tools().filter(|tool| selection.has(tool) && is_on_later_page(tool));
            tools
                .take(params.limit.unwrap_or(MAX_TOOLS).min(MAX_TOOLS))
                .map(|tool| Tool::new(tool, finding_count(tool), /* score */ None))
                .collect()
        }
    };
    Ok(Json(Tools { version: catalog.version(), total, tools }))
}

/// A tool with its schemas.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WholeTool {
    #[serde(flatten)]
    tool: Tool,
    /// A JSON Schema of its arguments.
    #[schema(value_type = Object)]
    input_schema: Box<RawValue>,
    /// A JSON Schema of its structured results.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Box<RawValue>>,
    /// The hash of its definition: name, title, description, schemas, annotations.
    definition: String,
    /// Why it is in quarantine, if it is: the daemon then offers it to no client and refuses calls of it.
    quarantined: Option<String>,
    /// Findings in its definition, at which a user should look.
    findings: Vec<Finding>,
}

/// A tool, with its schemas.
#[utoipa::path(get, path = "/api/v1/tools/{server}/{tool}", tag = "tools",
    params(("server" = String, Path), ("tool" = String, Path)),
    responses((status = 200, body = WholeTool), (status = 404, body = ApiError)))]
pub(super) async fn get(
    Extension(world): WorldExtension,
    Path((server, tool)): Path<(String, String)>,
) -> JsonResult<WholeTool> {
    let catalog = world.host.catalog();
    let mut all_tools = catalog.tools().chain(catalog.quarantined());
    let entry = all_tools.find(|entry| entry.server.as_str() == server && entry.tool().name == tool);
    let entry = entry.ok_or_else(|| ApiError::not_found("there is no such tool").server(server.as_str()))?;
    let status = world.host.status().into_iter().find(|status| status.name == entry.server);
    let quarantined_tools = status.into_iter().flat_map(|status| status.quarantined);
    let quarantined = quarantined_tools
        .filter(|quarantined| !quarantined.usable && quarantined.tool == tool)
        .map(|quarantined| quarantined.cause.to_string());
    let findings: Vec<_> = catalog.findings_of(entry).into_iter().map(Finding::from).collect();
    // The schemas stay as the server wrote them, because its author chose the order of the properties.
    Ok(Json(WholeTool {
        tool: Tool::new(entry, findings.len(), /* score */ None),
        input_schema: entry.tool().input_schema.clone(),
        output_schema: entry.tool().output_schema.clone(),
        definition: entry.definition_hash().to_string(),
        quarantined: quarantined.last(),
        findings,
    }))
}
