//! Begins and ends the worlds of agents, tenants, members and sessions. A world is a host with its configuration,
//! questions and events. It begins with the first request to it, and ends after some time without a request.
//!
//! Each world has its own host, so that no world sees the servers of another world. Each world has the same endpoints
//! as the daemon's own world: the control API and the MCP endpoint.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_host::Principal;

use crate::{
    error::ApiError,
    event_log::EventLog,
    gateway::Gateway,
    membership::Membership,
    world::{Parts, World},
};

/// Makes the parts of the world with this id. The principal is the member of a team who sent the first request to the
/// world; `None` if the user of the machine sent it.
pub type MakeWorld =
    Box<dyn Fn(String, Option<Principal>) -> BoxFuture<'static, Result<WorldParts, NoWorld>> + Send + Sync>;

/// The parts of a world.
pub struct WorldParts {
    /// The same parts as for the daemon itself. The world shuts its host down when it ends.
    pub parts: Parts,
    /// Makes the worlds of the agents that the configuration of this world names. `None` for the world of an agent,
    /// which has no further agents.
    pub make_agent_world: Option<MakeWorld>,
    /// Makes the worlds of the members of a tenant.
    pub make_member_world: Option<MakeWorld>,
    /// Makes the worlds of the sessions of MCP clients, for servers that run once for each session.
    pub make_session_world: Option<MakeWorld>,
    /// Runs once this world and its servers have ended.
    pub after_end: BoxFuture<'static, ()>,
}

impl fmt::Debug for WorldParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldParts").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// Why a world cannot begin. The next request tries again.
#[derive(Clone, Debug)]
pub struct NoWorld {
    /// A message for users.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

/// Answers the requests to a world.
pub(crate) type RequestHandler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// Creates the router and the gateway of a world. The gateway ends with the world.
pub(crate) type MakeWorldEndpoints =
    Arc<dyn Fn(&Arc<World>, InnerWorldMakers, &TaskTracker) -> WorldEndpoints + Send + Sync>;

/// Makes the worlds that belong to a world.
pub(crate) struct InnerWorldMakers {
    /// Makes the worlds of its agents.
    pub(crate) make_agent_world: Option<MakeWorld>,
    /// Makes the worlds of its members.
    pub(crate) make_member_world: Option<MakeWorld>,
    /// Makes the worlds of its sessions.
    pub(crate) make_session_world: Option<MakeWorld>,
}

/// Time-outs of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldTimeouts {
    /// How long a world continues to run without a request.
    pub(crate) idle: Duration,
    /// How long requests under way may continue when the world has to end.
    pub(crate) grace: Duration,
}

/// The parts that several worlds share.
pub(crate) struct CommonParts {
    /// Makes the parts of each of these worlds.
    pub(crate) make_parts: MakeWorld,
    /// Makes the endpoints of each of these worlds.
    pub(crate) make_endpoints: MakeWorldEndpoints,
    /// When the daemon began.
    pub(crate) daemon_began: Instant,
    pub(crate) timeouts: WorldTimeouts,
    /// Cancelled when all of these worlds must end.
    pub(crate) ending: CancellationToken,
    /// Has the tasks that run these worlds.
    pub(crate) tasks: TaskTracker,
    /// For the worlds of members and sessions: the world whose configuration they use, in addition to the servers that
    /// each member has added.
    pub(crate) base: Option<Arc<World>>,
    /// An event log that gets the events of these worlds' questions, too, besides the worlds' own logs.
    pub(crate) question_log: Option<Arc<EventLog>>,
    /// The maximum number of these worlds at once. `None` if the configuration names each of them.
    pub(crate) limit: Option<WorldLimit>,
}

/// The maximum number of worlds of one kind at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldLimit {
    pub(crate) max_worlds: usize,
    /// Makes the answer to a request that would begin one more world. The argument is `max_worlds`.
    pub(crate) make_error: fn(usize) -> ApiError,
}

/// Worlds, by their ids.
pub(crate) struct Worlds {
    common: CommonParts,
    /// The worlds that are starting or running. A world that is ending is not in here.
    running: Mutex<BTreeMap<String, Arc<OnDemandWorld>>>,
}

/// A world that is starting, running or ending.
struct OnDemandWorld {
    /// The number of living [`WorldUse`] values. Requests under way count until their answers are sent, and connections
    /// until they end.
    use_count: watch::Sender<usize>,
    /// Cancelled when the world has to end.
    stop: CancellationToken,
    /// The phase of the world, which only the task that runs it ([`Worlds::run`]) changes.
    phase: watch::Sender<Phase>,
}

/// The endpoints of a world: they answer all of its requests.
#[derive(Clone)]
pub(crate) struct WorldEndpoints {
    /// Answers requests over HTTP.
    pub(crate) handle: RequestHandler,
    /// Serves MCP.
    pub(crate) gateway: Gateway,
}

/// The state of a world.
enum Phase {
    Starting,
    /// The world answers requests.
    Running(Arc<World>, WorldEndpoints),
    /// The world cannot begin.
    Failed(NoWorld),
    /// The world accepts no new request. Requests under way have their grace period.
    Ending,
    /// The grace period is over: requests that still wait get an error.
    GraceOver,
    /// The servers of the world have ended as well.
    Gone,
}

impl OnDemandWorld {
    /// The world, while it runs.
    fn world(&self) -> Option<Arc<World>> {
        match &*self.phase.borrow() {
            Phase::Running(world, _) => Some(Arc::clone(world)),
            _ => None,
        }
    }

    /// Waits until the world has begun, and returns its endpoints.
    ///
    /// # Errors
    /// The answer to send instead, if the world cannot begin or has to end.
    async fn endpoints(&self) -> Result<WorldEndpoints, ApiError> {
        let mut phases = self.phase.subscribe();
        let phase = tokio::select! {
            phase = phases.wait_for(|phase| !matches!(phase, Phase::Starting)) => phase,
            () = self.stop.cancelled() => return Err(ending_error("send the request again")),
        };
        match phase.as_deref() {
            Ok(Phase::Running(_, endpoints)) => Ok(endpoints.clone()),
            Ok(Phase::Failed(why)) => Err(no_world_error(why)),
            _ => Err(ending_error("send the request again")),
        }
    }

    /// Returns when the grace period is over.
    async fn until_grace_over(&self) {
        // Cannot fail, because the world itself owns the sender.
        let _ = self.phase.subscribe().wait_for(|phase| matches!(phase, Phase::GraceOver | Phase::Gone)).await;
    }
}

/// Marks the answer to a request that the world has not read, because the world is ending. The request can be sent
/// again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestNotRead;

/// A use of a world: a request, until its answer has been sent, or a connection. While there is a `WorldUse`, the world
/// does not end for lack of requests.
pub(crate) struct WorldUse(Arc<OnDemandWorld>);

impl WorldUse {
    /// Counts one more use of `world`. The caller, which has the world from [`Worlds::running`], still holds the lock
    /// of that map, so that the world cannot end before the use counts.
    fn of(world: &Arc<OnDemandWorld>) -> Self {
        world.use_count.send_modify(|count| *count += 1);
        Self(Arc::clone(world))
    }

    /// Waits until the world has begun and applied its configuration, and returns its gateway.
    ///
    /// # Errors
    /// The answer to send instead, if the world cannot begin or has to end.
    pub(crate) async fn gateway(&self) -> Result<Gateway, ApiError> {
        let gateway = self.0.endpoints().await?.gateway;
        if let Some(world) = self.0.world() {
            world.until_applied().await;
        }
        Ok(gateway)
    }
}

impl Drop for WorldUse {
    fn drop(&mut self) {
        self.0.use_count.send_modify(|count| *count -= 1);
    }
}

impl Worlds {
    pub(crate) fn new(common: CommonParts) -> Arc<Self> {
        Arc::new(Self { common, running: Mutex::default() })
    }

    /// Whether the world `id` is starting or running.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running.lock().contains_key(id)
    }

    /// How many worlds are starting or running.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.running.lock().len()
    }

    /// The running worlds, with their ids.
    pub(crate) fn running_worlds(&self) -> Vec<(String, Arc<World>)> {
        self.running.lock().iter().filter_map(|(id, on_demand)| Some((id.clone(), on_demand.world()?))).collect()
    }

    /// The world `id`, if it is running.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<World>> {
        self.running.lock().get(id)?.world()
    }

    /// Makes the world `id` end with its servers, once the requests under way have ended or run out of time. Does not
    /// wait for that. The next request starts a new world.
    pub(crate) fn stop(&self, id: &str) {
        if let Some(on_demand) = self.running.lock().get(id) {
            on_demand.stop.cancel();
        }
    }

    /// Stops each world whose id `selects` accepts and which no request uses, as [`Self::stop`] does.
    pub(crate) fn stop_unused_where(&self, selects: impl Fn(&str) -> bool) {
        let running = self.running.lock();
        // A new request needs this lock, so none can begin between the check and the stop.
        let unused = running.iter().filter(|(id, world)| selects(id) && *world.use_count.borrow() == 0);
        unused.for_each(|(_, world)| world.stop.cancel());
    }

    /// Ends the worlds whose ids `selects` accepts, all at once, and waits until their servers have ended.
    pub(crate) async fn end_where(&self, selects: impl Fn(&str) -> bool) {
        let ending: Vec<_> = {
            let running = self.running.lock();
            running.iter().filter(|(id, _)| selects(id)).map(|(_, world)| Arc::clone(world)).collect()
        };
        // First stop all of them, so that none continues while this waits for others.
        ending.iter().for_each(|world| world.stop.cancel());
        for world in ending {
            // Cannot fail, because `world` owns the sender.
            let _ = world.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Gone | Phase::Failed(_))).await;
        }
    }

    /// Lets the world `id` answer `request`, and starts it if it does not run.
    pub(crate) async fn answer(self: &Arc<Self>, id: &str, request: Request) -> Response {
        match self.enter(id, request.extensions().get()) {
            Ok(world_use) => Self::answer_in(world_use, request).await,
            Err(refused) => refused.into_response(),
        }
    }

    /// Lets the world of `world_use` answer `request`. The world stays in use until the answer has been sent.
    pub(crate) async fn answer_in(world_use: WorldUse, request: Request) -> Response {
        let WorldEndpoints { handle, .. } = match world_use.0.endpoints().await {
            Ok(endpoints) => endpoints,
            Err(refused) => {
                let mut response = refused.into_response();
                if world_use.0.stop.is_cancelled() {
                    response.extensions_mut().insert(RequestNotRead);
                }
                return response;
            }
        };
        // Pass on only the principal and the membership among the extensions: the path parameters of the outer router
        // are not valid in the inner one.
        let (mut parts, body) = request.into_parts();
        let mut inner_request = Request::new(body);
        if let Some(principal) = parts.extensions.remove::<Principal>() {
            inner_request.extensions_mut().insert(principal);
        }
        if let Some(membership) = parts.extensions.remove::<Membership>() {
            inner_request.extensions_mut().insert(membership);
        }
        (*inner_request.method_mut(), *inner_request.headers_mut(), *inner_request.uri_mut()) =
            (parts.method, parts.headers, parts.uri);
        *inner_request.version_mut() = parts.version;
        tokio::select! {
            response = handle(inner_request) => hold_until_sent(response, world_use),
            () = world_use.0.until_grace_over() => ending_error("the daemon gave up the request").into_response(),
        }
    }

    /// Counts a use of the world `id`, if it is starting or running.
    pub(crate) fn enter_running(&self, id: &str) -> Option<WorldUse> {
        let running = self.running.lock();
        running.get(id).map(WorldUse::of)
    }

    /// Counts a use of the world `id`, and starts the world for `principal` if it does not run.
    ///
    /// # Errors
    /// The answer to send instead, if there are too many worlds.
    pub(crate) fn enter(self: &Arc<Self>, id: &str, principal: Option<&Principal>) -> Result<WorldUse, ApiError> {
        let mut running = self.running.lock();
        let reached_limit = self.common.limit.filter(|limit| running.len() >= limit.max_worlds);
        let world = match running.entry(id.to_owned()) {
            Entry::Occupied(world) => Arc::clone(world.get()),
            Entry::Vacant(vacant) => {
                if let Some(limit) = reached_limit {
                    return Err((limit.make_error)(limit.max_worlds));
                }
                let stop = self.common.ending.child_token();
                let world = OnDemandWorld {
                    use_count: watch::Sender::new(0),
                    stop,
                    phase: watch::Sender::new(Phase::Starting),
                };
                let world = vacant.insert(Arc::new(world));
                let member = principal.filter(|principal| !principal.is_local()).cloned();
                self.common.tasks.spawn(Arc::clone(self).run(id.to_owned(), member, Arc::clone(world)));
                Arc::clone(world)
            }
        };
        Ok(WorldUse::of(&world))
    }

    /// Runs a world from its beginning to its end, and moves it through its phases.
    async fn run(self: Arc<Self>, id: String, member: Option<Principal>, on_demand: Arc<OnDemandWorld>) {
        let world_parts = match (self.common.make_parts)(id.clone(), member).await {
            Ok(world_parts) => world_parts,
            Err(why) => {
                self.running.lock().remove(&id);
                on_demand.phase.send_replace(Phase::Failed(why));
                return;
            }
        };
        let WorldParts { parts, make_agent_world, make_member_world, make_session_world, after_end } = world_parts;
        if let Some(log) = &self.common.question_log {
            parts.questions.log_to_daemon(&id, Arc::clone(log));
        }
        let tasks = TaskTracker::new();
        let (base, daemon_began) = (self.common.base.as_ref(), self.common.daemon_began);
        let world = World::start(parts, base, &tasks, on_demand.stop.child_token(), daemon_began).await;
        let endpoints = (self.common.make_endpoints)(
            &world,
            InnerWorldMakers { make_agent_world, make_member_world, make_session_world },
            &tasks,
        );
        let gateway = endpoints.gateway.clone();
        on_demand.phase.send_replace(Phase::Running(Arc::clone(&world), endpoints));
        if self.common.base.is_some() {
            // The member may have added servers while the world began. An error is ignored here: the tenant's world
            // reports the errors of the configuration.
            drop(world.reload().await);
        }
        self.until_unused(&id, &on_demand).await;
        on_demand.phase.send_replace(Phase::Ending);
        // Ends the event streams.
        world.ending.cancel();
        let mut use_count = on_demand.use_count.subscribe();
        // Requests that are still under way after the grace period get an error.
        let _ = timeout(self.common.timeouts.grace, use_count.wait_for(|use_count| *use_count == 0)).await;
        gateway.shutdown().await;
        on_demand.phase.send_replace(Phase::GraceOver);
        tasks.close();
        tasks.wait().await;
        world.host.shutdown().await;
        after_end.await;
        on_demand.phase.send_replace(Phase::Gone);
    }

    /// Waits until the world has been unused for [`WorldTimeouts::idle`], or has to end, and removes it from
    /// [`Self::running`].
    async fn until_unused(&self, id: &str, world: &Arc<OnDemandWorld>) {
        let mut use_count = world.use_count.subscribe();
        loop {
            let unused = async {
                // Cannot fail, because the world itself owns the sender.
                let _ = use_count.wait_for(|use_count| *use_count == 0).await;
                tokio::select! {
                    () = sleep(self.common.timeouts.idle) => true,
                    _ = use_count.changed() => false,
                }
            };
            let may_end = tokio::select! {
                () = world.stop.cancelled() => true,
                unused = unused => unused,
            };
            let mut running = self.running.lock();
            // A new request needs this lock, so none can begin between the check and the removal.
            if may_end && (world.stop.is_cancelled() || *world.use_count.borrow() == 0) {
                running.remove(id);
                return;
            }
        }
    }
}

/// The error for a request to a world that is ending.
fn ending_error(hint: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ENDING", "this world is about to end").hint(hint)
}

/// The error for a request to a world that cannot begin.
fn no_world_error(no_world: &NoWorld) -> ApiError {
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NO_WORLD", no_world.message.clone());
    match &no_world.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Holds `world_use` until the last byte of the answer has been sent, or the client has gone away. Cuts the answer
/// short when the grace period of the world is over: a turn, for example, must not continue without servers.
fn hold_until_sent(response: Response, world_use: WorldUse) -> Response {
    response.map(|body| {
        let sending = Some((body.into_data_stream(), world_use));
        Body::from_stream(stream::unfold(sending, async |sending| {
            let (mut pieces, world_use) = sending?;
            tokio::select! {
                piece = pieces.next() => Some((piece?, Some((pieces, world_use)))),
                () = world_use.0.until_grace_over() => {
                    Some((Err(axum::Error::new("the daemon gave up the request")), None))
                }
            }
        }))
    })
}

#[cfg(test)]
pub(crate) mod tests;
