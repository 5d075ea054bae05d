//! One turn of a conversation: from the user's message to the answer, with the calls of tools in between.
//!
//! A [`Turn`] is a state machine without IO. [`Turn::next`] says what to do, and its driver reports the outcome:
//!
//! ```
//! use toolrack_agent::{Message, Reply, Role, turn::{Limits, Next, Turn}};
//!
//! let mut turn = Turn::new(vec![Message::new(Role::User, "hello")], Limits::default());
//! assert!(matches!(turn.next(), Next::CallModel));
//! turn.model_answered(Reply::new(Message::new(Role::Assistant, "hello to you")));
//! assert!(matches!(turn.next(), Next::Done(_)));
//! ```
//!
//! Between steps, every provider accepts the messages as a history. [`Turn::state`] can be stored beside them, so that
//! [`Turn::resume`] continues the turn after a crash. It never repeats a call whose result is unknown, but tells the
//! model that the call may have run.

mod repeats;
mod sending;

use serde::{Deserialize, Serialize};
use toolrack_host::Content;

use crate::{
    message::{Message, Role, ToolCallData},
    model::{Reply, Stop, Usage},
};
use repeats::CallCounts;
pub use sending::SendState;

/// The limits of a turn. A turn that reaches a limit ends, or asks a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How many answers the model may give. Default 10.
    pub rounds: u32,
    /// How many tokens all answers together may take, input and output. Default: no limit.
    pub tokens: Option<u64>,
    /// How many US dollars all answers together may cost, if the prices are known. Default: no limit.
    pub cost: Option<f64>,
    /// How many times the turn makes the same call with the same arguments. It rejects further attempts, and tells the
    /// model that the result will not change. After twice as many attempts, the turn ends. Default 3.
    pub repeats: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rounds: 10, tokens: None, cost: None, repeats: 3 }
    }
}

/// The next step of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next<'a> {
    /// Ask the model with all messages, then call [`Turn::model_answered`].
    CallModel,
    /// Make the calls that have no result yet, one after the other or concurrently, and call [`Turn::tool_finished`]
    /// for each.
    CallTools(&'a [Pending]),
    /// Ask the user, then call [`Turn::question_answered`].
    Ask(&'a Question),
    /// Do nothing: the turn has ended.
    Done(&'a End),
}

/// A call that the model wants made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The call.
    pub call: ToolCallData,
    /// The result, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// Whether the call was sent. Not serialized, because after a crash any call without a result may have run.
    #[serde(skip)]
    pub send_state: SendState,
}

/// The result of a call, for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The text.
    pub text: String,
    /// Whether the call failed; the text then says how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The pictures, sounds and resources beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Content>,
}

impl ToolResult {
    /// Creates the result of a call that failed; `text` says how.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, parts: Vec::new() }
    }

    fn into_message(self, id: &str) -> Message {
        let message = Message::tool_result(id, self.text).with_parts(self.parts);
        Message { is_error: self.is_error, ..message }
    }
}

/// A decision for the user, or for a policy in the user's place. If neither decides, the answer is [`Answer::Stop`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Question {
    /// The turn has reached this limit, but the model has more to do. May the turn use as much again?
    // Stored turns contain this name, so it must not change.
    #[serde(rename = "go_on")]
    Continue(End),
}

/// The answer to a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue until the turn has used as much again.
    Continue,
    /// End the turn here.
    Stop,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// The last message is the answer.
    Answered,
    /// The last message is an answer that the provider cut off at the maximum number of tokens.
    Cut,
    /// The model or its provider refused. The model's last message has the words of the refusal, if there are any;
    /// calls in it were not made.
    Refused,
    /// The provider broke the answer off for this reason, such as an error, in its own words. The last message is the
    /// part of the answer that had arrived.
    BrokenOff(String),
    /// The turn reached [`Limits::rounds`].
    RoundLimit,
    /// The turn reached [`Limits::tokens`].
    TokenLimit,
    /// The turn reached [`Limits::cost`].
    CostLimit,
    /// The model kept making the same call: see [`Limits::repeats`].
    Repeating,
    /// The caller cancelled the turn.
    Cancelled,
}

impl End {
    /// Returns the name of this end, for records.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cut => "cut",
            Self::Refused => "refused",
            Self::BrokenOff(_) => "broken_off",
            Self::RoundLimit => "round_limit",
            Self::TokenLimit => "token_limit",
            Self::CostLimit => "cost_limit",
            Self::Repeating => "repeating",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns why the provider [broke off](Self::BrokenOff) the answer; `None` for any other end.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::BrokenOff(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The state of a turn: stored beside the messages, to [resume](Turn::resume) it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    step: Step,
    /// How many answers the model has given.
    rounds: u32,
    /// How many times the user has let the turn continue beyond its limits.
    extensions: u32,
    /// The tokens of all answers.
    usage: Usage,
    /// The cost of the answers whose price is known, in US dollars; `None` if there are none.
    cost: Option<f64>,
    repeats: CallCounts,
}

/// The step that the turn waits for; [`Next`] is the public form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    #[default]
    Model,
    Tools(Vec<Pending>),
    Ask(Question),
    Done(End),
}

impl State {
    /// Returns a copy to store. In it, `conceal` has hidden secrets in the arguments and results of calls, and in the
    /// words of a provider that broke off an answer. The changed arguments do no harm: a resumed turn makes none of
    /// these calls again.
    #[must_use]
    pub fn concealed(&self, conceal: &dyn Fn(&str) -> String) -> Self {
        let mut concealed = self.clone();
        match &mut concealed.step {
            Step::Tools(pending_calls) => {
                for Pending { call, result, .. } in pending_calls {
                    call.conceal(conceal);
                    if let Some(result) = result {
                        result.text = conceal(&result.text);
                    }
                }
            }
            Step::Done(End::BrokenOff(reason)) => *reason = conceal(reason),
            Step::Model | Step::Ask(_) | Step::Done(_) => {}
        }
        concealed
    }
}

/// One turn of a conversation; see the [module](self).
#[derive(Clone, Debug)]
pub struct Turn {
    messages: Vec<Message>,
    limits: Limits,
    state: State,
}

impl Turn {
    /// Creates a turn that begins with these messages, the last of which is the user's. After a crash, calls of the
    /// model's last answer may lack results. Each of them gets a result that says that the call may have run.
    #[must_use]
    pub fn new(messages: Vec<Message>, limits: Limits) -> Self {
        let mut turn = Self { messages, limits, state: State::default() };
        turn.answer_open_calls(INTERRUPTED_TEXT);
        turn
    }

    /// Resumes a stored turn. A call without a result gets one that says that the call may have run.
    #[must_use]
    pub fn resume(messages: Vec<Message>, state: State, limits: Limits) -> Self {
        let mut turn = Self { messages, limits, state };
        if let Step::Tools(pending) = &mut turn.state.step {
            for open_call in pending.iter_mut().filter(|pending| pending.result.is_none()) {
                open_call.result = Some(ToolResult::error(INTERRUPTED_TEXT));
            }
            turn.append_results();
        } else {
            turn.answer_open_calls(INTERRUPTED_TEXT);
        }
        turn
    }

    /// Returns the next step.
    #[must_use]
    pub fn next(&self) -> Next<'_> {
        match &self.state.step {
            Step::Model => Next::CallModel,
            Step::Tools(pending) => Next::CallTools(pending),
            Step::Ask(question) => Next::Ask(question),
            Step::Done(end) => Next::Done(end),
        }
    }

    /// Returns all messages: those with which the turn began, and those added since. While calls run, the last message
    /// is the model's. Once all of them have a result, the turn appends the results in the order of the calls.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Consumes the turn and returns its messages.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Returns the state, to store beside the messages.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns how many answers the model has given in this turn.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.state.rounds
    }

    /// Returns the usage of all answers of this turn.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.state.usage
    }

    /// Returns the cost of all answers of this turn in US dollars. Answers without a known price are left out; `None`
    /// if no price is known.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        self.state.cost
    }

    /// Takes the model's answer, and chooses the next step. Does nothing unless the next step is [`Next::CallModel`].
    pub fn model_answered(&mut self, reply: Reply) {
        if self.state.step != Step::Model {
            return;
        }
        self.state.rounds += 1;
        self.state.usage += reply.usage;
        self.state.cost = match (self.state.cost, reply.cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            (sum, cost) => sum.or(cost),
        };
        let was_refused = reply.stop == Stop::Refusal;
        let calls = reply.message.calls().to_vec();
        self.messages.push(reply.message);
        if calls.is_empty() {
            self.state.step = Step::Done(match reply.stop {
                Stop::Length => End::Cut,
                Stop::Refusal => End::Refused,
                Stop::Other(reason) => End::BrokenOff(reason),
                Stop::End | Stop::ToolCalls => End::Answered,
            });
            return;
        }
        let pending_calls = calls.into_iter().map(|call| {
            let result = if was_refused { Some(ToolResult::error(REFUSED_TEXT)) } else { self.count_and_check(&call) };
            Pending { call, result, send_state: SendState::default() }
        });
        self.state.step = Step::Tools(pending_calls.collect());
        self.append_results();
        if was_refused {
            self.state.step = Step::Done(End::Refused);
        }
    }

    /// Takes the result of a call. Does nothing if no call with this id waits for a result.
    pub fn tool_finished(&mut self, id: &str, result: ToolResult) {
        if let Step::Tools(pending) = &mut self.state.step {
            let open_call = pending.iter_mut().find(|pending| pending.call.id == id && pending.result.is_none());
            if let Some(open_call) = open_call {
                open_call.result = Some(result);
            }
            self.append_results();
        }
    }

    /// Takes the answer to a question. Does nothing unless the next step is [`Next::Ask`].
    pub fn question_answered(&mut self, answer: Answer) {
        let Step::Ask(Question::Continue(limit)) = &self.state.step else {
            return;
        };
        self.state.step = match answer {
            Answer::Continue => {
                self.state.extensions += 1;
                Step::Model
            }
            Answer::Stop => Step::Done(limit.clone()),
        };
    }

    /// Abandons the calls without a result. Returns each call with the text that tells the model whether the call may
    /// have run.
    pub fn abandon_calls(&mut self) -> Vec<(ToolCallData, &'static str)> {
        let Step::Tools(pending) = &mut self.state.step else {
            return Vec::new();
        };
        let mut abandoned_calls = Vec::new();
        for open_call in pending.iter_mut().filter(|pending| pending.result.is_none()) {
            let text = if open_call.send_state.abandon() { CANCELLED_TEXT } else { NOT_RUN_TEXT };
            open_call.result = Some(ToolResult::error(text));
            abandoned_calls.push((open_call.call.clone(), text));
        }
        self.append_results();
        abandoned_calls
    }

    /// Ends the turn now, and leaves a history that can be continued. `partial` is the text of an interrupted answer.
    pub fn cancel(&mut self, partial: &str) {
        match &mut self.state.step {
            Step::Done(_) => return,
            // The results are in the messages now. Only a driver that reports each call needs the list of calls.
            Step::Tools(_) => drop(self.abandon_calls()),
            Step::Model if !partial.trim().is_empty() => self.messages.push(Message::new(Role::Assistant, partial)),
            Step::Model | Step::Ask(_) => {}
        }
        self.state.step = Step::Done(End::Cancelled);
    }

    /// Counts a call. If its arguments are broken or the model repeated it too often, returns the error that the model
    /// gets in place of a result.
    fn count_and_check(&mut self, call: &ToolCallData) -> Option<ToolResult> {
        if call.arguments().is_none() {
            return Some(ToolResult::error(
                "the call was not made: its arguments are not a complete JSON object; write the call again",
            ));
        }
        let count = self.state.repeats.count(call);
        (count > self.limits.repeats).then(|| {
            ToolResult::error(format!(
                "the call was not made: it was made {} times with these arguments, and once more will change nothing; go \
                 on with what is known, or do something else",
                self.limits.repeats
            ))
        })
    }

    /// Once every call has a result, appends the results in the order of the calls, and chooses the next step.
    fn append_results(&mut self) {
        let Step::Tools(pending) = &mut self.state.step else {
            return;
        };
        if pending.iter().any(|pending| pending.result.is_none()) {
            return;
        }
        for Pending { call, result, .. } in std::mem::take(pending) {
            self.messages.extend(result.map(|result| result.into_message(&call.id)));
        }
        self.state.step = match self.reached_limit() {
            Some(End::Repeating) => Step::Done(End::Repeating),
            Some(limit) => Step::Ask(Question::Continue(limit)),
            None => Step::Model,
        };
    }

    /// Returns the limit that the turn has reached; `None` if it has reached none.
    fn reached_limit(&self) -> Option<End> {
        let State { rounds, extensions, usage, cost, repeats, .. } = &self.state;
        let Limits { rounds: max_rounds, tokens: max_tokens, cost: max_cost, repeats: max_repeats } = self.limits;
        // Each extension allows the whole limit once more.
        let factor = extensions.saturating_add(1);
        let used_tokens = usage.input.saturating_add(usage.output);
        if repeats.highest_count() > max_repeats.saturating_mul(2) {
            Some(End::Repeating)
        } else if *rounds >= max_rounds.saturating_mul(factor) {
            Some(End::RoundLimit)
        } else if max_tokens.is_some_and(|max| used_tokens >= max.saturating_mul(u64::from(factor))) {
            Some(End::TokenLimit)
        } else if max_cost.zip(*cost).is_some_and(|(max, cost)| cost >= max * f64::from(factor)) {
            Some(End::CostLimit)
        } else {
            None
        }
    }

    /// Adds the error `text` as the result of each call of the model's last answer that has no result. A program leaves
    /// such calls if it is killed during calls, and providers refuse a history with them.
    fn answer_open_calls(&mut self, text: &str) {
        let Some(last_answer) = self.messages.iter().rposition(|message| message.role == Role::Assistant) else {
            return;
        };
        let results_start = last_answer + 1;
        let has_result =
            |id: &str| self.messages[results_start..].iter().any(|message| message.tool_call_id.as_deref() == Some(id));
        let missing_results: Vec<Message> = (self.messages[last_answer].calls().iter())
            .filter(|call| !has_result(&call.id))
            .map(|call| Message::tool_error(&call.id, text))
            .collect();
        let results = self.messages[results_start..].iter().take_while(|message| message.role == Role::Tool);
        let results_end = results_start + results.count();
        self.messages.splice(results_end..results_end, missing_results);
    }
}

/// The result for the model when the real one was lost.
const INTERRUPTED_TEXT: &str = "the program was interrupted before the result was known: the call may have run, or not; find out \
                           before it is made again";

/// The result of a call in an answer that the provider refused, perhaps after the call was complete.
const REFUSED_TEXT: &str = "the call was not made: the provider refused the answer that makes it";

/// The result of a call that the user cancelled after it was sent.
const CANCELLED_TEXT: &str = "the user cancelled this call; it may have run in part";

/// The result of a call that the user cancelled before it was sent.
const NOT_RUN_TEXT: &str = "the user cancelled this call before it was made: it was not run";

#[cfg(test)]
mod tests;
