//! Runs one script in QuickJS, on one thread. Installs the globals of the script, and enforces its bounds. A script
//! sends requests, such as calls of tools, to the host, and gets an answer to each.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use rquickjs::{
    Coerced, Context, Ctx, Error, Exception, FromJs as _, Function, Promise, Runtime, Value,
    context::{EvalOptions, intrinsic},
    promise::PromiseState,
};
use serde_json::Map;
use tokio::sync::mpsc;
use toolrack_host::ScriptCallError;

use crate::{Bounds, watch::ScriptState};

/// The JavaScript that defines the globals of scripts.
const PRELUDE: &str = include_str!("prelude.js");
/// The stack that JavaScript may use, in bytes. It must be smaller than the stack of the thread, which has 2 MiB.
const MAX_STACK_BYTES: usize = 512 * 1024;
/// The maximum size of the arguments of one call, in bytes.
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
/// The maximum number of lines of a stack trace that the model sees.
const MAX_STACK_LINES: usize = 4;
/// The maximum number of tools that a search returns if the script gives no valid number. `prelude.js` has the same
/// default.
const DEFAULT_SEARCH_LIMIT: usize = 5;

/// The features of the language that a script may use: `Date` is its only clock, and there are no files and no modules.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// A script's request to the host.
#[derive(Debug)]
pub(crate) struct ScriptRequest {
    /// The number of the request, which its answer repeats. The script counts its requests from 1.
    pub(crate) number: u32,
    pub(crate) kind: RequestKind,
}

/// The kinds of requests.
#[derive(Debug)]
pub(crate) enum RequestKind {
    /// Calls a tool.
    Call { selector: String, arguments: Map<String, serde_json::Value> },
    /// Searches for tools.
    Search { query: String, limit: usize },
    /// Asks for the description of a tool.
    Details { selector: String },
}

/// The host's answer to a request: JSON, or the error of the call.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The number of the request.
    pub(crate) number: u32,
    pub(crate) result: Result<String, ScriptCallError>,
}

/// Runs `code` until the script and each call that it began have ended. `state` collects the output. Blocks the thread,
/// even while the script waits for answers. If the script fails or is stopped, returns an error for the model.
pub(crate) fn run(
    code: &str,
    bounds: Bounds,
    request_sender: mpsc::Sender<ScriptRequest>,
    answers: mpsc::Receiver<Answer>,
    state: Arc<ScriptState>,
) -> Option<String> {
    let clock = Rc::new(Clock { remaining: Cell::new(bounds.compute), resumed_at: Cell::new(None), state });
    clock.resume();
    let script = Script {
        clock: Rc::clone(&clock),
        pending_requests: Rc::default(),
        unhandled_rejections: Rc::default(),
        request_sender,
        bounds,
    };
    let result = script.run(code, answers);
    result.err().map(|failure| match failure {
        _ if clock.state.is_stopped() => "the script was cancelled".to_owned(),
        _ if clock.is_time_up() => compute_timeout_error(bounds),
        Failure::Threw(message) => message,
        Failure::OutOfMemory => {
            format!("the script was ended: it needs more than {} MiB of memory", bounds.memory / (1024 * 1024))
        }
        Failure::Stuck => "the script was ended: it waits for a promise that nothing resolves".to_owned(),
    })
}

/// Returns the error for a script that computed for too long, in words for the model.
pub(crate) fn compute_timeout_error(bounds: Bounds) -> String {
    format!("the script was ended: it computed for more than {} s", bounds.compute.as_secs_f32())
}

/// The reason why a script failed.
enum Failure {
    /// It threw an error. The text has the message, and the lines that threw the error.
    Threw(String),
    OutOfMemory,
    /// It waits for a promise, but for no answer of the host, so that the promise stays pending for ever.
    Stuck,
}

/// A script, and the state that its callbacks share.
struct Script {
    clock: Rc<Clock>,
    /// How many requests have no answer yet.
    pending_requests: Rc<Cell<usize>>,
    /// The rejected promises that the script has not handled.
    unhandled_rejections: Rc<RefCell<UnhandledRejections>>,
    request_sender: mpsc::Sender<ScriptRequest>,
    bounds: Bounds,
}

impl Script {
    /// Creates a runtime of QuickJS with the bounds of the script, and runs `code` in it.
    fn run(self, code: &str, answers: mpsc::Receiver<Answer>) -> Result<(), Failure> {
        // Creating a runtime or a context fails only for lack of memory.
        let out_of_memory = |_: Error| Failure::OutOfMemory;
        let runtime = Runtime::new().map_err(out_of_memory)?;
        runtime.set_memory_limit(self.bounds.memory);
        runtime.set_max_stack_size(MAX_STACK_BYTES);
        let clock = Rc::clone(&self.clock);
        runtime.set_interrupt_handler(Some(Box::new(move || clock.must_stop())));
        let unhandled_rejections = Rc::clone(&self.unhandled_rejections);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, is_handled| {
            unhandled_rejections.borrow_mut().record(&reason, is_handled);
        })));
        let context = Context::custom::<Language>(&runtime).map_err(out_of_memory)?;
        context.with(|ctx| self.run_to_completion(&ctx, code, answers))
    }

    /// Evaluates `code`, and then alternates between the script's pending jobs and the answers of the host.
    fn run_to_completion(self, ctx: &Ctx<'_>, code: &str, mut answers: mpsc::Receiver<Answer>) -> Result<(), Failure> {
        let (clock, pending_requests) = (Rc::clone(&self.clock), Rc::clone(&self.pending_requests));
        let unhandled_rejections = Rc::clone(&self.unhandled_rejections);
        let settle_promise = self.install_globals(ctx).map_err(|error| to_failure(ctx, &error))?;
        let mut options = EvalOptions::default();
        options.strict = false;
        // The script may use `await` at its top level.
        options.promise = true;
        options.filename = Some("script".to_owned());
        let main: Promise<'_> = ctx.eval_with_options(code, options).map_err(|error| to_failure(ctx, &error))?;
        loop {
            while !clock.must_stop() && ctx.execute_pending_job() {}
            if clock.must_stop() {
                // `engine::run` asks the clock first, and so replaces this reason.
                return Err(Failure::Stuck);
            }
            if let Some(Err(error)) = main.result::<Value<'_>>() {
                return Err(to_failure(ctx, &error));
            }
            match pending_requests.get() {
                0 if main.state() == PromiseState::Pending => return Err(Failure::Stuck),
                0 => return unhandled_rejections.take().into_result(),
                _ => {}
            }
            clock.pause();
            let answer = answers.blocking_recv();
            clock.resume();
            let Some(Answer { number, result }) = answer else { return Err(Failure::Stuck) };
            pending_requests.set(pending_requests.get() - 1);
            // `prelude.js` takes an empty code for success.
            let (error_code, text) = match result {
                Ok(json) => ("", json),
                Err(ScriptCallError { code, message, .. }) => (code, message),
            };
            settle_promise.call::<_, ()>((number, error_code, text)).map_err(|error| to_failure(ctx, &error))?;
        }
    }

    /// Adds the globals of a script; returns the function that settles its promises.
    fn install_globals<'js>(self, ctx: &Ctx<'js>) -> Result<Function<'js>, Error> {
        let state = Arc::clone(&self.clock.state);
        let print = Function::new(ctx.clone(), move |line: String| state.print(&line))?;
        // Returns `undefined` to the script, or the reason why the host refuses the request.
        let send_request = move |number: u32, kind: String, name: String, argument: String| {
            self.enqueue(number, &kind, name, argument)
        };
        let send_request = Function::new(ctx.clone(), send_request)?;
        ctx.eval::<Function<'js>, _>(PRELUDE)?.call((send_request, print))
    }

    /// Sends a request of the script to the host. If the script may not make the request, returns the reason.
    fn enqueue(&self, number: u32, kind: &str, name: String, argument: String) -> Option<String> {
        if argument.len() > MAX_ARGUMENT_BYTES {
            return Some(format!("the arguments of a call have at most {MAX_ARGUMENT_BYTES} bytes"));
        }
        let kind = match kind {
            "call" => match serde_json::from_str(&argument) {
                Ok(arguments) => RequestKind::Call { selector: name, arguments },
                Err(error) => return Some(format!("{name} takes one object with its arguments: {error}")),
            },
            "search" => RequestKind::Search { query: name, limit: argument.parse().unwrap_or(DEFAULT_SEARCH_LIMIT) },
            // `prelude.js` sends no other kind than `details`.
            _ => RequestKind::Details { selector: name },
        };
        let max_calls = self.bounds.calls.get();
        // The channel has room for `max_calls` requests, so sending fails only when the task no longer receives
        // requests.
        if usize::try_from(number).is_ok_and(|number| number > max_calls)
            || self.request_sender.try_send(ScriptRequest { number, kind }).is_err()
        {
            return Some(format!("a script makes at most {max_calls} calls"));
        }
        self.pending_requests.set(self.pending_requests.get() + 1);
        None
    }
}

/// Converts an error of QuickJS to a failure, with the message and the lines of the script that threw it.
fn to_failure(ctx: &Ctx<'_>, error: &Error) -> Failure {
    if matches!(error, Error::Allocation) {
        return Failure::OutOfMemory;
    }
    if !error.is_exception() {
        return Failure::Threw(error.to_string());
    }
    let thrown = ctx.catch();
    // QuickJS throws `null` when it has no memory left to make an error.
    if thrown.is_null() || thrown.is_undefined() {
        return Failure::OutOfMemory;
    }
    let message = Coerced::<String>::from_js(ctx, thrown.clone())
        .map_or_else(|_| "the script threw a value without a text".to_owned(), |message| message.0);
    let stack = Exception::from_value(thrown).ok().and_then(|exception| exception.stack());
    // If QuickJS has a little memory left, it throws an error with this message.
    if message.ends_with("out of memory") {
        return Failure::OutOfMemory;
    }
    let stack = stack.unwrap_or_default();
    let lines = stack.lines().map(str::trim).filter(|line| line.contains("script:")).take(MAX_STACK_LINES);
    Failure::Threw(lines.fold(message, |message, line| message + "\n  " + line))
}

/// Rejected promises that the script has not handled. Most belong to failed calls that it does not await.
#[derive(Default)]
struct UnhandledRejections {
    count: usize,
    /// The message of the last promise that was rejected.
    message: String,
}

impl UnhandledRejections {
    /// Counts a rejected promise. With `is_handled`, the script has handled an earlier one, which then no longer
    /// counts.
    fn record(&mut self, reason: &Value<'_>, is_handled: bool) {
        if is_handled {
            self.count = self.count.saturating_sub(1);
            return;
        }
        self.count += 1;
        let message = reason.as_exception().and_then(Exception::message);
        self.message = message.unwrap_or_else(|| "a promise was rejected".to_owned());
    }

    /// Returns an error if there are rejected promises that the script has not handled.
    fn into_result(self) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        Err(Failure::Threw(format!("{} (nothing awaited it)", self.message)))
    }
}

/// Measures the time for which a script computes. It is paused while the script waits for an answer.
struct Clock {
    /// How long the script may still compute, counted from `resumed_at`.
    remaining: Cell<Duration>,
    /// When the script last began to compute; `None` while it waits.
    resumed_at: Cell<Option<Instant>>,
    state: Arc<ScriptState>,
}

impl Clock {
    /// Returns whether the script must end at its next step.
    fn must_stop(&self) -> bool {
        self.state.is_stopped() || self.is_time_up()
    }

    /// Returns whether the script has used up its time.
    fn is_time_up(&self) -> bool {
        self.resumed_at.get().is_some_and(|resumed_at| resumed_at.elapsed() >= self.remaining.get())
    }

    /// Stops the measurement while the script waits for an answer.
    fn pause(&self) {
        if let Some(resumed_at) = self.resumed_at.take() {
            self.remaining.set(self.remaining.get().saturating_sub(resumed_at.elapsed()));
        }
        self.state.set_deadline(None);
    }

    /// Continues the measurement, and sets the new deadline.
    fn resume(&self) {
        let now = Instant::now();
        self.resumed_at.set(Some(now));
        self.state.set_deadline(now.checked_add(self.remaining.get()));
    }
}
