//! Writes requests for Google's `generateContent` and `streamGenerateContent`, and reads the answers.
//!
//! Source: <https://ai.google.dev/api/generate-content> and the pages on function calling and thought signatures.
//!
//! The decoder collects an answer in a [`Draft`]: the texts, the calls and the opaque blocks of the provider (the
//! "pieces") that have arrived so far. It also appends each new piece to `deltas`, the stream that the caller sees.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    Delta, Request, Stop, Wire,
    body::{self, BodyWriter, Media, RoleMessage, add_pieces},
    draft::{Deltas, Draft, SentPiece, pieces},
    failure,
    online::{Adapter, Decode, DecodeError, Progress, event_json},
    settings::ModelSettings,
};
use crate::message::{Message, Role};

/// The member of a part that holds the signature of the model's thinking.
const SIGNATURE: &str = "thoughtSignature";
/// The signature that Google documents for a call that another model made. Since Gemini 3, the API refuses a call
/// without a signature.
const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";
/// The media types of sounds that the API reads. It refuses a conversation with any other.
const AUDIO_TYPES: [&str; 13] = [
    "audio/wav",
    "audio/x-wav",
    "audio/mp3",
    "audio/mpeg",
    "audio/aiff",
    "audio/x-aiff",
    "audio/aac",
    "audio/ogg",
    "audio/opus",
    "audio/flac",
    "audio/mp4",
    "audio/m4a",
    "audio/webm",
];

#[derive(Debug)]
pub(super) struct Gemini {
    settings: Arc<ModelSettings>,
}

impl Gemini {
    pub(super) fn new(settings: Arc<ModelSettings>) -> Self {
        Self { settings }
    }

    /// Returns the name of the model, without the `models/` that Google's list of models has before it.
    fn model_name(&self) -> &str {
        self.settings.model.strip_prefix("models/").unwrap_or(&self.settings.model)
    }

    /// Returns whether the API refuses calls without a signature, judged by the name of the model.
    fn needs_signatures(&self) -> bool {
        let name = self.model_name();
        !["gemini-1", "gemini-2", "gemma"].iter().any(|prefix| name.starts_with(prefix))
    }
}

impl Adapter for Gemini {
    fn url(&self, base: &Url, is_streamed: bool) -> Url {
        let mut url = base.clone();
        let method = if is_streamed { "streamGenerateContent" } else { "generateContent" };
        let model = self.model_name();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("models").push(&format!("{model}:{method}"));
        }
        if is_streamed {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn body(&self, request: &Request<'_>, _is_streamed: bool) -> Bytes {
        let mut generation_config = Map::new();
        body::add_sampling(&mut generation_config, "maxOutputTokens", &self.settings, request);
        let mut members = Map::new();
        if !generation_config.is_empty() {
            members.insert("generationConfig".into(), generation_config.into());
        }
        let mut body = BodyWriter::new(members, &self.settings, request);
        if let Some(tools) = body::tools(request) {
            body.write_raw_member("tools", &[tools.get()]);
        }
        if let Some(system) = body::system_text(request) {
            body.write_member("systemInstruction", &json!({"parts": [{"text": system}]}));
        }
        body.write_member("contents", &self.contents(request.messages));
        body.finish()
    }

    fn decoder(&self, message_count: usize) -> Box<dyn Decode> {
        Box::new(Decoder { draft: Draft::new(message_count), is_whole: false })
    }
}

/// For the id of each call: the name of the tool, which the result must repeat, and whether the provider gave the id.
type SentCalls<'a> = HashMap<&'a str, (&'a str, bool)>;

impl Gemini {
    /// Returns the conversation as messages of user and model, which alternate.
    fn contents(&self, messages: &[Message]) -> Vec<Value> {
        let mut calls = SentCalls::new();
        let mut sent_messages: Vec<RoleMessage> = Vec::new();
        // Pictures and other media of results. The API does not allow them between results, so they go after the last
        // result.
        let mut media_after_results = Vec::new();
        for message in messages.iter().filter(|message| message.role != Role::System && body::has_content(message)) {
            if message.role != Role::Tool {
                add_pieces(&mut sent_messages, "user", std::mem::take(&mut media_after_results));
            }
            match message.role {
                Role::Tool => {
                    add_pieces(&mut sent_messages, "user", vec![result_part(message, &calls, &mut media_after_results)])
                }
                Role::Assistant => {
                    let parts = self.model_parts(message, &mut calls);
                    add_pieces(&mut sent_messages, "model", parts);
                }
                Role::User | Role::System => add_pieces(&mut sent_messages, "user", user_content(message)),
            }
        }
        add_pieces(&mut sent_messages, "user", media_after_results);
        sent_messages.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
    }

    /// Returns the parts of a model's message, and notes its calls in `calls`.
    fn model_parts<'a>(&self, message: &'a Message, calls: &mut SentCalls<'a>) -> Vec<Value> {
        let mut parts = Vec::new();
        // Of parallel calls, only the first has a signature.
        let mut needs_placeholder = self.needs_signatures();
        for piece in pieces(message, Wire::Gemini, &self.settings.model) {
            match piece {
                SentPiece::Raw(part) => parts.push(part.clone()),
                SentPiece::Text("", None) => {}
                SentPiece::Text(text, members) => parts.push(with_signature(json!({"text": text}), members)),
                SentPiece::Call(call, members) => {
                    let has_provider_id = members.is_some_and(|members| members.contains_key("id"));
                    calls.insert(&call.id, (&call.name, has_provider_id));
                    let mut function = json!({"name": call_name(&call.name), "args": body::arguments(call)});
                    if has_provider_id {
                        function["id"] = call.id.as_str().into();
                    }
                    let mut part = with_signature(json!({"functionCall": function}), members);
                    needs_placeholder &= part.get(SIGNATURE).is_none();
                    if needs_placeholder {
                        part[SIGNATURE] = PLACEHOLDER_SIGNATURE.into();
                        needs_placeholder = false;
                    }
                    parts.push(part);
                }
            }
        }
        parts
    }
}

/// Returns the name of a called tool, or a replacement if the provider does not accept the name.
fn call_name(name: &str) -> Cow<'_, str> {
    body::call_name(name, &['.', ':'])
}

/// Adds to a part the signature that the provider sent with it.
fn with_signature(mut part: Value, members: Option<&Map<String, Value>>) -> Value {
    if let Some(signature) = members.and_then(|members| members.get(SIGNATURE)) {
        part[SIGNATURE] = signature.clone();
    }
    part
}

fn user_content(message: &Message) -> Vec<Value> {
    let text = (!message.content.is_empty()).then(|| json!({"text": message.content}));
    text.into_iter().chain(message.parts.iter().map(|part| media_part(&body::media(part)))).collect()
}

fn media_part(media: &Media<'_>) -> Value {
    match media {
        // The API reads no GIF.
        Media::Image(data, media_type) if *media_type != "image/gif" => inline_data(data, media_type),
        Media::Audio(data, media_type) if AUDIO_TYPES.contains(media_type) => inline_data(data, media_type),
        Media::Pdf(data, media_type, _) => inline_data(data, media_type),
        other => json!({"text": body::media_as_text(other)}),
    }
}

fn inline_data(data: &str, media_type: &str) -> Value {
    json!({"inlineData": {"mimeType": media_type, "data": data}})
}

/// Returns the result of one call. Its media go to `media_after_results`.
fn result_part(message: &Message, calls: &SentCalls<'_>, media_after_results: &mut Vec<Value>) -> Value {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    // If the conversation does not have the call, its id takes the place of the name.
    let (name, has_provider_id) = calls.get(id).copied().unwrap_or((id, false));
    let outcome = if message.is_error { "error" } else { "result" };
    let mut response = json!({"name": call_name(name), "response": {outcome: message.content}});
    if has_provider_id {
        response["id"] = id.into();
    }
    media_after_results.extend(message.parts.iter().map(|part| media_part(&body::media(part))));
    json!({"functionResponse": response})
}

/// A whole answer that was not streamed, or the part of an answer in one event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    /// A [`WireUsage`], read separately: an answer must not fail because its usage cannot be read.
    usage_metadata: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
    #[serde(flatten)]
    other_members: Map<String, Value>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    #[serde(default)]
    name: String,
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    prompt_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
}

struct Decoder {
    draft: Draft,
    /// Whether the answer arrived as a whole, and not as a stream.
    is_whole: bool,
}

impl Decode for Decoder {
    fn read_event(&mut self, data: &str, deltas: &mut Deltas) -> Result<Progress, DecodeError> {
        self.read_chunk(event_json(data)?, deltas)?;
        // The usage may follow the finish reason, so the answer ends only with the stream.
        Ok(Progress::More)
    }

    fn read_whole(&mut self, answer: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        if answer.get("candidates").is_none() && answer.get("promptFeedback").is_none() {
            return Err(DecodeError::unreadable("it has no `candidates`"));
        }
        self.read_chunk(answer, deltas)?;
        self.is_whole = true;
        Ok(())
    }

    fn into_draft(self: Box<Self>) -> Result<Draft, DecodeError> {
        if self.is_whole || self.draft.stop.is_some() { Ok(self.draft) } else { Err(DecodeError::cut()) }
    }
}

impl Decoder {
    fn read_chunk(&mut self, chunk: Value, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let chunk: Chunk = serde_json::from_value(chunk).map_err(DecodeError::unreadable)?;
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.draft.stop = Some(Stop::Refusal);
        }
        for candidate in chunk.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.map(|content| content.parts).unwrap_or_default() {
                self.read_part(part, deltas)?;
            }
            if let Some(reason) = candidate.finish_reason {
                self.draft.stop = Some(stop_reason(&reason, candidate.finish_message.as_deref()));
            }
        }
        if let Some(usage) = chunk.usage_metadata.and_then(|usage| serde_json::from_value::<WireUsage>(usage).ok()) {
            self.draft.usage.input = usage.prompt_token_count.saturating_add(usage.tool_use_prompt_token_count);
            self.draft.usage.output = usage.candidates_token_count.saturating_add(usage.thoughts_token_count);
            self.draft.usage.cached_read = usage.cached_content_token_count;
            self.draft.usage.reasoning = usage.thoughts_token_count;
            deltas.push_back(Delta::Usage(self.draft.usage));
        }
        Ok(())
    }

    fn read_part(&mut self, part: Part, deltas: &mut Deltas) -> Result<(), DecodeError> {
        let mut members = Map::new();
        if let Some(signature) = part.thought_signature {
            members.insert(SIGNATURE.into(), signature.into());
        }
        match (part.function_call, part.text) {
            (Some(call), _) => {
                let piece = self.draft.begin_call(call.id.as_deref().unwrap_or_default(), &call.name, deltas)?;
                // If Gemini gave the call an id, the result must repeat it.
                if let Some(id) = call.id.filter(|id| !id.is_empty()) {
                    members.insert("id".into(), id.into());
                }
                if let Some(args) = call.args.filter(|args| !args.is_null()) {
                    self.draft.append_arguments(piece, &args.to_string(), deltas);
                }
                if let Some(extra) = self.draft.extra_mut(piece) {
                    *extra = members;
                }
            }
            (None, Some(thinking)) if part.thought => {
                if !thinking.is_empty() {
                    deltas.push_back(Delta::Thinking(thinking));
                }
            }
            (None, Some(text)) if members.is_empty() => self.draft.add_text(&text, deltas)?,
            (None, Some(text)) => {
                let piece = self.draft.begin_text()?;
                self.draft.append_text_at(piece, &text, deltas);
                if let Some(extra) = self.draft.extra_mut(piece) {
                    *extra = members;
                }
            }
            (None, None) => {
                let mut raw = part.other_members;
                raw.extend(members);
                if !raw.is_empty() {
                    self.draft.add_raw(raw.into())?;
                }
            }
        }
        Ok(())
    }
}

/// Translates a finish reason; `message` explains it.
fn stop_reason(reason: &str, message: Option<&str>) -> Stop {
    match reason {
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => Stop::Refusal,
        other => {
            let reason = message.map_or_else(|| other.to_owned(), |message| format!("{other}: {message}"));
            Stop::Other(failure::quote(&reason, None))
        }
    }
}
