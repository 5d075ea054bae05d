//! Starts the daemon for a test, with real files, a real database, real servers and real HTTP.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use toolrack_agent::{Limits, model::Scripted};
use toolrack_config::{Environment, Interpolate, Places, Request, Secrets, UnsetPolicy, Watcher};
use toolrack_daemon::{
    ChosenModel, Daemon, MakeWorld, Metrics, NoModel, NoSignIn, Options, Parts, Questions, SignInChannels, SignIns,
    Token, Vault, WorldKind, WorldParts,
};
use toolrack_host::{Host, Policy};
use toolrack_store::Store;
use toolrack_team::TenantQuotas;
use toolrack_testkit::{Home, fake_server_path};

/// A time-out that is longer than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A running daemon.
pub(crate) struct Up {
    pub(crate) home: Home,
    pub(crate) host: Host,
    pub(crate) store: Store,
    pub(crate) vault: Arc<MemoryVault>,
    pub(crate) url: String,
    pub(crate) client: Client,
    /// What the daemon passes on to collectors.
    pub(crate) metrics: Metrics,
    end: CancellationToken,
    running: JoinSet<()>,
}

/// The options of a test's daemon.
pub(crate) struct DaemonOptions {
    /// How long a question waits for an answer.
    pub(crate) answer_timeout: Duration,
    /// How long the world of an agent runs on without a request.
    pub(crate) agent_idle: Duration,
    /// How long requests may continue that are under way when the daemon ends.
    pub(crate) grace: Duration,
    /// How long the daemon continues to serve after it was told to end.
    pub(crate) drain: Duration,
    /// The maximum number of connections, the maximum without a token, and how long a connection without a token may be
    /// silent.
    pub(crate) connections: (usize, usize, Duration),
    /// The names under which it may be reached.
    pub(crate) hosts: Vec<String>,
    /// Called each time just before a world applies its configuration.
    pub(crate) before_applying: Arc<dyn Fn() + Send + Sync>,
    /// Whether the daemon has its database.
    pub(crate) has_store: bool,
    /// Signs in to servers.
    pub(crate) sign_ins: Arc<SignIn>,
}

/// The stored secrets of a test, in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryVault {
    secrets: Mutex<BTreeMap<String, String>>,
    /// Whether the store refuses every secret.
    pub(crate) refuses: AtomicBool,
}

impl MemoryVault {
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.secrets.lock().unwrap().get(name).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.secrets.lock().unwrap().len()
    }
}

impl Vault for MemoryVault {
    fn names(&self) -> BoxFuture<'_, Result<Vec<String>, String>> {
        Box::pin(async { Ok(self.secrets.lock().unwrap().keys().cloned().collect()) })
    }

    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if self.refuses.load(Ordering::SeqCst) {
                return Err("the key is gone".to_owned());
            }
            self.secrets.lock().unwrap().insert(name.to_owned(), value.to_owned());
            Ok(())
        })
    }
}

impl Secrets for MemoryVault {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move { Ok(self.value(name)) })
    }
}

/// Signs in to a server. The argument shows the user the sign-in page.
pub(crate) type SignIn = dyn Fn(SignInChannels) -> BoxFuture<'static, Result<(), NoSignIn>> + Send + Sync;

impl Default for DaemonOptions {
    fn default() -> Self {
        let (connections, grace) = ((1_000, 500, LONG), Duration::from_secs(5));
        let (hosts, before_applying) = (Vec::new(), Arc::new(|| {}));
        let sign_ins = Arc::new(|_| Box::pin(async { Err(no_sign_in()) }) as BoxFuture<'static, _>);
        let drain = Duration::ZERO;
        let (answer_timeout, agent_idle) = (LONG, LONG);
        Self {
            answer_timeout,
            agent_idle,
            grace,
            drain,
            connections,
            hosts,
            before_applying,
            has_store: true,
            sign_ins,
        }
    }
}

/// A model that follows a script. The name of the model is the script, as JSON.
fn scripted(name: Option<String>) -> Result<ChosenModel, NoModel> {
    let none =
        || NoModel { code: "NO_MODEL", message: "no model is configured".to_owned(), hint: Some("set one".to_owned()) };
    let model = Scripted::from_json(&name.ok_or_else(none)?).map_err(|_| none())?;
    Ok(ChosenModel { model: Arc::new(model), max_tokens: None, limits: Limits::default(), has_price: true })
}

/// An entry that starts the fake server with these arguments.
pub(crate) fn fake(args: &[&str]) -> Value {
    let args: Vec<_> = ["stdio", "--era", "both"].iter().chain(args).collect();
    json!({ "command": fake_server_path(), "args": args })
}

/// The text of a configuration file with these servers.
pub(crate) fn servers(entries: &[(&str, Value)]) -> String {
    let entries: serde_json::Map<_, _> =
        entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    json!({ "mcpServers": entries }).to_string()
}

impl Up {
    /// A daemon with these servers, which allows every call that only reads.
    pub(crate) async fn with(entries: &[(&str, Value)]) -> Self {
        let home = Home::new();
        home.write("toolrack/mcp.json", servers(entries));
        Self::of(home).await
    }

    /// A daemon with the configuration in `home`.
    pub(crate) async fn of(home: Home) -> Self {
        Self::patient(home, LONG).await
    }

    /// A daemon with the configuration in `home`, where questions wait at most `answer_timeout`.
    pub(crate) async fn patient(home: Home, answer_timeout: Duration) -> Self {
        Self::started(home, DaemonOptions { answer_timeout, ..DaemonOptions::default() }).await
    }

    /// A daemon with the configuration in `home`, where the worlds of agents end after `agent_idle` without a request.
    pub(crate) async fn idle(home: Home, agent_idle: Duration) -> Self {
        Self::started(home, DaemonOptions { agent_idle, ..DaemonOptions::default() }).await
    }

    /// A daemon with the configuration in `home` and these options. Its servers have connected or failed.
    pub(crate) async fn started(home: Home, daemon_options: DaemonOptions) -> Self {
        let up = Self::begun(home, daemon_options).await;
        // The daemon answers this request only after it has applied the configuration.
        up.get("/openapi.json").await;
        up.host.settled().await;
        up
    }

    /// A daemon that already listens, but may still be applying the configuration.
    pub(crate) async fn begun(home: Home, daemon_options: DaemonOptions) -> Self {
        let DaemonOptions {
            answer_timeout,
            agent_idle,
            grace,
            drain,
            connections,
            hosts,
            before_applying,
            has_store,
            sign_ins,
        } = daemon_options;
        let (connections, unauthenticated, head_timeout) = connections;
        let key = ("ANTHROPIC_API_KEY", PathBuf::from("sk-of-the-test"));
        let environment = Environment::new([("TOOLRACK_HOME", home.toolrack_home()), ("HOME", home.home()), key]);
        let places = Places::from_env(&environment).unwrap();
        let store = Store::open(places.data().join("toolrack.db")).await.unwrap();
        let store_of_test = store.clone();
        let vault = Arc::<MemoryVault>::default();
        let secrets = Interpolate::new(environment.clone(), UnsetPolicy::Error)
            .with_own_folders(places.own_folders())
            .with_secrets(Arc::<MemoryVault>::clone(&vault));
        let vault_of_daemon = Arc::clone(&vault);
        let secrets = Arc::new(secrets);
        let (request, watcher) = (Request::new(places, home.work()), Watcher::new());
        let parts = move |agent: Option<String>| {
            let questions = Questions::new(answer_timeout);
            let host = Host::builder()
                .resolver(Arc::<Interpolate>::clone(&secrets))
                .memory(Arc::new(store.clone()))
                .pins(Arc::new(store.clone()))
                .answers(Arc::new(store.clone()))
                .gate(Arc::new(Policy::default().allow_read_only(true)))
                .asker(Arc::new(questions.clone()))
                .build();
            Parts {
                host,
                request: Request { agent, ..request.clone() },
                watcher: watcher.clone(),
                environment: environment.clone(),
                store: has_store.then(|| store.clone()),
                secrets: Arc::clone(&secrets),
                vault: Arc::<MemoryVault>::clone(&vault_of_daemon),
                questions,
                quotas: TenantQuotas::of_machine(),
                models: Box::new(|name, _| Box::pin(async move { scripted(name) })),
                sign_ins: sign_ins_of(&sign_ins),
                kind: WorldKind::Machine,
                credentials: Box::new(|_| None),
                own_servers: None,
                before_applying: Box::new({
                    let before_applying = Arc::clone(&before_applying);
                    move |_| before_applying()
                }),
            }
        };
        let base = parts(None);
        let host = base.host.clone();
        let make_agent_world: MakeWorld = Box::new(move |id, _| {
            let parts = parts(Some(id));
            Box::pin(async move {
                Ok(WorldParts {
                    parts,
                    make_agent_world: None,
                    make_member_world: None,
                    make_session_world: None,
                    after_end: Box::pin(async {}),
                })
            })
        });
        let options = Options {
            agent_idle,
            grace,
            drain,
            connections,
            unauthenticated,
            head_timeout,
            hosts,
            ..Options::local(0, Token::from_secret("key"))
        };
        let daemon = Daemon::start(base, make_agent_world, None, None, options).await.unwrap();
        let url = format!("http://{}", daemon.address());
        let metrics = daemon.metrics();
        let end = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(daemon.run(end.clone().cancelled_owned()));
        let client = Client::builder().no_proxy().timeout(LONG).build().unwrap();
        Self { home, host, store: store_of_test, vault, url, client, metrics, end, running }
    }

    /// A request with the token of the daemon.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth("key")
    }

    /// Sends a GET, which must succeed. Returns the body of the answer.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send(Method::GET, path, None).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a request. Checks that the description of the API has the status of the answer.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        assert_documented(&method, path, status);
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Calls a tool, with the user's approval of the call.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> (StatusCode, Value) {
        self.post("/api/v1/calls", json!({ "tool": tool, "arguments": arguments, "approved": true })).await
    }

    /// Waits until the server is in this state. Returns the server as the API shows it then.
    pub(crate) async fn until(&self, server: &str, state: &str) -> Value {
        self.eventually(&format!("{server} is {state}"), async || {
            let (_, found) = self.send(Method::GET, &format!("/api/v1/servers/{server}"), None).await;
            (found["state"] == state).then_some(found)
        })
        .await
    }

    /// Waits until `look` returns something. Calls it again after each event of the daemon, and every 50 ms. `what` is
    /// for the message when that does not happen within [`LONG`].
    pub(crate) async fn eventually<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let waited = timeout(LONG, async {
            let mut events = self.events(None).await;
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                // Not every change causes an event.
                let _ = timeout(Duration::from_millis(50), events.next()).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("this has not happened within {} s: {what}", LONG.as_secs()))
    }

    /// The events from now on, or after the event `last`.
    pub(crate) async fn events(&self, last: Option<&str>) -> Events {
        let mut request = self.request(Method::GET, "/api/v1/events");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Events::of(response)
    }

    /// Waits for an open question, and returns it.
    pub(crate) async fn question(&self) -> Value {
        self.eventually("a question waits", async || {
            let open = self.get("/api/v1/approvals").await;
            open["approvals"].get(0).cloned()
        })
        .await
    }

    pub(crate) async fn answer(&self, question: &Value, answer: Value) -> StatusCode {
        let id = question["id"].as_str().unwrap();
        self.post(&format!("/api/v1/approvals/{id}"), answer).await.0
    }

    /// Reads the user's configuration file.
    pub(crate) fn file(&self) -> String {
        self.home.read("toolrack/mcp.json")
    }

    /// Writes the user's configuration file.
    pub(crate) fn save(&self, text: &str) {
        self.home.write("toolrack/mcp.json", text);
    }

    /// Makes the daemon end, without waiting for it.
    pub(crate) fn begin_to_end(&self) {
        self.end.cancel();
    }

    /// Ends the daemon, and waits until it has ended. Returns its files.
    pub(crate) async fn down(mut self) -> Home {
        self.end.cancel();
        timeout(LONG, self.running.join_next()).await.expect("the daemon ends").unwrap().unwrap();
        self.host.shutdown().await;
        self.home
    }
}

/// Checks that the description of the API documents this status for the request, if it has the route.
fn assert_documented(method: &Method, path: &str, status: StatusCode) {
    static PATHS: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str::<Value>(&toolrack_daemon::openapi()).unwrap()["paths"].take());
    let path = path.split('?').next().unwrap();
    let path = match path.strip_prefix("/agents/").and_then(|rest| rest.find('/').map(|at| &rest[at..])) {
        // There is no such agent.
        Some(_) if status == StatusCode::NOT_FOUND => return,
        Some(inside) => inside,
        None => path,
    };
    let is_at = |template: &str| {
        template.split('/').count() == path.split('/').count()
            && template.split('/').zip(path.split('/')).all(|(part, given)| part.starts_with('{') || part == given)
    };
    let all = PATHS.as_object().unwrap().iter().filter(|(template, _)| is_at(template));
    // `/a/b` takes precedence over `/a/{x}`.
    let Some((template, found)) = all.min_by_key(|(template, _)| template.matches('{').count()) else { return };
    let Some(operation) = found.get(method.as_str().to_lowercase()) else { return };
    assert!(operation["responses"].get(status.as_str()).is_some(), "{method} {template} has no {status}");
}

/// A stream of Server-Sent Events.
pub(crate) struct Events {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

impl Events {
    pub(crate) fn of(response: reqwest::Response) -> Self {
        Self { bytes: response.bytes_stream().boxed(), text: String::new() }
    }

    /// Waits for the next event. Returns its id, its name and its data; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<(Option<String>, String, Value)> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let Some(data) = field("data:") else { continue };
                let id = field("id:").map(str::to_owned);
                return Some((id, field("event:").unwrap().to_owned(), serde_json::from_str(data).unwrap()));
            }
            self.text += std::str::from_utf8(&self.bytes.next().await?.ok()?).unwrap();
        }
    }

    /// Waits for the next event of this name. Returns its id and its data.
    pub(crate) async fn wait(&mut self, name: &str) -> (Option<String>, Value) {
        timeout(LONG, async {
            loop {
                let (id, found, data) = self.next().await.expect("the stream goes on");
                if found == name {
                    return (id, data);
                }
            }
        })
        .await
        .unwrap_or_else(|_| panic!("no event {name}"))
    }
}

/// A project in the home's working folder that brings these servers.
pub(crate) fn project(home: &Home, entries: &[(&str, Value)]) {
    home.write("work/.git/HEAD", "");
    home.write(Path::new("work/.mcp.json"), servers(entries));
}

fn sign_ins_of(sign_in: &Arc<SignIn>) -> SignIns {
    let sign_in = Arc::clone(sign_in);
    Box::new(move |_, _, page| sign_in(page))
}

/// The error of every sign-in by default.
pub(crate) fn no_sign_in() -> NoSignIn {
    NoSignIn { code: "SIGN_IN_UNKNOWN", message: "this daemon does not know how".to_owned(), hint: None }
}
