//! Makes the calls of one answer of the model, several at once, each through `Host::call`. The [`Turn`] says which
//! calls to make and takes their results, and the [`Front`] of the embedding program shows and stores them.

use std::{
    future, panic,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};
use toolrack_host::{
    Call, CallError, Catalog, CatalogTool, Conceal, Content, OnProgress, ToolOutcome, mcp::Progress, text,
};
use tracing::Instrument as _;

use super::{Agent, AgentError, Front, TurnEvent};
use crate::{
    message::{ToolCallData, is_in_text},
    turn::{Next, Pending, SendState, ToolResult, Turn},
};

/// The maximum number of reports of progress that wait to be shown. Beyond that, new reports are dropped.
const MAX_WAITING_REPORTS: usize = 64;

impl Agent {
    /// Makes the calls of `turn` that have no result, and has the front store the turn after each result.
    ///
    /// Each call runs in a task of its own, so that it continues while the front stores a result. A paused call might
    /// hold the connection to the store, and the front would wait for that connection forever.
    pub(super) async fn make_calls(
        &self,
        turn: &mut Turn,
        catalog: &Arc<Catalog>,
        front: &mut dyn Front,
    ) -> Result<(), AgentError> {
        let Next::CallTools(pending_calls) = turn.next() else {
            return Ok(());
        };
        report_rejected(pending_calls, front);
        let (report_sender, mut report_receiver) = mpsc::channel(MAX_WAITING_REPORTS);
        let to_task = |pending: &Pending| CallTask {
            agent: self.clone(),
            catalog: Arc::clone(catalog),
            call: pending.call.clone(),
            send_state: pending.send_state.watch(),
            report_sender: report_sender.clone(),
        };
        let tasks: Vec<_> = pending_calls.iter().filter(|pending| pending.result.is_none()).map(to_task).collect();
        let (mut waiting_tasks, mut running_tasks) = (tasks.into_iter(), JoinSet::new());
        let mut cancellation = front.calls_cancelled();
        loop {
            while running_tasks.len() < self.parallel.get()
                && let Some(task) = waiting_tasks.next()
            {
                // Goes to the front directly: the channel may drop reports, but the beginning of a call must be shown.
                front.on_event(TurnEvent::CallBegins(&task.call));
                running_tasks.spawn(task.run().in_current_span());
            }
            tokio::select! {
                // The reports of progress come last: a server that sends too many must delay neither the user's
                // cancellation nor the results of other servers.
                biased;
                () = &mut cancellation => {
                    running_tasks.shutdown().await;
                    for (call, text) in turn.abandon_calls() {
                        let (call, took) = (&call, Duration::ZERO);
                        front.on_event(TurnEvent::CallEnds { call, outcome: None, text, is_error: true, took });
                    }
                    return Ok(());
                }
                task_result = running_tasks.join_next() => {
                    let Some(task_result) = task_result else { return Ok(()) };
                    let finished_call = propagate_panic(task_result).await;
                    // Show the reports of this call before its result. They are all in the channel by now.
                    for _ in 0..MAX_WAITING_REPORTS {
                        let Ok(report) = report_receiver.try_recv() else { break };
                        report.send_to(front);
                    }
                    self.finish_call(finished_call, turn, front);
                    // After the last result, the turn is at its next step, and the driver stores it.
                    if matches!(turn.next(), Next::CallTools(_)) {
                        front.store(turn).await?;
                    }
                }
                Some(report) = report_receiver.recv() => report.send_to(front),
            }
        }
    }

    /// Reports the end of a call, and adds its result to the turn.
    fn finish_call(&self, finished_call: FinishedCall, turn: &mut Turn, front: &mut dyn Front) {
        let FinishedCall { call, outcome, took } = finished_call;
        let result = self.concealed_result(&outcome);
        let (text, is_error) = (&*result.text, result.is_error);
        let outcome = Some(outcome.as_ref());
        front.on_event(TurnEvent::CallEnds { call: &call, outcome, text, is_error, took });
        turn.tool_finished(&call.id, result);
    }

    /// Makes one call, and reports its progress. Sends the call only if the turn has not abandoned it.
    async fn call(
        &self,
        call: &ToolCallData,
        catalog: &Arc<Catalog>,
        send_state: SendState,
        report_sender: mpsc::Sender<ProgressReport>,
    ) -> Result<ToolOutcome, CallError> {
        self.check_offered(&call.name, catalog)?;
        let id = call.id.clone();
        let on_progress: OnProgress = Arc::new(move |progress| {
            let _ = report_sender.try_send(ProgressReport { id: id.clone(), progress });
        });
        let arguments = call.arguments().cloned().unwrap_or_default();
        let mut host_call = Call::from_map(&call.name, arguments)
            .in_catalog(Arc::clone(catalog))
            .on_progress(on_progress)
            .send_if(Arc::new(move || send_state.begin()))
            .caller(self.caller.clone());
        if let Some(asker) = &self.asker {
            host_call = host_call.asker(Arc::clone(asker));
        }
        if let Some(conceal) = &self.conceal {
            host_call = host_call.conceal(Arc::clone(conceal));
        }
        self.host.call(host_call).await
    }

    /// Fails if the requests did not offer the tool to the model, and the model cannot find it with the search tools.
    fn check_offered(&self, name: &str, catalog: &Catalog) -> Result<(), CallError> {
        let is_findable = |tool: &CatalogTool| self.findable.as_ref().is_some_and(|findable| findable.has(tool));
        match catalog.select(name) {
            Ok(tool) if !self.selection.has(tool) && !is_findable(tool) => {
                // This always fails, because the selection does not have the tool.
                catalog.select_within(name, &self.selection).map(drop).map_err(CallError::Unknown)
            }
            // If there is no such tool, the host reports it.
            _ => Ok(()),
        }
    }

    /// Returns the result for the model, with secrets concealed.
    fn concealed_result(&self, outcome: &Result<ToolOutcome, CallError>) -> ToolResult {
        let mut result = unconcealed_result(outcome);
        if let Some(conceal) = &self.conceal {
            result.text = conceal(&result.text);
            result.parts.iter_mut().for_each(|part| conceal_part(part, conceal));
        }
        result
    }
}

/// Reports the calls of the answer at `answer_index` among the messages, if the turn has rejected all of them. Their
/// results then follow the answer already, and [`Agent::make_calls`] has nothing to do.
pub(super) fn report_if_all_rejected(turn: &Turn, answer_index: usize, front: &mut dyn Front) {
    let Some([answer, results @ ..]) = turn.messages().get(answer_index..) else { return };
    for (call, result) in answer.calls().iter().zip(results) {
        report_unmade_call(call, &result.content, result.is_error, front);
    }
}

/// Reports the calls that the turn has rejected: they have a result although they were never made.
fn report_rejected(pending_calls: &[Pending], front: &mut dyn Front) {
    for Pending { call, result, .. } in pending_calls {
        if let Some(result) = result {
            report_unmade_call(call, &result.text, result.is_error, front);
        }
    }
}

/// Reports a call that has a result although it was not made.
fn report_unmade_call(call: &ToolCallData, text: &str, is_error: bool, front: &mut dyn Front) {
    front.on_event(TurnEvent::CallBegins(call));
    front.on_event(TurnEvent::CallEnds { call, outcome: None, text, is_error, took: Duration::ZERO });
}

/// A call to make.
struct CallTask {
    agent: Agent,
    catalog: Arc<Catalog>,
    call: ToolCallData,
    send_state: SendState,
    report_sender: mpsc::Sender<ProgressReport>,
}

/// A call that was made, and its outcome.
struct FinishedCall {
    call: ToolCallData,
    outcome: Result<ToolOutcome, CallError>,
    took: Duration,
}

impl CallTask {
    async fn run(self) -> FinishedCall {
        let Self { agent, catalog, call, send_state, report_sender } = self;
        let started_at = Instant::now();
        let outcome = agent.call(&call, &catalog, send_state, report_sender).await;
        FinishedCall { call, outcome, took: started_at.elapsed() }
    }
}

/// Returns the result of a task. If the task has panicked, panics with the same payload.
async fn propagate_panic<T>(task_result: Result<T, JoinError>) -> T {
    match task_result.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => panic::resume_unwind(panic),
        // The task was cancelled because the runtime is shutting down, which ends this task as well.
        Err(Err(_)) => future::pending().await,
    }
}

/// Hides secrets in the texts of a part. Pictures, sounds and bytes stay as they are.
fn conceal_part(part: &mut Content, conceal: &Conceal) {
    match part {
        Content::Resource { resource } => resource.uri = conceal(&resource.uri),
        Content::Other(block) => text::map_texts(block, &|text| conceal(text).into()),
        _ => {}
    }
}

/// A report of the progress of the call with this id, which has no result yet.
struct ProgressReport {
    id: String,
    progress: Progress,
}

impl ProgressReport {
    fn send_to(&self, front: &mut dyn Front) {
        front.on_event(TurnEvent::CallProgress { id: &self.id, progress: &self.progress });
    }
}

/// Returns the result for the model, with secrets still in it. Its first line names the server that sent the data.
fn unconcealed_result(outcome: &Result<ToolOutcome, CallError>) -> ToolResult {
    match outcome {
        Ok(outcome) => {
            let text = format!("[data from {}]\n{}", text::for_line(outcome.server.as_str()), outcome.text);
            // Leave out parts that `text` contains already, so that secrets need to be hidden in one place only.
            let parts = outcome.content.iter().filter(|part| !is_in_text(part)).cloned().collect();
            ToolResult { text, is_error: outcome.is_error, parts }
        }
        Err(error) => ToolResult::error(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_host::mcp::ResourceContents;

    use super::*;

    #[test]
    fn no_secret_remains_in_content_other_than_text() {
        let conceal: Conceal = Arc::new(|text: &str| text.replace("hunter2", "***"));
        let resource = |uri: &str| ResourceContents {
            uri: uri.to_owned(),
            mime_type: None,
            text: None,
            blob: Some("AAEC".to_owned()),
        };
        let mut parts = [
            Content::Resource { resource: resource("x://hunter2/a") },
            Content::Other(json!({"type": "new", "deep": [{"hunter2": "is hunter2"}]})),
        ];
        parts.iter_mut().for_each(|part| conceal_part(part, &conceal));
        let hidden = [
            Content::Resource { resource: resource("x://***/a") },
            Content::Other(json!({"type": "new", "deep": [{"***": "is ***"}]})),
        ];
        assert_eq!(parts, hidden);
    }
}
