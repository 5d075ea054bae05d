//! The interpreter of one script, on one thread: QuickJS, what a script finds in it, and its bounds.

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

use crate::{Bounds, watch::Seen};

/// The world of a script beside the language.
const PRELUDE: &str = include_str!("prelude.js");
/// How deep calls may nest, in bytes of the thread's stack, of which there are 2 MiB.
const STACK: usize = 512 * 1024;
/// Arguments of one call, in bytes.
const ARGUMENT_BYTES: usize = 1024 * 1024;
/// Lines of a stack that the model is shown.
const STACK_LINES: usize = 4;

/// The language, and no clock beside `Date`, no files, no modules.
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

/// A request of a script to the host.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its number in this script.
    pub(crate) number: u32,
    pub(crate) what: What,
}

/// The kinds of requests.
#[derive(Debug)]
pub(crate) enum What {
    Call { selector: String, arguments: Map<String, serde_json::Value> },
    Search { query: String, limit: usize },
    Details { selector: String },
}

/// The response: JSON, or why there is none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: u32,
    pub(crate) result: Result<String, ScriptCallError>,
}

/// Runs `code` to its end, which comes when nothing that it began is under way any more. Returns what prevented that,
/// in words for the model; `seen` has the output.
pub(crate) fn run(
    code: &str,
    bounds: Bounds,
    ask: mpsc::Sender<Asked>,
    answers: mpsc::Receiver<Answer>,
    seen: Arc<Seen>,
) -> Option<String> {
    let clock = Rc::new(Clock { left: Cell::new(bounds.compute), since: Cell::new(None), seen });
    clock.go_on();
    let script = Script { clock: Rc::clone(&clock), under_way: Rc::default(), lost: Rc::default(), ask, bounds };
    let ended = script.run(code, answers);
    ended.err().map(|why| match why {
        _ if clock.seen.is_stopped() => "the script was cancelled".to_owned(),
        _ if clock.is_over() => too_long(bounds),
        Why::Threw(said) => said,
        Why::OutOfMemory => {
            format!("the script was ended: it needs more than {} MiB of memory", bounds.memory / (1024 * 1024))
        }
        Why::Stuck => "the script was ended: it waits for something that will never happen".to_owned(),
    })
}

/// Why a script was ended that computed for too long, in words for the model.
pub(crate) fn too_long(bounds: Bounds) -> String {
    format!("the script was ended: it computed for more than {} s", bounds.compute.as_secs_f32())
}

/// Why a script did not come to its end.
enum Why {
    Threw(String),
    OutOfMemory,
    Stuck,
}

struct Script {
    clock: Rc<Clock>,
    /// Calls that have no answer yet.
    under_way: Rc<Cell<usize>>,
    lost: Rc<RefCell<Lost>>,
    ask: mpsc::Sender<Asked>,
    bounds: Bounds,
}

impl Script {
    fn run(self, code: &str, answers: mpsc::Receiver<Answer>) -> Result<(), Why> {
        let failed = |_: Error| Why::OutOfMemory;
        let runtime = Runtime::new().map_err(failed)?;
        runtime.set_memory_limit(self.bounds.memory);
        runtime.set_max_stack_size(STACK);
        let clock = Rc::clone(&self.clock);
        runtime.set_interrupt_handler(Some(Box::new(move || clock.is_no_more())));
        let lost = Rc::clone(&self.lost);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, is_handled| {
            lost.borrow_mut().note(&reason, is_handled);
        })));
        let context = Context::custom::<Language>(&runtime).map_err(failed)?;
        context.with(|ctx| self.until_the_end(&ctx, code, answers))
    }

    fn until_the_end(self, ctx: &Ctx<'_>, code: &str, mut answers: mpsc::Receiver<Answer>) -> Result<(), Why> {
        let (clock, under_way) = (Rc::clone(&self.clock), Rc::clone(&self.under_way));
        let lost = Rc::clone(&self.lost);
        let settle = self.furnish(ctx).map_err(|error| why(ctx, &error))?;
        let mut options = EvalOptions::default();
        options.strict = false;
        options.promise = true;
        options.filename = Some("script".to_owned());
        let main: Promise<'_> = ctx.eval_with_options(code, options).map_err(|error| why(ctx, &error))?;
        loop {
            while !clock.is_no_more() && ctx.execute_pending_job() {}
            if clock.is_no_more() {
                return Err(Why::Stuck);
            }
            if let Some(Err(error)) = main.result::<Value<'_>>() {
                return Err(why(ctx, &error));
            }
            match under_way.get() {
                0 if main.state() == PromiseState::Pending => return Err(Why::Stuck),
                0 => return lost.take().told(),
                _ => {}
            }
            clock.pause();
            let answer = answers.blocking_recv();
            clock.go_on();
            let Some(Answer { number, result }) = answer else { return Err(Why::Stuck) };
            under_way.set(under_way.get() - 1);
            let (code, said) = match result {
                Ok(json) => ("", json),
                Err(ScriptCallError { code, message, .. }) => (code, message),
            };
            settle.call::<_, ()>((number, code, said)).map_err(|error| why(ctx, &error))?;
        }
    }

    /// Adds the globals of a script; returns the function that settles its promises.
    fn furnish<'js>(self, ctx: &Ctx<'js>) -> Result<Function<'js>, Error> {
        let seen = Arc::clone(&self.clock.seen);
        let print = Function::new(ctx.clone(), move |line: String| seen.print(&line))?;
        // Gives `undefined`, or why not.
        let ask =
            move |number: u32, kind: String, name: String, argument: String| self.asked(number, &kind, name, argument);
        let ask = Function::new(ctx.clone(), ask)?;
        ctx.eval::<Function<'js>, _>(PRELUDE)?.call((ask, print))
    }

    fn asked(&self, number: u32, kind: &str, name: String, argument: String) -> Option<String> {
        if argument.len() > ARGUMENT_BYTES {
            return Some(format!("the arguments of a call have at most {ARGUMENT_BYTES} bytes"));
        }
        let what = match kind {
            "call" => match serde_json::from_str(&argument) {
                Ok(arguments) => What::Call { selector: name, arguments },
                Err(error) => return Some(format!("{name} takes one object with its arguments: {error}")),
            },
            "search" => What::Search { query: name, limit: argument.parse().unwrap_or(5) },
            _ => What::Details { selector: name },
        };
        let most = self.bounds.calls.get();
        if usize::try_from(number).is_ok_and(|number| number > most)
            || self.ask.try_send(Asked { number, what }).is_err()
        {
            return Some(format!("a script makes at most {most} calls"));
        }
        self.under_way.set(self.under_way.get() + 1);
        None
    }
}

/// The thrown error, in words, and where.
fn why(ctx: &Ctx<'_>, error: &Error) -> Why {
    if matches!(error, Error::Allocation) {
        return Why::OutOfMemory;
    }
    if !error.is_exception() {
        return Why::Threw(error.to_string());
    }
    let thrown = ctx.catch();
    // What QuickJS throws when there is no memory for anything to throw.
    if thrown.is_null() || thrown.is_undefined() {
        return Why::OutOfMemory;
    }
    let said = Coerced::<String>::from_js(ctx, thrown.clone()).map_or_else(|_| "something".to_owned(), |said| said.0);
    let stack = Exception::from_value(thrown).ok().and_then(|exception| exception.stack());
    if said.ends_with("out of memory") {
        return Why::OutOfMemory;
    }
    let stack = stack.unwrap_or_default();
    let lines = stack.lines().map(str::trim).filter(|line| line.contains("script:")).take(STACK_LINES);
    Why::Threw(lines.fold(said, |said, line| said + "\n  " + line))
}

/// Rejected promises that the script has not handled: most often calls without `await`.
#[derive(Default)]
struct Lost {
    failures: usize,
    said: String,
}

impl Lost {
    /// Counts a failed promise that the script does not await, or takes it back once the script does.
    fn note(&mut self, reason: &Value<'_>, is_handled: bool) {
        if is_handled {
            self.failures = self.failures.saturating_sub(1);
            return;
        }
        self.failures += 1;
        let said = reason.as_exception().and_then(Exception::message);
        self.said = said.unwrap_or_else(|| "a promise was rejected".to_owned());
    }

    fn told(self) -> Result<(), Why> {
        if self.failures == 0 {
            return Ok(());
        }
        Err(Why::Threw(format!("{} (nothing awaited it)", self.said)))
    }
}

/// How long a script computes.
struct Clock {
    left: Cell<Duration>,
    /// Since when it runs; `None` while the script waits.
    since: Cell<Option<Instant>>,
    seen: Arc<Seen>,
}

impl Clock {
    fn is_no_more(&self) -> bool {
        self.seen.is_stopped() || self.is_over()
    }

    fn is_over(&self) -> bool {
        self.since.get().is_some_and(|since| since.elapsed() >= self.left.get())
    }

    fn pause(&self) {
        if let Some(since) = self.since.take() {
            self.left.set(self.left.get().saturating_sub(since.elapsed()));
        }
        self.seen.computes_until(None);
    }

    fn go_on(&self) {
        let now = Instant::now();
        self.since.set(Some(now));
        self.seen.computes_until(now.checked_add(self.left.get()));
    }
}
