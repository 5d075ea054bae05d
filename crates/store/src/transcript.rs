//! Prepares stored messages for users. Toolrack's agent writes a whole message as JSON into the column `body`. Other
//! programs fill only the other columns, which are read if there is no `body`.

pub mod markdown;

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::Value;
use toolrack_host::text::map_texts;

use crate::{ModelUse, Role, StoredMessage};

/// A message, as JSON. Known secrets are hidden in it. Its texts come from models and servers: escape them before you
/// show them.
#[derive(Debug, Serialize)]
pub struct TranscriptMessage {
    /// The id of the message.
    pub id: String,
    /// The position of the message in the conversation, from 0.
    pub position: u64,
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// The text of the message.
    pub content: String,
    /// The tool calls that the model asks for in this message.
    pub tool_calls: Vec<TranscriptCall>,
    /// In a tool's message: the id of the call that it answers.
    pub tool_call_id: Option<String>,
    /// In a tool's message: whether the call failed.
    pub is_error: bool,
    /// The pictures, sounds and resources beside the text, as MCP's content blocks.
    pub parts: Vec<Value>,
    /// When the message was added, in RFC 3339.
    pub timestamp: String,
    /// The model tokens and the cost of the message; `None` if none are stored.
    pub spent: Option<ModelUse>,
    /// The typed form of `role`.
    #[serde(skip)]
    pub kind: Role,
    /// The typed form of `timestamp`.
    #[serde(skip)]
    pub at: DateTime<Utc>,
}

/// A tool call that a model asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TranscriptCall {
    /// The id of the call, from the model's provider; empty if there is none.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments: any JSON, a string if the model wrote no JSON, or null if there are none.
    pub input: Value,
}

impl TranscriptMessage {
    /// Parses `message`. `conceal` gets each text, and returns it with its secrets hidden.
    #[must_use]
    pub fn new(message: StoredMessage, conceal: &dyn Fn(&str) -> String) -> Self {
        // A missing or damaged text becomes null. Each look-up in null gives null, too.
        let parse_json =
            |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let body = parse_json(&message.body).unwrap_or_default();
        let result = parse_json(&message.tool_results).unwrap_or_default();
        let result = match result {
            // Some programs store a list with one result.
            Value::Array(mut results) if !results.is_empty() => results.swap_remove(0),
            result => result,
        };
        let call_list = [&body["tool_calls"], &parse_json(&message.tool_calls).unwrap_or_default()];
        let call_list =
            call_list.into_iter().find_map(Value::as_array).map(|call_list| call_list.iter().map(parse_call).collect());
        let mut transcript_message = Self {
            id: message.id.to_string(),
            position: message.position,
            role: message.role.as_str(),
            content: body["content"].as_str().map_or(message.content, str::to_owned),
            tool_calls: call_list.unwrap_or_default(),
            tool_call_id: [&body, &result].into_iter().find_map(|source| json_string(&source["tool_call_id"])),
            is_error: [&body, &result].into_iter().any(|source| source["is_error"] == true),
            parts: body["parts"].as_array().cloned().unwrap_or_default(),
            timestamp: message.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
            spent: message.spent,
            kind: message.role,
            at: message.timestamp,
        };
        transcript_message.conceal(conceal);
        transcript_message
    }

    /// Hides the secrets. Leaves ids as they are, because they connect a result with its call.
    fn conceal(&mut self, conceal: &dyn Fn(&str) -> String) {
        self.content = conceal(&self.content);
        for call in &mut self.tool_calls {
            call.name = conceal(&call.name);
            conceal_texts(&mut call.input, conceal);
        }
        self.parts.iter_mut().for_each(|part| conceal_texts(part, conceal));
    }
}

/// Reads a call in Toolrack's format, or in the format of some providers.
fn parse_call(call: &Value) -> TranscriptCall {
    let provider_call = &call["function"];
    let name = json_string(&call["name"]).or_else(|| json_string(&provider_call["name"])).unwrap_or_default();
    // Toolrack writes `raw_arguments` if the model wrote no JSON object, and `input` is null then.
    let arguments = [&call["raw_arguments"], &call["input"], &call["arguments"], &provider_call["arguments"]];
    let input = arguments.into_iter().find(|value| !value.is_null()).cloned().unwrap_or_default();
    let input = match &input {
        Value::String(json_text) => serde_json::from_str(json_text).unwrap_or(input),
        _ => input,
    };
    TranscriptCall { id: json_string(&call["id"]).unwrap_or_default(), name, input }
}

/// Returns a JSON string as text; `None` for any other value.
fn json_string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Hides the secrets in each text of a JSON value.
fn conceal_texts(value: &mut Value, conceal: &dyn Fn(&str) -> String) {
    map_texts(value, &|text| Cow::Owned(conceal(text)));
}

/// Returns the name of the tool whose result is in the message at `index`. `None` if that message is
/// no result, or no message before it has the call.
#[must_use]
pub fn tool_name(messages: &[TranscriptMessage], index: usize) -> Option<&str> {
    let id = messages.get(index)?.tool_call_id.as_deref()?;
    let earlier_messages = messages[..index].iter().rev();
    earlier_messages.flat_map(|message| &message.tool_calls).find(|call| call.id == id).map(|call| call.name.as_str())
}

#[cfg(test)]
mod tests;
