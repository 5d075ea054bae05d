//! MCP's types as plain data, as this host returns them. Server text in them is unchanged and untrusted: escape it
//! before it reaches a terminal, a log or HTML ([`text`](crate::text)).

pub mod codes;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// The longest accepted tool name: longer than any provider allows.
pub(crate) const MAX_TOOL_NAME: usize = 512;

/// A member of `_meta` of a tool's result. If it is `true`, the text of the result covers all of its structured
/// content, and a model gets the text alone ([`ToolOutcome::text`](crate::ToolOutcome::text)).
pub const TEXT_IS_WHOLE: &str = "toolrack/textIsWhole";

/// A tool as its server describes it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The server's own name for the tool.
    pub name: String,
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments, unchanged byte for byte.
    pub input_schema: Box<RawValue>,
    /// The JSON Schema of structured content, unchanged byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// The server's claims about the tool's effects. They are claims, not facts.
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
    /// Whether the tool runs as a task (2025-11-25, experimental).
    #[serde(skip)]
    pub task: TaskSupport,
    /// The pictures (`icons`), unchanged byte for byte, for programs that offer the tool to others.
    #[serde(skip)]
    pub icons: Option<Box<RawValue>>,
    /// Further metadata from its server (`_meta`), unchanged byte for byte, for programs that offer the tool to others.
    #[serde(skip)]
    pub meta: Option<Box<RawValue>>,
}

/// Compares byte for byte.
impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        fn text(raw: &Option<Box<RawValue>>) -> Option<&str> {
            raw.as_deref().map(RawValue::get)
        }
        self.name == other.name
            && self.title == other.title
            && self.description == other.description
            && self.annotations == other.annotations
            && self.task == other.task
            && self.input_schema.get() == other.input_schema.get()
            && text(&self.output_schema) == text(&other.output_schema)
            && text(&self.icons) == text(&other.icons)
            && text(&self.meta) == text(&other.meta)
    }
}

/// A server's claims about a tool (MCP `ToolAnnotations`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the tool changes nothing.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may destroy something.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether repeated calls have the same effect as one.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether the tool reaches beyond the server.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Annotations {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a tool may, must or must not be called as a task (MCP 2025-11-25 `execution.taskSupport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// The tool is never called as a task; the default.
    #[default]
    Forbidden,
    /// The tool may be called as a task.
    Optional,
    /// The tool must be called as a task.
    Required,
}

/// One piece of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text, unchanged.
        text: String,
    },
    /// A picture.
    Image {
        /// Base64.
        data: String,
        /// The media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// Base64.
        data: String,
        /// The media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// An embedded resource.
    Resource {
        /// The resource.
        resource: ResourceContents,
    },
    /// A link to a resource.
    ResourceLink {
        /// The URI.
        uri: String,
        /// The name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The description.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The media type.
        #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A block of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// The contents of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceContents {
    /// The URI.
    pub uri: String,
    /// The media type.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, for a text resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in Base64, for a binary resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// A resource that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A family of resources that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceTemplate {
    /// An RFC 6570 template.
    #[serde(rename = "uriTemplate")]
    pub uri_template: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The server's own name for the prompt.
    pub name: String,
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

/// One argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the argument is required.
    #[serde(default)]
    pub required: bool,
}

/// A filled-in prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptResult {
    /// The purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages to start a conversation with.
    pub messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// The content.
    pub content: Content,
}

/// A server's description of itself, which proves no identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// A name for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A report of progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The expected total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The server's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The capabilities of a server that this host uses; `None` for those that the server does not declare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The server has tools.
    pub tools: Option<Value>,
    /// The server has resources.
    pub resources: Option<Value>,
    /// The server has prompts.
    pub prompts: Option<Value>,
    /// The server sends log messages.
    pub logging: Option<Value>,
    /// The server completes arguments.
    pub completions: Option<Value>,
    /// The server runs requests as tasks (2025-11-25, experimental).
    pub tasks: Option<Value>,
    /// All other capabilities.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Capabilities {
    /// Returns whether the server announces changes of `list`, which is `tools`, `resources` or `prompts`.
    pub(crate) fn list_changed(&self, list: &str) -> bool {
        let section = match list {
            "tools" => &self.tools,
            "resources" => &self.resources,
            "prompts" => &self.prompts,
            _ => return false,
        };
        section.as_ref().and_then(|section| section.get("listChanged")).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns whether the server announces changes of single resources.
    pub(crate) fn resources_subscribe(&self) -> bool {
        let subscribe = self.resources.as_ref().and_then(|resources| resources.get("subscribe"));
        subscribe.and_then(Value::as_bool).unwrap_or(false)
    }
}
