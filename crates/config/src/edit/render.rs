//! Writes a value in the usual layout.

use serde_json::Value as Json;

/// The order in which people write the fields of an entry; others follow.
const FIELD_ORDER: &[&str] = &["name", "type", "transport", "command", "args", "cwd", "env", "url", "headers"];

/// A list of scalars that fits into this many characters stays on one line.
const LIST_WIDTH: usize = 80;

/// The style of the rest of the file.
pub(super) struct Style {
    pub(super) newline: &'static str,
    /// One step of indentation.
    pub(super) unit: String,
}

impl Style {
    /// Creates the style of `text`: its line ends, and the indentation of the first indented line.
    pub(super) fn of(text: &str) -> Self {
        let indent = |line: &str| {
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            (!indent.is_empty() && indent.len() < line.trim_end().len()).then(|| indent.to_owned())
        };
        Self {
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            unit: text.lines().find_map(indent).unwrap_or_else(|| "  ".to_owned()),
        }
    }
}

/// Returns the place of a field in an entry.
pub(super) fn rank(name: &str) -> usize {
    FIELD_ORDER.iter().position(|field| *field == name).unwrap_or(FIELD_ORDER.len())
}

/// The layout of a new value.
pub(super) enum Layout {
    OneLine,
    /// Several lines; this is the indentation of the first.
    Lines(String),
}

/// Returns a member of an object.
pub(super) fn property(name: &str, of: &Json, style: &Style, layout: &Layout) -> String {
    format!("{}: {}", Json::from(name), value(of, style, layout))
}

/// Returns any value.
pub(super) fn value(value: &Json, style: &Style, layout: &Layout) -> String {
    match value {
        Json::Object(members) if !members.is_empty() => {
            let mut members: Vec<(&String, &Json)> = members.iter().collect();
            members.sort_by_key(|(name, _)| rank(name));
            enclosed(('{', '}'), style, layout, |layout| {
                members.iter().map(|(name, value)| property(name, value, style, layout)).collect()
            })
        }
        Json::Array(values) if !values.is_empty() => {
            let is_short = value.to_string().chars().count() <= LIST_WIDTH
                && values.iter().all(|value| !value.is_object() && !value.is_array());
            let layout = if is_short { &Layout::OneLine } else { layout };
            enclosed(('[', ']'), style, layout, |layout| {
                values.iter().map(|item| self::value(item, style, layout)).collect()
            })
        }
        scalar => scalar.to_string(),
    }
}

fn enclosed(
    (open, close): (char, char),
    style: &Style,
    layout: &Layout,
    items: impl Fn(&Layout) -> Vec<String>,
) -> String {
    match layout {
        Layout::OneLine => {
            // Objects have inner spaces, lists do not: `{ "a": [1, 2] }`.
            let space = if open == '{' { " " } else { "" };
            format!("{open}{space}{}{space}{close}", items(layout).join(", "))
        }
        Layout::Lines(indent) => {
            let newline = style.newline;
            let inner = format!("{indent}{}", style.unit);
            let between = format!(",{newline}{inner}");
            let items = items(&Layout::Lines(inner.clone())).join(&between);
            format!("{open}{newline}{inner}{items}{newline}{indent}{close}")
        }
    }
}
