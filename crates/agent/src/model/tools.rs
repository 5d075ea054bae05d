//! The tools of a request, written once and sent many times.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::Wire;

/// A JSON array of tools in the shape of one wire. Its bytes go into each request as they are: nothing is parsed or
/// copied between, so the array is the same byte for byte in every round and the provider's prompt cache stays warm.
///
/// Cheap to clone. The default has no tools, and then a request does not mention any.
#[derive(Clone, Debug, Default)]
pub struct ToolArray {
    json: Option<Arc<RawValue>>,
    count: usize,
}

impl ToolArray {
    /// An array that was written elsewhere and has `count` tools. With none, nothing is sent.
    #[must_use]
    pub fn new(json: Arc<RawValue>, count: usize) -> Self {
        Self { json: (count > 0).then_some(json), count }
    }

    /// Writes tools for a wire. Their schemas are sent as they are: clean them first with [`toolrack_host::clean`].
    #[must_use]
    pub fn of(tools: &[ToolDefinition], wire: Wire) -> Self {
        let shaped: Vec<Value> = tools.iter().map(|tool| tool.shaped(wire)).collect();
        // Gemini's tools are one group of declarations.
        let array = match wire {
            Wire::Gemini => serde_json::json!([{ "functionDeclarations": shaped }]),
            _ => Value::Array(shaped),
        };
        serde_json::value::to_raw_value(&array)
            .map_or_else(|_| Self::default(), |raw| Self::new(raw.into(), tools.len()))
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The array; `None` without tools.
    #[must_use]
    pub fn json(&self) -> Option<&RawValue> {
        self.json.as_deref()
    }
}

/// A tool, the same for every provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name that the model sees.
    pub name: String,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

impl ToolDefinition {
    fn shaped(&self, wire: Wire) -> Value {
        let mut members = serde_json::Map::new();
        members.insert("name".into(), self.name.clone().into());
        if let Some(description) = &self.description {
            members.insert("description".into(), description.clone().into());
        }
        let schema = match wire {
            Wire::Anthropic => "input_schema",
            Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Gemini => "parameters",
        };
        // Gemini refuses an object without properties.
        let is_empty =
            self.input_schema.get("properties").is_none_or(|all| all.as_object().is_none_or(|all| all.is_empty()));
        if !(wire == Wire::Gemini && is_empty) {
            members.insert(schema.into(), self.input_schema.clone());
        }
        match wire {
            Wire::OpenaiChat => serde_json::json!({"type": "function", "function": members}),
            Wire::OpenaiResponses => {
                members.insert("type".into(), "function".into());
                // Without this word the API takes it for true, and most schemas of MCP servers for wrong.
                members.insert("strict".into(), false.into());
                members.into()
            }
            Wire::Anthropic | Wire::Gemini => members.into(),
        }
    }
}
