//! Gets headers from a program that the server's configuration names (`headers_helper`), for keys that another system
//! issues and revokes.
//!
//! Compatible with Claude Code's `headersHelper` (<https://code.claude.com/docs/en/mcp>), except that no shell is
//! involved: stdout is a JSON object of texts, or `{ "headers": { … }, "expires_in": SECONDS }`. The program runs for
//! the first request of a connection, again when the time in its output has passed, and again when the server answers
//! with 401. If several requests need headers at the same time, one run serves all of them.

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
const RUN_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest output, in bytes.
const OUTPUT_BYTES: usize = 64 * 1024;
/// The most headers that a program may print.
const MAX_HEADERS: usize = 64;
/// The longest time for which headers are cached before the program runs again.
const MAX_CACHE_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The output of a program. `Debug` prints no header of it.
pub(super) struct HelperHeaders {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// When the headers expire; `None` if they are valid until the server refuses them.
    expires_at: Option<Instant>,
}

impl fmt::Debug for HelperHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperHeaders").field("headers", &self.headers.len()).field("until", &self.expires_at).finish()
    }
}

impl HelperHeaders {
    /// Returns whether the headers have not expired.
    fn is_fresh(&self) -> bool {
        self.expires_at.is_none_or(|expires_at| Instant::now() < expires_at)
    }
}

/// The helper program of one connection.
pub(super) struct HelperProgram {
    pub(super) spec: Stdio,
    pub(super) server: ServerName,
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) tasks: TaskTracker,
    pub(super) run_cache: RunCache,
}

/// The last output of the program, and its current run.
#[derive(Default)]
pub(super) struct RunCache(Mutex<State>);

#[derive(Default)]
struct State {
    /// The headers of the last run, unless it failed or the server has refused them.
    cached: Option<Arc<HelperHeaders>>,
    /// The current run. It is owned only by the requests that wait for it, so dropping the last of them ends the run.
    current_run: Option<WeakShared<Run>>,
}

type Outcome = Result<Arc<HelperHeaders>, LinkError>;
type Run = BoxFuture<'static, Outcome>;

/// Where a request gets its headers from.
enum HeaderSource {
    /// The headers of an earlier run.
    Cached(Arc<HelperHeaders>),
    /// A run that another request began.
    Joined(Shared<Run>),
    /// A run that this request begins.
    Begun(Shared<Run>),
}

impl RunCache {
    /// Chooses the source of headers. `run` creates a new run, which does nothing until it is awaited.
    fn source(&self, run: impl FnOnce() -> Run) -> HeaderSource {
        let mut state = self.0.lock();
        if let Some(headers) = state.cached.as_ref().filter(|headers| headers.is_fresh()) {
            return HeaderSource::Cached(Arc::clone(headers));
        }
        if let Some(run) = state.current_run.as_ref().and_then(WeakShared::upgrade) {
            return HeaderSource::Joined(run);
        }
        let run = run().shared();
        state.current_run = run.downgrade();
        HeaderSource::Begun(run)
    }

    /// Stores the outcome of the current run, which has ended.
    fn store_outcome(&self, outcome: &Outcome) {
        *self.0.lock() = State { cached: outcome.as_ref().ok().cloned(), current_run: None };
    }
}

impl HelperProgram {
    /// Returns the headers for requests to the server. The program gets `url`, the URL of the server.
    pub(super) async fn headers(self: &Arc<Self>, url: &Url) -> Outcome {
        loop {
            let (run, is_own_run) = match self.run_cache.source(|| self.run_to_completion(url.clone()).boxed()) {
                HeaderSource::Cached(headers) => return Ok(headers),
                HeaderSource::Joined(run) => (run, false),
                HeaderSource::Begun(run) => (run, true),
            };
            let outcome = run.await;
            // A failed run fails all requests that waited for it. If each request ran the program again instead, the
            // last request would wait up to ten seconds for each of the others. Headers that have already expired are
            // used only by the request that began the run.
            if is_own_run || outcome.as_ref().is_ok_and(|headers| headers.is_fresh()) || outcome.is_err() {
                return outcome;
            }
        }
    }

    /// Runs the program, and stores its output.
    fn run_to_completion(self: &Arc<Self>, url: Url) -> impl Future<Output = Outcome> + Send + 'static {
        let program = Arc::clone(self);
        async move {
            let outcome = program.run(&url).await.map(Arc::new);
            program.run_cache.store_outcome(&outcome);
            outcome
        }
    }

    /// Forgets these headers, because the server refused them. The next request runs the program again.
    pub(super) fn forget(&self, headers: &Arc<HelperHeaders>) {
        self.run_cache.0.lock().cached.take_if(|cached| Arc::ptr_eq(cached, headers));
    }

    /// Runs the program once, for at most [`RUN_TIMEOUT`].
    async fn run(&self, url: &Url) -> Result<HelperHeaders, LinkError> {
        let mut process = None;
        let result = timeout(RUN_TIMEOUT, self.run_for_output(url, &mut process)).await;
        let why = match result {
            Ok(Ok(output)) => match parse(&output) {
                Ok((headers, secrets)) => {
                    self.resolver.add_secrets(&self.server, secrets);
                    return Ok(headers);
                }
                Err(why) => why,
            },
            Ok(Err(RunError::Link(error))) => return Err(error),
            Ok(Err(RunError::Program(why))) => why,
            Err(_) => format!("it took longer than {}", Seconds(RUN_TIMEOUT)),
        };
        let stderr = match &process {
            Some(process) => Process::last_stderr(process).await,
            None => String::new(),
        };
        Err(LinkError::Helper { why, stderr })
    }

    /// Runs the program to its end, and returns its output. Stores the running process in `process`.
    async fn run_for_output(&self, url: &Url, process: &mut Option<Process>) -> Result<Vec<u8>, RunError> {
        let plan = self.resolver.stdio(&self.server, &self.spec).await;
        let plan = plan.map_err(|error| RunError::Link(LinkError::Resolve(error)))?;
        let mut env = plan.env;
        let mut url = url.clone();
        // The query may have a secret, such as a key.
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
        let on_stderr = None;
        let spawn_result = child::spawn(command, on_stderr, &self.tasks).await;
        // Dropping the handle ends the process and all its descendants.
        let child = spawn_result.map_err(|error| RunError::Program(format!("it cannot be started: {error}")))?;
        *process = Some(Process::new(&child.handle, child.stderr));
        drop(child.stdin);
        let mut output = Vec::new();
        let mut stdout = child.stdout.take(OUTPUT_BYTES as u64 + 1);
        let result = stdout.read_to_end(&mut output).await;
        result.map_err(|error| RunError::Program(format!("its output cannot be read: {error}")))?;
        if output.len() > OUTPUT_BYTES {
            return Err(RunError::Program(format!("it printed more than {} KiB", OUTPUT_BYTES / 1024)));
        }
        match child.handle.exited().await {
            Exit::Code(0) => Ok(output),
            exit => Err(RunError::Program(format!("it ended with {exit}"))),
        }
    }
}

/// The reason why a run has no output.
enum RunError {
    /// The program could not be run, because of this error.
    Link(LinkError),
    /// The program failed. The text is a clause that says how.
    Program(String),
}

/// Output with headers and with the number of seconds after which they expire.
#[derive(Deserialize)]
struct TimedOutput {
    headers: Map<String, Value>,
    expires_in: Option<f64>,
}

/// Parses the output. Returns the headers, and the values of the headers as secrets to hide. No error contains a value
/// of the output.
fn parse(output: &[u8]) -> Result<(HelperHeaders, Vec<String>), String> {
    let json: Map<String, Value> =
        serde_json::from_slice(output).map_err(|_| "it did not print a JSON object".to_owned())?;
    let is_timed = json.get("headers").is_some_and(Value::is_object);
    let (header_map, expires_in) = if is_timed {
        let timed_output: TimedOutput = serde_json::from_value(Value::Object(json))
            .map_err(|_| "`expires_in` in what it printed is not a number of seconds".to_owned())?;
        (timed_output.headers, timed_output.expires_in)
    } else {
        (json, None)
    };
    if header_map.len() > MAX_HEADERS {
        return Err(format!("it printed more than {MAX_HEADERS} headers"));
    }
    let (mut headers, mut secrets) = (Vec::with_capacity(header_map.len()), Vec::with_capacity(header_map.len()));
    for (name, value) in header_map {
        let name = HeaderName::try_from(name).map_err(|_| "it printed a header with an invalid name".to_owned())?;
        let text =
            value.as_str().ok_or_else(|| format!("the value that it printed for the header `{name}` is not a text"))?;
        let value = HeaderValue::try_from(text)
            .map_err(|_| format!("the value that it printed for the header `{name}` is invalid"))?;
        headers.push((name, sensitive(value)));
        secrets.push(text.to_owned());
    }
    let expires_at = match expires_in {
        None => None,
        Some(seconds) => {
            let lifetime =
                Duration::try_from_secs_f64(seconds).map_err(|_| "`expires_in` is not a valid time".to_owned())?;
            Some(Instant::now() + lifetime.min(MAX_CACHE_TIME))
        }
    };
    Ok((HelperHeaders { headers, expires_at }, secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Result<(Vec<String>, bool), String> {
        let (given, secrets) = parse(output.as_bytes())?;
        assert_eq!(given.headers.len(), secrets.len());
        Ok((given.headers.iter().map(|(name, _)| name.to_string()).collect(), given.expires_at.is_some()))
    }

    #[test]
    fn the_helper_prints_an_object_of_texts_with_or_without_an_expiry() {
        assert_eq!(read(r#"{"Authorization":"Bearer a","X-B":"c"}"#).unwrap().0, ["authorization", "x-b"]);
        assert_eq!(read(r#"{"headers":{"X-B":"c"},"expires_in":5}"#), Ok((vec!["x-b".to_owned()], true)));
        assert_eq!(read(r#"{"headers":{"X-B":"c"}}"#), Ok((vec!["x-b".to_owned()], false)));
        // This is a header with the name `headers`.
        assert_eq!(read(r#"{"headers":"c"}"#), Ok((vec!["headers".to_owned()], false)));
        assert_eq!(read("{}"), Ok((Vec::new(), false)));
    }

    #[test]
    fn a_run_is_shared_for_as_long_as_a_request_waits_for_it_and_its_headers_while_they_are_fresh() {
        let runs = RunCache::default();
        let source = || runs.source(|| futures::future::pending().boxed());
        let (first, second) = (source(), source());
        assert!(matches!(first, HeaderSource::Begun(_)) && matches!(second, HeaderSource::Joined(_)));
        drop(first);
        let third = source();
        assert!(matches!(third, HeaderSource::Joined(_)), "the second still waits");
        drop((second, third));
        let fourth = source();
        assert!(matches!(fourth, HeaderSource::Begun(_)), "no request waits for the run before");

        let given = Arc::new(HelperHeaders { headers: Vec::new(), expires_at: None });
        runs.store_outcome(&Ok(Arc::clone(&given)));
        assert!(matches!(source(), HeaderSource::Cached(cached) if Arc::ptr_eq(&cached, &given)));
        runs.store_outcome(&Ok(Arc::new(HelperHeaders { headers: Vec::new(), expires_at: Some(Instant::now()) })));
        assert!(matches!(source(), HeaderSource::Begun(_)), "they have expired");
        runs.store_outcome(&Err(LinkError::Stopped));
        assert!(matches!(source(), HeaderSource::Begun(_)), "a failure is not cached");
    }

    #[test]
    fn unusable_output_of_a_helper_is_reported_without_repeating_it() {
        let many: Map<String, Value> = (0..=MAX_HEADERS).map(|at| (format!("x-{at}"), "canary".into())).collect();
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
