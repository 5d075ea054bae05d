//! Sends metrics to a collector. Other parts of the program count the values. The exporter reads them at an interval.

use std::{fmt, time::Duration};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, MeterProvider as _},
};
use opentelemetry_otlp::{MetricExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    metrics::{Instrument, SdkMeterProvider, Stream, periodic_reader_with_async_runtime::PeriodicReader},
    runtime::TokioCurrentThread,
};

use crate::{
    CLOSE_TIMEOUT, ExporterError, TARGET_PREFIX, resource,
    variables::{BadVariable, Signal},
};

/// The maximum number of series of one metric. All further series are combined into one, with the label
/// `otel.metric.overflow`.
const MAX_SERIES: usize = 20_000;

/// A metric, with the function that reads its values.
pub struct Measure {
    /// The name of the metric.
    pub name: &'static str,
    /// What the metric measures, in words.
    pub help: &'static str,
    /// Whether the values of the metric only grow.
    pub is_counter: bool,
    /// Returns the present value of each series. The value of a counter is its sum since the program began.
    pub read: Box<dyn Fn() -> Vec<Reading> + Send + Sync>,
}

impl fmt::Debug for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measure").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The value of one series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The labels that identify the series: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// How often metrics are sent, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The pause between two readings (`OTEL_METRIC_EXPORT_INTERVAL`, a minute by default).
    pub interval: Duration,
    /// How long it may take to read the metrics once and send them (`OTEL_METRIC_EXPORT_TIMEOUT`, 30 seconds by
    /// default).
    pub timeout: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_mins(1), timeout: Duration::from_secs(30) }
    }
}

impl Pace {
    /// Reads the pace from the environment: `variable` gets the name of a variable, and returns its value. Returns
    /// `None` if the environment names no collector, or switches metrics off with `OTEL_METRICS_EXPORTER=none` or
    /// `OTEL_SDK_DISABLED=true`.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable, its value, and what the value should be.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, BadVariable> {
        if !Signal::METRICS.is_sent(&variable)? {
            return Ok(None);
        }
        let non_empty = |name: &str| variable(name).filter(|value| !value.is_empty());
        let parse_milliseconds = |name: &'static str, default| match non_empty(name) {
            None => Ok(default),
            Some(value) => match value.parse::<u64>() {
                Ok(milliseconds @ 1..) => Ok(Duration::from_millis(milliseconds)),
                _ => Err(Signal::METRICS.bad_variable(name, value, "a whole number of milliseconds above 0")),
            },
        };
        let Self { interval, timeout } = Self::default();
        let interval = parse_milliseconds("OTEL_METRIC_EXPORT_INTERVAL", interval)?;
        Ok(Some(Self { interval, timeout: parse_milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", timeout)? }))
    }
}

/// Reads metrics at an interval and sends them, from its own thread. It drops values that it cannot send or that the
/// collector refuses. The next reading has the newer values.
#[derive(Debug)]
pub struct MetricsExporter {
    provider: SdkMeterProvider,
}

impl MetricsExporter {
    /// Creates an exporter that sends `measures` to `endpoint`, the full URL with its path. Without `endpoint`, it
    /// sends them to the endpoint that the environment names. `service` is the service name of the metrics.
    ///
    /// # Errors
    /// [`ExporterError`] when `endpoint` or a variable of the environment is invalid. No error says whether a collector
    /// listens.
    pub fn new(
        service: &str,
        endpoint: Option<&str>,
        pace: Pace,
        measures: Vec<Measure>,
    ) -> Result<Self, ExporterError> {
        let exporter = MetricExporter::builder().with_http();
        let exporter = match endpoint {
            Some(endpoint) => exporter.with_endpoint(endpoint),
            None => exporter,
        };
        let exporter = exporter.build().map_err(ExporterError)?;
        let reader = PeriodicReader::builder(exporter, TokioCurrentThread);
        let reader = reader.with_interval(pace.interval).with_timeout(pace.timeout).build();
        let limit_series = |_: &Instrument| Stream::builder().with_cardinality_limit(MAX_SERIES).build().ok();
        let provider = SdkMeterProvider::builder().with_resource(resource(service)).with_reader(reader);
        let provider = provider.with_view(limit_series).build();
        let meter = provider.meter(TARGET_PREFIX);
        for Measure { name, help, is_counter, read } in measures {
            let observe = move |observer: &dyn AsyncInstrument<f64>| {
                for Reading { labels, value } in read() {
                    let labels: Vec<_> = labels.into_iter().map(|(name, text)| KeyValue::new(name, text)).collect();
                    observer.observe(value, &labels);
                }
            };
            // The provider keeps the callback, so the instrument itself is not needed.
            if is_counter {
                let _ = meter.f64_observable_counter(name).with_description(help).with_callback(observe).build();
            } else {
                let _ = meter.f64_observable_gauge(name).with_description(help).with_callback(observe).build();
            }
        }
        Ok(Self { provider })
    }

    /// Reads and sends the metrics once more. Blocks until that is done, for three seconds at most.
    pub fn close(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(CLOSE_TIMEOUT) {
            tracing::warn!(%error, "the last metrics were not sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(variables: &[(&str, &str)]) -> Result<Option<Pace>, BadVariable> {
        Pace::from_variables(|wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const COLLECTOR: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn metrics_are_sent_if_a_collector_is_named_and_no_variable_turns_them_off() {
        assert_eq!(pace(&[]), Ok(None));
        assert_eq!(pace(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok(None));
        assert_eq!(pace(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318")]), Ok(None));
        assert_eq!(pace(&[COLLECTOR]), Ok(Some(Pace::default())));
        assert_eq!(pace(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", COLLECTOR.1)]), Ok(Some(Pace::default())));
        assert_eq!(pace(&[COLLECTOR, ("OTEL_METRICS_EXPORTER", "otlp")]), Ok(Some(Pace::default())));
        for off in [("OTEL_METRICS_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "True")] {
            assert_eq!(pace(&[COLLECTOR, off]), Ok(None));
        }
    }

    #[test]
    fn the_variables_set_the_times_and_an_unusable_value_is_named() {
        let times = [("OTEL_METRIC_EXPORT_INTERVAL", "500"), ("OTEL_METRIC_EXPORT_TIMEOUT", "2000")];
        let wanted = Pace { interval: Duration::from_millis(500), timeout: Duration::from_secs(2) };
        assert_eq!(pace(&[COLLECTOR, times[0], times[1]]), Ok(Some(wanted)));
        for (name, value) in [
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1m"),
            ("OTEL_METRIC_EXPORT_TIMEOUT", "-1"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
        ] {
            let error = pace(&[COLLECTOR, (name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(&format!("`{value}`")), "{error}");
        }
    }
}
