//! Reads files of variables as programs that start servers do: `NAME=value` on each line.

use crate::placeholder::is_variable_name;

/// Returns the variables of `text`, each with the value of its last line.
///
/// Comments, blank lines and the word `export` are ignored; a value may be in quotes, and in double quotes `\n` is a
/// line break. Any other line is skipped. A `$` has no special meaning.
pub(super) fn variables(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in text.lines().filter_map(variable) {
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => found.push((name, value)),
        }
    }
    found
}

fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    is_variable_name(name).then(|| (name.to_owned(), unquoted(value.trim())))
}

fn unquoted(value: &str) -> String {
    let inside = |quote: char| {
        let rest = value.strip_prefix(quote)?;
        // Only a comment can follow the quotes.
        rest.rfind(quote).map(|end| &rest[..end])
    };
    if let Some(text) = inside('"') {
        return text.replace("\\n", "\n").replace("\\\"", "\"");
    }
    if let Some(text) = inside('\'') {
        return text.to_owned();
    }
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_parsed_in_every_usual_form() {
        let text = "# mine\nA=1\r\nexport B = two words # why\n\nC='#x' # y\nD=\"a\\nb\"\nnot a variable\n1X=no\nA=2\nE=\nF=a#b\n";
        let read: Vec<_> = variables(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(read, ["A=2", "B=two words", "C=#x", "D=a\nb", "E=", "F=a#b"]);
    }
}
