//! What the tests share: servers, a gateway in front of them, and clients.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Response, header::HeaderMap};
use serde_json::{Map, Value, json};
use tokio::{
    io::split,
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use toolrack_daemon::gateway::{AnyClient, Gateway, GatewayOptions};
use toolrack_host::{
    Abilities, Asker, Call, CallError, Desired, Host, Native, ServerName, ServerSpec, SharedAsker, ToolOutcome,
    ask::{AskRefused, Confirm, Confirmed, Elicitation, Elicited, Root},
    spec::Protocol,
};
use toolrack_testkit::fake_server_path;

/// A time-out that is longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// An entry that starts the fake server over stdio with these arguments.
pub(crate) fn fake(args: &str) -> ServerSpec {
    let args = ["stdio"].into_iter().chain(args.split_whitespace());
    ServerSpec::stdio(fake_server_path().to_str().unwrap(), args)
}

/// Makes `host` run these servers, and waits until each has connected or failed.
pub(crate) async fn settled(host: &Host, servers: impl IntoIterator<Item = (&'static str, ServerSpec)>) {
    let desired: Desired = servers.into_iter().map(|(server, spec)| (name(server), spec)).collect();
    host.apply(desired).await;
    timeout(PATIENCE, host.settled()).await.expect("the servers settle");
}

/// Servers and the gateway in front of them, on a port of 127.0.0.1.
pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) gateway: Gateway,
    pub(crate) url: String,
    _serving: DropGuard,
}

impl World {
    /// A world with one fake server, called `fake`.
    pub(crate) async fn new(args: &str) -> Self {
        Self::with([("fake", fake(args))], GatewayOptions::default()).await
    }

    /// A world with these servers.
    pub(crate) async fn with(
        servers: impl IntoIterator<Item = (&'static str, ServerSpec)>,
        options: GatewayOptions,
    ) -> Self {
        let host = Host::builder().asker(Arc::new(AnyClient::new())).build();
        Self::around(host, servers, options).await
    }

    /// A world with `host`, which runs these servers.
    pub(crate) async fn around(
        host: Host,
        servers: impl IntoIterator<Item = (&'static str, ServerSpec)>,
        options: GatewayOptions,
    ) -> Self {
        settled(&host, servers).await;
        Self::of(host, options).await
    }

    /// A world with `host`, whatever servers it runs now or later.
    pub(crate) async fn of(host: Host, options: GatewayOptions) -> Self {
        let gateway = Gateway::new(host.clone(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().nest("/mcp", gateway.router());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        TaskTracker::new().spawn(async move {
            stopped.run_until_cancelled(axum::serve(listener, router).into_future()).await;
        });
        Self { host, gateway, url, _serving: stop.drop_guard() }
    }

    /// An entry for the gateway, over HTTP.
    pub(crate) fn over_http(&self, protocol: Protocol) -> ServerSpec {
        ServerSpec { protocol, ..ServerSpec::http(&self.url) }
    }

    /// An entry for the gateway, over the stdio transport, on a pipe in memory.
    pub(crate) fn over_stdio(&self, protocol: Protocol) -> ServerSpec {
        let gateway = self.gateway.clone();
        let native = Native::new("gateway", move |io, _stop| {
            let gateway = gateway.clone();
            async move {
                let (reader, writer) = split(io);
                gateway.serve_stdio(reader, writer).await.unwrap();
            }
        });
        ServerSpec { protocol, ..ServerSpec::native(native) }
    }

    /// The name and the entry for each transport and era of the gateway.
    pub(crate) fn client_entries(&self) -> [(&'static str, ServerSpec); 4] {
        [
            ("modern http", self.over_http(Protocol::Modern)),
            ("legacy http", self.over_http(Protocol::Legacy)),
            ("modern stdio", self.over_stdio(Protocol::Modern)),
            ("legacy stdio", self.over_stdio(Protocol::Legacy)),
        ]
    }

    pub(crate) async fn end(self) {
        timeout(PATIENCE, self.gateway.shutdown()).await.expect("the gateway ends");
        timeout(PATIENCE, self.host.shutdown()).await.expect("the host ends");
    }
}

/// A host whose only server is the gateway, called `rack`.
pub(crate) async fn client(spec: ServerSpec, asker: Option<SharedAsker>) -> Host {
    let builder = Host::builder();
    let host = match asker {
        Some(asker) => builder.asker(asker).build(),
        None => builder.build(),
    };
    settled(&host, [("rack", spec)]).await;
    host
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// Calls a tool of the fake server through the gateway, which `host` knows as `rack`.
pub(crate) async fn call(host: &Host, tool: &str, arguments: Value) -> Result<ToolOutcome, CallError> {
    let call = Call::from_map(format!("rack/mcp__fake__{tool}"), object(arguments));
    timeout(PATIENCE, host.call(call)).await.expect("the call ends")
}

/// A user who answers every question with yes, and remembers the questions.
#[derive(Default)]
pub(crate) struct Person {
    asked: Mutex<Vec<String>>,
}

impl Person {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }
}

impl Asker for Person {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: false, ..Abilities::ALL }
    }

    fn confirm(&self, question: Confirm) -> futures::future::BoxFuture<'_, Confirmed> {
        self.note(format!("confirm {}", question.tool));
        Box::pin(async { Confirmed::Yes })
    }

    fn elicit(&self, _server: ServerName, question: Elicitation) -> futures::future::BoxFuture<'_, Elicited> {
        let fields = match &question {
            Elicitation::Form { message, schema } => {
                self.note(format!("form {message}"));
                match schema["properties"]["decision"].is_object() {
                    true => json!({"decision": "allow"}),
                    false => json!({"name": "Ada"}),
                }
            }
            Elicitation::Url { url, .. } => {
                self.note(format!("url {url}"));
                json!({})
            }
        };
        Box::pin(async move { Elicited::Accept(object(fields)) })
    }

    fn sample(
        &self,
        _server: ServerName,
        _request: Value,
    ) -> futures::future::BoxFuture<'_, Result<Value, AskRefused>> {
        self.note("sample");
        let content = json!({"type": "text", "text": "Paris"});
        Box::pin(async move { Ok(json!({"role": "assistant", "model": "m", "content": content})) })
    }

    fn roots(&self, _server: ServerName) -> futures::future::BoxFuture<'_, Vec<Root>> {
        self.note("roots");
        Box::pin(async { vec![Root { uri: "file:///work".into(), name: None }] })
    }
}

/// A client that writes HTTP itself.
pub(crate) struct Raw {
    http: reqwest::Client,
    url: String,
    session: Option<String>,
}

impl Raw {
    pub(crate) fn new(world: &World) -> Self {
        Self { http: reqwest::Client::new(), url: world.url.clone(), session: None }
    }

    /// A client with a session of 2025-11-25, and these capabilities.
    pub(crate) async fn legacy(world: &World, capabilities: Value) -> Self {
        Self::of_version(world, "2025-11-25", capabilities).await
    }

    /// A client with a session of this legacy version, and these capabilities.
    pub(crate) async fn of_version(world: &World, version: &str, capabilities: Value) -> Self {
        let mut raw = Self::new(world);
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let response = raw.post(&request(1, "initialize", params), &[]).await;
        raw.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        raw
    }

    /// The same client with a query in the URL of the gateway.
    pub(crate) fn at(mut self, query: &str) -> Self {
        self.url = format!("{}?{query}", self.url);
        self
    }

    /// A request with the usual headers. `headers` replaces some of them; an empty value removes one.
    pub(crate) fn builder(&self, method: reqwest::Method, headers: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut all = HeaderMap::new();
        all.insert("content-type", "application/json".parse().unwrap());
        all.insert("accept", "application/json, text/event-stream".parse().unwrap());
        if let Some(session) = &self.session {
            all.insert("mcp-session-id", session.parse().unwrap());
        }
        for (name, value) in headers {
            let name = reqwest::header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            match *value {
                "" => drop(all.remove(name)),
                value => drop(all.insert(name, value.parse().unwrap())),
            }
        }
        self.http.request(method, &self.url).headers(all)
    }

    pub(crate) async fn post(&self, body: &Value, headers: &[(&str, &str)]) -> Response {
        self.post_bytes(body.to_string(), headers).await
    }

    pub(crate) async fn post_bytes(&self, body: impl Into<reqwest::Body>, headers: &[(&str, &str)]) -> Response {
        let request = self.builder(reqwest::Method::POST, headers).body(body).send();
        timeout(PATIENCE, request).await.expect("an answer").unwrap()
    }

    /// Sends a request of 2026-07-28, with all its headers.
    pub(crate) async fn modern(&self, id: i64, method: &str, params: Value) -> Response {
        let (body, headers) = modern(id, method, params, json!({}));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.post(&body, &headers).await
    }
}

pub(crate) fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request of 2026-07-28 and its headers.
pub(crate) fn modern(
    id: i64,
    method: &str,
    mut params: Value,
    capabilities: Value,
) -> (Value, Vec<(&'static str, String)>) {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28".to_owned()), ("mcp-method", method.to_owned())];
    let named = match method {
        "resources/read" => params["uri"].as_str(),
        "tools/call" | "prompts/get" => params["name"].as_str(),
        _ => None,
    };
    headers.extend(named.map(|name| ("mcp-name", name.to_owned())));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    (request(id, method, params), headers)
}

/// The JSON-RPC message of an answer, whether it came as JSON or as the last event of a stream.
pub(crate) async fn json_of(response: Response) -> Value {
    messages_of(response).await.pop().expect("an answer")
}

/// All messages of an answer.
pub(crate) async fn messages_of(response: Response) -> Vec<Value> {
    let text = timeout(PATIENCE, response.text()).await.expect("an end").unwrap();
    match serde_json::from_str(&text) {
        Ok(message) => vec![message],
        Err(_) => text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect(),
    }
}

/// Waits until `condition` holds. `what` says in words what that is.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, holds).await.unwrap_or_else(|_| panic!("this has not happened within 30 s: {what}"));
}
