//! Serializes values of the caller's own types into the arguments of a call, a JSON object.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::text::quote;

/// The arguments of a call cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// The arguments are JSON, but not an object.
    #[error("the arguments of {selector} are {found}, not an object; pass a struct, a map or `json!({{…}})`")]
    NotAnObject {
        /// The tool's name as the caller gave it.
        selector: String,
        /// The kind of JSON.
        found: &'static str,
    },
    /// The arguments cannot be written as JSON.
    #[error("the arguments of {selector} cannot be written as JSON: {why}")]
    NotJson {
        /// The tool's name as the caller gave it.
        selector: String,
        /// The error message of the serializer.
        why: String,
    },
}

/// Serializes `arguments`, and returns the members of the object.
pub(super) fn members(selector: &str, arguments: impl Serialize) -> Result<Map<String, Value>, ArgumentsError> {
    match serde_json::to_value(arguments) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(other) => Err(ArgumentsError::NotAnObject { selector: quote(selector), found: kind_of(&other) }),
        Err(error) => Err(ArgumentsError::NotJson { selector: quote(selector), why: error.to_string() }),
    }
}

/// Returns the kind of JSON, with its article.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
