//! The one door: route, gate, send, ask, shape, report. There is no other way to run a tool.
//!
//! `gate` decides whether a call may run and `approve` has a person decide; `running` is the call on its way, so that
//! each end is reported, also that of a dropped future. `outcome`, `said` and `shape` make of an answer what a model can use;
//! `error`, `mcp_error` and `hint` say why there is none and what to do. `script` is for calls that a script makes.

mod approve;
mod error;
pub(crate) mod gate;
mod hint;
mod mcp_error;
mod outcome;
mod running;
mod said;
mod script;
pub(crate) mod shape;

use std::{
    borrow::Cow,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info_span};

pub use error::{CallError, CallErrorKind};
pub use mcp_error::McpError;
use outcome::unmet;
pub use outcome::{Artifact, Shaped, ToolOutcome};
pub(crate) use outcome::{Shape, shaped};
pub use script::ScriptCall;
pub(crate) use script::{Around, Script};

use self::{
    approve::Answered,
    gate::{Gate, GateRequest, Verdict},
    running::Running,
};
use crate::{
    ask::SharedAsker,
    catalog::{Catalog, CatalogTool, ListedTool, Named, Unmet},
    event::Event,
    link::{
        Link, LinkError, OnProgress, Request,
        decode::{call_result, plain_result},
        inbound::Events,
    },
    mcp::TaskSupport,
    resolve::{Answers, Artifacts},
    server::{Server, Snapshot},
    spec::{ServerName, ValidateArgs},
    text::quote,
    trace::{TraceContext, Tracer},
    witness::{Caller, Decision, Witness},
};

/// A call of a tool.
#[derive(Clone)]
pub struct Call {
    named: Named,
    arguments: Map<String, Value>,
    asker: Option<SharedAsker>,
    on_progress: Option<OnProgress>,
    timeout: Option<Duration>,
    catalog: Option<Arc<Catalog>>,
    conceal: Option<Conceal>,
    verbatim: bool,
    whole: bool,
    trace: Option<TraceContext>,
    caller: Caller,
    is_approved: bool,
    still_wanted: Option<StillWanted>,
}

/// Whether a call that was allowed should still be sent.
pub type StillWanted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Returns a text without the parts that must stay hidden.
pub type Conceal = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("selector", &self.selector()).finish_non_exhaustive()
    }
}

impl Call {
    /// A call of the tool `selector`: `server/tool`, `server.tool` or a model-visible name.
    pub fn new(selector: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self::named_so(Named::Written(selector.into()), arguments)
    }

    /// A call of the tool `tool` of `server`, as the server lists it. Neither name is parsed.
    pub fn of(server: ServerName, tool: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self::named_so(Named::Tool(server, tool.into()), arguments)
    }

    fn named_so(named: Named, arguments: Map<String, Value>) -> Self {
        Self {
            named,
            arguments,
            asker: None,
            on_progress: None,
            timeout: None,
            catalog: None,
            conceal: None,
            verbatim: false,
            whole: false,
            trace: None,
            caller: Caller::default(),
            is_approved: false,
            still_wanted: None,
        }
    }

    /// The tool as the caller named it.
    #[must_use]
    pub fn selector(&self) -> Cow<'_, str> {
        match &self.named {
            Named::Tool(server, tool) => Cow::Owned(format!("{server}/{tool}")),
            Named::Written(selector) => Cow::Borrowed(selector),
        }
    }

    pub(crate) fn named(&self) -> &Named {
        &self.named
    }

    /// How long it may wait for `server`, and then for each sign of life.
    pub(crate) fn patience(&self, server: &Server) -> Duration {
        self.timeout.unwrap_or(server.spec.timeouts.call)
    }

    pub(crate) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.clone()
    }

    pub(crate) fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// The same call, of another tool.
    pub(crate) fn of_other(self, tool: &CatalogTool, arguments: Map<String, Value>) -> Self {
        Self { named: Named::Tool(tool.server.clone(), tool.tool().name.clone()), arguments, ..self }
    }

    /// The asker for questions during this call; default: the asker of the host.
    #[must_use]
    pub fn asker(mut self, asker: SharedAsker) -> Self {
        self.asker = Some(asker);
        self
    }

    /// Called for each report of progress, in order, and never after the call has ended. Must not block.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnProgress) -> Self {
        self.on_progress = Some(on_progress);
        self
    }

    /// The longest silence, in place of the server's [`Timeouts::call`](crate::Timeouts::call).
    #[must_use]
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.timeout = Some(idle);
        self
    }

    /// Cuts no text of the result: for a caller that wants this one result and is no model. The bounds on what a server
    /// may send still hold ([`Limits::message_bytes`](crate::Limits::message_bytes) and its like).
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Hides what no model may see in results that tools return to a [script](crate::Host::scripts): the script could
    /// print it in another spelling, which no filter would find. Results of other calls are as they came.
    #[must_use]
    pub fn conceal(mut self, conceal: Conceal) -> Self {
        self.conceal = Some(conceal);
        self
    }

    /// Looks the name up in this catalog, which a run pinned when it started, and not in the newest.
    #[must_use]
    pub fn pinned(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = Some(catalog);
        self
    }

    /// Where in a trace the call belongs; sent to the server. Calls of a script have no trace.
    #[must_use]
    pub fn trace(mut self, context: Option<TraceContext>) -> Self {
        self.trace = context;
        self
    }

    /// Who calls, for the [witness](crate::Witness). Default: the program that embeds this library.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// A person has approved this call already, with these arguments: where the gate wants a person to decide, the call
    /// runs without a question. The gate can still deny it. Calls that a script makes are not approved by this.
    #[must_use]
    pub fn approved(mut self) -> Self {
        self.is_approved = true;
        self
    }

    /// Called once, after the gate let the call pass and before anything is sent: on `false`, the call is refused and
    /// nothing is sent. So a caller that gives a call up knows whether it was sent. Must not block.
    #[must_use]
    pub fn still_wanted(mut self, still_wanted: StillWanted) -> Self {
        self.still_wanted = Some(still_wanted);
        self
    }

    /// The caller wants the result as it came, to pass it on to a client of its own.
    ///
    /// A result of at most [`Limits::output_bytes`](crate::Limits::output_bytes) is then
    /// [`verbatim`](field@ToolOutcome::verbatim) and nothing else: not decoded, and not checked against the tool's
    /// output schema, which that client does, unless the server's is to be
    /// [enforced](crate::spec::OutputSchema::Reject). A larger one is decoded and cut as usual.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }
}

/// What the door needs from its host.
pub(crate) struct Door {
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) asker: SharedAsker,
    pub(crate) artifacts: Option<Arc<dyn Artifacts>>,
    pub(crate) events: Events,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    pub(crate) tracer: Arc<dyn Tracer>,
    /// Shared by all doors of the same host: each call has a number of its own.
    pub(crate) calls: Arc<AtomicU64>,
    /// Answers that count for good, from all askers.
    pub(crate) answers: Option<Arc<dyn Answers>>,
    /// Answers that count until the program ends, from the asker of this door.
    pub(crate) answered: Arc<Answered>,
}

impl Door {
    /// The same door, where `asker` answers questions unless a call brings its own asker, and `gate` decides.
    pub(crate) fn with(&self, asker: SharedAsker, gate: Arc<dyn Gate>) -> Self {
        Self {
            gate,
            asker,
            artifacts: self.artifacts.clone(),
            events: self.events.clone(),
            witness: self.witness.clone(),
            tracer: self.tracer.clone(),
            calls: self.calls.clone(),
            answers: self.answers.clone(),
            answered: Arc::default(),
        }
    }

    /// Runs a call through the door.
    pub(crate) fn call(
        &self,
        mut call: Call,
        tool: &CatalogTool,
        server: &Server,
        script: Option<Script>,
    ) -> impl Future<Output = Result<ToolOutcome, CallError>> {
        let span = info_span!("call", server = %tool.server, tool = %quote(&tool.tool().name), end = Empty);
        call.trace = self.tracer.follow(&span, call.trace.as_ref());
        self.through(call, tool, server, script).instrument(span)
    }

    async fn through(
        &self,
        mut call: Call,
        tool: &CatalogTool,
        server: &Server,
        script: Option<Script>,
    ) -> Result<ToolOutcome, CallError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let asker = call.asker.clone().unwrap_or_else(|| self.asker.clone());
        let mut running = Running::new(self, number, tool, call.caller.clone());
        // The common case costs nothing.
        if server.may_hold(&tool.tool().name)
            && let Some(cause) = Box::pin(server.is_held(&tool.tool().name)).await
        {
            running.is_about(&call.arguments);
            return Err(running.held(cause));
        }
        let arguments = self.pass(&mut running, (&mut call, server), &asker).await?;
        if call.still_wanted.as_ref().is_some_and(|still_wanted| !still_wanted()) {
            let why = "its caller gave it up before it was sent; it was not run".to_owned();
            return Err(running.refused(Decision::Denied, why));
        }
        running.starts();
        let passed = Passed { number, tool, server, arguments, asker };
        let result = match script {
            Some(script) => Ok(Box::pin(self.run(script, call, passed)).await),
            None => self.send(&call, passed).await,
        };
        running.ends(&result);
        result.map(|mut outcome| {
            outcome.duration = running.elapsed();
            outcome
        })
    }

    /// The gate: returns the arguments to send, or why nothing is sent.
    async fn pass(
        &self,
        running: &mut Running<'_>,
        (call, server): (&mut Call, &Server),
        asker: &SharedAsker,
    ) -> Result<Map<String, Value>, CallError> {
        running.is_about(&call.arguments);
        let verdict = self.gate.judge(&GateRequest::of(running.tool, &call.arguments).by(&call.caller));
        match verdict {
            Verdict::Allow { why } => {
                running.decided(Decision::Allowed, why);
                Ok(mem::take(&mut call.arguments))
            }
            Verdict::Deny { why } => Err(running.refused(Decision::Denied, why)),
            // Boxed: most calls need no room for it.
            Verdict::Confirm { why, lasting } => {
                Box::pin(self.confirm(running, (call, server), asker, (why, lasting))).await
            }
        }
    }

    async fn send(&self, call: &Call, passed: Passed<'_>) -> Result<ToolOutcome, CallError> {
        let Passed { number, tool, server, arguments, asker } = passed;
        let mode = server.spec.validate_args.unwrap_or_default();
        let misfit = if mode == ValidateArgs::Off { None } else { Box::pin(misfit(tool, &arguments)).await };
        if mode == ValidateArgs::Strict
            && let Some(problem) = misfit
        {
            return Err(CallError::Misfit { server: tool.server.clone(), tool: quote(&tool.tool().name), problem });
        }
        let target = Target { name: &tool.server, what: &tool.tool().name, server };
        let began = Instant::now();
        let idle = call.patience(server);
        let link = target.link(idle).await?;
        let definition = tool.tool();
        let request = Request {
            method: "tools/call",
            what: "the call",
            name: definition.name.clone(),
            headers: tool.listed.headers.apply(&arguments),
            params: Map::from_iter([
                ("name".to_owned(), Value::from(definition.name.clone())),
                ("arguments".to_owned(), Value::Object(arguments)),
            ]),
            asker,
            caller: call.caller.clone(),
            on_progress: Some(self.on_progress(number, call.on_progress.clone())),
            idle,
            // The wait for the server was part of the call's time.
            total: server.spec.timeouts.call_total.max(idle).saturating_sub(began.elapsed()),
            as_task: definition.task == TaskSupport::Required && link.runs_tasks(),
            trace: call.trace.clone(),
        };
        let result = link.run(request).await.map_err(|error| target.failed(error))?;
        let goes_verbatim = call.verbatim && result.len() <= server.spec.limits.output_bytes;
        if goes_verbatim {
            let is_error = plain_result(&result).map_err(|error| target.failed(error))?;
            if ToolOutcome::passes_unseen(tool, is_error, server.spec.output_schema) {
                return Ok(ToolOutcome::verbatim(tool, is_error, result));
            }
        }
        let decoded = call_result(&result).map_err(|error| target.failed(error))?;
        let mut shape = self.shape(&tool.server, &definition.name, server);
        if call.whole {
            shape.max_bytes = usize::MAX;
        }
        let mut outcome = shape.outcome(decoded, tool).await;
        // What is an error now was none as it came.
        if goes_verbatim && !outcome.is_error {
            return Ok(ToolOutcome::verbatim(tool, false, result));
        }
        outcome.bytes = result.len();
        outcome
            .warnings
            .extend(misfit.map(|problem| format!("the arguments do not match the input schema: {problem}")));
        Ok(outcome)
    }

    /// How results of `server` under `name` are cut to what a model can use.
    pub(crate) fn shape<'a>(&'a self, server: &'a ServerName, name: &'a str, of: &Server) -> Shape<'a> {
        Shape {
            server,
            name,
            max_bytes: of.spec.limits.output_bytes,
            artifacts: self.artifacts.as_deref(),
            output_schema: of.spec.output_schema,
        }
    }

    /// Runs a script in the place of its server. Each call in it has bounds of its own, and so has the interpreter.
    async fn run(&self, script: Script, call: Call, passed: Passed<'_>) -> ToolOutcome {
        let Passed { number, tool, server, arguments, asker } = passed;
        let around = Around {
            asker,
            on_progress: Some(self.on_progress(number, call.on_progress)),
            conceal: call.conceal,
            caller: call.caller,
        };
        let (result, calls) = script(arguments, around).await;
        let mut outcome = self.shape(&tool.server, &tool.tool().name, server).outcome(result, tool).await;
        outcome.calls = calls;
        outcome
    }

    /// Reports all progress to the caller, and some of it as events of the host.
    fn on_progress(&self, number: u64, told: Option<OnProgress>) -> OnProgress {
        // In milliseconds since the first progress could come.
        let (events, began, due) = (self.events.clone(), Instant::now(), AtomicU64::new(0));
        Arc::new(move |progress| {
            let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let next = |due| (due <= now).then(|| now.saturating_add(PROGRESS_EVENTS));
            if due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
                events(Event::ToolProgress {
                    call: number,
                    progress: progress.progress,
                    total: progress.total,
                    message: progress.message.as_deref().map(quote),
                });
            }
            if let Some(told) = &told {
                told(progress);
            }
        })
    }
}

/// Why `arguments` certainly do not fit the input schema of `tool`.
async fn misfit(tool: &CatalogTool, arguments: &Map<String, Value>) -> Option<String> {
    match unmet(tool, Value::Object(arguments.clone()), ListedTool::check_input).await? {
        Unmet::Broken(why) => Some(why),
        // The server judges.
        Unmet::Unchecked(_) => None,
    }
}

/// A call that passed the gate.
struct Passed<'a> {
    number: u64,
    tool: &'a CatalogTool,
    server: &'a Server,
    /// Exactly what is sent.
    arguments: Map<String, Value>,
    asker: SharedAsker,
}

/// The shortest time between two progress events of one call, in milliseconds: a flood of them would wash others away.
const PROGRESS_EVENTS: u64 = 100;

/// The server of a request.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a ServerName,
    /// The tool, prompt or resource, for errors.
    pub(crate) what: &'a str,
    pub(crate) server: &'a Server,
}

impl Target<'_> {
    /// The link to the server, within `longest`; a server that waits before its next attempt is woken up.
    pub(crate) async fn link(&self, longest: Duration) -> Result<Link, CallError> {
        let snapshot = match timeout(longest, self.server.link()).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(snapshot)) => snapshot,
            Err(_) => self.server.snapshot(),
        };
        Err(self.not_ready(snapshot))
    }

    /// The error for a server that, as `snapshot` shows, has no link.
    pub(crate) fn not_ready(&self, snapshot: Snapshot) -> CallError {
        CallError::NotReady {
            server: self.name.clone(),
            state: snapshot.state,
            source_of: Box::new(self.server.spec.source.clone()),
            error: snapshot.error,
        }
    }

    pub(crate) fn failed(&self, error: LinkError) -> CallError {
        let (server, what) = (self.name.clone(), quote(self.what));
        match error {
            LinkError::Rpc(error) => CallError::Remote { server, what, error },
            error => CallError::Link { server, what, source_of: Box::new(self.server.spec.source.clone()), error },
        }
    }
}
