//! Reports health and metrics, for programs that monitor the daemon. The world that answers a request is a host with
//! its configuration, questions and events.

use std::{fmt::Write as _, future, sync::Arc};

use axum::{
    Extension, Json, Router,
    http::{HeaderValue, StatusCode, header::CONNECTION},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use toolrack_team::Authority;
use utoipa::ToSchema;

use super::{
    WorldExtension,
    metrics::{Metric, MetricValue, Metrics},
};
use crate::{error::ApiError, replicas::Replicas, world::World};

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
#[utoipa::path(get, path = "/health", tag = "health", security(()),
    responses((status = 200, body = Health),
        (status = 404, body = Health, description = "It does, but is about to end: load balancers send it nothing more")))]
pub(super) async fn health(Extension(world): WorldExtension) -> (StatusCode, Json<Health>) {
    if world.draining.is_cancelled() {
        return (StatusCode::NOT_FOUND, Json(Health::ending()));
    }
    (StatusCode::OK, Json(Health::OK))
}

/// The routes of a daemon that accepts no new requests, and waits for the calls under way to end: `/health` tells load
/// balancers that the daemon is about to end.
pub(crate) fn ending_router() -> Router {
    let health = || async { (StatusCode::NOT_FOUND, Json(Health::ending())) };
    let refuse = || async {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ENDING", "the daemon is about to end")
            .hint("send the request again: it was not carried out")
    };
    let close_connection = |mut response: Response| {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        future::ready(response)
    };
    Router::new().route("/health", get(health)).fallback(refuse).layer(map_response(close_connection))
}

/// Whether the daemon has applied the configuration, has tried to connect each server once, reaches the database of its
/// team, has joined the other replicas if it is one of several, and is not ending. A configuration with unusable parts
/// counts as applied once the rest of it runs; the list of servers reports the problems.
#[utoipa::path(get, path = "/ready", tag = "health", security(()),
    responses((status = 200, body = Health, description = "It is ready"),
        (status = 503, body = Health, description = "It is not, for this reason")))]
pub(super) async fn ready(
    Extension(world): WorldExtension,
    team: Option<Extension<Arc<Authority>>>,
    replica: Option<Extension<Arc<Replicas>>>,
) -> Response {
    let has_joined = replica.is_none_or(|Extension(replica)| replica.has_joined());
    let not_joined_health = (!has_joined).then(|| Health::waiting("this replica has not joined the others"));
    match why_not_ready(&world, team.as_deref().map(|authority| &**authority)).or(not_joined_health) {
        Some(health) => (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response(),
        None => Json(Health::OK).into_response(),
    }
}

/// The health of a daemon that is not ready; `None` if it is ready.
fn why_not_ready(world: &World, team: Option<&Authority>) -> Option<Health> {
    if world.ending.is_cancelled() || world.draining.is_cancelled() {
        return Some(Health::ending());
    }
    if !world.is_applied() {
        return Some(Health::starting("the configuration has not been applied yet"));
    }
    if team.is_some_and(|authority| !authority.has_store()) {
        return Some(Health::waiting("the database of the team does not answer"));
    }
    match world.host.untried() {
        0 => None,
        1 => Some(Health::starting("1 server is being started")),
        count => Some(Health::starting(format!("{count} servers are being started"))),
    }
}

/// Counts and times in the text format of Prometheus.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(Extension(world): WorldExtension) -> Response {
    let mut page = Page::default();
    for metric in Metrics::all() {
        let values = metric.values_in(&world);
        if !values.is_empty() {
            page.write_header(metric);
        }
        for MetricValue { labels, value } in values {
            page.write_value(metric.name, &labels, value);
        }
    }
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response()
}

/// A page of metrics.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    /// Writes the lines in front of the values of a metric.
    fn write_header(&mut self, metric: &Metric) {
        let (name, kind, help) = (metric.name, metric.kind.word(), metric.help);
        // Writing to a `String` cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one value of a metric.
    fn write_value(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
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
        page.write_value("calls", &[("server", "a\"b\\c\nd".to_owned()), ("outcome", "ok".to_owned())], 2.0);
        assert_eq!(page.0, "calls{server=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 2\n");
    }
}
