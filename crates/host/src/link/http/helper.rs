//! Headers that a program of the entry prints (`headers_helper`): for keys that another system issues and revokes.
//!
//! Compatible with what Claude Code calls `headersHelper` (<https://code.claude.com/docs/en/mcp>), except that no shell
//! is involved: stdout is a JSON object of texts, or `{ "headers": { … }, "expires_in": SECONDS }`. The program runs
//! when a connection needs its first request, again when the time that it named is over, and once when the server
//! answers 401. When several requests need it at once, only one runs it.

use std::{fmt, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{
    io::AsyncReadExt as _,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use url::Url;

use crate::{
    link::{
        error::{LinkError, Seconds},
        http::sensitive,
        process::{
            Process,
            child::{self, ChildCommand, Exit, Supervisor},
        },
    },
    resolve::Resolver,
    spec::{ServerName, Stdio},
};

/// The time-out of one run.
const RUN_TIME: Duration = Duration::from_secs(10);
/// The largest output.
const OUTPUT_BYTES: usize = 64 * 1024;
/// More headers than any server wants.
const HEADERS: usize = 64;
/// The longest time that headers are kept without asking again, whatever the program says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a program printed. Its `Debug` shows none of it.
pub(super) struct Given {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// `None`: for as long as the server takes them.
    until: Option<Instant>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("headers", &self.headers.len()).field("until", &self.until).finish()
    }
}

impl Given {
    fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// The program of one connection.
pub(super) struct Program {
    pub(super) spec: Stdio,
    pub(super) server: ServerName,
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) tasks: TaskTracker,
    pub(super) runs: Runs,
}

/// What the program printed last, and its run that is under way.
#[derive(Default)]
pub(super) struct Runs(Mutex<State>);

#[derive(Default)]
struct State {
    kept: Option<Arc<Given>>,
    /// The requests that wait for it own it: when the last of them no longer waits, it ends.
    under_way: Option<WeakShared<Run>>,
}

type Outcome = Result<Arc<Given>, LinkError>;
type Run = BoxFuture<'static, Outcome>;

/// Where a request gets its headers.
enum Source {
    Kept(Arc<Given>),
    /// From a run that another request began.
    Joined(Shared<Run>),
    Begun(Shared<Run>),
}

impl Runs {
    /// `run` makes a run, which does nothing until it is awaited.
    fn source(&self, run: impl FnOnce() -> Run) -> Source {
        let mut state = self.0.lock();
        if let Some(given) = state.kept.as_ref().filter(|given| given.is_fresh()) {
            return Source::Kept(Arc::clone(given));
        }
        if let Some(run) = state.under_way.as_ref().and_then(WeakShared::upgrade) {
            return Source::Joined(run);
        }
        let run = run().shared();
        state.under_way = run.downgrade();
        Source::Begun(run)
    }

    /// The run that was under way has ended.
    fn ended(&self, outcome: &Outcome) {
        *self.0.lock() = State { kept: outcome.as_ref().ok().cloned(), under_way: None };
    }
}

impl Program {
    /// The headers for a request to `url`.
    pub(super) async fn headers(self: &Arc<Self>, url: &Url) -> Outcome {
        loop {
            let (run, is_ours) = match self.runs.source(|| self.whole_run(url.clone()).boxed()) {
                Source::Kept(given) => return Ok(given),
                Source::Joined(run) => (run, false),
                Source::Begun(run) => (run, true),
            };
            let outcome = run.await;
            // A failure is shared too: no request waits ten seconds for each one before it. Headers that are over
            // already are for the request that began the run, and for no other.
            if is_ours || outcome.as_ref().is_ok_and(|given| given.is_fresh()) || outcome.is_err() {
                return outcome;
            }
        }
    }

    /// Runs it, and keeps what it printed.
    fn whole_run(self: &Arc<Self>, url: Url) -> impl Future<Output = Outcome> + Send + 'static {
        let program = Arc::clone(self);
        async move {
            let outcome = program.run(&url).await.map(Arc::new);
            program.runs.ended(&outcome);
            outcome
        }
    }

    /// The server did not take these: the next request gets others.
    pub(super) fn refused(&self, given: &Arc<Given>) {
        self.runs.0.lock().kept.take_if(|kept| Arc::ptr_eq(kept, given));
    }

    async fn run(&self, url: &Url) -> Result<Given, LinkError> {
        let mut words = None;
        let ran = timeout(RUN_TIME, self.output(url, &mut words)).await;
        let why = match ran {
            Ok(Ok(output)) => match parse(&output) {
                Ok((given, secrets)) => {
                    self.resolver.given(&self.server, secrets);
                    return Ok(given);
                }
                Err(why) => why,
            },
            Ok(Err(Failed::Link(error))) => return Err(error),
            Ok(Err(Failed::Why(why))) => why,
            Err(_) => format!("it took longer than {}", Seconds(RUN_TIME)),
        };
        let stderr = match &words {
            Some(process) => Process::last_words(process).await,
            None => String::new(),
        };
        Err(LinkError::Helper { why, stderr })
    }

    /// Runs it to its end; returns its output.
    async fn output(&self, url: &Url, words: &mut Option<Process>) -> Result<Vec<u8>, Failed> {
        let plan = self.resolver.stdio(&self.server, &self.spec).await;
        let plan = plan.map_err(|error| Failed::Link(LinkError::Resolve(error)))?;
        let mut env = plan.env;
        let mut url = url.clone();
        url.set_query(None);
        for (name, value) in [("SERVER_NAME", self.server.as_str()), ("SERVER_URL", url.as_str())] {
            env.push((format!("TOOLRACK_{name}").into(), value.into()));
            env.push((format!("CLAUDE_CODE_MCP_{name}").into(), value.into()));
        }
        let command = ChildCommand {
            program: plan.command.into(),
            args: plan.args.into_iter().map(Into::into).collect(),
            env,
            cwd: plan.cwd,
            confinement: plan.sandbox,
            container: None,
            supervisor: self.supervisor.clone(),
        };
        let started = child::spawn(command, None, &self.tasks).await;
        // Dropping the handle ends it with everything below it.
        let child = started.map_err(|error| Failed::Why(format!("it cannot be started: {error}")))?;
        *words = Some(Process::of(&child.handle, child.stderr));
        drop(child.stdin);
        let mut output = Vec::new();
        let mut stdout = child.stdout.take(OUTPUT_BYTES as u64 + 1);
        let read = stdout.read_to_end(&mut output).await;
        read.map_err(|error| Failed::Why(format!("its output cannot be read: {error}")))?;
        if output.len() > OUTPUT_BYTES {
            return Err(Failed::Why(format!("it printed more than {} KiB", OUTPUT_BYTES / 1024)));
        }
        match child.handle.exited().await {
            Exit::Code(0) => Ok(output),
            exit => Err(Failed::Why(format!("it ended with {exit}"))),
        }
    }
}

enum Failed {
    Link(LinkError),
    Why(String),
}

/// Headers with the time for which they are good.
#[derive(Deserialize)]
struct Timed {
    headers: Map<String, Value>,
    expires_in: Option<f64>,
}

/// Reads what was printed; also returns the values, which are secrets. An error holds none of it.
fn parse(output: &[u8]) -> Result<(Given, Vec<String>), String> {
    let printed: Map<String, Value> =
        serde_json::from_slice(output).map_err(|_| "it did not print a JSON object".to_owned())?;
    let is_timed = printed.get("headers").is_some_and(Value::is_object);
    let (named, expires_in) = if is_timed {
        let timed: Timed = serde_json::from_value(Value::Object(printed))
            .map_err(|_| "`expires_in` in what it printed is no number of seconds".to_owned())?;
        (timed.headers, timed.expires_in)
    } else {
        (printed, None)
    };
    if named.len() > HEADERS {
        return Err(format!("it printed more than {HEADERS} headers"));
    }
    let (mut headers, mut secrets) = (Vec::with_capacity(named.len()), Vec::with_capacity(named.len()));
    for (name, value) in named {
        let name = HeaderName::try_from(name).map_err(|_| "it printed a header with a name that is none".to_owned())?;
        let text = value.as_str().ok_or_else(|| format!("it printed no text for the header `{name}`"))?;
        let value = HeaderValue::try_from(text)
            .map_err(|_| format!("what it printed for the header `{name}` can be no value"))?;
        headers.push((name, sensitive(value)));
        secrets.push(text.to_owned());
    }
    let until = match expires_in {
        None => None,
        Some(seconds) => {
            let life = Duration::try_from_secs_f64(seconds).map_err(|_| "`expires_in` can be no time".to_owned())?;
            Some(Instant::now() + life.min(LONGEST))
        }
    };
    Ok((Given { headers, until }, secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Result<(Vec<String>, bool), String> {
        let (given, secrets) = parse(output.as_bytes())?;
        assert_eq!(given.headers.len(), secrets.len());
        Ok((given.headers.iter().map(|(name, _)| name.to_string()).collect(), given.until.is_some()))
    }

    #[test]
    fn what_is_printed_is_an_object_of_texts_with_a_time_or_without() {
        assert_eq!(read(r#"{"Authorization":"Bearer a","X-B":"c"}"#).unwrap().0, ["authorization", "x-b"]);
        assert_eq!(read(r#"{"headers":{"X-B":"c"},"expires_in":5}"#), Ok((vec!["x-b".to_owned()], true)));
        assert_eq!(read(r#"{"headers":{"X-B":"c"}}"#), Ok((vec!["x-b".to_owned()], false)));
        // A header of that name.
        assert_eq!(read(r#"{"headers":"c"}"#), Ok((vec!["headers".to_owned()], false)));
        assert_eq!(read("{}"), Ok((Vec::new(), false)));
    }

    #[test]
    fn a_run_is_shared_for_as_long_as_a_request_waits_for_it_and_its_headers_while_they_are_fresh() {
        let runs = Runs::default();
        let source = || runs.source(|| futures::future::pending().boxed());
        let (first, second) = (source(), source());
        assert!(matches!(first, Source::Begun(_)) && matches!(second, Source::Joined(_)));
        drop(first);
        let third = source();
        assert!(matches!(third, Source::Joined(_)), "the second still waits");
        drop((second, third));
        let fourth = source();
        assert!(matches!(fourth, Source::Begun(_)), "no request waits for the run before");

        let given = Arc::new(Given { headers: Vec::new(), until: None });
        runs.ended(&Ok(Arc::clone(&given)));
        assert!(matches!(source(), Source::Kept(kept) if Arc::ptr_eq(&kept, &given)));
        runs.ended(&Ok(Arc::new(Given { headers: Vec::new(), until: Some(Instant::now()) })));
        assert!(matches!(source(), Source::Begun(_)), "they are over");
        runs.ended(&Err(LinkError::Stopped));
        assert!(matches!(source(), Source::Begun(_)), "a failure is not kept");
    }

    #[test]
    fn what_cannot_be_used_is_told_without_repeating_it() {
        let many: Map<String, Value> = (0..=HEADERS).map(|at| (format!("x-{at}"), "canary".into())).collect();
        for wrong in [
            "",
            "canary",
            "[\"canary\"]",
            r#"{"X":{"canary":1}}"#,
            r#"{"X":1}"#,
            r#"{"X":"canary\nY: 1"}"#,
            r#"{"X canary":"a"}"#,
            r#"{"headers":{"X":"canary"},"expires_in":"canary"}"#,
            r#"{"headers":{"X":"canary"},"expires_in":-1}"#,
            &Value::Object(many).to_string(),
        ] {
            let why = read(wrong).unwrap_err();
            assert!(!why.contains("canary"), "{wrong}: {why}");
        }
    }
}
