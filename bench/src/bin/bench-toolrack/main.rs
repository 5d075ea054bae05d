//! Measures Toolrack as a library: through the whole host, with the gate that judges each call, the bounds of time and
//! size, and the supervisor process beside each stdio server.

mod agent;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use toolrack_bench::{
    AnyError, Figures, Job, Row, Watch,
    connected::{arguments, connected_host, echo},
    measure::{self, Steps},
};
use toolrack_host::{BlockKind, Call, ServerSpec, Wire, mcp::Progress};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let measured = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(measure()));
    match measured.and_then(|figures| toolrack_bench::print(&figures)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{error}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
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
        Row::Agent1 | Row::Agent100 | Row::Agent1000 => agent::turns(&job).await,
    }
}

fn spec(job: &Job) -> Result<ServerSpec, AnyError> {
    if let Ok(url) = job.url() {
        return Ok(ServerSpec::http(url));
    }
    let (program, args) = job.command()?;
    Ok(ServerSpec::stdio(program, args))
}

async fn calls(job: &Job) -> Result<Figures, AnyError> {
    let host = connected_host(spec(job)?, 1).await?;
    let timed_call = async |_| -> Result<Duration, AnyError> {
        let began = Instant::now();
        echo(&host, "s0/echo").await?;
        Ok(began.elapsed())
    };
    let figures = measure::calls(job, timed_call).await?;
    host.shutdown().await;
    Ok(figures)
}

/// Measures a list together with the start of the server and the handshake, because a host does not list separately.
/// The other clients measure only the list.
async fn list(job: &Job) -> Result<Figures, AnyError> {
    let watch = Watch::start();
    let host = connected_host(spec(job)?, 1).await?;
    let figures = watch.stop(1);
    let count = host.catalog().tools().len();
    if count < job.count {
        return Err(format!("{count} tools came").into());
    }
    host.shutdown().await;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn big(job: &Job) -> Result<Figures, AnyError> {
    let mut spec = spec(job)?;
    // The whole result is wanted, in a message that is a little larger.
    spec.limits.output_bytes = job.count;
    spec.limits.message_bytes = job.count + 4_096;
    let host = connected_host(spec, 1).await?;
    let watch = Watch::start();
    let outcome = host.call(Call::from_map("s0/text", arguments(json!({ "bytes": job.count })))).await?;
    let figures = watch.stop(1);
    if outcome.text.len() != job.count {
        return Err(format!("{} bytes came", outcome.text.len()).into());
    }
    host.shutdown().await;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn events(job: &Job) -> Result<Figures, AnyError> {
    let host = connected_host(spec(job)?, 1).await?;
    let steps = Arc::new(Steps::default());
    let counted = Arc::clone(&steps);
    let on_progress = Arc::new(move |progress: Progress| counted.record(progress.progress));
    let watch = Watch::start();
    let call = Call::from_map("s0/progress", arguments(json!({ "steps": job.count }))).on_progress(on_progress);
    host.call(call).await?;
    let figures = watch.stop(job.count);
    host.shutdown().await;
    Ok(steps.add_to(figures, job.count))
}

async fn servers(job: &Job) -> Result<Figures, AnyError> {
    let watch = Watch::start();
    let host = connected_host(spec(job)?, job.count).await?;
    let figures = watch.stop(1);
    host.shutdown().await;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn block(job: &Job) -> Result<Figures, AnyError> {
    let host = connected_host(spec(job)?, 1).await?;
    let kind = BlockKind::new(Wire::Anthropic);
    let count = host.catalog().block(&kind).len();
    let figures = measure::turns(job.count, || host.catalog().block(&kind).bytes());
    host.shutdown().await;
    if count < 100 { Err(format!("{count} tools came").into()) } else { Ok(figures) }
}
