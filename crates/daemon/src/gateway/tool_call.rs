//! Runs calls of tools at the host, which has the servers and their tools (its catalog), and makes the outcomes for
//! clients. The outcome depends on the era of the client: 2026-07-28, or 2025-11-25 and older.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use toolrack_host::{Call, CallError, Catalog, Era, OnProgress, ServerName, SharedAsker, ToolOutcome, TraceContext};

use super::{
    Inner,
    methods::ClientCaller,
    pending::{Outcome, Update},
    refusal::Refusal,
    relay::ClientAsker,
    tools,
};

/// A call of a tool.
pub(super) struct ToolCall {
    /// The name of the tool: first as the client calls it, and the server's own name for it once the tool is found.
    pub(super) name: String,
    pub(super) arguments: Option<Map<String, Value>>,
    pub(super) host_caller: toolrack_host::Caller,
    /// Whether the client wants progress.
    pub(super) wants_progress: bool,
    pub(super) trace: Option<TraceContext>,
}

/// A call of a tool that a catalog lists.
pub(super) struct ListedCall {
    pub(super) server: ServerName,
    /// The catalog, which defines the tool.
    pub(super) catalog: Arc<Catalog>,
    /// The call, with the server's own name for the tool.
    pub(super) tool_call: ToolCall,
}

impl Inner {
    /// Runs a call. Its progress and its questions go to `updates`.
    pub(super) async fn run_tool_call(
        &self,
        call: ListedCall,
        caller: &ClientCaller,
        updates: mpsc::Sender<Update>,
    ) -> Outcome {
        let ListedCall { server, catalog, tool_call } = call;
        let ToolCall { name, arguments, host_caller, wants_progress, trace } = tool_call;
        let mut call = Call::of(server, name, arguments.unwrap_or_default())
            .in_catalog(catalog)
            .verbatim()
            .trace(trace)
            .caller(host_caller)
            .asker(self.asker(caller, updates.clone()));
        if wants_progress {
            call = call.on_progress(progress_reporter(updates));
        }
        outcome_of(self.host.call(call).await, caller.era)
    }

    /// The asker that relays questions to the client, or to the asker of the gateway's options if the client cannot
    /// answer them.
    pub(super) fn asker(&self, caller: &ClientCaller, updates: mpsc::Sender<Update>) -> SharedAsker {
        let fallback = self.options.asker.clone();
        Arc::new(ClientAsker {
            era: caller.era,
            client_abilities: caller.client.abilities,
            updates,
            fallback,
            question_name: None,
        })
    }
}

/// Sends progress to the client. Drops what a slow client does not receive in time, because newer progress follows.
fn progress_reporter(updates: mpsc::Sender<Update>) -> OnProgress {
    Arc::new(move |progress| {
        let _ = updates.try_send(Update::Progress(progress));
    })
}

/// The outcome of a call for the client. Most errors, such as a denial or an unreachable server, become a result,
/// because a client shows results to its model, which has to know of them.
pub(super) fn outcome_of(result: Result<ToolOutcome, CallError>, era: Era) -> Outcome {
    match result {
        Ok(outcome) => Ok(tools::result(outcome, era)),
        Err(error @ CallError::Remote { .. }) => Err(Refusal::from_host(error, era)),
        // The client gets an error rather than a result, because a client can wait, and a model could only try again
        // immediately.
        Err(error @ CallError::OverQuota { .. }) => Err(Refusal::from_host(error, era)),
        Err(CallError::Unknown(unknown)) => Err(Refusal::invalid_params(format!("Unknown tool: {unknown}"))),
        Err(error) => Ok(tools::error_result(&error.to_string(), error.code())),
    }
}
