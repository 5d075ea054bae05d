//! Replaces `http` if this library is built without that feature: every attempt to connect fails, and the error names
//! the feature.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::oneshot;
use url::Url;

use crate::{
    egress::Egress,
    link::{
        bounds::Bounds,
        error::LinkError,
        inbound::{ConnectionEnd, Inbound},
        message::{OutgoingRequest, RawAnswer},
        process::child::Supervisor,
    },
    resolve::{Authorizer, Resolver},
    spec::{Era, Http, ServerName},
};

fn no_http_error() -> LinkError {
    LinkError::config(
        "BUILT_WITHOUT_HTTP",
        "this program cannot reach servers over HTTP: build it with the feature `http` of toolrack-host",
    )
}

/// Stands in for the HTTP clients of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {}

/// A transport that cannot be created.
#[derive(Clone, Debug)]
pub(crate) struct HttpTransport(Infallible);

/// The inputs of an endpoint.
#[expect(dead_code, reason = "only the real transport reads it")]
pub(crate) struct HttpPlan<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) spec: &'a Http,
    pub(crate) resolver: &'a Arc<dyn Resolver>,
    pub(crate) authorizer: Option<&'a Arc<dyn Authorizer>>,
    pub(crate) clients: &'a Clients,
    pub(crate) egress: &'a Egress,
    pub(crate) supervisor: Option<&'a Supervisor>,
    pub(crate) bounds: Bounds,
}

/// Fails, because no request could be sent to the URL.
pub(crate) async fn resolved_url(_: &Arc<dyn Resolver>, _: &ServerName, _: &Http) -> Result<Url, LinkError> {
    Err(no_http_error())
}

impl HttpTransport {
    /// Fails.
    pub(crate) async fn new(_: &HttpPlan<'_>, _: &Arc<Inbound>, _: &Arc<ConnectionEnd>) -> Result<Self, LinkError> {
        Err(no_http_error())
    }

    pub(crate) async fn exchange(&self, _: OutgoingRequest) -> RawAnswer {
        match self.0 {}
    }

    pub(crate) async fn notify(&self, _: Bytes) -> Result<(), LinkError> {
        match self.0 {}
    }

    pub(crate) fn probe_timeout(&self) -> Duration {
        match self.0 {}
    }

    pub(crate) fn set_protocol(&self, _: Era, _: Option<&str>) {
        match self.0 {}
    }

    pub(crate) fn has_session(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn listen(&self) -> oneshot::Receiver<()> {
        match self.0 {}
    }

    pub(crate) async fn end_session(&self) {
        match self.0 {}
    }
}

/// Stands in for the HTTP+SSE transport of MCP 2024-11-05.
pub(crate) mod legacy_sse {
    use super::{Arc, ConnectionEnd, HttpPlan, Inbound, LinkError, no_http_error};
    use crate::link::duplex::Duplex;

    /// Fails.
    pub(crate) async fn open(_: &HttpPlan<'_>, _: &Arc<Inbound>, _: &Arc<ConnectionEnd>) -> Result<Duplex, LinkError> {
        Err(no_http_error())
    }
}
