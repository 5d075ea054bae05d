//! Measures a client that is written with the official Rust SDK (`rmcp`) and has nothing around it: no rules, no
//! bounds, no supervision.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{CallToolRequestParams, CallToolResult, ContentBlock, ProgressNotificationParam, ProtocolVersion, Tool},
    service::{NotificationContext, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use tokio::process::Command;
use toolrack_bench::{
    AnyError, Figures, Job, Row, Watch,
    measure::{self, Steps},
};

/// Counts progress notifications.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<Steps>);

impl ClientHandler for Counter {
    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.record(progress.progress);
    }
}

type Client = RunningService<RoleClient, Counter>;

fn main() -> Result<(), AnyError> {
    // The runtime that the SDK's own examples use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(measure())?;
    toolrack_bench::print(&figures)
}

async fn measure() -> Result<Figures, AnyError> {
    let job = Job::from_command_line()?;
    match job.row {
        Row::StdioOne | Row::Stdio64 | Row::HttpOne | Row::Http64 | Row::Http8 => calls(&job).await,
        Row::List => list(&job).await,
        Row::Big => big(&job).await,
        Row::Events => events(&job).await,
        Row::Servers => servers(&job).await,
        Row::Block => block(&job).await,
        Row::Agent1 | Row::Agent100 | Row::Agent1000 => Err("this program runs no agent".into()),
    }
}

async fn connect(job: &Job, counter: Counter) -> Result<Client, AnyError> {
    let era = if job.is_modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    if let Ok(url) = job.url() {
        let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
        return Ok(counter.serve_with_lifecycle(transport, era).await?);
    }
    let (program, args) = job.command()?;
    let mut command = Command::new(program);
    command.args(args);
    Ok(counter.serve_with_lifecycle(TokioChildProcess::new(command)?, era).await?)
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<CallToolResult, AnyError> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    Ok(client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?)
}

fn text(result: &CallToolResult) -> &str {
    match result.content.first() {
        Some(ContentBlock::Text(text)) => &text.text,
        _ => "",
    }
}

async fn calls(job: &Job) -> Result<Figures, AnyError> {
    let client = connect(job, Counter::default()).await?;
    let timed_call = async |_| -> Result<Duration, AnyError> {
        let began = Instant::now();
        let result = call(&client, "echo", json!({ "text": "hello" })).await?;
        let took = began.elapsed();
        if text(&result) == "hello" { Ok(took) } else { Err("the server echoed another text".into()) }
    };
    let figures = measure::calls(job, timed_call).await?;
    client.cancel().await?;
    Ok(figures)
}

async fn list(job: &Job) -> Result<Figures, AnyError> {
    let client = connect(job, Counter::default()).await?;
    let watch = Watch::start();
    let tools = client.list_all_tools().await?;
    let figures = watch.stop(1);
    if tools.len() < job.count {
        return Err(format!("expected {} tools, and {} came", job.count, tools.len()).into());
    }
    client.cancel().await?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn big(job: &Job) -> Result<Figures, AnyError> {
    let client = connect(job, Counter::default()).await?;
    let watch = Watch::start();
    let result = call(&client, "text", json!({ "bytes": job.count })).await?;
    let figures = watch.stop(1);
    if text(&result).len() != job.count {
        return Err("bytes are missing".into());
    }
    client.cancel().await?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn events(job: &Job) -> Result<Figures, AnyError> {
    let counter = Counter::default();
    let client = connect(job, counter.clone()).await?;
    let watch = Watch::start();
    call(&client, "progress", json!({ "steps": job.count })).await?;
    let figures = watch.stop(job.count);
    // The handlers of the last events may still run.
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.cancel().await?;
    Ok(counter.0.add_to(figures, job.count))
}

async fn servers(job: &Job) -> Result<Figures, AnyError> {
    let watch = Watch::start();
    let open = async |_: usize| -> Result<Client, AnyError> {
        let client = connect(job, Counter::default()).await?;
        client.list_all_tools().await?;
        Ok(client)
    };
    let clients = future::try_join_all((0..job.count).map(open)).await?;
    let figures = watch.stop(1);
    future::join_all(clients.into_iter().map(RunningService::cancel)).await;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

/// Lists the tools once, and serializes that list again for each turn.
async fn block(job: &Job) -> Result<Figures, AnyError> {
    let client = connect(job, Counter::default()).await?;
    let tools = client.list_all_tools().await?;
    client.cancel().await?;
    let definition =
        |tool: &Tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema });
    let serialize = || serde_json::to_vec(&tools.iter().map(definition).collect::<Vec<_>>());
    serialize()?;
    Ok(measure::turns(job.count, serialize))
}
