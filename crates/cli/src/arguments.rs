//! Converts `name=value` on a command line into the JSON arguments of a tool.
//!
//! A shell knows only text, so the tool's input schema decides what the text means: `n=5` is the number 5 if the schema
//! wants a number, and the string "5" if it wants a string. `n:=5` is JSON.

mod check;
mod listed;
mod slips;

use std::{cell::Cell, collections::HashSet};

use serde_json::{Map, Number, Value};

pub(crate) use self::{
    check::check,
    listed::{ListedArgument, list_arguments},
    slips::{as_command_line, unnamed_argument_messages},
};

/// The maximum depth of nested `$ref`, `anyOf` and similar keywords that are followed while a value is read.
const MAX_DEPTH: usize = 16;
/// The most places (parts of a schema, each for one value) that one command visits. Schemas are untrusted, and a few
/// lines of `anyOf` and `$ref` can expand to 2^60 places. Beyond the limit, the schema counts as empty.
const MAX_PLACES: usize = 10_000;
/// The most values of an `enum` that an error lists.
const MAX_CHOICES: usize = 20;

/// Why arguments cannot be sent. Each variant is a mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadArguments {
    #[error("`{word}` is not an argument: write name=value, or name:=json")]
    NoEquals { word: String },
    #[error("`{word}` begins like a JSON object, but is not one: {why}")]
    ObjectNotJson { word: String, why: String },
    #[error("the value of `{name}` is not JSON: {why}")]
    NotJson { name: String, why: String },
    #[error("--args is not JSON: {why}")]
    ArgsNotJson { why: String },
    #[error("--args must be a JSON object, such as {{\"path\": \".\"}}")]
    ArgsNotObject,
    #[error("`{name}` is given twice and is not a list")]
    Twice { name: String },
    #[error("`{name}` must be {expected}, and `{value}` is not")]
    Mismatch { name: String, expected: String, value: String },
    #[error("the arguments do not fit the tool: {}", .mismatches.join("; "))]
    Mismatches { mismatches: Vec<String> },
}

/// One `name=value` or `name:=json`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedValue {
    name: String,
    value: TypedValue,
}

/// A value as the user typed it.
#[derive(Clone, Debug, PartialEq)]
enum TypedValue {
    /// After `=`: the schema decides what the text means.
    Text(String),
    /// After `:=`, or a member of a JSON object.
    Json(Value),
}

/// Splits each word at its first `=`; with a `:` before the `=`, the value is JSON. A word that is a JSON object stands
/// for all its members. The members of objects come before the values of other words.
pub(crate) fn parse(words: &[String]) -> Result<Vec<NamedValue>, BadArguments> {
    let (objects, words): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.trim_start().starts_with('{'));
    let mut named_values = Vec::new();
    for object in objects {
        let object: Map<String, Value> = serde_json::from_str(object)
            .map_err(|error| BadArguments::ObjectNotJson { word: object.clone(), why: error.to_string() })?;
        named_values
            .extend(object.into_iter().map(|(name, value)| NamedValue { name, value: TypedValue::Json(value) }));
    }
    named_values.extend(parse_pairs(&words)?);
    Ok(named_values)
}

fn parse_pairs(words: &[&String]) -> Result<Vec<NamedValue>, BadArguments> {
    words
        .iter()
        .map(|word| {
            let word = *word;
            let no_equals = || BadArguments::NoEquals { word: word.clone() };
            let (name, text) = word.split_once('=').ok_or_else(no_equals)?;
            let (name, value) = match name.strip_suffix(':') {
                None => (name, TypedValue::Text(text.to_owned())),
                Some(name) => {
                    let json = serde_json::from_str(text)
                        .map_err(|error| BadArguments::NotJson { name: name.to_owned(), why: error.to_string() })?;
                    (name, TypedValue::Json(json))
                }
            };
            if name.is_empty() {
                return Err(no_equals());
            }
            Ok(NamedValue { name: name.to_owned(), value })
        })
        .collect()
}

/// Parses the text of `--args`, which must be a JSON object.
pub(crate) fn parse_object(json: &str) -> Result<Map<String, Value>, BadArguments> {
    match serde_json::from_str(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(BadArguments::ArgsNotObject),
        Err(error) => Err(BadArguments::ArgsNotJson { why: error.to_string() }),
    }
}

/// Returns the arguments as strings, for prompts, whose arguments are always strings.
pub(crate) fn into_strings(
    named_values: Vec<NamedValue>,
) -> Result<std::collections::BTreeMap<String, String>, BadArguments> {
    let mut texts = std::collections::BTreeMap::new();
    for NamedValue { name, value } in named_values {
        let text = match value {
            TypedValue::Text(text) | TypedValue::Json(Value::String(text)) => text,
            TypedValue::Json(json) => json.to_string(),
        };
        if texts.insert(name.clone(), text).is_some() {
            return Err(BadArguments::Twice { name });
        }
    }
    Ok(texts)
}

/// Adds the values of `named_values` to `base`, each converted to the type that `schema` (the tool's whole input
/// schema) demands. A value that cannot be converted is an error, or becomes a string if `is_lenient`.
pub(crate) fn fit(
    base: Map<String, Value>,
    named_values: Vec<NamedValue>,
    schema: &Value,
    is_lenient: bool,
) -> Result<Map<String, Value>, BadArguments> {
    let mut values_by_name: Vec<(String, Vec<TypedValue>)> = Vec::new();
    for NamedValue { name, value } in named_values {
        match values_by_name.iter_mut().find(|(grouped_name, _)| *grouped_name == name) {
            Some((_, values)) => values.push(value),
            None => values_by_name.push((name, vec![value])),
        }
    }
    let mut arguments = base;
    let places_left = Cell::new(MAX_PLACES);
    for (name, values) in values_by_name {
        let requirement = Requirement::for_property(schema, &name, &places_left);
        let value = requirement.read_all(&name, values, is_lenient)?;
        arguments.insert(name, value);
    }
    Ok(arguments)
}

/// What a schema requires at one place, such as the value of one argument.
#[derive(Clone, Copy)]
struct Requirement<'a> {
    /// The whole input schema, which `$ref` points into.
    root: &'a Value,
    /// The part of the schema for this place; `None` if there is none.
    schema: Option<&'a Value>,
    /// How many more places of the schema may be visited.
    places_left: &'a Cell<usize>,
}

impl BadArguments {
    /// Returns what the user probably meant, as a hint: `name=value` for `name:value`.
    pub(crate) fn hint(&self) -> Option<String> {
        let Self::NoEquals { word } = self else { return None };
        // `https://…` is a URL, not a name with a value.
        let (name, value) = word.split_once(':').filter(|(name, value)| is_name(name) && !value.starts_with("//"))?;
        let value = value.trim();
        (!value.is_empty()).then(|| format!("did you mean `{}`?", slips::shell_quoted(&format!("{name}={value}"))))
    }
}

/// Returns whether `word` looks like the usual name of an argument.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

impl<'a> Requirement<'a> {
    fn for_property(root: &'a Value, name: &str, places_left: &'a Cell<usize>) -> Self {
        let schema = root.get("properties").and_then(|properties| properties.get(name));
        Self { root, schema, places_left }
    }

    fn for_place(self, schema: &'a Value) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// Reads all values that were typed for the argument `name`: several become a list.
    fn read_all(self, name: &str, mut values: Vec<TypedValue>, is_lenient: bool) -> Result<Value, BadArguments> {
        if values.len() == 1
            && let Some(only) = values.pop()
        {
            return self.read_one(name, only, is_lenient);
        }
        let items = match self.list_items(0) {
            Some(items) => items,
            None if is_lenient => Self { schema: None, ..self },
            None => return Err(BadArguments::Twice { name: name.to_owned() }),
        };
        let parsed = values.into_iter().map(|value| items.read_one(name, value, is_lenient));
        parsed.collect::<Result<_, _>>().map(Value::Array)
    }

    fn read_one(self, name: &str, value: TypedValue, is_lenient: bool) -> Result<Value, BadArguments> {
        match value {
            // JSON is not converted. `check` later compares all arguments with the schema, unless the user switches
            // that off.
            TypedValue::Json(json) => Ok(json),
            TypedValue::Text(text) => match self.read(&text, 0) {
                Some(value) => Ok(value),
                None if is_lenient => Ok(Value::String(text)),
                None => Err(self.mismatch(name, text)),
            },
        }
    }

    fn mismatch(self, name: &str, value: String) -> BadArguments {
        BadArguments::Mismatch { name: name.to_owned(), expected: self.describe(0), value }
    }

    /// Parses `text` as the type that the schema demands here; `None` if it does not fit. If the schema also allows a
    /// string, `text` stays a string.
    fn read(self, text: &str, depth: usize) -> Option<Value> {
        let as_text = || Some(Value::String(text.to_owned()));
        let Some(place) = self.resolved(depth) else {
            return as_text();
        };
        if let Some(values) = place.choices() {
            return values
                .iter()
                .find(|value| value.as_str() == Some(text))
                .or_else(|| values.iter().find(|value| !value.is_string() && value.to_string() == text))
                .map(|value| (*value).clone());
        }
        let branches = place.branches(depth);
        if !branches.is_empty() {
            let mut candidates = branches.iter().filter_map(|branch| branch.read(text, depth + 1));
            let first_value = candidates.next()?;
            return Some(if first_value.is_string() {
                first_value
            } else {
                candidates.find(Value::is_string).unwrap_or(first_value)
            });
        }
        let kinds = place.kinds();
        if kinds.is_empty() || kinds.contains(&"string") {
            return as_text();
        }
        kinds.iter().find_map(|kind| place.read_kind(kind, text, depth))
    }

    fn read_kind(self, kind: &str, text: &str, depth: usize) -> Option<Value> {
        match kind {
            "null" => (text == "null").then_some(Value::Null),
            "boolean" => text.parse().ok().map(Value::Bool),
            "integer" => parse_number(text).filter(is_whole).map(Value::Number),
            "number" => parse_number(text).map(Value::Number),
            "object" => serde_json::from_str(text).ok().filter(Value::is_object),
            "array" => match serde_json::from_str(text) {
                Ok(list @ Value::Array(_)) => Some(list),
                // A single value stands for a list with one item.
                _ => {
                    let items = self.list_items(depth)?;
                    Some(Value::Array(vec![items.read(text, depth + 1)?]))
                }
            },
            _ => None,
        }
    }

    /// Returns the requirements for the items of a list; `None` if the schema wants no list here.
    fn list_items(self, depth: usize) -> Option<Self> {
        let place = self.resolved(depth)?;
        if place.kinds().contains(&"array") {
            let items = place.schema.and_then(|schema| schema.get("items"));
            return Some(Self { schema: items, ..self });
        }
        place.branches(depth).into_iter().find_map(|branch| branch.list_items(depth + 1))
    }

    /// Follows `$ref`, inside this schema only. `None` if the schema says nothing here, is nested too deeply, or no
    /// more places may be visited.
    fn resolved(self, depth: usize) -> Option<Self> {
        let mut schema = self.schema?;
        self.places_left.set(self.places_left.get().checked_sub(1)?);
        for _ in depth..MAX_DEPTH {
            let Some(target) = schema.get("$ref").and_then(Value::as_str) else {
                return Some(self.for_place(schema));
            };
            schema = self.root.pointer(target.strip_prefix('#')?)?;
        }
        None
    }

    /// Returns the branches of `anyOf` and `oneOf`; none if the schema is nested too deeply.
    fn branches(self, depth: usize) -> Vec<Self> {
        if depth >= MAX_DEPTH || self.places_left.get() == 0 {
            return Vec::new();
        }
        ["anyOf", "oneOf"]
            .iter()
            .filter_map(|word| self.schema?.get(word)?.as_array())
            .flatten()
            .map(|branch| self.for_place(branch))
            .collect()
    }

    /// Returns the values of `enum` or `const`; `None` if the schema has neither.
    fn choices(self) -> Option<Vec<&'a Value>> {
        let schema = self.schema?;
        match schema.get("const") {
            Some(only) => Some(vec![only]),
            None => schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect()),
        }
    }

    /// Returns the types that `type` names, or that other keywords imply.
    fn kinds(self) -> Vec<&'a str> {
        let Some(schema) = self.schema else {
            return Vec::new();
        };
        match schema.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ if schema.get("properties").is_some() => vec!["object"],
            _ if schema.get("items").is_some() => vec!["array"],
            _ => Vec::new(),
        }
    }

    /// Returns the requirements in words, for an error.
    fn describe(self, depth: usize) -> String {
        let Some(place) = self.resolved(depth) else {
            return "text".to_owned();
        };
        if let Some(values) = place.choices() {
            let choices = values.iter().take(MAX_CHOICES);
            let choices: Vec<_> =
                choices.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
            return match choices.as_slice() {
                [only] => only.clone(),
                choices if choices.len() < values.len() => format!("one of {}, ...", choices.join(", ")),
                choices => format!("one of {}", choices.join(", ")),
            };
        }
        let branches = place.branches(depth);
        let mut words: Vec<String> = if branches.is_empty() {
            place
                .kinds()
                .into_iter()
                .map(|kind| match kind {
                    "string" => "text".to_owned(),
                    "integer" => "a whole number".to_owned(),
                    "number" => "a number".to_owned(),
                    "boolean" => "true or false".to_owned(),
                    "array" => "a list".to_owned(),
                    "object" => "a JSON object".to_owned(),
                    other => other.to_owned(),
                })
                .collect()
        } else {
            branches.iter().map(|branch| branch.describe(depth + 1)).collect()
        };
        let mut unique_words = HashSet::new();
        words.retain(|word| unique_words.insert(word.clone()));
        words.truncate(MAX_CHOICES);
        if words.is_empty() { "text".to_owned() } else { words.join(" or ") }
    }
}

/// Parses `text` as a number in JSON's notation.
pub(crate) fn parse_number(text: &str) -> Option<Number> {
    serde_json::from_str(text).ok()
}

/// Returns whether a number is an integer as JSON Schema defines it: `5.0` is one.
pub(crate) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

#[cfg(test)]
mod tests;
