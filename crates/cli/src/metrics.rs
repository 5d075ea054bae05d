//! Sends metrics of the daemon to an OpenTelemetry collector, if the feature `otel` is built in and the environment
//! names a collector. Prometheus reads the same values at `/metrics`, with or without a collector.

use toolrack_config::Environment;
use toolrack_daemon::Metrics;
#[cfg(feature = "otel")]
use toolrack_daemon::{MetricKind, MetricValue};
#[cfg(feature = "otel")]
use toolrack_otel::{Measure, MetricsExporter, Pace, Reading};

#[cfg(feature = "otel")]
use crate::{error::with_causes, traces::service_name};

/// The sender of metrics, if there is one. Ended by [`Self::close`].
#[derive(Debug, Default)]
pub(crate) struct MetricsSender {
    #[cfg(feature = "otel")]
    exporter: Option<MetricsExporter>,
}

impl MetricsSender {
    /// Starts to send `metrics` as `environment` requests. If its variables are invalid, nothing is sent, and the
    /// second value says why.
    #[cfg(feature = "otel")]
    pub(crate) fn begin(environment: &Environment, metrics: &Metrics) -> (Self, Option<String>) {
        let variable = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
        let pace = match Pace::from_variables(variable) {
            Ok(Some(pace)) => pace,
            Ok(None) => return (Self::default(), None),
            Err(error) => return (Self::default(), Some(with_causes(&error))),
        };
        // The exporter reads the endpoint from the environment.
        let endpoint = None;
        match MetricsExporter::new(service_name(environment), endpoint, pace, measures(metrics)) {
            Ok(exporter) => (Self { exporter: Some(exporter) }, None),
            Err(error) => (Self::default(), Some(with_causes(&error))),
        }
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) fn begin(_: &Environment, _: &Metrics) -> (Self, Option<String>) {
        (Self::default(), None)
    }

    /// Sends the last values, for a few seconds at most.
    pub(crate) async fn close(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            // Closing blocks, so it runs on its own thread. If that thread fails, only these values are lost.
            let _ = tokio::task::spawn_blocking(move || exporter.close()).await;
        }
        #[cfg(not(feature = "otel"))]
        std::future::ready(()).await;
    }
}

/// The metrics of the daemon in the form that the exporter reads.
#[cfg(feature = "otel")]
fn measures(metrics: &Metrics) -> Vec<Measure> {
    let measure = |metric: &'static toolrack_daemon::Metric| {
        let metrics = metrics.clone();
        let reading = |MetricValue { labels, value }| Reading { labels, value };
        Measure {
            name: metric.name,
            help: metric.help,
            is_counter: metric.kind == MetricKind::Counter,
            read: Box::new(move || metrics.values(metric).into_iter().map(reading).collect()),
        }
    };
    Metrics::all().iter().map(measure).collect()
}
