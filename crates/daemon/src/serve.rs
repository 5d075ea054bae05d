//! Starts, serves and ends the daemon: its address, its routes, and its shutdown.
//!
//! A world is a host with its configuration, questions and events. The daemon has a world of its own. The worlds of
//! agents, of the tenants of a team and their members, and of sessions begin with the first request to them.

mod connections;
mod local;
mod services;
mod team;

use std::{
    convert::Infallible,
    fmt,
    future::{Future, ready},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::future::{BoxFuture, OptionFuture};
use tokio::{
    net::{TcpListener, TcpSocket, UnixListener, UnixStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_config::Loaded;
use toolrack_team::Authority;
use tower::{Layer, Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;

pub use self::team::Team;
use self::{
    local::Clients,
    services::{DaemonSettings, RouteExtensions, TeamDaemon, gateway_options, new_agents, new_session_worlds},
    team::{ServeParts, ThisReplica},
};
use crate::{
    agents,
    api::{self, Metrics},
    dashboard, endpoint,
    fair_limit::DEFAULT_PARTS,
    gateway::Gateway,
    guard::{self, Guard, Token, host_of},
    replicas::{NoIdentity, ReplicaOptions},
    rights::Right,
    routes,
    session_worlds::{self, SessionWorlds},
    streams, tenant_members,
    tls::Tls,
    unread,
    world::{Parts, World},
    worlds::{MakeWorld, WorldTimeouts},
};

/// The maximum number of HTTP connections at once. A client opens a few, and one more for each event stream that it
/// reads.
const MAX_CONNECTIONS: usize = 4_096;

/// The maximum number of HTTP connections that have not shown a valid token yet.
const MAX_UNAUTHENTICATED: usize = 512;

/// The default maximum number of sessions of one user that have servers of their own.
const MAX_SESSION_WORLDS: usize = 32;

/// How long a connection without a valid token may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection that has shown a valid token may take to send the head of the next request. Most clients close
/// an idle connection sooner.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// The backlog of a listening socket: how many connections may wait until the daemon accepts them. The system drops
/// further connections, and their clients try again after 1 s.
const BACKLOG: u32 = 4_096;

/// The pause after the system could not accept a connection, most likely because file descriptors had run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Decides whether to serve the process at the other end of a connection. Returns the connection to serve it, or `None`
/// to close the connection. The future must be ready in a bounded time.
pub type Admit = Arc<dyn Fn(UnixStream) -> BoxFuture<'static, Option<UnixStream>> + Send + Sync>;

/// The address of a daemon, and its limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address at which the daemon listens. Port 0 means any free port.
    pub listen: SocketAddr,
    /// The token that requests need.
    pub token: Token,
    /// The certificate with which the daemon speaks TLS at [`Self::listen`]. Without a certificate, it speaks plain
    /// HTTP.
    pub tls: Option<Tls>,
    /// Makes the daemon one of several replicas that serve its team. `None` for a daemon that serves alone.
    pub replica: Option<ReplicaOptions>,
    /// Names that requests may have in `Host`, besides the loopback names; each with its port, unless that is the
    /// default port. Pages at these names may send requests as well. With [`Self::tls`], their scheme must be https.
    /// Without, it may be http or https, because a proxy in front of the daemon may speak TLS.
    pub hosts: Vec<String>,
    /// Whether [`Self::listen`] may be an address that other machines can reach. `false` by default.
    pub remote: bool,
    /// How long calls under way may continue when the daemon ends. 3 seconds by default.
    pub grace: Duration,
    /// How long the daemon continues to serve everything when it is told to end. Meanwhile `/health` answers 404, so
    /// that load balancers send nothing more. After this time, the daemon answers only the checks of load
    /// balancers, until the calls under way have ended. Zero, the default, skips both: the daemon refuses new
    /// connections at once.
    pub drain: Duration,
    /// How long the world (servers, rules, questions and events) of an agent, a tenant, a member or a session continues
    /// to run without a request. 10 minutes by default.
    pub agent_idle: Duration,
    /// The maximum number of sessions of one user that have servers of their own (`share = "session"`). Beyond it, the
    /// daemon refuses a new session. 32 by default.
    pub session_worlds: usize,
    /// The maximum number of HTTP connections at once. Beyond it, a new connection replaces one that has shown no valid
    /// token, or waits if there is none. 4,096 by default. Each connection takes a file descriptor.
    pub connections: usize,
    /// The maximum number of connections that have shown valid tokens of one member of a team. Beyond it, the daemon
    /// refuses requests of that member on new connections. `None`, the default, means an eighth of `connections`.
    pub member_connections: Option<usize>,
    /// The maximum number of connections that have not shown a valid token. Beyond it, the daemon ends the one that was
    /// silent the longest. 512 by default.
    pub unauthenticated: usize,
    /// How long a connection that has not shown a valid token may take to send the head of each request. After this
    /// time, the daemon ends the connection. 10 seconds by default.
    pub head_timeout: Duration,
    /// As [`Self::head_timeout`], for a connection that has shown a valid token. 2 minutes by default.
    pub idle_timeout: Duration,
}

impl Options {
    /// The options of a daemon that listens at `port` of 127.0.0.1, where only this machine can reach it, with the
    /// defaults.
    #[must_use]
    pub fn local(port: u16, token: Token) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            listen,
            token,
            tls: None,
            replica: None,
            hosts: Vec::new(),
            remote: false,
            grace: Duration::from_secs(3),
            drain: Duration::ZERO,
            agent_idle: Duration::from_mins(10),
            session_worlds: MAX_SESSION_WORLDS,
            connections: MAX_CONNECTIONS,
            member_connections: None,
            unauthenticated: MAX_UNAUTHENTICATED,
            head_timeout: HEAD_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    fn connection_bounds(&self) -> connections::Bounds {
        connections::Bounds {
            max: self.connections,
            max_per_member: self.member_connections.unwrap_or(self.connections / DEFAULT_PARTS).max(1),
            unauthenticated: self.unauthenticated,
            head_timeout: self.head_timeout,
            idle_timeout: self.idle_timeout,
        }
    }
}

/// The current world of a daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CurrentWorld(Arc<World>);

impl CurrentWorld {
    /// Reads the configuration files again, waits until the host runs what they say, and returns the configuration.
    /// `None` if the daemon is about to end, or if the files cannot be used: the host then continues with the older
    /// configuration.
    pub async fn loaded(&self) -> Option<Arc<Loaded>> {
        self.0.reload().await.ok()?;
        Some(self.0.loaded())
    }

    /// Returns whether a user stopped the server `name` without changing a file.
    #[must_use]
    pub fn is_stopped(&self, name: &str) -> bool {
        self.0.is_stopped(name)
    }

    /// Returns when the daemon begins to end.
    pub async fn ending(&self) {
        self.0.ending.cancelled().await;
    }
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Other machines can reach the address, and [`Options::remote`] is not set.
    #[error("{0} can be reached from other machines: the daemon listens there only with permission")]
    Remote(SocketAddr),
    /// Another program listens at this address.
    #[error("{0} is in use by another program")]
    InUse(SocketAddr),
    /// The system does not let the daemon listen at the address.
    #[error("cannot listen on {address}: {kind}", kind = source.kind())]
    Listen {
        /// The address at which the daemon listens for clients, or for the other replicas.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The daemon has no key with which it proves itself to the other replicas.
    #[error(transparent)]
    NoIdentity(#[from] NoIdentity),
}

/// A daemon that listens. Dropping it before [`Self::run`] only stops listening: the caller, who made the host, has to
/// shut the host down.
pub struct Daemon {
    listener: TcpListener,
    address: SocketAddr,
    /// The beginning of the daemon's URLs.
    base_url: String,
    token: Token,
    tls: Option<Tls>,
    router: Router,
    gateway: Gateway,
    sessions: Option<Arc<SessionWorlds>>,
    local_socket: Option<(UnixListener, Admit)>,
    metrics: Metrics,
    world: Arc<World>,
    tasks: TaskTracker,
    replica: Option<ThisReplica>,
    bounds: connections::Bounds,
    grace: Duration,
    drain: Duration,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Binds the address, loads the configuration and begins to start its servers. `make_agent_world` makes the parts
    /// of an agent's world at the first request to that agent. `make_session_world` makes the parts of the world of a
    /// session that has servers of its own. With a `team`, the daemon serves the members of the team as well: each
    /// reaches the world of their own tenant, and never the daemon's own world.
    ///
    /// # Errors
    /// [`StartError`]. No server has been started then.
    pub async fn start(
        parts: Parts,
        make_agent_world: MakeWorld,
        make_session_world: Option<MakeWorld>,
        team: Option<Team>,
        options: Options,
    ) -> Result<Self, StartError> {
        let daemon_began = Instant::now();
        let bounds = options.connection_bounds();
        let Options { listen, token, tls, mut hosts, remote, agent_idle, session_worlds, replica, .. } = options;
        let (grace, drain) = (options.grace, options.drain);
        if !remote && !listen.ip().is_loopback() {
            return Err(StartError::Remote(listen));
        }
        let listen_error = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::InUse(listen),
            _ => StartError::Listen { address: listen, source },
        };
        let replica = replica.map(listen_for_siblings).transpose()?;
        let listener = bind(listen).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let base_url = base_url(address, tls.as_ref(), &hosts);
        hosts.extend(team.iter().map(|team| host_of(team.door.url())));
        let (tasks, ending) = (TaskTracker::new(), CancellationToken::new());
        let replica = match (&team, replica) {
            (Some(team), Some(replica)) => Some(team.replica(replica, &ending)?),
            _ => None,
        };
        // Nothing below fails, so servers may start now.
        let base = None;
        let world = World::start(parts, base, &tasks, ending, daemon_began).await;
        let team_url = team.as_ref().map(|team| team.door.url().clone());
        let timeouts = WorldTimeouts { idle: agent_idle, grace };
        let settings = Arc::new(DaemonSettings { daemon_began, hosts, address, team_url, timeouts, session_worlds });
        let gateway = Gateway::new(world.host.clone(), gateway_options(&world, &settings));
        let agents = new_agents(&settings, &world, make_agent_world, &tasks);
        let sessions = make_session_world.map(|make_parts| new_session_worlds(&settings, &world, make_parts, &tasks));
        let guard_agents = Arc::clone(&agents);
        let agent_token_opens = move |path: &str, token: &str| guard_agents.opens(path, token);
        let guard = Guard::new(token.clone(), address, tls.is_some(), &settings.hosts, Box::new(agent_token_opens));
        let extensions = RouteExtensions {
            world: Arc::clone(&world),
            gateway: gateway.clone(),
            agents: Some(agents),
            tenant_members: None,
            sessions: sessions.clone(),
        };
        let router = daemon_router(extensions, team.as_ref().map(|team| Arc::clone(&team.authority)));
        let ServeParts { router, guard, replica, tenants } = match team {
            Some(team) => {
                team.serve(router, guard, &TeamDaemon { settings: &settings, world: &world, tasks: &tasks }, replica)
            }
            None => ServeParts { router, guard, replica: None, tenants: None },
        };
        // The first layer is the outermost.
        let outer_layers = ServiceBuilder::new()
            .layer(middleware::from_fn(unread::read_rest))
            .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
            .layer(middleware::map_response(streams::disable_buffering));
        let router = with_layer(with_layer(router, CatchPanicLayer::new()), outer_layers);
        Ok(Self {
            listener,
            address,
            base_url,
            token,
            tls,
            router,
            gateway,
            sessions,
            local_socket: None,
            metrics: Metrics::new(Arc::clone(&world), tenants),
            world,
            tasks,
            replica,
            bounds,
            grace,
            drain,
        })
    }

    /// The address at which the daemon listens, with the port that the system has given it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The beginning of the URLs of the daemon: `http://` and its address; with TLS, `https://` and the first of
    /// [`Options::hosts`], if there is one.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The URL of the dashboard with the token in it, as secret as the token itself. The token stands behind `#`, which
    /// browsers do not send.
    #[must_use]
    pub fn dashboard(&self) -> String {
        format!("{}/#token={}", self.base_url, self.token.reveal())
    }

    /// The daemon's own world, for other code of this program that uses the same host.
    #[must_use]
    pub fn current(&self) -> CurrentWorld {
        CurrentWorld(Arc::clone(&self.world))
    }

    /// The metrics of the daemon, for an exporter of this program. `/metrics` shows the same metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Serves MCP on `socket` as well, as JSON lines without a token, to the processes that `admit` accepts. Without
    /// that check, a sandboxed server could connect to the socket, because a sandbox does not stop a process from doing
    /// so.
    ///
    /// # Errors
    /// When the system cannot poll the socket.
    pub fn serve_local_socket(&mut self, socket: std::os::unix::net::UnixListener, admit: Admit) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        self.local_socket = Some((UnixListener::from_std(socket)?, admit));
        Ok(())
    }

    /// Serves until `until` is ready, and then for another [`Options::drain`]. After that, the daemon accepts nothing
    /// new, streams end, and calls under way may continue for [`Options::grace`]. The caller shuts the host down
    /// afterwards.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let Self {
            listener,
            tls,
            router,
            gateway,
            sessions,
            local_socket,
            world,
            tasks,
            replica,
            bounds,
            grace,
            drain,
            ..
        } = self;
        let ending = world.ending.clone();
        if let Some((socket, admit)) = local_socket {
            let (clients, connection_tasks) = (Clients { gateway: gateway.clone(), sessions }, tasks.clone());
            let (world, ending) = (Arc::clone(&world), ending.clone());
            tasks.spawn(async move {
                world.until_applied().await;
                local::serve(socket, admit, clients, connection_tasks, ending).await;
            });
        }
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let (serve_siblings, heartbeat_task) = replica.map(|replica| replica.join(&router, &ending)).unzip();
        let serve_siblings = OptionFuture::from(serve_siblings);
        let routers = connections::Routers { router, ending_router: (!drain.is_zero()).then(api::ending_router) };
        let serve_clients = connections::serve(listener, acceptor, routers, bounds, ending.clone());
        let mut serve_future = pin!(async { tokio::join!(serve_clients, serve_siblings) });
        let has_ended = tokio::select! {
            _ = &mut serve_future => true,
            () = until => false,
        };
        world.draining.cancel();
        let has_ended = has_ended || (!drain.is_zero() && timeout(drain, &mut serve_future).await.is_ok());
        ending.cancel();
        // The connections end only when this function drops `serve_future`, because the gateway still reports abandoned
        // calls to its clients on them.
        if !has_ended && timeout(grace, &mut serve_future).await.is_err() {
            tracing::warn!("gave up calls that were still in flight after {} s", grace.as_secs_f64());
        }
        gateway.shutdown().await;
        tasks.close();
        tasks.wait().await;
        if let Some(heartbeat_task) = heartbeat_task {
            heartbeat_task.leave().await;
        }
    }
}

/// Listens at `address` like [`TcpListener::bind`], but with a longer backlog.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Without `SO_REUSEADDR`, closing connections of a daemon that has just ended would block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Listens for the siblings of this replica, which are the other replicas. Returns the options with the address that
/// the system has given.
fn listen_for_siblings(options: ReplicaOptions) -> Result<(ReplicaOptions, TcpListener), StartError> {
    let listen_error = |source| StartError::Listen { address: options.listen, source };
    let listener = bind(options.listen).map_err(listen_error)?;
    let listen = listener.local_addr().map_err(listen_error)?;
    Ok((ReplicaOptions { listen, ..options }, listener))
}

/// The beginning of the URLs of a daemon. With TLS, it has the name of the daemon if there is one, because a
/// certificate is usually for a name and not for an address.
fn base_url(address: SocketAddr, tls: Option<&Tls>, hosts: &[String]) -> String {
    match (tls, hosts.first()) {
        (None, _) => format!("http://{address}"),
        (Some(_), None) => format!("https://{address}"),
        (Some(_), Some(host)) => format!("https://{host}"),
    }
}

/// The routes of every world. All worlds share one router, to save memory: there may be a world for each member of a
/// team. [`RouteExtensions`] puts the data of the world into the extensions of each request.
static ROUTES: LazyLock<Router> = LazyLock::new(|| {
    let layers = ServiceBuilder::new()
        .layer(DefaultBodyLimit::max(api::MAX_BODY_BYTES))
        .layer(middleware::from_fn(wait_until_applied));
    with_layer(api::router().merge(agents::router()).merge(endpoints()), layers)
});

/// The routes of the daemon's own world: the control API, the MCP endpoint and the dashboard.
fn daemon_router(extensions: RouteExtensions, authority: Option<Arc<Authority>>) -> Router {
    let pages = dashboard::router().layer(middleware::from_fn(wait_until_applied));
    let add_extensions = middleware::map_request(move |mut request: Request| {
        extensions.add_to(request.extensions_mut());
        if let Some(authority) = &authority {
            request.extensions_mut().insert(Arc::clone(authority));
        }
        ready(request)
    });
    with_layer(ROUTES.clone().merge(pages), add_extensions)
}

/// Puts `layer` around the whole of `router`. [`Router::layer`] would put it around each route, and a request copies
/// all layers of its route.
fn with_layer<L>(router: Router, layer: L) -> Router
where
    L: Layer<Router>,
    L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    <L::Service as Service<Request>>::Response: IntoResponse,
    <L::Service as Service<Request>>::Future: Send,
{
    Router::new().fallback_service(layer.layer(router))
}

/// Delays every answer, except to monitors, until the first configuration has been applied. Without this delay, a
/// client could mistake a daemon that is still loading for a daemon without servers.
async fn wait_until_applied(Extension(world): Extension<Arc<World>>, request: Request, next: Next) -> Response {
    if !matches!(request.uri().path(), "/health" | "/ready") {
        world.until_applied().await;
    }
    next.run(request).await
}

/// The MCP endpoints, for principals with the right to call tools: one with all tools, and one for each profile. The
/// world of the member answers, and in it the world of the session.
fn endpoints() -> Router {
    let require_use = |request: Request, next: Next| routes::require_right(Right::Use, request, next);
    let all_tools = Gateway::shared_router().layer(middleware::from_fn(require_use));
    let profile = all_tools.clone().layer(middleware::from_fn(endpoint::move_profile_to_query));
    // The last layer is the outermost.
    Router::new()
        .nest(endpoint::ALL_TOOLS_ROUTE, all_tools)
        .nest(endpoint::PROFILE_ROUTE, profile)
        .route_layer(middleware::from_fn(session_worlds::to_session_world))
        .route_layer(middleware::from_fn(tenant_members::to_member_world))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use http::{Method, StatusCode};
    use tower::ServiceExt as _;

    use super::*;

    /// A layer that adds an `x` to the header `layers` of each answer.
    async fn mark(request: Request, next: Next) -> Response {
        let mut answer = next.run(request).await;
        let before = answer.headers().get("layers").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let value = format!("{before}x").parse().unwrap();
        answer.headers_mut().insert("layers", value);
        answer
    }

    #[tokio::test]
    async fn a_layer_around_a_router_sees_each_answer_once_whether_a_route_gave_it_or_not() {
        let inner = Router::new().route("/a", get(async || "a")).fallback(async || StatusCode::GONE);
        let outer = with_layer(inner, middleware::from_fn(mark)).merge(Router::new().route("/b", get(async || "b")));
        let ask = async |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let answer = outer.clone().oneshot(request).await.unwrap();
            (answer.status().as_u16(), answer.headers().get("layers").cloned())
        };
        let once = Some(http::HeaderValue::from_static("x"));
        assert_eq!(ask(Method::GET, "/a").await, (200, once.clone()));
        assert_eq!(ask(Method::POST, "/a").await, (405, once.clone()));
        assert_eq!(ask(Method::GET, "/c").await, (410, once), "the fallback of the inner router");
        assert_eq!(ask(Method::GET, "/b").await, (200, None), "a router that is merged later has no part in it");
    }
}
