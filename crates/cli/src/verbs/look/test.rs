//! Runs `toolrack test`.

pub(crate) mod render;

use std::{collections::BTreeMap, time::Instant};

use clap::Args;
use toolrack_host::{Desired, Event, Host, ServerName, State};

use crate::{
    args::{OneOffArgs, ServersArgs},
    context::Context,
    error::{Exit, Failure},
    verbs::reach,
};
use render::{Document, TestedServer};

/// `test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack test github
  toolrack test --json
  toolrack test https://example.com/mcp
  toolrack test -- npx -y my-server")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) filter: ServersArgs,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn run(args: TestArgs, context: &Context) -> Result<Exit, Failure> {
    let server_names = &args.filter.servers;
    let loaded = context.load().await?;
    let mut desired = reach::select_servers(&loaded, server_names)?;
    if server_names.is_empty() {
        // A server that the user switched off is not a failure.
        desired.retain(|_, spec| spec.enabled);
    }
    let (host, elapsed_times) = connect(desired, context).await?;
    let mut tested_servers = Vec::new();
    let mut failures = Vec::new();
    for status in host.status() {
        let why = host.why(status.name.as_str());
        failures.extend(reach::server_failure(&host, &status));
        let elapsed = elapsed_times.get(&status.name).copied();
        tested_servers.push(TestedServer::new(status, why, elapsed));
    }
    if context.screen.prints_json() {
        context.screen.document(&Document { servers: &tested_servers }).await?;
    } else {
        context.screen.page(render::page(&tested_servers, context.screen.layout())).await?;
    }
    failures.into_iter().next().map_or(Ok(Exit::Ok), Err)
}

/// Connects the servers, and measures how long each takes until it is connected or has failed.
async fn connect(
    desired: Desired,
    context: &Context,
) -> Result<(Host, BTreeMap<ServerName, std::time::Duration>), Failure> {
    let mut events = context.host().events();
    let start = Instant::now();
    let mut elapsed_times = BTreeMap::new();
    let mut record_time = |event: Event| {
        if let Event::McpServerState { server, state } = event
            && !matches!(state, State::Connecting)
        {
            elapsed_times.insert(server, start.elapsed());
        }
    };
    let connect_future = context.connect_to_check(desired);
    tokio::pin!(connect_future);
    let host = loop {
        tokio::select! {
            // Events come first, so that each gets the time at which it happened. A missed event only leaves its server
            // without a time.
            biased;
            event = events.recv() => event.into_iter().for_each(&mut record_time),
            host = &mut connect_future => break host?,
        }
    };
    while let Ok(event) = events.try_recv() {
        record_time(event);
    }
    Ok((host, elapsed_times))
}
