//! Agents of `toolrack.toml`: each has a world of its own below `/agents/ID`, with a host of its own, so that no two
//! of them see each other's servers.
//!
//! The world of an agent begins with the first request to it, and ends after some time without one. Below its address
//! are the same services as those of the daemon itself: the control API and the MCP endpoint.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
    routing::any,
};
use futures::{StreamExt as _, future::BoxFuture};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_host::{Principal, text};
use tower::ServiceExt as _;

use crate::{
    error::ApiError,
    gateway::Gateway,
    guard::{NoRandom, Token},
    world::{Parts, World},
};

/// The path prefix of agents.
const PREFIX: &str = "/agents";

/// The characters of an id that are percent-encoded in a path: all but the unreserved ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Makes the parts of an agent's world, by the agent's id.
pub type ForAgents = Box<dyn Fn(String) -> AgentParts + Send + Sync>;

/// The parts of an agent's world.
pub struct AgentParts {
    /// The same parts as for the daemon itself, loaded for this agent. The world shuts its host down when it ends.
    pub parts: Parts,
    /// Done once that world has ended.
    pub then: BoxFuture<'static, ()>,
}

impl fmt::Debug for AgentParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentParts").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// Makes what answers the requests to an agent's world: the router, and the gateway in it.
pub(crate) type Serve = Box<dyn Fn(&Arc<World>) -> (Router, Gateway) + Send + Sync>;

/// Times of an agent's world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// How long it stays without a request.
    pub(crate) idle: Duration,
    /// How long requests under way may take when it is to end.
    pub(crate) grace: Duration,
}

/// The agents of a daemon.
pub(crate) struct Agents {
    base: Arc<World>,
    make: ForAgents,
    serve: Serve,
    times: Times,
    by_id: Mutex<ById>,
    tasks: TaskTracker,
}

/// The running agents and the tokens, by the ids of the agents.
#[derive(Default)]
struct ById {
    running: BTreeMap<String, Arc<Agent>>,
    /// The tokens for the agents' MCP endpoints. Each token is valid for one endpoint only.
    tokens: BTreeMap<String, Token>,
}

/// An agent whose world is starting, running or ending.
struct Agent {
    /// Requests under way, including those whose answers are still being sent.
    users: watch::Sender<usize>,
    /// Cancelled when the world has to end.
    stop: CancellationToken,
    /// The phase of the world, which only the task that runs it ([`Agents::live`]) changes.
    phase: watch::Sender<Phase>,
}

/// How far the world of an agent is.
enum Phase {
    Starting,
    /// The router answers requests.
    Running(Arc<World>, Router),
    /// The world accepts no new request. Requests under way have their grace period.
    Ending,
    /// The grace period is over: requests that still wait get no answer.
    Over,
}

impl Agent {
    /// The world, while it runs.
    fn world(&self) -> Option<Arc<World>> {
        match &*self.phase.borrow() {
            Phase::Running(world, _) => Some(Arc::clone(world)),
            _ => None,
        }
    }

    /// What answers requests, once the world has begun; `None` when it has to end.
    async fn router(&self) -> Option<Router> {
        let mut phases = self.phase.subscribe();
        let phase = tokio::select! {
            phase = phases.wait_for(|phase| !matches!(phase, Phase::Starting)) => phase.ok()?,
            () = self.stop.cancelled() => return None,
        };
        match &*phase {
            Phase::Running(_, router) => Some(router.clone()),
            _ => None,
        }
    }

    /// Ready when requests that still wait for an answer get none.
    async fn over(&self) {
        // Cannot fail, because the agent itself owns the sender.
        let _ = self.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Over)).await;
    }
}

/// One request to an agent, until its answer has been sent.
struct InUse(Arc<Agent>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.users.send_modify(|users| *users -= 1);
    }
}

impl Agents {
    /// The agents that the configuration of `base` names. Their tasks end with `base`, and are in `tasks`.
    pub(crate) fn new(base: Arc<World>, make: ForAgents, serve: Serve, times: Times, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { base, make, serve, times, by_id: Mutex::default(), tasks })
    }

    /// Everything below `/agents`.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new().route(&format!("{PREFIX}/{{agent}}/{{*rest}}"), any(answer)).with_state(Arc::clone(self))
    }

    /// The ids of the agents that are configured, and whether the world of each runs.
    pub(crate) fn list(&self) -> Vec<(String, bool)> {
        let by_id = self.by_id.lock();
        self.base.loaded().agents.iter().map(|id| (id.clone(), by_id.running.contains_key(id))).collect()
    }

    /// The token that opens the MCP endpoint of the agent `id`, and nothing else; the same until the daemon ends.
    /// `None` when no such agent is configured.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn token(&self, id: &str) -> Result<Option<Token>, NoRandom> {
        if !self.is_known(id) {
            return Ok(None);
        }
        let mut by_id = self.by_id.lock();
        if let Some(token) = by_id.tokens.get(id) {
            return Ok(Some(token.clone()));
        }
        let token = Token::new()?;
        by_id.tokens.insert(id.to_owned(), token.clone());
        Ok(Some(token))
    }

    /// Whether `given` opens `path`: it is the token of the agent whose endpoint that is, however its id is written.
    pub(crate) fn opens(&self, path: &str, given: &str) -> bool {
        let Some(id) = at_endpoint(path) else { return false };
        self.by_id.lock().tokens.get(&id).is_some_and(|token| token.is(given))
    }

    /// The worlds that have begun and not ended, by the ids of their agents.
    pub(crate) fn worlds(&self) -> Vec<(String, Arc<World>)> {
        self.by_id.lock().running.iter().filter_map(|(id, agent)| Some((id.clone(), agent.world()?))).collect()
    }

    /// The world of the agent `id`, if it has begun.
    pub(crate) fn world(&self, id: &str) -> Option<Arc<World>> {
        self.by_id.lock().running.get(id)?.world()
    }

    /// Ends the world of the agent `id`, and with it its servers, once what is under way has ended or run out of time.
    /// The next request begins it anew.
    pub(crate) fn stop(&self, id: &str) {
        if let Some(agent) = self.by_id.lock().running.get(id) {
            agent.stop.cancel();
        }
    }

    pub(crate) fn is_known(&self, id: &str) -> bool {
        self.base.loaded().agents.iter().any(|known| known == id)
    }

    /// The agent `id`, whose world begins if it does not run; `None` when it is not configured.
    fn enter(self: &Arc<Self>, id: &str) -> Option<InUse> {
        if !self.is_known(id) {
            return None;
        }
        let mut by_id = self.by_id.lock();
        let agent = match by_id.running.entry(id.to_owned()) {
            Entry::Occupied(agent) => Arc::clone(agent.get()),
            Entry::Vacant(place) => {
                let stop = self.base.ending.child_token();
                let agent = Agent { users: watch::Sender::new(0), stop, phase: watch::Sender::new(Phase::Starting) };
                let agent = place.insert(Arc::new(agent));
                self.tasks.spawn(Arc::clone(self).live(id.to_owned(), Arc::clone(agent)));
                Arc::clone(agent)
            }
        };
        agent.users.send_modify(|users| *users += 1);
        Some(InUse(agent))
    }

    /// The world of an agent, from its beginning to its end.
    async fn live(self: Arc<Self>, id: String, agent: Arc<Agent>) {
        let AgentParts { parts, then } = (self.make)(id.clone());
        // The daemon's own event log also tells of the questions that are asked here.
        parts.questions.log_to_daemon(&id, Arc::clone(&self.base.log));
        let tasks = TaskTracker::new();
        let world = World::start(parts, &tasks, agent.stop.child_token()).await;
        let (router, gateway) = (self.serve)(&world);
        agent.phase.send_replace(Phase::Running(Arc::clone(&world), router));
        self.until_unused(&id, &agent).await;
        agent.phase.send_replace(Phase::Ending);
        // Ends the event streams.
        world.ending.cancel();
        let mut users = agent.users.subscribe();
        let _ = timeout(self.times.grace, users.wait_for(|users| *users == 0)).await;
        gateway.shutdown().await;
        agent.phase.send_replace(Phase::Over);
        tasks.close();
        tasks.wait().await;
        world.host.shutdown().await;
        then.await;
    }

    /// Waits until the agent is unused for a while, or stopped, and removes it from the map.
    async fn until_unused(&self, id: &str, agent: &Arc<Agent>) {
        let mut users = agent.users.subscribe();
        loop {
            let unused = async {
                // Cannot fail, because the agent itself owns the sender.
                let _ = users.wait_for(|users| *users == 0).await;
                tokio::select! {
                    () = sleep(self.times.idle) => true,
                    _ = users.changed() => false,
                }
            };
            let is_over = tokio::select! {
                () = agent.stop.cancelled() => true,
                unused = unused => unused,
            };
            let mut by_id = self.by_id.lock();
            // A new request needs this lock, so none can begin between the check and the removal.
            if is_over && (agent.stop.is_cancelled() || *agent.users.borrow() == 0) {
                by_id.running.remove(id);
                return;
            }
        }
    }
}

/// Hands a request on to the world of its agent.
async fn answer(
    State(agents): State<Arc<Agents>>,
    Path((id, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (Some(in_use), Some(inside)) = (agents.enter(&id), inside(request.uri())) else {
        return unknown(&id).into_response();
    };
    let Some(router) = in_use.0.router().await else { return ending("ask once more") };
    // Of the extensions, only who asks: the path parameters of the outer router are not valid in the inner one.
    let (parts, body) = request.into_parts();
    let mut request = Request::new(body);
    if let Some(principal) = parts.extensions.get::<Principal>() {
        request.extensions_mut().insert(principal.clone());
    }
    (*request.method_mut(), *request.headers_mut(), *request.uri_mut()) = (parts.method, parts.headers, inside);
    *request.version_mut() = parts.version;
    tokio::select! {
        Ok(response) = router.oneshot(request) => until_sent(response, in_use),
        () = in_use.0.over() => ending("what was asked for was given up"),
    }
}

/// The answer while the world ends.
fn ending(hint: &str) -> Response {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ENDING", "the world of this agent is about to end")
        .hint(hint)
        .into_response()
}

/// `/agents/ID/REST` as the world of that agent knows it: `/REST`.
fn inside(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str().strip_prefix(PREFIX)?.strip_prefix('/')?;
    path[path.find('/')?..].parse().ok()
}

/// Where the world of the agent `id` is.
pub(crate) fn home(id: &str) -> String {
    let mut home = PREFIX.to_owned();
    home.push('/');
    home.extend(utf8_percent_encode(id, ENCODED));
    home
}

/// Where MCP clients find the tools of the agent `id`.
pub(crate) fn endpoint(id: &str) -> String {
    home(id) + "/mcp"
}

/// The id of the agent whose MCP endpoint is at `path`, as the router would find it: `/agents/ID/mcp` and no other,
/// whatever is encoded in ID.
fn at_endpoint(path: &str) -> Option<String> {
    let id = path.strip_prefix(PREFIX)?.strip_prefix('/')?.strip_suffix("/mcp")?;
    let id = percent_decode_str(id).decode_utf8().ok().filter(|_| !id.contains('/'))?;
    Some(id.into_owned())
}

/// Holds `in_use` until the last byte of the answer has been sent, or the client has gone away.
fn until_sent(response: Response, in_use: InUse) -> Response {
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _held = &in_use;
            piece
        }))
    })
}

/// No such agent is configured.
pub(crate) fn unknown(id: &str) -> ApiError {
    let clipped = text::clip(id, 200);
    let shown = text::for_line(&clipped);
    ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_AGENT", format!("no agent is called `{shown}`"))
        .hint("`[[agents]]` in toolrack.toml names them, GET /api/v1/agents lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_exactly_one_agent_in_every_spelling() {
        for id in ["my-agent", "a.b_c~d", "a/b c", "ä%2F"] {
            assert_eq!(at_endpoint(&endpoint(id)).as_deref(), Some(id));
        }
        assert_eq!(endpoint("my-agent"), "/agents/my-agent/mcp");
        assert_eq!(at_endpoint("/agents/my%2dagent/mcp").as_deref(), Some("my-agent"));
        for path in
            ["/agents/a/b/mcp", "/agents/a/mcp/", "/agents/a/mcp/x", "/agents/a%ff/mcp", "/agents/mcp", "/agentsa/mcp"]
        {
            assert_eq!(at_endpoint(path), None, "{path}");
        }
    }
}
