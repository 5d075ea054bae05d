//! Reads `[tools]`: the names of tools for models, and the checks of calls before they are sent. The same settings for
//! one agent are in `[agents.tools]`.

use toolrack_host::{
    Dashes, NameCap, NameStyle, Naming,
    spec::{Invisible, ValidateArgs},
};

use crate::{
    document::Document,
    node::{Node, Value},
    problem::Problem,
    rows::TOOLS,
};

/// The settings of tools for models.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolSettings {
    /// The names that models see (`naming`, `name_length`, `dashes`).
    pub naming: Naming,
    /// The treatment of arguments that do not match the schema of their tool (`validate_args`), for servers whose entry
    /// does not set it. Default: they are sent, and the server decides.
    pub validate_args: ValidateArgs,
    /// The treatment of invisible characters in the texts of servers (`invisible`), for servers whose entry does not
    /// set it. Default: they are removed.
    pub invisible: Invisible,
    /// When a model gets changed tools during a turn (`refresh`).
    pub refresh: Refresh,
}

/// The time at which a model gets changed tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// With the user's next message (`run`): during a run, the tools stay as they were at its beginning.
    #[default]
    Run,
    /// With each request to the model (`turn`), never between its answer and the calls in it.
    Turn,
}

impl ToolSettings {
    /// Returns the settings of `self`, overridden by the settings of `node`. An invalid value changes nothing.
    pub(super) fn overlaid(mut self, document: &Document, table_path: &str, node: &Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut add_error = |field: &str, message: String, node: &Node| {
            let problem = Problem::error(message).field(field).hint("until then, the default applies");
            problems.push(document.locate(problem, node.span.clone()));
        };
        if node.members().is_none() {
            add_error(table_path, format!("`{table_path}` must be a table"), node);
        }
        let field_path = |name: &str| format!("{table_path}.{name}");
        if let Some(member) = node.get("naming") {
            // A value that is not text gets the error of an empty text, which names the valid styles.
            match member.node.as_text().map_or_else(|| "".parse(), str::parse::<NameStyle>) {
                Ok(style) => self.naming.style = style,
                Err(error) => add_error(&field_path("naming"), error.to_string(), &member.node),
            }
        }
        let mut report_invalid = |name: &str, expected: &str, node: &Node| {
            add_error(&field_path(name), format!("`{}` must be {expected}", field_path(name)), node);
        };
        if let Some(member) = node.get("name_length") {
            let length = match &member.node.value {
                Value::Number(number) => number.as_u64(),
                _ => None,
            };
            match length {
                Some(64) => self.naming.cap = NameCap::Chars64,
                Some(128) => self.naming.cap = NameCap::Chars128,
                _ => report_invalid("name_length", "64 or 128", &member.node),
            }
        }
        // `apply` applies a word, and returns whether the word is known.
        let mut read_word = |name: &str, apply: &mut dyn FnMut(&str) -> bool| {
            let Some(member) = node.get(name) else { return };
            if !member.node.as_text().is_some_and(apply) {
                report_invalid(name, &TOOLS.words(name), &member.node);
            }
        };
        read_word("dashes", &mut |word| {
            let dashes = match word {
                "keep" => Dashes::Keep,
                "underscore" => Dashes::Underscore,
                _ => return false,
            };
            self.naming.dashes = dashes;
            true
        });
        read_word("validate_args", &mut |word| {
            ValidateArgs::parse(word).map(|mode| self.validate_args = mode).is_some()
        });
        read_word("invisible", &mut |word| Invisible::parse(word).map(|mode| self.invisible = mode).is_some());
        read_word("refresh", &mut |word| {
            let refresh = match word {
                "run" => Refresh::Run,
                "turn" => Refresh::Turn,
                _ => return false,
            };
            self.refresh = refresh;
            true
        });
        (self, problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ReadContext, Settings};

    fn read(text: &str, agent: Option<&str>) -> (ToolSettings, Vec<Problem>) {
        let document = Document::new(Some("toolrack.toml".into()), text);
        let (settings, problems) = Settings::read(&document, ReadContext { agent, ..ReadContext::default() });
        (settings.tools, problems)
    }

    #[test]
    fn names_length_and_dashes_are_settings() {
        let defaults = ToolSettings::default();
        assert_eq!(read("", None), (defaults.clone(), Vec::new()));
        for style in
            NameStyle::PRESETS.map(|preset| preset.to_string()).into_iter().chain(["x-{tool}--{server}".into()])
        {
            let (tools, problems) = read(&format!("[tools]\nnaming = \"{style}\"\n"), None);
            assert_eq!((tools.naming.style.to_string(), problems), (style, Vec::new()));
        }
        let (tools, problems) = read("[tools]\nname_length = 128\ndashes = \"underscore\"\n", None);
        let naming = Naming { cap: NameCap::Chars128, dashes: Dashes::Underscore, ..Naming::default() };
        assert_eq!((tools.naming, problems), (naming, Vec::new()));
        for (text, field) in [
            ("naming = \"server\"", "tools.naming"),
            ("naming = 1", "tools.naming"),
            ("name_length = 65", "tools.name_length"),
            ("dashes = true", "tools.dashes"),
            ("validate_args = \"yes\"", "tools.validate_args"),
            ("invisible = \"hide\"", "tools.invisible"),
            ("refresh = \"always\"", "tools.refresh"),
        ] {
            let (tools, problems) = read(&format!("[tools]\n{text}\n"), None);
            assert_eq!(tools, defaults, "{text}");
            assert_eq!((problems[0].field.as_deref(), problems[0].line), (Some(field), Some(2)), "{problems:?}");
            assert!(problems[0].is_error());
        }
    }

    #[test]
    fn an_agent_sets_its_own_over_those_of_the_file() {
        let text = "[tools]\nnaming = \"tool\"\nrefresh = \"turn\"\n[[agents]]\nid = \"a\"\n[agents.tools]\nnaming = \"server_tool\"\n\
                    validate_args = \"strict\"\n[[agents]]\nid = \"b\"\n";
        let (own, problems) = read(text, Some("a"));
        assert_eq!(problems, []);
        assert_eq!(
            (own.naming.style, own.validate_args, own.refresh),
            (NameStyle::ServerTool, ValidateArgs::Strict, Refresh::Turn)
        );
        for other in [None, Some("b")] {
            let (tools, _) = read(text, other);
            assert_eq!((tools.naming.style, tools.validate_args), (NameStyle::Tool, ValidateArgs::Off));
        }
    }
}
