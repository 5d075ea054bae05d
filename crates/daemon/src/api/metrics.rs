//! The metrics of a daemon, in one table, from which both the page for Prometheus and other exporters read.

use std::{fmt, sync::Arc};

use toolrack_team::{Holder, Usage, audit_export::AuditExportStatus};

use super::servers;
use crate::{tenants::Tenants, world::World};

/// How the values of a metric change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// The values only grow while their world (a host with its configuration, questions and events) runs.
    Counter,
    /// The values rise and fall.
    Gauge,
}

impl MetricKind {
    /// The word that Prometheus has for this kind.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// A metric of the table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, the same for Prometheus and OpenTelemetry.
    pub name: &'static str,
    /// How its values change.
    pub kind: MetricKind,
    /// What it counts.
    pub help: &'static str,
    /// Returns the values of one world.
    read_values: fn(&World) -> Vec<MetricValue>,
}

impl Metric {
    /// The values of one world, without the labels that tell worlds apart.
    pub(super) fn values_in(&self, world: &World) -> Vec<MetricValue> {
        (self.read_values)(world)
    }
}

/// A value of a metric, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue {
    /// Names and values of labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// The table.
const TABLE: &[Metric] = &[
    gauge("toolrack_up_seconds", "Time since the daemon began.", |world| {
        without_labels(world.daemon_began.elapsed().as_secs_f64())
    }),
    gauge("toolrack_server_state", "1 for the state that a server is in.", |world| {
        let states = servers::states_of(world).into_iter();
        states.map(|(server, state)| value(vec![("server", server), ("state", state.to_owned())], 1.0)).collect()
    }),
    gauge("toolrack_tools", "Tools in the catalog.", |world| {
        without_labels(to_f64(world.host.catalog().tools().len()))
    }),
    counter("toolrack_calls_total", "Calls that ended.", |world| {
        let counts = world.tally.by_server().into_iter();
        counts.map(|((server, outcome), count)| value(call_labels(server, outcome), to_f64(count.calls))).collect()
    }),
    counter("toolrack_call_seconds_total", "Time that calls took.", |world| {
        let counts = world.tally.by_server().into_iter();
        counts.map(|((server, outcome), count)| value(call_labels(server, outcome), count.time.as_secs_f64())).collect()
    }),
    counter("toolrack_calls_denied_total", "Calls that were not allowed.", |world| {
        without_labels(to_f64(world.tally.denied_calls()))
    }),
    counter("toolrack_events_lost_total", "Events that came too fast to be counted.", |world| {
        without_labels(to_f64(world.tally.lost_events()))
    }),
    gauge("toolrack_approvals_open", "Questions that wait for a user.", |world| {
        without_labels(to_f64(world.questions.count()))
    }),
    gauge("toolrack_quota_used", "What all members, or all clients of a profile, have used.", |world| {
        quota_values(world, |usage| usage.used)
    }),
    gauge("toolrack_quota_limit", "What all members, or all clients of a profile, may use.", |world| {
        quota_values(world, |usage| usage.quota.limit())
    }),
    gauge("toolrack_audit_export_age_seconds", "Time since every audit log was exported.", |world| {
        audit_export_values(world, |status| status.age().as_secs_f64())
    }),
    gauge("toolrack_audit_export_rows_behind", "Rows of audit logs that are not exported.", |world| {
        audit_export_values(world, |status| to_f64(status.rows_behind()))
    }),
    counter("toolrack_audit_export_failures_total", "Failed exports of an audit log.", |world| {
        audit_export_values(world, |status| to_f64(status.failures()))
    }),
];

const fn gauge(name: &'static str, help: &'static str, read_values: fn(&World) -> Vec<MetricValue>) -> Metric {
    Metric { name, kind: MetricKind::Gauge, help, read_values }
}

const fn counter(name: &'static str, help: &'static str, read_values: fn(&World) -> Vec<MetricValue>) -> Metric {
    Metric { name, kind: MetricKind::Counter, help, read_values }
}

fn value(labels: Vec<(&'static str, String)>, value: f64) -> MetricValue {
    MetricValue { labels, value }
}

fn without_labels(number: f64) -> Vec<MetricValue> {
    vec![value(Vec::new(), number)]
}

fn call_labels(server: String, outcome: &str) -> Vec<(&'static str, String)> {
    vec![("server", server), ("outcome", outcome.to_owned())]
}

/// The amount that `amount_of` returns, for each quota that does not belong to one member.
fn quota_values(world: &World, amount_of: fn(&Usage) -> u64) -> Vec<MetricValue> {
    let usage = world.quotas.usage().into_iter();
    let shared_usage = usage.filter(|usage| !matches!(usage.holder, Holder::Member { .. }));
    shared_usage
        .map(|usage| {
            // `number` returns a JSON number, so `as_f64` has a value.
            let amount = usage.quota.quantity().number(amount_of(&usage)).as_f64().unwrap_or_default();
            let quota = usage.quota.name().to_owned();
            let profile = match usage.holder {
                Holder::Profile { name } => name.to_string(),
                // All members share this quota. Prometheus reads an empty label as no label.
                _ => String::new(),
            };
            value(vec![("profile", profile), ("quota", quota)], amount)
        })
        .collect()
}

/// The amount that `amount_of` returns for the export of the audit logs. Empty if the daemon exports no audit logs.
fn audit_export_values(world: &World, amount_of: fn(&AuditExportStatus) -> f64) -> Vec<MetricValue> {
    world.audit_export.get().map(|status| value(Vec::new(), amount_of(status))).into_iter().collect()
}

#[expect(clippy::cast_precision_loss, reason = "a count of that size would take centuries")]
fn to_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// The metrics of a daemon: of its own world, and of the worlds of agents and tenants that run here. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    world: Arc<World>,
    tenants: Option<Arc<Tenants>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new(world: Arc<World>, tenants: Option<Arc<Tenants>>) -> Self {
        Self { world, tenants }
    }

    /// Returns all metrics.
    #[must_use]
    pub fn all() -> &'static [Metric] {
        TABLE
    }

    /// The current values of a metric. The values of a tenant have the label `tenant`, and the values of an agent the
    /// label `agent`.
    #[must_use]
    pub fn values(&self, metric: &Metric) -> Vec<MetricValue> {
        let mut values = with_agents(&self.world, metric);
        for (tenant, world) in self.tenants.iter().flat_map(|tenants| tenants.running()) {
            values.extend(with_label("tenant", &tenant, with_agents(&world, metric)));
        }
        values
    }
}

/// The values of a metric in `world` and in the worlds of its agents.
fn with_agents(world: &World, metric: &Metric) -> Vec<MetricValue> {
    let mut values = metric.values_in(world);
    for (agent, world) in world.agent_worlds.get().into_iter().flat_map(|running_agents| running_agents()) {
        values.extend(with_label("agent", &agent, metric.values_in(&world)));
    }
    values
}

fn with_label(name: &'static str, label_value: &str, values: Vec<MetricValue>) -> impl Iterator<Item = MetricValue> {
    values.into_iter().map(move |mut value| {
        value.labels.push((name, label_value.to_owned()));
        value
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_metric_has_a_name_of_its_own_which_says_whether_it_only_grows() {
        let names: BTreeSet<_> = TABLE.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for metric in TABLE {
            assert!(metric.help.ends_with('.'), "{metric:?}");
            assert_eq!(metric.name.ends_with("_total"), metric.kind == MetricKind::Counter, "{metric:?}");
            assert_eq!(metric.kind.word(), if metric.name.ends_with("_total") { "counter" } else { "gauge" });
        }
    }

    #[test]
    fn values_of_a_tenant_are_told_apart_by_one_more_label() {
        let read = vec![value(vec![("server", "files".to_owned())], 1.0), value(Vec::new(), 2.0)];
        let of_tenant: Vec<_> = with_label("tenant", "acme", read).collect();
        let tenant = ("tenant", "acme".to_owned());
        let expected = [value(vec![("server", "files".to_owned()), tenant.clone()], 1.0), value(vec![tenant], 2.0)];
        assert_eq!(of_tenant, expected);
    }
}
