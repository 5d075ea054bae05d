//! Makes the root of an input schema one plain object, because no model provider accepts alternatives there.
//! Alternatives become one object with the properties of all, and a hint in its description.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::{add_hint, allows_type, drop_repeated_names, merge, report::Report};

/// The longest hint about alternatives, in bytes.
const MAX_HINT_BYTES: usize = 400;

/// Makes the root an object with `properties`, and without `allOf`, `anyOf`, `oneOf`, `not`, `enum`, `const`.
pub(super) fn flatten(schema: Value, report: &mut Report) -> Map<String, Value> {
    let Value::Object(mut root) = schema else {
        report.note("replaced by an object, because the arguments of a tool are an object");
        return empty_object();
    };
    merge_all_of(&mut root, report);
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = root.shift_remove(keyword) {
            report.within(keyword, |report| unite(&mut root, alternatives, keyword == "oneOf", report));
        }
    }
    for keyword in ["enum", "const", "not"] {
        if root.shift_remove(keyword).is_some() {
            report.within(keyword, |report| report.note("removed, because providers do not accept it at the root"));
        }
    }
    if !root.contains_key("type") {
        report.note("added `type`: object");
    } else if !allows_type(&root, "object") {
        report.note("replaced by an object, because the arguments of a tool are an object");
        root.retain(|keyword, _| keyword == "description" || keyword == "title");
    } else if root.get("type").is_some_and(Value::is_array) {
        report.note("reduced `type` to object");
    }
    root.insert("type".into(), "object".into());
    if !root.contains_key("properties") {
        report.note("added empty `properties`");
        root.insert("properties".into(), Value::Object(Map::new()));
    }
    root
}

/// Returns the schema of an object without properties.
fn empty_object() -> Map<String, Value> {
    Map::from_iter([("type".into(), "object".into()), ("properties".into(), Value::Object(Map::new()))])
}

/// Merges the parts of `allOf`, and of `allOf` within them, into the schema that holds it.
pub(super) fn merge_all_of(schema: &mut Map<String, Value>, report: &mut Report) {
    let Some(Value::Array(parts)) = schema.shift_remove("allOf") else { return };
    report.enter("allOf");
    report.note("merged into the schema that held it");
    let own_keywords = std::mem::take(schema);
    let parts = parts.into_iter().filter_map(|part| match part {
        Value::Object(part) => Some(part),
        _ => None,
    });
    // The schema's own keywords come last, so that its annotations win.
    for mut part in parts.chain([own_keywords]) {
        merge_all_of(&mut part, report);
        let conflicts = merge::merge_constraints(schema, part);
        for keyword in conflicts.keys() {
            report.note(format!("left out the `{keyword}` of one part, because another part has its own"));
        }
    }
    report.leave();
    drop_repeated_names(schema, report);
}

/// Turns alternatives into one object with the properties of all of them. Only properties that all of them require stay
/// required. `is_exactly_one` says whether a value must match exactly one alternative (`oneOf`).
pub(super) fn unite(
    schema: &mut Map<String, Value>,
    alternatives: Vec<Value>,
    is_exactly_one: bool,
    report: &mut Report,
) {
    report.note(format!("made one object of {} alternatives", alternatives.len()));
    let mut properties: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut required: Option<Vec<Value>> = None;
    let mut choices = Vec::new();
    for alternative in alternatives {
        let may_be_object = |schema: &Map<String, Value>| !schema.contains_key("type") || allows_type(schema, "object");
        if !alternative.as_object().is_some_and(may_be_object) {
            continue;
        }
        // The changes in an alternative are not reported one by one.
        let mut alternative = flatten(alternative, &mut Report::default());
        let Some(Value::Object(own_properties)) = alternative.shift_remove("properties") else { continue };
        let required_names = match alternative.shift_remove("required") {
            Some(Value::Array(names)) => names,
            _ => Vec::new(),
        };
        choices.push(describe_choice(&required_names, &own_properties));
        let own_required: HashSet<&Value> = required_names.iter().collect();
        required = Some(match required {
            Some(shared) => shared.into_iter().filter(|name| own_required.contains(name)).collect(),
            None => required_names,
        });
        for (name, schema) in own_properties {
            properties.entry(name).or_default().push(schema);
        }
    }
    let properties: Map<_, _> = properties.into_iter().map(|(name, schemas)| (name, merge::any_of(schemas))).collect();
    let mut combined = Map::from_iter([("properties".to_owned(), Value::Object(properties))]);
    combined
        .extend(required.filter(|names| !names.is_empty()).map(|names| ("required".to_owned(), Value::Array(names))));
    // `properties` and `required` can always be combined, so there are no conflicts.
    merge::merge_constraints(schema, combined);
    drop_repeated_names(schema, report);
    add_choice_hint(schema, choices, is_exactly_one);
}

/// Describes how one alternative differs from the others: by its required properties, or else by its properties.
fn describe_choice(required: &[Value], properties: &Map<String, Value>) -> String {
    let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
    if required.is_empty() {
        properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    } else {
        required.join(", ")
    }
}

/// Adds the hint that names the alternatives, if they differ.
fn add_choice_hint(schema: &mut Map<String, Value>, mut choices: Vec<String>, is_exactly_one: bool) {
    choices.retain(|choice| !choice.is_empty());
    choices.dedup();
    if choices.len() > 1 {
        let quantity = if is_exactly_one { "exactly" } else { "at least" };
        let mut hint = format!("Give {quantity} one of these sets of properties: {}", choices.join(" | "));
        if hint.len() > MAX_HINT_BYTES {
            hint.truncate(hint.floor_char_boundary(MAX_HINT_BYTES));
            hint.push('…');
        } else {
            hint.push('.');
        }
        add_hint(schema, &hint);
    }
}
