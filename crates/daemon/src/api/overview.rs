//! Sums up the state of a world (a host with its configuration, questions and events) and of its agents.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Extension, Json};
use serde::Serialize;
use toolrack_host::Principal;
use utoipa::ToSchema;

use super::{WorldExtension, agents::AgentsExtension, questions, servers};
use crate::{shown, world::EndedCall};

/// The daemon at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Overview {
    version: &'static str,
    /// How long the daemon has run, in whole seconds.
    uptime_s: u64,
    /// How many servers are in which state.
    servers: BTreeMap<&'static str, usize>,
    tools: usize,
    /// The tokens of all tool definitions for a model; an estimate.
    tokens: usize,
    /// Tools with findings in their definitions, at which a user should look.
    tools_with_findings: usize,
    calls: Calls,
    /// Open questions that the caller may answer, including those of the worlds of agents.
    approvals: usize,
    /// The last calls, the newest first: the caller's own, or those of all callers if the caller operates the servers.
    recent: Vec<Call>,
}

/// Calls that ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallCounts)]
struct Calls {
    total: u64,
    /// Calls that ended with an error of the tool, or without a result.
    errors: u64,
    /// Calls that were not allowed.
    denied: u64,
    per_minute: usize,
}

/// A call that ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndedCall)]
struct Call {
    server: String,
    tool: String,
    /// `ok`, `tool_error`, `failed` or `cancelled`.
    outcome: &'static str,
    duration_ms: u128,
    at: String,
}

impl From<EndedCall> for Call {
    fn from(call: EndedCall) -> Self {
        Self {
            server: call.server,
            tool: call.tool,
            outcome: call.end.word(),
            duration_ms: call.duration.as_millis(),
            at: shown::rfc3339_millis(call.ended_at),
        }
    }
}

/// The daemon at a glance.
#[utoipa::path(get, path = "/api/v1/overview", tag = "overview", responses((status = 200, body = Overview)))]
pub(super) async fn get(
    Extension(world): WorldExtension,
    Extension(agents): AgentsExtension,
    Extension(principal): Extension<Principal>,
) -> Json<Overview> {
    let mut by_state = BTreeMap::new();
    for (_, state) in servers::states_of(&world) {
        *by_state.entry(state).or_default() += 1;
    }
    let catalog = world.host.catalog();
    let tools_with_findings = world.findings_cache.for_catalog(Arc::clone(&catalog)).await.len();
    let (total, errors) = world.tally.totals();
    Json(Overview {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: world.daemon_began.elapsed().as_secs(),
        servers: by_state,
        tools: catalog.tools().len(),
        tokens: catalog.tools().map(|tool| tool.tokens()).sum(),
        tools_with_findings,
        calls: Calls {
            total,
            errors,
            denied: world.tally.denied_calls(),
            per_minute: world.tally.calls_in_last_minute(),
        },
        approvals: questions::count(&world, &agents, &principal),
        recent: world.tally.recent_calls(&principal).into_iter().map(Call::from).collect(),
    })
}
