//! Converts schemas into Gemini's `Schema` type. Each schema of this type has one `type`, with `nullable` instead of
//! null. `anyOf` is the only combination, `enum` is for strings only, and there are few keywords, each allowed only
//! beside its type. A field that Gemini does not know fails the request, and so does `anyOf` next to other fields.
//! Source: <https://ai.google.dev/api/caching#Schema>, and the errors that MCP servers have run into.

use serde_json::{Map, Value};

use super::{add_hint, merge, remove_undefined_required, report::Report, root, soften_exclusive_bounds, unroll_tuple};

type Schema = Map<String, Value>;

/// The longest list of values in a hint, in bytes.
const MAX_HINT_BYTES: usize = 400;

/// The longest name of a format in a hint, in bytes.
const MAX_FORMAT_BYTES: usize = 64;

/// The keywords that are allowed beside every type.
const COMMON_KEYWORDS: &[&str] = &["title", "description", "default"];

/// Keywords that give a schema inner structure. A schema that has one of them loses its alternatives, because copying
/// the structure into each alternative would take too much.
const STRUCTURE_KEYWORDS: [&str; 4] = ["properties", "items", "prefixItems", "enum"];

/// Converts a root that [`root::flatten`] made. The root stays an object with `properties`, even if there are none.
pub(super) fn convert_root(mut schema: Schema, report: &mut Report) -> Schema {
    if schema.shift_remove("nullable").is_some() {
        report.within("nullable", |report| report.note("removed, because arguments are never null"));
    }
    let nullable = false;
    schema_of_type("object", schema, nullable, report)
}

/// Converts a subschema. A boolean schema becomes a schema for any value.
fn convert_value(schema: Value, report: &mut Report) -> Value {
    Value::Object(match schema {
        Value::Object(schema) => convert(schema, report),
        _ => {
            let nullable = false;
            schema_of_any_type(Map::new(), nullable, report)
        }
    })
}

/// Converts a subschema that is an object.
fn convert(mut schema: Schema, report: &mut Report) -> Schema {
    root::merge_all_of(&mut schema, report);
    if let Some(value) = schema.shift_remove("const") {
        report.note("replaced `const` by an `enum` of one");
        schema.insert("enum".into(), Value::Array(vec![value]));
    }
    soften_exclusive_bounds(&mut schema, report);
    unroll_tuple(&mut schema, report);
    let is_marked_nullable = schema.shift_remove("nullable") == Some(Value::Bool(true));
    let mut has_null = take_null(&mut schema, report);
    let alternatives = take_alternatives(&mut schema, &mut has_null, report);
    let nullable = is_marked_nullable || has_null;
    if alternatives.len() > 1 {
        return any_of(schema, alternatives, nullable, report);
    }
    if let Some(only) = alternatives.into_iter().next() {
        return merge_with_only_alternative(schema, only, nullable, report);
    }
    let mut types = take_types(&mut schema, report);
    match types.len() {
        // Only null.
        0 if has_null && !has_structure(&schema) => schema_of_type("string", schema, nullable, report),
        0 => schema_of_any_type(schema, nullable, report),
        1 => schema_of_type(types.swap_remove(0), schema, nullable, report),
        _ => {
            report.note("made alternatives of the list of types");
            let alternative_of_type = |kind| Value::Object(schema_of_type(kind, schema.clone(), nullable, report));
            let alternatives = types.into_iter().map(alternative_of_type).collect();
            Map::from_iter([("anyOf".into(), Value::Array(alternatives))])
        }
    }
}

/// Removes null from the types and values that the schema allows. Returns whether null was allowed.
fn take_null(schema: &mut Schema, report: &mut Report) -> bool {
    let mut has_null = schema.get("type").is_some_and(|kind| kind == "null");
    if has_null {
        schema.shift_remove("type");
    }
    for keyword in ["type", "enum"] {
        let Some(Value::Array(members)) = schema.get_mut(keyword) else { continue };
        let old_length = members.len();
        members.retain(|member| !(member.is_null() || keyword == "type" && member == "null"));
        has_null |= members.len() < old_length;
        if members.is_empty() {
            schema.shift_remove(keyword);
        }
    }
    if has_null {
        report.note("wrote null as `nullable`");
    }
    has_null
}

/// Removes `anyOf` and `oneOf`. Returns the alternatives that must stay; none if the schema does not need them.
fn take_alternatives(schema: &mut Schema, has_null: &mut bool, report: &mut Report) -> Vec<Schema> {
    let keyword = if schema.contains_key("anyOf") { "anyOf" } else { "oneOf" };
    let alternatives = match schema.shift_remove(keyword) {
        Some(Value::Array(alternatives)) => alternatives,
        _ => return Vec::new(),
    };
    if keyword == "oneOf" {
        report.within("oneOf", |report| report.note("written as `anyOf`"));
    }
    let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
    *has_null |= alternatives.iter().any(is_null);
    let mut other_alternatives: Vec<Value> =
        alternatives.into_iter().filter(|schema| schema.is_object() && !is_null(schema)).collect();
    if schema.contains_key("properties") {
        report.within(keyword, |report| root::unite(schema, other_alternatives, keyword == "oneOf", report));
        return Vec::new();
    }
    if has_structure(schema) {
        report.within(keyword, |report| report.note("removed, because the schema is definite without it"));
        return Vec::new();
    }
    other_alternatives.truncate(MAX_ALTERNATIVES);
    let as_object = |schema| if let Value::Object(schema) = schema { Some(schema) } else { None };
    other_alternatives.into_iter().filter_map(as_object).collect()
}

/// The most alternatives of one schema; the rest is dropped.
const MAX_ALTERNATIVES: usize = 100;

/// Returns whether the schema has a keyword of [`STRUCTURE_KEYWORDS`].
fn has_structure(schema: &Schema) -> bool {
    STRUCTURE_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword))
}

/// Merges a single alternative into the schema that contains it.
fn merge_with_only_alternative(schema: Schema, mut alternative: Schema, nullable: bool, report: &mut Report) -> Schema {
    report.note("merged with its only alternative");
    note_conflicts(&merge::merge_constraints(&mut alternative, schema), report);
    if nullable {
        alternative.insert("nullable".into(), Value::Bool(true));
    }
    convert(alternative, report)
}

/// Reports the keywords that could not be merged.
fn note_conflicts(conflicts: &Schema, report: &mut Report) {
    for keyword in conflicts.keys() {
        report.note(format!("left out the `{keyword}` that stood beside the alternatives"));
    }
}

/// Takes the parts of a schema that are copied into each alternative. Large parts are left out.
fn take_shared_keywords(schema: Schema, report: &mut Report) -> Schema {
    const SHARED_KEYWORDS: [&str; 12] = [
        "type",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "required",
        "description",
    ];
    let mut shared = Map::new();
    for (keyword, value) in schema {
        let is_small = match &value {
            Value::String(text) => text.len() <= MAX_SHARED_BYTES,
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).map(str::len).sum::<usize>() <= MAX_SHARED_BYTES
            }
            _ => true,
        };
        if SHARED_KEYWORDS.contains(&keyword.as_str()) && is_small {
            shared.insert(keyword, value);
        } else {
            report.within(&keyword, |report| report.note("removed, because it cannot be used beside alternatives"));
        }
    }
    shared
}

/// The longest text, or list of names, that is copied into each alternative, in bytes.
const MAX_SHARED_BYTES: usize = 1_024;

/// Builds a schema that has only `anyOf`: the other keywords of `schema` move into each alternative.
fn any_of(schema: Schema, alternatives: Vec<Schema>, nullable: bool, report: &mut Report) -> Schema {
    let shared = take_shared_keywords(schema, report);
    let mut converted = Vec::new();
    report.enter("anyOf");
    for (index, mut alternative) in alternatives.into_iter().enumerate() {
        report.enter(&index.to_string());
        let own_description = alternative.get("description").cloned();
        note_conflicts(&merge::merge_constraints(&mut alternative, shared.clone()), report);
        // The alternative's own description is more specific than the shared one.
        alternative.extend(own_description.map(|text| ("description".to_owned(), text)));
        if nullable {
            alternative.insert("nullable".into(), Value::Bool(true));
        }
        let mut alternative = convert(alternative, report);
        match alternative.shift_remove("anyOf") {
            Some(Value::Array(nested_alternatives)) => converted.extend(nested_alternatives),
            _ => converted.push(Value::Object(alternative)),
        }
        report.leave();
    }
    report.leave();
    Map::from_iter([("anyOf".into(), Value::Array(converted))])
}

/// Gemini's types, without null.
const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// Returns the types that a schema allows: those in `type`, or else the type to which its other keywords apply.
fn take_types(schema: &mut Schema, report: &mut Report) -> Vec<&'static str> {
    let declared_types: Vec<Value> = match schema.shift_remove("type") {
        Some(Value::Array(types)) => types,
        Some(single) => vec![single],
        None => Vec::new(),
    };
    if !declared_types.is_empty() {
        return TYPES.into_iter().filter(|name| declared_types.iter().any(|allowed| allowed == name)).collect();
    }
    let inferred_type_names = inferred_types(schema);
    if !inferred_type_names.is_empty() {
        report.note("added the `type` to which the other keywords apply");
    }
    inferred_type_names
}

/// Returns the types of the values in `enum`, or else the type to which the other keywords apply.
fn inferred_types(schema: &Schema) -> Vec<&'static str> {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return TYPES.into_iter().filter(|kind| values.iter().any(|value| type_of(value) == *kind)).collect();
    }
    let hints: [(&str, &[&str]); 4] = [
        ("object", &["properties", "required", "additionalProperties", "patternProperties", "minProperties"]),
        ("array", &["items", "minItems", "maxItems", "uniqueItems", "contains"]),
        ("string", &["pattern", "format", "minLength", "maxLength"]),
        ("number", &["minimum", "maximum", "multipleOf"]),
    ];
    let inferred = hints.into_iter().find(|(_, keywords)| keywords.iter().any(|keyword| schema.contains_key(*keyword)));
    inferred.map(|(kind, _)| kind).into_iter().collect()
}

/// Returns the name of the type of a value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Builds a schema of one type, with the keywords that Gemini accepts beside that type.
fn schema_of_type(kind: &str, mut schema: Schema, nullable: bool, report: &mut Report) -> Schema {
    let accepted_keywords: &[&str] = match kind {
        "string" => &["minLength", "maxLength", "pattern", "format", "enum"],
        "integer" | "number" => &["minimum", "maximum", "format"],
        "array" => &["items", "minItems", "maxItems"],
        "object" => &["properties", "required", "minProperties", "maxProperties"],
        _ => &[],
    };
    schema.shift_remove("type");
    fit_enum(kind, &mut schema, report);
    fit_format(kind, &mut schema, report);
    add_hints_for_dropped(kind, &mut schema);
    let mut converted = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    if nullable {
        converted.insert("nullable".into(), Value::Bool(true));
    }
    for (keyword, value) in schema {
        let is_accepted = (COMMON_KEYWORDS.contains(&keyword.as_str())
            || accepted_keywords.contains(&keyword.as_str()))
            && !value.is_null();
        if is_accepted {
            converted.insert(keyword, value);
        } else {
            report.within(&keyword, |report| report.note("removed, because this provider does not accept it here"));
        }
    }
    match kind {
        "array" => fit_items(&mut converted, report),
        "object" => fit_properties(&mut converted, report),
        _ => {}
    }
    converted
}

/// Keeps `enum` on strings, and makes it a hint for other types, because converting numbers to strings would change the
/// calls.
fn fit_enum(kind: &str, schema: &mut Schema, report: &mut Report) {
    let Some(Value::Array(mut values)) = schema.shift_remove("enum") else { return };
    let old_length = values.len();
    values.retain(|value| type_of(value) == kind || kind == "number" && value.is_number());
    if kind == "string" {
        values.retain(|value| value != "");
        if values.len() < old_length {
            report.within("enum", |report| report.note("reduced to its texts that are not empty"));
        }
        if !values.is_empty() {
            schema.insert("enum".into(), Value::Array(values));
        }
    } else if !values.is_empty() {
        let mut list = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        if list.len() > MAX_HINT_BYTES {
            list.truncate(list.floor_char_boundary(MAX_HINT_BYTES));
            list.push('…');
        }
        add_hint(schema, &format!("One of: {list}."));
        report
            .within("enum", |report| report.note("replaced by a hint, because this provider takes it on strings only"));
    }
}

/// Keeps a `format` that Gemini accepts for this type, and makes any other one a hint.
fn fit_format(kind: &str, schema: &mut Schema, report: &mut Report) {
    let accepted_formats: &[&str] = match kind {
        "string" => &["date-time", "enum"],
        "number" => &["float", "double"],
        "integer" => &["int32", "int64"],
        _ => &[],
    };
    let Some(Value::String(format)) = schema.get("format") else { return };
    if !accepted_formats.contains(&format.as_str()) {
        let hint = format!("Format: {}.", &format[..format.floor_char_boundary(MAX_FORMAT_BYTES)]);
        schema.shift_remove("format");
        add_hint(schema, &hint);
        report.within("format", |report| report.note("replaced by a hint in the description"));
    }
}

/// Adds hints for keywords that [`schema_of_type`] will drop, if the model could otherwise make mistakes.
fn add_hints_for_dropped(kind: &str, schema: &mut Schema) {
    if let Some(factor) = schema.get("multipleOf").cloned() {
        add_hint(schema, &format!("Must be a multiple of {factor}."));
    }
    if kind == "array" && schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        add_hint(schema, "Items must be distinct.");
    }
    let is_free_form =
        |schema: &Schema| schema.get("additionalProperties").is_some_and(|rest| *rest != Value::Bool(false));
    if kind == "object" && is_free_form(schema) && !schema.contains_key("properties") {
        add_hint(schema, "Property names are free.");
    }
}

/// Converts `items`, which every array must have.
fn fit_items(schema: &mut Schema, report: &mut Report) {
    let items = schema.shift_remove("items").unwrap_or(Value::Bool(true));
    let items = report.within("items", |report| convert_value(items, report));
    schema.insert("items".into(), items);
}

/// Converts `properties`, and removes names from `required` that are not among them.
fn fit_properties(schema: &mut Schema, report: &mut Report) {
    if let Some(Value::Object(properties)) = schema.shift_remove("properties") {
        let mut converted = Map::new();
        for (name, property) in properties {
            report.within("properties", |report| {
                report.within(&name, |report| match property {
                    Value::Bool(false) => report.note("removed, because no value is allowed there"),
                    property => {
                        let property = convert_value(property, report);
                        converted.insert(name.clone(), property);
                    }
                });
            });
        }
        let is_root = report.depth() == 0;
        if is_root || !converted.is_empty() {
            schema.insert("properties".into(), Value::Object(converted));
        } else {
            report.within("properties", |report| report.note("removed, because there are none"));
        }
    }
    remove_undefined_required(schema, report);
}

/// Returns a schema for any JSON value. Gemini's format cannot express that, so the result lists the types that a model
/// may want.
fn schema_of_any_type(mut schema: Schema, nullable: bool, report: &mut Report) -> Schema {
    report.note("replaced by one alternative for each type, because this provider requires a type");
    let description = schema.shift_remove("description");
    let alternative_of_type = |kind: &str| {
        let mut alternative = Map::from_iter([("type".to_owned(), Value::from(kind))]);
        alternative.extend(description.clone().map(|text| ("description".to_owned(), text)));
        if nullable {
            alternative.insert("nullable".into(), Value::Bool(true));
        }
        Value::Object(alternative)
    };
    Map::from_iter([(
        "anyOf".into(),
        ["string", "number", "boolean", "object"].map(alternative_of_type).into_iter().collect(),
    )])
}
