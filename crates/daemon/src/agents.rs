//! Agents of `toolrack.toml`: each has a [world](crate::worlds) of its own (a host with its configuration, questions
//! and events), which answers below `/agents/ID`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use axum::{
    Extension, Router,
    extract::{Path, Request},
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
    routing::any,
};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use toolrack_host::text;
use toolrack_team::NoRandom;

use crate::{
    error::ApiError,
    guard::Token,
    world::World,
    worlds::{CommonParts, Worlds},
};

/// The path prefix of agents.
const PREFIX: &str = "/agents";

/// The characters of an id that are percent-encoded in a path: all but the unreserved ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The maximum length of an unknown agent's id in an error.
const MAX_SHOWN_ID_BYTES: usize = 200;

/// The agents of a world.
pub(crate) struct Agents {
    /// The world whose configuration names the agents.
    parent_world: Arc<World>,
    worlds: Arc<Worlds>,
    /// The tokens for the agents' MCP endpoints, by the ids of the agents. Each is valid for one endpoint only.
    tokens: Mutex<BTreeMap<String, Token>>,
}

impl Agents {
    /// The agents that the configuration of `parent_world` names.
    pub(crate) fn new(parent_world: Arc<World>, common: CommonParts) -> Arc<Self> {
        Arc::new(Self { parent_world, worlds: Worlds::new(common), tokens: Mutex::default() })
    }

    /// The ids of the agents that are configured, and whether the world of each runs.
    pub(crate) fn list(&self) -> Vec<(String, bool)> {
        self.parent_world.loaded().agents.iter().map(|id| (id.clone(), self.worlds.is_running(id))).collect()
    }

    /// The token that opens the MCP endpoint of the agent `id`, and nothing else. It stays the same until the daemon
    /// ends. `None` when no such agent is configured.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn token(&self, id: &str) -> Result<Option<Token>, NoRandom> {
        if !self.is_configured(id) {
            return Ok(None);
        }
        let mut tokens = self.tokens.lock();
        if let Some(token) = tokens.get(id) {
            return Ok(Some(token.clone()));
        }
        let token = Token::new()?;
        tokens.insert(id.to_owned(), token.clone());
        Ok(Some(token))
    }

    /// Whether `token` opens `path`: it must be the token of the agent whose endpoint is at `path`. The path
    /// may have any percent-encoding of the agent's id.
    pub(crate) fn opens(&self, path: &str, token: &str) -> bool {
        let Some(id) = agent_at_endpoint(path) else { return false };
        self.tokens.lock().get(&id).is_some_and(|expected| expected.matches(token))
    }

    /// The worlds that have begun and not ended, by the ids of their agents.
    pub(crate) fn worlds(&self) -> Vec<(String, Arc<World>)> {
        self.worlds.running_worlds()
    }

    /// The world of the agent `id`, if it has begun.
    pub(crate) fn world(&self, id: &str) -> Option<Arc<World>> {
        self.worlds.get(id)
    }

    /// Ends the world of the agent `id` and its servers, once the requests under way have ended or run out of
    /// time. The next request starts a new one.
    pub(crate) fn stop(&self, id: &str) {
        self.worlds.stop(id);
    }

    pub(crate) fn is_configured(&self, id: &str) -> bool {
        self.parent_world.loaded().agents.iter().any(|configured| configured == id)
    }
}

/// The routes below `/agents`. They find the agents in the extensions of each request.
pub(crate) fn router() -> Router {
    Router::new().route(&format!("{PREFIX}/{{agent}}/{{*rest}}"), any(answer))
}

/// Passes a request on to the world of its agent.
async fn answer(
    Extension(agents): Extension<Weak<Agents>>,
    Path((id, _)): Path<(String, String)>,
    mut request: Request,
) -> Response {
    // The world of an agent or a member has no agents.
    let Some(agents) = agents.upgrade() else { return ApiError::no_route().into_response() };
    let Some(inner_uri) = inner_uri(request.uri()).filter(|_| agents.is_configured(&id)) else {
        return unknown_agent(&id).into_response();
    };
    *request.uri_mut() = inner_uri;
    agents.worlds.answer(&id, request).await
}

/// Strips the agent from a path: the world of an agent serves `/agents/ID/REST` as `/REST`.
fn inner_uri(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str().strip_prefix(PREFIX)?.strip_prefix('/')?;
    path[path.find('/')?..].parse().ok()
}

/// The path of the world of the agent `id`.
pub(crate) fn base_path(id: &str) -> String {
    let mut path = PREFIX.to_owned();
    path.push('/');
    path.extend(utf8_percent_encode(id, ENCODED));
    path
}

/// The path at which MCP clients find the tools of the agent `id`.
pub(crate) fn endpoint(id: &str) -> String {
    base_path(id) + "/mcp"
}

/// The id of the agent whose MCP endpoint is at `path`, as the router would match it: only `/agents/ID/mcp`, with any
/// percent-encoding in ID.
fn agent_at_endpoint(path: &str) -> Option<String> {
    let id = path.strip_prefix(PREFIX)?.strip_prefix('/')?.strip_suffix("/mcp")?;
    // A plain `/` belongs to a longer path, which is another route. A `/` of the id is percent-encoded.
    let decoded_id = percent_decode_str(id).decode_utf8().ok().filter(|_| !id.contains('/'))?;
    Some(decoded_id.into_owned())
}

/// The error for an agent that is not configured.
pub(crate) fn unknown_agent(id: &str) -> ApiError {
    let clipped = text::clip(id, MAX_SHOWN_ID_BYTES);
    let shown_id = text::for_line(&clipped);
    ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_AGENT", format!("no agent is called `{shown_id}`"))
        .hint("`[[agents]]` in toolrack.toml names them, GET /api/v1/agents lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_exactly_one_agent_in_every_spelling() {
        for id in ["my-agent", "a.b_c~d", "a/b c", "ä%2F"] {
            assert_eq!(agent_at_endpoint(&endpoint(id)).as_deref(), Some(id));
        }
        assert_eq!(endpoint("my-agent"), "/agents/my-agent/mcp");
        assert_eq!(agent_at_endpoint("/agents/my%2dagent/mcp").as_deref(), Some("my-agent"));
        for path in
            ["/agents/a/b/mcp", "/agents/a/mcp/", "/agents/a/mcp/x", "/agents/a%ff/mcp", "/agents/mcp", "/agentsa/mcp"]
        {
            assert_eq!(agent_at_endpoint(path), None, "{path}");
        }
    }
}
