//! Writes requests for OpenAI's Responses API, which takes a conversation as a list of items, and reads the answers.
//! OpenAI's newest models call tools only over this API.
//!
//! The provider stores nothing (`store: false`): it sends its reasoning encrypted, and the next request sends that
//! reasoning back unchanged. Source:
//! <https://platform.openai.com/docs/api-reference/responses> and its page on streaming events.
//!
//! The decoder collects an answer in a [`Draft`]: the texts, the calls and the opaque blocks of the provider (the
//! "pieces") that have arrived so far. It also appends each new piece to `deltas`, the stream that the caller sees.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    Delta, Request, Stop, Wire,
    body::{self, BodyWriter, Media},
    draft::{Deltas, Draft, PieceIndex, SentPiece, pieces},
    failure::{self, ErrorBody},
    online::{Adapter, Decode, DecodeError, Progress, event_json, join_path, text_member},
    settings::ModelSettings,
};
use crate::message::{Message, Role};

/// The maximum number of bytes in the id of a call that the provider accepts.
const MAX_ID_BYTES: usize = 64;
/// The field that names the phase of the answer to which a text belongs. Later requests must repeat this field.
const PHASE: &str = "phase";

#[derive(Debug)]
pub(super) struct OpenAiResponses {
    settings: Arc<ModelSettings>,
}

impl OpenAiResponses {
    pub(super) fn new(settings: Arc<ModelSettings>) -> Self {
        Self { settings }
    }

    /// Returns whether the model reasons, judged by its name. The API refuses a request for the reasoning of any other
    /// model.
    fn is_reasoning_model(&self) -> bool {
        let name = self.settings.model.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("ft:").unwrap_or(name);
        !(name.starts_with("gpt-3") || name.starts_with("gpt-4") || name.contains("-chat"))
    }
}

impl Adapter for OpenAiResponses {
    fn url(&self, base: &Url, _is_streamed: bool) -> Url {
        join_path(base, "responses")
    }

    fn body(&self, request: &Request<'_>, is_streamed: bool) -> Bytes {
        let mut members = Map::new();
        members.insert("model".into(), self.settings.model.clone().into());
        members.insert("store".into(), false.into());
        if self.is_reasoning_model() {
            members.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        body::add_sampling(&mut members, "max_output_tokens", &self.settings, request);
        let mut body = BodyWriter::new(members, &self.settings, request);
        if is_streamed {
            body.write_member("stream", &true);
        }
        if let Some(tools) = body::tools(request) {
            body.write_raw_member("tools", &[tools.get()]);
        }
        if let Some(system) = body::system_text(request) {
            body.write_member("instructions", &system);
        }
        body.write_member("input", &self.input(request.messages));
        body.finish()
    }

    fn decoder(&self, message_count: usize) -> Box<dyn Decode> {
        Box::new(Decoder { draft: Draft::new(message_count), ..Decoder::default() })
    }
}

impl OpenAiResponses {
    /// Returns the conversation as items. System messages are left out: they are in `instructions`.
    fn input(&self, messages: &[Message]) -> Vec<Value> {
        let mut items = Vec::with_capacity(messages.len());
        for message in messages.iter().filter(|message| body::has_content(message)) {
            match message.role {
                Role::System => {}
                Role::User => items.push(json!({"type": "message", "role": "user", "content": user_content(message)})),
                Role::Tool => items.push(json!({
                    "type": "function_call_output",
                    "call_id": call_id(message.tool_call_id.as_deref().unwrap_or_default()),
                    "output": call_output(message),
                })),
                Role::Assistant => self.assistant_items(message, &mut items),
            }
        }
        items
    }

    /// Appends the items of a model's message: its reasoning, texts and calls, in the order in which the model sent
    /// them. Leaves out reasoning at the end, because the API refuses reasoning without the text or the call that
    /// follows it. An answer that was cut ends with such reasoning.
    fn assistant_items(&self, message: &Message, items: &mut Vec<Value>) {
        for piece in pieces(message, Wire::OpenAiResponses, &self.settings.model) {
            match piece {
                SentPiece::Raw(item) => items.push(item.clone()),
                SentPiece::Text("", _) => {}
                SentPiece::Text(text, extra) => {
                    let content = json!([{"type": "output_text", "text": text}]);
                    let mut item = json!({"type": "message", "role": "assistant", "content": content});
                    if let Some(phase) = extra.and_then(|extra| extra.get(PHASE)) {
                        item[PHASE] = phase.clone();
                    }
                    items.push(item);
                }
                SentPiece::Call(call, _) => items.push(json!({
                    "type": "function_call",
                    "call_id": call_id(&call.id),
                    "name": body::call_name(&call.name, &[]),
                    "arguments": body::arguments_text(call),
                })),
            }
        }
        while items.last().is_some_and(|item| item["type"] == "reasoning") {
            items.pop();
        }
    }
}

/// Returns the id of a call, or a replacement if the provider does not accept the id.
fn call_id(id: &str) -> Cow<'_, str> {
    body::accepted_id(id, |id| (1..=MAX_ID_BYTES).contains(&id.len()), body::REPLACEMENT_ID_DIGITS)
}

fn user_content(message: &Message) -> Vec<Value> {
    let text = (!message.content.is_empty()).then(|| text_part(&message.content));
    text.into_iter().chain(message.parts.iter().map(|part| media_part(&body::media(part)))).collect()
}

/// Returns the `output` of a finished call: a string, or a list of parts if the result has more than text.
fn call_output(message: &Message) -> Value {
    let parts: Vec<Value> = message.parts.iter().map(|part| media_part(&body::media(part))).collect();
    if parts.iter().all(|part| part["type"] == "input_text") {
        return body::result_as_text(message).into();
    }
    let text = body::result_text(message);
    let text = (!text.is_empty()).then(|| text_part(&text));
    text.into_iter().chain(parts).collect()
}

fn text_part(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn media_part(media: &Media<'_>) -> Value {
    match media {
        Media::Image(data, media_type) => {
            json!({"type": "input_image", "image_url": body::data_url(data, media_type), "detail": "auto"})
        }
        Media::Pdf(data, media_type, uri) => {
            json!({"type": "input_file", "filename": pdf_name(uri), "file_data": body::data_url(data, media_type)})
        }
        other => text_part(&body::media_as_text(other)),
    }
}

/// Returns the name of a PDF: the last part of its URI, with the ending `.pdf`, which the API requires.
fn pdf_name(uri: &str) -> String {
    let name = uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or("file");
    if name.to_ascii_lowercase().ends_with(".pdf") { name.to_owned() } else { format!("{name}.pdf") }
}

/// An event of a stream. Each kind of event has only some of the fields.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    output_index: Option<u64>,
    item_id: Option<String>,
    summary_index: Option<u64>,
    delta: Option<Value>,
    arguments: Option<String>,
    item: Option<Value>,
    response: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: u64,
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

/// How much of the input was cached; Chat Completions has the same fields.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

/// How much of the output was thinking; Chat Completions has the same fields.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

#[derive(Default)]
struct Decoder {
    draft: Draft,
    /// Every item that has begun, in the order of arrival.
    items: Vec<StartedItem>,
    /// Whether the model refused to answer.
    has_refused: bool,
    /// Whether the complete response has arrived.
    has_ended: bool,
}

/// An item that has begun. Further events about it name its index or its id.
struct StartedItem {
    /// The index of the item; a few servers send only its id.
    index: Option<u64>,
    id: Option<String>,
    /// The piece of the draft that holds the item.
    piece: PieceIndex,
    kind: ItemKind,
}

/// The kind of an item.
#[derive(Clone, Copy, PartialEq)]
enum ItemKind {
    Text,
    Call,
    /// Any other item, such as reasoning: stored unchanged.
    Raw,
}

impl Decode for Decoder {
    fn read_event(&mut self, data: &str, deltas: &mut Deltas) -> Result<Progress, DecodeError> {
        if data.trim() == "[DONE]" {
            // Without a complete response before it, `into_draft` reports a cut answer.
            return Ok(Progress::End);
        }
        let mut event: Event = serde_json::from_value(event_json(data)?).map_err(DecodeError::unreadable)?;
        match event.kind.as_str() {
            "response.output_item.added" => {
                let item = event.item.take().unwrap_or_default();
                self.begin_item(&event, &item, deltas)?;
            }
            "response.output_item.done" => self.finish_item(&event, deltas)?,
            "response.output_text.delta" => self.append_text(&event, deltas)?,
            "response.refusal.delta" => {
                self.has_refused = true;
                self.append_text(&event, deltas)?;
            }
            "response.function_call_arguments.delta" => {
                if let Some(piece) = self.find_piece(&event, ItemKind::Call) {
                    self.draft.append_arguments(piece, event.delta(), deltas);
                }
            }
            "response.function_call_arguments.done" => {
                if let Some(piece) = self.find_piece(&event, ItemKind::Call) {
                    self.draft.complete_arguments(piece, event.arguments.as_deref().unwrap_or_default(), deltas);
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.push_back(Delta::Thinking(event.delta().to_owned()));
            }
            "response.reasoning_summary_part.added" if event.summary_index.unwrap_or_default() > 0 => {
                deltas.push_back(Delta::Thinking("\n\n".to_owned()));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.finish_response(event.response.take().unwrap_or_default(), deltas)?;
                return Ok(Progress::End);
            }
            // Events that repeat parts of others, and kinds that this version does not know.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn read_whole(&mut self, answer: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        if !answer.get("output").is_some_and(Value::is_array) {
            return Err(DecodeError::unreadable("it has no `output`"));
        }
        self.finish_response(answer, deltas)
    }

    fn into_draft(mut self: Box<Self>) -> Result<Draft, DecodeError> {
        if !self.has_ended {
            return Err(DecodeError::cut());
        }
        if self.has_refused {
            self.draft.stop = Some(Stop::Refusal);
        }
        Ok(self.draft)
    }
}

impl Event {
    fn delta(&self) -> &str {
        self.delta.as_ref().and_then(Value::as_str).unwrap_or_default()
    }
}

impl Decoder {
    /// Returns the piece of the newest item of this kind whose index or id the event names.
    fn find_piece(&self, event: &Event, kind: ItemKind) -> Option<PieceIndex> {
        let matches_event = |item: &&StartedItem| {
            item.kind == kind
                && match (event.output_index, item.index) {
                    (Some(event_index), Some(item_index)) => event_index == item_index,
                    _ => event.item_id.is_some() && event.item_id == item.id,
                }
        };
        self.items.iter().rev().find(matches_event).map(|item| item.piece)
    }

    /// Begins a piece of the draft for a new item.
    fn begin_item(&mut self, event: &Event, item: &Value, deltas: &mut Deltas) -> Result<PieceIndex, DecodeError> {
        let (piece, kind) = match text_member(item, "type") {
            "message" => (self.draft.begin_text()?, ItemKind::Text),
            "function_call" => (
                self.draft.begin_call(text_member(item, "call_id"), text_member(item, "name"), deltas)?,
                ItemKind::Call,
            ),
            // `fill_in` stores other items once they are complete.
            _ => (self.draft.add_raw(Value::Null)?, ItemKind::Raw),
        };
        let id = item.get("id").and_then(Value::as_str).map(ToOwned::to_owned).or_else(|| event.item_id.clone());
        self.items.push(StartedItem { index: event.output_index, id, piece, kind });
        Ok(piece)
    }

    fn append_text(&mut self, event: &Event, deltas: &mut Deltas) -> Result<(), DecodeError> {
        match self.find_piece(event, ItemKind::Text) {
            Some(piece) => self.draft.append_text_at(piece, event.delta(), deltas),
            None => self.draft.add_text(event.delta(), deltas)?,
        }
        Ok(())
    }

    /// Completes the item of an event that reports its end.
    fn finish_item(&mut self, event: &Event, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let item = event.item.clone().unwrap_or_default();
        let kind = match text_member(&item, "type") {
            "message" => ItemKind::Text,
            "function_call" => ItemKind::Call,
            _ => ItemKind::Raw,
        };
        let item_id = item.get("id").and_then(Value::as_str).map(ToOwned::to_owned);
        let item_event = Event { item_id, ..Event::at_index_of(event) };
        let piece = match self.find_piece(&item_event, kind) {
            Some(piece) => piece,
            None => self.begin_item(&item_event, &item, deltas)?,
        };
        self.fill_in(piece, kind, item, deltas);
        Ok(())
    }

    /// Adds the parts of a complete item that its deltas did not contain.
    fn fill_in(&mut self, piece: PieceIndex, kind: ItemKind, item: Value, deltas: &mut Deltas) {
        match kind {
            ItemKind::Text => {
                if self.draft.is_empty_text(piece) {
                    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                        self.has_refused |= text_member(part, "type") == "refusal";
                        self.draft.append_text_at(piece, text_member(part, "text"), deltas);
                        self.draft.append_text_at(piece, text_member(part, "refusal"), deltas);
                    }
                }
                if let Some((phase, extra)) =
                    item.get(PHASE).filter(|phase| phase.is_string()).zip(self.draft.extra_mut(piece))
                {
                    extra.insert(PHASE.into(), phase.clone());
                }
            }
            ItemKind::Call => {
                self.draft.set_name(piece, text_member(&item, "name"), deltas);
                self.draft.complete_arguments(piece, text_member(&item, "arguments"), deltas);
            }
            ItemKind::Raw => {
                // Without encrypted content, reasoning is only a reference to an item that the provider did not store.
                let is_unusable = text_member(&item, "type") == "reasoning"
                    && !item.get("encrypted_content").is_some_and(Value::is_string);
                if let Some(raw) = self.draft.raw_mut(piece).filter(|_| !is_unusable) {
                    *raw = item;
                }
            }
        }
    }

    /// Reads the complete response: the last event of a stream, or the whole body. Reads its items only if no item has
    /// arrived before.
    fn finish_response(&mut self, mut response: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        if let Some(error) =
            response.get("error").filter(|error| error.is_object()).and_then(|_| ErrorBody::read(&response))
        {
            return Err(DecodeError::Reported(error));
        }
        if self.draft.is_empty()
            && let Some(Value::Array(items)) = response.get_mut("output").map(Value::take)
        {
            for item in items {
                self.stream_thinking(&item, deltas);
                let event = Event::for_item(item);
                self.finish_item(&event, deltas)?;
            }
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.draft.stop = Some(match (text_member(&response, "status"), reason) {
            ("incomplete", Some("max_output_tokens")) => Stop::Length,
            ("incomplete", Some("content_filter")) => Stop::Refusal,
            ("incomplete" | "failed" | "cancelled", reason) => {
                Stop::Other(failure::quote(reason.unwrap_or(text_member(&response, "status")), None))
            }
            _ => Stop::End,
        });
        let usage = response.get_mut("usage").map(Value::take).and_then(|usage| serde_json::from_value(usage).ok());
        if let Some(WireUsage {
            input_tokens,
            output_tokens,
            input_tokens_details: input_details,
            output_tokens_details: output_details,
        }) = usage
        {
            let usage = &mut self.draft.usage;
            (usage.input, usage.output) = (input_tokens, output_tokens);
            let input_details = input_details.unwrap_or_default();
            usage.cached_read = input_details.cached_tokens.unwrap_or_default();
            usage.cache_write = input_details.cache_write_tokens.unwrap_or_default();
            usage.reasoning = output_details.and_then(|details| details.reasoning_tokens).unwrap_or_default();
            deltas.push_back(Delta::Usage(*usage));
        }
        self.has_ended = true;
        Ok(())
    }

    /// Streams the thinking of a complete item.
    fn stream_thinking(&self, item: &Value, deltas: &mut Deltas) {
        let parts = item.get("summary").and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<_> = parts.map(|part| text_member(part, "text")).filter(|text| !text.is_empty()).collect();
        if text_member(item, "type") == "reasoning" && !texts.is_empty() {
            deltas.push_back(Delta::Thinking(texts.join("\n\n")));
        }
    }
}

impl Event {
    /// Creates an event for a complete item that arrived without an event.
    fn for_item(item: Value) -> Self {
        Self { item: Some(item), ..Self::empty() }
    }

    /// Creates an event for the item at the index of another event.
    fn at_index_of(other: &Self) -> Self {
        Self { output_index: other.output_index, ..Self::empty() }
    }

    /// Creates an event without any field.
    fn empty() -> Self {
        Self {
            kind: String::new(),
            output_index: None,
            item_id: None,
            summary_index: None,
            delta: None,
            arguments: None,
            item: None,
            response: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdf_has_a_name_that_the_api_accepts() {
        for (uri, name) in [
            ("file:///docs/a.pdf", "a.pdf"),
            ("file:///A.PDF", "A.PDF"),
            ("docs://manual", "manual.pdf"),
            ("docs://manual/", "manual.pdf"),
            ("", "file.pdf"),
        ] {
            assert_eq!(pdf_name(uri), name, "{uri}");
        }
    }
}
