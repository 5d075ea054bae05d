//! Answers from a script instead of asking a model: the provider `mock`, for tests and for programs that use no
//! network. The mock is never the default provider.

use std::{collections::VecDeque, fmt};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream, stream::BoxStream};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolrack_host::ToolBlock;

use super::{Delta, Model, ModelError, ModelErrorKind, Reply, Request, Usage, Wire};
use crate::message::{Message, Role, ToolCallData};

/// A model that answers each request from a script, and fails when the script has ended.
///
/// ```
/// use toolrack_agent::{Message, Model as _, Request, Role, model::Scripted};
///
/// # futures::executor::block_on(async {
/// let model = Scripted::new().call_tool("clock__now", serde_json::json!({})).say("It is noon.");
/// let mut messages = vec![Message::new(Role::User, "What time is it?")];
/// messages.push(model.complete(Request::new(&messages)).await?.message);
/// messages.push(Message::tool_result(messages[1].calls()[0].id.clone(), "12:00"));
/// assert_eq!(model.complete(Request::new(&messages)).await?.message.content, "It is noon.");
/// # Ok::<_, toolrack_agent::ModelError>(()) }).unwrap();
/// ```
pub struct Scripted {
    name: String,
    wire: Wire,
    context_tokens: Option<u64>,
    state: Mutex<ScriptState>,
}

/// The rest of the script, and the recorded requests.
#[derive(Default)]
struct ScriptState {
    script: VecDeque<ScriptStep>,
    /// The requests, if they are recorded.
    requests: Option<Vec<RecordedRequest>>,
}

/// A recorded request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools, if there were any.
    pub tools: Option<ToolBlock>,
    /// The system prompt.
    pub system: Option<String>,
}

/// One step of the script: how the model reacts to one request.
enum ScriptStep {
    /// The thinking, perhaps empty, and the answer.
    Reply(String, Box<Reply>),
    /// An error, perhaps after a part of an answer.
    Fail(Option<Box<Reply>>, ModelErrorKind),
    /// No answer, ever.
    Hang,
}

/// A script that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the script of the mock cannot be read: write a list of answers such as [{{\"text\": \"hello\"}}]")]
#[non_exhaustive]
pub struct BadScript {
    #[source]
    source: serde_json::Error,
}

/// An answer in a written script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAnswer {
    #[serde(default)]
    text: String,
    /// The thinking before the answer. It is streamed, but is no part of the answer.
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    tool_calls: Vec<WrittenCall>,
    #[serde(default)]
    usage: Usage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    name: String,
    #[serde(default)]
    input: Map<String, Value>,
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Scripted {
    /// Creates a model with an empty script, called `mock/script`.
    #[must_use]
    pub fn new() -> Self {
        Self { name: "mock/script".into(), wire: Wire::OpenAiChat, context_tokens: None, state: Mutex::default() }
    }

    /// Reads a script: a JSON list of answers, each with `text`, `thinking`, `tool_calls` (`name` and `input`) and
    /// `usage`, all of them optional.
    ///
    /// # Errors
    /// [`BadScript`] if the text is not such a list.
    pub fn from_json(script: &str) -> Result<Self, BadScript> {
        let answers: Vec<WrittenAnswer> = serde_json::from_str(script).map_err(|source| BadScript { source })?;
        Ok(answers.into_iter().fold(Self::new(), |model, answer| {
            let calls =
                answer.tool_calls.into_iter().map(|call| ToolCallData::new("", call.name, call.input)).collect();
            let mut reply = Reply::new(Message::new(Role::Assistant, answer.text).with_tool_calls(calls));
            reply.usage = answer.usage;
            model.push_step(ScriptStep::Reply(answer.thinking, Box::new(reply)))
        }))
    }

    /// Appends an answer. Calls without an id get one when the answer is given.
    #[must_use]
    pub fn reply(self, reply: Reply) -> Self {
        self.push_step(ScriptStep::Reply(String::new(), Box::new(reply)))
    }

    /// Appends an answer with this text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.reply(Reply::new(Message::new(Role::Assistant, text)))
    }

    /// Appends an answer that calls the tool `name` with the arguments `input`. If `input` is not an object, the call
    /// has unusable arguments, as models sometimes write them.
    #[must_use]
    pub fn call_tool(self, name: impl Into<String>, input: Value) -> Self {
        // `ToolCallData::new` takes only an object, and `from_text` takes any JSON, as a model may write it.
        let call = ToolCallData::from_text("", name, &input.to_string());
        self.reply(Reply::new(Message::new(Role::Assistant, "").with_tool_calls(vec![call])))
    }

    /// Appends an error.
    #[must_use]
    pub fn fail(self, kind: ModelErrorKind) -> Self {
        self.push_step(ScriptStep::Fail(None, kind))
    }

    /// Appends an answer that begins with this text and breaks off with an error.
    #[must_use]
    pub fn say_and_fail(self, text: impl Into<String>, kind: ModelErrorKind) -> Self {
        self.push_step(ScriptStep::Fail(Some(Box::new(Reply::new(Message::new(Role::Assistant, text)))), kind))
    }

    /// Appends an answer that never arrives.
    #[must_use]
    pub fn hang(self) -> Self {
        self.push_step(ScriptStep::Hang)
    }

    /// Sets the context size that the model reports, in tokens.
    #[must_use]
    pub fn context_tokens(self, tokens: u64) -> Self {
        Self { context_tokens: Some(tokens), ..self }
    }

    /// Sets the wire (API format) that the model reports.
    #[must_use]
    pub fn wire(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Makes the model record its requests, for [`requests`](Self::requests).
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.state.get_mut().requests = Some(Vec::new());
        self
    }

    /// Returns the requests since [`recording`](Self::recording) was called; empty if it was not.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().requests.clone().unwrap_or_default()
    }

    fn push_step(mut self, step: ScriptStep) -> Self {
        self.state.get_mut().script.push_back(step);
        self
    }

    /// Takes the next step of the script, and gives ids to its calls.
    fn next_step(&self, request: &Request<'_>) -> Result<ScriptStep, ModelError> {
        let step = {
            let mut state = self.state.lock();
            if let Some(requests) = &mut state.requests {
                requests.push(RecordedRequest {
                    messages: request.messages.to_vec(),
                    tools: request.tools.cloned(),
                    system: request.system.map(ToOwned::to_owned),
                });
            }
            state.script.pop_front()
        };
        let exhausted_error =
            || self.error(ModelErrorKind::Settings { why: "the script has no further answer".into() });
        let mut step = step.ok_or_else(exhausted_error)?;
        if let ScriptStep::Reply(_, reply) = &mut step {
            let calls = reply.message.tool_calls.iter_mut().flatten();
            for (number, call) in calls.enumerate().filter(|(_, call)| call.id.is_empty()) {
                call.id = format!("call_{}_{number}", request.messages.len());
            }
        }
        Ok(step)
    }

    fn error(&self, kind: ModelErrorKind) -> ModelError {
        ModelError { model: self.name.clone(), attempts: 1, kind }
    }
}

/// Returns the deltas of a streamed answer: the text word by word, then the calls one after the other.
fn reply_deltas(reply: &Reply) -> Vec<Delta> {
    let words = words(&reply.message.content).map(Delta::Text);
    let calls = reply.message.calls().iter().enumerate().flat_map(|(index, call)| {
        let fragment = call.raw_arguments.clone().unwrap_or_else(|| call.input.to_string());
        let (id, name) = (call.id.clone(), call.name.clone());
        [Delta::ToolCallBegin { index, id, name }, Delta::ToolCallArguments { index, fragment }]
    });
    words.chain(calls).collect()
}

/// Splits a text into words, each with the space after it.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_inclusive(' ').map(str::to_owned)
}

impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn wire(&self) -> Wire {
        self.wire
    }

    fn context_tokens(&self) -> Option<u64> {
        self.context_tokens
    }

    fn complete(&self, request: Request<'_>) -> BoxFuture<'static, Result<Reply, ModelError>> {
        match self.next_step(&request) {
            Ok(ScriptStep::Reply(_, reply)) => futures::future::ready(Ok(*reply)).boxed(),
            Ok(ScriptStep::Fail(_, kind)) => futures::future::ready(Err(self.error(kind))).boxed(),
            Ok(ScriptStep::Hang) => futures::future::pending().boxed(),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        }
    }

    fn stream(&self, request: Request<'_>) -> BoxStream<'static, Result<Delta, ModelError>> {
        match self.next_step(&request) {
            Ok(ScriptStep::Reply(thinking, reply)) => {
                let thoughts = words(&thinking).map(Delta::Thinking).collect::<Vec<_>>();
                let deltas = thoughts
                    .into_iter()
                    .chain(reply_deltas(&reply))
                    .chain([Delta::Usage(reply.usage), Delta::Done(reply)]);
                stream::iter(deltas.map(Ok).collect::<Vec<_>>()).boxed()
            }
            Ok(ScriptStep::Fail(partial, kind)) => {
                let deltas = partial.iter().flat_map(|reply| reply_deltas(reply)).map(Ok).collect::<Vec<_>>();
                stream::iter(deltas.into_iter().chain([Err(self.error(kind))])).boxed()
            }
            Ok(ScriptStep::Hang) => stream::pending().boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, executor::block_on};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_in_json_is_played_once() {
        let model = Scripted::from_json(
            r#"[{"tool_calls": [{"name": "a"}, {"name": "b", "input": {"x": 1}}], "usage": {"input": 7}}, {"text": "two words"}]"#,
        );
        let model = model.unwrap().recording();
        let messages = [Message::new(Role::User, "hello")];
        let reply = block_on(model.complete(Request::new(&messages))).unwrap();
        let calls: Vec<_> =
            reply.message.calls().iter().map(|call| (call.id.as_str(), call.input.to_string())).collect();
        assert_eq!(calls, [("call_1_0", "{}".to_owned()), ("call_1_1", json!({"x": 1}).to_string())]);
        assert_eq!(reply.usage.input, 7);
        let deltas: Vec<_> = block_on(model.stream(Request::new(&messages)).collect());
        assert!(
            matches!(&deltas[..2], [Ok(Delta::Text(one)), Ok(Delta::Text(two))] if one == "two " && two == "words")
        );
        assert!(matches!(deltas.last(), Some(Ok(Delta::Done(reply))) if reply.message.content == "two words"));
        let error = block_on(model.complete(Request::new(&messages))).unwrap_err();
        assert_eq!(error.to_string(), "mock/script: the script has no further answer");
        assert_eq!(model.requests().len(), 3);
        assert_eq!(model.requests()[0].messages, messages);
    }

    #[test]
    fn an_invalid_script_is_reported() {
        let error = Scripted::from_json(r#"{"text": "x"}"#).unwrap_err().to_string();
        assert!(error.contains(r#"write a list of answers such as [{"text": "hello"}]"#), "{error}");
        assert!(Scripted::from_json(r#"[{"txet": "x"}]"#).is_err());
    }

    #[test]
    fn an_answer_can_break_off() {
        let broken = ModelErrorKind::Cut { why: "as scripted".into() };
        let model = Scripted::new().say_and_fail("half an", broken.clone());
        let deltas: Vec<_> = block_on(model.stream(Request::new(&[])).collect());
        assert_eq!(deltas.len(), 3);
        assert!(matches!(&deltas[2], Err(error) if error.kind == broken));
    }
}
