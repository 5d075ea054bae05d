//! Writes requests for OpenAI's Chat Completions API, and reads the answers. Many servers have the same API: DeepSeek,
//! Mistral, Groq, xAI, OpenRouter, Ollama, llama.cpp, LM Studio, vLLM. [`Dialect`] has their differences.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>, and each provider's own pages.
//!
//! The decoder collects an answer in a [`Draft`]: the texts, the calls and the opaque blocks of the provider (the
//! "pieces") that have arrived so far. It also appends each new piece to `deltas`, the stream that the caller sees.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    Request, Stop, Wire,
    body::{self, BodyWriter, Media},
    draft::{Deltas, Draft, PieceIndex, SentPiece, pieces},
    failure,
    online::{Adapter, Decode, DecodeError, Progress, event_json, join_path},
    openai_responses::{InputDetails, OutputDetails},
    provider::Dialect,
    settings::ModelSettings,
};
use crate::message::{Message, Role};

/// The maximum number of bytes in the id of a call that OpenAI accepts.
const MAX_ID_BYTES: usize = 40;
/// The number of ASCII letters and digits that the id of a call must have for Mistral.
const SHORT_ID_BYTES: usize = 9;
/// The text of an answer that stands between the results of calls and a message of the user. Some providers refuse a
/// conversation without an answer there, which is what a cancelled turn leaves.
const EMPTY_ANSWER: &str = "[no answer]";
/// The maximum number of blocks of reasoning in one answer.
const MAX_REASONING_BLOCKS: usize = 1_000;

#[derive(Debug)]
pub(super) struct OpenAiChat {
    settings: Arc<ModelSettings>,
    dialect: Dialect,
}

impl OpenAiChat {
    pub(super) fn new(settings: Arc<ModelSettings>, dialect: Dialect) -> Self {
        Self { settings, dialect }
    }
}

impl Adapter for OpenAiChat {
    fn url(&self, base: &Url, _is_streamed: bool) -> Url {
        join_path(base, "chat/completions")
    }

    fn body(&self, request: &Request<'_>, is_streamed: bool) -> Bytes {
        let mut members = Map::new();
        members.insert("model".into(), self.settings.model.clone().into());
        body::add_sampling(&mut members, self.dialect.max_tokens_name, &self.settings, request);
        if is_streamed && self.dialect.requests_usage {
            members.insert("stream_options".into(), json!({"include_usage": true}));
        }
        let mut body = BodyWriter::new(members, &self.settings, request);
        if is_streamed {
            body.write_member("stream", &true);
        }
        if let Some(tools) = body::tools(request) {
            body.write_raw_member("tools", &[tools.get()]);
        }
        body.write_member("messages", &self.messages(request));
        body.finish()
    }

    fn decoder(&self, message_count: usize) -> Box<dyn Decode> {
        Box::new(Decoder { draft: Draft::new(message_count), ..Decoder::default() })
    }
}

/// A message in the format of the API.
#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    /// `null` if the message has calls and no text.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    /// The model's reasoning, which the provider wants back as further members of the message.
    #[serde(flatten)]
    reasoning_members: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Plain(Cow<'a, str>),
    Parts(Vec<Value>),
}

impl Content<'_> {
    /// Returns the content of one message that replaces two: `self`, then `next`.
    fn followed_by(self, next: Self) -> Self {
        match (self, next) {
            (Self::Plain(text), Self::Plain(next)) => Self::Plain(format!("{text}\n\n{next}").into()),
            (content, next) => Self::Parts(content.into_parts().into_iter().chain(next.into_parts()).collect()),
        }
    }

    fn into_parts(self) -> Vec<Value> {
        match self {
            Self::Plain(text) => vec![json!({"type": "text", "text": text})],
            Self::Parts(parts) => parts,
        }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

impl OpenAiChat {
    /// Returns the conversation as messages of the API.
    fn messages<'a>(&self, request: &Request<'a>) -> Vec<ChatMessage<'a>> {
        let system = body::system_text(request).map(|text| chat_message("system", Content::Plain(text.into())));
        let mut sent_messages: Vec<ChatMessage<'a>> = system.into_iter().collect();
        for message in
            request.messages.iter().filter(|message| message.role != Role::System && has_text_or_calls(message))
        {
            match sent_messages.last_mut() {
                // The templates of many local models refuse two messages of a user in a row, as after a cancelled turn.
                Some(last) if last.role == "user" && message.role == Role::User => {
                    last.content = last.content.take().map(|content| content.followed_by(user_content(message)));
                }
                Some(last) if last.role == "tool" && message.role == Role::User && !self.dialect.user_after_results => {
                    sent_messages.push(chat_message("assistant", Content::Plain(EMPTY_ANSWER.into())));
                    sent_messages.push(self.message(message));
                }
                _ => sent_messages.push(self.message(message)),
            }
        }
        sent_messages
    }

    /// Returns one message as a message of the API.
    fn message<'a>(&self, message: &'a Message) -> ChatMessage<'a> {
        match message.role {
            Role::Tool => ChatMessage {
                tool_call_id: message.tool_call_id.as_deref().map(|id| self.call_id(id)),
                ..chat_message("tool", Content::Plain(body::result_as_text(message)))
            },
            Role::Assistant => self.assistant_message(message),
            Role::User | Role::System => chat_message("user", user_content(message)),
        }
    }

    fn assistant_message<'a>(&self, message: &'a Message) -> ChatMessage<'a> {
        let mut reasoning_members = None;
        let mut tool_calls = Vec::new();
        for piece in pieces(message, Wire::OpenAiChat, &self.settings.model) {
            match piece {
                // Send reasoning back only with calls: elsewhere it costs tokens and has no effect, and some providers
                // refuse it.
                SentPiece::Raw(value) if self.dialect.wants_reasoning_back && !message.calls().is_empty() => {
                    reasoning_members = value.as_object();
                }
                // The whole text is in `content`, as one string.
                SentPiece::Raw(_) | SentPiece::Text(..) => {}
                SentPiece::Call(call, _) => tool_calls.push(WireCall {
                    id: self.call_id(&call.id),
                    r#type: "function",
                    function: WireFunction {
                        name: body::call_name(&call.name, &[]),
                        arguments: body::arguments_text(call),
                    },
                }),
            }
        }
        let has_only_calls = message.content.is_empty() && !tool_calls.is_empty();
        let content = (!has_only_calls).then(|| Content::Plain(message.content.as_str().into()));
        ChatMessage { role: "assistant", content, tool_calls, tool_call_id: None, reasoning_members }
    }

    /// Returns the id of a call, or a replacement if the provider does not accept the id.
    fn call_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        if self.dialect.needs_short_ids {
            let is_accepted =
                |id: &str| id.len() == SHORT_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            body::accepted_id(id, is_accepted, SHORT_ID_BYTES)
        } else {
            body::accepted_id(id, |id| (1..=MAX_ID_BYTES).contains(&id.len()), body::REPLACEMENT_ID_DIGITS)
        }
    }
}

/// Returns whether to send a message. Providers refuse a message of the model without text and calls. Such a message
/// remains if an answer was cut while the model thought.
fn has_text_or_calls(message: &Message) -> bool {
    message.role != Role::Assistant || !message.content.trim().is_empty() || !message.calls().is_empty()
}

fn chat_message<'a>(role: &'static str, content: Content<'a>) -> ChatMessage<'a> {
    ChatMessage { role, content: Some(content), tool_calls: Vec::new(), tool_call_id: None, reasoning_members: None }
}

fn user_content(message: &Message) -> Content<'_> {
    if message.parts.is_empty() {
        return Content::Plain(message.content.as_str().into());
    }
    let text = (!message.content.is_empty()).then(|| json!({"type": "text", "text": message.content}));
    let parts = message.parts.iter().map(|part| match body::media(part) {
        Media::Image(data, media_type) => {
            json!({"type": "image_url", "image_url": {"url": body::data_url(data, media_type)}})
        }
        Media::Audio(data, media_type)
            if matches!(media_type, "audio/wav" | "audio/x-wav" | "audio/mpeg" | "audio/mp3") =>
        {
            let format = if media_type.ends_with("wav") { "wav" } else { "mp3" };
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
        other => json!({"type": "text", "text": body::media_as_text(&other)}),
    });
    Content::Parts(text.into_iter().chain(parts).collect())
}

/// A whole answer, which has `message`, or a chunk of a stream, which has `delta` instead. Some servers send both.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    /// A [`ChatUsage`], read separately: an answer must not fail because its usage cannot be read.
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<MessageDelta>,
    message: Option<MessageDelta>,
    finish_reason: Option<String>,
}

/// Whether a chunk is a part of a stream or a whole answer.
#[derive(Clone, Copy)]
enum AnswerForm {
    Streamed,
    Whole,
}

/// The new part of a message.
#[derive(Default, Deserialize)]
struct MessageDelta {
    content: Option<Value>,
    refusal: Option<String>,
    /// Sent by DeepSeek, Kimi, llama.cpp and xAI.
    reasoning_content: Option<String>,
    /// Sent by OpenRouter, Groq and Ollama.
    reasoning: Option<String>,
    /// Sent by OpenRouter, which wants it back.
    reasoning_details: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// A string of JSON; some servers send the JSON value itself.
    arguments: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
    /// Sent by DeepSeek.
    prompt_cache_hit_tokens: Option<u64>,
    /// Sent by OpenRouter, in US dollars. Other servers send something else under this name.
    cost: Option<Value>,
}

#[derive(Default)]
struct Decoder {
    draft: Draft,
    /// Every call that has begun, in the order of arrival.
    calls: Vec<StartedCall>,
    /// `reasoning_content`, to send back under this name.
    reasoning_content: String,
    /// `reasoning_details`, to send back under this name.
    reasoning_details: Vec<Value>,
    /// Whether the model refused to answer.
    has_refused: bool,
    /// Whether the end of the stream or the whole answer has arrived.
    has_ended: bool,
}

/// A call that has begun; later chunks may continue it.
struct StartedCall {
    index: Option<u64>,
    id: String,
    /// The piece of the draft that holds the call.
    piece: PieceIndex,
}

impl Decode for Decoder {
    fn read_event(&mut self, data: &str, deltas: &mut Deltas) -> Result<Progress, DecodeError> {
        if data.trim() == "[DONE]" {
            self.has_ended = true;
            return Ok(Progress::End);
        }
        self.read_chunk(event_json(data)?, AnswerForm::Streamed, deltas)?;
        Ok(Progress::More)
    }

    fn read_whole(&mut self, answer: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        if answer.get("choices").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return Err(DecodeError::unreadable("it has no `choices`"));
        }
        self.has_ended = true;
        self.read_chunk(answer, AnswerForm::Whole, deltas)
    }

    fn into_draft(mut self: Box<Self>) -> Result<Draft, DecodeError> {
        // Some servers leave out `[DONE]`, others the finish reason. One of the two is enough to end the answer.
        if !self.has_ended && self.draft.stop.is_none() {
            return Err(DecodeError::cut());
        }
        let mut reasoning = Map::new();
        if !self.reasoning_details.is_empty() {
            reasoning.insert("reasoning_details".into(), self.reasoning_details.into());
        } else if !self.reasoning_content.is_empty() {
            reasoning.insert("reasoning_content".into(), self.reasoning_content.into());
        }
        if !reasoning.is_empty() {
            self.draft.add_raw(Value::Object(reasoning))?;
        }
        if self.has_refused {
            self.draft.stop = Some(Stop::Refusal);
        }
        Ok(self.draft)
    }
}

impl Decoder {
    fn read_chunk(&mut self, chunk: Value, form: AnswerForm, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let chunk: Chunk = serde_json::from_value(chunk).map_err(DecodeError::unreadable)?;
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            let message_delta = match form {
                AnswerForm::Streamed => choice.delta.or(choice.message),
                AnswerForm::Whole => choice.message.or(choice.delta),
            };
            if let Some(message_delta) = message_delta {
                self.read_message_delta(message_delta, form, deltas)?;
            }
            // Some servers send an empty reason until the answer ends.
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.draft.stop = Some(stop_reason(&reason));
            }
        }
        if let Some(usage) = chunk.usage.and_then(|usage| serde_json::from_value::<ChatUsage>(usage).ok()) {
            self.read_usage(&usage, deltas);
        }
        Ok(())
    }

    fn read_message_delta(
        &mut self,
        message_delta: MessageDelta,
        form: AnswerForm,
        deltas: &mut Deltas,
    ) -> Result<(), DecodeError> {
        let thinking = message_delta.reasoning_content.as_ref().or(message_delta.reasoning.as_ref());
        if let Some(text) = thinking.filter(|text| !text.is_empty()) {
            deltas.push_back(super::Delta::Thinking(text.clone()));
        }
        self.reasoning_content.push_str(message_delta.reasoning_content.as_deref().unwrap_or_default());
        for detail in message_delta.reasoning_details.unwrap_or_default() {
            add_reasoning_detail(&mut self.reasoning_details, detail)?;
        }
        match message_delta.content {
            Some(Value::String(text)) => self.draft.add_text(&text, deltas)?,
            Some(Value::Array(parts)) => self.read_parts(&parts, deltas)?,
            _ => {}
        }
        if let Some(refusal) = message_delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.has_refused = true;
            self.draft.add_text(&refusal, deltas)?;
        }
        for call in message_delta.tool_calls.unwrap_or_default() {
            self.read_call(call, form, deltas)?;
        }
        Ok(())
    }

    /// Reads content in parts, as Mistral's thinking models send it.
    fn read_parts(&mut self, parts: &[Value], deltas: &mut Deltas) -> Result<(), DecodeError> {
        for part in parts {
            if let Some(text) = part.get("text").and_then(Value::as_str) {
                self.draft.add_text(text, deltas)?;
            }
            for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
                if let Some(text) = thought.get("text").and_then(Value::as_str) {
                    deltas.push_back(super::Delta::Thinking(text.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn read_call(&mut self, call: CallDelta, form: AnswerForm, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let function = call.function.unwrap_or_default();
        let (id, name) = (call.id.unwrap_or_default(), function.name.unwrap_or_default());
        let arguments = match function.arguments {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        // Finds the earlier call that this piece continues: it has the same index. Servers that send no index may send
        // the id again.
        let started_call = match form {
            AnswerForm::Whole => None,
            AnswerForm::Streamed => self.calls.iter().rev().find(|started_call| match call.index {
                Some(_) => started_call.index == call.index,
                None => id.is_empty() || started_call.id == id,
            }),
        };
        // Some servers give every call the index 0, or no index. Then a piece begins a new call if it has a new id. It
        // also does if its arguments begin an object, and the object of the previous call has ended.
        let is_new = started_call.is_none_or(|started_call| {
            let follows_complete_call = arguments.trim_start().starts_with('{')
                && self.draft.arguments(started_call.piece).is_some_and(|earlier| earlier.trim_end().ends_with('}'));
            !name.is_empty() && if id.is_empty() { follows_complete_call } else { started_call.id != id }
        });
        let piece = match started_call {
            Some(started_call) if !is_new => started_call.piece,
            _ => {
                let piece = self.draft.begin_call(&id, &name, deltas)?;
                self.calls.push(StartedCall { index: call.index, id, piece });
                piece
            }
        };
        self.draft.set_name(piece, &name, deltas);
        self.draft.append_arguments(piece, &arguments, deltas);
        Ok(())
    }

    fn read_usage(&mut self, usage: &ChatUsage, deltas: &mut Deltas) {
        let details = usage.prompt_tokens_details.as_ref();
        let cached_tokens = details.and_then(|details| details.cached_tokens).or(usage.prompt_cache_hit_tokens);
        let reasoning_tokens = usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let (input, output) = (usage.prompt_tokens.unwrap_or_default(), usage.completion_tokens.unwrap_or_default());
        // xAI does not count thinking in `completion_tokens`, but in the total.
        let output_with_reasoning = output.saturating_add(reasoning_tokens.unwrap_or_default());
        let counts_reasoning_separately = usage.total_tokens == Some(input.saturating_add(output_with_reasoning));
        self.draft.usage.input = input;
        self.draft.usage.output = if counts_reasoning_separately { output_with_reasoning } else { output };
        self.draft.usage.cached_read = cached_tokens.unwrap_or_default();
        self.draft.usage.cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or_default();
        self.draft.usage.reasoning = reasoning_tokens.unwrap_or_default();
        self.draft.cost = usage.cost.as_ref().and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
        deltas.push_back(super::Delta::Usage(self.draft.usage));
    }
}

/// Adds a piece of a block of reasoning. OpenRouter streams each block in pieces: pieces with the same type and index
/// belong to one block.
fn add_reasoning_detail(details: &mut Vec<Value>, piece: Value) -> Result<(), DecodeError> {
    let belong_to_one_block =
        |one: &Value, other: &Value| one.get("type") == other.get("type") && one.get("index") == other.get("index");
    let Some(last) = details.last_mut().filter(|last| belong_to_one_block(last, &piece)) else {
        if details.len() >= MAX_REASONING_BLOCKS {
            return Err(DecodeError::unreadable("it has more than 1000 blocks of reasoning"));
        }
        details.push(piece);
        return Ok(());
    };
    let (Some(last), Value::Object(piece)) = (last.as_object_mut(), piece) else { return Ok(()) };
    for (name, value) in piece {
        match (last.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(addition)) if matches!(&*name, "text" | "summary" | "data") => {
                text.push_str(&addition);
            }
            (_, Value::Null) => {}
            (_, value) => drop(last.insert(name, value)),
        }
    }
    Ok(())
}

/// Translates a finish reason. Servers with the same API use different words for the same reason.
fn stop_reason(reason: &str) -> Stop {
    match reason {
        "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => Stop::End,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "length" | "model_length" => Stop::Length,
        "content_filter" | "refusal" => Stop::Refusal,
        other => Stop::Other(failure::quote(other, None)),
    }
}
