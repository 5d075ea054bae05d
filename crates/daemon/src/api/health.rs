//! What watches over daemons looks at.

use std::fmt::Write as _;

use axum::{
    Json,
    extract::State as Extract,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{State, servers};

/// How the daemon is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, `starting` or `ending`.
    status: &'static str,
}

/// Whether the daemon answers at all.
#[utoipa::path(get, path = "/health", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether every server has had its first try, and the daemon is not ending.
#[utoipa::path(get, path = "/ready", tag = "health", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn ready(Extract(world): State) -> Response {
    let is_starting = servers::all(&world).iter().any(|server| server.state == "connecting");
    match (world.ending.is_cancelled(), is_starting) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "ending" })).into_response(),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "starting" })).into_response(),
        _ => Json(Health { status: "ok" }).into_response(),
    }
}

/// Counts and times in the text format of Prometheus.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(Extract(world): State) -> Response {
    let mut page = Page::default();
    page.family("toolrack_up_seconds", "gauge", "Time since the daemon began.");
    page.value("toolrack_up_seconds", &[], world.began.elapsed().as_secs_f64());
    page.family("toolrack_server_state", "gauge", "1 for the state that a server is in.");
    for server in servers::all(&world) {
        page.value("toolrack_server_state", &[("server", server.name()), ("state", server.state)], 1.0);
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
    page.family("toolrack_approvals_open", "gauge", "Questions that wait for somebody.");
    page.value("toolrack_approvals_open", &[], number(world.questions.open().len()));
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response()
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
