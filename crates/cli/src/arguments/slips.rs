//! Recognizes slips: mistakes that users make when they type arguments. Examples are a name that the tool does not
//! have, and a call in the syntax of a programming language.

use serde_json::{Map, Value};
use toolrack_config::{abbreviated, closest};

use super::is_name;

/// A call with more bytes than this is not converted into another syntax.
const MAX_CALL_BYTES: usize = 4096;

/// Returns a message for each argument that the schema does not name, with the probably intended name. Returns none for
/// a closed schema (see [`is_open`]): [`check()`](super::check()) reports the arguments that it refuses.
pub(crate) fn unnamed_argument_messages(arguments: &Map<String, Value>, schema: &Value) -> Vec<String> {
    if !is_open(schema) || properties(schema).is_none() {
        return Vec::new();
    }
    unnamed_arguments(arguments, schema)
        .map(|name| match property_meant_by(name, arguments, schema) {
            Some(similar_name) => format!("the tool names no argument `{name}`; did you mean `{similar_name}`?"),
            None => format!("the tool names no argument `{name}`"),
        })
        .collect()
}

/// Returns whether the schema is open: it allows arguments that it does not name, and says nothing about them. If
/// `additionalProperties` is an object, it describes such arguments, so they are not slips.
fn is_open(schema: &Value) -> bool {
    !matches!(schema.get("additionalProperties"), Some(Value::Bool(false) | Value::Object(_)))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Returns the names of the arguments that the schema does not name.
fn unnamed_arguments<'a>(arguments: &'a Map<String, Value>, schema: &'a Value) -> impl Iterator<Item = &'a String> {
    let is_known = |name: &str| properties(schema).is_some_and(|named| named.contains_key(name));
    arguments.keys().filter(move |name| !is_known(name))
}

/// Returns the argument of the tool that `name` probably means. It has a similar name, or a name that `name`
/// abbreviates, or it is the only required argument that is missing.
pub(super) fn property_meant_by<'a>(name: &str, arguments: &Map<String, Value>, schema: &'a Value) -> Option<&'a str> {
    let unused_properties = || {
        let names = properties(schema).into_iter().flat_map(Map::keys);
        names.map(String::as_str).filter(|name| !arguments.contains_key(*name))
    };
    let only_missing_property = || {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut missing_names =
            required.filter_map(Value::as_str).filter(|name| !arguments.contains_key(*name)).take(2);
        // `name` can stand for a missing argument only if no other one is missing.
        let only = missing_names.next().filter(|_| missing_names.next().is_none());
        // With several unknown arguments, any of them could be the missing one.
        only.filter(|_| unnamed_arguments(arguments, schema).take(2).count() == 1)
    };
    closest(name, unused_properties()).or_else(|| abbreviated(name, unused_properties())).or_else(only_missing_property)
}

/// Returns the given argument that was probably meant to be `property`; `None` if the schema is not open, because a
/// refused argument has a message of its own.
pub(super) fn argument_meant_for<'a>(
    property: &str,
    arguments: &'a Map<String, Value>,
    schema: &'a Value,
) -> Option<&'a str> {
    let mut unnamed = unnamed_arguments(arguments, schema).filter(|_| is_open(schema));
    unnamed.find(|name| property_meant_by(name, arguments, schema) == Some(property)).map(String::as_str)
}

/// Converts `f(a: 1, b: "x y")`, typed as one word or as several, into the syntax of a command line; `None` when it is
/// no such call.
pub(crate) fn as_command_line(selector: &str, arguments: &[String]) -> Option<String> {
    let typed_call =
        std::iter::once(selector).chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    let (tool, argument_list) = typed_call.trim_end().strip_suffix(')')?.split_once('(')?;
    let argument_list = argument_list.trim();
    if typed_call.len() > MAX_CALL_BYTES || tool.is_empty() || tool.contains(char::is_whitespace) {
        return None;
    }
    // A JSON object is one word, as it is.
    let words = if argument_list.starts_with('{') { vec![argument_list.to_owned()] } else { to_words(argument_list)? };
    let tool_and_words = std::iter::once(tool.to_owned()).chain(words);
    Some(tool_and_words.map(|word| shell_quoted(&word)).collect::<Vec<_>>().join(" "))
}

/// Quotes `word` for a shell. `a=1` needs no quotes, but `shell_words` would add them.
pub(super) fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { shell_words::quote(word).into_owned() }
}

/// Converts `a: 1, b = "x y"` to `a=1`, `b=x y`; `None` if a part is not a named argument.
fn to_words(argument_list: &str) -> Option<Vec<String>> {
    let word = |part: &str| {
        let separator = part.find([':', '='])?;
        let (name, value) = (part[..separator].trim().trim_matches(['"', '\'']), part[separator + 1..].trim());
        // JSON is written as `name:=value`, any other value as `name=value`.
        let is_json = value.starts_with(['{', '[']);
        let text = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        is_name(name).then(|| format!("{name}{}={}", if is_json { ":" } else { "" }, text.unwrap_or(value)))
    };
    split_arguments(argument_list).into_iter().map(word).collect()
}

/// Splits at the commas outside of quotes and brackets.
fn split_arguments(argument_list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (index, c) in argument_list.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&argument_list[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&argument_list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_of_another_language_becomes_words() {
        for (typed, expected) in [
            ("ev.f(a: 1)", "ev.f a=1"),
            ("ev/f(a=1, b=\"x, y\")", "ev/f a=1 'b=x, y'"),
            ("f('a': [1, 2], b: 'z')", "f 'a:=[1, 2]' b=z"),
            ("f({\"a\": 1})", "f '{\"a\": 1}'"),
            ("f()", "f"),
        ] {
            assert_eq!(as_command_line(typed, &[]).as_deref(), Some(expected), "{typed}");
        }
        assert_eq!(as_command_line("f(a:", &["1)".to_owned()]).as_deref(), Some("f a=1"), "typed as two words");
        for none in ["f", "f(a", "f a)", "(a: 1)", "f(1)", &format!("f(a: {})", "x".repeat(MAX_CALL_BYTES))] {
            assert_eq!(as_command_line(none, &[]), None, "{none}");
        }
    }

    #[test]
    fn an_argument_that_the_tool_does_not_have_is_taken_for_the_one_that_is_missing() {
        let schema = json!({ "properties": { "message": {}, "loud": {} }, "required": ["message"] });
        let given = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), json!(1))).collect::<Map<_, _>>();
        for (names, name, expected) in [
            (&["msg"][..], "msg", Some("message")),
            (&["text"], "text", Some("message")),
            (&["text", "more"], "text", None),
            (&["message", "text"], "text", None),
            (&["message", "lod"], "lod", Some("loud")),
        ] {
            assert_eq!(property_meant_by(name, &given(names), &schema), expected, "{names:?}");
        }
        assert_eq!(argument_meant_for("message", &given(&["msg"]), &schema), Some("msg"));
        assert_eq!(
            unnamed_argument_messages(&given(&["msg"]), &schema),
            ["the tool names no argument `msg`; did you mean `message`?"]
        );
    }
}
