//! Gets a user's decision about a call, if the gate requires one. (The gate decides about each call first.) Uses a
//! remembered answer if there is one. If not, the asker of the call asks the user, and the host remembers the answer if
//! the user wants that.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::{task::spawn_blocking, time::Instant};

use super::{
    Call, CallContext, CallError,
    answered::{GivenAnswer, RememberedAnswers},
    gate::{Gate, GateRequest, Verdict},
    running::RunningCall,
};
use crate::{
    ask::{AnswerLifetime, AnswerScope, Callers, Confirm, Confirmed, Review, SharedAsker},
    catalog::CatalogTool,
    event::Event,
    findings,
    principal::Principal,
    resolve::{AnswerQuery, NewAnswer},
    server::Server,
    text,
    validate::{Unfit, Validator, plainly_fits},
    witness::{Caller, Decision},
};

/// The longest text about a problem with arguments, in bytes.
const MAX_PROBLEM_BYTES: usize = 500;

/// A call that waits for a user's answer. The asker of the question gets this value as a [`Review`].
struct UnderReview {
    session_answers: Arc<RememberedAnswers>,
    gate: Arc<dyn Gate>,
    tool: CatalogTool,
    /// The fingerprint of the server's configuration: with another command or URL, old answers do not apply.
    fingerprint: String,
    caller: Caller,
    /// When the question was asked.
    asked_at: Instant,
    /// The user who answered, if the asker named one.
    answerer: OnceLock<Caller>,
}

impl UnderReview {
    /// Returns the rule that now denies the call with these arguments, if there is one.
    fn denial(&self, arguments: &Map<String, Value>) -> Option<String> {
        match self.gate.judge(&GateRequest::of(&self.tool, arguments).with_caller(&self.caller)) {
            Verdict::Deny { why } => Some(why.to_string()),
            // A user decides already, so a rule that requires a user's decision changes nothing.
            Verdict::Allow { .. } | Verdict::Confirm { .. } => None,
        }
    }
}

impl Review for UnderReview {
    fn is_answered(&self) -> bool {
        // A session-only answer counts. Any other answer is also in the store, where another process may have deleted
        // it, so it counts only if a user gave it after this question was asked.
        let mut answers = self.session_answers.find(&self.tool, &self.fingerprint, self.caller.principal());
        answers.any(|answer| answer.is_session_only || answer.given_instant >= self.asked_at)
    }

    fn set_answerer(&self, answerer: Caller) {
        // A second user has no effect, because a question has one answer.
        let _ = self.answerer.set(answerer);
    }

    fn check(self: Arc<Self>, arguments: Map<String, Value>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            if let Some(why) = self.denial(&arguments) {
                return Err(format!("it is not allowed: {why}"));
            }
            check_arguments(&self.tool, arguments).await
        })
    }
}

/// Checks `arguments` against the tool's input schema. The error is a text for the user. If the schema cannot be used,
/// or checking would take too long, the arguments pass, because the server checks them as well.
async fn check_arguments(tool: &CatalogTool, arguments: Map<String, Value>) -> Result<(), String> {
    let schema = tool.tool().input_schema.get().to_owned();
    // The work is bounded, but still too long for an async thread.
    let check = spawn_blocking(move || {
        let (schema, arguments) = (serde_json::from_str::<Value>(&schema).ok()?, Value::Object(arguments));
        if plainly_fits(&schema, &arguments) {
            return None;
        }
        match Validator::compile(&schema).ok()?.validate(&arguments) {
            Err(Unfit::Mismatch { mismatches }) => {
                let mismatches: Vec<_> = mismatches.iter().map(ToString::to_string).collect();
                Some(text::for_line(&text::clip(&mismatches.join("; "), MAX_PROBLEM_BYTES)).into_owned())
            }
            _ => None,
        }
    });
    match check.await {
        Ok(Some(problem)) => Err(format!("the tool does not take these arguments: {problem}")),
        _ => Ok(()),
    }
}

/// A call that the gate lets run only when a user agrees.
pub(super) struct UnconfirmedCall<'a> {
    pub(super) call: &'a Call,
    pub(super) server: &'a Server,
    pub(super) asker: &'a SharedAsker,
    /// Why a user must agree.
    pub(super) why: String,
    /// Whether an answer may cover later calls.
    pub(super) lasting: bool,
}

impl CallContext {
    /// Uses a remembered answer or asks the user. Returns the arguments to send. Emits [`Event::ToolApprovalRequest`]
    /// only if it asks a question.
    pub(super) async fn confirm(
        &self,
        running: &mut RunningCall<'_>,
        unconfirmed_call: UnconfirmedCall<'_>,
    ) -> Result<Map<String, Value>, CallError> {
        let UnconfirmedCall { call, server, asker, ref why, lasting } = unconfirmed_call;
        let fingerprint = server.spec.fingerprint();
        if lasting && let Some(answer) = self.recall(running.tool, &fingerprint, call.caller.principal()).await {
            running.record_decision(Decision::Remembered, answer);
            return Ok(call.arguments.clone());
        }
        if call.is_approved {
            // A user has decided about this very call, so the audit log gets a row for the decision, as after a
            // question. It gets none for a remembered answer, which is no new decision.
            running.report_answer(Decision::Confirmed, why, None);
            running.record_decision(Decision::Confirmed, why.clone());
            return Ok(call.arguments.clone());
        }
        if !asker.abilities().confirm {
            let why = format!("it needs the approval of a user ({why}), and no user can be asked");
            return Err(running.refuse(Decision::CannotAsk, why));
        }
        let arguments = self.ask(running, unconfirmed_call, fingerprint).await?;
        if server.still_has(running.tool) {
            return Ok(arguments);
        }
        let why = "its definition changed while a user was asked about it; call it again".to_owned();
        Err(running.refuse(Decision::Denied, why))
    }

    /// Returns the remembered answer that covers this call.
    async fn recall(&self, tool: &CatalogTool, fingerprint: &str, principal: &Principal) -> Option<String> {
        if self.session_answers.find(tool, fingerprint, principal).any(|answer| answer.is_session_only) {
            return Some("a user allowed it until the program ends".to_owned());
        }
        let answers = self.answer_store.as_ref()?;
        let query = AnswerQuery {
            server: &tool.server,
            fingerprint,
            tool: &tool.tool().name,
            definition: tool.definition_hash(),
            principal,
        };
        answers.recall(query).await
    }

    /// Asks the user, and remembers the answer if the user wants that. Returns the arguments to send.
    async fn ask(
        &self,
        running: &mut RunningCall<'_>,
        UnconfirmedCall { call, server, asker, why, lasting }: UnconfirmedCall<'_>,
        fingerprint: String,
    ) -> Result<Map<String, Value>, CallError> {
        let tool = running.tool;
        (self.events)(Event::ToolApprovalRequest {
            call: running.call.clone(),
            server: tool.server.clone(),
            tool: tool.tool().name.clone(),
            why: why.clone(),
        });
        let review = self.review(call, tool, fingerprint);
        let question = self.question(call, tool, why.clone(), lasting);
        let question = question.with_review(Arc::<UnderReview>::clone(&review));
        // This decision is recorded if the caller abandons the call before the user answers.
        running.record_decision(Decision::Unanswered, why.clone());
        let (scope, callers, arguments) = match asker.confirm(question).await {
            Confirmed::Yes => (AnswerScope::Once, Callers::Same, None),
            Confirmed::Edited(arguments) => (AnswerScope::Once, Callers::Same, Some(arguments)),
            Confirmed::Kept { keep: scope, callers, arguments } => (scope, callers, arguments),
            Confirmed::No { why: reason } => {
                running.report_answer(Decision::Declined, &why, review.answerer.get());
                return Err(running.refuse(Decision::Declined, reason.unwrap_or_else(|| "it was declined".into())));
            }
        };
        let decision = if arguments.is_some() { Decision::Edited } else { Decision::Confirmed };
        let why = match scope {
            AnswerScope::Once => why,
            scope if lasting => format!("{why}; {}", self.remember(scope, callers, &review, server).await),
            // The gate wants an answer for each call, so this answer counts only once.
            _ => why,
        };
        running.report_answer(decision, &why, review.answerer.get());
        let why = match review.answerer.get().map(Caller::principal) {
            Some(answerer) if !answerer.is_same(call.caller.principal()) => {
                format!("{why}; {} decided", answerer.name())
            }
            _ => why,
        };
        let Some(arguments) = arguments else {
            // The rules may have changed while the user decided.
            if let Some(why) = review.denial(&call.arguments) {
                return Err(running.refuse(Decision::Denied, why));
            }
            running.record_decision(decision, why);
            return Ok(call.arguments.clone());
        };
        running.record_arguments(&arguments);
        match review.check(arguments.clone()).await {
            Ok(()) => {
                running.record_decision(decision, why);
                running.edited_arguments = Some(arguments.clone());
                Ok(arguments)
            }
            Err(problem) => Err(running.refuse(Decision::Denied, format!("with the edited arguments, {problem}"))),
        }
    }

    /// Creates the record of a call about which the user is asked now.
    fn review(&self, call: &Call, tool: &CatalogTool, fingerprint: String) -> Arc<UnderReview> {
        Arc::new(UnderReview {
            session_answers: Arc::clone(&self.session_answers),
            gate: Arc::clone(&self.gate),
            tool: tool.clone(),
            fingerprint,
            caller: call.caller.clone(),
            asked_at: Instant::now(),
            answerer: OnceLock::new(),
        })
    }

    /// Creates the question whether a call may run.
    fn question(&self, call: &Call, tool: &CatalogTool, why: String, lasting: bool) -> Confirm {
        let definition = tool.tool();
        Confirm {
            caller: call.caller.clone(),
            read_only: definition.annotations.read_only == Some(true),
            destructive: definition.annotations.destructive == Some(true),
            description: definition.description.clone(),
            findings: findings::in_tool(tool.as_listed()),
            lasting: match (lasting, &self.answer_store) {
                (false, _) => AnswerLifetime::Once,
                (true, None) => AnswerLifetime::Session,
                (true, Some(_)) => AnswerLifetime::Always,
            },
            ..Confirm::new(tool.server.clone(), definition.name.clone(), call.arguments.clone(), why)
        }
    }

    /// Remembers that calls like this one may run. Returns a text that says for how long, and for which tools.
    async fn remember(
        &self,
        scope: AnswerScope,
        callers: Callers,
        review: &UnderReview,
        server: &Server,
    ) -> &'static str {
        let UnderReview { tool, fingerprint, caller, .. } = review;
        let principal = (callers == Callers::Same).then(|| caller.principal());
        let covers_server = scope == AnswerScope::Server;
        let tools: Vec<_> = match covers_server {
            true => {
                let tools = server.snapshot().tools.clone();
                tools.tools.iter().map(|listed| (listed.tool.name.clone(), listed.definition_hash())).collect()
            }
            false => vec![(tool.tool().name.clone(), tool.definition_hash())],
        };
        let add_to_session = |is_session_only| {
            let answer = GivenAnswer { server: &tool.server, fingerprint, caller, callers, is_session_only };
            self.session_answers.add(tools.clone(), &answer)
        };
        let is_stored = match (&self.answer_store, scope) {
            (Some(answer_store), AnswerScope::Tool | AnswerScope::Server) => {
                // Add the answer before storing it, because storing takes a while. Meanwhile the asker already goes on
                // to the next open question, which the answer may settle ([`Review::is_answered`]).
                add_to_session(false);
                let (server, tools, by) = (&tool.server, &tools, caller.way());
                answer_store
                    .remember(NewAnswer { server, fingerprint, tools, of_server: covers_server, principal, by })
                    .await
            }
            _ => false,
        };
        let has_room = is_stored || add_to_session(true);
        match (is_stored, covers_server) {
            (false, _) if !has_room => "not for all of these tools: too many answers are remembered already",
            (true, false) => "always, for this tool",
            (true, true) => "always, for all tools of this server",
            (false, false) => "until the program ends, for this tool",
            (false, true) => "until the program ends, for all tools of this server",
        }
    }
}
