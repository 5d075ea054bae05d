//! Writes a tool as a signature: `read_text_file(path: string, head?: integer, tail?: integer)`.

use std::{cell::Cell, collections::HashSet};

use serde_json::{Map, Value};

use crate::{text, validate::clipped_message};

/// The most optional arguments that are shown; further ones are only counted.
const MAX_OPTIONAL: usize = 4;
/// The most required arguments that are shown; further ones are only counted.
const MAX_REQUIRED: usize = 100;
/// The longest part of the name of an argument or a type that is shown, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// The level of an argument's own type.
const TOP_LEVEL: usize = 0;
/// The deepest level at which types are written out.
const MAX_DEPTH: usize = 3;
/// The most values of an `enum` that are shown.
const MAX_VALUES: usize = 4;

/// The most types of a union that are shown.
const MAX_ALTERNATIVES: usize = 8;
/// The most types that are written out in one signature; the rest is `any`. A schema is untrusted, and a few lines of
/// `anyOf` and `$ref` can describe millions of types.
const MAX_TYPES: usize = 1_000;

/// Returns the signature of the tool `name` with the input schema `schema`, as one safe line: required arguments first,
/// each with its type as in TypeScript, shortened. Its length is bounded for any schema.
#[must_use]
pub fn signature(name: &str, schema: &Value) -> String {
    format!("{}({})", text::for_line(name), parameters(schema).join(", "))
}

/// Returns the arguments of a [`signature`], one by one.
pub(crate) fn parameters(schema: &Value) -> Vec<String> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();

    let printer = TypePrinter { root: schema, types_left: Cell::new(MAX_TYPES) };
    let format_argument = |name: &str, mark: &str| {
        let kind = properties.get(name).map_or_else(any_type, |schema| printer.type_name(schema, TOP_LEVEL));
        format!("{}{mark}: {kind}", shown_name(name))
    };
    let mut arguments: Vec<String> = required.iter().take(MAX_REQUIRED).map(|name| format_argument(name, "")).collect();
    if required.len() > MAX_REQUIRED {
        arguments.push(format!("+{} required", required.len() - MAX_REQUIRED));
    }
    let required_names: HashSet<&str> = required.iter().copied().collect();
    let optional: Vec<&String> = properties.keys().filter(|name| !required_names.contains(name.as_str())).collect();
    // A single further argument is shown, because `+1 optional` would hardly be shorter.
    let shown_count = if optional.len() > MAX_OPTIONAL + 1 { MAX_OPTIONAL } else { optional.len() };
    arguments.extend(optional[..shown_count].iter().map(|name| format_argument(name, "?")));
    if optional.len() > shown_count {
        arguments.push(format!("+{} optional", optional.len() - shown_count));
    }
    arguments
}

/// Returns the type of a schema as a [`signature`] shows it.
pub(crate) fn type_name(schema: &Value) -> String {
    TypePrinter { root: schema, types_left: Cell::new(MAX_TYPES) }.type_name(schema, TOP_LEVEL)
}

fn any_type() -> String {
    "any".to_owned()
}

/// Writes types as in TypeScript, shortened.
struct TypePrinter<'a> {
    /// The whole schema, to which `$ref` refers.
    root: &'a Value,
    /// The number of types that may still be written out.
    types_left: Cell<usize>,
}

impl TypePrinter<'_> {
    fn type_name(&self, schema: &Value, depth: usize) -> String {
        let types_left = self.types_left.get();
        if depth > MAX_DEPTH || types_left == 0 {
            return any_type();
        }
        self.types_left.set(types_left - 1);
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return target
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer))
                .map_or_else(any_type, |schema| self.type_name(schema, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return literal(value);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let mut literals: Vec<_> = values.iter().take(MAX_VALUES).map(literal).collect();
            if values.len() > literals.len() {
                literals.push("...".to_owned());
            }
            return literals.join("|");
        }
        let branches = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array());
        if let Some(branches) = branches {
            return union(branches, |schema| self.type_name(schema, depth + 1));
        }
        match schema.get("type") {
            Some(Value::Array(names)) => {
                union(names, |name| name.as_str().map_or_else(any_type, |name| self.named_type(name, schema, depth)))
            }
            Some(Value::String(name)) => self.named_type(name, schema, depth),
            _ if schema.get("properties").is_some() => "object".to_owned(),
            _ if schema.get("items").is_some() => self.named_type("array", schema, depth),
            _ => any_type(),
        }
    }

    /// Returns the type `name` of a schema; for an array, with the type of its items.
    fn named_type(&self, name: &str, schema: &Value, depth: usize) -> String {
        if name != "array" {
            return shown_name(name);
        }
        let item = schema.get("items").map_or_else(any_type, |schema| self.type_name(schema, depth + 1));
        if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") }
    }
}

/// Writes the first few alternatives, without duplicates and separated by `|`.
fn union(alternatives: &[Value], print: impl Fn(&Value) -> String) -> String {
    let mut distinct_types: Vec<String> = Vec::new();
    for alternative in alternatives.iter().take(MAX_ALTERNATIVES) {
        let type_text = print(alternative);
        if !distinct_types.contains(&type_text) {
            distinct_types.push(type_text);
        }
    }
    if alternatives.len() > MAX_ALTERNATIVES {
        distinct_types.push("...".to_owned());
    }
    if distinct_types.is_empty() { any_type() } else { distinct_types.join("|") }
}

fn shown_name(name: &str) -> String {
    text::for_line(&text::clip(name, MAX_NAME_BYTES)).into_owned()
}

/// Writes a value of `const` or `enum`.
fn literal(value: &Value) -> String {
    // Write only the beginning of a long value, instead of cutting the whole: a schema may refer to it a thousand
    // times.
    text::for_line(&clipped_message(value)).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_arguments_come_first_in_their_own_order() {
        let schema = json!({
            "type": "object",
            "properties": {
                "dry": { "type": "boolean" },
                "path": { "type": "string" },
                "edits": { "type": "array", "items": { "type": "object" } },
            },
            "required": ["path", "edits"],
        });
        assert_eq!(signature("edit", &schema), "edit(path: string, edits: object[], dry?: boolean)");
    }

    #[test]
    fn unions_enums_and_references_are_spelled_out() {
        let schema = json!({
            "properties": {
                "a": { "type": ["string", "null"] },
                "b": { "anyOf": [{ "type": "integer" }, { "$ref": "#/$defs/unit" }] },
                "c": { "type": "array", "items": { "enum": ["x", "y"] } },
            },
            "$defs": { "unit": { "const": "all" } },
        });
        assert_eq!(signature("t", &schema), r#"t(a?: string|null, b?: integer|"all", c?: ("x"|"y")[])"#);
    }

    #[test]
    fn many_optional_arguments_are_only_counted() {
        let properties: Map<String, Value> =
            (1..=7).map(|number| (format!("o{number}"), json!({ "type": "string" }))).collect();
        let folded = signature("t", &json!({ "properties": properties }));
        assert_eq!(folded, "t(o1?: string, o2?: string, o3?: string, o4?: string, +3 optional)");
    }

    #[test]
    fn odd_schemas_give_a_signature_too() {
        let looped = json!({
            "properties": { "a": { "$ref": "#/properties/a" }, "b": true },
            "required": ["c", 5],
        });
        for (schema, expected) in
            [(json!(null), "t()"), (json!({ "properties": [] }), "t()"), (looped, "t(c: any, a?: any, b?: any)")]
        {
            assert_eq!(signature("t", &schema), expected);
        }
    }

    #[test]
    fn an_endless_schema_gives_a_short_signature_at_once() {
        let itself = json!({ "$ref": "#/$defs/a" });
        let any = json!({ "anyOf": vec![itself.clone(); 10_000] });
        let arrays = json!({ "type": vec!["array"; 10_000], "items": itself });
        for schema in [any, arrays] {
            let properties: Map<String, Value> = (0..6).map(|number| (format!("p{number}"), schema.clone())).collect();
            let required: Vec<&String> = properties.keys().collect();
            let shown =
                signature("t", &json!({ "properties": properties, "required": required, "$defs": { "a": schema } }));
            assert!(shown.len() < 10_000, "{}", shown.len());
        }
    }

    #[test]
    fn long_names_and_values_are_cut_however_often_a_schema_refers_to_them() {
        let long = "x".repeat(100_000);
        let names: Vec<String> = (0..1_000).map(|number| format!("a{number}")).chain([long.clone()]).collect();
        let properties: Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!({ "$ref": "#/$defs/long" }))).collect();
        for long in [json!({ "const": long }), json!({ "enum": [long] }), json!({ "type": long })] {
            let schema = json!({ "properties": properties, "required": names, "$defs": { "long": long } });
            let shown = signature("t", &schema);
            assert!(shown.len() < 50_000 && shown.ends_with("+901 required)"), "{}", shown.len());
        }
    }

    #[test]
    fn control_characters_of_a_server_are_shown_and_not_obeyed() {
        let schema = json!({ "properties": { "a\u{1b}[31m": { "enum": ["\u{202e}x"] } } });
        let shown = signature("t\u{7}", &schema);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{shown}");
    }
}
