//! Writes the JSON body of a request from start to end, and copies the tools into it as bytes.

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use sha2::{Digest, Sha256};
use toolrack_host::Content;

use super::{Request, settings::ModelSettings};
use crate::message::{Message, Role, ToolCallData};

/// The members of a body that `extra_body` cannot set; see [`Request::extra_body`]. The writer ignores them there.
const RESERVED_MEMBERS: [&str; 8] =
    ["messages", "input", "contents", "tools", "stream", "system", "systemInstruction", "instructions"];

/// A body that is being written: a JSON object that is not closed yet.
pub(super) struct BodyWriter(Vec<u8>);

impl BodyWriter {
    /// Begins the body with `members`, as changed by the `extra_body` of the settings and then of the request.
    pub(super) fn new(mut members: Map<String, Value>, settings: &ModelSettings, request: &Request<'_>) -> Self {
        for extra in [Some(&settings.extra_body), request.extra_body].into_iter().flatten() {
            for (name, value) in extra.iter().filter(|(name, _)| !RESERVED_MEMBERS.contains(&name.as_str())) {
                match (members.get_mut(name), value) {
                    // `null` removes a member.
                    (_, Value::Null) => drop(members.shift_remove(name)),
                    // Merge one level deep, so that a part of `generationConfig` can be set.
                    (Some(Value::Object(existing)), Value::Object(added)) => {
                        existing.extend(added.iter().map(|(name, value)| (name.clone(), value.clone())));
                    }
                    (_, value) => drop(members.insert(name.clone(), value.clone())),
                }
            }
        }
        let mut body = Self(vec![b'{']);
        for (name, value) in &members {
            body.write_member(name, value);
        }
        body
    }

    /// Writes a member.
    pub(super) fn write_member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.write_name(name);
        self.write_value(value);
    }

    /// Writes a member whose value is pieces of finished JSON.
    pub(super) fn write_raw_member(&mut self, name: &str, pieces: &[&str]) {
        self.write_name(name);
        for piece in pieces {
            self.0.extend_from_slice(piece.as_bytes());
        }
    }

    fn write_name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        // Escapes the name, because `extra_body` can have any.
        self.write_value(name);
        self.0.push(b':');
    }

    fn write_value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Cannot fail: serialization fails only for maps whose keys are not strings, and nothing here has those.
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.extend_from_slice(b"null");
        }
    }

    pub(super) fn finish(mut self) -> Bytes {
        self.0.push(b'}');
        self.0.into()
    }
}

/// A message for an API that wants consecutive messages of one role as one message: the role, and the pieces of the
/// content.
pub(super) type RoleMessage = (&'static str, Vec<Value>);

/// Adds pieces of content to the last message if it has this role, otherwise as a new message.
pub(super) fn add_pieces(sent_messages: &mut Vec<RoleMessage>, role: &'static str, pieces: Vec<Value>) {
    match sent_messages.last_mut() {
        _ if pieces.is_empty() => {}
        Some((last_role, last_pieces)) if *last_role == role => last_pieces.extend(pieces),
        _ => sent_messages.push((role, pieces)),
    }
}

/// Adds to `members` the maximum number of tokens, under the wire's name for it, and the temperature. The request's
/// maximum takes precedence over that of the settings.
pub(super) fn add_sampling(
    members: &mut Map<String, Value>,
    max_tokens_name: &str,
    settings: &ModelSettings,
    request: &Request<'_>,
) {
    if let Some(max_tokens) = request.max_tokens.or(settings.max_tokens) {
        members.insert(max_tokens_name.into(), max_tokens.into());
    }
    if let Some(temperature) = request.temperature {
        members.insert("temperature".into(), temperature.into());
    }
}

/// Returns the tools of a request, if there are any.
pub(super) fn tools<'a>(request: &Request<'a>) -> Option<&'a RawValue> {
    request.tools.filter(|tools| !tools.is_empty()).map(|tools| &**tools.json())
}

/// Returns the system prompt, if there is one: first that of the request, then the system messages of the conversation.
pub(super) fn system_text(request: &Request<'_>) -> Option<String> {
    let system_messages =
        request.messages.iter().filter(|message| message.role == Role::System).map(|message| message.content.as_str());
    let texts = request.system.into_iter().chain(system_messages).filter(|text| !text.trim().is_empty());
    Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.is_empty())
}

/// Returns whether to send the message. An empty message of the model is not sent, such as an answer that was cut
/// before its first word.
pub(super) fn has_content(message: &Message) -> bool {
    message.role != Role::Assistant
        || !message.content.trim().is_empty()
        || !message.calls().is_empty()
        // Blocks that the provider wants back.
        || message.blocks.is_some()
}

/// Returns the arguments of a call as an object. If the model wrote something else, returns an empty object, because a
/// provider would refuse the whole conversation otherwise. The result of the call already reports the error.
pub(super) fn arguments(call: &ToolCallData) -> Cow<'_, Map<String, Value>> {
    call.arguments().map_or_else(|| Cow::Owned(Map::new()), Cow::Borrowed)
}

/// Returns the arguments of a call as text.
pub(super) fn arguments_text(call: &ToolCallData) -> String {
    call.arguments().map_or_else(|| "{}".to_owned(), |_| call.input.to_string())
}

/// The longest name of a tool that a provider accepts, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Returns the name of a called tool as it goes back to the provider. A model may write any name, such as
/// `multi_tool_use.parallel` or none. But a provider refuses a conversation with an empty or too long name. It also
/// refuses names with characters other than ASCII letters, digits, `_`, `-` and `other_allowed_chars`.
pub(super) fn call_name<'a>(name: &'a str, other_allowed_chars: &[char]) -> Cow<'a, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || other_allowed_chars.contains(&c);
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed) {
        return Cow::Borrowed(name);
    }
    let allowed_name: String = name.chars().take(MAX_NAME_BYTES).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    Cow::Owned(if allowed_name.is_empty() { "_".to_owned() } else { allowed_name })
}

/// The number of hex digits that replace an id, for most wires: see [`accepted_id`].
pub(super) const REPLACEMENT_ID_DIGITS: usize = 24;

/// Returns the id unchanged if this provider accepts it (`is_accepted`). Otherwise the id comes from another provider,
/// and the first `length` hex digits of its hash replace it.
pub(super) fn accepted_id(id: &str, is_accepted: impl Fn(&str) -> bool, length: usize) -> Cow<'_, str> {
    if is_accepted(id) {
        return Cow::Borrowed(id);
    }
    let hash = Sha256::digest(id.as_bytes());
    let digits = HEXLOWER.encode(&hash);
    Cow::Owned(digits[..length.min(digits.len())].to_owned())
}

/// A part of a message, by the kinds that wires (the API formats of providers) distinguish. A provider that cannot read
/// the bytes of a part refuses the whole conversation, in each later request as well. So a part becomes text if its
/// bytes are in a format that providers do not read.
pub(super) enum Media<'a> {
    /// A picture: Base64 and media type. The type is judged by the bytes, because servers may name a wrong one.
    Image(&'a str, &'a str),
    /// A sound: Base64 and media type.
    Audio(&'a str, &'a str),
    /// A PDF: Base64, media type, URI.
    Pdf(&'a str, &'a str, &'a str),
    /// Text that is not in the message's own text.
    Text(Cow<'a, str>),
}

/// Returns how to send a part of a message.
pub(super) fn media(part: &Content) -> Media<'_> {
    match part {
        Content::Image { data, mime_type } if !data.is_empty() => picture(data, mime_type),
        Content::Audio { data, mime_type } if !data.is_empty() => sound(data, mime_type),
        // The host leaves out the bytes of a part that is too large.
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
            Media::Text(format!("[{mime_type}: too large to be shown here]").into())
        }
        Content::Text { text } => Media::Text(text.into()),
        Content::Resource { resource } => {
            let media_type = resource.mime_type.as_deref().unwrap_or("application/octet-stream");
            match (&resource.text, &resource.blob) {
                (Some(text), _) => Media::Text(text.into()),
                (None, Some(blob)) if media_type.starts_with("image/") => picture(blob, media_type),
                (None, Some(blob)) if media_type.starts_with("audio/") => sound(blob, media_type),
                (None, Some(blob)) => file(blob, media_type, &resource.uri),
                (None, None) => Media::Text(format!("[{media_type} at {}]", resource.uri).into()),
            }
        }
        Content::ResourceLink { uri, .. } => Media::Text(uri.into()),
        other => Media::Text(serde_json::to_string(other).unwrap_or_default().into()),
    }
}

fn picture<'a>(data: &'a str, media_type: &str) -> Media<'a> {
    match picture_type(data).filter(|_| is_base64(data)) {
        Some(media_type) => Media::Image(data, media_type),
        None => Media::Text(describe("a picture", media_type, data).into()),
    }
}

fn sound<'a>(data: &'a str, media_type: &'a str) -> Media<'a> {
    match is_base64(data) {
        true => Media::Audio(data, media_type),
        false => Media::Text(describe("a sound", media_type, data).into()),
    }
}

fn file<'a>(data: &'a str, media_type: &'a str, uri: &'a str) -> Media<'a> {
    match media_type == "application/pdf" && starts_with(data, b"%PDF") && is_base64(data) {
        true => Media::Pdf(data, media_type, uri),
        false => Media::Text(describe(&format!("the file {uri}"), media_type, data).into()),
    }
}

/// Returns the media type of a picture, judged by its first bytes; `None` for a format that most providers refuse.
fn picture_type(base64: &str) -> Option<&'static str> {
    Some(match first_bytes(base64)?.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => "image/webp",
        _ => return None,
    })
}

/// Returns the first bytes that `base64` encodes, at most 12; `None` if it is not Base64.
fn first_bytes(base64: &str) -> Option<Vec<u8>> {
    let start = base64.get(..base64.len().min(16))?;
    BASE64.decode(start.as_bytes()).ok()
}

/// Returns whether the bytes that `base64` encodes begin with `start`.
fn starts_with(base64: &str, start: &[u8]) -> bool {
    first_bytes(base64).is_some_and(|bytes| bytes.starts_with(start))
}

/// Returns whether a text is the Base64 that providers accept: without line breaks, and padded.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Describes bytes in words: `[name, media type, size: it cannot be shown to this model]`.
fn describe(name: &str, media_type: &str, base64: &str) -> String {
    // Four characters of Base64 are three bytes.
    format!("[{name}, {media_type}, {} bytes: it cannot be shown to this model]", base64.len() / 4 * 3)
}

/// Returns a `data:` URL, which contains the bytes itself. `media_type` is their media type.
pub(super) fn data_url(base64: &str, media_type: &str) -> String {
    format!("data:{media_type};base64,{base64}")
}

/// Describes a part in words, for a wire that cannot send it.
pub(super) fn media_as_text(media: &Media<'_>) -> String {
    match media {
        Media::Image(data, media_type) => describe("a picture", media_type, data),
        Media::Audio(data, media_type) => describe("a sound", media_type, data),
        Media::Pdf(data, media_type, uri) => describe(&format!("the file {uri}"), media_type, data),
        Media::Text(text) => text.clone().into_owned(),
    }
}

/// Returns the text of a tool's result, with `Error:` in front if the call failed and the text does not say so.
pub(super) fn result_text(message: &Message) -> Cow<'_, str> {
    let says_error = || message.content.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match message.is_error && !says_error() {
        true => Cow::Owned(format!("Error: {}", message.content)),
        false => Cow::Borrowed(message.content.as_str()),
    }
}

/// Returns the text of a tool's result, with all its parts described in words.
pub(super) fn result_as_text(message: &Message) -> Cow<'_, str> {
    let mut text = result_text(message);
    for part in &message.parts {
        let text = text.to_mut();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&media_as_text(&media(part)));
    }
    text
}

#[cfg(test)]
mod tests;
