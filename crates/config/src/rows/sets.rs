//! Settings that are shown by their rows alone.

use serde_json::{Value as Json, json};
use toolrack_host::{
    ServerSpec,
    spec::{Http, Sandbox, Transport},
};

use super::Sets;

impl Sets {
    /// Returns its value in `spec`, in the form that is shown.
    pub(crate) fn value(self, spec: &mut ServerSpec) -> Option<Json> {
        match self {
            Self::Time(time) => time(spec).map(|time| json!(time.as_secs_f64())),
            Self::OwnTime(time) => Some(json!(time(spec).map(|time| time.as_secs_f64()))),
            Self::Number(number) => number(spec).map(|number| json!(number)),
            Self::Attempts(number) => number(spec).map(|number| json!(number)),
            Self::Confines(flag) => Some(json!(flag(&mut sandbox(spec)))),
            Self::Word { value, .. } | Self::Other(value) => Some(value(spec)),
        }
    }
}

/// Returns a server with every default, and with all bounds that there are.
pub(crate) fn usual() -> ServerSpec {
    ServerSpec::new(Transport::Http(Http::default()))
}

/// Returns the sandbox of `spec`; the default one if it has none.
fn sandbox(spec: &ServerSpec) -> Sandbox {
    let Transport::Stdio(stdio) = &spec.transport else { return Sandbox::default() };
    stdio.sandbox.as_deref().cloned().unwrap_or_default()
}

/// Returns the endpoint of `spec`.
pub(super) fn http(spec: &mut ServerSpec) -> Option<&mut Http> {
    match &mut spec.transport {
        Transport::Http(http) | Transport::Sse(http) => Some(http),
        Transport::Stdio(_) | Transport::Native(_) => None,
    }
}
