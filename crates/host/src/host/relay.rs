//! Forwards resources, prompts and completions of a server unchanged, for programs that serve other clients. No rule
//! judges such a request, because it changes nothing; the quotas of its caller apply.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::Host;
use crate::{
    ask::SharedAsker,
    call::{
        CallError, admit,
        counting::{Admitted, Work},
    },
    link::{Link, Request, inbound::topics::SubscriptionState},
    quota::{OverQuota, Quantity},
    spec::ServerName,
    text::quote,
    trace::TraceContext,
    witness::Caller,
};

const COMPLETION: &str = "completion/complete";

/// The answer for a server without completions.
const NO_COMPLETION: Bytes = Bytes::from_static(br#"{"completion":{"values":[]}}"#);

/// A list of a server, other than its list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
    /// `prompts/list`.
    Prompts,
}

impl Listing {
    fn method_and_field(self) -> (&'static str, &'static str) {
        match self {
            Self::Resources => ("resources/list", "resources"),
            Self::ResourceTemplates => ("resources/templates/list", "resourceTemplates"),
            Self::Prompts => ("prompts/list", "prompts"),
        }
    }
}

/// A request to one server that runs no tool and changes nothing.
#[derive(Clone, Debug)]
#[must_use]
pub struct Relay {
    method: &'static str,
    name: String,
    params: Map<String, Value>,
    asker: Option<SharedAsker>,
    caller: Caller,
    trace: Option<TraceContext>,
}

impl Relay {
    fn new(method: &'static str, name: &str, params: Map<String, Value>) -> Self {
        Self { method, name: name.to_owned(), params, asker: None, caller: Caller::default(), trace: None }
    }

    /// Creates a request `resources/read`.
    pub fn resource(uri: &str) -> Self {
        let params = Map::from_iter([("uri".to_owned(), Value::from(uri))]);
        Self::new("resources/read", uri, params)
    }

    /// Creates a request `prompts/get`.
    pub fn prompt(name: &str, arguments: Map<String, Value>) -> Self {
        let params = [("name".to_owned(), Value::from(name)), ("arguments".to_owned(), Value::Object(arguments))];
        Self::new("prompts/get", name, Map::from_iter(params))
    }

    /// Creates a request `completion/complete`. `params` are the parameters `ref`, `argument` and `context` of MCP,
    /// with the names that the server uses.
    pub fn completion(params: Map<String, Value>) -> Self {
        Self::new(COMPLETION, "the completion", params)
    }

    /// Sets the asker for the server's questions during the request. Default: the asker of the host.
    pub fn asker(mut self, asker: SharedAsker) -> Self {
        self.asker = Some(asker);
        self
    }

    /// Sets the caller, whose quotas apply. A question during the request shows the caller to the user. Default: the
    /// program that embeds this library.
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Sets the trace to which the request belongs; the host sends it to the server.
    pub fn trace(mut self, context: Option<TraceContext>) -> Self {
        self.trace = context;
        self
    }
}

impl Host {
    /// Waits until the server has answered a subscription to a resource.
    pub(crate) async fn wait_until_subscribed(
        &self,
        server: &str,
        uri: &str,
        state: watch::Receiver<SubscriptionState>,
    ) -> Result<(), CallError> {
        self.on_link(server, uri, |link: Link| link.subscribed(state.clone())).await
    }

    /// Returns a whole list of a server, from all its pages. Each item is unchanged except for invisible characters in
    /// titles and descriptions ([`Invisible`](crate::spec::Invisible)). Items that are not objects are left out.
    ///
    /// # Errors
    /// [`CallError`]. A server that does not support the list has an empty one.
    pub async fn listing(&self, server: &str, listing: Listing) -> Result<Vec<Map<String, Value>>, CallError> {
        let (method, field) = listing.method_and_field();
        self.list(server, method, field).await
    }

    /// Sends a request to a server, and returns the result object unchanged. The time-outs of a call apply, but no rule
    /// judges the request. Dropping the future cancels the request. For a server without completions, the completion is
    /// empty.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn relay(&self, server: &str, request: Relay) -> Result<Bytes, CallError> {
        let Relay { method, name, params, asker, caller, trace } = request;
        admit(self.server(server)?.as_ref(), server, &caller)?;
        let admitted = self.begin_read(server, &name, &caller).await?;
        let asker = asker.unwrap_or_else(|| self.call_context.asker.clone());
        let result = self.on_link(server, &name, |link: Link| {
            let request = Request {
                method,
                label: "the request",
                name: name.clone(),
                params: params.clone(),
                headers: Vec::new(),
                asker: asker.clone(),
                caller: caller.clone(),
                on_progress: None,
                idle: link.timeouts().call,
                total: link.timeouts().call_total,
                spent: Duration::ZERO,
                as_task: false,
                trace: trace.clone(),
            };
            async move {
                match link.offers(method) {
                    false if method == COMPLETION => Ok(NO_COMPLETION),
                    _ => link.run(request).await,
                }
            }
        });
        let result = result.await?;
        admitted.used(Quantity::ResultBytes, result.len() as u64);
        Ok(result)
    }

    /// Admits the reading of a resource, a prompt or a completion for `caller`, unless a quota is used up.
    async fn begin_read(&self, server: &str, name: &str, caller: &Caller) -> Result<Admitted, CallError> {
        let server = ServerName::new(server).map_err(|error| CallError::UnknownServer { server: error.name })?;
        self.call_context.admit_work(caller, Work::Read).await.map_err(|over| {
            let what = quote(name);
            self.call_context.report_over_quota(caller, Some(&server), &what, &over);
            CallError::OverQuota { server, tool: what, over: Box::new(over) }
        })
    }

    /// Begins work of `caller` that is neither a call nor a request to a server, such as a request to a model. `what`
    /// names the work in the audit log.
    ///
    /// # Errors
    /// [`OverQuota`]
    pub fn begin(&self, caller: &Caller, work: Work, what: &str) -> Result<Admitted, OverQuota> {
        self.call_context
            .begin(caller, work)
            .inspect_err(|over| self.call_context.report_over_quota(caller, None, what, over))
    }
}
