//! Follows a call in progress. When the call ends, emits an event and informs the witness (the observer that records
//! calls in the audit log), even if the future of the call is dropped.
//!
//! The *gate* decides whether a call may run. A tool whose definition has changed since it was approved is in
//! *quarantine*, and its calls are refused.

use std::{borrow::Cow, mem, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{Span, field};

use super::{CallContext, CallError, ToolOutcome};
use crate::{
    catalog::CatalogTool,
    event::{CallEnd, Event, EventCall},
    pins::Cause,
    quota::OverQuota,
    text::quote,
    witness::{Caller, Decision, Fact, GatedCall, RecordedArguments},
};

/// A call, from the gate to its end.
pub(super) struct RunningCall<'a> {
    call_context: &'a CallContext,
    pub(super) call: EventCall,
    pub(super) tool: &'a CatalogTool,
    caller: Caller,
    /// The arguments for the witness; `None` if there is no witness, or if they are not recorded yet.
    arguments: Option<RecordedArguments>,
    decision: Decision,
    why: Cow<'static, str>,
    /// The arguments to send, if the user changed them.
    pub(super) edited_arguments: Option<Map<String, Value>>,
    /// When the call passed the gate.
    started_at: Option<Instant>,
    /// How the call ended; cancelled until [`Self::finish`] is called.
    end: CallEnd,
    /// The code of the error, if the call has failed.
    error_code: Option<&'static str>,
    /// The size of the result, in bytes.
    result_bytes: usize,
}

impl<'a> RunningCall<'a> {
    pub(super) fn new(call_context: &'a CallContext, number: u64, tool: &'a CatalogTool, caller: Caller) -> Self {
        Self {
            call_context,
            call: EventCall { number, principal: caller.principal().clone() },
            tool,
            caller,
            arguments: None,
            decision: Decision::Unanswered,
            why: Cow::Borrowed(""),
            edited_arguments: None,
            started_at: None,
            end: CallEnd::Cancelled,
            error_code: None,
            result_bytes: 0,
        }
    }

    /// Records the arguments of the call.
    pub(super) fn record_arguments(&mut self, arguments: &Map<String, Value>) {
        let witness = self.call_context.witness.as_ref();
        self.arguments = witness.map(|witness| RecordedArguments::of(arguments, witness.wants_arguments()));
    }

    /// Records the decision of the gate or of the user.
    pub(super) fn record_decision(&mut self, decision: Decision, why: impl Into<Cow<'static, str>>) {
        (self.decision, self.why) = (decision, why.into());
    }

    /// Reports a user's answer to a question. `why` is the rule that required the question. `answerer` is the user who
    /// answered; `None` means the user of the caller.
    pub(super) fn report_answer(&self, decision: Decision, why: &str, answerer: Option<&Caller>) {
        if let Some(witness) = &self.call_context.witness {
            witness.record(Fact::Answered {
                server: self.tool.server.clone(),
                tool: self.tool.tool().name.clone(),
                caller: self.caller.clone(),
                by: answerer.cloned(),
                decision,
                why: why.to_owned(),
            });
        }
    }

    /// Ends the call before it is sent, because it was refused.
    pub(super) fn refuse(&mut self, decision: Decision, why: String) -> CallError {
        self.record_decision(decision, why.clone());
        let (server, tool) = (&self.tool.server, &self.tool.tool().name);
        (self.call_context.events)(Event::ToolDenied {
            call: self.call.clone(),
            server: server.clone(),
            tool: tool.clone(),
            why: why.clone(),
        });
        let unasked = decision == Decision::CannotAsk;
        let error = CallError::Denied { server: server.clone(), tool: quote(tool), why, unasked };
        self.error_code = Some(error.code());
        error
    }

    /// Ends the call before it is sent, because the tool is in quarantine.
    pub(super) fn refuse_quarantined(&mut self, cause: Cause) -> CallError {
        let why = format!("it is in quarantine: {cause}");
        // Reports the refusal. The error below replaces the returned one.
        drop(self.refuse(Decision::Denied, why));
        let (server, tool) = (self.tool.server.clone(), quote(&self.tool.tool().name));
        let error = CallError::Quarantined { server, tool, cause };
        self.error_code = Some(error.code());
        error
    }

    /// Ends the call before it is sent, because a quota is used up.
    pub(super) fn refuse_over_quota(&mut self, over: OverQuota) -> CallError {
        // Reports the refusal. The error below replaces the returned one.
        drop(self.refuse(Decision::Denied, over.to_string()));
        let (server, tool) = (self.tool.server.clone(), quote(&self.tool.tool().name));
        let error = CallError::OverQuota { server, tool, over: Box::new(over) };
        self.error_code = Some(error.code());
        error
    }

    /// Reports that the call has passed the gate and starts.
    pub(super) fn start(&mut self) {
        let (server, tool) = (self.tool.server.clone(), self.tool.tool().name.clone());
        (self.call_context.events)(Event::ToolStarted { call: self.call.clone(), server, tool });
        self.started_at = Some(Instant::now());
    }

    /// Records how the call ended. The end is reported when `self` is dropped.
    pub(super) fn finish(&mut self, result: &Result<ToolOutcome, CallError>) {
        match result {
            Ok(outcome) => {
                self.end = if outcome.is_error { CallEnd::ToolError } else { CallEnd::Ok };
                self.result_bytes = outcome.bytes;
            }
            Err(error) => {
                (self.end, self.error_code) = (CallEnd::Failed, Some(error.code()));
                if error.is_protocol_error() {
                    let (server, error) = (self.tool.server.clone(), quote(&error.to_string()).into());
                    (self.call_context.events)(Event::McpServerError { server, error, call: Some(self.call.clone()) });
                }
            }
        }
    }

    /// Returns the time since the call passed the gate; zero before that.
    pub(super) fn elapsed(&self) -> Duration {
        self.started_at.map_or(Duration::ZERO, |started_at| started_at.elapsed())
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let (server, tool) = (&self.tool.server, &self.tool.tool().name);
        let duration = self.elapsed();
        if self.started_at.is_some() {
            // The current span is that of the call, also when the future of the call is dropped.
            Span::current().record("end", field::debug(self.end));
            (self.call_context.events)(Event::ToolCompleted {
                call: self.call.clone(),
                server: server.clone(),
                tool: tool.clone(),
                outcome: self.end,
                duration,
            });
        }
        if let Some((witness, arguments)) = self.call_context.witness.as_ref().zip(self.arguments.take()) {
            witness.record(Fact::Called(Box::new(GatedCall {
                server: server.clone(),
                tool: tool.clone(),
                caller: mem::take(&mut self.caller),
                definition: self.tool.definition_hash(),
                arguments,
                decision: self.decision,
                why: mem::take(&mut self.why).into_owned(),
                end: self.started_at.is_some().then_some(self.end),
                code: self.error_code,
                duration,
                bytes: self.result_bytes,
            })));
        }
    }
}
