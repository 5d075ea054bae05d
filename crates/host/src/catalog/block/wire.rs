//! How each provider's API writes a tool down.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::ToolDefinition;
use crate::catalog::schema::Provider;

/// The form in which a request to a model carries its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages: `{"name", "description", "input_schema"}`.
    Anthropic,
    /// OpenAI Chat Completions, and the many APIs made after it:
    /// `{"type": "function", "function": {"name", "description", "parameters"}}`.
    OpenAiChat,
    /// OpenAI Responses: `{"type": "function", "name", "description", "parameters", "strict": false}`. Without the
    /// last member the API takes schemas for strict ones and refuses, or rewrites, those that are not.
    OpenAiResponses,
    /// Gemini `generateContent`: `{"functionDeclarations": [{"name", "description", "parameters"}]}`, where a tool that
    /// takes nothing has no `parameters`.
    Gemini,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini];

    /// Whose rules the schemas follow unless something else is asked for.
    #[must_use]
    pub const fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => Provider::OpenAi,
            Self::Gemini => Provider::Gemini,
        }
    }

    /// Most tools that the provider takes in one request, where it says so: 128 at OpenAI (`array_above_max_length`) and,
    /// in the strictest of its documents that speak of today's models, Google. Others behind the same wire may take fewer.
    #[must_use]
    pub const fn max_tools(self) -> Option<usize> {
        match self {
            Self::Anthropic => None,
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini => Some(128),
        }
    }

    /// The value of the request's `tools`.
    pub(super) fn write(self, tools: &[ToolDefinition]) -> Box<RawValue> {
        let written = match self {
            Self::Anthropic => written(tools, |tool| Anthropic {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.input_schema,
            }),
            Self::OpenAiChat => written(tools, |tool| Chat { r#type: "function", function: Function::of(tool) }),
            Self::OpenAiResponses => written(tools, |tool| Responses {
                r#type: "function",
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
                strict: false,
            }),
            Self::Gemini => {
                let function_declarations = tools.iter().map(|tool| {
                    let Function { name, description, parameters } = Function::of(tool);
                    Function { name, description, parameters: parameters.filter(|_| tool.takes_arguments) }
                });
                to_raw_value(&[Gemini { function_declarations: function_declarations.collect() }])
            }
        };
        // Text and finished JSON cannot fail to be written.
        written.unwrap_or_default()
    }
}

fn written<'a, T: Serialize>(
    tools: &'a [ToolDefinition],
    shape: impl Fn(&'a ToolDefinition) -> T,
) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&tools.iter().map(shape).collect::<Vec<_>>())
}

#[derive(Serialize)]
struct Anthropic<'a> {
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
struct Chat<'a> {
    r#type: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Responses<'a> {
    r#type: &'a str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gemini<'a> {
    function_declarations: Vec<Function<'a>>,
}
