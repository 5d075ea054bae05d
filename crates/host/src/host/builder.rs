//! Builds a [`Host`] from the parts that the embedding program brings: for example the asker, which answers questions,
//! the gate, which decides about calls, and the stores for facts about servers.

use std::{ffi::OsString, sync::Arc};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::task::TaskTracker;

use super::{
    Host,
    keeper::{Keeper, Lender},
};
use crate::{
    ask::{NoAsker, SharedAsker},
    call::{
        CallContext,
        counting::Quotas,
        gate::{AllowAll, Gate},
    },
    catalog::Naming,
    egress::Egress,
    event::Event,
    link::{
        ClientInfo, Connector, Observer, OnMessage, Recorder, Recording, SharedRecording, inbound::Events,
        process::supervisor::Supervisor,
    },
    pins::Pins,
    principal::Principal,
    resolve::{Answers, Artifacts, Authorizer, InheritingResolver, Memory, Resolver},
    server::ServerContext,
    trace::{ForwardingTracer, Tracer},
    witness::{Fact, Witness},
};

/// A receiver of events may be at most this many events behind; after that, it misses events.
const MAX_EVENTS_BEHIND: usize = 1_024;

/// The same limit for a host that borrows servers of a [lender](HostBuilder::lender). A team can have such a host for
/// each member, and the buffer for events takes most of its memory.
const MAX_EVENTS_BEHIND_BORROWER: usize = 128;

/// How many messages may wait for the keeper, the task that owns the set of servers.
const INBOX_LENGTH: usize = 16;

/// The dependencies of a [`Host`]. All have defaults.
#[derive(Default)]
#[must_use]
pub struct HostBuilder {
    resolver: Option<Arc<dyn Resolver>>,
    environment: Vec<(OsString, OsString)>,
    authorizer: Option<Arc<dyn Authorizer>>,
    memory: Option<Arc<dyn Memory>>,
    pins: Option<Arc<dyn Pins>>,
    artifacts: Option<Arc<dyn Artifacts>>,
    asker: Option<SharedAsker>,
    gate: Option<Arc<dyn Gate>>,
    quotas: Option<Arc<dyn Quotas>>,
    naming: Naming,
    supervisor: Option<Supervisor>,
    client: Option<ClientInfo>,
    tracer: Option<Arc<dyn Tracer>>,
    jitter: Option<u64>,
    witness: Option<Arc<dyn Witness>>,
    answers: Option<Arc<dyn Answers>>,
    egress: Egress,
    on_message: Option<OnMessage>,
    recorder: Option<Arc<Recorder>>,
    recording: Option<SharedRecording>,
    lender: Option<(Host, Principal)>,
    has_private_output: bool,
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder").finish_non_exhaustive()
    }
}

impl HostBuilder {
    /// Sets the variables that child processes may inherit, usually [`std::env::vars_os`]. Each process gets the
    /// variables that [`inherit_env`](crate::spec::Stdio::inherit_env) of its spec selects, by default a few harmless
    /// ones. Default: no variables; a program is then found only by its path, or by a `PATH` in its spec. A
    /// [resolver](Self::resolver) has its own variables, and replaces these.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Sets the resolver that fills in placeholders. Default: every string is used unchanged, and child processes
    /// inherit from [`Self::environment`].
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Sets the authorizer of requests to HTTP servers. Default: none.
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Sets the store for facts about servers that are kept across restarts, such as which generation of MCP (era) a
    /// server speaks. Default: none.
    pub fn memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the store for pins: the definitions of tools as they were first seen. A tool whose definition has changed
    /// since then waits for approval; see [`pins`](crate::pins). Default: none; definitions are not compared.
    pub fn pins(mut self, pins: Arc<dyn Pins>) -> Self {
        self.pins = Some(pins);
        self
    }

    /// Sets the store for results that are too large for a model. Default: the excess is left out, with a warning.
    pub fn artifacts(mut self, artifacts: Arc<dyn Artifacts>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Sets the asker, which answers questions. The host declares the abilities of the asker to servers when they
    /// connect. Default: [`NoAsker`].
    pub fn asker(mut self, asker: SharedAsker) -> Self {
        self.asker = Some(asker);
        self
    }

    /// Sets the quotas, which count what each caller uses. Default: none.
    pub fn quotas(mut self, quotas: Arc<dyn Quotas>) -> Self {
        self.quotas = Some(quotas);
        self
    }

    /// Sets the gate, which decides about calls. Default: [`AllowAll`].
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Sets the witness: the observer that records each call and connection in an audit log, without exception.
    /// Default: none.
    pub fn witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Sets the store for answers of users that shall outlast this program. Default: none; such an answer is then
    /// forgotten when the program ends.
    pub fn answers(mut self, answers: Arc<dyn Answers>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Sets the egress rules for requests to servers and for pages that they ask a user to open. Default:
    /// [`Profile::Local`].
    ///
    /// [`Profile::Local`]: crate::egress::Profile::Local
    pub fn egress(mut self, egress: Egress) -> Self {
        self.egress = egress;
        self
    }

    /// Sets the form of model-visible names. Default: `mcp__{server}__{tool}`, at most 64 characters.
    pub fn naming(mut self, naming: impl Into<Naming>) -> Self {
        self.naming = naming.into();
        self
    }

    /// Sets the supervisor of child processes, which ends all of them when this program ends. Usually it is
    /// [`Supervisor::this_program`], and `main` must then begin with
    /// [`supervisor::run_if_asked`](crate::supervisor::run_if_asked). Default: none. Without a supervisor, the end of a
    /// server also ends its process group, but processes that left the group survive.
    pub fn supervisor(mut self, supervisor: impl Into<Supervisor>) -> Self {
        self.supervisor = Some(supervisor.into());
        self
    }

    /// Sets the name and version that are sent to servers (MCP `clientInfo`). Default: those of this library.
    pub fn client(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.client = Some(ClientInfo { name: name.into(), version: version.into() });
        self
    }

    /// Sets the tracer, which connects calls with the traces of other programs. Default: the trace context of a call is
    /// forwarded to its server unchanged.
    pub fn tracer(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Sets an observer of each message between the host and its servers, in both directions. Default: none, at no
    /// cost. Lines that servers write to stderr are no messages, but [`Event::McpServerStderr`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolrack_host::{Direction, Host};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let host = Host::builder()
    ///     .on_message(Arc::new(|message| {
    ///         let arrow = if message.direction == Direction::Sent { "->" } else { "<-" };
    ///         eprintln!("{arrow} {}: {} bytes", message.server, message.bytes.len());
    ///     }))
    ///     .build();
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn on_message(mut self, on_message: OnMessage) -> Self {
        self.on_message = Some(on_message);
        self
    }

    /// Records each message between the host and its servers, for [`Self::replay`]. Default: none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolrack_host::{Host, Recorder, Recording};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let max_bytes = 1024 * 1024;
    /// // These servers have no secrets, so nothing is concealed.
    /// let conceal = Arc::new(str::to_owned);
    /// let recorder = Arc::new(Recorder::new(max_bytes, conceal));
    /// let host = Host::builder().record(recorder.clone()).build();
    /// // … use servers …
    /// host.shutdown().await;
    /// let recording = Recording::read("yesterday", &recorder.bytes()?)?;
    /// let host = Host::builder().replay(Arc::new(recording)).build();
    /// # host.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(mut self, recorder: Arc<Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Replays a recording instead of every server of any transport: no server is started or contacted, and no
    /// placeholder of an entry is resolved. A request that was not recorded fails with
    /// [`LinkError::NotRecorded`](crate::LinkError::NotRecorded). Default: none.
    pub fn replay(mut self, recording: Arc<Recording>) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Offers servers of another host, `lender`, in addition to the servers of this host: those that
    /// [`ServerSpec::is_for`](crate::ServerSpec::is_for) allows for `principal`. Their calls use the gate, asker and
    /// witness of this host, but `lender` starts and stops the servers. This host follows each change in the set of
    /// servers of `lender`. It also reports those events of a lent server that concern all its users: changes of its
    /// state, connections, disconnections, and changes of its prompts and resources. A server of this host replaces a
    /// lent server of the same name. Default: none.
    pub fn lender(mut self, lender: Host, principal: Principal) -> Self {
        self.lender = Some((lender, principal));
        self
    }

    /// Sets whether the errors of calls leave out the output of servers (stderr, and stdout outside of messages) and
    /// the file that configures a server. Where several principals share a server, its output may be about the call of
    /// another principal. [`Host::status`] and the events contain output and file in any case. Default: errors contain
    /// the end of the output.
    pub fn private_output(mut self, is_private: bool) -> Self {
        self.has_private_output = is_private;
        self
    }

    /// Makes the random part of the pauses before reconnecting deterministic, for reproducible tests.
    #[doc(hidden)]
    pub fn jitter(mut self, seed: u64) -> Self {
        self.jitter = Some(seed);
        self
    }

    /// Starts the host, without servers.
    ///
    /// # Panics
    /// Outside a tokio runtime with IO and time.
    #[must_use]
    pub fn build(self) -> Host {
        let (inbox, messages) = mpsc::channel(INBOX_LENGTH);
        let capacity = if self.lender.is_some() { MAX_EVENTS_BEHIND_BORROWER } else { MAX_EVENTS_BEHIND };
        let (sender, _) = broadcast::channel(capacity);
        let events = event_reporter(sender.clone(), self.witness.clone());
        let tasks = TaskTracker::new();
        let asker = self.asker.unwrap_or_else(|| Arc::new(NoAsker));
        let context = ServerContext {
            connector: Connector {
                resolver: self.resolver.unwrap_or_else(|| Arc::new(InheritingResolver(self.environment))),
                authorizer: self.authorizer,
                asker: asker.clone(),
                events: events.clone(),
                client: self.client.unwrap_or_else(own_client_info),
                supervisor: self.supervisor,
                clients: crate::link::Clients::default(),
                egress: self.egress,
                tracker: tasks.clone(),
                watched: Arc::default(),
                observer: Observer::new(self.on_message.into_iter().chain(self.recorder.map(Recorder::hook))),
                recording: self.recording,
            },
            memory: self.memory,
            pins: self.pins,
            tasks: tasks.clone(),
            wake_keeper: Arc::<Notify>::default(),
            jitter: self.jitter.unwrap_or_else(rand::random),
            has_private_output: self.has_private_output,
        };
        let servers = Arc::<ArcSwap<_>>::default();
        let catalog = Arc::<ArcSwap<_>>::default();
        let naming = Arc::new(ArcSwap::from_pointee(self.naming));
        let wake_keeper = context.wake_keeper.clone();
        let servers_changed = watch::Sender::new(());
        let lender = self.lender.map(|(lender, principal)| Lender::new(&lender, principal, sender.clone()));
        let keeper = Keeper::new(context, servers.clone(), servers_changed.clone(), catalog.clone(), naming.clone())
            .with_lender(lender);
        tasks.spawn(keeper.run(messages));
        Host {
            inbox,
            servers,
            servers_changed,
            catalog,
            events: sender,
            naming,
            wake_keeper,
            call_context: Arc::new(CallContext {
                gate: self.gate.unwrap_or_else(|| Arc::new(AllowAll)),
                quotas: self.quotas,
                asker,
                artifacts: self.artifacts,
                events,
                witness: self.witness,
                answer_store: self.answers,
                session_answers: Arc::default(),
                last_call_number: Arc::default(),
                tracer: self.tracer.unwrap_or_else(|| Arc::new(ForwardingTracer)),
            }),
            tasks,
            is_shut_down: Arc::default(),
        }
    }
}

/// Returns the function that sends events to all listeners, and the facts in them to the witness.
fn event_reporter(sender: broadcast::Sender<Event>, witness: Option<Arc<dyn Witness>>) -> Events {
    Arc::new(move |event| {
        if let Some((witness, fact)) = witness.as_ref().zip(witness_fact(&event)) {
            witness.record(fact);
        }
        // The only failure is that no receiver exists.
        let _ = sender.send(event);
    })
}

/// The name under which a host presents itself to servers unless its program sets another.
fn own_client_info() -> ClientInfo {
    ClientInfo { name: "toolrack".into(), version: env!("CARGO_PKG_VERSION").into() }
}

/// Returns the fact that the witness gets for `event`; `None` for an event that is only for observers, or about a call.
/// [`CallContext`] itself informs the witness of calls, with more detail than events have.
fn witness_fact(event: &Event) -> Option<Fact> {
    match event {
        Event::McpServerConnected { server, tool_count } => {
            Some(Fact::Connected { server: server.clone(), tools: *tool_count })
        }
        Event::McpServerError { server, error, call: None } => {
            Some(Fact::Failed { server: server.clone(), error: error.to_string() })
        }
        Event::McpServerDisconnected { server, reason } => {
            Some(Fact::Closed { server: server.clone(), reason: reason.as_ref().map(ToString::to_string) })
        }
        _ => None,
    }
}
