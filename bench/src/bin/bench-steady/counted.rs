//! Figures that this process counts itself: allocations, bytes that stay, and connections.

use futures::{StreamExt, TryStreamExt, stream};
use toolrack_bench::{
    Heap, Trouble,
    connected::{echo, host, hosting, settled, world},
    heap::quiet,
    programs::{Server, beside},
};
use toolrack_host::{BlockKind, Host, ServerSpec, Wire};

use crate::Measured;

/// Calls before anything is counted, for one-time work.
const WARM_UP: usize = 200;
/// Calls that are counted.
const CALLS: usize = 1_000;
/// How often to measure what depends on a race, as connections that are opened together do; the least counts.
const TIMES: usize = 3;
/// Tools of the large server.
const TOOLS: usize = 10_000;
/// Servers of the small world and of the large one.
const SERVERS: (usize, usize) = (10, 40);

/// All figures of this kind.
pub(crate) async fn measure() -> Result<Measured, Trouble> {
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

/// The fast server with this many tools, on two pipes.
fn stdio(tools: usize) -> Result<ServerSpec, Trouble> {
    let program = beside("bench-server")?.display().to_string();
    Ok(ServerSpec::stdio(program, ["stdio", "--tools", &tools.to_string()]))
}

/// Allocations and allocated bytes of a call.
async fn calls(spec: ServerSpec) -> Result<[f64; 2], Trouble> {
    let host = hosting(spec, 1).await?;
    run(&host, WARM_UP, 1).await?;
    let mut least = [f64::MAX; 2];
    for _ in 0..TIMES {
        let before = Heap::now();
        run(&host, CALLS, 1).await?;
        let figures = [before.allocations(), before.allocated()];
        least = [0, 1].map(|index| least[index].min(figures[index] / CALLS as f64));
    }
    host.shutdown().await;
    Ok(least)
}

async fn run(host: &Host, calls: usize, in_flight: usize) -> Result<(), Trouble> {
    let one = |_| echo(host, "s0/echo");
    stream::iter(0..calls).map(one).buffer_unordered(in_flight).try_collect().await
}

/// Connections that a host makes for 1,000 calls, from its handshake to its farewell.
async fn connects(server: &Server, in_flight: usize) -> Result<f64, Trouble> {
    let before = server.accepted()?;
    let host = hosting(ServerSpec::http(&server.url), 1).await?;
    run(&host, CALLS, in_flight).await?;
    host.shutdown().await;
    Ok((server.accepted()? - before) as f64)
}

/// Allocations of one more block of 100 tools for a model.
async fn blocks() -> Result<f64, Trouble> {
    let host = hosting(stdio(97)?, 1).await?;
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

/// What a tool costs for as long as its server is connected.
async fn kept_by_tools() -> Result<f64, Trouble> {
    let host = hosting(stdio(0)?, 1).await?;
    let without = quiet().await;
    host.apply(world([stdio(TOOLS)?])?).await;
    settled(&host).await?;
    let with = quiet().await;
    let count = host.catalog().tools().len();
    host.shutdown().await;
    if count < TOOLS { Err(format!("{count} tools came").into()) } else { Ok((with - without) / TOOLS as f64) }
}

/// What a server without tools of its own costs for as long as it is connected.
async fn kept_by_servers(spec: ServerSpec) -> Result<f64, Trouble> {
    let mut least = f64::MAX;
    for _ in 0..TIMES {
        least = least.min(kept_by_each(&spec).await?);
    }
    Ok(least)
}

async fn kept_by_each(spec: &ServerSpec) -> Result<f64, Trouble> {
    let (few, many) = SERVERS;
    let host = host()?;
    let mut live = [0.0; 2];
    for (live, count) in live.iter_mut().zip([few, many]) {
        host.apply(world(std::iter::repeat_n(spec.clone(), count))?).await;
        settled(&host).await?;
        *live = quiet().await;
    }
    host.shutdown().await;
    Ok((live[1] - live[0]) / (many - few) as f64)
}
