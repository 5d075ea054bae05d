//! Writes tools in the formats of the providers' APIs. A *wire* is such a format.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::ToolDefinition;
use crate::catalog::schema::Provider;

/// The form in which a request to a model carries its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages: `{"name", "description", "input_schema"}`.
    Anthropic,
    /// OpenAI Chat Completions, and the many compatible APIs: `{"type": "function", "function": {"name", "description",
    /// "parameters"}}`.
    OpenAiChat,
    /// OpenAI Responses: `{"type": "function", "name", "description", "parameters", "strict": false}`. Without the last
    /// member, the API treats all schemas as strict, and refuses or rewrites schemas that are not.
    OpenAiResponses,
    /// Gemini `generateContent`: `{"functionDeclarations": [{"name", "description", "parameters"}]}`, where a tool
    /// without arguments has no `parameters`.
    Gemini,
}

impl Wire {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini];

    /// Returns the wire's name in settings and in stored data: `anthropic`, `openai-chat`, `openai-responses`,
    /// `gemini`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the provider whose rules the schemas follow by default.
    #[must_use]
    pub const fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => Provider::OpenAi,
            Self::Gemini => Provider::Gemini,
        }
    }

    /// Returns the most tools of one request, according to the provider's documentation; `None` if it names no limit.
    /// OpenAI accepts 128 (the error is `array_above_max_length`). Google's pages differ: 128 is the lowest number on
    /// those about current models. Other servers with the same wire may accept fewer.
    #[must_use]
    pub const fn max_tools(self) -> Option<usize> {
        match self {
            Self::Anthropic => None,
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini => Some(128),
        }
    }

    /// Returns the value of the request's `tools`.
    pub(super) fn write(self, tools: &[ToolDefinition]) -> Box<RawValue> {
        let json = match self {
            Self::Anthropic => to_json_array(tools, |tool| AnthropicTool {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.input_schema,
            }),
            Self::OpenAiChat => {
                to_json_array(tools, |tool| ChatTool { r#type: "function", function: Function::of(tool) })
            }
            Self::OpenAiResponses => to_json_array(tools, |tool| ResponsesTool {
                r#type: "function",
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
                strict: false,
            }),
            Self::Gemini => {
                // Some models of Gemini refuse an object schema without properties.
                let function_declarations = tools.iter().map(|tool| {
                    let Function { name, description, parameters } = Function::of(tool);
                    Function { name, description, parameters: parameters.filter(|_| tool.takes_arguments) }
                });
                to_raw_value(&[GeminiTools { function_declarations: function_declarations.collect() }])
            }
        };
        // Writing text and finished JSON cannot fail.
        json.unwrap_or_default()
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(text: &str) -> Result<Self, UnknownWire> {
        let wire = Self::ALL.into_iter().find(|wire| wire.as_str() == text);
        wire.ok_or_else(|| UnknownWire { given: text.to_owned() })
    }
}

/// The error for a text that names no [`Wire`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a wire; use anthropic, openai-chat, openai-responses or gemini")]
pub struct UnknownWire {
    /// The text.
    pub given: String,
}

/// Writes each tool in the form that `shape` gives it, as one JSON array.
fn to_json_array<'a, T: Serialize>(
    tools: &'a [ToolDefinition],
    shape: impl Fn(&'a ToolDefinition) -> T,
) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&tools.iter().map(shape).collect::<Vec<_>>())
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
}

impl<'a> Function<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters: Some(&tool.input_schema) }
    }
}

#[derive(Serialize)]
struct ChatTool<'a> {
    r#type: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'a str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTools<'a> {
    function_declarations: Vec<Function<'a>>,
}
