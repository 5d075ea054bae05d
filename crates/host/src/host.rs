//! Contains [`Host`], the entry point of this library: it manages servers and offers their tools.
//!
//! A `Host` delegates to its modules. `builder` creates the host; the task in `keeper` owns the set of servers and
//! publishes catalogs (the tools of all servers); `finding` finds the tool of a call, and `call` makes the call; `relay`
//! and `subscriptions` forward resources, prompts and completions; `status` explains states; `indexer` keeps the search
//! index up to date; `own_tools` are the servers that the host provides itself.

mod builder;
mod finding;
mod indexer;
mod keeper;
mod own_tools;
mod relay;
mod session_answers;
mod status;
mod subscriptions;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::{FutureExt as _, future::join_all};
use serde_json::Value;
use tokio::{
    sync::{Notify, broadcast, mpsc, oneshot, watch},
    task::spawn_blocking,
    time::{timeout, timeout_at},
};
use tokio_util::task::TaskTracker;

pub use builder::HostBuilder;
pub use own_tools::{Interpreter, ScriptCallError, ScriptOutput, ScriptTools};
pub use relay::{Listing, Relay};
pub use status::{ServerStatus, Why, WhyStep};
pub use subscriptions::{SubscribeError, Subscriptions};

use self::{
    keeper::{ExtraServer, Message, Servers},
    own_tools::{Discovery, Scripts, hits_as_json},
};
use crate::{
    ask::SharedAsker,
    call::{Call, CallContext, CallError, Script, ShapedContent, Target, ToolOutcome, gate::Gate, shape_content},
    catalog::{Catalog, CatalogTool, Hit, Naming, Selection},
    event::Event,
    invisible::RemoveInvisible,
    link::{Link, LinkError, decode},
    mcp::{Content, Prompt, PromptResult, Resource, ResourceContents, ResourceTemplate},
    server::Server,
    spec::{BadServerName, Desired, Invisible, ServerName, ServerSpec, Transport},
    state::State,
    text,
    witness::Caller,
};

/// How long a search waits for the index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a shutdown waits for the tasks of the host.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Connections to a set of MCP servers, and the only way to call their tools.
///
/// Cheap to clone. When the last clone is dropped, every server is stopped; [`Self::shutdown`] stops them gracefully
/// and waits. All methods may be called concurrently.
#[derive(Clone)]
pub struct Host {
    /// Sends messages to the keeper, the task that owns the set of servers. Closed for an [excerpt](Self::excerpt) (a
    /// view of some servers), which has no keeper.
    inbox: mpsc::Sender<Message>,
    servers: Arc<ArcSwap<Servers>>,
    /// Notifies hosts that borrow from this one of each change in its set of servers.
    servers_changed: watch::Sender<()>,
    catalog: Arc<ArcSwap<Catalog>>,
    events: broadcast::Sender<Event>,
    call_context: Arc<CallContext>,
    naming: Arc<ArcSwap<Naming>>,
    /// Wakes the keeper when the catalog may be outdated.
    wake_keeper: Arc<Notify>,
    /// Every task of this host.
    tasks: TaskTracker,
    /// Whether the host was shut down. Excerpts share this flag with their host.
    is_shut_down: Arc<AtomicBool>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("servers", &self.servers.load().keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl Host {
    /// Returns the settings for model-visible names.
    #[must_use]
    pub fn naming(&self) -> Arc<Naming> {
        self.naming.load_full()
    }

    /// Changes the settings for model-visible names. If that changes any name, the host soon publishes a new catalog;
    /// in an older catalog, the names stay the same.
    pub fn set_naming(&self, naming: impl Into<Naming>) {
        let naming = naming.into();
        if **self.naming.load() != naming {
            self.naming.store(Arc::new(naming));
            self.wake_keeper.notify_one();
        }
    }

    /// Builds a host; [`apply`](Self::apply) then sets its servers.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Changes the set of servers to `desired`: starts new servers, stops removed ones, restarts changed ones, and
    /// leaves all others and their calls alone. Use it for start-up, hot reload, enabling, disabling and removal.
    /// Idempotent. Returns when the servers are started and stopped, without waiting for connections. If the future is
    /// dropped, the change may still happen. Does nothing after [`Self::shutdown`].
    pub async fn apply(&self, desired: Desired) {
        let (done, finished) = oneshot::channel();
        if self.inbox.send(Message::Apply(desired, done)).await.is_ok() {
            // This fails if the keeper ends first, in a shutdown. The same holds for the messages below.
            let _ = finished.await;
        }
    }

    /// Adds one server, or gives the server of that name another spec, and leaves all others alone. If the server has
    /// this spec already, nothing changes. A later [`Self::apply`] removes the server unless its set contains it.
    ///
    /// # Errors
    /// [`BadServerName`] if no server can have that name.
    pub async fn add(&self, name: impl Into<Arc<str>>, spec: ServerSpec) -> Result<(), BadServerName> {
        let name = ServerName::new(name)?;
        let (done, finished) = oneshot::channel();
        if self.inbox.send(Message::Add(name, Box::new(spec), done)).await.is_ok() {
            let _ = finished.await;
        }
        Ok(())
    }

    /// Stops one server, and leaves all others alone. Returns whether there was a server of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let (done, finished) = oneshot::channel();
        let sent = self.inbox.send(Message::Remove(name.to_owned(), done)).await;
        sent.is_ok() && finished.await.unwrap_or(false)
    }

    /// Waits until each server that may be started has ended its first attempt to connect, successfully or not. After
    /// a [`Self::reconnect`] of a server, waits for the first attempt since then. The start-up and listing time-outs of
    /// the servers bound the wait. Returns at once after [`Self::shutdown`].
    pub async fn settled(&self) {
        let servers = self.servers.load_full();
        join_all(servers.values().map(|server| server.settled())).await;
        // The keeper publishes the catalog right after the last server has settled.
        self.publish().await;
    }

    /// Waits as [`Self::settled`] does, but for each server at most until `limit` has passed since the server started,
    /// or since [`Self::reconnect`] was called for it.
    pub async fn settled_within(&self, limit: Duration) {
        let servers = self.servers.load_full();
        let waiting = servers.values().filter_map(|server| Some((server, server.round_deadline(limit)?)));
        let waiting: Vec<_> = waiting.map(|(server, deadline)| timeout_at(deadline, server.settled())).collect();
        if !waiting.is_empty() {
            join_all(waiting).await;
            // A server that has just settled may not be in the catalog yet.
            self.publish().await;
        }
    }

    /// Has the keeper publish the current tools of all servers.
    async fn publish(&self) {
        let (done, finished) = oneshot::channel();
        if self.inbox.send(Message::Publish(done)).await.is_ok() {
            let _ = finished.await;
        }
    }

    /// Returns the current tools. Never waits.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Returns the tools that match `query` best, by [`Catalog::search`] in the current catalog. Never blocks the
    /// thread. Waits up to 10 seconds for an index that is still being built; after that, the result is empty.
    pub async fn search(&self, query: &str, limit: usize, selection: &Selection) -> Vec<Hit> {
        let (catalog, query, selection) = (self.catalog(), query.to_owned(), selection.clone());
        let searching = spawn_blocking(move || catalog.search(&query, limit, &selection));
        // The result is empty after the time-out, and if the search thread fails.
        timeout(INDEX_TIMEOUT, searching).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the status of every configured server, by name. Never waits.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        let servers = self.servers.load();
        servers.iter().map(|(name, server)| ServerStatus::of(name, server)).collect()
    }

    /// Returns the state of every server, by name, as a word ([`State::word`](crate::State::word)), for callers that
    /// only count servers. Never waits.
    #[must_use]
    pub fn states(&self) -> Vec<(ServerName, &'static str)> {
        let servers = self.servers.load();
        servers.iter().map(|(name, server)| (name.clone(), server.state_word())).collect()
    }

    /// Subscribes to events from now on. A receiver that falls more than 1,024 events behind gets the number of missed
    /// events.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Calls a tool. The host never repeats a call, and calls of one server never wait for another server. The server's
    /// time-outs bound the call. A call wakes up a server that waits to reconnect. It also waits for a server that
    /// starts for the first time, if the tool may belong to it.
    ///
    /// Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// [`CallError`]; an error that the tool itself reports is a [`ToolOutcome`] with `is_error`.
    pub async fn call(&self, call: Call) -> Result<ToolOutcome, CallError> {
        let (call, tool, server) = self.find(call).await?;
        let script = self.script(&call, &tool, &server);
        self.call_context.call(call, &tool, &server, script).await
    }

    /// Calls a tool as [`Self::call`] does, but refuses to run a script: a script that starts other scripts would
    /// escape its bounds.
    pub(crate) async fn call_from_script(&self, call: Call) -> Result<ToolOutcome, CallError> {
        let (call, tool, server) = self.find(call).await?;
        if self.script(&call, &tool, &server).is_some() {
            let (server, tool) = (tool.server.clone(), tool.tool().name.clone());
            let why = "a script cannot start another script".to_owned();
            return Err(CallError::Denied { server, tool, why, unasked: false });
        }
        let script = None;
        self.call_context.call(call, &tool, &server, script).await
    }

    /// Prepares the script; `None` if the call does not run a script. Only the server that [`Self::scripts`] describes
    /// has [`Scripts`] as its extension.
    fn script(&self, call: &Call, tool: &CatalogTool, server: &Server) -> Option<Script> {
        let Transport::Native(native) = &server.spec.transport else {
            return None;
        };
        let scripts = native.extension::<Scripts>().filter(|_| Scripts::is_script_tool(&tool.tool().name))?;
        let (host, catalog) = (self.clone(), call.catalog().unwrap_or_else(|| self.catalog()));
        Some(Box::new(move |arguments, context| {
            async move { scripts.run(&arguments, host, catalog, context).await }.boxed()
        }))
    }

    /// Searches for [`ScriptTools::search`](crate::ScriptTools::search), with the limits of [`Self::search`]. Returns a
    /// JSON list, which is empty if the index is not ready in time.
    pub(crate) async fn search_for_script(
        &self,
        catalog: Arc<Catalog>,
        selection: Arc<Selection>,
        query: &str,
        limit: usize,
    ) -> String {
        let query = query.to_owned();
        let searching = spawn_blocking(move || hits_as_json(&catalog.search(&query, limit, &selection)));
        timeout(INDEX_TIMEOUT, searching).await.ok().and_then(Result::ok).unwrap_or_else(|| "[]".to_owned())
    }

    /// Returns the spec of a server, to [apply](Self::apply) under `name`, for a model that shall not get the
    /// definitions of all tools of `selection`. The server has three tools, with which the model finds and calls the
    /// others: `search_tools`, `get_tool_details` and `call_tool`.
    ///
    /// The gate, the events and all other parts treat a call of `call_tool` as a call of the tool in its arguments. The
    /// server's own tools are never in its selection. The server refers only to the catalog, so it does not keep the
    /// host alive. Each call of this method makes a different server. Keep the spec and use it for each
    /// [`Self::apply`]: with another spec, `apply` would restart the server.
    #[must_use]
    pub fn discovery(&self, name: &ServerName, selection: Selection) -> ServerSpec {
        let selection = selection.without_servers([name.clone()]);
        ServerSpec::native(Discovery::server(&self.catalog, selection))
    }

    /// Returns the spec of a server, to [apply](Self::apply) under `name`, with one tool, `run_code`: a model writes a
    /// script that calls the tools of `selection`, and `interpreter` runs the script. The result is what the script
    /// prints.
    ///
    /// The gate judges the call of `run_code`, and each call in the script. The calls in the script share the asker,
    /// the catalog and [`Call::conceal`] of the call of `run_code`. The server's own time-outs do not apply: each call
    /// in a script has the time-outs of its own server, and `interpreter` limits the rest. No script can call
    /// `run_code`.
    ///
    /// The description of `run_code` names the available tools, and changes with them. If a model needs the description
    /// at once, make this server last, when the others have [settled](Self::settled). As with [`Self::discovery`], keep
    /// the spec.
    #[must_use]
    pub fn scripts(&self, name: &ServerName, selection: Selection, interpreter: Arc<dyn Interpreter>) -> ServerSpec {
        let selection = selection.without_servers([name.clone()]);
        ServerSpec::native(Scripts::server(interpreter, &self.catalog, self.events.downgrade(), selection))
    }

    /// Returns the resources of a server, from all pages of its list.
    ///
    /// # Errors
    /// [`CallError`]. A server that does not support resources has an empty list.
    pub async fn resources(&self, server: &str) -> Result<Vec<Resource>, CallError> {
        self.list(server, "resources/list", "resources").await
    }

    /// Returns the resource templates of a server, from all pages of its list.
    ///
    /// # Errors
    /// The same as for [`Self::resources`].
    pub async fn resource_templates(&self, server: &str) -> Result<Vec<ResourceTemplate>, CallError> {
        self.list(server, "resources/templates/list", "resourceTemplates").await
    }

    /// Returns the prompts of a server, from all pages of its list.
    ///
    /// # Errors
    /// The same as for [`Self::resources`].
    pub async fn prompts(&self, server: &str) -> Result<Vec<Prompt>, CallError> {
        self.list(server, "prompts/list", "prompts").await
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<ResourceContents>, CallError> {
        self.read_resource_for(&Caller::default(), server, uri).await
    }

    /// Reads a resource for `caller`, whose quotas then apply.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn read_resource_for(
        &self,
        caller: &Caller,
        server: &str,
        uri: &str,
    ) -> Result<Vec<ResourceContents>, CallError> {
        let result = self.relay(server, Relay::resource(uri).caller(caller.clone())).await?;
        self.map_decode_error(server, uri, decode::resource_contents(&result))
    }

    /// Fills in a prompt.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<PromptResult, CallError> {
        self.get_prompt_for(&Caller::default(), server, name, arguments).await
    }

    /// Fills in a prompt for `caller`, whose quotas then apply.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get_prompt_for(
        &self,
        caller: &Caller,
        server: &str,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<PromptResult, CallError> {
        let arguments = arguments.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        let result = self.relay(server, Relay::prompt(name, arguments).caller(caller.clone())).await?;
        self.map_decode_error(server, name, decode::prompt_result(&result))
    }

    /// Converts content that `server` returned under `name` (the URI of a resource, the name of a prompt) into a form
    /// for a model, within the bounds for results of tools. Cuts text to the server's `max_output_bytes`. Content that
    /// is neither text nor displayable is stored as an artifact, and the text names the artifact.
    ///
    /// # Errors
    /// [`CallError::UnknownServer`].
    pub async fn shape(&self, server: &str, name: &str, content: Vec<Content>) -> Result<ShapedContent, CallError> {
        let known_server = self.server(server)?;
        let server_name = ServerName::new(server).map_err(|error| CallError::UnknownServer { server: error.name })?;
        Ok(shape_content(&self.call_context.shaper(&server_name, name, &known_server), content).await)
    }

    /// Explains why a tool, `server/tool`, is available or not. For a server alone, explains the progress of its
    /// connection.
    #[must_use]
    pub fn why(&self, selector: &str) -> Why {
        let servers = self.servers.load();
        status::why(selector, &servers, &self.catalog.load())
    }

    /// Explains as [`Self::why`] does, for callers that know the server and the tool. An empty `tool` stands for the
    /// server alone. Neither name is parsed; `selector` only names the tool in the result.
    #[must_use]
    pub fn why_of(&self, server: &ServerName, tool: &str, selector: &str) -> Why {
        status::why_of(server.as_str(), tool, selector, &self.servers.load(), &self.catalog.load())
    }

    /// Reconnects a server, in any state.
    ///
    /// # Errors
    /// [`CallError::UnknownServer`].
    pub fn reconnect(&self, server: &str) -> Result<(), CallError> {
        self.server(server).map(|server| server.reconnect())
    }

    /// Reads the pins of a server again. Call it after a change of pins, so that approved tools become usable
    /// immediately.
    ///
    /// # Errors
    /// [`CallError::UnknownServer`].
    pub fn pins_changed(&self, server: &str) -> Result<(), CallError> {
        self.server(server).map(|server| server.pins_changed())
    }

    /// Returns a view of some of the current servers, for a caller that may see no others. In the view, the catalog has
    /// only the tools of these servers, `asker` answers questions, and `gate` decides. The servers and their
    /// connections are those of this host, which also reports their events.
    ///
    /// Later changes to the configuration or to lists of tools do not change the view. [`Self::apply`],
    /// [`Self::settled`] and [`Self::shutdown`] of the view do nothing.
    pub async fn excerpt(
        &self,
        includes: impl Fn(&ServerName) -> bool,
        asker: SharedAsker,
        gate: Arc<dyn Gate>,
    ) -> Self {
        // Publish first, so that the catalog has the tools of every connected server.
        self.publish().await;
        let servers: Servers = self
            .servers
            .load()
            .iter()
            .filter(|(name, _)| includes(name))
            .map(|(name, server)| (name.clone(), server.clone()))
            .collect();
        let catalog = self.catalog.load().excerpt(includes);
        self.with_fixed_servers(servers, catalog, Arc::new(self.call_context.with_asker_and_gate(asker, gate)))
    }

    /// Returns an [excerpt](Self::excerpt) with all servers of this host and one more: the server of
    /// [`Self::discovery`], called `name`, for a model that cannot take the definitions of all tools of `selection`.
    /// Only the returned host has that server. The server ends when the last clone of the returned host is dropped.
    ///
    /// No other server may be called `name`. While this host is shutting down, the tools of discovery are missing.
    pub async fn with_discovery(&self, name: &ServerName, selection: Selection) -> Self {
        let spec = Box::new(self.discovery(name, selection));
        let (done, finished) = oneshot::channel();
        let sent = self.inbox.send(Message::StartExtra(name.clone(), spec, done)).await;
        let extra = if sent.is_ok() { finished.await.ok() } else { None };
        self.publish().await;
        let mut servers = Servers::clone(&self.servers.load());
        let current = self.catalog();
        let catalog = match extra {
            Some(ExtraServer { server, naming }) => {
                server.settled().await;
                let mut tool_sets = current.tool_sets();
                tool_sets.insert(name.clone(), server.snapshot().tools);
                servers.insert(name.clone(), server);
                // All tools get their names together: in a style that hides the server, another server may have a tool
                // of the same name.
                Catalog::build(current.version(), &tool_sets, &naming)
            }
            // The excerpt with all servers is a copy of the catalog.
            None => current.excerpt(|_| true),
        };
        self.with_fixed_servers(servers, catalog, self.call_context.clone())
    }

    /// Creates a host with these servers and this catalog, both fixed.
    fn with_fixed_servers(&self, servers: Servers, catalog: Catalog, call_context: Arc<CallContext>) -> Self {
        let no_tasks = TaskTracker::new();
        no_tasks.close();
        Self {
            // The receiver of this channel is dropped at once, so the inbox is closed.
            inbox: mpsc::channel(1).0,
            servers: Arc::new(ArcSwap::from_pointee(servers)),
            servers_changed: self.servers_changed.clone(),
            catalog: Arc::new(ArcSwap::from_pointee(catalog)),
            events: self.events.clone(),
            call_context,
            naming: self.naming.clone(),
            wake_keeper: self.wake_keeper.clone(),
            tasks: no_tasks,
            is_shut_down: self.is_shut_down.clone(),
        }
    }

    /// Stops every server, and waits until all child processes and tasks of this host have ended. Running calls fail.
    /// Takes at most 25 seconds, and usually a few milliseconds if the servers end when they are asked to.
    ///
    /// A shutdown is final: the host and its clones start no more servers. Calls and other requests fail with
    /// [`CallError::ShutDown`].
    pub async fn shutdown(&self) {
        // An excerpt has no keeper to stop, and must not mark its host as shut down.
        if !self.inbox.is_closed() {
            self.is_shut_down.store(true, Ordering::Relaxed);
        }
        let (done, finished) = oneshot::channel();
        if self.inbox.send(Message::Shutdown(done)).await.is_ok() {
            let _ = finished.await;
        }
        self.tasks.close();
        if timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some servers did not end in time");
        }
    }

    /// Returns the reason why the server `name` accepts no requests now; `None` when it is connected, or a call would
    /// start it. Unlike a call, this never waits, and does not wake up a server that waits to reconnect.
    #[must_use]
    pub fn not_ready(&self, name: &ServerName) -> Option<CallError> {
        let server = match self.server(name.as_str()) {
            Ok(server) => server,
            Err(error) => return Some(error),
        };
        let snapshot = server.snapshot();
        let is_ready = snapshot.open_link().is_some() || matches!(snapshot.state, State::Idle { .. });
        // The error names the server only, so it needs no name of an item.
        (!is_ready).then(|| Target { server_name: name, item_name: "", server: &server }.not_ready_error(snapshot))
    }

    fn server(&self, name: &str) -> Result<Arc<Server>, CallError> {
        let server = self.servers.load().get(name).cloned();
        server.ok_or_else(|| {
            let unknown = || CallError::UnknownServer { server: text::for_line(&text::clip(name, 200)).into_owned() };
            self.shut_down_error().unwrap_or_else(unknown)
        })
    }

    /// Returns the error for every look-up after a shutdown; `None` before it.
    fn shut_down_error(&self) -> Option<CallError> {
        self.is_shut_down.load(Ordering::Relaxed).then_some(CallError::ShutDown)
    }

    /// Reads a list, and applies the setting for invisible characters in the server's configuration.
    async fn list<T: serde::de::DeserializeOwned + RemoveInvisible + Send>(
        &self,
        server: &str,
        method: &'static str,
        field: &'static str,
    ) -> Result<Vec<T>, CallError> {
        let list = move |link: Link| async move {
            if !link.offers(method) {
                return Ok(Vec::new());
            }
            // The number of items that could not be parsed does not matter here.
            link.list(method, field).await.map(|(items, _)| items)
        };
        let mut items = self.on_link(server, method, list).await?;
        let invisible = self.server(server)?.spec.invisible.unwrap_or_default();
        if invisible == Invisible::Remove {
            items.iter_mut().for_each(RemoveInvisible::remove_invisible);
        }
        Ok(items)
    }

    /// Runs an operation without side effects on a server's link. Repeats it on a new link if the session was lost.
    /// `what` names the operation, or the item that it reads, in errors.
    ///
    /// `operation` is not an `AsyncFn`, because the compiler cannot require its futures to be `Send`.
    async fn on_link<T, F: Future<Output = Result<T, LinkError>> + Send>(
        &self,
        name: &str,
        what: &str,
        operation: impl Fn(Link) -> F + Send,
    ) -> Result<T, CallError> {
        let server = self.server(name)?;
        let name = ServerName::new(name).map_err(|error| CallError::UnknownServer { server: error.name })?;
        let target = Target { server_name: &name, item_name: what, server: &server };
        match operation(target.link(server.spec.timeouts.call).await?).await {
            Err(LinkError::SessionNotFound { .. }) => {
                operation(target.link(server.spec.timeouts.call).await?).await.map_err(|error| target.call_error(error))
            }
            answer => answer.map_err(|error| target.call_error(error)),
        }
    }

    /// Adds the name of `server` to the error if its answer could not be decoded. `what` names the resource or prompt.
    fn map_decode_error<T>(&self, server: &str, what: &str, decoded: Result<T, LinkError>) -> Result<T, CallError> {
        decoded.map_err(|error| match (self.server(server), ServerName::new(server)) {
            (Ok(server), Ok(name)) => Target { server_name: &name, item_name: what, server: &server }.call_error(error),
            _ => CallError::UnknownServer { server: text::for_line(server).into_owned() },
        })
    }
}
