//! Sends traces of calls to an OpenTelemetry collector, if the feature `otel` is built in and the environment names a
//! collector. Otherwise there are no traces, and the trace context of a caller is forwarded to servers unchanged.

use std::sync::Arc;

use toolrack_config::Environment;
use toolrack_host::Tracer;
use tracing::Subscriber;
use tracing_subscriber::{Layer, registry::LookupSpan};

#[cfg(feature = "otel")]
use crate::error::with_causes;

/// The name of the program that its traces and metrics have at a collector.
#[cfg(feature = "otel")]
pub(crate) fn service_name(environment: &Environment) -> &str {
    environment.get("OTEL_SERVICE_NAME").and_then(|name| name.to_str()).unwrap_or("toolrack")
}

/// The sender of traces, if there is one. Ended by [`Self::close`].
#[derive(Debug, Default)]
pub(crate) struct Traces {
    #[cfg(feature = "otel")]
    exporter: Option<toolrack_otel::Exporter>,
}

impl Traces {
    /// Starts the tracing that `environment` requests. If its variables are invalid, the program runs without traces,
    /// and the second value says why.
    #[cfg(feature = "otel")]
    pub(crate) fn begin(environment: &Environment) -> (Self, Option<String>) {
        let variable = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
        match toolrack_otel::traces_are_sent(variable) {
            Ok(true) => {}
            Ok(false) => return (Self::default(), None),
            Err(error) => return (Self::default(), Some(error.to_string())),
        }
        // The exporter reads the endpoint from the environment.
        let endpoint = None;
        match toolrack_otel::Exporter::new(service_name(environment), endpoint) {
            Ok(exporter) => (Self { exporter: Some(exporter) }, None),
            Err(error) => (Self::default(), Some(with_causes(&error))),
        }
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) fn begin(_: &Environment) -> (Self, Option<String>) {
        (Self::default(), None)
    }

    /// Returns the layer that the log needs to see spans.
    #[cfg(feature = "otel")]
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        self.exporter.as_ref().map(|exporter| exporter.layer())
    }

    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_self, reason = "with the feature `otel` it uses `self`")]
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        None::<tracing_subscriber::layer::Identity>
    }

    /// Returns the tracer that a host needs, so that servers continue the traces.
    #[cfg(feature = "otel")]
    pub(crate) fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        self.exporter.as_ref().map(|exporter| Arc::new(exporter.tracer()) as Arc<dyn Tracer>)
    }

    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_self, reason = "with the feature `otel` it uses `self`")]
    pub(crate) fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        None
    }

    /// Sends the remaining spans, for a few seconds at most.
    pub(crate) fn close(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.close();
        }
    }
}
