//! MCP's types as plain data, as this host returns them. Server text in them is unchanged and untrusted: escape it
//! before it reaches a terminal, a log or HTML ([`text`](crate::text)).

pub mod codes;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
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
    #[serde(default, deserialize_with = "lenient", rename = "mimeType", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    /// A name for users.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, deserialize_with = "lenient", rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A family of resources that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceTemplate {
    /// An RFC 6570 template.
    #[serde(rename = "uriTemplate")]
    pub uri_template: String,
    /// The name.
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    /// A name for users.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, deserialize_with = "lenient", rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The server's own name for the prompt.
    pub name: String,
    /// A name for users.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments.
    #[serde(default, deserialize_with = "readable_arguments")]
    pub arguments: Vec<PromptArgument>,
}

/// One argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the argument is required.
    #[serde(default, deserialize_with = "lenient")]
    pub required: bool,
}

/// Reads a member that only describes an item. One of another type, such as null, counts as missing: the item can still
/// be used.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads the arguments of a prompt, without those that cannot be read.
fn readable_arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PromptArgument>, D::Error> {
    let Value::Array(arguments) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    // `serde` would also read an argument from an array, member by member.
    let objects = arguments.into_iter().filter(Value::is_object);
    Ok(objects.filter_map(|argument| serde_json::from_value(argument).ok()).collect())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Servers in Go write an empty list as null.
    #[test]
    fn a_prompt_or_a_resource_is_left_out_only_for_its_name_or_its_uri() {
        let prompt = |value: Value| serde_json::from_str::<Prompt>(&value.to_string());
        let argument = |name: &str, required| PromptArgument { name: name.to_owned(), description: None, required };
        let some =
            json!([{"name": "a", "required": null}, 5, ["b"], {"name": "c", "required": true, "description": 7}]);
        for (arguments, read) in [
            (json!(null), Vec::new()),
            (json!({}), Vec::new()),
            (some, vec![argument("a", false), argument("c", true)]),
        ] {
            let odd = prompt(json!({"name": "p", "title": 5, "description": null, "arguments": arguments})).unwrap();
            assert_eq!(odd, Prompt { name: "p".to_owned(), title: None, description: None, arguments: read });
        }
        assert!(prompt(json!({"name": "p"})).unwrap().arguments.is_empty());
        assert!(prompt(json!({"name": null})).is_err() && prompt(json!({})).is_err());

        let resource = |value: Value| serde_json::from_str::<Resource>(&value.to_string());
        for size in [json!(-5), json!(1.5), json!("9"), json!(null)] {
            let odd = resource(json!({"uri": "x:a", "name": null, "mimeType": {}, "size": size})).unwrap();
            assert_eq!((odd.uri.as_str(), odd.name.as_str(), odd.mime_type, odd.size), ("x:a", "", None, None));
        }
        let usual = resource(json!({"uri": "x:a", "name": "a", "mimeType": "text/plain", "size": 9})).unwrap();
        assert_eq!((usual.name.as_str(), usual.mime_type.as_deref(), usual.size), ("a", Some("text/plain"), Some(9)));
        assert!(resource(json!({"uri": 5})).is_err() && resource(json!({"name": "a"})).is_err());

        let template = json!({"uriTemplate": "x:{a}", "name": null, "description": ["d"]}).to_string();
        assert_eq!(serde_json::from_str::<ResourceTemplate>(&template).unwrap().name, "");
        let contents = json!({"uri": "x:a", "mimeType": 7, "text": "t"}).to_string();
        assert_eq!(serde_json::from_str::<ResourceContents>(&contents).unwrap().text.as_deref(), Some("t"));
        assert!(serde_json::from_str::<ResourceContents>(r#"{"uri": "x:a", "text": 7}"#).is_err());
    }
}
