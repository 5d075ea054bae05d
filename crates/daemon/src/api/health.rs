//! Health and metrics, for programs that monitor the daemon.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use toolrack_team::{Authority, Holder, Usage};
use utoipa::ToSchema;

use super::{State, servers};
use crate::world::World;

/// The health of the daemon.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, `starting`, `waiting` or `ending`.
    status: &'static str,
    /// Why it is not `ok`. It holds no names, because no token is needed to see it.
    reason: Option<String>,
}

impl Health {
    const OK: Self = Self { status: "ok", reason: None };

    fn starting(reason: impl Into<String>) -> Self {
        Self { status: "starting", reason: Some(reason.into()) }
    }

    fn waiting(reason: impl Into<String>) -> Self {
        Self { status: "waiting", reason: Some(reason.into()) }
    }

    fn ending() -> Self {
        Self { status: "ending", reason: Some("the daemon is about to end".to_owned()) }
    }
}

/// Whether the daemon answers requests.
#[utoipa::path(get, path = "/health", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(super) async fn health() -> Json<Health> {
    Json(Health::OK)
}

/// Whether the daemon has applied the configuration, has tried to connect each server once, reaches the database of its
/// team, and is not ending. A configuration with unusable parts counts as applied once the rest of it runs; the list of
/// servers reports the problems.
#[utoipa::path(get, path = "/ready", tag = "health", security(()),
    responses((status = 200, body = Health, description = "It is ready"),
        (status = 503, body = Health, description = "It is not, for this reason")))]
pub(super) async fn ready(Extension(world): State, team: Option<Extension<Arc<Authority>>>) -> Response {
    match not_ready(&world, team.as_deref().map(|authority| &**authority)) {
        Some(health) => (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response(),
        None => Json(Health::OK).into_response(),
    }
}

fn not_ready(world: &World, team: Option<&Authority>) -> Option<Health> {
    if world.ending.is_cancelled() {
        return Some(Health::ending());
    }
    if !world.is_applied() {
        return Some(Health::starting("the configuration has not been applied yet"));
    }
    if team.is_some_and(|authority| !authority.has_store()) {
        return Some(Health::waiting("the database of the team does not answer"));
    }
    let connecting = toolrack_host::State::Connecting.word();
    match world.host.states().into_iter().filter(|(_, word)| *word == connecting).count() {
        0 => None,
        1 => Some(Health::starting("1 server is being started")),
        many => Some(Health::starting(format!("{many} servers are being started"))),
    }
}

/// Counts and times in the text format of Prometheus.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(Extension(world): State) -> Response {
    let mut page = Page::default();
    page.family("toolrack_up_seconds", "gauge", "Time since the daemon began.");
    page.value("toolrack_up_seconds", &[], world.began.elapsed().as_secs_f64());
    page.family("toolrack_server_state", "gauge", "1 for the state that a server is in.");
    for (server, state) in servers::states_of(&world) {
        page.value("toolrack_server_state", &[("server", &server), ("state", state)], 1.0);
    }
    page.family("toolrack_tools", "gauge", "Tools in the catalog.");
    page.value("toolrack_tools", &[], number(world.host.catalog().tools().len()));
    let counts = world.tally.by_server();
    page.family("toolrack_calls_total", "counter", "Calls that ended.");
    for ((server, outcome), count) in &counts {
        page.value("toolrack_calls_total", &[("server", server), ("outcome", outcome)], number(count.calls));
    }
    page.family("toolrack_call_seconds_total", "counter", "Time that calls took.");
    for ((server, outcome), count) in &counts {
        let labels = [("server", server.as_str()), ("outcome", *outcome)];
        page.value("toolrack_call_seconds_total", &labels, count.time.as_secs_f64());
    }
    page.family("toolrack_calls_denied_total", "counter", "Calls that were not allowed.");
    page.value("toolrack_calls_denied_total", &[], number(world.tally.denied()));
    page.family("toolrack_events_lost_total", "counter", "Events that came too fast to be counted.");
    page.value("toolrack_events_lost_total", &[], number(world.tally.lost()));
    page.family("toolrack_approvals_open", "gauge", "Questions that wait for a person.");
    page.value("toolrack_approvals_open", &[], number(world.questions.count()));
    quotas(&mut page, &world.quotas.usage());
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response()
}

/// Adds what is used of the quotas that belong to no one member.
fn quotas(page: &mut Page, usage: &[Usage]) {
    let shared: Vec<_> = usage.iter().filter(|usage| !matches!(usage.holder, Holder::Member { .. })).collect();
    if shared.is_empty() {
        return;
    }
    let amount = |amount, usage: &Usage| usage.quota.quantity().number(amount).as_f64().unwrap_or_default();
    let mut family = |name: &str, help: &str, of: &dyn Fn(&Usage) -> u64| {
        page.family(name, "gauge", help);
        for usage in &shared {
            let profile = match &usage.holder {
                Holder::Profile { name } => name,
                _ => "",
            };
            page.value(name, &[("profile", profile), ("quota", usage.quota.name())], amount(of(usage), usage));
        }
    };
    family("toolrack_quota_used", "What all members, or all clients of a profile, have used.", &|usage| usage.used);
    family("toolrack_quota_limit", "What they may use.", &|usage| usage.quota.most());
}

#[expect(clippy::cast_precision_loss, reason = "a count of that size would take centuries")]
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// A page of metrics.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0 += name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { "{" } else { "," });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut page = Page::default();
        page.value("calls", &[("server", "a\"b\\c\nd"), ("outcome", "ok")], 2.0);
        assert_eq!(page.0, "calls{server=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 2\n");
    }
}
