//! Input schemas as each model provider takes them.
//!
//! Servers write JSON Schema of any dialect; each provider takes a part of it, and one schema that it does not take
//! fails the whole request, every other tool with it. So schemas are kept as the server wrote them and cleaned per
//! provider on the way out. Losses are reported: to people in [`Cleaned::changes`], to the model as a hint in the
//! `description` where a constraint cannot be kept.
//!
//! For every provider but [`Provider::None`] the result is a well-formed schema of JSON Schema 2020-12 with an object
//! at its root, without `$ref` (definitions are written out where they are used, a recursion is cut), without
//! identifiers such as `$schema`, and without keywords that have a value of the wrong kind. Names below `properties`
//! are the tool's own and never taken for keywords. The modules below describe what each provider demands beyond that.
//! Any JSON is accepted, and the size of the result is bounded.

mod dialect;
mod gemini;
mod merge;
mod report;
mod root;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

pub use report::Change;
use report::Report;

/// The provider whose rules a schema must follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `openai`: OpenAI's functions without `strict`, and the many APIs made after them.
    OpenAi,
    /// `anthropic`: Anthropic's `input_schema`.
    Anthropic,
    /// `gemini`: the `Schema` type of Gemini's function declarations.
    Gemini,
    /// `none`: a provider that takes the schema exactly as the server wrote it.
    #[default]
    None,
}

impl Provider {
    /// All of them.
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
        let found = Self::ALL.into_iter().find(|provider| provider.to_string() == text);
        found.ok_or_else(|| UnknownProvider { given: text.to_owned() })
    }
}

/// A text that names no [`Provider`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no schema dialect; use openai, anthropic, gemini or none")]
pub struct UnknownProvider {
    /// What was written.
    pub given: String,
}

/// A schema made fit for a provider, by [`clean`].
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The schema to send.
    pub schema: Value,
    /// What was changed, at most [`Change::MAX`] entries; empty if nothing was.
    pub changes: Vec<Change>,
}

/// Makes an input schema fit for a provider. [`Provider::None`] changes nothing.
///
/// A tool without arguments comes out as `{"type": "object", "properties": {}}`; Gemini wants `parameters` left out
/// altogether in that case.
pub fn clean(schema: &Value, provider: Provider) -> Cleaned {
    if provider == Provider::None {
        return Cleaned { schema: schema.clone(), changes: Vec::new() };
    }
    let mut report = Report::default();
    let schema = dialect::normalise(schema, &mut report);
    let mut root = root::flatten(schema, &mut report);
    match provider {
        Provider::OpenAi => openai(&mut root, &mut report),
        Provider::Anthropic => anthropic(&mut root, &mut report),
        Provider::Gemini => root = gemini::convert_root(root, &mut report),
        Provider::None => {}
    }
    Cleaned { schema: Value::Object(root), changes: report.into_changes() }
}

/// OpenAI: every array has `items`, every object has `properties`, no exclusive bounds.
fn openai(schema: &mut Map<String, Value>, report: &mut Report) {
    soften_exclusive_bounds(schema, report);
    unroll_tuple(schema, report);
    if has_type(schema, "array") && !schema.contains_key("items") {
        report.note("added `items`, which arrays must have");
        schema.insert("items".into(), Value::Object(Map::new()));
    }
    if has_type(schema, "object") && !schema.contains_key("properties") {
        report.note("added empty `properties`, which objects must have");
        schema.insert("properties".into(), Value::Object(Map::new()));
    }
    dialect::for_each_subschema(schema, report, &mut openai);
}

/// Anthropic: the names of the properties at the root are of `[a-zA-Z0-9_.-]` and at most 64 characters long.
fn anthropic(root: &mut Map<String, Value>, report: &mut Report) {
    let is_allowed = |name: &str| {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    let refused: Vec<String> = properties.keys().filter(|name| !is_allowed(name)).cloned().collect();
    for name in refused {
        properties.shift_remove(&name);
        report.within("properties", |report| {
            report.within(&name, |report| report.note("removed: this provider takes no such property name"));
        });
    }
    keep_defined_required(root, report);
}

/// Whether the schema allows this type.
fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|one| one == name),
        _ => false,
    }
}

/// Drops from `required` what is not among the properties.
fn keep_defined_required(schema: &mut Map<String, Value>, report: &mut Report) {
    let Some(Value::Array(mut required)) = schema.shift_remove("required") else { return };
    let before = required.len();
    let properties = schema.get("properties").and_then(Value::as_object);
    required.retain(|name| name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name))));
    if required.len() < before {
        report.within("required", |report| report.note("removed names that are not among the properties"));
    }
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
}

/// `exclusiveMinimum` and `exclusiveMaximum` as the inclusive bound next to it, or as that and a hint.
fn soften_exclusive_bounds(schema: &mut Map<String, Value>, report: &mut Report) {
    let is_integer = schema.get("type").is_some_and(|only| only == "integer");
    for (exclusive, inclusive, step, word) in
        [("exclusiveMinimum", "minimum", 1, "greater"), ("exclusiveMaximum", "maximum", -1, "less")]
    {
        let Some(bound) = schema.shift_remove(exclusive) else { continue };
        let next = bound.as_i64().filter(|_| is_integer).and_then(|bound| bound.checked_add(step));
        let replacement = next.map_or_else(|| bound.clone(), Value::from);
        if next.is_none() {
            add_hint(schema, &format!("Must be {word} than {bound}."));
        }
        // A bound beside it stays if it is the tighter one.
        let is_tighter = schema.get(inclusive).and_then(Value::as_f64).is_some_and(|present| {
            let new = replacement.as_f64().unwrap_or(present);
            if step > 0 { present >= new } else { present <= new }
        });
        if !is_tighter {
            schema.insert(inclusive.into(), replacement);
        }
        let how = if next.is_some() { "" } else { " and a hint in the description" };
        report.within(exclusive, |report| report.note(format!("replaced by `{inclusive}`{how}")));
    }
}

/// `prefixItems`, a schema per place, as `items` that allow any of them and a hint.
fn unroll_tuple(schema: &mut Map<String, Value>, report: &mut Report) {
    let Some(Value::Array(mut places)) = schema.shift_remove("prefixItems") else { return };
    add_hint(schema, &format!("The first {} items have each their own meaning, in order.", places.len()));
    places.extend(schema.shift_remove("items").filter(|rest| rest.is_object()));
    schema.insert("items".into(), merge::any_of(places));
    report.within("prefixItems", |report| report.note("replaced by `items` that allow any of them"));
}

/// Longest description that hints are added to, in bytes.
const HINT_BYTES: usize = 4_096;

/// Tells the model in words what the schema can no longer say.
fn add_hint(schema: &mut Map<String, Value>, hint: &str) {
    let description = schema.entry("description").or_insert_with(|| Value::String(String::new()));
    if let Value::String(text) = description
        && text.len() + hint.len() < HINT_BYTES
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
