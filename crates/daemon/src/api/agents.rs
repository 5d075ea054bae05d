//! The agents of `toolrack.toml`. Each has its own world (a host with its configuration, questions and events).

use std::sync::{Arc, Weak};

use axum::{Extension, Json};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ApiError, JsonResult, Path, no_content};
use crate::{
    agents::{Agents, base_path, endpoint, unknown_agent},
    world::World,
};

/// The agents of the daemon, which every request has in its extensions.
pub(crate) type AgentsExtension = Extension<Weak<Agents>>;

/// All agents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agents)]
pub(super) struct List {
    agents: Vec<AgentView>,
}

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
struct AgentView {
    id: String,
    /// Whether its world runs; it begins with the first request to it.
    running: bool,
    /// The address of the control API of its world.
    api: String,
    /// The address at which MCP clients find its tools.
    mcp: String,
}

/// The token of the MCP endpoint of an agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentToken {
    /// Opens this one address, and nothing else, until the daemon ends.
    token: String,
    mcp: String,
}

/// The running worlds of agents, by id. Empty if the world that answers is itself the world of an agent.
pub(super) fn agent_worlds(agents: &Weak<Agents>) -> Vec<(String, Arc<World>)> {
    agents.upgrade().map(|agents| agents.worlds()).unwrap_or_default()
}

fn require_agents(agents: &Weak<Agents>) -> Result<Arc<Agents>, ApiError> {
    let message = "this address belongs to one agent, and does not list agents";
    agents
        .upgrade()
        .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "NOT_FOUND", message).hint("ask /api/v1/agents"))
}

/// All agents that are configured.
#[utoipa::path(get, path = "/api/v1/agents", tag = "agents",
    responses((status = 200, body = List), (status = 404, body = ApiError)))]
pub(super) async fn list(Extension(agents): AgentsExtension) -> JsonResult<List> {
    let agents = require_agents(&agents)?.list().into_iter().map(|(id, running)| AgentView {
        api: base_path(&id) + "/api/v1",
        mcp: endpoint(&id),
        id,
        running,
    });
    Ok(Json(List { agents: agents.collect() }))
}

/// The token that opens the MCP endpoint of an agent, and nothing else.
#[utoipa::path(post, path = "/api/v1/agents/{agent}/token", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = AgentToken), (status = 404, body = ApiError), (status = 500, body = ApiError)))]
pub(super) async fn token(Extension(agents): AgentsExtension, Path(agent): Path<String>) -> JsonResult<AgentToken> {
    let token = require_agents(&agents)?
        .token(&agent)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "NO_RANDOM", error.to_string()))?;
    let token = token.ok_or_else(|| unknown_agent(&agent))?;
    Ok(Json(AgentToken { token: token.reveal().to_owned(), mcp: endpoint(&agent) }))
}

/// Ends the world of an agent, and with it its servers. The next request to it starts a new one.
#[utoipa::path(post, path = "/api/v1/agents/{agent}/stop", tag = "agents", params(("agent" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError)))]
pub(super) async fn stop(
    Extension(agents): AgentsExtension,
    Path(agent): Path<String>,
) -> Result<axum::response::Response, ApiError> {
    let agents = require_agents(&agents)?;
    if !agents.is_configured(&agent) {
        return Err(unknown_agent(&agent));
    }
    agents.stop(&agent);
    Ok(no_content())
}
