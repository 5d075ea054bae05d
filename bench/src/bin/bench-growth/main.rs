//! Measures what a server, a tool and a call cost when there are many of them:
//! `bench-growth [--soak SECONDS] [MOST_SERVERS MOST_TOOLS]`.
//!
//! It starts hosts with in-process servers, each host ten times as large as the one before. If the cost of one item
//! grows with the number of items, the program reports that and fails. With `--soak` it calls and reconnects for that
//! long instead, and fails if memory grows.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

mod grow;
mod soak;

use std::{alloc::System, env, process::ExitCode, time::Duration};

use grow::Kind;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use toolrack_bench::AnyError;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The numbers of servers and tools in the largest hosts.
const SERVERS: usize = 1_000;
const TOOLS: usize = 100_000;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and prints the results. Returns `false` if a cost grows too much.
fn run() -> Result<bool, AnyError> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (servers, tools) = match words.as_slice() {
        [] => (SERVERS, TOOLS),
        ["--soak", seconds] => return runtime.block_on(soak::run(Duration::from_secs(seconds.parse()?))),
        [servers, tools] => (servers.parse()?, tools.parse()?),
        _ => return Err("usage: bench-growth [--soak SECONDS] [MOST_SERVERS MOST_TOOLS]".into()),
    };
    let mut complaints = Vec::new();
    for (kind, first, max_items) in
        [(Kind::Servers, 1, servers), (Kind::Stragglers, 1, servers), (Kind::Tools, 100, tools)]
    {
        let mut steps = Vec::new();
        let mut items = first;
        while items <= max_items {
            steps.push(runtime.block_on(grow::step(kind, items))?);
            items *= 10;
        }
        println!("{}", grow::table(kind, &steps));
        complaints.extend(grow::complaints(kind, &steps));
    }
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    Ok(complaints.is_empty())
}
