//! Lists the arguments of a tool for the user.

use std::{cell::Cell, collections::HashSet};

use serde_json::Value;

use super::{MAX_PLACES, Requirement};

/// An argument, in the words of its schema; its texts are not safe to print yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedArgument {
    pub(crate) name: String,
    /// The expected type, in the words of an error: `a whole number`, `one of a, b`.
    pub(crate) expected: String,
    pub(crate) required: bool,
    /// The default, as the user would type it.
    pub(crate) default: Option<String>,
    pub(crate) about: Option<String>,
}

/// Lists the arguments in `schema`, a tool's whole input schema: first the required ones in the order of `required`,
/// then the others in the order of `properties`.
pub(crate) fn list_arguments(schema: &Value) -> Vec<ListedArgument> {
    let places_left = Cell::new(MAX_PLACES);
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let mut listed_names = HashSet::new();
    let required = required.into_iter().flatten().filter_map(Value::as_str).map(|name| (name, true));
    let names = required.chain(properties.into_iter().flatten().map(|(name, _)| (name.as_str(), false)));
    names
        .filter(|(name, _)| listed_names.insert(*name))
        .map(|(name, required)| {
            let requirement = Requirement::for_property(schema, name, &places_left);
            let keyword = |word: &str| {
                // A keyword next to a `$ref` takes precedence over the same keyword of the schema that is referred to.
                let direct = requirement.schema.and_then(|schema| schema.get(word));
                direct.or_else(|| requirement.resolved(0)?.schema?.get(word))
            };
            let as_typed = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            ListedArgument {
                name: name.to_owned(),
                expected: requirement.describe(0),
                required,
                default: keyword("default").map(as_typed),
                about: keyword("description").and_then(Value::as_str).map(str::to_owned),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_arguments_come_first_and_each_has_its_type() {
        let schema = json!({
            "properties": {
                "alpha": { "type": "boolean", "default": false },
                "mode": { "$ref": "#/$defs/mode", "default": "slow" },
                "path": { "type": "string", "description": "Where." },
                "times": { "type": ["integer", "null"] },
            },
            "required": ["path", "mode", "ghost"],
            "$defs": { "mode": { "enum": ["fast", "slow"], "description": "How." } },
        });
        let lines: Vec<_> = list_arguments(&schema)
            .into_iter()
            .map(|ListedArgument { name, expected, required, default, about }| {
                format!("{name}: {expected}, {required}, {default:?}, {about:?}")
            })
            .collect();
        assert_eq!(
            lines,
            [
                "path: text, true, None, Some(\"Where.\")",
                "mode: one of fast, slow, true, Some(\"slow\"), Some(\"How.\")",
                "ghost: text, true, None, None",
                "alpha: true or false, false, Some(\"false\"), None",
                "times: a whole number or null, false, None, None",
            ]
        );
        assert_eq!(list_arguments(&json!(true)), []);
    }
}
