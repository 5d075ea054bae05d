//! Removes invisible characters from the texts of servers ([`text::without_invisible`]).
//!
//! A user approves a description as it is displayed, but a model also reads the characters hidden in it. So both get
//! the same text. Names stay unchanged, and so do all parts that a call has to send back or match exactly: members of
//! objects, values of `enum`, `const`, `default` and `examples`, patterns, references. Hidden characters there are
//! reported as a [finding](crate::findings).

use std::borrow::Cow;

use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::{
    mcp::{Prompt, Resource, ResourceTemplate, Tool},
    text::without_invisible,
};

/// The keywords of a schema whose value is a map from names, which the tool chose, to schemas.
const NAMED_SCHEMA_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The keywords of a schema whose values must stay exactly as they are.
const EXACT_KEYWORDS: [&str; 16] = [
    "enum",
    "const",
    "default",
    "examples",
    "example",
    "required",
    "dependentRequired",
    "pattern",
    "format",
    "type",
    "discriminator",
    "x-mcp-header",
    "contentEncoding",
    "contentMediaType",
    "mapping",
    "propertyOrdering",
];

/// Returns the tool without invisible characters; `None` if there are none in it.
///
/// # Errors
/// The reason, if a schema that may have invisible characters cannot be parsed, for example because of a number beyond
/// all limits.
pub(crate) fn cleaned_tool(tool: &Tool) -> Result<Option<Tool>, String> {
    let title = cleaned(tool.title.as_deref());
    let description = cleaned(tool.description.as_deref());
    let annotation_title = cleaned(tool.annotations.title.as_deref());
    let input =
        cleaned_schema(&tool.input_schema).map_err(|error| format!("its inputSchema cannot be read: {error}"))?;
    let output = tool.output_schema.as_deref().map(cleaned_schema).transpose();
    let output = output.map_err(|error| format!("its outputSchema cannot be read: {error}"))?.flatten();
    if [&title, &description, &annotation_title].iter().all(|text| text.is_none())
        && input.is_none()
        && output.is_none()
    {
        return Ok(None);
    }
    let mut cleaned = tool.clone();
    cleaned.title = title.or(cleaned.title);
    cleaned.description = description.or(cleaned.description);
    cleaned.annotations.title = annotation_title.or(cleaned.annotations.title);
    cleaned.input_schema = input.unwrap_or(cleaned.input_schema);
    cleaned.output_schema = output.or(cleaned.output_schema);
    Ok(Some(cleaned))
}

/// Returns the text without invisible characters; `None` if there are none in it.
fn cleaned(text: Option<&str>) -> Option<String> {
    match without_invisible(text?) {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

fn clean(text: &mut String) {
    if let Some(cleaned) = cleaned(Some(text)) {
        *text = cleaned;
    }
}

/// Returns the schema without invisible characters; `None` if there are none in it.
fn cleaned_schema(raw: &RawValue) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    let json = raw.get();
    // Most schemas contain no invisible character, and no escape that could mean one: they need not be parsed.
    let is_plain = !["\\u", "\\b", "\\f"].iter().any(|escape| json.contains(escape));
    if is_plain && matches!(without_invisible(json), Cow::Borrowed(_)) {
        return Ok(None);
    }
    let mut schema: Value = serde_json::from_str(json)?;
    if !clean_schema(&mut schema) {
        return Ok(None);
    }
    to_raw_value(&schema).map(Some)
}

/// Removes invisible characters from the prose of a schema; returns whether there were any.
fn clean_schema(schema: &mut Value) -> bool {
    match schema {
        Value::String(text) => {
            let cleaned = cleaned(Some(text));
            let is_changed = cleaned.is_some();
            *text = cleaned.unwrap_or_else(|| std::mem::take(text));
            is_changed
        }
        // A fold, because `any` would stop at the first part that has changed.
        Value::Array(parts) => parts.iter_mut().fold(false, |changed, part| clean_schema(part) | changed),
        Value::Object(members) => {
            members.iter_mut().fold(false, |changed, (name, value)| clean_member(name, value) | changed)
        }
        _ => false,
    }
}

/// Does what [`clean_schema`] does, for one member of a schema.
fn clean_member(name: &str, value: &mut Value) -> bool {
    let is_reference = name.starts_with('$') && name != "$comment" && name != "$defs";
    if is_reference || EXACT_KEYWORDS.contains(&name) {
        return false;
    }
    match value {
        Value::Object(schemas_by_name) if NAMED_SCHEMA_KEYWORDS.contains(&name) => {
            // In `dependencies`, a name can also have a list of other names, which stay unchanged.
            let schemas = schemas_by_name.values_mut().filter(|value| value.is_object());
            schemas.fold(false, |changed, schema| clean_schema(schema) | changed)
        }
        value => clean_schema(value),
    }
}

/// An item that a server lists beside tools.
pub(crate) trait RemoveInvisible {
    /// Removes invisible characters from the prose for users and models.
    fn remove_invisible(&mut self);
}

fn clean_each<const N: usize>(texts: [&mut Option<String>; N]) {
    texts.into_iter().flatten().for_each(clean);
}

impl RemoveInvisible for Resource {
    fn remove_invisible(&mut self) {
        clean(&mut self.name);
        clean_each([&mut self.title, &mut self.description]);
    }
}

impl RemoveInvisible for ResourceTemplate {
    fn remove_invisible(&mut self) {
        clean(&mut self.name);
        clean_each([&mut self.title, &mut self.description]);
    }
}

impl RemoveInvisible for Prompt {
    fn remove_invisible(&mut self) {
        clean_each([&mut self.title, &mut self.description]);
        for argument in &mut self.arguments {
            clean_each([&mut argument.description]);
        }
    }
}

/// An unparsed item. Its `name` identifies a prompt, and stays unchanged; so do URIs.
impl RemoveInvisible for Map<String, Value> {
    fn remove_invisible(&mut self) {
        let is_resource = self.contains_key("uri") || self.contains_key("uriTemplate");
        for (member, value) in self.iter_mut() {
            match (member.as_str(), value) {
                ("title" | "description", Value::String(text)) => clean(text),
                ("name", Value::String(text)) if is_resource => clean(text),
                ("arguments", Value::Array(arguments)) => {
                    arguments.iter_mut().filter_map(Value::as_object_mut).for_each(Self::remove_invisible);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::link::decode;

    #[test]
    fn invisible_characters_are_removed_from_text_but_not_from_names_values_and_patterns() {
        let z = "\u{200b}";
        let tool = json!({
            "name": format!("na{z}me"),
            "title": format!("Ti{z}tle"),
            "description": format!("Does{z} it.\u{e0041}"),
            "annotations": { "title": format!("An{z}other") },
            "inputSchema": {
                "$id": format!("a{z}b"),
                "type": "object",
                "properties": {
                    format!("p{z}"): { "description": format!("o{z}ne"), "enum": [format!("x{z}")], "default": format!("x{z}") },
                    "enum": { "description": format!("t{z}wo"), "enumNames": [format!("X{z}")], "pattern": format!("{z}+") },
                    "default": { "oneOf": [{ "const": format!("c{z}"), "title": format!("C{z}") }] },
                },
                "dependencies": { "a": [format!("p{z}")], "b": { "$comment": format!("com{z}ment") } },
                "required": [format!("p{z}")],
                "maximum": 12_345_678_901_234_567_u64,
            },
            "outputSchema": { "type": "object", "x-note": format!("no{z}te") },
        });
        let tool = decode::tool(&to_raw_value(&tool).unwrap()).unwrap();
        let shown = serde_json::to_value(cleaned_tool(&tool).unwrap().unwrap()).unwrap();
        let expected = json!({
            "name": format!("na{z}me"),
            "title": "Title",
            "description": "Does it.",
            "annotations": { "title": "Another" },
            "inputSchema": {
                "$id": format!("a{z}b"),
                "type": "object",
                "properties": {
                    format!("p{z}"): { "description": "one", "enum": [format!("x{z}")], "default": format!("x{z}") },
                    "enum": { "description": "two", "enumNames": ["X"], "pattern": format!("{z}+") },
                    "default": { "oneOf": [{ "const": format!("c{z}"), "title": "C" }] },
                },
                "dependencies": { "a": [format!("p{z}")], "b": { "$comment": "comment" } },
                "required": [format!("p{z}")],
                "maximum": 12_345_678_901_234_567_u64,
            },
            "outputSchema": { "type": "object", "x-note": "note" },
        });
        assert_eq!(shown, expected);
        let plain = json!({ "name": "a", "description": "é 👩\u{200d}🔬", "inputSchema": { "type": "object", "title": "ü\n" } });
        assert!(cleaned_tool(&decode::tool(&to_raw_value(&plain).unwrap()).unwrap()).unwrap().is_none());
    }

    #[test]
    fn invisible_characters_behind_json_escapes_are_found() {
        let raw = |written: &str| RawValue::from_string(written.to_owned()).unwrap();
        let shown = cleaned_schema(&raw(r#"{"type":"object","description":"a\u200bb\udb40\udc41"}"#)).unwrap().unwrap();
        assert_eq!(shown.get(), r#"{"type":"object","description":"ab"}"#);
        assert!(cleaned_schema(&raw(r#"{"type":"object","description":"a\u00e9\n"}"#)).unwrap().is_none());
    }
}
