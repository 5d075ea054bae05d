//! Reads and checks the fields of a form that a server wants filled in (MCP elicitation: a flat object of simple
//! types).

use serde_json::{Number, Value};
use toolrack_host::text;

use crate::{
    arguments::{is_whole, parse_number},
    render::{Tone, paint},
};

/// The most fields of a form.
const MAX_FIELDS: usize = 100;

/// A field of a form.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    title: Option<String>,
    description: Option<String>,
    kind: Kind,
    required: bool,
    default: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Text { min_length: u64, max_length: u64, format: Option<String> },
    Number { is_integer: bool, min: f64, max: f64 },
    YesNo,
    OneOf(Vec<Choice>),
    SeveralOf { choices: Vec<Choice>, min_count: u64, max_count: u64 },
}

#[derive(Debug)]
struct Choice {
    value: String,
    title: String,
}

/// Returns the fields of the form that `schema` describes, in the server's order.
///
/// # Errors
/// A message for the user, if the schema has a property of a kind that a form cannot have, no properties, or too many.
pub(super) fn fields(schema: &Value) -> Result<Vec<Field>, String> {
    let properties = schema.get("properties").and_then(Value::as_object).ok_or("the form has no fields")?;
    if properties.len() > MAX_FIELDS {
        return Err(format!("the form has more than {MAX_FIELDS} fields"));
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    properties
        .iter()
        .map(|(name, field)| {
            let text_of = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
            Ok(Field {
                name: name.clone(),
                title: text_of("title"),
                description: text_of("description"),
                kind: Kind::from_schema(field).ok_or_else(|| {
                    format!("the field `{}` is of a kind that a form cannot have", text::for_line(name))
                })?,
                required: required.contains(&name.as_str()),
                default: field.get("default").filter(|value| !value.is_null()).cloned(),
            })
        })
        .collect()
}

impl Kind {
    /// Returns the kind of field for the schema of a property; `None` if a form cannot have it.
    fn from_schema(schema: &Value) -> Option<Self> {
        if let Some(choices) = choices(schema) {
            return Some(Self::OneOf(choices));
        }
        let size = |key: &str| schema.get(key).and_then(Value::as_u64);
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        match schema.get("type")?.as_str()? {
            "string" => Some(Self::Text {
                min_length: size("minLength").unwrap_or(0),
                max_length: size("maxLength").unwrap_or(u64::MAX),
                format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
            }),
            kind @ ("number" | "integer") => Some(Self::Number {
                is_integer: kind == "integer",
                min: bound("minimum").unwrap_or(f64::NEG_INFINITY),
                max: bound("maximum").unwrap_or(f64::INFINITY),
            }),
            "boolean" => Some(Self::YesNo),
            "array" => Some(Self::SeveralOf {
                choices: choices(schema.get("items")?)?,
                min_count: size("minItems").unwrap_or(0),
                max_count: size("maxItems").unwrap_or(u64::MAX),
            }),
            _ => None,
        }
    }
}

/// Returns the choices of `enum` (with `enumNames`), or of `oneOf` or `anyOf` with `const` and `title`. `None` if the
/// schema has none of them, or a value that is not text.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let names = schema.get("enumNames").and_then(Value::as_array);
        return values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let value = value.as_str()?.to_owned();
                let title = names.and_then(|names| names.get(index)?.as_str());
                let title = title.unwrap_or(&value).to_owned();
                Some(Choice { value, title })
            })
            .collect();
    }
    ["oneOf", "anyOf"]
        .iter()
        .find_map(|word| schema.get(word)?.as_array())?
        .iter()
        .map(|branch| {
            let value = branch.get("const")?.as_str()?.to_owned();
            let title = branch.get("title").and_then(Value::as_str);
            let title = title.unwrap_or(&value).to_owned();
            Some(Choice { value, title })
        })
        .collect()
}

impl Field {
    /// Returns the lines that are shown before the question for the field.
    pub(super) fn intro(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(description) = &self.description {
            lines.push(paint(Tone::Faint, &format!("  {}", text::for_line(description))));
        }
        if self.looks_secret() {
            lines.push(format!(
                "  {} this looks like a secret; a server must not ask for one in a form",
                paint(Tone::Bad, "careful:")
            ));
        }
        if let Kind::OneOf(choices) | Kind::SeveralOf { choices, .. } = &self.kind {
            lines.extend(
                choices
                    .iter()
                    .enumerate()
                    .map(|(index, choice)| format!("  {}) {}", index + 1, text::for_line(&choice.title))),
            );
        }
        lines
    }

    /// Returns `Title (expected value) [default]: `.
    ///
    /// `previous` is the user's earlier answer, which Enter takes in place of the default.
    pub(super) fn prompt(&self, previous: Option<&Value>) -> String {
        let title = self.label();
        let mut notes: Vec<String> = self.kind.expected();
        let default = previous.or(self.default.as_ref());
        if !self.required && default.is_none() {
            notes.push("may be left out".to_owned());
        }
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
        let default = default.map_or_else(String::new, |value| format!(" [{}]", text::for_line(&as_typed(value))));
        format!("  {}{notes}{default}: ", paint(Tone::Strong, &title))
    }

    /// Returns `  Title: value`, the line of this field in the summary that the user sees before the form is sent.
    pub(super) fn summary_line(&self, value: Option<&Value>) -> String {
        let value =
            value.map_or_else(|| paint(Tone::Faint, "(left out)"), |value| text::for_line(&as_typed(value)).into());
        format!("  {}: {value}", self.label())
    }

    fn label(&self) -> std::borrow::Cow<'_, str> {
        text::for_line(self.title.as_deref().unwrap_or(&self.name))
    }

    /// Parses what the user typed; `None` when the user leaves the field out. An empty text stands for the default. (If
    /// the user has given an earlier answer, the caller uses that one instead, and does not call this function.)
    ///
    /// # Errors
    /// A message for the user, when the text is not a valid value of this field.
    pub(super) fn read(&self, typed_text: &str) -> Result<Option<Value>, String> {
        if typed_text.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.required => Err("this field is required".to_owned()),
                None => Ok(None),
            };
        }
        self.kind.read(typed_text).map(Some)
    }

    /// Checks a value that comes from the file of `--answers`.
    ///
    /// # Errors
    /// A message for the user, when it is not a valid value of this field.
    pub(super) fn check(&self, value: &Value) -> Result<Value, String> {
        // Reads the value as if it were typed, so that the limits and the choices of the field apply to it.
        let parsed = match (&self.kind, value) {
            // Read each value separately, because a choice may contain a comma.
            (Kind::SeveralOf { choices, min_count, max_count }, Value::Array(values)) => {
                let chosen_values = values.iter().map(|value| pick(choices, &as_typed(value)));
                checked_list(chosen_values.collect::<Result<_, _>>()?, *min_count, *max_count)?
            }
            (kind, value) => kind.read(&as_typed(value))?,
        };
        // The text "5" would be read as the number 5, but has another type. The numbers 5 and 5.0 are the same.
        let is_same = match (&parsed, value) {
            (Value::Number(parsed), Value::Number(value)) => parsed.as_f64() == value.as_f64(),
            (parsed, value) => parsed == value,
        };
        if is_same { Ok(parsed) } else { Err("the value has another type than the field".to_owned()) }
    }

    /// Returns whether the name or the title of the field says that it is for a secret.
    fn looks_secret(&self) -> bool {
        let name = format!("{} {}", self.name, self.title.as_deref().unwrap_or_default());
        let name = name.to_lowercase().replace(['_', '-'], " ");
        ["password", "passphrase", "secret", "api key", "apikey", "credit card", "access token"]
            .iter()
            .any(|word| name.contains(word))
    }
}

impl Kind {
    /// Describes the expected value in a few words.
    fn expected(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self {
            Self::Text { format, .. } => {
                words.extend(format.as_deref().map(|format| text::for_line(format).into_owned()))
            }
            Self::Number { is_integer, min, max } => {
                words.push(if *is_integer { "whole number" } else { "number" }.to_owned());
                match (min.is_finite(), max.is_finite()) {
                    (true, true) => words.push(format!("{min} to {max}")),
                    (true, false) => words.push(format!("at least {min}")),
                    (false, true) => words.push(format!("at most {max}")),
                    (false, false) => {}
                }
            }
            Self::YesNo => words.push("y/n".to_owned()),
            Self::OneOf(_) => words.push("a number or a name".to_owned()),
            Self::SeveralOf { .. } => words.push("numbers or names, with commas".to_owned()),
        }
        words
    }

    fn read(&self, typed_text: &str) -> Result<Value, String> {
        match self {
            Self::Text { min_length, max_length, format } => {
                read_text(typed_text, *min_length, *max_length, format.as_deref())
            }
            Self::Number { is_integer, min, max } => read_number(typed_text, *is_integer, *min, *max),
            Self::YesNo => match typed_text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Value::Bool(true)),
                "n" | "no" | "false" => Ok(Value::Bool(false)),
                _ => Err("answer y or n".to_owned()),
            },
            Self::OneOf(choices) => Ok(Value::String(pick(choices, typed_text)?)),
            Self::SeveralOf { choices, min_count, max_count } => {
                let words = typed_text.split(',').map(str::trim).filter(|word| !word.is_empty());
                // The name of a single choice may contain commas.
                let chosen_values = match pick(choices, typed_text) {
                    Ok(only) => vec![only],
                    Err(_) => words.map(|word| pick(choices, word)).collect::<Result<Vec<_>, _>>()?,
                };
                checked_list(chosen_values, *min_count, *max_count)
            }
        }
    }
}

fn read_text(typed_text: &str, min_length: u64, max_length: u64, format: Option<&str>) -> Result<Value, String> {
    let length = typed_text.chars().count() as u64;
    if length < min_length {
        return Err(format!("it must have at least {min_length} characters"));
    }
    if length > max_length {
        return Err(format!("it may have at most {max_length} characters"));
    }
    let (fits, example) = match format {
        Some("email") => (
            typed_text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
            "ada@example.com",
        ),
        Some("uri") => (url::Url::parse(typed_text).is_ok(), "https://example.com/"),
        Some("date") => (chrono::NaiveDate::parse_from_str(typed_text, "%Y-%m-%d").is_ok(), "2026-11-21"),
        Some("date-time") => (chrono::DateTime::parse_from_rfc3339(typed_text).is_ok(), "2026-11-21T12:00:00Z"),
        // Texts of other formats are not checked.
        _ => (true, ""),
    };
    if fits { Ok(Value::String(typed_text.to_owned())) } else { Err(format!("write it as {example}")) }
}

fn read_number(typed_text: &str, is_integer: bool, min: f64, max: f64) -> Result<Value, String> {
    // Users also write numbers that JSON does not allow, such as `.5` and `+1`.
    let as_float = || Number::from_f64(typed_text.parse().ok()?);
    let as_integer = || Some(Number::from(typed_text.parse::<i64>().ok()?));
    let Some(number) = as_integer().or_else(|| parse_number(typed_text)).or_else(as_float) else {
        return Err("write a number".to_owned());
    };
    if is_integer && !is_whole(&number) {
        return Err("write a whole number".to_owned());
    }
    match number.as_f64() {
        Some(value) if value < min => Err(format!("it must be at least {min}")),
        Some(value) if value > max => Err(format!("it may be at most {max}")),
        _ => Ok(Value::Number(number)),
    }
}

/// Returns the chosen values as the value of a field.
///
/// # Errors
/// A message for the user, when there are too few or too many.
fn checked_list(chosen_values: Vec<String>, min_count: u64, max_count: u64) -> Result<Value, String> {
    match chosen_values.len() as u64 {
        count if count < min_count => Err(format!("choose at least {min_count}")),
        count if count > max_count => Err(format!("choose at most {max_count}")),
        _ => Ok(chosen_values.into()),
    }
}

/// Returns the value of the choice that `typed_text` names by value, title or number.
fn pick(choices: &[Choice], typed_text: &str) -> Result<String, String> {
    // Used only if no choice has the number itself as its value or title.
    let by_number = typed_text.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    choices
        .iter()
        .find(|choice| choice.value == typed_text)
        .or_else(|| choices.iter().find(|choice| choice.title.eq_ignore_ascii_case(typed_text)))
        .or(by_number)
        .map(|choice| choice.value.clone())
        .ok_or_else(|| format!("choose a number from 1 to {}", choices.len()))
}

/// Returns a value as a user would type it.
fn as_typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "y".to_owned(),
        Value::Bool(false) => "n".to_owned(),
        Value::Array(values) => values.iter().map(as_typed).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
