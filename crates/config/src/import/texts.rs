//! Translates placeholders of other programs, such as `${input:key}` or `{env:KEY}`, into those of Toolrack.

use std::{fmt::Display, path::Path};

use toolrack_host::text::{clip, for_line};

use super::{Client, Origin, SourceFile};
use crate::interpolate::is_stored_secret_name;
use crate::mask;
use crate::placeholder::{BareName, closing_brace, is_variable_name, name_length};

/// The maximum number of bytes of an input's description that a note repeats.
const MAX_DESCRIPTION: usize = 100;

/// Translates the texts of one entry, and collects notes for the user.
pub(super) struct TextTranslator<'a> {
    origin: &'a Origin<'a>,
    pub(super) notes: Vec<String>,
}

/// The replacement of a placeholder.
enum Replacement {
    /// A variable of the environment: `NAME` or `NAME:-default`.
    Variable(String),
    /// A stored secret.
    Secret(String),
    /// Text that is known already.
    Text(String),
    /// The placeholder itself, because it has the same meaning in Toolrack.
    Unchanged,
    /// The same text, escaped, because Toolrack would take it for a placeholder.
    Escaped,
}

impl<'a> TextTranslator<'a> {
    pub(super) fn new(origin: &'a Origin<'a>) -> Self {
        Self { origin, notes: Vec::new() }
    }

    pub(super) fn origin(&self) -> &'a Origin<'a> {
        self.origin
    }

    pub(super) fn file(&self) -> &'a SourceFile {
        self.origin.file
    }

    pub(super) fn client(&self) -> Client {
        self.origin.file.client
    }

    /// Adds a note, unless there is an equal one. Makes untrusted text in it safe to print.
    pub(super) fn note(&mut self, note: impl Display) {
        let note = for_line(&note.to_string()).into_owned();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Translates `text` of the field `field` into Toolrack's grammar, so that it resolves to the same value as in
    /// the other program.
    pub(super) fn translate(&mut self, field: &str, text: &str, bare_name: BareName) -> String {
        let has_curly_placeholders = self.client() == Client::OpenCode;
        let mut translated_text = String::with_capacity(text.len());
        let mut remaining_text = text;
        while let Some(start) = remaining_text.find(|c| c == '$' || (has_curly_placeholders && c == '{')) {
            translated_text.push_str(&remaining_text[..start]);
            remaining_text = &remaining_text[start..];
            let length = match remaining_text.starts_with('$') {
                true => self.translate_dollar(field, remaining_text, bare_name, &mut translated_text),
                false => self.translate_curly(field, remaining_text, &mut translated_text),
            };
            remaining_text = &remaining_text[length..];
        }
        translated_text + remaining_text
    }

    /// Translates the `$` at the beginning of `text`, and the placeholder that it begins. Returns the number of bytes
    /// that it has translated.
    fn translate_dollar(
        &mut self,
        field: &str,
        text: &str,
        bare_name: BareName,
        translated_text: &mut String,
    ) -> usize {
        let inner = match self.client() {
            // opencode's placeholders begin at the brace.
            Client::OpenCode if split_curly(&text[1..]).is_some() => None,
            _ if text.starts_with("${") => closing_brace(text).map(|end| &text[2..end]),
            _ => None,
        };
        if let Some(inner) = inner {
            let length = inner.len() + "${}".len();
            match self.translate_braced(field, inner) {
                Replacement::Variable(name) => translated_text.push_str(&format!("${{{name}}}")),
                Replacement::Secret(name) => translated_text.push_str(&format!("${{secret:{name}}}")),
                Replacement::Text(text) => translated_text.push_str(&text.replace('$', "$$")),
                Replacement::Unchanged => translated_text.push_str(&text[..length]),
                Replacement::Escaped => {
                    translated_text.push('$');
                    translated_text.push_str(&text[..length]);
                }
            }
            return length;
        }
        let name = &text[1..][..name_length(&text[1..])];
        if matches!(self.client(), Client::Gemini | Client::Qbit) && !name.is_empty() {
            translated_text.push_str(&format!("${{{name}}}"));
            return 1 + name.len();
        }
        let would_be_placeholder = text[1..].starts_with(['$', '{'])
            || (bare_name == BareName::Placeholder && (!name.is_empty() || text[1..].starts_with("env:")));
        if would_be_placeholder {
            self.note(format!(
                "`{field}`: `$` has no special meaning to {}, so it is written `$$` for Toolrack",
                self.client()
            ));
        }
        translated_text.push_str(if would_be_placeholder { "$$" } else { "$" });
        1
    }

    /// Returns the replacement of the placeholder whose text between `${` and `}` is `inner`.
    fn translate_braced(&mut self, field: &str, inner: &str) -> Replacement {
        let file = self.origin.file;
        let (kind, argument) = inner.split_once(':').unwrap_or((inner, ""));
        match kind {
            // Without an argument, such a word is the name of a variable.
            "input" | "file" | "command" | "config" | "env" | "secret" | "user" if argument.is_empty() => {
                self.translate_plain(field, inner)
            }
            "workspaceFolder" | "workspaceRoot" | "cwd" => self.insert_folder(inner, &file.folder),
            "workspaceFolderBasename" => {
                let name = file.folder.file_name().map(|name| name.to_string_lossy().into_owned());
                Replacement::Text(name.unwrap_or_default())
            }
            "userHome" => match &file.home {
                Some(home) => self.insert_folder(inner, home),
                None => Replacement::Variable("HOME".to_owned()),
            },
            "pathSeparator" | "/" => Replacement::Text("/".to_owned()),
            "input" => self.translate_input(field, argument),
            "file" => self.variable_for(field, argument, &format!("the content of `{argument}`")),
            "command" | "config" => self.variable_for(field, argument, &format!("`${{{inner}}}`")),
            "env" if !inner.contains(":-") && !is_variable_name(argument) => {
                self.variable_for(field, argument, &format!("the variable `{argument}`"))
            }
            "env" => Replacement::Variable(argument.to_owned()),
            "secret" | "user" => Replacement::Escaped,
            _ => self.translate_plain(field, inner),
        }
    }

    /// Translates `${NAME}` and `${NAME:-default}`.
    fn translate_plain(&mut self, field: &str, inner: &str) -> Replacement {
        let name = inner.split_once(":-").map_or(inner, |(name, _)| name);
        if !is_variable_name(name) {
            return Replacement::Unchanged;
        }
        if !matches!(self.client(), Client::ClaudeCode | Client::Gemini | Client::Windsurf | Client::Qbit) {
            self.note(format!(
                "`{field}`: `${{{name}}}` is a placeholder to Toolrack; {} uses it unchanged",
                self.client()
            ));
        }
        Replacement::Variable(inner.to_owned())
    }

    fn insert_folder(&mut self, inner: &str, folder: &Path) -> Replacement {
        self.note(format!("`${{{inner}}}` is replaced by {}", folder.display()));
        Replacement::Text(folder.display().to_string())
    }

    /// Translates a placeholder for an input that VS Code asks the user for.
    fn translate_input(&mut self, field: &str, id: &str) -> Replacement {
        let input = self.origin.inputs.iter().find(|input| input.id == id);
        let description = match input.map(|input| input.description.trim()).filter(|text| !text.is_empty()) {
            Some(text) => format!(" ({})", clip(text, MAX_DESCRIPTION)),
            None => String::new(),
        };
        if input.is_some_and(|input| input.is_secret) {
            let name = if is_stored_secret_name(id) { id.to_owned() } else { variable_name(id) };
            self.note(format!(
                "`{field}`: `toolrack secret set {name}` stores what {} asks for{description}",
                self.client()
            ));
            return Replacement::Secret(name);
        }
        let name = variable_name(id);
        // A default with one of these characters would end the placeholder, or be a placeholder itself.
        let is_plain = |default: &&str| !default.is_empty() && !default.contains(['$', '{', '}']);
        let default = input.map(|input| input.default).filter(is_plain).filter(|_| !mask::is_secret_name(&name));
        let Some(default) = default else {
            self.note(format!("`{field}`: set the variable `{name}` to what {} asks for{description}", self.client()));
            return Replacement::Variable(name);
        };
        self.note(format!(
            "`{field}`: set the variable `{name}` for another value than the default of what {} asks for{description}",
            self.client()
        ));
        Replacement::Variable(format!("{name}:-{default}"))
    }

    /// Replaces a placeholder by a variable, because only the other program can find the value, and notes that the user
    /// has to set the variable. The name of the variable comes from `source`. The note describes the value as
    /// `description`.
    fn variable_for(&mut self, field: &str, source: &str, description: &str) -> Replacement {
        let stem = Path::new(source).file_stem().map_or_else(|| source.into(), |stem| stem.to_string_lossy());
        let name = variable_name(&stem);
        self.note(format!("`{field}`: set the variable `{name}` to {description}, which Toolrack does not look up"));
        Replacement::Variable(name)
    }

    /// Translates the `{` at the beginning of `text`, and the placeholder that it begins. Returns the number of bytes
    /// that it has translated.
    fn translate_curly(&mut self, field: &str, text: &str, translated_text: &mut String) -> usize {
        let Some((kind, argument)) = split_curly(text) else {
            translated_text.push('{');
            return 1;
        };
        let replacement = match kind {
            "env" if is_variable_name(argument) => Replacement::Variable(argument.to_owned()),
            "env" => self.variable_for(field, argument, &format!("the variable `{argument}`")),
            // `file`, the only other kind.
            _ => self.variable_for(field, argument, &format!("the content of `{argument}`")),
        };
        if let Replacement::Variable(name) = replacement {
            translated_text.push_str(&format!("${{{name}}}"));
        }
        kind.len() + argument.len() + "{:}".len()
    }
}

/// Returns the two parts of opencode's `{env:NAME}` or `{file:path}` at the beginning of `text`.
fn split_curly(text: &str) -> Option<(&str, &str)> {
    let inner = &text.strip_prefix('{')?[..text.find('}')? - 1];
    inner.split_once(':').filter(|(kind, argument)| matches!(*kind, "env" | "file") && !argument.is_empty())
}

/// Converts a name such as `perplexity-key` into the name of a variable: `PERPLEXITY_KEY`.
fn variable_name(source: &str) -> String {
    let mut name = String::with_capacity(source.len());
    for c in source.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_uppercase()),
            _ if !name.ends_with('_') && !name.is_empty() => name.push('_'),
            _ => {}
        }
    }
    let name = name.trim_end_matches('_');
    match name.chars().next() {
        None => "VALUE".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_of_a_variable_comes_from_any_words() {
        for (source, name) in [
            ("perplexity-key", "PERPLEXITY_KEY"),
            ("apiKey", "APIKEY"),
            ("  a..b  ", "A_B"),
            ("1password", "_1PASSWORD"),
            ("-_-", "VALUE"),
            ("", "VALUE"),
            ("é", "VALUE"),
            ("schlüssel", "SCHL_SSEL"),
        ] {
            assert_eq!(variable_name(source), name, "{source}");
        }
    }

    #[test]
    fn placeholders_of_opencode_are_found_only_in_their_own_form() {
        for (text, parts) in [
            ("{env:NAME}", Some(("env", "NAME"))),
            ("{file:~/.key} and more", Some(("file", "~/.key"))),
            ("{env:A:B}", Some(("env", "A:B"))),
            ("{env:}", None),
            ("{env}", None),
            ("{ENV:NAME}", None),
            ("{other:NAME}", None),
            ("{env:NAME", None),
            ("{}", None),
            ("{", None),
            ("env:NAME}", None),
            ("{{env:NAME}}", None),
        ] {
            assert_eq!(split_curly(text), parts, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_generated_name_is_always_a_valid_placeholder_name(source in "\\PC{0,40}") {
            prop_assert!(is_variable_name(&variable_name(&source)), "{source:?}");
        }

        #[test]
        fn the_search_for_a_placeholder_accepts_any_text(text in "[{}:a-zé$]{0,12}") {
            if let Some((kind, argument)) = split_curly(&text) {
                let written = format!("{{{kind}:{argument}}}");
                prop_assert!(text.starts_with(&written), "{text:?}");
            }
        }
    }
}
