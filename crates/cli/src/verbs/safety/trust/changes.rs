//! Compares two entries field by field.

use serde::Serialize;
use serde_json::Value;
use toolrack_host::text;

use crate::render::{Tone, paint};

/// A field that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The path of the field, such as `args[1]` or `env.TOKEN`.
    pub(crate) field: String,
    /// `null` when the field is new.
    pub(crate) before: Option<Value>,
    /// `null` when the field is gone.
    pub(crate) after: Option<Value>,
}

/// Returns the differences between two values, in the order of `after`. Removed fields come last.
pub(crate) fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    let root_path = "";
    collect_changes(root_path, Some(before), Some(after), &mut changes);
    changes
}

fn collect_changes(field: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let path = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
            for (name, value) in after {
                collect_changes(&path(name), before.get(name), Some(value), changes);
            }
            for (name, value) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
                collect_changes(&path(name), Some(value), None, changes);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                collect_changes(&format!("{field}[{index}]"), before.get(index), after.get(index), changes);
            }
        }
        (before, after) => {
            changes.push(Change { field: field.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

/// Returns the changes as the lines of a diff.
pub(crate) fn lines(changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        for (mark, tone, value) in [("-", Tone::Bad, &change.before), ("+", Tone::Good, &change.after)] {
            if let Some(value) = value {
                let line = format!("{mark} {}: {value}", change.field);
                lines.push(paint(tone, &text::for_line(&line)));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(before: &Value, after: &Value) -> String {
        anstream::adapter::strip_str(&lines(&between(before, after)).join("\n")).to_string()
    }

    #[test]
    fn only_changes_are_shown_each_with_its_path() {
        let before = json!({ "command": "node", "args": ["server.mjs", "."], "env": { "A": "${A}" } });
        let after = json!({ "command": "node", "args": ["server.mjs", "/", "-v"], "env": { "B": "${B}" } });
        insta::assert_snapshot!(shown(&before, &after), @r#"
        - args[1]: "."
        + args[1]: "/"
        + args[2]: "-v"
        + env.B: "${B}"
        - env.A: "${A}"
        "#);
        assert!(between(&before, &before).is_empty());
    }

    #[test]
    fn a_change_of_kind_shows_both_and_no_escape_reaches_the_terminal() {
        assert_eq!(shown(&json!({ "url": "x" }), &json!({ "url": ["\u{1b}[2J"] })).lines().count(), 2);
        let shown = shown(&json!({}), &json!({ "a\u{9b}": "\u{1b}[2J" }));
        assert!(!shown.contains(['\u{1b}', '\u{9b}']), "{shown}");
    }
}
