//! Describes problems of a configuration, and where they are.

use std::{fmt, path::PathBuf};

use serde::Serialize;
use toolrack_host::text;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Everything works, but something is probably a mistake.
    Warning,
    /// An entry or a whole file is left out.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A problem of a file.
///
/// Its `Display` is for the user: first the place and the message, on the next line the line of the file with carets
/// below, then the next step. `{:#}` gives the first line alone. Neither contains configured values that could be
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the line, from 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The entry as it is named in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The field of the entry, as a path such as `env.TOKEN` or `args[2]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The message.
    pub message: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The line of the file, with its values hidden.
    #[serde(skip)]
    pub snippet: Option<Snippet>,
    /// Whether to report the problem only when the configuration is written or checked, and not each time it is read.
    #[serde(skip)]
    pub is_minor: bool,
}

/// A line of a file with a marked part, safe to print. Asterisks stand for the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The line; if it is long, only the text around the marked part.
    pub text: String,
    /// The start of the marked part, in terminal columns from 0.
    pub start: usize,
    /// The width of the marked part, in terminal columns; at least 1.
    pub width: usize,
}

impl Problem {
    pub(crate) fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            path: None,
            line: None,
            column: None,
            entry: None,
            field: None,
            message: message.into(),
            hint: None,
            snippet: None,
            is_minor: false,
        }
    }

    /// Creates an error: an entry or a file is left out because of the problem.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    pub(crate) fn in_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    pub(crate) fn in_entry(mut self, entry: impl Into<String>) -> Self {
        self.entry = Some(entry.into());
        self
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn minor(mut self) -> Self {
        self.is_minor = true;
        self
    }

    /// Returns whether an entry or a file was left out because of the problem.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the place of the problem as `file:line:column`, without the unknown parts. Empty for an entry without a
    /// file. Not safe to print, because a path can contain any characters.
    #[must_use]
    pub fn place(&self) -> String {
        let mut place = self.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        for number in [self.line, self.column].into_iter().flatten() {
            place += &format!(":{number}");
        }
        place
    }

    fn write_headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_some() {
            write!(f, "{}: ", text::for_line(&self.place()))?;
        }
        write!(f, "{}: ", self.severity)?;
        if let Some(entry) = &self.entry {
            write!(f, "`{}`: ", text::for_line(entry))?;
        }
        f.write_str(&text::for_line(&self.message))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_headline(f)?;
        if f.alternate() {
            return Ok(());
        }
        if let (Some(snippet), Some(line)) = (&self.snippet, self.line) {
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            let (indent, carets) = (" ".repeat(snippet.start), "^".repeat(snippet.width));
            write!(f, "\n  {number} | {}\n  {gutter} | {indent}{carets}", snippet.text)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", text::for_line(hint))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
