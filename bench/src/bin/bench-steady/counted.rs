//! Figures that this process counts itself: allocations, bytes that stay, and connections.

use futures::{StreamExt, TryStreamExt, stream};
use toolrack_bench::{
    AnyError, Heap,
    connected::{connected_host, desired_servers, echo, host, wait_until_connected},
    heap::settled_bytes,
    programs::{Server, sibling_program},
};
use toolrack_host::{BlockKind, Host, ServerSpec, Wire};

use crate::Measured;

/// The number of calls before the count starts, which do the one-time work.
const WARM_UP: usize = 200;
/// Calls that are counted.
const CALLS: usize = 1_000;
/// How often a figure is measured that varies from run to run, such as connections that race each other. The smallest
/// value counts.
const REPETITIONS: usize = 3;
/// Tools of the large server.
const TOOLS: usize = 10_000;
/// The numbers of servers in the small and in the large set whose costs are compared.
const SERVERS: (usize, usize) = (10, 40);

/// Measures all figures of this kind.
pub(crate) async fn measure() -> Result<Measured, AnyError> {
    let [allocations, allocated] = calls(stdio(20)?).await?;
    let mut measured = vec![("stdio-allocations", allocations), ("stdio-allocated", allocated)];
    let server = Server::start(&[])?;
    let [allocations, allocated] = calls(ServerSpec::http(&server.url)).await?;
    measured.extend([("http-allocations", allocations), ("http-allocated", allocated)]);
    measured.push(("http-connects", connects(&server, 1).await?));
    measured.push(("http-connects-64", connects(&server, 64).await?));
    measured.push(("block-allocations", blocks().await?));
    measured.push(("kept-tool", kept_by_tools().await?));
    measured.push(("kept-stdio-server", kept_by_servers(stdio(0)?).await?));
    let server = Server::start(&["--tools", "0"])?;
    measured.push(("kept-http-server", kept_by_servers(ServerSpec::http(&server.url)).await?));
    Ok(measured)
}

/// Returns the fast server over stdio, with this many tools.
fn stdio(tools: usize) -> Result<ServerSpec, AnyError> {
    let program = sibling_program("bench-server")?.display().to_string();
    Ok(ServerSpec::stdio(program, ["stdio", "--tools", &tools.to_string()]))
}

/// Allocations and allocated bytes of a call.
async fn calls(spec: ServerSpec) -> Result<[f64; 2], AnyError> {
    let host = connected_host(spec, 1).await?;
    run(&host, WARM_UP, 1).await?;
    let mut least = [f64::MAX; 2];
    for _ in 0..REPETITIONS {
        let before = Heap::now();
        run(&host, CALLS, 1).await?;
        let figures = [before.allocations(), before.allocated()];
        least = [0, 1].map(|index| least[index].min(figures[index] / CALLS as f64));
    }
    host.shutdown().await;
    Ok(least)
}

async fn run(host: &Host, calls: usize, in_flight: usize) -> Result<(), AnyError> {
    let call = |_| echo(host, "s0/echo");
    stream::iter(0..calls).map(call).buffer_unordered(in_flight).try_collect().await
}

/// Returns the number of connections that a host opens for 1,000 calls, those for its start and its end included.
async fn connects(server: &Server, in_flight: usize) -> Result<f64, AnyError> {
    let before = server.accepted()?;
    let host = connected_host(ServerSpec::http(&server.url), 1).await?;
    run(&host, CALLS, in_flight).await?;
    host.shutdown().await;
    Ok((server.accepted()? - before) as f64)
}

/// Returns the number of allocations for giving the block of 100 tools to a model again, after the host has made it.
async fn blocks() -> Result<f64, AnyError> {
    // The fast server has three tools in addition to these 97.
    let host = connected_host(stdio(97)?, 1).await?;
    let kind = BlockKind::new(Wire::Anthropic);
    let first = host.catalog().block(&kind).bytes();
    let before = Heap::now();
    for _ in 0..CALLS {
        std::hint::black_box(host.catalog().block(&kind).bytes());
    }
    let allocations = before.allocations() / CALLS as f64;
    host.shutdown().await;
    if first.is_empty() { Err("the block is empty".into()) } else { Ok(allocations) }
}

/// Returns the number of bytes that a tool needs while its server is connected.
async fn kept_by_tools() -> Result<f64, AnyError> {
    let host = connected_host(stdio(0)?, 1).await?;
    let without = settled_bytes().await;
    host.apply(desired_servers([stdio(TOOLS)?])?).await;
    wait_until_connected(&host).await?;
    let with = settled_bytes().await;
    let count = host.catalog().tools().len();
    host.shutdown().await;
    if count < TOOLS { Err(format!("{count} tools came").into()) } else { Ok((with - without) / TOOLS as f64) }
}

/// Returns the number of bytes that a server without additional tools needs while it is connected.
async fn kept_by_servers(spec: ServerSpec) -> Result<f64, AnyError> {
    let mut least = f64::MAX;
    for _ in 0..REPETITIONS {
        least = least.min(kept_by_each(&spec).await?);
    }
    Ok(least)
}

async fn kept_by_each(spec: &ServerSpec) -> Result<f64, AnyError> {
    let (few, many) = SERVERS;
    let host = host()?;
    let mut live = [0.0; 2];
    for (live, count) in live.iter_mut().zip([few, many]) {
        host.apply(desired_servers(std::iter::repeat_n(spec.clone(), count))?).await;
        wait_until_connected(&host).await?;
        *live = settled_bytes().await;
    }
    host.shutdown().await;
    Ok((live[1] - live[0]) / (many - few) as f64)
}
