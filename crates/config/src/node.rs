//! Represents a parsed file of JSON or TOML. Both become JSON values, each with its position in the text.

use std::ops::Range;

use serde_json::Number;

/// A value and its byte range in the text of the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
}

/// A JSON value. An object keeps the order of its members, and members of the same name.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// A member of an object, with the byte range of its name.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) name_span: Range<usize>,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn members(&self) -> Option<&[Member]> {
        match &self.value {
            Value::Map(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the member `name`. If several members have this name, returns the last.
    pub(crate) fn get(&self, name: &str) -> Option<&Member> {
        self.members()?.iter().rfind(|member| member.name == name)
    }

    /// Returns the text, if the value is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of the member `name`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.node.as_text()
    }

    /// Returns the value without positions. If several members have the same name, the last remains. The hash of an
    /// agreement ([`hash`](crate::trust::hash)) is made from the node instead, so that it covers all of them.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(value) => Json::Number(value.clone()),
            Value::Text(value) => Json::String(value.clone()),
            Value::List(nodes) => Json::Array(nodes.iter().map(Self::to_json).collect()),
            Value::Map(members) => {
                Json::Object(members.iter().map(|member| (member.name.clone(), member.node.to_json())).collect())
            }
        }
    }

    /// Creates a value without a position in a file.
    pub(crate) fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(value) => Value::Number(value.clone()),
            Json::String(value) => Value::Text(value.clone()),
            Json::Array(values) => Value::List(values.iter().map(Self::from_json).collect()),
            Json::Object(members) => Value::Map(
                members
                    .iter()
                    .map(|(name, value)| Member { name: name.clone(), name_span: 0..0, node: Self::from_json(value) })
                    .collect(),
            ),
        };
        Self { span: 0..0, value }
    }

    /// Returns the kind of value, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}
