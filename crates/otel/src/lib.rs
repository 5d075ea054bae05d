//! Sends spans and metrics to an OpenTelemetry collector, and passes the trace of a call on to the server of the call.
//! There are spans for turns with a model (`turn`, `model`), calls (`call`) and connects (`connect`).
//!
//! - [`Exporter::layer`] receives the spans of the host and the agent. A thread of the [`Exporter`] sends them to the
//!   collector in batches.
//! - [`Exporter::tracer`] returns a [`Tracer`]. It makes the span of a call a child of the span that the caller's
//!   [`TraceContext`] names, and returns the context for the call's server.
//! - [`MetricsExporter`] reads metrics of the program at an interval and sends them to the collector.
//!
//! Both exporters send OTLP over HTTP with Protobuf (<https://opentelemetry.io/docs/specs/otlp/>).
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER` and the other standard variables
//! configure the exporters.
//!
//! ```no_run
//! use std::sync::Arc;
//! use toolrack_host::Host;
//! use toolrack_otel::Exporter;
//! use tracing_subscriber::prelude::*;
//!
//! let exporter = Exporter::new("my-agent", None)?;
//! tracing_subscriber::registry().with(exporter.layer()).init();
//! let host = Host::builder().tracer(Arc::new(exporter.tracer())).build();
//! // …
//! exporter.close();
//! # Ok::<(), toolrack_otel::ExporterError>(())
//! ```

mod metrics;
mod variables;

pub use metrics::{Measure, MetricsExporter, Pace, Reading};
pub use variables::{BadVariable, traces_are_sent};

use std::{collections::HashMap, time::Duration};

use opentelemetry::{
    KeyValue,
    propagation::TextMapPropagator as _,
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    runtime::TokioCurrentThread,
    trace::{SdkTracerProvider, span_processor_with_async_runtime::BatchSpanProcessor},
};
use toolrack_host::TraceContext;
use tracing::{Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

/// The maximum time for sending the last spans or metrics.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The prefix of the `tracing` targets whose spans are exported: the names of Toolrack's crates begin with it.
const TARGET_PREFIX: &str = "toolrack";

/// The reason why an exporter cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("the collector cannot be used: check the variables OTEL_EXPORTER_OTLP_…")]
pub struct ExporterError(#[source] opentelemetry_otlp::ExporterBuildError);

/// Sends spans in batches, from its own thread. It drops spans that the collector refuses. Only [`Self::close`] waits
/// for the collector.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Creates an exporter that sends spans to `endpoint`, the full URL with its path. Without `endpoint`, it sends
    /// them to the endpoint that the environment names. `service` is the service name of the spans.
    ///
    /// # Errors
    /// [`ExporterError`] when `endpoint` or a variable of the environment is invalid. No error says whether a collector
    /// listens.
    pub fn new(service: &str, endpoint: Option<&str>) -> Result<Self, ExporterError> {
        let exporter = SpanExporter::builder().with_http();
        let exporter = match endpoint {
            Some(endpoint) => exporter.with_endpoint(endpoint),
            None => exporter,
        };
        let exporter = exporter.build().map_err(ExporterError)?;
        let processor = BatchSpanProcessor::builder(exporter, TokioCurrentThread).build();
        let provider =
            SdkTracerProvider::builder().with_resource(resource(service)).with_span_processor(processor).build();
        Ok(Self { provider })
    }

    /// Returns a layer for a subscriber. It exports the spans of Toolrack's own crates, from level `INFO` on.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let toolrack_targets = Targets::new().with_target(TARGET_PREFIX, LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer(TARGET_PREFIX)).with_filter(toolrack_targets)
    }

    /// Returns the tracer for a [`Host`](toolrack_host::Host), which passes traces on to the host's servers.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        Tracer { propagator: TraceContextPropagator::new() }
    }

    /// Blocks until the remaining spans are sent, for three seconds at most.
    pub fn close(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(CLOSE_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Returns the resource of all spans and metrics: the service name and the version of this program.
fn resource(service: &str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_service_name(service.to_owned()).with_attribute(version).build()
}

/// Passes the context of each call's span to the servers of a host.
#[derive(Debug)]
pub struct Tracer {
    propagator: TraceContextPropagator,
}

impl toolrack_host::Tracer for Tracer {
    fn follow(&self, span: &Span, caller_context: Option<&TraceContext>) -> Option<TraceContext> {
        if let Some(caller_context) = caller_context {
            let fields: HashMap<String, String> =
                caller_context.fields().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            // This fails if the subscriber does not have the layer of this exporter. The server then gets the caller's
            // context.
            let _ = span.set_parent(self.propagator.extract(&fields));
        }
        let context = span.context();
        // Without an exported span, the call's server continues the caller's trace.
        if !context.span().span_context().is_valid() {
            return caller_context.cloned();
        }
        let mut fields = HashMap::new();
        self.propagator.inject_context(&context, &mut fields);
        let context = TraceContext::from_fields(|name| fields.get(name).map(String::as_str))?;
        // The propagator writes no baggage, so the caller's baggage is added here.
        let baggage =
            caller_context.and_then(|caller_context| caller_context.fields().find(|(name, _)| *name == "baggage"));
        Some(baggage.map_or(context.clone(), |(_, baggage)| context.baggage(baggage)))
    }
}

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
