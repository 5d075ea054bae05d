//! Writes new JSON values as text, with the line ends and the indentation of the file into which they go.

use serde_json::Value as Json;

/// The usual order of the fields of an entry, in which a new entry is written. All other fields follow.
const FIELD_ORDER: &[&str] = &["name", "type", "transport", "command", "args", "cwd", "env", "url", "headers"];

/// A list of scalars that fits into this many characters stays on one line.
const LIST_WIDTH: usize = 80;

/// The style of the rest of the file.
pub(super) struct Style {
    pub(super) newline: &'static str,
    /// One step of indentation.
    pub(super) indent_step: String,
}

impl Style {
    /// Returns the style of `text`: its line ends, and the indentation of the first indented line.
    pub(super) fn detect(text: &str) -> Self {
        let indent = |line: &str| {
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            (!indent.is_empty() && indent.len() < line.trim_end().len()).then(|| indent.to_owned())
        };
        Self {
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            indent_step: text.lines().find_map(indent).unwrap_or_else(|| "  ".to_owned()),
        }
    }
}

/// Returns the position of a field in [`FIELD_ORDER`]; a field that is not in it comes after all others.
pub(super) fn rank(name: &str) -> usize {
    FIELD_ORDER.iter().position(|field| *field == name).unwrap_or(FIELD_ORDER.len())
}

/// The layout of a new value.
pub(super) enum Layout {
    OneLine,
    /// Several lines; this is the indentation of the first.
    Lines(String),
}

/// Returns a member of an object as JSON.
pub(super) fn property(name: &str, content: &Json, style: &Style, layout: &Layout) -> String {
    format!("{}: {}", Json::from(name), value(content, style, layout))
}

/// Returns any value as JSON.
pub(super) fn value(value: &Json, style: &Style, layout: &Layout) -> String {
    match value {
        Json::Object(members) if !members.is_empty() => {
            let mut members: Vec<(&String, &Json)> = members.iter().collect();
            members.sort_by_key(|(name, _)| rank(name));
            enclosed('{', '}', style, layout, |layout| {
                members.iter().map(|(name, value)| property(name, value, style, layout)).collect()
            })
        }
        Json::Array(values) if !values.is_empty() => {
            let is_short = value.to_string().chars().count() <= LIST_WIDTH
                && values.iter().all(|value| !value.is_object() && !value.is_array());
            let layout = if is_short { &Layout::OneLine } else { layout };
            enclosed('[', ']', style, layout, |layout| {
                values.iter().map(|item| self::value(item, style, layout)).collect()
            })
        }
        scalar => scalar.to_string(),
    }
}

/// Returns the items of an object or a list between its brackets.
fn enclosed(open: char, close: char, style: &Style, layout: &Layout, items: impl Fn(&Layout) -> Vec<String>) -> String {
    match layout {
        Layout::OneLine => {
            // Objects have inner spaces, lists do not: `{ "a": [1, 2] }`.
            let space = if open == '{' { " " } else { "" };
            format!("{open}{space}{}{space}{close}", items(layout).join(", "))
        }
        Layout::Lines(indent) => {
            let newline = style.newline;
            let inner = format!("{indent}{}", style.indent_step);
            let separator = format!(",{newline}{inner}");
            let items = items(&Layout::Lines(inner.clone())).join(&separator);
            format!("{open}{newline}{inner}{items}{newline}{indent}{close}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn style(text: &str) -> Style {
        Style::detect(text)
    }

    #[test]
    fn the_style_is_that_of_the_first_indented_line_and_of_the_line_ends() {
        for (text, newline, indent_step) in [
            ("", "\n", "  "),
            ("{\n    \"a\": 1\n}\n", "\n", "    "),
            ("{\r\n\t\"a\": 1\r\n}", "\r\n", "\t"),
            ("{\n      \n  \"a\": {\n    \"b\": 1\n}}", "\n", "  "),
            ("{ \"a\": 1 }\n", "\n", "  "),
        ] {
            let style = style(text);
            assert_eq!((style.newline, &*style.indent_step), (newline, indent_step), "{text:?}");
        }
    }

    #[test]
    fn the_fields_of_an_entry_come_in_their_usual_order_and_unknown_ones_after_them() {
        let entry = json!({ "zz": 1, "headers": {}, "url": "https://x", "aa": 2, "type": "http" });
        let text = value(&entry, &style(""), &Layout::OneLine);
        assert_eq!(text, r#"{ "type": "http", "url": "https://x", "headers": {}, "zz": 1, "aa": 2 }"#);
        assert!(rank("command") < rank("args") && rank("args") < rank("env") && rank("env") < rank("unknown"));
    }

    #[test]
    fn short_lists_stay_on_one_line_and_long_or_deep_ones_do_not() {
        let style = style("{\n\t\"a\": 1\n}");
        let lines = Layout::Lines("\t".to_owned());
        assert_eq!(
            value(&json!(["-y", "server", 1, true, null]), &style, &lines),
            r#"["-y", "server", 1, true, null]"#
        );
        let long: Vec<_> = (0..20).map(|number| format!("argument {number}")).collect();
        let text = value(&json!(long), &style, &lines);
        assert!(text.starts_with("[\n\t\t\"argument 0\",\n\t\t\"argument 1\"") && text.ends_with("\n\t]"), "{text}");
        assert_eq!(value(&json!([[1], []]), &style, &lines), "[\n\t\t[1],\n\t\t[]\n\t]");
    }

    #[test]
    fn nested_objects_are_indented_by_one_step_each_in_the_line_ends_of_the_file() {
        let style = style("{\r\n  \"a\": 1\r\n}");
        let text = property("a", &json!({ "env": { "B": "c" } }), &style, &Layout::Lines("  ".to_owned()));
        assert_eq!(text, "\"a\": {\r\n    \"env\": {\r\n      \"B\": \"c\"\r\n    }\r\n  }");
    }

    #[test]
    fn names_and_texts_are_escaped_so_that_they_are_read_back_as_they_were() {
        let odd = json!({ "a\"b\\\n": "\u{1}\u{2028}</script> ${X}", "": {} });
        for layout in [Layout::OneLine, Layout::Lines(String::new())] {
            let text = value(&odd, &style(""), &layout);
            assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), odd, "{text}");
        }
    }
}
