//! Every call of a tool passes through this module. It judges and sends the call, shapes its result, and reports both.
//!
//! `gate` decides whether a call may run, and `approve` asks a user. `running` follows a call in progress and reports
//! how it ended, even if its future is dropped. `outcome`, `repeats` and `shape` turn an answer into text for a model;
//! `arguments` and `typed` convert values of the caller's own types; `error`, `mcp_error` and `hint` explain a failure
//! and name the next step. `counting` counts what each caller uses. `script` is for calls that a script makes.
//!
//! An *asker* passes questions to a user. A tool in *quarantine* is not called, because its definition has changed.

mod answered;
mod approve;
mod arguments;
pub(crate) mod counting;
mod error;
pub(crate) mod gate;
mod hint;
mod mcp_error;
mod outcome;
mod repeats;
mod running;
mod script;
pub(crate) mod shape;
mod typed;

use std::{
    borrow::Cow,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info_span};

pub use answered::SessionAnswer;
pub use arguments::ArgumentsError;
pub use error::{CallError, CallErrorKind};
pub use mcp_error::McpError;
use outcome::check_failure;
pub use outcome::{Artifact, ShapedContent, ToolOutcome};
pub(crate) use outcome::{Shaper, shape_content};
pub use script::ScriptCall;
pub(crate) use script::{Script, ScriptContext};
pub use typed::TypedError;

use self::{
    answered::RememberedAnswers,
    approve::UnconfirmedCall,
    counting::{Quotas, Work},
    gate::{Gate, GateRequest, Verdict},
    running::RunningCall,
};
use crate::{
    ask::SharedAsker,
    catalog::{Catalog, CatalogTool, CheckFailure, ListedTool, ToolReference},
    event::{Event, EventCall},
    link::{
        Link, LinkError, OnProgress, Request,
        decode::{call_result, check_undecoded},
        inbound::Events,
    },
    mcp::TaskSupport,
    quota::Quantity,
    resolve::{Answers, Artifacts},
    server::{Server, Snapshot},
    spec::{ServerName, Source, ValidateArgs},
    text::{Conceal, for_line, quote},
    trace::{TraceContext, Tracer},
    witness::{Caller, Decision, Witness},
};

/// A call of a tool.
#[derive(Clone)]
pub struct Call {
    // The methods that set these fields describe them.
    tool_reference: ToolReference,
    arguments: Map<String, Value>,
    asker: Option<SharedAsker>,
    on_progress: Option<OnProgress>,
    timeout: Option<Duration>,
    catalog: Option<Arc<Catalog>>,
    conceal: Option<Conceal>,
    wants_verbatim: bool,
    is_untruncated: bool,
    trace: Option<TraceContext>,
    caller: Caller,
    is_approved: bool,
    send_if: Option<SendCondition>,
}

/// Returns whether the caller still wants an allowed call to be sent.
pub type SendCondition = Arc<dyn Fn() -> bool + Send + Sync>;

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("selector", &self.selector()).finish_non_exhaustive()
    }
}

impl Call {
    /// Creates a call of the tool `selector`: `server/tool`, `server.tool` or a model-visible name. `arguments` is any
    /// value that serializes to a JSON object: a struct, a map, `json!({…})`.
    ///
    /// ```
    /// # use toolrack_host::{ArgumentsError, Call};
    /// #[derive(serde::Serialize)]
    /// struct Query<'a> {
    ///     query: &'a str,
    /// }
    ///
    /// let call = Call::new("docs/search", Query { query: "lifetimes" })?;
    /// assert_eq!(call.selector(), "docs/search");
    ///
    /// let error = Call::new("docs/search", ["lifetimes"]).unwrap_err();
    /// assert!(error.to_string().contains("an array, not an object"), "{error}");
    /// # Ok::<(), ArgumentsError>(())
    /// ```
    ///
    /// # Errors
    /// [`ArgumentsError`] if the arguments do not serialize to a JSON object.
    pub fn new(selector: impl Into<String>, arguments: impl Serialize) -> Result<Self, ArgumentsError> {
        let selector = selector.into();
        let members = arguments::members(&selector, arguments)?;
        Ok(Self::from_map(selector, members))
    }

    /// Like [`Self::new`], for arguments that are a JSON object already: it cannot fail, and copies nothing.
    pub fn from_map(selector: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self::with_reference(ToolReference::Written(selector.into()), arguments)
    }

    /// Creates a call of the tool `tool` of `server`, both by their exact names. Neither name is parsed.
    pub fn of(server: ServerName, tool: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self::with_reference(ToolReference::Tool(server, tool.into()), arguments)
    }

    fn with_reference(tool_reference: ToolReference, arguments: Map<String, Value>) -> Self {
        Self {
            tool_reference,
            arguments,
            asker: None,
            on_progress: None,
            timeout: None,
            catalog: None,
            conceal: None,
            wants_verbatim: false,
            is_untruncated: false,
            trace: None,
            caller: Caller::default(),
            is_approved: false,
            send_if: None,
        }
    }

    /// Returns the tool's name as the caller gave it.
    #[must_use]
    pub fn selector(&self) -> Cow<'_, str> {
        match &self.tool_reference {
            ToolReference::Tool(server, tool) => Cow::Owned(format!("{server}/{tool}")),
            ToolReference::Written(selector) => Cow::Borrowed(selector),
        }
    }

    pub(crate) fn tool_reference(&self) -> &ToolReference {
        &self.tool_reference
    }

    /// Returns how long the call may wait for `server` to connect, and then for each message of the call.
    pub(crate) fn idle_timeout(&self, server: &Server) -> Duration {
        self.timeout.unwrap_or(server.spec.timeouts.call)
    }

    pub(crate) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.clone()
    }

    pub(crate) fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// Redirects the call to another tool.
    pub(crate) fn redirected_to(self, tool: &CatalogTool, arguments: Map<String, Value>) -> Self {
        Self { tool_reference: ToolReference::Tool(tool.server.clone(), tool.tool().name.clone()), arguments, ..self }
    }

    /// Sets the asker for questions during this call. Default: the asker of the host.
    #[must_use]
    pub fn asker(mut self, asker: SharedAsker) -> Self {
        self.asker = Some(asker);
        self
    }

    /// Sets a callback for each report of progress. The host calls it in order, and never after the call has ended. It
    /// must not block.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnProgress) -> Self {
        self.on_progress = Some(on_progress);
        self
    }

    /// Sets how long the call waits for the next message of the server. Default: the server's
    /// [`Timeouts::call`](crate::Timeouts::call).
    #[must_use]
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.timeout = Some(idle);
        self
    }

    /// Requests the whole text of the result, for a caller that is not a model. The bounds on a server's messages still
    /// apply, such as [`Limits::message_bytes`](crate::Limits::message_bytes).
    #[must_use]
    pub fn untruncated(mut self) -> Self {
        self.is_untruncated = true;
        self
    }

    /// Hides secrets in the results that tools return to a [script](crate::Host::scripts). Without this, a script could
    /// print a secret in another spelling, which no filter recognizes. Results of other calls stay unchanged.
    #[must_use]
    pub fn conceal(mut self, conceal: Conceal) -> Self {
        self.conceal = Some(conceal);
        self
    }

    /// Sets the catalog in which the host looks the name up. Default: the one that is current when the call begins.
    #[must_use]
    pub fn in_catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = Some(catalog);
        self
    }

    /// Sets the trace to which the call belongs; the host sends it to the server. Calls of a script have no trace.
    #[must_use]
    pub fn trace(mut self, context: Option<TraceContext>) -> Self {
        self.trace = context;
        self
    }

    /// Sets the caller that the [witness](crate::Witness), the observer of all calls, records. Default: the program
    /// that embeds this library.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Declares that a user has already approved this call with these arguments: if the gate requires a user's
    /// decision, the call runs without a question. The gate can still deny it. This does not approve the calls that a
    /// script makes.
    #[must_use]
    pub fn approved(mut self) -> Self {
        self.is_approved = true;
        self
    }

    /// Sets a callback that the host calls once, after the gate has let the call pass and before it sends anything. If
    /// it returns `false`, the host refuses the call. So a caller that abandons a call knows whether it was sent. The
    /// callback must not block.
    #[must_use]
    pub fn send_if(mut self, send_if: SendCondition) -> Self {
        self.send_if = Some(send_if);
        self
    }

    /// Requests the unchanged result, for a caller that forwards it to its own client.
    ///
    /// A result of at most [`Limits::output_bytes`](crate::Limits::output_bytes) is then in
    /// [`verbatim`](field@ToolOutcome::verbatim) only. The host does not decode the result. It checks the result
    /// against the tool's output schema only if the server's configuration [requires
    /// that](crate::spec::OutputSchema::Reject). The host decodes and cuts a larger result as usual.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.wants_verbatim = true;
        self
    }
}

/// The parts of a host that every call uses. The gate decides whether a call may run, quotas count what a caller uses,
/// the asker asks users, and the witness records facts in an audit log.
pub(crate) struct CallContext {
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) quotas: Option<Arc<dyn Quotas>>,
    pub(crate) asker: SharedAsker,
    pub(crate) artifacts: Option<Arc<dyn Artifacts>>,
    pub(crate) events: Events,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    pub(crate) tracer: Arc<dyn Tracer>,
    /// The number of the last call. All contexts of a host share it.
    pub(crate) last_call_number: Arc<AtomicU64>,
    /// Stores the standing answers of users, which are valid across restarts and for all askers.
    pub(crate) answer_store: Option<Arc<dyn Answers>>,
    /// The answers of this context's asker since the program began. Some of them are in `answer_store` as well.
    pub(crate) session_answers: Arc<RememberedAnswers>,
}

/// Refuses a caller who may not use the server. The error says that no such server exists, so as not to reveal it.
pub(crate) fn admit(server: &Server, name: &str, caller: &Caller) -> Result<(), CallError> {
    if server.spec.is_for(caller.principal()) {
        return Ok(());
    }
    Err(CallError::UnknownServer { server: for_line(name).into_owned() })
}

impl CallContext {
    /// Returns a context with another gate and asker. A call may still have an asker of its own.
    pub(crate) fn with_asker_and_gate(&self, asker: SharedAsker, gate: Arc<dyn Gate>) -> Self {
        Self {
            gate,
            quotas: self.quotas.clone(),
            asker,
            artifacts: self.artifacts.clone(),
            events: self.events.clone(),
            witness: self.witness.clone(),
            tracer: self.tracer.clone(),
            last_call_number: self.last_call_number.clone(),
            answer_store: self.answer_store.clone(),
            session_answers: Arc::default(),
        }
    }

    /// Runs a call in a tracing span of its own.
    pub(crate) fn call(
        &self,
        mut call: Call,
        tool: &CatalogTool,
        server: &Server,
        script: Option<Script>,
    ) -> impl Future<Output = Result<ToolOutcome, CallError>> {
        let span = info_span!("call", server = %tool.server, tool = %quote(&tool.tool().name), end = Empty);
        call.trace = self.tracer.follow(&span, call.trace.as_ref());
        self.run_call(call, tool, server, script).instrument(span)
    }

    async fn run_call(
        &self,
        mut call: Call,
        tool: &CatalogTool,
        server: &Server,
        script: Option<Script>,
    ) -> Result<ToolOutcome, CallError> {
        let number = self.last_call_number.fetch_add(1, Ordering::Relaxed) + 1;
        let asker = call.asker.clone().unwrap_or_else(|| self.asker.clone());
        admit(server, tool.server.as_str(), &call.caller)?;
        let mut running = RunningCall::new(self, number, tool, call.caller.clone());
        // Check the last known state first: that is cheap, and most tools are not in quarantine.
        if server.may_be_quarantined(&tool.tool().name)
            && let Some(cause) = Box::pin(server.quarantine_cause(&tool.tool().name)).await
        {
            running.record_arguments(&call.arguments);
            return Err(running.refuse_quarantined(cause));
        }
        let arguments = self.check_gate(&mut running, &mut call, server, &asker).await?;
        if call.send_if.as_ref().is_some_and(|send_if| !send_if()) {
            let why = "the caller abandoned the call before it was sent, so it did not run".to_owned();
            return Err(running.refuse(Decision::Denied, why));
        }
        let admission = self.admit_work(&call.caller, Work::Call).await;
        let admitted_work = admission.map_err(|over_quota| running.refuse_over_quota(over_quota))?;
        running.start();
        let approved_call = ApprovedCall { id: running.call.clone(), tool, server, arguments, asker };
        let result = match script {
            Some(script) => Ok(Box::pin(self.run_script(script, call, approved_call)).await),
            None => self.send(&call, approved_call).await,
        };
        if let Ok(outcome) = &result {
            admitted_work.used(Quantity::ResultBytes, outcome.bytes as u64);
        }
        running.finish(&result);
        result.map(|mut outcome| {
            outcome.duration = running.elapsed();
            outcome.edited = running.edited_arguments.take();
            outcome
        })
    }

    /// Asks the gate, and the user if the gate requires it. Returns the arguments to send, or the reason why the call
    /// does not run.
    async fn check_gate(
        &self,
        running: &mut RunningCall<'_>,
        call: &mut Call,
        server: &Server,
        asker: &SharedAsker,
    ) -> Result<Map<String, Value>, CallError> {
        running.record_arguments(&call.arguments);
        let verdict = self.gate.judge(&GateRequest::of(running.tool, &call.arguments).with_caller(&call.caller));
        match verdict {
            Verdict::Allow { why } => {
                running.record_decision(Decision::Allowed, why);
                Ok(mem::take(&mut call.arguments))
            }
            Verdict::Deny { why } => Err(running.refuse(Decision::Denied, why)),
            // Boxed, because this future is large and most calls do not need it.
            Verdict::Confirm { why, lasting } => {
                Box::pin(self.confirm(running, UnconfirmedCall { call, server, asker, why, lasting })).await
            }
        }
    }

    /// Sends a call to its server, and shapes the result.
    async fn send(&self, call: &Call, approved_call: ApprovedCall<'_>) -> Result<ToolOutcome, CallError> {
        let ApprovedCall { id, tool, server, arguments, asker } = approved_call;
        let mode = server.spec.validate_args.unwrap_or_default();
        let mismatch = if mode == ValidateArgs::Off { None } else { Box::pin(input_mismatch(tool, &arguments)).await };
        if mode == ValidateArgs::Strict
            && let Some(problem) = mismatch
        {
            return Err(CallError::ArgumentMismatch {
                server: tool.server.clone(),
                tool: quote(&tool.tool().name),
                problem,
            });
        }
        let target = Target { server_name: &tool.server, item_name: &tool.tool().name, server };
        let wait_start = Instant::now();
        let idle_timeout = call.idle_timeout(server);
        let link = target.link(idle_timeout).await?;
        let definition = tool.tool();
        let request = Request {
            method: "tools/call",
            label: "the call",
            name: definition.name.clone(),
            headers: tool.listed.headers.headers_for(&arguments),
            params: Map::from_iter([
                ("name".to_owned(), Value::from(definition.name.clone())),
                ("arguments".to_owned(), Value::Object(arguments)),
            ]),
            asker,
            caller: call.caller.clone(),
            on_progress: Some(self.on_progress(id, call.on_progress.clone())),
            idle: idle_timeout,
            // The total time limit must not be shorter than an idle time-out that the caller has raised.
            total: server.spec.timeouts.call_total.max(idle_timeout),
            spent: wait_start.elapsed(),
            as_task: definition.task == TaskSupport::Required && link.runs_tasks(),
            trace: call.trace.clone(),
        };
        let result = link.run(request).await.map_err(|error| target.call_error(error))?;
        let forwards_unchanged = call.wants_verbatim && result.len() <= server.spec.limits.output_bytes;
        if forwards_unchanged {
            let is_error = check_undecoded(&result).map_err(|error| target.call_error(error))?;
            if ToolOutcome::needs_no_check(tool, is_error, server.spec.output_schema) {
                return Ok(ToolOutcome::verbatim(tool, is_error, result));
            }
        }
        let decoded = call_result(&result).map_err(|error| target.call_error(error))?;
        let mut shaper = self.shaper(&tool.server, &definition.name, server);
        if call.is_untruncated {
            shaper.max_bytes = usize::MAX;
        }
        let mut outcome = shaper.outcome(decoded, tool).await;
        // If the check of the output schema has turned the result into an error, the caller must get that error.
        if forwards_unchanged && !outcome.is_error {
            return Ok(ToolOutcome::verbatim(tool, false, result));
        }
        outcome.bytes = result.len();
        outcome
            .warnings
            .extend(mismatch.map(|problem| format!("the arguments do not match the input schema: {problem}")));
        Ok(outcome)
    }

    /// Returns the [`Shaper`] for results of `server`, with the limits in its configuration. `name` is the name of the
    /// tool, the prompt or the resource.
    pub(crate) fn shaper<'a>(&'a self, server_name: &'a ServerName, name: &'a str, server: &Server) -> Shaper<'a> {
        Shaper {
            server: server_name,
            name,
            max_bytes: server.spec.limits.output_bytes,
            artifacts: self.artifacts.as_deref(),
            output_schema: server.spec.output_schema,
        }
    }

    /// Runs a script instead of sending a request. No time-out applies here: each call in the script has its own
    /// bounds, and the interpreter bounds the rest.
    async fn run_script(&self, script: Script, call: Call, approved_call: ApprovedCall<'_>) -> ToolOutcome {
        let ApprovedCall { id, tool, server, arguments, asker } = approved_call;
        let context = ScriptContext {
            asker,
            on_progress: Some(self.on_progress(id, call.on_progress)),
            conceal: call.conceal,
            caller: call.caller,
        };
        let (result, calls) = script(arguments, context).await;
        let mut outcome = self.shaper(&tool.server, &tool.tool().name, server).outcome(result, tool).await;
        outcome.calls = calls;
        outcome
    }

    /// Returns a callback that passes all progress to the caller, and some of it to the host's events.
    fn on_progress(&self, id: EventCall, callback: Option<OnProgress>) -> OnProgress {
        // `next_event_at` is the earliest time for the next event, in milliseconds since `request_start`.
        let (events, request_start, next_event_at) = (self.events.clone(), Instant::now(), AtomicU64::new(0));
        Arc::new(move |progress| {
            let now = u64::try_from(request_start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let advance = |earliest| (earliest <= now).then(|| now.saturating_add(PROGRESS_INTERVAL_MS));
            if next_event_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance).is_ok() {
                events(Event::ToolProgress {
                    call: id.clone(),
                    progress: progress.progress,
                    total: progress.total,
                    message: progress.message.as_deref().map(quote),
                });
            }
            if let Some(callback) = &callback {
                callback(progress);
            }
        })
    }
}

/// Checks `arguments` against the input schema of `tool`. Returns the mismatch; `None` if they match, or if the check
/// could not be made.
async fn input_mismatch(tool: &CatalogTool, arguments: &Map<String, Value>) -> Option<String> {
    match check_failure(tool, Value::Object(arguments.clone()), ListedTool::check_input).await? {
        CheckFailure::Mismatch(why) => Some(why),
        // If the check could not be made, the call runs: the server checks the arguments itself.
        CheckFailure::Unchecked(_) => None,
    }
}

/// A call that passed the gate.
struct ApprovedCall<'a> {
    id: EventCall,
    tool: &'a CatalogTool,
    server: &'a Server,
    /// The arguments to send.
    arguments: Map<String, Value>,
    asker: SharedAsker,
}

/// The shortest time between two progress events of one call, in milliseconds, so that a flood does not crowd out other
/// events.
const PROGRESS_INTERVAL_MS: u64 = 100;

/// The server of a request, and the name of the requested item. Its methods wait for the link to the server, and create
/// the errors of the request.
pub(crate) struct Target<'a> {
    pub(crate) server_name: &'a ServerName,
    /// The name of the tool, prompt or resource, for errors.
    pub(crate) item_name: &'a str,
    pub(crate) server: &'a Server,
}

impl Target<'_> {
    /// Waits at most `limit` for the link to the server. If the server waits before its next attempt to connect, ends
    /// that wait early.
    pub(crate) async fn link(&self, limit: Duration) -> Result<Link, CallError> {
        let snapshot = match timeout(limit, self.server.link()).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(snapshot)) => snapshot,
            Err(_) => self.server.snapshot(),
        };
        Err(self.not_ready_error(snapshot))
    }

    /// Returns the error for a server without a link, in the state of `snapshot`.
    pub(crate) fn not_ready_error(&self, snapshot: Snapshot) -> CallError {
        let Snapshot { mut state, mut error, .. } = snapshot;
        // The output of a shared server may be about the call of another principal.
        if self.server.has_private_output {
            if let Some(failure) = state.failure_mut() {
                failure.remove_output();
            }
            error = error.map(|error| Arc::new(LinkError::clone(&error).without_output()));
        }
        CallError::NotReady { server: self.server_name.clone(), state, configured_in: self.source(), error }
    }

    /// Returns where the server is configured. Leaves the path out if several principals share the server, because
    /// these principals do not configure the server themselves.
    fn source(&self) -> Box<Source> {
        Box::new(match self.server.has_private_output {
            true => Source { scope: "the shared configuration".to_owned(), path: None },
            false => self.server.spec.source.clone(),
        })
    }

    /// Returns the error for a request that failed on the way, or that the server refused.
    pub(crate) fn call_error(&self, error: LinkError) -> CallError {
        let (server, what) = (self.server_name.clone(), quote(self.item_name));
        match error {
            LinkError::Rpc(error) => CallError::Remote { server, what, error },
            error => {
                let error = if self.server.has_private_output { error.without_output() } else { error };
                CallError::Link { server, what, configured_in: self.source(), error }
            }
        }
    }
}
