//! Combines JSON Schemas into one that requires all of them (`allOf`), or at least one of them (`anyOf`).

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Adds the constraints of `extra` to `base`. If the two values of a keyword cannot be combined in one schema, `base`
/// keeps its own value, and the result has the other. For annotations such as `description`, the value of `extra` wins.
/// A name that both schemas require is then twice in `required`; [`drop_repeated_names`](super::drop_repeated_names)
/// removes the second.
pub(super) fn merge_constraints(base: &mut Map<String, Value>, extra: Map<String, Value>) -> Map<String, Value> {
    let mut conflicts = Map::new();
    for (keyword, new) in extra {
        let Some(old) = base.get_mut(&keyword) else {
            base.insert(keyword, new);
            continue;
        };
        if *old == new {
            continue;
        }
        match (keyword.as_str(), old, new) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(old), Value::Object(new)) => {
                for (name, schema) in new {
                    match old.get_mut(&name) {
                        Some(old) => require_both(old, schema),
                        None => drop(old.insert(name, schema)),
                    }
                }
            }
            ("required" | "allOf", Value::Array(old), Value::Array(new)) => old.extend(new),
            ("title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly", old, new) => {
                *old = new;
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", old, new) => {
                if new.as_f64() > old.as_f64() {
                    *old = new;
                }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", old, new) => {
                if new.as_f64() < old.as_f64() {
                    *old = new;
                }
            }
            ("type", old, new) => match common_types(old, &new) {
                Some(types) => *old = types,
                None => drop(conflicts.insert(keyword, new)),
            },
            (_, _, new) => drop(conflicts.insert(keyword, new)),
        }
    }
    conflicts
}

/// Adds the constraints of `extra` to `schema`, with `allOf` if there is no simpler form.
pub(super) fn require_both(schema: &mut Value, extra: Value) {
    if *schema == Value::Bool(false) || accepts_everything(&extra) {
        return;
    }
    match (accepts_everything(schema), &mut *schema, extra) {
        (false, Value::Object(base), Value::Object(extra)) => {
            let conflicts = merge_constraints(base, extra);
            if !conflicts.is_empty() {
                let all_of = base.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(parts) = all_of {
                    parts.push(Value::Object(conflicts));
                }
            }
        }
        // `schema` accepts everything, or `extra` nothing.
        (_, schema, extra) => *schema = extra,
    }
}

/// Returns one schema that accepts a value if at least one of these schemas does. If there are no schemas, the result
/// accepts everything.
pub(super) fn any_of(schemas: Vec<Value>) -> Value {
    if schemas.iter().any(accepts_everything) {
        return Value::Object(Map::new());
    }
    let mut seen_schemas = HashSet::new();
    let mut distinct_schemas: Vec<Value> = schemas
        .into_iter()
        .filter(|schema| *schema != Value::Bool(false) && seen_schemas.insert(schema.to_string()))
        .collect();
    match distinct_schemas.len() {
        0 => Value::Object(Map::new()),
        1 => distinct_schemas.swap_remove(0),
        _ => combine_enums(&distinct_schemas)
            .unwrap_or_else(|| Value::Object(Map::from_iter([("anyOf".into(), Value::Array(distinct_schemas))]))),
    }
}

/// Returns one `enum` of all values that the alternatives list; `None` if an alternative is not a list of values.
/// Schemas often have such alternatives for a tag that distinguishes objects.
fn combine_enums(schemas: &[Value]) -> Option<Value> {
    let mut values: Vec<Value> = Vec::new();
    let mut kind = None;
    for schema in schemas {
        let schema = schema.as_object()?;
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("const", value) => values.push(value.clone()),
                ("enum", Value::Array(more)) => values.extend(more.iter().cloned()),
                ("type", value) if kind.is_none_or(|kind| kind == value) => kind = Some(value),
                _ => return None,
            }
        }
        if !schema.contains_key("const") && !schema.contains_key("enum") {
            return None;
        }
    }
    let mut seen_values = HashSet::new();
    values.retain(|value| seen_values.insert(value.to_string()));
    let mut list = Map::from_iter([("enum".into(), Value::Array(values))]);
    list.extend(kind.map(|kind| ("type".to_owned(), kind.clone())));
    Some(Value::Object(list))
}

/// Returns whether a schema constrains nothing.
pub(super) fn accepts_everything(schema: &Value) -> bool {
    match schema {
        Value::Bool(accepts_any) => *accepts_any,
        Value::Object(keywords) => keywords.is_empty(),
        _ => false,
    }
}

/// Returns the types that both allow, or `None` if there are none.
fn common_types(first: &Value, second: &Value) -> Option<Value> {
    let list = |types: &Value| match types {
        Value::Array(types) => types.clone(),
        single => vec![single.clone()],
    };
    let second = list(second);
    let mut common_types: Vec<Value> = Vec::new();
    for name in list(first) {
        if second.contains(&name) || name == "integer" && second.iter().any(|other| other == "number") {
            common_types.push(name);
        } else if name == "number" && second.iter().any(|other| other == "integer") {
            common_types.push("integer".into());
        }
    }
    common_types.dedup();
    match common_types.len() {
        0 => None,
        1 => common_types.pop(),
        _ => Some(Value::Array(common_types)),
    }
}
