//! The official Rust SDK as it is, without anything around it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, future, stream};
use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{CallToolRequestParams, CallToolResult, ContentBlock, ProgressNotificationParam},
    service::{NotificationContext, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use tokio::process::Command;
use toolrack_bench::{Figures, Job, Row, Trouble, Watch, figures::median_us};

/// Counts progress.
#[derive(Clone, Debug, Default)]
struct Counter {
    came: Arc<AtomicU64>,
    last: Arc<AtomicU64>,
    disordered: Arc<AtomicU64>,
}

impl ClientHandler for Counter {
    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.came.fetch_add(1, Ordering::Relaxed);
        let step = progress.progress as u64;
        if self.last.swap(step, Ordering::Relaxed) > step {
            self.disordered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type Client = RunningService<RoleClient, Counter>;

fn main() -> Result<(), Trouble> {
    // What the SDK's own examples use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(measure())?;
    toolrack_bench::print(&figures)
}

async fn measure() -> Result<Figures, Trouble> {
    let job = Job::of_process()?;
    match job.row {
        Row::StdioOne | Row::Stdio64 | Row::HttpOne | Row::Http64 => calls(&job).await,
        Row::List => list(&job).await,
        Row::Big => big(&job).await,
        Row::Events => events(&job).await,
        Row::Servers => servers(&job).await,
    }
}

async fn connect(job: &Job, counter: Counter) -> Result<Client, Trouble> {
    if let Ok(url) = job.url() {
        return Ok(counter.serve(StreamableHttpClientTransport::from_uri(url.to_owned())).await?);
    }
    let (program, args) = job.command()?;
    let mut command = Command::new(program);
    command.args(args);
    Ok(counter.serve(TokioChildProcess::new(command)?).await?)
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<CallToolResult, Trouble> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    Ok(client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?)
}

fn text(result: &CallToolResult) -> &str {
    match result.content.first() {
        Some(ContentBlock::Text(text)) => &text.text,
        _ => "",
    }
}

async fn calls(job: &Job) -> Result<Figures, Trouble> {
    let client = connect(job, Counter::default()).await?;
    let one = async |_| -> Result<Duration, Trouble> {
        let began = Instant::now();
        let result = call(&client, "echo", json!({ "text": "hello" })).await?;
        let took = began.elapsed();
        if text(&result) == "hello" { Ok(took) } else { Err("it said something else".into()) }
    };
    let run = async |count: usize| -> Result<Vec<Duration>, Trouble> {
        stream::iter(0..count).map(&one).buffer_unordered(job.row.in_flight()).try_collect().await
    };
    run(job.row.warm_up()).await?;
    let watch = Watch::start();
    let mut samples = run(job.count).await?;
    let figures = watch.stop(job.count);
    client.cancel().await?;
    let p50_us = (job.row.in_flight() == 1).then(|| median_us(&mut samples));
    Ok(Figures { p50_us, ms: None, ..figures })
}

async fn list(job: &Job) -> Result<Figures, Trouble> {
    let client = connect(job, Counter::default()).await?;
    let watch = Watch::start();
    let tools = client.list_all_tools().await?;
    let figures = watch.stop(1);
    if tools.len() < job.count {
        return Err(format!("{} tools came", tools.len()).into());
    }
    client.cancel().await?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn big(job: &Job) -> Result<Figures, Trouble> {
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

async fn events(job: &Job) -> Result<Figures, Trouble> {
    let counter = Counter::default();
    let client = connect(job, counter.clone()).await?;
    let watch = Watch::start();
    call(&client, "progress", json!({ "steps": job.count })).await?;
    let figures = watch.stop(job.count);
    // Its handlers may still be on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.cancel().await?;
    let lost = (job.count as u64).saturating_sub(counter.came.load(Ordering::Relaxed));
    let disordered = counter.disordered.load(Ordering::Relaxed);
    Ok(Figures { lost: Some(lost), disordered: Some(disordered), ..figures })
}

async fn servers(job: &Job) -> Result<Figures, Trouble> {
    let watch = Watch::start();
    let open = async |_: usize| -> Result<Client, Trouble> {
        let client = connect(job, Counter::default()).await?;
        client.list_all_tools().await?;
        Ok(client)
    };
    let clients = future::try_join_all((0..job.count).map(open)).await?;
    let figures = watch.stop(1);
    future::join_all(clients.into_iter().map(RunningService::cancel)).await;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}
