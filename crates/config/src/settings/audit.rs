//! Reads `[audit]`: the data of calls that the audit log stores, and the limits after which it deletes rows.

use crate::{
    document::Document,
    node::{Node, Value},
    problem::Problem,
    rows::AUDIT,
};

/// The data of calls that the audit log stores, and the limits after which it deletes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Whether the log stores arguments in full (`arguments = "full"`). By default it stores only their hash
    /// (`"hash"`).
    pub arguments_in_full: bool,
    /// The number of days for which rows are kept (`keep_days`). `None`, written as 0, keeps them forever. Default: 90.
    pub days: Option<u32>,
    /// The number of the newest rows that are kept (`keep`). `None`, written as 0, keeps all. Default: 100,000.
    pub rows: Option<u32>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { arguments_in_full: false, days: Some(90), rows: Some(100_000) }
    }
}

impl Audit {
    /// The settings that apply if one of them is invalid or the file cannot be read. Toolrack then deletes no row by
    /// mistake.
    pub(super) const CAREFUL: Self = Self { arguments_in_full: false, days: None, rows: None };

    pub(super) fn read(document: &Document, node: &Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut report_invalid = |field: &str, expected: &str, node: &Node| {
            let problem = Problem::error(format!("`{field}` must be {expected}")).field(field);
            let hint = "until you correct it, the audit log keeps every row, and of arguments only their hashes";
            problems.push(document.locate(problem.hint(hint), node.span.clone()));
        };
        if node.members().is_none() {
            report_invalid("audit", "a table", node);
        }
        let arguments_in_full = match node.get("arguments").map(|member| (&member.node, member.node.as_text())) {
            None | Some((_, Some("hash"))) => false,
            Some((_, Some("full"))) => true,
            Some((node, _)) => {
                report_invalid("audit.arguments", &AUDIT.words("arguments"), node);
                false
            }
        };
        let mut read_number = |name: &str, default: Option<u32>| {
            let Some(member) = node.get(name) else { return default };
            let number = match &member.node.value {
                Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
                _ => None,
            };
            if number.is_none() {
                report_invalid(&format!("audit.{name}"), "a whole number; 0 means no limit", &member.node);
            }
            number.filter(|number| *number > 0)
        };
        let defaults = Self::default();
        let days = read_number("keep_days", defaults.days);
        let rows = read_number("keep", defaults.rows);
        (if problems.is_empty() { Self { arguments_in_full, days, rows } } else { Self::CAREFUL }, problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ReadContext, Settings};

    fn read(text: &str) -> (Audit, Vec<Problem>) {
        let (settings, problems) =
            Settings::read(&Document::new(Some("toolrack.toml".into()), text), ReadContext::default());
        (settings.audit, problems)
    }

    #[test]
    fn rows_are_kept_for_a_default_time_unless_the_file_changes_it() {
        assert_eq!(read("").0, Audit::default());
        assert_eq!(read("[audit]\n").0, Audit { arguments_in_full: false, days: Some(90), rows: Some(100_000) });
        let (audit, problems) = read("[audit]\narguments = \"full\"\nkeep_days = 0\nkeep = 5\n");
        assert_eq!((audit, problems), (Audit { arguments_in_full: true, days: None, rows: Some(5) }, Vec::new()));
    }

    #[test]
    fn a_wrong_audit_setting_deletes_no_rows_and_stores_no_arguments() {
        for (text, field, line) in [
            ("[audit]\narguments = \"all\"", "audit.arguments", 2),
            ("[audit]\narguments = \"full\"\nkeep = -1", "audit.keep", 3),
            ("[audit]\nkeep_days = 1.5", "audit.keep_days", 2),
            ("audit = true", "audit", 1),
        ] {
            let (audit, problems) = read(text);
            assert_eq!(audit, Audit::CAREFUL, "{text}");
            assert_eq!((problems[0].field.as_deref(), problems[0].line), (Some(field), Some(line)), "{text}");
        }
        let (_, problems) = read("[audit]\nkeep_day = 90");
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `audit.keep_days`?"));
        assert_eq!(read("[audit\n").0, Audit::CAREFUL, "a file that cannot be read");
    }
}
