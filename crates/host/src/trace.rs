//! Passes on the trace context, which connects the work of several programs on one request. W3C Trace Context
//! (<https://www.w3.org/TR/trace-context/>) and Baggage define it, and MCP carries it in `_meta` (SEP-414:
//! `traceparent`, `tracestate`, `baggage`).

use serde_json::Value;
use tracing::Span;

/// The longest `traceparent` of a later version, in bytes.
const MAX_TRACEPARENT_BYTES: usize = 512;
/// The longest `tracestate`, in bytes, that every hop must pass on.
const MAX_TRACESTATE_BYTES: usize = 512;
/// The longest `baggage`, in bytes, that every hop must pass on.
const MAX_BAGGAGE_BYTES: usize = 8_192;

/// The place of a piece of work in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
    baggage: Option<String>,
}

impl TraceContext {
    /// Creates a context from a received `traceparent`; `None` if it is invalid. It is forwarded byte for byte.
    #[must_use]
    pub fn new(traceparent: &str) -> Option<Self> {
        is_traceparent(traceparent).then(|| Self {
            traceparent: traceparent.to_owned(),
            tracestate: None,
            baggage: None,
        })
    }

    /// Adds the state of tracing systems (`tracestate`). Left out if it is longer than 512 bytes or not printable
    /// ASCII.
    #[must_use]
    pub fn state(mut self, tracestate: &str) -> Self {
        self.tracestate = checked_state(tracestate, MAX_TRACESTATE_BYTES);
        self
    }

    /// Adds the state of applications (`baggage`). Left out if it is longer than 8,192 bytes or not printable ASCII.
    #[must_use]
    pub fn baggage(mut self, baggage: &str) -> Self {
        self.baggage = checked_state(baggage, MAX_BAGGAGE_BYTES);
        self
    }

    /// Reads the context from fields with these names: `traceparent`, `tracestate` and `baggage`, as in HTTP and in
    /// `_meta`. `None` without a valid `traceparent`.
    pub fn from_fields<'a>(field: impl Fn(&'static str) -> Option<&'a str>) -> Option<Self> {
        let mut context = Self::new(field("traceparent")?)?;
        context.tracestate = field("tracestate").and_then(|state| checked_state(state, MAX_TRACESTATE_BYTES));
        context.baggage = field("baggage").and_then(|baggage| checked_state(baggage, MAX_BAGGAGE_BYTES));
        Some(context)
    }

    /// Returns the fields that are set, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate.as_deref().map(|state| ("tracestate", state));
        let baggage = self.baggage.as_deref().map(|baggage| ("baggage", baggage));
        [("traceparent", self.traceparent.as_str())].into_iter().chain(state).chain(baggage)
    }

    /// Returns the fields as JSON members for `_meta`, without the braces of an object.
    pub(crate) fn members(&self) -> String {
        let member = |(name, value): (&str, &str)| format!(r#""{name}":{}"#, Value::from(value));
        self.fields().map(member).collect::<Vec<_>>().join(",")
    }
}

/// Connects the spans of this library with the traces of other programs.
///
/// A host makes a [`tracing`] span for each call (`call`) and each attempt to connect (`connect`). An exporter sends
/// the context of the span to servers, so that their spans continue the trace.
pub trait Tracer: std::fmt::Debug + Send + Sync {
    /// Returns the context to send to the server. Called once for each call, before `span` is entered; `parent` is the
    /// context of the call.
    fn follow(&self, span: &Span, parent: Option<&TraceContext>) -> Option<TraceContext>;
}

/// Exports nothing, and forwards the context of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardingTracer;

impl Tracer for ForwardingTracer {
    fn follow(&self, _: &Span, parent: Option<&TraceContext>) -> Option<TraceContext> {
        parent.cloned()
    }
}

/// Returns whether a text has the form `00-{32 hexadecimal digits}-{16}-{2}`, in lower case, where neither id (the
/// first two of these numbers) is zero. Later versions may append fields.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |part: &str, length: usize| part.len() == length && is_hex(part) && part.bytes().any(|b| b != b'0');
    let parts: Vec<_> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags, rest @ ..] = parts.as_slice() else { return false };
    let is_version = version.len() == 2 && is_hex(version) && *version != "ff";
    is_version
        && is_id(trace, 32)
        && is_id(parent, 16)
        && flags.len() == 2
        && is_hex(flags)
        && (rest.is_empty()
            || *version != "00" && text.len() <= MAX_TRACEPARENT_BYTES && text.bytes().all(|b| b.is_ascii_graphic()))
}

/// Returns the text of a `tracestate` or `baggage`; `None` if it must not be forwarded.
fn checked_state(text: &str, max_bytes: usize) -> Option<String> {
    let is_valid = !text.is_empty() && text.len() <= max_bytes && text.bytes().all(|b| matches!(b, b' '..=b'~'));
    is_valid.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_passed_on_byte_for_byte() {
        let meta = json!({"traceparent": PARENT, "tracestate": "a=1,b=\"2\"", "baggage": "who=me", "progressToken": 1});
        let context = TraceContext::from_fields(|name| meta[name].as_str()).unwrap();
        let members: Value = serde_json::from_str(&format!("{{{}}}", context.members())).unwrap();
        assert_eq!(members, json!({"traceparent": PARENT, "tracestate": "a=1,b=\"2\"", "baggage": "who=me"}));
    }

    #[test]
    fn an_invalid_trace_context_is_not_passed_on() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-mo\nre",
        ] {
            assert_eq!(TraceContext::new(wrong), None, "{wrong}");
        }
        assert!(TraceContext::new("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
        let context = TraceContext::new(PARENT).unwrap().state("a\nb").baggage(&"x".repeat(MAX_BAGGAGE_BYTES + 1));
        assert_eq!(context.fields().collect::<Vec<_>>(), [("traceparent", PARENT)]);
    }
}
