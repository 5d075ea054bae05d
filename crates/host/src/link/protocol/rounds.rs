//! Runs one call to its final answer. On the way there may be input rounds (MCP 2026-07-28: the server answers with
//! questions, and the host sends the call again with the answers), URL elicitations (2025-11-25, error -32042: the user
//! opens a page first) and a task (2025-11-25: the server answers later). The call's idle and total time limits cover
//! all of these. A step that has an answer is not sent again. An *asker* is the part of the program that puts the
//! questions to a user.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    ask::SharedAsker,
    link::{
        Link,
        channel::NewRequest,
        decode::{self, Answer, InputRequired},
        error::{LinkError, RpcError},
        inbound::{OnProgress, OpenRequest, clock::Clock, input},
    },
    mcp::codes::{HEADER_MISMATCH, REJECTED, URL_ELICITATION_REQUIRED},
    spec::Era,
    text::quote,
    trace::TraceContext,
    witness::Caller,
};

/// The most input rounds of one call.
const MAX_ROUNDS: u32 = 10;
/// The most questions of one input round.
const MAX_QUESTIONS: usize = 100;
/// The most pages that the user is asked to open for one refused request.
const MAX_PAGES: usize = 10;
/// The wait between two looks at a task whose server asks for no interval.
const DEFAULT_POLL: Duration = Duration::from_secs(1);
const SHORTEST_POLL: Duration = Duration::from_millis(100);
const LONGEST_POLL: Duration = Duration::from_secs(5);
/// How long cancelling a task may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// A request that may take several rounds: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`.
pub(crate) struct Request {
    pub(crate) method: &'static str,
    /// The name of the request in error messages, such as `the call`.
    pub(crate) label: &'static str,
    /// The tool's name, the prompt's name or the URI; for a completion, only a label.
    pub(crate) name: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) asker: SharedAsker,
    /// The caller, which is shown with questions to the user.
    pub(crate) caller: Caller,
    pub(crate) on_progress: Option<OnProgress>,
    /// How long the server may send nothing.
    pub(crate) idle: Duration,
    /// How long the request may take.
    pub(crate) total: Duration,
    /// The part of `total` that has passed already, in the wait for the connection.
    pub(crate) spent: Duration,
    /// Whether to ask the server to run the request as a task.
    pub(crate) as_task: bool,
    /// The trace to which the request belongs.
    pub(crate) trace: Option<TraceContext>,
}

impl Request {
    /// Returns the asker that answers the server's questions during the request.
    fn asker_for_caller(&self) -> SharedAsker {
        self.asker.on_behalf_of(&self.caller).unwrap_or_else(|| self.asker.clone())
    }
}

impl Link {
    /// Runs a request to its final answer. Dropping the future cancels the request at the server.
    pub(crate) async fn run(&self, request: Request) -> Result<Bytes, LinkError> {
        let clock = Arc::new(Clock::start(request.label, request.idle, request.total).with_spent(request.spent));
        tokio::select! {
            biased;
            answer = self.run_rounds(request, &clock) => answer,
            expired = clock.expired() => Err(expired),
        }
    }

    /// Sends the request once for each round, until the answer is final.
    async fn run_rounds(&self, mut request: Request, clock: &Arc<Clock>) -> Result<Bytes, LinkError> {
        let _permit = self.request_permit().await?;
        // For a call without its own asker, this is the host's asker, which may have fewer abilities here than in other
        // calls.
        let mut meta = self.meta_with(request.asker.abilities_in_own_calls());
        if let Some(trace) = &request.trace {
            meta += if meta.is_empty() { "" } else { "," };
            meta += &trace.members();
        }
        if request.as_task {
            let ttl = u64::try_from(request.total.saturating_sub(request.spent).as_millis()).unwrap_or(u64::MAX);
            request.params.insert("task".into(), json!({ "ttl": ttl }));
        }
        for _ in 0..MAX_ROUNDS {
            let new_request = NewRequest {
                method: request.method,
                // The name of a completion is only a label, which no header mirrors.
                name: (request.method != "completion/complete").then_some(&request.name),
                params: &request.params,
                headers: request.headers.clone(),
                meta: &meta,
                cancellable: true,
            };
            let open_request = || {
                let (asker, caller) = (request.asker.clone(), request.caller.clone());
                OpenRequest::new(clock.clone(), asker, caller, request.on_progress.clone())
            };
            let mut registered_request = self.channel().register(open_request());
            let result = match self.channel().send_registered(new_request, &mut registered_request).await {
                Err(LinkError::Rpc(error)) if error.code == URL_ELICITATION_REQUIRED => {
                    self.visit_urls(error, &request, clock).await?;
                    continue;
                }
                Err(LinkError::Rpc(error)) if error.code == HEADER_MISMATCH => {
                    // The tool's definition is outdated: list again, so that the next call is right.
                    self.channel().inbound.tools_changed.raise();
                    return Err(LinkError::Rpc(error));
                }
                answer => answer?,
            };
            // In the legacy era, only a task has an answer that is not final.
            if self.session().era == Era::Legacy && !request.as_task {
                return Ok(result);
            }
            match decode::answer(&result)? {
                Answer::Complete => return Ok(result),
                Answer::InputRequired(required) => self.give_input(required, &mut request, clock).await?,
                // The server reports the task's progress with the progress token of this call, so keep
                // `registered_request` while the task is followed.
                Answer::Task(task) => return Box::pin(self.follow_task(task, open_request())).await,
            }
        }
        Err(LinkError::protocol(format!("it asked for input more than {MAX_ROUNDS} times")))
    }

    /// Answers the questions of a round, and prepares the next round: replaces the parameters `inputResponses` and
    /// `requestState` of the last one.
    async fn give_input(&self, required: InputRequired, request: &mut Request, clock: &Clock) -> Result<(), LinkError> {
        if required.input_requests.is_empty() && required.request_state.is_none() {
            return Err(LinkError::protocol("input_required without a question"));
        }
        if required.input_requests.len() > MAX_QUESTIONS {
            let count = required.input_requests.len();
            return Err(LinkError::protocol(format!(
                "it asked {count} questions at once; the most are {MAX_QUESTIONS}"
            )));
        }
        let _pause = clock.pause();
        let (asker, server) = (&request.asker_for_caller(), self.channel().inbound.questioner());
        let answers = required.input_requests.iter().map(|(key, question)| async move {
            let method = question["method"].as_str().unwrap_or_default();
            let asker_for_key = asker.for_question(key);
            match input::answer(asker_for_key.as_ref().unwrap_or(asker), server, method, &question["params"]).await {
                Ok(answer) => Ok((key.clone(), answer)),
                // An answer cannot be an error: a refused form is declined, any other refusal ends the call.
                Err(_) if method == "elicitation/create" => Ok((key.clone(), json!({"action": "decline"}))),
                // The client declared sampling, and the user rejected it: the call cannot continue.
                Err(refusal) if method == input::SAMPLING && refusal.code == REJECTED => {
                    Err(LinkError::Unanswered { method: input::SAMPLING, why: quote(&refusal.message) })
                }
                Err(refusal) => {
                    Err(LinkError::protocol(format!("it needs {method}, which is not available: {}", refusal.message)))
                }
            }
        });
        // `buffered(0)` would never begin an answer.
        let answers = stream::iter(answers.collect::<Vec<_>>()).buffered(self.limits().server_requests.max(1));
        let answers: Map<String, Value> = answers.try_collect::<Vec<_>>().await?.into_iter().collect();
        request.params.shift_remove("inputResponses");
        request.params.shift_remove("requestState");
        if answers.is_empty() {
            // The server asks nothing and only wants the request again, so it is probably busy: wait a moment.
            sleep(SHORTEST_POLL).await;
        } else {
            request.params.insert("inputResponses".into(), Value::Object(answers));
        }
        if let Some(state) = required.request_state {
            let state = serde_json::from_str(state.get()).unwrap_or(Value::Null);
            request.params.insert("requestState".into(), state);
        }
        Ok(())
    }

    /// Asks the user to open the URLs that the server requires before it runs the request.
    async fn visit_urls(&self, error: RpcError, request: &Request, clock: &Clock) -> Result<(), LinkError> {
        let questions = error.data.as_ref().and_then(|data| data["elicitations"].as_array()).cloned();
        let questions = questions.filter(|questions| !questions.is_empty()).ok_or(LinkError::Rpc(error.clone()))?;
        let _pause = clock.pause();
        for question in questions.iter().take(MAX_PAGES) {
            let server = self.channel().inbound.questioner();
            let answer = input::answer(&request.asker_for_caller(), server, "elicitation/create", question).await;
            if !answer.is_ok_and(|answer| answer["action"] == "accept") {
                return Err(LinkError::Rpc(error));
            }
        }
        Ok(())
    }

    /// Waits for the result of a task, and cancels the task when the caller no longer waits.
    async fn follow_task(&self, task: Value, open_request: OpenRequest) -> Result<Bytes, LinkError> {
        let id = task["taskId"].as_str().ok_or_else(|| LinkError::protocol("a task without an id"))?.to_owned();
        let params = json!({ "taskId": id });
        let mut cancel_on_drop = CancelTaskOnDrop { link: self, task: Some(id) };
        let mut poll_interval = task["pollInterval"].as_u64();
        let mut status = task["status"].as_str().unwrap_or_default().to_owned();
        while status == "working" {
            let wait = poll_interval.map_or(DEFAULT_POLL, Duration::from_millis).clamp(SHORTEST_POLL, LONGEST_POLL);
            sleep(wait).await;
            let answer = self.channel().request(NewRequest::new("tasks/get", &params)).await?;
            open_request.clock.touch();
            // An answer that cannot be parsed ends the loop; `tasks/result` then says how the task ended.
            let task: Value = serde_json::from_slice(&answer).unwrap_or(Value::Null);
            status = task["status"].as_str().unwrap_or_default().to_owned();
            poll_interval = task["pollInterval"].as_u64().or(poll_interval);
        }
        // `tasks/result` waits for the end of the task. A task that needs input asks questions meanwhile.
        let mut registered_request = self.channel().register(open_request);
        let result =
            self.channel().send_registered(NewRequest::new("tasks/result", &params), &mut registered_request).await;
        cancel_on_drop.task = None;
        result
    }
}

/// Cancels a task at the server when this is dropped, unless the result of the task has arrived.
struct CancelTaskOnDrop<'a> {
    link: &'a Link,
    /// The id of the task; `None` once the result has arrived.
    task: Option<String>,
}

impl Drop for CancelTaskOnDrop<'_> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let link = self.link.clone();
        self.link.spawn(async move {
            let cancel = NewRequest::new("tasks/cancel", json!({ "taskId": task }));
            // If this fails, the task goes on at the server, and its result is not fetched.
            let _ = timeout(CANCEL_TIMEOUT, link.channel().request(cancel)).await;
        });
    }
}
