//! Writes requests for Anthropic's Messages API, and reads its answers.
//!
//! Source: <https://docs.anthropic.com/en/api/messages> and the pages on streaming, tool use, extended thinking and
//! prompt caching. llama.cpp, Ollama and others serve the same API.
//!
//! The decoder collects an answer in a [`Draft`]: the texts, the calls and the opaque blocks of the provider (the
//! "pieces") that have arrived so far. It also appends each new piece to `deltas`, the stream that the caller sees.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    Delta, Request, Stop, Usage, Wire,
    body::{self, BodyWriter, Media, RoleMessage, add_pieces},
    draft::{Deltas, Draft, PieceIndex, SentPiece, pieces},
    failure,
    online::{Adapter, Decode, DecodeError, Progress, event_json, join_path, text_member},
    settings::ModelSettings,
};
use crate::message::{Message, Role};

/// The maximum number of tokens of an answer if neither the request nor the settings have one, because the API requires
/// a number. This is the largest number that every model still in service accepts.
const DEFAULT_MAX_TOKENS: u32 = 8_192;
/// The maximum number of bytes in the id of a call that the provider accepts.
const MAX_ID_BYTES: usize = 64;
/// The member that marks the end of the part of a request that the provider should cache.
const CACHE_CONTROL_MEMBER: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[derive(Debug)]
pub(super) struct Anthropic {
    settings: Arc<ModelSettings>,
}

impl Anthropic {
    pub(super) fn new(settings: Arc<ModelSettings>) -> Self {
        Self { settings }
    }
}

impl Adapter for Anthropic {
    fn url(&self, base: &Url, _is_streamed: bool) -> Url {
        // The usual base URL has no version in it.
        if base.path().trim_end_matches('/').ends_with("/v1") {
            join_path(base, "messages")
        } else {
            join_path(base, "v1/messages")
        }
    }

    fn body(&self, request: &Request<'_>, is_streamed: bool) -> Bytes {
        let mut members = Map::new();
        members.insert("model".into(), self.settings.model.clone().into());
        members.insert("max_tokens".into(), DEFAULT_MAX_TOKENS.into());
        body::add_sampling(&mut members, "max_tokens", &self.settings, request);
        let mut body = BodyWriter::new(members, &self.settings, request);
        if is_streamed {
            body.write_member("stream", &true);
        }
        if let Some(tools) = body::tools(request) {
            // The text is an array of objects and ends in `}]`, so the mark can be added to the last tool without
            // parsing.
            match tools.get().strip_suffix("}]").filter(|_| self.settings.prompt_cache) {
                Some(unclosed) => body.write_raw_member("tools", &[unclosed, CACHE_CONTROL_MEMBER, "}]"]),
                None => body.write_raw_member("tools", &[tools.get()]),
            }
        }
        if let Some(system) = body::system_text(request) {
            let mut text = json!({"type": "text", "text": system});
            self.mark_for_cache(&mut text);
            body.write_member("system", &[text]);
        }
        body.write_member("messages", &self.messages(request.messages));
        body.finish()
    }

    fn decoder(&self, message_count: usize) -> Box<dyn Decode> {
        Box::new(Decoder { draft: Draft::new(message_count), ..Decoder::default() })
    }
}

impl Anthropic {
    /// Returns the conversation as messages of user and assistant, which alternate. One user message has all results of
    /// an answer, followed by the user's text.
    fn messages(&self, messages: &[Message]) -> Vec<Value> {
        let mut sent_messages: Vec<RoleMessage> = Vec::new();
        // Pictures of failed calls. The API allows them only outside of a result, so they go after the last result.
        let mut media_after_results: Vec<Value> = Vec::new();
        for message in messages.iter().filter(|message| message.role != Role::System && body::has_content(message)) {
            if message.role != Role::Tool {
                add_pieces(&mut sent_messages, "user", std::mem::take(&mut media_after_results));
            }
            match message.role {
                Role::Tool => {
                    let block = result_block(message, &mut media_after_results);
                    add_pieces(&mut sent_messages, "user", vec![block]);
                }
                Role::Assistant => add_pieces(&mut sent_messages, "assistant", self.assistant_blocks(message)),
                Role::User | Role::System => add_pieces(&mut sent_messages, "user", user_content(message)),
            }
        }
        add_pieces(&mut sent_messages, "user", media_after_results);
        if self.settings.prompt_cache {
            // Mark the last two messages of the user, which end this request and the one before. The provider looks for
            // cached text only 20 blocks before a mark, and the calls of one answer can add more blocks than that.
            let user_messages = sent_messages.iter_mut().filter(|(role, _)| *role == "user").rev().take(2);
            user_messages.filter_map(|(_, blocks)| blocks.last_mut()).for_each(|block| self.mark_for_cache(block));
        }
        sent_messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
    }

    /// If the settings ask for caching, marks a block as the end of a part to cache.
    fn mark_for_cache(&self, block: &mut Value) {
        if let Some(block) = block.as_object_mut().filter(|_| self.settings.prompt_cache) {
            block.insert("cache_control".into(), json!({"type": "ephemeral"}));
        }
    }

    /// Returns the blocks of a model's message, in the order in which the model sent them.
    fn assistant_blocks(&self, message: &Message) -> Vec<Value> {
        let blocks =
            pieces(message, Wire::Anthropic, &self.settings.model).into_iter().filter_map(|piece| match piece {
                SentPiece::Raw(value) => Some(value.clone()),
                // The API refuses a text that has only spaces.
                SentPiece::Text(text, _) if text.trim().is_empty() => None,
                SentPiece::Text(text, members) => Some(with_members(json!({"type": "text", "text": text}), members)),
                SentPiece::Call(call, members) => {
                    let name = body::call_name(&call.name, &[]);
                    let block = json!({
                        "type": "tool_use", "id": call_id(&call.id), "name": name, "input": body::arguments(call),
                    });
                    Some(with_members(block, members))
                }
            });
        blocks.collect()
    }
}

/// Adds to a block the further members that the provider sent with it.
fn with_members(mut block: Value, members: Option<&Map<String, Value>>) -> Value {
    if let (Some(block), Some(members)) = (block.as_object_mut(), members) {
        block.extend(members.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    block
}

/// Returns the id of a call, or a replacement if the provider does not accept the id.
fn call_id(id: &str) -> Cow<'_, str> {
    let is_accepted = |id: &str| {
        (1..=MAX_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    body::accepted_id(id, is_accepted, body::REPLACEMENT_ID_DIGITS)
}

/// Returns the blocks of a user's message.
fn user_content(message: &Message) -> Vec<Value> {
    let text = (!message.content.trim().is_empty()).then(|| text_block(&message.content));
    text.into_iter().chain(message.parts.iter().map(|part| media_block(&body::media(part)))).collect()
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn media_block(media: &Media<'_>) -> Value {
    let source = |data: &str, media_type: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    match media {
        Media::Image(data, media_type) => json!({"type": "image", "source": source(data, media_type)}),
        Media::Pdf(data, media_type, _) => json!({"type": "document", "source": source(data, media_type)}),
        other => text_block(&body::media_as_text(other)),
    }
}

/// Returns the result of one call. The result of a failed call may contain only text, so its pictures go to
/// `media_after_results`.
fn result_block(message: &Message, media_after_results: &mut Vec<Value>) -> Value {
    let mut content = Vec::new();
    if !message.content.trim().is_empty() {
        content.push(text_block(&message.content));
    }
    for part in &message.parts {
        let block = media_block(&body::media(part));
        if message.is_error && block["type"] != "text" { media_after_results.push(block) } else { content.push(block) }
    }
    let call_id = call_id(message.tool_call_id.as_deref().unwrap_or_default());
    let mut block = json!({"type": "tool_result", "tool_use_id": call_id});
    if !content.is_empty() {
        block["content"] = content.into();
    }
    if message.is_error {
        block["is_error"] = true.into();
    }
    block
}

/// An event of a stream. Each kind of event has only some of the fields.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    index: Option<u64>,
    message: Option<Value>,
    content_block: Option<Value>,
    delta: Option<Value>,
    /// A [`WireUsage`], read separately: an answer must not fail because its usage cannot be read.
    usage: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Default)]
struct Decoder {
    draft: Draft,
    /// The blocks that have begun and not ended.
    open_blocks: Vec<OpenBlock>,
    /// Whether the whole answer has arrived.
    has_ended: bool,
}

/// A block whose content is still arriving.
struct OpenBlock {
    index: u64,
    /// The piece of the draft that holds the block.
    piece: PieceIndex,
    kind: OpenBlockKind,
    /// The JSON that has arrived so far of the input for one of the provider's own tools.
    json: String,
}

/// The kind of a block.
#[derive(Clone, Copy, PartialEq)]
enum OpenBlockKind {
    Text,
    Call,
    /// Any other block, such as thinking: stored unchanged.
    Raw,
}

impl Decode for Decoder {
    fn read_event(&mut self, data: &str, deltas: &mut Deltas) -> Result<Progress, DecodeError> {
        let event: Event = serde_json::from_value(event_json(data)?).map_err(DecodeError::unreadable)?;
        match event.kind.as_str() {
            "message_start" => {
                let usage = event.message.as_ref().and_then(|message| message.get("usage")).cloned();
                self.read_usage(usage, deltas);
            }
            "content_block_start" => {
                let block = event.content_block.unwrap_or_default();
                self.begin_block(event.index.unwrap_or_default(), block, deltas)?;
            }
            "content_block_delta" => {
                self.extend_block(event.index.unwrap_or_default(), &event.delta.unwrap_or_default(), deltas)
            }
            "content_block_stop" => self.close_block(event.index.unwrap_or_default()),
            "message_delta" => {
                let reason = event.delta.as_ref().and_then(|delta| delta.get("stop_reason")).and_then(Value::as_str);
                self.draft.stop = reason.map(stop_reason).or(self.draft.stop.take());
                self.read_usage(event.usage, deltas);
            }
            "message_stop" => {
                self.has_ended = true;
                return Ok(Progress::End);
            }
            // `ping`, and kinds of events that this version does not know.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn read_whole(&mut self, mut answer: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let Some(Value::Array(blocks)) = answer.get_mut("content").map(Value::take) else {
            return Err(DecodeError::unreadable("it has no `content`"));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin_block(index, block, deltas)?;
        }
        self.draft.stop = answer.get("stop_reason").and_then(Value::as_str).map(stop_reason);
        self.read_usage(answer.get("usage").cloned(), deltas);
        self.has_ended = true;
        Ok(())
    }

    fn into_draft(mut self: Box<Self>) -> Result<Draft, DecodeError> {
        // The stop reason follows all blocks, so only `message_stop` is missing if the reason has arrived.
        if !self.has_ended && self.draft.stop.is_none() {
            return Err(DecodeError::cut());
        }
        let open_indexes: Vec<u64> = self.open_blocks.iter().map(|block| block.index).collect();
        open_indexes.into_iter().for_each(|index| self.close_block(index));
        if self.draft.stop == Some(Stop::Length) {
            // Thinking that the limit cut has no signature, and the API refuses it in the next request.
            self.draft.drop_raw(|block| {
                text_member(block, "type") == "thinking" && text_member(block, "signature").is_empty()
            });
        }
        Ok(self.draft)
    }
}

impl Decoder {
    fn begin_block(&mut self, index: u64, mut block: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let (piece, kind) = match text_member(&block, "type") {
            "text" => {
                let piece = self.draft.begin_text()?;
                self.draft.append_text_at(piece, text_member(&block, "text"), deltas);
                (piece, OpenBlockKind::Text)
            }
            "tool_use" => {
                let piece = self.draft.begin_call(text_member(&block, "id"), text_member(&block, "name"), deltas)?;
                // The input is empty at the beginning of a stream, missing from llama.cpp's stream, and complete in an
                // answer that is not streamed.
                let input = block.get("input").and_then(Value::as_object).filter(|input| !input.is_empty());
                if let Some(input) = input {
                    self.draft.append_arguments(piece, &json!(input).to_string(), deltas);
                }
                (piece, OpenBlockKind::Call)
            }
            _ => {
                let thinking = text_member(&block, "thinking");
                if !thinking.is_empty() {
                    deltas.push_back(Delta::Thinking(thinking.to_owned()));
                }
                // The API would refuse this member in the next request.
                if let Some(block) = block.as_object_mut() {
                    block.shift_remove("cache_control");
                }
                (self.draft.add_raw(block)?, OpenBlockKind::Raw)
            }
        };
        self.open_blocks.retain(|open| open.index != index);
        self.open_blocks.push(OpenBlock { index, piece, kind, json: String::new() });
        Ok(())
    }

    fn extend_block(&mut self, index: u64, delta: &Value, deltas: &mut Deltas) {
        let Some(open_block) = self.open_blocks.iter_mut().find(|open_block| open_block.index == index) else { return };
        let text = |name: &str| text_member(delta, name);
        match (text("type"), open_block.kind) {
            ("text_delta", OpenBlockKind::Text) => self.draft.append_text_at(open_block.piece, text("text"), deltas),
            ("input_json_delta", OpenBlockKind::Call) => {
                self.draft.append_arguments(open_block.piece, text("partial_json"), deltas)
            }
            ("input_json_delta", _) => open_block.json.push_str(text("partial_json")),
            ("thinking_delta", OpenBlockKind::Raw) => {
                if let Some(block) = self.draft.raw_mut(open_block.piece) {
                    append_to_member(block, "thinking", text("thinking"));
                    deltas.push_back(Delta::Thinking(text("thinking").to_owned()));
                }
            }
            ("signature_delta", OpenBlockKind::Raw) => {
                if let Some(block) = self.draft.raw_mut(open_block.piece) {
                    append_to_member(block, "signature", text("signature"));
                }
            }
            // Citations, and kinds that this version does not know.
            _ => {}
        }
    }

    /// Ends a block. A call of one of the provider's own tools gets its input now.
    fn close_block(&mut self, index: u64) {
        let Some(position) = self.open_blocks.iter().position(|open_block| open_block.index == index) else { return };
        let open_block = self.open_blocks.swap_remove(position);
        if let Ok(input) = serde_json::from_str::<Value>(&open_block.json)
            && let Some(block) = self.draft.raw_mut(open_block.piece).and_then(Value::as_object_mut)
        {
            block.insert("input".into(), input);
        }
    }

    /// Updates the counts field by field, because the end of a stream repeats some counts and leaves others out.
    fn read_usage(&mut self, usage: Option<Value>, deltas: &mut Deltas) {
        let reported = usage.and_then(|usage| serde_json::from_value::<WireUsage>(usage).ok());
        let Some(reported_usage) = reported else { return };
        let Usage { input, output, cached_read, cache_write, reasoning } = self.draft.usage;
        // The API counts cached tokens apart from other input. Saturating, because the reported numbers are untrusted.
        let uncached = input.saturating_sub(cached_read).saturating_sub(cache_write);
        let uncached = reported_usage.input_tokens.unwrap_or(uncached);
        let cached_read = reported_usage.cache_read_input_tokens.unwrap_or(cached_read);
        let cache_write = reported_usage.cache_creation_input_tokens.unwrap_or(cache_write);
        let input = uncached.saturating_add(cached_read).saturating_add(cache_write);
        self.draft.usage = Usage {
            input,
            output: reported_usage.output_tokens.unwrap_or(output),
            cached_read,
            cache_write,
            reasoning,
        };
        deltas.push_back(Delta::Usage(self.draft.usage));
    }
}

/// Appends to a text member of a block.
fn append_to_member(block: &mut Value, name: &str, addition: &str) {
    match block.get_mut(name) {
        Some(Value::String(text)) => text.push_str(addition),
        _ => block[name] = addition.into(),
    }
}

/// Translates a stop reason.
fn stop_reason(reason: &str) -> Stop {
    match reason {
        "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refusal,
        other => Stop::Other(failure::quote(other, None)),
    }
}
