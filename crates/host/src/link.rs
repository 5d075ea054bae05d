//! Makes one connection to one server. No other module knows the format of MCP's messages.
//!
//! This module hides transports and eras, the generations of MCP (`legacy`: 2025-11-25 and older, `modern`:
//! 2026-07-28). [`Connector::connect`] returns a [`Connection`], whose [`Link`] lists, calls and reads. A connection
//! does not decide whether a call may run, and never reconnects by itself.

mod bounds;
mod channel;
mod contained;
pub(crate) mod decode;
mod duplex;
mod error;
pub(crate) mod framing;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod inbound;
mod message;
pub(crate) mod process;
mod protocol;
mod recording;
#[cfg(not(feature = "http"))]
mod without_http;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::split,
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use error::Demand;
pub use error::{LinkError, RefusedPart, RpcError};
pub(crate) use http::Clients;
pub(crate) use inbound::observe::Observer;
pub use inbound::{
    OnProgress,
    observe::{Direction, OnMessage, WireMessage},
};
pub(crate) use protocol::{
    handshake::{ClientInfo, MODERN, Session},
    rounds::Request,
};
pub(crate) use recording::SharedRecording;
pub use recording::{BadRecording, NotRecorded, Recorder, Recording, RecordingTooLarge};
#[cfg(not(feature = "http"))]
use without_http as http;

use self::{
    bounds::Bounds,
    channel::Channel,
    duplex::{Duplex, Streams},
    http::{HttpPlan, HttpTransport},
    inbound::{ConnectionEnd, Events, Inbound, MAX_MESSAGES_PER_SECOND},
    process::Process,
};
use crate::{
    ask::SharedAsker,
    egress::Egress,
    link::{
        channel::LinkTransport,
        http::legacy_sse,
        inbound::{rate::RateLimiter, topics::WatchedResources},
        process::child::{self, ChildCommand, Grace, Handle as ChildHandle, Supervisor},
        protocol::handshake::{HandshakeSettings, ended_by_probe, modern_meta, more_informative, shake_hands},
        recording::Player,
    },
    resolve::{Authorizer, Destination, Resolver},
    spec::{Era, Limits, Protocol, ServerName, ServerSpec, Stdio, Timeouts, Transport},
    text::quote,
};

/// The parts that every connection of a host needs.
#[derive(Clone)]
pub(crate) struct Connector {
    /// Resolves the placeholders in the configuration of servers.
    pub(crate) resolver: Arc<dyn Resolver>,
    /// Adds tokens to HTTP requests, and signs in.
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    /// Answers the questions of servers.
    pub(crate) asker: SharedAsker,
    pub(crate) events: Events,
    /// The name and version of this client, as servers see them.
    pub(crate) client: ClientInfo,
    /// Supervises child processes.
    pub(crate) supervisor: Option<Supervisor>,
    /// The HTTP clients, which connections share.
    pub(crate) clients: Clients,
    /// The rules for destinations of requests, and for pages that a user may open.
    pub(crate) egress: Egress,
    /// Tracks the tasks of all connections.
    pub(crate) tracker: TaskTracker,
    /// The resources with listeners.
    pub(crate) watched: Arc<WatchedResources>,
    /// Observes each message.
    pub(crate) observer: Observer,
    /// A recording that answers instead of all servers.
    pub(crate) recording: Option<SharedRecording>,
}

/// A live connection. Dropping this value ends the connection immediately, without the grace period of
/// [`Self::shutdown`].
pub(crate) struct Connection {
    pub(crate) link: Link,
    child: Option<ChildHandle>,
    /// Cancelling this ends all tasks of the connection.
    stop: CancellationToken,
    /// How long each step of a graceful end may take.
    grace: Duration,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.link.0.channel.connection_end.close(LinkError::Stopped);
        self.stop.cancel();
    }
}

impl Connection {
    /// Ends the connection gracefully: closes the child's stdin, or ends the session at the server. Returns when all
    /// parts of the connection have ended, after a few seconds at most.
    pub(crate) async fn shutdown(mut self) {
        self.link.0.channel.connection_end.close(LinkError::Stopped);
        if let LinkTransport::Http(http) = &self.link.0.channel.transport {
            http.end_session().await;
        }
        // Ends the reader and the writer, which closes the child's stdin.
        self.stop.cancel();
        if let Some(child) = self.child.take() {
            child.shutdown(Grace { stdin: self.grace, term: self.grace }).await;
        }
    }
}

/// The usable part of a connection. Cheap to clone; useless after the connection has ended.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    channel: Channel,
    session: Session,
    /// One permit for each request that may be under way at once.
    request_permits: Arc<Semaphore>,
    /// Counts the requests, so that [`Link::wait_until_unused`] notices new ones.
    request_count: AtomicU64,
    client: ClientInfo,
    asker: SharedAsker,
    timeouts: Timeouts,
    limits: Limits,
    runtime: Handle,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(&self.0.channel.inbound.server).finish()
    }
}

impl Link {
    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.0.timeouts
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Waits for the end of the connection and returns the reason.
    pub(crate) async fn closed(&self) -> LinkError {
        self.0.channel.connection_end.wait().await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.channel.connection_end.is_closed()
    }

    /// Waits until the server reports that its tools have changed.
    pub(crate) async fn tools_changed(&self) {
        self.0.channel.inbound.tools_changed.wait_and_clear().await;
    }

    fn channel(&self) -> &Channel {
        &self.0.channel
    }

    /// Waits until one more request may be sent; [`Limits::in_flight`] limits how many are under way at once. The
    /// caller must hold the permit until the request has ended.
    async fn request_permit(&self) -> Result<OwnedSemaphorePermit, LinkError> {
        self.0.request_count.fetch_add(1, Ordering::Relaxed);
        let permit = self.0.request_permits.clone().acquire_owned().await;
        permit.map_err(|_| LinkError::Stopped)
    }

    /// Waits until no request has used the link for `idle_time` and no caller listens to a resource; forever if
    /// `idle_time` is `None`.
    pub(crate) async fn wait_until_unused(&self, idle_time: Option<Duration>) {
        let Some(idle_time) = idle_time else {
            return pending().await;
        };
        let mut previous_count = self.0.request_count.load(Ordering::Relaxed);
        loop {
            sleep(idle_time).await;
            let count = self.0.request_count.load(Ordering::Relaxed);
            if count == previous_count && self.is_idle() && self.0.channel.inbound.topics().is_none() {
                return;
            }
            previous_count = count;
        }
    }

    /// Returns whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.request_permits.available_permits() == self.0.limits.in_flight
    }

    /// Returns whether the server declares the capability that `method` needs. A method without a capability of its own
    /// counts as offered.
    pub(crate) fn offers(&self, method: &str) -> bool {
        let capabilities = &self.0.session.capabilities;
        match method.split('/').next() {
            Some("tools") => capabilities.tools.is_some(),
            Some("resources") => capabilities.resources.is_some(),
            Some("prompts") => capabilities.prompts.is_some(),
            Some("completion") => capabilities.completions.is_some(),
            _ => true,
        }
    }

    /// Returns whether the server runs tool calls as tasks (2025-11-25).
    pub(crate) fn runs_tasks(&self) -> bool {
        let tasks = self.0.session.capabilities.tasks.as_ref();
        self.0.session.era == Era::Legacy && tasks.is_some_and(|tasks| tasks["requests"]["tools"]["call"].is_object())
    }

    /// Returns whether headers must repeat some arguments of a call, which only Streamable HTTP of the modern era
    /// requires.
    fn needs_param_headers(&self) -> bool {
        self.0.session.era == Era::Modern && matches!(self.0.channel.transport, LinkTransport::Http(_))
    }

    /// Returns the `_meta` members of a request that tell a modern server which questions `asker` can answer.
    fn meta_for(&self, asker: &SharedAsker) -> String {
        self.meta_with(asker.abilities())
    }

    /// Returns the `_meta` members that tell a modern server the `abilities` of this client. Empty for a legacy server.
    fn meta_with(&self, abilities: crate::Abilities) -> String {
        match self.0.session.era {
            Era::Legacy => String::new(),
            Era::Modern => modern_meta(&self.0.client, abilities),
        }
    }

    /// Runs a task of this connection, which ends with the connection.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let inbound = &self.0.channel.inbound;
        let stop = inbound.stop.clone();
        inbound.tracker.spawn_on(
            async move {
                stop.run_until_cancelled(task).await;
            },
            &self.0.runtime,
        );
    }
}

impl Connector {
    /// Returns a hook that turns each line that a child process writes to stderr into an event, within the rate limit.
    fn stderr_hook(&self, server: &ServerName) -> child::LineHook {
        let (events, server, rate_limiter) =
            (self.events.clone(), server.clone(), RateLimiter::new(MAX_MESSAGES_PER_SECOND));
        Arc::new(move |line| {
            // Do not report the number of dropped lines: errors quote the end of stderr in any case.
            if rate_limiter.allow().is_none() {
                return;
            }
            events(crate::Event::McpServerStderr { server: server.clone(), line: quote(line) });
        })
    }
}

/// An attempt to connect.
struct Attempt<'a> {
    connector: &'a Connector,
    name: &'a ServerName,
    spec: &'a ServerSpec,
    /// The era to try first.
    first_era: Era,
}

impl Connector {
    /// Waits until the user has signed in to a server that requires that; forever if the host has no sign-in.
    pub(crate) async fn signed_in(&self, name: &ServerName, spec: &ServerSpec) {
        if let (Some(authorizer), Transport::Http(http) | Transport::Sse(http)) = (&self.authorizer, &spec.transport)
            && let Ok(url) = http::resolved_url(&self.resolver, name, http).await
        {
            return authorizer.signed_in(Destination { server: name, url: &url, posts_to: None, spec: http }).await;
        }
        pending().await
    }

    /// Connects within the start-up time-out of `spec`. Tries `first_era` before the other era. Some servers exit on
    /// the request that probes for the modern era: starts such a server once more. Repeats nothing else.
    pub(crate) async fn connect(
        &self,
        name: &ServerName,
        spec: &ServerSpec,
        first_era: Era,
    ) -> Result<Connection, LinkError> {
        if let Some(setting) = spec.setting_without_validator() {
            let why = format!(
                "{setting} needs JSON Schemas checked in full, and this program checks none: build it with the feature \
                 `schema-validation` of toolrack-host, or leave the setting out"
            );
            return Err(LinkError::config("BUILT_WITHOUT_SCHEMA_VALIDATION", why));
        }
        let mut attempt = Attempt { connector: self, name, spec, first_era };
        let mut started_parts = StartedParts::default();
        let connect = async {
            match attempt.run(&mut started_parts).await {
                Err(error) if ended_by_probe(&error, spec.protocol, first_era) => {
                    attempt.first_era = Era::Legacy;
                    attempt.run(&mut started_parts).await.map_err(|second_error| more_informative(error, second_error))
                }
                result => result,
            }
        };
        match timeout(spec.timeouts.startup, connect).await {
            Ok(result) => result,
            Err(_) => Err(LinkError::SlowStart {
                after: spec.timeouts.startup,
                stderr: started_parts.process.as_ref().map(Process::stderr_so_far).unwrap_or_default(),
                noise: started_parts.inbound.as_deref().map(Inbound::noise_summary).unwrap_or_default(),
            }),
        }
    }
}

/// The parts that an attempt has started. They explain why the attempt took too long.
#[derive(Default)]
struct StartedParts {
    process: Option<Process>,
    inbound: Option<Arc<Inbound>>,
}

impl Attempt<'_> {
    /// Opens a connection and does the handshake.
    async fn run(&self, started_parts: &mut StartedParts) -> Result<Connection, LinkError> {
        let stop = CancellationToken::new();
        // The guard ends all parts of the connection if this attempt fails or is dropped.
        let guard = stop.clone().drop_guard();
        let parts = inbound::InboundParts {
            asker: self.connector.asker.clone(),
            events: self.connector.events.clone(),
            observer: self.connector.observer.clone(),
            server_requests: self.spec.limits.server_requests,
            tracker: self.connector.tracker.clone(),
            stop: stop.clone(),
        };
        let inbound = Inbound::new(self.name.clone(), parts);
        inbound.set_watched_resources(self.connector.watched.clone());
        started_parts.inbound = Some(inbound.clone());
        let connection_end = Arc::<ConnectionEnd>::default();
        let (transport, child) = self.open(&inbound, &connection_end, started_parts).await?;
        // For a server over HTTP, `open` has already set a page guard, and this call does nothing. Any other server is
        // a program on this machine, which could open any page itself.
        inbound.set_page_guard(self.connector.egress.guard_for_local_programs());
        let channel = Channel::new(transport, inbound, connection_end);
        let settings = HandshakeSettings {
            client: &self.connector.client,
            abilities: self.connector.asker.abilities(),
            protocol: self.protocol(),
            first_era: self.first_era,
        };
        let session = shake_hands(&channel, &settings).await.map_err(|error| self.explain(error))?;
        let link = Link(Arc::new(Inner {
            channel,
            session,
            request_permits: Arc::new(Semaphore::new(self.spec.limits.in_flight)),
            request_count: AtomicU64::new(0),
            client: self.connector.client.clone(),
            asker: self.connector.asker.clone(),
            timeouts: self.spec.timeouts.clone(),
            limits: self.spec.limits.clone(),
            runtime: Handle::current(),
        }));
        guard.disarm();
        Ok(Connection { link, child, stop, grace: self.spec.timeouts.shutdown })
    }

    /// If `error` is the exit of a container engine, returns an error that explains the exit status. Returns any other
    /// error unchanged.
    fn explain(&self, error: LinkError) -> LinkError {
        match &self.spec.transport {
            Transport::Stdio(stdio) if stdio.container.is_some() => contained::explain_exit(error),
            _ => error,
        }
    }

    /// Returns which eras to try.
    fn protocol(&self) -> Protocol {
        if let Some(recording) = &self.connector.recording {
            return recording.protocol(self.name);
        }
        match self.spec.transport {
            // The modern era has no HTTP+SSE transport.
            Transport::Sse(_) => Protocol::Legacy,
            _ => self.spec.protocol,
        }
    }

    /// Opens the transport of the server, and starts its process if it has one.
    async fn open(
        &self,
        inbound: &Arc<Inbound>,
        connection_end: &Arc<ConnectionEnd>,
        started_parts: &mut StartedParts,
    ) -> Result<(LinkTransport, Option<ChildHandle>), LinkError> {
        if let Some(recording) = &self.connector.recording {
            return Ok((LinkTransport::Recorded(Player::new(recording.clone(), inbound)), None));
        }
        let bounds = Bounds::of(&self.spec.limits);
        match &self.spec.transport {
            Transport::Stdio(stdio) => self.start_child(stdio, inbound, connection_end, started_parts).await,
            Transport::Http(http) => {
                let http = HttpTransport::new(&self.http_plan(http), inbound, connection_end).await?;
                Ok((LinkTransport::Http(http), None))
            }
            Transport::Sse(http) => {
                let duplex = legacy_sse::open(&self.http_plan(http), inbound, connection_end).await?;
                Ok((LinkTransport::Duplex(duplex), None))
            }
            Transport::Native(native) => {
                let (io, serve) = native.open(inbound.stop.clone());
                let stop = inbound.stop.clone();
                inbound.tracker.spawn(async move {
                    stop.run_until_cancelled(serve).await;
                });
                let (reader, writer) = split(io);
                let streams = Streams { reader, writer, process: None, bounds };
                Ok((LinkTransport::Duplex(Duplex::start(streams, inbound, connection_end)), None))
            }
        }
    }

    fn http_plan<'b>(&'b self, spec: &'b crate::spec::Http) -> HttpPlan<'b> {
        HttpPlan {
            server: self.name,
            spec,
            resolver: &self.connector.resolver,
            authorizer: self.connector.authorizer.as_ref(),
            clients: &self.connector.clients,
            // A server that a member of a team has added has rules of its own.
            egress: spec.added_by.as_ref().map_or(&self.connector.egress, |added_by| &added_by.egress),
            supervisor: self.connector.supervisor.as_ref(),
            bounds: Bounds::of(&self.spec.limits),
        }
    }

    async fn start_child(
        &self,
        stdio: &Stdio,
        inbound: &Arc<Inbound>,
        connection_end: &Arc<ConnectionEnd>,
        started_parts: &mut StartedParts,
    ) -> Result<(LinkTransport, Option<ChildHandle>), LinkError> {
        let plan = self.connector.resolver.stdio(self.name, stdio).await.map_err(LinkError::Resolve)?;
        let container = plan.container.map(|plan| Box::new(child::ContainerCommand::new(self.name, &plan)));
        let command = ChildCommand {
            container,
            program: plan.command.into(),
            args: plan.args.into_iter().map(Into::into).collect(),
            env: plan.env,
            cwd: plan.cwd,
            supervisor: self.connector.supervisor.clone(),
            confinement: plan.sandbox,
        };
        let child = child::spawn(command, Some(self.connector.stderr_hook(self.name)), &self.connector.tracker)
            .await
            .map_err(|error| LinkError::Spawn(Arc::new(error)))?;
        let process = Process::new(&child.handle, child.stderr);
        started_parts.process = Some(process.clone());
        let streams = Streams {
            reader: child.stdout,
            writer: child.stdin,
            process: Some(process),
            bounds: Bounds::of(&self.spec.limits),
        };
        Ok((LinkTransport::Duplex(Duplex::start(streams, inbound, connection_end)), Some(child.handle)))
    }
}
