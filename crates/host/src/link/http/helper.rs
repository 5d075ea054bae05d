//! Headers that a program of the entry prints (`headers_helper`): for keys that another system issues and revokes.
//!
//! Compatible with what Claude Code calls `headersHelper` (<https://code.claude.com/docs/en/mcp>), except that no shell
//! is involved: stdout is a JSON object of texts, or `{ "headers": { … }, "expires_in": SECONDS }`. The program runs
//! when a connection needs its first request, again when the time that it named is over, and once when the server
//! answers 401. When several requests need it at once, only one runs it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{
    io::AsyncReadExt as _,
    sync::Semaphore,
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

/// The runs of the program so far.
pub(super) struct Runs {
    last: Mutex<Last>,
    /// The request that has the permit runs it; the others take the outcome.
    turn: Semaphore,
}

#[derive(Default)]
struct Last {
    count: u64,
    outcome: Option<Result<Arc<Given>, LinkError>>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { last: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Runs {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    /// The headers for a request to `url`.
    pub(super) async fn headers(&self, url: &Url) -> Result<Arc<Given>, LinkError> {
        let before = {
            let last = self.runs.last();
            if let Some(Ok(given)) = last.outcome.as_ref().filter(|outcome| is_fresh(outcome)) {
                return Ok(Arc::clone(given));
            }
            last.count
        };
        let _turn = self.runs.turn.acquire().await;
        {
            let last = self.runs.last();
            // A failure is shared too: no request waits ten seconds for each one before it.
            if last.count != before
                && let Some(outcome) = last.outcome.as_ref().filter(|outcome| outcome.is_err() || is_fresh(outcome))
            {
                return outcome.clone();
            }
        }
        let outcome = self.run(url).await.map(Arc::new);
        let mut last = self.runs.last();
        *last = Last { count: last.count + 1, outcome: Some(outcome.clone()) };
        outcome
    }

    /// The server did not take these: the next request gets others.
    pub(super) fn refused(&self, given: &Arc<Given>) {
        let mut last = self.runs.last();
        if matches!(&last.outcome, Some(Ok(kept)) if Arc::ptr_eq(kept, given)) {
            last.outcome = None;
        }
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

fn is_fresh(outcome: &Result<Arc<Given>, LinkError>) -> bool {
    outcome.as_ref().is_ok_and(|given| given.is_fresh())
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
