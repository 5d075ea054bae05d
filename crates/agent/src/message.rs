//! What a conversation consists of, the same for every provider.
//!
//! A message is text, the calls that a model wants made, or the result of one. What MCP has beyond text (pictures,
//! sounds, resources) travels in [`Message::parts`] as it came, and each wire sends what its provider can take. What a
//! provider wants to see again unchanged, such as signed thinking, travels in [`Message::blocks`].
//!
//! Everything here is stored as JSON. A message without the newer fields reads and writes as it did before there were
//! any.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolrack_host::Content;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever set the conversation up. Usually [`Request::system`](crate::Request::system) says it instead.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool, with the result of one call.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; empty if a model only makes calls.
    pub content: String,
    /// The calls that a model wants made, in its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallData>>,
    /// Of a tool's message: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of a tool's message: the call failed, and `content` says how.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// What comes with the text of a person or a tool: pictures, sounds, files. Text that stands in `content` already
    /// is not repeated here; [`Message::with_parts`] sees to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Content>,
    /// Of a model's message: what its provider wants to see again as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<ProviderBlocks>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Message {
    /// A message of text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: None,
            tool_call_id: None,
            is_error: false,
            parts: Vec::new(),
            blocks: None,
        }
    }

    /// What a tool gave to the call `id`.
    pub fn tool_result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::new(Role::Tool, content) }
    }

    /// That the call `id` failed, and how.
    pub fn tool_error(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::tool_result(id, content) }
    }

    /// The same message with these calls; without any, `tool_calls` is `None`.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: Vec<ToolCallData>) -> Self {
        self.tool_calls = (!calls.is_empty()).then_some(calls);
        self
    }

    /// The same message with what of `parts` is not text: `content` has the text of a result already.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Content>) -> Self {
        let is_said = |part: &Content| match part {
            Content::Text { .. } | Content::ResourceLink { .. } => true,
            Content::Resource { resource } => resource.blob.is_none(),
            _ => false,
        };
        self.parts = parts.into_iter().filter(|part| !is_said(part)).collect();
        self
    }

    /// The calls that a model wants made; none is an empty slice.
    #[must_use]
    pub fn calls(&self) -> &[ToolCallData] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

/// A call that a model wants made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallData {
    /// Unique in its conversation. The provider's, or one made up where the provider gave none.
    pub id: String,
    /// The model-visible name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments, a JSON object; `null` if what the model wrote is none.
    pub input: Value,
    /// What the model wrote instead of a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
}

impl ToolCallData {
    /// A call with these arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Map<String, Value>) -> Self {
        Self { id: id.into(), name: name.into(), input: Value::Object(input), raw_arguments: None }
    }

    /// A call whose arguments came as text. Nothing at all and `null` mean no arguments; what is no JSON object is kept
    /// as [`raw_arguments`](Self::raw_arguments).
    pub fn from_text(id: impl Into<String>, name: impl Into<String>, arguments: &str) -> Self {
        let input = match arguments.trim() {
            "" | "null" => Some(Value::Object(Map::new())),
            text => serde_json::from_str(text).ok().filter(Value::is_object),
        };
        let raw_arguments = input.is_none().then(|| arguments.to_owned());
        Self { id: id.into(), name: name.into(), input: input.unwrap_or_default(), raw_arguments }
    }

    /// The arguments; `None` if what the model wrote is no JSON object.
    #[must_use]
    pub fn arguments(&self) -> Option<&Map<String, Value>> {
        self.input.as_object()
    }
}

/// What a provider gave with an answer and wants to see again unchanged, and where in the answer it stood.
///
/// It is sent back only over the same wire and to the same model; any other gets the text and the calls alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderBlocks {
    /// The wire that it came over; see [`Wire`](crate::model::Wire).
    pub wire: String,
    /// The model that made it, as it was asked for.
    pub model: String,
    /// The whole answer, in order. The text and the calls themselves stand in the message.
    pub blocks: Vec<Block>,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// Something only its provider understands: JSON as it came.
    Raw(Value),
    /// Text: the next so many bytes of [`Message::content`].
    Text {
        /// How many.
        bytes: usize,
        /// What stood beside it, such as a signature.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        with: Map<String, Value>,
    },
    /// The next of [`Message::tool_calls`].
    Call {
        /// What stood beside it, such as a signature.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        with: Map<String, Value>,
    },
}
