//! Converts input schemas into the form that each model provider accepts.
//!
//! Servers write JSON Schema of any dialect. Each provider accepts a subset of it, and one schema outside the subset
//! fails the whole request, with every other tool. So schemas are stored as the server wrote them, and cleaned for a
//! provider when they are sent. Losses are reported: to users in [`Cleaned::changes`], to the model as a hint in the
//! `description` when a constraint cannot be kept.
//!
//! The result is a well-formed schema of JSON Schema 2020-12 with an object at its root, except for [`Provider::None`].
//! It has no `$ref` (definitions are written out where they are used, a recursion is cut), no identifiers such as
//! `$schema`, and no keywords that have a value of the wrong kind. Names below `properties` belong to the tool and are
//! never treated as keywords. The submodules describe the further rules of each provider. Any JSON is accepted, and the
//! size of the result is bounded.

mod dialect;
mod gemini;
mod merge;
mod report;
mod root;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

pub use report::Change;
use report::Report;

/// The provider whose rules a schema must follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `openai`: OpenAI's functions without `strict`, and compatible APIs.
    OpenAi,
    /// `anthropic`: Anthropic's `input_schema`.
    Anthropic,
    /// `gemini`: the `Schema` type of Gemini's function declarations.
    Gemini,
    /// `none`: a provider that accepts the schema exactly as the server wrote it.
    #[default]
    None,
}

impl Provider {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::None];
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::None => "none",
        })
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        let provider = Self::ALL.into_iter().find(|provider| provider.to_string() == text);
        provider.ok_or_else(|| UnknownProvider { given: text.to_owned() })
    }
}

/// The error for a text that names no [`Provider`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a schema dialect; use openai, anthropic, gemini or none")]
pub struct UnknownProvider {
    /// The text.
    pub given: String,
}

/// A schema that [`clean`] made fit for a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The schema to send.
    pub schema: Value,
    /// The changes, at most [`Change::MAX`] entries; empty if there are none.
    pub changes: Vec<Change>,
}

/// Makes an input schema fit for a provider. [`Provider::None`] changes nothing.
///
/// The result for a tool without arguments is `{"type": "object", "properties": {}}`; for Gemini, leave `parameters`
/// out in that case.
pub fn clean(schema: &Value, provider: Provider) -> Cleaned {
    if provider == Provider::None {
        return Cleaned { schema: schema.clone(), changes: Vec::new() };
    }
    let mut report = Report::default();
    let mut schema = dialect::normalise(schema, &mut report);
    if let Value::Object(root) = &mut schema {
        drop_repeated_names(root, &mut report);
    }
    let mut root = root::flatten(schema, &mut report);
    match provider {
        Provider::OpenAi => apply_openai_rules(&mut root, &mut report),
        Provider::Anthropic => apply_anthropic_rules(&mut root, &mut report),
        Provider::Gemini => root = gemini::convert_root(root, &mut report),
        Provider::None => {}
    }
    Cleaned { schema: Value::Object(root), changes: report.into_changes() }
}

/// Applies the rules of OpenAI: every array has `items`, every object has `properties`, and there are no exclusive
/// bounds.
fn apply_openai_rules(schema: &mut Map<String, Value>, report: &mut Report) {
    soften_exclusive_bounds(schema, report);
    unroll_tuple(schema, report);
    if allows_type(schema, "array") && !schema.contains_key("items") {
        report.note("added `items`, which arrays must have");
        schema.insert("items".into(), Value::Object(Map::new()));
    }
    if allows_type(schema, "object") && !schema.contains_key("properties") {
        report.note("added empty `properties`, which objects must have");
        schema.insert("properties".into(), Value::Object(Map::new()));
    }
    dialect::for_each_subschema(schema, report, &mut apply_openai_rules);
}

/// Applies the rules of Anthropic: the names of the properties at the root consist of `[a-zA-Z0-9_.-]` and have at most
/// 64 characters.
fn apply_anthropic_rules(root: &mut Map<String, Value>, report: &mut Report) {
    let is_allowed = |name: &str| {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    properties.retain(|name, _| {
        let is_allowed = is_allowed(name);
        if !is_allowed {
            report.within("properties", |report| {
                report.within(name, |report| report.note("removed: this provider does not accept this property name"));
            });
        }
        is_allowed
    });
    remove_undefined_required(root, report);
}

/// Returns whether the schema allows this type.
fn allows_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(single)) => single == name,
        Some(Value::Array(types)) => types.iter().any(|allowed| allowed == name),
        _ => false,
    }
}

/// Removes repeated names from `required`, here and in all subschemas. Merging does not remove them: a schema can have
/// very many parts, and a search at each merge of two parts would take minutes.
fn drop_repeated_names(schema: &mut Map<String, Value>, report: &mut Report) {
    if let Some(Value::Array(names)) = schema.get_mut("required") {
        remove_duplicates(names);
    }
    dialect::for_each_subschema(schema, report, &mut drop_repeated_names);
}

/// Removes all but the first of equal names.
fn remove_duplicates(names: &mut Vec<Value>) {
    let mut seen_names = HashSet::with_capacity(names.len());
    names.retain(|name| seen_names.insert(name.clone()));
}

/// Removes from `required` the names that are not among the properties, and those that come twice.
fn remove_undefined_required(schema: &mut Map<String, Value>, report: &mut Report) {
    let Some(Value::Array(mut required)) = schema.shift_remove("required") else { return };
    remove_duplicates(&mut required);
    let old_length = required.len();
    let properties = schema.get("properties").and_then(Value::as_object);
    required.retain(|name| name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name))));
    if required.len() < old_length {
        report.within("required", |report| report.note("removed names that are not among the properties"));
    }
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
}

/// Replaces `exclusiveMinimum` and `exclusiveMaximum` by the next inclusive bound, with a hint if that is not exact.
fn soften_exclusive_bounds(schema: &mut Map<String, Value>, report: &mut Report) {
    let is_integer = schema.get("type").is_some_and(|name| name == "integer");
    for (exclusive, inclusive, step, word) in
        [("exclusiveMinimum", "minimum", 1, "greater"), ("exclusiveMaximum", "maximum", -1, "less")]
    {
        let Some(bound) = schema.shift_remove(exclusive) else { continue };
        let next_integer = bound.as_i64().filter(|_| is_integer).and_then(|bound| bound.checked_add(step));
        let replacement = next_integer.map_or_else(|| bound.clone(), Value::from);
        if next_integer.is_none() {
            add_hint(schema, &format!("Must be {word} than {bound}."));
        }
        // Keep an existing inclusive bound if it is tighter.
        let is_tighter = schema.get(inclusive).and_then(Value::as_f64).is_some_and(|old_bound| {
            let new_bound = replacement.as_f64().unwrap_or(old_bound);
            if step > 0 { old_bound >= new_bound } else { old_bound <= new_bound }
        });
        if !is_tighter {
            schema.insert(inclusive.into(), replacement);
        }
        let addition = if next_integer.is_some() { "" } else { " and a hint in the description" };
        report.within(exclusive, |report| report.note(format!("replaced by `{inclusive}`{addition}")));
    }
}

/// Replaces `prefixItems`, which has one schema for each position, by a hint and `items` that allow any of these
/// schemas.
fn unroll_tuple(schema: &mut Map<String, Value>, report: &mut Report) {
    let Some(Value::Array(mut schemas)) = schema.shift_remove("prefixItems") else { return };
    add_hint(schema, &format!("The first {} items each have their own meaning, in order.", schemas.len()));
    schemas.extend(schema.shift_remove("items").filter(|rest| rest.is_object()));
    schema.insert("items".into(), merge::any_of(schemas));
    report.within("prefixItems", |report| report.note("replaced by `items` that allow any of these schemas"));
}

/// The maximum length of a description together with its hints, in bytes. Hints beyond it are left out.
const MAX_DESCRIPTION_BYTES: usize = 4_096;

/// Adds to the description a constraint that the schema cannot express.
fn add_hint(schema: &mut Map<String, Value>, hint: &str) {
    let description = schema.entry("description").or_insert_with(|| Value::String(String::new()));
    if let Value::String(text) = description
        && text.len() + hint.len() < MAX_DESCRIPTION_BYTES
        && !text.contains(hint)
    {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(hint);
    }
}

#[cfg(test)]
mod tests;
