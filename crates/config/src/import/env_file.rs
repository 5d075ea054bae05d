//! Reads env files: files of environment variables, with `NAME=value` on each line.

use crate::placeholder::is_variable_name;

/// The variables of a file. If a name occurs on several lines, the last line counts.
#[derive(Default)]
pub(super) struct Variables {
    /// The names and values.
    pub(super) values: Vec<(String, String)>,
    /// The names of variables whose value begins with a quotation mark that is not closed on its line.
    pub(super) unclosed_names: Vec<String>,
}

/// Returns the variables of `text`.
///
/// Ignores comments, blank lines and the word `export`, and skips all other lines that set no variable. A value may be
/// in quotes; in double quotes, `\n` is a line break. A `$` has no special meaning.
pub(super) fn variables(text: &str) -> Variables {
    let mut last_values: Vec<(String, Option<String>)> = Vec::new();
    for (name, value) in text.lines().filter_map(variable) {
        match last_values.iter_mut().find(|(known_name, _)| *known_name == name) {
            Some((_, known_value)) => *known_value = value,
            None => last_values.push((name, value)),
        }
    }
    let mut variables = Variables::default();
    for (name, value) in last_values {
        match value {
            Some(value) => variables.values.push((name, value)),
            None => variables.unclosed_names.push(name),
        }
    }
    variables
}

/// Returns the name and the value on a line; no value if its quotation mark is not closed.
fn variable(line: &str) -> Option<(String, Option<String>)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    is_variable_name(name).then(|| (name.to_owned(), unquoted(value.trim())))
}

/// Returns the value without quotes and comment; `None` if a quotation mark is not closed.
fn unquoted(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('"') {
        return Some(before_closing_quote(rest)?.replace("\\n", "\n").replace("\\\"", "\""));
    }
    if let Some(rest) = value.strip_prefix('\'') {
        // A backslash has no special meaning in single quotes.
        return rest.split_once('\'').map(|(text, _)| text.to_owned());
    }
    Some(value.split(" #").next().unwrap_or_default().trim_end().to_owned())
}

/// Returns the part of `quoted_text` before the closing quote: the first double quote that no backslash escapes. The
/// text after it is a comment, which may have quotes, too.
fn before_closing_quote(quoted_text: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = quoted_text.find(|c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some(&quoted_text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_parsed_in_every_usual_form() {
        let text = "# mine\nA=1\r\nexport B = two words # why\n\nC='#x' # y\nD=\"a\\nb\"\nnot a variable\n1X=no\nA=2\nE=\nF=a#b\n";
        let read: Vec<_> = variables(text).values.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(read, ["A=2", "B=two words", "C=#x", "D=a\nb", "E=", "F=a#b"]);
    }

    #[test]
    fn a_value_ends_at_its_first_closing_quote_and_one_without_is_left_out() {
        let text = "A='abc' # don't commit\nB=\"x\" # a \"test\"\nC=\"a \\\"b\\\" c\" # \"\nD=\"a'b\"\nE='a\\'\n\
                    F=\"open\nG='open\nH=1\nH='open\nI='open\nI=1\n";
        let read = variables(text);
        let values: Vec<_> = read.values.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(values, ["A=abc", "B=x", "C=a \"b\" c", "D=a'b", "E=a\\", "I=1"]);
        assert_eq!(read.unclosed_names, ["F", "G", "H"]);
    }
}
