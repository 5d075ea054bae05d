//! Runs one script: starts the thread of the script, and makes the calls that the script requests.

use std::{sync::Arc, thread};

use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use toolrack_host::{ScriptOutput, ScriptTools, run_in_own_task};

use crate::{
    Bounds,
    engine::{self, Answer, RequestKind, ScriptRequest},
    watch::{AbandonedThreads, ScriptState},
};

/// The stack of the thread of a script, in bytes.
const THREAD_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Runs `code` to its end. Dropping the future ends the script at its next step, and cancels its calls.
pub(crate) async fn run(
    code: String,
    tools: ScriptTools,
    bounds: Bounds,
    abandoned_threads: &AbandonedThreads,
) -> ScriptOutput {
    let state = Arc::new(ScriptState::new(bounds.output));
    let error = run_on_thread(code, tools, bounds, abandoned_threads, &state).await;
    ScriptOutput { text: state.take_text(), error }
}

/// Runs the script on a thread and makes its calls. Returns the error of a script that fails, in words for the model.
async fn run_on_thread(
    code: String,
    tools: ScriptTools,
    bounds: Bounds,
    abandoned_threads: &AbandonedThreads,
    state: &Arc<ScriptState>,
) -> Option<String> {
    if let Err(refusal) = abandoned_threads.wait_for_capacity().await {
        return Some(refusal);
    }
    // The request channel has room for all requests that a script may make, so that the script never waits to send a
    // request. The answer channel has room for one answer, so that answers do not pile up while the script computes.
    let (request_sender, mut requests) = mpsc::channel(bounds.calls.get());
    let (answer_sender, answers) = mpsc::channel(1);
    let (result_sender, mut thread_result) = oneshot::channel();
    let (_wait_guard, thread_guard) = abandoned_threads.guards(state);
    let run_script = {
        let state = Arc::clone(state);
        move || {
            let error = engine::run(&code, bounds, request_sender, answers, state);
            // Drops the guard before reporting the end. A caller that then starts another script must not find that
            // this thread still counts as running.
            drop(thread_guard);
            // Fails if the task no longer waits for the script.
            let _ = result_sender.send(error);
        }
    };
    // Not a blocking thread of tokio: a runtime that shuts down waits for its blocking threads, and the process waits
    // with it.
    if let Err(error) =
        thread::Builder::new().name("script".to_owned()).stack_size(THREAD_STACK_BYTES).spawn(run_script)
    {
        return Some(format!("the script was not run, because no thread could be started: {error}"));
    }
    let answer_requests = futures::stream::poll_fn(|context| requests.poll_recv(context))
        // Each call runs in its own task, so that it ends and frees its locks even while the script takes no answer.
        .map(|request| run_in_own_task(perform(tools.clone(), request)))
        .buffer_unordered(bounds.parallel.get())
        .for_each(|answer| async {
            // Fails if the script has ended. It then needs no answer.
            let _ = answer_sender.send(answer).await;
        });
    let end_of_script = async {
        tokio::select! {
            error = &mut thread_result => error,
            // The stream of requests ends when the script drops its sender, directly before it ends.
            () = answer_requests => thread_result.await,
        }
    };
    tokio::select! {
        biased;
        error = end_of_script => {
            error.unwrap_or_else(|_| Some("the interpreter failed; write the script in another way".to_owned()))
        }
        () = state.wait_until_overdue() => Some(engine::compute_timeout_error(bounds)),
    }
}

/// Performs a request of a script, and returns the answer.
async fn perform(tools: ScriptTools, ScriptRequest { number, kind }: ScriptRequest) -> Answer {
    let result = match kind {
        RequestKind::Call { selector, arguments } => tools.call(&selector, arguments).await,
        RequestKind::Search { query, limit } => Ok(tools.search(&query, limit).await),
        RequestKind::Details { selector } => tools.details(&selector),
    };
    Answer { number, result }
}
