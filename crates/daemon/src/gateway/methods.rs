//! The methods of MCP that the gateway (one MCP server in front of all others) answers: some at once, the others at the
//! end of a call that it starts.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, future::join_all};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::timeout;
use toolrack_host::{
    Catalog, CatalogTool, ClientTransport, Era, Principal, Relay, ServerName, SubscribeError, TraceContext, Way,
};

use super::{
    Gateway, Inner, cursor,
    directory::{Owner, long_uri},
    message::{Params, json},
    news::{self, Filter},
    parked::Origin,
    pending::PendingCall,
    protocol_names::VERSIONS,
    refusal::{Refusal, quoted},
    session::{ClientInfo, Session},
    subscriptions::ResourceSubscriptions,
    tool_call::{ListedCall, ToolCall},
    tools::{self, Cacheable},
    value_requests::NotGiven,
    view::View,
};

/// How long a server may take to accept a subscription. After this time, the client's request succeeds without that
/// subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The client that sent a request, with its principal and what it may see.
#[derive(Clone, Debug)]
pub(super) struct ClientCaller {
    pub(super) principal: Principal,
    pub(super) era: Era,
    pub(super) client: ClientInfo,
    pub(super) view: Arc<View>,
    /// Set for clients of the legacy era (2025-11-25 and older), and for all clients over stdio.
    pub(super) session: Option<Arc<Session>>,
    /// How the client is connected.
    pub(super) transport: ClientTransport,
}

impl ClientCaller {
    /// Returns the caller in the form that the host knows, for the policy, the questions to users and the audit log.
    fn to_host_caller(&self, gateway: &Inner) -> toolrack_host::Caller {
        let mut host_caller =
            toolrack_host::Caller::of(self.principal.clone(), Way::Gateway).with_transport(self.transport);
        if let Some(agent) = &gateway.options.agent {
            host_caller = host_caller.with_agent(Arc::clone(agent));
        }
        if let Some(profile) = self.view.profile() {
            host_caller = host_caller.with_profile(Arc::clone(profile));
        }
        if let Some(session) = &self.session {
            host_caller = host_caller.with_session(session.short_id());
        }
        match self.client.name.clone() {
            Some(name) => host_caller.with_client(name),
            None => host_caller,
        }
    }
}

/// The maximum length of a client's name, in bytes.
const MAX_CLIENT_NAME_BYTES: usize = 200;

/// The name that a client gives itself, cut to [`MAX_CLIENT_NAME_BYTES`].
pub(super) fn client_name(name: &str) -> Arc<str> {
    Arc::from(&*toolrack_host::text::clip(name, MAX_CLIENT_NAME_BYTES))
}

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: Params<'a>,
}

/// The result of a request.
pub(super) enum Reply {
    /// The result object.
    Now(Bytes),
    /// A call under way, which has the result at its end.
    Call(Box<RunningCall>),
    /// A subscription, whose notifications the transport sends.
    Listen(Box<Listening>),
}

/// The notifications for which a client of 2026-07-28 listens.
pub(super) struct Listening {
    pub(super) filter: Filter,
    pub(super) subscriptions: ResourceSubscriptions,
}

/// A running call, with what the transport needs to report on it.
pub(super) struct RunningCall {
    pub(super) call: PendingCall,
    pub(super) origin: Origin,
    /// The client's token for progress, as JSON; `None` when the client wants no progress.
    pub(super) progress_token: Option<Box<RawValue>>,
    pub(super) cacheable: Cacheable,
}

/// The parameters with which a client resumes a request (2026-07-28).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct ResumeParams<'a> {
    #[serde(borrow, default)]
    request_state: Option<Cow<'a, str>>,
    #[serde(default)]
    input_responses: Option<Map<String, Value>>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Meta {
    #[serde(default)]
    progress_token: Option<Box<RawValue>>,
    // The fields of a trace context take any value, because a malformed context must not fail the call.
    #[serde(default)]
    traceparent: Value,
    #[serde(default)]
    tracestate: Value,
    #[serde(default)]
    baggage: Value,
}

impl Meta {
    fn trace(&self) -> Option<TraceContext> {
        TraceContext::from_fields(|name| match name {
            "traceparent" => self.traceparent.as_str(),
            "tracestate" => self.tracestate.as_str(),
            // `baggage`, the only other field.
            _ => self.baggage.as_str(),
        })
    }
}

/// Reads parameters. The error quotes no text of the client except names of JSON fields.
fn parse_params<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(params).map_err(|error| Refusal::invalid_params(format!("the parameters: {error}")))
}

impl Gateway {
    /// Handles a request. Dropping the future, or its result, cancels the request.
    pub(super) async fn handle(&self, caller: &ClientCaller, request: ClientRequest<'_>) -> Result<Reply, Refusal> {
        let reply_now = |result: Result<Bytes, Refusal>| result.map(Reply::Now);
        let params = request.params.text();
        match (request.method, caller.era) {
            ("tools/call", _) => self.begin_or_resume_call(caller, request, "tools/call").await,
            ("resources/read", _) => self.begin_or_resume_call(caller, request, "resources/read").await,
            ("prompts/get", _) => self.begin_or_resume_call(caller, request, "prompts/get").await,
            ("tools/list", _) => {
                self.0.wait_for_starting_servers().await;
                reply_now(self.list_tools(caller, params).await)
            }
            ("resources/list", _) => reply_now(self.list(caller, params, "resources").await),
            ("resources/templates/list", _) => reply_now(self.list(caller, params, "resourceTemplates").await),
            ("prompts/list", _) => reply_now(self.list(caller, params, "prompts").await),
            ("completion/complete", _) => reply_now(self.complete(caller, params).await),
            ("server/discover", Era::Modern) => reply_now(Ok(self.discover_result())),
            ("subscriptions/listen", Era::Modern) => {
                #[derive(Deserialize)]
                struct Listen {
                    notifications: Filter,
                }
                let filter = parse_params::<Listen>(params)?.notifications;
                Ok(Reply::Listen(Box::new(self.subscribe_all(caller, filter).await)))
            }
            ("resources/subscribe", Era::Legacy) => reply_now(self.subscribe(caller, params).await),
            ("resources/unsubscribe", Era::Legacy) => reply_now(unsubscribe(caller, params)),
            ("ping", Era::Legacy) => reply_now(Ok(Bytes::from_static(b"{}"))),
            ("logging/setLevel", Era::Legacy) => reply_now(set_level(caller, params)),
            (method, _) => Err(Refusal::unknown_method(method)),
        }
    }

    /// The result as a client of `era` needs it: for 2026-07-28, with the fields of [`tools::add_required_fields`].
    pub(super) fn with_required_fields(&self, era: Era, result: Bytes, cacheable: Cacheable) -> Bytes {
        match era {
            Era::Legacy => result,
            Era::Modern => tools::add_required_fields(result, cacheable, &self.0.identity),
        }
    }

    /// The capabilities that the gateway announces to a client of `era`.
    fn capabilities(era: Era) -> Value {
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "prompts": {"listChanged": true},
            "completions": {},
        });
        if era == Era::Legacy {
            capabilities["logging"] = json!({});
        }
        capabilities
    }

    /// The result of `server/discover`.
    fn discover_result(&self) -> Bytes {
        let mut result = json!({"supportedVersions": VERSIONS, "capabilities": Self::capabilities(Era::Modern)});
        if let Some(instructions) = &self.0.options.instructions {
            result["instructions"] = json!(instructions);
        }
        self.with_required_fields(Era::Modern, result.to_string().into(), Cacheable::Yes)
    }

    /// The result of `initialize`.
    pub(super) fn initialize_result(&self, version: &str) -> Bytes {
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": Self::capabilities(Era::Legacy),
            "serverInfo": self.0.options.info(),
        });
        if let Some(instructions) = &self.0.options.instructions {
            result["instructions"] = json!(instructions);
        }
        result.to_string().into()
    }

    /// Lists the tools that the client sees, one page at a time.
    async fn list_tools(&self, caller: &ClientCaller, params: &str) -> Result<Bytes, Refusal> {
        let after_key = cursor_param(params)?;
        let (catalog, page_size) = (self.0.host.catalog(), self.0.options.bounds.page);
        let finish = |result: Bytes| self.with_required_fields(caller.era, result, Cacheable::Yes);
        let is_first_page = after_key.is_none();
        let result = tools::list(&catalog, &caller.view, caller.era, (after_key, page_size), finish);
        Ok(if is_first_page { self.with_credentials_tool(result, caller).await } else { result })
    }

    /// Lists resources, templates or prompts. `field` is the field of the result with the list.
    async fn list(&self, caller: &ClientCaller, params: &str, field: &'static str) -> Result<Bytes, Refusal> {
        let after_key = cursor_param(params)?;
        self.0.wait_for_starting_servers().await;
        let index = self.0.directory.read_fresh(&self.0.host).await;
        let entries = match field {
            "prompts" => &index.prompts,
            "resources" => &index.resources,
            _ => &index.templates,
        };
        let visible_entries = entries.iter().filter(|(_, entry)| caller.view.may_have(&entry.server));
        let items = visible_entries.map(|(name, entry)| (name.as_str(), &entry.item));
        let (items, next) = cursor::page(items, after_key.as_deref(), self.0.options.bounds.page);
        let mut result = json!({ field: items });
        if let Some(next) = next {
            result["nextCursor"] = json!(next);
        }
        Ok(self.with_required_fields(caller.era, result.to_string().into(), Cacheable::Yes))
    }

    /// Completes an argument of a prompt or of a resource template, at the server that has it.
    async fn complete(&self, caller: &ClientCaller, params: &str) -> Result<Bytes, Refusal> {
        let mut params: Map<String, Value> = parse_params(params)?;
        // `_meta` belongs to the client's own request.
        params.shift_remove("_meta");
        // A missing `ref` becomes `null`, which is refused below.
        let reference = params.get("ref").cloned().unwrap_or_default();
        let (key, name) = match reference["type"].as_str() {
            Some("ref/prompt") => ("name", reference["name"].as_str()),
            Some("ref/resource") => ("uri", reference["uri"].as_str()),
            _ => return Err(Refusal::invalid_params("`ref` is neither a ref/prompt nor a ref/resource")),
        };
        let name = name.ok_or_else(|| Refusal::invalid_params(format!("`ref` has no `{key}`")))?;
        let find_entry = self.0.find_offered(|index| {
            let entries = if key == "name" { &index.prompts } else { &index.templates };
            // A `ref/resource` names a template, or else a resource.
            let entry = entries.get(name).or_else(|| index.resources.get(name).filter(|_| key == "uri"));
            entry.filter(|entry| caller.view.may_have(&entry.server)).cloned()
        });
        let entry =
            find_entry.await.ok_or_else(|| Refusal::invalid_params(format!("there is no {key} {}", quoted(name))))?;
        params.insert("ref".into(), json!({"type": reference["type"], key: entry.native_name}));
        let relay = Relay::completion(params).caller(caller.to_host_caller(&self.0));
        let result = self.0.host.relay(entry.server.as_str(), relay).await;
        let result = result.map_err(|error| Refusal::from_host(error, caller.era))?;
        Ok(self.with_required_fields(caller.era, result, Cacheable::No))
    }

    /// Begins a call, or resumes a parked call for which the client sends answers.
    async fn begin_or_resume_call(
        &self,
        caller: &ClientCaller,
        request: ClientRequest<'_>,
        method: &'static str,
    ) -> Result<Reply, Refusal> {
        let params = request.params.text();
        let resume_params: ResumeParams<'_> = parse_params(params)?;
        let origin = Origin {
            method,
            params: request.params.bytes(),
            view: caller.view.clone(),
            principal: caller.principal.clone(),
        };
        let trace = resume_params.meta.as_ref().and_then(Meta::trace);
        let progress_token =
            resume_params.meta.and_then(|meta| meta.progress_token).filter(|token| is_progress_token(token));
        let call = match &resume_params.request_state {
            Some(state) if caller.era == Era::Modern => {
                let mut parked_call = self.0.memory.resume(state, &origin)?;
                parked_call.give_answers(resume_params.input_responses.unwrap_or_default());
                // The client is asked again for the answers that are missing or not valid.
                if !parked_call.questions.is_empty() {
                    return self.0.memory.park(parked_call).map(Reply::Now);
                }
                parked_call.call
            }
            _ => match method {
                "tools/call" => self.call_tool(caller, params, progress_token.is_some(), trace).await?,
                "resources/read" => self.read_resource(caller, params, trace).await?,
                _ => self.get_prompt(caller, params, trace).await?,
            },
        };
        let cacheable = if method == "resources/read" { Cacheable::Yes } else { Cacheable::No };
        Ok(Reply::Call(Box::new(RunningCall { call, origin, progress_token, cacheable })))
    }

    /// The tool that a client with `view` means by this name.
    pub(super) fn find_tool<'c>(
        &self,
        catalog: &'c Catalog,
        view: &View,
        name: &str,
    ) -> Result<&'c CatalogTool, Refusal> {
        let tool = view.snapshot().find(catalog, name);
        tool.ok_or_else(|| Refusal::invalid_params(format!("Unknown tool: {}", quoted(name))))
    }

    /// Prepares the call of a tool. First waits for the servers that may have the tool; the call itself then waits for
    /// values that the member has to give.
    async fn call_tool(
        &self,
        caller: &ClientCaller,
        params: &str,
        wants_progress: bool,
        trace: Option<TraceContext>,
    ) -> Result<PendingCall, Refusal> {
        #[derive(Deserialize)]
        #[serde(expecting = "an object")]
        struct Params {
            name: String,
            #[serde(default)]
            arguments: Option<Map<String, Value>>,
        }
        let Params { name, arguments } = parse_params(params)?;
        let host_caller = caller.to_host_caller(&self.0);
        let mut catalog = self.0.host.catalog();
        if self.find_tool(&catalog, &caller.view, &name).is_err() {
            let selector = caller.view.snapshot().selector(&name);
            self.0.wait_for_tool(&selector).await;
            catalog = self.0.host.catalog();
        }
        let tool_call = ToolCall { name, arguments, host_caller, wants_progress, trace };
        let (server, name) = match self.find_tool(&catalog, &caller.view, &tool_call.name) {
            Ok(tool) => (tool.server.clone(), tool.tool().name.clone()),
            Err(unknown_tool) => return self.call_unlisted(caller, tool_call).await.ok_or(unknown_tool),
        };
        let (gateway, caller, tool_call) = (self.0.clone(), caller.clone(), ToolCall { name, ..tool_call });
        Ok(PendingCall::new(move |updates| {
            async move {
                match gateway.request_values(&server, &caller, &updates).await {
                    Ok(()) => gateway.run_tool_call(ListedCall { server, catalog, tool_call }, &caller, updates).await,
                    Err(NotGiven(result)) => Ok(result),
                }
            }
            .boxed()
        }))
    }

    /// Prepares to read a resource at the server that has it.
    async fn read_resource(
        &self,
        caller: &ClientCaller,
        params: &str,
        trace: Option<TraceContext>,
    ) -> Result<PendingCall, Refusal> {
        let uri = uri_param(params)?;
        let (server, native_name) = self.find_owner(caller, &uri).await?;
        let relay = Relay::resource(&native_name).trace(trace);
        Ok(self.relay_call(caller, server, relay, move |result| with_requested_uri(&result, &native_name, &uri)))
    }

    /// The server of the resource that a client means by `uri`, and the URI of the resource at that server.
    async fn find_owner(&self, caller: &ClientCaller, uri: &str) -> Result<(ServerName, String), Refusal> {
        let owner = self.0.find_offered(|index| match index.owner(uri, &caller.view) {
            Owner::Unknown => None,
            owner => Some(owner),
        });
        match owner.await {
            Some(Owner::One(server, native_name)) => Ok((server, native_name)),
            Some(Owner::Several(servers)) => {
                let names: Vec<_> = servers.iter().map(|server| long_uri(server, uri)).collect();
                let why = format!("several servers have {}; ask for one of {}", quoted(uri), names.join(", "));
                Err(Refusal::not_found(caller.era, uri, &why))
            }
            _ => Err(Refusal::not_found(caller.era, uri, &quoted(uri))),
        }
    }

    /// Subscribes a client of the legacy era to a resource.
    async fn subscribe(&self, caller: &ClientCaller, params: &str) -> Result<Bytes, Refusal> {
        let uri = uri_param(params)?;
        let session =
            caller.session.as_ref().ok_or_else(|| Refusal::invalid_request("subscriptions need a session"))?;
        let owner = self.find_owner(caller, &uri).await?;
        session.subscriptions.add(&self.0.host, &uri, owner).await.map_err(|error| match error {
            SubscribeError::Call(error) => Refusal::from_host(error, caller.era),
            // A bound of the gateway, whose name follows.
            error @ SubscribeError::TooMany { .. } => Refusal::invalid_request(format!("{error} (subscriptions)")),
            error => Refusal::invalid_request(error.to_string()),
        })?;
        Ok(Bytes::from_static(b"{}"))
    }

    /// Subscribes to all resources of `filter` concurrently. Removes a resource from the filter if that fails or takes
    /// too long.
    async fn subscribe_all(&self, caller: &ClientCaller, mut filter: Filter) -> Listening {
        let limit = self.0.options.bounds.subscriptions;
        let subscriptions = ResourceSubscriptions::new(caller.principal.clone(), limit);
        let subscribe = async |uri: String| {
            let add = async {
                let owner = self.find_owner(caller, &uri).await.ok()?;
                subscriptions.add(&self.0.host, &uri, owner).await.ok()
            };
            let is_subscribed = matches!(timeout(SUBSCRIBE_TIMEOUT, add).await, Ok(Some(())));
            is_subscribed.then_some(uri)
        };
        let requested_uris = std::mem::take(&mut filter.resource_subscriptions);
        let subscribed_uris = join_all(requested_uris.into_iter().take(limit).map(subscribe)).await;
        filter.resource_subscriptions = subscribed_uris.into_iter().flatten().collect();
        Listening { filter, subscriptions }
    }

    /// Prepares to get a prompt from the server that has it.
    async fn get_prompt(
        &self,
        caller: &ClientCaller,
        params: &str,
        trace: Option<TraceContext>,
    ) -> Result<PendingCall, Refusal> {
        #[derive(Deserialize)]
        #[serde(expecting = "an object")]
        struct Params {
            name: String,
            #[serde(default)]
            arguments: Option<Map<String, Value>>,
        }
        let Params { name, arguments } = parse_params(params)?;
        let find_entry = self.0.find_offered(|index| {
            index.prompts.get(&name).filter(|entry| caller.view.may_have(&entry.server)).cloned()
        });
        let unknown = || Refusal::invalid_params(format!("Unknown prompt: {}", quoted(&name)));
        let entry = find_entry.await.ok_or_else(unknown)?;
        let relay = Relay::prompt(&entry.native_name, arguments.unwrap_or_default()).trace(trace);
        Ok(self.relay_call(caller, entry.server, relay, |result| result))
    }

    /// A call that relays a request to `server`, and the server's questions to the client. `finish` adapts the result.
    fn relay_call(
        &self,
        caller: &ClientCaller,
        server: ServerName,
        relay: Relay,
        finish: impl FnOnce(Bytes) -> Bytes + Send + 'static,
    ) -> PendingCall {
        let (gateway, caller) = (self.0.clone(), caller.clone());
        let host_caller = caller.to_host_caller(&self.0);
        PendingCall::new(move |updates| {
            async move {
                let relay = relay.asker(gateway.asker(&caller, updates)).caller(host_caller);
                let result = gateway.host.relay(server.as_str(), relay).await;
                result.map(finish).map_err(|error| Refusal::from_host(error, caller.era))
            }
            .boxed()
        })
    }
}

/// Replaces `native_name`, the URI of a resource at its server, by `requested`, the URI that the client asked for.
fn with_requested_uri(result: &Bytes, native_name: &str, requested: &str) -> Bytes {
    if native_name == requested {
        return result.clone();
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(result) else { return result.clone() };
    for contents in value["contents"].as_array_mut().into_iter().flatten() {
        if contents["uri"] == native_name {
            contents["uri"] = Value::from(requested);
        }
    }
    json(&value).into()
}

/// Whether this is a progress token: a string or a number.
fn is_progress_token(raw: &RawValue) -> bool {
    raw.get().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

fn uri_param(params: &str) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Params {
        uri: String,
    }
    parse_params::<Params>(params).map(|params| params.uri)
}

/// Unsubscribes a client of the legacy era from a resource. A client that was not subscribed gets no error.
fn unsubscribe(caller: &ClientCaller, params: &str) -> Result<Bytes, Refusal> {
    let uri = uri_param(params)?;
    if let Some(session) = &caller.session {
        session.subscriptions.remove(&uri);
    }
    Ok(Bytes::from_static(b"{}"))
}

fn cursor_param(params: &str) -> Result<Option<String>, Refusal> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Params {
        #[serde(default)]
        cursor: Option<String>,
    }
    cursor::decode(parse_params::<Params>(params)?.cursor.as_deref())
}

/// Sets the lowest level of the log messages that the client wants.
fn set_level(caller: &ClientCaller, params: &str) -> Result<Bytes, Refusal> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Params {
        level: String,
    }
    let Params { level } = parse_params(params)?;
    let level = news::level_index(&level)
        .ok_or_else(|| Refusal::invalid_params(format!("unknown level {}", quoted(&level))))?;
    if let Some(session) = &caller.session {
        session.set_level(level);
    }
    Ok(Bytes::from_static(b"{}"))
}
