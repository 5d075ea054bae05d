//! A real server of the modern era (2026-07-28), written with the official Rust SDK, over stdio or Streamable HTTP.
//!
//! `rmcp-server stdio` speaks on stdin and stdout. `rmcp-server http` prints `listening URL` and ends when its stdin
//! is closed. Its tools are in [`Demo::tools`]. Unlike the fake server (`toolrack_testkit::fake`), it shows that a
//! client works with a server that others have written.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams,
        Implementation, InputRequest, InputRequests, InputRequiredResult, JsonObject, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    },
    service::{RequestContext, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::TcpListener, sync::watch};

/// The `requestState` of the only question. The client must echo its odd characters byte for byte.
const STATE: &str = "st.ate/with+special=chars and \"quotes\"";

/// The server. Over HTTP, each request gets a clone of it, and all clones share their state.
#[derive(Clone, Debug, Default)]
struct Demo(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The tools that `grow` has added. Each open subscription waits for changes of this list.
    added_tools: watch::Sender<Vec<String>>,
    /// The number of open subscriptions.
    subscriptions: watch::Sender<usize>,
    /// The number of calls of `wait` that still wait.
    waiting: watch::Sender<usize>,
    /// The number of calls of `wait` that clients have cancelled.
    cancelled: AtomicUsize,
}

impl Demo {
    fn tools(&self) -> Vec<Tool> {
        // A client repeats the argument with `x-mcp-header` in the HTTP header `Mcp-Param-Name`.
        let fixed = [
            ("greet", "Greets a person", json!({"name": {"type": "string", "x-mcp-header": "Name"}})),
            ("count", "Counts, with progress", json!({"to": {"type": "integer"}})),
            ("ask", "Asks the person for a name", json!({})),
            ("grow", "Adds a tool, once a client listens", json!({"tool": {"type": "string"}})),
            ("wait", "Waits until it is cancelled", json!({})),
            ("waiters", "Returns once a call of `wait` is waiting", json!({})),
            ("cancellations", "How often `wait` was cancelled, once none waits any more", json!({})),
        ];
        let added_tools = self.0.added_tools.borrow().clone();
        let added_tools = added_tools.into_iter().map(|name| tool(name, "Was added", json!({})));
        fixed
            .into_iter()
            .map(|(name, description, properties)| tool(name.to_owned(), description, properties))
            .chain(added_tools)
            .collect()
    }

    async fn count(&self, to: i64, context: &RequestContext<RoleServer>) -> CallToolResponse {
        if let Some(token) = context.meta.get_progress_token() {
            for step in 1..=to {
                #[expect(clippy::cast_precision_loss, reason = "no test counts that far")]
                let progress = ProgressNotificationParam::new(token.clone(), step as f64)
                    .with_total(to as f64)
                    .with_message(format!("step {step}"));
                // Fails if the client has closed the stream, and then needs no progress.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        text_response(format!("counted to {to}"))
    }

    fn ask(request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
        let Some(answers) = &request.input_responses else {
            let question = InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: "Who are you?".into(),
                requested_schema: serde_json::from_value(json!({
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                }))
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
            }));
            let questions = InputRequests::from_iter([("who".to_owned(), question)]);
            return Ok(InputRequiredResult::new(Some(questions), Some(STATE.into())).into());
        };
        if request.request_state.as_deref() != Some(STATE) {
            return Err(ErrorData::invalid_params("the requestState was not echoed", None));
        }
        let answer = answers.get("who").cloned().unwrap_or_default();
        Ok(match answer["content"]["name"].as_str() {
            Some(name) => text_response(format!("you are {name}")),
            None => text_response(format!("you said {}", answer["action"])),
        })
    }

    async fn grow(&self, tool: &str) -> CallToolResponse {
        let mut subscriptions = self.0.subscriptions.subscribe();
        // This wait and the two below cannot fail, because `self` owns the senders. `is_ok` ends the borrow of the
        // count.
        let _ = subscriptions.wait_for(|open| *open > 0).await.is_ok();
        self.0.added_tools.send_modify(|added_tools| added_tools.push(tool.to_owned()));
        text_response(format!("grew {tool}"))
    }

    async fn wait(&self, context: &RequestContext<RoleServer>) -> CallToolResponse {
        // Dropped last, so that `cancellations` finds this call counted.
        let _waiting = CountGuard::new(&self.0.waiting);
        // Over stdio, the SDK cancels the token. Over HTTP, it drops this future when the client closes the stream.
        let _cancelled = CountOnDrop(&self.0.cancelled);
        context.ct.cancelled().await;
        text_response("cancelled")
    }

    async fn waiters(&self) -> CallToolResponse {
        let mut waiting = self.0.waiting.subscribe();
        let _ = waiting.wait_for(|waiting| *waiting > 0).await.is_ok();
        text_response("a client waits")
    }

    async fn cancellations(&self) -> CallToolResponse {
        let mut waiting = self.0.waiting.subscribe();
        let _ = waiting.wait_for(|waiting| *waiting == 0).await.is_ok();
        text_response(self.0.cancelled.load(Ordering::SeqCst).to_string())
    }
}

/// Adds one to a counter until it is dropped.
struct CountGuard<'a>(&'a watch::Sender<usize>);

impl<'a> CountGuard<'a> {
    fn new(counter: &'a watch::Sender<usize>) -> Self {
        counter.send_modify(|count| *count += 1);
        Self(counter)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Adds one to a counter when it is dropped.
struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn tool(name: String, description: &'static str, properties: Value) -> Tool {
    let schema = json!({"type": "object", "properties": properties});
    Tool::new(name, description, schema.as_object().cloned().unwrap_or_default())
}

fn text_response(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// Returns the argument `name` as text, or a default that shows that it is missing.
fn argument_text<'a>(arguments: Option<&'a JsonObject>, name: &str) -> &'a str {
    arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or("nobody")
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new("rmcp-server", env!("CARGO_PKG_VERSION")))
            .with_instructions("The official Rust SDK's own server.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.as_ref();
        Ok(match &*request.name {
            "greet" => text_response(format!("hello, {}", argument_text(arguments, "name"))),
            "count" => {
                let to = arguments.and_then(|arguments| arguments.get("to")).and_then(Value::as_i64);
                self.count(to.unwrap_or(3), &context).await
            }
            "ask" => Self::ask(&request)?,
            "grow" => self.grow(argument_text(arguments, "tool")).await,
            "wait" => self.wait(&context).await,
            "waiters" => self.waiters().await,
            "cancellations" => self.cancellations().await,
            other if self.tools().iter().any(|tool| tool.name == other) => text_response(other),
            other => return Err(ErrorData::invalid_params(format!("unknown tool {other}"), None)),
        })
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        // Before the count, because `grow` adds a tool as soon as this subscription is counted.
        let mut added_tools = self.0.added_tools.subscribe();
        let _listening = CountGuard::new(&self.0.subscriptions);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = added_tools.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

async fn over_http() -> std::io::Result<()> {
    let demo = Demo::default();
    let service: StreamableHttpService<Demo, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(demo.clone()), Arc::default(), StreamableHttpServerConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    writeln!(std::io::stdout(), "listening {url}")?;
    let router = axum::Router::new().nest_service("/mcp", service);
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served,
        // The end of stdin ends the server, so that it does not outlive a test that was killed.
        _ = async { tokio::io::stdin().read_to_end(&mut Vec::new()).await } => Ok(()),
    }
}

#[tokio::main]
async fn main() {
    // Errors are not printed: the tests look at what the client says.
    let served = match std::env::args().nth(1).as_deref() {
        Some("stdio") => match Demo::default().serve(rmcp::transport::stdio()).await {
            Ok(service) => service.waiting().await.is_ok(),
            Err(_) => false,
        },
        Some("http") => over_http().await.is_ok(),
        _ => false,
    };
    // After a plain return, the runtime would wait for the thread that reads stdin.
    std::process::exit(i32::from(!served))
}
