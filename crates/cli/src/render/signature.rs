//! A tool as a signature: `read_text_file(path: string, head?: integer, tail?: integer)`.

use serde_json::{Map, Value};
use toolrack_host::text;

/// Optional arguments that are shown before the rest is only counted.
const MAX_OPTIONAL: usize = 4;
/// How deep types are spelled out.
const MAX_DEPTH: usize = 3;
/// Values of an `enum` that are shown.
const MAX_VALUES: usize = 4;

/// The signature of the tool `name` with the input schema `schema`: required arguments first, each with its type.
pub(crate) fn signature(name: &str, schema: &Value) -> String {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();

    let argument = |name: &str, mark: &str| {
        let kind = properties.get(name).map_or_else(|| "any".to_owned(), |of| kind(of, schema, 0));
        format!("{}{mark}: {kind}", text::for_line(name))
    };
    let mut arguments: Vec<String> = required.iter().map(|name| argument(name, "")).collect();
    let optional: Vec<&String> = properties.keys().filter(|name| !required.contains(&name.as_str())).collect();
    let shown = if optional.len() > MAX_OPTIONAL + 1 { MAX_OPTIONAL } else { optional.len() };
    arguments.extend(optional[..shown].iter().map(|name| argument(name, "?")));
    if optional.len() > shown {
        arguments.push(format!("+{} optional", optional.len() - shown));
    }
    format!("{}({})", text::for_line(name), arguments.join(", "))
}

/// A type as TypeScript would write it, shortened.
fn kind(schema: &Value, root: &Value, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "any".to_owned();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .map_or_else(|| "any".to_owned(), |of| kind(of, root, depth + 1));
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let mut shown: Vec<_> = values.iter().take(MAX_VALUES).map(literal).collect();
        if values.len() > shown.len() {
            shown.push("...".to_owned());
        }
        return shown.join("|");
    }
    let branches = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array());
    if let Some(branches) = branches {
        return union(branches.iter().map(|of| kind(of, root, depth + 1)));
    }
    match schema.get("type") {
        Some(Value::Array(names)) => {
            union(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, root, depth)))
        }
        Some(Value::String(name)) => named(name, schema, root, depth),
        _ if schema.get("properties").is_some() => "object".to_owned(),
        _ if schema.get("items").is_some() => named("array", schema, root, depth),
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, root: &Value, depth: usize) -> String {
    if name != "array" {
        return text::for_line(name).into_owned();
    }
    let item = schema.get("items").map_or_else(|| "any".to_owned(), |of| kind(of, root, depth + 1));
    if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") }
}

fn union(kinds: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for kind in kinds {
        if !distinct.contains(&kind) {
            distinct.push(kind);
        }
    }
    if distinct.is_empty() { "any".to_owned() } else { distinct.join("|") }
}

fn literal(value: &Value) -> String {
    text::for_line(&value.to_string()).into_owned()
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
    fn many_optional_arguments_are_folded() {
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
    fn control_characters_of_a_server_are_shown_and_not_obeyed() {
        let schema = json!({ "properties": { "a\u{1b}[31m": { "enum": ["\u{202e}x"] } } });
        let shown = signature("t\u{7}", &schema);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{shown}");
    }
}
