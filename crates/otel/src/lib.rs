//! Sends the spans of turns (`turn`, `model`), calls (`call`) and connects (`connect`) to an OpenTelemetry collector, and
//! lets servers go on with the trace of a call ([`Tracer`]).
//!
//! OTLP over HTTP with Protobuf (<https://opentelemetry.io/docs/specs/otlp/>). Where to, with which headers, and which traces,
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER` and their kin say, as everywhere.
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

/// How long the last spans may take to leave.
const FAREWELL: Duration = Duration::from_secs(3);

/// What the spans that are sent come from: those of this workspace.
const OURS: &str = "toolrack";

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[error("the traces cannot be sent: check what the variables OTEL_EXPORTER_OTLP_… say")]
pub struct ExporterError(#[source] opentelemetry_otlp::ExporterBuildError);

/// Sends spans in batches, from a thread of its own. What a collector does not take is lost, and nothing waits for it but
/// [`Self::close`].
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Sends as `service`, to `endpoint` (the whole URL, with its path) where the environment should not say it.
    ///
    /// # Errors
    /// What it was told, or what the environment says, makes no sense. Whether anybody listens is not looked at.
    pub fn new(service: &str, endpoint: Option<&str>) -> Result<Self, ExporterError> {
        let exporter = SpanExporter::builder().with_http();
        let exporter = match endpoint {
            Some(endpoint) => exporter.with_endpoint(endpoint),
            None => exporter,
        };
        let exporter = exporter.build().map_err(ExporterError)?;
        let resource = Resource::builder()
            .with_service_name(service.to_owned())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let processor = BatchSpanProcessor::builder(exporter, TokioCurrentThread).build();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(processor).build();
        Ok(Self { provider })
    }

    /// What a subscriber needs, so that spans are sent.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let ours = Targets::new().with_target(OURS, LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer(OURS)).with_filter(ours)
    }

    /// What a [`Host`](toolrack_host::Host) needs, so that its servers go on with the traces.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        Tracer { propagator: TraceContextPropagator::new() }
    }

    /// Sends what has not left yet, for three seconds at most; blocks meanwhile.
    pub fn close(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FAREWELL) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Gives the servers of a host the context of the span of each call.
#[derive(Debug)]
pub struct Tracer {
    propagator: TraceContextPropagator,
}

impl toolrack_host::Tracer for Tracer {
    fn follow(&self, span: &Span, from: Option<&TraceContext>) -> Option<TraceContext> {
        if let Some(from) = from {
            let fields: HashMap<String, String> =
                from.fields().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            // Fails where no layer of ours listens; the call then goes on with what it came with.
            let _ = span.set_parent(self.propagator.extract(&fields));
        }
        let context = span.context();
        if !context.span().span_context().is_valid() {
            return from.cloned();
        }
        let mut fields = HashMap::new();
        self.propagator.inject_context(&context, &mut fields);
        let own = TraceContext::from_fields(|name| fields.get(name).map(String::as_str))?;
        // Baggage is nobody's but the caller's.
        let baggage = from.and_then(|from| from.fields().find(|(name, _)| *name == "baggage"));
        Some(baggage.map_or(own.clone(), |(_, baggage)| own.baggage(baggage)))
    }
}
