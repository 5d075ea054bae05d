//! Measures a search of 10,000 tools, the making of a model's tool block, and the memory of the index.
//!
//! `cargo run --release -p toolrack-host --example measure_search`

#![expect(clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{error::Error, hint::black_box, time::Instant};

use rmcp::model::Tool;
use serde_json::json;
use toolrack_host::{BlockKind, Host, Selection, ServerName, ServerSpec, Wire};
use toolrack_testkit::listing_native;

const TOOLS: usize = 10_000;
const RUNS: usize = 101;
const VERBS: [&str; 12] =
    ["create", "list", "delete", "update", "search", "read", "write", "merge", "send", "move", "copy", "convert"];
const THINGS: [&str; 14] = [
    "issue", "file", "folder", "message", "channel", "page", "commit", "branch", "table", "invoice", "customer",
    "image", "route", "alert",
];
const QUERIES: [&str; 6] = [
    "create issue",
    "which messages were sent to the channel last week",
    "delte the oldest invocie of a custmer",
    "convert an image",
    "mer",
    "something that no tool does",
];

/// Builds different tools that share most of their words, as real tools do.
fn tool(number: usize) -> Tool {
    let verb = VERBS[number % VERBS.len()];
    let (thing, other) = (THINGS[number / 12 % THINGS.len()], THINGS[number / 168 % THINGS.len()]);
    let about = format!("To {verb} one {thing} of a workspace, or several of them by {other}; variant {number}.");
    let schema = json!({
        "type": "object",
        "properties": {
            format!("{thing}_id"): { "type": "string", "description": format!("The {thing} to {verb}") },
            "workspace": { "type": "string", "description": "Where it is; the one of the caller if not given" },
            "limit": { "type": "integer", "minimum": 1, "description": "At most so many" },
        },
        "required": [format!("{thing}_id")],
    });
    Tool::new(format!("{verb}_{thing}_by_{other}_{number}"), about, schema.as_object().cloned().unwrap_or_default())
}

async fn host_of(servers: usize) -> Result<Host, Box<dyn Error>> {
    let host = Host::builder().build();
    let mut desired = toolrack_host::Desired::new();
    for server in 0..servers {
        let tools: Vec<_> = (0..TOOLS / servers).map(|at| tool(at * servers + server)).collect();
        let native = listing_native(&format!("s{server}"), tools);
        desired.insert(ServerName::new(format!("server{server}"))?, ServerSpec::native(native));
    }
    host.apply(desired).await;
    host.settled().await;
    Ok(host)
}

/// Median and slowest of many runs, in microseconds.
fn timed<T>(mut work: impl FnMut() -> T) -> (u128, u128) {
    let mut took: Vec<_> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            black_box(work());
            began.elapsed().as_micros()
        })
        .collect();
    took.sort_unstable();
    (took[RUNS / 2], took[RUNS - 1])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for servers in [1, 100, 1_000] {
        let host = host_of(servers).await?;
        let catalog = host.catalog();
        let bytes: usize = catalog.tools().map(|tool| tool.tool().input_schema.get().len() + 150).sum();
        let began = Instant::now();
        let _ = catalog.search("x", 1, &Selection::all());
        println!("{} tools of {servers} servers; indexed in {:?}", catalog.tools().len(), began.elapsed());
        println!("  index {} KB, for about {} KB of definitions", catalog.index_bytes() / 1024, bytes / 1024);
        for query in QUERIES {
            let (median, slowest) = timed(|| catalog.search(query, 10, &Selection::all()));
            println!("  {median:>6} µs, slowest {slowest:>6} µs  {query}");
        }
        let kind = BlockKind::new(Wire::Anthropic);
        let began = Instant::now();
        let block = catalog.block(&kind);
        println!("  block of {} KB made in {:?}", block.bytes().len() / 1024, began.elapsed());
        let thousand = || (0..1_000).map(|_| catalog.block(&kind).bytes().len()).sum::<usize>();
        println!("  got again in {} ns", timed(thousand).0);
        host.shutdown().await;
    }
    Ok(())
}
