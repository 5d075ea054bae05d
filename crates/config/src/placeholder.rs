//! Parses placeholders such as `${NAME}`, and replaces them by values. [`Interpolate`](crate::Interpolate) describes
//! the grammar.

use std::collections::BTreeSet;

/// The maximum depth of nested defaults.
const MAX_DEPTH: usize = 8;

/// The maximum size of a text with its values filled in: 1 MiB. Systems accept less as one argument.
const MAX_BYTES: usize = 1024 * 1024;

/// The rule of [`is_stored_name`], for messages.
const NAME_RULE: &str = "has 1 to 64 letters, digits and `_.-`, and does not begin with `.` or `-`";

/// The meaning of `$NAME` without braces, which depends on the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BareName {
    /// A placeholder: in values of `env` and `headers`.
    Placeholder,
    /// Plain text: in all other fields, because an argument may be a script for a shell.
    Literal,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Literal text.
    Literal(&'a str),
    /// An environment variable.
    Variable { name: &'a str, default: Option<&'a str> },
    /// A stored secret.
    Secret(&'a str),
    /// A value that each user gives for themselves.
    UserValue(&'a str),
    /// A value that VS Code asks the user for.
    Input(&'a str),
}

/// The reason why a text cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("a `${{` has no closing `}}`")]
    Unterminated,
    #[error("the environment variable `{0}` is not set")]
    UnsetVariable(String),
    #[error("the environment variable `{0}` is not UTF-8 text")]
    NotUnicode(String),
    #[error("the secret `{0}` is not set")]
    MissingSecret(String),
    #[error("the secret `{name}` cannot be read: {why}")]
    UnreadableSecret { name: String, why: String },
    #[error("the user of the server has not given `{0}`")]
    MissingUserValue(String),
    #[error("the value that the user gave as `{name}` cannot be read: {why}")]
    UnreadableUserValue { name: String, why: String },
    #[error("`${{input:{0}}}` is a question that only VS Code asks")]
    Input(String),
    #[error("defaults of placeholders are nested too deep")]
    TooDeep,
    #[error("the text is longer than 1 MiB with its values filled in")]
    TooLong,
}

impl TemplateError {
    /// Returns the next step for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unterminated => "write `$$` for a plain dollar sign".to_owned(),
            Self::UnsetVariable(name) => {
                format!("set it, write `${{{name}:-default}}`, or write `$$` if a plain dollar sign is meant")
            }
            Self::NotUnicode(_) => "set it to UTF-8 text".to_owned(),
            Self::MissingSecret(name) if is_stored_name(name) => format!("set it: `toolrack secret set {name}`"),
            Self::MissingSecret(_) => format!("the name of a secret {NAME_RULE}"),
            Self::UnreadableSecret { name, .. } => format!("`toolrack secret set {name}` sets it again"),
            Self::MissingUserValue(name) if is_stored_name(name) => {
                format!("`toolrack secret set {name}`; a member of a team gives it on the dashboard")
            }
            Self::MissingUserValue(_) => format!("the name {NAME_RULE}"),
            Self::UnreadableUserValue { name, .. } => format!("give `{name}` anew"),
            Self::Input(_) => "use an environment variable: `${NAME}`".to_owned(),
            Self::TooDeep => "write the value out".to_owned(),
            Self::TooLong => "shorten the values".to_owned(),
        }
    }
}

/// Returns whether `name` can be the name of an environment variable here: letters, digits and `_`, no digit first.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name_length(name) == name.len() && !name.is_empty()
}

/// Returns whether `name` can be the name of a stored secret or of a user's value: 1 to 64 letters, digits and `_`,
/// `.`, `-`, the first one no dot or dash.
pub(crate) fn is_stored_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_allowed) && !name.starts_with(['-', '.'])
}

/// Returns the length of the variable name at the beginning of `text`.
pub(crate) fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Splits `text` into literal text and placeholders. A `${` without its `}` is an error.
pub(crate) fn pieces(text: &str, bare_name: BareName) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        if dollar > 0 {
            pieces.push(Piece::Literal(&rest[..dollar]));
        }
        let (piece, length) = piece(&rest[dollar..], bare_name)?;
        pieces.push(piece);
        rest = &rest[dollar + length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

/// Returns the piece that begins with the `$` at the beginning of `text`, and its length.
fn piece(text: &str, bare_name: BareName) -> Result<(Piece<'_>, usize), TemplateError> {
    let after_dollar = &text[1..];
    if after_dollar.starts_with('$') {
        return Ok((Piece::Literal(&text[..1]), 2));
    }
    if after_dollar.starts_with('{') {
        let length = closing_brace(text).ok_or(TemplateError::Unterminated)? + 1;
        let piece = braced_placeholder(&text[2..length - 1]).unwrap_or(Piece::Literal(&text[..length]));
        return Ok((piece, length));
    }
    if bare_name == BareName::Placeholder {
        // PowerShell writes `$env:NAME`.
        let prefix_length = if after_dollar.starts_with("env:") { "env:".len() } else { 0 };
        let name = &after_dollar[prefix_length..][..name_length(&after_dollar[prefix_length..])];
        if !name.is_empty() {
            let piece = Piece::Variable { name, default: None };
            return Ok((piece, 1 + prefix_length + name.len()));
        }
    }
    Ok((Piece::Literal(&text[..1]), 1))
}

/// Returns the index of the `}` that closes the `${` at the beginning of `text`. Skips the placeholders inside it.
pub(crate) fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            // As in shells, a `{` without `$` opens nothing: `${A:-{}}` ends at its first `}`.
            b'{' if index > 0 && bytes[index - 1] == b'$' => depth += 1,
            b'}' if depth == 1 => return Some(index),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the placeholder with the text `inner` between its braces; `None` if it is literal text.
fn braced_placeholder(inner: &str) -> Option<Piece<'_>> {
    if let Some(name) = inner.strip_prefix("secret:") {
        return Some(Piece::Secret(name));
    }
    if let Some(name) = inner.strip_prefix("user:") {
        return Some(Piece::UserValue(name));
    }
    if let Some(name) = inner.strip_prefix("input:") {
        return Some(Piece::Input(name));
    }
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    is_variable_name(name).then_some(Piece::Variable { name, default })
}

/// Returns the variable that opencode, another MCP client, would look up in `text`: the `NAME` of the first
/// `{env:NAME}` without a `$` before it.
pub(crate) fn opencode_variable(text: &str) -> Option<&str> {
    text.match_indices("{env:").find_map(|(start, prefix)| {
        let (name, _) = text[start + prefix.len()..].split_once('}')?;
        (!text[..start].ends_with('$') && is_variable_name(name)).then_some(name)
    })
}

/// Checks that `text` is well-formed, has no `${input:…}`, and does not nest defaults too deep. Does not look up
/// values.
pub(crate) fn check(text: &str) -> Result<(), TemplateError> {
    // A bare `$NAME` is well-formed in every field, so the choice of `BareName` makes no difference here.
    check_nested(text, 0)
}

/// As [`check`], for a text that is nested in `depth` defaults.
fn check_nested(text: &str, depth: usize) -> Result<(), TemplateError> {
    if depth > MAX_DEPTH {
        return Err(TemplateError::TooDeep);
    }
    for piece in pieces(text, BareName::Literal)? {
        match piece {
            Piece::Variable { default: Some(default), .. } => check_nested(default, depth + 1)?,
            Piece::Input(name) => return Err(TemplateError::Input(name.to_owned())),
            _ => {}
        }
    }
    Ok(())
}

/// Adds to `names` the names of the stored secrets that `text` may need, including those in defaults. A malformed text
/// adds none.
pub(crate) fn collect_secret_names(text: &str, names: &mut BTreeSet<String>) {
    // Most texts have no placeholder, and need no parsing.
    if text.contains("${secret:") {
        let secret_name_of = |piece| if let Piece::Secret(name) = piece { Some(name) } else { None };
        collect_names(text, secret_name_of, names, 0);
    }
}

/// Adds to `names` the names of the values that `text` may need from the user, including those in defaults. A malformed
/// text adds none.
pub(crate) fn collect_user_value_names(text: &str, names: &mut BTreeSet<String>) {
    if text.contains("${user:") {
        let value_name_of = |piece| if let Piece::UserValue(name) = piece { Some(name) } else { None };
        collect_names(text, value_name_of, names, 0);
    }
}

/// Adds to `names` the names that `name_of` returns for the pieces of `text`, which is nested in `depth` defaults.
fn collect_names<'t>(
    text: &'t str,
    name_of: impl Fn(Piece<'t>) -> Option<&'t str> + Copy,
    names: &mut BTreeSet<String>,
    depth: usize,
) {
    for piece in pieces(text, BareName::Literal).unwrap_or_default() {
        match piece {
            Piece::Variable { default: Some(default), .. } if depth < MAX_DEPTH => {
                collect_names(default, name_of, names, depth + 1);
            }
            piece => names.extend(name_of(piece).map(str::to_owned)),
        }
    }
}

/// A name. [`expand`] asks its caller for the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    /// An environment variable.
    Variable(&'a str),
    /// A stored secret.
    Secret(&'a str),
    /// A value that each user gives for themselves.
    UserValue(&'a str),
}

/// Returns `text` with every placeholder replaced by the result of `lookup`, which returns `None` for a name that is
/// not set. Does not expand placeholders in these results.
pub(crate) fn expand(
    text: &str,
    bare_name: BareName,
    lookup: &impl Fn(Reference<'_>) -> Result<Option<String>, TemplateError>,
) -> Result<String, TemplateError> {
    let mut expanded = String::with_capacity(text.len());
    expand_into(&mut expanded, text, bare_name, lookup, 0)?;
    Ok(expanded)
}

/// Appends the expansion of `text`, which is nested in `depth` defaults, to `expanded`.
fn expand_into(
    expanded: &mut String,
    text: &str,
    bare_name: BareName,
    lookup: &impl Fn(Reference<'_>) -> Result<Option<String>, TemplateError>,
    depth: usize,
) -> Result<(), TemplateError> {
    if depth > MAX_DEPTH {
        return Err(TemplateError::TooDeep);
    }
    for piece in pieces(text, bare_name)? {
        match piece {
            Piece::Literal(text) => expanded.push_str(text),
            Piece::Secret(name) => match lookup(Reference::Secret(name))? {
                Some(value) => expanded.push_str(&value),
                None => return Err(TemplateError::MissingSecret(name.to_owned())),
            },
            Piece::UserValue(name) => match lookup(Reference::UserValue(name))? {
                Some(value) => expanded.push_str(&value),
                None => return Err(TemplateError::MissingUserValue(name.to_owned())),
            },
            Piece::Input(name) => return Err(TemplateError::Input(name.to_owned())),
            Piece::Variable { name, default: None } => match lookup(Reference::Variable(name))? {
                Some(value) => expanded.push_str(&value),
                None => return Err(TemplateError::UnsetVariable(name.to_owned())),
            },
            Piece::Variable { name, default: Some(default) } => {
                match lookup(Reference::Variable(name))?.filter(|value| !value.is_empty()) {
                    Some(value) => expanded.push_str(&value),
                    None => expand_into(expanded, default, bare_name, lookup, depth + 1)?,
                }
            }
        }
        if expanded.len() > MAX_BYTES {
            return Err(TemplateError::TooLong);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str, bare_name: BareName) -> Result<String, TemplateError> {
        expand(text, bare_name, &|reference| {
            Ok(match reference {
                Reference::Variable("A") => Some("1".to_owned()),
                Reference::Variable("EMPTY") => Some(String::new()),
                Reference::Secret("s") => Some("${A}".to_owned()),
                Reference::UserValue("u") => Some("${secret:s}".to_owned()),
                _ => None,
            })
        })
    }

    #[test]
    fn every_form_of_the_grammar_expands() {
        for (text, value) in [
            ("plain", "plain"),
            ("${A}", "1"),
            ("${env:A}", "1"),
            ("x${A}y${A}", "x1y1"),
            ("${NO:-b}", "b"),
            ("${EMPTY:-b}", "b"),
            ("${EMPTY}", ""),
            ("${A:-b}", "1"),
            ("${env:NO:-b c}", "b c"),
            ("${NO:-${A}}", "1"),
            ("${NO:-${NO:-x}y}z", "xyz"),
            ("${NO:-}", ""),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("${}", "${}"),
            ("${A%x}", "${A%x}"),
            ("${A:0:1}", "${A:0:1}"),
            ("${1}", "${1}"),
            ("100$", "100$"),
            ("$ A", "$ A"),
            ("x${secret:s}y", "x${A}y"),
            ("${NO:-${secret:s}}", "${A}"),
            ("${A:-${secret:x}}", "1"),
            ("x${user:u}y", "x${secret:s}y"),
            ("${NO:-${user:u}}", "${secret:s}"),
        ] {
            for bare_name in [BareName::Placeholder, BareName::Literal] {
                assert_eq!(expanded(text, bare_name).as_deref(), Ok(value), "{text}");
            }
        }
    }

    #[test]
    fn bare_names_are_placeholders_only_in_some_fields() {
        assert_eq!(expanded("$A/$env:A.$5", BareName::Placeholder).as_deref(), Ok("1/1.$5"));
        assert_eq!(expanded("$A/$env:A", BareName::Literal).as_deref(), Ok("$A/$env:A"));
        assert_eq!(expanded("$NO", BareName::Placeholder), Err(TemplateError::UnsetVariable("NO".into())));
    }

    #[test]
    fn a_placeholder_that_cannot_be_resolved_is_an_error() {
        assert_eq!(expanded("${NO}", BareName::Literal), Err(TemplateError::UnsetVariable("NO".into())));
        assert_eq!(expanded("a ${A", BareName::Literal), Err(TemplateError::Unterminated));
        assert_eq!(expanded("${NO:-${A}", BareName::Literal), Err(TemplateError::Unterminated));
        assert_eq!(expanded("${secret:x}", BareName::Literal), Err(TemplateError::MissingSecret("x".into())));
        assert_eq!(expanded("${user:x}", BareName::Literal), Err(TemplateError::MissingUserValue("x".into())));
        assert_eq!(expanded("${input:x}", BareName::Literal), Err(TemplateError::Input("x".into())));
        let deep = "${NO:-".repeat(20) + &"}".repeat(20);
        assert_eq!(expanded(&deep, BareName::Literal), Err(TemplateError::TooDeep));
        assert_eq!(check(&deep), Err(TemplateError::TooDeep));
    }

    #[test]
    fn the_secrets_of_a_text_are_listed_without_expanding_it() {
        let mut found = BTreeSet::new();
        collect_secret_names("a ${secret:one}${NO:-${env:X:-${secret:two}}} $${secret:no} $secret:no", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["one", "two"]);
        let mut found = BTreeSet::new();
        collect_secret_names("${secret:one} ${", &mut found);
        assert!(found.is_empty());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r#"[${}A-C:\-env é]{0,60}"#) {
            let _ = check(&text);
            let _ = expanded(&text, BareName::Placeholder);
        }

        #[test]
        fn text_without_a_dollar_means_itself(text in "[^$]{0,60}") {
            prop_assert_eq!(expanded(&text, BareName::Placeholder), Ok(text));
        }

        #[test]
        fn doubled_dollars_survive_any_text(text in "\\PC{0,60}") {
            prop_assert_eq!(expanded(&text.replace('$', "$$"), BareName::Placeholder), Ok(text));
        }
    }

    #[test]
    fn defaults_nest_up_to_the_limit() {
        for (depth, fits) in [(1, true), (MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
            let text = "${NO:-".repeat(depth) + "x" + &"}".repeat(depth);
            assert_eq!(check(&text).is_ok(), fits, "{depth}");
            assert_eq!(expanded(&text, BareName::Literal).is_ok(), fits, "{depth}");
            // A variable that is set needs no default, however deep the default is.
            assert_eq!(expanded(&text.replacen("NO", "A", 1), BareName::Literal).as_deref(), Ok("1"), "{depth}");
        }
    }

    #[test]
    fn an_expansion_beyond_the_limit_is_an_error() {
        let large = |bytes: usize| expand("${A}${A}", BareName::Literal, &|_| Ok(Some("x".repeat(bytes))));
        assert_eq!(large(MAX_BYTES / 2).map(|text| text.len()), Ok(MAX_BYTES));
        assert_eq!(large(MAX_BYTES / 2 + 1), Err(TemplateError::TooLong));
    }

    #[test]
    fn names_of_variables_and_secrets_are_checked() {
        for name in ["A", "_", "a1", "A_B"] {
            assert!(is_variable_name(name), "{name}");
        }
        for name in ["", "1A", "A-B", "A B", "\u{c4}", "A=B"] {
            assert!(!is_variable_name(name), "{name}");
        }
        let longest = "x".repeat(64);
        for name in ["a", "1", "a.b-c_D", &longest] {
            assert!(is_stored_name(name), "{name}");
        }
        for name in ["", ".a", "-a", "a b", "a/b", "\u{e4}", &format!("{longest}x")] {
            assert!(!is_stored_name(name), "{name}");
        }
    }

    #[test]
    fn every_error_of_a_placeholder_says_what_to_do_next() {
        let name = || "X".to_owned();
        for (error, step) in [
            (TemplateError::Unterminated, "write `$$` for a plain dollar sign"),
            (TemplateError::UnsetVariable(name()), "`${X:-default}`"),
            (TemplateError::NotUnicode(name()), "UTF-8"),
            (TemplateError::MissingSecret(name()), "`toolrack secret set X`"),
            (TemplateError::MissingSecret("a b".into()), "the name of a secret has 1 to 64 letters"),
            (TemplateError::MissingSecret(".a".into()), "does not begin with `.`"),
            (TemplateError::UnreadableSecret { name: name(), why: "locked".into() }, "`toolrack secret set X`"),
            (TemplateError::MissingUserValue(name()), "`toolrack secret set X`"),
            (TemplateError::MissingUserValue("a b".into()), "the name has 1 to 64 letters"),
            (TemplateError::UnreadableUserValue { name: name(), why: "locked".into() }, "give `X` anew"),
            (TemplateError::Input(name()), "`${NAME}`"),
            (TemplateError::TooDeep, "write the value out"),
            (TemplateError::TooLong, "shorten the values"),
        ] {
            assert!(error.hint().contains(step), "{error}: {}", error.hint());
        }
    }

    #[test]
    fn opencode_s_form_of_a_variable_is_found_and_toolrack_s_form_is_not() {
        for (text, found) in [
            ("{env:A}", Some("A")),
            ("x {env:A} {env:B}", Some("A")),
            ("${env:A} {env:B}", Some("B")),
            ("${env:A}", None),
            ("{env:}", None),
            ("{env:A-B} {env:C}", Some("C")),
            ("{env:A", None),
            ("", None),
        ] {
            assert_eq!(opencode_variable(text), found, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_checked_text_fails_only_for_unset_variables(text in r#"([$]\{(A|NO|env:A|secret:x|user:u|input:y)(:-)?|\}|[$]{1,2}|[a-z {]){0,12}"#) {
            let looked_up = std::cell::RefCell::new(Vec::new());
            let result = expand(&text, BareName::Literal, &|reference| {
                if let Reference::Secret(name) | Reference::UserValue(name) = reference {
                    looked_up.borrow_mut().push(name.to_owned());
                    return Ok(Some("v".to_owned()));
                }
                Ok(None)
            });
            if check(&text).is_ok() {
                prop_assert!(matches!(&result, Ok(_) | Err(TemplateError::UnsetVariable(_))), "{:?}", result);
            }
            // The expansion asks for no secret that was not listed before.
            let mut known = BTreeSet::new();
            collect_secret_names(&text, &mut known);
            collect_user_value_names(&text, &mut known);
            if result.is_ok() {
                prop_assert!(looked_up.borrow().iter().all(|name| known.contains(name)), "{:?} {:?}", looked_up, known);
            }
        }
    }
}
